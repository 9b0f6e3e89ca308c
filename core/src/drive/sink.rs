//! The runtime's half of a driver.

use core::task::{Context, Poll};

use crate::object::ResourceVersion;
use crate::reflector::Frame;
use crate::report::Report;
use crate::time::Instant;
use crate::wire::Format;

/// The receiver of a driver's output: it decodes frames, applies them to a cache and sends notifications.
pub trait Sink<X> {
    /// The number of frames and chunks after which the driver yields to other tasks although there is more to read. It
    /// also yields if more has arrived during [`Sink::flush`].
    ///
    /// A turn costs a wake and another poll of the task, so about a hundred suits an executor with threads. On a device
    /// a frame takes a millisecond, and a smaller value keeps the other tasks responsive.
    const TURN: u16 = 128;

    /// Receives a frame. The sink may collect frames until [`Sink::flush`].
    fn frame(&mut self, now: Instant, frame: Frame<'_, X>);

    /// Applies the collected frames; `version` is the version that the reflector has reached with them.
    ///
    /// The driver calls it before it waits, so that events that arrive together form one batch.
    fn flush(&mut self, now: Instant, version: &ResourceVersion<X>);

    /// Called at the end of a turn, and when the driver is blocked on [`Sink::poll_ready`].
    ///
    /// The default flushes. A sink with work on other threads may continue that work instead; it is flushed later in
    /// any case.
    fn pause(&mut self, now: Instant, version: &ResourceVersion<X>) {
        self.flush(now, version);
    }

    /// Receives a report.
    fn report(&mut self, now: Instant, report: Report<'_>);

    /// Receives the text of a transport failure, before the report that follows from it.
    fn failure(&mut self, now: Instant, error: &dyn core::fmt::Display) {
        let _ = (now, error);
    }

    /// Receives the activity of the driver, each time it may have changed. This is for display only.
    fn activity(&mut self, now: Instant, activity: Activity) {
        let _ = (now, activity);
    }

    /// Receives the number of bytes of a chunk and their format, before the frames in it. This is for display only.
    fn received(&mut self, format: Format, bytes: usize) {
        let _ = (format, bytes);
    }

    /// Waits until other tasks had a turn. `has_begun` is `false` in the first call of each turn, which is never ready.
    ///
    /// The default wakes the task immediately, which suits an executor that polls its tasks in turn.
    fn poll_turn(&mut self, cx: &mut Context<'_>, has_begun: bool) -> Poll<()> {
        if has_begun {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits until the sink can take more frames. Until then the driver reads nothing, and TCP flow control slows the
    /// server down.
    ///
    /// The driver may call this again in the same poll of its task, after [`Sink::pause`]. To give other tasks a turn,
    /// a sink sets [`Sink::TURN`] instead. The default is always ready.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Ready(())
    }

    /// Waits for a command of the user. The default waits for ever: the driver ends when its future is dropped.
    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command> {
        let _ = cx;
        Poll::Pending
    }

    /// Returns when [`Sink::handle_timeout`] must be called. `None`, the default, is never.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Does the work that is due, such as a resync.
    fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }
}

/// A command to a running driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Stop the driver.
    Stop,
    /// Relist, after the delay between lists.
    Relist,
    /// Relist after the delay between lists, and continue the watch until then: see [`Reflector::refill`](crate::Reflector::refill).
    Refill,
    /// Relist at the newest version: see [`Reflector::repair`](crate::Reflector::repair).
    Repair,
    /// Check the deadline again.
    Wake,
}

/// The current activity of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Activity {
    /// Listing: the request was sent, or its answer is being read.
    Listing,
    /// Reading the initial state from a streaming list.
    Streaming,
    /// Opening a watch or a streaming list: there is no answer yet.
    Opening,
    /// Watching: the server accepted the watch.
    Watching,
    /// Waiting before the next attempt.
    Waiting {
        /// The end of the wait; `None` means that the wait has no end.
        until: Option<Instant>,
    },
}
