//! A watch that is cut resumes where it was, without a list.

use core::time::Duration;

use informer_tests::proxy::{Cut, FaultProxy};
use informer_tests::real::{Outcome, Subject, ensure, until};

use crate::Context;

/// An action on the connection.
type Harm = fn(&FaultProxy);

/// The kinds of cuts, applied one after another to the same informer.
const CUTS: [(&str, Harm); 7] = [
    ("closed", |proxy| proxy.cut(Cut::Close)),
    ("reset", |proxy| proxy.cut(Cut::Reset)),
    ("closed at the next byte", |proxy| {
        proxy.cut_after(1, Cut::Close);
    }),
    ("reset at the next byte", |proxy| {
        proxy.cut_after(1, Cut::Reset);
    }),
    ("closed in the middle of an event", |proxy| {
        proxy.cut_after(300, Cut::Close);
    }),
    ("reset in the middle of an event", |proxy| {
        proxy.cut_after(300, Cut::Reset);
    }),
    ("reset, and no server for a while", |proxy| {
        proxy.refuse(true);
        proxy.cut(Cut::Reset);
    }),
];

/// A watch that received an event and is cut resumes at its version: no list, nothing lost, nothing twice.
pub(crate) async fn every_cut_is_resumed(context: Context) -> Outcome {
    let table = context.table("cuts").await?;
    table.create_many("cut", 30).await?;
    let proxy = FaultProxy::start(None, context.cluster.address().await?).await?;
    let subject = Subject::start(context.through(&proxy)?, &table, |builder| builder);
    subject.synced().await?;
    for (round, (kind, cut)) in CUTS.into_iter().enumerate() {
        // It lives for more than a second and receives an event, so it is no short watch.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        subject
            .follows(&table, "cut-00001", 100 + round as u64)
            .await?;
        let opened = subject.log.answered_watches();
        cut(&proxy);
        // A change without a connection, or on the part of the connection that is cut.
        let version = table.update("cut-00002", 100 + round as u64).await?;
        table.delete(&format!("cut-000{}", 10 + round)).await?;
        if round + 1 == CUTS.len() {
            tokio::time::sleep(Duration::from_secs(4)).await;
            proxy.refuse(false);
        }
        subject
            .shows("cut-00002", &version)
            .await
            .map_err(|error| format!("{kind}: {error}"))?;
        let resumed = || subject.log.answered_watches() > opened;
        until(Duration::from_secs(60), kind, resumed).await?;
    }
    subject.agrees(&table).await?;
    subject.ensure(subject.log.lists() == 1, "it listed again")?;
    ensure(subject.history.with(|book| book.counts[3]) == 0, &subject)?;
    Ok(())
}
