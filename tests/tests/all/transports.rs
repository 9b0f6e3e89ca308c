//! The conformance suite for transports other than the mock's.
#![cfg(unix)]
#![allow(clippy::std_instead_of_core, reason = "a test may")]

#[path = "../../../examples/more/custom_transport/tunnel.rs"]
mod tunnel;

use std::cell::Cell;

use informer_mock::conformance;
use tunnel::{Tunnel, open};

/// The lines of the transport itself, without comments and empty lines.
#[test]
fn the_example_of_a_transport_has_less_than_100_lines() {
    let source = include_str!("../../../examples/more/custom_transport/tunnel.rs");
    let (transport, _) = source
        .split_once("// This is the end of the transport.")
        .unwrap();
    let lines = transport.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let count = code.count();
    assert!((40..100).contains(&count), "{count} lines");
}

#[tokio::test]
async fn the_example_of_a_transport_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let tunnels = Cell::new(0);
    let local = tokio::task::LocalSet::new();
    let verdict = local.run_until(conformance::check(async |server| {
        tunnels.set(tunnels.get() + 1);
        let path = folder.path().join(tunnels.get().to_string());
        open(&path, move || server.transport()).unwrap();
        Tunnel(path)
    }));
    verdict.await.assert();
}
