//! `poll_output` waits after a few outputs, and for a time in the future: there is no busy loop.
//!
//! Source: `docs/RUN-LOOP.md`; smoltcp and str0m both have had this fault.

use super::super::client::Seen;
use super::{Context, Invariant, Verdict};

/// A request, a cancellation and four reports are the most that can occur.
const OUTPUTS: usize = 8;

pub(super) struct Busy;

impl Invariant for Busy {
    fn seen(&mut self, seen: &Seen, _context: &Context<'_>) -> Verdict {
        match seen {
            Seen::Drained(_, outputs, _) if *outputs > OUTPUTS => {
                Err(format!("{outputs} outputs before it waits"))
            }
            Seen::Drained(_, _, Some(wait)) if wait.is_zero() => {
                Err("it waits for a time that has come".to_owned())
            }
            _ => Ok(()),
        }
    }
}
