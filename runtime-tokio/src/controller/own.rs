//! The own writes of a controller, and changes that are nothing but one of them.

use core::time::Duration;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use informer_core::json::{as_str, value_at};
use informer_core::{Resource, ResourceVersion};
use serde_json::Value;
use tokio::time::Instant;

use crate::cache::entry::Key;

/// How long an own write is known. A change that arrives later counts.
const KEEP: Duration = Duration::from_secs(300);
/// The most own writes that are known of one object, and the most changes that wait for the end of one run.
pub(super) const PER_OBJECT: usize = 16;
/// The most own writes that are known of all objects.
const MOST: usize = 1 << 16;

/// A key in a controller, which reconciles it by one run at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Runner {
    pub(super) controller: u64,
    pub(super) key: Key,
}

tokio::task_local! {
    /// Whose run the task is.
    static RUNNER: Runner;
}

impl Runner {
    /// Runs a function of the user, whose writes are its own.
    pub(super) fn scope<R>(self, running: impl Future<Output = R>) -> impl Future<Output = R> {
        RUNNER.scope(self, running)
    }
}

/// A write of a subresource, as its answer shows it.
#[derive(Debug)]
pub(super) struct OwnWrite {
    resource: Box<str>,
    subresource: Box<str>,
    version: ResourceVersion<Key>,
    basis: Basis,
    runner: Runner,
}

/// Why the version in an answer is known to be that of the write. The server answers a write that changes nothing with the
/// version that it has, which may be that of somebody else's change.
#[derive(Debug)]
enum Basis {
    /// The write was for this state only. If it changed nothing, no change leads from it to the version of the answer.
    State(ResourceVersion<Key>),
    /// The object has the whole status of the write. Whoever wrote it, a change of nothing but the status led to what the
    /// write says.
    WholeStatus,
}

impl OwnWrite {
    /// Returns `None` outside of the task of a run whose controller skips own writes, and if the version in the answer may be that of somebody else's change.
    pub(super) fn of(
        resource: &Resource<'_>,
        subresource: &str,
        request: &[u8],
        answer: &[u8],
    ) -> Option<Self> {
        let runner = RUNNER.try_with(Runner::clone).ok()?;
        let version = version_of(answer)?;
        let basis = match version_of(request) {
            Some(before) => Basis::State(before),
            None if subresource == "status" && has_whole_status(request, answer) => {
                Basis::WholeStatus
            }
            None => return None,
        };
        Some(Self {
            resource: name_of(resource).into(),
            subresource: subresource.into(),
            version,
            basis,
            runner,
        })
    }
}

pub(super) fn name_of(resource: &Resource<'_>) -> String {
    format!("{}.{}", resource.plural, resource.group)
}

fn version_of(object: &[u8]) -> Option<ResourceVersion<Key>> {
    let version = value_at(object, &["metadata", "resourceVersion"]).and_then(as_str)?;
    Some(ResourceVersion::new(&version.to_string())).filter(ResourceVersion::is_known)
}

fn has_whole_status(request: &[u8], answer: &[u8]) -> bool {
    let status = |object: &[u8]| {
        let status = value_at(object, &["status"])?;
        let mut status: Value = serde_json::from_slice(status).ok()?;
        remove_nulls(&mut status);
        Some(status)
    };
    status(request).is_some_and(|sent| status(answer).is_some_and(|stored| sent == stored))
}

/// Removes the members without a value, which the server does not store.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The last writes of the runs of controllers that skip them, by their object.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    of: HashMap<Key, VecDeque<OwnWrite>>,
    /// When they were answered, from the oldest.
    order: VecDeque<(Instant, Key)>,
}

impl OwnWrites {
    pub(super) fn put(&mut self, key: &Key, write: OwnWrite) {
        let of = self.of.entry(key.clone()).or_default();
        of.push_back(write);
        if of.len() > PER_OBJECT {
            of.pop_front();
        }
        self.order.push_back((Instant::now(), key.clone()));
        while let Some((at, _)) = self.order.front()
            && (at.elapsed() > KEEP || self.order.len() > MOST)
            && let Some((_, key)) = self.order.pop_front()
        {
            self.forget_oldest(&key);
        }
    }

    fn forget_oldest(&mut self, key: &Key) {
        // With more than are kept, newer ones are forgotten too early.
        if let Some(of) = self.of.get_mut(key) {
            of.pop_front();
            if of.is_empty() {
                self.of.remove(key);
            }
        }
    }

    /// Returns whether a change is nothing but a write of a run.
    pub(super) fn has(
        &self,
        change: &Change,
        runner: &Runner,
        subresources: &BTreeSet<String>,
    ) -> bool {
        let mut writes = self.of.get(&change.key).into_iter().flatten();
        writes.any(|write| {
            let leads = match &write.basis {
                Basis::State(before) => *before == change.from,
                Basis::WholeStatus => change.is_of_status,
            };
            leads
                && write.version == change.to
                && *write.resource == *change.resource
                && subresources.contains(&*write.subresource)
                && write.runner == *runner
        })
    }
}

/// A change of an object in a cache, which came by one event of a watch.
pub(super) struct Change {
    pub(super) resource: Arc<str>,
    pub(super) key: Key,
    pub(super) from: ResourceVersion<Key>,
    pub(super) to: ResourceVersion<Key>,
    /// Nothing but the status differs.
    pub(super) is_of_status: bool,
}
