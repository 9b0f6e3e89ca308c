//! One of several API servers over the same storage.

use informer_core::Instant;

use super::FakeServer;
use super::response::Response;

/// The state of one API server. Its watch cache may be behind the storage.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    /// The version that its watch cache has reached.
    pub(super) visible: u64,
    /// Whether the watch cache has stopped at `visible`.
    pub(super) lagging: bool,
    /// Watches from before this version are refused.
    pub(super) window_start: u64,
    pub(super) down: bool,
    /// The end of the time after a start during which all requests are rejected.
    pub(super) ready_at: Option<Instant>,
}

/// # Several API servers
///
/// They share the storage, and each has its own watch cache. New requests go to the server set by
/// [`route_to`](Self::route_to), and responses stay with the server that began them. The methods under *Making trouble*
/// affect the server that new requests go to.
impl FakeServer {
    /// Adds an API server over the same storage and returns its number. The first server has the number 0.
    ///
    /// ```
    /// use informer_mock::{FakeServer, json};
    ///
    /// let mut server = FakeServer::new(1);
    /// server.create("pods", json!({ "metadata": { "name": "a" } }))?;
    /// let second = server.add_server();
    /// server.route_to(second);
    /// server.lag_at(1);
    /// // The first server has seen the Pod, and the second has not.
    /// assert_eq!((server.visible_version(0), server.visible_version(second)), (Some(2), Some(1)));
    /// # Ok::<(), informer_mock::MutationError>(())
    /// ```
    pub fn add_server(&mut self) -> usize {
        self.replicas.push(Replica {
            visible: self.store.version,
            window_start: self.store.compacted,
            ..Replica::default()
        });
        self.replicas.len() - 1
    }

    /// Routes new requests to another API server. A number that is too large means the last server.
    pub fn route_to(&mut self, server: usize) {
        self.routed = server.min(self.replicas.len() - 1);
    }

    /// Returns the number of the API server that receives new requests.
    #[must_use]
    pub const fn routed_to(&self) -> usize {
        self.routed
    }

    /// Returns the version that the watch cache of an API server has reached.
    #[must_use]
    pub fn visible_version(&self, server: usize) -> Option<u64> {
        self.replicas.get(server).map(|replica| replica.visible)
    }

    pub(super) fn replica(&self) -> &Replica {
        &self.replicas[self.routed]
    }

    pub(super) fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replicas[self.routed]
    }

    /// Sends new events to the watches.
    pub(super) fn publish(&mut self) {
        for index in 0..self.replicas.len() {
            if !self.replicas[index].lagging {
                self.catch_up_to(index, self.store.version);
            }
        }
    }

    /// Advances one watch cache to a version, and sends the new events to its watches.
    pub(super) fn catch_up_to(&mut self, index: usize, version: u64) {
        let version = version.min(self.store.version);
        let visible = self.replicas[index].visible;
        if version <= visible {
            return;
        }
        let own = self
            .responses
            .values_mut()
            .filter(|response| response.replica == index);
        for watch in own.filter_map(Response::watch_mut) {
            let events = self
                .store
                .events_after(visible)
                .take_while(|entry| entry.version <= version);
            let resource = watch.resource;
            for entry in events.filter(|entry| entry.resource == resource) {
                watch.offer(entry);
            }
            watch.pass(version);
        }
        self.replicas[index].visible = version;
    }
}
