//! The notifications add up to the cache: every change applied is notified, and every notification is applied.
//!
//! Source: `docs/RUN-LOOP.md`, "The cache"; etcd's robustness tests, "Reliable".

use super::super::cluster::State;
use super::super::engine::{Note, NoteKind};
use super::super::plan::KEY_NAMES;
use super::{Context, Invariant, Verdict};

#[derive(Default)]
pub(super) struct Fold {
    told: [Option<State>; KEY_NAMES.len()],
    /// The last notification may be the first half of a deletion and an addition.
    half: Option<u8>,
}

impl Invariant for Fold {
    fn told(&mut self, note: &Note, _context: &Context<'_>) -> Verdict {
        let Note { slot, kind, state } = *note;
        self.half = None;
        match kind {
            NoteKind::Added(_) | NoteKind::Updated(_) => self.told[usize::from(slot)] = Some(state),
            NoteKind::Deleted(_) => {
                self.told[usize::from(slot)] = None;
                self.half = Some(slot);
            }
            NoteKind::Replayed(_) | NoteKind::Synced => {}
        }
        Ok(())
    }

    fn step(&mut self, context: &Context<'_>) -> Verdict {
        for (slot, (told, cached)) in (0..).zip(self.told.iter().zip(context.snapshot)) {
            let has = cached
                .filter(|cached| cached.told)
                .map(|cached| cached.state);
            if has != *told && self.half != Some(slot) {
                let key = KEY_NAMES[usize::from(slot)];
                return Err(format!("{key}: told was {told:?}, the cache has {has:?}"));
            }
        }
        Ok(())
    }

    fn settled(&mut self, context: &Context<'_>) -> Verdict {
        self.half = None;
        self.step(context)
    }
}
