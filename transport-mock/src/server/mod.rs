//! The fake API server.

mod answer;
mod collection;
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
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use informer_core::time::Rng;
use informer_core::{Instant, OwnedResource, Resource};
use serde_json::{Map, Value};

use self::answer::Waiting;
use self::replica::Replica;
use self::response::Response;
pub use self::types::{MutationError, ObjectRef};
use self::write::Hooks;
pub use self::write::{Admission, DefinitionError, Operation};
use crate::config::Config;
use crate::fault::FaultPlan;
use crate::log::RequestLog;
use crate::object::{Form, Identity, Object, ResourceType};
use crate::seed;
use crate::store::{Store, key};
use crate::template::Template;

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
        for (group, version, plural, kind, namespaced) in BUILTIN {
            let selectable: &[&str] = match *plural {
                "pods" => &[
                    "spec.nodeName",
                    "status.phase",
                    "spec.restartPolicy",
                    "spec.schedulerName",
                    "spec.serviceAccountName",
                    "status.podIP",
                    "status.nominatedNodeName",
                ],
                "nodes" => &["spec.unschedulable"],
                "secrets" => &["type"],
                "services" => &["spec.clusterIP", "spec.type"],
                "namespaces" => &["status.phase"],
                "jobs" => &["status.successful"],
                "events" => &[
                    "involvedObject.kind",
                    "involvedObject.namespace",
                    "involvedObject.name",
                    "involvedObject.uid",
                    "reason",
                    "type",
                ],
                _ => &[],
            };
            store.add(ResourceType {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
                plural: (*plural).to_owned(),
                kind: (*kind).to_owned(),
                namespaced: *namespaced,
                custom: false,
                definition: None,
                selectable: selectable.iter().map(ToString::to_string).collect(),
            });
        }
        let log = RequestLog::with_limit(config.log_limit);
        let visible = store.version;
        Self {
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
        }
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
        let resource = self.find(resource)?;
        self.store
            .kind_mut(resource)
            .selectable
            .push(path.to_owned());
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

/// # Changing objects
///
/// Each change takes the next resourceVersion and returns it. The server sets `resourceVersion`. It sets `uid` and
/// `creationTimestamp` if they are missing, and the namespace `default` if a namespaced object has none. Other fields
/// are not checked. [`execute`](Self::execute) checks objects as the API server does.
impl FakeServer {
    /// Creates an object.
    ///
    /// # Errors
    /// Fails if the object exists, if the resource does not exist, or if there is no name.
    pub fn create(&mut self, resource: &str, object: Value) -> Result<u64, MutationError> {
        self.put_if(resource, object, |existing| {
            if existing {
                Err(MutationError::AlreadyExists)
            } else {
                Ok(())
            }
        })
    }

    /// Replaces an object. If nothing changes, the object keeps its version, and that version is returned.
    ///
    /// # Errors
    /// Fails if the object does not exist, or if the new object has a resourceVersion other than the current one.
    pub fn update(&mut self, resource: &str, object: Value) -> Result<u64, MutationError> {
        self.put_if(resource, object, |existing| {
            if existing {
                Ok(())
            } else {
                Err(MutationError::NotFound)
            }
        })
    }

    /// Creates or replaces an object.
    ///
    /// # Errors
    /// Fails like [`create`](Self::create) and [`update`](Self::update), except that the object may or may not exist.
    pub fn put(&mut self, resource: &str, object: Value) -> Result<u64, MutationError> {
        self.put_if(resource, object, |_| Ok(()))
    }

    /// Deletes an object. The namespace is empty for a cluster-scoped resource.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    pub fn delete(
        &mut self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<u64, MutationError> {
        let resource = self.find(resource)?;
        let key = key(namespace, name);
        if self.store.current(resource, &key).is_none() {
            return Err(MutationError::NotFound);
        }
        self.delete_at(resource, &key);
        Ok(self.store.version)
    }

    /// Removes an object without an event. Real servers have had such bugs.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    pub fn forget(
        &mut self,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), MutationError> {
        let resource = self.find(resource)?;
        if self.store.forget(resource, &key(namespace, name)) {
            Ok(())
        } else {
            Err(MutationError::NotFound)
        }
    }

    /// Takes a version, as for a change of an object that nobody watches.
    pub fn bump_version(&mut self) -> u64 {
        self.set_version(self.store.version + 1)
    }

    /// Advances the version. It never decreases.
    pub fn set_version(&mut self, version: u64) -> u64 {
        self.store.version = self.store.version.max(version);
        self.publish();
        self.store.version
    }

    /// Compacts the history up to a version: the events up to it and the states before it.
    ///
    /// Watches from an earlier version, exact lists at one, and further pages of a list from one fail with 410.
    /// Requests for this version are still served, since all later events are available. Open watches are not affected,
    /// since they have received their events already.
    pub fn compact(&mut self, to_version: u64) {
        for index in 0..self.replicas.len() {
            self.catch_up_to(index, to_version);
        }
        self.store.compact(to_version);
        let compacted = self.store.compacted;
        for replica in &mut self.replicas {
            replica.window_start = replica.window_start.max(compacted);
        }
    }

    /// Compacts all history and takes a new version, so that every version that a client has seen is expired.
    pub fn compact_all(&mut self) {
        let version = self.bump_version();
        self.compact(version);
    }

    /// Drops the events up to a version from the watch caches while etcd keeps its history. Watches fail with 410, and
    /// pages are still served.
    pub fn forget_events(&mut self, to_version: u64) {
        let to_version = to_version.min(self.store.version);
        for replica in &mut self.replicas {
            replica.window_start = replica.window_start.max(to_version);
        }
    }

    /// Restores a backup that was taken at a version whose state is still known. All later changes are undone, their
    /// versions are issued a second time, and all connections are reset. A state that is too old is replaced by the
    /// oldest known one.
    ///
    /// ```
    /// use informer_mock::{FakeServer, json};
    ///
    /// let mut server = FakeServer::new(1);
    /// let backup = server.create("pods", json!({ "metadata": { "name": "a" } }))?;
    /// server.create("pods", json!({ "metadata": { "name": "b" } }))?;
    /// server.restore(backup);
    /// assert_eq!(server.version(), backup);
    /// assert!(server.get("pods", "default", "b").is_none());
    /// # Ok::<(), informer_mock::MutationError>(())
    /// ```
    pub fn restore(&mut self, version: u64) {
        self.reset_all();
        self.store.restore(version);
        let version = self.store.version;
        for replica in &mut self.replicas {
            replica.visible = version;
            replica.lagging = false;
            // The caches are filled again.
            replica.window_start = version;
        }
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
    fn put_if(
        &mut self,
        resource: &str,
        object: Value,
        allowed: impl FnOnce(bool) -> Result<(), MutationError>,
    ) -> Result<u64, MutationError> {
        let resource = self.find(resource)?;
        self.put_at(resource, object, allowed)
    }

    /// Deletes an object that exists.
    fn delete_at(&mut self, resource: usize, key: &str) {
        self.store.put(self.now, resource, key, None);
        self.publish();
    }

    fn put_at(
        &mut self,
        resource: usize,
        object: Value,
        allowed: impl FnOnce(bool) -> Result<(), MutationError>,
    ) -> Result<u64, MutationError> {
        let Value::Object(object) = object else {
            return Err(MutationError::NotAnObject);
        };
        let (namespace, name) = self.name_of(resource, &object)?;
        let key = key(&namespace, &name);
        let existing = self.store.current(resource, &key).cloned();
        allowed(existing.is_some())?;
        let metadata = |member: &str| {
            let value = object
                .get("metadata")
                .and_then(|metadata| metadata.get(member));
            value
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        if let (Some(expected), Some(existing)) = (metadata("resourceVersion"), &existing)
            && expected != existing.version.to_string()
        {
            return Err(MutationError::Conflict);
        }
        let uid = existing.as_ref().map(|existing| existing.uid.to_string());
        let uid = uid
            .or_else(|| metadata("uid").map(ToOwned::to_owned))
            .unwrap_or_else(|| seed::uuid(&mut self.rng));
        let created = existing
            .as_ref()
            .map(|existing| existing.created.to_string());
        let created = created.or_else(|| metadata("creationTimestamp").map(ToOwned::to_owned));
        let created = created.unwrap_or_else(|| self.time());
        let identity = Identity {
            version: self.store.next_version(),
            namespace: &namespace,
            name: &name,
            uid: &uid,
            created: &created,
        };
        let object = Object::new(self.store.kind(resource), &object, &identity);
        if let Some(existing) = existing.filter(|existing| existing.says_the_same(&object)) {
            return Ok(existing.version);
        }
        self.store
            .put(self.now, resource, &key, Some(Arc::new(object)));
        self.publish();
        Ok(self.store.version)
    }

    /// Creates a template for [`create_from`](Self::create_from).
    pub(crate) fn template(&self, resource: &str, pattern: &Value) -> Option<Template> {
        let kind = self.store.kind(self.find(resource).ok()?);
        let hole = |namespace, name, uid, created| Identity {
            version: 0,
            namespace,
            name,
            uid,
            created,
        };
        let identity = hole("<<namespace>>", "<<name>>", "<<uid>>", "<<created>>");
        Some(Template::new(&Object::new(
            kind,
            pattern.as_object()?,
            &identity,
        )))
    }

    /// Creates an object from a template, and replaces an existing one.
    pub(crate) fn create_from(
        &mut self,
        resource: &str,
        template: &Template,
        (namespace, name): (&str, &str),
        fill: impl Fn(&str, &mut String),
    ) -> Result<u64, MutationError> {
        let resource = self.find(resource)?;
        let uid = seed::uuid(&mut self.rng);
        let created = self.time();
        let object =
            template.make(
                self.store.next_version(),
                |hole: &str, out: &mut String| match hole {
                    "namespace" => *out += namespace,
                    "name" => *out += name,
                    "uid" => *out += &uid,
                    "created" => *out += &created,
                    other => fill(other, out),
                },
            );
        self.store.put(
            self.now,
            resource,
            &key(namespace, name),
            Some(Arc::new(object)),
        );
        self.publish();
        Ok(self.store.version)
    }

    fn name_of(
        &mut self,
        resource: usize,
        object: &Map<String, Value>,
    ) -> Result<(String, String), MutationError> {
        let metadata = object.get("metadata").ok_or(MutationError::NoName)?;
        let text = |member: &str| {
            metadata
                .get(member)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let name = match (text("name"), text("generateName")) {
            (Some(name), _) => name.to_owned(),
            (None, Some(prefix)) => prefix.to_owned() + &seed::suffix(&mut self.rng),
            (None, None) => return Err(MutationError::NoName),
        };
        let namespaced = self.store.kind(resource).namespaced;
        let namespace = if namespaced {
            text("namespace").unwrap_or("default")
        } else {
            ""
        };
        Ok((namespace.to_owned(), name))
    }

    /// The current time, as in `creationTimestamp`.
    fn time(&self) -> String {
        let seconds = self.config.epoch + self.now.as_micros() / 1_000_000;
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

    fn find(&self, name: &str) -> Result<usize, MutationError> {
        self.store
            .kinds()
            .position(|kind| kind.is_called(name))
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

/// Group, version, plural, kind, namespaced.
const BUILTIN: &[(&str, &str, &str, &str, bool)] = &[
    ("", "v1", "pods", "Pod", true),
    ("", "v1", "services", "Service", true),
    ("", "v1", "configmaps", "ConfigMap", true),
    ("", "v1", "secrets", "Secret", true),
    ("", "v1", "serviceaccounts", "ServiceAccount", true),
    (
        "",
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        true,
    ),
    ("", "v1", "endpoints", "Endpoints", true),
    ("", "v1", "events", "Event", true),
    ("", "v1", "nodes", "Node", false),
    ("", "v1", "namespaces", "Namespace", false),
    ("", "v1", "persistentvolumes", "PersistentVolume", false),
    ("apps", "v1", "deployments", "Deployment", true),
    ("apps", "v1", "replicasets", "ReplicaSet", true),
    ("apps", "v1", "statefulsets", "StatefulSet", true),
    ("apps", "v1", "daemonsets", "DaemonSet", true),
    ("batch", "v1", "jobs", "Job", true),
    ("batch", "v1", "cronjobs", "CronJob", true),
    ("coordination.k8s.io", "v1", "leases", "Lease", true),
    (
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "EndpointSlice",
        true,
    ),
    ("networking.k8s.io", "v1", "ingresses", "Ingress", true),
    (
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        true,
    ),
    (
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        false,
    ),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", true),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
    ),
];
