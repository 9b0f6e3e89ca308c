//! Helpers shared by the tests in `tests/`.

#[cfg(feature = "servers")]
pub mod conformance;
#[cfg(feature = "servers")]
pub mod demo;
#[cfg(feature = "servers")]
mod events;
#[cfg(feature = "servers")]
mod example;
pub mod fuzzing;
pub mod journal;
pub mod memory;
#[cfg(feature = "servers")]
pub mod proxy;
#[cfg(feature = "servers")]
pub mod real;
pub mod sim;

#[cfg(feature = "servers")]
pub use events::{PATIENCE, next, shown};
#[cfg(feature = "servers")]
pub use example::example;

/// Prints a line, even if the test passes.
pub fn say(line: &str) {
    use std::io::Write as _;
    // A closed stderr is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{line}");
}
