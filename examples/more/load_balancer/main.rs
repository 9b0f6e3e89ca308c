//! A controller with state outside of the cluster: it configures Services of the type LoadBalancer on a load balancer,
//! which here is a file.
//!
//! ```sh
//! cargo run -p informer-examples --example load_balancer                  # no cluster is needed
//! cargo run -p informer-examples --example load_balancer -- break web     # in another terminal: behind the controller's back
//! ```
//!
//! No watch reports changes of the load balancer itself. The next resync reconciles all Services and repairs it. With
//! `--resync 0` it stays broken.

mod balancer;
mod controller;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::path::PathBuf;

use balancer::Balancer;
use clap::{Parser, Subcommand};
use informer::controller::StopSignal;
use informer::page::Page;
use informer_examples::cluster::{self, Cluster};
use informer_examples::terminal::{log, say};
use informer_mock::json;

/// Configures Services on a load balancer that is a file.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The file of the load balancer.
    #[arg(long, default_value = "load-balancer.json", global = true)]
    file: PathBuf,
    /// The resync period in seconds, after which every Service is reconciled; 0 disables it.
    #[arg(long, default_value_t = 10)]
    resync: u64,
    /// The address of a page with the controller's health, for probes and Prometheus.
    #[arg(long)]
    page: Option<String>,
    /// Ends after this many seconds; by default, at SIGINT (Ctrl-C) or SIGTERM.
    #[arg(long)]
    seconds: Option<u64>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Breaks the load balancer: removes a Service from it.
    Break {
        /// The key of the Service, or the end of it.
        service: String,
    },
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    log("warn");
    let arguments = Arguments::parse();
    let balancer = Balancer::new(arguments.file.clone());
    if let Some(Command::Break { service }) = arguments.command {
        for broken in balancer.remove_where(|key| key.ends_with(&service))? {
            say(&format!("{broken} is broken"));
        }
        return Ok(());
    }
    let mut signal = StopSignal::new()?;
    let (transport, _demo) = arguments.cluster.connect(controller::demo).await?;
    say(&format!(
        "Services of the type LoadBalancer are configured in {}; SIGINT (Ctrl-C) or SIGTERM ends the controller",
        arguments.file.display()
    ));
    let resync = Duration::from_secs(arguments.resync);
    let controller = controller::new(transport, resync);
    let handle = controller.handle();
    if let Some(address) = &arguments.page {
        let listener = tokio::net::TcpListener::bind(address).await?;
        say(&format!(
            "its health is at http://{}/",
            listener.local_addr()?
        ));
        let page = Page::new("load balancer").controller(&handle);
        tokio::spawn(axum::serve(listener, page.router()).into_future());
    }
    tokio::spawn(async move {
        tokio::select! {
            () = cluster::after(arguments.seconds) => {}
            () = signal.recv() => {}
        }
        handle.stop();
    });
    let reconcile = move |task| controller::reconcile(task, balancer.clone());
    let stopped = controller.run(reconcile).await?;
    say(&format!("stopped; {} keys were pending", stopped.waiting));
    Ok(())
}

/// A Service, as JSON.
fn service(name: &str, kind: &str, port: u16) -> serde_json::Value {
    json!({
        "metadata": { "namespace": "prod", "name": name },
        "spec": { "type": kind, "ports": [{ "port": port, "nodePort": 30000 + port }] },
    })
}
