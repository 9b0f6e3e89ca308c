//! Servers that a test can control.

use std::path::{Path, PathBuf};

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{Cluster, Outcome};

/// An API server that `tests/apiserver/apiserver` started.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    /// Whether it was started here and must be ended here.
    is_own: bool,
    flags: Vec<String>,
}

impl Server {
    /// Returns the server that runs already, from this folder. All tests share it, so none may end it.
    #[must_use]
    pub const fn shared(folder: PathBuf) -> Self {
        Self {
            folder,
            is_own: false,
            flags: Vec::new(),
        }
    }

    /// Starts another API server for the same etcd, with the same certificates.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn beside(&self, name: &str, flags: &[&str]) -> Outcome<Self> {
        self.start(name, true, flags).await
    }

    /// Starts another API server with another etcd, with the same certificates.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn apart(&self, name: &str, flags: &[&str]) -> Outcome<Self> {
        self.start(name, false, flags).await
    }

    async fn start(&self, name: &str, shares_etcd: bool, flags: &[&str]) -> Outcome<Self> {
        let base = self
            .folder
            .parent()
            .ok_or("the server's folder is not below another")?;
        let server = Self {
            folder: base.join(format!("{name}-{}", std::process::id())),
            is_own: true,
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        };
        let pki = self.folder.join("pki");
        let mut arguments = vec!["--pki".to_owned(), pki.display().to_string()];
        if shares_etcd {
            arguments.extend(["--etcd".to_owned(), self.etcd()?]);
        }
        server.run(&arguments).await?;
        Ok(server)
    }

    /// Restarts whatever does not run, as it was started before.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn restart(&self) -> Outcome {
        // An etcd of another server must not be started here.
        let mut arguments = Vec::new();
        if !self.folder.join("etcd.pid").exists() {
            arguments.extend(["--etcd".to_owned(), self.etcd()?]);
        }
        self.run(&arguments).await
    }

    async fn run(&self, arguments: &[String]) -> Outcome {
        let output = Command::new(script())
            .arg("start")
            .arg(&self.folder)
            .args(arguments)
            .arg("--")
            .args(&self.flags)
            .output()
            .await?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let log = std::fs::read_to_string(self.folder.join("apiserver.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(10).collect();
        Err(format!("an API server does not start: {said}\n{}", lines.join("\n")).into())
    }

    /// Opens the cluster of the server.
    ///
    /// # Errors
    /// Fails if its kubeconfig cannot be used.
    pub async fn cluster(&self) -> Outcome<Cluster> {
        Cluster::open(&self.kubeconfig()).await
    }

    /// Returns the kubeconfig of its administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Returns the folder of its certificates.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.folder.join("pki")
    }

    /// Makes a certificate and its key in [`Self::pki`].
    ///
    /// # Errors
    /// Fails if openssl fails.
    pub async fn certificate(&self, name: &str, subject: &str) -> Outcome {
        certificate(&self.folder, name, subject).await
    }

    /// Sends a signal to the program `etcd` or `apiserver`.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub async fn signal(&self, program: &str, signal: &str) -> Outcome {
        let pid = std::fs::read_to_string(self.folder.join(format!("{program}.pid")))?;
        let sent = Command::new("kill")
            .args([signal, pid.trim()])
            .status()
            .await?;
        super::ensure(sent.success(), format_args!("{program} is not there"))
    }

    /// Makes etcd discard everything older than a version.
    ///
    /// # Errors
    /// Fails if etcd refuses.
    pub async fn compact(&self, version: &str) -> Outcome {
        compact(&self.etcd()?, version).await
    }

    /// Returns the review server of this API server.
    ///
    /// # Errors
    /// Fails if it has none.
    pub async fn reviews(&self) -> Outcome<Reviews> {
        let kubeconfig = self.folder.join("review.kubeconfig");
        Ok(Reviews(Cluster::open(&kubeconfig).await?))
    }

    fn etcd(&self) -> Outcome<String> {
        Ok(std::fs::read_to_string(self.folder.join("etcd.url"))?
            .trim()
            .to_owned())
    }
}

/// Makes a certificate and its key in the folder `pki` of a server's folder.
pub(super) async fn certificate(folder: &Path, name: &str, subject: &str) -> Outcome {
    let output = Command::new(script())
        .arg("certificate")
        .arg(folder)
        .args([name, subject])
        .output()
        .await?;
    super::ensure(
        output.status.success(),
        format_args!(
            "no certificate: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
    )
}

/// Makes an etcd discard everything older than a version.
pub(super) async fn compact(url: &str, version: &str) -> Outcome {
    let address = url.trim_start_matches("http://");
    let body = json!({ "revision": version, "physical": true }).to_string();
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "POST /v3/kv/compaction HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    super::ensure(
        answer.starts_with("HTTP/1.1 200"),
        format_args!("etcd: {answer}"),
    )
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_own {
            let _ = std::process::Command::new(script())
                .arg("stop")
                .arg(&self.folder)
                .status();
        }
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("apiserver/apiserver")
}

/// Sets the users of tokens and their permissions. Changes take effect within a second.
pub struct Reviews(Cluster);

impl Reviews {
    /// Makes a token valid for a user.
    ///
    /// # Errors
    /// Fails if the review server does not answer.
    pub async fn accept(&self, token: &str, user: &str) -> Outcome {
        self.put(&format!("/tokens/{token}"), &json!({ "user": user }))
            .await
    }

    /// Makes a token invalid.
    ///
    /// # Errors
    /// Fails if the review server does not answer.
    pub async fn revoke(&self, token: &str) -> Outcome {
        self.put(&format!("/tokens/{token}"), &Value::Null).await
    }

    /// Permits a user these verbs on every resource; without verbs the user may do nothing.
    ///
    /// # Errors
    /// Fails if the review server does not answer.
    pub async fn allow(&self, user: &str, verbs: &[&str]) -> Outcome {
        self.put(&format!("/users/{user}"), &json!({ "verbs": verbs }))
            .await
    }

    async fn put(&self, path: &str, body: &Value) -> Outcome {
        let (status, answer) = self.0.request(Method::PUT, path, Some(body)).await?;
        super::ensure(
            status == 200,
            format_args!("the review server: {status} {answer}"),
        )
    }
}
