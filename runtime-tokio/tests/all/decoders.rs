//! Large lists are decoded on several threads: in order, with reports, and a panic affects one object.
#![allow(clippy::unwrap_in_result, reason = "a test may")]

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

use informer_core::Form;
use informer_tokio::decode::{Decode, RawObject};
use informer_tokio::informer::Initial;
use informer_tokio::{Event, Informer, Resource};
use serde_json::Value;

use crate::batches::OnePiece;

const PODS: usize = 3000;

/// Decodes the number of a Pod, rejects some of them, and records the calling threads.
#[derive(Clone, Default)]
struct Numbers {
    called: Arc<Called>,
    /// The driver's thread, if it must wait for another thread, so that there certainly is one.
    waits: Option<ThreadId>,
    panics_at: Option<u64>,
}

#[derive(Default)]
struct Called {
    calls: AtomicUsize,
    threads: Mutex<Vec<ThreadId>>,
    changed: Condvar,
}

struct Number(u64);

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
        Ok(Number(number))
    }

    fn is_costly(&self) -> bool {
        true
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
async fn story(initial: Initial, threads: usize) -> (Vec<String>, Vec<String>, Numbers) {
    let pods = Resource::new("", "v1", "pods").kind("Pod");
    let numbers = Numbers {
        waits: (threads > 0).then(|| std::thread::current().id()),
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
        let (alone, reports, numbers) = story(initial, 0).await;
        assert_eq!(numbers.called.threads.lock().unwrap().len(), 1);
        assert_eq!(alone.len(), PODS - PODS / 500);
        let refused = reports.iter().filter(|report| report.contains("number"));
        assert_eq!(refused.count(), PODS / 500);
        let (together, also, numbers) = story(initial, 3).await;
        assert_eq!(alone, together);
        assert_eq!(reports, also);
        assert_eq!(numbers.called.calls.load(Ordering::Relaxed), PODS);
        assert!(numbers.called.threads.lock().unwrap().len() > 1);
    }
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
