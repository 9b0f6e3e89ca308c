//! Exploring small controllers: what is found, shrunk and reported, and that runs follow from their seeds.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use informer_explore::{Actor, Explore, FaultKind, Objects, Process, World};
use informer_mock::json;
use serde_json::Value;
use tokio::time::sleep;

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Each ConfigMap has a Secret of the same name, and no other Secret exists.
fn each_has_its_secret(world: &World) -> Result<(), String> {
    let names = |resource| -> Vec<String> {
        let objects = world.objects(resource);
        objects
            .iter()
            .map(|object| name(object).to_owned())
            .collect()
    };
    let (maps, secrets) = (names("configmaps"), names("secrets"));
    if maps == secrets {
        return Ok(());
    }
    Err(format!("ConfigMaps {maps:?}, Secrets {secrets:?}"))
}

fn rules() -> Explore {
    let map = json!({ "metadata": { "namespace": "prod" }, "data": { "size": "1" } });
    Explore::new()
        .objects(Objects::new("configmaps", map).changed(json!({ "data": { "size": "2" } })))
        .edited("secrets")
        .check("each ConfigMap has its Secret", each_has_its_secret)
        .seeds(1_000)
}

/// Compares all ConfigMaps with all Secrets, every few seconds.
async fn compare(process: Process) {
    let client = process.client();
    loop {
        let maps = client.list("configmaps", "prod").await;
        let secrets = client.list("secrets", "prod").await;
        if let (Ok(maps), Ok(secrets)) = (maps, secrets) {
            let has = |list: &[Value], one: &Value| list.iter().any(|own| name(own) == name(one));
            for map in maps.iter().filter(|map| !has(&secrets, map)) {
                let secret = json!({ "metadata": { "namespace": "prod", "name": name(map) } });
                // The next round repeats what fails.
                let _ = client.create("secrets", &secret).await;
            }
            for secret in secrets.iter().filter(|secret| !has(&maps, secret)) {
                let _ = client.delete("secrets", "prod", name(secret)).await;
            }
        }
        sleep(Duration::from_secs(5)).await;
    }
}

#[test]
fn a_correct_controller_holds() {
    let explored = rules().seeds(200).run(compare);
    assert_eq!(explored.seeds, 200);
    assert!(explored.requests > 1_000, "{explored}");
}

#[test]
fn the_same_seed_gives_the_same_run_a_hundred_times() {
    let requests = |seed| -> Vec<String> { rules().trace(seed, compare).requests().collect() };
    let first = requests(7);
    assert!(first.len() > 20, "{first:#?}");
    for _ in 0..100 {
        assert_eq!(requests(7), first);
    }
    assert_ne!(requests(8), first);
}

/// Like [`compare`], but it never looks again after a write that fails.
async fn give_up(process: Process) {
    let client = process.client();
    loop {
        for map in client.list("configmaps", "prod").await.unwrap_or_default() {
            let secret = json!({ "metadata": { "namespace": "prod", "name": name(&map) } });
            match client.create("secrets", &secret).await {
                Err(error) if !error.already_exists() => core::future::pending().await,
                _ => {}
            }
        }
        sleep(Duration::from_secs(5)).await;
    }
}

#[test]
fn a_failure_is_shrunk_and_reported() {
    let map = json!({ "metadata": { "namespace": "prod" } });
    let rules = Explore::new()
        .objects(Objects::new("configmaps", map).kept())
        .without(FaultKind::Crash)
        .check("each ConfigMap has its Secret", each_has_its_secret);
    let failure = rules.find(give_up).unwrap_err();
    assert_eq!(failure.check, "each ConfigMap has its Secret");
    assert!(failure.what.starts_with("ConfigMaps [\""), "{failure}");
    assert_eq!(failure.difference, None);
    // A write that fails, and the objects that need it.
    assert!((2..=3).contains(&failure.actions.len()), "{failure}");
    let text = failure.to_string();
    let command = format!(
        "EXPLORE_SEED={} cargo test -p informer-explore -- --exact",
        failure.seed
    );
    for part in [
        "expected: each ConfigMap has its Secret",
        &command,
        "explore::a_failure_is_shrunk_and_reported",
        "a user writes configmaps",
        "POST /api/v1/namespaces/prod/secrets",
        " actions; ",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let page = failure.html();
    assert!(page.contains("<h1>seed") && page.contains("POST /api/v1/namespaces/prod/secrets"));
    assert!(!page.contains("http"), "it needs nothing from elsewhere");
    let path = failure.write_page().unwrap();
    let file = format!(
        "explore-a_failure_is_shrunk_and_reported-{}.html",
        failure.seed
    );
    assert!(path.ends_with(&file), "{path:?}");
}

#[test]
fn each_write_is_explored_systematically() {
    let rules = rules().each_write().seeds(1);
    let explored = rules.run(compare);
    // At least one Secret for each object and for each new one, each with five fates.
    assert!(explored.points > 20, "{explored}");
    let points = explored.points;
    let text = explored.to_string();
    assert!(
        text.starts_with(&format!("{points} of {points} points, and 1 seeds")),
        "{text}"
    );

    let failure = rules.clone().without(FaultKind::Crash).find(give_up);
    let failure = failure.unwrap_err();
    assert!(failure.point.is_some(), "{failure}");
    assert_eq!(failure.seed, 0);
    let text = failure.to_string();
    assert!(text.contains("EXPLORE_POINT="), "{text}");
    assert!((2..=3).contains(&failure.actions.len()), "{text}");

    let failure = rules.find(look).unwrap_err();
    assert_eq!(failure.check, "the program writes", "{failure}");
}

#[test]
fn a_program_with_randomness_of_its_own_is_reported() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let failure = rules().find(|process: Process| {
        let round = COUNT.fetch_add(1, Ordering::Relaxed);
        async move {
            sleep(Duration::from_millis(round)).await;
            let _ = process.client().list("configmaps", "prod").await;
            core::future::pending::<()>().await;
        }
    });
    let failure = failure.unwrap_err();
    let difference = failure.difference.as_ref().unwrap();
    assert_eq!(difference.index, 0);
    assert_ne!(difference.first, difference.second);
    assert!(
        failure.to_string().contains("NOT DETERMINISTIC"),
        "{failure}"
    );
}

#[test]
fn panics_and_loops_are_failures() {
    async fn panics(process: Process) {
        sleep(Duration::from_secs(1)).await;
        assert!(process.replica() > 0, "a planted panic");
    }
    let failure = rules().find(panics).unwrap_err();
    assert_eq!(failure.check, "it does not panic");
    assert!(failure.what.contains("a planted panic"), "{failure}");

    async fn loops(process: Process) {
        let client = process.client();
        for round in 0_u64.. {
            let map = json!({ "metadata": { "namespace": "prod", "name": "own" }, "data": { "n": round.to_string() } });
            let _ = client.create("configmaps", &map).await;
            let _ = client.replace("configmaps", &map).await;
            sleep(Duration::from_secs(10)).await;
        }
    }
    let failure = Explore::new().faults([]).find(loops).unwrap_err();
    assert_eq!(failure.check, "it comes to rest", "{failure}");
    assert!(
        failure.what.starts_with("30 minutes after the last fault"),
        "{failure}"
    );

    async fn asks(process: Process) {
        let client = process.client();
        loop {
            let _ = client.get("leases", "prod", "leader").await;
        }
    }
    let failure = Explore::new().find(asks).unwrap_err();
    assert_eq!(failure.check, "it comes to rest", "{failure}");
    let what = "it loops: 2000 requests within ";
    assert!(failure.what.starts_with(what), "{failure}");
    let what = "2000 of them GET /apis/coordination.k8s.io/v1/namespaces/prod/leases/leader; one of the last answers: 404";
    assert!(failure.what.contains(what), "{failure}");
    let text = failure.to_string();
    assert!(text.lines().count() < 500 && text.contains("more lines, which the page has"));
}

/// What a cloud has, by name.
#[derive(Default)]
struct Cloud(Mutex<Vec<String>>);

#[test]
fn a_process_dies_between_two_writes_and_starts_again() {
    /// Creates something outside, and then marks the ConfigMap, which is how it knows.
    async fn twice(process: Process) {
        let client = process.client();
        loop {
            for map in client.list("configmaps", "prod").await.unwrap_or_default() {
                if map["data"]["made"] == "yes" {
                    continue;
                }
                let (world, key) = (process.world(), name(&map).to_owned());
                process
                    .call("create", || {
                        world.outside::<Cloud>().0.lock().unwrap().push(key);
                    })
                    .await;
                let mark = json!({ "data": { "made": "yes" } });
                while client
                    .patch("configmaps", "prod", name(&map), &mark)
                    .await
                    .is_err()
                {
                    sleep(Duration::from_secs(1)).await;
                }
            }
            sleep(Duration::from_secs(5)).await;
        }
    }
    let map = json!({ "metadata": { "namespace": "prod" } });
    let rules = Explore::new()
        .objects(Objects::new("configmaps", map).names(["a"]).kept())
        .always("it is created once", |world| {
            match world.outside::<Cloud>().0.lock().unwrap().len() {
                0 | 1 => Ok(()),
                count => Err(format!("it was created {count} times")),
            }
        });
    let failure = rules.find(twice).unwrap_err();
    assert_eq!(failure.what, "it was created 2 times");
    assert!(failure.actions.len() <= 3, "{failure}");
    assert!(
        failure
            .actions
            .iter()
            .any(|action| action.what.contains("dies")),
        "{failure}"
    );
    // Without crashes nothing is wrong.
    rules.without(FaultKind::Crash).seeds(100).run(twice);
}

/// Only looks once: what matters is done by actors.
async fn look(process: Process) {
    let _ = process.client().list("configmaps", "prod").await;
    core::future::pending::<()>().await;
}

#[test]
fn actors_act_on_changes() {
    let labeller = Actor::new("labeller", |cluster| {
        for map in cluster.objects("configmaps") {
            if map["metadata"]["labels"]["seen"].is_null() {
                let patch = json!({ "metadata": { "labels": { "seen": "yes" } } });
                assert_eq!(cluster.patch("configmaps", &map, &patch).0, 200);
            }
        }
    });
    let rules = Explore::new()
        .objects(Objects::new(
            "configmaps",
            json!({ "metadata": { "namespace": "prod" } }),
        ))
        .actor(labeller)
        .check("all are labelled", |world| {
            let maps = world.objects("configmaps");
            let all = maps
                .iter()
                .all(|map| map["metadata"]["labels"]["seen"] == "yes");
            all.then_some(()).ok_or_else(|| format!("{maps:?}"))
        });
    rules.clone().seeds(50).run(look);
    let trace = rules.trace(1, look);
    assert!(
        trace.lanes().iter().any(|lane| lane == "labeller"),
        "{trace}"
    );
}

#[test]
fn replicas_are_upgraded_one_after_the_other() {
    /// Marks objects in the way of the old program, and of the new one.
    async fn mark(process: Process, own: &'static str, known: &'static [&'static str]) {
        let client = process.client();
        loop {
            for map in client.list("configmaps", "prod").await.unwrap_or_default() {
                let by = map["data"]["by"].as_str();
                if !by.is_some_and(|by| known.contains(&by)) {
                    let patch = json!({ "data": { "by": own } });
                    let _ = client.patch("configmaps", "prod", name(&map), &patch).await;
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let map = json!({ "metadata": { "namespace": "prod" } });
    let rules = Explore::new()
        .objects(Objects::new("configmaps", map))
        .replicas(2)
        .upgraded_from(|process| mark(process, "old", &["old"]))
        .check("all are new", |world| {
            let maps = world.objects("configmaps");
            match maps.iter().find(|map| map["data"]["by"] != "new") {
                Some(map) => Err(format!("{} is {}", name(map), map["data"]["by"])),
                None => Ok(()),
            }
        });
    rules
        .clone()
        .seeds(100)
        .run(|process| mark(process, "new", &["new"]));
    // It leaves what the old program has marked.
    let failure = rules.find(|process| mark(process, "new", &["old", "new"]));
    let failure = failure.unwrap_err();
    assert!(failure.what.contains("is \"old\""), "{failure}");
}

#[test]
fn deployments_become_pods_that_run() {
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "web", "image": "web:1" }] } });
    let deployment = json!({
        "metadata": { "namespace": "prod" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template },
    });
    let newer = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "web", "image": "web:2" }] } } } });
    let deployments = Objects::new("deployments.apps", deployment)
        .changed(newer)
        .changed(json!({ "spec": { "replicas": 3 } }))
        .kept();
    let rules = Explore::new()
        .objects(deployments)
        .actor(Actor::deployments())
        .actor(Actor::replica_sets())
        .actor(Actor::kubelet(4))
        .edited("pods")
        .check("as many Pods run as are wanted", |world| {
            let running = |image: &Value| {
                let pods = world.objects("pods");
                let own = pods
                    .iter()
                    .filter(|pod| pod["spec"]["containers"][0]["image"] == *image);
                own.filter(|pod| pod["status"]["phase"] == "Running")
                    .count()
            };
            for deployment in world.objects("deployments.apps") {
                let wanted = &deployment["spec"]["replicas"];
                if deployment["status"]["readyReplicas"] != *wanted {
                    return Err(format!(
                        "{} has {}, and wants {wanted}",
                        name(&deployment),
                        deployment["status"]
                    ));
                }
                let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
                if running(image) == 0 {
                    return Err(format!("no Pod runs {image}"));
                }
            }
            Ok(())
        });
    rules.seeds(30).run(look);
}

#[test]
fn rivals_and_namespaces() {
    let rules = Explore::new()
        .objects(Objects::new("namespaces", json!({})).names(["prod"]))
        .objects(Objects::new(
            "configmaps",
            json!({ "metadata": { "namespace": "prod" }, "data": { "by": "user" } }),
        ))
        .actor(Actor::namespaces(["configmaps"]))
        .actor(Actor::rival(
            "configmaps",
            json!({ "data": { "by": "rival" } }),
            3,
        ))
        .check("nothing is in a namespace that is gone", |world| {
            let is_gone = world.get("namespaces", "", "prod").is_none();
            let maps = world.objects("configmaps");
            if is_gone && !maps.is_empty() {
                Err(format!("{maps:?}"))
            } else {
                Ok(())
            }
        });
    rules.clone().seeds(30).run(look);
    let wrote = |seed| rules.trace(seed, look).to_string();
    let all: String = (0..10).map(wrote).collect();
    assert!(
        all.contains("rival.example.com/writes") && all.contains("namespaces  "),
        "{all}"
    );
}
