//! Several threads at once: what an interleaving can break is repeated until it has met many of them.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_mock::{FakeServer, Mock, TokioClock, json};
use informer_tokio::queue::WorkQueue;
use informer_tokio::{Handlers, Informer, Raw, Resource};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{server, truth};

/// A lost wake-up is a wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: usize = 7;
const WORKERS: usize = 4;

/// The last state of each key is processed, no key is processed twice at a time, and no worker sleeps while keys wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_on_several_threads_miss_no_key() {
    for round in 0..300 {
        let queue = WorkQueue::new();
        let wanted: Arc<[AtomicU64; KEYS]> = Arc::default();
        let done: Arc<[AtomicU64; KEYS]> = Arc::default();
        let busy: Arc<[AtomicBool; KEYS]> = Arc::default();
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            let (queue, wanted) = (queue.clone(), Arc::clone(&wanted));
            let (done, busy) = (Arc::clone(&done), Arc::clone(&busy));
            workers.spawn(async move {
                while let Some(work) = queue.next().await {
                    let key: usize = *work;
                    assert!(!busy[key].swap(true, Ordering::SeqCst), "{key} twice");
                    let state = wanted[key].load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    done[key].store(state, Ordering::SeqCst);
                    busy[key].store(false, Ordering::SeqCst);
                    if state % 5 == 0 {
                        work.retry();
                    } else {
                        work.finish();
                    }
                }
            });
        }
        let mut writers = JoinSet::new();
        for writer in 0..WORKERS {
            let (queue, wanted) = (queue.clone(), Arc::clone(&wanted));
            writers.spawn(async move {
                for i in 0..40 {
                    let key = (writer + i * (1 + round % 3)) % KEYS;
                    wanted[key].fetch_add(1, Ordering::SeqCst);
                    queue.add(key);
                    if i % 8 == round % 8 {
                        tokio::task::yield_now().await;
                    }
                }
            });
        }
        writers.join_all().await;
        let settled = async {
            while (0..KEYS)
                .any(|key| done[key].load(Ordering::SeqCst) != wanted[key].load(Ordering::SeqCst))
            {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, settled)
            .await
            .expect("each key's last state is processed");
        queue.shut_down();
        timeout(PATIENCE, workers.join_all())
            .await
            .expect("the workers end");
    }
}

/// The driver and all handlers share a thread with a handler that blocks it and has a long backlog.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_slow_handler_holds_its_thread_for_few_calls() {
    const PODS: usize = 200;
    let mock = server();
    for number in 0..PODS {
        mock.create("pods", pod(number, 0)).unwrap();
    }
    let calls: Arc<AtomicUsize> = Arc::default();
    // A task on the same thread that is always ready. It notes the calls between two of its turns.
    let seen = Arc::clone(&calls);
    let other = tokio::spawn(async move {
        let (mut before, mut most) = (0, 0);
        while before < PODS {
            tokio::task::yield_now().await;
            let now = seen.load(Ordering::SeqCst);
            most = most.max(now - before);
            before = now;
        }
        most
    });
    let pods = Informer::<Raw>::builder_for(&mock.transport(), Resource::parse("pods").unwrap());
    let pods = pods.spawn();
    pods.add_handler(Handlers::<Raw>::new().on_add(move |_, _| {
        std::thread::sleep(Duration::from_millis(1));
        calls.fetch_add(1, Ordering::SeqCst);
    }));
    let most = timeout(PATIENCE, other).await.unwrap().unwrap();
    assert!(most <= 8, "{most} calls in a row");
}

/// Several drivers, decoding threads, writers, readers and handlers that join and leave, each on any thread. Every
/// handler that stays has the server's state in the end, without a gap or a repetition.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn drivers_on_several_threads_notify_every_handler_of_every_change() {
    const PODS: usize = 300;
    for round in 0..12 {
        let mock = Mock::with_clock(FakeServer::new(round), TokioClock::new());
        for number in 0..PODS {
            mock.create("pods", pod(number, 0)).unwrap();
        }
        let mut drivers = JoinSet::new();
        let mut informers = Vec::new();
        for decoders in [0, 1, 3] {
            let (pods, driver) =
                Informer::<Raw>::builder_for(&mock.transport(), Resource::parse("pods").unwrap())
                    .decoders(decoders)
                    .namespaces(["ns0", "ns1", "ns2"])
                    .build();
            drivers.spawn(driver.run());
            informers.push(pods);
        }
        let mut users = JoinSet::new();
        for user in 0..6 {
            let pods = informers[user % 3].clone();
            users.spawn(async move {
                for turn in 0..20 {
                    let handle = pods.add_handler(Handlers::<Raw>::new().on_add(|_, _| ()));
                    let _ = pods.lister().list().len();
                    if turn == 10 {
                        let name = format!("user{user}");
                        pods.add_index(&name, |_, value| value("x")).await.unwrap();
                    }
                    tokio::task::yield_now().await;
                    handle.remove();
                }
            });
        }
        let followers: Vec<_> = informers.iter().map(Follower::new).collect();
        let mut writers = JoinSet::new();
        for writer in 0..3 {
            let mock = mock.clone();
            writers.spawn(async move {
                for change in 1..60 {
                    let number = (change * 7 + writer) % PODS;
                    if change % 9 == 0 {
                        let _ = mock.delete("pods", &namespace(number), &format!("p{number}"));
                    } else {
                        let _ = mock.update("pods", pod(number, change));
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        writers.join_all().await;
        timeout(PATIENCE, users.join_all())
            .await
            .expect("the users end");
        // The last event is not read for another source's version.
        for namespace in 0..3 {
            mock.create(
                "pods",
                named(&format!("last{namespace}"), &format!("ns{namespace}"), 0),
            )
            .unwrap();
        }
        let truth = truth(&mock);
        for follower in &followers {
            let equal = async {
                while *follower.known.lock().unwrap() != truth {
                    tokio::task::yield_now().await;
                }
            };
            timeout(PATIENCE, equal)
                .await
                .expect("the handler reaches the server's state");
            assert_eq!(follower.faults.load(Ordering::SeqCst), 0);
        }
        for pods in &informers {
            assert_eq!(pods.lister().len(), truth.len());
            assert_eq!(
                pods.lister()
                    .by_index("user0", "x")
                    .map_or(0, |found| found.len())
                    % truth.len(),
                0
            );
            pods.stop();
        }
        timeout(PATIENCE, drivers.join_all())
            .await
            .expect("the drivers end");
    }
}

/// What one handler was notified of.
struct Follower {
    known: Arc<Mutex<BTreeMap<String, String>>>,
    /// Additions of known objects, and changes of unknown ones.
    faults: Arc<AtomicUsize>,
}

impl Follower {
    fn new(pods: &Informer<Raw>) -> Self {
        let known: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let faults = Arc::new(AtomicUsize::new(0));
        let note = |expected: bool| {
            let (known, faults) = (Arc::clone(&known), Arc::clone(&faults));
            move |pod: &informer_tokio::Entry<Raw>, is_deletion: bool| {
                let mut known = known.lock().unwrap();
                let key = pod.key().as_str().to_owned();
                let before = match is_deletion {
                    true => known.remove(&key),
                    false => known.insert(key, pod.resource_version().to_string()),
                };
                if before.is_some() != expected {
                    faults.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        let (add, update, delete) = (note(false), note(true), note(true));
        pods.add_handler(
            Handlers::<Raw>::new()
                .on_add(move |pod, _| add(pod, false))
                .on_update(move |_, pod| update(pod, false))
                .on_delete(move |pod, _| delete(pod, true)),
        );
        Self { known, faults }
    }
}

fn namespace(number: usize) -> String {
    format!("ns{}", number % 3)
}

fn pod(number: usize, change: usize) -> informer_mock::Value {
    named(&format!("p{number}"), &namespace(number), change)
}

fn named(name: &str, namespace: &str, change: usize) -> informer_mock::Value {
    json!({
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "nodeName": format!("n{change}") },
    })
}
