//! The server of one check.

use core::ops::{Deref, DerefMut};

use informer_core::Instant;

use crate::backend::{Backend, Chunk, Compression, HeadPoll, ResponseId};
use crate::log::RequestLog;
use crate::server::FakeServer;

/// A [`FakeServer`] that counts its open responses.
#[derive(Debug)]
pub struct Server {
    server: FakeServer,
    open: usize,
}

impl Server {
    pub(super) fn new() -> Self {
        Self {
            server: FakeServer::new(1),
            open: 0,
        }
    }

    /// Returns the number of responses that have not been read to the end or dropped.
    #[must_use]
    pub const fn open(&self) -> usize {
        self.open
    }
}

impl Deref for Server {
    type Target = FakeServer;

    fn deref(&self) -> &FakeServer {
        &self.server
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut FakeServer {
        &mut self.server
    }
}

impl Backend for Server {
    fn tick(&mut self, now: Instant) {
        self.server.tick(now);
    }

    fn handle_request(&mut self, now: Instant, target: &str, accept: &str) -> ResponseId {
        self.open += 1;
        self.server.handle_request(now, target, accept)
    }

    fn poll_head(&mut self, now: Instant, id: ResponseId) -> HeadPoll {
        self.server.poll_head(now, id)
    }

    fn poll_chunk(&mut self, now: Instant, id: ResponseId) -> Chunk {
        self.server.poll_chunk(now, id)
    }

    fn close(&mut self, id: ResponseId) {
        self.open = self.open.saturating_sub(1);
        self.server.close(id);
    }

    fn wakes_by_close(&self) -> bool {
        self.server.wakes_by_close()
    }

    fn compression(&self, target: &str) -> Compression {
        self.server.compression(target)
    }

    fn log(&self) -> &RequestLog {
        self.server.log()
    }
}
