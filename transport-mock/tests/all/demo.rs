//! The demo cluster.
#![cfg(feature = "std")]

use core::time::Duration;

use crate::common::{Ended, JSON, at, events, read};
use informer_mock::demo::Demo;
use informer_mock::{Backend, FailureKind, FakeServer};

/// Fills a server and lets two minutes pass.
fn ran(seed: u64) -> (FakeServer, Vec<u8>) {
    let demo = Demo::new(seed).pods(100).namespaces(7).nodes(3);
    let mut server = FakeServer::new(seed);
    demo.fill(&mut server);
    let mut changes = demo.changes(at(0));
    for second in 0..=120 {
        server.tick(at(second));
        changes.run_to(&mut server, at(second));
    }
    let bytes = server
        .objects("pods")
        .flat_map(|pod| pod.to_bytes())
        .collect();
    (server, bytes)
}

#[test]
fn it_follows_from_its_seed() {
    let (server, first) = ran(1);
    assert_eq!(first, ran(1).1);
    assert_ne!(first, ran(2).1);
    let pods = server.objects("pods").count();
    assert!((70..=130).contains(&pods), "{pods}");
    assert!(
        (1_000..2_500).contains(&(first.len() / pods)),
        "{}",
        first.len() / pods
    );
    assert_eq!(server.objects("nodes").count(), 3);
    assert_eq!(server.objects("namespaces").count(), 7);
    assert!(server.objects("deployments.apps").count() > 7);
}

#[test]
fn templates_make_what_rendering_makes() {
    let mut server = FakeServer::new(1);
    Demo::new(1).pods(50).fill(&mut server);
    let pods: Vec<_> = server
        .objects("pods")
        .map(|pod| (pod.key(), pod.version()))
        .collect();
    for (key, version) in pods {
        let (namespace, name) = key.split_once('/').unwrap();
        let pod = server.get("pods", namespace, name).unwrap();
        assert!(!pod.to_string().contains("<<"), "{pod}");
        assert_eq!(
            server.put("pods", pod),
            Ok(version),
            "nothing has changed, to the byte"
        );
    }
}

#[test]
fn watches_are_cut_and_versions_are_lost() {
    let demo = Demo::new(1)
        .pods(20)
        .cut_every(Some(Duration::from_secs(10)))
        .compact_every(Some(Duration::from_secs(25)));
    let mut server = FakeServer::new(1);
    demo.fill(&mut server);
    let filled = server.version();
    let target = format!("/api/v1/pods?watch=1&resourceVersion={filled}");
    let mut changes = demo.changes(at(0));
    let first = server.handle_request(at(0), &target, JSON);
    changes.run_to(&mut server, at(9));
    let (sent, ended) = read(&mut server, at(9), first);
    assert!(events(&sent).len() > 30);
    assert!(matches!(ended, Ended::Open(_)));
    changes.run_to(&mut server, at(10));
    assert_eq!(
        read(&mut server, at(10), first).1,
        Ended::Cut(FailureKind::Reset)
    );
    let second = server.handle_request(at(10), &target, JSON);
    assert!(
        events(&read(&mut server, at(10), second).0).len() > 30,
        "the history is there"
    );
    changes.run_to(&mut server, at(25));
    let third = server.handle_request(at(25), &target, JSON);
    assert_eq!(
        events(&read(&mut server, at(25), third).0),
        ["ERROR 410 Expired"]
    );
    // Changes missed during a pause of a year are not made up for.
    changes.run_to(&mut server, at(365 * 86_400));
    assert!(server.version() < filled + 20_000);
}
