//! Handlers: filters, async and blocking handlers, lag, many handlers, and one that is stuck for a minute.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_mock::json;
use informer_tests::support::{
    Heard, PATIENCE, PODS, Recorder, informer, pod, secs, server, server_of, settle, shown, start,
};
use informer_tokio::handler::{AsyncHandlers, EventHandler, Filter, HandlerOptions};
use informer_tokio::informer::wait_for_sync;
use informer_tokio::{Entry, Handlers, Informer, Raw};
use tokio::time::{Instant, sleep, timeout};

fn is_on_n1(pod: &Entry<Raw>) -> bool {
    pod.string_at(&["spec", "nodeName"]).as_deref() == Some("n1")
}

fn take(heard: &Heard) -> String {
    core::mem::take(&mut *heard.lock().unwrap()).join(" ")
}

fn slow_recorder() -> Recorder {
    Recorder {
        sleep: secs(10),
        ..Recorder::default()
    }
}

/// X20 and the filter of S26. An object that starts to match is added; one that no longer matches is deleted. Unlike
/// in client-go, the predicate is not called for a deletion: a handler that was notified of the object is notified of
/// its deletion.
#[tokio::test(start_paused = true)]
async fn x20_s26_a_filter_notifies_of_matching_objects() {
    let mock = server_of(["a"]);
    mock.create("pods", pod("b", 2)).unwrap();
    let pods = start(&mock);
    let all = Recorder::default();
    let (direct, waiting) = (Recorder::default(), Recorder::default());
    pods.add_handler(all.clone());
    pods.add_handler(Filter::new(is_on_n1, direct.clone()));
    pods.add_async_handler(Filter::new(is_on_n1, waiting.clone()));
    let mut events = pods.subscribe_where(&HandlerOptions::default(), is_on_n1);
    settle().await;
    mock.update("pods", pod("b", 1)).unwrap();
    let mut changed = pod("b", 1);
    changed["spec"]["hostNetwork"] = json!(true);
    mock.update("pods", changed).unwrap();
    mock.update("pods", pod("a", 2)).unwrap();
    mock.update("pods", pod("a", 3)).unwrap();
    mock.delete("pods", "prod", "a").unwrap();
    settle().await;
    // Nobody observed the object leaving: its last state does not match, and it is deleted all the same.
    mock.with(|server| server.compact_all());
    mock.delete("pods", "prod", "b").unwrap();
    settle().await;
    let notified = "++a +b ~b -a -b";
    assert_eq!(direct.take().join(" "), notified);
    assert_eq!(waiting.take().join(" "), notified);
    let mut seen = Vec::new();
    while events.lag().pending > 0 {
        seen.push(shown(&events.recv().await.unwrap()));
    }
    let seen: Vec<_> = seen
        .iter()
        .map(|line| line.split('@').next().unwrap())
        .collect();
    assert_eq!(
        seen.join(" "),
        "++prod/a synced +prod/b ~prod/b -prod/a -prod/b"
    );
    assert!(all.take().join(" ").contains("~a ~a -a"));
}

#[tokio::test(start_paused = true)]
async fn a_filter_made_of_closures_follows_a_predicate_that_changes() {
    let mock = server_of(["a", "b"]);
    let pods = start(&mock);
    let wanted = Arc::new(Mutex::new("a".to_owned()));
    let heard = Heard::default();
    let (add, delete, asked) = (Arc::clone(&heard), Arc::clone(&heard), Arc::clone(&wanted));
    let handler = Handlers::<Raw>::new()
        .on_add(move |pod, _| add.lock().unwrap().push(format!("+{}", pod.name())))
        .on_delete(move |pod, _| delete.lock().unwrap().push(format!("-{}", pod.name())))
        .filter(move |pod| *asked.lock().unwrap() == pod.name());
    pods.add_handler_with(&HandlerOptions::default().resync(secs(60)), handler);
    settle().await;
    assert_eq!(take(&heard), "+a");
    "b".clone_into(&mut wanted.lock().unwrap());
    sleep(secs(61)).await;
    let mut notified: Vec<_> = take(&heard).split(' ').map(ToOwned::to_owned).collect();
    notified.sort();
    assert_eq!(notified, ["+b", "-a"], "a resync asks the predicate again");
}

#[tokio::test(start_paused = true)]
async fn calls_that_await_come_one_after_another() {
    let mock = server_of(["a"]);
    let pods = start(&mock);
    let slow = slow_recorder();
    let quick = Recorder::default();
    let handle = pods.add_async_handler_with(&HandlerOptions::default().name("slow"), slow.clone());
    pods.add_handler(quick.clone());
    settle().await;
    mock.update("pods", pod("a", 2)).unwrap();
    mock.delete("pods", "prod", "a").unwrap();
    settle().await;
    assert_eq!(
        quick.take().join(" "),
        "++a ~a -a",
        "nobody waits for the slow one"
    );
    assert_eq!(
        (slow.take().join(" ").as_str(), handle.is_synced()),
        ("", false)
    );
    assert!(handle.lag().pending >= 2 && handle.lag().call.is_some());
    let waited = wait_for_sync(secs(5), [&handle as _, &pods as _]).await;
    let error = waited.unwrap_err().to_string();
    assert!(
        error.contains("slow of pods.v1: 3 notifications are pending, and a call has been running"),
        "{error}"
    );

    wait_for_sync(secs(60), [&handle as _, &pods as _])
        .await
        .unwrap();
    assert_eq!(slow.take().join(" "), "++a");
    sleep(secs(21)).await;
    assert_eq!(slow.take().join(" "), "~a -a");
    assert_eq!(handle.lag(), informer_tokio::health::Lag::default());
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_call_that_awaits_stays_in_it() {
    let mock = server_of(["a", "b", "c"]);
    let pods = start(&mock);
    let heard = Heard::default();
    let note = Arc::clone(&heard);
    let handler = AsyncHandlers::<Raw>::new().on_add(move |pod, _| {
        let note = Arc::clone(&note);
        async move {
            sleep(secs(1)).await;
            assert!(pod.name() != "b", "there is a b");
            note.lock().unwrap().push(pod.name().to_owned());
        }
    });
    let handle = pods.add_async_handler_with(&HandlerOptions::default().name("picky"), handler);
    handle.synced().await.unwrap();
    let mut notified: Vec<_> = take(&heard).split(' ').map(ToOwned::to_owned).collect();
    notified.sort();
    assert_eq!(notified, ["a", "c"]);
    let health = pods.health();
    assert_eq!(
        (health.handlers[0].calls, health.handlers[0].panics),
        (3, 1)
    );
    let error = health.last_error.unwrap();
    assert_eq!(error.class, "handler-panicked");
    assert!(
        error.message.contains("picky") && error.message.contains("there is a b"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn notifications_cut_off_by_a_stop_are_reported() {
    let mock = server_of(["a", "b", "c"]);
    let reports = Heard::default();
    let note = Arc::clone(&reports);
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .drain(secs(15))
        .on_report(move |report| note.lock().unwrap().push(report.to_string()))
        .spawn();
    let slow = slow_recorder();
    let handle = pods.add_async_handler(slow.clone());
    pods.synced().await.unwrap();
    settle().await;
    pods.stop();
    pods.ended().await;
    handle.removed().await;
    // One call ended; one was cancelled; one, and the synced event, were never delivered.
    assert_eq!(slow.take().join(" ").split(' ').count(), 1);
    assert!(
        take(&reports).contains("with 3 undelivered notifications"),
        "{}",
        take(&reports)
    );
}

#[tokio::test(start_paused = true)]
async fn a_removal_is_waited_for_while_a_call_awaits() {
    let mock = server_of(["a", "b"]);
    let pods = start(&mock);
    let slow = slow_recorder();
    let handle = pods.add_async_handler(slow.clone());
    settle().await;
    let began = Instant::now();
    handle.remove();
    handle.removed().await;
    assert!(
        (secs(9)..secs(11)).contains(&began.elapsed()),
        "the call under way ends"
    );
    sleep(secs(100)).await;
    assert_eq!(slow.take().join(" ").split(' ').count(), 1);
    assert!(pods.health().handlers.is_empty());
}

/// A handler that blocks its thread, on a runtime with only one thread for everything else.
#[test]
fn a_blocking_handler_holds_up_nobody() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mock = server_of(["a"]);
        let pods = start(&mock);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let heard = Heard::default();
        let note = Arc::clone(&heard);
        let blocking = Handlers::<Raw>::new().on_add(move |pod, _| {
            // It waits for later events, which would never come if it blocked the runtime's thread.
            released.recv().unwrap();
            note.lock().unwrap().push(pod.name().to_owned());
        });
        let options = HandlerOptions::default().name("disk").blocking(true);
        let handle = pods.add_handler_with(&options, blocking);
        let quick = Recorder::default();
        pods.add_handler(quick.clone());
        timeout(PATIENCE, async {
            pods.synced().await.unwrap();
            while quick.take().join(" ").is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert!(!handle.is_synced());
        release.send(()).unwrap();
        timeout(PATIENCE, handle.synced()).await.unwrap().unwrap();
        assert_eq!(take(&heard), "a");
        handle.remove();
        timeout(PATIENCE, handle.removed()).await.unwrap();
    });
}

/// The state of a handler: it checks for repetitions and gaps, and counts the events.
#[derive(Default)]
struct Follower {
    known: BTreeMap<String, String>,
    faults: Vec<String>,
    calls: usize,
}

#[derive(Clone)]
struct Following(Arc<Mutex<Follower>>, Arc<AtomicUsize>);

impl Following {
    fn new(alive: &Arc<AtomicUsize>) -> (Self, Arc<Mutex<Follower>>) {
        alive.fetch_add(1, Ordering::SeqCst);
        let follower = Arc::new(Mutex::new(Follower::default()));
        (Self(Arc::clone(&follower), Arc::clone(alive)), follower)
    }
}

/// Counts the handlers not dropped yet.
struct Counted(Following);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.1.fetch_sub(1, Ordering::SeqCst);
    }
}

impl EventHandler<Raw> for Counted {
    fn on_add(&mut self, pod: &Entry<Raw>, _: bool) {
        let mut follower = self.0.0.lock().unwrap();
        follower.calls += 1;
        let version = pod.resource_version().to_string();
        if let Some(before) = follower.known.insert(pod.name().to_owned(), version) {
            follower
                .faults
                .push(format!("+{pod} was there at {before}"));
        }
    }

    fn on_update(&mut self, old: &Entry<Raw>, pod: &Entry<Raw>) {
        let mut follower = self.0.0.lock().unwrap();
        follower.calls += 1;
        let before = follower
            .known
            .insert(pod.name().to_owned(), pod.resource_version().to_string());
        if before != Some(old.resource_version().to_string()) {
            follower
                .faults
                .push(format!("~{pod} from {old:?}, known was {before:?}"));
        }
    }

    fn on_delete(&mut self, pod: &Entry<Raw>, _: bool) {
        let mut follower = self.0.0.lock().unwrap();
        follower.calls += 1;
        if follower.known.remove(pod.name()).is_none() {
            follower.faults.push(format!("-{pod} was not there"));
        }
    }
}

/// A total of 1,000 handlers come and go at random during 10,000 events per second, and the informer stops at some
/// point. Each handler received a sequence without gaps or repetitions, those that stayed have the final state, and
/// nothing remains.
#[tokio::test(start_paused = true)]
async fn a_thousand_handlers_come_and_go_under_load() {
    // At most 40 at a time, which leave soon; and most of the thousand at a time.
    for (seed, joins, most, stay) in [(1, 2, 40, 2), (2, 2, 40, 2), (3, 20, 1000, 8)] {
        crowd(seed, joins, most, stay).await;
    }
}

/// Keeps at most `most` handlers at a time. In each millisecond `joins` of them join and some leave, more of them if
/// `stay` is low.
async fn crowd(seed: u64, joins: usize, most: usize, stay: usize) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut dice = move |sides: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % sides as u64).unwrap()
    };
    let mock = server();
    let (pods, driver) = informer(&mock);
    let task = tokio::spawn(driver.run());
    let alive = Arc::new(AtomicUsize::new(0));
    let mut present: Vec<(
        informer_tokio::handler::HandlerHandle<Raw>,
        Arc<Mutex<Follower>>,
    )> = Vec::new();
    let mut gone = Vec::new();
    let (mut added, mut at_once) = (0, 0);
    // It stops at a random time after all thousand have joined.
    let stop_at = (1200 + dice(600)) / joins;
    // Ten events per millisecond.
    for _ in 0..=stop_at {
        for _ in 0..10 {
            let name = format!("p{}", dice(100));
            if mock
                .with(|server| server.get("pods", "prod", &name))
                .is_none()
            {
                mock.create("pods", pod(&name, 1)).unwrap();
            } else if dice(3) == 0 {
                mock.delete("pods", "prod", &name).unwrap();
            } else {
                mock.update("pods", pod(&name, dice(9) as u64)).unwrap();
            }
        }
        if added < 1000 {
            for _ in 0..joins {
                let (following, follower) = Following::new(&alive);
                // Backlogs from which some handlers coalesce at once, and some never.
                let options = HandlerOptions::default().backlog([0, 10, 4096][dice(3)]);
                let handle = pods.add_handler_with(&options, Counted(following));
                present.push((handle, follower));
                added += 1;
            }
        }
        at_once = at_once.max(present.len());
        while present.len() > most || (!present.is_empty() && dice(stay) == 0) {
            let (handle, follower) = present.swap_remove(dice(present.len()));
            handle.remove();
            gone.push((handle, follower));
        }
        sleep(Duration::from_millis(1)).await;
    }
    let truth: BTreeMap<String, String> = mock.with(|server| {
        let pods = server.objects("pods");
        pods.map(|pod| (pod.name().to_owned(), pod.version().to_string()))
            .collect()
    });
    if seed == 1 {
        // With this, all writes are seen before the stop; without, the stop comes in between.
        settle().await;
    }
    let known: BTreeMap<String, String> = pods
        .lister()
        .list()
        .iter()
        .map(|pod| (pod.name().to_owned(), pod.resource_version().to_string()))
        .collect();
    if seed == 1 {
        assert_eq!(known, truth);
    }
    pods.stop();
    task.await.unwrap();
    let calls: usize = present
        .iter()
        .chain(&gone)
        .map(|(_, follower)| {
            let follower = follower.lock().unwrap();
            assert_eq!(follower.faults, [""; 0]);
            follower.calls
        })
        .sum();
    for (handle, follower) in &present {
        if handle.is_synced() {
            let notified = &follower.lock().unwrap().known;
            let shown: BTreeMap<String, String> = pods
                .lister()
                .list()
                .iter()
                .map(|pod| (pod.name().to_owned(), pod.resource_version().to_string()))
                .collect();
            assert_eq!(
                *notified, shown,
                "it was notified of all, also of what was pending at the stop"
            );
        }
    }
    assert!(
        added >= 900 && calls > 10_000,
        "{added} handlers, {calls} calls"
    );
    assert!(most < 1000 || at_once > 700, "{at_once} at once");
    for (handle, _) in present.iter().chain(&gone) {
        timeout(secs(1), handle.removed())
            .await
            .expect("each has ended");
    }
    assert_eq!(alive.load(Ordering::SeqCst), 0, "each handler was dropped");
    assert!(pods.health().handlers.is_empty(), "nothing is kept of them");
}

/// The delay of a handler for each change, in virtual time, while another handler is stuck for a minute or not.
async fn lateness(stuck: bool) -> (Vec<Duration>, Option<Stuck>) {
    const EVENTS: u32 = 20_000;
    let mock = server_of(["a"]);
    let pods = start(&mock);
    pods.synced().await.unwrap();
    let written: Arc<Mutex<BTreeMap<String, Instant>>> = Arc::default();
    let late = Arc::new(Mutex::new(Vec::new()));
    let (read, note) = (Arc::clone(&written), Arc::clone(&late));
    pods.add_handler(Handlers::<Raw>::new().on_update(move |_, pod| {
        let at = read
            .lock()
            .unwrap()
            .remove(&pod.resource_version().to_string());
        note.lock().unwrap().push(at.unwrap().elapsed());
    }));
    let recorder = Recorder::default();
    let handle = stuck.then(|| {
        let recorder = recorder.clone();
        let mut first = true;
        let (update, add, delete) = (recorder.clone(), recorder.clone(), recorder);
        let handler = AsyncHandlers::<Raw>::new()
            .on_add(move |pod, _| {
                let wait = if core::mem::take(&mut first) {
                    secs(60)
                } else {
                    Duration::ZERO
                };
                add.note(format!("+{}", pod.name()));
                sleep(wait)
            })
            .on_update(move |old, pod| {
                update.note(format!("{}~{}", old.resource_version(), pod.name()));
                core::future::ready(())
            })
            .on_delete(move |pod, _| {
                delete.note(format!("-{}", pod.name()));
                core::future::ready(())
            });
        pods.add_async_handler_with(
            &HandlerOptions::default().name("stuck").backlog(10),
            handler,
        )
    });
    settle().await;
    let mut most = 0;
    let before = pods
        .lister()
        .get("prod", "a")
        .unwrap()
        .resource_version()
        .to_string();
    for round in 0..EVENTS {
        // Ten keys: one exists from the start, one comes and goes, the others are created and changed.
        let name = format!("k{}", round % 8);
        let version = match round {
            0..8 => mock.create("pods", pod(&name, 1)).unwrap(),
            _ if round % 100 == 50 => {
                mock.create("pods", pod("brief", 1)).unwrap();
                mock.delete("pods", "prod", "brief").unwrap();
                mock.update("pods", pod("a", round.into())).unwrap()
            }
            _ => mock.update("pods", pod(&name, round.into())).unwrap(),
        };
        if round >= 8 {
            written
                .lock()
                .unwrap()
                .insert(version.to_string(), Instant::now());
        }
        if round % 10 == 0 {
            sleep(Duration::from_millis(20)).await;
        }
        if let Some(handle) = &handle {
            most = most.max(handle.lag().pending);
        }
    }
    let lag = handle.as_ref().map(|handle| handle.lag());
    sleep(secs(120)).await;
    assert!(
        written.lock().unwrap().is_empty(),
        "the other one heard of each change"
    );
    let stuck = lag.map(|lag| Stuck {
        most,
        lag,
        heard: recorder.take().join(" "),
        before,
    });
    let mut late = late.lock().unwrap().clone();
    late.sort();
    (late, stuck)
}

struct Stuck {
    most: usize,
    lag: informer_tokio::health::Lag,
    heard: String,
    before: String,
}

/// A handler that is stuck for a minute under load: the others are as fast as without it, and its backlog is bounded.
/// When it wakes it gets coalesced events: two updates become one from the oldest to the newest state, an add and an
/// update become an add, and an undelivered add with its deletion nothing.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_stuck_for_a_minute_holds_back_nobody() {
    let (alone, _) = lateness(false).await;
    let (beside, stuck) = lateness(true).await;
    let p99 = |late: &[Duration]| late[late.len() * 99 / 100];
    assert_eq!(alone.len(), beside.len());
    assert_eq!(
        p99(&beside),
        p99(&alone),
        "the p99 of the others is unchanged"
    );

    let stuck = stuck.unwrap();
    assert!(
        stuck.most <= 10 + 256 + 20,
        "its backlog is bounded: {}",
        stuck.most
    );
    assert!(
        stuck.lag.pending <= 10 + 20,
        "merged: no more than keys: {:?}",
        stuck.lag
    );
    assert!(stuck.lag.merged > 15_000, "{:?}", stuck.lag);
    assert!(
        stuck.lag.behind >= secs(39) && stuck.lag.call.is_some(),
        "{:?}",
        stuck.lag
    );
    let heard: Vec<&str> = stuck.heard.split(' ').collect();
    assert_eq!(heard.first(), Some(&"+a"), "in this call it was stuck");
    assert_eq!(heard.iter().filter(|call| call.ends_with("~a")).count(), 1);
    assert!(
        heard.contains(&format!("{}~a", stuck.before).as_str()),
        "from the oldest: {heard:?}"
    );
    for key in 0..8 {
        let adds = heard
            .iter()
            .filter(|call| **call == format!("+k{key}"))
            .count();
        assert_eq!(adds, 1, "add and updates are one add: {heard:?}");
    }
    assert!(
        !stuck.heard.contains("brief"),
        "an unnotified add and its delete are nothing"
    );
}
