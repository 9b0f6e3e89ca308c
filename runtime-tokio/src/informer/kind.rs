//! Types that represent a resource.

use informer_core::OwnedResource;

/// A type that represents a Kubernetes resource.
///
/// For a custom struct, [`kind!`](crate::kind!) implements it in one line. The types of k8s-openapi and of kube are used
/// through the crate `informer-kube`. By hand:
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
    note = "for a type of k8s-openapi or kube, pass its resource: `informer_kube::resource::<{Self}>()`"
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
