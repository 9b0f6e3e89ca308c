//! Leases of elections, read and written through a `kube::Client`.

use std::sync::Arc;
use std::time::SystemTime;

use informer_tokio::election::{LeaseClient, LeaseRecord, MembersClient, Written};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube_client::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube_client::{Api, Client, Error};

/// The Lease of an election, for [`Election`](informer_tokio::election::Election) and
/// [`Replica`](informer_tokio::election::Replica).
///
/// The client needs the verbs `get`, `create` and `update` for `leases.coordination.k8s.io`, and for a `Replica` also
/// `list` and `delete`.
///
/// ```
/// use informer_kube::{Informers, KubeLease};
/// use informer_kube::controller::{Controller, Task};
/// use informer_kube::election::Election;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # async fn reconcile(task: Task<ConfigMap>) -> Result<(), kube::Error> { Ok(()) }
/// # async fn example(client: kube::Client, pod: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let informers = Informers::new(client.clone());
/// let lease = KubeLease::new(client, "prod", "web-controller");
/// Controller::new(informers.all::<ConfigMap>())
///     .elected(Election::new(lease, pod, Default::default())?)
///     .run(reconcile)
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct KubeLease {
    api: Api<Lease>,
    name: String,
    labels: Vec<(String, String)>,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// The Lease as it was last read or written. Fields that an election does not use stay as they are.
    last: Lease,
    /// The Leases of the last list.
    listed: Vec<Lease>,
}

impl KubeLease {
    /// Names the Lease. It need not exist.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: impl Into<String>) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.into(),
            labels: Vec::new(),
            clock: Arc::new(SystemTime::now),
            last: Lease::default(),
            listed: Vec::new(),
        }
    }

    /// Adds a label to the Lease when it is created. The members of a [`Replica`](informer_tokio::election::Replica)
    /// are all Leases of the namespace with these labels, which no other Lease may have. Leases of replicas that have ended
    /// are deleted, unless there are no labels.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// Sets the clock of the times in the Lease, which tests may replace. An election does not compare them with its own
    /// time, but each renewal must have another time than the one before.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    fn apply(&mut self, record: &LeaseRecord, acquire: bool) {
        // A time that is out of range is as good as any.
        let now = MicroTime(Timestamp::try_from((self.clock)()).unwrap_or_default());
        let spec = self.last.spec.get_or_insert_default();
        spec.holder_identity = Some(record.holder.clone());
        spec.lease_duration_seconds = i32::try_from(record.duration_seconds).ok();
        spec.lease_transitions = i32::try_from(record.transitions).ok();
        if acquire {
            spec.acquire_time = Some(now.clone());
        }
        spec.renew_time = Some(now);
    }

    /// Returns the result of a write, for which these codes are conflicts.
    fn written(
        &mut self,
        written: Result<Lease, Error>,
        conflicts: &[u16],
    ) -> Result<Written, Error> {
        match written {
            Ok(lease) => {
                self.last = lease;
                Ok(Written::Done(version(&self.last)))
            }
            Err(Error::Api(status)) if conflicts.contains(&status.code) => Ok(Written::Conflict),
            Err(error) => Err(error),
        }
    }
}

impl LeaseClient for KubeLease {
    type Error = Error;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, Error> {
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            return Ok(None);
        };
        self.last = lease;
        Ok(Some((record(&self.last), version(&self.last))))
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, Error> {
        self.last = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some(self.labels.iter().cloned().collect()),
                ..ObjectMeta::default()
            },
            spec: None,
        };
        self.apply(record, true);
        let created = self.api.create(&PostParams::default(), &self.last).await;
        // It exists already. 404 means that its namespace does not exist.
        self.written(created, &[409])
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        resource_version: &str,
        acquire: bool,
    ) -> Result<Written, Error> {
        self.last.metadata.resource_version = Some(resource_version.to_owned());
        self.apply(record, acquire);
        let options = PostParams::default();
        let updated = self.api.replace(&self.name, &options, &self.last).await;
        // It was deleted or has changed.
        self.written(updated, &[404, 409])
    }
}

impl MembersClient for KubeLease {
    type Error = Error;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, Error> {
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let options = ListParams::default().labels(&labels.collect::<Vec<_>>().join(","));
        self.listed = self.api.list(&options).await?.items;
        Ok(self.listed.iter().map(record).collect())
    }

    async fn remove(&mut self, gone: &LeaseRecord) -> Result<(), Error> {
        // Without labels, Leases of other programs are listed too.
        if self.labels.is_empty() {
            return Ok(());
        }
        for lease in self.listed.iter().filter(|lease| record(lease) == *gone) {
            let ObjectMeta {
                name: Some(name),
                uid: Some(uid),
                resource_version: Some(resource_version),
                ..
            } = &lease.metadata
            else {
                continue;
            };
            let options = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: Some(resource_version.clone()),
                }),
                ..DeleteParams::default()
            };
            match self.api.delete(name, &options).await {
                Ok(_) => {}
                // It has changed, or another replica was faster.
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn version(lease: &Lease) -> String {
    lease.metadata.resource_version.clone().unwrap_or_default()
}

fn record(lease: &Lease) -> LeaseRecord {
    let LeaseSpec {
        holder_identity,
        lease_duration_seconds,
        lease_transitions,
        renew_time,
        ..
    } = lease.spec.clone().unwrap_or_default();
    let number = |value: Option<i32>| value.and_then(|value| u32::try_from(value).ok());
    LeaseRecord {
        holder: holder_identity.unwrap_or_default(),
        duration_seconds: number(lease_duration_seconds).unwrap_or_default(),
        transitions: number(lease_transitions).unwrap_or_default(),
        renewed: renew_time
            .map(|time| time.0.to_string())
            .unwrap_or_default(),
    }
}

impl core::fmt::Debug for KubeLease {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KubeLease")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
