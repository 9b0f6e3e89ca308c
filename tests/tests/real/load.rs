//! Many objects, many informers, and writers at full speed; and the server's share of the work by form and protocol.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use informer_core::decode::{Decode, Form};
use informer_hyper::HyperTransport;
use informer_tests::proxy::Random;
use informer_tests::real::{
    Error, Identity, Outcome, Plane, Protocol, Recorded, Subject, Table, ensure,
};
use informer_tests::say;
use informer_tokio::{Json, Meta, Packed, Raw};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Context;
use crate::faults::Followed;
use crate::soak::number;

/// The part of an object that is stored by the typed informers.
#[derive(Deserialize)]
struct Typed {
    #[expect(dead_code, reason = "it is stored")]
    spec: Option<serde_json::Value>,
}

const WRITERS: u64 = 8;

/// Pods and ConfigMaps, five informers of each form (half of them of each protocol), and writers at full speed. At the
/// end every cache and every history equal a fresh list.
///
/// `INFORMER_TEST_PODS` (2,000; the ConfigMaps are a quarter of that) and `INFORMER_TEST_LOAD` (15 seconds) set the size.
pub(crate) async fn nothing_is_lost(context: Context) -> Outcome {
    let pods = number("INFORMER_TEST_PODS", 2_000)?;
    let seconds = number("INFORMER_TEST_LOAD", 15)?;
    let plane = Plane::start(context.assets()?, &[]).await?;
    let cluster = plane.cluster().await?;
    let mut tables = Vec::new();
    for (definition, count) in [("pods.v1.", pods), ("configmaps.v1.", pods / 4)] {
        let table = cluster.built_in(definition).await?.in_namespace("default");
        let mut creators = JoinSet::new();
        for lane in 0..WRITERS {
            let table = table.clone();
            creators.spawn(async move {
                for index in (lane..count).step_by(WRITERS as usize) {
                    table
                        .create_minimal(&format!("item-{index:05}"), index)
                        .await?;
                }
                Ok::<(), Error>(())
            });
        }
        while let Some(done) = creators.join_next().await {
            done??;
        }
        tables.push((table, count));
    }

    costs(&plane, &tables[0].0).await?;

    let mut subjects: Vec<(usize, Box<dyn Followed>)> = Vec::new();
    let began = Instant::now();
    for index in 0..5 {
        let protocol = [Protocol::Http1, Protocol::Http2][index % 2];
        // Three of five are of Pods.
        let which = index % 2;
        let table = &tables[which].0;
        let transport = || cluster.transport(protocol, &Identity::Admin, None);
        subjects.push((which, follow::<Raw>(transport()?, table)));
        subjects.push((which, follow::<Json<Typed>>(transport()?, table)));
        subjects.push((which, follow::<Meta>(transport()?, table)));
        subjects.push((which, follow::<Packed<Raw>>(transport()?, table)));
    }
    agree(&tables, &subjects).await?;
    let synced = began.elapsed();

    let (stop, written) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (table, count) = tables[usize::from(writer % 4 == 3)].clone();
        let (stop, written) = (Arc::clone(&stop), Arc::clone(&written));
        writers.spawn(async move {
            let mut random = Random::new(writer);
            while !stop.load(Relaxed) {
                let name = format!("item-{:05}", random.below(count));
                match random.below(20) {
                    // Another writer may have been faster.
                    0 => drop(table.delete(&name).await),
                    value => {
                        if table
                            .label(&name, value + random.below(1_000_000))
                            .await
                            .is_err()
                        {
                            drop(table.create_minimal(&name, value).await);
                        }
                    }
                }
                written.fetch_add(1, Relaxed);
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.store(true, Relaxed);
    while let Some(done) = writers.join_next().await {
        done?;
    }
    let ended = Instant::now();
    agree(&tables, &subjects).await?;
    let mut counts = [0; 4];
    let mut lists = 0;
    for (_, subject) in &subjects {
        counts
            .iter_mut()
            .zip(subject.counts())
            .for_each(|(sum, count)| *sum += count);
        lists += subject.requests()[0];
    }
    let [adds, updates, deletes, unseen] = counts;
    say(&format!(
        "{pods} Pods, {} ConfigMaps, {} informers synced after {synced:.1?}; {} writes in {seconds} s; {adds} adds, \
         {updates} updates, {deletes} deletions ({unseen} of them by lists) notified, 0 lost, {lists} lists; all correct \
         {:.1?} after the last write",
        pods / 4,
        subjects.len(),
        written.load(Relaxed),
        ended.elapsed(),
    ));
    ensure(updates > 0 && deletes > 0, "nothing happened")
}

fn follow<F>(transport: Recorded<HyperTransport>, table: &Table) -> Box<dyn Followed>
where
    F: Form,
    F::Stored: Send + Sync + 'static,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    let subject = Subject::<F>::of_form(transport, table, |builder| builder.namespace("default"));
    Box::new(subject)
}

/// Waits until each cache and each history equal a fresh list.
async fn agree(tables: &[(Table, u64)], subjects: &[(usize, Box<dyn Followed>)]) -> Outcome {
    let mut truths = Vec::new();
    for (table, _) in tables {
        truths.push(table.list().await?.0);
    }
    let end = Instant::now() + Duration::from_secs(120);
    for (which, subject) in subjects {
        loop {
            let mut differences = subject.differences(&truths[*which]);
            if differences.is_empty() {
                break;
            }
            if Instant::now() > end {
                differences.truncate(5);
                return Err(format!("{}\n{}", differences.join("\n"), subject.text()).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Measures the processor time that kube-apiserver needs to let four informers sync, and to notify them of 100 changes.
async fn costs(plane: &Plane, table: &Table) -> Outcome {
    for (round, protocol) in [(0, Protocol::Http1), (4, Protocol::Http2)] {
        cost::<Raw>(plane, table, protocol, round, "raw").await?;
        cost::<Json<Typed>>(plane, table, protocol, round + 1, "typed").await?;
        cost::<Meta>(plane, table, protocol, round + 2, "metadata").await?;
        cost::<Packed<Raw>>(plane, table, protocol, round + 3, "packed").await?;
    }
    Ok(())
}

async fn cost<F>(
    plane: &Plane,
    table: &Table,
    protocol: Protocol,
    round: u64,
    form: &str,
) -> Outcome
where
    F: Form,
    F::Stored: Send + Sync + 'static,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    const INFORMERS: u32 = 4;
    const CHANGES: u32 = 100;
    let cluster = table.cluster();
    let before = plane.processor_time("kube-apiserver")?;
    let mut subjects = Vec::new();
    for _ in 0..INFORMERS {
        let transport = cluster.transport(protocol, &Identity::Admin, None)?;
        subjects.push((0, follow::<F>(transport, table)));
    }
    let tables = [(table.clone(), 0)];
    agree(&tables, &subjects).await?;
    let synced = plane.processor_time("kube-apiserver")?;
    for change in 0..CHANGES {
        table
            .label(
                &format!("item-{change:05}"),
                1_000_000 * (round + 1) + u64::from(change),
            )
            .await?;
    }
    agree(&tables, &subjects).await?;
    let changed = plane.processor_time("kube-apiserver")?;
    say(&format!(
        "{form} over {protocol:?}: the API server needs {:.0?} for a list, and {:.0?} for a change to {INFORMERS} watches",
        (synced - before) / INFORMERS,
        (changed - synced) / CHANGES,
    ));
    Ok(())
}
