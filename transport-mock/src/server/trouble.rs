//! What a test does to the server's connections, and to the server as a whole.

use core::time::Duration;

use informer_core::FailureKind;

use super::FakeServer;
use super::response::Response;
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
        self.down = true;
    }

    /// Brings it up again.
    pub const fn come_up(&mut self) {
        self.down = false;
    }

    /// Starts it anew: every connection is reset, and for a time all requests get 429 while it fills its watch cache,
    /// which has no events from before.
    pub fn restart(&mut self, unready_for: Duration) {
        self.cut_all();
        self.come_up();
        self.forget_events(self.store.version);
        self.ready_at = Some(self.now + unready_for);
    }

    /// Has the watch cache stand still at a version, now or earlier: lists at `"0"` and watches see nothing newer until
    /// [`catch_up`](Self::catch_up), as on a second API server that is behind.
    pub fn lag_at(&mut self, version: u64) {
        self.visible = version.min(self.store.version).max(self.store.compacted);
        self.lagging = true;
    }

    /// Ends [`lag_at`](Self::lag_at).
    pub fn catch_up(&mut self) {
        self.lagging = false;
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

    fn cut_all(&mut self) {
        self.waiting.clear();
        for response in self.responses.values_mut() {
            response.end(Ending::Abort(FailureKind::Reset));
        }
    }

    fn each_watch(&mut self, change: impl Fn(&mut Response)) {
        self.responses
            .values_mut()
            .filter(|response| response.is_watch())
            .for_each(change);
    }
}
