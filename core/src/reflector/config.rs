//! How a reflector behaves.

use core::time::Duration;

use crate::time::BackoffConfig;

/// How the initial state is fetched.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Initial {
    /// By LIST, in pages.
    List,
    /// By a streaming list (KEP-3157), and by LIST where the server refuses it.
    #[default]
    Stream,
}

/// How a [`Reflector`](crate::Reflector) behaves.
///
/// ```
/// use informer_core::{ReflectorConfig, reflector::Initial};
///
/// let config = ReflectorConfig { page_size: Some(100), ..ReflectorConfig::default() };
/// assert_eq!(config.initial, Initial::Stream);
/// ```
#[derive(Clone, Debug)]
pub struct ReflectorConfig {
    /// How the initial state is fetched.
    pub initial: Initial,
    /// How many objects a page of a list has. `None` is client-go's rule: 500 where the server answers from etcd, and
    /// no pages where it answers from its watch cache.
    pub page_size: Option<u32>,
    /// The shortest timeout of a watch. Each watch is requested for a random time between this and twice this, at least
    /// 5 minutes and at most a year.
    pub min_watch_timeout: Duration,
    /// A fixed timeout for every watch, from a second to a year in whole seconds. Informers that take turns on one
    /// connection need it: the end of one watch lets the next one start. `None` chooses a random time as described at
    /// `min_watch_timeout`.
    pub watch_timeout: Option<Duration>,
    /// How the delays between runs and between attempts to open a watch grow.
    pub backoff: BackoffConfig,
    /// How many bytes one object may have. A larger object is reported and its key is stale; its deletion is applied.
    pub frame_limit: usize,
    /// Leaves `metadata.managedFields` out of objects that exceed `frame_limit` with it: the decoder then sees an empty
    /// array. Set it if the decoder is a closure that does not read managedFields; other decoders say so themselves, see
    /// [`Decode::skips_managed_fields`](crate::Decode::skips_managed_fields).
    pub skip_managed_fields: bool,
    /// Whether a server that refused a streaming list is not asked for one again until the reflector is made anew.
    pub remember_stream_refusal: bool,
    /// Behaves as client-go does wherever a difference can be seen from outside: see `docs/DIFFERENCES.md`.
    pub client_go: bool,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            initial: Initial::default(),
            page_size: None,
            min_watch_timeout: Duration::from_secs(300),
            watch_timeout: None,
            backoff: BackoffConfig::default(),
            frame_limit: 16 * 1024 * 1024,
            skip_managed_fields: false,
            remember_stream_refusal: false,
            client_go: false,
        }
    }
}

impl ReflectorConfig {
    /// As the default, but with a LIST for the initial state.
    ///
    /// ```
    /// use informer_core::{ReflectorConfig, reflector::Initial};
    ///
    /// assert_eq!(ReflectorConfig::list().initial, Initial::List);
    /// ```
    #[must_use]
    pub fn list() -> Self {
        Self {
            initial: Initial::List,
            ..Self::default()
        }
    }
}

/// The page size where paging is wanted and none is set.
pub(super) const DEFAULT_PAGE: u32 = 500;
/// A watch that ends sooner without an event is very short.
pub(super) const SHORT: Duration = Duration::from_secs(1);
/// A watch that lives this long shows that all is well.
pub(super) const HEALTHY: Duration = Duration::from_secs(30);
/// How many watches are reopened at once within [`REOPEN_WINDOW`].
pub(super) const REOPENS: usize = 5;
pub(super) const REOPEN_WINDOW: Duration = Duration::from_secs(30);
/// The longest delay while the server refuses the credentials or the parameters.
pub(super) const PERMANENT_CAP: Duration = Duration::from_secs(300);
/// The longest timeout of a watch. A server counts it in nanoseconds, in 63 bits.
pub(super) const LONGEST_WATCH: Duration = Duration::from_secs(365 * 24 * 3600);
/// The longest Retry-After that is honoured.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);
/// How many pages in a row may be empty.
pub(super) const EMPTY_PAGES: u8 = 100;
/// How long an answer with Retry-After, or none at all, is asked again below the reflector.
pub(super) const MAX_RETRIES: u8 = 10;
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);
/// A list that takes longer is reported.
pub(super) const SLOW_LIST: Duration = Duration::from_secs(10);
/// How long a list may bring no byte.
pub(super) const LIST_SILENCE: Duration = Duration::from_secs(60);
/// How long a streaming list may bring no event before its end.
pub(super) const STREAM_SILENCE: Duration = Duration::from_secs(30);
/// How long a watch may outlive the time for which it was asked.
pub(super) const WATCH_MARGIN: Duration = Duration::from_secs(30);
/// Bookmarks come every minute; a watch that brings nothing for longer than this is dead.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(75);
/// How long the end of a body may take after the end of its JSON.
pub(super) const DRAIN: Duration = Duration::from_secs(1);
/// How long the body of an error may take; what has come by then has to do.
pub(super) const ERROR_DRAIN: Duration = Duration::from_secs(5);
/// How much of an error's body is kept.
pub(super) const ERROR_BODY: usize = 64 * 1024;
