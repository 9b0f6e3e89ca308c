//! A relist of 30,000 objects needs little more memory than the cache itself: there is no second copy of all
//! objects.
//!
//! The server is a separate process, so that only the informer's memory is counted.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_core::Form;
use informer_hyper::HyperTransport;
use informer_tests::demo::DemoServer;
use informer_tests::memory::Counting;
use informer_tests::say;
use informer_tests::support::{PATIENCE, next, shown};
use informer_tokio::decode::Decode;
use informer_tokio::{Event, Informer, Meta, Packed, Raw, Resource};
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::timeout;

#[global_allocator]
static MEMORY: Counting = Counting::new();

const PODS: usize = 30_000;
/// The maximum peak of a relist, relative to the memory in use before it.
const BOUND: f64 = 1.1;
/// One Pod in this many changes before the relist. A tenth of these is deleted and recreated.
const CHANGED: usize = 4;

/// The peak of a relist for one form, relative to the memory in use before it.
struct Needed {
    held: usize,
    /// Without changes.
    unchanged: f64,
    /// With one Pod in [`CHANGED`] changed, and a subscription being read.
    changed: f64,
}

async fn measure<F>(server: &mut DemoServer) -> Needed
where
    F: Form<Stored: Send + Sync + 'static>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    let pods = Resource::parse("pods").expect("a resource");
    let transport = HyperTransport::builder(server.url())
        .build()
        .expect("a URL");
    let (heard, mut version) = watch::channel(String::new());
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    let mut backoff = informer_core::time::BackoffConfig::default();
    // Waiting would show nothing.
    backoff.initial = Duration::from_millis(1);

    let empty = MEMORY.now();
    let (informer, driver) = Informer::<F>::builder_for(&transport, pods)
        .backoff(backoff)
        .on_version(move |version| {
            heard.send_replace(version.to_owned());
        })
        .on_report(move |report| {
            let mut reported = reported.lock().expect("nobody panics with it");
            reported.push(report.class());
        })
        .build();
    let driver = tokio::spawn(driver.run());
    let reach = async |version: &mut watch::Receiver<String>, wanted: &str| {
        let reached = timeout(PATIENCE, version.wait_for(|version| version == wanted)).await;
        let reached = reached.is_ok_and(|reached| reached.is_ok());
        assert!(
            reached,
            "version {wanted} is not reached: {:?}",
            informer.health()
        );
    };
    let part = |peak: usize, held: usize| (peak - empty) as f64 / (held - empty) as f64;

    timeout(PATIENCE, informer.synced())
        .await
        .expect("in time")
        .expect("it runs");
    assert_eq!(informer.health().objects, PODS);
    let held = MEMORY.reset_peak();
    let (wanted, count) = server.relist(0).await;
    assert_eq!(count, PODS);
    reach(&mut version, &wanted).await;
    let needed = Needed {
        held: held - empty,
        unchanged: part(MEMORY.peak(), held),
        changed: 0.0,
    };
    assert_eq!(
        (informer.health().objects, informer.health().lists),
        (PODS, 2)
    );

    let mut events = informer.subscribe();
    while !matches!(next(&mut events).await, Event::Synced) {}
    let held = MEMORY.reset_peak();
    let (wanted, count) = server.relist(CHANGED).await;
    assert_eq!(count, PODS);
    let (mut updates, mut adds, mut deletions) = (0, 0, 0);
    while deletions < PODS / CHANGED / 10 {
        match next(&mut events).await {
            Event::Updated { .. } => updates += 1,
            Event::Added { .. } => adds += 1,
            Event::Deleted { .. } => deletions += 1,
            event @ (Event::Replayed { .. } | Event::Synced | _) => {
                panic!("{}", shown(&event));
            }
        }
    }
    reach(&mut version, &wanted).await;
    let changed = part(MEMORY.peak(), held);
    assert_eq!(
        (adds, deletions),
        (PODS / CHANGED / 10, PODS / CHANGED / 10)
    );
    assert_eq!(updates + adds, PODS / CHANGED);
    assert_eq!(
        (informer.health().objects, informer.health().lists),
        (PODS, 3)
    );

    informer.stop();
    drop(events);
    timeout(PATIENCE, driver)
        .await
        .expect("in time")
        .expect("no panic");
    let heard = reports.lock().expect("nobody panics with it");
    // Each relist is due to an expired version, and may be slow on a busy machine; only other reports are unexpected.
    let unexpected = heard
        .iter()
        .find(|class| !["very-short-watch", "expired", "slow-list"].contains(class));
    assert!(unexpected.is_none(), "{heard:?}");
    Needed { changed, ..needed }
}

/// A few fields.
#[derive(Deserialize)]
#[expect(dead_code, reason = "it is there to be held")]
struct Small {
    metadata: SmallMeta,
    spec: SmallSpec,
    status: SmallStatus,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "it is there to be held")]
struct SmallMeta {
    name: String,
    namespace: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is there to be held")]
struct SmallSpec {
    node_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it is there to be held")]
struct SmallStatus {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

#[tokio::test]
async fn r29_a_relist_needs_little_more_than_the_cache() {
    let mut server = DemoServer::start(env!("CARGO_BIN_EXE_demo_server"), PODS).await;
    let needed = [
        ("metadata", measure::<Meta>(&mut server).await),
        ("raw", measure::<Raw>(&mut server).await),
        ("packed", measure::<Packed<Raw>>(&mut server).await),
        ("packed, typed", measure::<Packed<Pod>>(&mut server).await),
        ("a small type", measure::<Small>(&mut server).await),
        ("a large type", measure::<Pod>(&mut server).await),
    ];
    server.stop().await;
    for (form, needed) in &needed {
        say(&format!(
            "{form}: {PODS} objects are {} bytes each; a relist needs {:.4} of it, with changes {:.4}",
            needed.held / PODS,
            needed.unchanged,
            needed.changed
        ));
    }
    for (form, needed) in needed {
        let most = needed.unchanged.max(needed.changed);
        assert!(
            most <= BOUND,
            "{form}: a relist needs {most:.3} of what is held before it"
        );
    }
}
