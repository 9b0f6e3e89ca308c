//! Own writes that a controller skips, and all those that it must not skip.

use super::*;

/// A server with one ReplicaSet, whose status is written.
#[derive(Clone)]
struct World {
    mock: Server,
    log: WriteLog,
    sets: Informer<Raw>,
    /// The number of runs.
    runs: Arc<AtomicUsize>,
}

/// How a status is written.
#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Put,
    Merge,
    Apply,
}

impl World {
    fn new() -> Self {
        let mock = with_sets(["a"]);
        let sets = informer(&mock, SETS);
        Self {
            log: WriteLog::default(),
            runs: Arc::default(),
            mock,
            sets,
        }
    }

    /// A controller that skips own writes.
    fn skips(&self) -> Controller<Raw> {
        self.controller().skip_own_writes(["status"])
    }

    fn controller(&self) -> Controller<Raw> {
        Controller::new(Provided::from(self.sets.clone()).with_writes(&self.log))
    }

    /// Runs a controller whose function does `work`, which gets the number of the run.
    fn run<R>(
        &self,
        controller: Controller<Raw>,
        work: impl Fn(usize, Task<Raw>) -> R + Send + Sync + 'static,
    ) -> Running
    where
        R: Future<Output: Into<Next>> + Send + 'static,
    {
        let runs = Arc::clone(&self.runs);
        run(controller, move |task| {
            let working = work(runs.fetch_add(1, Ordering::Relaxed), task);
            async move { Ok(working.await.into()) }
        })
    }

    /// Writes a status, and returns the request and the answer.
    fn send(&self, how: How, version: Option<&str>, status: &Value) -> (Value, Value) {
        let mut body = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "a" }, "status": status });
        if let Some(version) = version {
            body["metadata"]["resourceVersion"] = version.into();
        }
        if how == How::Put {
            body["metadata"]["namespace"] = "prod".into();
        }
        let (method, content_type, options) = match how {
            How::Put => ("PUT", "application/json", ""),
            How::Merge => ("PATCH", "application/merge-patch+json", ""),
            How::Apply => (
                "PATCH",
                "application/apply-patch+yaml",
                "?fieldManager=test&force=true",
            ),
        };
        let target = format!("/apis/apps/v1/namespaces/prod/replicasets/a/status{options}");
        let write = Write {
            method,
            target: &target,
            content_type,
            body: &body.to_string().into_bytes(),
        };
        let now = informer_mock::Instant::from_micros(0);
        let (code, answer) = self.mock.with(|server| server.execute(now, write));
        let text = String::from_utf8_lossy(&answer);
        assert_eq!(code, 200, "{how:?}: {text}");
        (body, serde_json::from_slice(&answer).unwrap())
    }

    fn record(&self, (request, answer): &(Value, Value)) {
        let [request, answer] = [request, answer].map(|json| json.to_string().into_bytes());
        self.log
            .record_subresource(&SETS, "prod/a", "status", &request, &answer);
    }

    /// Writes a status and records it.
    fn write(&self, how: How, version: Option<&str>, status: &Value) {
        self.record(&self.send(how, version, status));
    }

    /// Another program changes the set.
    fn change(&self, round: u64) {
        self.mock.put("replicasets.apps", set("a", round)).unwrap();
    }

    /// Returns the number of runs after everything has settled.
    async fn runs(&self) -> usize {
        sleep(secs(60)).await;
        self.runs.load(Ordering::Relaxed)
    }
}

/// The status that a run writes, which differs from that of other runs.
fn status(number: usize) -> Value {
    json!({ "replicas": number + 1 })
}

fn version(task: &Task<Raw>) -> String {
    task.object().unwrap().resource_version().to_string()
}

#[tokio::test(start_paused = true)]
async fn an_own_write_causes_no_run() {
    for how in [How::Put, How::Merge, How::Apply] {
        for is_based in [true, false] {
            for skips in [true, false] {
                let world = World::new();
                let controller = if skips {
                    world.skips()
                } else {
                    world.controller()
                };
                let in_run = world.clone();
                let running = world.run(controller, move |number, task| {
                    let world = in_run.clone();
                    async move {
                        let version = is_based.then(|| version(&task));
                        // The second run changes nothing.
                        if number % 2 == 0 {
                            world.write(how, version.as_deref(), &status(number));
                        }
                    }
                });
                for round in 1..=10 {
                    sleep(secs(10)).await;
                    world.change(round);
                }
                let what = format!("{how:?}, based: {is_based}, skips: {skips}");
                let runs = world.runs().await;
                let skipped = running.handle.metrics().own_writes_skipped;
                let expected = if skips { (11, 6) } else { (22, 0) };
                assert_eq!((runs, skipped), expected, "{what}");
                running.stop().await;
            }
        }
    }
}

/// What comes of writes that may not be the only change.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_not_known_to_be_an_own_write_causes_a_run() {
    type Act = fn(&World, &Task<Raw>);
    let cases: [(&str, Act, usize); 8] = [
        (
            "nothing",
            |world, task| world.write(How::Merge, Some(&version(task)), &status(1)),
            1,
        ),
        // The server answers with the version of the other program's change.
        (
            "a write that changes nothing, for any state",
            |world, _| {
                world.change(7);
                world.write(How::Merge, None, &json!({}));
            },
            2,
        ),
        (
            "a write that changes nothing, for the state that it has read",
            |world, _| {
                world.change(7);
                let object = world
                    .mock
                    .with(|server| server.get("replicasets.apps", "prod", "a"));
                let version = object.unwrap()["metadata"]["resourceVersion"].clone();
                world.write(How::Merge, version.as_str(), &json!({}));
            },
            2,
        ),
        (
            "a write to a status that another program writes as well",
            |world, _| {
                world.send(How::Merge, None, &json!({ "readyReplicas": 1 }));
                world.write(How::Merge, None, &status(1));
            },
            2,
        ),
        (
            "a write after another change",
            |world, _| {
                world.change(7);
                world.write(How::Put, None, &status(1));
            },
            2,
        ),
        (
            "a write without an answer",
            |world, task| {
                world.send(How::Put, Some(&version(task)), &status(1));
            },
            2,
        ),
        (
            "a write whose event is lost",
            |world, task| {
                world.mock.with(FakeServer::cut_watches);
                world.write(How::Put, Some(&version(task)), &status(1));
                world.mock.with(FakeServer::compact_all);
            },
            2,
        ),
        (
            "a write of another subresource",
            |world, task| {
                let (request, answer) = world.send(How::Put, Some(&version(task)), &status(1));
                let [request, answer] = [request, answer].map(|json| json.to_string().into_bytes());
                world
                    .log
                    .record_subresource(&SETS, "prod/a", "scale", &request, &answer);
            },
            2,
        ),
    ];
    for (what, act, expected) in cases {
        let world = World::new();
        let in_run = world.clone();
        let running = world.run(world.skips(), move |number, task| {
            if number == 0 {
                act(&in_run, &task);
            }
            core::future::ready(())
        });
        assert_eq!(world.runs().await, expected, "{what}");
        running.stop().await;
    }
}

/// The event of a write arrives before its answer, so that only the end of the run shows whose it is.
#[tokio::test(start_paused = true)]
async fn a_change_during_a_run_waits_for_its_answer() {
    for (is_answered, expected) in [(true, 1), (false, 2)] {
        let world = World::new();
        let in_run = world.clone();
        let running = world.run(world.skips(), move |number, task| {
            let world = in_run.clone();
            async move {
                if number > 0 {
                    return;
                }
                let sent = world.send(How::Put, Some(&version(&task)), &status(1));
                let shown = sent.1["metadata"]["resourceVersion"].clone();
                let shown = shown.as_str().unwrap();
                let informer = &world.sets;
                informer.wait_for_write("prod/a", shown).await.unwrap();
                sleep(secs(1)).await;
                if is_answered {
                    world.record(&sent);
                }
            }
        });
        assert_eq!(world.runs().await, expected, "answered: {is_answered}");
        running.stop().await;
    }
}

/// A drain reconciles a key that has changed during its run.
#[tokio::test(start_paused = true)]
async fn a_change_that_waits_is_not_lost_at_the_end() {
    let world = World::new();
    let in_run = world.clone();
    let running = world.run(world.skips(), move |number, _| {
        let world = in_run.clone();
        async move {
            if number == 0 {
                world.change(7);
                sleep(secs(10)).await;
            }
        }
    });
    sleep(secs(5)).await;
    running.handle.drain();
    timeout(secs(100), running.ended).await.unwrap().unwrap();
    assert_eq!(world.runs().await, 2);
}

/// What one controller writes is a change for another one of the same objects, even if they share their log.
#[tokio::test(start_paused = true)]
async fn the_write_of_another_controller_causes_a_run() {
    let world = World::new();
    let in_run = world.clone();
    let writer = world.run(world.skips(), move |number, task| {
        if number == 0 {
            in_run.write(How::Put, Some(&version(&task)), &status(1));
        }
        core::future::ready(())
    });
    let other = World {
        runs: Arc::default(),
        ..world.clone()
    };
    let reader = other.run(other.skips(), |_, _| sleep(secs(1)));
    assert_eq!((world.runs().await, other.runs().await), (1, 2));
    writer.stop().await;
    reader.stop().await;
}

/// A function that adds a finalizer, and expects the run after its own write. Then it counts up its status, one step in each
/// run.
#[cfg(feature = "requests")]
#[tokio::test(start_paused = true)]
async fn the_write_of_a_finalizer_causes_a_run_and_so_does_a_request() {
    use http::{Method, Request};
    use informer_tokio::controller::RecordWrites;
    use informer_tokio::requests::HttpService as _;

    let world = World::new();
    let client = RecordWrites::new(world.mock.service(), &world.log);
    let running = world.run(world.skips(), move |_, task| {
        let mut client = client.clone();
        let set = task.object().unwrap();
        let has_finalizer = set.string_at(&["metadata", "finalizers", "0"]).is_some();
        let step = set.at(&["status", "replicas"]).map_or(0, |step| {
            core::str::from_utf8(step).unwrap().parse().unwrap()
        });
        let mut patch = json!({ "metadata": { "resourceVersion": version(&task) } });
        async move {
            let mut path = SETS.namespace("prod").object_path("a").to_string();
            if !has_finalizer {
                patch["metadata"]["finalizers"] = json!(["example.com/test"]);
            } else if step < 5 {
                path += "/status";
                patch["status"] = status(step);
            } else {
                return Next::done();
            }
            let request = Request::builder()
                .method(Method::PATCH)
                .uri(path)
                .header("content-type", "application/merge-patch+json")
                .body(patch.to_string().into())
                .unwrap();
            client.exchange(request).await.unwrap();
            if has_finalizer {
                Next::again()
            } else {
                Next::done()
            }
        }
    });
    assert_eq!(world.runs().await, 7);
    assert_eq!(running.handle.metrics().own_writes_skipped, 5);
    running.stop().await;
}
