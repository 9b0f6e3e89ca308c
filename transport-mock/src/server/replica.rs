//! One API server of several over the same storage: what it has seen of it.

use informer_core::Instant;

use super::FakeServer;
use super::response::Response;

/// What one API server knows. Its watch cache may be behind what is stored.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    /// The version that its watch cache has reached.
    pub(super) visible: u64,
    /// Whether that stands still.
    pub(super) lagging: bool,
    /// Watches from before this version are refused.
    pub(super) window_start: u64,
    pub(super) down: bool,
    /// Until when it refuses everything, since it has just begun.
    pub(super) ready_at: Option<Instant>,
}

/// # Several API servers
///
/// They share what is stored, and each has a watch cache of its own. New requests go to one of them, the one that
/// [`route_to`](Self::route_to) names, and responses stay with the server that began them. What stands under *Making
/// trouble* happens to that one server.
impl FakeServer {
    /// Adds an API server over the same storage, and returns its number; the one that is there from the start is 0.
    ///
    /// ```
    /// use informer_mock::{FakeServer, json};
    ///
    /// let mut server = FakeServer::new(1);
    /// server.create("pods", json!({ "metadata": { "name": "a" } }))?;
    /// let second = server.add_server();
    /// server.route_to(second);
    /// server.lag_at(1);
    /// // The first has seen the Pod, the second has not.
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

    /// Sends new requests to another API server. A number that there is not is that of the last one.
    pub fn route_to(&mut self, server: usize) {
        self.routed = server.min(self.replicas.len() - 1);
    }

    /// Returns the number of the API server that new requests go to.
    #[must_use]
    pub const fn routed_to(&self) -> usize {
        self.routed
    }

    /// Returns which version the watch cache of an API server has reached.
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

    /// Tells the watches what has happened.
    pub(super) fn publish(&mut self) {
        for index in 0..self.replicas.len() {
            if !self.replicas[index].lagging {
                self.catch_up_to(index, self.store.version);
            }
        }
    }

    /// Has one watch cache reach a version, and tells its watches.
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
