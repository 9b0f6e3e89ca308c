//! Reconcile functions that fail, and user-defined functions that panic.

use futures_util::StreamExt as _;
use informer_tokio::election::{Election, LeaseClient, LeaseRecord, Written};

use super::*;
use crate::support::is_alone;

/// A controller whose keys wait seconds after a failure, with all reported failures.
fn telling(sets: &Informer<Raw>) -> (Controller<Raw>, Arc<Mutex<Vec<String>>>) {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let controller = Controller::new(sets)
        .limit(Exponential::new(secs(1), secs(60)))
        .on_failure({
            let reported = Arc::clone(&reported);
            move |key, failure| reported.lock().unwrap().push(format!("{key}: {failure}"))
        });
    (controller, reported)
}

/// Keys that fail or panic are retried with growing delays, do not block other keys, and are reported.
#[tokio::test(start_paused = true)]
async fn failures_and_panics_are_retried_with_backoff() {
    let mock = with_sets(["bad", "good", "wild"]);
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let (controller, reported) = telling(&sets);
    let controller = run(controller, {
        let note = noting(&log);
        move |task| {
            let (name, attempt) = (task.name().to_owned(), task.attempt());
            // A panic of the function itself, and not of its future.
            assert!(name != "wild" || attempt >= 2, "no way ({attempt})");
            let noted = note(task);
            async move {
                noted.await?;
                if name == "bad" && attempt < 5 {
                    return Err(format!("not yet ({attempt})"));
                }
                Ok(())
            }
        }
    });
    sleep(secs(100)).await;
    let at: Vec<_> = log.lock().unwrap().clone();
    let of = |name: &str| -> Vec<u64> {
        let key = format!("prod/{name}");
        at.iter()
            .filter(|(of, _)| *of == key)
            .map(|(_, second)| *second)
            .collect()
    };
    assert_eq!(of("good"), [0]);
    assert_eq!(of("bad"), [0, 1, 3, 7, 15, 31]);
    assert_eq!(of("wild"), [3]);
    let mut reported = reported.lock().unwrap().clone();
    reported.sort();
    let expected: Vec<String> = (0..5)
        .map(|attempt| format!("prod/bad: not yet ({attempt})"))
        .chain((0..2).map(|attempt| format!("prod/wild: panicked: no way ({attempt})")))
        .collect();
    assert_eq!(reported, expected);
    let metrics = controller.handle.metrics();
    assert_eq!(
        (metrics.succeeded, metrics.failed, metrics.panicked),
        (3, 5, 2)
    );
    // Its failures were reset after the success.
    mock.update("replicasets.apps", set("bad", 1)).unwrap();
    settle().await;
    assert_eq!(log.lock().unwrap().last().unwrap().0, "prod/bad");
    assert_eq!(controller.handle.metrics().failed, 6);
    controller.stop().await;
}

/// A panic in `only` ends nothing and loses no key: it is reported, and the key is retried. A key that belonged to
/// another controller for a while starts with the first attempt.
#[tokio::test(start_paused = true)]
async fn a_panic_in_only_is_reported_and_the_key_is_tried_again() {
    let mock = with_sets(["good", "wild", "bad"]);
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let (controller, reported) = telling(&sets);
    let start = Instant::now();
    let kept = Arc::new(Mutex::new(BTreeMap::from([("prod/bad".to_owned(), true)])));
    let controller = controller.only({
        let kept = Arc::clone(&kept);
        move |key| {
            // Called at 0 s when the key is added and before it is reconciled, and again at 1 s.
            let is_early = start.elapsed() < secs(2);
            assert!(key.as_str() != "prod/wild" || !is_early, "who knows");
            let kept = kept.lock().unwrap();
            kept.get(key.as_str()).copied().unwrap_or(true)
        }
    });
    let controller = run(controller, {
        let note = noting(&log);
        move |task| {
            let (is_bad, attempt) = (task.name() == "bad", task.attempt());
            let noted = note(task);
            async move {
                noted.await?;
                if is_bad {
                    return Err(format!("attempt {attempt}"));
                }
                Ok(())
            }
        }
    });
    sleep(Duration::from_millis(5_500)).await;
    let mut at: Vec<_> = log.lock().unwrap().drain(..).collect();
    at.sort();
    let bad = [0, 1, 3].map(|second| ("prod/bad".to_owned(), second));
    let others = [("prod/good".to_owned(), 0), ("prod/wild".to_owned(), 3)];
    assert_eq!(at, [&bad[..], &others[..]].concat());
    let wild = |reported: &[String]| {
        let wild = reported.iter().filter(|line| line.starts_with("prod/wild"));
        wild.cloned().collect::<Vec<_>>()
    };
    let expected = "prod/wild: panicked: in `only`: who knows";
    assert_eq!(wild(&reported.lock().unwrap()), [expected; 2]);
    assert_eq!(controller.handle.metrics().panicked, 2);

    // It waits for its fourth attempt, at 7 s, when it moves to another controller.
    kept.lock().unwrap().insert("prod/bad".to_owned(), false);
    sleep(secs(4)).await;
    assert_eq!(names(&log), [""; 0]);
    kept.lock().unwrap().insert("prod/bad".to_owned(), true);
    reported.lock().unwrap().clear();
    controller.handle.enqueue(Key::new("prod/bad"));
    settle().await;
    assert_eq!(*reported.lock().unwrap(), ["prod/bad: attempt 0"]);
    controller.stop().await;
}

/// Collects the log of this thread.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Logged {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(
                &mut self,
                field: &tracing::field::Field,
                value: &dyn core::fmt::Debug,
            ) {
                self.0 += &format!(" {field}={value:?}");
            }
        }
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// A panic in `on_failure` does not end the controller: keys are retried, other keys are processed, a missing write is
/// reported, and the panics are logged.
#[tokio::test(start_paused = true)]
async fn a_panic_in_on_failure_is_reported_and_changes_nothing() {
    let test = "controller::failures::a_panic_in_on_failure_is_reported_and_changes_nothing";
    if !is_alone(test) {
        return;
    }
    let logged = Logged::default();
    let _guard = tracing::subscriber::set_default(logged.clone());
    let mock = with_sets(["fails", "panics", "waits", "well"]);
    let sets = informer(&mock, SETS);
    let reported = Arc::new(AtomicUsize::new(0));
    let log = Log::default();
    let hear = Arc::clone(&reported);
    let controller =
        Controller::new(&sets)
            .write_deadline(secs(5))
            .on_failure(move |key, failure| {
                hear.fetch_add(1, Ordering::Relaxed);
                panic!("{key} is too much: {failure}");
            });
    let running = run(controller, {
        let (log, sets) = (Arc::clone(&log), sets.clone());
        move |task: Task<Raw>| {
            let (log, sets) = (Arc::clone(&log), sets.clone());
            async move {
                match (task.name(), task.attempt()) {
                    ("fails", 0..2) => return Err("no".to_owned()),
                    ("panics", 0..2) => panic!("never"),
                    ("waits", _) => task.wrote(&sets, &task, "999999"),
                    _ => {}
                }
                log.lock().unwrap().push((task.key().to_string(), 0));
                Ok(())
            }
        }
    });
    sleep(secs(10)).await;
    let all = ["prod/fails", "prod/panics", "prod/waits", "prod/well"];
    assert_eq!(names(&log), all);
    assert_eq!(reported.load(Ordering::Relaxed), 5);
    mock.update("replicasets.apps", set("waits", 1)).unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/waits"]);
    assert_eq!(running.stop().await, Stopped::default());
    let logged = logged.0.lock().unwrap();
    let panics = logged
        .iter()
        .filter(|line| line.contains("`on_failure` panicked"));
    assert_eq!(panics.clone().count(), 5, "{logged:#?}");
    assert!(panics.clone().all(|line| line.starts_with("ERROR")));
    assert!(
        panics
            .clone()
            .any(|line| line.contains("prod/fails is too much: no"))
    );
}

/// The stream has every run with its result, and ends with the controller.
#[tokio::test(start_paused = true)]
async fn the_results_of_runs_are_a_stream() {
    let mock = with_sets(["done", "fails", "panics", "stuck"]);
    let mut controller = Controller::new(informer(&mock, SETS))
        .limit(Exponential::new(secs(60), secs(60)))
        .run_within(secs(30))
        .drain(secs(1));
    let (results, others) = (controller.results(), controller.results());
    let controller = run(controller, |task: Task<Raw>| async move {
        match task.name() {
            "done" => Ok(()),
            "fails" => Err("no".to_owned()),
            "panics" => panic!("ouch"),
            _ => core::future::pending().await,
        }
    });
    sleep(secs(31)).await;
    controller.handle.enqueue(Key::new("prod/stuck"));
    settle().await;
    controller.stop().await;
    assert_eq!(others.count().await, 5, "another reader");
    let results: Vec<_> = results.collect().await;
    let mut shown: Vec<_> = results
        .iter()
        .map(|run| {
            let result = run.result.as_ref().copied();
            let result = result.map_err(|error| error.to_string());
            (run.key.name(), result, run.missed)
        })
        .collect();
    shown.sort_by_key(|(name, ..)| *name);
    let late = "cut, since the run took longer than 30s";
    let cut = "cut by a stop, or because the key belongs to another controller";
    assert_eq!(
        shown,
        [
            ("done", Ok(Next::done()), 0),
            ("fails", Err("no".to_owned()), 0),
            ("panics", Err("panicked: ouch".to_owned()), 0),
            ("stuck", Err(late.to_owned()), 0),
            ("stuck", Err(cut.to_owned()), 0),
        ]
    );
}

/// A reader that lags does not block the controller, and learns how much it has missed.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_results_misses_the_oldest() {
    let mock = with_sets(["a"]);
    let mut controller = Controller::new(informer(&mock, SETS));
    let mut results = Box::pin(controller.results());
    let controller = run(controller, |_: Task<Raw>| async {
        Ok(Next::after(Duration::from_millis(1)))
    });
    sleep(secs(5)).await;
    let runs = controller.handle.metrics().succeeded;
    assert!(runs > 2000, "{runs}");
    controller.stop().await;
    let first = results.next().await.unwrap();
    let rest: Vec<_> = results.collect().await;
    assert_eq!((first.missed, rest.len()), (runs - 1024, 1023));
    assert!(rest.iter().all(|run| run.missed == 0));
}

#[derive(Debug)]
struct Outer(std::io::Error);

impl core::fmt::Display for Outer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("cannot set it up")
    }
}

impl core::error::Error for Outer {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// The error itself reaches all that hear of it, with its causes.
#[tokio::test(start_paused = true)]
async fn an_error_keeps_its_type_and_its_causes() {
    let mock = with_sets(["a"]);
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&reported);
    let mut controller = Controller::new(informer(&mock, SETS))
        .limit(Exponential::new(secs(60), secs(60)))
        .on_failure(move |_, failure| {
            assert!(matches!(failure, Failure::Failed(error) if error.is::<Outer>()));
            heard.lock().unwrap().push(failure.to_string());
        });
    let mut results = Box::pin(controller.results());
    let handle = controller.handle();
    let running = tokio::spawn(
        controller
            .run(|_| async { Err::<(), _>(Outer(std::io::Error::other("the disk is full"))) }),
    );
    let result = results.next().await.unwrap().result;
    assert!(result.unwrap_err().is::<Outer>());
    assert_eq!(
        *reported.lock().unwrap(),
        ["cannot set it up: the disk is full"]
    );
    handle.stop();
    running.await.unwrap().unwrap();
}

/// Keys that fail after a stop was requested are not retried, and count as left.
#[tokio::test(start_paused = true)]
async fn a_key_that_fails_during_the_stop_is_counted() {
    let mock = with_sets(["again", "done", "fails", "panics", "stuck"]);
    let controller = Controller::new(informer(&mock, SETS))
        .workers(5)
        .run_within(secs(20));
    let controller = run(controller, |task: Task<Raw>| async move {
        sleep(secs(10)).await;
        match task.name() {
            "again" => Ok(Next::after(secs(1))),
            "done" => Ok(Next::done()),
            "fails" => Err("no".to_owned()),
            "panics" => panic!("ouch"),
            _ => core::future::pending().await,
        }
    });
    sleep(secs(1)).await;
    let stopped = controller.stop().await;
    assert_eq!((stopped.waiting, stopped.delayed, stopped.cut), (0, 4, 0));
}

/// What ends with a panic is counted and logged, and the rest of the controller goes on, or stops without an election.
#[tokio::test(start_paused = true)]
async fn a_panic_beside_the_runs_is_reported() {
    let mock = with_sets(["a"]);
    let log = Log::default();
    let keys = futures_util::stream::iter(0..3).map(|number| {
        assert!(number < 1, "no more keys");
        Key::new("prod/streamed")
    });
    let controller = Controller::new(informer(&mock, SETS)).reconcile_on(keys);
    let controller = run(controller, noting(&log));
    settle().await;
    assert_eq!(names(&log), ["prod/a", "prod/streamed"]);
    assert_eq!(controller.handle.metrics().panicked, 1);
    mock.create("replicasets.apps", set("b", 0)).unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/b"]);
    controller.stop().await;

    let election = Election::new(Panics, "a", Default::default()).unwrap();
    let controller = Controller::new(informer(&mock, SETS)).elected(election);
    let controller = run(controller, noting(&log));
    timeout(secs(10), controller.ended).await.unwrap().unwrap();
    assert_eq!(controller.handle.metrics().panicked, 1);
}

struct Panics;

impl LeaseClient for Panics {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        panic!("no Lease")
    }

    async fn create(&mut self, _: &LeaseRecord) -> Result<Written, String> {
        unreachable!("nothing was read")
    }

    async fn update(&mut self, _: &LeaseRecord, _: &str, _: bool) -> Result<Written, String> {
        unreachable!("nothing was read")
    }
}

/// The order of the calls of the builder does not matter.
#[tokio::test(start_paused = true)]
async fn a_handle_that_was_taken_before_the_limit_has_its_queue() {
    let mock = server();
    let log = Log::default();
    let controller = Controller::new(informer(&mock, SETS));
    let handle = controller.handle();
    let controller = run(
        controller.limit(Exponential::new(secs(1), secs(1))),
        noting(&log),
    );
    handle.enqueue(Key::new("prod/a"));
    settle().await;
    assert_eq!(names(&log), ["prod/a"]);
    controller.stop().await;
}

/// It holds its key, so somebody has to learn of it, or it is cut and retried.
#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_end_is_reported_or_cut() {
    let start = |limit: Option<Duration>| {
        let mock = with_sets(["a", "stuck"]);
        let sets = informer(&mock, SETS);
        let (controller, reported) = telling(&sets);
        let controller = match limit {
            Some(limit) => controller.run_within(limit),
            None => controller,
        };
        let controller = run(controller.workers(2), |task: Task<Raw>| async move {
            if task.name() == "stuck" && task.attempt() < 2 {
                core::future::pending::<()>().await;
            }
            if task.name() == "slow" {
                sleep(secs(1000)).await;
            }
            Ok(())
        });
        (controller, reported)
    };
    let (controller, reported) = start(None);
    // Another one, which begins later and ends.
    sleep(secs(100)).await;
    controller.handle.enqueue(Key::new("prod/slow"));
    sleep(secs(800)).await;
    let [stuck, slow] = ["prod/stuck", "prod/slow"];
    assert_eq!(
        controller.handle.metrics().long_runs,
        [stuck, slow].map(Key::new)
    );
    sleep(secs(2700)).await;
    assert_eq!(
        *reported.lock().unwrap(),
        [stuck, slow].map(|key| format!("{key}: the run has not ended for 600s"))
    );
    let metrics = controller.handle.metrics();
    assert_eq!((metrics.running, metrics.succeeded), (1, 2));
    assert!(metrics.queue.longest_running >= secs(3599));
    assert_eq!(metrics.long_runs, [Key::new("prod/stuck")]);
    assert_eq!(controller.stop().await.cut, 1);

    let (controller, reported) = start(Some(secs(60)));
    sleep(secs(3600)).await;
    let cut = "prod/stuck: cut, since the run took longer than 60s";
    assert_eq!(*reported.lock().unwrap(), [cut, cut]);
    let metrics = controller.handle.metrics();
    assert_eq!((metrics.succeeded, metrics.failed, metrics.cut), (2, 2, 0));
    assert_eq!(metrics.long_runs, []);
    assert_eq!(controller.stop().await, Stopped::default());
}

/// The controller is notified of no later deletion of such an object, so that it never removes its finalizer.
#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_with_a_finalizer_is_reported() {
    for has_controller in [true, false] {
        let mock = server();
        let apply = |name: &str, app: &str, finalizers: &[&str]| {
            let labels = json!({ "app": app });
            let metadata = json!({
                "name": name, "namespace": "prod", "labels": labels, "finalizers": finalizers,
            });
            mock.put("pods", json!({ "metadata": metadata })).unwrap();
        };
        let held = &["example.com/hold"][..];
        let of_kubernetes = &["kubernetes.io/pvc-protection"][..];
        apply("left", "web", held);
        apply("deleted", "web", held);
        apply("protected", "web", of_kubernetes);
        apply("free", "web", &[]);
        let reports: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&reports);
        let builder = Informer::<Raw>::builder_for(&mock.transport(), PODS.labels("app=web"))
            .on_report(move |report| heard.lock().unwrap().push(report.to_string()));
        let pods = builder.spawn();
        let running =
            has_controller.then(|| run(Controller::new(&pods), |_| async { Ok::<_, String>(()) }));
        pods.synced().await.unwrap();
        settle().await;
        apply("left", "db", held);
        apply("protected", "db", of_kubernetes);
        apply("free", "db", &[]);
        // Removing the last finalizer of a marked object deletes it; the event has the state before.
        let metadata = json!({
            "name": "deleted", "namespace": "prod", "labels": { "app": "web" }, "finalizers": held,
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        });
        mock.put("pods", json!({ "metadata": metadata })).unwrap();
        mock.delete("pods", "prod", "deleted").unwrap();
        settle().await;
        assert!(pods.lister().is_empty());
        let expected = "cache: prod/left no longer matches the selector and has the finalizer example.com/hold: if this \
                        controller adds it, the deletion of the object will wait for ever; select by labels that do not \
                        change";
        let expected: &[&str] = if has_controller { &[expected] } else { &[] };
        assert_eq!(*reports.lock().unwrap(), expected);
        if let Some(running) = running {
            running.stop().await;
        }
    }
}
