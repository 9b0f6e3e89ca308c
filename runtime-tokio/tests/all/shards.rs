//! Shards of a resource as sources of one cache, on paused time.

use core::time::Duration;

use informer_core::resource::{Shard, ShardBy};
use informer_mock::{FakeServer, Fault, Verb, json};
use informer_tokio::controller::WriteLog;
use informer_tokio::informer::{AuditConfig, Initial};
use informer_tokio::{Informer, Raw};
use tokio::time::{sleep, timeout};

use crate::support::{PODS, Server, held, numbered, server, truth};

fn sharding(knows: bool) -> Server {
    let mock = server();
    mock.with(|server| server.config_mut().sharding = knows);
    for name in numbered(60) {
        mock.create("pods", pod(&name, 0)).unwrap();
    }
    mock
}

fn pod(name: &str, round: u64) -> serde_json::Value {
    let namespace = format!("ns-{}", name.len() % 3);
    json!({ "metadata": { "name": name, "namespace": namespace }, "spec": { "round": round } })
}

fn parts(by: ShardBy, count: u32) -> impl Iterator<Item = Shard> {
    (0..count).filter_map(move |index| Shard::of(by, index, count))
}

/// Whether or not the server supports shards, the cache has all objects, each once, and follows their changes.
#[tokio::test(start_paused = true)]
async fn parts_make_one_cache() {
    for (knows, initial, by) in [
        (true, Initial::List, ShardBy::Uid),
        (true, Initial::Stream, ShardBy::Namespace),
        (false, Initial::List, ShardBy::Namespace),
        (false, Initial::Stream, ShardBy::Uid),
    ] {
        let mock = sharding(knows);
        let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
            .initial(initial)
            .shards(parts(by, 4))
            .spawn();
        timeout(Duration::from_secs(60), pods.synced())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(pods.health().sources.len(), 4);
        assert_eq!(held(&pods), truth(&mock));
        mock.create("pods", pod("new", 0)).unwrap();
        mock.update("pods", pod("p7", 1)).unwrap();
        mock.delete("pods", "ns-0", "p11").unwrap();
        mock.with(FakeServer::cut_watches);
        // The same name again is another object, and may be in another shard.
        mock.create("pods", pod("p11", 1)).unwrap();
        sleep(Duration::from_secs(30)).await;
        assert_eq!(held(&pods), truth(&mock), "{knows} {initial:?} {by:?}");
        // A write is visible as soon as its shard has it, whatever the others have.
        let version = mock.update("pods", pod("p3", 2)).unwrap().to_string();
        let seen = pods.wait_for_write("ns-2/p3", &version);
        timeout(Duration::from_secs(5), seen)
            .await
            .unwrap()
            .unwrap();
        pods.stop();
        if knows {
            a_write_is_awaited_in_its_part(&mock, by).await;
        }
    }
}

async fn a_write_is_awaited_in_its_part(mock: &Server, by: ShardBy) {
    for shard in parts(by, 4) {
        let part = Informer::<Raw>::builder_for(&mock.transport(), PODS);
        let part = part.shards([shard]).spawn();
        part.synced().await.unwrap();
        let own = held(&part);
        for key in truth(mock).keys() {
            let (namespace, name) = key.split_once('/').unwrap();
            let object = mock.with(|server| server.get("pods", namespace, name));
            let object = object.unwrap().to_string();
            let log = WriteLog::default();
            log.attach(&part);
            log.record(&PODS, key, "1000000", Some(object.as_bytes()));
            let seen = timeout(Duration::from_millis(1), log.seen()).await;
            assert_eq!(seen.is_err(), own.contains_key(key), "{key} by {by:?}");
        }
        part.stop();
    }
}

/// It is synced when all shards are. If one is relisted, the others continue.
#[tokio::test(start_paused = true)]
async fn each_part_is_for_itself() {
    let mock = sharding(true);
    let shards: Vec<_> = parts(ShardBy::Uid, 3).collect();
    mock.with(|server| server.inject(Fault::delay(Duration::from_secs(20)).on(Verb::List)));
    let pods = Informer::<Raw>::builder_for(&mock.transport(), PODS)
        .initial(Initial::List)
        .namespaces(["ns-0", "ns-1", "ns-2"])
        .shards(shards.iter().copied().chain(shards.iter().copied()))
        .audit(AuditConfig::new(Duration::from_secs(3600)))
        .spawn();
    assert_eq!(
        pods.health().sources.len(),
        9,
        "each namespace in each part"
    );
    sleep(Duration::from_secs(10)).await;
    assert!(!pods.is_synced() && !held(&pods).is_empty());
    sleep(Duration::from_secs(15)).await;
    assert!(pods.is_synced());
    assert_eq!(held(&pods), truth(&mock));
    let mark = mock.log().mark();
    mock.with(|server| {
        server.inject(Fault::expired().on(Verb::Watch));
        server.cut_watches();
    });
    sleep(Duration::from_secs(30)).await;
    let lists = mock.log();
    assert_eq!(
        lists
            .since(mark)
            .filter(|request| request.verb == Verb::List)
            .count(),
        1
    );
    // Each of them is audited.
    mock.with(|server| server.forget("pods", "ns-0", "p12"))
        .unwrap();
    mock.with(|server| server.forget("pods", "ns-2", "p1"))
        .unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(held(&pods), truth(&mock));
}
