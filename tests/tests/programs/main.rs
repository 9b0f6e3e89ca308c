//! Tests that run programs: examples, and the runner of tests. They compile in a fraction of the time of `all`.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod examples;
mod limit;
mod watch_cli;
mod watch_ends;
mod watch_tls;
