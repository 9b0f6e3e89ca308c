//! Types that represent a resource.

use informer_core::OwnedResource;

/// A type that represents a Kubernetes resource.
///
/// With the feature `kube`, all types of k8s-openapi and all types derived with `kube::CustomResource` implement it.
/// With the feature `k8s-openapi`, all types of k8s-openapi that can be listed do. For a custom struct,
/// [`kind!`](crate::kind!) implements it in one line. By hand:
///
/// ```
/// use informer_tokio::{Kind, Resource};
/// use informer_tokio::informer::OwnedResource;
///
/// struct Widget;
/// impl Kind for Widget {
///     fn resource() -> OwnedResource {
///         Resource::new("example.com", "v1", "widgets").kind("Widget").into()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be a Kubernetes resource",
    label = "has no group, version and plural",
    note = "for a struct, write `kind!({Self}, \"v1\", \"pods\");` with its apiVersion and plural",
    note = "for a type of k8s-openapi, enable the feature `k8s-openapi`"
)]
pub trait Kind {
    /// Returns the resource: group, version, plural, and the kind, which is used to detect objects of another kind.
    fn resource() -> OwnedResource;
}

/// Implements [`Kind`] for a struct: takes its `apiVersion`, its plural name, and its kind. The default kind is the
/// name of the struct.
///
/// ```
/// use informer_tokio::{Informer, Kind, kind};
/// use serde::Deserialize;
///
/// /// The part of a Pod that is stored.
/// #[derive(Deserialize)]
/// struct Placed { spec: Spec }
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: Option<String> }
///
/// kind!(Placed, "v1", "pods", "Pod");
///
/// #[derive(Deserialize)]
/// struct Widget {}
/// kind!(Widget, "example.com/v1", "widgets");
///
/// assert_eq!(Widget::resource().as_ref().group, "example.com");
/// assert_eq!(Widget::resource().as_ref().kind, Some("Widget"));
/// # fn build(client: &informer_tokio::transport::BoxTransport) {
/// let pods = Informer::<Placed>::builder(client).spawn();
/// # }
/// ```
#[macro_export]
macro_rules! kind {
    ($type:ident, $api_version:expr, $plural:expr $(,)?) => {
        $crate::kind!($type, $api_version, $plural, ::core::stringify!($type));
    };
    ($type:ty, $api_version:expr, $plural:expr, $kind:expr $(,)?) => {
        impl $crate::Kind for $type {
            fn resource() -> $crate::informer::OwnedResource {
                let api_version: &str = $api_version;
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                $crate::Resource::new(group, version, $plural)
                    .kind($kind)
                    .into()
            }
        }
    };
}

/// Every type of k8s-openapi that has the metadata of an object.
#[cfg(all(feature = "k8s-openapi", not(feature = "kube")))]
impl<K> Kind for K
where
    K: k8s_openapi::Resource
        + k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>,
{
    fn resource() -> OwnedResource {
        informer_core::Resource::new(K::GROUP, K::VERSION, K::URL_PATH_SEGMENT)
            .kind(K::KIND)
            .into()
    }
}

/// Every type derived with `kube::CustomResource`, and every type of k8s-openapi, through kube.
#[cfg(feature = "kube")]
impl<K> Kind for K
where
    K: kube_core::Resource<DynamicType = ()>,
{
    fn resource() -> OwnedResource {
        let (group, version) = (K::group(&()), K::version(&()));
        let (plural, kind) = (K::plural(&()), K::kind(&()));
        informer_core::Resource::new(&group, &version, &plural)
            .kind(&kind)
            .into()
    }
}
