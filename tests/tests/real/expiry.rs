//! Versions that have expired: exactly one list.

use core::time::Duration;

use informer_tests::proxy::{Cut, FaultProxy};
use informer_tests::real::{Asked, Outcome, Subject, ensure};
use informer_tokio::informer::Initial;

use crate::Context;

/// A server without a watch cache, so that pages and watches come from etcd, where a compaction removes all history.
pub(crate) async fn compaction_is_answered_by_one_list(context: Context) -> Outcome {
    let table = context.table("compacted").await?;
    table.create_many("item", 45).await?;
    let shared = context.server()?;
    let name = format!("compaction-{:?}", context.protocol);
    let server = shared.beside(&name, &["--watch-cache=false"]).await?;
    let cluster = server.cluster().await?;
    cluster.serves(&table).await?;
    let proxy = FaultProxy::start(None, cluster.address().await?).await?;
    let transport = context.through(&proxy)?;
    let subject = Subject::start(transport, &table, |builder| {
        builder.initial(Initial::List).page_size(10)
    });
    subject.synced().await?;
    subject.agrees(&table).await?;
    let pages = subject
        .log
        .all()
        .iter()
        .filter(|asked| asked.is_list())
        .count();
    subject.ensure(pages == 5, "these are not 5 pages")?;
    subject.follows(&table, "item-00001", 1).await?;
    tokio::time::sleep(Duration::from_millis(1200)).await;

    proxy.refuse(true);
    proxy.cut(Cut::Reset);
    table.delete("item-00002").await?;
    table.create("item-new", 1).await?;
    let version = table.update("item-00003", 1).await?;
    server.compact(&version).await?;
    proxy.refuse(false);

    subject.shows("item-00003", &version).await?;
    subject.agrees(&table).await?;
    subject.ensure(subject.reports("expired") >= 1, "nothing expired")?;
    // The list at the compacted version may be refused, and repeated for the newest state.
    subject.ensure(subject.log.answered_lists() == 2, "not one relist")?;
    let [adds, updates, deletes, unseen] = subject.history.with(|book| book.counts);
    ensure((adds, updates, deletes, unseen) == (46, 2, 1, 1), &subject)?;
    drop(server);
    Ok(())
}

/// A watch that resumes after more than the watch cache holds.
pub(crate) async fn the_window_is_answered_by_one_list(context: Context) -> Outcome {
    // Other tests would make the watch cache of a built-in resource larger.
    let table = context.custom("window").await?;
    table.create_many("item", 20).await?;
    let proxy = FaultProxy::start(None, context.cluster.address().await?).await?;
    let subject = Subject::start(context.through(&proxy)?, &table, |builder| {
        builder.initial(Initial::List).page_size(5)
    });
    subject.synced().await?;
    subject.follows(&table, "item-00001", 1).await?;
    tokio::time::sleep(Duration::from_millis(1200)).await;

    proxy.refuse(true);
    proxy.cut(Cut::Close);
    table.delete("item-00002").await?;
    // The cache holds everything younger than 75 s, and older events while there is room.
    for value in 0..150 {
        table.update("item-00003", value).await?;
    }
    tokio::time::sleep(Duration::from_secs(77)).await;
    let mut version = String::new();
    for value in 0..250 {
        version = table.update("item-00004", value + 1000).await?;
    }
    proxy.refuse(false);

    subject.shows("item-00004", &version).await?;
    subject.agrees(&table).await?;
    subject.ensure(subject.reports("expired") >= 1, "nothing expired")?;
    subject.ensure(subject.log.answered_lists() == 2, "not one relist")?;
    let notified = subject.history.with(|book| book.counts);
    ensure(notified[2..] == [1, 1], &subject)?;
    // The newest state arrives in pages: there are 19 objects.
    let follows = |asked: &&Asked| asked.query("continue").is_some();
    let pages = subject.log.all().iter().filter(follows).count();
    subject.ensure(pages == 3, "not 3 pages after the first")?;
    Ok(())
}
