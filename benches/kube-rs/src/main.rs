//! The work of `examples/throughput.rs` with kube-rs: the same server, the same events, the same measurements.
//!
//! It has no index: kube-rs has none.
//!
//! ```sh
//! cargo run --release -- --server http://127.0.0.1:8001 --form typed --initial stream
//! ```

use clap::{Parser, ValueEnum};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config, ResourceExt};
use measure::{Change, STAMP, Tally};

#[allow(dead_code)] // Only part of it is used here.
#[path = "../../../examples/shared/measure.rs"]
mod measure;

#[derive(Parser)]
struct Arguments {
    /// The URL of the server.
    #[arg(long)]
    server: String,
    /// The stored part of each object.
    #[arg(long, value_enum, default_value_t = Form::Typed)]
    form: Form,
    /// How the first state is fetched.
    #[arg(long, value_enum, default_value_t = Initial::Stream)]
    initial: Initial,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// k8s-openapi's Pod.
    Typed,
    /// The same with managedFields dropped.
    TypedPruned,
    /// Any object.
    Dynamic,
}

#[derive(Clone, Copy, ValueEnum)]
enum Initial {
    /// Pages of a list.
    List,
    /// A streaming list.
    Stream,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let tally = Tally::new();
    let mut config = Config::new(arguments.server.parse()?);
    // The replay server's certificate is new at each start.
    config.accept_invalid_certs = arguments.server.starts_with("https://127.0.0.1:");
    let client = Client::try_from(config)?;
    let config = match arguments.initial {
        Initial::List => watcher::Config::default(),
        Initial::Stream => watcher::Config::default().streaming_lists(),
    };
    let typed = |pod: &Pod, tell: &mut dyn FnMut(&str, &str, &str)| {
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        tell(
            spec.and_then(|spec| spec.node_name.as_deref())
                .unwrap_or(""),
            status
                .and_then(|status| status.phase.as_deref())
                .unwrap_or(""),
            pod.annotations().get(STAMP).map_or("", String::as_str),
        );
    };
    let line = match arguments.form {
        Form::Typed => {
            let (reader, writer) = reflector::store::<Pod>();
            let (tally, stored) = run(
                Api::all(client),
                config,
                |_| {},
                reader,
                writer,
                tally,
                typed,
            )
            .await?;
            tally.lines("kube-rs", "typed", stored)
        }
        Form::TypedPruned => {
            let (reader, writer) = reflector::store::<Pod>();
            let prune = |pod: &mut Pod| pod.metadata.managed_fields = None;
            let (tally, stored) = run(
                Api::all(client),
                config,
                prune,
                reader,
                writer,
                tally,
                typed,
            )
            .await?;
            tally.lines("kube-rs", "typed-pruned", stored)
        }
        Form::Dynamic => {
            let resource = ApiResource::erase::<Pod>(&());
            let writer = Writer::<DynamicObject>::new(resource.clone());
            let reader = writer.as_reader();
            let read = |pod: &DynamicObject, tell: &mut dyn FnMut(&str, &str, &str)| {
                let text = |part: &str, field: &str| {
                    pod.data
                        .get(part)
                        .and_then(|part| part.get(field)?.as_str())
                        .unwrap_or("")
                };
                tell(
                    text("spec", "nodeName"),
                    text("status", "phase"),
                    pod.annotations().get(STAMP).map_or("", String::as_str),
                );
            };
            let api = Api::all_with(client, &resource);
            let (tally, stored) = run(api, config, |_| {}, reader, writer, tally, read).await?;
            tally.lines("kube-rs", "dynamic", stored)
        }
    };
    println!("{line}");
    Ok(())
}

/// Watches until the sentinel arrives; returns the counts, and the number of objects in the store.
async fn run<K>(
    api: Api<K>,
    config: watcher::Config,
    modify: impl FnMut(&mut K),
    reader: reflector::Store<K>,
    writer: Writer<K>,
    mut tally: Tally,
    read: impl Fn(&K, &mut dyn FnMut(&str, &str, &str)),
) -> Result<(Tally, usize), watcher::Error>
where
    K: kube::Resource + Clone + std::fmt::Debug + Send + Sync + 'static,
    K: for<'de> k8s_openapi::serde::Deserialize<'de>,
    <K as kube::Resource>::DynamicType: Eq + std::hash::Hash + Clone,
{
    let events = watcher::watcher(api, config).modify(modify).reflect(writer);
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.try_next().await? {
        let (change, pod) = match &event {
            Event::InitApply(pod) => (Change::Add, pod),
            Event::Apply(pod) => (Change::Update, pod),
            Event::InitDone => {
                tally.synced();
                continue;
            }
            Event::Init | Event::Delete(_) => continue,
        };
        let key = format!(
            "{}/{}",
            pod.meta().namespace.as_deref().unwrap_or(""),
            pod.meta().name.as_deref().unwrap_or("")
        );
        let mut ended = false;
        read(pod, &mut |node, phase, stamp| {
            ended = tally.event(change, &key, node, phase);
            tally.stamp(stamp);
        });
        if ended {
            break;
        }
    }
    Ok((tally, reader.len()))
}
