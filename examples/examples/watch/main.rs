//! Watches a resource and shows what happens: `cargo run --release --example watch`.
//!
//! Where no server is named it takes the one that `kubectl` would, and where there is none it starts one of its own,
//! whose Pods change all the time.

mod cluster;
mod discovery;

use core::time::Duration;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use cluster::{Choice, Cluster};
use informer_core::wire::ErrorClass;
use informer_core::{Decode, FailureKind, OwnedResource, ResourceError, View};
use informer_tokio::{Entry, Event, Informer, Initial, Level, Packed, Problem, Raw, Report};
use serde_json::json;
use tokio::sync::mpsc;

/// Lists and watches a resource of a Kubernetes API server, and shows what changes.
#[derive(Parser)]
#[command(name = "watch")]
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

    /// Ends after so many seconds; left out, at Ctrl-C
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
    informer_core::Selector::parse(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| "off,informer_hyper=warn".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Standard error may be gone as well; there is nobody left to tell then.
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), String> {
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
    match options.keep {
        Keep::Whole => watch(options, resource, cluster, Raw).await,
        Keep::Packed => watch(options, resource, cluster, Packed::new()).await,
    }
}

async fn watch<D>(
    options: Options,
    resource: OwnedResource,
    cluster: Cluster,
    decode: D,
) -> Result<(), String>
where
    D: Decode<Value: View + Send + Sync + 'static> + Send + Sync + 'static,
{
    let server = cluster.transport.url();
    let resource = resource.as_ref();
    let screen = Arc::new(Mutex::new(Screen::new(
        options.output,
        resource.plural == "pods",
    )));
    let (fatal, mut failures) = mpsc::unbounded_channel();
    let mut builder = Informer::builder(cluster.transport, resource, decode)
        .resync(Duration::from_secs(options.resync))
        .initial(match options.initial {
            First::List => Initial::List,
            First::Stream => Initial::Stream,
        })
        .on_report({
            let (screen, client_go) = (Arc::clone(&screen), options.client_go);
            move |report| {
                if let Some(advice) = cannot_work(report, client_go, &server)
                    && lock(&screen).is_new()
                {
                    // The receiver lives until the end of `watch`.
                    let _ = fatal.send(format!("{report}{advice}"));
                } else if !client_go || report.level > Level::Debug {
                    lock(&screen).report(report);
                }
            }
        });
    if let Some(namespace) = &options.namespace {
        builder = builder.namespace(namespace);
    }
    if let Some(selector) = &options.selector {
        builder = builder.labels(selector);
    }
    if let Some(selector) = &options.field_selector {
        builder = builder.fields(selector);
    }
    if let Some(size) = options.page_size {
        builder = builder.page_size(size);
    }
    if options.client_go {
        builder = builder.client_go();
    }
    let (informer, driver) = builder.build();
    let mut events = informer.subscribe();
    let driver = tokio::spawn(driver.run());

    let end = async {
        match options.seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => core::future::pending().await,
        }
    };
    tokio::pin!(end);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = tokio::signal::ctrl_c() => break,
            Some(message) = failures.recv() => {
                return Err(message);
            }
            event = events.recv() => {
                let Some(event) = event else { break };
                if lock(&screen).event(&event, &informer).is_err() {
                    return Ok(()); // Nobody reads any more.
                }
            }
            _ = ticks.tick() => lock(&screen).status(&informer),
        }
    }
    informer.stop();
    let _ = driver.await;
    lock(&screen).summary(&informer);
    Ok(())
}

/// Says what to do about a failure of a kind that does not mend itself when it is the first thing that happens.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what mends itself is the rest"
)]
fn cannot_work(report: &Report<'_>, client_go: bool, server: &str) -> Option<String> {
    match report.problem {
        Problem::Transport(FailureKind::Refused | FailureKind::Dns) => Some(format!(
            ". Is {server} the right address, and does the server run?"
        )),
        // These say by themselves what is wrong.
        Problem::Transport(FailureKind::Tls | FailureKind::Other) => Some(String::new()),
        // client-go goes on here, for somebody may give access, and so does a controller.
        Problem::Answer { class, .. } if !client_go => match class {
            ErrorClass::Unauthorized => Some(format!(
                ". {server} does not take the credentials: is the token or the certificate of this cluster, and \
                 still good?"
            )),
            ErrorClass::Forbidden => Some(". Who may list and watch may see it.".to_owned()),
            ErrorClass::NotFound => Some(format!(". {server} has no such resource.")),
            _ => None,
        },
        _ => None,
    }
}

fn lock(screen: &Mutex<Screen>) -> std::sync::MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn figures<V>(informer: &Informer<V>) -> String {
    let health = informer.health();
    format!(
        "{} objects, resourceVersion {}, {} relists",
        health.objects,
        health.resource_version,
        health.lists.saturating_sub(1)
    )
}

/// Shows what happens, to a person or to a program.
struct Screen {
    output: Output,
    /// Whether there is a terminal, with colours and a line that is written again and again.
    terminal: bool,
    pods: bool,
    began: Instant,
    synced: Option<Duration>,
    counts: [u64; 4],
    reports: u64,
}

/// The places in `Screen::counts`.
const ADDED: usize = 0;
const UPDATED: usize = 1;
const DELETED: usize = 2;
const REPLAYED: usize = 3;

impl Screen {
    fn new(output: Output, pods: bool) -> Self {
        let terminal = output == Output::Table && io::stdout().is_terminal();
        Self {
            output,
            terminal,
            pods,
            began: Instant::now(),
            synced: None,
            counts: [0; 4],
            reports: 0,
        }
    }

    /// Tells whether nothing was shown yet.
    fn is_new(&self) -> bool {
        self.synced.is_none() && self.counts == [0; 4]
    }

    fn event<V: View>(&mut self, event: &Event<V>, informer: &Informer<V>) -> io::Result<()> {
        match event {
            Event::Added { .. } => self.counts[ADDED] += 1,
            Event::Updated { .. } => self.counts[UPDATED] += 1,
            Event::Deleted { .. } => self.counts[DELETED] += 1,
            Event::Replayed { .. } => self.counts[REPLAYED] += 1,
            Event::Synced => self.synced = Some(self.began.elapsed()),
            _ => {}
        }
        match self.output {
            Output::Json => match as_json(event) {
                Some(line) => writeln!(io::stdout(), "{line}"),
                None => Ok(()),
            },
            Output::Table => {
                if matches!(event, Event::Synced) {
                    let line = self.status_line(informer);
                    return self.line(&self.paint("1", &line));
                }
                match self.row(event) {
                    Some(row) => self.line(&row),
                    None => Ok(()),
                }
            }
        }
    }

    fn report(&mut self, report: &Report<'_>) {
        self.reports += 1;
        // Where nobody reads, there is nobody to tell.
        let _ = match self.output {
            Output::Json => {
                let line = json!({"event": "report", "class": report.class(), "message": report.to_string()});
                writeln!(io::stdout(), "{line}")
            }
            Output::Table => {
                let colour = if report.level >= Level::Warn {
                    "33"
                } else {
                    "2"
                };
                let line = self.paint(colour, &format!("! {report}"));
                writeln!(io::stderr(), "{}{line}", self.clear())
            }
        };
    }

    /// Writes the status line again, where there is a terminal.
    fn status<V>(&self, informer: &Informer<V>) {
        if self.terminal {
            let _ = write!(
                io::stdout(),
                "{}{}",
                self.clear(),
                self.paint("7", &self.status_line(informer))
            );
            let _ = io::stdout().flush();
        }
    }

    fn summary<V>(&self, informer: &Informer<V>) {
        if self.output == Output::Json {
            return;
        }
        let [added, updated, deleted, replayed] = self.counts;
        // The event has its own line already, so the summary has only the final figures.
        let line = match self.synced {
            Some(_) => figures(informer),
            None => self.status_line(informer),
        };
        let _ = self.line(&self.paint("1", &line));
        let _ = self.line(&format!(
            "{added} added, {updated} updated, {deleted} deleted, {replayed} replayed, {} reports in {:.1} s",
            self.reports,
            self.began.elapsed().as_secs_f32()
        ));
    }

    fn status_line<V>(&self, informer: &Informer<V>) -> String {
        let synced = match self.synced {
            Some(after) => format!("synced after {:.2} s", after.as_secs_f32()),
            None => "not synced yet".to_owned(),
        };
        format!("{synced}, {}", figures(informer))
    }

    fn row<V: View>(&self, event: &Event<V>) -> Option<String> {
        Some(match event {
            Event::Added { entry, .. } => self.paint("32", &format!("+ {}", self.columns(entry))),
            Event::Updated { old, new } => {
                let change = self.paint("2", &format!("was {}", old.resource_version()));
                format!(
                    "{} {change}",
                    self.paint("34", &format!("~ {}", self.columns(new)))
                )
            }
            Event::Replayed { entry } => self.paint("2", &format!("= {}", self.columns(entry))),
            Event::Deleted {
                entry,
                final_state_unknown,
            } => {
                let unknown = if *final_state_unknown {
                    " (nobody saw it go)"
                } else {
                    ""
                };
                self.paint("31", &format!("- {}{unknown}", self.columns(entry)))
            }
            Event::Synced | _ => return None,
        })
    }

    fn columns<V: View>(&self, entry: &Entry<V>) -> String {
        let key = entry.key().as_str();
        let version = entry.resource_version();
        if !self.pods {
            return format!("{key:<56} {version:>10}");
        }
        let text = |path: [&str; 2]| entry.string_at(&path).unwrap_or_default();
        let (phase, node) = (text(["status", "phase"]), text(["spec", "nodeName"]));
        format!("{key:<56} {version:>10}  {phase:<10} {node}")
    }

    /// Writes a line above the status line.
    fn line(&self, line: &str) -> io::Result<()> {
        writeln!(io::stdout(), "{}{line}", self.clear())
    }

    fn clear(&self) -> &'static str {
        if self.terminal { "\r\x1b[K" } else { "" }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.terminal {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// The stable form for programs, one object a line.
fn as_json<V>(event: &Event<V>) -> Option<serde_json::Value> {
    let rv = |entry: &Entry<V>| entry.resource_version().to_string();
    let update = |old: &Entry<V>, new: &Entry<V>| json!({"event": "update", "key": new.key().as_str(), "rv": rv(new), "old_rv": rv(old)});
    Some(match event {
        Event::Added {
            entry,
            is_in_initial_list,
        } => {
            json!({"event": "add", "key": entry.key().as_str(), "rv": rv(entry), "initial": is_in_initial_list})
        }
        Event::Updated { old, new } => update(old, new),
        Event::Replayed { entry } => update(entry, entry),
        Event::Deleted {
            entry,
            final_state_unknown,
        } => json!({
            "event": "delete", "key": entry.key().as_str(), "rv": rv(entry), "final_state_unknown": final_state_unknown,
        }),
        Event::Synced => json!({"event": "synced"}),
        _ => return None,
    })
}
