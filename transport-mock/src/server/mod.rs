//! The fake API server.

mod answer;
mod builtin;
mod change;
mod collection;
mod discovery;
mod list;
mod negotiation;
mod options;
mod progress;
mod replica;
mod response;
mod trouble;
mod types;
mod watch;
mod write;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use informer_core::time::Rng;
use informer_core::{Instant, OwnedResource, Resource};
use serde_json::Value;

use self::answer::Waiting;
use self::replica::Replica;
use self::response::Response;
pub use self::types::{MutationError, ObjectRef};
use self::write::Hooks;
pub use self::write::{Admission, DefinitionError, Operation};
use crate::config::Config;
use crate::fault::FaultPlan;
use crate::log::RequestLog;
use crate::object::{Form, Names, Object, ResourceType};
use crate::store::{Store, key};

/// An in-memory Kubernetes API server: lists, watches, streaming lists, single objects, and
/// [writes](Self::execute).
///
/// It has no sockets and no clock, and all its randomness comes from its seed, so the same calls give the same bytes.
/// Requests are passed to [`Backend::handle_request`](crate::Backend::handle_request), and responses are polled. All
/// responses are served from one log of changes that is ordered by resourceVersion, as in etcd.
///
/// Resources are named as in kubectl: `pods`, `deployments.apps`, or `apps/v1/deployments` if the version matters. The
/// common built-in resources exist from the start; [`add_resource`](Self::add_resource) adds custom ones.
///
/// ```
/// use informer_mock::{FakeServer, json};
///
/// let mut server = FakeServer::new(1);
/// let version = server.create("pods", json!({ "metadata": { "name": "a" }, "status": { "phase": "Pending" } }))?;
/// assert_eq!(version, 2);
/// server.put("pods", json!({ "metadata": { "name": "a" }, "status": { "phase": "Running" } }))?;
/// assert_eq!(server.get("pods", "default", "a").unwrap()["metadata"]["resourceVersion"], "3");
/// server.delete("pods", "default", "a")?;
/// assert_eq!(server.version(), 4);
/// # Ok::<(), informer_mock::MutationError>(())
/// ```
#[derive(Debug)]
pub struct FakeServer {
    config: Config,
    store: Store,
    rng: Rng,
    now: Instant,
    /// The API servers over this storage. Their watch caches may lag behind the store's version.
    replicas: Vec<Replica>,
    /// The index of the replica that gets new requests.
    routed: usize,
    responses: BTreeMap<u64, Response>,
    waiting: BTreeMap<u64, Waiting>,
    next_response: u64,
    faults: FaultPlan,
    hooks: Hooks,
    log: RequestLog,
}

/// # Constructors
impl FakeServer {
    /// Creates a server with the default configuration. uids and other random values follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_config(seed, Config::default())
    }

    /// Creates a server.
    #[must_use]
    pub fn with_config(seed: u64, config: Config) -> Self {
        let mut store = Store::new();
        builtin::add_to(&mut store);
        let log = RequestLog::with_limit(config.log_limit);
        let visible = store.version;
        let requires_namespaces = config.requires_namespaces;
        let mut server = Self {
            config,
            store,
            rng: Rng::new(seed),
            now: Instant::from_micros(0),
            replicas: [Replica {
                visible,
                ..Replica::default()
            }]
            .into(),
            routed: 0,
            responses: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_response: 0,
            faults: FaultPlan::default(),
            hooks: Hooks::default(),
            log,
        };
        if requires_namespaces {
            server.create_namespaces();
        }
        server
    }

    /// Adds a resource as a CustomResourceDefinition does. Members of its objects and lists are sorted, so a list's
    /// metadata follows its items. Items of its lists have kind and apiVersion.
    pub fn add_resource(
        &mut self,
        group: &str,
        version: &str,
        plural: &str,
        kind: &str,
        namespaced: bool,
    ) {
        self.store.add(ResourceType {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            namespaced,
            custom: true,
            is_served: true,
            names: Names {
                singular: kind.to_ascii_lowercase(),
                short: Vec::new(),
                categories: Vec::new(),
            },
            parts: &[],
            definition: None,
            selectable: Vec::new(),
        });
    }

    /// Makes a field of a resource available to field selectors, given by its dotted path. It applies to objects that
    /// are created or changed from now on.
    ///
    /// # Errors
    /// Fails if the resource does not exist.
    pub fn add_selectable_field(
        &mut self,
        resource: &str,
        path: &str,
    ) -> Result<(), MutationError> {
        let resource = self.store.stored(self.find(resource)?);
        // A view has its fields at the same places.
        for index in 0..self.store.kinds().count() {
            if self.store.stored(index) == resource {
                self.store.kind_mut(index).selectable.push(path.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the configuration mutably. It can be changed at any time.
    pub const fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }
}

/// # Inspecting the state
impl FakeServer {
    /// Returns the version of the last change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.store.version
    }

    /// Returns the current state of an object.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.find(resource).ok()?;
        let object = self.store.current(resource, &key(namespace, name))?;
        serde_json::from_slice(&self.render(resource, object)).ok()
    }

    /// Iterates over the current objects of a resource, in the order of lists.
    pub fn objects(&self, resource: &str) -> impl Iterator<Item = ObjectRef<'_>> {
        self.objects_at(resource, self.store.version)
    }

    /// Iterates over the objects of a resource at a version, which must not have been compacted.
    pub fn objects_at(&self, resource: &str, version: u64) -> impl Iterator<Item = ObjectRef<'_>> {
        let resource = self.find(resource).ok();
        let objects = resource.into_iter().flat_map(move |resource| {
            self.store
                .at(resource, version, "", None)
                .map(move |object| (resource, object))
        });
        objects.map(|(resource, object)| ObjectRef {
            object,
            kind: self.store.kind(resource),
        })
    }

    fn render(&self, resource: usize, object: &Object) -> Vec<u8> {
        let mut bytes = Vec::new();
        object.write(&mut bytes, self.store.kind(resource), Form::JSON);
        bytes
    }
}

impl FakeServer {
    /// The current time, as in `creationTimestamp`.
    fn time(&self) -> String {
        self.time_in(0)
    }

    /// Returns the time so many seconds from now.
    fn time_in(&self, seconds: u64) -> String {
        let now = self.config.epoch + self.now.as_micros() / 1_000_000;
        let seconds = now.saturating_add(seconds);
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        // An epoch in the settings that no date has.
        let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
        format!("{time:.0}")
    }

    /// Returns the resource that a name means, such as `pods` or `deployments.apps`; `None` if the server has none.
    ///
    /// ```
    /// let deployments = informer_mock::FakeServer::new(1).resource("deployments.apps").unwrap();
    /// assert_eq!(deployments.as_ref().namespace("prod").path().to_string(), "/apis/apps/v1/namespaces/prod/deployments");
    /// ```
    #[must_use]
    pub fn resource(&self, name: &str) -> Option<OwnedResource> {
        let kind = self.store.kind(self.find(name).ok()?);
        let resource = Resource::new(&kind.group, &kind.version, &kind.plural).kind(&kind.kind);
        Some(resource.namespaced(kind.namespaced).into())
    }

    /// Iterates over all resources that the server has.
    pub fn resources(&self) -> impl Iterator<Item = OwnedResource> {
        self.store.kinds().map(|kind| {
            let resource = Resource::new(&kind.group, &kind.version, &kind.plural).kind(&kind.kind);
            resource.namespaced(kind.namespaced).into()
        })
    }

    fn find(&self, name: &str) -> Result<usize, MutationError> {
        self.store
            .kinds()
            .position(|kind| kind.is_served && kind.is_called(name))
            .ok_or(MutationError::UnknownResource)
    }

    fn keep_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let before = |age: Option<Duration>| {
            let age = u64::try_from(age?.as_micros()).ok()?;
            self.store
                .version_before(Instant::from_micros(self.now.as_micros().checked_sub(age)?))
        };
        let (window, history) = (
            before(self.config.watch_window),
            before(self.config.history),
        );
        if let Some(version) = window {
            self.forget_events(version);
        }
        if let Some(version) = history {
            self.compact(version);
        }
    }
}
