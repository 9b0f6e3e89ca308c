//! Actors of a usual cluster. They are small: they do what other controllers depend on, and no more.

use core::time::Duration;

use serde_json::{Value, json};

use super::actors::{Actor, Cluster};
use super::spec::merge;
use super::trace::hash;

/// # Ready-made actors
impl Actor {
    /// A deployment controller: one ReplicaSet for the newest template of each Deployment, and none for older ones once
    /// its Pods are ready. It writes the status.
    #[must_use]
    pub fn deployments() -> Self {
        Self::new("deployments", |cluster| {
            for deployment in cluster.objects("deployments.apps") {
                if !is_deleted(&deployment) {
                    roll_out(cluster, &deployment);
                }
            }
        })
    }

    /// A controller of ReplicaSets: as many Pods as replicas. It writes the status.
    #[must_use]
    pub fn replica_sets() -> Self {
        Self::new("replica sets", |cluster| {
            for set in cluster.objects("replicasets.apps") {
                if !is_deleted(&set) {
                    replicate(cluster, &set);
                }
            }
        })
    }

    /// A kubelet with a scheduler: Pods are bound to the node `node`, run after up to 3 s, and are ready. Some of them fail,
    /// about one in `one_in`; 0 means none. They stay `Failed` until their owner deletes them. Pods with
    /// `restartPolicy: Never` succeed after up to 10 s.
    #[must_use]
    pub fn kubelet(one_in: u64) -> Self {
        Self::new("kubelet", move |cluster| {
            for pod in cluster.objects("pods") {
                run_pod(cluster, &pod, one_in);
            }
        })
    }

    /// A namespace controller: it deletes the objects of these resources in each namespace that is being deleted or does
    /// not exist. Let users delete namespaces with [`Objects`](super::Objects).
    #[must_use]
    pub fn namespaces<S: Into<String>>(resources: impl IntoIterator<Item = S>) -> Self {
        let resources: Vec<String> = resources.into_iter().map(Into::into).collect();
        Self::new("namespaces", move |cluster| {
            let namespaces = cluster.objects("namespaces");
            let is_active = |object: &Value| {
                let own = &object["metadata"]["namespace"];
                let found = namespaces
                    .iter()
                    .find(|one| one["metadata"]["name"] == *own);
                found.is_some_and(|namespace| !is_deleted(namespace))
            };
            for resource in &resources {
                for object in cluster.objects(resource) {
                    if !is_deleted(&object) && !is_active(&object) {
                        cluster.delete(resource, &object);
                    }
                }
            }
        })
    }

    /// Another controller that writes the same objects: it applies a merge patch to each object of a resource where the
    /// patch would change something, at most `times` for each object. So two controllers that disagree come to rest.
    #[must_use]
    pub fn rival(resource: &str, patch: Value, times: u64) -> Self {
        let resource = resource.to_string();
        Self::new("rival", move |cluster| {
            const COUNT: &str = "rival.example.com/writes";
            for object in cluster.objects(&resource) {
                let annotations = &object["metadata"]["annotations"];
                let count = annotations[COUNT]
                    .as_str()
                    .and_then(|text| text.parse().ok());
                let count: u64 = count.unwrap_or(0);
                let mut wanted = object.clone();
                merge(&mut wanted, &patch);
                if wanted == object || count >= times || is_deleted(&object) {
                    continue;
                }
                let mut patch = patch.clone();
                patch["metadata"]["annotations"][COUNT] = (count + 1).to_string().into();
                cluster.patch(&resource, &object, &patch);
            }
        })
    }
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object["metadata"][member].as_str().unwrap_or_default()
}

/// Returns the reference by which an object owns others.
fn owner(object: &Value) -> Value {
    json!([{
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// Returns the objects that another one owns.
fn owned(cluster: &Cluster, resource: &str, owner: &Value) -> Vec<Value> {
    let mut all = cluster.objects(resource);
    all.retain(|object| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| {
            owners
                .iter()
                .any(|one| one["uid"] == owner["metadata"]["uid"])
        })
    });
    all
}

fn set_status(cluster: &mut Cluster, resource: &str, object: &Value, status: &Value) {
    let mut wanted = object["status"].clone();
    merge(&mut wanted, status);
    if object["status"] != wanted {
        cluster.patch_status(resource, object, &json!({ "status": status }));
    }
}

fn roll_out(cluster: &mut Cluster, deployment: &Value) {
    let spec = &deployment["spec"];
    let template = format!(
        "{:08x}",
        hash(spec["template"].to_string().as_bytes()) as u32
    );
    let name = format!("{}-{template}", text(deployment, "name"));
    let replicas = spec["replicas"].as_u64().unwrap_or(1);
    let sets = owned(cluster, "replicasets.apps", deployment);
    let ready = |set: &Value| set["status"]["readyReplicas"].as_u64().unwrap_or(0);
    match sets.iter().find(|set| text(set, "name") == name) {
        None => {
            let mut labels = spec["template"]["metadata"]["labels"].clone();
            merge(&mut labels, &json!({ "pod-template-hash": template }));
            let mut template = spec["template"].clone();
            template["metadata"]["labels"] = labels.clone();
            let set = json!({
                "metadata": {
                    "name": name, "namespace": text(deployment, "namespace"),
                    "labels": labels, "ownerReferences": owner(deployment),
                },
                "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": template },
            });
            cluster.create("replicasets.apps", &set);
        }
        Some(set) if set["spec"]["replicas"].as_u64() != Some(replicas) => {
            cluster.patch(
                "replicasets.apps",
                set,
                &json!({ "spec": { "replicas": replicas } }),
            );
        }
        Some(set) if ready(set) >= replicas => {
            for old in sets.iter().filter(|old| text(old, "name") != name) {
                cluster.delete("replicasets.apps", old);
            }
        }
        Some(_) => {}
    }
    let sum = |count: fn(&Value) -> u64| sets.iter().map(count).sum::<u64>();
    let status = json!({
        "replicas": sum(|set| set["status"]["replicas"].as_u64().unwrap_or(0)),
        "readyReplicas": sum(|set| set["status"]["readyReplicas"].as_u64().unwrap_or(0)),
    });
    set_status(cluster, "deployments.apps", deployment, &status);
}

fn replicate(cluster: &mut Cluster, set: &Value) {
    let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1);
    let mut pods = owned(cluster, "pods", set);
    pods.retain(|pod| !is_deleted(pod));
    let is_over = |pod: &Value| {
        matches!(
            pod["status"]["phase"].as_str(),
            Some("Failed" | "Succeeded")
        )
    };
    for pod in pods.iter().filter(|pod| is_over(pod)) {
        cluster.delete("pods", pod);
    }
    pods.retain(|pod| !is_over(pod));
    let count = pods.len() as u64;
    for _ in count..wanted {
        let mut pod = set["spec"]["template"].clone();
        pod["metadata"]["generateName"] = format!("{}-", text(set, "name")).into();
        pod["metadata"]["namespace"] = set["metadata"]["namespace"].clone();
        pod["metadata"]["ownerReferences"] = owner(set);
        cluster.create("pods", &pod);
    }
    for pod in pods
        .iter()
        .skip(usize::try_from(wanted).unwrap_or(usize::MAX))
    {
        cluster.delete("pods", pod);
    }
    let ready = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running")
        .count();
    let status = json!({ "replicas": count, "readyReplicas": ready });
    set_status(cluster, "replicasets.apps", set, &status);
}

/// Moves a Pod one step further when it is due.
fn run_pod(cluster: &mut Cluster, pod: &Value, one_in: u64) {
    if is_deleted(pod) {
        match cluster.until_end(pod) {
            Some(rest) => cluster.again_in(rest),
            None => cluster.end_pod(pod),
        }
        return;
    }
    let ready =
        |is: bool| json!([{ "type": "Ready", "status": if is { "True" } else { "False" } }]);
    let fails = one_in > 0 && cluster.number(pod, "fails", one_in) == 0;
    let (phase, step, most) = match pod["status"]["phase"].as_str() {
        None | Some("Pending") => ("Running", "runs", 3),
        Some("Running") if fails => ("Failed", "fails", 20),
        Some("Running") if pod["spec"]["restartPolicy"] == "Never" => ("Succeeded", "succeeds", 10),
        _ => return,
    };
    // Each step takes a time that depends on the Pod alone, counted from its creation.
    let due = most + cluster.number(pod, step, most + 1);
    let age = cluster.age(pod);
    if let Some(rest) = Duration::from_secs(due)
        .checked_sub(age)
        .filter(|rest| !rest.is_zero())
    {
        cluster.again_in(rest);
        return;
    }
    if pod["spec"]["nodeName"].is_null() {
        cluster.bind(pod, "node");
    }
    let status = json!({ "status": { "phase": phase, "conditions": ready(phase == "Running") } });
    cluster.patch_status("pods", pod, &status);
}
