//! Configuration for programs that run in a Pod.

use core::net::IpAddr;
use std::path::Path;

use crate::build_error::BuildError;
use crate::builder::HyperBuilder;
use crate::transport::HyperTransport;

impl HyperTransport {
    /// Returns a builder for a program that runs in a Pod.
    ///
    /// It uses what the kubelet provides: the server's address from the environment, and the CA and the service
    /// account's token from files. The files are read again as they are renewed.
    ///
    /// See [Accessing the Kubernetes API from a
    /// Pod](https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
    ///
    /// # Errors
    /// Fails if the program does not run in a Pod, or if its service account's token is not mounted.
    pub fn in_cluster() -> Result<HyperBuilder, BuildError> {
        builder(|name| std::env::var(name).ok(), Path::new(ACCOUNT))
    }
}

/// Returns the namespace of the Pod in which this program runs, or `None` outside of a Pod.
///
/// # Examples
/// ```
/// let namespace = informer_hyper::in_cluster_namespace().unwrap_or_else(|| "default".to_owned());
/// ```
#[must_use]
pub fn in_cluster_namespace() -> Option<String> {
    namespace(Path::new(ACCOUNT))
}

const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn builder(
    variable: impl Fn(&str) -> Option<String>,
    account: &Path,
) -> Result<HyperBuilder, BuildError> {
    let variable = |name| {
        let value = variable(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| {
            BuildError(format!(
                "this program does not run in a Pod: the environment variable {name} is not set"
            ))
        })
    };
    let (host, port) = (
        variable("KUBERNETES_SERVICE_HOST")?,
        variable("KUBERNETES_SERVICE_PORT")?,
    );
    let host = match host.parse() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]"),
        Ok(IpAddr::V4(_)) | Err(_) => host,
    };
    let token = account.join("token");
    if !token.exists() {
        return Err(BuildError(format!(
            "the token of the service account is not mounted: {} does not exist; does the Pod set \
             automountServiceAccountToken: false?",
            token.display()
        )));
    }
    Ok(HyperTransport::builder(format!("https://{host}:{port}"))
        .root_certificates_file(account.join("ca.crt"))
        .bearer_token_file(token))
}

fn namespace(account: &Path) -> Option<String> {
    let namespace = std::fs::read_to_string(account.join("namespace")).ok()?;
    let namespace = namespace.trim();
    (!namespace.is_empty()).then(|| namespace.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Option<String> {
        match name {
            "KUBERNETES_SERVICE_HOST" => Some("fd00::1".to_owned()),
            "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn a_pod_is_distinguished_from_other_machines() {
        let folder = tempfile::tempdir().unwrap();
        let problem = builder(|_| None, folder.path()).unwrap_err().to_string();
        assert!(
            problem.contains("KUBERNETES_SERVICE_HOST is not"),
            "{problem}"
        );
        let problem = builder(pod, folder.path()).unwrap_err().to_string();
        assert!(
            problem.contains("automountServiceAccountToken"),
            "{problem}"
        );
        assert_eq!(namespace(folder.path()), None);
    }

    #[cfg(any(feature = "aws-lc-rs", feature = "ring"))]
    #[test]
    fn a_pod_has_all_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let ca = rcgen::CertificateParams::default().self_signed(&key);
        std::fs::write(folder.path().join("ca.crt"), ca.unwrap().pem()).unwrap();
        std::fs::write(folder.path().join("token"), "abc").unwrap();
        std::fs::write(folder.path().join("namespace"), "prod\n").unwrap();
        let builder = builder(pod, folder.path()).unwrap();
        let shown = format!("{builder:?}");
        assert!(shown.contains("ca.crt"), "it may be renewed: {shown}");
        let transport = builder.build().unwrap();
        assert_eq!(
            format!("{transport:?}"),
            "HyperTransport(https://[fd00::1]:443)"
        );
        assert_eq!(namespace(folder.path()), Some("prod".to_owned()));
    }
}
