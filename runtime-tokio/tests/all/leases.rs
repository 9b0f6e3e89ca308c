//! Leases, and replicas that are cut off from them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use informer_tokio::election::{LeaseClient, LeaseRecord, MembersClient, Written};
use tokio::time::sleep;

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
        let mut record = record.clone();
        record.renewed = writes.to_string();
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
