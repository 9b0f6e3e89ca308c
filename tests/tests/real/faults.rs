//! Faults of the server itself, on a control plane that belongs to the test. Writers write through each fault; then
//! every cache equals a fresh list, and so does the fold of each handler's history.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;

use informer_core::decode::{Decode, Form};
use informer_hyper::HyperTransport;
use informer_tests::proxy::Random;
use informer_tests::real::{
    Identity, Outcome, Plane, Protocol, Recorded, Subject, Table, Versions,
};
use informer_tests::say;
use informer_tokio::informer::Initial;
use informer_tokio::{Json, Meta, Packed, Raw};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Context;

/// The time in which every cache has to be correct after a fault.
const PATIENCE: Duration = Duration::from_secs(150);
/// Objects of each resource.
const OBJECTS: u64 = 100;

/// Servers that are killed, frozen, restarted with other flags.
pub(crate) async fn of_the_server(context: Context) -> Outcome {
    let plane = Plane::start(context.assets()?, &[]).await?;
    let scene = Scene::new(&plane, &Identity::Admin, None).await?;

    scene
        .through("killed", async {
            plane.kill().await?;
            plane.restart(&[]).await
        })
        .await?;
    scene
        .through("API server frozen", async {
            plane.signal("kube-apiserver", "-STOP").await?;
            tokio::time::sleep(Duration::from_secs(3)).await;
            plane.signal("kube-apiserver", "-CONT").await
        })
        .await?;
    scene
        .through("etcd frozen", async {
            plane.signal("etcd", "-STOP").await?;
            tokio::time::sleep(Duration::from_secs(5)).await;
            plane.signal("etcd", "-CONT").await
        })
        .await?;
    scene
        .through("no watch cache", async {
            plane.stop().await?;
            plane.restart(&["--watch-cache=false"]).await
        })
        .await?;
    scene
        .through("compacted", async {
            plane.compact(&scene_version(&plane).await?).await
        })
        .await?;
    scene
        .through("GOAWAY", async {
            plane.stop().await?;
            plane
                .restart(&["--goaway-chance=0.02", "--min-request-timeout=3"])
                .await?;
            tokio::time::sleep(Duration::from_secs(3)).await;
            Ok(())
        })
        .await?;
    Ok(())
}

/// Returns the version of the newest state.
async fn scene_version(plane: &Plane) -> Outcome<String> {
    let cluster = plane.cluster().await?;
    let (_, list) = cluster
        .request(http::Method::GET, "/api/v1/nodes", None)
        .await?;
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.ok_or("a list without a version")?.to_owned())
}

/// A control plane with objects of several resources, and informers of every form over both protocols.
pub(crate) struct Scene {
    tables: Vec<Table>,
    subjects: Vec<(usize, Box<dyn Followed>)>,
}

/// An informer of any form.
pub(crate) trait Followed: Send {
    fn differences(&self, truth: &Versions) -> Vec<String>;
    /// Adds, updates, deletions, deletions that a list showed.
    fn counts(&self) -> [u64; 4];
    /// Notifications that the handler did not get separately, since it was too slow.
    fn merged(&self) -> u64;
    /// Lists and watches that were sent.
    fn requests(&self) -> [usize; 2];
    fn reports(&self, class: &str) -> usize;
    fn answers(&self, status: u16) -> usize;
    fn text(&self) -> String;
}

impl<F: Form> Followed for Subject<F>
where
    F::Stored: Send + Sync,
{
    fn differences(&self, truth: &Versions) -> Vec<String> {
        Self::differences(self, truth)
    }

    fn counts(&self) -> [u64; 4] {
        self.history.with(|book| book.counts)
    }

    fn merged(&self) -> u64 {
        let handlers = self.informer.health().handlers;
        handlers.iter().map(|handler| handler.lag.merged).sum()
    }

    fn requests(&self) -> [usize; 2] {
        [self.log.answered_lists(), self.log.answered_watches()]
    }

    fn reports(&self, class: &str) -> usize {
        Self::reports(self, class)
    }

    fn answers(&self, status: u16) -> usize {
        let asked = self.log.all();
        asked
            .iter()
            .filter(|asked| asked.status == Some(status))
            .count()
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

impl Scene {
    /// Creates the objects, and starts the informers, through a proxy if there is one.
    pub(crate) async fn new(
        plane: &Plane,
        identity: &Identity,
        proxy: Option<SocketAddr>,
    ) -> Outcome<Self> {
        let cluster = plane.cluster().await?;
        let mut tables = vec![cluster.table("faulty").await?];
        for definition in [
            "configmaps.v1.",
            "pods.v1.",
            "leases.v1.coordination.k8s.io",
        ] {
            tables.push(cluster.built_in(definition).await?.in_namespace("default"));
        }
        for table in &tables {
            for index in 0..OBJECTS {
                write(table, index, 0).await?;
            }
        }
        let mut scene = Self {
            tables,
            subjects: Vec::new(),
        };
        for index in 0..scene.tables.len() {
            let transport = |protocol| cluster.transport(protocol, identity, proxy);
            let (http1, http2) = (transport(Protocol::Http1)?, transport(Protocol::Http2)?);
            scene.follow::<Raw>(http2.anew(), index, Initial::Stream);
            scene.follow::<Json<Value>>(http1.anew(), index, Initial::List);
            scene.follow::<Meta>(http2, index, Initial::List);
            scene.follow::<Packed<Raw>>(http1, index, Initial::Stream);
        }
        scene.through("nothing", async { Ok(()) }).await?;
        Ok(scene)
    }

    fn follow<F>(&mut self, transport: Recorded<HyperTransport>, index: usize, initial: Initial)
    where
        F: Form,
        F::Stored: Send + Sync + 'static,
        F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
    {
        let subject = Subject::<F>::of_form(transport, &self.tables[index], |builder| {
            builder.namespace("default").initial(initial)
        });
        self.subjects.push((index, Box::new(subject)));
    }

    /// Returns the number of reports of a class, of each informer.
    pub(crate) fn reports(&self, class: &str) -> Vec<usize> {
        let subjects = self.subjects.iter();
        subjects
            .map(|(_, subject)| subject.reports(class))
            .collect()
    }

    /// Returns the number of answers with a status.
    pub(crate) fn answers(&self, status: u16) -> usize {
        self.subjects
            .iter()
            .map(|(_, subject)| subject.answers(status))
            .sum()
    }

    /// Runs a fault while writers write, and waits until everything is correct again.
    pub(crate) async fn through(
        &self,
        what: &str,
        fault: impl Future<Output = Outcome>,
    ) -> Outcome {
        let before = self.counts();
        let (stop, written) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let mut writers = JoinSet::new();
        for (seed, table) in (0..).zip(&self.tables) {
            writers.spawn(write_on(
                table.clone(),
                seed,
                Arc::clone(&stop),
                Arc::clone(&written),
            ));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        fault.await?;
        let ended = Instant::now();
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.store(true, Relaxed);
        while let Some(done) = writers.join_next().await {
            done?;
        }
        let took = self
            .agrees(ended)
            .await
            .map_err(|error| format!("{what}: {error}"))?;
        let [adds, updates, deletes, unseen, lists, watches] = self.counts();
        let [a, u, d, n, l, w] = before;
        say(&format!(
            "{what}: {} writes; {} adds, {} updates, {} deletions ({} of them by lists) notified, 0 lost; {} lists, {} \
             watches; correct after {took:.1?}",
            written.load(Relaxed),
            adds - a,
            updates - u,
            deletes - d,
            unseen - n,
            lists - l,
            watches - w,
        ));
        Ok(())
    }

    /// Waits until each cache and each history equal a fresh list. Returns the time since the fault ended.
    async fn agrees(&self, ended: Instant) -> Outcome<Duration> {
        let mut truths = Vec::new();
        for table in &self.tables {
            // The server may not be ready.
            let truth = loop {
                match table.list().await {
                    Ok((truth, _)) => break truth,
                    Err(error) if ended.elapsed() > PATIENCE => return Err(error),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            truths.push(truth);
        }
        for (index, subject) in &self.subjects {
            loop {
                let mut differences = subject.differences(&truths[*index]);
                if differences.is_empty() {
                    break;
                }
                if ended.elapsed() > PATIENCE {
                    differences.truncate(10);
                    return Err(format!("{}\n{}", differences.join("\n"), subject.text()).into());
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(ended.elapsed())
    }

    fn counts(&self) -> [u64; 6] {
        let mut sum = [0; 6];
        for (_, subject) in &self.subjects {
            let requests = subject.requests().map(|count| count as u64);
            let of_one = subject.counts().into_iter().chain(requests);
            sum.iter_mut()
                .zip(of_one)
                .for_each(|(sum, count)| *sum += count);
        }
        sum
    }
}

/// Writes until it is stopped, whether the server takes it or not.
async fn write_on(table: Table, seed: u64, stop: Arc<AtomicBool>, written: Arc<AtomicU64>) {
    let mut random = Random::new(seed);
    while !stop.load(Relaxed) {
        let index = random.below(OBJECTS);
        let done = write(&table, index, 1 + random.below(1_000_000));
        if tokio::time::timeout(Duration::from_secs(5), done)
            .await
            .is_ok_and(|done| done.is_ok())
        {
            written.fetch_add(1, Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Creates an object, changes it, or deletes it.
async fn write(table: &Table, index: u64, value: u64) -> Outcome {
    let name = format!("item-{index:05}");
    if value != 0 && value.is_multiple_of(10) {
        return table.delete(&name).await;
    }
    if value == 0 || table.label(&name, value).await.is_err() {
        table.create_minimal(&name, value).await?;
    }
    Ok(())
}
