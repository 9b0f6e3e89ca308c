//! Watches that the server ends after seconds.

use core::time::Duration;
use std::collections::BTreeMap;

use informer_tests::real::{Outcome, Subject};
use informer_tests::say;
use informer_tokio::informer::Initial;
use tokio::time::Instant;

use crate::Context;

const OBJECTS: u64 = 50;

/// Watches of one and two seconds, while objects are written for half a minute: every event arrives, without another
/// list, and a few reports say that the watches end too soon.
pub(crate) async fn are_reopened_without_a_list(context: Context) -> Outcome {
    let table = context.table("short").await?;
    table.create_many("item", usize::try_from(OBJECTS)?).await?;
    let mut subjects = Vec::new();
    for (seconds, initial) in [
        (1, Initial::List),
        (1, Initial::Stream),
        (2, Initial::List),
        (2, Initial::Stream),
    ] {
        let transport = context.direct()?;
        transport.end_watches_after(seconds);
        let subject = Subject::start(transport, &table, |builder| builder.initial(initial));
        subject.synced().await?;
        subjects.push(subject);
    }

    let [mut adds, mut updates, mut deletes] = [OBJECTS, 0, 0];
    let end = Instant::now() + Duration::from_secs(30);
    for round in 1.. {
        if Instant::now() >= end {
            break;
        }
        let name = format!("item-{:05}", round % OBJECTS);
        if round % 10 == 0 {
            table.delete(&name).await?;
            table.create(&name, round).await?;
            adds += 1;
            deletes += 1;
        } else {
            table.update(&name, 1_000 + round).await?;
            updates += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ended = Instant::now();

    let (mut watches, mut reports) = (0, BTreeMap::new());
    for subject in &subjects {
        subject.agrees(&table).await?;
        let notified = subject.history.with(|book| book.counts);
        subject.ensure(
            notified == [adds, updates, deletes, 0],
            format_args!("{adds} adds, {updates} updates, {deletes} deletions were written"),
        )?;
        subject.ensure(subject.log.lists() == 1, "it listed again")?;
        subject.ensure(subject.log.watches() > 5, "its watches were not short")?;
        let mut of_one = BTreeMap::new();
        subject.count_reports(&mut of_one);
        let only_short = of_one.keys().all(|class| *class == "short-watches");
        subject.ensure(
            only_short && subject.reports("short-watches") <= 12,
            format_args!("it reported {of_one:?}"),
        )?;
        watches += subject.log.watches();
        subject.count_reports(&mut reports);
    }
    say(&format!(
        "{:?}: {} events written in 30 s, each notified to {} informers; {watches} watches, no list, reports {reports:?}; \
         all correct {:.1?} after the last write",
        context.protocol,
        adds - OBJECTS + updates + deletes,
        subjects.len(),
        ended.elapsed(),
    ));
    Ok(())
}
