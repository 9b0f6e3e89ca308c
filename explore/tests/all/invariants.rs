//! Invariants find bugs without a check of an author, and are silent on the same programs without the bug.

use core::time::Duration;

use informer_explore::{Client, Explore, FaultKind, Invariant, Objects, Process};
use informer_mock::json;
use serde_json::Value;
use tokio::time::sleep;

use super::table;

fn rules() -> Explore {
    let map = Objects::new("configmaps", json!({ "metadata": { "namespace": "prod" } }));
    let rules = Explore::new().objects(map).edited("configmaps");
    rules.patience(Duration::from_secs(120)).shrinks(50)
}

/// Explores a program without its bug, and with it, and with the invariant switched off.
fn finds<F: Future<Output = ()> + 'static>(
    invariant: Invariant,
    (check, bug): (&str, &str),
    rules: &Explore,
    program: impl Fn(Process, bool) -> F + Send + Sync + Copy + 'static,
) {
    let calm = rules.clone().seeds(100);
    calm.run(move |process| program(process, false));
    let failure = rules.find(move |process| program(process, true));
    let failure = failure.unwrap_err();
    assert_eq!(failure.check, check, "{failure}");
    assert_eq!(failure.difference, None, "{failure}");
    let cells = format!("{bug} | {}", failure.seed);
    table::check(&format!("{invariant:?}"), &cells, None);
    // One of the programs marks objects with the process that has written them.
    let off = calm.without_field("configmaps", "/data/by");
    let off = off.seeds(40).without_invariant(invariant);
    let result = off.find(move |process| program(process, true));
    assert!(result.is_ok_and(|explored| explored.seeds == 40));
}

async fn maps(client: &Client) -> Vec<Value> {
    client.list("configmaps", "prod").await.unwrap_or_default()
}

fn name(map: &Value) -> &str {
    map["metadata"]["name"].as_str().unwrap()
}

#[test]
fn an_object_that_waits_in_its_deletion() {
    const OWN: &str = "example.com/own";
    async fn protect(process: Process, bug: bool) {
        let client = process.client();
        loop {
            for map in maps(&client).await {
                let metadata = &map["metadata"];
                let is_deleted = !metadata["deletionTimestamp"].is_null();
                let has = metadata["finalizers"][0] == OWN;
                let finalizers = match (is_deleted, has) {
                    (false, false) => json!([OWN]),
                    (true, true) if !bug => Value::Null,
                    _ => continue,
                };
                let version = &metadata["resourceVersion"];
                let patch =
                    json!({ "metadata": { "finalizers": finalizers, "resourceVersion": version } });
                // The next round repeats what fails.
                let _ = client.patch("configmaps", "prod", name(&map), &patch).await;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let check = "no object waits in its deletion";
    finds(
        Invariant::DeletionsEnd,
        (check, "it never removes its finalizer"),
        &rules(),
        protect,
    );
}

#[test]
fn a_program_that_is_busy_at_rest() {
    async fn poll(process: Process, bug: bool) {
        let client = process.client();
        loop {
            let _ = maps(&client).await;
            let pause = if bug { 15 } else { 1_000 };
            sleep(Duration::from_millis(pause)).await;
        }
    }
    let check = "it is quiet at rest";
    rules().seeds(100).run(|process| poll(process, false));
    let failure = rules().find(|process| poll(process, true)).unwrap_err();
    assert_eq!(failure.check, check, "{failure}");
}

#[test]
fn writes_without_an_effect_at_rest() {
    async fn label(process: Process, bug: bool) {
        let client = process.client();
        loop {
            for map in maps(&client).await {
                if bug || map["metadata"]["labels"]["seen"] != "yes" {
                    let patch = json!({ "metadata": { "labels": { "seen": "yes" } } });
                    let _ = client.patch("configmaps", "prod", name(&map), &patch).await;
                }
            }
            sleep(Duration::from_secs(2)).await;
        }
    }
    let check = "it is quiet at rest";
    finds(
        Invariant::QuietAtRest,
        (check, "it writes a label again that is there"),
        &rules(),
        label,
    );
}

#[test]
fn a_start_that_changes_something() {
    async fn claim(process: Process, bug: bool) {
        let client = process.client();
        let own = if bug {
            process.pod()
        } else {
            "controller".to_owned()
        };
        loop {
            for map in maps(&client).await {
                if map["data"]["by"] != *own {
                    let patch = json!({ "data": { "by": own } });
                    let _ = client.patch("configmaps", "prod", name(&map), &patch).await;
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let check = "a start at rest changes nothing";
    finds(
        Invariant::StartChangesNothing,
        (check, "it writes the name of its Pod into objects"),
        &rules(),
        claim,
    );
}

#[test]
fn runs_that_cannot_be_decided_are_counted() {
    async fn count(process: Process) {
        let client = process.client();
        loop {
            for map in maps(&client).await {
                let now = process.now().duration_since(std::time::UNIX_EPOCH);
                let patch = json!({ "data": { "at": now.unwrap().as_secs().to_string() } });
                let _ = client.patch("configmaps", "prod", name(&map), &patch).await;
            }
            sleep(Duration::from_secs(100)).await;
        }
    }
    let rules = rules().seeds(40).without_invariant(Invariant::QuietAtRest);
    let explored = rules.run(count);
    let undecided = explored.undecided[&Invariant::StartChangesNothing];
    let text = format!("StartChangesNothing could not decide {undecided} of them");
    assert!(explored.to_string().contains(&text), "{explored}");
}

#[test]
fn an_annotation_of_another_client_that_is_lost() {
    async fn count(process: Process, bug: bool) {
        let client = process.client();
        loop {
            for mut map in maps(&client).await {
                if map["data"]["counted"] == "yes" {
                    continue;
                }
                map["data"]["counted"] = "yes".into();
                if bug && let Value::Object(metadata) = &mut map["metadata"] {
                    metadata.remove("resourceVersion");
                }
                let _ = client.replace("configmaps", &map).await;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let check = "no annotation of another client is lost";
    finds(
        Invariant::ForeignFieldsStay,
        (check, "it replaces objects without their version"),
        &rules(),
        count,
    );
}

/// It deletes what it has made for an object only when it sees the deletion, so a deletion that it misses leaves it.
#[test]
fn an_end_that_differs_from_that_without_faults() {
    async fn copy(process: Process, bug: bool) {
        let client = process.client();
        let mut known = Vec::<String>::new();
        loop {
            let secrets = client.list("secrets", "prod").await;
            if let (Ok(maps), Ok(secrets)) = (client.list("configmaps", "prod").await, secrets) {
                let names = |list: &[Value]| -> Vec<String> {
                    list.iter().map(|one| name(one).into()).collect()
                };
                let (maps, secrets) = (names(&maps), names(&secrets));
                for map in maps.iter().filter(|map| !secrets.contains(map)) {
                    let secret = json!({ "metadata": { "namespace": "prod", "name": map } });
                    let _ = client.create("secrets", &secret).await;
                }
                // The next round repeats what fails.
                let old = if bug { known } else { secrets };
                for secret in old.iter().filter(|name| !maps.contains(name)) {
                    let _ = client.delete("secrets", "prod", secret).await;
                }
                known = maps;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let check = "it ends as without faults";
    finds(
        Invariant::Converges,
        (check, "it deletes only what it has seen deleted"),
        &rules(),
        copy,
    );
}

/// A run ends when the program can work, not while its request waits.
#[test]
fn a_run_outlasts_partitions_and_pauses() {
    async fn label(process: Process) {
        let client = process.client();
        loop {
            for map in maps(&client).await {
                if map["metadata"]["labels"]["seen"] != "yes" {
                    let patch = json!({ "metadata": { "labels": { "seen": "yes" } } });
                    let _ = client.patch("configmaps", "prod", name(&map), &patch).await;
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
    let rules = rules().steps(3).seeds(600);
    rules.faults([FaultKind::Partition]).run(label);
}

#[test]
fn a_replica_that_writes_without_leading() {
    const LEASES: &str = "leases.coordination.k8s.io";
    const TERM: u32 = 15;

    /// Leads while it renews a Lease in time. The bug writes whether or not it leads.
    async fn lead(process: Process, bug: bool) {
        let client = process.client();
        let (mut version, mut unchanged) = (String::new(), 0);
        loop {
            sleep(Duration::from_secs(1)).await;
            let asked = tokio::time::Instant::now();
            let leads = match client.get(LEASES, "prod", "leader").await {
                Err(_) => false,
                Ok(None) => {
                    let lease = lease(&process, "");
                    client.create(LEASES, &lease).await.is_ok()
                }
                Ok(Some(found)) => {
                    let now = found["metadata"]["resourceVersion"].as_str().unwrap();
                    unchanged = if version == now { unchanged + 1 } else { 0 };
                    now.clone_into(&mut version);
                    let is_own = found["spec"]["holderIdentity"] == *process.pod();
                    let lease = lease(&process, &version);
                    (is_own || unchanged > TERM) && client.replace(LEASES, &lease).await.is_ok()
                }
            };
            let is_late = asked.elapsed() > Duration::from_secs(5);
            if (leads && !is_late) || bug {
                for map in maps(&client).await {
                    if asked.elapsed() < Duration::from_secs(7) && map["data"]["by"] != "a leader" {
                        let patch = json!({ "data": { "by": "a leader" } });
                        let _ = client.patch("configmaps", "prod", name(&map), &patch).await;
                    }
                }
            }
        }
    }

    fn lease(process: &Process, version: &str) -> Value {
        let now = process.now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let mut metadata = json!({ "namespace": "prod", "name": "leader" });
        if !version.is_empty() {
            metadata["resourceVersion"] = version.into();
        }
        // Each renewal is a change.
        metadata["annotations"]["at"] = now.as_millis().to_string().into();
        json!({ "metadata": metadata, "spec": { "holderIdentity": process.pod() } })
    }

    let check = "only the leader writes";
    finds(
        Invariant::OneWriter,
        (check, "it writes whether it leads or not"),
        &rules().replicas(2),
        lead,
    );
}
