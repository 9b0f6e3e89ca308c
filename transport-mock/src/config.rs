//! What kind of server it is.

use core::num::NonZeroU32;
use core::time::Duration;

/// What kind of API server a [`FakeServer`](crate::FakeServer) is.
///
/// The default is a Kubernetes 1.36 that keeps its whole history.
///
/// ```
/// use informer_mock::{Config, FakeServer};
///
/// let mut config = Config::default();
/// config.watch_list = false;
/// let server = FakeServer::with_config(1, config);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The minor version of Kubernetes, 1.N. It decides the shape of some errors.
    pub minor: u32,
    /// Whether streaming lists are served. Where they are, a plain watch at `""` or `"0"` is taken for one.
    pub watch_list: bool,
    /// Whether `shardSelector` is understood; where it is not, it is ignored.
    pub sharding: bool,
    /// Whether bookmarks are sent to those who ask.
    pub bookmarks: bool,
    /// The time between bookmarks.
    pub bookmark_every: Duration,
    /// Whether bookmarks are sent periodically. A resource without a watch cache, such as `events`, sends only the one that
    /// ends a streaming list.
    pub periodic_bookmarks: bool,
    /// Whether a streaming list comes to its end. A proxy that drops annotations keeps it from the client.
    pub ends_streams: bool,
    /// Whether `limit` is heeded at all.
    pub paging: bool,
    /// Whether a list at `"0"` ignores its `limit`, as the watch cache does.
    pub cache_ignores_limit: bool,
    /// Whether pages tell `remainingItemCount`.
    pub remaining_item_count: bool,
    /// How a watch from a version that is gone is refused.
    pub gone: Gone,
    /// What a DELETE is answered with.
    pub deletes: DeleteAnswer,
    /// How long a list at a version that is not there yet is held before 504.
    pub too_large_wait: Duration,
    /// For how long the watch cache keeps events; `None` for as long as they are not compacted.
    pub watch_window: Option<Duration>,
    /// For how long history is kept before it compacts itself; `None` for ever. (etcd: 5 minutes.)
    pub history: Option<Duration>,
    /// How many events may wait for a slow reader of a watch before it is cut.
    pub watch_buffer: Option<usize>,
    /// The time until an answer starts.
    pub latency: Duration,
    /// How many bytes of a body come in a second; `None` for all at once.
    pub bandwidth: Option<NonZeroU32>,
    /// For how long a response may bring no byte before something on the way resets its connection, as load balancers
    /// do (often after 240 s); `None` for ever.
    pub idle_cut: Option<Duration>,
    /// How many responses may be open at once; further requests wait for their answer, as those beyond the stream
    /// limit of an HTTP/2 connection do (100 at an API server). `None` for any number.
    pub stream_limit: Option<usize>,
    /// Whether lists of more than 128 KiB are compressed for clients that accept gzip. Only on a real port.
    pub gzip_lists: bool,
    /// Whether streaming lists are compressed for such clients, with a member of gzip for each time that the server has
    /// nothing more to send. Only on a real port.
    pub gzip_streams: bool,
    /// What the time zero is, in seconds since 1970, for creationTimestamp.
    pub epoch: u64,
    /// How many requests the log keeps; `None` for all.
    pub log_limit: Option<usize>,
}

/// How a watch from a version that is gone is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// By an ERROR event in a stream with status 200, as the API server does.
    Event,
    /// By HTTP status 410.
    Http,
}

/// What an API server answers to a DELETE of one object. It depends on the resource and on the minor version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteAnswer {
    /// A `Status` with the uid, as for most resources.
    Status,
    /// The object with the last version that it had, as for Pods up to Kubernetes 1.37.
    OldVersion,
    /// The object with the version of its deletion, as for Pods on newer servers.
    NewVersion,
}

impl Config {
    /// Returns what a server of Kubernetes 1.`minor` does.
    ///
    /// ```
    /// # use informer_mock::Config;
    /// assert!(!Config::for_minor(15).bookmarks);
    /// assert!(Config::for_minor(32).watch_list && !Config::for_minor(33).watch_list && Config::for_minor(34).watch_list);
    /// ```
    #[must_use]
    pub fn for_minor(minor: u32) -> Self {
        Self {
            minor,
            watch_list: minor == 32 || minor >= 34,
            bookmarks: minor >= 16,
            remaining_item_count: minor >= 15,
            gzip_lists: minor >= 16,
            gzip_streams: minor >= 37,
            ..Self::default()
        }
    }

    /// Has it forget as a real server does: events after 75 s, history after 5 minutes.
    ///
    /// ```
    /// # use informer_mock::Config;
    /// assert!(Config::default().forgetful().watch_window.is_some());
    /// ```
    #[must_use]
    pub fn forgetful(self) -> Self {
        let (watch_window, history) = (Duration::from_secs(75), Duration::from_secs(300));
        Self {
            watch_window: Some(watch_window),
            history: Some(history),
            ..self
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            minor: 36,
            watch_list: true,
            sharding: false,
            bookmarks: true,
            bookmark_every: Duration::from_secs(60),
            periodic_bookmarks: true,
            ends_streams: true,
            paging: true,
            cache_ignores_limit: true,
            remaining_item_count: true,
            gone: Gone::Event,
            deletes: DeleteAnswer::Status,
            too_large_wait: Duration::from_secs(3),
            watch_window: None,
            history: None,
            watch_buffer: None,
            latency: Duration::ZERO,
            bandwidth: None,
            idle_cut: None,
            stream_limit: None,
            gzip_lists: true,
            gzip_streams: false,
            epoch: 1_767_225_600,
            log_limit: None,
        }
    }
}
