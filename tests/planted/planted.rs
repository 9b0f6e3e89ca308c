//! The run-time choice of a planted bug. It exists only in the copy of the workspace that has the bugs.

use core::cell::Cell;
use std::env;
use std::string::String;
use std::sync::OnceLock;

std::thread_local! {
    static CHOSEN: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Chooses the bug of this thread.
pub fn choose(bug: Option<&'static str>) {
    CHOSEN.set(bug);
}

/// Returns whether this is the bug of this thread, or that of the program, which `PLANTED` names.
#[must_use]
pub fn is(bug: &str) -> bool {
    static OF_ALL: OnceLock<Option<String>> = OnceLock::new();
    let of_all = || OF_ALL.get_or_init(|| env::var("PLANTED").ok()).as_deref();
    CHOSEN.get().or_else(of_all) == Some(bug)
}
