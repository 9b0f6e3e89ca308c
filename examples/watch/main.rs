//! Watches a resource and prints its changes: `cargo run --example watch -- --demo`.
//!
//! Without a named server it uses the one that `kubectl` would use. If there is none, it starts a demo server whose
//! Pods change continuously.

mod cluster;
mod columns;
mod follow;
mod heard;
mod screen;
mod table;
#[path = "../shared/terminal.rs"]
#[allow(dead_code, unreachable_pub, reason = "the examples share it")]
mod terminal;
#[cfg(test)]
mod tests;
mod writer;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, ValueEnum};
use cluster::{Choice, Cluster};
use columns::Columns;
#[cfg(feature = "zstd")]
use informer::Packed;
use informer::Raw;
use informer::controller::StopSignal;
use informer::decode::Decoder;
#[cfg(feature = "zstd")]
use informer::decode::Packer;
use informer::discovery::discover;
use informer::informer::{OwnedResource, ResourceError};
use informer::transport::HyperTransport;

const EXIT: &str = "\
Exit status:
  0  it was ended by --seconds, SIGINT (Ctrl-C) or SIGTERM, or the reader of its output is gone
  1  an error, among them: the resource cannot be listed; --seconds are over and nothing is synced; the output cannot be \
     written
  2  wrong arguments";

/// Lists and watches a resource of a Kubernetes API server, and prints its changes.
#[derive(Parser)]
#[command(name = "watch", after_help = EXIT)]
struct Options {
    /// A built-in resource such as `pods` or `deployments`, or `plural.version.group`; other names, short names and
    /// kinds are looked up on the server. `pods/web` is the Pod `web` alone
    #[arg(default_value = "pods")]
    resource: String,

    /// The API server's URL; by default, the server that `kubectl` would use, and a demo server if there is none
    #[arg(long, value_name = "URL", conflicts_with = "demo")]
    server: Option<String>,

    /// The kubeconfig file; by default, those in KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "FILE", conflicts_with_all = ["demo", "server"])]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig file; by default, the current one
    #[arg(long, value_name = "NAME", conflicts_with_all = ["demo", "server"])]
    context: Option<String>,

    /// Starts a demo server on this machine, whose objects change continuously
    #[arg(long)]
    demo: bool,

    /// Only this namespace; by default, all of them
    #[arg(short, long, value_name = "NAME", value_parser = parse_namespace)]
    namespace: Option<String>,

    /// All namespaces, regardless of --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Accepted as in `kubectl get`; this program always watches
    #[arg(short = 'w', long = "watch")]
    _watch: bool,

    /// Only objects with these labels, such as `app=web,tier in (front,back)`
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = parse_selector)]
    selector: Option<String>,

    /// Only objects with these fields, such as `spec.nodeName=n1`
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,

    /// How the initial state is fetched: with a streaming list if the server supports it, or with a LIST
    #[arg(long, value_enum, default_value_t = First::Stream)]
    initial: First,

    /// Replays all objects at this interval, in seconds, without a request to the server; 0 disables it
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    resync: u64,

    /// The number of objects per page of a list; by default, the same as in client-go
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    page_size: Option<u32>,

    /// The stored form of each object; `packed` needs the feature `zstd`
    #[arg(long, value_enum, default_value_t = Keep::Whole)]
    keep: Keep,

    /// The format in which objects are requested. `auto` is protobuf for resources that have it, if `--output json` needs
    /// no more than keys and versions
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,

    /// Matches client-go wherever a difference is visible
    #[arg(long)]
    client_go: bool,

    /// The seed of random values, such as the jitter of delays; by default, another one for each run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Ends after this many seconds; by default, at SIGINT (Ctrl-C) or SIGTERM
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,

    /// The format of the output
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum First {
    List,
    Stream,
}

#[derive(Clone, Copy, ValueEnum)]
enum Keep {
    /// Its bytes as received
    Whole,
    /// Its bytes, compressed: much less memory, for more processor time
    #[cfg(feature = "zstd")]
    Packed,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Auto,
    Json,
    Protobuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table with the columns of `kubectl get`
    Table,
    /// One JSON object a line for each event
    Json,
    /// The same with the Kubernetes object, in the member `object`
    #[value(name = "json=full")]
    JsonFull,
}

impl Options {
    /// Checks options that depend on each other, and takes the name out of `pods/web`.
    fn check(&mut self) -> Result<(), String> {
        if self.format == Format::Protobuf && self.output != Output::Json {
            return Err(
                "tables and -o json=full need objects in JSON: leave out --format protobuf".into(),
            );
        }
        let Some((resource, name)) = self.resource.split_once('/') else {
            return Ok(());
        };
        if name.is_empty() || !name.chars().all(is_in_name) {
            return Err(format!(
                "'{}': '{name}' is no name of an object",
                self.resource
            ));
        }
        let by_name = format!("metadata.name={name}");
        self.field_selector = Some(match self.field_selector.take() {
            Some(selector) => format!("{by_name},{selector}"),
            None => by_name,
        });
        self.resource = resource.to_owned();
        Ok(())
    }
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-')
}

fn parse_selector(text: &str) -> Result<String, String> {
    informer_core::selector::LabelSelector::parse(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

fn parse_namespace(text: &str) -> Result<String, String> {
    informer_core::Resource::new("", "v1", "pods")
        .namespace(text)
        .check()
        .map(|()| text.to_owned())
        .map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if let Err(message) = options.check() {
        Options::command()
            .error(ErrorKind::ValueValidation, message)
            .exit();
    }
    terminal::log("off,informer_hyper=warn");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let result = runtime
        .map_err(|error| format!("cannot start threads: {error}"))
        .and_then(|runtime| {
            let result = runtime.block_on(run(options));
            // A thread that writes to a full pipe does not end.
            runtime.shutdown_background();
            result
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Standard error may be gone as well; the exit code remains.
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), String> {
    let mut signal =
        StopSignal::new().map_err(|error| format!("cannot install a signal handler: {error}"))?;
    let target = tokio::select! {
        found = find(&options) => found?,
        () = signal.recv() => return Ok(()),
    };
    let protobuf = options.format != Format::Json && options.output == Output::Json;
    match options.keep {
        Keep::Whole => {
            let mut decoder = Decoder::<Raw>::new();
            if protobuf {
                decoder = decoder.protobuf();
            }
            follow::watch::<Raw>(options, target, decoder, &mut signal).await
        }
        #[cfg(feature = "zstd")]
        Keep::Packed => {
            let mut packer = Packer::new();
            if protobuf {
                packer = packer.protobuf();
            }
            follow::watch::<Packed<Raw>>(options, target, packer, &mut signal).await
        }
    }
}

/// What is watched.
struct Target {
    transport: HyperTransport,
    resource: OwnedResource,
    columns: Columns,
}

/// Finds the server, the resource and its columns.
async fn find(options: &Options) -> Result<Target, String> {
    // A name that is invalid on every server is rejected before a request.
    let known = options.resource.parse::<OwnedResource>();
    match &known {
        Ok(_) | Err(ResourceError::Unknown { .. } | ResourceError::NoVersion) => {}
        Err(ResourceError::InvalidName) if options.resource.chars().all(is_in_name) => {}
        Err(error) => return Err(format!("'{}': {error}", options.resource)),
    }
    let cluster = Cluster::choose(Choice {
        demo: options.demo,
        server: options.server.as_deref(),
        kubeconfig: options.kubeconfig.as_deref(),
        context: options.context.as_deref(),
    })
    .await?;
    let resource = match known {
        Ok(resource) if resource.as_ref().kind.is_some() || cluster.is_demo => resource,
        // It may still be a short name or a kind before a version and a group.
        Ok(resource) => discover(&cluster.transport, &options.resource)
            .await
            .unwrap_or(resource),
        Err(error) if cluster.is_demo => return Err(format!("'{}': {error}", options.resource)),
        Err(_) => discover(&cluster.transport, &options.resource)
            .await
            .map_err(|error| error.to_string())?,
    };
    let columns = match options.output {
        Output::Table => Columns::of(&resource, &cluster.transport).await,
        Output::Json | Output::JsonFull => Columns::default(),
    };
    Ok(Target {
        transport: cluster.transport,
        resource,
        columns,
    })
}
