//! The behaviour of a fake server.

use core::num::NonZeroU32;
use core::time::Duration;

/// The behaviour of a [`FakeServer`](crate::FakeServer).
///
/// The default is Kubernetes 1.36 with an unlimited history.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The minor version of Kubernetes, the N in 1.N. It determines the format of some errors.
    pub minor: u32,
    /// Whether streaming lists are served. If so, a plain watch at `""` or `"0"` is treated as one.
    pub watch_list: bool,
    /// Whether `shardSelector` is supported. Otherwise it is ignored.
    pub sharding: bool,
    /// Whether bookmarks are sent to clients that request them.
    pub bookmarks: bool,
    /// The time between bookmarks.
    pub bookmark_every: Duration,
    /// Whether bookmarks are sent periodically. A resource without a watch cache, such as `events`, sends only the one that
    /// ends a streaming list.
    pub periodic_bookmarks: bool,
    /// Whether streaming lists send their final bookmark. A proxy that drops annotations hides it from clients.
    pub ends_streams: bool,
    /// Whether `limit` is supported.
    pub paging: bool,
    /// Whether a list at `"0"` ignores its `limit`, as the watch cache does.
    pub cache_ignores_limit: bool,
    /// Whether pages have a `remainingItemCount`.
    pub remaining_item_count: bool,
    /// How a watch from an expired version is rejected.
    pub gone: Gone,
    /// The response to a DELETE.
    pub deletes: DeleteAnswer,
    /// Whether objects whose owners no longer exist, and those of deleted Namespaces, are deleted after each write of a
    /// client.
    pub collects_garbage: bool,
    /// Whether clients can create objects only in Namespaces that exist. A server that is created with it has `default`,
    /// `kube-system`, `kube-public` and `kube-node-lease`, and Namespaces that clients create have a phase and the
    /// finalizer `kubernetes`: a deleted one is `Terminating` until its objects are gone.
    pub requires_namespaces: bool,
    /// Whether a Pod that runs on a Node outlives its deletion, as on a real server: until a kubelet deletes it with a
    /// grace period of 0 s. Tests have no kubelet, so it is off by default.
    pub graceful_pods: bool,
    /// The response to clients that accept protobuf.
    pub protobuf: Protobuf,
    /// The effect of `drop=metadata.managedFields` in the `Accept` header.
    pub drop_parameter: DropParameter,
    /// How long a list waits for a version in the future before it fails with 504.
    pub too_large_wait: Duration,
    /// How long the watch cache keeps events; `None` until they are compacted.
    pub watch_window: Option<Duration>,
    /// How long history lasts before it is compacted automatically; `None` for ever. etcd's default is 5 minutes.
    pub history: Option<Duration>,
    /// How many undelivered events a watch may have before it is closed because its reader is slow.
    pub watch_buffer: Option<usize>,
    /// The time until a response begins.
    pub latency: Duration,
    /// The bandwidth of a body, in bytes per second; `None` for no limit.
    pub bandwidth: Option<NonZeroU32>,
    /// The time without data after which a connection is reset, as by a load balancer (often 240 s); `None` for no
    /// limit.
    pub idle_cut: Option<Duration>,
    /// The most concurrent responses; `None` for no limit. Further requests wait, as they do at the stream limit of an
    /// HTTP/2 connection (100 on an API server).
    pub stream_limit: Option<usize>,
    /// Whether lists larger than 128 KiB are compressed for clients that accept gzip. It applies only on a real port.
    pub gzip_lists: bool,
    /// Whether streaming lists are compressed for such clients, with a gzip member whenever the server has no more data
    /// to send. It applies only on a real port.
    pub gzip_streams: bool,
    /// The time of the clock's epoch, in seconds since 1970, for creationTimestamp.
    pub epoch: u64,
    /// The capacity of the request log; `None` for no limit.
    pub log_limit: Option<usize>,
}

/// How a watch from an expired version is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Gone {
    /// With an ERROR event in a stream of status 200, as the API server does.
    Event,
    /// With HTTP status 410.
    Http,
}

/// The response to a DELETE of one object. It depends on the resource and on the minor version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeleteAnswer {
    /// A `Status` with the uid, as for most resources.
    Status,
    /// The object with its last version, as for Pods up to Kubernetes 1.37.
    OldVersion,
    /// The object with the version of its deletion, as for Pods on newer servers.
    NewVersion,
}

/// The response to clients that accept protobuf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Protobuf {
    /// Protobuf for built-in resources and for metadata, as by the API server.
    Served,
    /// Only JSON, as by some aggregated API servers; 406 to clients that do not accept it.
    NotAcceptable,
    /// JSON even to clients that do not accept it, as by a proxy.
    AnsweredAsJson,
}

/// The effect of the parameter `drop=metadata.managedFields` of a media type (KEP-5958).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DropParameter {
    /// None, as on all servers so far by default.
    Ignored,
    /// Objects have no managedFields, as on Kubernetes 1.38 with the feature gate.
    Honored,
    /// Requests with the parameter are rejected with this HTTP status, as by a strict proxy.
    Rejected(u16),
}

impl Config {
    /// Returns the behaviour of Kubernetes 1.`minor`.
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

    /// Limits the history as a real server does: events to 75 s, and states to 5 minutes.
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
            collects_garbage: true,
            requires_namespaces: false,
            graceful_pods: false,
            protobuf: Protobuf::Served,
            drop_parameter: DropParameter::Ignored,
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
