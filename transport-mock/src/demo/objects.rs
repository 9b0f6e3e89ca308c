//! The objects of the demo.

use alloc::format;
use alloc::string::String;

use serde_json::{Value, json};

pub(super) const APPS: [&str; 6] = ["web", "api", "worker", "cache", "billing", "search"];
pub(super) const PHASES: [&str; 4] = ["Running", "Pending", "Succeeded", "Failed"];

const NAMESPACES: [&str; 5] = ["default", "prod", "staging", "monitoring", "edge"];

pub(super) fn namespace(index: usize) -> String {
    NAMESPACES
        .get(index)
        .map_or_else(|| format!("team-{index}"), |name| String::from(*name))
}

pub(super) fn node_name(index: usize) -> String {
    format!("node-{index:03}")
}

pub(super) fn bare(namespace: &str, name: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": namespace } })
}

/// A Pod pattern with placeholders for the values that differ.
pub(super) fn pod(app: &str, phase: &str) -> Value {
    let hash = "<<hash>>";
    let tier = if matches!(app, "web" | "api") {
        "frontend"
    } else {
        "backend"
    };
    let set = format!("{app}-{hash}");
    json!({
        "metadata": {
            "generateName": format!("{set}-"),
            "labels": {
                "app": app, "tier": tier, "pod-template-hash": hash,
                "app.kubernetes.io/name": app, "app.kubernetes.io/managed-by": "demo"
            },
            "annotations": { "prometheus.io/scrape": "true", "prometheus.io/port": "8080" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set,
                "uid": "0f5d1c9a-6b1e-4d6f-9a2c-3e8b7c5d4a10", "controller": true, "blockOwnerDeletion": true
            }]
        },
        "spec": {
            "nodeName": "<<node>>",
            "serviceAccountName": app,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": app,
                "image": format!("registry.example.com/{app}:1.<<tag>>"),
                "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
                "env": [
                    { "name": "LOG_LEVEL", "value": "info" },
                    { "name": "POD_IP", "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIP" } } }
                ],
                "resources": {
                    "requests": { "cpu": "100m", "memory": "128Mi" },
                    "limits": { "cpu": "500m", "memory": "256Mi" }
                },
                "volumeMounts": [{ "name": "config", "mountPath": "/etc/config", "readOnly": true }]
            }],
            "volumes": [{ "name": "config", "configMap": { "name": "settings", "defaultMode": 420 } }]
        },
        "status": pod_status(app, phase, "<<ip>>", "<<tag>>", 0)
    })
}

pub(super) fn pod_ip(serial: u64) -> String {
    format!(
        "10.{}.{}.{}",
        100 + (serial >> 16) % 100,
        serial >> 8 & 255,
        serial & 255
    )
}

pub(super) fn pod_status(app: &str, phase: &str, ip: &str, tag: &str, restarts: u64) -> Value {
    let running = if phase == "Running" { "True" } else { "False" };
    let state = match phase {
        "Running" => json!({ "running": { "startedAt": "2026-01-01T00:00:00Z" } }),
        "Pending" => json!({ "waiting": { "reason": "ContainerCreating" } }),
        "Failed" => json!({ "terminated": { "exitCode": 1, "reason": "Error" } }),
        _ => json!({ "terminated": { "exitCode": 0, "reason": "Completed" } }),
    };
    json!({
        "phase": phase,
        "hostIP": "10.0.0.1",
        "podIP": ip,
        "qosClass": "Burstable",
        "conditions": [
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "Ready", "status": running, "lastTransitionTime": "2026-01-01T00:00:00Z" }
        ],
        "containerStatuses": [{
            "name": app,
            "image": format!("registry.example.com/{app}:1.{tag}"),
            "imageID": format!("registry.example.com/{app}@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1"),
            "ready": running == "True",
            "restartCount": restarts,
            "state": state
        }]
    })
}

pub(super) fn node(index: usize) -> Value {
    json!({
        "metadata": {
            "name": node_name(index),
            "labels": {
                "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": format!("zone-{}", index % 3)
            }
        },
        "spec": { "podCIDR": format!("10.{}.0.0/16", 100 + index % 100) },
        "status": {
            "capacity": { "cpu": "16", "memory": "64Gi", "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True" }],
            "nodeInfo": { "kubeletVersion": "v1.36.2" }
        }
    })
}

pub(super) fn service(namespace: &str, app: &str) -> Value {
    json!({
        "metadata": { "name": app, "namespace": namespace, "labels": { "app": app } },
        "spec": { "selector": { "app": app }, "type": "ClusterIP", "ports": [{ "port": 80, "targetPort": 8080 }] }
    })
}

pub(super) fn deployment(namespace: &str, app: &str, replicas: u64) -> Value {
    json!({
        "metadata": { "name": app, "namespace": namespace, "labels": { "app": app } },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": app } },
            "template": {
                "metadata": { "labels": { "app": app } },
                "spec": { "containers": [{ "name": app, "image": format!("registry.example.com/{app}:1.0") }] }
            }
        },
        "status": {
            "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas
        }
    })
}

pub(super) fn config_map(namespace: &str, serial: u64) -> Value {
    json!({ "metadata": { "name": "settings", "namespace": namespace }, "data": { "serial": format!("{serial}") } })
}
