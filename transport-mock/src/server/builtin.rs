//! The built-in resources.

use alloc::string::ToString;

use crate::object::{Names, ResourceType};
use crate::query::Part;
use crate::store::Store;

/// A built-in resource of Kubernetes 1.36.
struct Builtin {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    /// The short names and the categories, separated by spaces.
    short: &'static str,
    categories: &'static str,
    parts: &'static [Part],
    selectable: &'static [&'static str],
}

impl Builtin {
    const fn has(self, parts: &'static [Part]) -> Self {
        Self { parts, ..self }
    }

    const fn with_status(self) -> Self {
        self.has(&[Part::Status])
    }

    const fn with_scale(self) -> Self {
        self.has(&[Part::Scale, Part::Status])
    }

    const fn called(self, short: &'static str) -> Self {
        Self { short, ..self }
    }

    const fn of_all(self) -> Self {
        self.in_category("all")
    }

    const fn in_category(self, categories: &'static str) -> Self {
        Self { categories, ..self }
    }

    const fn selects(self, selectable: &'static [&'static str]) -> Self {
        Self { selectable, ..self }
    }

    fn resource(&self) -> ResourceType {
        let words = |text: &str| text.split_whitespace().map(ToString::to_string).collect();
        ResourceType {
            group: self.group.to_string(),
            version: self.version.to_string(),
            plural: self.plural.to_string(),
            kind: self.kind.to_string(),
            namespaced: self.namespaced,
            custom: false,
            is_served: true,
            names: Names {
                singular: self.kind.to_ascii_lowercase(),
                short: words(self.short),
                categories: words(self.categories),
            },
            parts: self.parts,
            definition: None,
            selectable: self.selectable.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Adds all of them to a store.
pub(super) fn add_to(store: &mut Store) {
    for builtin in BUILTIN {
        match builtin.group {
            "events.k8s.io" => {
                let core = store.kinds().position(|kind| kind.plural == "events");
                store.add_view(builtin.resource(), core.unwrap_or_default());
            }
            _ => {
                store.add(builtin.resource());
            }
        }
    }
}

const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Builtin {
    Builtin {
        group,
        version,
        plural,
        kind,
        namespaced,
        short: "",
        categories: "",
        parts: &[],
        selectable: &[],
    }
}

const fn namespaced(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Builtin {
    row(group, version, plural, kind, true)
}

const fn cluster(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> Builtin {
    row(group, version, plural, kind, false)
}

const POD_PARTS: &[Part] = &[
    Part::Container("attach"),
    Part::Binding,
    Part::Eviction,
    Part::Container("exec"),
    Part::Container("log"),
    Part::Container("portforward"),
    Part::Container("proxy"),
    Part::Status,
];
const PROXIED: &[Part] = &[Part::Container("proxy"), Part::Status];

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "status.phase",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.podIP",
    "status.nominatedNodeName",
];

/// The fields of events. Those of both groups have the same order.
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
];
const NEW_EVENT_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const EXTENSION: &str = "api-extensions";

/// In the order of discovery: the groups by their priority, and the resources of each by name.
#[rustfmt::skip]
const BUILTIN: &[Builtin] = &[
    namespaced("", "v1", "configmaps", "ConfigMap").called("cm"),
    namespaced("", "v1", "endpoints", "Endpoints").called("ep"),
    namespaced("", "v1", "events", "Event").called("ev").selects(EVENT_FIELDS),
    namespaced("", "v1", "limitranges", "LimitRange").called("limits"),
    cluster("", "v1", "namespaces", "Namespace").called("ns").has(&[Part::Finalize, Part::Status]).selects(&["status.phase"]),
    cluster("", "v1", "nodes", "Node").called("no").has(PROXIED).selects(&["spec.unschedulable"]),
    namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim").called("pvc").with_status(),
    cluster("", "v1", "persistentvolumes", "PersistentVolume").called("pv").with_status(),
    namespaced("", "v1", "pods", "Pod").called("po").of_all().has(POD_PARTS).selects(POD_FIELDS),
    namespaced("", "v1", "resourcequotas", "ResourceQuota").called("quota").with_status(),
    namespaced("", "v1", "secrets", "Secret").selects(&["type"]),
    namespaced("", "v1", "serviceaccounts", "ServiceAccount").called("sa"),
    namespaced("", "v1", "services", "Service").called("svc").of_all().has(PROXIED).selects(&["spec.clusterIP", "spec.type"]),
    namespaced("apps", "v1", "controllerrevisions", "ControllerRevision"),
    namespaced("apps", "v1", "daemonsets", "DaemonSet").called("ds").of_all().with_status(),
    namespaced("apps", "v1", "deployments", "Deployment").called("deploy").of_all().with_scale(),
    namespaced("apps", "v1", "replicasets", "ReplicaSet").called("rs").of_all().with_scale(),
    namespaced("apps", "v1", "statefulsets", "StatefulSet").called("sts").of_all().with_scale(),
    namespaced("events.k8s.io", "v1", "events", "Event").called("ev").selects(NEW_EVENT_FIELDS),
    namespaced("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler").called("hpa").of_all().with_status(),
    namespaced("batch", "v1", "cronjobs", "CronJob").called("cj").of_all().with_status(),
    namespaced("batch", "v1", "jobs", "Job").of_all().with_status().selects(&["status.successful"]),
    cluster("networking.k8s.io", "v1", "ingressclasses", "IngressClass"),
    namespaced("networking.k8s.io", "v1", "ingresses", "Ingress").called("ing").with_status(),
    namespaced("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy").called("netpol"),
    namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget").called("pdb").with_status(),
    cluster(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding"),
    cluster(RBAC, "v1", "clusterroles", "ClusterRole"),
    namespaced(RBAC, "v1", "rolebindings", "RoleBinding"),
    namespaced(RBAC, "v1", "roles", "Role"),
    cluster(STORAGE, "v1", "csidrivers", "CSIDriver"),
    cluster(STORAGE, "v1", "storageclasses", "StorageClass").called("sc"),
    cluster(STORAGE, "v1", "volumeattachments", "VolumeAttachment").with_status(),
    cluster(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration").in_category(EXTENSION),
    cluster(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy").in_category(EXTENSION).with_status(),
    cluster(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding").in_category(EXTENSION),
    cluster(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration").in_category(EXTENSION),
    cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition").called("crd crds").in_category(EXTENSION).with_status(),
    cluster("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass").called("pc"),
    namespaced("coordination.k8s.io", "v1", "leases", "Lease"),
    cluster("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"),
    namespaced("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
];
