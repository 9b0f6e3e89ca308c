//! The notifications add up to the cache: every change applied is notified, and every notification is applied.
//!
//! Source: `docs/RUN-LOOP.md`, "The cache"; etcd's robustness tests, "Reliable".

use super::super::cluster::State;
use super::super::engine::{Note, NoteKind};
use super::super::plan::KEY_NAMES;
use super::{Context, Invariant, Verdict};

#[derive(Default)]
pub(super) struct Fold {
    notified: [Option<State>; KEY_NAMES.len()],
    /// The last notification may be the first half of a deletion and an addition.
    half: Option<u8>,
}

impl Invariant for Fold {
    fn notified(&mut self, note: &Note, _context: &Context<'_>) -> Verdict {
        let Note { slot, kind, state } = *note;
        self.half = None;
        match kind {
            NoteKind::Added(_) | NoteKind::Updated(_) => {
                self.notified[usize::from(slot)] = Some(state);
            }
            NoteKind::Deleted(_) => {
                self.notified[usize::from(slot)] = None;
                self.half = Some(slot);
            }
            NoteKind::Replayed(_) | NoteKind::Synced => {}
        }
        Ok(())
    }

    fn step(&mut self, context: &Context<'_>) -> Verdict {
        for (slot, (notified, cached)) in (0..).zip(self.notified.iter().zip(context.snapshot)) {
            let has = cached
                .filter(|cached| cached.notified)
                .map(|cached| cached.state);
            if has != *notified && self.half != Some(slot) {
                let key = KEY_NAMES[usize::from(slot)];
                return Err(format!(
                    "{key}: notified was {notified:?}, the cache has {has:?}"
                ));
            }
        }
        Ok(())
    }

    fn settled(&mut self, context: &Context<'_>) -> Verdict {
        self.half = None;
        self.step(context)
    }
}
