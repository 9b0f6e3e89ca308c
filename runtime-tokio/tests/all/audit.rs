//! Drift caused by a faulty server, on paused time: it stays without an audit, and is repaired with one.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use informer_core::{Form, RawObject, time::Rng};
use informer_mock::{FakeServer, Fault, MockTransport, TokioClock, Verb, json};
use informer_tokio::decode::{Decode, Decoder};
use informer_tokio::health::{SourceHealth, State};
use informer_tokio::informer::{AuditConfig, Builder, Initial};
use informer_tokio::{Entry, Handlers, Informer, Raw};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::support::{Known, PODS, Server, held, numbered, pod, server_of, truth};

const PERIOD: Duration = Duration::from_secs(3600);

type Reports = Arc<Mutex<Vec<String>>>;

fn builder<F: Form, D: Decode<Value = F::Stored>>(
    mock: &Server,
    decode: D,
    reports: &Reports,
) -> Builder<MockTransport<FakeServer, TokioClock>, F, D> {
    let reports = Arc::clone(reports);
    Informer::builder_with(mock.transport(), PODS, decode)
        .seed(1)
        .on_report(move |report| {
            if report.class() == "drift" {
                reports.lock().unwrap().push(report.to_string());
            }
        })
}

/// A handler that records the objects it was notified of.
fn listen(pods: &Informer<Raw>) -> Arc<Mutex<Known>> {
    let known = Arc::new(Mutex::new(Known::new()));
    let (add, update, delete) = (Arc::clone(&known), Arc::clone(&known), Arc::clone(&known));
    let put = |known: &Mutex<Known>, entry: &Entry<Raw>| {
        let version = entry.resource_version().to_string();
        known
            .lock()
            .unwrap()
            .insert(entry.key().to_string(), version);
    };
    pods.add_handler(
        Handlers::new()
            .on_add(move |entry, _| put(&add, entry))
            .on_update(move |_, entry| put(&update, entry))
            .on_delete(move |entry, unseen| {
                assert!(unseen, "nobody saw it go");
                delete.lock().unwrap().remove(entry.key().as_str());
            }),
    );
    known
}

/// A server loses an object without an event. Without an audit it stays for ever: the watch is healthy, and nothing
/// causes a relist.
#[tokio::test(start_paused = true)]
async fn without_an_audit_a_lost_deletion_stays() {
    let mock = server_of(numbered(3));
    let reports = Reports::default();
    let pods = builder::<Raw, _>(&mock, Decoder::<Raw>::new(), &reports).spawn();
    pods.synced().await.unwrap();
    mock.with(|server| server.forget("pods", "prod", "p1"))
        .unwrap();
    sleep(PERIOD * 48).await;
    assert!(!truth(&mock).contains_key("prod/p1"));
    assert!(held(&pods).contains_key("prod/p1"));
    assert!(reports.lock().unwrap().is_empty());
}

/// With an audit it is swept within one period, whenever in it the loss was. Handlers are notified, and it is reported.
#[tokio::test(start_paused = true)]
async fn with_an_audit_it_is_gone_within_a_period() {
    for initial in [Initial::List, Initial::Stream] {
        for when in 0..8 {
            let mock = server_of(numbered(3));
            let reports = Reports::default();
            let audited = builder::<Raw, _>(&mock, Decoder::<Raw>::new(), &reports)
                .initial(initial)
                .seed(when)
                .audit(AuditConfig::new(PERIOD));
            let pods = audited.spawn();
            pods.synced().await.unwrap();
            let known = listen(&pods);
            sleep(PERIOD * u32::try_from(when).unwrap() / 5).await;
            let before = mock.log().mark();
            mock.with(|server| server.forget("pods", "prod", "p1"))
                .unwrap();
            assert!(held(&pods).contains_key("prod/p1"));
            sleep(PERIOD).await;
            assert_eq!(held(&pods), truth(&mock), "{when}");
            assert_eq!(*known.lock().unwrap(), truth(&mock), "{when}");
            let expected = [
                "audit: prod/p1 is in the cache but not on the server",
                "audit: the cache differs from the server in 1 objects: a relist repairs it",
            ];
            assert_eq!(*reports.lock().unwrap(), expected);
            // The audit requests only metadata, at the newest version.
            let log = mock.log();
            let audits: Vec<_> = log
                .since(before)
                .filter(|request| request.accept.contains(";as=PartialObjectMetadata"))
                .collect();
            assert!((2..=3).contains(&audits.len()), "{} lists", audits.len());
            assert!(
                audits
                    .iter()
                    .all(|list| list.query.get("resourceVersion").is_none())
            );
            pods.stop();
        }
    }
}

/// A period of zero would list without a pause.
#[tokio::test(start_paused = true)]
async fn a_period_of_zero_counts_as_a_second() {
    let mock = server_of(numbered(3));
    let reports = Reports::default();
    let audited = builder::<Raw, _>(&mock, Decoder::<Raw>::new(), &reports)
        .audit(AuditConfig::new(Duration::ZERO));
    let pods = audited.spawn();
    pods.synced().await.unwrap();
    let before = mock.log().mark();
    sleep(Duration::from_secs(60)).await;
    let log = mock.log();
    let audits = log
        .since(before)
        .filter(|request| request.verb == Verb::List);
    let audits = audits.count();
    // Each period ends up to two fifths early.
    assert!((60..=100).contains(&audits), "{audits} lists in a minute");
    pods.stop();
}

/// A watch that loses events: additions, changes and deletions are all repaired.
#[tokio::test(start_paused = true)]
async fn lost_events_of_every_kind_are_repaired() {
    let mock = server_of(numbered(5));
    let lost = Fault::nothing().drop_event(1).drop_event(2).drop_event(3);
    mock.with(|server| server.inject(lost.on(Verb::Watch)));
    let reports = Reports::default();
    let audited = builder::<Raw, _>(&mock, Decoder::<Raw>::new(), &reports)
        .initial(Initial::List)
        .audit(AuditConfig::new(PERIOD));
    let pods = audited.spawn();
    pods.synced().await.unwrap();
    let known = listen(&pods);
    mock.create("pods", pod("new", 0)).unwrap();
    mock.update("pods", pod("p1", 2)).unwrap();
    mock.delete("pods", "prod", "p2").unwrap();
    mock.update("pods", pod("p3", 2)).unwrap();
    sleep(Duration::from_secs(1)).await;
    let wrong = ["prod/new", "prod/p1", "prod/p2", "prod/p3"];
    let differing: BTreeSet<String> = {
        let (truth, held) = (truth(&mock), held(&pods));
        let keys = truth.keys().chain(held.keys());
        keys.filter(|key| truth.get(*key) != held.get(*key))
            .cloned()
            .collect()
    };
    assert_eq!(differing.len(), 3, "{differing:?}");
    assert!(differing.iter().all(|key| wrong.contains(&key.as_str())));
    sleep(PERIOD).await;
    assert_eq!(held(&pods), truth(&mock));
    assert_eq!(*known.lock().unwrap(), truth(&mock));
    assert_eq!(reports.lock().unwrap().len(), 4);
}

/// Lists that are cut, that fail or that never end do not count, and neither does a list that was begun again.
#[tokio::test(start_paused = true)]
async fn a_list_that_was_cut_never_counts() {
    for fault in [
        Fault::nothing().cut_after_bytes(300),
        Fault::nothing().cut_after_bytes(300).cleanly(),
        Fault::nothing().cut_after_bytes(300).silently(),
        Fault::expired(),
        Fault::stall(),
        Fault::status(500, "no"),
    ] {
        let mock = server_of(numbered(12));
        let reports = Reports::default();
        let audited = builder::<Raw, _>(&mock, Decoder::<Raw>::new(), &reports)
            .initial(Initial::List)
            .page_size(5)
            .audit(AuditConfig::new(PERIOD));
        let pods = audited.spawn();
        pods.synced().await.unwrap();
        let mark = mock.log().mark();
        // The second page, and the first page of the list after it.
        mock.with(|server| {
            server.inject(fault.clone().on(Verb::List).skip(1));
            server.inject(fault.clone().on(Verb::List).skip(1));
        });
        sleep(PERIOD).await;
        assert_eq!(*reports.lock().unwrap(), [""; 0], "{fault:?}");
        let lists = mock.log();
        assert!(
            lists
                .since(mark)
                .filter(|request| request.verb == Verb::List)
                .count()
                > 3
        );
        // The next one works as usual.
        mock.with(|server| server.forget("pods", "prod", "p9"))
            .unwrap();
        sleep(PERIOD).await;
        assert_eq!(held(&pods), truth(&mock), "{fault:?}");
        pods.stop();
    }
}

/// An object that the decoder rejects cannot be in the cache. It causes one relist, and not one for each audit.
#[tokio::test(start_paused = true)]
async fn a_difference_that_a_relist_cannot_repair_causes_one_relist() {
    struct Kept;
    impl Form for Kept {
        type Stored = Self;
        type Decoder = ();
    }
    let mock = server_of(numbered(3));
    let decode = |raw: &RawObject<'_>| match raw.name().eq_str("p1") {
        true => Err("no"),
        false => Ok(Kept),
    };
    let reports = Reports::default();
    let pods = builder::<Kept, _>(&mock, decode, &reports)
        .audit(AuditConfig::new(PERIOD))
        .spawn();
    pods.synced().await.unwrap();
    sleep(PERIOD * 5).await;
    let reports = reports.lock().unwrap();
    let repairs = reports
        .iter()
        .filter(|report| report.ends_with("a relist repairs it"));
    assert_eq!(repairs.count(), 1);
    let vain = reports
        .iter()
        .filter(|report| report.ends_with("did not repair it"));
    assert!((3..=6).contains(&vain.count()), "{reports:?}");
}

/// The cache shows an older state of an object, since the newest one could not be used, and the server loses the
/// object: it is swept within a period. If the server loses a later usable change, the repair delivers it.
#[tokio::test(start_paused = true)]
async fn stale_objects_are_audited() {
    struct Kept;
    impl Form for Kept {
        type Stored = Self;
        type Decoder = ();
    }
    let mock = server_of(numbered(4));
    let decode = |raw: &RawObject<'_>| {
        let pod: Value = serde_json::from_slice(raw.json()).unwrap();
        if pod["spec"]["nodeName"] == "n7" {
            Err("no")
        } else {
            Ok(Kept)
        }
    };
    let reports = Reports::default();
    let pods = builder::<Kept, _>(&mock, decode, &reports)
        .audit(AuditConfig::new(PERIOD))
        .spawn();
    pods.synced().await.unwrap();
    mock.update("pods", pod("p1", 7)).unwrap();
    mock.update("pods", pod("p2", 7)).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(pods.health().stale, ["prod/p1", "prod/p2"]);
    mock.with(|server| server.forget("pods", "prod", "p1"))
        .unwrap();
    mock.with(|server| server.inject(Fault::nothing().drop_event(0).on(Verb::Watch)));
    mock.with(FakeServer::cut_watches);
    sleep(Duration::from_secs(5)).await;
    mock.update("pods", pod("p2", 8)).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(pods.health().stale_count, 2, "the change was lost");
    sleep(PERIOD).await;
    assert_eq!(held(&pods), truth(&mock));
    assert_eq!(pods.health().stale_count, 0);
    assert_eq!(reports.lock().unwrap().len(), 3);
}

/// Each source of a cache is audited separately, and what is shown of all is true of the one that is behind.
#[tokio::test(start_paused = true)]
async fn every_source_is_audited_and_shown() {
    let mock = server_of(numbered(3));
    let in_staging = |name: &str| json!({ "metadata": { "name": name, "namespace": "staging" } });
    mock.create("pods", in_staging("s1")).unwrap();
    mock.create("pods", in_staging("s2")).unwrap();
    let reports = Reports::default();
    let audited = builder::<Raw, _>(&mock, Decoder::<Raw>::new(), &reports)
        .namespaces(["prod", "staging"])
        .audit(AuditConfig::new(PERIOD));
    let pods = audited.spawn();
    pods.synced().await.unwrap();
    let before = pods.resource_version();
    let written = mock.create("pods", in_staging("s3")).unwrap().to_string();
    let shown = pods.wait_for_write("staging/s3", &written);
    shown.await.unwrap();
    assert_eq!(pods.resource_version(), before, "prod is not there yet");
    let both = timeout(Duration::from_secs(1), pods.wait_until(&written));
    assert!(both.await.is_err());

    mock.with(|server| {
        server.inject(
            Fault::refuse()
                .on_path("/api/v1/namespaces/prod/pods")
                .always(),
        );
        server.cut_watches();
    });
    sleep(Duration::from_secs(30)).await;
    assert_eq!(pods.health().state, State::Waiting);
    mock.with(FakeServer::clear_faults);
    sleep(Duration::from_secs(60)).await;
    let health = pods.health();
    let [prod, staging] = [0, 1].map(|number| health.sources[number].watch_age.unwrap());
    assert!(prod < staging, "{health:?}");
    assert_eq!(
        (health.state, health.watch_age),
        (State::Watching, Some(prod))
    );

    let is_audited = |source: &SourceHealth| source.audits > 0;
    while !pods.health().sources.iter().any(is_audited) {
        sleep(Duration::from_secs(1)).await;
    }
    let health = pods.health();
    assert!(!health.sources.iter().all(is_audited) && health.audit_age.is_none());
    sleep(PERIOD).await;
    assert!(pods.health().audit_age.is_some());
    assert_eq!(*reports.lock().unwrap(), [""; 0]);
    mock.with(|server| server.forget("pods", "prod", "p1"))
        .unwrap();
    mock.with(|server| server.forget("pods", "staging", "s1"))
        .unwrap();
    sleep(2 * PERIOD).await;
    assert_eq!(held(&pods), truth(&mock));
    assert_eq!(reports.lock().unwrap().len(), 4);
}

/// Random changes, cuts, slow watches and lost histories, without permanent losses: no audit takes a lag for drift. If
/// the server also loses objects, the cache is correct in the end.
#[tokio::test(start_paused = true)]
async fn lag_is_no_drift_and_drift_is_found_under_any_faults() {
    for seed in 0..40 {
        let loses = seed % 2 == 1;
        let mock = server_of(numbered(20));
        let reports = Reports::default();
        let audited = builder::<Raw, _>(&mock, Decoder::<Raw>::new(), &reports)
            .seed(seed)
            .page_size(7)
            .audit(AuditConfig::new(Duration::from_secs(400)));
        let pods = audited.spawn();
        pods.synced().await.unwrap();
        let mut numbers = Rng::new(seed);
        let mut lost = 0;
        for round in 0..400 {
            let name = format!("p{}", numbers.below(25));
            match numbers.below(24) {
                0..10 => drop(mock.put("pods", pod(&name, round))),
                10..14 => drop(mock.delete("pods", "prod", &name)),
                14 => mock.with(FakeServer::cut_watches),
                15 => mock.with(|server| {
                    server.cut_watches();
                    server.compact_all();
                }),
                16 => mock.with(|server| {
                    let slow = 20 + u32::try_from(numbers.below(100)).unwrap();
                    server.inject(Fault::nothing().bandwidth(slow).on(Verb::Watch));
                }),
                17 => mock.with(|server| server.inject(Fault::delay(Duration::from_secs(5)))),
                18 => mock.with(|server| {
                    server.inject(Fault::nothing().cut_after_bytes(500).on(Verb::List));
                }),
                19 if loses => {
                    lost += usize::from(
                        mock.with(|server| server.forget("pods", "prod", &name))
                            .is_ok(),
                    );
                }
                _ => sleep(Duration::from_millis(numbers.below(30_000))).await,
            }
        }
        if !loses {
            assert_eq!(*reports.lock().unwrap(), [""; 0], "seed {seed}");
        }
        // Slow watches end, and one period begins and ends.
        mock.with(FakeServer::cut_watches);
        sleep(Duration::from_secs(2000)).await;
        assert_eq!(held(&pods), truth(&mock), "seed {seed}, {lost} were lost");
        pods.stop();
    }
}
