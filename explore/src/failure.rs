//! A failure, and its report as text.

use core::fmt;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

use super::trace::{Trace, seconds};

/// A check that fails in the world of a seed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The name of the check: what was expected.
    pub check: String,
    /// The result that was found instead.
    pub what: String,
    /// The shortest sequence of actions found that still fails.
    pub actions: Vec<Planned>,
    /// The events of the run of these actions, in order.
    pub trace: Trace,
    /// The first request that differs between two runs of the seed.
    pub difference: Option<Difference>,
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
    /// A seed that failed once, and then did not.
    pub(super) fn vanished(seed: u64, trace: Trace) -> Self {
        Self {
            seed,
            check: "the same seed gives the same run".to_owned(),
            what: "a check failed in the first run, and none in the second: the program is not deterministic"
                .to_owned(),
            actions: Vec::new(),
            trace,
            difference: None,
            all_actions: 0,
            settings: String::new(),
        }
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
        format!("EXPLORE_SEED={} cargo {run}", self.seed)
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
        let path = folder.join(format!("{}-{}.html", name.join("-"), self.seed));
        std::fs::write(&path, self.html())?;
        Ok(path)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} fails", self.seed)?;
        writeln!(f, "  expected: {}", self.check)?;
        writeln!(f, "  found:    {}", self.what)?;
        writeln!(f, "\nto replay it:\n  {}", self.command())?;
        if let Some(difference) = &self.difference {
            let line = |line: &Option<String>| match line {
                Some(line) => line.trim().to_string(),
                None => "(there is none)".to_string(),
            };
            writeln!(
                f,
                "\nNOT DETERMINISTIC: two runs of this seed differ, first in line {} of their requests:\n  {}\n  {}",
                difference.index,
                line(&difference.first),
                line(&difference.second)
            )?;
        }
        if !self.actions.is_empty() {
            writeln!(
                f,
                "\nthe shortest sequence found that still fails ({} of {} actions; {}):",
                self.actions.len(),
                self.all_actions,
                self.settings
            )?;
            for action in &self.actions {
                writeln!(f, "{:>11}  {}", seconds(action.at), action.what)?;
            }
        }
        writeln!(f, "\nwhat happened, in order:\n{}", self.trace)
    }
}
