//! What the examples share to write to a terminal, a file or a pipe.

use std::io::{self, IsTerminal, Write as _};
use std::process;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// What one of the standard streams may be sent besides text.
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

    /// Paints a text with the parameters of an SGR sequence, where colours are shown.
    #[must_use]
    pub fn paint(self, parameters: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{parameters}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Logs to standard error, in colours only if that is a terminal. `RUST_LOG` replaces the targets and their levels.
///
/// # Panics
/// Panics if the program logs already.
pub fn log(targets: &str) {
    let from_environment = std::env::var("RUST_LOG").ok();
    let targets = from_environment
        .and_then(|targets| targets.parse().ok())
        .unwrap_or_else(|| targets.parse::<Targets>().unwrap_or_default());
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(Style::stderr().colours)
        .with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(targets))
        .init();
}

/// Writes a line to standard output. If that fails, the program ends: with 0 if the reader of a pipe is gone, with 1 and
/// the reason otherwise.
pub fn say(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        process::exit(match written(error) {
            Ok(()) => 0,
            Err(message) => {
                // Standard error may fail as well, and then the exit code is all there is.
                let _ = writeln!(io::stderr(), "error: {message}");
                1
            }
        });
    }
}

/// Judges a failed write to standard output: nothing is wrong if the reader of a pipe is gone.
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
