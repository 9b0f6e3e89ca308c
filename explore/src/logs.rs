//! The lines that the program under test logs with `tracing`, as entries of the trace.

use std::io;
use std::sync::OnceLock;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

use super::context;

/// Returns the subscriber of all runs. Each line goes to the run of the thread that logs it.
pub(super) fn subscriber() -> tracing::Dispatch {
    static SUBSCRIBER: OnceLock<tracing::Dispatch> = OnceLock::new();
    let create = || {
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .without_time()
            .with_writer(Lines);
        tracing::Dispatch::new(tracing_subscriber::registry().with(lines.with_filter(filter())))
    };
    SUBSCRIBER.get_or_init(create).clone()
}

/// Reads the variable `EXPLORE_LOG`, such as `debug` or `kube=debug,info`.
fn filter() -> Targets {
    let text = std::env::var("EXPLORE_LOG").unwrap_or_else(|_| "info".to_owned());
    match text.parse() {
        Ok(filter) => filter,
        Err(error) => panic!("EXPLORE_LOG={text:?} is no list of targets and levels: {error}"),
    }
}

struct Lines;

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

/// A line, which is recorded when it is complete.
struct Line(Vec<u8>);

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.0);
        let text = text.trim();
        if !text.is_empty() {
            context::log(text);
        }
    }
}
