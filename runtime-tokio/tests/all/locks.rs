//! Code under locks, and how long the driver occupies the thread.

use core::convert::Infallible;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, OnceLock, mpsc};

use informer_core::Form;
use informer_tokio::decode::RawObject;
use informer_tokio::handler::{EventHandler, HandlerOptions};
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Lister, Raw};

use crate::batches::{OnePiece, event};
use crate::support::PODS;

const SYNCED: &str = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"20000","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

/// An object whose `Drop` reads the cache that it is in.
struct Curious {
    lister: Arc<OnceLock<Lister<Self>>>,
    drops: Arc<AtomicUsize>,
}

impl Form for Curious {
    type Stored = Self;
    type Decoder = ();
}

impl Drop for Curious {
    fn drop(&mut self) {
        if let Some(lister) = self.lister.get() {
            let _ = (lister.len(), lister.get_by_key("a/p1"));
        }
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

/// Replaced, deleted, replayed and coalesced objects, and those that a listener leaves behind, are dropped outside of
/// the locks. Otherwise the drop would wait for a lock that its own thread holds.
#[test]
fn the_drop_of_an_object_may_ask_the_cache() {
    for listeners in 0..3 {
        let (done, finished) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            done.send(runtime.block_on(ask_while_dropping(listeners)))
        });
        let drops = finished.recv_timeout(Duration::from_secs(60));
        let drops = drops.expect("no object waits for a lock of its own thread");
        assert!(drops >= 40, "{drops} drops");
    }
}

async fn ask_while_dropping(listeners: usize) -> usize {
    let lister = Arc::new(OnceLock::new());
    let drops = Arc::new(AtomicUsize::new(0));
    let mut text: String = (0..10).map(|i| event("ADDED", i, i + 1)).collect();
    text.push_str(SYNCED);
    text.push('\n');
    for round in 0..4 {
        for i in 0..10 {
            let version = 20_001 + 20 * round + 2 * i;
            text.push_str(&event("MODIFIED", i, version));
            // Another event with the same state is dropped as well.
            text.push_str(&event("MODIFIED", i, version));
            text.push_str(&event(["MODIFIED", "DELETED"][i % 2], i, version + 1));
        }
    }
    text.push_str(&event("MODIFIED", 0, 30_000));
    let transport = OnePiece {
        text: Some(text),
        ends: false,
    };
    let (to_objects, counted) = (Arc::clone(&lister), Arc::clone(&drops));
    let decode = move |_: &RawObject<'_>| {
        Ok::<_, Infallible>(Curious {
            lister: Arc::clone(&to_objects),
            drops: Arc::clone(&counted),
        })
    };
    let (pods, driver) = Informer::builder_with(transport, PODS, decode)
        .initial(Initial::Stream)
        .build();
    assert!(lister.set(pods.lister()).is_ok());
    let options = HandlerOptions::default().resync(Duration::from_secs(60));
    // One listener never reads and has its backlog coalesced, and one reads everything.
    let slow = (listeners > 0).then(|| pods.subscribe_with(&options.clone().backlog(1)));
    let mut quick = (listeners > 1).then(|| pods.subscribe_with(&options));
    let driver = tokio::spawn(driver.run());
    pods.wait_until("30000").await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    while let Some(quick) = &mut quick
        && quick.lag().pending > 0
    {
        quick.recv().await;
    }
    pods.add_index("any", |_, value| value("x")).await.unwrap();
    drop((slow, quick));
    pods.stop();
    driver.await.unwrap();
    let counted = drops.load(Ordering::Relaxed);
    // The cache is dropped without a lock, and reads no more.
    drop(pods);
    counted
}

struct Ignore;

impl EventHandler<Raw> for Ignore {}

/// A sweep, a resync and a new index repeatedly release the lock and the thread.
#[tokio::test(start_paused = true)]
async fn long_work_is_done_in_pieces() {
    // Between two polls of the future of a test, the runtime polls many tasks; between two polls of a task, each other
    // task once.
    tokio::spawn(watch_long_work()).await.unwrap();
}

async fn watch_long_work() {
    const OBJECTS: usize = 12_000;
    /// The driver may be polled a few times before another task is, and takes at most 1,024 steps under one lock.
    const AT_ONCE: usize = 8 * 1024;
    let mut text: String = (0..OBJECTS).map(|i| event("ADDED", i, i + 1)).collect();
    text.push_str(SYNCED);
    text.push('\n');
    let transport = OnePiece {
        text: Some(text),
        ends: false,
    };
    let (pods, driver) = Informer::<Raw>::builder_for(&transport, PODS)
        .initial(Initial::Stream)
        .decoders(0)
        .build();
    let options = HandlerOptions::default()
        .resync(Duration::from_secs(60))
        .backlog(usize::MAX);
    let handler = pods.add_handler_with(&options, Ignore);
    let driver = tokio::spawn(driver.run());
    for _ in 0..2 {
        let (mut most, mut seen) = (0, false);
        loop {
            let before = handler.lag().pending;
            tokio::task::yield_now().await;
            let after = handler.lag().pending;
            most = most.max(after.saturating_sub(before));
            seen |= after > 0;
            if seen && after == 0 && pods.is_synced() {
                break;
            }
        }
        assert!(most < AT_ONCE, "{most} of {OBJECTS} at once");
        // A timer is rounded up to its next millisecond.
        tokio::time::advance(Duration::from_secs(61)).await;
    }

    let calls = Arc::new(AtomicUsize::new(0));
    let adding = {
        let (pods, calls) = (pods.clone(), Arc::clone(&calls));
        tokio::spawn(async move {
            let counted = move |_: &Raw, value: &mut dyn FnMut(&str)| {
                calls.fetch_add(1, Ordering::Relaxed);
                value("x");
            };
            pods.add_index("any", counted).await
        })
    };
    let mut most = 0;
    while !adding.is_finished() {
        let before = calls.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        let after = calls.load(Ordering::Relaxed);
        most = most.max(after - before);
        if after > 0 && after < OBJECTS {
            let asked = pods.lister().by_index("any", "x").err();
            assert_eq!(asked, Some(informer_tokio::informer::IndexError::Building));
        }
    }
    adding.await.unwrap().unwrap();
    assert!(most <= 512, "{most} at once");
    assert_eq!(calls.load(Ordering::Relaxed), OBJECTS);
    let found = pods.lister().by_index("any", "x").unwrap();
    assert_eq!(found.len(), OBJECTS);
    driver.abort();
}
