//! An object that does not fit into the cache is reported with its key, and the cache reports that it is incomplete.
//! The objects that it does contain are right.
//!
//! Source: `core/src/cache/mod.rs`, `Cache::upsert`: "an object for which there is no room is refused, and the cache is then
//! incomplete until a list fits"; `core/src/report/mod.rs`: "nothing is lost in silence".

use super::super::client::Seen;
use super::super::cluster::Expected;
use super::super::engine::NO_ROOM;
use super::super::plan::KEY_NAMES;
use super::bookmarkable::{each, of_scope, same};
use super::{Context, Invariant, Verdict};

#[derive(Default)]
pub(super) struct Room {
    /// The keys that were reported as not fitting since they were last cached.
    reported: [bool; KEY_NAMES.len()],
    /// Whether any key was reported since the cache was last complete.
    any: bool,
}

impl Invariant for Room {
    fn seen(&mut self, seen: &Seen, _context: &Context<'_>) -> Verdict {
        if let Seen::Reported(_, class) = seen
            && let Some(slot) = NO_ROOM.iter().position(|own| own == class)
        {
            self.reported[slot] = true;
            self.any = true;
        }
        Ok(())
    }

    fn step(&mut self, context: &Context<'_>) -> Verdict {
        let engine = &context.client.engine;
        let reported = self.reported;
        // With two halves, it may have left out an object in favour of another, which is gone, until the next list.
        let leaves_out = context.world.is_of_halves();
        if engine.cache().is_incomplete() && !self.any && !leaves_out {
            return Err("it is incomplete, and nothing was reported".to_owned());
        }
        self.any &= engine.cache().is_incomplete();
        if context.world.room == 0 {
            return if engine.cache().is_incomplete() && !leaves_out {
                Err("it is incomplete where room does not end".to_owned())
            } else {
                Ok(())
            };
        }
        if !context.client.is_popped() {
            return Ok(());
        }
        let shown = |source: usize| {
            let wire = &context.client.wires[source];
            let version = engine.cache().version(source)?;
            let is_present = context.client.shows_last_list(source);
            (wire.trusted && !wire.in_list && is_present).then_some((wire.era, version))
        };
        let found = each(context.world, shown, |slot, scope, (era, version)| {
            let (cached, other) = of_scope(scope, slot, context.snapshot[usize::from(slot)]);
            let key = KEY_NAMES[usize::from(slot)];
            let expected = context.cluster.expected(era, scope, slot, version);
            let what = match (expected, cached) {
                (Expected::State(_), None) if other.is_some() => return None,
                (Expected::State(_), None) if leaves_out && engine.cache().is_incomplete() => {
                    return None;
                }
                (Expected::State(_), None) if !engine.cache().is_incomplete() => {
                    "it is complete without"
                }
                (Expected::State(_), None) if !reported[usize::from(slot)] => {
                    "nobody was notified that there is no room for"
                }
                (Expected::State(state), Some(cached))
                    if !same(context.cluster, state, cached) && !cached.stale =>
                {
                    "it has an old state of"
                }
                (Expected::Nothing, Some(_)) => "it still has",
                _ => return None,
            };
            Some(format!(
                "{what} {key} at version {version}: the server had {expected:?}, the cache has {cached:?}"
            ))
        });
        for (reported, cached) in self.reported.iter_mut().zip(context.snapshot) {
            *reported &= cached.is_none();
        }
        found.map_or(Ok(()), Err)
    }
}
