//! Writes by clients: create, replace, patch and delete by the paths of the API.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use informer_core::Instant;
use serde_json::{Map, Value, json};

use super::{FakeServer, MutationError, json_patch};
use crate::config::DeleteAnswer;
use crate::log::{RequestRecord, Verb};
use crate::object::ResourceType;
use crate::query::{ApiPath, Query, split_target};
use crate::status::Status;
use crate::store::key;

/// A write: a request with another method than GET.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write<'a> {
    /// The method: POST, PUT, PATCH or DELETE.
    pub method: &'a str,
    /// The path and query.
    pub target: &'a str,
    /// The `Content-Type` header, which determines the kind of patch.
    pub content_type: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl FakeServer {
    /// Handles a write and returns the status and body of the response.
    ///
    /// It supports POST to a collection, and PUT, PATCH and DELETE of one object. PUT and PATCH of `/status` write the
    /// status alone, and other writes leave it alone, if the resource has one. Patches of the types `json-patch`,
    /// `merge-patch`, `strategic-merge-patch` (lists are replaced) and `apply-patch` (in JSON; omitted fields stay, and
    /// there are no conflicts) are supported. An object with finalizers is deleted when the last of them is removed.
    /// An object of another type, or whose metadata has members of the wrong type, is rejected. There is no other
    /// validation, no defaulting, no garbage collection and no dry run. Grace periods are ignored, and faults do not
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
    /// let (status, body) = server.handle_write(Instant::from_micros(0), write);
    /// assert_eq!(status, 201);
    /// assert!(String::from_utf8_lossy(&body).contains("\"resourceVersion\":\"2\""));
    /// assert_eq!(server.handle_write(Instant::from_micros(0), write).0, 409);
    /// ```
    pub fn handle_write(&mut self, now: Instant, write: Write<'_>) -> (u16, Vec<u8>) {
        self.keep_time(now);
        let (path, query) = split_target(write.target);
        let mark = self
            .log
            .push(RequestRecord::new(now, Verb::Other, &path, &query, ""));
        let (status, body) = match self.write(&path, &query, write) {
            Ok(done) => done,
            Err(status) => (status.code, status.json()),
        };
        self.log.set_status(mark, status);
        (status, body)
    }

    fn write(&mut self, path: &str, query: &Query, write: Write<'_>) -> Result<Done, Status> {
        let (path, is_status) = match path.strip_suffix("/status") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let path = ApiPath::parse(path).ok_or_else(Status::no_such_path)?;
        let api_version = match path.group {
            "" => path.version.to_string(),
            group => [group, path.version].join("/"),
        };
        // The name that `FakeServer::find` accepts, with the version.
        let resource = [api_version.as_str(), path.plural].join("/");
        let index = self.find(&resource).map_err(|_| Status::no_such_path())?;
        let kind = self.store.kind(index);
        if kind.namespaced && path.namespace.is_none() && path.name.is_none() {
            // Requests to all namespaces can only read.
            return Err(Status::not_allowed());
        }
        let is_missing = is_status && (path.name.is_none() || !kind.has_status());
        if path.namespace.is_some() != kind.namespaced || is_missing {
            return Err(Status::no_such_path());
        }
        if query.filled("dryRun").is_some() {
            return Err(Status::bad_request("the mock does not support dryRun"));
        }
        let target = WriteTarget {
            resource: &resource,
            path,
            kind: &kind.clone(),
            is_status,
        };
        match (write.method, path.name) {
            ("POST", None) => self.post(target, write),
            ("PUT", Some(name)) => self.replace(target, name, write),
            ("PATCH", Some(name)) => self.patch(target, name, write),
            ("DELETE", Some(name)) if !is_status => self.remove(target, name, write.body),
            _ => Err(Status::not_allowed()),
        }
    }

    fn post(&mut self, target: WriteTarget<'_>, write: Write<'_>) -> Result<Done, Status> {
        let mut object = target.place(body(write)?, None)?;
        if text(&object, "resourceVersion").is_some() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "", message));
        }
        if target.kind.has_status() && target.kind.plural != "nodes" {
            set_status(&mut object, None);
        }
        let name = text(&object, "name").unwrap_or_default();
        let before = self.store.version;
        self.create(target.resource, object)
            .map_err(|error| target.refused(error, &name))?;
        // The name may have been generated, so the object is found by its version.
        let created = self
            .objects_at(target.resource, before + 1)
            .find(|object| object.version() == before + 1)
            .map(|object| (object.namespace().to_string(), object.name().to_string()));
        let (namespace, name) = created.unwrap_or_default();
        self.shown(201, target, &namespace, &name)
    }

    fn replace(
        &mut self,
        target: WriteTarget<'_>,
        name: &str,
        write: Write<'_>,
    ) -> Result<Done, Status> {
        let new = body(write)?;
        if new.is_object() && text(&new, "name").is_none() && check(&new).is_ok() {
            let message = [
                "the name of the object (",
                name,
                " based on URL) was undeterminable: name must be provided",
            ];
            return Err(Status::bad_request(message.concat()));
        }
        let new = target.place(new, Some(name))?;
        if target.kind.custom && text(&new, "resourceVersion").is_none() {
            return Err(target.unversioned(name));
        }
        let existing = self
            .get(target.resource, target.namespace(), name)
            .ok_or_else(|| target.refused(MutationError::NotFound, name))?;
        self.change(200, target, name, Some(existing), new)
    }

    fn patch(
        &mut self,
        target: WriteTarget<'_>,
        name: &str,
        write: Write<'_>,
    ) -> Result<Done, Status> {
        let media = write.content_type.strip_prefix("application/");
        let kind = media.and_then(|media| media.split(['-', ';']).next());
        let applies = kind == Some("apply");
        let is_known = match kind {
            Some("json") => write.content_type.starts_with("application/json-patch"),
            // It needs Go types.
            Some("strategic") => !target.kind.custom,
            Some("merge" | "apply") => true,
            _ => false,
        };
        if !is_known {
            return Err(Status::unsupported());
        }
        let patch = parse(write.body)?;
        let existing = self.get(target.resource, target.namespace(), name);
        let mut merged = match &existing {
            Some(existing) => existing.clone(),
            None if applies && !target.is_status => json!({}),
            None => return Err(target.refused(MutationError::NotFound, name)),
        };
        if kind == Some("json") {
            // The version is the current one, unless the patch changes it.
            json_patch::apply(&mut merged, patch)?;
        } else {
            // The version in a patch is optional. If present, it must be the object's current one.
            merge(&mut merged, patch);
        }
        let merged = target.place(merged, Some(name))?;
        let status = if existing.is_none() { 201 } else { 200 };
        self.change(status, target, name, existing, merged)
    }

    /// Stores a new state of an object.
    fn change(
        &mut self,
        status: u16,
        target: WriteTarget<'_>,
        name: &str,
        existing: Option<Value>,
        mut new: Value,
    ) -> Result<Done, Status> {
        if let Some(mut existing) = existing {
            let uid = text(&existing, "uid");
            if text(&new, "uid").is_some_and(|other| Some(other) != uid) {
                return Err(target.refused(MutationError::Conflict, name));
            }
            if target.is_status {
                let status = new.get_mut("status").map(Value::take);
                let version = new["metadata"]["resourceVersion"].take();
                new = existing.clone();
                new["metadata"]["resourceVersion"] = version;
                set_status(&mut new, status);
            } else if target.kind.has_status() {
                set_status(&mut new, existing.get_mut("status").map(Value::take));
            }
            for member in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
                new["metadata"][member] = existing["metadata"][member].take();
            }
            if text(&new, "deletionTimestamp").is_some() && !has_finalizers(&new) {
                let version = text(&new, "resourceVersion");
                if version.is_some_and(|version| existing["metadata"]["resourceVersion"] != version)
                {
                    return Err(target.refused(MutationError::Conflict, name));
                }
                self.delete(target.resource, target.namespace(), name)
                    .map_err(|error| target.refused(error, name))?;
                return Ok((status, new.to_string().into_bytes()));
            }
        }
        if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
            metadata.retain(|_, value| !value.is_null());
        }
        self.apply(target.resource, new)
            .map_err(|error| target.refused(error, name))?;
        self.shown(status, target, target.namespace(), name)
    }

    fn remove(&mut self, target: WriteTarget<'_>, name: &str, body: &[u8]) -> Result<Done, Status> {
        let mut existing = self
            .get(target.resource, target.namespace(), name)
            .ok_or_else(|| target.refused(MutationError::NotFound, name))?;
        let options = if body.is_empty() {
            json!({})
        } else {
            parse(body)?
        };
        for member in ["uid", "resourceVersion"] {
            let expected = options.pointer(&["/preconditions/", member].concat());
            if expected.is_some_and(|expected| existing["metadata"][member] != *expected) {
                return Err(target.refused(MutationError::Conflict, name));
            }
        }
        if has_finalizers(&existing) {
            if text(&existing, "deletionTimestamp").is_none() {
                existing["metadata"]["deletionTimestamp"] = self.time().into();
                existing["metadata"]["deletionGracePeriodSeconds"] = 0.into();
                self.update(target.resource, existing)
                    .map_err(|error| target.refused(error, name))?;
            }
            return self.shown(200, target, target.namespace(), name);
        }
        let version = self
            .delete(target.resource, target.namespace(), name)
            .map_err(|error| target.refused(error, name))?;
        let metadata = &mut existing["metadata"];
        let answer = match self.config.deletes {
            DeleteAnswer::Status => {
                let mut details = target.details(name);
                details["uid"] = metadata["uid"].take();
                json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details,
                })
            }
            DeleteAnswer::OldVersion => existing,
            DeleteAnswer::NewVersion => {
                metadata["resourceVersion"] = version.to_string().into();
                existing
            }
        };
        Ok((200, answer.to_string().into_bytes()))
    }

    /// Returns the response with the current state of an object.
    fn shown(
        &self,
        status: u16,
        target: WriteTarget<'_>,
        namespace: &str,
        name: &str,
    ) -> Result<Done, Status> {
        let index = self.find(target.resource);
        let index = index.map_err(|_| Status::no_such_path())?;
        let object = self.store.current(index, &key(namespace, name));
        let object = object.ok_or_else(|| target.refused(MutationError::NotFound, name))?;
        Ok((status, self.render(index, object)))
    }
}

/// The status and body of a response.
type Done = (u16, Vec<u8>);

/// The target of a write.
#[derive(Clone, Copy)]
struct WriteTarget<'a> {
    /// The name that `FakeServer::find` accepts.
    resource: &'a str,
    path: ApiPath<'a>,
    kind: &'a ResourceType,
    is_status: bool,
}

impl<'a> WriteTarget<'a> {
    fn namespace(&self) -> &'a str {
        self.path.namespace.unwrap_or_default()
    }

    /// Sets the namespace and name from the path. The object must not contradict them.
    fn place(&self, object: Value, name: Option<&str>) -> Result<Value, Status> {
        let Value::Object(mut object) = object else {
            return Err(mistyped("the body", "object"));
        };
        let api_version = self.kind.api_version();
        for (member, wanted) in [("kind", &self.kind.kind), ("apiVersion", &api_version)] {
            let given = object.get(member).filter(|given| !given.is_null());
            if given.is_some_and(|given| given != wanted) || given.is_none() && self.kind.custom {
                let message = [
                    "the object provided is unrecognized (must be of type ",
                    &self.kind.kind,
                    ")",
                ];
                return Err(Status::bad_request(message.concat()));
            }
        }
        let metadata = object.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        let Value::Object(metadata) = metadata else {
            return Err(mistyped("metadata", "object"));
        };
        check_types(metadata)?;
        for (member, wanted) in [("namespace", self.path.namespace), ("name", name)] {
            let Some(wanted) = wanted else { continue };
            match metadata.get(member).and_then(Value::as_str) {
                None | Some("") => drop(metadata.insert(member.to_string(), wanted.into())),
                Some(given) if given == wanted => {}
                Some(given) => {
                    let message = if member == "name" {
                        [
                            "the name of the object (",
                            given,
                            ") does not match the name on the URL (",
                            wanted,
                            ")",
                        ]
                        .concat()
                    } else {
                        "the namespace of the provided object does not match the namespace sent on the request".to_string()
                    };
                    return Err(Status::bad_request(message));
                }
            }
        }
        Ok(Value::Object(object))
    }

    /// The name of the resource in messages.
    fn full(&self) -> String {
        match self.path.group {
            "" => self.path.plural.to_string(),
            group => [self.path.plural, group].join("."),
        }
    }

    fn details(&self, name: &str) -> Value {
        let mut details = json!({ "name": name, "kind": self.path.plural });
        if !self.path.group.is_empty() {
            details["group"] = self.path.group.into();
        }
        details
    }

    fn refused(&self, error: MutationError, name: &str) -> Status {
        let full = self.full();
        let status = match error {
            MutationError::NotFound => {
                return Status::no_such_object(self.path.group, self.path.plural, name);
            }
            MutationError::AlreadyExists => {
                let message = [&full, " \"", name, "\" already exists"];
                Status::new(409, "AlreadyExists", message.concat())
            }
            MutationError::Conflict => {
                let message = [
                    "Operation cannot be fulfilled on ",
                    &full,
                    " \"",
                    name,
                    "\": the object has been modified; please apply your changes to the latest version and try again",
                ];
                Status::new(409, "Conflict", message.concat())
            }
            MutationError::NoName => {
                return self.invalid(
                    name,
                    "metadata.name",
                    "FieldValueRequired",
                    "Required value: name or generateName is required",
                );
            }
            MutationError::UnknownResource | MutationError::NotAnObject => {
                return Status::bad_request(error.to_string());
            }
        };
        status.details(self.details(name))
    }

    /// A custom resource needs a version in a PUT.
    fn unversioned(&self, name: &str) -> Status {
        let problem = "Invalid value: 0: must be specified for an update";
        self.invalid(
            name,
            "metadata.resourceVersion",
            "FieldValueInvalid",
            problem,
        )
    }

    fn invalid(&self, name: &str, field: &str, reason: &str, problem: &str) -> Status {
        let what = if self.kind.custom {
            self.full()
        } else {
            self.kind.kind.clone()
        };
        let message = [&what, " \"", name, "\" is invalid: ", field, ": ", problem].concat();
        let mut details = self.details(name);
        details["causes"] = json!([{ "reason": reason, "message": problem, "field": field }]);
        if !self.kind.custom {
            details["kind"] = what.into();
        }
        Status::new(422, "Invalid", message).details(details)
    }
}

/// Returns a member of the metadata, if it is a text and not empty.
fn text(object: &Value, member: &str) -> Option<String> {
    let value = object.get("metadata")?.get(member)?.as_str()?;
    (!value.is_empty()).then(|| value.to_string())
}

fn has_finalizers(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers");
    finalizers
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
}

/// Sets the status, or removes it.
fn set_status(object: &mut Value, status: Option<Value>) {
    if let Value::Object(object) = object {
        match status {
            Some(status) => drop(object.insert("status".to_string(), status)),
            None => drop(object.remove("status")),
        }
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

/// Checks the types of the members of `metadata`. As in Go, null counts as absent.
fn check_types(metadata: &Map<String, Value>) -> Result<(), Status> {
    for (member, value) in metadata {
        let of_text = |value: &Value| value.is_string() || value.is_null();
        let (is_right, wanted) = match member.as_str() {
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion"
            | "creationTimestamp" => (value.is_string(), "string"),
            "labels" | "annotations" => {
                let object = value.as_object();
                let is_right = object.is_some_and(|object| object.values().all(of_text));
                (is_right, "object of strings")
            }
            "finalizers" => {
                let is_right = value
                    .as_array()
                    .is_some_and(|list| list.iter().all(of_text));
                (is_right, "array of strings")
            }
            "ownerReferences" | "managedFields" => {
                let list = value.as_array();
                let is_right = list.is_some_and(|list| list.iter().all(Value::is_object));
                (is_right, "array of objects")
            }
            _ => continue,
        };
        if !is_right && !value.is_null() {
            return Err(mistyped(&["metadata.", member].concat(), wanted));
        }
    }
    Ok(())
}

/// The response for an object that cannot be decoded.
fn mistyped(what: &str, wanted: &str) -> Status {
    Status::bad_request(
        [
            "the object provided is unrecognized: ",
            what,
            " is not of type ",
            wanted,
        ]
        .concat(),
    )
}

/// Merges as defined by RFC 7386: objects member by member; null removes, and other values replace.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(target) = target {
        for (key, value) in patch {
            if value.is_null() {
                target.remove(&key);
            } else {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}
