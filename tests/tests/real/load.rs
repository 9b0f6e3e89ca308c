//! Many objects, many informers, and writers at full speed; and the server's share of the work by form and protocol.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use informer_core::decode::{Decode, Form};
use informer_hyper::HyperTransport;
use informer_tests::proxy::Random;
use informer_tests::real::{
    Error, Identity, Outcome, Plane, Protocol, Recorded, Subject, Table, Usage, ensure,
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
/// end every cache and every history equal a fresh list, and each informer was notified of each event.
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
        // The server creates a ConfigMap of its own.
        let others = table.list().await?.0.len() as u64;
        create(&table, count).await?;
        let written = Written {
            adds: count + others,
            ..Written::default()
        };
        tables.push((table, count, written));
    }

    costs(&plane, &tables[0].0).await?;

    let before = usage(&plane, "without informers")?;
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
    let of_each = [tables[0].0.clone(), tables[1].0.clone()];
    agree(&of_each, &subjects).await?;
    let synced = began.elapsed();
    usage(&plane, "with synced informers")?;

    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let which = usize::from(writer % 4 == 3);
        let (table, count, _) = tables[which].clone();
        let stop = Arc::clone(&stop);
        writers.spawn(async move { (which, write(table, count, writer, stop).await) });
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.store(true, Relaxed);
    while let Some(done) = writers.join_next().await {
        let (which, written) = done?;
        tables[which].2.add(written);
    }
    let ended = Instant::now();
    agree(&of_each, &subjects).await?;
    let correct = ended.elapsed();
    let after = usage(&plane, "at the end")?;

    let (mut counts, mut merged, mut lists, mut lost) = ([0; 4], 0, 0, 0);
    for (which, subject) in &subjects {
        let of_one = subject.counts();
        counts
            .iter_mut()
            .zip(of_one)
            .for_each(|(sum, count)| *sum += count);
        merged += subject.merged();
        lists += subject.requests()[0];
        let of_one = of_one[..3].iter().sum::<u64>() + subject.merged();
        lost += tables[*which].2.events().abs_diff(of_one);
    }
    let [adds, updates, deletes, unseen] = counts;
    let mut all = Written::default();
    tables.iter().for_each(|(_, _, written)| all.add(*written));
    say(&format!(
        "{pods} Pods, {} ConfigMaps, {} informers synced after {synced:.1?}; events written in {seconds} s: {} updates, \
         {} deletions, and {} adds with the first ones, {} requests failed; notified: {adds} adds, {updates} updates, \
         {deletes} deletions ({unseen} of them by lists), {merged} merged, {lost} lost, {lists} lists; all correct \
         {correct:.1?} after the last write; processor time of the client with the writers {:.0?}, of the API server \
         {:.0?}, of etcd {:.0?}",
        pods / 4,
        subjects.len(),
        all.updates,
        all.deletes,
        all.adds,
        all.failed,
        after[0].processor - before[0].processor,
        after[1].processor - before[1].processor,
        after[2].processor - before[2].processor,
    ));
    ensure(all.updates > 0 && all.deletes > 0, "nothing happened")?;
    // A request that failed may have been applied, and a list shows the newest of several events.
    let countable = all.failed == 0 && lists == subjects.len();
    ensure(!countable || lost == 0, "events are missing")
}

/// The events that follow from the writes that the server has answered, and the number of those that failed.
#[derive(Clone, Copy, Default)]
struct Written {
    adds: u64,
    updates: u64,
    deletes: u64,
    failed: u64,
}

impl Written {
    const fn add(&mut self, other: Self) {
        self.adds += other.adds;
        self.updates += other.updates;
        self.deletes += other.deletes;
        self.failed += other.failed;
    }

    const fn events(self) -> u64 {
        self.adds + self.updates + self.deletes
    }

    /// Counts a request that failed, unless the object was deleted before.
    fn fail(&mut self, error: &Error) {
        let is_deleted = error.to_string().contains(": 404 ");
        self.failed += u64::from(!is_deleted);
    }
}

async fn create(table: &Table, count: u64) -> Outcome {
    let mut creators = JoinSet::new();
    for lane in 0..WRITERS {
        let table = table.clone();
        creators.spawn(async move {
            for index in (lane..count).step_by(WRITERS as usize) {
                let name = format!("item-{index:05}");
                table.create_minimal(&name, index).await?;
            }
            Ok::<(), Error>(())
        });
    }
    while let Some(done) = creators.join_next().await {
        done??;
    }
    Ok(())
}

/// Writes to the writer's share of the objects at full speed until it is stopped.
async fn write(table: Table, count: u64, writer: u64, stop: Arc<AtomicBool>) -> Written {
    let mut random = Random::new(writer);
    let mut written = Written::default();
    // The server ignores an update to the value that is there.
    let mut value = 100_000_000 + writer;
    while !stop.load(Relaxed) {
        let index = random.below(count / WRITERS) * WRITERS + writer;
        let name = format!("item-{index:05}");
        if random.below(20) == 0 {
            match table.delete(&name).await {
                Ok(()) => {
                    written.deletes += 1;
                    // The server sets its `deletionTimestamp` before.
                    written.updates += u64::from(table.kind() == "Pod");
                }
                Err(error) => written.fail(&error),
            }
            continue;
        }
        value += WRITERS;
        match table.label(&name, value).await {
            Ok(_) => written.updates += 1,
            Err(error) => {
                written.fail(&error);
                match table.create_minimal(&name, value).await {
                    Ok(_) => written.adds += 1,
                    Err(error) => written.fail(&error),
                }
            }
        }
    }
    written
}

/// Reports what this process, kube-apiserver and etcd use.
fn usage(plane: &Plane, when: &str) -> Outcome<[Usage; 3]> {
    let all = [
        Usage::own()?,
        plane.usage("kube-apiserver")?,
        plane.usage("etcd")?,
    ];
    let memory = all.map(|usage| format!("{} MiB (at most {})", usage.memory, usage.peak));
    say(&format!(
        "memory {when}: client {}, API server {}, etcd {}",
        memory[0], memory[1], memory[2]
    ));
    Ok(all)
}

fn follow<F>(transport: Recorded<HyperTransport>, table: &Table) -> Box<dyn Followed>
where
    F: Form,
    F::Stored: Send + Sync + 'static,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    Box::new(Subject::<F>::of_form(transport, table, |builder| builder))
}

/// Waits until each cache and each history equal a fresh list.
async fn agree(tables: &[Table], subjects: &[(usize, Box<dyn Followed>)]) -> Outcome {
    let mut truths = Vec::new();
    for table in tables {
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
    let before = plane.usage("kube-apiserver")?.processor;
    let mut subjects = Vec::new();
    for _ in 0..INFORMERS {
        let transport = cluster.transport(protocol, &Identity::Admin, None)?;
        subjects.push((0, follow::<F>(transport, table)));
    }
    let tables = [table.clone()];
    agree(&tables, &subjects).await?;
    let synced = plane.usage("kube-apiserver")?.processor;
    for change in 0..CHANGES {
        table
            .label(
                &format!("item-{change:05}"),
                1_000_000 * (round + 1) + u64::from(change),
            )
            .await?;
    }
    agree(&tables, &subjects).await?;
    let changed = plane.usage("kube-apiserver")?.processor;
    say(&format!(
        "{form} over {protocol:?}: the API server needs {:.0?} for a list, and {:.0?} for a change to {INFORMERS} watches",
        (synced - before) / INFORMERS,
        (changed - synced) / CHANGES,
    ));
    Ok(())
}
