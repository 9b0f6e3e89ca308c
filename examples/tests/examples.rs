//! Runs the tests of the examples. As targets of their own with tests, Cargo would build no programs of
//! them for `cargo test`, which other tests run.

#![allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "nobody calls their `main` here, and each has the module that they share"
)]

#[path = "../examples/firewall/main.rs"]
mod firewall;
#[path = "../examples/load_balancer/main.rs"]
mod load_balancer;
#[path = "../examples/sample_controller/main.rs"]
mod sample_controller;
#[path = "../examples/watch/main.rs"]
mod watch;
