//! The configuration of a reflector.

use core::time::Duration;

use crate::time::BackoffConfig;

/// How to get the initial state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Initial {
    /// By LIST, paginated.
    List,
    /// By a streaming list (KEP-3157), with a fallback to LIST if the server rejects it.
    #[default]
    Stream,
}

/// The configuration of a [`Reflector`](crate::Reflector).
#[derive(Clone, Debug)]
pub struct ReflectorConfig {
    /// How to get the initial state.
    pub initial: Initial,
    /// The number of objects in a page of a list; 0 disables pagination. `None` follows client-go: 500 if the server
    /// answers from etcd, and no pagination if it answers from its watch cache.
    pub page_size: Option<u32>,
    /// The shortest timeout of a watch. Each watch requests a random timeout between this and twice this value. The
    /// result is at least 5 minutes and at most a year.
    pub min_watch_timeout: Duration,
    /// A fixed timeout for every watch, from a second to a year in whole seconds. Informers that take turns on one
    /// connection need it, since the next watch can start only when one ends. `None` uses a random timeout as described
    /// at `min_watch_timeout`.
    pub watch_timeout: Option<Duration>,
    /// The time between two lists of a resource that the server does not watch (it answers 405), at least a second. Such
    /// a resource is reported once. The watch is tried again after every tenth list.
    pub poll_interval: Duration,
    /// The growth of the delays between lists, and between attempts to open a watch.
    pub backoff: BackoffConfig,
    /// The maximum size of one object in bytes. A larger object is reported and its key is marked as stale; its
    /// deletion is still applied.
    pub frame_limit: usize,
    /// Removes `metadata.managedFields` from objects that exceed `frame_limit` because of them, so that the decoder
    /// gets an empty array. Set it for a closure that does not read managedFields. Other decoders declare it
    /// themselves: see [`Decode::skips_managed_fields`](crate::Decode::skips_managed_fields).
    pub skip_managed_fields: bool,
    /// Whether a rejected streaming list is not requested again for the lifetime of the reflector.
    pub remember_stream_refusal: bool,
    /// Behaves like client-go wherever a difference is observable: see `docs/DIFFERENCES.md`.
    pub client_go: bool,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            initial: Initial::default(),
            page_size: None,
            min_watch_timeout: Duration::from_secs(300),
            watch_timeout: None,
            poll_interval: Duration::from_secs(30),
            backoff: BackoffConfig::default(),
            frame_limit: 16 * 1024 * 1024,
            skip_managed_fields: false,
            remember_stream_refusal: false,
            client_go: false,
        }
    }
}

impl ReflectorConfig {
    /// Returns the default configuration, except that the initial state comes from a LIST.
    #[must_use]
    pub fn list() -> Self {
        Self {
            initial: Initial::List,
            ..Self::default()
        }
    }
}

/// The page size if a list is paginated and none is configured.
pub(super) const DEFAULT_PAGE: u32 = 500;
/// A watch without events that ends earlier is very short.
pub(super) const SHORT: Duration = Duration::from_secs(1);
/// A watch that lasts this long resets the delays.
pub(super) const HEALTHY: Duration = Duration::from_secs(30);
/// The number of watches that are reopened immediately within [`REOPEN_WINDOW`].
pub(super) const REOPENS: usize = 5;
pub(super) const REOPEN_WINDOW: Duration = Duration::from_secs(30);
/// The number of lists of a resource without watches, after which a watch is tried again.
pub(super) const POLLS: u8 = 10;
/// The longest delay while the server rejects the credentials or the parameters.
pub(super) const PERMANENT_CAP: Duration = Duration::from_secs(300);
/// The longest timeout of a watch. A server stores it as nanoseconds in 63 bits.
pub(super) const LONGEST_WATCH: Duration = Duration::from_secs(365 * 24 * 3600);
/// The longest Retry-After that is respected.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);
/// The maximum number of consecutive empty pages.
pub(super) const EMPTY_PAGES: u8 = 100;
/// The number of retries within the reflector, after a Retry-After or a lost connection.
pub(super) const MAX_RETRIES: u8 = 10;
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);
/// A list that takes longer is reported.
pub(super) const SLOW_LIST: Duration = Duration::from_secs(10);
/// The longest time without a byte during a list.
pub(super) const LIST_SILENCE: Duration = Duration::from_secs(60);
/// The longest time without an event during a streaming list, before its end.
pub(super) const STREAM_SILENCE: Duration = Duration::from_secs(30);
/// The time by which a watch may exceed its requested timeout.
pub(super) const WATCH_MARGIN: Duration = Duration::from_secs(30);
/// Bookmarks are sent every minute; a watch that is silent for longer than this is considered dead.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(75);
/// The longest time between the end of the JSON and the end of the body.
pub(super) const DRAIN: Duration = Duration::from_secs(1);
/// The longest time for the body of an error. After that, the part received so far is used.
pub(super) const ERROR_DRAIN: Duration = Duration::from_secs(5);
/// The number of bytes stored of an error body.
pub(super) const ERROR_BODY: usize = 64 * 1024;
