//! The benchmarks. See `docs/PERFORMANCE.md`.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use informer_benches::clusters;
use informer_benches::compare::{self, Plan};
use informer_benches::data::DataSet;
use informer_benches::growth;
use informer_benches::http2;
use informer_benches::server::{self, Cut, Pace, Replay};

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the data set: pods.jsonl and events.jsonl
    Generate {
        #[command(flatten)]
        size: Size,
        /// The folder to write to
        folder: PathBuf,
    },
    /// Replays the data set over HTTP/1.1
    Serve {
        #[command(flatten)]
        size: Size,
        /// Reads the data set from this folder instead of making it
        #[arg(long)]
        data: Option<PathBuf>,
        /// Where to listen
        #[arg(long, default_value = "127.0.0.1:8001")]
        listen: SocketAddr,
        /// Milliseconds between the first state and the first event
        #[arg(long, default_value_t = 1000)]
        pause: u64,
        /// Events a second, each stamped with the time at which it is sent; left out, as fast as the client reads
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
        rate: Option<u32>,
        /// How often the events are sent at that rate, each time with higher versions; JSON only
        #[arg(
            long,
            default_value_t = 1,
            requires = "rate",
            conflicts_with = "protobuf"
        )]
        repeat: u32,
        /// How bodies are cut into chunks: by event, with several events in each, or anywhere in an event
        #[arg(long, value_enum, default_value_t)]
        chunks: Cut,
        /// Serves over TLS, by a certificate that nobody can verify
        #[arg(long)]
        tls: bool,
        /// Converts the data set to protobuf before the first request, which otherwise waits for it
        #[arg(long)]
        protobuf: bool,
        /// Sends metadata alone, as the API server does to clients that request it
        #[arg(long)]
        metadata: bool,
        /// The number of Nodes, which have no events
        #[arg(long, default_value_t = 0)]
        nodes: u64,
        /// Ends the first watch of each resource with 410, so that clients relist; JSON only
        #[arg(long)]
        expires: bool,
        /// Bookmarks after the last event, which follows them once more; JSON only
        #[arg(long, default_value_t = 0, conflicts_with = "protobuf")]
        bookmarks: u32,
    },
    /// Runs this project's client and kube-rs's in turn, and prints medians, and ratios to kube-rs
    Compare(Compare),
    /// Measures the example `large` with n, 10 n and 100 n Pods, and names what is not linear
    Growth {
        /// n
        #[arg(long, default_value_t = 2000)]
        pods: u64,
        /// The number of updates at each size
        #[arg(long, default_value_t = 60_000)]
        updates: u64,
        /// The number of bookmarks at each size
        #[arg(long, default_value_t = 100_000)]
        bookmarks: u32,
        /// How often each is measured
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// The forms in which objects are stored
        #[arg(long, value_delimiter = ',', default_values_t = ["packed", "meta", "raw"].map(String::from))]
        forms: Vec<String>,
    },
    /// Watches many clusters from one process, and prints its time to sync and its memory
    Clusters {
        /// How many clusters there are
        #[arg(long, default_value_t = 1000)]
        clusters: usize,
        /// How many Pods each of them has
        #[arg(long, default_value_t = 100)]
        pods: u64,
    },
    /// Measures many watches and a large list on one HTTP/2 connection over TLS
    Http2(http2::Plan),
    /// Serves the client of `http2`
    #[command(hide = true)]
    Http2Server,
}

#[derive(Args)]
struct Compare {
    #[command(flatten)]
    size: Size,
    /// Reads the data set from this folder instead of making it
    #[arg(long)]
    data: Option<PathBuf>,
    /// How often each client runs
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How the first state is fetched: `stream` or `list`
    #[arg(long, default_value = "stream")]
    initial: String,
    /// Events a second, to compare latencies; left out, as fast as the client reads
    #[arg(long)]
    rate: Option<u32>,
    /// How the server cuts bodies into chunks; several give a table each
    #[arg(long, value_delimiter = ',', value_parser = ["event", "many", "split"], default_value = "event")]
    chunks: Vec<String>,
    /// Whether the server uses TLS; both give a table each
    #[arg(long, value_delimiter = ',', value_parser = ["off", "on"], default_value = "off")]
    tls: Vec<String>,
    /// What this project keeps of each object, and after a colon which objects its handler reads if not `all`
    #[arg(long, value_delimiter = ',', default_values_t = ["typed", "typed-pruned", "raw", "meta", "packed", "packed-typed", "packed-typed:few"].map(String::from))]
    forms: Vec<String>,
    /// This project's client; left out, the example that was built beside this program
    #[arg(long)]
    ours: Option<PathBuf>,
    /// The client by kube-rs, built in benches/kube-rs
    #[arg(
        long,
        default_value = "benches/kube-rs/target/release/throughput-kube-rs"
    )]
    kube_rs: PathBuf,
    /// The client by client-go, built in benches/client-go; left out, it does not take part
    #[arg(long)]
    client_go: Option<PathBuf>,
}

#[derive(Args, Clone, Copy)]
struct Size {
    /// How many Pods there are
    #[arg(long, default_value_t = 20_000)]
    pods: u64,
    /// How many updates of them there are
    #[arg(long, default_value_t = 60_000)]
    updates: u64,
}

impl Size {
    fn load(self, data: Option<&Path>) -> io::Result<DataSet> {
        data.map_or_else(
            || Ok(DataSet::generate(self.pods, self.updates)),
            DataSet::read,
        )
    }
}

#[allow(clippy::print_stdout)] // That is what the program is for.
fn main() -> io::Result<()> {
    match Arguments::parse().command {
        Command::Generate { size, folder } => size.load(None)?.write(&folder),
        Command::Serve {
            size,
            data,
            listen,
            pause,
            rate,
            repeat,
            chunks,
            tls,
            protobuf,
            metadata,
            nodes,
            expires,
            bookmarks,
        } => {
            let mut set = size.load(data.as_deref())?;
            if metadata {
                set = set.metadata();
            }
            let replay = Arc::new(Replay::new(set));
            if protobuf {
                replay.encoded();
            }
            let listener = TcpListener::bind(listen)?;
            let tls = tls.then(server::self_signed).transpose()?;
            let scheme = if tls.is_some() { "https" } else { "http" };
            println!("{scheme}://{}", listener.local_addr()?);
            let pace = Pace {
                pause: Duration::from_millis(pause),
                rate,
                repeat,
                chunks,
                expires,
                bookmarks,
            };
            let nodes = Arc::new(Replay::new(DataSet::of_nodes(nodes)));
            server::serve(&listener, tls.as_ref(), &replay, &nodes, pace)
        }
        Command::Compare(options) => compare(options),
        Command::Growth {
            pods,
            updates,
            bookmarks,
            rounds,
            forms,
        } => {
            let plan = growth::Plan {
                pods,
                updates,
                bookmarks,
                rounds,
                forms,
            };
            println!("{}", growth::run(&plan)?);
            Ok(())
        }
        Command::Clusters { clusters, pods } => {
            println!("{}", clusters::run(clusters, pods)?);
            Ok(())
        }
        Command::Http2(plan) => {
            println!("{}", http2::run(plan)?);
            Ok(())
        }
        Command::Http2Server => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            println!("https://{}", listener.local_addr()?);
            http2::serve(&listener)
        }
    }
}

#[allow(clippy::print_stdout, clippy::print_stderr)] // Only the tables go to the output.
fn compare(options: Compare) -> io::Result<()> {
    let ours = match options.ours {
        Some(ours) => ours,
        None => std::env::current_exe()?
            .with_file_name("examples")
            .join("throughput_typed"),
    };
    let theirs = Some(options.kube_rs).filter(|path| path.exists());
    if theirs.is_none() {
        eprintln!("SKIPPED kube-rs: build it in benches/kube-rs, or name it by --kube-rs");
    }
    let mut server = vec![
        format!("--pods={}", options.size.pods),
        format!("--updates={}", options.size.updates),
    ];
    server.extend(
        options
            .data
            .map(|data| format!("--data={}", data.display())),
    );
    server.extend(options.rate.map(|rate| format!("--rate={rate}")));
    let mut plan = Plan {
        server: Vec::new(),
        initial: options.initial,
        rounds: options.rounds,
        forms: options.forms,
        ours,
        theirs,
        client_go: options.client_go,
    };
    for tls in &options.tls {
        for chunks in &options.chunks {
            plan.server = server.clone();
            plan.server.push(format!("--chunks={chunks}"));
            plan.server
                .extend((tls == "on").then(|| "--tls".to_owned()));
            let table = compare::run(&plan)?;
            let processor = compare::processor();
            println!("Processors: {processor}. Chunks: {chunks}. TLS: {tls}.\n\n{table}\n");
        }
    }
    Ok(())
}
