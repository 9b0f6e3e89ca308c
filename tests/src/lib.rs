//! What the tests in `tests/` share.

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

/// Shows a line, also where the test passes.
pub fn say(line: &str) {
    use std::io::Write as _;
    // Where nobody reads there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
