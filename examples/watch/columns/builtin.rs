//! The columns of `kubectl get` for common built-in resources.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Cell, Columns, NONE, UNKNOWN, age, between, list, number, pod, since, since_value, text,
};

type Column = (&'static str, fn(&Value) -> String);

const AGE: Column = ("AGE", age);

const RESOURCES: &[(&str, &str, &[Column])] = &[
    (
        "",
        "pods",
        &[
            ("READY", pod::ready),
            ("STATUS", pod::status),
            ("RESTARTS", pod::restarts),
            AGE,
        ],
    ),
    (
        "",
        "services",
        &[
            ("TYPE", |it| owned(&it["spec"]["type"])),
            ("CLUSTER-IP", |it| or(&it["spec"]["clusterIP"], NONE)),
            ("EXTERNAL-IP", external_ip),
            ("PORT(S)", ports),
            AGE,
        ],
    ),
    (
        "",
        "nodes",
        &[
            ("STATUS", node_status),
            ("ROLES", node_roles),
            AGE,
            ("VERSION", |it| {
                owned(&it["status"]["nodeInfo"]["kubeletVersion"])
            }),
        ],
    ),
    (
        "",
        "namespaces",
        &[("STATUS", |it| owned(&it["status"]["phase"])), AGE],
    ),
    (
        "",
        "configmaps",
        &[
            ("DATA", |it| {
                (len(&it["data"]) + len(&it["binaryData"])).to_string()
            }),
            AGE,
        ],
    ),
    (
        "",
        "secrets",
        &[
            ("TYPE", |it| owned(&it["type"])),
            ("DATA", |it| len(&it["data"]).to_string()),
            AGE,
        ],
    ),
    (
        "",
        "persistentvolumeclaims",
        &[
            ("STATUS", claim_status),
            ("VOLUME", |it| owned(&it["spec"]["volumeName"])),
            ("CAPACITY", claim_capacity),
            ("ACCESS MODES", claim_modes),
            ("STORAGECLASS", |it| owned(&it["spec"]["storageClassName"])),
            ("VOLUMEATTRIBUTESCLASS", |it| {
                or(&it["spec"]["volumeAttributesClassName"], "<unset>")
            }),
            AGE,
        ],
    ),
    ("", "events", EVENT),
    ("events.k8s.io", "events", EVENT),
    (
        "apps",
        "deployments",
        &[
            ("READY", ready_replicas),
            ("UP-TO-DATE", |it| count(&it["status"]["updatedReplicas"])),
            ("AVAILABLE", |it| count(&it["status"]["availableReplicas"])),
            AGE,
        ],
    ),
    (
        "apps",
        "replicasets",
        &[
            ("DESIRED", |it| count(&it["spec"]["replicas"])),
            ("CURRENT", |it| count(&it["status"]["replicas"])),
            ("READY", |it| count(&it["status"]["readyReplicas"])),
            AGE,
        ],
    ),
    ("apps", "statefulsets", &[("READY", ready_replicas), AGE]),
    (
        "apps",
        "daemonsets",
        &[
            ("DESIRED", |it| {
                count(&it["status"]["desiredNumberScheduled"])
            }),
            ("CURRENT", |it| {
                count(&it["status"]["currentNumberScheduled"])
            }),
            ("READY", |it| count(&it["status"]["numberReady"])),
            ("UP-TO-DATE", |it| {
                count(&it["status"]["updatedNumberScheduled"])
            }),
            ("AVAILABLE", |it| count(&it["status"]["numberAvailable"])),
            ("NODE SELECTOR", |it| {
                pairs(&it["spec"]["template"]["spec"]["nodeSelector"])
            }),
            AGE,
        ],
    ),
    (
        "batch",
        "jobs",
        &[
            ("STATUS", job_status),
            ("COMPLETIONS", job_completions),
            ("DURATION", job_duration),
            AGE,
        ],
    ),
    (
        "batch",
        "cronjobs",
        &[
            ("SCHEDULE", |it| owned(&it["spec"]["schedule"])),
            ("TIMEZONE", |it| or(&it["spec"]["timeZone"], NONE)),
            ("SUSPEND", |it| {
                let is_suspended = it["spec"]["suspend"] == true;
                (if is_suspended { "True" } else { "False" }).to_owned()
            }),
            ("ACTIVE", |it| {
                list(&it["status"]["active"]).len().to_string()
            }),
            ("LAST SCHEDULE", |it| {
                let last = it["status"]["lastScheduleTime"].as_str();
                last.map_or_else(|| NONE.to_owned(), since)
            }),
            AGE,
        ],
    ),
    (
        "coordination.k8s.io",
        "leases",
        &[("HOLDER", |it| owned(&it["spec"]["holderIdentity"])), AGE],
    ),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &[("CREATED AT", |it| {
            owned(&it["metadata"]["creationTimestamp"])
        })],
    ),
];

const EVENT: &[Column] = &[
    ("LAST SEEN", event_last_seen),
    ("TYPE", |it| owned(&it["type"])),
    ("REASON", |it| owned(&it["reason"])),
    ("OBJECT", event_object),
    ("MESSAGE", |it| {
        either(it, "message", "note")
            .as_str()
            .unwrap_or_default()
            .trim()
            .to_owned()
    }),
];

pub(super) fn of(group: &str, plural: &str) -> Option<Columns> {
    let mut resources = RESOURCES.iter();
    let (_, _, columns) = resources.find(|it| (it.0, it.1) == (group, plural))?;
    let columns = columns.iter();
    Some(Columns {
        has_name: plural != "events",
        columns: columns
            .map(|&(title, cell)| (title.to_owned(), Cell::Own(cell)))
            .collect(),
    })
}

fn external_ip(service: &Value) -> String {
    let spec = &service["spec"];
    let external = list(&spec["externalIPs"]).iter().map(text);
    match text(&spec["type"]) {
        "ExternalName" => owned(&spec["externalName"]),
        "LoadBalancer" => {
            let ingress = list(&service["status"]["loadBalancer"]["ingress"]).iter();
            let addresses = ingress.map(|it| match text(&it["ip"]) {
                "" => text(&it["hostname"]),
                ip => ip,
            });
            let addresses = addresses.filter(|address| !address.is_empty());
            let addresses = BTreeSet::from_iter(addresses);
            joined_or(addresses.into_iter().chain(external), "<pending>")
        }
        _ => joined_or(external, NONE),
    }
}

fn ports(service: &Value) -> String {
    let port = |it: &Value| match (number(&it["port"]), number(&it["nodePort"])) {
        (port, 0) => format!("{port}/{}", text(&it["protocol"])),
        (port, node) => format!("{port}:{node}/{}", text(&it["protocol"])),
    };
    joined_or(list(&service["spec"]["ports"]).iter().map(port), NONE)
}

fn node_status(node: &Value) -> String {
    let mut status = match has_condition(node, "Ready") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles =
        labels.filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None => value.as_str().filter(|_| key == "kubernetes.io/role"),
            },
        );
    let roles = BTreeSet::from_iter(roles.filter(|role| !role.is_empty()));
    joined_or(roles, NONE)
}

fn claim_status(claim: &Value) -> String {
    if claim["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".to_owned();
    }
    owned(&claim["status"]["phase"])
}

fn claim_capacity(claim: &Value) -> String {
    if is_bound(claim) {
        return owned(&claim["status"]["capacity"]["storage"]);
    }
    String::new()
}

fn claim_modes(claim: &Value) -> String {
    if !is_bound(claim) {
        return String::new();
    }
    let has = |mode| {
        list(&claim["status"]["accessModes"])
            .iter()
            .any(|it| it == mode)
    };
    let modes = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = modes.iter().filter(|(mode, _)| has(*mode));
    joined_or(modes.map(|(_, short)| short), "")
}

fn is_bound(claim: &Value) -> bool {
    !text(&claim["spec"]["volumeName"]).is_empty()
}

fn ready_replicas(it: &Value) -> String {
    let (ready, wanted) = (&it["status"]["readyReplicas"], &it["spec"]["replicas"]);
    format!("{}/{}", number(ready), number(wanted))
}

fn job_status(job: &Value) -> String {
    let is_true = |condition: &&str| has_condition(job, condition) == Some(true);
    let is_deleted = job["metadata"]["deletionTimestamp"].is_string();
    let status = if let Some(ended) = ["Complete", "Failed"].into_iter().find(is_true) {
        ended
    } else if is_deleted {
        "Terminating"
    } else {
        let mut others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"].into_iter();
        others.find(is_true).unwrap_or("Running")
    };
    status.to_owned()
}

fn job_completions(job: &Value) -> String {
    let succeeded = number(&job["status"]["succeeded"]);
    match (
        job["spec"]["completions"].as_u64(),
        job["spec"]["parallelism"].as_u64(),
    ) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, Some(parallelism)) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn job_duration(job: &Value) -> String {
    let status = &job["status"];
    match (
        status["startTime"].as_str(),
        status["completionTime"].as_str(),
    ) {
        (None, _) => String::new(),
        (Some(start), None) => since(start),
        (Some(start), Some(end)) => between(start, end),
    }
}

fn event_last_seen(event: &Value) -> String {
    let times = [
        &event["series"]["lastObservedTime"],
        either(event, "lastTimestamp", "deprecatedLastTimestamp"),
        either(event, "firstTimestamp", "deprecatedFirstTimestamp"),
        &event["eventTime"],
    ];
    let time = times.into_iter().find(|time| time.is_string());
    time.map_or_else(|| UNKNOWN.to_owned(), since_value)
}

fn event_object(event: &Value) -> String {
    let object = either(event, "involvedObject", "regarding");
    format!(
        "{}/{}",
        text(&object["kind"]).to_lowercase(),
        text(&object["name"])
    )
}

/// Returns the member by its name in the core group, or in `events.k8s.io`.
fn either<'v>(event: &'v Value, core: &str, other: &str) -> &'v Value {
    event.get(core).unwrap_or_else(|| &event[other])
}

/// Returns whether the status of a condition is `True`, if there is such a condition.
fn has_condition(object: &Value, name: &str) -> Option<bool> {
    let mut conditions = list(&object["status"]["conditions"]).iter();
    let condition = conditions.find(|condition| condition["type"] == name)?;
    Some(condition["status"] == "True")
}

fn pairs(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    joined_or(
        labels.map(|(key, value)| format!("{key}={}", text(value))),
        NONE,
    )
}

fn joined_or<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, or: &str) -> String {
    let mut joined = String::new();
    for text in texts {
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(text.as_ref());
    }
    if joined.is_empty() {
        or.to_owned()
    } else {
        joined
    }
}

fn owned(value: &Value) -> String {
    text(value).to_owned()
}

fn or(value: &Value, or: &str) -> String {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or(or)
        .to_owned()
}

fn count(value: &Value) -> String {
    number(value).to_string()
}

fn len(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}
