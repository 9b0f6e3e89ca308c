//! Leases of elections, read and written through a `kube::Client`.

use std::time::SystemTime;

use informer_tokio::election::{HttpLease, LeaseClient, LeaseRecord, MembersClient, Written};
use informer_tokio::requests::RequestError;
use kube_client::Client;

use crate::service::Requests;

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
#[derive(Clone, Debug)]
pub struct KubeLease(HttpLease<Requests>);

impl KubeLease {
    /// Names the Lease. It need not exist.
    #[must_use]
    pub fn new(client: Client, namespace: &str, name: impl Into<String>) -> Self {
        Self(HttpLease::new(Requests(client), namespace, name))
    }

    /// Adds a label to the Lease when it is created. The members of a [`Replica`](informer_tokio::election::Replica)
    /// are all Leases of the namespace with these labels, which no other Lease may have. Leases of replicas that have ended
    /// are deleted, unless there are no labels.
    #[must_use]
    pub fn label(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        Self(self.0.label(key, value))
    }

    /// Sets the clock of the times in the Lease, which tests may replace. An election does not compare them with its own
    /// time, but each renewal must have another time than the one before.
    #[must_use]
    pub fn clock(self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(self.0.clock(now))
    }
}

impl LeaseClient for KubeLease {
    type Error = RequestError;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, RequestError> {
        self.0.read().await
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, RequestError> {
        self.0.create(record).await
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        resource_version: &str,
        acquire: bool,
    ) -> Result<Written, RequestError> {
        self.0.update(record, resource_version, acquire).await
    }
}

impl MembersClient for KubeLease {
    type Error = RequestError;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, RequestError> {
        self.0.list().await
    }

    async fn remove(&mut self, gone: &LeaseRecord) -> Result<(), RequestError> {
        self.0.remove(gone).await
    }
}
