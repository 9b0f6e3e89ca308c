//! Resource names: the group, version and plural name of a resource, and the URL path and query that they form.

use core::{error::Error, fmt};

#[cfg(feature = "alloc")]
use alloc::{borrow::ToOwned, string::String};
#[cfg(feature = "alloc")]
use core::str::FromStr;

mod builtin;
mod name;
pub mod selector;
mod shard;
#[cfg(test)]
mod tests;

pub use name::{InvalidName, NamePart};
pub use shard::{Shard, ShardBy};

use builtin::{Builtin, Scope, builtins};
use name::is_dns_subdomain;

/// A collection of Kubernetes objects: the resource type, and optionally a namespace and selectors.
///
/// The server filters by the selectors.
///
/// # Examples
///
/// ```
/// use informer_core::Resource;
///
/// const WEB: Resource<'static> = Resource::new("apps", "v1", "deployments")
///     .kind("Deployment")
///     .namespace("prod")
///     .labels("app=web");
/// assert_eq!(WEB.path().to_string(), "/apis/apps/v1/namespaces/prod/deployments");
///
/// assert_eq!(Resource::parse("deployments")?.namespace("prod").labels("app=web"), WEB);
/// # Ok::<(), informer_core::resource::ResourceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Resource<'a> {
    /// The API group, empty for the core group (`pods`, `services`, …).
    pub group: &'a str,
    /// The version within the group, such as `v1` or `v1beta1`.
    pub version: &'a str,
    /// The name in the URL path: plural and in lower case, such as `pods`.
    pub plural: &'a str,
    /// The kind of the objects, such as `Pod`, if known.
    pub kind: Option<&'a str>,
    /// Whether the objects are namespaced, if it is known; [`is_namespaced`](Self::is_namespaced) knows built-in resources
    /// too.
    pub namespaced: Option<bool>,
    /// The namespace, or `None` for all namespaces.
    pub namespace: Option<&'a str>,
    /// The labels that objects must have, in the grammar of `LabelSelector`.
    pub label_selector: Option<&'a str>,
    /// The fields that objects must have, such as `spec.nodeName=node-1`.
    pub field_selector: Option<&'a str>,
    /// The shard of the objects, or `None` for all objects.
    pub shard: Option<Shard>,
}

impl<'a> Resource<'a> {
    /// Names a resource in all namespaces, without selectors.
    ///
    /// The group of the core API is the empty string. Nothing is validated here; [`Resource::parse`] validates, and
    /// [`check`](Self::check) finds names that no server can have, which an informer reports.
    #[must_use]
    pub const fn new(group: &'a str, version: &'a str, plural: &'a str) -> Self {
        Self {
            group,
            version,
            plural,
            kind: None,
            namespaced: None,
            namespace: None,
            label_selector: None,
            field_selector: None,
            shard: None,
        }
    }

    /// Parses the name of a resource: a built-in plural, or `plural.version.group`.
    ///
    /// | written | read as |
    /// |---|---|
    /// | `pods` | a built-in resource in its preferred version |
    /// | `deployments.apps`, `events.events.k8s.io` | the same, with its group |
    /// | `horizontalpodautoscalers.v1.autoscaling`, `pods.v1` | a built-in resource in another version |
    /// | `widgets.v1alpha1.example.com` | any other resource; its kind is unknown |
    ///
    /// The resources of Kubernetes 1.36 that can be listed and watched are built in. `events` alone means the resource
    /// of the core group.
    ///
    /// # Errors
    ///
    /// Returns a [`ResourceError`] for any other text.
    ///
    /// # Examples
    ///
    /// ```
    /// use informer_core::{Resource, resource::ResourceError};
    ///
    /// let jobs = Resource::parse("jobs")?;
    /// assert_eq!((jobs.group, jobs.version, jobs.kind), ("batch", "v1", Some("Job")));
    ///
    /// let widgets = Resource::parse("widgets.v1alpha1.example.com")?;
    /// assert_eq!(widgets.path().to_string(), "/apis/example.com/v1alpha1/widgets");
    ///
    /// assert_eq!(Resource::parse("Pod"), Err(ResourceError::Unknown { similar: Some("pods") }));
    /// # Ok::<(), ResourceError>(())
    /// ```
    pub fn parse(text: &'a str) -> Result<Self, ResourceError> {
        if text.is_empty() {
            return Err(ResourceError::Empty);
        }
        let Some((plural, rest)) = text.split_once('.') else {
            return builtins()
                .find(|builtin| builtin.plural == text)
                .map(Builtin::resource)
                .ok_or_else(|| ResourceError::Unknown {
                    similar: similar(text),
                });
        };
        if let Some(builtin) = Builtin::find(rest, plural) {
            return Ok(builtin.resource());
        }
        let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
        if !is_version(version) {
            return Err(ResourceError::NoVersion);
        }
        if let Some(builtin) = Builtin::find(group, plural) {
            return Ok(Self {
                version,
                ..builtin.resource()
            });
        }
        if group.is_empty() {
            return Err(ResourceError::Unknown {
                similar: similar(plural),
            });
        }
        if !is_dns_subdomain(plural) || !is_dns_subdomain(group) {
            return Err(ResourceError::InvalidName);
        }
        Ok(Self::new(group, version, plural))
    }

    /// Sets the kind of the objects, such as `Pod`.
    #[must_use]
    pub const fn kind(mut self, kind: &'a str) -> Self {
        self.kind = non_empty(kind);
        self
    }

    /// Sets whether the objects are namespaced, for a resource that is not built in.
    ///
    /// ```
    /// use informer_core::Resource;
    ///
    /// let tenants = Resource::new("example.com", "v1", "tenants");
    /// assert_eq!(tenants.is_namespaced(), None);
    /// assert_eq!(tenants.namespaced(false).is_namespaced(), Some(false));
    /// ```
    #[must_use]
    pub const fn namespaced(mut self, namespaced: bool) -> Self {
        self.namespaced = Some(namespaced);
        self
    }

    /// Restricts the resource to one namespace; an empty string means all namespaces. It is not validated here, but an
    /// informer reports a name that no namespace can have: see [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use informer_core::Resource;
    ///
    /// let pods = Resource::new("", "v1", "pods");
    /// assert_eq!(pods.namespace("prod").path().to_string(), "/api/v1/namespaces/prod/pods");
    /// assert_eq!(pods.namespace("").path().to_string(), "/api/v1/pods");
    /// ```
    #[must_use]
    pub const fn namespace(mut self, namespace: &'a str) -> Self {
        self.namespace = non_empty(namespace);
        self
    }

    /// Sets the label selector, such as `app=web`; an empty string selects every object.
    ///
    /// The text is sent unchanged. To find a mistake before the server does, pass it to
    /// `LabelSelector::parse`.
    #[must_use]
    pub const fn labels(mut self, selector: &'a str) -> Self {
        self.label_selector = non_empty(selector);
        self
    }

    /// Sets the field selector, such as `spec.nodeName=node-1`; an empty string selects every object.
    ///
    /// The text is sent unchanged: escape `\`, `,` and `=` within a value by a backslash.
    #[must_use]
    pub const fn fields(mut self, selector: &'a str) -> Self {
        self.field_selector = non_empty(selector);
        self
    }

    /// Restricts the resource to one shard of its objects.
    ///
    /// # Examples
    ///
    /// ```
    /// use informer_core::{Resource, resource::{Shard, ShardBy}};
    ///
    /// let half = Shard::of(ShardBy::Uid, 0, 2).expect("0 is below 2");
    /// assert!(half.to_string().starts_with("shardRange(object.metadata.uid"));
    /// let pods = Resource::new("", "v1", "pods").shard(half);
    /// ```
    #[must_use]
    pub const fn shard(mut self, shard: Shard) -> Self {
        self.shard = Some(shard);
        self
    }

    /// Returns whether the objects are namespaced. `None` if the resource is not built in, and
    /// [`namespaced`](Self::namespaced) was not called.
    #[must_use]
    pub fn is_namespaced(&self) -> Option<bool> {
        let builtin = || Builtin::find(self.group, self.plural);
        self.namespaced
            .or_else(|| Some(builtin()?.scope == Scope::Namespaced))
    }

    /// Returns the path of the collection, with each segment percent-encoded.
    ///
    /// The namespace is omitted if the resource is known to be cluster-scoped, as in `kubectl`.
    #[must_use]
    pub const fn path(&self) -> impl fmt::Display + use<'a> {
        Path(*self)
    }

    /// Returns the path of one object of the collection, with each segment percent-encoded, for requests other than an
    /// informer's.
    ///
    /// ```
    /// use informer_core::Resource;
    ///
    /// let pods = Resource::new("", "v1", "pods").namespace("prod");
    /// assert_eq!(pods.object_path("web").to_string(), "/api/v1/namespaces/prod/pods/web");
    /// ```
    #[must_use]
    pub const fn object_path(&self, name: &'a str) -> impl fmt::Display + use<'a> {
        ObjectPath(Path(*self), name)
    }

    /// Returns the group and version in the form of an object's `apiVersion`, such as `apps/v1`.
    #[must_use]
    pub const fn api_version(&self) -> impl fmt::Display + use<'a> {
        ApiVersion(*self)
    }

    /// Writes the selectors as the beginning of a query, and returns the writer for further parameters.
    pub(crate) fn query<'w>(
        &self,
        out: &'w mut dyn fmt::Write,
    ) -> Result<QueryWriter<'w>, fmt::Error> {
        let mut query = QueryWriter::new(out);
        if let Some(selector) = self.label_selector {
            query.pair("labelSelector", selector)?;
        }
        if let Some(selector) = self.field_selector {
            query.pair("fieldSelector", selector)?;
        }
        if let Some(shard) = self.shard {
            query.pair("shardSelector", shard)?;
        }
        Ok(query)
    }
}

/// Writes `plural.version` or `plural.version.group`, which [`Resource::parse`] accepts.
impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural, self.version)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// A [`Resource`] that owns its strings.
///
/// # Examples
///
/// ```
/// use informer_core::{OwnedResource, Resource};
///
/// let owned: OwnedResource = "deployments.apps".parse()?;
/// assert_eq!(owned.as_ref(), Resource::parse("deployments")?);
/// # Ok::<(), informer_core::resource::ResourceError>(())
/// ```
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedResource {
    group: String,
    version: String,
    plural: String,
    kind: Option<String>,
    namespaced: Option<bool>,
    namespace: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    shard: Option<Shard>,
}

#[cfg(feature = "alloc")]
impl OwnedResource {
    /// Returns a [`Resource`] that borrows the strings.
    #[must_use]
    pub fn as_ref(&self) -> Resource<'_> {
        Resource {
            group: &self.group,
            version: &self.version,
            plural: &self.plural,
            kind: self.kind.as_deref(),
            namespaced: self.namespaced,
            namespace: self.namespace.as_deref(),
            label_selector: self.label_selector.as_deref(),
            field_selector: self.field_selector.as_deref(),
            shard: self.shard,
        }
    }
}

#[cfg(feature = "alloc")]
impl From<Resource<'_>> for OwnedResource {
    fn from(resource: Resource<'_>) -> Self {
        Self {
            group: resource.group.to_owned(),
            version: resource.version.to_owned(),
            plural: resource.plural.to_owned(),
            kind: resource.kind.map(ToOwned::to_owned),
            namespaced: resource.namespaced,
            namespace: resource.namespace.map(ToOwned::to_owned),
            label_selector: resource.label_selector.map(ToOwned::to_owned),
            field_selector: resource.field_selector.map(ToOwned::to_owned),
            shard: resource.shard,
        }
    }
}

#[cfg(feature = "alloc")]
impl FromStr for OwnedResource {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Resource::parse(text).map(Self::from)
    }
}

#[cfg(feature = "alloc")]
impl fmt::Display for OwnedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// The reason why a text does not name a resource.
///
/// # Examples
///
/// ```
/// use informer_core::Resource;
///
/// let error = Resource::parse("pod").unwrap_err();
/// assert!(error.to_string().contains("did you mean `pods`?"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceError {
    /// The text is empty.
    Empty,
    /// No built-in resource has this name.
    Unknown {
        /// The built-in plural whose kind or plural equals the text if case is ignored.
        similar: Option<&'static str>,
    },
    /// The resource is not built in, and the text has no version between name and group.
    NoVersion,
    /// The plural or the group contains characters that are not allowed.
    InvalidName,
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name of the resource is empty")?,
            Self::Unknown { similar: None } => f.write_str("no built-in resource of this name")?,
            Self::Unknown { similar: Some(plural) } => {
                write!(f, "no built-in resource of this name, did you mean `{plural}`?")?;
            }
            Self::NoVersion => f.write_str("not a built-in resource, and the version is missing")?,
            Self::InvalidName => f.write_str(
                "a plural and a group consist of a-z, 0-9, `-` and `.`, with a letter or digit at both ends",
            )?,
        }
        f.write_str(
            "; write a built-in plural (`pods`, `deployments`, `deployments.apps`) \
             or plural.version.group (`widgets.v1alpha1.example.com`)",
        )
    }
}

impl Error for ResourceError {}

crate::readable_errors!(ResourceError);

/// A writer for the query of a URL: `?` before the first pair, `&` before the others, keys and values percent-encoded.
///
/// Letters, digits, `-`, `.`, `_` and `~` are written unchanged; every other byte of the UTF-8 text becomes `%XX`. The
/// writer does not allocate.
pub(crate) struct QueryWriter<'w> {
    out: &'w mut dyn fmt::Write,
    separator: char,
}

impl<'w> QueryWriter<'w> {
    /// Creates a writer for a query. It writes nothing before the first pair.
    const fn new(out: &'w mut dyn fmt::Write) -> Self {
        Self {
            out,
            separator: '?',
        }
    }

    /// Writes one parameter.
    ///
    /// # Errors
    ///
    /// Returns the errors of the output.
    pub(crate) fn pair(
        &mut self,
        key: &str,
        value: impl fmt::Display,
    ) -> Result<&mut Self, fmt::Error> {
        self.out.write_char(self.separator)?;
        self.separator = '&';
        percent_encode(self.out, key)?;
        self.out.write_char('=')?;
        percent_encode(self.out, value)?;
        Ok(self)
    }
}

struct Path<'a>(Resource<'a>);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = self.0;
        if resource.group.is_empty() {
            f.write_str("/api")?;
        } else {
            f.write_str("/apis")?;
            segment(f, resource.group)?;
        }
        segment(f, resource.version)?;
        if let Some(namespace) = resource.namespace
            && resource.is_namespaced() != Some(false)
        {
            f.write_str("/namespaces")?;
            segment(f, namespace)?;
        }
        segment(f, resource.plural)
    }
}

struct ObjectPath<'a>(Path<'a>, &'a str);

impl fmt::Display for ObjectPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        segment(f, self.1)
    }
}

struct ApiVersion<'a>(Resource<'a>);

impl fmt::Display for ApiVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.group.is_empty() {
            write!(f, "{}/", self.0.group)?;
        }
        f.write_str(self.0.version)
    }
}

fn segment(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    match text {
        // Unescaped, `.` and `..` would let a namespace change the path.
        "." => f.write_str("/%2E"),
        ".." => f.write_str("/%2E%2E"),
        text => {
            f.write_str("/")?;
            percent_encode(f, text)
        }
    }
}

fn percent_encode(out: &mut dyn fmt::Write, value: impl fmt::Display) -> fmt::Result {
    fmt::write(&mut PercentEncoder(out), format_args!("{value}"))
}

struct PercentEncoder<'w>(&'w mut dyn fmt::Write);

impl fmt::Write for PercentEncoder<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().try_for_each(|byte| {
            if is_unreserved(byte) {
                self.0.write_char(byte.into())
            } else {
                write!(self.0, "%{byte:02X}")
            }
        })
    }
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

const fn non_empty(text: &str) -> Option<&str> {
    if text.is_empty() { None } else { Some(text) }
}

/// Returns whether a text looks like `v1`, `v2beta1` or `v1alpha3`.
fn is_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = text.strip_prefix('v') else {
        return false;
    };
    match number
        .split_once("alpha")
        .or_else(|| number.split_once("beta"))
    {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(number),
    }
}

fn similar(text: &str) -> Option<&'static str> {
    builtins()
        .find(|builtin| {
            builtin.kind.eq_ignore_ascii_case(text) || builtin.plural.eq_ignore_ascii_case(text)
        })
        .map(|builtin| builtin.plural)
}
