//! The version of the cache never decreases, except by a complete list that answers the current request.
//!
//! Source: etcd's robustness tests, "Ordered"; `docs/DIFFERENCES.md` S8.

use super::super::plan::World;
use super::{Context, Invariant, Verdict};

pub(super) struct Monotone {
    /// For each source, the version and the number of complete lists at that time.
    last: Vec<(u64, u32)>,
}

impl Monotone {
    pub(super) fn new(world: &World) -> Self {
        Self {
            last: vec![(0, 0); world.scopes.len()],
        }
    }
}

impl Invariant for Monotone {
    fn step(&mut self, context: &Context<'_>) -> Verdict {
        let client = context.client;
        for (source, last) in self.last.iter_mut().enumerate().take(client.sources()) {
            let Some(version) = client.engine.cache().version(source) else {
                if last.0 > 0 {
                    return Err(format!("source {source} has forgotten version {}", last.0));
                }
                continue;
            };
            let complete = client.wires[source].complete;
            if version < last.0 && complete == last.1 {
                return Err(format!(
                    "source {source} goes from version {} back to {version}",
                    last.0
                ));
            }
            if version != last.0 {
                // If several lists are unpopped, the version may come from a list before the last.
                let earlier = u32::from(!client.shows_last_list(source));
                *last = (version, complete.saturating_sub(earlier));
            }
        }
        Ok(())
    }
}
