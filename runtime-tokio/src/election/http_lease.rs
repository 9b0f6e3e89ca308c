//! Leases of elections, read and written over HTTP.

use core::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use http::Method;
use informer_core::Resource;
use informer_core::selector::LabelSelector;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{LeaseClient, LeaseRecord, MembersClient, Written};
use crate::requests::{self, HttpService, RequestError};

const LEASES: Resource<'static> = Resource::new("coordination.k8s.io", "v1", "leases");

type Object = Map<String, Value>;

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
    last: Object,
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
            last: Object::new(),
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
        mut lease: Object,
        (record, acquire): (&LeaseRecord, bool),
        conflicts: &[u16],
    ) -> Result<Written, RequestError> {
        // A time that is out of range is as good as any.
        let now = Timestamp::try_from((self.clock)()).unwrap_or_default();
        let now = Value::from(format!("{now:.6}"));
        let mut spec = match lease.remove("spec") {
            Some(Value::Object(spec)) => spec,
            _ => Object::new(),
        };
        spec.insert("holderIdentity".into(), record.holder.as_str().into());
        spec.insert(
            "leaseDurationSeconds".into(),
            record.duration_seconds.into(),
        );
        spec.insert("leaseTransitions".into(), record.transitions.into());
        if acquire {
            spec.insert("acquireTime".into(), now.clone());
        }
        spec.insert("renewTime".into(), now);
        lease.insert("spec".into(), spec.into());
        match requests::json(&mut self.service, method, &path, Some(lease.into())).await {
            Ok(lease) => {
                self.last = lease;
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
                self.last = lease;
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
        let labels: Object = self
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        let lease = Object::from_iter([
            ("apiVersion".to_owned(), "coordination.k8s.io/v1".into()),
            ("kind".to_owned(), "Lease".into()),
            (
                "metadata".to_owned(),
                json!({ "name": self.name, "labels": labels }),
            ),
        ]);
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
        let mut metadata = match lease.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Object::new(),
        };
        metadata.insert("name".into(), self.name.as_str().into());
        metadata.insert("resourceVersion".into(), resource_version.into());
        lease.insert("metadata".into(), metadata.into());
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
        self.listed = match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => {
                return Err(RequestError::new(
                    "the list of Leases has no items".to_owned(),
                ));
            }
        };
        Ok(self
            .listed
            .iter()
            .filter_map(Value::as_object)
            .map(record)
            .collect())
    }

    async fn remove(&mut self, gone: &LeaseRecord) -> Result<(), RequestError> {
        // Without labels, Leases of other programs are listed too.
        if self.labels.is_empty() {
            return Ok(());
        }
        let listed = self.listed.iter().filter_map(Value::as_object);
        for lease in listed.filter(|lease| record(lease) == *gone) {
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

/// Returns a text of the metadata, which is empty if it is missing.
fn text(lease: &Object, member: &str) -> String {
    let text = lease
        .get("metadata")
        .and_then(|metadata| metadata.get(member)?.as_str());
    text.unwrap_or_default().to_owned()
}

fn record(lease: &Object) -> LeaseRecord {
    let of_spec = |member| lease.get("spec").and_then(|spec| spec.get(member));
    let text = |member| of_spec(member).and_then(Value::as_str).unwrap_or_default();
    let number = |member| of_spec(member).and_then(|value| u32::try_from(value.as_u64()?).ok());
    let mut record = LeaseRecord::default();
    text("holderIdentity").clone_into(&mut record.holder);
    record.duration_seconds = number("leaseDurationSeconds").unwrap_or_default();
    record.transitions = number("leaseTransitions").unwrap_or_default();
    text("renewTime").clone_into(&mut record.renewed);
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
