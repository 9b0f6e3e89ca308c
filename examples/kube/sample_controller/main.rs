//! Custom resources and Deployments: the controller creates a Deployment for each Web with a `kube::Client`.
//!
//! ```sh
//! cargo run -p informer-examples-kube --example sample_controller    # a demo, without a cluster
//! kubectl apply -f examples/kube/sample_controller/crd.yaml         # for a cluster, once
//! cargo run -p informer-examples-kube --example sample_controller -- --kubeconfig ~/.kube/config
//! ```

mod controller;
#[cfg(test)]
mod tests;

use clap::Parser;
use informer_examples::cluster::{self, Cluster, Demo};
use informer_examples::terminal::{log, say};
use informer_kube::Informers;
use informer_mock::json;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

/// Creates a Deployment for each Web, a custom resource.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The number of Webs that are reconciled concurrently.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Ends after this many seconds; by default, at SIGINT (Ctrl-C) or SIGTERM.
    #[arg(long)]
    seconds: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    log("warn");
    let arguments = Arguments::parse();
    let (client, demo) = client(&arguments.cluster).await?;
    if let Some(demo) = demo {
        tokio::spawn(show(demo));
    }
    let informers = Informers::new(client);
    let controller = controller::new(&informers)
        .workers(arguments.workers)
        .on_failure(|key, failure| say(&format!("{key}: {failure}")))
        .shutdown_on_signal();
    let handle = controller.handle();
    tokio::spawn(async move {
        cluster::after(arguments.seconds).await;
        handle.stop();
    });
    say("each Web gets a Deployment; SIGINT (Ctrl-C) or SIGTERM ends the controller");
    controller::run(controller, &informers).await?;
    say("the controller has stopped");
    Ok(())
}

/// Returns a client of the named cluster, or of a server in this program.
async fn client(cluster: &Cluster) -> Result<(Client, Option<Demo>), Box<dyn core::error::Error>> {
    if let Some(file) = &cluster.kubeconfig {
        let file = Kubeconfig::read_from(file)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        return Ok((Client::try_from(config)?, None));
    }
    if cluster.in_cluster {
        let config = Config::incluster().map_err(|error| format!("this is not a Pod: {error}"))?;
        return Ok((Client::try_from(config)?, None));
    }
    let (demo, url) = match &cluster.server {
        Some(url) => (None, url.clone()),
        None => {
            let (demo, url) = cluster::start(controller::demo).await?;
            (Some(demo), url)
        }
    };
    Ok((Client::try_from(Config::new(url.parse()?))?, demo))
}

/// Changes by a user while the controller runs.
async fn show(demo: Demo) {
    let wait = || cluster::after(Some(2));
    // The objects exist, so none of this fails.
    wait().await;
    say("a user wants 5 replicas of the shop");
    let _ = demo.put("webs.example.com", web("shop", 5));
    wait().await;
    say("a user deletes the Deployment of the shop");
    let _ = demo.delete("deployments.apps", "prod", "shop");
    wait().await;
    say("a user scales the Deployment of the blog by hand");
    if let Some(mut deployment) = demo.with(|server| server.get("deployments.apps", "prod", "blog"))
    {
        deployment["spec"]["replicas"] = json!(7);
        let _ = demo.update("deployments.apps", deployment);
    }
    wait().await;
    say("that is all; Ctrl-C ends it");
}

/// A Web, as JSON.
fn web(name: &str, replicas: u32) -> serde_json::Value {
    json!({
        "metadata": { "namespace": "prod", "name": name },
        "spec": { "image": format!("registry.example.com/{name}:1"), "replicas": replicas },
    })
}
