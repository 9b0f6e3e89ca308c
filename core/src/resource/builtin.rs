//! The table of the resources that Kubernetes serves without extensions.

use super::Resource;

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
    BUILTINS.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        Some(Builtin {
            group: words.next().filter(|group| *group != "core").unwrap_or(""),
            version: words.next()?,
            scope: match words.next()? {
                "cluster" => Scope::Cluster,
                _ => Scope::Namespaced,
            },
            plural: words.next()?,
            kind: words.next()?,
        })
    })
}

/// The resources of Kubernetes 1.36 that can be watched, each in the version that discovery prefers.
///
/// The core group is first so that `events` without a group is found there.
const BUILTINS: &str = "\
core                         v1       namespaced configmaps                        ConfigMap
core                         v1       namespaced endpoints                         Endpoints
core                         v1       namespaced events                            Event
core                         v1       namespaced limitranges                       LimitRange
core                         v1       cluster    namespaces                        Namespace
core                         v1       cluster    nodes                             Node
core                         v1       namespaced persistentvolumeclaims            PersistentVolumeClaim
core                         v1       cluster    persistentvolumes                 PersistentVolume
core                         v1       namespaced pods                              Pod
core                         v1       namespaced podtemplates                      PodTemplate
core                         v1       namespaced replicationcontrollers            ReplicationController
core                         v1       namespaced resourcequotas                    ResourceQuota
core                         v1       namespaced secrets                           Secret
core                         v1       namespaced serviceaccounts                   ServiceAccount
core                         v1       namespaced services                          Service
apps                         v1       namespaced controllerrevisions               ControllerRevision
apps                         v1       namespaced daemonsets                        DaemonSet
apps                         v1       namespaced deployments                       Deployment
apps                         v1       namespaced replicasets                       ReplicaSet
apps                         v1       namespaced statefulsets                      StatefulSet
batch                        v1       namespaced cronjobs                          CronJob
batch                        v1       namespaced jobs                              Job
autoscaling                  v2       namespaced horizontalpodautoscalers          HorizontalPodAutoscaler
policy                       v1       namespaced poddisruptionbudgets              PodDisruptionBudget
rbac.authorization.k8s.io    v1       cluster    clusterrolebindings               ClusterRoleBinding
rbac.authorization.k8s.io    v1       cluster    clusterroles                      ClusterRole
rbac.authorization.k8s.io    v1       namespaced rolebindings                      RoleBinding
rbac.authorization.k8s.io    v1       namespaced roles                             Role
storage.k8s.io               v1       cluster    csidrivers                        CSIDriver
storage.k8s.io               v1       cluster    csinodes                          CSINode
storage.k8s.io               v1       namespaced csistoragecapacities              CSIStorageCapacity
storage.k8s.io               v1       cluster    storageclasses                    StorageClass
storage.k8s.io               v1       cluster    volumeattachments                 VolumeAttachment
storage.k8s.io               v1       cluster    volumeattributesclasses           VolumeAttributesClass
networking.k8s.io            v1       cluster    ingressclasses                    IngressClass
networking.k8s.io            v1       namespaced ingresses                         Ingress
networking.k8s.io            v1       cluster    ipaddresses                       IPAddress
networking.k8s.io            v1       namespaced networkpolicies                   NetworkPolicy
networking.k8s.io            v1       cluster    servicecidrs                      ServiceCIDR
discovery.k8s.io             v1       namespaced endpointslices                    EndpointSlice
coordination.k8s.io          v1       namespaced leases                            Lease
coordination.k8s.io          v1beta1  namespaced leasecandidates                   LeaseCandidate
events.k8s.io                v1       namespaced events                            Event
certificates.k8s.io          v1       cluster    certificatesigningrequests        CertificateSigningRequest
certificates.k8s.io          v1beta1  cluster    clustertrustbundles               ClusterTrustBundle
certificates.k8s.io          v1beta1  namespaced podcertificaterequests            PodCertificateRequest
node.k8s.io                  v1       cluster    runtimeclasses                    RuntimeClass
scheduling.k8s.io            v1       cluster    priorityclasses                   PriorityClass
scheduling.k8s.io            v1alpha2 namespaced podgroups                         PodGroup
scheduling.k8s.io            v1alpha2 namespaced workloads                         Workload
admissionregistration.k8s.io v1       cluster    mutatingadmissionpolicies         MutatingAdmissionPolicy
admissionregistration.k8s.io v1       cluster    mutatingadmissionpolicybindings   MutatingAdmissionPolicyBinding
admissionregistration.k8s.io v1       cluster    mutatingwebhookconfigurations     MutatingWebhookConfiguration
admissionregistration.k8s.io v1       cluster    validatingadmissionpolicies       ValidatingAdmissionPolicy
admissionregistration.k8s.io v1       cluster    validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io v1       cluster    validatingwebhookconfigurations   ValidatingWebhookConfiguration
apiextensions.k8s.io         v1       cluster    customresourcedefinitions         CustomResourceDefinition
apiregistration.k8s.io       v1       cluster    apiservices                       APIService
flowcontrol.apiserver.k8s.io v1       cluster    flowschemas                       FlowSchema
flowcontrol.apiserver.k8s.io v1       cluster    prioritylevelconfigurations       PriorityLevelConfiguration
resource.k8s.io              v1       cluster    deviceclasses                     DeviceClass
resource.k8s.io              v1       namespaced resourceclaims                    ResourceClaim
resource.k8s.io              v1       namespaced resourceclaimtemplates            ResourceClaimTemplate
resource.k8s.io              v1       cluster    resourceslices                    ResourceSlice
resource.k8s.io              v1beta2  cluster    devicetaintrules                  DeviceTaintRule
resource.k8s.io              v1alpha3 cluster    resourcepoolstatusrequests        ResourcePoolStatusRequest
storagemigration.k8s.io      v1beta1  cluster    storageversionmigrations          StorageVersionMigration
internal.apiserver.k8s.io    v1alpha1 cluster    storageversions                   StorageVersion
";
