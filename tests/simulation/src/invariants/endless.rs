//! A streaming list that does not reach its end is abandoned in favour of a list, with or without pages.
//!
//! Source: `docs/DIFFERENCES.md` D7. The bound is the longest timeout of a watch, plus what a clock that goes back
//! adds.

use core::time::Duration;

use informer_core::reflector::Purpose;
use informer_mock::Instant;

use super::super::client::Asked;
use super::super::plan::World;
use super::{Context, Invariant, Verdict};

/// The time limit for consecutive streaming lists that do not end.
const LIMIT: Duration = Duration::from_secs(600 + 120);

pub(super) struct Endless {
    /// The time of each source's last request.
    sent: Vec<Option<Instant>>,
    /// For each source, how long streaming lists were read since its last other request.
    read: Vec<Duration>,
}

impl Endless {
    pub(super) fn new(world: &World) -> Self {
        Self {
            sent: vec![None; world.scopes.len()],
            read: vec![Duration::ZERO; world.scopes.len()],
        }
    }
}

impl Invariant for Endless {
    fn asked(&mut self, asked: &Asked, context: &Context<'_>) -> Verdict {
        let sent = self.sent[asked.source].replace(asked.at);
        let read = &mut self.read[asked.source];
        let Some((before, sent)) = asked.before.as_ref().zip(sent) else {
            return Ok(());
        };
        if before.forced || asked.verb != Purpose::Stream {
            *read = Duration::ZERO;
        } else if before.status == Some(200) && before.answer.initial && !before.answer.error {
            *read += before.at.saturating_duration_since(sent);
        }
        if *read > LIMIT && !context.world.client_go {
            return Err(format!(
                "streaming lists without an end were read for {read:?}"
            ));
        }
        Ok(())
    }
}
