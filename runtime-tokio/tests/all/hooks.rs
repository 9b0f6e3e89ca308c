//! What user-defined functions may do, and which guarantees hold when they are called.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt as _;
use informer_core::decode::Accept;
use informer_mock::{Fault, Verb, json};
use informer_tokio::decode::{Decode, Decoder, RawObject};
use informer_tokio::handler::{AsyncHandlers, HandlerOptions};
use informer_tokio::health::{Report, State};
use informer_tokio::transport::{Get, Head, Transport};
use informer_tokio::{Entry, Event, Handlers, Informer, Raw, Subscription};
use tokio::time::sleep;

use crate::support::{PODS, numbered, pod, server_of, start};

/// The hook runs between the notification of listeners and the update that tasks wait for, as a listener on another
/// thread sometimes does.
#[tokio::test(start_paused = true)]
async fn a_listener_notified_of_synced_reads_the_synced_version() {
    let mock = server_of(["web"]);
    type Reader = (Informer<Raw>, Mutex<Subscription<Raw>>);
    let reader: Arc<OnceLock<Reader>> = Arc::default();
    let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
    let (hook_reader, hook_seen) = (Arc::clone(&reader), Arc::clone(&seen));
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .seed(1)
        .on_version(move |_| {
            let (pods, events) = hook_reader.get().unwrap();
            while let Some(Some(event)) = events.lock().unwrap().recv().now_or_never() {
                if matches!(event, Event::Synced) {
                    let health = pods.health();
                    let mut seen = hook_seen.lock().unwrap();
                    seen.push((pods.resource_version(), pods.is_synced()));
                    seen.push((health.resource_version, health.synced));
                }
            }
        })
        .build();
    let events = Mutex::new(pods.subscribe());
    assert!(reader.set((pods.clone(), events)).is_ok());
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    let version = pods.resource_version();
    assert!(!version.is_empty());
    assert_eq!(
        *seen.lock().unwrap(),
        [(version.clone(), true), (version, true)]
    );
}

/// Panics without a message on the terminal.
fn fail() -> ! {
    std::panic::resume_unwind(Box::new("as planned"))
}

/// Decodes into bytes, and panics if an object or the type of the test requests it.
#[derive(Clone, Copy)]
struct Picky {
    accepts: bool,
}

impl Decode for Picky {
    type Value = Raw;
    type Error = core::convert::Infallible;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Raw, Self::Error> {
        if raw.json().windows(5).any(|part| part == b"panic") {
            fail();
        }
        Decoder::<Raw>::new().decode(raw)
    }

    fn accept(&self) -> Accept {
        if !self.accepts {
            fail();
        }
        Decoder::<Raw>::new().accept()
    }
}

const PICKY: Picky = Picky { accepts: true };

type Classes = Arc<Mutex<Vec<String>>>;

/// A hook that records the class and the text of each report.
fn recorder(classes: &Classes) -> impl Fn(&Report<'_>) + Send + Sync + 'static {
    let classes = Arc::clone(classes);
    move |report| {
        let line = format!("{}: {report}", report.class());
        classes.lock().unwrap().push(line);
    }
}

/// Returns the number of reports of a class.
fn count(classes: &Classes, class: &str) -> usize {
    let classes = classes.lock().unwrap();
    classes
        .iter()
        .filter(|line| line.starts_with(class))
        .count()
}

async fn settle() {
    sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn ended_returns_after_handlers_have_what_is_pending() {
    let mock = server_of(numbered(20));
    let pods = start(&mock);
    pods.synced().await.unwrap();
    let counts: [Arc<AtomicUsize>; 4] = Default::default();
    let [direct, panicking, slow, blocking] = counts.clone();
    let count = |count: Arc<AtomicUsize>| {
        move |_: &Entry<Raw>, _: bool| {
            count.fetch_add(1, Relaxed);
        }
    };
    let mut unread = pods.subscribe();
    pods.add_handler(Handlers::new().on_add(count(direct)));
    pods.add_handler(Handlers::new().on_add(move |_, _| {
        panicking.fetch_add(1, Relaxed);
        fail();
    }));
    pods.add_async_handler(AsyncHandlers::new().on_add(move |_, _| {
        let slow = Arc::clone(&slow);
        async move {
            sleep(Duration::from_millis(100)).await;
            slow.fetch_add(1, Relaxed);
        }
    }));
    let options = HandlerOptions::default().blocking(true);
    pods.add_handler_with(&options, Handlers::new().on_add(count(blocking)));
    pods.stop();
    pods.ended().await;
    assert_eq!(counts.map(|count| count.load(Relaxed)), [20; 4]);
    // A subscription without a reader does not delay the end, and keeps the pending events.
    let mut left = 0;
    while unread.recv().await.is_some() {
        left += 1;
    }
    assert_eq!(left, 21, "20 objects and the end of the first state");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_returns_delays_the_end_by_the_drain_at_most() {
    let mock = server_of(["web-1", "web-2", "web-3"]);
    let classes = Classes::default();
    let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .drain(Duration::from_secs(5))
        .on_report(recorder(&classes))
        .build();
    let options = HandlerOptions::default().name("stuck");
    let bomb = Bomb;
    let stuck = AsyncHandlers::new().on_add(move |_, _| {
        let _ = &bomb;
        core::future::pending()
    });
    pods.add_async_handler_with(&options, stuck);
    tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    let began = tokio::time::Instant::now();
    pods.stop();
    sleep(Duration::from_secs(2)).await;
    pods.stop();
    let health = pods.health();
    assert_eq!(
        (health.state, health.state_age.as_secs()),
        (State::Stopping, 2)
    );
    pods.ended().await;
    assert_eq!(began.elapsed().as_secs(), 5);
    // With the end of the first state.
    let left = "undelivered: handler: handler stuck was stopped with 4 undelivered notifications";
    assert_eq!(count(&classes, left), 1, "{classes:?}");
    let dropped = "hook-panicked: driver: the `Drop` of a handler panicked: as planned";
    assert_eq!(count(&classes, dropped), 1, "{classes:?}");
}

/// It panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        fail();
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_user_code_is_reported_and_the_informer_goes_on() {
    for (hook, class, reports) in [
        (
            "on_report",
            "hook-panicked: driver: `on_report` panicked: as planned",
            1..=1,
        ),
        (
            "on_version",
            "hook-panicked: driver: `on_version` panicked: as planned",
            1..=1,
        ),
        ("on_report, on_version", "hook-panicked", 2..=2),
        // A relist calls them again.
        ("index", "index-panicked", 3..=9),
        ("decoder", "undecodable", 2..=9),
        (
            "transport",
            "transport: watch: the transport panicked: as planned",
            1..=1,
        ),
    ] {
        let mock = server_of(["first"]);
        let classes = Classes::default();
        let note = recorder(&classes);
        let armed = Arc::new(AtomicBool::new(false));
        let transport = Panicking {
            inner: mock.transport(),
            armed: Arc::clone(&armed),
        };
        let (pods, driver) = Informer::<Raw>::builder_with(transport, PODS, PICKY)
            .seed(1)
            .index_with("all", move |_, _| {
                if hook == "index" {
                    fail();
                }
            })
            .on_report(move |report| {
                note(report);
                if hook.contains("on_report") {
                    fail();
                }
            })
            .on_version(move |_| {
                if hook.contains("on_version") {
                    fail();
                }
            })
            .build();
        tokio::spawn(driver.run());
        pods.synced_within(Duration::from_secs(60))
            .await
            .expect(hook);
        if hook == "decoder" {
            let mut object = pod("first", 1);
            object["metadata"]["labels"] = json!({ "do": "panic" });
            mock.update("pods", object.clone()).unwrap();
            object["metadata"]["name"] = json!("new");
            mock.create("pods", object).unwrap();
        }
        armed.store(hook == "transport", Relaxed);
        mock.with(|server| {
            server.inject(Fault::status(500, "{}").on(Verb::Watch));
            server.cut_watches();
        });
        settle().await;
        mock.create("pods", pod("second", 1)).unwrap();
        mock.create("pods", pod("third", 1)).unwrap();
        settle().await;
        let seen = pods.lister().len();
        assert_eq!(seen, 3, "{hook}: the cache is kept up to date");
        assert!(
            reports.contains(&count(&classes, class)),
            "{hook}: {classes:?}"
        );
        let health = pods.health();
        let stale: &[&str] = if hook == "decoder" {
            &["prod/first"]
        } else {
            &[]
        };
        assert_eq!(
            (health.ended, health.stale),
            (false, stale.iter().map(ToString::to_string).collect()),
            "{hook}"
        );
    }
}

/// A transport that panics once in `send`.
#[derive(Clone)]
struct Panicking<T> {
    inner: T,
    armed: Arc<AtomicBool>,
}

impl<T: Transport> Transport for Panicking<T> {
    type Body = T::Body;
    type Error = T::Error;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, T::Body), T::Error> {
        if self.armed.swap(false, Relaxed) {
            fail();
        }
        self.inner.send(get).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_ends_without_a_stop_is_reported_and_seen_in_health() {
    for (end, reason) in [
        ("abort", "its future was dropped"),
        ("never run", "its future was dropped"),
        ("panic", "it panicked: as planned"),
        ("stop", ""),
    ] {
        let mock = server_of(["web", "db"]);
        let classes = Classes::default();
        let decode = Picky {
            accepts: end != "panic",
        };
        let (pods, driver) = Informer::<Raw>::builder_with(mock.transport(), PODS, decode)
            .on_report(recorder(&classes))
            .build();
        let mut events = pods.subscribe();
        if end == "never run" {
            let handle = pods.add_handler(Handlers::new());
            handle.remove();
            handle.removed().now_or_never().expect("it never began");
            drop(driver);
        } else {
            let task = tokio::spawn(driver.run());
            settle().await;
            match end {
                "abort" => abort_in_a_call(&pods, &task).await,
                "stop" => pods.stop(),
                _ => {}
            }
            assert_eq!(
                task.await.is_err_and(|error| error.is_panic()),
                end == "panic"
            );
        }
        pods.ended().await;
        while events.recv().await.is_some() {}
        let health = pods.health();
        assert!(
            health.ended && pods.synced().await.is_ok() == health.synced,
            "{end}"
        );
        let error = health
            .last_error
            .map(|error| (error.class, error.message.contains(reason)));
        let expected = usize::from(end != "stop");
        assert_eq!(
            error,
            (expected > 0).then_some(("driver-ended", true)),
            "{end}"
        );
        assert_eq!(
            count(&classes, "driver-ended"),
            expected,
            "{end}: {classes:?}"
        );
    }
}

/// Drops the driver during a call of a blocking handler, which is the last one.
async fn abort_in_a_call(pods: &Informer<Raw>, driver: &tokio::task::JoinHandle<()>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let (release, released) = std::sync::mpsc::channel::<()>();
    let counted = Arc::clone(&calls);
    let handler = Handlers::<Raw>::new().on_add(move |_, _| {
        counted.fetch_add(1, Relaxed);
        // It fails when the test has gone on.
        let _ = released.recv();
    });
    let options = HandlerOptions::default().blocking(true);
    let handle = pods.add_handler_with(&options, handler);
    while calls.load(Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    driver.abort();
    pods.ended().await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    drop(release);
    handle.removed().await;
    assert_eq!(calls.load(Relaxed), 1);
}
