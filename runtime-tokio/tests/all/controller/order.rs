//! When keys are reconciled: priorities, debouncing, streams, predicates, and retries by the kind of error.

use informer_tokio::Json;
use informer_tokio::controller::{IntoInformer, Predicate, Retry};
use informer_tokio::decode::{Decoder, FromProtobuf, RawObject};
use informer_tokio::protobuf::Message;

use super::*;

/// A reconcile function that records the key and the second, and takes a second.
fn slowly(
    log: &Log,
) -> impl Fn(Task<Raw>) -> futures_util::future::BoxFuture<'static, Result<(), String>> + use<> {
    let note = noting(log);
    move |task| {
        let noted = note(task);
        Box::pin(async move {
            sleep(secs(1)).await;
            noted.await
        })
    }
}

/// Keys that change precede those of the initial list, which still have their turn under a flood of changes.
#[tokio::test(start_paused = true)]
async fn fresh_changes_come_first_and_starve_nothing() {
    let mock = with_sets((0..5).map(|number| format!("old{number}")));
    let sets = informer(&mock, SETS);
    sets.synced().await.unwrap();
    let log = Log::default();
    let controller = run(Controller::new(&sets), slowly(&log));
    sleep(Duration::from_millis(500)).await;
    // A worker is always busy, and fresh keys are always waiting.
    for round in 0..200 {
        for name in ["fresh0", "fresh1", "fresh2"] {
            mock.put("replicasets.apps", set(name, round)).unwrap();
        }
        sleep(Duration::from_millis(500)).await;
    }
    let runs = log.lock().unwrap().clone();
    let first = |of: &str| runs.iter().find(|(key, _)| key.contains(of)).unwrap().1;
    assert_eq!(
        first("fresh0"),
        1,
        "it precedes the rest of the initial list: {runs:?}"
    );
    let mut old: Vec<u64> = runs
        .iter()
        .filter(|(key, _)| key.contains("old"))
        .map(|(_, second)| *second)
        .collect();
    assert_eq!(old.len(), 5, "each once: {runs:?}");
    old.dedup();
    for (before, second) in old.iter().enumerate() {
        let limit = 17 * (before as u64 + 1);
        assert!(
            *second <= limit,
            "the key behind {before} others waited {second} s: {runs:?}"
        );
    }
    controller.stop().await;
}

/// With a backlog of zero every notification is merged, as it is when a handler lags by more than its limit. The keys of
/// the states in between are reconciled all the same, whatever the function of `watches` does.
#[tokio::test(start_paused = true)]
async fn states_that_are_merged_away_are_reconciled() {
    let mock = server();
    let (sets, pods) = (informer(&mock, SETS), informer(&mock, PODS));
    pods.synced().await.unwrap();
    let log = Log::default();
    let (lister, slow) = (pods.lister(), AtomicUsize::new(0));
    let controller = Controller::new(&sets)
        .owns(pods.clone().when(Predicate::labels()))
        .watches(&pods, move |pod| {
            // It reads the cache that is about to change, and takes a second once.
            let count = lister.list().len();
            if slow.fetch_add(1, Ordering::Relaxed) == 0 {
                std::thread::sleep(secs(1));
            }
            assert!(count <= 1);
            [Key::new(&format!("watched/{}", pod.name()))]
        })
        .backlog(0);
    let controller = run(controller, noting(&log));
    settle().await;
    let owned = |owner: &str| pod("p", &[("ReplicaSet", owner, true)]);
    // It comes and goes, and has two owners meanwhile.
    mock.create("pods", owned("a")).unwrap();
    mock.update("pods", owned("b")).unwrap();
    mock.delete("pods", "prod", "p").unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/a", "prod/b", "watched/p"]);
    // The previous owner is not forgotten with the update.
    mock.create("pods", owned("a")).unwrap();
    settle().await;
    names(&log);
    mock.update("pods", owned("b")).unwrap();
    mock.update("pods", owned("c")).unwrap();
    mock.delete("pods", "prod", "p").unwrap();
    settle().await;
    assert_eq!(names(&log), ["prod/a", "prod/b", "prod/c", "watched/p"]);
    let health = pods.health();
    assert!(
        health
            .handlers
            .iter()
            .all(|handler| handler.panics == 0 && handler.lag.merged > 0)
    );
    controller.stop().await;
}

/// Retries of the initial list do not keep a fresh change waiting, and neither do keys that asked for a time.
#[tokio::test(start_paused = true)]
async fn a_key_that_comes_again_keeps_its_priority() {
    for (after, retry) in [
        (None, Retry::Limited),
        (None, Retry::After(secs(1))),
        (Some(Next::after(secs(1))), Retry::Limited),
    ] {
        let mock = with_sets((0..100).map(|number| format!("old{number}")));
        let sets = informer(&mock, SETS);
        sets.synced().await.unwrap();
        let log = Log::default();
        let controller = Controller::new(&sets).limit(Exponential::new(secs(1), secs(1)));
        let handle = controller.handle();
        let reconcile = {
            let note = noting(&log);
            move |task: Task<Raw>| {
                let is_old = task.name().starts_with("old");
                let noted = note(task);
                async move {
                    noted.await?;
                    sleep(Duration::from_millis(100)).await;
                    match after {
                        _ if !is_old => Ok(Next::done()),
                        Some(after) => Ok(after),
                        None => Err("not yet".to_owned()),
                    }
                }
            }
        };
        let ended = tokio::spawn(controller.run_with(reconcile, move |_| retry));
        sleep(secs(60)).await;
        mock.put("replicasets.apps", set("fresh", 1)).unwrap();
        sleep(secs(3)).await;
        let runs = log.lock().unwrap().clone();
        let fresh = runs.iter().find(|(key, _)| key.contains("fresh")).unwrap();
        assert!(
            fresh.1 <= 60,
            "it waited until {}: {after:?}, {retry:?}",
            fresh.1
        );
        handle.stop();
        ended.await.unwrap().unwrap();
    }
    // A key can ask for another priority.
    let (mock, log) = (with_sets(["a", "b"]), Log::default());
    let sets = informer(&mock, SETS);
    let controller = run(Controller::new(&sets), {
        let note = noting(&log);
        move |task| {
            let priority = if task.name() == "a" { -1 } else { 1 };
            let noted = note(task);
            async move {
                noted.await?;
                sleep(secs(10)).await;
                Ok(Next::after(secs(1)).priority(priority))
            }
        }
    });
    sleep(secs(100)).await;
    let keys = log.lock().unwrap().clone();
    let of_a = keys.iter().filter(|(key, _)| key == "prod/a").count();
    assert!(of_a <= 5, "{keys:?}");
    controller.stop().await;
}

/// A key whose time has come while all workers are busy is not lost by a drain, and counts as waiting.
#[tokio::test(start_paused = true)]
async fn a_due_key_waits_for_a_worker() {
    let mock = server();
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let controller = run(Controller::new(&sets).debounce(secs(1)), {
        let note = noting(&log);
        move |task| {
            let noted = note(task);
            async move {
                sleep(secs(10)).await;
                noted.await
            }
        }
    });
    settle().await;
    mock.create("replicasets.apps", set("a", 0)).unwrap();
    sleep(secs(3)).await;
    mock.create("replicasets.apps", set("b", 0)).unwrap();
    sleep(secs(5)).await;
    let queue = controller.handle.metrics().queue;
    assert_eq!((queue.depth, queue.delayed), (1, 0));
    controller.handle.drain();
    let stopped = timeout(secs(100), controller.ended).await;
    assert_eq!(stopped.unwrap().unwrap(), Stopped::default());
    assert_eq!(names(&log), ["prod/a", "prod/b"]);
}

/// Further changes within the time cause no further run, and constant changes delay no key for longer.
#[tokio::test(start_paused = true)]
async fn changes_within_the_debounce_time_are_one() {
    let mock = server();
    let sets = informer(&mock, SETS);
    sets.synced().await.unwrap();
    let log = Log::default();
    let controller = run(Controller::new(&sets).debounce(secs(10)), noting(&log));
    settle().await;
    for round in 0..30 {
        mock.put("replicasets.apps", set("a", round)).unwrap();
        sleep(secs(1)).await;
    }
    sleep(secs(60)).await;
    let at: Vec<u64> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, second)| *second)
        .collect();
    assert_eq!(at, [10, 20, 30]);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_stream_are_reconciled() {
    let mock = server();
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let (send, keys) = tokio::sync::mpsc::unbounded_channel();
    let keys = futures_util::stream::unfold(
        keys,
        |mut keys: tokio::sync::mpsc::UnboundedReceiver<Key>| async move {
            Some((keys.recv().await?, keys))
        },
    );
    let controller = Controller::new(&sets)
        .reconcile_on(futures_util::stream::iter([Key::new("prod/other")]))
        .reconcile_on(keys)
        .only(|key| key.name() != "no");
    let controller = run(controller, noting(&log));
    for key in ["prod/a", "prod/no", "prod/b"] {
        send.send(Key::new(key)).unwrap();
    }
    settle().await;
    assert_eq!(names(&log), ["prod/a", "prod/b", "prod/other"]);
    drop(send);
    settle().await;
    controller.handle.enqueue(Key::new("prod/c"));
    settle().await;
    assert_eq!(names(&log), ["prod/c"], "it continues without the stream");
    controller.stop().await;
}

/// An error decides when its key is retried.
#[tokio::test(start_paused = true)]
async fn the_kind_of_an_error_decides_about_the_retry() {
    let mock = with_sets(["limited", "later", "never"]);
    let sets = informer(&mock, SETS);
    let log = Log::default();
    let note = noting(&log);
    let controller = Controller::new(&sets).limit(Exponential::new(secs(1), secs(60)));
    let handle = controller.handle();
    let ended = tokio::spawn(controller.run_with(
        move |task: Task<Raw>| {
            let name = task.name().to_owned();
            let noted = note(task);
            async move {
                let _ = noted.await;
                Err::<(), String>(name)
            }
        },
        |error: &String| match error.as_str() {
            "later" => Retry::After(secs(40)),
            "never" => Retry::Never,
            _ => Retry::Limited,
        },
    ));
    sleep(secs(50)).await;
    let of = |name: &str| -> Vec<u64> {
        let log = log.lock().unwrap();
        let of = log.iter().filter(|(key, _)| key.ends_with(name));
        of.map(|(_, second)| *second).collect()
    };
    assert_eq!(of("limited"), [0, 1, 3, 7, 15, 31]);
    assert_eq!(of("later"), [0, 40]);
    assert_eq!(of("never"), [0]);
    mock.update("replicasets.apps", set("never", 1)).unwrap();
    settle().await;
    assert_eq!(of("never"), [0, 50], "a change reconciles it");
    handle.stop();
    ended.await.unwrap().unwrap();
}

/// Only changes for which the predicate holds are used, in every form and format.
async fn changes_are_selected<F, D>(decoder: impl Fn() -> D)
where
    F: Form<Stored: Send + Sync>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let with = |generation: u64, label: &str, finalizer: &str| {
        let mut pod = pod("p", &[]);
        pod["metadata"]["generation"] = generation.into();
        pod["metadata"]["labels"] = json!({ "app": label });
        pod["metadata"]["annotations"] = json!({ "note": label });
        pod["metadata"]["finalizers"] = json!([finalizer]);
        pod
    };
    let predicates: [(Predicate<F>, [bool; 4]); 9] = [
        (Predicate::generation(), [true, false, false, false]),
        (!Predicate::generation(), [false, true, true, true]),
        (Predicate::labels(), [false, true, false, false]),
        (Predicate::annotations(), [false, true, false, false]),
        (Predicate::finalizers(), [false, false, true, false]),
        (Predicate::resource_version(), [true; 4]),
        (
            Predicate::generation() | Predicate::labels(),
            [true, true, false, false],
        ),
        (
            Predicate::labels() & Predicate::annotations(),
            [false, true, false, false],
        ),
        (
            !(Predicate::generation() | Predicate::finalizers()),
            [false, true, false, true],
        ),
    ];
    for (number, (predicate, wanted)) in predicates.into_iter().enumerate() {
        let mut unrelated = with(2, "b", "g");
        unrelated["spec"] = json!({ "nodeName": "n1" });
        let changes = [
            with(2, "a", "f"),
            with(2, "b", "f"),
            with(2, "b", "g"),
            unrelated,
        ];
        let seen = runs_after::<F, D>(decoder(), predicate, with(1, "a", "f"), changes).await;
        assert_eq!(seen, wanted, "predicate {number}");
    }
    // These have neither labels nor a generation, like a ConfigMap, of which every change counts.
    let changes = || {
        let mut finalized = pod("p", &[]);
        finalized["metadata"]["finalizers"] = json!(["f"]);
        let mut labeled = finalized.clone();
        labeled["metadata"]["labels"] = json!({ "app": "a" });
        [finalized, labeled]
    };
    for (predicate, wanted) in [
        (Predicate::labels(), [false, true]),
        (!Predicate::labels(), [true, false]),
        (Predicate::generation(), [true, true]),
        (!Predicate::generation(), [true, true]),
        (Predicate::generation() & Predicate::labels(), [false, true]),
    ] {
        let seen = runs_after::<F, D>(decoder(), predicate, pod("p", &[]), changes()).await;
        assert_eq!(seen, wanted);
    }
}

/// Returns for each change whether a controller has run after it. A Pod's changes count as those of the ReplicaSet `p`.
async fn runs_after<F, D>(
    decoder: D,
    predicate: Predicate<F>,
    first: Value,
    changes: impl IntoIterator<Item = Value>,
) -> Vec<bool>
where
    F: Form<Stored: Send + Sync>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let mock = server();
    mock.create("pods", first).unwrap();
    let (sets, log) = (informer(&mock, SETS), Log::default());
    let pods = Informer::<F>::builder_with(mock.transport(), PODS, decoder).initial(Initial::List);
    // All conditions must hold, whatever their order.
    let always = || Predicate::new(|_, _| true);
    let pods = pods.when(always()).when(predicate).when(always());
    let controller = Controller::new(&sets).watches(pods, |pod| [pod.key().clone()]);
    let controller = run(controller, noting(&log));
    settle().await;
    assert_eq!(names(&log), ["prod/p"], "the initial state always counts");
    let mut seen = Vec::new();
    for change in changes {
        mock.put("pods", change).unwrap();
        settle().await;
        seen.push(!names(&log).is_empty());
    }
    controller.stop().await;
    seen
}

#[tokio::test(start_paused = true)]
async fn changes_are_selected_by_a_predicate() {
    changes_are_selected::<Raw, _>(Decoder::<Raw>::new).await;
    changes_are_selected::<Raw, _>(|| Decoder::<Raw>::new().protobuf()).await;
    changes_are_selected::<Meta, _>(Decoder::<Meta>::new).await;
    changes_are_selected::<Value, _>(Decoder::<Json<Value>>::new).await;
    changes_are_selected::<Value, _>(|| Decoder::<Json<Value>>::new().without_labels()).await;
    changes_are_selected::<Named, _>(|| {
        |raw: &RawObject<'_>| Ok::<_, String>(Named(raw.name().to_string()))
    })
    .await;
    changes_are_selected::<Named, _>(|| {
        FromProtobuf(|raw: &RawObject<'_>, _: Message<'_>| {
            Ok::<_, String>(Named(raw.name().to_string()))
        })
    })
    .await;
    #[cfg(feature = "zstd")]
    {
        use informer_tokio::Packed;
        use informer_tokio::decode::Packer;
        changes_are_selected::<Packed<Raw>, _>(Packer::<Raw>::new).await;
        changes_are_selected::<Packed<Value>, _>(Packer::<Value>::new).await;
    }
}

/// What an informer has stored before it had a predicate cannot be compared, so its next change counts, and only that.
#[tokio::test(start_paused = true)]
async fn a_change_of_what_is_not_known_counts() {
    let mock = server();
    mock.create("pods", pod("p", &[])).unwrap();
    let (sets, log) = (informer(&mock, SETS), Log::default());
    let pods: Informer<Value> = informer_of(&mock, PODS);
    pods.synced().await.unwrap();
    let controller = Controller::new(&sets)
        .watches((&pods).when(Predicate::labels()), |pod| [pod.key().clone()]);
    let controller = run(controller, noting(&log));
    let mut seen = Vec::new();
    for node in ["n1", "n2"] {
        settle().await;
        log.lock().unwrap().clear();
        let mut changed = pod("p", &[]);
        changed["spec"] = json!({ "nodeName": node });
        mock.put("pods", changed).unwrap();
        settle().await;
        seen.push(!names(&log).is_empty());
    }
    assert_eq!(seen, [true, false]);
    controller.stop().await;
}

/// A form that stores the name alone.
#[derive(Debug)]
struct Named(#[expect(dead_code, reason = "stored for nothing else")] String);

impl Form for Named {
    type Stored = Self;
    type Decoder = ();
}

#[tokio::test(start_paused = true)]
async fn the_times_of_runs_and_of_the_queue_are_measured() {
    let mock = with_sets(["a"]);
    let controller = run(
        Controller::new(&informer(&mock, SETS)),
        |_: Task<Raw>| async {
            sleep(secs(2)).await;
            Ok(())
        },
    );
    sleep(secs(5)).await;
    let metrics = controller.handle.metrics();
    assert_eq!(
        (metrics.reconcile.count, metrics.reconcile.sum),
        (1, secs(2))
    );
    let below = metrics.reconcile.at_most();
    let (shorter, longer): (Vec<_>, Vec<_>) = below.partition(|(bound, _)| *bound < secs(2));
    assert!(shorter.iter().all(|(_, count)| *count == 0));
    assert!(longer.iter().all(|(_, count)| *count == 1));
    assert_eq!(
        (metrics.queue.wait.count, metrics.queue.work.sum),
        (1, secs(2))
    );
    controller.stop().await;
}
