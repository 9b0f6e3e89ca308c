//! Small controllers with a planted bug each, and without it: each bug is found within 1,000 seeds.

use core::time::Duration;
use std::sync::Mutex;

use informer_explore::{Actor, ApiError, Client, Explore, FaultKind, Invariant, Objects, Process};
use informer_mock::json;
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// Explores the correct program, and the one with the bug.
fn finds<F: Future<Output = ()> + 'static>(
    rules: Explore,
    check: &str,
    program: impl Fn(Process, bool) -> F + Send + Sync + Copy + 'static,
) {
    // They look at everything every second, so less patience suffices, and saves time.
    let rules = rules.patience(Duration::from_secs(300)).shrinks(150);
    rules
        .clone()
        .seeds(150)
        .run(move |process| program(process, false));
    let failure = rules
        .seeds(1_000)
        .find(move |process| program(process, true));
    let failure = failure.unwrap_err();
    assert_eq!(failure.check, check, "{failure}");
    assert_eq!(failure.difference, None, "{failure}");
    assert!(failure.actions.len() <= 5, "{failure}");
}

fn map() -> Objects {
    Objects::new("configmaps", json!({ "metadata": { "namespace": "prod" } }))
}

async fn maps(client: &Client) -> Vec<Value> {
    client.list("configmaps", "prod").await.unwrap_or_default()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// It replaces an object that it read a while ago. Without a version, it undoes what others wrote since.
#[test]
fn a_replacement_without_a_version() {
    async fn count(process: Process, bug: bool) {
        let client = process.client();
        loop {
            for mut map in maps(&client).await {
                if map["data"]["counted"] == "yes" {
                    continue;
                }
                sleep(Duration::from_millis(200)).await; // It computes something.
                map["data"]["counted"] = "yes".into();
                if bug && let Value::Object(metadata) = &mut map["metadata"] {
                    metadata.remove("resourceVersion");
                }
                // The next round repeats what fails.
                let _ = client.replace("configmaps", &map).await;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let labeller = Actor::new("labeller", |cluster| {
        for map in cluster.objects("configmaps") {
            // It labels each object once, and remembers its uid outside.
            let uid = map["metadata"]["uid"].as_str().unwrap().to_owned();
            let labelled = cluster.world().outside::<Mutex<Vec<String>>>();
            if !labelled.lock().unwrap().contains(&uid) {
                cluster.patch(
                    "configmaps",
                    &map,
                    &json!({ "metadata": { "labels": { "team": "a" } } }),
                );
                labelled.lock().unwrap().push(uid);
            }
        }
    });
    let rules =
        Explore::new()
            .objects(map())
            .actor(labeller)
            .check("labels of others stay", |world| {
                let maps = world.objects("configmaps");
                match maps
                    .iter()
                    .find(|map| map["metadata"]["labels"]["team"] != "a")
                {
                    Some(map) => Err(format!("{} has lost its label", name(map))),
                    None => Ok(()),
                }
            });
    // It would find the bug first.
    let rules = rules.without_invariant(Invariant::ForeignFieldsStay);
    finds(rules, "labels of others stay", count);
}

/// It removes the finalizer before it cleans up. If it dies in between, nobody cleans up.
#[test]
fn a_finalizer_that_is_removed_too_early() {
    const FINALIZER: &str = "example.com/rule";

    #[derive(Default)]
    struct Firewall(Mutex<std::collections::BTreeSet<String>>);

    async fn protect(process: Process, bug: bool) {
        let (client, world) = (process.client(), process.world());
        let set = async |map: &Value, finalizers: Value| -> Result<Value, ApiError> {
            let version = &map["metadata"]["resourceVersion"];
            let patch =
                json!({ "metadata": { "finalizers": finalizers, "resourceVersion": version } });
            client.patch("configmaps", "prod", name(map), &patch).await
        };
        let rules = || world.outside::<Firewall>();
        loop {
            for map in maps(&client).await {
                let uid = map["metadata"]["uid"].as_str().unwrap().to_owned();
                let finalizes = map["metadata"]["finalizers"][0] == FINALIZER;
                let remove = || rules().0.lock().unwrap().remove(&uid);
                if map["metadata"]["deletionTimestamp"].is_null() {
                    if finalizes || set(&map, json!([FINALIZER])).await.is_ok() {
                        process
                            .call("add a rule", || {
                                rules().0.lock().unwrap().insert(uid.clone())
                            })
                            .await;
                    }
                } else if bug {
                    if set(&map, json!(null)).await.is_ok() {
                        process.call("remove the rule", remove).await;
                    }
                } else {
                    process.call("remove the rule", remove).await;
                    let _ = set(&map, json!(null)).await;
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let rules = Explore::new()
        .objects(map())
        .check("no rule is left over", |world| {
            let maps = world.objects("configmaps");
            let uids: Vec<_> = maps
                .iter()
                .filter_map(|map| map["metadata"]["uid"].as_str())
                .collect();
            let firewall = world.outside::<Firewall>();
            let rules = firewall.0.lock().unwrap();
            match rules.iter().find(|rule| !uids.contains(&rule.as_str())) {
                Some(rule) => Err(format!("the rule of {rule} is left over")),
                None => Ok(()),
            }
        });
    finds(rules, "no rule is left over", protect);
}

/// It creates an object under a generated name, and repeats that when the response is lost.
#[test]
fn a_creation_that_is_repeated() {
    async fn invoice(process: Process, bug: bool) {
        let client = process.client();
        loop {
            let secrets = client.list("secrets", "prod").await;
            for map in maps(&client).await {
                let Ok(secrets) = &secrets else { break };
                let labels = json!({ "of": map["metadata"]["uid"] });
                if secrets
                    .iter()
                    .any(|secret| secret["metadata"]["labels"] == labels)
                {
                    continue;
                }
                let uid = map["metadata"]["uid"].as_str().unwrap();
                let metadata = if bug {
                    json!({ "namespace": "prod", "generateName": "invoice-", "labels": labels })
                } else {
                    json!({ "namespace": "prod", "name": format!("invoice-{uid}"), "labels": labels })
                };
                let secret = json!({ "metadata": metadata });
                for _ in 0..3 {
                    match client.create("secrets", &secret).await {
                        Err(error) if !error.already_exists() => {
                            sleep(Duration::from_millis(100)).await;
                        }
                        _ => break,
                    }
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let rules = Explore::new()
        .objects(map())
        .always("one invoice for each", |world| {
            let secrets = world.objects("secrets");
            let mut of: Vec<_> = secrets
                .iter()
                .map(|secret| secret["metadata"]["labels"]["of"].to_string())
                .collect();
            of.sort();
            match of.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => Err(format!("{} has two", pair[0])),
                None => Ok(()),
            }
        });
    finds(rules, "one invoice for each", invoice);
}

/// Two replicas elect a leader by a Lease. The bug compares the time in the Lease with the own time of day, which differs
/// on the other machine. Without it, a replica observes for how long the Lease does not change.
/// A Pod cannot be changed, so it deletes it and creates another one. It takes the old one, which still runs, for the new
/// one.
#[test]
fn a_pod_that_still_runs() {
    async fn run(process: Process, bug: bool) {
        let client = process.client();
        let mut done = std::collections::BTreeSet::new();
        loop {
            for map in maps(&client).await {
                let own = name(&map);
                let version = map["metadata"]["resourceVersion"].to_string();
                if done.contains(&version) {
                    continue;
                }
                let Ok(found) = client.get("pods", "prod", own).await else {
                    continue;
                };
                let is_old = |pod: &Value| pod["metadata"]["labels"]["size"] != map["data"]["size"];
                if found.is_some_and(|pod| is_old(&pod))
                    && client.delete("pods", "prod", own).await.is_err()
                {
                    continue;
                }
                let labels = json!({ "size": map["data"]["size"] });
                let pod =
                    json!({ "metadata": { "namespace": "prod", "name": own, "labels": labels } });
                match client.create("pods", &pod).await {
                    Err(error) if bug && error.already_exists() => drop(done.insert(version)),
                    // The next round repeats what fails.
                    _ => {}
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    let map = json!({ "metadata": { "namespace": "prod" }, "data": { "size": "1" } });
    let rules = Explore::new()
        .objects(Objects::new("configmaps", map).changed(json!({ "data": { "size": "2" } })))
        .actor(Actor::kubelet(0))
        .check("each has its Pod", |world| {
            let is_served = |map: &Value| {
                let pod = world.get("pods", "prod", name(map));
                pod.is_some_and(|pod| pod["metadata"]["labels"]["size"] == map["data"]["size"])
            };
            let maps = world.objects("configmaps");
            let found = maps.iter().find(|map| !is_served(map));
            found.map_or(Ok(()), |map| Err(format!("not that of {}", name(map))))
        });
    let without = rules.clone().without(FaultKind::SlowDeletion).seeds(100);
    without.find(|process| run(process, true)).unwrap();
    finds(rules, "each has its Pod", run);
}

#[test]
fn an_election_that_trusts_clocks() {
    const TERM: Duration = Duration::from_secs(15);

    /// Who acts as the leader, and until when.
    #[derive(Default)]
    struct Leaders(Mutex<Vec<(String, Duration)>>);

    async fn lead(process: Process, bug: bool) {
        let (client, world) = (process.client(), process.world());
        let seconds =
            |at: std::time::SystemTime| at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let (mut seen, mut since) = (String::new(), Instant::now());
        loop {
            sleep(Duration::from_secs(2)).await;
            let asked = Instant::now();
            let Ok(lease) = client
                .get("leases.coordination.k8s.io", "prod", "leader")
                .await
            else {
                continue;
            };
            let renewed = seconds(process.now());
            let mut wanted = json!({
                "metadata": { "namespace": "prod", "name": "leader" },
                "spec": { "holderIdentity": process.pod(), "leaseTransitions": renewed },
            });
            let written = match lease {
                None => client.create("leases.coordination.k8s.io", &wanted).await,
                Some(lease) => {
                    let version = lease["metadata"]["resourceVersion"]
                        .as_str()
                        .unwrap()
                        .to_owned();
                    if version != seen {
                        // It counts from the response: the request may have been slow.
                        (seen, since) = (version, Instant::now());
                    }
                    let is_own = lease["spec"]["holderIdentity"] == *process.pod();
                    let last = lease["spec"]["leaseTransitions"].as_u64().unwrap();
                    let is_over = if bug {
                        renewed > last + TERM.as_secs()
                    } else {
                        asked.saturating_duration_since(since) > TERM
                    };
                    if !is_own && !is_over {
                        continue;
                    }
                    wanted["metadata"]["resourceVersion"] = seen.clone().into();
                    client.replace("leases.coordination.k8s.io", &wanted).await
                }
            };
            if written.is_ok() {
                // It leads for a while, counted from before the request.
                let until =
                    world.elapsed() + Duration::from_secs(8).saturating_sub(asked.elapsed());
                let leaders = world.outside::<Leaders>();
                let mut leaders = leaders.0.lock().unwrap();
                leaders.retain(|(pod, _)| *pod != process.pod());
                leaders.push((process.pod(), until));
            }
        }
    }
    let rules = Explore::new()
        .replicas(2)
        .objects(map())
        .always("one replica leads", |world| {
            let leaders = world.outside::<Leaders>();
            let leaders = leaders.0.lock().unwrap();
            // One that is dead leads no more, but it is not known here: each replica counts once.
            let live = leaders.iter().filter(|(_, until)| *until > world.elapsed());
            let mut replicas: Vec<_> = live
                .map(|(pod, _)| pod.rsplit_once('-').unwrap().0)
                .collect();
            replicas.dedup();
            if replicas.len() > 1 {
                Err(format!("{leaders:?} lead"))
            } else {
                Ok(())
            }
        });
    finds(rules, "one replica leads", lead);
}
