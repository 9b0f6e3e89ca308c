//! The conformance suite for transports other than the mock's.
#![cfg(unix)]
#![allow(clippy::std_instead_of_core, reason = "a test may")]

#[path = "../../../examples/more/custom_transport/tunnel.rs"]
mod tunnel;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer_hyper::HyperTransport;
use informer_mock::{conformance, serve};
use informer_tests::support::{PODS, keys, named, next, pod, server};
use informer_tokio::controller::{RecordWrites, WriteLog};
use informer_tokio::election::{Election, HttpLease};
use informer_tokio::{Informer, Raw};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
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

/// Returns the URL of a port that passes everything on to another one, and the number of its connections.
async fn counted(port: u16) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(
                async move { tokio::io::copy_bidirectional(&mut client, &mut server).await },
            );
        }
    });
    (url, count)
}

#[tokio::test]
async fn kube_and_an_election_write_over_the_connection_of_the_informer() {
    let mock = server();
    mock.with(|server| server.add_resource("coordination.k8s.io", "v1", "leases", "Lease", true));
    let serving = serve(mock.clone(), "127.0.0.1:0").await.unwrap();
    let (url, connections) = counted(serving.local_addr().port()).await;
    tokio::spawn(serving.run());
    let builder = HyperTransport::builder(url).http1(false);
    let transport = builder.build().unwrap();
    let pods = Informer::<Raw>::builder_for(&transport, PODS).spawn();
    let mut events = pods.subscribe();
    assert_eq!(named(&next(&mut events).await), "synced");

    let log = WriteLog::default();
    log.attach(&pods);
    let client = Client::new(RecordWrites::new(transport.clone(), &log), "prod");
    let api: Api<Pod> = Api::namespaced(client, "prod");
    let new = serde_json::from_value(pod("a", 1)).unwrap();
    api.create(&PostParams::default(), &new).await.unwrap();
    log.seen().await.unwrap();
    assert_eq!(keys(&pods), ["prod/a"]);
    assert_eq!(named(&next(&mut events).await), "+a");
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "app": "web" } } }));
    let patched = api.patch("a", &PatchParams::default(), &patch).await;
    assert_eq!(patched.unwrap().metadata.labels.unwrap()["app"], "web");
    assert_eq!(named(&next(&mut events).await), "~a");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    log.seen().await.unwrap();
    assert!(keys(&pods).is_empty());
    assert_eq!(named(&next(&mut events).await), "-a");
    match api.get("a").await {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 404),
        other => panic!("{other:?}"),
    }

    let lease = HttpLease::new(transport.clone(), "prod", "web");
    let (leadership, election) = Election::new(lease, "me", Default::default()).unwrap();
    let election = tokio::spawn(election.run());
    let holder = || {
        let lease = mock.with(|server| server.get("leases.coordination.k8s.io", "prod", "web"));
        lease.unwrap()["spec"]["holderIdentity"].clone()
    };
    assert!(leadership.acquired().await);
    assert_eq!(holder(), "me");
    leadership.resign().await;
    election.await.unwrap();
    assert_eq!(holder(), "");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}
