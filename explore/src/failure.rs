//! A failure, and its report as text.

use core::fmt;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

use super::environment::WITHOUT;
use super::interpose::IS_SUPPORTED;
use super::plan::Plan;
use super::trace::{Trace, seconds};

/// Why two runs of a seed differ, as far as it is not prevented, and what helps.
const REASONS: &str = "Usual reasons:
  - `tokio::select!` without `biased;`, and several receivers of one `tokio::sync::watch`: tokio's random numbers follow
    from the seed only with RUSTFLAGS=\"--cfg tokio_unstable\"
  - a static variable that is kept from run to run, such as a counter or a cache
  - threads of the program's own, `spawn_blocking`, sockets and files
  - `std::time::Instant`: use `tokio::time::Instant`";

/// The most lines of a trace in a report: more than a terminal holds help nobody.
const LINES: usize = 400;

/// A check that fails in the world of a seed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The point of [`Explore::each_write`](crate::Explore::each_write), if it is one.
    pub point: Option<u64>,
    /// The name of the check: what was expected.
    pub check: String,
    /// The result that was found instead.
    pub what: String,
    /// The shortest sequence of actions found that still fails.
    pub actions: Vec<Planned>,
    /// The events of the run of these actions, in order.
    pub trace: Trace,
    /// How many runs of the seed have failed, out of [`runs`](Self::runs).
    pub fails: usize,
    /// How often the seed was run before the failure was shrunk. A failure that real time decides is not repeated.
    pub runs: usize,
    /// The first request that differs between the run that failed and another run of the seed.
    pub difference: Option<Difference>,
    /// The line of the file of regressions, if it is from there.
    pub(super) line: Option<usize>,
    /// The plan that still fails.
    pub(super) plan: Option<Plan>,
    /// The number of actions in the run of the seed.
    pub(super) all_actions: usize,
    /// The unusual settings of the world.
    pub(super) settings: String,
}

/// An action of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Planned {
    /// The time since the start of the run.
    pub at: Duration,
    /// The description of the action.
    pub what: String,
}

/// The first request or response that differs between two runs of a seed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// Its index in [`Trace::requests`].
    pub index: usize,
    /// The line of the first run; `None` if it has ended before.
    pub first: Option<String>,
    /// The line of the second run.
    pub second: Option<String>,
}

impl Difference {
    /// Compares the requests of two runs.
    #[must_use]
    pub fn between(first: &Trace, second: &Trace) -> Option<Self> {
        let (mut first, mut second) = (first.requests(), second.requests());
        let mut index = 0;
        loop {
            let (one, other) = (first.next(), second.next());
            if one != other {
                return Some(Self {
                    index,
                    first: one,
                    second: other,
                });
            }
            one.as_ref()?;
            index += 1;
        }
    }
}

impl Failure {
    /// A failure of the exploration as a whole.
    pub(super) fn of_all(check: &str, what: &str, trace: Trace) -> Self {
        Self {
            seed: 0,
            point: None,
            check: check.to_owned(),
            what: what.to_owned(),
            actions: Vec::new(),
            trace,
            fails: 1,
            runs: 1,
            difference: None,
            line: None,
            plan: None,
            all_actions: 0,
            settings: String::new(),
        }
    }

    /// Returns a warning if two runs of the seed differ, as paragraphs.
    pub(super) fn warning(&self) -> Vec<String> {
        let mut text = Vec::new();
        if self.fails < self.runs {
            text.push(format!(
                "NOT DETERMINISTIC: it has failed in {} of {} runs. This report is of the first run that \
                 failed; its actions are not shrunk.",
                self.fails, self.runs
            ));
        } else if self.difference.is_some() {
            text.push(format!(
                "NOT DETERMINISTIC: {} runs have failed, and their requests differ.",
                self.runs
            ));
        } else {
            return text;
        }
        match &self.difference {
            Some(difference) => {
                let line = |line: &Option<String>| match line {
                    Some(line) => line.trim().to_string(),
                    None => "(there is none)".to_string(),
                };
                text.push(format!(
                    "The first difference is line {} of their requests:\n  {}\n  {}",
                    difference.index,
                    line(&difference.first),
                    line(&difference.second)
                ));
            }
            None => text.push("The requests of all runs are the same.".to_owned()),
        }
        text.push(REASONS.to_owned());
        if !IS_SUPPORTED {
            text.push(
                "On this platform random bytes and the time of day are the real ones. On Linux with glibc they follow \
                 from the seed."
                    .to_owned(),
            );
        }
        text
    }

    /// Returns the command that replays the seed. It is that of the test or program that runs.
    #[must_use]
    pub fn command(&self) -> String {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        let package = match package.as_str() {
            "" => String::new(),
            package => format!(" -p {package}"),
        };
        let thread = std::thread::current();
        let program = std::env::current_exe().unwrap_or_default();
        let name = program.file_stem().unwrap_or_default().to_string_lossy();
        let folder = program.parent().and_then(|folder| folder.file_name());
        let run = match thread.name().filter(|name| *name != "main") {
            Some(test) => format!("test{package} -- --exact {test} --nocapture --include-ignored"),
            None if folder.is_some_and(|folder| folder == "examples") => {
                format!("run{package} --example {name}{}", arguments())
            }
            None => format!("run{package}{}", arguments()),
        };
        let without = std::env::var(WITHOUT).map(|names| format!("{WITHOUT}={names} "));
        let run = format!("{}cargo {run}", without.unwrap_or_default());
        match self.point {
            _ if self.line.is_some() => run,
            Some(point) => format!("EXPLORE_POINT={point} {run}"),
            None => format!("EXPLORE_SEED={} {run}", self.seed),
        }
    }
}

impl Failure {
    /// Returns what has failed: a seed or a point.
    pub(super) fn name(&self) -> String {
        match self.point {
            _ if self.line.is_some() => {
                format!("line {} of the regressions", self.line.unwrap_or(0))
            }
            Some(point) => format!("point {point}"),
            None => format!("seed {}", self.seed),
        }
    }

    /// Returns what the actions are.
    pub(super) const fn title(&self) -> &'static str {
        if self.fails == self.runs && self.runs > 1 {
            "the shortest sequence found that still fails"
        } else {
            "the actions of the run"
        }
    }
}

/// Returns the arguments of this program as a shell reads them, after `--`.
fn arguments() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    let mut text = String::new();
    for argument in std::env::args_os().skip(1) {
        let argument = argument.to_string_lossy();
        text.push_str(if text.is_empty() { " -- " } else { " " });
        if !argument.is_empty() && argument.chars().all(is_plain) {
            text.push_str(&argument);
        } else {
            text.push_str(&format!("'{}'", argument.replace('\'', "'\\''")));
        }
    }
    text
}

impl Failure {
    /// Writes [`html`](Self::html) to a file, and returns its path. The folder is that of the variable `EXPLORE_PAGES`,
    /// or `explore` in the build folder of the running program.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn write_page(&self) -> io::Result<PathBuf> {
        let program = std::env::current_exe().unwrap_or_default();
        let folder = match std::env::var_os("EXPLORE_PAGES") {
            Some(folder) => PathBuf::from(folder),
            // Programs are in `target/debug/deps` or `target/debug/examples`.
            None => program
                .ancestors()
                .nth(2)
                .unwrap_or(&program)
                .join("explore"),
        };
        std::fs::create_dir_all(&folder)?;
        let thread = std::thread::current();
        let test = thread.name().filter(|name| *name != "main");
        let stem = program.file_stem().unwrap_or_default().to_string_lossy();
        let name: Vec<&str> = test
            .unwrap_or(&stem)
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .filter(|part| !part.is_empty())
            .collect();
        let path = folder.join(format!(
            "{}-{}.html",
            name.join("-"),
            self.name().replace("seed ", "").replace(' ', "-")
        ));
        std::fs::write(&path, self.html())?;
        Ok(path)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} fails", self.name())?;
        writeln!(f, "  expected: {}", self.check)?;
        writeln!(f, "  found:    {}", self.what)?;
        writeln!(f, "\nto replay it:\n  {}", self.command())?;
        for paragraph in self.warning() {
            writeln!(f, "\n{paragraph}")?;
        }
        if !self.actions.is_empty() {
            writeln!(
                f,
                "\n{} ({} of {} actions; {}):",
                self.title(),
                self.actions.len(),
                self.all_actions,
                self.settings
            )?;
            for action in &self.actions {
                writeln!(f, "{:>11}  {}", seconds(action.at), action.what)?;
            }
        }
        writeln!(f, "\nwhat happened, in order:\n{}", self.trace.part(LINES))
    }
}
