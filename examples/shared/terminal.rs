//! Output to a terminal, a file or a pipe, shared by the examples.

use std::io::{self, IsTerminal, Write as _};
use std::process;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

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
/// Panics if the program already has a logger, or if `targets` is invalid.
pub fn log(targets: &str) {
    let default = || -> Targets { targets.parse().expect("the targets are valid") };
    let targets = match std::env::var("RUST_LOG") {
        Ok(targets) => targets.parse().unwrap_or_else(|error| {
            // There is no other place to report a failure.
            let _ = writeln!(io::stderr(), "RUST_LOG is ignored: {error}");
            default()
        }),
        Err(_) => default(),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_timer(tracing_subscriber::fmt::time::uptime());
    tracing_subscriber::registry()
        .with(lines)
        .with(targets)
        .init();
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
