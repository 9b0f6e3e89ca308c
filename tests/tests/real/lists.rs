//! The initial state: pages, streaming lists, and the versions after them.

use core::time::Duration;

use informer_tests::real::{Outcome, Subject, ensure};
use informer_tokio::informer::Initial;

use crate::Context;

/// A list, and a watch from its version. The first list accepts any version and is served from the watch cache,
/// always whole, whatever the page size. Lists in pages are in `expiry`.
pub(crate) async fn as_a_list(context: Context) -> Outcome {
    let table = context.table("lists").await?;
    table.create_many("item", 95).await?;
    let subject = Subject::start(context.direct()?, &table, |builder| {
        builder.initial(Initial::List).page_size(10)
    });
    subject.synced().await?;
    subject.agrees(&table).await?;
    let asked = subject.log.all();
    let first = asked.first().ok_or("nothing was asked")?;
    ensure(first.query("resourceVersion") == Some("0"), &subject)?;
    let version = table.create("item-later", 1).await?;
    subject.shows("item-later", &version).await?;
    ensure(
        subject.log.lists() == 1 && subject.log.watches() == 1,
        &subject,
    )?;
    Ok(())
}

/// A streaming list brings the state and continues as the watch.
pub(crate) async fn as_a_stream(context: Context) -> Outcome {
    let table = context.table("streams").await?;
    table.create_many("stream", 120).await?;
    let subject = Subject::start(context.direct()?, &table, |builder| builder);
    subject.synced().await?;
    subject.agrees(&table).await?;
    subject.follows(&table, "stream-00007", 1000).await?;
    table.delete("stream-00008").await?;
    subject.agrees(&table).await?;
    let [adds, updates, deletes, unseen] = subject.history.with(|book| book.counts);
    ensure((adds, updates, deletes, unseen) == (120, 1, 1, 0), &subject)?;
    // One request was enough.
    ensure(
        subject.log.all().len() == 1 && subject.log.lists() == 1,
        &subject,
    )?;
    Ok(())
}

/// Bookmarks advance the version while the resource does not change, and have no other effect.
pub(crate) async fn bookmarks_move_the_version(context: Context) -> Outcome {
    let (table, other) = (context.table("quiet").await?, context.table("busy").await?);
    let quiet = table.create("quiet", 1).await?;
    let subject = Subject::start(context.direct()?, &table, |builder| builder);
    subject.synced().await?;
    let before = subject.informer.resource_version();
    ensure(before.len() > quiet.len() || before >= quiet, &subject)?;
    for value in 0..20 {
        other.create(&format!("busy-{value}"), value).await?;
    }
    // The server sends a bookmark about every minute, once its watch cache knows the newer version. Not every etcd is
    // configured to push progress; a list at the latest version makes the cache request it.
    let end = tokio::time::Instant::now() + Duration::from_secs(300);
    while subject.informer.resource_version() == before {
        ensure(tokio::time::Instant::now() < end, &subject)?;
        table.list().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    subject.agrees(&table).await?;
    ensure(
        subject.history.with(|book| book.counts) == [1, 0, 0, 0],
        &subject,
    )?;
    ensure(subject.log.all().len() == 1, &subject)?;
    Ok(())
}
