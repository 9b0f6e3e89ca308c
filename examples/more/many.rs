//! Measures the cost of another informer and of another handler: `cargo run --release -p informer-examples --example
//! many`.
//!
//! The API server is in this process, and its memory is not counted.

use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use informer::{Handlers, Informer, Raw, Resource};
use informer_examples::measure::Usage;
use informer_examples::terminal::say;
use informer_mock::{FakeServer, Mock, TokioClock, json};

/// Measures the cost of another informer and of another handler, against a server in this process.
#[derive(Parser)]
struct Options {
    /// The numbers of informers, one for each step
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100, 1000])]
    informers: Vec<usize>,

    /// The number of objects in each cache
    #[arg(long, default_value_t = 10)]
    objects: usize,

    /// The numbers of handlers of one informer, one for each step
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 100])]
    handlers: Vec<usize>,

    /// The number of updates
    #[arg(long, default_value_t = 20_000)]
    updates: usize,
}

type Server = Mock<FakeServer, TokioClock>;
type Failure = Box<dyn core::error::Error>;

#[tokio::main]
#[expect(clippy::print_stderr)] // A program of the command line.
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(lines) => {
            say(&lines.join("\n"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("many: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &Options) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    let mut informers = Vec::new();
    for &count in &options.informers {
        lines.push(more_informers(&mut informers, count, options.objects).await?);
    }
    drop(informers);
    for &count in &options.handlers {
        lines.push(with_handlers(count, options).await?);
    }
    Ok(lines)
}

fn server(objects: usize) -> Result<Server, Failure> {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    for number in 0..objects {
        mock.create("configmaps", config_map(number, 0))?;
    }
    Ok(mock)
}

fn config_map(number: usize, value: usize) -> serde_json::Value {
    json!({
        "metadata": { "namespace": "prod", "name": format!("config-{number}") },
        "data": { "value": value.to_string() },
    })
}

fn start(mock: &Server) -> Result<Informer<Raw>, Failure> {
    let resource = Resource::parse("configmaps")?;
    let informer = Informer::<Raw>::builder_for(&mock.transport(), resource).spawn();
    Ok(informer)
}

/// Starts informers until there are `count`, and returns the cost of each new one.
async fn more_informers(
    informers: &mut Vec<Informer<Raw>>,
    count: usize,
    objects: usize,
) -> Result<String, Failure> {
    let mock = server(objects)?;
    let before = Usage::now();
    let began = informers.len();
    while informers.len() < count {
        let informer = start(&mock)?;
        informer.add_handler(Handlers::new().on_add(|_, _| ()));
        informers.push(informer);
    }
    for informer in informers.iter().skip(began) {
        informer.synced_within(Duration::from_secs(60)).await?;
    }
    let more = (count - began).max(1) as f64;
    let used = Usage::now().since(before);
    Ok(format!(
        "informers count={count} objects={objects} added={} wall_us_each={:.0} cpu_us_each={:.0} rss_kb_each={:.1}",
        count - began,
        used.wall.as_secs_f64() * 1e6 / more,
        used.cpu.as_secs_f64() * 1e6 / more,
        used.rss_kb as f64 / more,
    ))
}

/// Notifies this many handlers of the updates, and returns the cost of one call.
async fn with_handlers(count: usize, options: &Options) -> Result<String, Failure> {
    let mock = server(100)?;
    let informer = start(&mock)?;
    informer.synced_within(Duration::from_secs(60)).await?;
    let before = Usage::now();
    let handles: Vec<_> = (0..count)
        .map(|_| informer.add_handler(Handlers::new().on_add(|_, _| ()).on_update(|_, _| ())))
        .collect();
    for handle in &handles {
        handle.synced().await?;
    }
    let joined = Usage::now().since(before);
    let before = Usage::now();
    let mut version = String::new();
    for number in 0..options.updates {
        version = mock
            .update("configmaps", config_map(number % 100, number))?
            .to_string();
        if number % 100 == 99 {
            // Like events from a network: several, and then time for other tasks.
            tokio::task::yield_now().await;
        }
    }
    informer.wait_until(&version).await?;
    let limit = Instant::now() + Duration::from_secs(60);
    while handles.iter().any(|handle| handle.lag().pending > 0) {
        if Instant::now() > limit {
            return Err("the handlers do not catch up".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let used = Usage::now().since(before);
    let calls: u64 = informer
        .health()
        .handlers
        .iter()
        .map(|handler| handler.calls)
        .sum();
    informer.stop();
    Ok(format!(
        "handlers count={count} updates={} calls={calls} cpu_s={:.2} cpu_us_each_update={:.2} join_us_each={:.0} rss_kb={}",
        options.updates,
        used.cpu.as_secs_f64(),
        used.cpu.as_secs_f64() * 1e6 / options.updates as f64,
        joined.wall.as_secs_f64() * 1e6 / count.max(1) as f64,
        used.rss_kb,
    ))
}
