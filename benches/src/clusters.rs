//! One client process that watches many clusters. Their API servers are one process on loopback.

use core::time::Duration;
use std::io;
use std::time::Instant;

use informer_hyper::HyperTransport;
use informer_tokio::decode::Packer;
use informer_tokio::{Informer, Packed, Raw, Resource};

use crate::compare::Server;

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

/// Watches this many clusters with this many Pods each, stored in packed form. Returns the time to sync and the resident
/// memory of this process.
///
/// # Errors
/// Fails if the server cannot be started, or a cluster does not sync within five minutes.
pub fn run(clusters: usize, pods: u64) -> io::Result<String> {
    let server = Server::start(&[format!("--pods={pods}"), "--updates=0".to_owned()])?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(watch(&server.url, clusters))
}

async fn watch(url: &str, clusters: usize) -> io::Result<String> {
    let (began, before) = (Instant::now(), resident_kb());
    // The clusters have similar Pods, so they share a dictionary.
    let packer = Packer::new();
    let mut informers = Vec::with_capacity(clusters);
    for number in 0..clusters {
        // Each cluster has its own connections.
        let transport = HyperTransport::builder(format!("{url}/clusters/{number}"))
            .build()
            .map_err(io::Error::other)?;
        let informer: Informer<Packed<Raw>> =
            Informer::builder_with(transport, PODS, packer.clone())
                .name(format!("cluster-{number}"))
                .spawn();
        informers.push(informer);
    }
    for informer in &informers {
        let synced = informer.synced_within(Duration::from_secs(300)).await;
        synced.map_err(io::Error::other)?;
    }
    let sync = began.elapsed();
    // Buffers of the lists are released.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let objects: usize = informers.iter().map(|one| one.lister().len()).sum();
    Ok(format!(
        "clusters={clusters} objects={objects} sync_s={:.2} rss_mb={:.1} rss_before_mb={:.1} hwm_mb={:.1}",
        sync.as_secs_f64(),
        resident_kb().0 as f64 / 1e3,
        before.0 as f64 / 1e3,
        resident_kb().1 as f64 / 1e3,
    ))
}

/// Returns the resident memory of this process and its maximum, in kB; zeros without `/proc`.
fn resident_kb() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let mut lines = status.lines();
        let value = lines.find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        });
        value.unwrap_or_default()
    };
    (field("VmRSS:"), field("VmHWM:"))
}
