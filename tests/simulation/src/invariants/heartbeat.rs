//! The heartbeat gives up at most one watch of a server that sends no periodic bookmarks. After that a quiet watch
//! lasts for its timeout.
//!
//! Source: `docs/DIFFERENCES.md` D6.

use core::time::Duration;

use informer_core::reflector::Purpose;

use super::super::client::{Asked, Ended};
use super::super::plan::World;
use super::{Context, Invariant, Verdict};

/// The shortest timeout of a watch.
const SHORTEST: Duration = Duration::from_secs(300);

pub(super) struct Heartbeat {
    /// For each source, how many watches were given up before a periodic bookmark arrived.
    given_up: Vec<u32>,
}

impl Heartbeat {
    pub(super) fn new(world: &World) -> Self {
        Self {
            given_up: vec![0; world.scopes.len()],
        }
    }
}

impl Invariant for Heartbeat {
    fn asked(&mut self, asked: &Asked, context: &Context<'_>) -> Verdict {
        let no_bookmark = context.client.wires[asked.source].bookmarks == 0;
        if asked.verb == Purpose::Watch
            && no_bookmark
            && asked.before.as_ref().is_some_and(is_given_up)
        {
            let given_up = &mut self.given_up[asked.source];
            *given_up += 1;
            if *given_up > 1 {
                return Err(format!(
                    "{given_up} watches were given up on a server without periodic bookmarks"
                ));
            }
        }
        Ok(())
    }
}

/// Returns whether the client considered the watch dead before its timeout.
fn is_given_up(watch: &Ended) -> bool {
    watch.verb.is_watch()
        && watch.status == Some(200)
        && watch.cancelled
        && !watch.forced
        && !watch.answer.error
        && !watch.answer.broken
        && !watch.answer.initial
        && watch.lived < SHORTEST
}
