//! Helpers shared by the tests in `tests/`.
#![expect(missing_debug_implementations, reason = "nothing shows them")]

pub mod conformance;
pub mod demo;
mod example;
pub mod memory;
pub mod proxy;
pub mod real;
pub mod support;

pub use example::example;

/// Prints a line, even if the test passes.
pub fn say(line: &str) {
    use std::io::Write as _;
    // A closed stderr is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{line}");
}
