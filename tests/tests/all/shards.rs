//! Replicas that share a resource, on servers with and without support for shards.

use std::collections::BTreeSet;

use informer_core::{
    reflector::Initial,
    resource::{Shard, ShardBy},
};
use informer_mock::json;
use informer_tests::support::{PODS, Server, keys, server};
use informer_tokio::{Informer, Raw};

fn pod(name: &str) -> serde_json::Value {
    json!({ "metadata": { "name": name, "namespace": format!("ns-{}", name.len() % 3) } })
}

fn start(mock: &Server, shard: Shard, initial: Initial) -> Informer<Raw> {
    Informer::<Raw>::builder_for(&mock.transport(), PODS.shard(shard))
        .initial(initial)
        .spawn()
}

/// With any server and any number of replicas, even while it changes: together the replicas have all objects, no two
/// share an object, and each follows the changes of its objects.
#[tokio::test(start_paused = true)]
async fn shards_are_disjoint_and_complete() {
    for (server_knows, initial, by) in [
        (false, Initial::List, ShardBy::Uid),
        (true, Initial::List, ShardBy::Uid),
        (false, Initial::Stream, ShardBy::Namespace),
        (true, Initial::Stream, ShardBy::Uid),
    ] {
        let mock = server();
        mock.with(|server| server.config_mut().sharding = server_knows);
        for number in 0..100 {
            mock.create("pods", pod(&format!("p{number}"))).unwrap();
        }
        for count in [1, 2, 3, 5] {
            let shards: Vec<Shard> = (0..count)
                .filter_map(|index| Shard::of(by, index, count))
                .collect();
            let replicas: Vec<_> = shards
                .iter()
                .map(|shard| start(&mock, *shard, initial))
                .collect();
            for replica in &replicas {
                replica.synced().await.unwrap();
            }
            // Objects created and deleted during the watches.
            let new = format!("{}-{count}", "x".repeat(count as usize));
            mock.create("pods", pod(&new)).unwrap();
            let gone = format!("p{count}");
            let at = mock
                .delete("pods", &format!("ns-{}", gone.len() % 3), &gone)
                .unwrap();
            let mut all = BTreeSet::new();
            for replica in &replicas {
                if !server_knows {
                    // The version also advances with changes in other shards.
                    replica.wait_until(&at.to_string()).await.unwrap();
                } else {
                    tokio::time::sleep(core::time::Duration::from_secs(1)).await;
                }
                for key in keys(replica) {
                    assert!(all.insert(key.clone()), "{key} is in two of {count}");
                }
            }
            let truth: BTreeSet<String> = mock.with(|server| {
                let objects = server.objects("pods");
                objects
                    .map(|object| format!("{}/{}", object.namespace(), object.name()))
                    .collect()
            });
            assert_eq!(all, truth, "{count} {server_knows} {initial:?}");
            for replica in &replicas {
                replica.stop();
            }
        }
        let asked = mock.log();
        assert!(
            asked.iter().all(|request| request
                .query
                .get("shardSelector")
                .is_some_and(|selector| selector.starts_with("shardRange(object.metadata."))),
            "each request names its shard"
        );
    }
}
