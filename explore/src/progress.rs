//! Tells the user on stderr how a long exploration goes, whatever the test runner does with the output of tests.

use core::time::Duration;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::world::Violation;

/// The time between two lines.
const EVERY: Duration = Duration::from_secs(10);

pub(super) struct Progress {
    says: bool,
    name: String,
    began: Instant,
    last: Mutex<Instant>,
}

impl Progress {
    pub(super) fn new(says: bool) -> Self {
        let thread = std::thread::current();
        let began = Instant::now();
        Self {
            says,
            name: thread.name().unwrap_or("main").to_owned(),
            began,
            last: Mutex::new(began),
        }
    }

    /// So many seeds hold.
    pub(super) fn holds(&self, seeds: u64) {
        {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() < EVERY {
                return;
            }
            *last = Instant::now();
        }
        let seconds = self.began.elapsed().as_secs();
        self.say(&format!("{seeds} seeds in {seconds} s"));
    }

    /// A seed or point fails. Its report takes some time.
    pub(super) fn fails(&self, what: &str, number: u64, violation: &Violation) {
        let Violation {
            check, what: found, ..
        } = violation;
        let found: String = found.chars().take(300).collect();
        self.say(&format!(
            "{what} {number} fails, expected: {check}, found: {found}. It is run again and shrunk, for a minute at most"
        ));
    }

    fn say(&self, text: &str) {
        if self.says {
            let line = format!("explore {}: {text}\n", self.name);
            // If nobody reads it, there is nothing to do.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
}
