//! Tests across the crates, in one program, so that only one is linked.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod bad_input;
mod conformance;
mod controller;
mod errors;
mod factory;
mod fault_proxy;
mod fuzz_corpora;
mod gzip;
mod handlers;
mod health;
mod journal;
mod kube_rs_defects;
mod monitoring;
mod retry_watcher;
mod scenarios;
mod shards;
mod shared_informer;
mod simulation;
mod state_table;
mod traces_replay;
mod tracing;
mod transports;
mod types;
