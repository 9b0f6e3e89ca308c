//! The API server of an example: a named one, or one in this program.

use core::time::Duration;
use std::path::PathBuf;

use crate::terminal::say;
use informer::transport::{HyperTransport, Kubeconfig};

use informer_mock::{FakeServer, Mock, TokioClock, serve};

/// The choice of an API server.
#[derive(clap::Args, Clone, Debug)]
pub struct Cluster {
    /// The kubeconfig file of a cluster; by default, a server in this program.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// The URL of an API server that requires no credentials.
    #[arg(long, conflicts_with = "kubeconfig")]
    pub server: Option<String>,
    /// Uses the cluster that the program's Pod runs in.
    #[arg(long, conflicts_with_all = ["kubeconfig", "server"])]
    pub in_cluster: bool,
}

/// A server in this program, which a test or a demo can change directly.
pub type Demo = Mock<FakeServer, TokioClock>;

impl Cluster {
    /// Connects. Without a named server it starts one, which `fill` fills.
    pub async fn connect(
        &self,
        fill: impl FnOnce(&Demo),
    ) -> Result<(HyperTransport, Option<Demo>), Box<dyn core::error::Error>> {
        if let Some(file) = &self.kubeconfig {
            return Ok((Kubeconfig::from_file(file)?.builder()?.build()?, None));
        }
        if let Some(url) = &self.server {
            return Ok((HyperTransport::builder(url).build()?, None));
        }
        if self.in_cluster {
            return Ok((HyperTransport::in_cluster()?.build()?, None));
        }
        let (demo, url) = start(fill).await?;
        Ok((HyperTransport::builder(&url).build()?, Some(demo)))
    }
}

/// Starts a server on a free port of this machine.
pub async fn start(fill: impl FnOnce(&Demo)) -> std::io::Result<(Demo, String)> {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    fill(&mock);
    let serving = serve(mock.clone(), "127.0.0.1:0").await?;
    let url = format!("http://{}", serving.local_addr());
    tokio::spawn(serving.run());
    say(&format!(
        "No server was named: one in this program is at {url}"
    ));
    Ok((mock, url))
}

/// Waits for this many seconds, or for ever.
pub async fn after(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        None => core::future::pending().await,
    }
}
