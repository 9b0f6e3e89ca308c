//! The scenarios of client-go's shared informer (S, and some of X) on tokio. Intended differences are listed in
//! `docs/DIFFERENCES.md`, and the tests concerned mention them.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_core::{RawObject, reflector::Initial};
use informer_mock::{FakeServer, Fault, Verb};
use informer_tests::support::{
    PODS, RawDriver, Recorder, Server, informer, names, node, pod, secs, server, server_of, settle,
};
use informer_tokio::handler::{EventHandler, HandlerHandle, HandlerOptions};
use informer_tokio::informer::StillUnsynced;
use informer_tokio::{Entry, Form, Handlers, Informer, Raw};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

fn spawn(mock: &Server) -> (Informer<Raw>, JoinHandle<()>) {
    let (pods, driver) = informer(mock);
    (pods, tokio::spawn(driver.run()))
}

/// Makes an informer that records the texts of its reports.
fn telling(mock: &Server) -> (Informer<Raw>, RawDriver, Recorder) {
    let texts = Recorder::default();
    let reported = texts.clone();
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .on_report(move |report| reported.note(report.to_string()))
        .build();
    (pods, driver, texts)
}

/// Waits with a time limit.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(secs(60), future).await.expect("it comes to an end")
}

#[tokio::test(start_paused = true)]
async fn s01_an_index_has_what_is_there_and_what_comes() {
    let mock = server_of(["a", "b"]);
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .index_with("node", node)
        .spawn();
    pods.synced().await.unwrap();
    let lister = pods.lister();
    let on = |index: &str, value: &str| names(&lister.by_index(index, value).unwrap());
    assert_eq!(on("node", "n1"), "a,b");
    mock.create("pods", pod("c", 2)).unwrap();
    mock.update("pods", pod("a", 2)).unwrap();
    settle().await;
    assert_eq!(
        (on("node", "n1"), on("node", "n2")),
        ("b".into(), "a,c".into())
    );

    pods.add_index("late", node).await.unwrap();
    assert_eq!(
        (on("late", "n1"), on("late", "n2")),
        ("b".into(), "a,c".into())
    );
    mock.delete("pods", "prod", "b").unwrap();
    mock.create("pods", pod("d", 3)).unwrap();
    settle().await;
    for index in ["node", "late"] {
        let mut values = lister.index_values(index);
        values.sort();
        assert_eq!(values, ["n2", "n3"]);
        assert_eq!(on(index, "n1"), "");
    }
}

/// Handlers with no period, 2 s, 3 s and the informer's 1 s are each notified only of their own resyncs, and no
/// request is sent.
#[tokio::test(start_paused = true)]
async fn r03_s02_each_handler_is_resynced_in_its_own_period() {
    resync_periods(Duration::ZERO).await;
}

/// The same with a driver that starts late.
#[tokio::test(start_paused = true)]
async fn s03_each_handler_is_resynced_in_its_own_period_after_a_late_start() {
    resync_periods(secs(1)).await;
}

async fn resync_periods(late: Duration) {
    let mock = server_of(["a"]);
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .resync(secs(1))
        .build();
    let handlers = [Some(0), Some(2), Some(3), None].map(|period| {
        let recorder = Recorder::default();
        let mut options = HandlerOptions::default();
        options.resync = period.map(secs);
        (pods.add_handler_with(&options, recorder.clone()), recorder)
    });
    sleep(late).await;
    tokio::spawn(driver.run());
    for (handle, recorder) in &handlers {
        soon(handle.synced()).await.expect("it runs");
        assert_eq!(recorder.take(), ["++a"]);
    }
    let heard = || {
        handlers
            .each_ref()
            .map(|(_, recorder)| recorder.take().concat())
    };
    sleep(Duration::from_millis(500)).await;
    let mark = mock.log().mark();
    let mut seconds = Vec::new();
    for second in 1..=6 {
        sleep(secs(1)).await;
        seconds.push((second, heard()));
    }
    let expected: Vec<_> = (1..=6)
        .map(|second| {
            let due = |period| if second % period == 0 { "=a" } else { "" };
            (second, ["", due(2), due(3), due(1)].map(ToOwned::to_owned))
        })
        .collect();
    assert_eq!(seconds, expected);
    assert_eq!(mock.log().since(mark).count(), 0);
}

/// Each handler has its own period, whatever the informer's is. (In client-go only before the informer starts.)
#[tokio::test(start_paused = true)]
async fn s04_a_period_does_not_depend_on_the_informers_own() {
    let mock = server_of(["a"]);
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .resync(secs(12 * 3600))
        .build();
    let add = |period: u64| {
        let recorder = Recorder::default();
        let options = HandlerOptions::default().resync(secs(period));
        let handle = pods.add_handler_with(&options, recorder.clone());
        (handle, recorder)
    };
    let mut handlers: Vec<_> = [0, 60, 55, 5].into_iter().map(add).collect();
    tokio::spawn(driver.run());
    soon(pods.synced()).await.unwrap();
    handlers.push(add(5));
    settle().await;
    handlers
        .iter()
        .for_each(|(_, recorder)| assert_eq!(recorder.take(), ["++a"]));
    sleep(secs(121)).await;
    let count: Vec<usize> = handlers
        .iter()
        .map(|(_, recorder)| recorder.take().len())
        .collect();
    assert_eq!(count, [0, 2, 2, 24, 24]);
}

/// Handlers added by other threads during the start of the driver miss nothing.
#[tokio::test(start_paused = true)]
async fn s05_handlers_may_join_while_the_driver_starts() {
    for _ in 0..20 {
        let mock = server_of(["a", "b"]);
        let (pods, driver) = informer(&mock);
        let joining: Vec<_> = (0..4)
            .map(|_| {
                let pods = pods.clone();
                tokio::task::spawn_blocking(move || {
                    let recorder = Recorder::default();
                    (pods.add_handler(recorder.clone()), recorder)
                })
            })
            .collect();
        let driver = tokio::spawn(driver.run());
        for joined in joining {
            let (handle, recorder) = joined.await.unwrap();
            soon(handle.synced()).await.unwrap();
            assert_eq!(recorder.sorted(), ["++a", "++b"]);
        }
        pods.stop();
        soon(driver).await.unwrap();
    }
}

/// Without a watch a Pod changes and another is created; then the watch cannot resume. Handlers are notified of these
/// two, and a handler that wants replays of all three.
#[tokio::test(start_paused = true)]
async fn s06_changes_during_a_disruption_are_notified() {
    let mock = server_of(["pod1", "pod2"]);
    let (pods, _driver) = spawn(&mock);
    let (plain, replayed, resynced) = (
        Recorder::default(),
        Recorder::default(),
        Recorder::default(),
    );
    pods.add_handler(plain.clone());
    pods.add_handler_with(&HandlerOptions::default().unchanged(true), replayed.clone());
    pods.add_handler_with(
        &HandlerOptions::default().resync(secs(60)),
        resynced.clone(),
    );
    soon(pods.synced()).await.unwrap();
    sleep(secs(5)).await;
    for recorder in [&plain, &replayed, &resynced] {
        assert_eq!(recorder.sorted(), ["++pod1", "++pod2"]);
    }
    mock.with(|server| {
        server.cut_watches();
        server.create("pods", pod("pod3", 1)).unwrap();
        server.update("pods", pod("pod2", 2)).unwrap();
        server.compact_all();
    });
    sleep(secs(10)).await;
    assert_eq!(plain.sorted(), ["+pod3", "~pod2"]);
    assert_eq!(replayed.sorted(), ["+pod3", "=pod1", "~pod2"]);
    assert_eq!(resynced.sorted(), ["+pod3", "~pod2"]);
    sleep(secs(60)).await;
    assert_eq!(plain.sorted(), [""; 0]);
    assert_eq!(resynced.sorted(), ["=pod1", "=pod2", "=pod3"]);
}

#[tokio::test(start_paused = true)]
async fn s07_a_list_that_fails_is_reported_within_a_second() {
    let mock = server();
    let denied = Fault::api_status(403, "Forbidden", "Access Denied").always();
    mock.with(|server| server.inject(denied));
    let (sender, report) = tokio::sync::oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .on_report(move |report| {
            let sender = sender.lock().expect("no test panics with it").take();
            if let Some(sender) = sender {
                let _ = sender.send((report.class(), report.to_string()));
            }
        })
        .build();
    tokio::spawn(driver.run());
    let (class, text) = timeout(secs(1), report).await.unwrap().unwrap();
    assert_eq!(class, "forbidden");
    assert!(text.contains("Access Denied"), "{text}");
    assert!(!pods.is_synced());
}

/// Indexes may be added by other tasks during the start of the driver, and are complete. (Transforms and the error
/// handler are passed to the builder, so there is no race.)
#[tokio::test(start_paused = true)]
async fn s08_indexes_may_join_while_the_driver_starts() {
    for _ in 0..20 {
        let mock = server_of(["a", "b", "c"]);
        let (pods, driver) = informer(&mock);
        let joining: Vec<_> = (0..4)
            .map(|number| {
                let pods = pods.clone();
                tokio::spawn(async move { pods.add_index(&format!("i{number}"), node).await })
            })
            .collect();
        let driver = tokio::spawn(driver.run());
        soon(pods.synced()).await.unwrap();
        for (number, joined) in joining.into_iter().enumerate() {
            joined.await.unwrap().unwrap();
            let found = pods.lister().by_index(&format!("i{number}"), "n1").unwrap();
            assert_eq!(found.len(), 3);
        }
        pods.stop();
        soon(driver).await.unwrap();
    }
}

/// An object's name in capitals.
struct Loud(String);

impl Form for Loud {
    type Stored = Self;
    type Decoder = ();
}

/// A decoder replaces the transform: everyone sees its result.
#[tokio::test(start_paused = true)]
async fn s09_handlers_and_indexes_get_the_decoded_objects() {
    let mock = server_of(["pod1", "pod2"]);
    let loud = |raw: &RawObject<'_>| {
        Ok::<_, core::convert::Infallible>(Loud(raw.name().to_string().to_uppercase()))
    };
    let (pods, driver) = Informer::<Loud>::builder_with(mock.transport(), PODS, loud)
        .index("loud", |pod: &Loud| [pod.0.clone()])
        .build();
    let names = Recorder::default();
    let heard = names.clone();
    pods.add_handler(Handlers::new().on_add(move |pod: &Entry<Loud>, _| heard.note(pod.0.clone())));
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    settle().await;
    assert_eq!(names.sorted(), ["POD1", "POD2"]);
    assert_eq!(
        pods.lister().by_index("loud", "POD2").unwrap()[0].name(),
        "pod2"
    );
}

#[tokio::test(start_paused = true)]
async fn s10_handlers_are_removed_one_by_one() {
    let mock = server();
    let (pods, _driver) = spawn(&mock);
    let (first, second) = (Recorder::default(), Recorder::default());
    let first_handle = pods.add_handler(first.clone());
    let second_handle = pods.add_handler(second.clone());
    soon(second_handle.synced()).await.unwrap();
    let mut who = Vec::new();
    for (name, handle) in [
        ("a", Some(first_handle)),
        ("b", Some(second_handle)),
        ("c", None),
    ] {
        mock.create("pods", pod(name, 1)).unwrap();
        settle().await;
        who.push((first.take().len(), second.take().len()));
        if let Some(handle) = handle {
            handle.remove();
            soon(handle.removed()).await;
        }
    }
    assert_eq!(who, [(1, 1), (0, 1), (0, 0)]);
    assert_eq!(pods.lister().len(), 3);
}

/// A handle belongs to its informer, so it removes nothing from another one.
#[tokio::test(start_paused = true)]
async fn s11_a_handle_removes_nothing_of_another_informer() {
    let (mock, other_mock) = (server(), server());
    let ((pods, _driver), (others, _other_driver)) = (spawn(&mock), spawn(&other_mock));
    let (mine, theirs) = (Recorder::default(), Recorder::default());
    let handle = pods.add_handler(mine.clone());
    let their_handle = others.add_handler(theirs.clone());
    soon(handle.synced()).await.unwrap();
    soon(their_handle.synced()).await.unwrap();
    handle.remove();
    soon(handle.removed()).await;
    mock.create("pods", pod("a", 1)).unwrap();
    other_mock.create("pods", pod("b", 1)).unwrap();
    settle().await;
    assert_eq!(
        (mine.take(), theirs.take()),
        (vec![], vec!["+b".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn s12_the_same_handler_registered_twice() {
    let mock = server_of(["a"]);
    let (pods, _driver) = spawn(&mock);
    let recorder = Recorder::default();
    let first = pods.add_handler(recorder.clone());
    let second = pods.add_handler(recorder.clone());
    soon(first.synced()).await.unwrap();
    soon(second.synced()).await.unwrap();
    assert_eq!(recorder.take(), ["++a", "++a"]);
    first.remove();
    soon(first.removed()).await;
    mock.create("pods", pod("b", 1)).unwrap();
    settle().await;
    assert_eq!(recorder.take(), ["+b"]);
}

#[tokio::test(start_paused = true)]
async fn s13_removing_twice_is_no_error() {
    let mock = server_of(["a"]);
    let (pods, driver) = spawn(&mock);
    let (removed, stays) = (Recorder::default(), Recorder::default());
    let handle = pods.add_handler(removed);
    let other = pods.add_handler(stays.clone());
    soon(handle.synced()).await.unwrap();
    soon(other.synced()).await.unwrap();
    for _ in 0..2 {
        handle.remove();
        soon(handle.removed()).await;
    }
    mock.create("pods", pod("b", 1)).unwrap();
    settle().await;
    assert_eq!(stays.take(), ["++a", "+b"]);
    pods.stop();
    soon(driver).await.unwrap();
    handle.remove();
}

/// A hundred handlers join and leave repeatedly, from tasks and threads, during a thousand changes and then a stop.
/// Each of them receives a consistent sequence.
#[tokio::test(start_paused = true)]
async fn s14_handlers_that_come_and_go_in_a_crowd() {
    #[derive(Clone, Default)]
    struct Checker {
        known: BTreeMap<String, String>,
        wrong: Arc<AtomicUsize>,
    }
    impl Checker {
        fn check(&self, right: bool) {
            self.wrong.fetch_add(usize::from(!right), Ordering::Relaxed);
        }
    }
    impl EventHandler<Raw> for Checker {
        fn on_add(&mut self, entry: &Entry<Raw>, _: bool) {
            let version = entry.resource_version().to_string();
            let known = self.known.insert(entry.key().to_string(), version);
            self.check(known.is_none());
        }
        fn on_update(&mut self, old: &Entry<Raw>, new: &Entry<Raw>) {
            let version = new.resource_version().to_string();
            let known = self.known.insert(new.key().to_string(), version);
            self.check(known == Some(old.resource_version().to_string()));
        }
        fn on_delete(&mut self, entry: &Entry<Raw>, _: bool) {
            let known = self.known.remove(entry.key().as_str());
            self.check(known.is_some());
        }
    }

    let mock = server_of(["a", "b"]);
    let (pods, driver) = spawn(&mock);
    let checker = Checker::default();
    let tasks: Vec<_> = (0..96)
        .map(|number| {
            let (pods, checker) = (pods.clone(), checker.clone());
            tokio::spawn(async move {
                for round in 0..20 {
                    let options = HandlerOptions::default().backlog(1 + number);
                    let handle = pods.add_handler_with(&options, checker.clone());
                    if (number + round) % 3 == 0 {
                        tokio::task::yield_now().await;
                    } else {
                        let _ = handle.synced().await;
                    }
                    handle.remove();
                    handle.removed().await;
                }
            })
        })
        .collect();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (pods, checker) = (pods.clone(), checker.clone());
            tokio::task::spawn_blocking(move || {
                for _ in 0..50 {
                    let handle = pods.add_handler(checker.clone());
                    std::thread::yield_now();
                    handle.remove();
                }
            })
        })
        .collect();
    for round in 0..1000 {
        let name = format!("p{}", round % 7);
        if round % 3 == 2 {
            let _ = mock.delete("pods", "prod", &name);
        } else {
            mock.put("pods", pod(&name, round)).unwrap();
        }
        if round % 10 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for task in tasks.into_iter().chain(threads) {
        soon(task).await.unwrap();
    }
    pods.stop();
    soon(driver).await.unwrap();
    assert_eq!(checker.wrong.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn s15_an_informer_that_was_synced_stays_so_when_it_has_ended() {
    let mock = server_of(["a"]);
    let (pods, driver) = informer(&mock);
    let state = || {
        let health = pods.health();
        (health.synced, health.ended)
    };
    assert_eq!(state(), (false, false));
    let driver = tokio::spawn(driver.run());
    soon(pods.synced()).await.unwrap();
    assert_eq!(state(), (true, false));
    pods.stop();
    soon(driver).await.unwrap();
    assert_eq!(state(), (true, true));
    pods.synced().await.unwrap();
    soon(pods.ended()).await;
}

/// A handler added to an informer that has ended is not called, and its handle reports the end.
#[tokio::test(start_paused = true)]
async fn s16_a_handler_added_after_the_end_is_notified_that_it_is_over() {
    let mock = server_of(["a"]);
    let (pods, driver) = spawn(&mock);
    soon(pods.synced()).await.unwrap();
    let before = pods.add_handler(Recorder::default());
    pods.stop();
    soon(driver).await.unwrap();
    let recorder = Recorder::default();
    let handle = pods.add_handler(recorder.clone());
    assert!(soon(handle.synced()).await.is_err());
    assert!(!handle.is_synced());
    for handle in [before, handle] {
        handle.remove();
        soon(handle.removed()).await;
        assert_eq!(handle.lag().pending, 0);
    }
    assert_eq!(recorder.take(), [""; 0]);
    assert_eq!(
        Arc::strong_count(&recorder.heard),
        1,
        "the handler is dropped"
    );
}

#[tokio::test(start_paused = true)]
async fn s17_a_handler_removed_while_active_is_not_notified_again() {
    let mock = server();
    let (pods, _driver) = spawn(&mock);
    let recorder = Recorder::default();
    let handle = pods.add_handler(recorder.clone());
    soon(handle.synced()).await.unwrap();
    mock.create("pods", pod("a", 1)).unwrap();
    settle().await;
    assert_eq!(recorder.take(), ["+a"]);
    handle.remove();
    mock.create("pods", pod("b", 1)).unwrap();
    sleep(secs(10)).await;
    assert_eq!(recorder.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn s18_a_handler_added_while_active_gets_what_is_there_and_what_comes() {
    let mock = server_of(["a"]);
    let (pods, _driver) = spawn(&mock);
    let (first, second) = (Recorder::default(), Recorder::default());
    let first_handle = pods.add_handler(first.clone());
    soon(first_handle.synced()).await.unwrap();
    let handle = pods.add_handler(second.clone());
    assert!(!handle.is_synced(), "nothing was processed yet");
    mock.create("pods", pod("b", 1)).unwrap();
    soon(handle.synced()).await.unwrap();
    assert!(handle.is_synced());
    settle().await;
    assert_eq!(second.take(), ["++a", "+b"]);
    assert_eq!(first.take(), ["++a", "+b"]);
    assert!(first_handle.is_synced());
}

/// Nothing remains after the end: no task, no handler, no open answer. This holds with handlers added before and
/// after the start of the driver, and without a driver.
#[tokio::test(start_paused = true)]
async fn s19_nothing_is_left_after_the_end() {
    for (before, after, runs) in [
        (true, false, true),
        (false, true, true),
        (true, false, false),
    ] {
        let mock = server_of(["a"]);
        let recorder = Recorder::default();
        let (pods, driver) = informer(&mock);
        let mut handles: Vec<HandlerHandle<Raw>> = Vec::new();
        if before {
            handles.push(pods.add_handler(recorder.clone()));
        }
        if runs {
            let driver = tokio::spawn(driver.run());
            soon(pods.synced()).await.unwrap();
            if after {
                handles.push(pods.add_handler(recorder.clone()));
            }
            settle().await;
            pods.stop();
            soon(driver).await.unwrap();
        } else {
            drop(driver);
        }
        for handle in &handles {
            soon(handle.removed()).await;
        }
        soon(pods.ended()).await;
        assert_eq!(
            Arc::strong_count(&recorder.heard),
            1,
            "the handler is dropped"
        );
        assert_eq!(recorder.take(), if runs { vec!["++a"] } else { vec![] });
        assert_eq!(mock.with(FakeServer::open_responses), (0, 0));
        let tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        assert_eq!(tasks, 0, "no task is left");
    }
}

/// Panics are confined to their handlers and reported with the handlers' names. There is no pause of a second after
/// each, unlike in client-go, and the handlers become synced.
#[tokio::test(start_paused = true)]
async fn s20_panics_stay_in_their_handlers() {
    let mock = server_of(["a", "b", "c", "d", "e"]);
    let (pods, driver, texts) = telling(&mock);
    let handles = ["one", "two"].map(|name| {
        let options = HandlerOptions::default().name(name);
        pods.add_handler_with(
            &options,
            Handlers::<Raw>::new().on_add(|_, _| panic!("on purpose")),
        )
    });
    tokio::spawn(driver.run());
    for handle in handles {
        timeout(Duration::from_millis(100), handle.synced())
            .await
            .unwrap()
            .unwrap();
    }
    let texts = texts.take();
    let of = |name: &str| format!("handler: handler {name} panicked");
    for name in ["one", "two"] {
        let panics = texts.iter().filter(|text| text.starts_with(&of(name)));
        assert_eq!(panics.count(), 5, "{texts:?}");
    }
    assert_eq!(texts.len(), 10);
}

/// `remove` does not wait for a running call, so it can be called within it.
#[tokio::test(start_paused = true)]
async fn s21_removal_does_not_wait_for_a_call_under_way() {
    let mock = server_of(["a", "b", "c"]);
    let (pods, driver) = informer(&mock);
    let own: Arc<Mutex<Option<HandlerHandle<Raw>>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let handle = pods.add_handler({
        let (own, calls) = (Arc::clone(&own), Arc::clone(&calls));
        Handlers::<Raw>::new().on_add(move |_, _| {
            if let Some(own) = own.lock().expect("no test panics with it").as_ref() {
                own.remove();
            }
            calls.fetch_add(1, Ordering::Relaxed);
        })
    });
    *own.lock().unwrap() = Some(handle);
    tokio::spawn(driver.run());
    soon(pods.synced()).await.unwrap();
    settle().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let handle = own.lock().unwrap().take().unwrap();
    soon(handle.removed()).await;
    assert!(soon(handle.synced()).await.is_err());
}

/// `removed` waits for a running call,
#[test]
fn s22_the_end_of_a_removed_handler_is_waited_for() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mock = server_of(["a"]);
        let (pods, _driver) = spawn(&mock);
        let (entered, called) = tokio::sync::oneshot::channel();
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let mut entered = Some(entered);
        let done = Arc::new(AtomicUsize::new(0));
        let handle = pods.add_handler({
            let done = Arc::clone(&done);
            Handlers::<Raw>::new().on_add(move |_, _| {
                let _ = entered.take().map(|entered| entered.send(()));
                let _ = wait.recv();
                done.store(1, Ordering::SeqCst);
            })
        });
        called.await.unwrap();
        handle.remove();
        {
            let mut removed = core::pin::pin!(handle.removed());
            let still = core::future::poll_fn(|cx| {
                core::task::Poll::Ready(removed.as_mut().poll(cx).is_pending())
            });
            assert!(still.await, "the call is under way");
            assert_eq!(done.load(Ordering::SeqCst), 0);
            go_on.send(()).unwrap();
            removed.await;
        }
        assert_eq!(done.load(Ordering::SeqCst), 1);
    });
}

/// and returns at once for a handler that never started.
#[tokio::test(start_paused = true)]
async fn s22_a_handler_that_never_began_is_removed_at_once() {
    let mock = server_of(["a"]);
    let (pods, driver) = informer(&mock);
    let recorder = Recorder::default();
    let handle = pods.add_handler(recorder.clone());
    handle.remove();
    soon(handle.removed()).await;
    assert!(soon(handle.synced()).await.is_err());

    // Added, then started; started, then added.
    let before = pods.add_handler(recorder.clone());
    tokio::spawn(driver.run());
    soon(before.synced()).await.unwrap();
    let after = pods.add_handler(recorder.clone());
    soon(after.synced()).await.unwrap();
    for handle in [before, after] {
        handle.remove();
        soon(handle.removed()).await;
    }
    assert_eq!(recorder.take(), ["++a", "++a"]);
    mock.create("pods", pod("b", 1)).unwrap();
    settle().await;
    assert_eq!(recorder.take(), [""; 0]);
    assert_eq!(Arc::strong_count(&recorder.heard), 1);
}

/// Waiting for several informers yields the result of each: synced already, synced later, timed out, ended.
#[tokio::test(start_paused = true)]
async fn s23_waiting_for_several_names_each() {
    let mocks = [(); 4].map(|()| server_of(["a"]));
    mocks[1].with(|server| server.inject(Fault::delay(secs(5))));
    let refusal = Fault::api_status(500, "InternalError", "etcd is not there").always();
    mocks[2].with(|server| server.inject(refusal));
    let informers = mocks.each_ref().map(spawn);
    informers[3].1.abort();
    let began = tokio::time::Instant::now();
    let waits = informers
        .iter()
        .map(|(pods, _)| pods.synced_within(secs(20)));
    let mut results = Vec::new();
    for wait in waits {
        results.push(wait.await);
    }
    assert_eq!(
        began.elapsed().as_secs(),
        25,
        "5 s for the second, 20 s for the third"
    );
    assert_eq!(results[0], Ok(()));
    assert_eq!(results[1], Ok(()));
    let text = results[2].as_ref().unwrap_err().to_string();
    for part in ["pods", "20s", "etcd is not there"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(matches!(results[3], Err(StillUnsynced::Ended(_))));
}

/// Handlers and informers are named by the user; reports contain the names.
#[tokio::test(start_paused = true)]
async fn s24_reports_have_the_name_of_the_handler() {
    let mock = server_of(["a", "b"]);
    let (pods, driver, texts) = telling(&mock);
    let named = pods.add_handler_with(
        &HandlerOptions::default().name("load-balancer"),
        texts.clone(),
    );
    let unnamed = pods.add_handler(texts.clone());
    tokio::spawn(driver.run());
    // They are removed before their first event.
    soon(pods.synced()).await.unwrap();
    let late = pods.add_handler_with(&HandlerOptions::default().name("late"), Handlers::new());
    late.remove();
    assert_eq!(
        texts
            .sorted()
            .iter()
            .filter(|text| !text.starts_with('+'))
            .collect::<Vec<_>>(),
        ["handler: handler late was stopped with 3 undelivered notifications"]
    );
    named.remove();
    unnamed.remove();
}

/// Each callback is optional.
#[tokio::test(start_paused = true)]
async fn s26_callbacks_may_be_left_out() {
    let mock = server_of(["a"]);
    let (pods, _driver) = spawn(&mock);
    let heard = Recorder::default();
    let note = |sign: &'static str| {
        let heard = heard.clone();
        move |name: &str| heard.note(format!("{sign}{name}"))
    };
    let (add, update, delete) = (note("+"), note("~"), note("-"));
    let handles = [
        pods.add_handler(Handlers::new()),
        pods.add_handler(Handlers::<Raw>::new().on_add(move |pod, _| add(pod.name()))),
        pods.add_handler(Handlers::<Raw>::new().on_update(move |_, pod| update(pod.name()))),
        pods.add_handler(Handlers::<Raw>::new().on_delete(move |pod, _| delete(pod.name()))),
    ];
    for handle in &handles {
        soon(handle.synced()).await.unwrap();
    }
    mock.update("pods", pod("a", 2)).unwrap();
    mock.delete("pods", "prod", "a").unwrap();
    settle().await;
    assert_eq!(heard.sorted(), ["+a", "-a", "~a"]);
}

/// Unchanged objects of a relist without a resync are replayed to the handlers that want them; with the option for
/// client-go's behaviour, to all.
#[tokio::test(start_paused = true)]
async fn x01_unchanged_objects_of_a_relist_are_notified_on_request() {
    for client_go in [false, true] {
        let mock = server_of(["a"]);
        let builder = Informer::<Raw>::builder_for(&mock.transport(), PODS).initial(Initial::List);
        let pods = if client_go {
            builder.client_go()
        } else {
            builder
        }
        .spawn();
        let (plain, asks) = (Recorder::default(), Recorder::default());
        pods.add_handler(plain.clone());
        pods.add_handler_with(&HandlerOptions::default().unchanged(true), asks.clone());
        soon(pods.synced()).await.unwrap();
        sleep(secs(5)).await;
        mock.with(|server| {
            server.cut_watches();
            server.compact_all();
        });
        sleep(secs(10)).await;
        mock.log().assert_count_since(1, Verb::List, 1);
        assert_eq!(
            plain.take(),
            if client_go {
                vec!["++a", "=a"]
            } else {
                vec!["++a"]
            }
        );
        assert_eq!(asks.take(), ["++a", "=a"]);
    }
}

/// Events pending for a handler that is removed are dropped, as in client-go, and reported.
#[tokio::test(start_paused = true)]
async fn x07_notifications_pending_at_removal_are_dropped_and_reported() {
    let mock = server_of(["a", "b", "c"]);
    let (pods, driver, texts) = telling(&mock);
    tokio::spawn(driver.run());
    soon(pods.synced()).await.unwrap();
    let recorder = Recorder::default();
    let handle = pods.add_handler(recorder.clone());
    assert_eq!(
        handle.lag().pending,
        4,
        "three pods, and the word that it is synced"
    );
    handle.remove();
    soon(handle.removed()).await;
    assert_eq!(recorder.take(), [""; 0]);
    assert_eq!(
        texts.take(),
        ["handler: handler handler was stopped with 4 undelivered notifications"]
    );
}

/// A handler that joins before the first list is complete is not notified of the part received, and is not synced.
/// (client-go notifies it of that part.)
#[tokio::test(start_paused = true)]
async fn x14_a_late_handler_of_an_informer_that_is_not_synced_is_not_synced() {
    let mock = server_of(["a", "b", "c"]);
    let stuck = Fault::nothing().cut_after_events(2).silently();
    mock.with(|server| server.inject(stuck.on(Verb::List)));
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .initial(Initial::List)
        .spawn();
    sleep(secs(5)).await;
    let recorder = Recorder::default();
    let handle = pods.add_handler(recorder.clone());
    settle().await;
    assert_eq!(pods.lister().len(), 2, "readers see the part");
    assert!(!handle.is_synced() && !pods.is_synced());
    assert_eq!(recorder.take(), [""; 0]);
    // The list is given up after a minute of silence.
    sleep(secs(120)).await;
    assert!(handle.is_synced());
    assert_eq!(recorder.sorted(), ["++a", "++b", "++c"]);
}
