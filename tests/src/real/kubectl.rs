//! kubectl, for tests on a whole control plane.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::Outcome;

/// kubectl as an administrator of the cluster.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
}

impl Kubectl {
    /// Uses this program with this kubeconfig.
    #[must_use]
    pub const fn new(program: PathBuf, kubeconfig: PathBuf) -> Self {
        Self {
            program,
            kubeconfig,
        }
    }

    /// Returns a command with the kubeconfig.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command; returns its output.
    ///
    /// # Errors
    /// Fails with the message of kubectl if the command fails.
    pub async fn run(&self, arguments: &[&str]) -> Outcome<String> {
        self.with_input(arguments, "").await
    }

    /// Applies manifests.
    ///
    /// # Errors
    /// Fails if kubectl does.
    pub async fn apply(&self, manifests: &str) -> Outcome<String> {
        self.with_input(&["apply", "-f", "-"], manifests).await
    }

    /// Applies the manifests of a file.
    ///
    /// # Errors
    /// Fails if kubectl does.
    pub async fn apply_file(&self, file: &Path) -> Outcome<String> {
        self.apply(&std::fs::read_to_string(file)?).await
    }

    async fn with_input(&self, arguments: &[&str], input: &str) -> Outcome<String> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take().ok_or("kubectl has no input")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(format!("kubectl {}: {message}", arguments.join(" ")).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}
