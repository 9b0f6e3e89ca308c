//! Changes that are nothing but a controller's own writes.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::json::{as_str, value_at};
use informer_core::{Form, Resource, ResourceVersion};
use serde_json::Value;
use tokio::time::Instant;

use super::handle::{Counts, ORDER};
use super::queue::WorkQueue;
use super::writes::WriteLog;
use crate::cache::entry::{Entry, Key};

/// How long an own write is known. A change that arrives later counts.
const KEEP: Duration = Duration::from_secs(300);
/// The most own writes that are known of one object, and the most changes that wait for the end of one run.
const PER_OBJECT: usize = 16;
/// The most own writes that are known of all objects.
const MOST: usize = 1 << 16;

/// A key in a controller, which reconciles it by one run at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Runner {
    controller: u64,
    key: Key,
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

fn name_of(resource: &Resource<'_>) -> String {
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
    fn has(&self, change: &Change, runner: &Runner, subresources: &BTreeSet<String>) -> bool {
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
struct Change {
    log: WriteLog,
    resource: Arc<str>,
    key: Key,
    from: ResourceVersion<Key>,
    to: ResourceVersion<Key>,
    /// Nothing but the status differs.
    is_of_status: bool,
}

/// Skips the changes that are nothing but own writes of a controller.
pub(super) struct Skip {
    subresources: BTreeSet<String>,
    /// The number of the controller.
    controller: u64,
    queue: WorkQueue<Key>,
    debounce: Duration,
    counts: Arc<Counts>,
    running: Mutex<Running>,
}

/// The keys that are reconciled, each with the changes that its run may have made; `None` when the controller stops.
type Running = Option<HashMap<Key, Vec<Change>>>;

impl Skip {
    pub(super) fn new(
        subresources: BTreeSet<String>,
        queue: &WorkQueue<Key>,
        debounce: Duration,
        counts: &Arc<Counts>,
    ) -> Self {
        static CONTROLLERS: AtomicU64 = AtomicU64::new(0);
        Self {
            subresources,
            controller: CONTROLLERS.fetch_add(1, Ordering::Relaxed),
            queue: queue.clone(),
            debounce,
            counts: Arc::clone(counts),
            running: Mutex::new(Some(HashMap::new())),
        }
    }

    /// A run of a key begins. Its writes are known by what is returned.
    pub(super) fn begin(&self, key: &Key) -> Runner {
        if let Some(running) = &mut *self.lock() {
            running.insert(key.clone(), Vec::new());
        }
        self.runner(key)
    }

    /// The run of a key has ended. What it has not written is a change.
    pub(super) fn end(&self, key: &Key) {
        let changes = self.lock().as_mut().and_then(|running| running.remove(key));
        for change in changes.unwrap_or_default() {
            if self.is_own(&change, key) {
                self.counts.skipped.fetch_add(1, ORDER);
            } else {
                self.queue.add_after(key.clone(), self.debounce);
            }
        }
    }

    /// The controller stops, so that no decision can wait.
    pub(super) fn stop(&self) {
        let running = self.lock().take();
        for (key, changes) in running.unwrap_or_default() {
            if !changes.is_empty() {
                self.queue.add(key);
            }
        }
    }

    /// Returns whether a change does not add a key: it is an own write, or this is decided when the run of the key ends.
    fn takes(&self, change: Change, key: &Key) -> bool {
        // Otherwise the run could end between the two decisions.
        let mut running = self.lock();
        if self.is_own(&change, key) {
            self.counts.skipped.fetch_add(1, ORDER);
            return true;
        }
        let changes = running.as_mut().and_then(|running| running.get_mut(key));
        let Some(changes) = changes.filter(|changes| changes.len() < PER_OBJECT) else {
            return false;
        };
        changes.push(change);
        true
    }

    fn is_own(&self, change: &Change, key: &Key) -> bool {
        let (own, runner) = (change.log.own(), self.runner(key));
        own.has(change, &runner, &self.subresources)
    }

    fn runner(&self, key: &Key) -> Runner {
        Runner {
            controller: self.controller,
            key: key.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        // No code of users runs under this lock.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is skipped of the changes of one informer.
pub(super) struct SkipOf {
    skip: Arc<Skip>,
    log: WriteLog,
    resource: Arc<str>,
}

impl SkipOf {
    pub(super) fn new(skip: &Arc<Skip>, log: &WriteLog, resource: &Resource<'_>) -> Self {
        Self {
            skip: Arc::clone(skip),
            log: log.clone(),
            resource: name_of(resource).into(),
        }
    }

    /// Returns whether an update does not add a key; see [`Skip::takes`].
    pub(super) fn takes<F: Form>(&self, old: &Entry<F>, new: &Entry<F>, key: &Key) -> bool {
        // A list may hide what happened before.
        new.is_from_watch()
            && self.skip.takes(
                Change {
                    log: self.log.clone(),
                    resource: Arc::clone(&self.resource),
                    key: new.key().clone(),
                    from: old.version().clone(),
                    to: new.version().clone(),
                    is_of_status: new.is_as_beside_status(old),
                },
                key,
            )
    }
}
