//! What the tests share: a fake API server with Pods, what it and a cache have, and Leases.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use informer_core::Form;
use informer_mock::{FakeServer, Mock, TokioClock, json};
use informer_tokio::election::{LeaseClient, LeaseRecord, MembersClient, Written};
use informer_tokio::{Event, Informer, Resource};
use serde_json::Value;
use tokio::time::sleep;

pub(crate) const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

pub(crate) type Server = Mock<FakeServer, TokioClock>;
/// The versions of objects, by key.
pub(crate) type Known = BTreeMap<String, String>;

pub(crate) fn server() -> Server {
    Mock::with_clock(FakeServer::new(1), TokioClock::new())
}

/// Returns a server with the Pods `p0`, `p1` and so on.
pub(crate) fn server_of(count: u64) -> Server {
    let mock = server();
    for number in 0..count {
        mock.create("pods", pod(&format!("p{number}"), 0)).unwrap();
    }
    mock
}

pub(crate) fn pod(name: &str, round: u64) -> Value {
    json!({ "metadata": { "name": name, "namespace": "prod" }, "spec": { "round": round } })
}

/// Returns the Pods of the server.
pub(crate) fn truth(mock: &Server) -> Known {
    truth_of(mock, "pods")
}

pub(crate) fn truth_of(mock: &Server, resource: &str) -> Known {
    mock.with(|server| {
        let objects = server.objects(resource);
        objects
            .map(|object| (object.key(), object.version().to_string()))
            .collect()
    })
}

/// Returns the objects of a cache.
pub(crate) fn held<F: Form>(informer: &Informer<F>) -> Known {
    let entries = informer.lister().list();
    let objects = entries.iter();
    objects
        .map(|entry| {
            (
                entry.key().to_string(),
                entry.resource_version().to_string(),
            )
        })
        .collect()
}

/// Formats an event: `++name` is an add in the initial state; `+`, `~` and `-` are an add, an update and a deletion
/// after it; `-?` is an unobserved deletion; `=` is a replay.
pub(crate) fn shown<F: Form>(event: &Event<F>) -> String {
    let (sign, entry) = match event {
        Event::Added {
            entry,
            is_in_initial_list: true,
        } => ("++", entry),
        Event::Added { entry, .. } => ("+", entry),
        Event::Updated { new, .. } => ("~", new),
        Event::Replayed { entry, .. } => ("=", entry),
        Event::Deleted {
            entry,
            final_state_unknown: true,
        } => ("-?", entry),
        Event::Deleted { entry, .. } => ("-", entry),
        Event::Synced => return "synced".to_owned(),
        _ => return "?".to_owned(),
    };
    format!("{sign}{}", entry.name())
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A small pseudorandom generator, the same in each run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Leases by name, and the state of the network.
#[derive(Clone, Default)]
pub(crate) struct Leases(Arc<Mutex<Api>>);

#[derive(Default)]
struct Api {
    leases: BTreeMap<String, (LeaseRecord, u64)>,
    writes: u64,
    /// The replicas that get no responses, or those of their requests that get none, such as `a list`.
    cut_off: BTreeSet<String>,
    /// The same of requests that fail.
    refused: BTreeSet<String>,
}

/// The access of one replica to the Leases.
#[derive(Clone)]
pub(crate) struct Access {
    leases: Leases,
    lease: String,
    replica: String,
}

impl Leases {
    pub(crate) fn access(&self, lease: &str, replica: &str) -> Access {
        Access {
            leases: self.clone(),
            lease: lease.to_owned(),
            replica: replica.to_owned(),
        }
    }

    pub(crate) fn cut_off(&self, replica: &str) {
        self.api().cut_off.insert(replica.to_owned());
    }

    pub(crate) fn refuse(&self, replica: &str) {
        self.api().refused.insert(replica.to_owned());
    }

    /// Returns whether the replica was cut off.
    pub(crate) fn reconnect(&self, replica: &str) -> bool {
        let mut api = self.api();
        api.refused.remove(replica);
        api.cut_off.remove(replica)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.api().leases.keys().cloned().collect()
    }

    pub(crate) fn holder(&self, lease: &str) -> Option<String> {
        let api = self.api();
        api.leases
            .get(lease)
            .map(|(record, _)| record.holder.clone())
    }

    fn api(&self) -> MutexGuard<'_, Api> {
        self.0.lock().unwrap()
    }
}

impl Access {
    /// A request takes time, and none arrives if the replica is cut off.
    async fn reach(&self, request: &str) -> Result<MutexGuard<'_, Api>, String> {
        sleep(Duration::from_millis(30)).await;
        let names = [self.replica.clone(), format!("{} {request}", self.replica)];
        let has = |set: &BTreeSet<String>| names.iter().any(|name| set.contains(name));
        let is_cut_off = has(&self.leases.api().cut_off);
        if is_cut_off {
            core::future::pending::<()>().await;
        }
        let api = self.leases.api();
        if has(&api.refused) {
            return Err("refused".to_owned());
        }
        Ok(api)
    }

    async fn write(&self, record: &LeaseRecord, expected: Option<&str>) -> Result<Written, String> {
        let mut api = self.reach("write").await?;
        let version = api.leases.get(&self.lease).map(|(_, at)| at.to_string());
        if version.as_deref() != expected {
            return Ok(Written::Conflict);
        }
        api.writes += 1;
        let writes = api.writes;
        let record = LeaseRecord {
            renewed: writes.to_string(),
            ..record.clone()
        };
        api.leases.insert(self.lease.clone(), (record, writes));
        Ok(Written::Done(writes.to_string()))
    }
}

impl LeaseClient for Access {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        let lease = self.reach("read").await?.leases.get(&self.lease).cloned();
        Ok(lease.map(|(record, version)| (record, version.to_string())))
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, String> {
        self.write(record, None).await
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        version: &str,
        _: bool,
    ) -> Result<Written, String> {
        self.write(record, Some(version)).await
    }
}

impl MembersClient for Access {
    type Error = String;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, String> {
        let api = self.reach("list").await?;
        let leases = api.leases.values();
        Ok(leases.map(|(record, _)| record.clone()).collect())
    }

    async fn remove(&mut self, gone: &LeaseRecord) -> Result<(), String> {
        let mut api = self.reach(&format!("remove {}", gone.holder)).await?;
        api.leases.retain(|_, (record, _)| record != gone);
        Ok(())
    }
}
