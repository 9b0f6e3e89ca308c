//! A streaming list that does not come to its end is given up for a list, in one piece or in several.
//!
//! Source: `docs/DIFFERENCES.md` D7. The bound is the longest timeout of a watch, and what a clock that goes back adds.

use core::time::Duration;

use informer_core::reflector::Verb;
use informer_mock::Instant;

use super::super::client::Asked;
use super::super::plan::World;
use super::{Context, Invariant, Verdict};

/// For how long streaming lists may be read in a row without their end.
const LIMIT: Duration = Duration::from_secs(600 + 120);

pub(super) struct Endless {
    /// For each source, when its last request was sent.
    sent: Vec<Option<Instant>>,
    /// For each source, how long streaming lists were read since there was another request.
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
        if before.forced || asked.verb != Verb::Stream {
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
