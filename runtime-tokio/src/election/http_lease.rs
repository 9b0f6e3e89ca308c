//! Leases of elections, read and written over HTTP.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use http::Method;
use informer_core::Resource;
use informer_core::selector::LabelSelector;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{LeaseClient, LeaseRecord, MembersClient, Written};
use crate::requests::{self, HttpService, RequestError};

const LEASES: Resource<'static> = Resource::new("coordination.k8s.io", "v1", "leases");

/// The Lease of an election, for [`Election`](super::Election) and [`Replica`](super::Replica).
///
/// The service sends the requests, such as `informer::transport::HyperTransport`. Its user needs the verbs `get`, `create`
/// and `update` for `leases.coordination.k8s.io`, and for a `Replica` also `list` and `delete`.
///
/// ```
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::controller::Controller;
/// use informer_tokio::election::{Election, HttpLease};
/// # use informer_tokio::requests::HttpService;
/// # async fn example(service: impl HttpService, webs: Informer<Raw>, pod: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let lease = HttpLease::new(service, "prod", "web-controller");
/// Controller::new(&webs)
///     .elected(Election::new(lease, pod, Default::default())?)
///     .run(|task| async move { Ok::<_, std::io::Error>(println!("{}", task.key())) })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HttpLease<S> {
    service: S,
    namespace: String,
    name: String,
    labels: Vec<(String, String)>,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// The Lease as it was last read or written. Fields that an election does not use stay as they are.
    last: Value,
    /// The Leases of the last list.
    listed: Vec<Value>,
}

impl<S: HttpService> HttpLease<S> {
    /// Names the Lease. It need not exist.
    #[must_use]
    pub fn new(service: S, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            service,
            namespace: namespace.into(),
            name: name.into(),
            labels: Vec::new(),
            clock: Arc::new(SystemTime::now),
            last: Value::Null,
            listed: Vec::new(),
        }
    }

    /// Adds a label to the Lease when it is created. The members of a [`Replica`](super::Replica) are all Leases of the
    /// namespace with these labels, which no other Lease may have. Leases of replicas that have ended are deleted, unless
    /// there are no labels.
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

    fn leases(&self) -> Resource<'_> {
        LEASES.namespace(&self.namespace)
    }

    /// Writes the Lease with a record. The server refuses with these statuses what another client has changed.
    async fn write(
        &mut self,
        method: Method,
        path: String,
        mut lease: Value,
        (record, acquire): (&LeaseRecord, bool),
        conflicts: &[u16],
    ) -> Result<Written, RequestError> {
        // A time that is out of range is as good as any.
        let now = Timestamp::try_from((self.clock)()).unwrap_or_default();
        let now = Value::from(format!("{now:.6}"));
        let spec = member(&mut lease, "spec");
        spec["holderIdentity"] = record.holder.as_str().into();
        spec["leaseDurationSeconds"] = record.duration_seconds.into();
        spec["leaseTransitions"] = record.transitions.into();
        if acquire {
            spec["acquireTime"] = now.clone();
        }
        spec["renewTime"] = now;
        match requests::json(&mut self.service, method, &path, Some(lease)).await {
            Ok(lease) => {
                self.last = lease.into();
                Ok(Written::Done(text(&self.last, "resourceVersion")))
            }
            Err(error) if error.is(conflicts) => Ok(Written::Conflict),
            Err(error) => Err(error),
        }
    }
}

impl<S: HttpService> LeaseClient for HttpLease<S> {
    type Error = RequestError;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, RequestError> {
        let path = self.leases().object_path(&self.name).to_string();
        match requests::json(&mut self.service, Method::GET, &path, None).await {
            Ok(lease) => {
                self.last = lease.into();
                Ok(Some((
                    record(&self.last),
                    text(&self.last, "resourceVersion"),
                )))
            }
            Err(error) if error.is(&[404]) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, RequestError> {
        let labels = self.labels.iter().cloned().collect::<BTreeMap<_, _>>();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": self.name, "labels": labels },
        });
        let path = self.leases().path().to_string();
        // It exists already. 404 means that its namespace does not exist.
        self.write(Method::POST, path, lease, (record, true), &[409])
            .await
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        resource_version: &str,
        acquire: bool,
    ) -> Result<Written, RequestError> {
        let path = self.leases().object_path(&self.name).to_string();
        let mut lease = self.last.clone();
        let metadata = member(&mut lease, "metadata");
        metadata["name"] = self.name.as_str().into();
        metadata["resourceVersion"] = resource_version.into();
        // It was deleted or has changed.
        self.write(Method::PUT, path, lease, (record, acquire), &[404, 409])
            .await
    }
}

impl<S: HttpService> MembersClient for HttpLease<S> {
    type Error = RequestError;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, RequestError> {
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let selector = labels.collect::<Vec<_>>().join(",");
        // What it accepts needs no escape in a query.
        if let Err(error) = LabelSelector::parse(&selector) {
            return Err(RequestError::new(format!(
                "the labels of the Lease are invalid: {error}"
            )));
        }
        let target = format!("{}?labelSelector={selector}", self.leases().path());
        let mut list = requests::json(&mut self.service, Method::GET, &target, None).await?;
        let Some(Value::Array(items)) = list.remove("items") else {
            return Err(RequestError::new("the list of Leases has no items"));
        };
        self.listed = items;
        Ok(self.listed.iter().map(record).collect())
    }

    async fn remove(&mut self, gone: &LeaseRecord) -> Result<(), RequestError> {
        // Without labels, Leases of other programs are listed too.
        if self.labels.is_empty() {
            return Ok(());
        }
        for lease in self.listed.iter().filter(|lease| record(lease) == *gone) {
            let [name, uid, version] =
                ["name", "uid", "resourceVersion"].map(|member| text(lease, member));
            if uid.is_empty() || version.is_empty() {
                continue;
            }
            let path = LEASES
                .namespace(&self.namespace)
                .object_path(&name)
                .to_string();
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions",
                "preconditions": { "uid": uid, "resourceVersion": version },
            });
            match requests::json(&mut self.service, Method::DELETE, &path, Some(options)).await {
                Ok(_) => {}
                // It has changed, or another replica was faster.
                Err(error) if error.is(&[404, 409]) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns a member of a Lease, which is an object afterwards.
fn member<'a>(lease: &'a mut Value, name: &str) -> &'a mut Value {
    let member = &mut lease[name];
    if !member.is_object() {
        *member = json!({});
    }
    member
}

/// Returns a text of the metadata, which is empty if it is missing.
fn text(lease: &Value, member: &str) -> String {
    let text = lease["metadata"][member].as_str();
    text.unwrap_or_default().to_owned()
}

fn record(lease: &Value) -> LeaseRecord {
    let spec = &lease["spec"];
    let text = |member: &str| spec[member].as_str().unwrap_or_default().to_owned();
    let number = |member: &str| {
        spec[member]
            .as_u64()
            .and_then(|value| value.try_into().ok())
    };
    let mut record = LeaseRecord::default();
    record.holder = text("holderIdentity");
    record.duration_seconds = number("leaseDurationSeconds").unwrap_or_default();
    record.transitions = number("leaseTransitions").unwrap_or_default();
    record.renewed = text("renewTime");
    record
}

impl<S> fmt::Debug for HttpLease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLease")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
