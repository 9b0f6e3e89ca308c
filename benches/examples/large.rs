//! Pods and Nodes in one process, as large as the machine allows:
//!
//! ```sh
//! cargo run --release -p informer-benches -- serve --pods 100000 --nodes 100000 --rate 100 --updates 60000 --expires &
//! cargo build --release -p informer-benches --example large
//! benches/within 512 target/release/examples/large --nodes --expires
//! ```
//!
//! It prints time, CPU and memory after the first list, after the list that follows the 410 of `--expires`, and after
//! the updates, whose latencies follow.
#![allow(clippy::print_stdout, reason = "it is a program for a terminal")]

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use informer_hyper::HyperTransport;
use informer_tokio::decode::Decode;
use informer_tokio::handler::HandlerOptions;
use informer_tokio::{Form, Handlers, Informer, Meta, Packed, Raw, Resource};
use tokio::sync::mpsc;

#[path = "../../examples/shared/measure.rs"]
#[allow(dead_code, unreachable_pub, reason = "programs share it")]
mod measure;
use measure::{STAMP, Usage, percentiles};

#[derive(Parser)]
#[command(about = "Measures an informer of many Pods, and of many Nodes in the same process")]
struct Options {
    /// The server's URL
    #[arg(long, default_value = "http://127.0.0.1:8001")]
    server: String,
    /// The form in which objects are stored
    #[arg(long, value_enum, default_value_t = Kept::Packed)]
    form: Kept,
    /// Watches Nodes too
    #[arg(long)]
    nodes: bool,
    /// The first watch ends with 410, see the server's option `--expires`
    #[arg(long)]
    expires: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kept {
    /// The bytes, compressed
    Packed,
    /// The metadata
    Meta,
}

/// A handler's counters.
#[derive(Default)]
struct Counts {
    updates: AtomicU64,
    latencies_us: std::sync::Mutex<Vec<u32>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let options = Options::parse();
    match options.form {
        Kept::Packed => {
            let stamp = |pod: &Packed<Raw>| {
                let stamp = pod.string_at(&["metadata", "annotations", STAMP]);
                stamp.ok().flatten()
            };
            run::<Packed<Raw>>(&options, stamp).await
        }
        Kept::Meta => {
            let stamp = |pod: &Meta| {
                let stamp = pod.at(&["annotations", STAMP])?;
                Some(
                    core::str::from_utf8(stamp)
                        .ok()?
                        .trim_matches('"')
                        .to_owned(),
                )
            };
            run::<Meta>(&options, stamp).await
        }
    }
}

async fn run<F>(
    options: &Options,
    stamp: fn(&F::Stored) -> Option<String>,
) -> Result<(), Box<dyn core::error::Error>>
where
    F: Form<Stored: Send + Sync + 'static>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    let began = Usage::now();
    let transport = HyperTransport::builder(options.server.as_str()).build()?;
    let counts = Arc::new(Counts::default());
    let (tell_end, mut end) = mpsc::unbounded_channel();
    let count = |counts: &Arc<Counts>| {
        let counts = Arc::clone(counts);
        move |_: &_, new: &informer_tokio::Entry<F>| {
            counts.updates.fetch_add(1, Ordering::Relaxed);
            let sent = stamp(new.value()).and_then(|stamp| stamp.parse::<u64>().ok());
            if let (Some(sent), Ok(mut latencies)) = (sent, counts.latencies_us.lock()) {
                let now = std::time::SystemTime::UNIX_EPOCH
                    .elapsed()
                    .unwrap_or_default();
                let took = now.saturating_sub(Duration::from_nanos(sent));
                latencies.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
            }
        }
    };
    let pods = Informer::<F>::builder_for(&transport, Resource::parse("pods")?).spawn();
    pods.add_handler(
        Handlers::<F>::new()
            .on_update(count(&counts))
            .on_add(move |pod, _| {
                if pod.name() == measure::SENTINEL {
                    let _ = tell_end.send(());
                }
            }),
    );
    let mut all = vec![pods.clone()];
    if options.nodes {
        all.push(Informer::<F>::builder_for(&transport, Resource::parse("nodes")?).spawn());
    }
    for informer in &all {
        informer.synced().await?;
    }
    show("first list", began, &all);
    if options.expires {
        while all.iter().any(|informer| informer.health().relists < 1) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        show("second list", began, &all);
    }
    end.recv().await;
    show("updates", began, &all);
    let mut latencies = core::mem::take(
        &mut *counts
            .latencies_us
            .lock()
            .map_err(|_| "a handler panicked")?,
    );
    println!("{} updates", counts.updates.load(Ordering::Relaxed));
    if !latencies.is_empty() {
        println!("{}", percentiles("latency_us", &mut latencies));
    }

    let resynced = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&resynced);
    let replayed = Handlers::<F>::new().on_update(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let every = HandlerOptions::default().resync(Duration::from_secs(20));
    let handle = pods.add_handler_with(&every, replayed);
    handle.synced().await?;
    let before = Usage::now();
    while resynced.load(Ordering::Relaxed) < pods.lister().len() as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let used = Usage::now().since(before).cpu.as_secs_f64();
    println!("a resync with one handler: {used:.2} s of CPU");
    handle.remove();

    let mut took = Vec::new();
    let mut found = 0;
    for _ in 0..100 {
        let before = Instant::now();
        found = pods.lister().list_in("team-001").len();
        took.push(u32::try_from(before.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    println!(
        "{found} Pods of a namespace by index: {}",
        percentiles("us", &mut took)
    );
    Ok(())
}

fn show<F: Form<Stored: Send + Sync + 'static>>(what: &str, began: Usage, all: &[Informer<F>]) {
    let now = Usage::now();
    let used = now.since(began);
    let objects: usize = all.iter().map(|informer| informer.lister().len()).sum();
    println!(
        "{what}: {objects} objects, {:.1} s, {:.1} s of CPU, {} MB resident, {} MB at most",
        used.wall.as_secs_f64(),
        used.cpu.as_secs_f64(),
        now.rss_kb / 1000,
        now.hwm_kb / 1000,
    );
}
