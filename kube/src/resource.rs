//! Resources of kube's types.

use informer_tokio::Resource;
use informer_tokio::informer::OwnedResource;
use kube_core::discovery::ApiResource;

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
#[must_use]
pub fn resource<K: kube_core::Resource<DynamicType = ()>>() -> OwnedResource {
    resource_of(&ApiResource::erase::<K>(&()))
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
