//! Changes of objects by a test, at once and as given.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use serde_json::{Map, Value};

use super::{FakeServer, MutationError};
use crate::event;
use crate::object::{Identity, Object};
use crate::seed;
use crate::store::key;
use crate::template::Template;

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

impl FakeServer {
    pub(super) fn put_if(
        &mut self,
        resource: &str,
        object: Value,
        allowed: impl FnOnce(bool) -> Result<(), MutationError>,
    ) -> Result<u64, MutationError> {
        let resource = self.find(resource)?;
        self.put_at(resource, object, allowed)
    }

    /// Deletes an object that exists.
    pub(super) fn delete_at(&mut self, resource: usize, key: &str) {
        self.store.put(self.now, resource, key, None);
        self.publish();
    }

    pub(super) fn put_at(
        &mut self,
        resource: usize,
        object: Value,
        allowed: impl FnOnce(bool) -> Result<(), MutationError>,
    ) -> Result<u64, MutationError> {
        let Value::Object(mut object) = object else {
            return Err(MutationError::NotAnObject);
        };
        if self.store.kind(resource).is_new_event() {
            object = event::to_core(object);
        }
        let resource = self.store.stored(resource);
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

    pub(super) fn name_of(
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
}
