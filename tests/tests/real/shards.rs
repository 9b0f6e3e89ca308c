//! Shards of a resource on a server that supports them (KEP-5866, `ShardedListAndWatch=true`).

use core::time::Duration;
use std::collections::BTreeMap;

use http::Method;
use informer_core::resource::{Shard, ShardBy};
use informer_tests::real::{Identity, Outcome, Plane, Protocol, Table, ensure, until};
use informer_tests::say;
use informer_tests::support::{Known, held};
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Raw};

use crate::Context;

const GATE: &str = "--feature-gates=ShardedListAndWatch=true";

fn parts(by: ShardBy, count: u32) -> Vec<Shard> {
    (0..count)
        .filter_map(|index| Shard::of(by, index, count))
        .collect()
}

async fn truth(table: &Table) -> Outcome<Known> {
    let (versions, _) = table.list().await?;
    let versions = versions.into_iter();
    Ok(versions.map(|(key, (_, version))| (key, version)).collect())
}

/// Returns the objects of all replicas; fails if two have the same object.
fn together(replicas: &[Informer<Raw>]) -> Outcome<Known> {
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
    table: &Table,
    protocol: Protocol,
    shard: Shard,
    initial: Initial,
) -> Outcome<Informer<Raw>> {
    let transport = table
        .cluster()
        .transport(protocol, &Identity::Admin, None)?;
    let resource = table.resource().as_ref().shard(shard);
    let informer = Informer::<Raw>::builder_for(&transport, resource)
        .initial(initial)
        .spawn();
    Ok(informer)
}

/// Checks that the server selects, and that its selection equals ours, or that it selects nothing; returns the size of
/// ours. (Only for built-in types, not for custom resources, does `metadata.shardInfo` confirm the selection.)
async fn the_server_selects(table: &Table, shard: Shard, server: Selects) -> Outcome<usize> {
    let selector = shard.to_string().replace(' ', "%20");
    let path = format!("{}?shardSelector={selector}", table.path());
    let (status, list) = table.cluster().request(Method::GET, &path, None).await?;
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
    let all = table.list().await?.0.len();
    let expected = if server == Selects::Nothing { all } else { own };
    ensure(
        items.len() == expected,
        format_args!(
            "{server:?}: {} objects, {own} of which are in {shard}",
            items.len()
        ),
    )?;
    let confirms = !list["metadata"]["shardInfo"].is_null();
    ensure(
        confirms == (server == Selects::AndConfirms),
        format_args!("{server:?}: {}", list["metadata"]),
    )?;
    Ok(own)
}

/// What a server does with a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Selects {
    /// It ignores the selector.
    Nothing,
    Silently,
    AndConfirms,
}

/// Custom resources on a server with the feature gate.
pub(crate) async fn are_disjoint_and_complete(context: Context) -> Outcome {
    let table = context.table("sharded").await?;
    let shared = context.server()?;
    let name = format!("shards-{:?}", context.protocol);
    let server = shared.beside(&name, &[GATE]).await?;
    let cluster = server.cluster().await?;
    cluster.serves(&table).await?;
    // Written through the other server.
    table.create_many("item", 80).await?;
    follow_changes(&cluster.view(&table), context.protocol, Selects::Silently).await?;
    drop(server);
    Ok(())
}

/// Built-in resources on a control plane with the feature gate, then without it, and with it again. Replicas of
/// ConfigMaps in all namespaces run through both restarts.
pub(crate) async fn of_built_in_resources(context: Context) -> Outcome {
    let plane = Plane::start(context.assets()?, &[GATE]).await?;
    let cluster = plane.cluster().await?;
    let mut written = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let table = cluster.built_in_apart("configmaps.v1.", name).await?;
        table.create_many("item", 20).await?;
        written.push(table);
    }
    let everywhere = cluster.built_in("configmaps.v1.").await?;
    let mut sets = Vec::new();
    for (by, protocol, initial) in [
        (ShardBy::Uid, Protocol::Http1, Initial::Stream),
        (ShardBy::Uid, Protocol::Http2, Initial::List),
        (ShardBy::Namespace, Protocol::Http1, Initial::List),
        (ShardBy::Namespace, Protocol::Http2, Initial::Stream),
    ] {
        let shards = parts(by, 3).into_iter();
        let replicas = shards.map(|shard| start(&everywhere, protocol, shard, initial));
        sets.push(replicas.collect::<Outcome<Vec<_>>>()?);
    }

    for (round, server) in [Selects::AndConfirms, Selects::Nothing, Selects::AndConfirms]
        .into_iter()
        .enumerate()
    {
        if round > 0 {
            plane.stop().await?;
            let with_gate = server == Selects::AndConfirms;
            let flags: &[&str] = if with_gate { &[GATE] } else { &[] };
            plane.restart(flags).await?;
        }
        for by in [ShardBy::Uid, ShardBy::Namespace] {
            for shard in parts(by, 3) {
                the_server_selects(&everywhere, shard, server).await?;
            }
        }
        for (index, table) in (0_u64..).zip(&written) {
            table.delete(&format!("item-{round:05}")).await?;
            table.create(&format!("new-{round}"), index).await?;
            table.update("item-00010", 100 + round as u64).await?;
        }
        let truth = truth(&everywhere).await?;
        for replicas in &sets {
            complete(replicas, &truth).await?;
        }
        say(&format!(
            "round {round}, {server:?}: {} ConfigMaps, in {} sets of 3 shards each exactly once",
            truth.len(),
            sets.len()
        ));
        if round < 2 {
            for definition in [
                "configmaps.v1.",
                "pods.v1.",
                "leases.v1.coordination.k8s.io",
            ] {
                for protocol in [Protocol::Http1, Protocol::Http2] {
                    let table = cluster.built_in_apart(definition, "numbers").await?;
                    table.create_many("item", 80).await?;
                    follow_changes(&table, protocol, server)
                        .await
                        .map_err(|error| {
                            format!("{definition} {protocol:?} {server:?}: {error}")
                        })?;
                }
            }
        }
    }
    sets.iter().flatten().for_each(Informer::stop);
    Ok(())
}

/// Waits until these replicas together have all objects, and no two of them share one.
async fn complete(replicas: &[Informer<Raw>], truth: &Known) -> Outcome {
    let complete = || together(replicas).is_ok_and(|all| all == *truth);
    let what = "all parts together are the whole";
    until(Duration::from_secs(60), what, complete).await?;
    together(replicas)?;
    Ok(())
}

/// With any number of shards, and while it changes: together the replicas have all objects, no two share an object,
/// and each follows the changes of its objects. The table has 80 objects.
async fn follow_changes(table: &Table, protocol: Protocol, server: Selects) -> Outcome {
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
            sum += the_server_selects(table, shard, server).await?;
        }
        let all = truth(table).await?.len();
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
            .map(|shard| start(table, protocol, shard, initial))
            .collect::<Outcome<Vec<_>>>()?;
        for replica in &now {
            tokio::time::timeout(Duration::from_secs(60), replica.synced()).await??;
        }
        writer.await??;
        let truth = truth(table).await?;
        for replicas in [&before, &now]
            .into_iter()
            .filter(|replicas| !replicas.is_empty())
        {
            complete(replicas, &truth).await?;
        }
        before.iter().for_each(Informer::stop);
        before = now;
    }
    before.iter().for_each(Informer::stop);

    // As sources of one cache.
    let transport = table
        .cluster()
        .transport(protocol, &Identity::Admin, None)?;
    let whole = Informer::<Raw>::builder_for(&transport, table.resource().as_ref())
        .shards(parts(ShardBy::Uid, 4))
        .spawn();
    tokio::time::timeout(Duration::from_secs(60), whole.synced()).await??;
    let expected = truth(table).await?;
    until(Duration::from_secs(60), "one cache has all parts", || {
        held(&whole) == expected
    })
    .await?;
    let version = table.update("item-00003", 77_777).await?;
    let key = format!("{}/item-00003", table.namespace());
    let seen = whole.wait_for_write(&key, &version);
    tokio::time::timeout(Duration::from_secs(60), seen).await??;
    whole.stop();
    Ok(())
}
