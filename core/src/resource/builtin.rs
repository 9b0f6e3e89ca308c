//! The table of the resources that Kubernetes serves without extensions.

use super::Resource;

use Scope::{Cluster, Namespaced};

/// One built-in resource.
#[derive(Clone, Copy)]
pub(super) struct Builtin {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) scope: Scope,
}

impl Builtin {
    pub(super) fn find(group: &str, plural: &str) -> Option<Self> {
        builtins().find(|builtin| builtin.group == group && builtin.plural == plural)
    }

    pub(super) const fn resource(self) -> Resource<'static> {
        Resource::new(self.group, self.version, self.plural).kind(self.kind)
    }
}

/// Whether the objects of a resource are namespaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Namespaced,
    Cluster,
}

/// Returns the entries of the table, the core group first.
pub(super) fn builtins() -> impl Iterator<Item = Builtin> {
    BUILTINS.iter().flat_map(|&(group, version, resources)| {
        resources.iter().map(move |&(plural, kind, scope)| Builtin {
            group,
            version,
            plural,
            kind,
            scope,
        })
    })
}

type GroupVersion = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, Scope)],
);

/// The resources of Kubernetes 1.36 that can be watched, each in the version that discovery prefers.
///
/// The core group is first so that `events` without a group is found there.
static BUILTINS: &[GroupVersion] = &[
    (
        "",
        "v1",
        &[
            ("configmaps", "ConfigMap", Namespaced),
            ("endpoints", "Endpoints", Namespaced),
            ("events", "Event", Namespaced),
            ("limitranges", "LimitRange", Namespaced),
            ("namespaces", "Namespace", Cluster),
            ("nodes", "Node", Cluster),
            (
                "persistentvolumeclaims",
                "PersistentVolumeClaim",
                Namespaced,
            ),
            ("persistentvolumes", "PersistentVolume", Cluster),
            ("pods", "Pod", Namespaced),
            ("podtemplates", "PodTemplate", Namespaced),
            (
                "replicationcontrollers",
                "ReplicationController",
                Namespaced,
            ),
            ("resourcequotas", "ResourceQuota", Namespaced),
            ("secrets", "Secret", Namespaced),
            ("serviceaccounts", "ServiceAccount", Namespaced),
            ("services", "Service", Namespaced),
        ],
    ),
    (
        "apps",
        "v1",
        &[
            ("controllerrevisions", "ControllerRevision", Namespaced),
            ("daemonsets", "DaemonSet", Namespaced),
            ("deployments", "Deployment", Namespaced),
            ("replicasets", "ReplicaSet", Namespaced),
            ("statefulsets", "StatefulSet", Namespaced),
        ],
    ),
    (
        "batch",
        "v1",
        &[
            ("cronjobs", "CronJob", Namespaced),
            ("jobs", "Job", Namespaced),
        ],
    ),
    (
        "autoscaling",
        "v2",
        &[(
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            Namespaced,
        )],
    ),
    (
        "policy",
        "v1",
        &[("poddisruptionbudgets", "PodDisruptionBudget", Namespaced)],
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        &[
            ("clusterrolebindings", "ClusterRoleBinding", Cluster),
            ("clusterroles", "ClusterRole", Cluster),
            ("rolebindings", "RoleBinding", Namespaced),
            ("roles", "Role", Namespaced),
        ],
    ),
    (
        "storage.k8s.io",
        "v1",
        &[
            ("csidrivers", "CSIDriver", Cluster),
            ("csinodes", "CSINode", Cluster),
            ("csistoragecapacities", "CSIStorageCapacity", Namespaced),
            ("storageclasses", "StorageClass", Cluster),
            ("volumeattachments", "VolumeAttachment", Cluster),
            ("volumeattributesclasses", "VolumeAttributesClass", Cluster),
        ],
    ),
    (
        "networking.k8s.io",
        "v1",
        &[
            ("ingressclasses", "IngressClass", Cluster),
            ("ingresses", "Ingress", Namespaced),
            ("ipaddresses", "IPAddress", Cluster),
            ("networkpolicies", "NetworkPolicy", Namespaced),
            ("servicecidrs", "ServiceCIDR", Cluster),
        ],
    ),
    (
        "discovery.k8s.io",
        "v1",
        &[("endpointslices", "EndpointSlice", Namespaced)],
    ),
    (
        "coordination.k8s.io",
        "v1",
        &[("leases", "Lease", Namespaced)],
    ),
    (
        "coordination.k8s.io",
        "v1beta1",
        &[("leasecandidates", "LeaseCandidate", Namespaced)],
    ),
    ("events.k8s.io", "v1", &[("events", "Event", Namespaced)]),
    (
        "certificates.k8s.io",
        "v1",
        &[(
            "certificatesigningrequests",
            "CertificateSigningRequest",
            Cluster,
        )],
    ),
    (
        "certificates.k8s.io",
        "v1beta1",
        &[
            ("clustertrustbundles", "ClusterTrustBundle", Cluster),
            (
                "podcertificaterequests",
                "PodCertificateRequest",
                Namespaced,
            ),
        ],
    ),
    (
        "node.k8s.io",
        "v1",
        &[("runtimeclasses", "RuntimeClass", Cluster)],
    ),
    (
        "scheduling.k8s.io",
        "v1",
        &[("priorityclasses", "PriorityClass", Cluster)],
    ),
    (
        "scheduling.k8s.io",
        "v1alpha2",
        &[
            ("podgroups", "PodGroup", Namespaced),
            ("workloads", "Workload", Namespaced),
        ],
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        &[
            (
                "mutatingadmissionpolicies",
                "MutatingAdmissionPolicy",
                Cluster,
            ),
            (
                "mutatingadmissionpolicybindings",
                "MutatingAdmissionPolicyBinding",
                Cluster,
            ),
            (
                "mutatingwebhookconfigurations",
                "MutatingWebhookConfiguration",
                Cluster,
            ),
            (
                "validatingadmissionpolicies",
                "ValidatingAdmissionPolicy",
                Cluster,
            ),
            (
                "validatingadmissionpolicybindings",
                "ValidatingAdmissionPolicyBinding",
                Cluster,
            ),
            (
                "validatingwebhookconfigurations",
                "ValidatingWebhookConfiguration",
                Cluster,
            ),
        ],
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        &[(
            "customresourcedefinitions",
            "CustomResourceDefinition",
            Cluster,
        )],
    ),
    (
        "apiregistration.k8s.io",
        "v1",
        &[("apiservices", "APIService", Cluster)],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        &[
            ("flowschemas", "FlowSchema", Cluster),
            (
                "prioritylevelconfigurations",
                "PriorityLevelConfiguration",
                Cluster,
            ),
        ],
    ),
    (
        "resource.k8s.io",
        "v1",
        &[
            ("deviceclasses", "DeviceClass", Cluster),
            ("resourceclaims", "ResourceClaim", Namespaced),
            (
                "resourceclaimtemplates",
                "ResourceClaimTemplate",
                Namespaced,
            ),
            ("resourceslices", "ResourceSlice", Cluster),
        ],
    ),
    (
        "resource.k8s.io",
        "v1beta2",
        &[("devicetaintrules", "DeviceTaintRule", Cluster)],
    ),
    (
        "resource.k8s.io",
        "v1alpha3",
        &[(
            "resourcepoolstatusrequests",
            "ResourcePoolStatusRequest",
            Cluster,
        )],
    ),
    (
        "storagemigration.k8s.io",
        "v1beta1",
        &[(
            "storageversionmigrations",
            "StorageVersionMigration",
            Cluster,
        )],
    ),
    (
        "internal.apiserver.k8s.io",
        "v1alpha1",
        &[("storageversions", "StorageVersion", Cluster)],
    ),
];
