//! A custom transport in less than 100 lines, and the check that it conforms.
//!
//! `cargo run -p informer-examples --example custom_transport` runs the conformance suite through Unix sockets, and
//! then an informer.

#[cfg(unix)]
mod tunnel;

/// Checks a custom transport, a tunnel through a Unix socket, and runs an informer through it.
#[cfg(unix)]
#[derive(clap::Parser)]
struct Arguments {}

#[cfg(unix)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let Arguments {} = clap::Parser::parse();
    tokio::task::LocalSet::new().run_until(run()).await
}

#[cfg(unix)]
async fn run() -> Result<(), Box<dyn core::error::Error>> {
    use core::cell::Cell;
    use core::time::Duration;
    use std::io::Write;

    use informer::{Informer, Raw, Resource};
    use informer_mock::{FakeServer, Mock, TokioClock, conformance, json};
    use tunnel::{Tunnel, open};

    let folder = std::env::temp_dir().join(format!("informer-tunnel-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let tunnels = Cell::new(0);
    let path = || {
        tunnels.set(tunnels.get() + 1);
        folder.join(tunnels.get().to_string())
    };

    // The other end uses an in-memory server. On a gateway it would use the API server through `HyperTransport`.
    let verdict = conformance::check(async |server| {
        let path = path();
        // If the tunnel cannot be opened, the checks fail.
        let _ = open(&path, move || server.transport());
        Tunnel(path)
    })
    .await;
    write!(std::io::stdout(), "{verdict}")?;

    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    mock.create(
        "pods",
        json!({ "metadata": { "namespace": "prod", "name": "web" } }),
    )?;
    let path = path();
    let _other_end = open(&path, move || mock.transport())?;
    let (pods, driver) =
        Informer::<Raw>::builder_for(&Tunnel(path), Resource::parse("pods")?).build();
    tokio::spawn(driver.run());
    pods.synced_within(Duration::from_secs(10)).await?;
    let found = pods.lister().get("prod", "web").is_some();
    writeln!(
        std::io::stdout(),
        "an informer through the tunnel has prod/web: {found}"
    )?;
    std::fs::remove_dir_all(folder)?;
    if verdict.failed().is_empty() {
        Ok(())
    } else {
        Err("the tunnel does not conform".into())
    }
}

#[cfg(not(unix))]
fn main() {}
