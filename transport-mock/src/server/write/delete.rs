//! Deletion of objects and of collections.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::admission::{Admission, Operation};
use super::established::{CLEANUP, set_terminating};
use super::metadata::{FOREGROUND, ORPHAN};
use super::options::{DeleteOptions, Propagation};
use super::store::drop_nulls;
use super::target::{Target, text};
use super::{Done, namespace, parse};
use crate::config::DeleteAnswer;
use crate::filter::Filter;
use crate::object::{Form, Object, ResourceType};
use crate::server::{FakeServer, MutationError};
use crate::status::Status;
use crate::store::key;

impl FakeServer {
    pub(super) fn remove(
        &mut self,
        target: &Target<'_>,
        name: &str,
        body: &[u8],
    ) -> Result<Done, Status> {
        let options = delete_options(target, body)?;
        let existing = self
            .current(target, name)
            .ok_or_else(|| target.refused(MutationError::NotFound, name))?;
        self.remove_one(target, name, existing, &options)
    }

    pub(super) fn remove_one(
        &mut self,
        target: &Target<'_>,
        name: &str,
        mut existing: Value,
        options: &DeleteOptions,
    ) -> Result<Done, Status> {
        self.check_deletion(target, name)?;
        check_preconditions(target, name, &existing, &options.preconditions)?;
        self.hooks.call(Admission {
            operation: Operation::Delete,
            resource: target.path.plural,
            group: target.path.group,
            subresource: "",
            namespace: target.namespace(),
            name,
            object: &mut Value::Null,
            old: Some(&existing),
            dry_run: options.is_dry,
        })?;
        let finalizers = finalizers_after(&existing, options.propagation, &target.kind);
        let is_kept =
            target.kind.is_namespaces() && namespace::finalizers(&existing).next().is_some();
        let grace = self.grace(&target.kind, &existing, options.grace);
        if finalizers.is_empty() && !is_kept && grace == 0 {
            let version = if options.is_dry {
                self.store.version
            } else {
                self.delete_at(target.index, &key(target.namespace(), name));
                self.store.version
            };
            let answer = match self.config.deletes {
                DeleteAnswer::Status => {
                    let mut details = target.details(name);
                    details["uid"] = existing["metadata"]["uid"].take();
                    json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                        "details": details,
                    })
                }
                DeleteAnswer::OldVersion => existing,
                DeleteAnswer::NewVersion => {
                    existing["metadata"]["resourceVersion"] = version.to_string().into();
                    existing
                }
            };
            return Ok((200, answer.to_string().into_bytes()));
        }
        mark(&mut existing, &finalizers, grace, &self.time_in(grace));
        if is_kept {
            existing["status"]["phase"] = "Terminating".into();
        } else if target.kind.is_definitions() {
            set_terminating(&mut existing, &self.time());
        }
        self.commit(target, 200, existing, options.is_dry)
    }

    /// Deletes what a selector selects, object by object.
    pub(super) fn remove_all(&mut self, target: &Target<'_>, body: &[u8]) -> Result<Done, Status> {
        let options = delete_options(target, body)?;
        let filter = Filter::parse(target.path.namespace, target.query, &target.kind)?;
        let prefix = match target.path.namespace {
            Some(namespace) => [namespace, "/"].concat(),
            None => String::new(),
        };
        let objects = self
            .store
            .at(target.index, self.store.version, &prefix, None);
        let objects = objects.filter(|object| filter.matches(object, &target.kind));
        let objects: Vec<Arc<Object>> = objects.cloned().collect();
        let mut answer = b"{".to_vec();
        target.kind.write_type(&mut answer, "List");
        let version = self.store.version.to_string();
        answer.extend_from_slice(
            [
                "\"metadata\":{\"resourceVersion\":\"",
                &version,
                "\"},\"items\":[",
            ]
            .concat()
            .as_bytes(),
        );
        for (index, object) in objects.iter().enumerate() {
            if index > 0 {
                answer.push(b',');
            }
            object.write_item(&mut answer, &target.kind, Form::JSON);
        }
        answer.extend_from_slice(b"]}");
        for object in objects {
            let Some(existing) = self.current(target, &object.name) else {
                continue;
            };
            self.remove_one(target, &object.name, existing, &options)?;
        }
        Ok((200, answer))
    }

    /// Deletes an object without a request, or marks it if it has finalizers.
    pub(super) fn delete_or_mark(
        &mut self,
        index: usize,
        key: &str,
        mut existing: Value,
        propagation: Option<Propagation>,
    ) {
        let finalizers = finalizers_after(&existing, propagation, self.store.kind(index));
        let is_kept = self.store.kind(index).is_namespaces()
            && namespace::finalizers(&existing).next().is_some();
        let grace = self.grace(self.store.kind(index), &existing, None);
        if finalizers.is_empty() && !is_kept && grace == 0 {
            self.delete_at(index, key);
            return;
        }
        if is_kept {
            existing["status"]["phase"] = "Terminating".into();
        }
        mark(&mut existing, &finalizers, grace, &self.time_in(grace));
        // The object exists and has its version.
        let _ = self.put_at(index, existing, |_| Ok(()));
    }

    /// Returns for how many seconds an object outlives its deletion.
    fn grace(&self, kind: &ResourceType, object: &Value, asked: Option<u64>) -> u64 {
        let is_pod = !kind.custom && kind.plural == "pods";
        let runs = object["spec"]["nodeName"]
            .as_str()
            .is_some_and(|node| !node.is_empty())
            && !["Succeeded", "Failed"]
                .contains(&object["status"]["phase"].as_str().unwrap_or_default());
        if !self.config.graceful_pods || !is_pod || !runs {
            return 0;
        }
        let own = object["spec"]["terminationGracePeriodSeconds"]
            .as_u64()
            .unwrap_or(30);
        match object["metadata"]["deletionGracePeriodSeconds"].as_u64() {
            // A second deletion can only make it shorter.
            Some(left) => asked.unwrap_or(left).min(left),
            None => asked.unwrap_or(own),
        }
    }
}

fn delete_options(target: &Target<'_>, body: &[u8]) -> Result<DeleteOptions, Status> {
    let body = if body.is_empty() {
        Value::Null
    } else {
        parse(body)?
    };
    DeleteOptions::read(target.query, &body)
}

fn check_preconditions(
    target: &Target<'_>,
    name: &str,
    existing: &Value,
    preconditions: &Value,
) -> Result<(), Status> {
    for (member, shown, since) in [
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ] {
        let Some(expected) = preconditions[member].as_str() else {
            continue;
        };
        let current = text(existing, member).unwrap_or_default();
        if expected != current {
            let problem = [
                "the ",
                shown,
                " in the precondition (",
                expected,
                ") does not match the ",
                shown,
                " in record (",
                current,
                "). The object might have been ",
                since,
            ];
            return Err(target.unmet(name, &problem.concat()));
        }
    }
    Ok(())
}

/// Returns the finalizers of an object that is being deleted. Without any, it is deleted at once.
fn finalizers_after(
    existing: &Value,
    propagation: Option<Propagation>,
    kind: &ResourceType,
) -> Vec<String> {
    let own = existing["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten();
    let own: Vec<&str> = own.filter_map(Value::as_str).collect();
    let is_deleted = text(existing, "deletionTimestamp").is_some();
    let propagation = propagation.unwrap_or_else(|| {
        // Jobs of batch/v1 leave their Pods, for compatibility.
        let is_job = !kind.custom && kind.plural == "jobs";
        if own.contains(&ORPHAN) || is_job && !own.contains(&FOREGROUND) {
            Propagation::Orphan
        } else if own.contains(&FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        }
    });
    let added = match propagation {
        // The objects of a definition are deleted before it.
        Propagation::Background if kind.is_definitions() && !is_deleted => CLEANUP,
        Propagation::Background => "",
        Propagation::Foreground => FOREGROUND,
        Propagation::Orphan => ORPHAN,
    };
    let mut finalizers: Vec<String> = own
        .iter()
        .filter(|name| **name == added || ![ORPHAN, FOREGROUND].contains(*name))
        .map(ToString::to_string)
        .collect();
    if !added.is_empty() && !own.contains(&added) {
        finalizers.push(added.to_string());
    }
    finalizers
}

/// Marks an object as being deleted, at a time that is `grace` seconds from now.
fn mark(existing: &mut Value, finalizers: &[String], grace: u64, time: &str) {
    let metadata = &mut existing["metadata"];
    metadata["finalizers"] = match finalizers {
        [] => Value::Null,
        finalizers => json!(finalizers),
    };
    drop_nulls(metadata);
    let left = metadata["deletionGracePeriodSeconds"].as_u64();
    let is_shorter = left.is_some_and(|left| grace < left);
    if metadata["deletionTimestamp"].is_string() && !is_shorter {
        return;
    }
    metadata["deletionTimestamp"] = time.into();
    if is_shorter {
        metadata["deletionGracePeriodSeconds"] = grace.into();
        return;
    }
    if finalizers.is_empty() && grace == 0 || finalizers.iter().any(|own| own == CLEANUP) {
        // The server has its own code for Namespaces and definitions.
        return;
    }
    metadata["deletionGracePeriodSeconds"] = grace.into();
    if let Some(generation) = metadata["generation"].as_u64() {
        metadata["generation"] = (generation + 1).into();
    }
}
