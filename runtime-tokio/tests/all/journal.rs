//! A cache in a journal, on paused time: a start without an API server, with one that was down for a day, and with one
//! that was restored to an older state.

use core::time::Duration;
use std::time::SystemTime;

use informer_core::{Form, RawObject, transport::FailureKind};
use informer_mock::{FakeServer, Fault, MockTransport, TokioClock, json};
use informer_tokio::decode::{Decode, Decoder, Prune};
use informer_tokio::informer::Builder;
use informer_tokio::journal::Journal;
use informer_tokio::{Informer, Json, Meta, Raw, Subscription};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::support::{Known, PODS, Reports, Server, arrived, held, named, numbered, server, truth};

/// A server, and a folder for a journal.
struct Place {
    mock: Server,
    folder: TempDir,
    reports: Reports,
}

/// A running informer.
struct Running<F: Form> {
    pods: Informer<F>,
    task: JoinHandle<()>,
    events: Subscription<F>,
}

impl Place {
    fn new(count: u64) -> Self {
        let mock = server();
        for name in numbered(count) {
            mock.create("pods", pod(&name, 0)).unwrap();
        }
        Self {
            mock,
            folder: tempfile::tempdir().unwrap(),
            reports: Reports::default(),
        }
    }

    fn journal(&self) -> Journal {
        Journal::file(self.folder.path().join("pods")).cluster("here")
    }

    fn builder<F: Form>(&self) -> Builder<MockTransport<FakeServer, TokioClock>, F>
    where
        F::Decoder: Decode<Value = F::Stored> + Default,
    {
        self.builder_with(F::Decoder::default())
    }

    fn builder_with<F: Form, D: Decode<Value = F::Stored>>(
        &self,
        decode: D,
    ) -> Builder<MockTransport<FakeServer, TokioClock>, F, D> {
        let builder = Informer::builder_with(self.mock.transport(), PODS, decode);
        self.reports.of(builder.seed(1).journal(self.journal()))
    }

    fn start(&self) -> Running<Raw> {
        run(self.builder::<Raw>())
    }

    /// Runs an informer until it is synced and all notifications were delivered, and stops it.
    async fn fill(&self) {
        let running = self.start();
        running.pods.synced().await.unwrap();
        running.stop().await;
    }

    fn truth(&self) -> Known {
        truth(&self.mock)
    }

    fn version(&self) -> u64 {
        self.mock.with(|server| server.version())
    }

    fn reports(&self) -> Vec<&'static str> {
        self.reports.classes()
    }

    fn journal_reports(&self) -> Vec<&'static str> {
        let mut reports = self.reports();
        reports.retain(|class| class.starts_with("journal"));
        reports
    }

    /// Makes the server unreachable.
    fn away(&self) {
        self.mock.with(|server| {
            server.cut_watches();
            server.inject(Fault::refuse().always());
        });
    }

    fn back(&self) {
        self.mock.with(FakeServer::clear_faults);
    }
}

fn run<F, D>(builder: Builder<MockTransport<FakeServer, TokioClock>, F, D>) -> Running<F>
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let (pods, driver) = builder.build();
    let events = pods.subscribe();
    Running {
        pods,
        task: tokio::spawn(driver.run()),
        events,
    }
}

impl<F: Form> Running<F> {
    fn held(&self) -> Known {
        held(&self.pods)
    }

    /// Returns all notifications so far.
    async fn notified(&mut self) -> Vec<String> {
        let events = arrived(&mut self.events).await;
        events.iter().map(named).collect()
    }

    async fn stop(self) {
        self.pods.stop();
        self.task.await.unwrap();
    }
}

fn pod(name: &str, round: u64) -> Value {
    json!({
        "metadata": {
            "name": name,
            "namespace": "prod",
            "labels": { "app": name },
            // It is pruned as noise.
            "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        },
        "spec": { "round": round },
    })
}

#[tokio::test(start_paused = true)]
async fn it_is_served_without_a_server() {
    let place = Place::new(3);
    let before = SystemTime::now() - Duration::from_millis(1);
    place.fill().await;
    let after = SystemTime::now();
    let (truth, version) = (place.truth(), place.version());
    place.away();
    let mark = place.mock.log().mark();

    let mut running = place.start();
    running.pods.served().await.unwrap();
    assert_eq!(running.held(), truth);
    assert_eq!(running.notified().await, ["++p0", "++p1", "++p2"]);
    let since = running.pods.stale_since().unwrap();
    assert!(before <= since && since <= after, "{since:?}");
    assert_eq!(running.pods.health().stale_since, Some(since));
    assert!(!running.pods.is_synced());
    assert_eq!(running.pods.resource_version(), version.to_string());

    // The server returns after a few minutes, and all changes since are notified, once.
    sleep(Duration::from_secs(300)).await;
    assert!(running.pods.stale_since().is_some());
    place.mock.put("pods", pod("p1", 1)).unwrap();
    place.mock.delete("pods", "prod", "p2").unwrap();
    place.back();
    running.pods.synced().await.unwrap();
    assert_eq!(running.pods.stale_since(), None);
    assert_eq!(running.notified().await, ["synced", "~p1", "-p2"]);
    assert_eq!(running.held(), place.truth());
    let log = place.mock.log();
    log.assert_no_list_since(mark);
    let wanted = format!("WATCH rv={version} bookmarks");
    assert!(log.since(mark).all(|request| request.compact() == wanted));
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_enough_to_be_no_longer_stale() {
    let place = Place::new(2);
    place.fill().await;
    let mark = place.mock.log().mark();
    let mut running = place.start();
    running.pods.served().await.unwrap();
    assert!(running.pods.stale_since().is_some());
    running.pods.synced().await.unwrap();
    assert_eq!(running.pods.stale_since(), None);
    assert_eq!(running.notified().await, ["++p0", "++p1", "synced"]);
    place.mock.log().assert_no_list_since(mark);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_for_a_day_is_listed_and_only_differences_are_notified() {
    let place = Place::new(4);
    place.fill().await;
    let version = place.version();
    place.away();
    let mut running = place.start();
    running.pods.served().await.unwrap();
    assert_eq!(running.notified().await.len(), 4);
    sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(running.held().len(), 4, "it is served all the while");
    place.mock.put("pods", pod("p1", 1)).unwrap();
    place.mock.delete("pods", "prod", "p2").unwrap();
    place.mock.create("pods", pod("new", 1)).unwrap();
    place.mock.with(FakeServer::compact_all);
    let mark = place.mock.log().mark();
    place.back();
    running.pods.synced().await.unwrap();
    let mut notified = running.notified().await;
    notified.sort();
    assert_eq!(notified, ["+new", "-?p2", "synced", "~p1"]);
    assert_eq!(running.held(), place.truth());
    let log = place.mock.log();
    log.assert_requests_since(
        mark,
        &[
            &format!("WATCH rv={version} bookmarks"),
            &format!("STREAM rv={version} match=NotOlderThan bookmarks"),
        ],
    );
    // The state of the list is in the journal.
    let truth = place.truth();
    running.stop().await;
    place.away();
    let running = place.start();
    running.pods.served().await.unwrap();
    assert_eq!(running.held(), truth);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_older_is_believed() {
    let place = Place::new(3);
    let backup = place.version();
    place.mock.create("pods", pod("late", 0)).unwrap();
    place.mock.put("pods", pod("p1", 1)).unwrap();
    place.fill().await;
    place.mock.with(|server| server.restore(backup));
    let mut running = place.start();
    running.pods.served().await.unwrap();
    assert_eq!(
        running.notified().await,
        ["++late", "++p0", "++p1", "++p2"].map(str::to_owned)
    );
    running.pods.synced().await.unwrap();
    let mut notified = running.notified().await;
    notified.sort();
    assert_eq!(notified, ["-?late", "synced", "~p1"]);
    assert_eq!(running.held(), place.truth());
    assert!(place.reports().contains(&"version-went-back"));
    // And the watch resumes at the older version.
    running.stop().await;
    let mark = place.mock.log().mark();
    let running = place.start();
    running.pods.synced().await.unwrap();
    place.mock.log().assert_no_list_since(mark);
}

#[tokio::test(start_paused = true)]
async fn no_network_at_boot_is_no_reason_to_list() {
    let place = Place::new(2);
    place.fill().await;
    place.mock.with(|server| {
        for kind in [
            FailureKind::Dns,
            FailureKind::Tls,
            FailureKind::Other,
            FailureKind::TimedOut,
        ] {
            server.inject(Fault::fail(kind));
        }
        server.inject(Fault::status(503, "the upstream is away"));
    });
    let mark = place.mock.log().mark();
    let running = place.start();
    running.pods.synced().await.unwrap();
    place.mock.log().assert_no_list_since(mark);
}

#[tokio::test(start_paused = true)]
async fn another_cache_is_refused_and_reported() {
    let place = Place::new(2);
    place.fill().await;
    let refuses = async |builder: Builder<_, Raw>| {
        place.reports();
        let mut running = run(builder);
        running.pods.synced().await.unwrap();
        assert_eq!(running.notified().await.last().unwrap(), "synced");
        assert_eq!(place.reports(), ["journal-refused"]);
        running.task.abort();
        let _ = running.task.await;
    };
    refuses(place.builder::<Raw>().labels("app=p1")).await;
    place.fill().await;
    refuses(place.builder::<Raw>().namespace("prod")).await;
    place.fill().await;
    refuses(
        place
            .builder::<Raw>()
            .journal(place.journal().cluster("there")),
    )
    .await;
    place.fill().await;
    is_refused::<Meta, _>(&place, Decoder::<Meta>::new()).await;
    // Neither what is left out of the objects nor their format may differ.
    place.fill().await;
    is_refused::<Raw, _>(&place, Decoder::<Raw>::new().prune(Prune::NOISE)).await;
    #[cfg(feature = "zstd")]
    {
        use informer_tokio::{Packed, decode::Packer};
        let packer = || Packer::<Raw>::new();
        is_refused::<Packed<Raw>, _>(&place, packer()).await;
        is_refused::<Packed<Raw>, _>(&place, packer().prune(Prune::NOISE)).await;
        is_refused::<Packed<Raw>, _>(&place, packer()).await;
        is_refused::<Packed<Raw>, _>(&place, packer().protobuf()).await;
    }
}

/// Runs an informer whose decoder does not fit the journal, which it then fills.
async fn is_refused<F, D>(place: &Place, decode: D)
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    place.reports();
    let running = run(place.builder_with::<F, _>(decode));
    running.pods.synced().await.unwrap();
    assert_eq!(place.reports(), ["journal-refused"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_cannot_be_had_is_reported_and_done_without() {
    let place = Place::new(2);
    let nowhere = Journal::file(place.folder.path().join("no/such/folder"));
    let running = run(place.builder::<Raw>().journal(nowhere));
    running.pods.synced().await.unwrap();
    assert_eq!(place.reports(), ["journal"]);

    let first = place.start();
    first.pods.synced().await.unwrap();
    let second = place.start();
    second.pods.synced().await.unwrap();
    assert_eq!(place.reports(), ["journal"], "two cannot have the same");
}

/// The restored objects equal the decoded ones.
async fn is_restored<F, D>(decode: impl Fn() -> D, show: fn(&F::Stored) -> String)
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let place = Place::new(20);
    let shown = |running: &Running<F>| -> Vec<String> {
        let entries = running.pods.lister().list();
        let mut shown: Vec<String> = entries
            .iter()
            .map(|entry| format!("{entry} {}", show(entry)))
            .collect();
        shown.sort();
        shown
    };
    let running = run(place.builder_with::<F, _>(decode()));
    running.pods.synced().await.unwrap();
    let before = shown(&running);
    assert_eq!(before.len(), 20);
    running.stop().await;
    place.away();
    let running = run(place.builder_with::<F, _>(decode()));
    running.pods.served().await.unwrap();
    assert_eq!(shown(&running), before);
    let apps = running
        .pods
        .lister()
        .select(&"app in (p3,p4)".parse().unwrap());
    assert_eq!(apps.len(), 2, "labels are there as well");
}

#[tokio::test(start_paused = true)]
async fn every_decoder_finds_again_what_it_kept() {
    is_restored::<Raw, _>(Decoder::<Raw>::new, |raw| {
        String::from_utf8_lossy(raw.bytes()).into_owned()
    })
    .await;
    is_restored::<Meta, _>(Decoder::<Meta>::new, |meta| format!("{meta:?}")).await;
    is_restored::<Value, _>(Decoder::<Json<Value>>::new, |value| value.to_string()).await;
    is_restored::<Value, _>(
        || Decoder::<Json<Value>>::new().prune(Prune::NOISE),
        |value| value.to_string(),
    )
    .await;
    #[cfg(feature = "zstd")]
    is_restored::<informer_tokio::Packed<Raw>, _>(
        || informer_tokio::decode::Packer::new().prune(Prune::NOISE),
        |packed| String::from_utf8_lossy(packed.unpack().unwrap().bytes()).into_owned(),
    )
    .await;
    #[cfg(feature = "zstd")]
    is_restored::<informer_tokio::Packed<Raw>, _>(
        || informer_tokio::decode::Packer::new().protobuf(),
        |packed| format!("{:?}", packed.unpack().unwrap().bytes()),
    )
    .await;
    #[cfg(feature = "zstd")]
    is_restored::<informer_tokio::Packed<Value>, _>(
        informer_tokio::decode::Packer::new,
        |packed| packed.get().unwrap().to_string(),
    )
    .await;
}

/// Large data is decoded by several threads, and applied in turns.
#[tokio::test(start_paused = true)]
async fn a_cache_restored_by_several_threads_is_stale_until_synced() {
    let place = Place::new(0);
    for number in 0..600 {
        let mut pod = pod(&format!("p{number}"), 0);
        pod["spec"]["pad"] = "x".repeat(2000).into();
        place.mock.create("pods", pod).unwrap();
    }
    let start = || run(place.builder::<Value>().decoders(2));
    let running = start();
    running.pods.synced().await.unwrap();
    running.stop().await;
    place.away();
    let running = start();
    running.pods.served().await.unwrap();
    assert_eq!(running.held(), place.truth());
    assert!(running.pods.stale_since().is_some());
    place.back();
    running.pods.synced().await.unwrap();
    assert_eq!(running.pods.stale_since(), None);
}

struct Picked;

impl Form for Picked {
    type Stored = Self;
    type Decoder = ();
}

/// Rejects one object, in all states but the first.
fn picky(raw: &RawObject<'_>) -> Result<Picked, String> {
    let value: Value = serde_json::from_slice(raw.json()).map_err(|error| error.to_string())?;
    match value["spec"]["round"].as_u64() {
        Some(0) => Ok(Picked),
        _ => Err("there is nothing but round 0".to_owned()),
    }
}

#[tokio::test(start_paused = true)]
async fn an_unusable_object_is_stale_after_a_restart_too() {
    let place = Place::new(3);
    let running = run(place.builder_with::<Picked, _>(picky));
    running.pods.synced().await.unwrap();
    place.mock.put("pods", pod("p1", 1)).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(running.pods.health().stale, ["prod/p1"]);
    running.stop().await;
    place.away();
    let running = run(place.builder_with::<Picked, _>(picky));
    running.pods.served().await.unwrap();
    let health = running.pods.health();
    assert_eq!(
        (health.objects, health.stale),
        (3, vec!["prod/p1".to_owned()])
    );
    assert_eq!(health.resource_version, place.version().to_string());
}

#[tokio::test(start_paused = true)]
async fn an_unusable_object_is_listed_at_the_next_start() {
    let place = Place::new(3);
    let running = run(place.builder_with::<Picked, _>(picky));
    running.pods.synced().await.unwrap();
    place.mock.put("pods", pod("p1", 1)).unwrap();
    place.mock.create("pods", pod("new", 1)).unwrap();
    sleep(Duration::from_secs(1)).await;
    running.stop().await;
    let any = |_: &RawObject<'_>| Ok::<_, String>(Picked);
    let running = run(place.builder_with::<Picked, _>(any));
    running.pods.synced().await.unwrap();
    let health = running.pods.health();
    assert_eq!((health.objects, health.stale), (4, Vec::new()));
    assert_eq!(health.lists, 1, "the journal lacks what was rejected");
    running.stop().await;
    let running = run(place.builder_with::<Picked, _>(any));
    running.pods.synced().await.unwrap();
    let health = running.pods.health();
    assert_eq!(
        (health.objects, health.lists),
        (4, 0),
        "nothing is missing now"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_of_any_length_is_cached_and_listed_at_each_start() {
    let place = Place::new(1);
    let name = "a".repeat(70_000);
    place.mock.create("pods", pod(&name, 0)).unwrap();
    for start in 0..3 {
        let running = place.start();
        running.pods.synced().await.unwrap();
        assert_eq!(running.held(), place.truth());
        let health = running.pods.health();
        assert_eq!(
            (health.objects, health.lists, health.incomplete),
            (2 + start, 1, false)
        );
        place
            .mock
            .create("pods", pod(&format!("after{start}"), 0))
            .unwrap();
        place.mock.with(|server| {
            server.compact_all();
            server.cut_watches();
        });
        sleep(Duration::from_secs(9)).await;
        assert_eq!(
            running.pods.health().lists,
            2,
            "a list of what the journal has already"
        );
        running.stop().await;
    }
    assert_eq!(place.journal_reports(), [""; 0]);
    place.mock.delete("pods", "prod", &name).unwrap();
    place.fill().await;
    let running = place.start();
    running.pods.synced().await.unwrap();
    assert_eq!(
        (running.held(), running.pods.health().lists),
        (place.truth(), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_dropped_in_the_middle_of_a_list_leaves_what_was_before() {
    let place = Place::new(30);
    place.fill().await;
    let truth = place.truth();
    for number in 0..30 {
        place
            .mock
            .put("pods", pod(&format!("p{number}"), 1))
            .unwrap();
    }
    place.mock.with(|server| {
        server.compact_all();
        server.inject(
            Fault::nothing()
                .cut_after_events(12)
                .silently()
                .on(informer_mock::Verb::Stream),
        );
    });
    let running = place.start();
    running.pods.served().await.unwrap();
    sleep(Duration::from_secs(10)).await;
    let held = running.held();
    assert_ne!(held, truth, "some of the list is there");
    assert_ne!(held, place.truth());
    running.task.abort();
    let _ = running.task.await;
    place.away();
    let running = place.start();
    running.pods.served().await.unwrap();
    assert_eq!(running.held(), truth);
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_a_journal_of_its_own() {
    let place = Place::new(2);
    let other = json!({ "metadata": { "name": "o", "namespace": "edge" } });
    place.mock.create("pods", other).unwrap();
    let start_with = |namespaces: &[&str]| {
        let namespaces = namespaces.iter().copied();
        run(place.builder::<Raw>().namespaces(namespaces))
    };
    let start = || start_with(&["prod", "edge"]);
    let running = start();
    running.pods.synced().await.unwrap();
    // The clock of the machine goes on.
    let mut later = SystemTime::now();
    let between = later + Duration::from_millis(2);
    while later <= between + Duration::from_millis(2) {
        later = SystemTime::now();
    }
    let late = json!({ "metadata": { "name": "late", "namespace": "edge" } });
    place.mock.create("pods", late).unwrap();
    sleep(Duration::from_millis(10)).await;
    running.stop().await;
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 4);
    let truth = place.truth();
    place.away();
    let running = start_with(&["prod", "edge", "new"]);
    let served = running.pods.served();
    let served = tokio::time::timeout(Duration::from_secs(60), served).await;
    assert!(served.is_err(), "nothing is known of one of them");
    running.stop().await;
    let mut running = start();
    running.pods.served().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let since = running.pods.stale_since().unwrap();
    assert!(since < between, "that of the earlier one");
    assert_eq!(running.held(), truth);
    assert_eq!(running.notified().await.len(), 4);
    place.back();
    running.pods.synced().await.unwrap();
    assert_eq!(running.pods.stale_since(), None);
}

#[tokio::test(start_paused = true)]
async fn a_file_takes_no_more_than_twice_what_it_holds() {
    let place = Place::new(2);
    let running = place.start();
    running.pods.synced().await.unwrap();
    for round in 0..2000 {
        place.mock.put("pods", pod("p1", round)).unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    running.stop().await;
    let files = std::fs::read_dir(place.folder.path()).unwrap();
    let size: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(size < 80 << 10, "{size}");
    place.away();
    let running = place.start();
    running.pods.served().await.unwrap();
    assert_eq!(running.held(), place.truth());
}

/// The file's last version is removed, so records that it superseded count again. Then nothing is valid.
#[tokio::test(start_paused = true)]
async fn a_damaged_record_is_not_served_but_the_state_before_it_is() {
    for decoders in [0, 2] {
        let place = Place::new(3);
        place.fill().await;
        let before = place.truth();
        let file = place.folder.path().join("pods.0");
        let first = std::fs::read(&file).unwrap().len();
        let mut running = run(place.builder::<Raw>().decoders(decoders));
        running.pods.synced().await.unwrap();
        place.mock.update("pods", pod("p1", 1)).unwrap();
        place.mock.create("pods", pod("p7", 0)).unwrap();
        place.mock.delete("pods", "prod", "p2").unwrap();
        sleep(Duration::from_secs(1)).await;
        running.notified().await;
        running.stop().await;
        place.away();

        let whole = std::fs::read(&file).unwrap();
        for (at, expected) in [
            (whole.len() - 1, &before),
            (first + 20, &before),
            (100, &Known::new()),
        ] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            let running = run(place.builder::<Raw>().decoders(decoders));
            sleep(Duration::from_secs(1)).await;
            assert_eq!(&running.held(), expected, "byte {at}");
            assert_eq!(running.pods.stale_since().is_some(), !expected.is_empty());
            running.stop().await;
        }
        place.back();
        let running = place.start();
        running.pods.synced().await.unwrap();
        assert_eq!(running.held(), place.truth());
    }
}

/// All damage to the files is reported with its size, and only states that the server had are served.
#[tokio::test(start_paused = true)]
async fn each_start_that_drops_records_reports_it() {
    const KB_100: usize = 100 << 10;
    type Damage = fn(&mut Vec<u8>);
    let lost: &[&str] = &["journal-lost"];
    let cases: [(&str, Damage, &[&str]); 8] = [
        ("nothing", |_| (), &[]),
        ("empty", Vec::clear, &[]),
        ("overwritten", |file| file[..KB_100].fill(0xa5), lost),
        (
            "overwritten in the middle",
            |file| file[KB_100..2 * KB_100].fill(0),
            lost,
        ),
        (
            "cut in the middle",
            |file| file.truncate(file.len() / 2),
            lost,
        ),
        ("cut by a byte", |file| file.truncate(file.len() - 1), lost),
        ("garbage", |file| file.fill(0xa5), lost),
        ("another format", |file| file[15] = 9, lost),
    ];
    let place = Place::new(3);
    for number in 0..300 {
        let mut pod = pod(&format!("large{number}"), 0);
        pod["spec"]["pad"] = "x".repeat(1000).into();
        place.mock.create("pods", pod).unwrap();
    }
    place.fill().await;
    let file = place.folder.path().join("pods.0");
    let whole = std::fs::read(&file).unwrap();
    assert!(whole.len() > 3 * KB_100);
    for (what, damage, classes) in cases {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        std::fs::write(&file, bytes).unwrap();
        place.reports();
        place.away();
        let running = place.start();
        sleep(Duration::from_secs(1)).await;
        // There is one version in the file, at its end.
        let held = running.held();
        assert!(held.is_empty() || what == "nothing", "{what}");
        assert_eq!(running.pods.stale_since().is_some(), what == "nothing");
        assert_eq!(place.journal_reports(), classes, "{what}");
        running.stop().await;
    }
}

/// The folder is created too late, and the journal is complete after one list.
#[tokio::test(start_paused = true)]
async fn a_journal_that_could_not_be_opened_is_filled_by_one_list() {
    let place = Place::new(3);
    let folder = place.folder.path().join("later");
    let builder = || {
        let journal = Journal::file(folder.join("pods")).cluster("here");
        place.builder::<Raw>().journal(journal)
    };
    let running = run(builder());
    running.pods.synced().await.unwrap();
    let mark = place.mock.log().mark();
    sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(place.journal_reports(), ["journal"]);
    place.mock.log().assert_no_list_since(mark);
    std::fs::create_dir(&folder).unwrap();
    sleep(Duration::from_secs(600)).await;
    assert_eq!(place.journal_reports(), ["journal-recovered"]);
    let lists = place.mock.with(|server| {
        let is_list = |verb| {
            matches!(
                verb,
                informer_mock::Verb::List | informer_mock::Verb::Stream
            )
        };
        server
            .log()
            .since(mark)
            .filter(|request| is_list(request.verb))
            .count()
    });
    assert_eq!(lists, 1);
    running.stop().await;
    place.away();
    let running = run(builder());
    running.pods.served().await.unwrap();
    assert_eq!(running.held(), place.truth());
}

/// A disk that stays full is reported once and causes no list. The data written before is still there.
#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_is_reported_and_loses_nothing() {
    // A journal locks its file, and another process that runs this test has the same one.
    let turn = std::env::temp_dir().join("informer-dev-full.lock");
    let turn = std::fs::File::create(turn).unwrap();
    turn.lock().unwrap();
    let place = Place::new(3);
    // Appended records have room, and a compacted journal has none.
    let second = place.folder.path().join("pods.1");
    std::os::unix::fs::symlink("/dev/full", &second).unwrap();
    let mut running = place.start();
    running.pods.synced().await.unwrap();
    running.notified().await;
    let pad = "x".repeat(2000);
    let mut expected = Vec::new();
    for round in 1..100 {
        let mut pod = pod("p1", round);
        pod["spec"]["pad"] = pad.as_str().into();
        place.mock.update("pods", pod).unwrap();
        sleep(Duration::from_millis(100)).await;
        expected.push("~p1");
    }
    assert_eq!(running.notified().await, expected);
    assert_eq!(running.held(), place.truth());
    assert_eq!(place.reports(), ["journal"]);
    let mark = place.mock.log().mark();
    sleep(Duration::from_secs(24 * 3600)).await;
    place.mock.log().assert_no_list_since(mark);
    assert_eq!(place.journal_reports(), [""; 0]);
    running.stop().await;

    place.away();
    let running = place.start();
    running.pods.served().await.unwrap();
    let (held, truth) = (running.held(), place.truth());
    assert!(held.keys().eq(truth.keys()) && held != truth, "{held:?}");
    place.back();
    running.pods.synced().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(running.held(), truth);
    running.stop().await;

    // There is room again.
    std::fs::remove_file(&second).unwrap();
    place.reports();
    place.fill().await;
    assert_eq!(place.reports(), [""; 0]);
    place.away();
    let running = place.start();
    running.pods.served().await.unwrap();
    assert_eq!(running.held(), truth);
}
