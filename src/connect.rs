//! Selects the cluster that a program connects to.

use alloc::borrow::Cow;
use core::fmt;

use informer_hyper::{BuildError, HyperTransport};

/// Connects to the cluster that `kubectl` would use, or else to the one that the program's Pod runs in.
///
/// - With the feature `kubeconfig` (on by default), the files that `KUBECONFIG` names, or `~/.kube/config`, and their
///   current context. Files without a current context are ignored.
/// - Otherwise the service account of the Pod:
///   [Accessing the API from within a Pod](https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
///
/// No request is sent. For another context, a URL or a proxy, see [`Kubeconfig`](crate::transport::Kubeconfig) and
/// [`HyperTransport::builder`].
///
/// # Errors
/// Returns [`ConnectError::NoCluster`] if neither exists, with everything that was tried. If a configuration exists but
/// cannot be used, that is an error, and the next one is not tried.
///
/// # Panics
/// Panics outside of a tokio runtime.
///
/// # Examples
/// ```
/// use informer::ConnectError;
///
/// # #[tokio::main]
/// # async fn main() {
/// match informer::connect().await {
///     Ok(cluster) => println!("{}", cluster.url()),
///     Err(ConnectError::NoCluster { .. }) => println!("start a cluster first"),
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
pub async fn connect() -> Result<HyperTransport, ConnectError> {
    // The files may be on a slow disk, or a pipe from another program.
    match tokio::task::spawn_blocking(find).await {
        Ok(found) => found,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// An error of [`connect()`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// No cluster is configured.
    NoCluster {
        /// The places that were tried, each with the reason why it was skipped.
        tried: Vec<Cow<'static, str>>,
    },
    /// The configuration of a cluster cannot be used.
    Unusable(BuildError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCluster { tried } => {
                write!(f, "no cluster is configured: {}", tried.join("; "))
            }
            Self::Unusable(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NoCluster { .. } => None,
            Self::Unusable(error) => error.source(),
        }
    }
}

informer_core::readable_errors!(ConnectError);

impl From<BuildError> for ConnectError {
    fn from(error: BuildError) -> Self {
        Self::Unusable(error)
    }
}

fn find() -> Result<HyperTransport, ConnectError> {
    let mut tried = Vec::new();
    #[cfg(feature = "kubeconfig")]
    match informer_hyper::Kubeconfig::load()? {
        Some(config) if config.has_current_context() => return Ok(config.builder()?.build()?),
        found => tried.push(reason(found.is_some())),
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Ok(HyperTransport::in_cluster()?.build()?);
    }
    tried.push("KUBERNETES_SERVICE_HOST is not set, so this is not a Pod".into());
    Err(ConnectError::NoCluster { tried })
}

/// Explains why the kubeconfig files were skipped.
#[cfg(feature = "kubeconfig")]
fn reason(exist: bool) -> Cow<'static, str> {
    let named = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
    match (named, exist) {
        (Some(paths), true) => format!("KUBECONFIG={}: no current context", paths.display()).into(),
        (Some(paths), false) => format!("KUBECONFIG={}: no such file", paths.display()).into(),
        (None, true) => "~/.kube/config: no current context".into(),
        (None, false) => "KUBECONFIG is not set, and ~/.kube/config does not exist".into(),
    }
}
