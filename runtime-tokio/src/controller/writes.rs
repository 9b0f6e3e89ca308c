//! Logs of writes, which controllers wait for.

use core::fmt;
use core::time::Duration;
#[cfg(feature = "requests")]
use std::collections::BTreeSet;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use informer_core::json::{as_str, value_at};
use informer_core::{Form, Resource, object::ExpectedState};
use tokio::time::Instant;

use super::own::{OwnWrite, OwnWrites};
use super::task::Write;
use crate::cache::entry::Key;
use crate::cache::shown::{Awaited, AwaitedState, Leaves, ShowsWrites, Written};
use crate::health::error::Ended;
use crate::informer::Informer;

/// How long a write stays in a log whose caches do not show it.
const KEEP: Duration = Duration::from_secs(300);

/// The subresources through which an object is written.
#[cfg(feature = "requests")]
const WRITTEN: [&str; 8] = [
    "status",
    "scale",
    "binding",
    "eviction",
    "ephemeralcontainers",
    "resize",
    "finalize",
    "approval",
];

/// Remembers the writes of a program until the caches of its informers show them. Clones share the log.
///
/// A program that sees the answers of the API server, such as a wrapper of the client, [records](Self::record) the writes.
/// A [`Controller`](super::Controller) whose informers [came with the log](super::Provided::with_writes) waits for the
/// writes that were recorded during a run before it reconciles the key again. So no run sees a state from before its
/// own writes. If the caches then show another state than a successful run left, the key is requeued, since no
/// event may tell of what happened in between. The log does not know which run wrote something, so writes of concurrent
/// runs are awaited too.
///
/// A write is awaited only in the caches that the server sends it to: attached informers of the resource whose
/// namespaces and selectors match the object, or whose cache holds it. It is not awaited in an informer that has never had
/// a list and does not run or cannot list now, nor in a namespace or a cluster that has left since.
///
/// ```
/// use informer_tokio::{Informer, Raw, Resource};
/// use informer_tokio::controller::WriteLog;
/// # async fn example(pods: Informer<Raw>) -> Result<(), informer_tokio::informer::Ended> {
/// let log = WriteLog::default();
/// log.attach(&pods);
/// let answer = br#"{"metadata":{"name":"web","namespace":"prod","resourceVersion":"4711"}}"#;
/// log.record(&Resource::new("", "v1", "pods"), "prod/web", "4711", Some(answer));
/// log.seen().await?;
/// assert!(pods.lister().get("prod", "web").is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct WriteLog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<WriteLogState>,
    /// The writes of runs, which controllers [may skip](super::Controller::skip_own_writes).
    own: Mutex<OwnWrites>,
}

#[derive(Default)]
struct WriteLogState {
    /// Further subresources through which objects are written.
    #[cfg(feature = "requests")]
    subresources: BTreeSet<String>,
    /// Held weakly, so that a log keeps no cache in memory.
    caches: Vec<Weak<dyn ShowsWrites>>,
    /// The writes that were not shown when they were recorded, by their number.
    pending: VecDeque<Pending>,
    next: u64,
    /// The numbers of the next write at the begin of each run that has not ended.
    runs: Vec<u64>,
    /// The number of writes at which those that are shown are removed.
    sweep_at: usize,
}

struct Pending {
    number: u64,
    at: Instant,
    cache: Weak<dyn ShowsWrites>,
    key: Key,
    expected: AwaitedState,
    /// No later write to the object was recorded.
    is_last: bool,
}

impl WriteLog {
    /// Attaches an informer, whose cache is expected to show the writes. It does not count as a user of a shared
    /// informer.
    pub fn attach<F: Form<Stored: Send + Sync + 'static>>(&self, informer: &Informer<F>) {
        let cache = informer.shows();
        let mut state = self.lock();
        state.caches.retain(|cache| cache.strong_count() > 0);
        if !state.caches.iter().any(|other| other.ptr_eq(&cache)) {
            state.caches.push(cache);
        }
    }

    /// Adds a subresource through which objects are written, and whose answer is the object, for
    /// [`RecordWrites`](super::RecordWrites). Its answers are read whole, so it must not be answered by a stream.
    ///
    /// ```
    /// let log = informer_tokio::controller::WriteLog::default();
    /// log.add_subresource("restart");
    /// ```
    #[cfg(feature = "requests")]
    pub fn add_subresource(&self, name: impl Into<String>) {
        let name = name.into();
        self.lock().subresources.insert(name);
    }

    /// Returns whether a request for this subresource writes the object.
    #[cfg(feature = "requests")]
    pub(crate) fn is_written_by(&self, subresource: &str) -> bool {
        WRITTEN.contains(&subresource) || self.lock().subresources.contains(subresource)
    }

    /// Records the answer to a POST, PUT, PATCH or DELETE of one object: its resource, its key, and the state that
    /// follows from the answer; see [`ExpectedState`]. `object` is the JSON of the object, from which selectors decide
    /// whether an informer will see it. Without it, they are taken to match.
    ///
    /// `ExpectedState::gone("", "")` is the deletion of an object whose uid the answer does not contain. Caches are
    /// expected to lose the object that they hold.
    pub fn record(
        &self,
        resource: &Resource<'_>,
        key: &str,
        expected: impl Into<ExpectedState<Key>>,
        object: Option<&[u8]>,
    ) {
        let expected = expected.into();
        let write = Written {
            resource: *resource,
            key,
            object,
        };
        // A cache is dropped outside of the lock, since that runs code of users.
        let caches: Vec<Arc<dyn ShowsWrites>> = {
            let state = self.lock();
            state.caches.iter().filter_map(Weak::upgrade).collect()
        };
        let is_of_unknown = expected == ExpectedState::gone("", "");
        for cache in &caches {
            let mut expected = cache.expected(key, expected.clone());
            match cache.awaits(&write) {
                Awaited::Nothing => continue,
                Awaited::Selected if is_of_unknown => {
                    // The write before it may have created the object.
                    let after = self.last_pending(cache, key);
                    match (cache.uid(key), &after) {
                        (Some(uid), _) => expected.state = ExpectedState::gone(&uid, ""),
                        // No version is shown by an unknown one, so only the absence counts.
                        (None, Some(_)) => expected.state = ExpectedState::at_version(""),
                        (None, None) => continue,
                    }
                    expected.leaves = Some(Leaves { after });
                }
                Awaited::Selected => {}
                Awaited::Leaving { is_held } => {
                    // A state that the cache is about to show counts as well.
                    let after = self.last_pending(cache, key);
                    if !is_held && after.is_none() {
                        continue;
                    }
                    expected.leaves = Some(Leaves { after });
                }
            }
            let is_shown = cache.is_shown(key, &expected);
            let is_over = cache.is_over() || is_shown && !cache.is_superseded(key, &expected);
            let same = Arc::downgrade(cache);
            let mut state = self.lock();
            let earlier = state.pending.iter_mut();
            earlier
                .filter(|one| one.key.as_str() == key && one.cache.ptr_eq(&same))
                .for_each(|one| one.is_last = false);
            if is_over {
                continue;
            }
            let pending = Pending {
                number: state.next,
                at: Instant::now(),
                cache: same,
                key: Key::new(key),
                expected,
                is_last: true,
            };
            state.next += 1;
            state.pending.push_back(pending);
        }
        self.sweep();
    }

    /// Records the answer to a PUT or PATCH of a subresource, like [`record`](Self::record), with the request that it
    /// answers. So a controller can tell its own write from other changes:
    /// see [`skip_own_writes`](super::Controller::skip_own_writes). It must be called in the task of the run. Both are the
    /// JSON of their bodies, and the answer is that of the object or of its `Scale`.
    pub fn record_subresource(
        &self,
        resource: &Resource<'_>,
        key: &str,
        subresource: &str,
        request: &[u8],
        answer: &[u8],
    ) {
        let text = |path: &[&str]| value_at(answer, path).and_then(as_str);
        let Some(version) = text(&["metadata", "resourceVersion"]) else {
            return;
        };
        self.note_own(resource, key, subresource, request, answer);
        // A Scale has the version of its object, but not its labels.
        let is_scale = text(&["kind"]).is_some_and(|kind| kind.eq_str("Scale"));
        let expected = ExpectedState::at_version(&version.to_string());
        self.record(resource, key, expected, (!is_scale).then_some(answer));
    }

    /// Notes that an answer has the state of a write, if this is called in the task of a run.
    pub(super) fn note_own(
        &self,
        resource: &Resource<'_>,
        key: &str,
        subresource: &str,
        request: &[u8],
        answer: &[u8],
    ) {
        if let Some(write) = OwnWrite::of(resource, subresource, request, answer) {
            self.own().put(&Key::new(key), write);
        }
    }

    /// Waits until the attached caches show every write that has been recorded so far. Writes are not awaited in the
    /// cache of an informer that had ended when they were recorded.
    ///
    /// # Errors
    /// Fails if an informer ends before its cache shows a write.
    pub async fn seen(&self) -> Result<(), Ended> {
        for write in self.since(0) {
            write.seen.await?;
        }
        Ok(())
    }

    /// Begins a run, whose writes stay in the log until it ends.
    pub(super) fn begin(&self) -> Began {
        let mut state = self.lock();
        let next = state.next;
        state.runs.push(next);
        Began {
            log: self.clone(),
            next,
        }
    }

    /// Returns the writes from a number on that are not shown yet, or that are superseded.
    fn since(&self, number: u64) -> Vec<Write> {
        let pending: Vec<_> = {
            let state = self.lock();
            let pending = state.pending.iter().filter(|one| one.number >= number);
            pending
                .filter_map(|one| {
                    let (key, expected) = (one.key.clone(), one.expected.clone());
                    Some((one.cache.upgrade()?, key, expected, one.is_last))
                })
                .collect()
        };
        pending
            .into_iter()
            .filter(|(cache, key, expected, is_last)| {
                let key = key.as_str();
                let is_awaited = !cache.is_shown(key, expected) && !cache.has_no_list(key);
                is_awaited || *is_last && cache.is_superseded(key, expected)
            })
            .map(|(cache, key, expected, is_last)| Write {
                informer: cache.name().to_owned(),
                key: key.clone(),
                expected: expected.state.clone(),
                is_last,
                seen: cache.wait(key, expected),
            })
            .collect()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the last write of an object that a cache selects but does not show yet.
    fn last_pending(&self, cache: &Arc<dyn ShowsWrites>, key: &str) -> Option<ExpectedState<Key>> {
        let same = Arc::downgrade(cache);
        let state = self.lock();
        let mut pending = state.pending.iter().rev();
        let last = pending.find(|one| {
            one.key.as_str() == key && one.expected.leaves.is_none() && one.cache.ptr_eq(&same)
        })?;
        (!cache.is_shown(key, &last.expected)).then(|| last.expected.state.clone())
    }

    /// Removes the writes that are shown, or that are too old. It does so whenever their number has doubled. What came of the
    /// writes of a run matters until it ends.
    fn sweep(&self) {
        let mut dropped = Vec::new();
        let mut state = self.lock();
        if state.pending.len() < state.sweep_at {
            return;
        }
        let oldest = state.runs.iter().min().copied().unwrap_or(u64::MAX);
        state.pending.retain(|one| {
            let Some(cache) = one.cache.upgrade() else {
                return false;
            };
            let is_old = one.at.elapsed() > KEEP;
            let key = one.key.as_str();
            let is_shown = cache.is_shown(key, &one.expected);
            let matters = one.number >= oldest
                && one.is_last
                && cache.is_superseded(key, &one.expected);
            let is_over = cache.is_over() || is_shown && !matters;
            if is_old && !is_over && !is_shown && !cache.has_no_list(one.key.as_str()) {
                tracing::warn!(informer = cache.name(), key = %one.key, "a write was not shown within {KEEP:?}");
            }
            // It may be the last reference.
            dropped.push(cache);
            !is_over && !is_old
        });
        state.sweep_at = (2 * state.pending.len()).max(64);
        drop(state);
    }

    fn lock(&self) -> MutexGuard<'_, WriteLogState> {
        // No code of users runs under this lock.
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn own(&self) -> MutexGuard<'_, OwnWrites> {
        // No code of users runs under this lock.
        let own = self.0.own.lock();
        own.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The begin of a run.
pub(super) struct Began {
    log: WriteLog,
    next: u64,
}

impl Began {
    /// Returns the writes since that are not shown yet, or that are superseded.
    pub(super) fn writes(&self) -> Vec<Write> {
        self.log.since(self.next)
    }
}

impl Drop for Began {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        if let Some(at) = state.runs.iter().position(|next| *next == self.next) {
            state.runs.swap_remove(at);
        }
    }
}

impl fmt::Debug for WriteLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("WriteLog")
            .field("informers", &state.caches.len())
            .field("pending", &state.pending.len())
            .finish_non_exhaustive()
    }
}
