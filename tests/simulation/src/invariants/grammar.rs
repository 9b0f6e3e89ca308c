//! For each key the notifications follow `Added (Updated | Replayed)* Deleted`, and each carries the state before it.
//!
//! Source: etcd's robustness tests, "PrevKV" and "IsCreate"; client-go's `ResourceEventHandler`.

use super::super::cluster::State;
use super::super::engine::{Note, NoteKind};
use super::super::plan::KEY_NAMES;
use super::{Context, Invariant, Verdict};

#[derive(Default)]
pub(super) struct Grammar {
    has: [Option<State>; KEY_NAMES.len()],
}

impl Invariant for Grammar {
    fn notified(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
        let notified = Notified::of(note);
        notified
            .map_or(Ok(()), |notified| {
                follow(&mut self.has, note.slot, notified, context.world.client_go)
            })
            .map_err(|what| format!("{note}: {what}"))
    }
}

/// A notification of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Notified {
    Added(State),
    Updated(State, State),
    Replayed(State),
    Deleted(State),
}

impl Notified {
    const fn of(note: &Note) -> Option<Self> {
        Some(match note.kind {
            NoteKind::Added(_) => Self::Added(note.state),
            NoteKind::Updated(old) => Self::Updated(old, note.state),
            NoteKind::Replayed(_) => Self::Replayed(note.state),
            NoteKind::Deleted(_) => Self::Deleted(note.state),
            NoteKind::Synced => return None,
        })
    }
}

/// Checks whether a notification may follow the previous ones.
pub(super) fn follow(
    has: &mut [Option<State>; KEY_NAMES.len()],
    slot: u8,
    notified: Notified,
    client_go: bool,
) -> Verdict {
    let has = &mut has[usize::from(slot)];
    match (notified, *has) {
        (Notified::Added(state), None) => *has = Some(state),
        (Notified::Added(_), Some(had)) => return Err(format!("it is there already: {had:?}")),
        (Notified::Updated(..) | Notified::Replayed(_) | Notified::Deleted(_), None) => {
            return Err("it is not there".to_owned());
        }
        (Notified::Updated(old, state), Some(had)) => {
            if old != had {
                return Err(format!("the state before it was {had:?}, not {old:?}"));
            }
            if state == old {
                return Err("nothing changed".to_owned());
            }
            if state.uid != old.uid && !client_go {
                return Err("it is another object".to_owned());
            }
            *has = Some(state);
        }
        (Notified::Replayed(state), Some(had)) => {
            if state != had {
                return Err(format!("it was {had:?}, so this is no replay"));
            }
        }
        (Notified::Deleted(state), Some(had)) => {
            if state.uid != had.uid && !client_go {
                return Err(format!("another object is there: {had:?}"));
            }
            *has = None;
        }
    }
    Ok(())
}
