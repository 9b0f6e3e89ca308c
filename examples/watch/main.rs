//! Watches a resource and shows what happens: `cargo run --release --example watch`.
//!
//! Where no server is named it takes the one that `kubectl` would, and where there is none it starts one of its own,
//! whose Pods change all the time.

mod cluster;
mod discovery;
mod follow;
mod heard;
mod screen;
#[path = "../shared/terminal.rs"]
#[allow(dead_code, unreachable_pub, reason = "the examples share it")]
mod terminal;
#[cfg(test)]
mod tests;
mod writer;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use cluster::{Choice, Cluster};
use informer::Raw;
use informer::controller::StopSignal;
use informer::informer::{OwnedResource, ResourceError};
use informer_tokio::Packed;

const EXIT: &str = "\
Exit status:
  0  it was ended by --seconds, SIGINT (Ctrl-C) or SIGTERM, or the reader of its output is gone
  1  an error, among them: the resource cannot be listed; --seconds are over and nothing is synced; the output cannot be \
     written
  2  wrong arguments";

/// Lists and watches a resource of a Kubernetes API server, and shows what changes.
#[derive(Parser)]
#[command(name = "watch", after_help = EXIT)]
struct Options {
    /// A built-in resource such as `pods` or `deployments`, or `plural.version.group`; other names, short ones and kinds
    /// are looked up at the server
    #[arg(default_value = "pods")]
    resource: String,

    /// The API server's URL; left out, what `kubectl` would take, and a demo server where there is nothing
    #[arg(long, value_name = "URL", conflicts_with = "demo")]
    server: Option<String>,

    /// The kubeconfig file; left out, those that KUBECONFIG names, or ~/.kube/config
    #[arg(long, value_name = "FILE", conflicts_with_all = ["demo", "server"])]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig file; left out, the current one
    #[arg(long, value_name = "NAME", conflicts_with_all = ["demo", "server"])]
    context: Option<String>,

    /// Starts a demo server on this machine, whose objects change all the time
    #[arg(long)]
    demo: bool,

    /// Only this namespace; left out, all of them
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// All namespaces, whatever --namespace says
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Accepted as `kubectl get` does; this program always watches
    #[arg(short = 'w', long = "watch")]
    _watch: bool,

    /// Only objects with these labels, such as `app=web,tier in (front,back)`
    #[arg(short = 'l', long, value_name = "LABELS", value_parser = parse_selector)]
    selector: Option<String>,

    /// Only objects with these fields, such as `spec.nodeName=n1`
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,

    /// How the first state is fetched: by a streaming list where the server has it, or by LIST
    #[arg(long, value_enum, default_value_t = First::Stream)]
    initial: First,

    /// Replays all objects this often, without asking the server; 0 is never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    resync: u64,

    /// How many objects a page of a list has; left out, as client-go chooses
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    page_size: Option<u32>,

    /// What is kept of each object
    #[arg(long, value_enum, default_value_t = Keep::Whole)]
    keep: Keep,

    /// Behaves as client-go does, wherever a difference can be seen
    #[arg(long)]
    client_go: bool,

    /// Ends after so many seconds; left out, at SIGINT (Ctrl-C) or SIGTERM
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,

    /// A table for a person, or one JSON object a line
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
    /// Its bytes as they came
    Whole,
    /// Its bytes, compressed: much less memory, for more work
    Packed,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

fn parse_selector(text: &str) -> Result<String, String> {
    informer_core::selector::Selector::parse(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let options = Options::parse();
    terminal::log("off,informer_hyper=warn");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let result = runtime
        .map_err(|error| format!("no threads can be started: {error}"))
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
    let mut signal = StopSignal::new().map_err(|error| format!("no signal handler: {error}"))?;
    let (resource, cluster) = tokio::select! {
        found = find(&options) => found?,
        () = signal.recv() => return Ok(()),
    };
    match options.keep {
        Keep::Whole => follow::watch(options, resource, cluster, Raw, &mut signal).await,
        Keep::Packed => follow::watch(options, resource, cluster, Packed::new(), &mut signal).await,
    }
}

/// Finds the server, and the resource there.
async fn find(options: &Options) -> Result<(OwnedResource, Cluster), String> {
    // What no server knows either is said before one is asked.
    let known = options.resource.parse::<OwnedResource>();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    match &known {
        Ok(_) | Err(ResourceError::Unknown { .. } | ResourceError::NoVersion) => {}
        Err(ResourceError::InvalidName) if options.resource.chars().all(is_name) => {}
        Err(error) => return Err(format!("'{}': {error}", options.resource)),
    }
    let mut cluster = Cluster::choose(Choice {
        demo: options.demo,
        server: options.server.as_deref(),
        kubeconfig: options.kubeconfig.as_deref(),
        context: options.context.as_deref(),
    })
    .await?;
    let resource = match known {
        Ok(resource) if resource.as_ref().kind.is_some() || cluster.is_demo => resource,
        // It may still be a short name or a kind that stands before a version and a group.
        Ok(resource) => discovery::find(&mut cluster.transport, &options.resource)
            .await
            .unwrap_or(resource),
        Err(error) if cluster.is_demo => return Err(format!("'{}': {error}", options.resource)),
        Err(_) => discovery::find(&mut cluster.transport, &options.resource).await?,
    };
    Ok((resource, cluster))
}
