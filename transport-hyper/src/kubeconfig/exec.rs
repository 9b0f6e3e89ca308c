//! Credentials by a program.
//!
//! [client-go credential plugins](https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).
//! It is done here and not by `kube-client`, for that keeps a certificate for ever, does not ask again on a 401, shows
//! what the program has written in its errors, and needs a thread.

use core::time::Duration;
use std::io::{self, IsTerminal as _};
use std::process::Stdio;

use jiff::Timestamp;
use kube_client::config::{Cluster, ExecConfig, ExecInteractiveMode};
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::sync::Mutex;

use crate::credentials::{Credential, CredentialError, CredentialFuture, CredentialSource};

/// Runs a program when there is no credential yet, when the one there is is about to expire, and when it was refused.
pub(super) struct Exec {
    command: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    install_hint: Option<String>,
    mode: ExecInteractiveMode,
    api_version: String,
    cluster: Option<Value>,
    /// Held while the program runs, so that it runs once for all who wait.
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    credential: Credential,
    renew_at: Option<Timestamp>,
}

impl Exec {
    pub(super) fn new(config: &ExecConfig, cluster: &Cluster) -> Result<Self, String> {
        let command = config.command.clone().unwrap_or_default();
        if command.is_empty() {
            return Err("it names no command".to_owned());
        }
        let api_version = config.api_version.clone().unwrap_or_default();
        if !API_VERSIONS.contains(&api_version.as_str()) {
            return Err(format!(
                "its apiVersion {api_version:?} is none of {}",
                API_VERSIONS.join(", ")
            ));
        }
        let environment = config.env.iter().flatten();
        Ok(Self {
            command,
            arguments: config.args.clone().unwrap_or_default(),
            environment: environment
                .filter_map(|pair| Some((pair.get("name")?.clone(), pair.get("value")?.clone())))
                .collect(),
            install_hint: config.install_hint.clone(),
            mode: config
                .interactive_mode
                .clone()
                .unwrap_or(ExecInteractiveMode::IfAvailable),
            api_version,
            cluster: config.provide_cluster_info.then(|| describe(cluster)),
            kept: Mutex::new(None),
        })
    }

    async fn give(&self, refused: Option<&Credential>) -> Result<Credential, CredentialError> {
        let mut kept = self.kept.lock().await;
        if let Some(kept) = &*kept
            && kept.renew_at.is_none_or(|at| Timestamp::now() < at)
            // Somebody else may have renewed it already.
            && refused != Some(&kept.credential)
        {
            return Ok(kept.credential.clone());
        }
        let new = self.run().await.map_err(|why| {
            CredentialError::new(format!("the exec plugin {:?} {why}", self.command))
        })?;
        let credential = new.credential.clone();
        *kept = Some(new);
        Ok(credential)
    }

    async fn run(&self) -> Result<Kept, String> {
        let interactive = match self.mode {
            ExecInteractiveMode::Never => false,
            ExecInteractiveMode::IfAvailable => io::stdin().is_terminal(),
            ExecInteractiveMode::Always if io::stdin().is_terminal() => true,
            ExecInteractiveMode::Always => {
                return Err("wants a terminal, and there is none".to_owned());
            }
        };
        let mut spec = Map::new();
        spec.insert("interactive".to_owned(), interactive.into());
        if let Some(cluster) = &self.cluster {
            spec.insert("cluster".to_owned(), cluster.clone());
        }
        let info = json!({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec});
        let output = Command::new(&self.command)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(if interactive {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            // What it says to people goes to people. What it gives is nobody else's.
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| self.not_started(&error))?;
        if !output.status.success() {
            return Err(format!("failed: {}", output.status));
        }
        self.read(&output.stdout)
    }

    fn not_started(&self, error: &io::Error) -> String {
        match &self.install_hint {
            Some(hint) if error.kind() == io::ErrorKind::NotFound => {
                format!("cannot be run: {error}. {}", hint.trim())
            }
            _ => format!("cannot be run: {error}"),
        }
    }

    /// Reads an `ExecCredential`. The errors show nothing of it.
    fn read(&self, output: &[u8]) -> Result<Kept, String> {
        let given: Value = serde_json::from_slice(output)
            .map_err(|_| "gave something that is not JSON".to_owned())?;
        let text = |value: &Value, name: &str| -> Option<String> {
            let text = value.get(name)?.as_str()?;
            (!text.is_empty()).then(|| text.to_owned())
        };
        if text(&given, "kind").as_deref() != Some("ExecCredential")
            || text(&given, "apiVersion").as_ref() != Some(&self.api_version)
        {
            return Err(format!(
                "did not give an ExecCredential of {}",
                self.api_version
            ));
        }
        let status = given.get("status").unwrap_or(&Value::Null);
        let mut credential = match text(status, "token") {
            Some(token) => Some(
                Credential::bearer(token).map_err(|why| format!("gave a wrong token: {why}"))?,
            ),
            None => None,
        };
        let certificate = text(status, "clientCertificateData");
        match (certificate, text(status, "clientKeyData")) {
            (Some(chain), Some(key)) => {
                credential = Some(credential.unwrap_or_default().with_certificate(chain, key));
            }
            (None, None) => {}
            _ => return Err("gave of a certificate and its key only one".to_owned()),
        }
        let renew_at = match text(status, "expirationTimestamp") {
            None => None,
            Some(time) => {
                Some(renew_at(time.parse().map_err(|_| {
                    format!("gave the wrong time {time:?} of its expiration")
                })?))
            }
        };
        Ok(Kept {
            credential: credential
                .ok_or_else(|| "gave neither a token nor a certificate".to_owned())?,
            renew_at,
        })
    }
}

impl CredentialSource for Exec {
    fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(self.give(refused))
    }
}

/// A minute before it expires, or a tenth of its time where that is less.
pub(super) fn renew_at(expires: Timestamp) -> Timestamp {
    let left = Duration::try_from(expires.duration_since(Timestamp::now())).unwrap_or_default();
    expires
        .checked_sub((left / 10).min(Duration::from_secs(60)))
        .unwrap_or(expires)
}

fn describe(cluster: &Cluster) -> Value {
    let extension = cluster.extensions.iter().flatten();
    let mut config = extension
        .filter(|extension| extension.name == "client.authentication.k8s.io/exec")
        .map(|extension| extension.extension.clone());
    let mut described = Map::new();
    for (name, value) in [
        ("server", cluster.server.clone().map(Value::from)),
        (
            "tls-server-name",
            cluster.tls_server_name.clone().map(Value::from),
        ),
        (
            "insecure-skip-tls-verify",
            cluster.insecure_skip_tls_verify.map(Value::from),
        ),
        (
            "certificate-authority-data",
            cluster.certificate_authority_data.clone().map(Value::from),
        ),
        ("proxy-url", cluster.proxy_url.clone().map(Value::from)),
        ("config", config.next_back()),
    ] {
        if let Some(value) = value {
            described.insert(name.to_owned(), value);
        }
    }
    Value::Object(described)
}

const API_VERSIONS: [&str; 2] = [
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
];
