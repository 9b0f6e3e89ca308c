//! Selects the server to watch.

use core::time::Duration;
use std::io::{self, Write};
use std::path::Path;

use informer::ConnectError;
use informer::transport::{BuildError, HyperTransport, Kubeconfig};
use informer_mock::demo::Demo;
use informer_mock::{FakeServer, Mock, TokioClock, serve};

/// A server and a transport to it.
pub(crate) struct Cluster {
    pub(crate) transport: HyperTransport,
    /// Whether it is the demo server, whose resources are known without discovery.
    pub(crate) is_demo: bool,
}

/// The user's choice of a server.
pub(crate) struct Choice<'a> {
    pub(crate) demo: bool,
    pub(crate) server: Option<&'a str>,
    pub(crate) kubeconfig: Option<&'a Path>,
    pub(crate) context: Option<&'a str>,
}

impl Cluster {
    /// Connects to the named server, or else to the one that `kubectl` would use, or else to a demo server.
    pub(crate) async fn choose(choice: Choice<'_>) -> Result<Self, String> {
        let line = |error: BuildError| error.to_string();
        if choice.demo {
            return Self::demo().await;
        }
        if let Some(url) = choice.server {
            let transport = HyperTransport::builder(url).build().map_err(line)?;
            return Ok(Self::at(transport));
        }
        if choice.kubeconfig.is_some() || choice.context.is_some() {
            let config = match choice.kubeconfig {
                Some(path) => Some(Kubeconfig::from_file(path).map_err(line)?),
                None => Kubeconfig::load().map_err(line)?,
            };
            let mut config = config
                .ok_or("--context: there is no kubeconfig file; set one with --kubeconfig")?;
            if let Some(name) = choice.context {
                config = config.context(name);
            }
            let transport = config.builder().and_then(|builder| builder.build());
            return Ok(Self::at(transport.map_err(line)?));
        }
        let is_named = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
        match informer::connect().await {
            Ok(transport) => Ok(Self::at(transport)),
            // A user who names a file does not want the demo.
            Err(ConnectError::NoCluster { .. }) if !is_named => Self::demo().await,
            Err(error) => Err(error.to_string()),
        }
    }

    fn at(transport: HyperTransport) -> Self {
        Self {
            transport,
            is_demo: false,
        }
    }

    /// Starts a server with several hundred Pods that change and are deleted, and whose history is compacted
    /// periodically.
    async fn demo() -> Result<Self, String> {
        let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
        let (cuts, compactions) = (Duration::from_secs(20), Duration::from_secs(60));
        let demo = Demo::new(1)
            .rate(4)
            .cut_every(Some(cuts))
            .compact_every(Some(compactions));
        // It has its Pods before the port is open, so the first list is never empty.
        let changes = demo.run(mock.clone());
        let failed = |error| format!("the demo server cannot open a port on this machine: {error}");
        let serving = serve(mock, "127.0.0.1:0").await.map_err(failed)?;
        let url = format!("http://{}", serving.local_addr());
        tokio::spawn(changes);
        tokio::spawn(serving.run());
        let _ = writeln!(
            io::stderr(),
            "This is a demo server at {url} (--help names the options for others). Its Pods change all the time, it cuts \
             connections every {} s, and it forgets its history every {} s. Ctrl-C ends the program.",
            cuts.as_secs(),
            compactions.as_secs()
        );
        let transport = HyperTransport::builder(url).build();
        Ok(Self {
            is_demo: true,
            ..Self::at(transport.map_err(|error| error.to_string())?)
        })
    }
}
