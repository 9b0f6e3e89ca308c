//! What a reconcile function gets and gives.

use core::fmt;
use core::ops::Deref;
use core::pin::Pin;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use informer_core::object::ExpectedState;

use crate::cache::entry::Key;
use crate::health::error::Ended;
use crate::informer::Informer;

/// A key that is to be reconciled. It dereferences to the key.
///
/// ```
/// # async fn set_up(name: &str) -> Result<u64, std::io::Error> { Ok(7) }
/// use informer_tokio::{Informer, RawJson};
/// use informer_tokio::controller::{Next, Task};
///
/// async fn reconcile(task: Task, pods: Informer<RawJson>) -> Result<Next, std::io::Error> {
///     let Some(pod) = pods.lister().get_by_key(task.as_str()) else {
///         return Ok(Next::done()); // It is gone.
///     };
///     let version = set_up(pod.name()).await?;
///     task.wrote(&pods, &task, &version.to_string());
///     Ok(Next::done())
/// }
/// ```
#[derive(Debug)]
pub struct Task {
    key: Key,
    attempt: u32,
    writes: Writes,
}

/// The writes that one run has told of.
pub(crate) type Writes = Arc<Mutex<Vec<Write>>>;

/// A write that the cache is to show.
pub(crate) struct Write {
    pub(crate) informer: String,
    pub(crate) key: Key,
    pub(crate) expected: ExpectedState<Key>,
    pub(crate) seen: Pin<Box<dyn Future<Output = Result<(), Ended>> + Send>>,
}

impl Task {
    pub(crate) fn new(key: Key, attempt: u32) -> (Self, Writes) {
        let writes = Writes::default();
        let task = Self {
            key,
            attempt,
            writes: Arc::clone(&writes),
        };
        (task, writes)
    }

    /// Returns the key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns how often this key has failed since it last went well.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Records a write: which object of which informer's resource was written, and the resourceVersion that the server
    /// answered with. After a DELETE it is [`ExpectedState::gone`] or [`ExpectedState::after_delete`], since the version
    /// in that answer may be the one that the cache shows already.
    ///
    /// This key is not reconciled again before that informer's cache shows the write, so that no run sees a state from
    /// before its own write and repeats it. Record it as soon as it is done: it counts even if the run fails after it.
    ///
    /// The wait has an end: [`Controller::write_deadline`](crate::controller::Controller::write_deadline).
    ///
    /// ```
    /// # fn example(task: informer_tokio::controller::Task, deployments: informer_tokio::Informer<informer_tokio::RawJson>) {
    /// use informer_tokio::Key;
    /// use informer_tokio::informer::ExpectedState;
    /// task.wrote(&deployments, &Key::new("prod/web"), "4711");
    /// let uid = "0b5ba2b0-6f0f-4f0c-8b0a-2f1c9b7d1e55";
    /// task.wrote(&deployments, &Key::new("prod/old"), ExpectedState::gone(uid, "4000"));
    /// # }
    /// ```
    pub fn wrote<V: Send + Sync + 'static>(
        &self,
        informer: &Informer<V>,
        key: &Key,
        expected: impl Into<ExpectedState<Key>>,
    ) {
        let expected = expected.into();
        let write = Write {
            informer: informer.name().to_owned(),
            key: key.clone(),
            expected: expected.clone(),
            seen: {
                let (informer, key) = (informer.clone(), key.clone());
                Box::pin(async move { informer.wait_for_write(key.as_str(), expected).await })
            },
        };
        self.writes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(write);
    }
}

impl Deref for Task {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.key
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.informer, self.key, self.expected)
    }
}

/// What is to become of a key that went well.
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
}

impl Next {
    /// Nothing more, until something happens.
    #[must_use]
    pub const fn done() -> Self {
        Self { after: None }
    }

    /// It is to be reconciled again after this time, also where nothing happens.
    #[must_use]
    pub const fn after(time: Duration) -> Self {
        Self { after: Some(time) }
    }
}

/// A reconcile function may give nothing where nothing more is to be done.
impl From<()> for Next {
    fn from((): ()) -> Self {
        Self::done()
    }
}

/// Why a key is not as it should be.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Failure<'a> {
    /// The reconcile function gave an error, which says so. The key is tried again.
    Failed(&'a str),
    /// The reconcile function panicked with this message, or what [`only`](super::Controller::only) asks did. The key is tried
    /// again.
    Panicked(&'a str),
    /// The cache did not show a write in time. The key may be run on a state from before it.
    WriteNotSeen {
        /// The informer that should have shown it.
        informer: &'a str,
        /// The object that was written.
        written: &'a Key,
        /// What the cache should have shown.
        expected: &'a ExpectedState<Key>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The run was cut: the time that a stop leaves was over, or the key is not this controller's any more.
    Cut,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => f.write_str(error),
            Self::Panicked(message) => write!(f, "it panicked: {message}"),
            Self::WriteNotSeen {
                informer,
                written,
                expected,
                waited,
            } => write!(
                f,
                "{informer} has not shown the write of {written} {expected} after {waited:?}"
            ),
            Self::Cut => f.write_str("it was cut, by the stop or since the key is another's"),
        }
    }
}
