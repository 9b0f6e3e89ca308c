//! The fuzz targets: functions of bytes that panic if something is wrong.
//!
//! `fuzz/` calls them with libFuzzer's inputs. A test replays the corpora.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "enums of the engine may grow"
)]

mod queues;
mod scanner;
mod server;
mod wire;

pub use queues::queues;
pub use scanner::scanner;
pub use server::server;
pub use wire::{protobuf, wire};

use crate::runner::run_plan;
use crate::{Plan, Variant};

/// The name and the function of a target.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("scanner", scanner),
    ("wire", wire),
    ("protobuf", protobuf),
    ("queues", queues),
    ("server", server),
    ("simulation", simulation),
];

/// Runs the whole simulation, with the bytes as its entropy.
///
/// # Panics
/// If an invariant is violated.
pub fn simulation(data: &[u8]) {
    let plan = Plan::of_bytes(data);
    if let Err(violation) = run_plan(Variant::Heap, &plan, false) {
        let trace = run_plan(Variant::Heap, &plan, true)
            .map_or_else(|violation| violation.trace, |_| Vec::new());
        panic!("{violation}\n{:?}\n{}", plan.world, trace.join("\n"));
    }
}

/// Splits bytes into pieces of the given sizes, used cyclically; a size of 0 counts as 1.
fn pieces<'a>(mut data: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while !data.is_empty() {
        let size = sizes
            .get(at % sizes.len().max(1))
            .map_or(usize::MAX, |size| usize::from(*size).max(1));
        let (piece, rest) = data.split_at(size.min(data.len()));
        pieces.push(piece);
        data = rest;
        at += 1;
    }
    pieces
}

/// Splits the sizes of pieces off the front.
fn sizes(data: &[u8]) -> (&[u8], &[u8]) {
    data.split_at(4.min(data.len()))
}
