//! Credentials from an exec plugin.
//!
//! See [client-go credential plugins](https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).

use core::time::Duration;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::{Either, select};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{ChildStdout, Command};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::credentials::{Credential, CredentialError, CredentialFuture, CredentialSource};
use crate::kubeconfig::file::{Cluster, ExecConfig, Material};
use crate::tls::PemSource;

/// Runs a program to obtain a credential. It runs if there is none yet, or if the last one is about to expire or was
/// refused.
///
/// It does not serialize concurrent calls; the transport shares one call among all requests.
pub(super) struct Exec {
    command: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    install_hint: Option<String>,
    mode: Mode,
    api_version: String,
    /// The cluster's data for the program. The CA is separate, since it may be in a file.
    cluster: Option<(Value, Material)>,
    kept: Mutex<Option<Kept>>,
}

/// Whether the program may use the terminal.
enum Mode {
    Never,
    IfAvailable,
    Always,
}

struct Kept {
    credential: Credential,
    renew_at: Option<SystemTime>,
}

impl Exec {
    pub(super) fn new(config: &ExecConfig, cluster: &Cluster) -> Result<Self, String> {
        let command = config.command.clone().ok_or("it has no command")?;
        let api_version = config.api_version.clone().unwrap_or_default();
        if !API_VERSIONS.contains(&api_version.as_str()) {
            return Err(format!(
                "its apiVersion {api_version:?} is not one of {}",
                API_VERSIONS.join(", ")
            ));
        }
        let mode = match config.interactive_mode.as_deref() {
            Some("Never") => Mode::Never,
            Some("IfAvailable") => Mode::IfAvailable,
            Some("Always") => Mode::Always,
            None if api_version == V1BETA1 => Mode::IfAvailable,
            other => {
                return Err(format!(
                    "its interactiveMode {:?} is not one of Never, IfAvailable, Always",
                    other.unwrap_or_default()
                ));
            }
        };
        Ok(Self {
            command,
            arguments: config.arguments.clone(),
            environment: config.environment.clone(),
            install_hint: config.install_hint.clone(),
            mode,
            api_version,
            cluster: config
                .provide_cluster_info
                .then(|| (describe(cluster), cluster.ca.clone())),
            kept: Mutex::new(None),
        })
    }

    async fn give(&self, refused: Option<&Credential>) -> Result<Credential, CredentialError> {
        if let Some(kept) = &*self.kept()
            && kept.renew_at.is_none_or(|at| SystemTime::now() < at)
            // Another request may have renewed it already.
            && refused != Some(&kept.credential)
        {
            return Ok(kept.credential.clone());
        }
        let new = self.run().await.map_err(|why| {
            CredentialError::new(format!("the exec plugin {:?} {why}", self.command))
        })?;
        let credential = new.credential.clone();
        *self.kept() = Some(new);
        Ok(credential)
    }

    /// Lets the time of the renewal pass.
    #[cfg(test)]
    pub(super) fn expire(&self) {
        if let Some(kept) = &mut *self.kept() {
            kept.renew_at = kept.renew_at.map(|_| SystemTime::UNIX_EPOCH);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self) -> Result<Kept, String> {
        let interactive = match self.mode {
            Mode::Never => false,
            Mode::IfAvailable => io::stdin().is_terminal(),
            Mode::Always if io::stdin().is_terminal() => true,
            Mode::Always => {
                return Err("requires a terminal, but there is none".to_owned());
            }
        };
        let mut spec = Map::new();
        spec.insert("interactive".to_owned(), interactive.into());
        if let Some((cluster, ca)) = &self.cluster {
            let mut cluster = cluster.clone();
            if let Some(ca) = certificates(ca).await? {
                cluster["certificate-authority-data"] = ca.into();
            }
            spec.insert("cluster".to_owned(), cluster);
        }
        let info = json!({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec});
        let is_read_by_people = interactive || io::stderr().is_terminal();
        let mut child = Command::new(&self.command)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .stdin(if interactive {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(if is_read_by_people {
                Stdio::inherit()
            } else {
                Stdio::piped()
            })
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| self.not_started(&error))?;
        let (output, messages) = (child.stdout.take(), child.stderr.take());
        let mut relaying = Box::pin(async {
            if let Some(messages) = messages {
                relay(messages, tokio::io::stderr()).await;
            }
        });
        let running = Box::pin(async {
            let given = read(output).await?;
            let status = child.wait().await;
            let status = status.map_err(|error| format!("failed: {error}"))?;
            Ok::<_, String>((status, given))
        });
        let ended = match select(running, &mut relaying).await {
            Either::Left((ended, _)) => {
                // A child process of the program may keep its standard error open.
                let _ = timeout(LAST_MESSAGES, relaying).await;
                ended
            }
            Either::Right(((), running)) => running.await,
        };
        let (status, given) = ended?;
        if !status.success() {
            return Err(format!("failed: {status}"));
        }
        self.parse(&given)
    }

    fn not_started(&self, error: &io::Error) -> String {
        match &self.install_hint {
            Some(hint) if error.kind() == io::ErrorKind::NotFound => {
                format!("cannot be run: {error}. {}", hint.trim())
            }
            _ => format!("cannot be run: {error}"),
        }
    }

    /// Parses an `ExecCredential`. The errors contain no part of it.
    fn parse(&self, output: &[u8]) -> Result<Kept, String> {
        let given: Value =
            serde_json::from_slice(output).map_err(|_| "returned invalid JSON".to_owned())?;
        let text = |value: &Value, name: &str| -> Option<String> {
            let text = value.get(name)?.as_str()?;
            (!text.is_empty()).then(|| text.to_owned())
        };
        if text(&given, "kind").as_deref() != Some("ExecCredential")
            || text(&given, "apiVersion").as_ref() != Some(&self.api_version)
        {
            return Err(format!(
                "did not return an ExecCredential of {}",
                self.api_version
            ));
        }
        let status = given.get("status").unwrap_or(&Value::Null);
        let mut credential = match text(status, "token") {
            Some(token) => Some(
                Credential::bearer(token)
                    .map_err(|why| format!("returned an invalid token: {why}"))?,
            ),
            None => None,
        };
        let certificate = text(status, "clientCertificateData");
        match (certificate, text(status, "clientKeyData")) {
            (Some(chain), Some(key)) => {
                credential = Some(credential.unwrap_or_default().with_certificate(chain, key));
            }
            (None, None) => {}
            _ => return Err("returned only one of a certificate and its key".to_owned()),
        }
        let renew_at = match text(status, "expirationTimestamp") {
            None => None,
            Some(time) => {
                let expires = super::rfc3339::parse(&time)
                    .ok_or_else(|| format!("returned the invalid expirationTimestamp {time:?}"))?;
                Some(renew_at(expires, SystemTime::now()))
            }
        };
        Ok(Kept {
            credential: credential
                .ok_or_else(|| "returned neither a token nor a certificate".to_owned())?,
            renew_at,
        })
    }
}

/// Reads the output of a program, up to a limit. Returning an error kills the program.
async fn read(output: Option<ChildStdout>) -> Result<Vec<u8>, String> {
    let mut given = Vec::new();
    if let Some(output) = output {
        let reading = output.take(MOST_OUTPUT + 1).read_to_end(&mut given).await;
        reading.map_err(|error| format!("cannot be read: {error}"))?;
    }
    if given.len() as u64 > MOST_OUTPUT {
        return Err(format!("returned more than {MOST_OUTPUT} bytes"));
    }
    Ok(given)
}

/// Copies a program's messages up to a limit. The rest is read and discarded, so that the program never blocks.
pub(super) async fn relay(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let mut first = (&mut from).take(MOST_MESSAGES);
    // This process's standard error may have no reader either.
    let copied = tokio::io::copy(&mut first, &mut to).await.unwrap_or(0);
    let dropped = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    if copied == MOST_MESSAGES && dropped.is_ok_and(|dropped| dropped > 0) {
        let _ = to
            .write_all(b"\n[further messages of the exec plugin are discarded]\n")
            .await;
    }
    let _ = to.flush().await;
}

/// A credential with a chain of certificates has a few kilobytes.
const MOST_OUTPUT: u64 = 1 << 20;

/// The most bytes of messages that one run of a program may print.
pub(super) const MOST_MESSAGES: u64 = 64 << 10;

/// How long a program's messages are read after it has ended.
const LAST_MESSAGES: Duration = Duration::from_secs(1);

impl CredentialSource for Exec {
    fn credential<'a>(&'a self, refused: Option<&'a Credential>) -> CredentialFuture<'a> {
        Box::pin(self.give(refused))
    }
}

/// Returns the time of the renewal: a minute before the expiry, or a tenth of the remaining lifetime before it if that
/// is shorter.
///
/// It is not earlier than 10 s from now. Otherwise the program would run for each request if it prints expired
/// credentials, or if the clock of this machine is ahead.
pub(super) fn renew_at(expires: SystemTime, now: SystemTime) -> SystemTime {
    let left = expires.duration_since(now).unwrap_or_default();
    expires
        .checked_sub((left / 10).min(Duration::from_secs(60)))
        .unwrap_or(expires)
        .max(now + SHORTEST_USE)
}

const SHORTEST_USE: Duration = Duration::from_secs(10);

/// Returns the CA in base64, as the program expects it.
async fn certificates(ca: &Material) -> Result<Option<String>, String> {
    let data = match (&ca.data, &ca.file) {
        (Some(data), _) => data.clone(),
        (None, Some(path)) => {
            let source = PemSource::File(path.clone());
            let reading = spawn_blocking(move || source.read("certificate-authority", true)).await;
            reading
                .map_err(|error| error.to_string())?
                .map_err(|error| format!("cannot receive the cluster's CA: {error}"))?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(BASE64_STANDARD.encode(data.0)))
}

fn describe(cluster: &Cluster) -> Value {
    let mut described = Map::new();
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let flag = |flag: bool| flag.then_some(Value::Bool(true));
    for (name, value) in [
        ("server", text(&cluster.server)),
        ("tls-server-name", text(&cluster.tls_server_name)),
        ("insecure-skip-tls-verify", flag(cluster.insecure)),
        ("proxy-url", text(&cluster.proxy_url)),
        ("disable-compression", flag(cluster.disable_compression)),
        ("config", Some(cluster.exec_config.clone())),
    ] {
        if let Some(value) = value {
            described.insert(name.to_owned(), value);
        }
    }
    Value::Object(described)
}

const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";
const API_VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", V1BETA1];
