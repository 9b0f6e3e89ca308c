//! Runs the clients in turn against one server, and prints medians and ratios.
//!
//! The clients are interleaved, so that other load on the machine affects all of them alike.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The arguments of the server, except its address.
    pub server: Vec<String>,
    /// How the initial state is fetched: `list` or `stream`.
    pub initial: String,
    /// The number of runs of each client.
    pub rounds: usize,
    /// The forms of this project's client, each with the objects that its handler reads if not all: `packed-typed:few`.
    pub forms: Vec<String>,
    /// This project's client.
    pub ours: PathBuf,
    /// The client that uses kube-rs; without it there are no ratios.
    pub theirs: Option<PathBuf>,
    /// The client that uses client-go.
    pub client_go: Option<PathBuf>,
}

/// The figures of one run, by name.
pub(crate) type Figures = BTreeMap<String, f64>;

/// The figures shown, and the figure of kube-rs that each is compared with.
const COLUMNS: [&str; 7] = [
    "sync_s",
    "sync_cpu_s",
    "sync_rss_kb",
    "sync_hwm_kb",
    "events_s",
    "events_cpu_s",
    "end_rss_kb",
];
const LATENCIES: [&str; 4] = ["p50", "p99", "max", "caught_up_ms"];

/// Runs the plan; returns the table.
///
/// # Errors
/// Fails if a program cannot be run or does not succeed.
pub fn run(plan: &Plan) -> io::Result<String> {
    let server = Server::start(&plan.server)?;
    let mut runs: BTreeMap<(usize, String), Vec<Figures>> = BTreeMap::new();
    let mut clients: Vec<(&Path, &str, String)> = Vec::new();
    let others = [
        (&plan.theirs, "kube-rs", &["typed", "typed-pruned"][..]),
        (
            &plan.client_go,
            "client-go",
            &["typed", "typed-pruned", "typed-protobuf"],
        ),
    ];
    for (program, name, forms) in others {
        let forms = program.iter().flat_map(|program| {
            let named = |form| (program.as_path(), form, format!("{name} {form}"));
            forms.iter().copied().map(named)
        });
        clients.extend(forms);
    }
    for form in &plan.forms {
        clients.push((&plan.ours, form, format!("informer {form}")));
    }
    // The first round is not counted: a virtual machine may have to obtain its memory, for which only the first
    // client would pay.
    for round in 0..=plan.rounds.max(1) {
        for (number, (program, form, name)) in clients.iter().enumerate() {
            let (form, reads) = form.split_once(':').unwrap_or((form, ""));
            let reads = ["--reads", reads];
            let output = Command::new(program)
                .args(["--server", &server.url, "--form", form])
                .args(["--initial", &plan.initial])
                .args(if reads[1].is_empty() { &[] } else { &reads[..] })
                .stderr(Stdio::inherit())
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() {
                return Err(io::Error::other(format!("{name} failed: {text}")));
            }
            if round > 0 {
                runs.entry((number, name.clone()))
                    .or_default()
                    .push(figures(&text));
            }
        }
    }
    Ok(table(&runs))
}

/// Returns the model of the processor and how many of them this process can use.
#[must_use]
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, model)| model.trim());
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{count} x {model}")
}

/// Parses `name=value` pairs; values that are not numbers are skipped.
pub(crate) fn figures(text: &str) -> Figures {
    text.split_whitespace()
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

pub(crate) fn median(runs: &[Figures], name: &str) -> Option<f64> {
    let mut values: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.get(name).copied())
        .collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn table(runs: &BTreeMap<(usize, String), Vec<Figures>>) -> String {
    let has_latency = runs
        .values()
        .any(|runs| runs.iter().any(|run| run.contains_key("p50")));
    let columns: Vec<&str> = if has_latency {
        LATENCIES.to_vec()
    } else {
        COLUMNS.to_vec()
    };
    let reference = |client: &str| {
        runs.iter()
            .find(|((_, name), _)| name == client)
            .map(|(_, runs)| runs)
    };
    let mut out = format!("| client | {} |\n|---|", columns.join(" | "));
    out.push_str(&"---|".repeat(columns.len()));
    for ((_, name), figures) in runs {
        // A form that prunes is compared with one that prunes.
        let other = if name.ends_with(" typed-pruned") {
            "kube-rs typed-pruned"
        } else {
            "kube-rs typed"
        };
        out.push_str(&format!("\n| {name} |"));
        for column in &columns {
            let Some(value) = median(figures, column) else {
                out.push_str(" |");
                continue;
            };
            let shown = if column.ends_with("_kb") {
                format!("{:.0} MB", value / 1000.0)
            } else if column.ends_with("_s") {
                format!("{value:.2}")
            } else {
                format!("{value:.0}")
            };
            let ratio = reference(other)
                .filter(|_| !name.starts_with("kube-rs"))
                .and_then(|runs| median(runs, column))
                .filter(|theirs| *theirs > 0.0)
                .map(|theirs| format!(" ({:.2})", value / theirs))
                .unwrap_or_default();
            out.push_str(&format!(" {shown}{ratio} |"));
        }
    }
    out
}

/// A server in a separate process, which ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Starts a replay server.
    pub(crate) fn start(arguments: &[String]) -> io::Result<Self> {
        let serve = ["serve", "--listen", "127.0.0.1:0"].map(String::from);
        Self::run(&[&serve, arguments].concat())
    }

    /// Starts this program as a server that prints its URL.
    pub(crate) fn run(arguments: &[String]) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut url = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut url)?;
        }
        Ok(Self {
            child,
            url: url.trim().to_owned(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_medians_and_ratios() {
        let run = |sync| {
            figures(&format!(
                "kube-rs typed sync_s={sync} sync_rss_kb=1000000 checksum=ff"
            ))
        };
        let mut runs = BTreeMap::new();
        runs.insert(
            (0, "kube-rs typed".to_owned()),
            vec![run(3.0), run(1.0), run(2.0)],
        );
        runs.insert((1, "informer raw".to_owned()), vec![run(0.5)]);
        let table = table(&runs);
        assert!(table.contains("| kube-rs typed | 2.00 |"), "{table}");
        assert!(table.contains("| informer raw | 0.50 (0.25) |"), "{table}");
        assert!(table.contains("1000 MB (1.00)"), "{table}");
    }
}
