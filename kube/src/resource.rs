//! Resources of kube's types.

use core::any::TypeId;

use informer_tokio::Resource;
use informer_tokio::informer::OwnedResource;
use kube_core::discovery::ApiResource;
use kube_core::{ClusterResourceScope, NamespaceResourceScope};

/// Returns the resource of a type: of k8s-openapi, or derived with `kube::CustomResource`.
///
/// It serves where a type has no [`Kind`](informer_tokio::Kind), with any transport:
///
/// ```
/// use informer_tokio::Informer;
/// use informer_tokio::transport::Transport;
/// use k8s_openapi::api::core::v1::Pod;
/// # fn build<T: Transport + Clone>(transport: T) {
/// let pods = informer_kube::resource::<Pod>();
/// let (pods, driver) = Informer::<Pod>::builder_for(&transport, pods.as_ref())
///     .index("node", |pod| pod.spec.as_ref()?.node_name.clone())
///     .build();
/// # }
/// ```
///
/// A type knows whether its objects are namespaced, also a custom one:
///
/// ```
/// #[derive(kube::CustomResource, Clone, Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
/// #[kube(group = "example.com", version = "v1", kind = "Tenant")]
/// struct TenantSpec {}
///
/// let tenants = informer_kube::resource::<Tenant>();
/// assert_eq!(tenants.as_ref().is_namespaced(), Some(false));
/// ```
#[must_use]
pub fn resource<K: kube_core::Resource<DynamicType = ()> + 'static>() -> OwnedResource {
    let resource = resource_of(&ApiResource::erase::<K>(&()));
    let scope = TypeId::of::<K::Scope>();
    if scope == TypeId::of::<NamespaceResourceScope>() {
        resource.as_ref().namespaced(true).into()
    } else if scope == TypeId::of::<ClusterResourceScope>() {
        resource.as_ref().namespaced(false).into()
    } else {
        resource
    }
}

/// Returns the resource that kube's discovery found, for a [`DynamicObject`](kube_core::DynamicObject) or any form.
///
/// ```
/// use kube_core::discovery::ApiResource;
/// use kube_core::gvk::GroupVersionKind;
///
/// let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
/// assert_eq!(informer_kube::resource_of(&widgets).to_string(), "widgets.v1.example.com");
/// ```
#[must_use]
pub fn resource_of(resource: &ApiResource) -> OwnedResource {
    Resource::new(&resource.group, &resource.version, &resource.plural)
        .kind(&resource.kind)
        .into()
}
