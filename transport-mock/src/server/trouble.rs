//! What a test does to the server's connections, and to the server as a whole.

use core::time::Duration;

use informer_core::transport::FailureKind;

use super::FakeServer;
use super::response::Response;
use crate::backend::HeadPoll;
use crate::fault::{Ending, Fault};

/// # Making trouble
impl FakeServer {
    /// Adds a fault to those to come. The first that is meant for a request hits it.
    pub fn inject(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    /// Takes all faults back that have not hit yet.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Tells whether faults are still to come.
    #[must_use]
    pub const fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Says GOAWAY: requests that have no answer yet are cut, so that they have to be sent anew on another connection;
    /// responses that have begun go on.
    pub fn go_away(&mut self) {
        let (routed, now) = (self.routed, self.now);
        for (id, response) in &mut self.responses {
            let begun = matches!(response.poll_head(now), HeadPoll::Ready(_));
            if response.replica == routed && (!begun || self.waiting.contains_key(id)) {
                self.waiting.remove(id);
                response.end(Ending::Abort(FailureKind::Reset));
            }
        }
    }

    /// Resets the connections of all watches.
    pub fn cut_watches(&mut self) {
        self.each_watch(|response| response.end(Ending::Abort(FailureKind::Reset)));
    }

    /// Ends all watches cleanly, after what they still have to tell.
    pub fn close_watches(&mut self) {
        self.each_watch(|response| {
            if let Some(watch) = response.watch_mut() {
                watch.finish();
            }
        });
    }

    /// Has all open watches say nothing any more, without an end: the connections are half open.
    pub fn stall_watches(&mut self) {
        self.each_watch(|response| response.end(Ending::Stall));
    }

    /// Takes the server down: every connection is reset, and new ones are refused.
    pub fn go_down(&mut self) {
        self.cut_all();
        self.replica_mut().down = true;
    }

    /// Brings it up again.
    pub fn come_up(&mut self) {
        self.replica_mut().down = false;
    }

    /// Starts it anew: every connection is reset, and for a time all requests get 429 while it fills its watch cache,
    /// which has no events from before.
    pub fn restart(&mut self, unready_for: Duration) {
        self.cut_all();
        self.come_up();
        let (version, ready_at) = (self.store.version, self.now + unready_for);
        let replica = self.replica_mut();
        replica.window_start = version;
        replica.ready_at = Some(ready_at);
    }

    /// Has the watch cache stand still at a version, now or earlier: lists at `"0"` and watches see nothing newer until
    /// [`catch_up`](Self::catch_up), as on a second API server that is behind.
    pub fn lag_at(&mut self, version: u64) {
        let visible = version.min(self.store.version).max(self.store.compacted);
        // One that lags already may stand before that: its watches are told what it sees only now.
        self.catch_up_to(self.routed, visible);
        let replica = self.replica_mut();
        replica.visible = visible;
        replica.lagging = true;
    }

    /// Has a watch cache that stands still move on to a version, and stand still there.
    pub fn show_up_to(&mut self, version: u64) {
        self.catch_up_to(self.routed, version);
    }

    /// Ends [`lag_at`](Self::lag_at).
    pub fn catch_up(&mut self) {
        self.replica_mut().lagging = false;
        self.publish();
    }

    /// Returns how many responses are open, and how many of them are watches that go on.
    ///
    /// ```
    /// # use informer_mock::FakeServer;
    /// assert_eq!(FakeServer::new(1).open_responses(), (0, 0));
    /// ```
    pub fn open_responses(&mut self) -> (usize, usize) {
        let watches = self
            .responses
            .values_mut()
            .filter_map(Response::watch_mut)
            .count();
        (self.responses.len(), watches)
    }

    /// Resets every connection to every server.
    pub(super) fn reset_all(&mut self) {
        self.waiting.clear();
        for response in self.responses.values_mut() {
            response.end(Ending::Abort(FailureKind::Reset));
        }
    }

    /// Resets every connection to the server that is routed to.
    fn cut_all(&mut self) {
        let routed = self.routed;
        for (id, response) in &mut self.responses {
            if response.replica == routed {
                self.waiting.remove(id);
                response.end(Ending::Abort(FailureKind::Reset));
            }
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
