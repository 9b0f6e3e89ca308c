//! The controller that `docs/CONTROLLERS.md` compares with those of client-go and kube-rs, with a command line.
//!
//! `cargo run -p informer-examples-kube --example same_controller` runs it in the cluster that `kubectl` would use.

#[path = "../../docs/same-controller/ours.rs"]
#[expect(
    dead_code,
    reason = "it is a whole program, whose `main` has no arguments"
)]
mod ours;

use std::path::PathBuf;

use clap::Parser;
use informer_examples::terminal::say;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Gives each Namespace with a label `team` a ConfigMap `team` with its value.
#[derive(Parser)]
struct Arguments {
    /// The kubeconfig file; by default the cluster that `kubectl` would use
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let client = match Arguments::parse().kubeconfig {
        Some(file) => {
            let file = Kubeconfig::read_from(file)?;
            let options = KubeConfigOptions::default();
            Client::try_from(Config::from_custom_kubeconfig(file, &options).await?)?
        }
        None => Client::try_default().await?,
    };
    say(
        "Namespaces with a label `team` get a ConfigMap; SIGINT (Ctrl-C) or SIGTERM ends the controller",
    );
    ours::control(client).await?;
    say("the controller has stopped");
    Ok(())
}
