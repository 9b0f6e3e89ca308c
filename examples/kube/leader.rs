//! Several processes, one of which leads; or all of which share keys.
//!
//! `cargo run -p informer-examples-kube --example leader -- --identity a`, in several terminals, holds the Lease
//! `informer-leader` in one of them. With `--share`, each process has a Lease of its own and a part of 100 keys.
//! SIGTERM and SIGINT give up the Lease; after SIGKILL the others wait until it has expired.

use core::time::Duration;
use std::path::PathBuf;

use clap::Parser;
use informer::Key;
use informer::controller::StopSignal;
use informer::election::{Election, ElectionConfig, Replica};
use informer_examples::terminal::say;
use informer_kube::KubeLease;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Elects one of several processes as the leader, or shares keys among them, by Leases.
#[derive(Parser)]
struct Arguments {
    /// The kubeconfig file; by default the cluster that `kubectl` would use
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the Leases
    #[arg(long, default_value = "default")]
    namespace: String,
    /// The name of this process, unlike that of any other
    #[arg(long)]
    identity: String,
    /// How long a Lease lasts, in seconds
    #[arg(long, default_value_t = 15)]
    seconds: u32,
    /// Shares keys, instead of one leader
    #[arg(long)]
    share: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let arguments = Arguments::parse();
    let client = match &arguments.kubeconfig {
        Some(file) => {
            let options = KubeConfigOptions::default();
            let file = Kubeconfig::read_from(file)?;
            Client::try_from(Config::from_custom_kubeconfig(file, &options).await?)?
        }
        None => Client::try_default().await?,
    };
    let mut config = ElectionConfig::default();
    config.lease_duration = Duration::from_secs(arguments.seconds.into());
    config.renew_deadline = config.lease_duration * 2 / 3;
    config.retry_period = config.lease_duration / 8;
    if arguments.share {
        share(client, &arguments, config).await
    } else {
        lead(client, &arguments, config).await
    }
}

async fn lead(
    client: Client,
    arguments: &Arguments,
    config: ElectionConfig,
) -> Result<(), Box<dyn core::error::Error>> {
    let lease = KubeLease::new(client, &arguments.namespace, "informer-leader");
    let (leadership, election) = Election::new(lease, &arguments.identity, config)?;
    let election = tokio::spawn(election.run());
    let mut signal = StopSignal::new()?;
    say(&format!(
        "{} is a candidate for the Lease {}/informer-leader",
        arguments.identity, arguments.namespace
    ));
    let leading = async {
        while leadership.acquired().await {
            say(&format!("{} leads", arguments.identity));
            leadership.lost().await;
            say(&format!("{} does not lead any more", arguments.identity));
        }
    };
    tokio::select! {
        () = leading => {}
        () = signal.recv() => leadership.resign().await,
    }
    election.abort();
    Ok(())
}

async fn share(
    client: Client,
    arguments: &Arguments,
    config: ElectionConfig,
) -> Result<(), Box<dyn core::error::Error>> {
    let name = format!("informer-member-{}", arguments.identity);
    let lease = KubeLease::new(client, &arguments.namespace, name).label("app", "informer-member");
    let (replica, work) = Replica::new(lease.clone(), lease, &arguments.identity, config)?;
    let work = tokio::spawn(work.run());
    let mut signal = StopSignal::new()?;
    let mut shown = String::new();
    loop {
        let keys = (0..100).map(|number| Key::new(&format!("default/item-{number}")));
        let own = keys.filter(|key| replica.owns(key)).count();
        let mut live = replica.live();
        live.sort();
        let live = live.join(" ");
        let line = format!("{} has {own} of 100 keys, with: {live}", arguments.identity);
        if line != shown {
            say(&line);
            shown = line;
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
            () = signal.recv() => break,
        }
    }
    replica.resign().await;
    work.abort();
    Ok(())
}
