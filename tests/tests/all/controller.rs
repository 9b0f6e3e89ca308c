//! The scenarios of client-go's controller (C, and some of R and X) on tokio: changes as handlers and readers see
//! them.

use core::fmt::Write as _;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_core::{RawObject, Resource, time::Rng};
use informer_mock::{FakeServer, Fault, Verb, json};
use informer_tests::support::{
    PODS, at, held, list, next, pod, script, secs, server, server_of, settle, shown_next, start,
    start_with, truth,
};
use informer_tokio::informer::Initial;
use informer_tokio::{Entry, Event, Form, Handlers, Informer, Key, Raw};
use tokio::time::{sleep, timeout};

/// Random changes, cuts and expired versions during resyncs: in the end readers, a handler and a subscription have
/// the server's state.
#[tokio::test(start_paused = true)]
async fn c01_a_hammering_under_resync_ends_with_the_truth() {
    for seed in 0..8 {
        let mock = server();
        let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
            .seed(seed)
            .resync(secs(1))
            .build();
        let notified: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let (add, update, delete) = (
            Arc::clone(&notified),
            Arc::clone(&notified),
            Arc::clone(&notified),
        );
        let put = |notified: &Mutex<BTreeMap<String, String>>, entry: &Entry<Raw>| {
            let version = entry.resource_version().to_string();
            let mut notified = notified.lock().expect("no test panics with it");
            notified.insert(entry.key().to_string(), version)
        };
        let handle = pods.add_handler(
            Handlers::<Raw>::new()
                .on_add(move |new, _| assert_eq!(put(&add, new), None, "added twice"))
                .on_update(move |old, new| {
                    let known = put(&update, new);
                    assert_eq!(
                        known,
                        Some(old.resource_version().to_string()),
                        "another was known"
                    );
                })
                .on_delete(move |last, _| {
                    let mut notified = delete.lock().expect("no test panics with it");
                    assert!(
                        notified.remove(last.key().as_str()).is_some(),
                        "it was not known"
                    );
                }),
        );
        assert!(!pods.is_synced() && !handle.is_synced());
        tokio::spawn(driver.run());
        timeout(secs(60), handle.synced()).await.unwrap().unwrap();
        let mut numbers = Rng::new(seed);
        for round in 0..500 {
            let name = format!("p{}", numbers.below(20));
            match numbers.below(20) {
                0..10 => drop(mock.put("pods", pod(&name, round))),
                10..17 => drop(mock.delete("pods", "prod", &name)),
                17 => mock.with(FakeServer::cut_watches),
                18 => mock.with(|server| {
                    server.cut_watches();
                    let _ = server.delete("pods", "prod", &name);
                    server.compact_all();
                }),
                _ => sleep(Duration::from_millis(numbers.below(3000))).await,
            }
        }
        sleep(secs(120)).await;
        let truth = truth(&mock);
        assert_eq!(held(&pods), truth, "seed {seed}");
        assert_eq!(*notified.lock().unwrap(), truth, "seed {seed}");
        let panics = pods
            .health()
            .last_error
            .filter(|error| error.class == "handler-panicked");
        assert_eq!(panics, None, "seed {seed}");
    }
}

/// An update leads from a state notified before to a later one. A deleted object is notified as deleted after its
/// updates.
#[tokio::test(start_paused = true)]
async fn c02_updates_lead_from_what_was_notified_to_what_is() {
    let names: Vec<String> = (0..30).map(|number| format!("p{number}")).collect();
    let mock = server_of(&names);
    let before = truth(&mock);
    let pods = start(&mock);
    let mut events = pods.subscribe();
    let after = mock.with(|server| {
        for name in &names {
            server.update("pods", pod(name, 2)).unwrap();
        }
        server
            .objects("pods")
            .map(|pod| (pod.key(), pod.version().to_string()))
            .collect::<BTreeMap<_, _>>()
    });
    settle().await;
    for name in &names {
        mock.delete("pods", "prod", name).unwrap();
    }
    let mut deleted = 0;
    while deleted < names.len() {
        let version = |entry: &Entry<Raw>| entry.resource_version().to_string();
        match next(&mut events).await {
            Event::Added { entry, .. } => {
                let key = entry.key().as_str();
                assert!([&before[key], &after[key]].contains(&&version(&entry)));
            }
            Event::Updated { old, new } => {
                let key = new.key().as_str();
                assert_eq!(
                    (version(&old), version(&new)),
                    (before[key].clone(), after[key].clone())
                );
            }
            Event::Deleted {
                final_state_unknown,
                ..
            } => {
                assert!(!final_state_unknown);
                deleted += 1;
            }
            Event::Synced => {}
            event @ Event::Replayed { .. } | event => panic!("{event:?}"),
        }
    }
    assert!(pods.lister().is_empty());
}

/// The decoder's value for a Pod: a marked copy of its name.
#[derive(Clone, Debug, PartialEq)]
struct Marked(String);

impl Form for Marked {
    type Stored = Self;
    type Decoder = ();
}

/// The length of an object.
struct Length(usize);

impl Form for Length {
    type Stored = Self;
    type Decoder = ();
}

/// A decoder that counts, and rejects its own output.
fn marking(
    count: &Arc<AtomicUsize>,
) -> impl Fn(&RawObject<'_>) -> Result<Marked, &'static str> + Send + Sync + 'static {
    let count = Arc::clone(count);
    move |raw| {
        count.fetch_add(1, Ordering::Relaxed);
        let name = raw.name().to_string();
        if name.starts_with("marked") {
            return Err("it was decoded before");
        }
        Ok(Marked(format!("marked {name}@{}", raw.resource_version())))
    }
}

/// Handlers and readers see only decoded values, also as the old state of an update and in a deletion.
#[tokio::test(start_paused = true)]
async fn c04_only_decoded_values_are_seen() {
    for initial in [Initial::List, Initial::Stream] {
        let mock = server_of(["a"]);
        let decode = marking(&Arc::default());
        let pods = Informer::<Marked>::builder_with(mock.transport(), PODS, decode)
            .initial(initial)
            .spawn();
        let seen = Arc::new(Mutex::new(String::new()));
        let note = |sign: char| {
            let seen = Arc::clone(&seen);
            move |values: &[&Marked]| {
                let mut seen = seen.lock().expect("no test panics with it");
                // Writing into a `String` does not fail.
                let _ = writeln!(seen, "{sign} {values:?}");
            }
        };
        let (add, update, delete) = (note('+'), note('~'), note('-'));
        let handle = pods.add_handler(
            Handlers::new()
                .on_add(move |new: &Entry<Marked>, _| add(&[new.value()]))
                .on_update(move |old, new| update(&[old.value(), new.value()]))
                .on_delete(move |last, _| delete(&[last.value()])),
        );
        timeout(secs(60), handle.synced()).await.unwrap().unwrap();
        mock.update("pods", pod("a", 2)).unwrap();
        settle().await;
        assert_eq!(pods.lister().get("prod", "a").unwrap().0, "marked a@3");
        mock.delete("pods", "prod", "a").unwrap();
        settle().await;
        assert_eq!(
            *seen.lock().unwrap(),
            "+ [Marked(\"marked a@2\")]\n\
             ~ [Marked(\"marked a@2\"), Marked(\"marked a@3\")]\n\
             - [Marked(\"marked a@4\")]\n"
        );
    }
}

/// Each received object is decoded once, also in a streaming list, and a resync decodes nothing. Meanwhile readers
/// see complete objects.
#[tokio::test(start_paused = true)]
async fn r30_c05_a_resync_decodes_nothing_again() {
    for initial in [Initial::List, Initial::Stream] {
        let mock = server_of(["a", "b"]);
        let count = Arc::new(AtomicUsize::new(0));
        let (pods, driver) =
            Informer::<Marked>::builder_with(mock.transport(), PODS, marking(&count))
                .initial(initial)
                .resync(secs(1))
                .build();
        let replays = Arc::new(AtomicUsize::new(0));
        pods.add_handler({
            let replays = Arc::clone(&replays);
            Handlers::new().on_update(move |old: &Entry<Marked>, new| {
                replays.fetch_add(usize::from(old.is_same_state(new)), Ordering::Relaxed);
            })
        });
        tokio::spawn(driver.run());
        timeout(secs(60), pods.synced()).await.unwrap().unwrap();
        let stop = Arc::new(AtomicUsize::new(0));
        let reading = tokio::task::spawn_blocking({
            let (pods, stop) = (pods.lister(), Arc::clone(&stop));
            move || {
                let mut read = 0;
                while stop.load(Ordering::Relaxed) == 0 || read == 0 {
                    assert!(pods.list().iter().all(|pod| pod.0.starts_with("marked ")));
                    read += 1;
                }
            }
        });
        for round in 0..1000 {
            mock.update("pods", pod("a", 2 + round)).unwrap();
            tokio::task::yield_now().await;
        }
        stop.store(1, Ordering::Relaxed);
        reading.await.unwrap();
        mock.create("pods", pod("c", 1)).unwrap();
        sleep(Duration::from_millis(5500)).await;
        assert_eq!(count.load(Ordering::Relaxed), 2 + 1000 + 1);
        let replays = replays.load(Ordering::Relaxed);
        assert!((15..=18).contains(&replays), "{replays}");
        assert_eq!(pods.health().last_error, None);
    }
}

/// If some objects of a batch cannot be decoded, handlers are notified of the others; if none can, of nothing.
#[tokio::test(start_paused = true)]
async fn c06_of_a_batch_those_that_can_be_used_are_notified() {
    for (names, notified) in [
        (
            ["a", "b", "c"],
            &["++prod/a@2", "++prod/b@3", "++prod/c@4", "synced"][..],
        ),
        (
            ["a", "marked", "c"],
            &["++prod/a@2", "++prod/c@4", "synced"],
        ),
        (["marked", "marked1", "marked2"], &["synced"]),
    ] {
        let mock = server_of(names);
        let reports = Arc::new(AtomicUsize::new(0));
        let (pods, driver) =
            Informer::<Marked>::builder_with(mock.transport(), PODS, marking(&Arc::default()))
                .on_report({
                    let reports = Arc::clone(&reports);
                    move |report| {
                        assert_eq!(report.class(), "undecodable");
                        reports.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .build();
        tokio::spawn(driver.run());
        let mut events = pods.subscribe();
        assert_eq!(shown_next(&mut events, notified.len()).await, notified);
        assert_eq!(reports.load(Ordering::Relaxed), 4 - notified.len());
    }
}

/// The version follows every change, and is never ahead of the objects that readers see.
#[tokio::test(start_paused = true)]
async fn c09_the_version_follows_changes_and_deletions() {
    let mock = server_of(["a"]);
    let pods = start(&mock);
    assert_eq!(pods.resource_version(), "");
    pods.synced().await.unwrap();
    assert_eq!(pods.resource_version(), "2");
    for (name, change) in [("a", 2), ("b", 2)] {
        let version = mock.put("pods", pod(name, change)).unwrap();
        pods.wait_until(&version.to_string()).await.unwrap();
        assert_eq!(pods.resource_version(), version.to_string());
        assert_eq!(held(&pods), truth(&mock));
    }
    let version = mock.delete("pods", "prod", "a").unwrap();
    pods.wait_until(&version.to_string()).await.unwrap();
    assert_eq!(pods.resource_version(), version.to_string());
    assert_eq!(pods.health().resource_version, version.to_string());
    assert!(pods.lister().get("prod", "a").is_none());
}

/// The identity is read before the decoder runs, so versions are known whatever it returns. (In client-go a transform
/// to something without metadata stops the store's version.)
#[tokio::test(start_paused = true)]
async fn c10_the_version_is_known_whatever_is_kept() {
    let mock = server_of(["a"]);
    let length = |raw: &RawObject<'_>| Ok::<_, core::convert::Infallible>(Length(raw.json().len()));
    let pods = Informer::<Length>::builder_with(mock.transport(), PODS, length).spawn();
    pods.synced().await.unwrap();
    let version = mock.update("pods", pod("a", 2)).unwrap();
    settle().await;
    assert_eq!(pods.resource_version(), version.to_string());
    assert_eq!(held(&pods), truth(&mock));
    assert!(pods.lister().get("prod", "a").unwrap().value().0 > 0);
}

/// An unobserved deletion has the object's key and names, and its last state.
#[tokio::test(start_paused = true)]
async fn c11_a_deletion_that_nobody_saw_has_its_names() {
    let mock = server_of(["a"]);
    mock.create("nodes", json!({ "metadata": { "name": "n1" } }))
        .unwrap();
    let nodes = Resource::new("", "v1", "nodes").kind("Node");
    for (resource, namespace, name) in [(PODS, "prod", "a"), (nodes, "", "n1")] {
        let objects = Informer::<Raw>::builder_for(&mock.transport(), resource).spawn();
        let mut events = objects.subscribe();
        assert_eq!(shown_next(&mut events, 2).await.len(), 2);
        sleep(secs(5)).await;
        mock.with(|server| {
            server.cut_watches();
            server
                .delete(
                    if namespace.is_empty() {
                        "nodes"
                    } else {
                        "pods"
                    },
                    namespace,
                    name,
                )
                .unwrap();
            server.compact_all();
        });
        let Event::Deleted {
            entry,
            final_state_unknown: true,
        } = next(&mut events).await
        else {
            panic!("it is notified as one that nobody saw");
        };
        assert_eq!((entry.namespace(), entry.name()), (namespace, name));
        assert_eq!(
            entry.string_at(&["metadata", "name"]).as_deref(),
            Some(name)
        );
        let key = Key::new(&if namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{namespace}/{name}")
        });
        assert_eq!(*entry.key(), key);
    }
    for key in ["", "/", "a/"] {
        let key = Key::new(key);
        let _ = (key.namespace(), key.name());
    }
}

/// X09: a watched object that the decoder rejects is skipped, and the version advances. A listed one does not fail
/// the list. (In client-go it does.)
#[tokio::test(start_paused = true)]
async fn x09_a_decoder_that_refuses_fails_no_list_and_no_watch() {
    let mock = server_of(["marked", "a"]);
    let pods = Informer::<Marked>::builder_with(mock.transport(), PODS, marking(&Arc::default()))
        .initial(Initial::List)
        .spawn();
    let mut events = pods.subscribe();
    assert_eq!(shown_next(&mut events, 2).await, ["++prod/a@3", "synced"]);
    let version = mock.create("pods", pod("marked2", 1)).unwrap();
    pods.wait_until(&version.to_string()).await.unwrap();
    assert_eq!(pods.resource_version(), version.to_string());
    sleep(secs(60)).await;
    mock.log().assert_count_since(0, Verb::List, 1);
    mock.log().assert_count_since(0, Verb::Watch, 1);
}

/// X15: if a list contains an object twice, the last state is stored.
#[tokio::test(start_paused = true)]
async fn x15_of_an_object_that_is_listed_twice_the_last_state_stays() {
    let lists = [list(10, &[at("a", 4), at("a", 5)])];
    let watches = [json!({ "frames": [], "end": "hold" })];
    let mock = script(&json!({ "lists": lists, "watches": watches }));
    let (pods, _) = start_with(&mock, Initial::Stream);
    let mut events = pods.subscribe();
    // There are no notifications before the first list is complete, so there is one add.
    assert_eq!(shown_next(&mut events, 2).await, ["++prod/a@5", "synced"]);
    assert_eq!(
        held(&pods),
        BTreeMap::from([("prod/a".to_owned(), "5".to_owned())])
    );
}

/// X19: a stop waits neither for a delay nor for an answer. (client-go's delay for streams does.)
#[tokio::test(start_paused = true)]
async fn x19_a_stop_does_not_wait_for_a_delay() {
    for fault in [Fault::overloaded(None).always(), Fault::stall().always()] {
        let mock = server();
        mock.with(|server| server.inject(fault));
        let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
            .initial(Initial::Stream)
            .build();
        let driver = tokio::spawn(driver.run());
        sleep(secs(20)).await;
        pods.stop();
        let ended = timeout(Duration::from_millis(1), driver).await;
        ended.expect("it ends at once").unwrap();
        assert_eq!(mock.with(FakeServer::open_responses), (0, 0));
    }
}

/// R02, R05, R06, R10: a stop at any moment ends open requests, and sends no more.
#[tokio::test(start_paused = true)]
async fn r05_r10_r02_a_stop_ends_what_is_open() {
    for initial in [Initial::List, Initial::Stream] {
        for wait in [0, 1, 10, 5_000] {
            let mock = server_of(["a"]);
            mock.with(|server| server.config_mut().latency = Duration::from_millis(5));
            let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
                .initial(initial)
                .build();
            let driver = tokio::spawn(driver.run());
            sleep(Duration::from_millis(wait)).await;
            pods.stop();
            timeout(Duration::from_millis(1), driver)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(mock.with(FakeServer::open_responses), (0, 0));
            let mark = mock.log().mark();
            assert!(mark <= 2);
            sleep(secs(600)).await;
            assert_eq!(mock.log().mark(), mark);
            assert_eq!(pods.health().last_error, None, "a stop is no failure");
        }
    }
}
