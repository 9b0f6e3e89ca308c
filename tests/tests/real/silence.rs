//! Connections that die silently.

use core::time::Duration;

use informer_tests::proxy::FaultProxy;
use informer_tests::real::{Outcome, Protocol, Subject, ensure, until};
use informer_tests::say;

use crate::Context;

/// The bytes of a watch stop without a close. HTTP/2 detects it by pings, HTTP/1.1 by missing bookmarks, and the
/// watch resumes without a list.
pub(crate) async fn a_dead_connection_is_noticed(context: Context) -> Outcome {
    let limit = match context.protocol {
        Protocol::Http1 => Duration::from_secs(90),
        Protocol::Http2 => Duration::from_secs(30),
    };
    let table = context.table("silent").await?;
    table.create_many("item", 10).await?;
    let proxy = FaultProxy::start(None, context.cluster.address().await?).await?;
    let subject = Subject::start(context.through(&proxy)?, &table, |builder| builder);
    subject.synced().await?;
    subject.follows(&table, "item-00001", 1).await?;
    tokio::time::sleep(Duration::from_millis(1200)).await;

    proxy.freeze();
    let frozen = std::time::Instant::now();
    table.delete("item-00002").await?;
    let version = table.update("item-00001", 2).await?;
    let lister = subject.informer.lister();
    let shows = || {
        let entry = lister.get(table.namespace(), "item-00001");
        entry.is_some_and(|entry| entry.resource_version().to_string() == version)
    };
    let noticed = until(limit, "the death of the connection is noticed", shows).await;
    noticed.map_err(|error| format!("{error}\n{subject}"))?;
    let after = frozen.elapsed().as_secs_f32();
    say(&format!(
        "{:?}: a connection that died in silence was noticed after {after:.1} s",
        context.protocol
    ));
    subject.agrees(&table).await?;
    subject.ensure(subject.log.lists() == 1, "it listed again")?;
    ensure(subject.history.with(|book| book.counts[3]) == 0, &subject)?;
    Ok(())
}

/// The bytes pause for less than the time after which a connection counts as dead: nothing happens.
pub(crate) async fn a_pause_is_no_death(context: Context) -> Outcome {
    let table = context.table("pause").await?;
    table.create_many("item", 10).await?;
    let proxy = FaultProxy::start(None, context.cluster.address().await?).await?;
    let subject = Subject::start(context.through(&proxy)?, &table, |builder| builder);
    subject.synced().await?;
    proxy.stall(true);
    let version = table.update("item-00001", 2).await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    proxy.stall(false);
    subject.shows("item-00001", &version).await?;
    proxy.delay(Duration::from_millis(200));
    proxy.bandwidth(Some(2000));
    table.create_many("more", 20).await?;
    subject.agrees(&table).await?;
    subject.ensure(subject.log.all().len() == 1, "it asked again")?;
    Ok(())
}
