//! Shards of a resource on a server that supports them (KEP-5866, `ShardedListAndWatch=true`).

use core::time::Duration;
use std::collections::BTreeMap;

use http::Method;
use informer_core::resource::{Shard, ShardBy};
use informer_tests::real::{Cluster, Outcome, Protocol, Table, ensure, until};
use informer_tokio::informer::Initial;
use informer_tokio::{Entry, Informer, Raw};

use crate::Context;

fn parts(by: ShardBy, count: u32) -> Vec<Shard> {
    (0..count)
        .filter_map(|index| Shard::of(by, index, count))
        .collect()
}

fn held(informer: &Informer<Raw>) -> BTreeMap<String, String> {
    let entries = informer.lister().list();
    let text = |entry: &Entry<Raw>| {
        (
            entry.key().to_string(),
            entry.resource_version().to_string(),
        )
    };
    entries.iter().map(text).collect()
}

async fn truth(table: &Table) -> Outcome<BTreeMap<String, String>> {
    let (versions, _) = table.list().await?;
    let versions = versions.into_iter();
    Ok(versions.map(|(key, (_, version))| (key, version)).collect())
}

/// Returns the objects of all replicas; fails if two have the same object.
fn together(replicas: &[Informer<Raw>]) -> Outcome<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for replica in replicas {
        for (key, version) in held(replica) {
            let twice = all.insert(key.clone(), version).is_some();
            ensure(!twice, format_args!("{key} is in two parts"))?;
        }
    }
    Ok(all)
}

fn start(
    cluster: &Cluster,
    table: &Table,
    protocol: Protocol,
    shard: Shard,
    initial: Initial,
) -> Outcome<Informer<Raw>> {
    let transport = cluster.transport(protocol, &informer_tests::real::Identity::Admin, None)?;
    let resource = table.resource().as_ref().shard(shard);
    let (informer, driver) = Informer::<Raw>::builder_for(&transport, resource)
        .initial(initial)
        .build();
    tokio::spawn(driver.run());
    Ok(informer)
}

/// Checks that the server selects, and that its selection equals ours; returns its size. (Only for built-in types,
/// not for custom resources, does `metadata.shardInfo` confirm the selection.)
async fn the_server_selects(cluster: &Cluster, table: &Table, shard: Shard) -> Outcome<usize> {
    let selector = shard.to_string().replace(' ', "%20");
    let path = format!("{}?shardSelector={selector}", table.path());
    let (status, list) = cluster.request(Method::GET, &path, None).await?;
    ensure(status == 200, format_args!("{status}: {list}"))?;
    let items = list["items"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let value = |item: &serde_json::Value| {
        let field = match shard.by() {
            ShardBy::Uid => "uid",
            ShardBy::Namespace => "namespace",
        };
        item["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let own = items.iter().filter(|item| shard.has(&value(item))).count();
    ensure(
        own == items.len(),
        format_args!("of {} objects {own} are in {shard}", items.len()),
    )?;
    Ok(own)
}

/// With any number of shards, and while it changes: together the replicas have all objects, no two share an object,
/// and each follows the changes of its objects.
pub(crate) async fn are_disjoint_and_complete(context: Context) -> Outcome {
    let table = context.table("sharded").await?;
    table.create_many("item", 80).await?;
    let shared = context.server()?;
    let name = format!("shards-{:?}", context.protocol);
    let server = shared
        .beside(&name, &["--feature-gates=ShardedListAndWatch=true"])
        .await?;
    let cluster = server.cluster().await?;
    cluster.serves(&table).await?;
    let mut before: Vec<Informer<Raw>> = Vec::new();
    for (round, count) in [1_u32, 2, 3, 5, 2].into_iter().enumerate() {
        let initial = if round % 2 == 0 {
            Initial::List
        } else {
            Initial::Stream
        };
        let by = ShardBy::Uid;
        let mut sum = 0;
        for shard in parts(by, count) {
            sum += the_server_selects(&cluster, &table, shard).await?;
        }
        let all = truth(&table).await?.len();
        ensure(
            sum == all,
            format_args!("{count} parts have {sum} of {all} objects"),
        )?;
        // Objects are written while the number changes and the previous replicas still run.
        let writer = tokio::spawn({
            let table = table.clone();
            async move {
                for number in 0..20 {
                    table
                        .create(&format!("new-{round}-{number:02}"), number)
                        .await?;
                    table
                        .update(
                            &format!("item-{number:05}"),
                            1000 * round as u64 + number + 1,
                        )
                        .await?;
                }
                table.delete(&format!("item-{:05}", 70 + round)).await
            }
        });
        let now = parts(by, count)
            .into_iter()
            .map(|shard| start(&cluster, &table, context.protocol, shard, initial))
            .collect::<Outcome<Vec<_>>>()?;
        for replica in &now {
            tokio::time::timeout(Duration::from_secs(60), replica.synced()).await??;
        }
        writer.await??;
        let truth = truth(&table).await?;
        for replicas in [&before, &now]
            .into_iter()
            .filter(|replicas| !replicas.is_empty())
        {
            until(
                Duration::from_secs(60),
                "all parts together are the whole",
                || together(replicas).is_ok_and(|all| all == truth),
            )
            .await?;
            together(replicas)?;
        }
        before.iter().for_each(Informer::stop);
        before = now;
    }
    before.iter().for_each(Informer::stop);

    // As sources of one cache.
    let transport = cluster.transport(
        context.protocol,
        &informer_tests::real::Identity::Admin,
        None,
    )?;
    let (whole, driver) = Informer::<Raw>::builder_for(&transport, table.resource().as_ref())
        .shards(parts(ShardBy::Uid, 4))
        .build();
    tokio::spawn(driver.run());
    tokio::time::timeout(Duration::from_secs(60), whole.synced()).await??;
    let expected = truth(&table).await?;
    until(Duration::from_secs(60), "one cache has all parts", || {
        held(&whole) == expected
    })
    .await?;
    let version = table.update("item-00003", 77_777).await?;
    let seen = whole.wait_for_write("default/item-00003", &version);
    tokio::time::timeout(Duration::from_secs(60), seen).await??;
    whole.stop();
    drop(server);
    Ok(())
}
