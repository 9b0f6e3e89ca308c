//! A firewall from NetworkPolicies: renders them as rules for nftables, again after each change of a policy, a Pod or a
//! Namespace.
//!
//! ```sh
//! cargo run -p informer-examples --example firewall             # no cluster is needed
//! nft -c -f firewall.nft                   # checks the rules
//! ```
//!
//! Many objects make one text, so there is one key: the work queue merges any number of changes.

mod policy;
mod render;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::path::{Path, PathBuf};

use clap::Parser;
use informer::controller::StopSignal;
use informer::informer::wait_for_sync;
use informer::queue::WorkQueue;
use informer::transport::Transport;
use informer::{Form, Handlers, Informer};
use informer_examples::cluster::{self, Cluster, Demo};
use informer_examples::terminal::{log, say};
use informer_mock::json;
use policy::{Namespace, Pod, Policy};

/// Renders NetworkPolicies for nftables.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The output file.
    #[arg(long, default_value = "firewall.nft")]
    file: PathBuf,
    /// Ends after this many seconds; by default, at SIGINT (Ctrl-C) or SIGTERM.
    #[arg(long)]
    seconds: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    log("warn");
    let arguments = Arguments::parse();
    let mut signal = StopSignal::new()?;
    let (transport, _demo) = arguments.cluster.connect(demo).await?;
    let stop = async {
        tokio::select! {
            () = cluster::after(arguments.seconds) => {}
            () = signal.recv() => {}
        }
    };
    run(transport, &arguments.file, stop).await
}

/// Keeps a file up to date with the cluster until `stop` is ready.
async fn run<T>(
    transport: T,
    file: &Path,
    stop: impl Future<Output = ()>,
) -> Result<(), Box<dyn core::error::Error>>
where
    T: Transport + Clone + Send + 'static,
    T::Body: Send,
{
    let (policies, policies_run) = Informer::<Policy>::builder(&transport).build();
    let (pods, pods_run) = Informer::<Pod>::builder(&transport).build();
    let (namespaces, namespaces_run) = Informer::<Namespace>::builder(&transport).build();
    let queue = WorkQueue::new();
    policies.add_handler(changes(&queue));
    pods.add_handler(changes(&queue));
    namespaces.add_handler(changes(&queue));
    let work = async {
        // With only some of the Pods, the firewall would be incomplete.
        wait_for_sync(
            Duration::from_secs(60),
            [&policies as _, &pods as _, &namespaces as _],
        )
        .await?;
        queue.add(());
        let mut before = String::new();
        while let Some(work) = queue.next().await {
            let rendered = render::render(
                &policies.lister().list(),
                &pods.lister().list(),
                &namespaces.lister().list(),
            );
            if rendered.text == before {
                work.finish();
                continue;
            }
            for problem in &rendered.problems {
                say(problem);
            }
            match write(file, &rendered.text) {
                Ok(()) => {
                    say(&format!("{} is written", file.display()));
                    before = rendered.text;
                    work.finish();
                }
                Err(error) => {
                    say(&format!("{}: {error}", file.display()));
                    work.retry();
                }
            }
        }
        Ok(())
    };
    let stopping = async {
        stop.await;
        policies.stop();
        pods.stop();
        namespaces.stop();
        // The drivers end, and `run` with them.
        core::future::pending().await
    };
    tokio::select! {
        ended = work => ended,
        ended = stopping => ended,
        // A stop between two writes, or before the new file replaces the old one, leaves a complete file.
        _ = async { tokio::join!(policies_run.run(), pods_run.run(), namespaces_run.run()) } => {
            say(&format!("stopped; {} has the last state", file.display()));
            Ok(())
        }
    }
}

/// Adds the key after every event.
fn changes<F: Form>(queue: &WorkQueue<()>) -> Handlers<F> {
    let (add, update, delete) = (queue.clone(), queue.clone(), queue.clone());
    Handlers::new()
        .on_add(move |_, _| add.add(()))
        .on_update(move |_, _| update.add(()))
        .on_delete(move |_, _| delete.add(()))
}

/// Replaces the file atomically, so that nobody reads an incomplete firewall.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, file)
}

/// Policies for the demo.
fn demo(demo: &Demo) {
    // They are all new and have names, so this cannot fail.
    let _ = demo.create(
        "namespaces",
        json!({ "metadata": { "name": "prod", "labels": { "team": "a" } } }),
    );
    let _ = demo.create(
        "namespaces",
        json!({ "metadata": { "name": "monitoring", "labels": { "scrapes": "yes" } } }),
    );
    for (namespace, name, app, ip) in [
        ("prod", "web-1", "web", "10.0.0.1"),
        ("prod", "web-2", "web", "10.0.0.2"),
        ("prod", "db-1", "db", "10.0.0.3"),
        ("monitoring", "scraper", "scraper", "10.0.1.1"),
    ] {
        let pod = json!({
            "metadata": { "namespace": namespace, "name": name, "labels": { "app": app } },
            "status": { "phase": "Running", "podIP": ip },
        });
        let _ = demo.create("pods", pod);
    }
    let policy = json!({
        "metadata": { "namespace": "prod", "name": "db" },
        "spec": {
            "podSelector": { "matchLabels": { "app": "db" } },
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{ "podSelector": { "matchLabels": { "app": "web" } } }],
                    "ports": [{ "protocol": "TCP", "port": 5432 }],
                },
                {
                    "from": [
                        { "namespaceSelector": { "matchLabels": { "scrapes": "yes" } } },
                        { "ipBlock": { "cidr": "192.168.0.0/16", "except": ["192.168.1.0/24"] } },
                    ],
                    "ports": [{ "port": 9187 }],
                },
            ],
        },
    });
    let _ = demo.create("networkpolicies", policy);
}
