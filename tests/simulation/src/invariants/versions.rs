//! The reflector's version equals that of the independent reading of the bytes, and the cache shows it once
//! everything is popped. A version that was pending when a list completed does not replace that of the list.
//!
//! Source: client-go's `Reflector.LastSyncResourceVersion`; KEP-3157 and KEP-956 for bookmarks.

use super::{Context, Invariant, Verdict};

pub(super) struct Versions;

impl Invariant for Versions {
    fn step(&mut self, context: &Context<'_>) -> Verdict {
        let client = context.client;
        for (source, wire) in client.wires.iter().enumerate() {
            let reached = client.engine.reached(source);
            let right = match reached {
                None => wire.versions.is_empty(),
                Some(reached) => wire.versions.contains(&reached),
            };
            if !right {
                return Err(format!(
                    "source {source} is at {reached:?}, and its bytes lead to {:?}",
                    wire.versions
                ));
            }
            let shown = client.engine.cache().version(source);
            let listed = client.engine.listed(source);
            if listed.is_some() && shown != listed {
                return Err(format!(
                    "source {source} has popped the list at {listed:?}, the cache shows {shown:?}"
                ));
            }
            if client.is_popped() && shown != reached {
                return Err(format!(
                    "source {source} has reached {reached:?}, the cache shows {shown:?}"
                ));
            }
        }
        Ok(())
    }
}
