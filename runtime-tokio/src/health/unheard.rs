//! Problems that nobody hears of otherwise: lines on stderr.

use core::fmt;
use core::time::Duration;
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use informer_core::report::OneLine;

/// The shortest time between two lines of a program.
const PAUSE: Duration = Duration::from_secs(1);

/// Writes a line, unless there was one less than a second ago or `tracing` has a subscriber. Returns whether it was written.
pub(crate) fn say(line: &dyn fmt::Display) -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    if tracing::dispatcher::has_been_set() {
        return false;
    }
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if last.is_some_and(|last| now - last < PAUSE) {
        return false;
    }
    *last = Some(now);
    // Without stderr, nobody can be told.
    writeln!(io::stderr(), "{}", OneLine(line)).is_ok()
}
