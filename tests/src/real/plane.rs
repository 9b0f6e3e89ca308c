//! A whole control plane that belongs to one test.

use core::time::Duration;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{Cluster, Outcome, ensure};

/// kube-apiserver with an etcd, and controllers if requested. Dropping it ends both and removes the folder.
#[derive(Debug)]
pub struct Plane {
    /// The folder with the programs `start` and `stop`.
    assets: PathBuf,
    folder: tempfile::TempDir,
}

impl Plane {
    /// Starts a control plane. The folder `assets` has the programs `start` and `stop`; the flags are those of `start`
    /// and of kube-apiserver.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn start(assets: PathBuf, flags: &[&str]) -> Outcome<Self> {
        let plane = Self {
            assets,
            folder: tempfile::tempdir()?,
        };
        plane.restart(flags).await?;
        Ok(plane)
    }

    /// Starts it again with the data, ports and credentials of before, after [`Self::stop`] or [`Self::kill`].
    ///
    /// # Errors
    /// Fails if it does not start.
    pub async fn restart(&self, flags: &[&str]) -> Outcome {
        let output = Command::new(self.assets.join("start"))
            .arg(self.folder.path())
            .args(["--parent", &std::process::id().to_string()])
            .args(flags)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure(
            output.status.success(),
            format_args!("no control plane starts: {said}"),
        )
    }

    /// Ends it; open watches end cleanly.
    ///
    /// # Errors
    /// Fails if the program `stop` does.
    pub async fn stop(&self) -> Outcome {
        self.end(&[]).await
    }

    /// Kills every process, as a loss of power does.
    ///
    /// # Errors
    /// Fails if the program `stop` does.
    pub async fn kill(&self) -> Outcome {
        self.end(&["--kill"]).await
    }

    async fn end(&self, how: &[&str]) -> Outcome {
        let program = self.assets.join("stop");
        let stopped = Command::new(program)
            .args(how)
            .arg(self.folder.path())
            .status();
        ensure(
            stopped.await?.success(),
            "the control plane cannot be stopped",
        )
    }

    /// Copies the data of etcd, after [`Self::stop`].
    ///
    /// # Errors
    /// Fails if they cannot be copied.
    pub async fn save(&self) -> Outcome {
        copy(&self.path("etcd"), &self.path("saved")).await
    }

    /// Replaces the data of etcd by the copy, after [`Self::stop`].
    ///
    /// # Errors
    /// Fails if there is no copy.
    pub async fn restore(&self) -> Outcome {
        copy(&self.path("saved"), &self.path("etcd")).await
    }

    /// Sends a signal to the process `etcd` or `kube-apiserver`.
    ///
    /// # Errors
    /// Fails if it does not run.
    pub async fn signal(&self, program: &str, signal: &str) -> Outcome {
        let pid = self.pid(program)?;
        let sent = Command::new("kill").args([signal, &pid]).status().await?;
        ensure(sent.success(), format_args!("{program} does not run"))
    }

    fn pid(&self, program: &str) -> Outcome<String> {
        let pids = std::fs::read_to_string(self.path("pids"))?;
        let of_it = pids.lines().find_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            (name == program).then(|| rest.split(' ').next())?
        });
        Ok(of_it
            .ok_or_else(|| format!("there is no {program}"))?
            .to_owned())
    }

    /// Returns what a process uses.
    ///
    /// # Errors
    /// Fails if it does not run, or if the system does not tell.
    pub fn usage(&self, program: &str) -> Outcome<Usage> {
        Usage::of(&self.pid(program)?)
    }

    /// Makes etcd discard everything older than a version.
    ///
    /// # Errors
    /// Fails if etcd refuses.
    pub async fn compact(&self, version: &str) -> Outcome {
        super::control::compact(&self.variable("ETCD")?, version).await
    }

    /// Makes a client certificate and its key, `pki/NAME.crt` and `pki/NAME.key`.
    ///
    /// # Errors
    /// Fails if openssl does.
    pub async fn certificate(&self, name: &str, subject: &str) -> Outcome {
        super::control::certificate(self.folder.path(), name, subject).await
    }

    /// Opens the cluster as its administrator.
    ///
    /// # Errors
    /// Fails if its kubeconfig cannot be used.
    pub async fn cluster(&self) -> Outcome<Cluster> {
        Cluster::open(&self.kubeconfig()).await
    }

    /// Returns the kubeconfig of its administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// Returns a path in its folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a variable of the file `env`, such as `TOKEN` or `APISERVER`.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn variable(&self, name: &str) -> Outcome<String> {
        let file = std::fs::read_to_string(self.path("env"))?;
        let value = file
            .lines()
            .filter_map(|line| line.split_once('='))
            .find_map(|(key, value)| (key == name).then(|| value.to_owned()));
        Ok(value.ok_or_else(|| format!("there is no {name}"))?)
    }
}

/// Replaces a folder by a copy of another.
async fn copy(from: &Path, to: &Path) -> Outcome {
    if to.exists() {
        tokio::fs::remove_dir_all(to).await?;
    }
    let copied = Command::new("cp").arg("-R").arg(from).arg(to).status();
    ensure(
        copied.await?.success(),
        format_args!("{} cannot be copied", from.display()),
    )
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = std::process::Command::new(self.assets.join("stop"))
            .arg("--kill")
            .arg(self.folder.path())
            .status();
    }
}

/// The processor time and the memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The processor time since its start, in steps of 10 ms.
    pub processor: Duration,
    /// Its resident memory in MiB.
    pub memory: u64,
    /// The most resident memory that it has had, in MiB.
    pub peak: u64,
}

impl Usage {
    /// Returns what this process uses.
    ///
    /// # Errors
    /// Fails if the system does not tell.
    pub fn own() -> Outcome<Self> {
        Self::of("self")
    }

    fn of(pid: &str) -> Outcome<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").ok_or("no fields")?;
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks: Result<Vec<u64>, _> = ticks.map(str::parse).collect();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let mebibytes = |field: &str| -> Outcome<u64> {
            let value = status.lines().find_map(|line| line.strip_prefix(field));
            let kibibytes = value.and_then(|value| value.split_whitespace().next());
            Ok(kibibytes.ok_or("no memory")?.parse::<u64>()? / 1024)
        };
        Ok(Self {
            processor: Duration::from_millis(ticks?.iter().sum::<u64>() * 10),
            memory: mebibytes("VmRSS:")?,
            peak: mebibytes("VmHWM:")?,
        })
    }
}
