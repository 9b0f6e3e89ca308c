//! The fields of the messages of Kubernetes 1.36, from its `generated.proto` files and the JSON tags of its Go types.

/// Defines messages. A field has its name in JSON, its number and its kind. `KIND` is always written, `(KIND)` if the
/// object has it, `[KIND]` is repeated and `{KIND}` a map. A field named `inline` is a message whose members are members
/// of the object itself.
macro_rules! messages {
    ($($message:ident = $($field:ident $number:literal $kind:tt),*;)*) => {$(
        pub(in crate::protobuf) const $message: super::Kind = super::Kind::Message(&[$(
            super::Field::new(stringify!($field), $number, messages!(@ $kind)),
        )*]);
    )*};
    (@ ($kind:ident)) => { (super::Shape::Optional, $kind) };
    (@ [$kind:ident]) => { (super::Shape::Repeated, $kind) };
    (@ {$kind:ident}) => { (super::Shape::Map, $kind) };
    (@ $kind:ident) => { (super::Shape::Required, $kind) };
}

mod admission;
mod core;
mod groups;
mod meta;
mod policy;

use self::Kind::{
    Bool as BOOL, Bytes as BYTES, Fields as FIELDS, Int as INT, IntOrString as INT_OR_STRING,
    MicroTime as MICRO_TIME, Quantity as QUANTITY, Text as TEXT, Time as TIME,
};

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
}

/// How often a field occurs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// Once, even if it is empty: the Go type is not a pointer.
    Required,
    /// At most once.
    Optional,
    Repeated,
    /// Entries with a key, which is text, and a value.
    Map,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Int,
    Bool,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339 in JSON.
    Time,
    /// RFC 3339 with microseconds in JSON.
    MicroTime,
    /// Text in a message.
    Quantity,
    IntOrString,
    /// JSON in a message.
    Fields,
    Message(&'static [Field]),
}

impl Field {
    pub(super) const fn new(name: &'static str, number: u32, (shape, kind): (Shape, Kind)) -> Self {
        Self {
            name,
            number,
            shape,
            kind,
        }
    }

    /// Returns whether its members are members of the object itself.
    pub(crate) fn is_inline(&self) -> bool {
        self.name == "inline"
    }
}

/// The metadata of a list.
pub(super) const LIST_META: Kind = meta::LIST_META;

const PARTIAL_OBJECT_METADATA: Kind = Kind::Message(&[Field::new(
    "metadata",
    1,
    (Shape::Required, meta::OBJECT_META),
)]);

/// Returns the message of a kind.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<Kind> {
    let found = KINDS
        .iter()
        .find(|(own_version, own_kind, _)| (*own_version, *own_kind) == (api_version, kind));
    found.map(|found| found.2)
}

#[rustfmt::skip]
const KINDS: &[(&str, &str, Kind)] = &[
    ("meta.k8s.io/v1", "PartialObjectMetadata", PARTIAL_OBJECT_METADATA),
    ("v1", "Status", meta::STATUS),
    ("v1", "Pod", core::POD),
    ("v1", "Service", core::SERVICE),
    ("v1", "ConfigMap", core::CONFIG_MAP),
    ("v1", "Secret", core::SECRET),
    ("v1", "ServiceAccount", core::SERVICE_ACCOUNT),
    ("v1", "PersistentVolumeClaim", core::PERSISTENT_VOLUME_CLAIM),
    ("v1", "Endpoints", core::ENDPOINTS),
    ("v1", "Event", core::EVENT),
    ("v1", "Node", core::NODE),
    ("v1", "Namespace", core::NAMESPACE),
    ("v1", "PersistentVolume", core::PERSISTENT_VOLUME),
    ("apps/v1", "Deployment", groups::DEPLOYMENT),
    ("apps/v1", "ReplicaSet", groups::REPLICA_SET),
    ("apps/v1", "StatefulSet", groups::STATEFUL_SET),
    ("apps/v1", "DaemonSet", groups::DAEMON_SET),
    ("batch/v1", "Job", groups::JOB),
    ("batch/v1", "CronJob", groups::CRON_JOB),
    ("coordination.k8s.io/v1", "Lease", groups::LEASE),
    ("discovery.k8s.io/v1", "EndpointSlice", groups::ENDPOINT_SLICE),
    ("networking.k8s.io/v1", "Ingress", groups::INGRESS),
    ("networking.k8s.io/v1", "NetworkPolicy", groups::NETWORK_POLICY),
    ("storage.k8s.io/v1", "StorageClass", groups::STORAGE_CLASS),
    ("rbac.authorization.k8s.io/v1", "Role", groups::ROLE),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", policy::ROLE_BINDING),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", policy::CLUSTER_ROLE),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", policy::CLUSTER_ROLE_BINDING),
    ("v1", "ResourceQuota", policy::RESOURCE_QUOTA),
    ("v1", "LimitRange", policy::LIMIT_RANGE),
    ("apps/v1", "ControllerRevision", policy::CONTROLLER_REVISION),
    ("events.k8s.io/v1", "Event", policy::EVENT),
    ("autoscaling/v2", "HorizontalPodAutoscaler", policy::HORIZONTAL_POD_AUTOSCALER),
    ("policy/v1", "PodDisruptionBudget", policy::POD_DISRUPTION_BUDGET),
    ("scheduling.k8s.io/v1", "PriorityClass", policy::PRIORITY_CLASS),
    ("storage.k8s.io/v1", "VolumeAttachment", policy::VOLUME_ATTACHMENT),
    ("storage.k8s.io/v1", "CSIDriver", policy::CSI_DRIVER),
    ("networking.k8s.io/v1", "IngressClass", policy::INGRESS_CLASS),
    ("node.k8s.io/v1", "RuntimeClass", policy::RUNTIME_CLASS),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", admission::VALIDATING_WEBHOOK_CONFIGURATION),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", admission::MUTATING_WEBHOOK_CONFIGURATION),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", admission::VALIDATING_ADMISSION_POLICY),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", admission::VALIDATING_ADMISSION_POLICY_BINDING),
];
