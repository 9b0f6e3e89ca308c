//! Measures the speed and the memory of an informer: `cargo run --release --example throughput`.
//!
//! The server must replay many Pods and end with the one named `zz-sentinel`:
//!
//! ```sh
//! cargo run --release -p informer-benches -- serve &
//! cargo run --release --example throughput -- --server http://127.0.0.1:8001 --form raw
//! ```
//!
//! The forms `typed`, `typed-pruned` and `packed-typed` are in `-p informer-examples-kube --example throughput_typed`, which is the same
//! program with k8s-openapi.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use clap::{Parser, ValueEnum};
#[cfg(feature = "k8s-pb")]
use informer::decode::Proto;
use informer::decode::{Accept, Decode, Decoder, RawObject};
use informer::handler::{EventHandler, HandlerOptions};
use informer::informer::Initial;
use informer::protobuf::{Message, Value};
use informer::transport::HyperTransport;
use informer::{Entry, Form, Handlers, Informer, Meta, Raw, Resource};
#[cfg(feature = "zstd")]
use informer::{Packed, decode::Packer};
use informer_core::json;
use informer_core::wire::Format;
use measure::{Change, STAMP, Tally, percentiles};
use terminal::say;
use tokio::sync::oneshot;

#[path = "shared/measure.rs"]
#[allow(dead_code, unreachable_pub, reason = "programs share it")]
mod measure;
#[path = "shared/terminal.rs"]
#[allow(dead_code, unreachable_pub, reason = "the examples share it")]
mod terminal;

/// Measures the speed and the memory of an informer.
#[derive(Parser)]
struct Options {
    /// The server's URL
    #[arg(long, value_name = "URL")]
    server: String,

    /// The form in which objects are stored; the typed forms need the example `throughput_typed`
    #[arg(long, value_enum)]
    form: Kept,

    /// The format in which objects are requested; `json` excludes the form `proto-typed`
    #[arg(long, value_enum, default_value_t = Requested::Json)]
    format: Requested,

    /// How the initial state is fetched
    #[arg(long, value_enum, default_value_t = First::Stream)]
    initial: First,

    /// The number of threads that help to decode; by default, the informer decides
    #[arg(long)]
    decoders: Option<usize>,

    /// Which objects the handler reads; `few` selects one in a hundred by its name
    #[arg(long, value_enum, default_value_t = Reads::All)]
    reads: Reads,

    /// The number of threads that read from the cache, 10,000 times a second together; their latencies are printed on a separate line
    #[arg(long, default_value_t = 0)]
    readers: usize,

    /// The number of additional handlers, which do nothing
    #[arg(long, default_value_t = 0)]
    handlers: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kept {
    /// k8s-openapi's Pod
    #[cfg(feature = "k8s-openapi")]
    Typed,
    /// The same without managedFields
    #[cfg(feature = "k8s-openapi")]
    TypedPruned,
    /// The bytes as received
    Raw,
    /// The metadata
    Meta,
    /// The bytes, compressed
    #[cfg(feature = "zstd")]
    Packed,
    /// The bytes, compressed, and read as k8s-openapi's Pod
    #[cfg(all(feature = "zstd", feature = "k8s-openapi"))]
    PackedTyped,
    /// A struct with the three fields that are read, by serde in JSON and by prost in protobuf
    #[cfg(feature = "k8s-pb")]
    Few,
    /// k8s-pb's Pod
    #[cfg(feature = "k8s-pb")]
    ProtoTyped,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Requested {
    Json,
    Protobuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Reads {
    All,
    Few,
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum First {
    List,
    Stream,
}

#[tokio::main]
#[expect(clippy::print_stderr)] // A program of the command line.
async fn main() -> ExitCode {
    let options = Options::parse();
    let is_protobuf = options.format == Requested::Protobuf;
    let done = match options.form {
        #[cfg(feature = "k8s-openapi")]
        Kept::Typed => run::<typed::Pod, _>(&options, "typed", typed::decoder(), typed::read).await,
        #[cfg(feature = "k8s-openapi")]
        Kept::TypedPruned => {
            let decoder = typed::decoder().prune(informer::decode::Prune::NOISE);
            run::<typed::Pod, _>(&options, "typed-pruned", decoder, typed::read).await
        }
        Kept::Raw if is_protobuf => {
            let decoder = Decoder::<Raw>::new().protobuf();
            run::<Raw, _>(&options, "raw", decoder, raw).await
        }
        Kept::Raw => run::<Raw, _>(&options, "raw", Decoder::<Raw>::new(), raw).await,
        Kept::Meta if is_protobuf => {
            run::<Meta, _>(&options, "meta", Decoder::<Meta>::new(), meta).await
        }
        Kept::Meta => run::<Meta, _>(&options, "meta", MetaInJson::default(), meta).await,
        #[cfg(feature = "zstd")]
        Kept::Packed if is_protobuf => {
            run::<Packed<Raw>, _>(&options, "packed", Packer::new().protobuf(), packed).await
        }
        #[cfg(feature = "zstd")]
        Kept::Packed => run::<Packed<Raw>, _>(&options, "packed", Packer::new(), packed).await,
        #[cfg(all(feature = "zstd", feature = "k8s-openapi"))]
        Kept::PackedTyped => {
            let packer = Packer::<typed::Pod>::new();
            let read = (
                packed::<typed::Pod> as Read<_>,
                typed::read_packed as Read<_>,
            );
            run_with::<Packed<typed::Pod>, _>(&options, "packed-typed", packer, read).await
        }
        #[cfg(feature = "k8s-pb")]
        Kept::Few if is_protobuf => {
            let decoder = Decoder::<Proto<few::Pod>>::new().without_labels();
            run::<Proto<few::Pod>, _>(&options, "few", decoder, few::read).await
        }
        #[cfg(feature = "k8s-pb")]
        Kept::Few => {
            let decoder = Decoder::<informer::Json<few::Pod>>::new().without_labels();
            run::<informer::Json<few::Pod>, _>(&options, "few", decoder, few::read_json).await
        }
        #[cfg(feature = "k8s-pb")]
        Kept::ProtoTyped => {
            let decoder = Decoder::<Proto<pb::Pod>>::new().without_labels();
            run::<Proto<pb::Pod>, _>(&options, "proto-typed", decoder, pb::read).await
        }
    };
    match done {
        Ok(lines) => {
            say(&lines);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("throughput: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Receives the name of an object's node, its phase, and its stamp.
type Tell<'a> = &'a mut dyn FnMut(&str, &str, &str);
/// Reads them from an object.
type Read<T> = fn(&T, Tell<'_>);

#[cfg(feature = "k8s-openapi")]
mod typed {
    use informer::Json;
    use informer::decode::Decoder;
    pub(crate) use k8s_openapi::api::core::v1::Pod;

    pub(crate) fn decoder() -> Decoder<Json<Pod>> {
        Decoder::new().without_labels()
    }

    #[cfg(feature = "zstd")]
    pub(crate) fn read_packed(pod: &informer::Packed<Pod>, tell: super::Tell<'_>) {
        if let Ok(pod) = pod.get() {
            read_pod(&pod, tell);
        }
    }

    pub(crate) fn read(pod: &Json<Pod>, tell: super::Tell<'_>) {
        read_pod(pod, tell);
    }

    fn read_pod(pod: &Pod, tell: super::Tell<'_>) {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let annotations = pod.metadata.annotations.as_ref();
        let stamp = annotations.and_then(|annotations| annotations.get(super::STAMP));
        tell(
            spec.and_then(|spec| spec.node_name.as_deref())
                .unwrap_or(""),
            status
                .and_then(|status| status.phase.as_deref())
                .unwrap_or(""),
            stamp.map_or("", String::as_str),
        );
    }
}

/// The three fields as structs of serde and messages of prost.
#[cfg(feature = "k8s-pb")]
mod few {
    use std::collections::HashMap;

    use informer::Json;
    use informer::decode::Proto;
    use serde::Deserialize;

    #[derive(Clone, PartialEq, Deserialize, prost::Message)]
    pub(crate) struct Pod {
        #[prost(message, optional, tag = "1")]
        metadata: Option<Metadata>,
        #[prost(message, optional, tag = "2")]
        spec: Option<Spec>,
        #[prost(message, optional, tag = "3")]
        status: Option<Status>,
    }

    #[derive(Clone, PartialEq, Deserialize, prost::Message)]
    struct Metadata {
        #[serde(default)]
        #[prost(map = "string, string", tag = "12")]
        annotations: HashMap<String, String>,
    }

    #[derive(Clone, PartialEq, Deserialize, prost::Message)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        #[serde(default)]
        #[prost(string, tag = "10")]
        node_name: String,
    }

    #[derive(Clone, PartialEq, Deserialize, prost::Message)]
    struct Status {
        #[serde(default)]
        #[prost(string, tag = "1")]
        phase: String,
    }

    pub(crate) fn read_json(pod: &Json<Pod>, tell: super::Tell<'_>) {
        read_pod(pod, tell);
    }

    pub(crate) fn read(pod: &Proto<Pod>, tell: super::Tell<'_>) {
        read_pod(pod, tell);
    }

    fn read_pod(pod: &Pod, tell: super::Tell<'_>) {
        let stamp = (pod.metadata.as_ref()).and_then(|it| it.annotations.get(super::STAMP));
        tell(
            pod.spec.as_ref().map_or("", |spec| &spec.node_name),
            pod.status.as_ref().map_or("", |status| &status.phase),
            stamp.map_or("", String::as_str),
        );
    }
}

#[cfg(feature = "k8s-pb")]
mod pb {
    use informer::decode::Proto;
    pub(crate) use k8s_pb::api::core::v1::Pod;

    pub(crate) fn read(pod: &Proto<Pod>, tell: super::Tell<'_>) {
        let stamp = (pod.metadata.as_ref()).and_then(|it| it.annotations.get(super::STAMP));
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let phase = (pod.status.as_ref()).and_then(|status| status.phase.as_deref());
        tell(
            node.unwrap_or_default(),
            phase.unwrap_or_default(),
            stamp.map_or("", String::as_str),
        );
    }
}

/// Decodes metadata, and requests it in JSON.
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

fn raw(pod: &Raw, tell: Tell<'_>) {
    read(pod.bytes(), tell);
}

#[cfg(feature = "zstd")]
fn packed<F: informer::decode::OnDemand>(pod: &Packed<F>, tell: Tell<'_>) {
    // It was compressed in this process, so it cannot be damaged.
    let _ = pod.read(|json| read(json, tell));
}

fn read(pod: &[u8], tell: Tell<'_>) {
    if Format::of_object(pod) == Format::Protobuf {
        return read_message(Message::new(pod), tell);
    }
    tell(
        text(json::value_at(pod, &["spec", "nodeName"])),
        text(json::value_at(pod, &["status", "phase"])),
        text(json::value_at(pod, &["metadata", "annotations", STAMP])),
    );
}

fn read_message(pod: Message<'_>, tell: Tell<'_>) {
    let annotations = pod.field(&[1]).and_then(|metadata| match metadata {
        Value::Bytes(metadata) => Some(Message::new(metadata)),
        Value::Varint(_) | Value::Fixed64(_) | Value::Fixed32(_) => None,
    });
    let annotations = annotations.into_iter().flat_map(Message::fields);
    let stamp = annotations.filter_map(|field| match field {
        (12, Value::Bytes(entry)) => Some(Message::new(entry)),
        _ => None,
    });
    let stamp = stamp
        .filter(|entry| entry.text(&[1]) == Some(STAMP))
        .find_map(|entry| entry.text(&[2]));
    tell(
        pod.text(&[2, 10]).unwrap_or(""),
        pod.text(&[3, 1]).unwrap_or(""),
        stamp.unwrap_or(""),
    );
}

fn meta(pod: &Meta, tell: Tell<'_>) {
    tell("", "", text(pod.at(&["annotations", STAMP])));
}

/// The text of a JSON string. The strings read here contain no escapes.
fn text(value: Option<&[u8]>) -> &str {
    value
        .and_then(json::as_str)
        .and_then(|text| text.as_plain())
        .unwrap_or("")
}

async fn run<F, D>(
    options: &Options,
    form: &str,
    decode: D,
    read: Read<F::Stored>,
) -> Result<String, Box<dyn core::error::Error>>
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    run_with::<F, D>(options, form, decode, (read, read)).await
}

/// Runs an informer until the sentinel arrives. Returns the results. The index and the handler read the objects by a
/// function each.
async fn run_with<F, D>(
    options: &Options,
    form: &str,
    decode: D,
    (read_indexed, read): (Read<F::Stored>, Read<F::Stored>),
) -> Result<String, Box<dyn core::error::Error>>
where
    F: Form<Stored: Send + Sync + 'static>,
    D: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let tally = Tally::new();
    // The replay server's certificate is new at each start.
    let is_local = options.server.starts_with("https://127.0.0.1:");
    let transport = HyperTransport::builder(options.server.as_str())
        .insecure_skip_tls_verify(is_local)
        .build()?;
    let initial = match options.initial {
        First::List => Initial::List,
        First::Stream => Initial::Stream,
    };
    // The index by namespace always exists.
    let mut builder = Informer::<F>::builder_with(transport, Resource::parse("pods")?, decode);
    if let Some(threads) = options.decoders {
        builder = builder.decoders(threads);
    }
    let (pods, driver) = builder
        .initial(initial)
        .index_with("node", move |pod, emit| {
            read_indexed(pod, &mut |node, _, _| emit(node));
        })
        .build();
    let (done, ended) = oneshot::channel();
    let counter = Counter {
        tally,
        read,
        reads: options.reads,
        done: Some(done),
    };
    // Every event must be delivered, without coalescing.
    pods.add_handler_with(&HandlerOptions::default().backlog(usize::MAX), counter);
    for _ in 0..options.handlers {
        pods.add_handler(Handlers::new().on_add(|_, _| ()));
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..options.readers)
        .map(|_| {
            let (pods, is_over) = (pods.clone(), Arc::clone(&is_over));
            let pause = Duration::from_micros(100) * u32::try_from(options.readers).unwrap_or(1);
            thread::spawn(move || read_all_the_while(&pods, &is_over, pause))
        })
        .collect();
    let driver = tokio::spawn(driver.run());
    let tally = ended.await?;
    let mut lines = tally.lines("informer", form, pods.lister().len());
    is_over.store(true, Ordering::Relaxed);
    let mut reads = Vec::new();
    for reader in readers {
        reads.extend(reader.join().map_err(|_| "a reader panicked")?);
    }
    if !reads.is_empty() {
        lines.push('\n');
        lines.push_str(&percentiles("reads_us", &mut reads));
    }
    pods.stop();
    driver.await?;
    Ok(lines)
}

/// Reads the Pods of a node and one of them by its key, in turns. Returns how many microseconds each read took.
fn read_all_the_while<F: Form<Stored: Send + Sync + 'static>>(
    pods: &Informer<F>,
    is_over: &AtomicBool,
    pause: Duration,
) -> Vec<u32> {
    let lister = pods.lister();
    let (mut took, mut nodes, mut key) = (Vec::new(), Vec::new(), None::<String>);
    while !is_over.load(Ordering::Relaxed) {
        if nodes.len() < 100 {
            nodes = lister.index_values("node");
        }
        let node = nodes.get(took.len() % nodes.len().max(1));
        let began = Instant::now();
        match (key.take(), node) {
            (Some(key), _) => drop(lister.get_by_key(&key)),
            (None, Some(node)) => {
                // The index exists.
                let found = lister.by_index("node", node).unwrap_or_default();
                key = found.first().map(|pod| pod.key().to_string());
            }
            (None, None) => drop(lister.len()),
        }
        let micros = began.elapsed().as_micros();
        took.push(u32::try_from(micros).unwrap_or(u32::MAX));
        thread::sleep(pause);
    }
    took
}

struct Counter<F: Form> {
    tally: Tally,
    read: Read<F::Stored>,
    reads: Reads,
    done: Option<oneshot::Sender<Tally>>,
}

impl<F: Form> Counter<F> {
    fn count(&mut self, change: Change, pod: &Entry<F>) {
        let key = pod.key().as_str();
        let is_read = match self.reads {
            Reads::All => true,
            Reads::Few => {
                key.bytes()
                    .fold(7_u32, |sum, byte| sum * 31 % 10_007 + u32::from(byte))
                    % 100
                    == 0
            }
            Reads::None => false,
        };
        let mut ended = false;
        if is_read {
            (self.read)(pod.value(), &mut |node, phase, stamp| {
                ended = self.tally.event(change, key, node, phase);
                self.tally.stamp(stamp);
            });
        } else {
            ended = self.tally.event(change, key, "", "");
        }
        if ended && let Some(done) = self.done.take() {
            // If the program is already ending, nobody waits for it.
            let _ = done.send(core::mem::take(&mut self.tally));
        }
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> EventHandler<F> for Counter<F> {
    fn on_add(&mut self, pod: &Entry<F>, _is_in_initial_list: bool) {
        self.count(Change::Add, pod);
    }

    fn on_update(&mut self, _old: &Entry<F>, pod: &Entry<F>) {
        self.count(Change::Update, pod);
    }

    fn on_synced(&mut self) {
        self.tally.synced();
    }
}
