//! Arguments and results of reconcile functions.

use core::error::Error;
use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use informer_core::{Form, object::ExpectedState};

use crate::cache::entry::{Entry, Key};
use crate::health::error::ReadError;
use crate::health::error::{Ended, with_causes};
use crate::informer::Informer;

/// A key to reconcile, with the state of its object. It dereferences to the key.
///
/// ```
/// # async fn set_up(name: &str) -> Result<u64, std::io::Error> { Ok(7) }
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::controller::{Next, Task};
///
/// async fn reconcile(task: Task<Raw>, pods: Informer<Raw>) -> Result<Next, std::io::Error> {
///     let Some(pod) = task.object() else {
///         return Ok(Next::done()); // It was deleted.
///     };
///     let version = set_up(pod.name()).await?;
///     task.wrote(&pods, &task, &version.to_string());
///     Ok(Next::done())
/// }
/// ```
pub struct Task<F: Form> {
    key: Key,
    object: Option<Entry<F>>,
    exists: Option<bool>,
    attempt: u32,
    writes: Writes,
}

/// The writes that one run has recorded.
pub(crate) type Writes = Arc<Mutex<Vec<Write>>>;

/// A write that the cache should show.
pub(crate) struct Write {
    pub(crate) informer: String,
    pub(crate) key: Key,
    pub(crate) expected: ExpectedState<Key>,
    /// The run has not recorded a later write to the object.
    pub(crate) is_last: bool,
    /// Resolves to whether the object was changed or deleted since.
    pub(crate) seen: Pin<Box<dyn Future<Output = Result<bool, Ended>> + Send>>,
}

impl<F: Form> Task<F> {
    pub(crate) const fn new(
        key: Key,
        object: Option<Entry<F>>,
        exists: Option<bool>,
        attempt: u32,
        writes: Writes,
    ) -> Self {
        Self {
            key,
            object,
            exists,
            attempt,
            writes,
        }
    }

    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the object as the cache showed it when the run began; `None` if the cache had none. Then it does not
    /// [exist](Self::exists), or the informer does not select it.
    #[must_use]
    pub const fn object(&self) -> Option<&Entry<F>> {
        self.object.as_ref()
    }

    /// Returns whether the object exists; `None` if that is not known. An object that is not in the cache may exist if the
    /// informer selects objects by labels, fields or a shard, or has no source for the namespace or the cluster of the key.
    ///
    /// The keys of [`owns`](super::Controller::owns) are those of objects that the informer selects. Those of
    /// [`watches`](super::Controller::watches), streams and handles can be any.
    ///
    /// ```
    /// # fn clean_up(key: &informer_tokio::Key) {}
    /// # fn example(task: &informer_tokio::controller::Task<informer_tokio::Raw>) {
    /// match task.exists() {
    ///     Some(false) => clean_up(task.key()),
    ///     Some(true) | None => {} // It may exist without the label that the informer selects.
    /// }
    /// # }
    /// ```
    #[must_use]
    pub const fn exists(&self) -> Option<bool> {
        self.exists
    }

    /// Returns how often this key has failed since its last success.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Records a write: the object, its informer, and the resourceVersion in the server's response.
    ///
    /// The key is not reconciled again until that informer's cache shows the write, so that no run sees the state
    /// before its own write and repeats it. Record the write as soon as it is done: it counts even if the run fails
    /// afterwards. If the cache then shows another state than a successful run left, the key is requeued, since
    /// no event may tell of what happened in between. The wait is limited by
    /// [`Controller::write_deadline`](crate::controller::Controller::write_deadline), and ends if the informer has never
    /// had a list and cannot list now.
    ///
    /// After a DELETE, pass [`ExpectedState::gone`] or [`ExpectedState::after_delete`], since the version in that
    /// response may be the one that the cache already shows.
    ///
    /// ```
    /// # fn example(task: informer_tokio::controller::Task<informer_tokio::Raw>, deployments: informer_tokio::Informer<informer_tokio::Raw>) {
    /// use informer_tokio::Key;
    /// use informer_tokio::informer::ExpectedState;
    /// task.wrote(&deployments, &Key::new("prod/web"), "4711");
    /// let uid = "0b5ba2b0-6f0f-4f0c-8b0a-2f1c9b7d1e55";
    /// task.wrote(&deployments, &Key::new("prod/old"), ExpectedState::gone(uid, "4000"));
    /// # }
    /// ```
    pub fn wrote<G: Form<Stored: Send + Sync + 'static>>(
        &self,
        informer: &Informer<G>,
        key: &Key,
        expected: impl Into<ExpectedState<Key>>,
    ) {
        let expected = expected.into();
        let write = Write {
            informer: informer.name().to_owned(),
            key: key.clone(),
            expected: expected.clone(),
            is_last: true,
            seen: {
                let (informer, key) = (informer.clone(), key.clone());
                Box::pin(async move { informer.await_write(key.as_str(), expected).await })
            },
        };
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        for earlier in &mut *writes {
            earlier.is_last &= (&earlier.informer, &earlier.key) != (&write.informer, &write.key);
        }
        writes.push(write);
    }
}

impl<F: Form> Deref for Task<F> {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.key
    }
}

impl<F: Form> fmt::Debug for Task<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("key", &self.key)
            .field("object", &self.object)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.informer, self.key, self.expected)
    }
}

/// The result of a successful reconciliation.
///
/// ```
/// use informer_tokio::controller::Next;
/// async fn reconcile(is_ready: bool) -> Result<Next, std::io::Error> {
///     Ok(if is_ready { Next::done() } else { Next::after(core::time::Duration::from_secs(10)) })
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Next {
    pub(crate) after: Option<Duration>,
    pub(crate) priority: Option<i32>,
}

impl Next {
    /// Does not requeue the key. It is reconciled again after the next change.
    #[must_use]
    pub const fn done() -> Self {
        Self {
            after: None,
            priority: None,
        }
    }

    /// Requeues the key after this time, even without a change. It keeps its priority: that of a change, 0, or that of the
    /// initial list and of resyncs, -100.
    #[must_use]
    pub const fn after(time: Duration) -> Self {
        Self {
            after: Some(time),
            priority: None,
        }
    }

    /// Requeues the key at once, after its writes are seen. So a function that does one step in each run continues
    /// although its own writes are [skipped](super::Controller::skip_own_writes).
    #[must_use]
    pub const fn again() -> Self {
        Self::after(Duration::ZERO)
    }

    /// Sets the priority of the key when it is requeued. Keys of higher priority come first.
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_tokio::controller::Next;
    /// // A periodic check, which no change waits for.
    /// let next = Next::after(Duration::from_secs(3600)).priority(-1000);
    /// ```
    #[must_use]
    pub const fn priority(self, priority: i32) -> Self {
        Self {
            priority: Some(priority),
            ..self
        }
    }
}

/// A reconcile function can return `()` instead of [`Next::done`].
impl From<()> for Next {
    fn from((): ()) -> Self {
        Self::done()
    }
}

/// When a key is reconciled again after an error; see [`Controller::run_with`](super::Controller::run_with).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Retry {
    /// After the delay of the [rate limit](super::Controller::limit), which grows with each failure.
    #[default]
    Limited,
    /// After this time.
    After(Duration),
    /// After the next change of the object.
    Never,
}

/// The reason why a reconciliation failed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Failure<'a> {
    /// The reconcile function returned this error. The key is retried, unless [`Retry`] decides otherwise. It is displayed
    /// with its [sources](Error::source).
    Failed(&'a (dyn Error + Send + Sync + 'static)),
    /// The reconcile function or the predicate of [`only`](super::Controller::only) panicked with this message. The key
    /// is retried.
    Panicked(&'a str),
    /// The cache did not show a write in time. The key may be reconciled with the state before the write.
    WriteNotSeen {
        /// The informer that should have shown it.
        informer: &'a str,
        /// The object that was written.
        written: &'a Key,
        /// The expected state.
        expected: &'a ExpectedState<Key>,
        /// The length of the wait.
        waited: Duration,
    },
    /// A run has not ended for this time, which is ten minutes or more. It is reported once, and goes on: the key is
    /// not reconciled again before it ends.
    StillRunning(Duration),
    /// The run was cut since it took longer than [`run_within`](super::Controller::run_within). The key is retried.
    OutOfTime(Duration),
    /// The keys are held, since a cache may be older than [`max_staleness`](super::Controller::max_staleness). It is reported
    /// once, for the first of them.
    CacheTooOld(&'a ReadError),
    /// The run was cut: the time to stop was over, or the key no longer belongs to this controller.
    Cut,
}

impl Failure<'_> {
    /// Returns an error with this text.
    pub(super) fn to_error(self) -> Arc<dyn Error + Send + Sync> {
        let error: Box<dyn Error + Send + Sync> = self.to_string().into();
        error.into()
    }
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => f.write_str(&with_causes(*error)),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::WriteNotSeen {
                informer,
                written,
                expected,
                waited,
            } => write!(
                f,
                "{informer} did not show the write of {written} {expected} within {waited:?}"
            ),
            Self::StillRunning(time) => write!(f, "the run has not ended for {time:?}"),
            Self::OutOfTime(limit) => write!(f, "cut, since the run took longer than {limit:?}"),
            Self::CacheTooOld(error) => write!(f, "all keys are held: {error}"),
            Self::Cut => {
                f.write_str("cut by a stop, or because the key belongs to another controller")
            }
        }
    }
}
