//! Measures the cost of another informer and of another handler: `cargo run --release -p informer-examples --example
//! many`.
//!
//! The API server is in this process, and its memory is not counted.

use core::time::Duration;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use informer::{Form, Handlers, Informer, Json, Raw, Resource};
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

    /// What the caches store
    #[arg(long, value_enum, default_value_t = Kept::Raw)]
    form: Kept,
}

/// The form of the caches.
#[derive(Clone, Copy, ValueEnum)]
enum Kept {
    /// The bytes of the objects.
    Raw,
    /// A struct, decoded by serde.
    Typed,
}

/// A ConfigMap without its metadata.
#[derive(serde::Deserialize)]
struct ConfigMap {
    #[serde(rename = "data")]
    _data: BTreeMap<String, String>,
}

type Server = Mock<FakeServer, TokioClock>;
type Failure = Box<dyn core::error::Error>;

#[tokio::main]
#[expect(clippy::print_stderr)] // A program of the command line.
async fn main() -> ExitCode {
    let options = Options::parse();
    let ran = match options.form {
        Kept::Raw => run(&options, raw).await,
        Kept::Typed => run(&options, typed).await,
    };
    match ran {
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

async fn run<F>(options: &Options, start: Start<F>) -> Result<Vec<String>, Failure>
where
    F: Form<Stored: Send + Sync + 'static>,
{
    let mut lines = Vec::new();
    let mut informers = Vec::new();
    for &count in &options.informers {
        lines.push(more_informers(&mut informers, count, options.objects, start).await?);
    }
    drop(informers);
    for &count in &options.handlers {
        lines.push(with_handlers(count, options, start).await?);
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

/// Starts an informer.
type Start<F> = fn(&Server, Resource<'static>) -> Informer<F>;

fn raw(mock: &Server, resource: Resource<'static>) -> Informer<Raw> {
    Informer::builder_for(&mock.transport(), resource).spawn()
}

fn typed(mock: &Server, resource: Resource<'static>) -> Informer<Json<ConfigMap>> {
    Informer::builder_for(&mock.transport(), resource).spawn()
}

/// Starts informers until there are `count`, and returns the cost of each new one.
async fn more_informers<F>(
    informers: &mut Vec<Informer<F>>,
    count: usize,
    objects: usize,
    start: Start<F>,
) -> Result<String, Failure>
where
    F: Form<Stored: Send + Sync + 'static>,
{
    let resource = Resource::parse("configmaps")?;
    let mock = server(objects)?;
    let before = Usage::now();
    let began = informers.len();
    while informers.len() < count {
        let informer = start(&mock, resource);
        informer.add_handler(Handlers::new().on_add(|_, _| ()));
        informers.push(informer);
    }
    for informer in informers.iter().skip(began) {
        informer.synced_within(Duration::from_secs(60)).await?;
    }
    let more = (count - began).max(1) as f64;
    let used = Usage::now().since(before);
    Ok(format!(
        "informers count={count} objects={objects} added={} threads={} wall_us_each={:.0} cpu_us_each={:.0} rss_kb_each={:.1}",
        count - began,
        Usage::now().threads,
        used.wall.as_secs_f64() * 1e6 / more,
        used.cpu.as_secs_f64() * 1e6 / more,
        used.rss_kb as f64 / more,
    ))
}

/// Notifies this many handlers of the updates, and returns the cost of one call.
async fn with_handlers<F>(
    count: usize,
    options: &Options,
    start: Start<F>,
) -> Result<String, Failure>
where
    F: Form<Stored: Send + Sync + 'static>,
{
    let mock = server(100)?;
    let informer = start(&mock, Resource::parse("configmaps")?);
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
