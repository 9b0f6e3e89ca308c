//! Servers that die and restart.

use core::time::Duration;

use informer_hyper::HyperTransport;
use informer_tests::proxy::{Cut, FaultProxy};
use informer_tests::real::{
    Identity, Outcome, Plane, Protocol, Recorded, Subject, Table, ensure, until,
};
use informer_tests::say;
use informer_tokio::informer::Initial;
use tokio::time::Instant;

use crate::Context;

/// An API server is killed and restarted. Without changes meanwhile the watch resumes. After a change, which the new
/// watch cache does not know, one list follows.
pub(crate) async fn the_api_server_is_killed_and_restarted(context: Context) -> Outcome {
    let name = format!("killed-{:?}", context.protocol);
    let server = context.server()?.apart(&name, &[]).await?;
    let cluster = server.cluster().await?;
    let table = cluster.table("killed").await?;
    table.create_many("item", 20).await?;
    let proxy = FaultProxy::start(None, cluster.address().await?).await?;
    let transport = cluster.transport(context.protocol, &Identity::Admin, Some(proxy.address()))?;
    let subject = Subject::start(transport, &table, |builder| builder);
    subject.synced().await?;
    subject.follows(&table, "item-00001", 1).await?;
    tokio::time::sleep(Duration::from_millis(1200)).await;

    server.signal("apiserver", "-KILL").await?;
    // Until it has read the definitions, this server answers 404, which a load balancer would hide. A missing
    // resource is a reason to list.
    proxy.refuse(true);
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.restart().await?;
    cluster.serves(&table).await?;
    proxy.refuse(false);
    subject.follows(&table, "item-00001", 2).await?;
    subject.ensure(subject.log.lists() == 1, "it listed again")?;

    let other = server.beside(&format!("{name}-other"), &[]).await?;
    let elsewhere = other.cluster().await?;
    elsewhere.serves(&table).await?;
    let writer = elsewhere.view(&table);
    server.signal("apiserver", "-KILL").await?;
    proxy.refuse(true);
    writer.delete("item-00002").await?;
    writer.create("item-new", 1).await?;
    let version = writer.update("item-00003", 1).await?;
    server.restart().await?;
    cluster.serves(&table).await?;
    proxy.refuse(false);
    subject.shows("item-00003", &version).await?;
    subject.agrees(&writer).await?;
    subject.ensure(subject.log.answered_lists() == 2, "not one relist")?;
    ensure(
        subject.history.with(|book| book.counts[2..] == [1, 1]),
        &subject,
    )
}

/// etcd pauses and continues: the cache serves its objects, the open watch continues, and so does one opened
/// meanwhile.
pub(crate) async fn etcd_stops_and_continues(context: Context) -> Outcome {
    let name = format!("etcd-{:?}", context.protocol);
    let server = context.server()?.apart(&name, &[]).await?;
    let cluster = server.cluster().await?;
    let table = cluster.table("etcd").await?;
    table.create_many("item", 20).await?;
    let proxy = FaultProxy::start(None, cluster.address().await?).await?;
    let transport = cluster.transport(context.protocol, &Identity::Admin, Some(proxy.address()))?;
    let subject = Subject::start(transport, &table, |builder| builder);
    subject.synced().await?;
    subject.follows(&table, "item-00001", 1).await?;
    tokio::time::sleep(Duration::from_millis(1200)).await;

    server.signal("etcd", "-STOP").await?;
    let (updating, waiting) = (table.clone(), subject.log.answered_watches());
    let update = tokio::spawn(async move { updating.update("item-00001", 2).await });
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxy.cut(Cut::Reset);
    tokio::time::sleep(Duration::from_secs(5)).await;
    ensure(subject.informer.lister().len() == 20, &subject)?;
    server.signal("etcd", "-CONT").await?;
    // The update may have timed out, and may have succeeded all the same.
    let _ = update.await?;
    subject.follows(&table, "item-00002", 3).await?;
    let opened = || subject.log.answered_watches() > waiting;
    until(Duration::from_secs(60), "another watch", opened).await?;
    subject.agrees(&table).await?;
    subject.ensure(subject.log.lists() == 1, "it listed again")
}

/// etcd is restored from an earlier copy under running informers. The API server accepts their watches at versions that
/// are not there yet, and sends nothing. They notice the silence, list, and notify their handlers of the deletion of
/// what the copy lacks.
pub(crate) async fn etcd_is_restored(context: Context) -> Outcome {
    let plane = Plane::start(context.assets()?, &[]).await?;
    let cluster = plane.cluster().await?;
    let mut tables = Vec::new();
    for definition in ["configmaps.v1.", "pods.v1."] {
        let table = cluster.built_in(definition).await?.in_namespace("default");
        table.create_many("item", 30).await?;
        tables.push(table);
    }
    plane.stop().await?;
    plane.save().await?;
    plane.restart(&[]).await?;

    let mut subjects = Vec::new();
    for table in &tables {
        for (protocol, initial) in [
            (Protocol::Http1, Initial::List),
            (Protocol::Http1, Initial::Stream),
            (Protocol::Http2, Initial::List),
            (Protocol::Http2, Initial::Stream),
        ] {
            let transport = cluster.transport(protocol, &Identity::Admin, None)?;
            transport.end_watches_after(5);
            let clone = transport.clone();
            let subject = Subject::start(transport, table, |builder| builder.initial(initial));
            subject.synced().await?;
            subjects.push((table, subject, clone));
        }
    }
    // A server that starts or stops may refuse every watch in a way that leads to a list.
    for round in 1..=3 {
        let (silent, took) = is_restored(&plane, &tables, &subjects, round).await?;
        say(&format!(
            "restored: {} informers, {silent} of them by a silent watch, {LOST} objects less for each; all correct {took:.1?} \
             after the server was back",
            subjects.len(),
        ));
        if silent > 0 {
            return Ok(());
        }
    }
    Err("no watch was silent".into())
}

/// The objects that the earlier copy of etcd does not have.
const LOST: usize = 200;

/// Restores etcd from the copy, for the time `round`. Returns how many watches were silent, and how long it took until all
/// informers agreed with the server.
async fn is_restored(
    plane: &Plane,
    tables: &[Table],
    subjects: &[(&Table, Subject, Recorded<HyperTransport>)],
    round: u64,
) -> Outcome<(usize, Duration)> {
    for table in tables {
        table.create_many("lost", LOST).await?;
        table.delete("item-00001").await?;
        table.update("item-00002", 1).await?;
    }
    // A bookmark comes each minute, and two seconds before the end of a watch.
    for (_, _, transport) in subjects {
        transport.end_watches_after(5);
    }
    for (table, subject, _) in subjects {
        subject.agrees(table).await?;
    }
    let mut value = 1_000 * round;
    for (table, subject, transport) in subjects {
        // The objects of its own table have been changed for informers before it. From here on, only a bookmark moves its
        // version, and without one it would not notice a silent watch in time.
        subject.agrees(table).await?;
        let before = subject.informer.resource_version();
        let other = &tables[usize::from(core::ptr::eq(*table, &raw const tables[0]))];
        let mut waited = 0;
        while subject.informer.resource_version() == before {
            waited += 1;
            value += 1;
            subject.ensure(waited < 180, "no bookmark")?;
            // The version moves on, and a list lets the watch cache hear of it.
            other.label("item-00003", value).await?;
            table.list().await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        transport.end_watches_after(0);
    }

    plane.stop().await?;
    for (_, subject, _) in subjects {
        subject.history.server_is_restored();
    }
    plane.restore().await?;
    plane.restart(&[]).await?;
    let restored = Instant::now();
    let mut silent = 0;
    for (table, subject, _) in subjects {
        subject.agrees(table).await?;
        let lost = subject.history.with(|book| book.counts[3]);
        subject.ensure(lost == round * LOST as u64, "a deletion was not notified")?;
        silent += usize::from(subject.reports("silent") >= 1);
    }
    Ok((silent, restored.elapsed()))
}
