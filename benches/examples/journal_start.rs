//! Measures how long an informer takes from its start until it serves the objects of a journal, without an API
//! server.
//!
//! ```sh
//! cargo run --release -p informer-benches --example journal_start -- --objects 20000
//! ```
//! The Pods are those of the other benchmarks, about 9 kB each with managedFields; `--keep` selects what is stored of
//! them. The measured time starts before the informer is built and ends after `served()` and the first access to its
//! lister. This happens in the process that wrote the journal, so the files are in the system's cache. The time for
//! only reading the files is measured too.

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use informer_benches::pods::{State, write};
use informer_core::{
    Decode, Decoder, Form, Head, Raw, RawObject, Resource, Transport,
    json::Prune,
    transport::{FailureKind, Get, TransportError},
};
use informer_journal::{FileJournal, Identity, Reached, Record, RecordLog as _};
use informer_tokio::decode::Packer;
use informer_tokio::journal::Journal;
use informer_tokio::{Informer, Json, Meta, Packed};

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

#[derive(Parser)]
struct Arguments {
    /// How many objects there are
    #[arg(long, default_value_t = 20_000)]
    objects: u64,
    /// How often it starts
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// The stored form; by default, each in turn
    #[arg(long)]
    keep: Option<Keep>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Keep {
    /// The bytes as they came.
    Raw,
    /// Compressed, without managedFields.
    Packed,
    /// A few fields, without managedFields.
    Typed,
    /// The metadata, without managedFields.
    Meta,
}

/// A few fields of a Pod.
#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "they are kept, and nobody looks at them")]
struct Pod {
    spec: Spec,
}

#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "they are kept, and nobody looks at them")]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

/// A transport without a server.
#[derive(Debug)]
struct Away;

impl core::fmt::Display for Away {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("there is no server")
    }
}

impl TransportError for Away {
    fn kind(&self) -> FailureKind {
        FailureKind::Refused
    }
}

impl Transport for Away {
    type Body = Nothing;
    type Error = Self;

    async fn send(&mut self, _get: Get<'_>) -> Result<(Head, Nothing), Self> {
        Err(Self)
    }
}

struct Nothing;

impl informer_core::Body for Nothing {
    type Error = Away;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Away> {
        Err(Away)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn core::error::Error>> {
    let arguments = Arguments::parse();
    let all = [Keep::Raw, Keep::Packed, Keep::Typed, Keep::Meta];
    let chosen = arguments
        .keep
        .map_or_else(|| all.to_vec(), |keep| vec![keep]);
    say("kept      objects  file MB  read ms  served ms (each start)");
    for keep in chosen {
        let (objects, rounds) = (arguments.objects, arguments.rounds);
        match keep {
            Keep::Raw => measure::<Raw, _>("raw", objects, rounds, Decoder::<Raw>::new).await?,
            Keep::Packed => {
                measure::<Packed<Raw>, _>("packed", objects, rounds, || {
                    Packer::new().prune(Prune::NOISE)
                })
                .await?;
            }
            Keep::Typed => {
                measure::<Pod, _>("typed", objects, rounds, || {
                    Decoder::<Json<Pod>>::new().prune(Prune::NOISE)
                })
                .await?;
            }
            Keep::Meta => measure::<Meta, _>("meta", objects, rounds, Decoder::<Meta>::new).await?,
        }
    }
    Ok(())
}

/// Writes the journal and starts from it.
async fn measure<F, D>(
    name: &str,
    objects: u64,
    rounds: u32,
    decode: impl Fn() -> D,
) -> Result<(), Box<dyn core::error::Error>>
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pods");
    let bytes = fill(&path, objects, &decode())?;
    let reading = Instant::now();
    let read = std::fs::read(path.with_extension("0"))?.len();
    let reading = reading.elapsed();
    let mut times = String::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let (pods, driver) = Informer::<F>::builder_with(Away, PODS, decode())
            .journal(Journal::file(&path).cluster("bench"))
            .build();
        let driver = tokio::spawn(driver.run());
        pods.served().await?;
        let found = pods.lister().len() as u64;
        let took = start.elapsed();
        if found != objects || pods.stale_since().is_none() {
            return Err(format!("{found} objects are served of {objects}").into());
        }
        times += &format!(" {:.0}", millis(took));
        pods.stop();
        driver.await?;
    }
    debug_assert!(read as u64 >= bytes);
    say(&format!(
        "{name:9} {objects:7} {:8.1} {:8.0} {times}",
        read as f64 / 1e6,
        millis(reading)
    ));
    Ok(())
}

fn fill<D: Decode>(
    path: &Path,
    objects: u64,
    decode: &D,
) -> Result<u64, Box<dyn core::error::Error>> {
    let mut journal = FileJournal::open(path)?;
    let identity = Identity::new("bench", &PODS, decode.fingerprint());
    journal.load(&identity, &mut |_| (), &mut |_| ())?;
    let mut bytes = 0;
    for number in 0..objects {
        let mut json = String::new();
        write(&mut json, number, State::first(number), true);
        let raw = RawObject::parse(json.as_bytes());
        let mut key = String::new();
        raw.write_key(&mut key)?;
        let mut done = Ok(());
        decode.persist(&raw, &mut |object| {
            bytes += object.len() as u64;
            done = journal.append(Record::Put { key: &key, object });
        });
        done?;
    }
    let version = (2 * objects + 1000).to_string();
    journal.append(Record::Version(Reached::new(&version).at(Some(1))))?;
    journal.sync()?;
    Ok(bytes)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn say(line: &str) {
    use std::io::Write as _;
    // A closed stdout is no reason to fail.
    let _ = writeln!(std::io::stdout(), "{line}");
}
