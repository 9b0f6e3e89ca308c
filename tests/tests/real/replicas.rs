//! Replicas that share keys on a real API server, and are killed.
//!
//! A server for custom resources alone has no Leases. There a custom resource with the relevant fields replaces them: the
//! guarantee depends only on a single object and on optimistic concurrency.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::Method;
use informer_tests::real::{Error, Identity, Outcome, Table, ensure, until};
use informer_tokio::controller::{Controller, ControllerHandle};
use informer_tokio::election::{
    ElectionConfig, LeaseClient, LeaseRecord, MembersClient, Replica, Written,
};
use informer_tokio::{Informer, Key, Raw};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::Context;

#[derive(Clone)]
struct Leases {
    table: Table,
    name: String,
    renewals: u64,
    /// The process is dead, and sends nothing.
    is_dead: Arc<AtomicBool>,
}

impl Leases {
    fn object(&mut self, record: &LeaseRecord, version: Option<&str>) -> Value {
        self.renewals += 1;
        let api_version = self.table.resource().as_ref().api_version().to_string();
        let mut object = json!({
            "apiVersion": api_version, "kind": self.table.kind(),
            "metadata": { "name": self.name },
            "spec": {
                "holderIdentity": record.holder,
                "leaseDurationSeconds": record.duration_seconds,
                "renewTime": format!("2001-01-01T00:00:00.{:06}Z", self.renewals),
            },
        });
        if let Some(version) = version {
            object["metadata"]["resourceVersion"] = version.into();
        }
        object
    }

    fn lives(&self) -> Result<(), Error> {
        ensure(!self.is_dead.load(Ordering::Relaxed), "dead")
    }
}

fn record(lease: &Value) -> LeaseRecord {
    let text = |member: &str| {
        lease["spec"][member]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let mut record = LeaseRecord::default();
    record.holder = text("holderIdentity");
    record.renewed = text("renewTime");
    record
}

fn written((status, answer): (u16, Value)) -> Result<Written, Error> {
    match status {
        200 | 201 => Ok(Written::Done(version(&answer))),
        409 => Ok(Written::Conflict),
        _ => Err(format!("{status} {answer}").into()),
    }
}

fn version(object: &Value) -> String {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap_or_default().to_owned()
}

impl LeaseClient for Leases {
    type Error = Error;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, Error> {
        self.lives()?;
        let (status, lease) = self.table.request(Method::GET, &self.name, None).await?;
        Ok((status == 200).then(|| (record(&lease), version(&lease))))
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, Error> {
        self.lives()?;
        let object = self.object(record, None);
        written(self.table.request(Method::POST, "", Some(&object)).await?)
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        version: &str,
        _: bool,
    ) -> Result<Written, Error> {
        self.lives()?;
        let object = self.object(record, Some(version));
        let answer = self.table.request(Method::PUT, &self.name, Some(&object));
        written(answer.await?)
    }
}

impl MembersClient for Leases {
    type Error = Error;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, Error> {
        let (status, list) = self.table.request(Method::GET, "", None).await?;
        let items = list["items"].as_array().filter(|_| status == 200);
        let items = items.ok_or_else(|| format!("{status} {list}"))?;
        Ok(items.iter().map(record).collect())
    }
}

/// Observations of all replicas.
#[derive(Default)]
struct Seen {
    running: BTreeMap<Key, String>,
    done: BTreeMap<String, String>,
    by: BTreeMap<Key, String>,
    moved: usize,
    wrong: Vec<String>,
}

type Observer = Arc<Mutex<Seen>>;

struct Working(Observer, Key);

impl Working {
    fn begin(observer: &Observer, key: &Key, who: &str) -> Self {
        let mut seen = observer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = seen.running.insert(key.clone(), who.to_owned()) {
            seen.wrong
                .push(format!("{key} is begun by {who} while {other} works on it"));
        }
        let last = seen.by.insert(key.clone(), who.to_owned());
        seen.moved += usize::from(last.is_some_and(|last| last != who));
        drop(seen);
        Self(Arc::clone(observer), key.clone())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.running.remove(&self.1);
    }
}

struct One {
    replica: Replica,
    controller: ControllerHandle,
    is_dead: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl One {
    fn start(
        context: &Context,
        keys: &Table,
        leases: &Table,
        name: &str,
        observer: &Observer,
    ) -> Outcome<Self> {
        let transport = context
            .cluster
            .transport(context.protocol, &Identity::Admin, None)?;
        let (informer, driver) =
            Informer::<Raw>::builder_for(&transport, keys.resource().as_ref()).build();
        let lease = Leases {
            table: leases.clone(),
            name: name.to_owned(),
            renewals: 0,
            is_dead: Arc::default(),
        };
        let is_dead = Arc::clone(&lease.is_dead);
        let mut config = ElectionConfig::default();
        config.lease_duration = Duration::from_secs(6);
        config.renew_deadline = Duration::from_secs(4);
        config.retry_period = Duration::from_millis(500);
        let (replica, work) = Replica::new(lease.clone(), lease, name, config)?;
        let controller = Controller::new(&informer)
            .workers(4)
            .sharing((replica.clone(), work));
        let handle = controller.handle();
        let (who, observer, lister) = (name.to_owned(), Arc::clone(observer), informer.lister());
        let running = controller.run(move |task| {
            let (who, observer) = (who.clone(), Arc::clone(&observer));
            let state = lister.get_by_key(task.as_str());
            async move {
                let _working = Working::begin(&observer, task.key(), &who);
                tokio::time::sleep(Duration::from_millis(150)).await;
                let version = state.map(|state| state.resource_version().to_string());
                let mut seen = observer.lock().unwrap_or_else(PoisonError::into_inner);
                seen.done
                    .insert(task.to_string(), version.unwrap_or_default());
                Ok::<_, Error>(())
            }
        });
        Ok(Self {
            replica,
            controller: handle,
            tasks: vec![
                tokio::spawn(driver.run()),
                tokio::spawn(async move { drop(running.await) }),
            ],
            is_dead,
        })
    }

    /// It disappears at once and without notice.
    fn kill(&self) {
        // The task that renews the Lease outlives the controller, but not a process.
        self.is_dead.store(true, Ordering::Relaxed);
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Three replicas, one of which is repeatedly killed at a random moment while another starts. Every change of every
/// key is reconciled, and no two replicas work on a key at the same time.
pub(crate) async fn every_key_is_done_and_by_one_at_a_time(context: Context) -> Outcome {
    let keys = context.table("shared").await?;
    let leases = match context.kubectl {
        Some(_) => {
            let namespace = ["create", "namespace", "replicas"];
            context.kubectl()?.run(&namespace).await?;
            let leases = context.cluster.built_in("leases.v1.coordination.k8s.io");
            leases.await?.in_namespace("replicas")
        }
        None => context.table("leases").await?,
    };
    keys.create_many("item", 20).await?;
    let observer = Observer::default();
    let mut replicas: Vec<One> = Vec::new();
    let mut started = 0;
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 1..=6_u64 {
        while replicas.len() < 3 {
            started += 1;
            replicas.push(One::start(
                &context,
                &keys,
                &leases,
                &format!("replica-{started}"),
                &observer,
            )?);
        }
        for number in 0..20 {
            keys.update(&format!("item-{number:05}"), 100 * round + number)
                .await?;
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        tokio::time::sleep(Duration::from_millis(6_500 + random % 3_000)).await;
        let which = usize::try_from(random >> 32)? % replicas.len();
        replicas.swap_remove(which).kill();
    }
    for number in 0..20 {
        keys.update(&format!("item-{number:05}"), 10_000 + number)
            .await?;
    }
    let (versions, _) = keys.list().await?;
    let truth: BTreeMap<String, String> = versions
        .into_iter()
        .map(|(key, (_, version))| (key, version))
        .collect();
    let lock = || observer.lock().unwrap_or_else(PoisonError::into_inner);
    until(
        Duration::from_secs(60),
        "the last change of every key is done",
        || lock().done == truth,
    )
    .await?;
    ensure(
        replicas.iter().any(|one| one.replica.is_active()),
        "somebody is at work",
    )?;
    for one in &replicas {
        one.controller.stop();
    }
    let wrong = lock().wrong.clone();
    let moved = lock().moved;
    ensure(wrong.is_empty(), format_args!("{wrong:?}"))?;
    ensure(moved > 10, format_args!("{moved} keys changed hands"))?;
    replicas.iter().for_each(One::kill);
    if context.kubectl.is_some() {
        let namespace = ["delete", "namespace", "replicas", "--wait=false"];
        context.kubectl()?.run(&namespace).await?;
    }
    Ok(())
}
