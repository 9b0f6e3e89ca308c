//! Serves the health of informers as a page for people, for probes and for Prometheus.
//!
//! `cargo run -p informer-examples --example health` serves it at http://127.0.0.1:8080/ with a fake API server on
//! which one resource is forbidden. Another address can be passed as an argument.

use informer::controller::StopSignal;
use informer::factory::Factory;
use informer::handler::HandlerOptions;
use informer::page::Page;
use informer::{Handlers, Raw, boxed};
use informer_mock::{FakeServer, Fault, Mock, TokioClock, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut signal = StopSignal::new()?;
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    mock.create("pods", json!({ "metadata": { "name": "web" } }))?;
    mock.with(|server| {
        let message = "secrets is forbidden: User \"me\" cannot list resource \"secrets\"";
        let fault = Fault::api_status(403, "Forbidden", message);
        server.inject(fault.on_path("/api/v1/secrets").always());
    });

    let (factory, driver) = Factory::builder(boxed!(mock.transport())).build();
    tokio::spawn(driver.run());
    let pods = factory.raw("pods")?.get();
    let _secrets = factory.metadata("secrets")?.get();
    let _widgets = factory.raw("widgets.v1.example.com")?.get();
    let options = HandlerOptions::default().name("load-balancer");
    pods.add_handler_with(&options, Handlers::<Raw>::new().on_add(|_, _| ()));

    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:8080");
    let listener = tokio::net::TcpListener::bind(address).await?;
    let page = Page::new("the example health").factory(&factory);
    tokio::select! {
        served = axum::serve(listener, page.router()) => served?,
        () = signal.recv() => factory.shutdown().await,
    }
    Ok(())
}
