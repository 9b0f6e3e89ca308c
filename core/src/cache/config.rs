//! The configuration of a cache.

/// The configuration of a [`Cache`](super::Cache).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CacheConfig {
    /// Whether an object that a list or a watch sends again at the same version is notified as a replay. client-go does
    /// so while resync is off.
    pub notify_unchanged: bool,
    /// Whether an object that was recreated with another uid is notified as a deletion and an addition. client-go
    /// notifies of an update.
    pub notify_recreated: bool,
    /// Whether the pending deltas of a key are merged to at most a deletion and a later delta. Fixed-size storage
    /// always merges, since it has no room for more.
    pub merged: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            notify_unchanged: false,
            notify_recreated: true,
            merged: false,
        }
    }
}

impl CacheConfig {
    /// Returns the behaviour of client-go.
    #[must_use]
    pub const fn client_go() -> Self {
        Self {
            notify_unchanged: true,
            notify_recreated: false,
            merged: false,
        }
    }
}
