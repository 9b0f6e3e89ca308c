//! Detects connections whose server no longer responds.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use h2::{Ping, PingPong};
use tokio::time::{Instant, Sleep, sleep};

use crate::stream::Heard;

/// When to send a ping, and how long to wait for data after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pings {
    pub(crate) after: Duration,
    pub(crate) within: Duration,
}

/// Sends a ping after a time without data, and detects that no response follows.
pub(super) struct Health {
    pings: Pings,
    channel: PingPong,
    heard: Heard,
    asked: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

impl Health {
    pub(super) fn new(pings: Pings, channel: PingPong, heard: Heard) -> Self {
        Self {
            pings,
            channel,
            heard,
            asked: None,
            timer: Box::pin(sleep(pings.after)),
        }
    }

    /// Resolves when the connection is dead, with the time since the last data.
    ///
    /// The connection must be polled before this, and also after a wake-up by it.
    pub(super) fn poll_dead(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        loop {
            if self.asked.is_some() {
                match self.channel.poll_pong(cx) {
                    Poll::Ready(Ok(_pong)) => self.asked = None,
                    Poll::Ready(Err(_closed)) => return Poll::Pending, // The streams get the error.
                    Poll::Pending => {}
                }
            }
            ready!(self.timer.as_mut().poll(cx));
            let (now, heard) = (Instant::now(), self.heard.last());
            // Any data after the ping also proves that the connection is alive.
            let deadline = match self.asked {
                Some(asked) => asked.max(heard) + self.pings.within,
                None => heard + self.pings.after,
            };
            if now < deadline {
                self.timer.as_mut().reset(deadline);
                continue;
            }
            if self.asked.is_some() {
                return Poll::Ready(now - heard);
            }
            if self.channel.send_ping(Ping::opaque()).is_err() {
                return Poll::Pending; // The connection is being closed.
            }
            self.asked = Some(now);
            self.timer.as_mut().reset(now + self.pings.within);
        }
    }
}
