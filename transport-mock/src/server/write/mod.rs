//! Writes by clients: create, replace, patch and delete by the paths of the API.

mod admission;
mod compare;
mod decode;
mod definition;
mod delete;
mod established;
mod eviction;
mod field_set;
mod garbage;
mod immutable;
mod json_patch;
mod managers;
mod metadata;
mod namespace;
mod options;
mod patch;
mod problems;
mod scale;
mod schema;
mod secret;
mod store;
mod strategic;
mod structure;
mod target;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use informer_core::Instant;
use serde_json::Value;

pub(super) use self::admission::Hooks;
pub use self::admission::{Admission, Operation};
pub use self::definition::DefinitionError;
use self::options::Options;
pub(super) use self::scale::read_scale;
use self::target::{Target, check_types, mistyped, text};
use super::{FakeServer, MutationError};
use crate::backend::Write;
use crate::log::{RequestRecord, Verb};
use crate::query::{ApiPath, Part, Query, split_target};
use crate::status::Status;

/// The status and body of a response.
type Done = (u16, Vec<u8>);

/// The resources that a PUT creates if they do not exist.
const CREATED_BY_PUT: [&str; 5] = ["endpoints", "events", "leases", "roles", "services"];

impl FakeServer {
    /// Handles a write and returns the status and body of the response, which is in JSON.
    ///
    /// | request | effect |
    /// |---|---|
    /// | POST to a collection | creates an object; `generateName` is completed from the seed |
    /// | PUT, PATCH of an object | replaces or patches it: `json-patch`, `merge-patch`, `strategic-merge-patch`, and `apply-patch` (in JSON) with managers, conflicts and `force` |
    /// | PUT, PATCH of `/status` | writes the status alone; other writes leave it alone |
    /// | PUT, PATCH of `/scale` | sets the replicas of Deployments, ReplicaSets, StatefulSets, and custom resources with a scale subresource |
    /// | PUT of `/finalize` | sets the finalizers in the spec of a Namespace |
    /// | POST to `/eviction`, `/binding` | evicts a Pod if its PodDisruptionBudget allows it, or assigns it to a Node |
    /// | DELETE of an object | deletes it, or marks it if it has finalizers; `preconditions` and `propagationPolicy` are observed |
    /// | DELETE of a collection | deletes what the selectors select |
    ///
    /// `dryRun=All` stores nothing. `fieldValidation=Strict` refuses unknown fields, which are removed otherwise. The
    /// server maintains `generation` and `managedFields`, and [collects garbage](Self#garbage-collection). Metadata,
    /// the types of the fields of built-in kinds, changes of immutable ones, and the schemas of
    /// [`add_definition`](Self::add_definition) are validated. A CustomResourceDefinition is served after the response
    /// to its creation. There are no defaults and no further rules for built-in kinds, no grace periods, and Namespaces
    /// need not exist unless [`Config::requires_namespaces`](crate::Config::requires_namespaces) is set. Faults do not
    /// affect writes. [`Config::deletes`](crate::Config::deletes) determines the response to a DELETE.
    ///
    /// ```
    /// use informer_core::Instant;
    /// use informer_mock::{FakeServer, Write};
    ///
    /// let mut server = FakeServer::new(1);
    /// let write = Write {
    ///     method: "POST",
    ///     target: "/api/v1/namespaces/prod/configmaps",
    ///     content_type: "application/json",
    ///     body: br#"{"metadata":{"name":"web"},"data":{"a":"1"}}"#,
    /// };
    /// let (status, body) = server.execute(Instant::from_micros(0), write);
    /// assert_eq!(status, 201);
    /// assert!(String::from_utf8_lossy(&body).contains("\"resourceVersion\":\"2\""));
    /// assert_eq!(server.execute(Instant::from_micros(0), write).0, 409);
    /// ```
    pub fn execute(&mut self, now: Instant, write: Write<'_>) -> (u16, Vec<u8>) {
        self.keep_time(now);
        let (path, query) = split_target(write.target);
        let mark = self
            .log
            .push(RequestRecord::new(now, Verb::Other, &path, &query, ""));
        let since = self.store.version;
        let (status, body) = match self.write(&path, &query, write) {
            Ok(done) => done,
            Err(status) => (status.code, status.json()),
        };
        self.log.set_status(mark, status);
        if self.store.version != since {
            self.settle_definitions(since);
            if self.config.collects_garbage {
                self.settle(since);
            }
        }
        (status, body)
    }

    fn write(&mut self, path: &str, query: &Query, write: Write<'_>) -> Result<Done, Status> {
        let path = ApiPath::parse(path).ok_or_else(Status::no_such_path)?;
        let index = self.index_of(&path).ok_or_else(Status::no_such_path)?;
        let kind = self.store.kind(index).clone();
        if kind.namespaced && path.namespace.is_none() && path.name.is_none() {
            // Requests to all namespaces can only read.
            return Err(Status::not_allowed());
        }
        if path.namespace.is_some() != kind.namespaced || !kind.has(path.part) {
            return Err(Status::no_such_path());
        }
        let target = Target {
            index,
            path,
            kind,
            query,
            is_dry: query.filled("dryRun").is_some(),
        };
        match (write.method, path.name, path.part) {
            (_, Some(name), Part::Container(part)) => {
                Err(self.no_container(index, target.namespace(), name, part))
            }
            ("POST", None, _) => self.post(&target, write),
            ("POST", Some(name), Part::Eviction) => self.evict(&target, name, write.body),
            ("POST", Some(name), Part::Binding) => self.bind(&target, name, write.body),
            ("PUT", Some(name), Part::Whole | Part::Status | Part::Scale | Part::Finalize) => {
                self.replace(&target, name, write)
            }
            ("PATCH", Some(name), Part::Whole | Part::Status | Part::Scale) => {
                self.patch(&target, name, write)
            }
            ("DELETE", Some(name), Part::Whole) => self.remove(&target, name, write.body),
            // All Namespaces cannot be deleted at once.
            ("DELETE", None, _) if target.kind.custom || path.plural != "namespaces" => {
                self.remove_all(&target, write.body)
            }
            _ => Err(Status::not_allowed()),
        }
    }

    fn post(&mut self, target: &Target<'_>, write: Write<'_>) -> Result<Done, Status> {
        let options = Options::of_create(target.query)?;
        let object = target.decode(body(write)?, None, &options)?;
        if text(&object, "resourceVersion").is_some() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "", message));
        }
        self.insert(target, object, Some(&options))
    }

    fn replace(
        &mut self,
        target: &Target<'_>,
        name: &str,
        write: Write<'_>,
    ) -> Result<Done, Status> {
        let options = Options::of_update(target.query)?;
        let new = body(write)?;
        if target.path.part == Part::Scale {
            let existing = self.current(target, name);
            let existing = existing.ok_or_else(|| target.refused(MutationError::NotFound, name))?;
            return self.change_scale(target, name, existing, &options, |scale| {
                *scale = new;
                Ok(())
            });
        }
        if new.is_object() && text(&new, "name").is_none() && check(&new).is_ok() {
            let message = [
                "the name of the object (",
                name,
                " based on URL) was undeterminable: name must be provided",
            ];
            return Err(Status::bad_request(message.concat()));
        }
        let new = target.decode(new, Some(name), &options)?;
        let is_unversioned = text(&new, "resourceVersion").is_none();
        if target.kind.custom && is_unversioned {
            target.unversioned(name)?;
        }
        let Some(existing) = self.current(target, name) else {
            let is_created = !target.kind.custom && CREATED_BY_PUT.contains(&target.path.plural);
            if is_created && target.path.part == Part::Whole {
                return self.insert(target, new, Some(&options));
            }
            return Err(target.refused(MutationError::NotFound, name));
        };
        if is_unversioned && target.path.plural == "leases" {
            target.unversioned(name)?;
        }
        let (given, uid) = (
            text(&new, "uid"),
            text(&existing, "uid").unwrap_or_default(),
        );
        if let Some(given) = given.filter(|given| *given != uid) {
            let group = match (target.kind.custom, target.path.group) {
                (true, group) => [group, "/"].concat(),
                (false, _) => String::new(),
            };
            let namespace = target.path.namespace;
            let namespace =
                namespace.map_or_else(String::new, |namespace| [namespace, "/"].concat());
            let problem = [
                "StorageError: invalid object, Code: 4, Key: /registry/",
                &group,
                target.path.plural,
                "/",
                &namespace,
                name,
                ", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: ",
                given,
                ", UID in object meta: ",
                uid,
            ];
            return Err(target.conflict(name, &problem.concat()));
        }
        self.change(target, name, existing, new, Some(&options))
    }
}

/// Checks the metadata of an object that has some.
fn check(object: &Value) -> Result<(), Status> {
    match object.get("metadata") {
        Some(Value::Object(metadata)) => check_types(metadata),
        Some(Value::Null) | None => Ok(()),
        Some(_) => Err(mistyped("metadata", "object")),
    }
}

/// Reads the body of a POST or PUT.
fn body(write: Write<'_>) -> Result<Value, Status> {
    let media = write.content_type.split(';').next().unwrap_or_default();
    if !["", "application/json", "application/yaml"].contains(&media.trim()) {
        return Err(Status::unsupported());
    }
    parse(write.body)
}

fn parse(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))
}
