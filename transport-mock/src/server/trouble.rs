//! Failures of connections and of the whole server.

use core::time::Duration;

use informer_core::transport::FailureKind;

use super::FakeServer;
use super::response::Response;
use crate::backend::HeadPoll;
use crate::fault::{Ending, Fault};

/// # Making trouble
impl FakeServer {
    /// Adds a fault. Of all pending faults, the first that matches a request affects it.
    pub fn inject(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Removes all faults that have not occurred yet.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Returns whether faults are pending.
    #[must_use]
    pub const fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Closes the connections like a GOAWAY. Requests without a response are cut, so that clients send them again on
    /// another connection. Responses that have begun continue, except for half-open watches, which are reset.
    pub fn go_away(&mut self) {
        let (routed, now) = (self.routed, self.now);
        for (id, response) in &mut self.responses {
            let begun = matches!(response.poll_head(now), HeadPoll::Ready(_));
            let is_cut = !begun || response.is_half_open() || self.waiting.contains_key(id);
            if response.replica == routed && is_cut {
                self.waiting.remove(id);
                response.end(Ending::Abort(FailureKind::Reset));
            }
        }
    }

    /// Resets the connections of all watches, also of half-open ones.
    pub fn cut_watches(&mut self) {
        self.each_watch(|response| response.end(Ending::Abort(FailureKind::Reset)));
    }

    /// Ends all watches cleanly, after their pending events. Half-open ones have none.
    pub fn close_watches(&mut self) {
        self.each_watch(|response| {
            if let Some(watch) = response.watch_mut() {
                watch.finish();
            } else if response.is_half_open() {
                response.end(Ending::Close);
            }
        });
    }

    /// Stops all open watches from sending data without ending them: the connections are half open. They end by
    /// [`cut_watches`](Self::cut_watches), [`close_watches`](Self::close_watches), [`go_away`](Self::go_away) and
    /// failures of the server.
    pub fn stall_watches(&mut self) {
        self.each_watch(|response| response.end(Ending::Stall));
    }

    /// Stops the server: all connections are reset, and new ones are refused.
    pub fn go_down(&mut self) {
        self.cut_all();
        self.replica_mut().down = true;
    }

    /// Starts the server again after [`go_down`](Self::go_down).
    pub fn come_up(&mut self) {
        self.replica_mut().down = false;
    }

    /// Restarts the server. All connections are reset, and for a time all requests get 429 while the server fills its
    /// watch cache. The cache has no events from before the restart.
    pub fn restart(&mut self, unready_for: Duration) {
        self.cut_all();
        self.come_up();
        let (version, ready_at) = (self.store.version, self.now + unready_for);
        let replica = self.replica_mut();
        replica.window_start = version;
        replica.ready_at = Some(ready_at);
    }

    /// Stops the watch cache at a version, now or earlier. Lists at `"0"` and watches see nothing newer until
    /// [`catch_up`](Self::catch_up), as on an API server that lags behind.
    pub fn lag_at(&mut self, version: u64) {
        let visible = version.min(self.store.version).max(self.store.compacted);
        // If the cache already lags behind that version, its watches now receive the events up to it.
        self.catch_up_to(self.routed, visible);
        let replica = self.replica_mut();
        replica.visible = visible;
        replica.lagging = true;
    }

    /// Advances a stopped watch cache to a version, where it stops again.
    pub fn show_up_to(&mut self, version: u64) {
        self.catch_up_to(self.routed, version);
    }

    /// Ends [`lag_at`](Self::lag_at).
    pub fn catch_up(&mut self) {
        self.replica_mut().lagging = false;
        self.publish();
    }

    /// Returns the number of open responses, and how many of them are active watches.
    pub fn open_responses(&mut self) -> (usize, usize) {
        let watches = self
            .responses
            .values_mut()
            .filter_map(Response::watch_mut)
            .count();
        (self.responses.len(), watches)
    }

    /// Resets all connections to all servers.
    pub(super) fn reset_all(&mut self) {
        self.waiting.clear();
        for response in self.responses.values_mut() {
            response.end(Ending::Abort(FailureKind::Reset));
        }
    }

    /// Resets all connections to the server that receives new requests.
    fn cut_all(&mut self) {
        let routed = self.routed;
        for (id, response) in &mut self.responses {
            if response.replica == routed {
                self.waiting.remove(id);
                response.end(Ending::Abort(FailureKind::Reset));
            }
        }
    }

    /// Ends the watches of a resource after their pending events.
    pub(super) fn end_watches(&mut self, resource: usize) {
        let watches = self.responses.values_mut().filter_map(Response::watch_mut);
        for watch in watches.filter(|watch| watch.resource == resource) {
            watch.finish();
        }
    }

    fn each_watch(&mut self, change: impl Fn(&mut Response)) {
        let routed = self.routed;
        self.responses
            .values_mut()
            .filter(|response| response.is_watch() && response.replica == routed)
            .for_each(change);
    }
}
