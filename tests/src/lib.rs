//! What the tests in `tests/` share.

#[cfg(feature = "runtime")]
pub mod conformance;
#[cfg(feature = "runtime")]
pub mod demo;
#[cfg(feature = "runtime")]
mod events;
#[cfg(feature = "runtime")]
mod example;
pub mod fuzzing;
pub mod journal;
pub mod memory;
#[cfg(feature = "runtime")]
pub mod proxy;
#[cfg(feature = "runtime")]
pub mod real;
pub mod sim;

#[cfg(feature = "runtime")]
pub use events::{PATIENCE, next, shown};
#[cfg(feature = "runtime")]
pub use example::example;

/// Shows a line, also where the test passes.
pub fn say(line: &str) {
    use std::io::Write as _;
    // Where nobody reads there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
