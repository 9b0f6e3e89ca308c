//! All faults at once, for a while.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use informer_tests::proxy::{Chaos, Cut, FaultProxy, Random};
use informer_tests::real::{Error, Identity, Outcome, Protocol, Subject, Table, ensure};
use informer_tests::say;

use crate::Context;

/// The numbers of objects, informers, and proxies and writers.
const OBJECTS: usize = 5000;
const INFORMERS: usize = 20;
const PROXIES: usize = 4;
const WRITERS: u64 = 4;

/// Writers at full speed with random faults. At the end every cache equals a fresh list, so does the fold of every
/// history, and no deletion was notified twice.
///
/// It runs for `INFORMER_TEST_SOAK` seconds, or 45, and starts with the seed `INFORMER_TEST_SEED`.
pub(crate) async fn all_converges(context: Context) -> Outcome {
    let seconds = number("INFORMER_TEST_SOAK", 45)?;
    let seed = number("INFORMER_TEST_SEED", 1)?;
    let table = context.table("soak").await?;
    table.create_many("item", OBJECTS).await?;
    let mut proxies = Vec::new();
    for _ in 0..PROXIES {
        let proxy = FaultProxy::start(None, context.cluster.address().await?).await?;
        proxies.push(Arc::new(proxy));
    }
    let mut subjects = Vec::new();
    for index in 0..INFORMERS {
        let protocol = if index % 2 == 0 {
            Protocol::Http1
        } else {
            Protocol::Http2
        };
        let proxy = &proxies[index % PROXIES];
        let transport =
            context
                .cluster
                .transport(protocol, &Identity::Admin, Some(proxy.address()))?;
        subjects.push(Subject::start(transport, &table, |builder| builder));
    }
    for subject in &subjects {
        subject.synced().await?;
    }

    let stop = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let random = Random::new(seed.wrapping_mul(1000) + writer);
        writers.spawn(write(
            table.clone(),
            writer,
            random,
            Arc::clone(&stop),
            Arc::clone(&written),
        ));
    }
    let mut chaos = tokio::task::JoinSet::new();
    for (index, proxy) in (0..).zip(&proxies) {
        let (proxy, stop) = (Arc::clone(proxy), Arc::clone(&stop));
        chaos.spawn(async move {
            let mut chaos = Chaos::new(seed.wrapping_add(index));
            while !stop.load(Relaxed) {
                chaos.step(&proxy).await;
            }
            chaos
        });
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.store(true, Relaxed);
    while let Some(done) = writers.join_next().await {
        done??;
    }
    let mut faults = BTreeMap::<&str, u64>::new();
    while let Some(chaos) = chaos.join_next().await {
        for (kind, count) in chaos?.counts() {
            *faults.entry(kind).or_default() += count;
        }
    }
    for proxy in &proxies {
        proxy.calm();
        // Half-open connections would be detected eventually, but the run is over.
        proxy.cut(Cut::Close);
    }
    let mut notified = [0; 4];
    let (mut lists, mut watches) = (0, 0);
    let mut reports = BTreeMap::new();
    for subject in &subjects {
        subject.agrees(&table).await?;
        let counts = subject.history.with(|book| book.counts);
        notified
            .iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
        subject.count_reports(&mut reports);
        lists += subject.log.answered_lists();
        watches += subject.log.answered_watches();
    }
    let (truth, _) = table.list().await?;
    let [adds, updates, deletes, unseen] = notified;
    say(&format!(
        "{seconds} s with seed {seed}: {} writes, {} objects left, faults {faults:?}; {INFORMERS} informers were notified \
         {adds} adds, {updates} updates, {deletes} deletions ({unseen} of them unseen), by {lists} lists and {watches} \
         resumed watches; reports {reports:?}",
        written.load(Relaxed),
        truth.len(),
    ));
    ensure(updates > 0 && deletes > 0, "nothing happened")?;
    Ok(())
}

/// Creates, changes and deletes its share of the objects as fast as the server permits.
async fn write(
    table: Table,
    writer: u64,
    mut random: Random,
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
) -> Result<(), Error> {
    let share = OBJECTS as u64 / WRITERS;
    let mut there = vec![true; usize::try_from(share)?];
    while !stop.load(Relaxed) {
        let index = random.below(share);
        let name = format!("item-{:05}", index * WRITERS + writer);
        let is_there = &mut there[usize::try_from(index)?];
        if !*is_there {
            table.create(&name, random.below(1000)).await?;
            *is_there = true;
        } else if random.below(10) == 0 {
            table.delete(&name).await?;
            *is_there = false;
        } else {
            table.update(&name, random.below(1_000_000)).await?;
        }
        written.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Reads a number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> Outcome<u64> {
    match std::env::var(variable) {
        Ok(text) => Ok(text.parse()?),
        Err(_) => Ok(default),
    }
}
