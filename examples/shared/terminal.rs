//! Output to a terminal, a file or a pipe, shared by the examples.

use core::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write as _};
use std::process;
use std::time::Instant;

use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};

/// The capabilities of one of the standard streams besides text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// Whether it shows colours: a terminal, unless [`NO_COLOR`](https://no-color.org) is set or TERM is `dumb`.
    pub colours: bool,
    /// Whether a line can be erased and written again: a terminal, unless TERM is `dumb`.
    pub redraws: bool,
}

impl Style {
    /// Returns the style of standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// Returns the style of standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    fn of(is_terminal: bool) -> Self {
        let redraws = is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colours: redraws && !no_color,
            redraws,
        }
    }

    /// Formats a text with the parameters of an SGR sequence, if colours are supported.
    #[must_use]
    pub fn paint(self, parameters: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{parameters}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Logs to standard error. `RUST_LOG` replaces the targets and their levels: `warn`, or `off,informer_hyper=debug`.
///
/// # Panics
/// Panics if the program already has a logger.
pub fn log(targets: &str) {
    let from_environment = std::env::var("RUST_LOG").ok();
    let targets = from_environment.as_deref().unwrap_or(targets);
    let levels = targets.split(',').filter_map(|part| {
        let (target, level) = part.split_once('=').unwrap_or(("", part));
        Some((target.trim().to_owned(), level.trim().parse().ok()?))
    });
    let log = Log {
        levels: levels.collect(),
        began: Instant::now(),
    };
    tracing::subscriber::set_global_default(log).expect("the program does not log yet");
}

/// A subscriber without spans, which is enough for these programs.
struct Log {
    levels: Vec<(String, LevelFilter)>,
    began: Instant,
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        let matching = self.levels.iter();
        matching
            .filter(|(target, _)| metadata.target().starts_with(target))
            .max_by_key(|(target, _)| target.len())
            .is_some_and(|(_, level)| metadata.level() <= level)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.levels.iter().map(|(_, level)| *level).max()
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let metadata = event.metadata();
        let after = self.began.elapsed().as_secs_f32();
        let (level, target) = (metadata.level(), metadata.target());
        let mut line = format!("{after:.3} {level} {target}:");
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| {
            // Writing to a String does not fail.
            let _ = match field.name() {
                "message" => write!(line, " {value:?}"),
                name => write!(line, " {name}={value:?}"),
            };
        });
        // There is no other place to report a failure.
        let _ = writeln!(io::stderr(), "{line}");
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Writes a line to standard output. If that fails, the program ends: with 0 if the reader of a pipe has gone away, and
/// otherwise with 1 and the reason.
pub fn say(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        process::exit(match written(error) {
            Ok(()) => 0,
            Err(message) => {
                // Standard error may fail as well. Then only the exit code remains.
                let _ = writeln!(io::stderr(), "error: {message}");
                1
            }
        });
    }
}

/// Evaluates a failed write to standard output. It is not an error if the reader of a pipe has gone away.
///
/// # Errors
/// Returns the message for any other failure, such as a full disk.
pub fn written(error: io::Error) -> Result<(), String> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Ok(())
    } else {
        Err(format!("cannot write to standard output: {error}"))
    }
}
