//! Pods and Nodes in one process, as large as the machine allows:
//!
//! ```sh
//! cargo run --release -p informer-benches -- serve --pods 100000 --nodes 100000 --rate 100 --updates 60000 --expires &
//! cargo build --release -p informer-benches --example large
//! benches/within 512 target/release/examples/large --nodes --expires
//! ```
//!
//! It prints time and CPU since the start, and memory, after the first list, after the list that follows the 410 of `--expires`, and
//! after the updates; then latencies, and the CPU of a bookmark and of a resync, and the time of reads.
#![allow(clippy::print_stdout, reason = "it is a program for a terminal")]

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use informer_core::json::{as_str, value_at};
use informer_hyper::HyperTransport;
use informer_tokio::decode::{Accept, Decode, Decoder, Packer, RawObject};
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
    /// The number of the server's `--bookmarks`
    #[arg(long, default_value_t = 0)]
    bookmarks: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kept {
    /// The bytes, compressed
    Packed,
    /// The metadata
    Meta,
    /// The bytes as received
    Raw,
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
            run::<Packed<Raw>, _>(&options, Packer::new, stamp).await
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
            run::<Meta, _>(&options, MetaInJson::default, stamp).await
        }
        Kept::Raw => {
            let stamp = |pod: &Raw| {
                let stamp = value_at(pod.bytes(), &["metadata", "annotations", STAMP])?;
                Some(as_str(stamp)?.as_plain()?.to_owned())
            };
            run::<Raw, _>(&options, Decoder::<Raw>::new, stamp).await
        }
    }
}

/// Decodes metadata, and requests it in JSON, as the others do.
#[derive(Default)]
struct MetaInJson(Decoder<Meta>);

impl Decode for MetaInJson {
    type Value = Meta;
    type Error = core::convert::Infallible;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Meta, Self::Error> {
        self.0.decode(raw)
    }

    fn skips_managed_fields(&self) -> bool {
        true
    }

    fn accept(&self) -> Accept {
        Accept::metadata()
    }
}

async fn run<F, D>(
    options: &Options,
    decode: fn() -> D,
    stamp: fn(&F::Stored) -> Option<String>,
) -> Result<(), Box<dyn core::error::Error>>
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let began = Usage::now();
    let transport = HyperTransport::builder(options.server.as_str()).build()?;
    let counts = Arc::new(Counts::default());
    let (tell_end, mut end) = mpsc::unbounded_channel();
    let count = |counts: &Arc<Counts>, tell_end: &mpsc::UnboundedSender<()>| {
        let counts = Arc::clone(counts);
        let tell_end = tell_end.clone();
        move |_: &_, new: &informer_tokio::Entry<F>| {
            if new.name() == measure::SENTINEL {
                let _ = tell_end.send(());
                return;
            }
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
    let start = |transport: &HyperTransport, resource| {
        let resource = Resource::parse(resource)?;
        Ok::<_, Box<dyn core::error::Error>>(
            Informer::<F>::builder_with(transport.clone(), resource, decode()).spawn(),
        )
    };
    let pods = start(&transport, "pods")?;
    pods.add_handler(
        Handlers::<F>::new()
            .on_update(count(&counts, &tell_end))
            .on_add(move |pod, _| {
                if pod.name() == measure::SENTINEL {
                    let _ = tell_end.send(());
                }
            }),
    );
    let mut all = vec![pods.clone()];
    if options.nodes {
        all.push(start(&transport, "nodes")?);
    }
    for informer in &all {
        informer.synced().await?;
    }
    show("sync", began, &all);
    if options.expires {
        while all.iter().any(|informer| informer.health().relists < 1) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        show("relist", began, &all);
    }
    end.recv().await;
    show("updates", began, &all);
    let mut latencies = core::mem::take(
        &mut *counts
            .latencies_us
            .lock()
            .map_err(|_| "a handler panicked")?,
    );
    println!("updates={}", counts.updates.load(Ordering::Relaxed));
    if !latencies.is_empty() {
        println!("{}", percentiles("latency_us", &mut latencies));
    }

    if options.bookmarks > 0 {
        let before = busy_times();
        end.recv().await;
        let used = busy_since(&before) * 1e6;
        println!("bookmark_cpu_us={:.3}", used / f64::from(options.bookmarks));
    }

    let (tell_resynced, mut resynced) = mpsc::unbounded_channel();
    let mut left = pods.lister().len();
    let replayed = Handlers::<F>::new().on_update(move |_, _| {
        left = left.saturating_sub(1);
        if left == 0 {
            let _ = tell_resynced.send(());
        }
    });
    // It begins after everything that its first list has cost.
    let every = HandlerOptions::default().resync(Duration::from_secs(10));
    let handle = pods.add_handler_with(&every, replayed);
    handle.synced().await?;
    let before = busy_times();
    resynced.recv().await;
    let used = busy_since(&before);
    println!("resync_cpu_s={used:.4}");
    handle.remove();

    let lister = pods.lister();
    let (found, took) = fastest(|| lister.list_in("team-001"));
    println!("by_index={} by_index_us={took:.2}", found.len());
    let keys: Vec<String> = found.iter().map(|pod| pod.key().to_string()).collect();
    let (_, took) = fastest(|| {
        let found = keys.iter().filter_map(|key| lister.get_by_key(key));
        found.count()
    });
    println!("get_us={:.3}", took / keys.len().max(1) as f64);
    Ok(())
}

/// The shortest time of 100 runs, in microseconds.
fn fastest<T>(run: impl Fn() -> T) -> (T, f64) {
    let mut runs = (0..100).map(|_| {
        let before = Instant::now();
        (run(), before.elapsed())
    });
    let first = runs.next().unwrap_or_else(|| (run(), Duration::MAX));
    let (found, took) = runs.fold(first, |(found, least), (_, took)| (found, least.min(took)));
    (found, took.as_secs_f64() * 1e6)
}

/// The time that each thread of this process has run. Idle threads end after some seconds, and `/proc/self/stat` has steps of 10 ms.
fn busy_times() -> HashMap<PathBuf, Duration> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let times = threads.flatten().filter_map(|thread| {
        let times = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = times.split_whitespace().next()?.parse().ok()?;
        Some((thread.path(), Duration::from_nanos(nanos)))
    });
    times.collect()
}

/// The CPU seconds since an earlier measurement.
fn busy_since(before: &HashMap<PathBuf, Duration>) -> f64 {
    let now = busy_times().into_iter();
    let used = now.map(|(thread, time)| {
        let before = before.get(&thread).copied().unwrap_or_default();
        time.saturating_sub(before)
    });
    used.sum::<Duration>().as_secs_f64()
}

fn show<F: Form<Stored: Send + Sync + 'static>>(what: &str, began: Usage, all: &[Informer<F>]) {
    let now = Usage::now();
    let used = now.since(began);
    let objects: usize = all.iter().map(|informer| informer.lister().len()).sum();
    println!(
        "{what}_objects={objects} {what}_s={:.2} {what}_cpu_s={:.2} {what}_rss_kb={} {what}_hwm_kb={}",
        used.wall.as_secs_f64(),
        used.cpu.as_secs_f64(),
        now.rss_kb,
        now.hwm_kb,
    );
}
