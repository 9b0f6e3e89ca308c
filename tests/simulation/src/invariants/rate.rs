//! Requests are never more frequent than the delays allow, whatever the servers do, and never earlier than a server's
//! `Retry-After`.
//!
//! Source: client-go's backoff of 800 ms to 30 s with jitter; `docs/DIFFERENCES.md` D1 to D4. The bounds follow from
//! the requests that a run may send at once (a streaming list, a list at the last version, one at the newest, one
//! without pages, a watch) and from how often a run may start. Pages are not counted.

use core::time::Duration;
use std::collections::VecDeque;

use informer_mock::Instant;

use super::super::client::Asked;
use super::super::plan::World;
use super::{Context, Invariant, Verdict};

/// The maximum number of requests of a source within each period.
const BOUNDS: [(Duration, usize); 3] = [
    (Duration::from_secs(1), 16),
    (Duration::from_secs(30), 60),
    (Duration::from_secs(300), 200),
];

pub(super) struct Rate {
    asked: Vec<VecDeque<Instant>>,
}

impl Rate {
    pub(super) fn new(world: &World) -> Self {
        Self {
            asked: vec![VecDeque::new(); world.scopes.len()],
        }
    }
}

impl Invariant for Rate {
    fn asked(&mut self, asked: &Asked, context: &Context<'_>) -> Verdict {
        if let Some(before) = &asked.before
            && let Some(wait) = before.retry_after
            && before.target == asked.target
            && !context.world.client_go
            && asked.at.saturating_duration_since(before.at) < wait
            && !before.forced
        {
            return Err(format!(
                "{} is asked again before {wait:?} have passed",
                asked.target
            ));
        }
        if asked.target.contains("continue=") || context.world.client_go {
            return Ok(());
        }
        let times = &mut self.asked[asked.source];
        times.push_back(asked.at);
        if times.len() > 400 {
            times.pop_front();
        }
        for (window, bound) in BOUNDS {
            let within = |at: &&Instant| asked.at.saturating_duration_since(**at) < window;
            let count = times.iter().rev().take_while(within).count();
            if count > bound {
                return Err(format!("{count} requests within {window:?}"));
            }
        }
        Ok(())
    }
}
