//! Writes by clients: create, replace, patch and delete by the paths of the API.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use informer_core::Instant;
use serde_json::{Map, Value, json};

use super::{FakeServer, MutationError};
use crate::config::DeleteAnswer;
use crate::log::{RequestRecord, Verb};
use crate::query::{ApiPath, split_target};
use crate::status::Status;

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
    /// It supports POST to a collection, and PUT, PATCH and DELETE of one object. Each path also exists with `/status`,
    /// which writes the status alone. Patches of the types `merge-patch`, `strategic-merge-patch` (lists are replaced)
    /// and `apply-patch` (in JSON; omitted fields stay, and there are no conflicts) are merged; other patches are
    /// rejected. An object whose metadata has members of the wrong type is rejected with 400. There is no other
    /// validation, no defaulting and no garbage collection. Finalizers and grace periods are ignored, and faults do not
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
        let (status, body) = match self.write(&path, write) {
            Ok((status, object)) => (status, object.to_string().into_bytes()),
            Err(status) => (status.code, status.json()),
        };
        self.log.set_status(mark, status);
        (status, body)
    }

    fn write(&mut self, path: &str, write: Write<'_>) -> Result<(u16, Value), Status> {
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
        let is_namespaced = self.store.kind(index).namespaced;
        if is_namespaced && path.namespace.is_none() && path.name.is_none() {
            // Requests to all namespaces can only read.
            return Err(Status::not_allowed());
        }
        if path.namespace.is_some() != is_namespaced {
            return Err(Status::no_such_path());
        }
        let target = WriteTarget {
            resource: &resource,
            path,
            is_status,
        };
        match (write.method, path.name) {
            ("POST", None) => self.post(target, write.body),
            ("PUT", Some(name)) => self.replace(target, name, write.body),
            ("PATCH", Some(name)) => self.patch(target, name, write),
            ("DELETE", Some(name)) => self.remove(target, name, write.body),
            _ => Err(Status::not_allowed()),
        }
    }

    fn post(&mut self, target: WriteTarget<'_>, body: &[u8]) -> Result<(u16, Value), Status> {
        let object = target.place(parse(body)?, None)?;
        let before = self.store.version;
        self.create(target.resource, object)
            .map_err(|error| target.refused(error, "…"))?;
        // The name may have been generated, so the object is found by its version.
        let created = self
            .objects_at(target.resource, before + 1)
            .find(|object| object.version() == before + 1)
            .map(|object| (object.namespace().to_string(), object.name().to_string()));
        let (namespace, name) = created.unwrap_or_default();
        Ok((201, self.shown(target, &namespace, &name)?))
    }

    fn replace(
        &mut self,
        target: WriteTarget<'_>,
        name: &str,
        body: &[u8],
    ) -> Result<(u16, Value), Status> {
        let new = target.place(parse(body)?, Some(name))?;
        let object = self.with_status_of(target, name, new)?;
        self.update(target.resource, object)
            .map_err(|error| target.refused(error, name))?;
        Ok((200, self.shown(target, target.namespace(), name)?))
    }

    fn patch(
        &mut self,
        target: WriteTarget<'_>,
        name: &str,
        write: Write<'_>,
    ) -> Result<(u16, Value), Status> {
        let applies = write.content_type.starts_with("application/apply-patch");
        let merges = write.content_type.starts_with("application/merge-patch")
            || write
                .content_type
                .starts_with("application/strategic-merge-patch");
        if !applies && !merges {
            return Err(Status::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format",
            ));
        }
        let patch = parse(write.body)?;
        let existing = self.get(target.resource, target.namespace(), name);
        let is_new = existing.is_none();
        let existing = match existing {
            Some(existing) => existing,
            None if applies && !target.is_status => json!({}),
            None => return Err(target.refused(MutationError::NotFound, name)),
        };
        // The version in a patch is optional. If present, it must be the object's current one.
        let expected = patch.pointer("/metadata/resourceVersion").cloned();
        let mut merged = existing;
        merge(&mut merged, patch);
        match (expected, merged.pointer_mut("/metadata")) {
            (Some(expected), Some(metadata)) => metadata["resourceVersion"] = expected,
            (None, Some(Value::Object(metadata))) => drop(metadata.remove("resourceVersion")),
            (_, _) => {}
        }
        let merged = target.place(merged, Some(name))?;
        let object = self.with_status_of(target, name, merged)?;
        self.apply(target.resource, object)
            .map_err(|error| target.refused(error, name))?;
        let status = if is_new { 201 } else { 200 };
        Ok((status, self.shown(target, target.namespace(), name)?))
    }

    fn remove(
        &mut self,
        target: WriteTarget<'_>,
        name: &str,
        body: &[u8],
    ) -> Result<(u16, Value), Status> {
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
        let version = self
            .delete(target.resource, target.namespace(), name)
            .map_err(|error| target.refused(error, name))?;
        let metadata = &mut existing["metadata"];
        let answer = match self.config.deletes {
            DeleteAnswer::Status => {
                let uid = metadata["uid"].take();
                let details = json!({ "name": name, "kind": target.path.plural, "uid": uid });
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
        Ok((200, answer))
    }

    /// Returns the object to store: a write to `/status` changes only the status.
    fn with_status_of(
        &self,
        target: WriteTarget<'_>,
        name: &str,
        new: Value,
    ) -> Result<Value, Status> {
        if !target.is_status {
            return Ok(new);
        }
        let mut object = self
            .get(target.resource, target.namespace(), name)
            .ok_or_else(|| target.refused(MutationError::NotFound, name))?;
        object["status"] = new["status"].clone();
        match new.pointer("/metadata/resourceVersion") {
            Some(version) => object["metadata"]["resourceVersion"] = version.clone(),
            None => {
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.remove("resourceVersion");
                }
            }
        }
        Ok(object)
    }

    fn shown(&self, target: WriteTarget<'_>, namespace: &str, name: &str) -> Result<Value, Status> {
        self.get(target.resource, namespace, name)
            .ok_or_else(|| target.refused(MutationError::NotFound, name))
    }
}

/// The target of a write.
#[derive(Clone, Copy)]
struct WriteTarget<'a> {
    /// The name that `FakeServer::find` accepts.
    resource: &'a str,
    path: ApiPath<'a>,
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
                Some(_) => {
                    return Err(Status::bad_request(
                        ["the ", member, " of the object is not that of the request"].concat(),
                    ));
                }
            }
        }
        Ok(Value::Object(object))
    }

    fn refused(&self, error: MutationError, name: &str) -> Status {
        let text = |what: &str| -> String { [self.path.plural, " \"", name, "\" ", what].concat() };
        match error {
            MutationError::NotFound => {
                Status::no_such_object(self.path.group, self.path.plural, name)
            }
            MutationError::AlreadyExists => {
                Status::new(409, "AlreadyExists", text("already exists"))
            }
            MutationError::Conflict => Status::new(
                409,
                "Conflict",
                text(
                    "the object has been modified; please apply your changes to the latest version",
                ),
            ),
            MutationError::UnknownResource | MutationError::NotAnObject | MutationError::NoName => {
                Status::bad_request(error.to_string())
            }
        }
    }
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
