//! Serves the health of informers as a page for people, for probes and for Prometheus.
//!
//! `cargo run -p informer-examples --example health` serves it at http://127.0.0.1:8080/ with a fake API server on
//! which one resource is forbidden. Another address can be passed as an argument.

use clap::Parser;
use informer::controller::StopSignal;
use informer::factory::Factory;
use informer::handler::HandlerOptions;
use informer::page::Page;
use informer::{Handlers, Raw, boxed};
use informer_examples::cluster::{Cluster, Demo};
use informer_examples::terminal::say;
use informer_mock::{Fault, json};

/// Shows the health of informers as a page for people, probes and Prometheus.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    cluster: Cluster,
    /// The address of the page
    #[arg(default_value = "127.0.0.1:8080")]
    address: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut signal = StopSignal::new()?;
    let arguments = Arguments::parse();
    let (transport, _demo) = arguments.cluster.connect(demo).await?;

    let (factory, driver) = Factory::builder(boxed!(transport)).build();
    tokio::spawn(driver.run());
    let pods = factory.raw("pods")?.get();
    let _secrets = factory.metadata("secrets")?.get();
    let _widgets = factory.raw("widgets.v1.example.com")?.get();
    let options = HandlerOptions::default().name("load-balancer");
    pods.add_handler_with(&options, Handlers::<Raw>::new().on_add(|_, _| ()));

    let listener = tokio::net::TcpListener::bind(&arguments.address).await?;
    say(&format!(
        "The page is at http://{}/",
        listener.local_addr()?
    ));
    let page = Page::new("the example health").factory(&factory);
    tokio::select! {
        served = axum::serve(listener, page.router()) => served?,
        () = signal.recv() => factory.shutdown().await,
    }
    Ok(())
}

/// A server on which one resource is forbidden and another does not exist.
fn demo(mock: &Demo) {
    // It is new and has a name.
    let _ = mock.create("pods", json!({ "metadata": { "name": "web" } }));
    mock.with(|server| {
        let message = "secrets is forbidden: User \"me\" cannot list resource \"secrets\"";
        let fault = Fault::api_status(403, "Forbidden", message);
        server.inject(fault.on_path("/api/v1/secrets").always());
    });
}
