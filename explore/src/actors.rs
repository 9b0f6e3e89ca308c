//! Other controllers and people in the cluster.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use serde_json::{Value, json};

use super::action::FaultKind;
use super::dice::Dice;
use super::paths::{namespace_of, path};
use super::trace::{EntryKind, SERVER};
use super::world::{Shared, World};

/// Another controller or a person in the cluster.
///
/// It is a function of the cluster's state, called some time after each change. It reads the newest state and writes at
/// once, so it meets no faults itself.
///
/// ```
/// use informer_explore::Actor;
/// use informer_mock::json;
///
/// // A cloud provider that gives each Service an address.
/// Actor::new("cloud provider", |cluster| {
///     for service in cluster.objects("services") {
///         if service["status"]["loadBalancer"].is_null() {
///             let address = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } } });
///             cluster.patch_status("services", &service, &address);
///         }
///     }
/// });
/// ```
#[derive(Clone)]
pub struct Actor {
    pub(super) name: String,
    pub(super) within: Duration,
    act: Arc<dyn Fn(&mut Cluster) + Send + Sync>,
}

impl Actor {
    /// Creates an actor. The name is that of its lane in reports.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        act: impl Fn(&mut Cluster) + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            within: Duration::from_millis(500),
            act: Arc::new(act),
        }
    }

    /// Sets how long the actor may take to notice a change; the default is 500 ms.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Acts once. Returns when it wants to act again although nothing has changed.
    pub(super) fn act(&self, shared: &Arc<Shared>) -> Option<Duration> {
        let mut cluster = Cluster {
            lane: shared.lane(&self.name),
            shared: Arc::clone(shared),
            again: None,
        };
        (self.act)(&mut cluster);
        cluster.again
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Actor").field(&self.name).finish()
    }
}

/// The cluster, as an [`Actor`] sees it. Writes are recorded under the name of the actor.
pub struct Cluster {
    shared: Arc<Shared>,
    lane: usize,
    again: Option<Duration>,
}

impl Cluster {
    /// Returns the objects of a resource.
    ///
    /// # Panics
    /// Panics if the resource does not exist.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        self.world().objects(resource)
    }

    /// Returns an object.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.world().get(resource, namespace, name)
    }

    /// Returns the world, for state outside of the cluster.
    #[must_use]
    pub fn world(&self) -> World {
        World {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Creates an object. Returns the status and the response.
    pub fn create(&mut self, resource: &str, object: &Value) -> (u16, Value) {
        self.write("POST", resource, (object, ""), "", object)
    }

    /// Changes an object by a merge patch.
    pub fn patch(&mut self, resource: &str, object: &Value, patch: &Value) -> (u16, Value) {
        self.write("PATCH", resource, (object, name(object)), "", patch)
    }

    /// Changes the status of an object by a merge patch.
    pub fn patch_status(&mut self, resource: &str, object: &Value, patch: &Value) -> (u16, Value) {
        self.write("PATCH", resource, (object, name(object)), "/status", patch)
    }

    /// Deletes an object, if it is still the same one.
    pub fn delete(&mut self, resource: &str, object: &Value) -> (u16, Value) {
        let options = match &object["metadata"]["uid"] {
            Value::Null => Value::Null,
            uid => json!({ "preconditions": { "uid": uid } }),
        };
        self.write("DELETE", resource, (object, name(object)), "", &options)
    }

    /// Acts again after this time, even if nothing changes.
    pub fn again_in(&mut self, time: Duration) {
        self.again = Some(self.again.map_or(time, |again| again.min(time)));
    }

    /// Returns a random number below `bound` that is always the same for this run and this object.
    #[must_use]
    pub fn number(&self, object: &Value, purpose: &str, bound: u64) -> u64 {
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let hash = super::trace::hash([uid, "/", purpose].concat().as_bytes());
        Dice::of(&[self.shared.seed, hash]).below(bound)
    }

    /// Returns how long ago an object was created, in whole seconds.
    #[must_use]
    pub fn age(&self, object: &Value) -> Duration {
        let created = self.since_epoch(&object["metadata"]["creationTimestamp"]);
        created.map_or(Duration::ZERO, |created| {
            self.time_of_day().saturating_sub(created)
        })
    }

    fn time_of_day(&self) -> Duration {
        let epoch = self.shared.mock.read(|server| server.config().epoch);
        Duration::from_secs(epoch + self.shared.now().as_micros() / 1_000_000)
    }

    fn since_epoch(&self, time: &Value) -> Option<Duration> {
        let time: jiff::Timestamp = time.as_str()?.parse().ok()?;
        u64::try_from(time.as_second())
            .ok()
            .map(Duration::from_secs)
    }

    /// Returns how long the processes of a deleted Pod still run; `None` if they have ended.
    pub(crate) fn until_end(&self, pod: &Value) -> Option<Duration> {
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64()?;
        if grace == 0 || self.shared.state().is_calm {
            return None;
        }
        self.shared.fired(FaultKind::SlowDeletion);
        let early = Duration::from_secs(self.number(pod, "ends", grace + 1));
        let deadline = self.since_epoch(&pod["metadata"]["deletionTimestamp"])?;
        let rest = deadline
            .checked_sub(early)?
            .checked_sub(self.time_of_day())?;
        (!rest.is_zero()).then_some(rest)
    }

    /// Deletes a Pod whose processes have ended.
    pub(crate) fn end_pod(&self, pod: &Value) {
        let options =
            json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": pod["metadata"]["uid"] } });
        self.write("DELETE", "pods", (pod, name(pod)), "", &options);
    }

    /// Assigns a Pod to a Node.
    pub(crate) fn bind(&self, pod: &Value, node: &str) {
        let binding = json!({ "metadata": { "name": name(pod) }, "target": { "kind": "Node", "name": node } });
        self.write("POST", "pods", (pod, name(pod)), "/binding", &binding);
    }

    fn write(
        &self,
        method: &str,
        resource: &str,
        (object, name): (&Value, &str),
        subresource: &str,
        body: &Value,
    ) -> (u16, Value) {
        let Some(kind) = self.shared.resource(resource) else {
            let what = ["there is no resource ", resource].concat();
            self.shared.record(SERVER, EntryKind::Note, what);
            return (404, Value::Null);
        };
        let namespace = namespace_of(&kind, object);
        let target = path(&kind, namespace, name) + subresource;
        self.shared.write(self.lane, method, &target, body)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
