//! Large lists are decoded on several threads: in order, with reports, and a panic affects one object.
#![allow(clippy::unwrap_in_result, reason = "a test may")]

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

use informer_core::Form;
use informer_mock::json;
use informer_tokio::decode::{Decode, RawObject};
use informer_tokio::informer::Initial;
use informer_tokio::{Event, Handlers, Informer, Resource};
use serde_json::Value;

use crate::batches::OnePiece;
use crate::support::server;

const PODS: usize = 3000;
/// The number of an object whose `Drop` panics.
const PANICS_WHEN_DROPPED: u64 = 4007;

/// Decodes the number of a Pod, rejects some of them, and records the calling threads.
#[derive(Clone, Default)]
struct Numbers {
    called: Arc<Called>,
    /// The driver's thread, if it must wait for another thread, so that there certainly is one.
    waits: Option<ThreadId>,
    panics_at: Option<u64>,
    /// Helper threads decode all objects.
    is_in_pieces: bool,
}

#[derive(Default)]
struct Called {
    calls: AtomicUsize,
    threads: Mutex<Vec<ThreadId>>,
    changed: Condvar,
    /// The objects that have not been dropped.
    alive: AtomicUsize,
}

struct Number(u64, Arc<Called>);

impl Drop for Number {
    fn drop(&mut self) {
        self.1.alive.fetch_sub(1, Ordering::Relaxed);
        assert!(self.0 != PANICS_WHEN_DROPPED, "dropped");
    }
}

impl Form for Number {
    type Stored = Self;
    type Decoder = Numbers;
}

impl Decode for Numbers {
    type Value = Number;
    type Error = String;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Number, String> {
        let Called {
            calls,
            threads,
            changed,
            alive,
        } = &*self.called;
        calls.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::current().id();
        let mut threads = threads.lock().unwrap();
        if !threads.contains(&thread) {
            threads.push(thread);
            changed.notify_all();
        }
        while self.waits == Some(thread) && threads.len() == 1 {
            threads = changed.wait(threads).unwrap();
        }
        drop(threads);
        let pod: Value = serde_json::from_slice(raw.json()).map_err(|error| error.to_string())?;
        let number = pod["spec"]["number"].as_u64().unwrap();
        assert!(self.panics_at != Some(number), "number {number}");
        if number % 500 == 499 {
            return Err(format!("number {number}"));
        }
        alive.fetch_add(1, Ordering::Relaxed);
        Ok(Number(number, Arc::clone(&self.called)))
    }

    fn is_costly(&self) -> bool {
        true
    }

    fn is_in_pieces(&self) -> bool {
        self.is_in_pieces
    }
}

fn pod(number: usize) -> String {
    let filling = "x".repeat(2000);
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p{number}","namespace":"a","uid":"u{number}","resourceVersion":"{}"}},"spec":{{"number":{number},"filling":"{filling}"}}}}"#,
        number + 1
    )
}

/// All Pods, in one piece.
fn transport(initial: Initial) -> OnePiece {
    let pods = (0..PODS).map(pod);
    if initial == Initial::List {
        let pods: Vec<_> = pods.collect();
        let text = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9000"}},"items":[{}]}}"#,
            pods.join(",")
        );
        return OnePiece {
            text: Some(text),
            ends: true,
        };
    }
    let mut text: String = pods
        .map(|pod| format!("{{\"type\":\"ADDED\",\"object\":{pod}}}\n"))
        .collect();
    text.push_str(r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9000","annotations":{"k8s.io/initial-events-end":"true"}}}}"#);
    text.push('\n');
    OnePiece {
        text: Some(text),
        ends: false,
    }
}

/// The notifications and reports with this many threads besides the driver.
async fn story(
    initial: Initial,
    threads: usize,
    is_in_pieces: bool,
) -> (Vec<String>, Vec<String>, Numbers) {
    let pods = Resource::new("", "v1", "pods").kind("Pod");
    let numbers = Numbers {
        waits: (threads > 0).then(|| std::thread::current().id()),
        is_in_pieces,
        ..Numbers::default()
    };
    let reports: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&reports);
    let (pods, driver) =
        Informer::<Number>::builder_with(transport(initial), pods, numbers.clone())
            .initial(initial)
            .decoders(threads)
            .index("tens", |number| Some((number.0 / 10).to_string()))
            .on_report(move |report| heard.lock().unwrap().push(report.to_string()))
            .build();
    let mut events = pods.subscribe();
    let driver = tokio::spawn(driver.run());
    let mut notified = Vec::new();
    loop {
        match events.recv().await.unwrap() {
            Event::Added { entry, .. } => notified.push(entry.key().to_string()),
            Event::Synced => break,
            Event::Updated { .. } | Event::Replayed { .. } | Event::Deleted { .. } | _ => {
                panic!("nothing else happened")
            }
        }
    }
    let tens = pods.lister().by_index("tens", "0").unwrap();
    assert_eq!(tens.len(), 10);
    assert_eq!(pods.lister().len(), PODS - PODS / 500);
    driver.abort();
    // The order of reports is not determined if several threads decode.
    let mut reports = core::mem::take(&mut *reports.lock().unwrap());
    reports.sort();
    (notified, reports, numbers)
}

#[tokio::test(start_paused = true)]
async fn threads_change_nothing_of_what_is_notified() {
    for initial in [Initial::List, Initial::Stream] {
        let (alone, reports, numbers) = story(initial, 0, false).await;
        assert_eq!(numbers.called.threads.lock().unwrap().len(), 1);
        assert_eq!(alone.len(), PODS - PODS / 500);
        let refused = reports.iter().filter(|report| report.contains("number"));
        assert_eq!(refused.count(), PODS / 500);
        for is_in_pieces in [false, true] {
            let (together, also, numbers) = story(initial, 3, is_in_pieces).await;
            assert_eq!(alone, together);
            assert_eq!(reports, also);
            assert_eq!(numbers.called.calls.load(Ordering::Relaxed), PODS);
            assert!(numbers.called.threads.lock().unwrap().len() > 1);
        }
    }
}

/// The program's own blocking calls may have all threads.
#[test]
fn the_driver_decodes_if_the_runtime_has_no_thread_for_it() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime
        .enable_time()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (ends, waits) = std::sync::mpsc::channel::<()>();
    let blocking = runtime.spawn_blocking(move || waits.recv());
    let numbers = Numbers {
        is_in_pieces: true,
        ..Numbers::default()
    };
    let called = Arc::clone(&numbers.called);
    runtime.block_on(async {
        let pods = Resource::new("", "v1", "pods").kind("Pod");
        let (pods, driver) =
            Informer::<Number>::builder_with(transport(Initial::List), pods, numbers)
                .initial(Initial::List)
                .decoders(2)
                .build();
        let driver = tokio::spawn(driver.run());
        pods.synced().await.unwrap();
        assert_eq!(pods.lister().len(), PODS - PODS / 500);
        driver.abort();
    });
    let threads = core::mem::take(&mut *called.threads.lock().unwrap());
    assert_eq!(threads, [std::thread::current().id()]);
    drop(ends);
    runtime.block_on(blocking).unwrap().unwrap_err();
}

/// Old states wait for the thread that decoded them only as long as it has work. A panic of one is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_dropped_when_nobody_has_it() {
    const PODS: usize = 50;
    let numbered = |number: usize, change: usize| {
        json!({
            "metadata": { "name": format!("p{number}"), "namespace": "a" },
            "spec": { "number": change * 500 + number },
        })
    };
    for (threads, is_in_pieces) in [(0, false), (2, false), (2, true)] {
        let mock = server();
        let numbers = Numbers {
            is_in_pieces,
            ..Numbers::default()
        };
        let called = Arc::clone(&numbers.called);
        let resource = Resource::parse("pods").unwrap();
        let reports: Arc<Mutex<Vec<String>>> = Arc::default();
        let said = Arc::clone(&reports);
        let (pods, driver) = Informer::<Number>::builder_with(mock.transport(), resource, numbers)
            .decoders(threads)
            .on_report(move |report| said.lock().unwrap().push(report.to_string()))
            .build();
        let updates: Arc<AtomicUsize> = Arc::default();
        let heard = Arc::clone(&updates);
        pods.add_handler(Handlers::<Number>::new().on_update(move |_, _| {
            heard.fetch_add(1, Ordering::Relaxed);
        }));
        for number in 0..PODS {
            mock.create("pods", numbered(number, 0)).unwrap();
        }
        let driver = tokio::spawn(driver.run());
        pods.synced().await.unwrap();
        for change in 1..=20 {
            for number in 0..PODS {
                mock.update("pods", numbered(number, change)).unwrap();
            }
            until(|| {
                pods.lister()
                    .get_by_key("a/p49")
                    .is_some_and(|pod| pod.0 == change as u64 * 500 + 49)
            })
            .await;
        }
        until(|| called.alive.load(Ordering::Relaxed) == PODS).await;
        assert!(updates.load(Ordering::Relaxed) >= PODS);
        let of_drop = |report: &&String| report.contains("the drop of an object");
        assert_eq!(reports.lock().unwrap().iter().filter(of_drop).count(), 1);
        pods.stop();
        driver.await.unwrap();
        drop(pods);
        until(|| called.alive.load(Ordering::Relaxed) == 0).await;
    }
}

/// Waits until other threads have brought this about.
async fn until(is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    let patience = core::time::Duration::from_secs(60);
    tokio::time::timeout(patience, waits)
        .await
        .expect("it comes about");
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_panics_refuses_the_object_wherever_it_ran() {
    for threads in [0, 3] {
        let pods = Resource::new("", "v1", "pods").kind("Pod");
        let numbers = Numbers {
            panics_at: Some(1700),
            ..Numbers::default()
        };
        let reports: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&reports);
        let (pods, driver) =
            Informer::<Number>::builder_with(transport(Initial::List), pods, numbers)
                .initial(Initial::List)
                .decoders(threads)
                .on_report(move |report| heard.lock().unwrap().push(report.to_string()))
                .build();
        let driver = tokio::spawn(driver.run());
        pods.synced().await.unwrap();
        assert_eq!(pods.lister().len(), PODS - PODS / 500 - 1);
        let said = "cache: a/p1700 cannot be decoded: the decoder panicked: number 1700";
        let reports = core::mem::take(&mut *reports.lock().unwrap());
        let refused = reports.iter().filter(|report| report.starts_with(said));
        assert_eq!(refused.count(), 1, "{threads} threads");
        driver.abort();
    }
}
