//! The body of a response to a process.

use core::time::Duration;
use std::sync::Arc;

use informer_core::transport::FailureKind;
use informer_mock::{Exchange, FakeServer, TokioClock};

use super::action::FaultKind;
use super::process::Life;
use super::trace::{EntryKind, SERVER, hash, shorten};

/// The body of a response to a read.
pub(super) struct LifeBody {
    life: Arc<Life>,
    exchange: Exchange<FakeServer, TokioClock>,
    number: usize,
    /// The received part of the next event of a watch, or of the whole body.
    received: Vec<u8>,
    /// How late the watch is.
    late: Duration,
    was_late: bool,
    /// The index of the response in the trace, which gets the body; `None` for a watch.
    response: Option<usize>,
}

impl LifeBody {
    pub(super) const fn new(
        life: Arc<Life>,
        exchange: Exchange<FakeServer, TokioClock>,
        number: usize,
        response: Option<usize>,
        late: Duration,
    ) -> Self {
        Self {
            life,
            exchange,
            number,
            late,
            was_late: false,
            received: Vec::new(),
            response,
        }
    }

    /// Waits for the next part of the body. `None` is the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>, FailureKind> {
        let life = Arc::clone(&self.life);
        let chunk = life
            .alive(async {
                let chunk = self.exchange.chunk().await;
                if !self.late.is_zero() {
                    if !core::mem::replace(&mut self.was_late, true) {
                        life.shared.fired(FaultKind::LateEvents);
                    }
                    tokio::time::sleep(self.late).await;
                }
                life.reach().await;
                life.run().await;
                match &chunk {
                    Err(_) => life.keep_apart(false).await,
                    Ok(_) if self.response.is_some() => life.keep_apart(true).await,
                    Ok(Some(bytes)) if has_error(bytes) => life.keep_apart(false).await,
                    Ok(_) => {}
                }
                chunk
            })
            .await;
        match &chunk {
            Ok(Some(bytes)) => self.received(bytes),
            Ok(None) => self.end(),
            Err(kind) => drop(life.fail(self.number, *kind)),
        }
        chunk
    }

    /// Ends it since it has been silent for too long.
    #[cfg(feature = "tower")]
    pub(super) fn give_up(self) -> FailureKind {
        self.life.fail(self.number, FailureKind::TimedOut)
    }

    fn received(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        if self.response.is_some() {
            return;
        }
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            self.life
                .shared
                .record_event(self.life.lane, self.number, line);
        }
    }

    fn end(&mut self) {
        let Some(response) = self.response else {
            let what = "the watch ends".to_owned();
            let number = (self.number, SERVER);
            return self.life.end(number, EntryKind::Response, what, b"");
        };
        let body = core::mem::take(&mut self.received);
        let mut state = self.life.shared.state();
        if let Some(entry) = state.trace.entries.get_mut(response)
            && entry.detail.is_empty()
        {
            entry.detail = shorten(&body);
            entry.hash = hash(&body);
        }
    }
}

/// Returns whether a part of a watch has an event of an error.
fn has_error(bytes: &[u8]) -> bool {
    const ERROR: &[u8] = b"\"type\":\"ERROR\"";
    bytes.windows(ERROR.len()).any(|part| part == ERROR)
}
