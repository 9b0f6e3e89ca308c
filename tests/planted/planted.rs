//! The run-time choice of a planted bug. It exists only in the copy of the workspace that has the bugs.

use core::cell::Cell;

std::thread_local! {
    static CHOSEN: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Chooses the bug of this thread.
pub fn choose(bug: Option<&'static str>) {
    CHOSEN.set(bug);
}

/// Returns whether this is the bug of this thread.
#[must_use]
pub fn is(bug: &str) -> bool {
    CHOSEN.get() == Some(bug)
}
