//! Nothing is notified, cached or replayed that no server ever had.
//!
//! Source: etcd's robustness tests, "Unique"; reference: "nothing reported that the server never had".

use super::super::cluster::{Cluster, State};
use super::super::engine::{Note, NoteKind};
use super::{Context, Invariant, Verdict};

pub(super) struct Known;

impl Invariant for Known {
    fn notified(&mut self, note: &Note, context: &Context<'_>) -> Verdict {
        let cluster = context.cluster;
        match note.kind {
            NoteKind::Synced => Ok(()),
            // A deletion carries the version of the deletion if it was observed.
            NoteKind::Deleted(_) => {
                let known = cluster.written(note.state.n).is_some_and(|(slot, state)| {
                    slot == note.slot
                        && State {
                            version: note.state.version,
                            ..state
                        } == note.state
                        && note.state.version >= state.version
                });
                if known {
                    Ok(())
                } else {
                    Err(format!("{note}: there was no such object"))
                }
            }
            NoteKind::Updated(old) => is_known(cluster, note.slot, old)
                .and_then(|()| is_known(cluster, note.slot, note.state)),
            NoteKind::Added(_) | NoteKind::Replayed(_) => is_known(cluster, note.slot, note.state),
        }
    }

    fn step(&mut self, context: &Context<'_>) -> Verdict {
        for (slot, cached) in (0..).zip(context.snapshot) {
            if let Some(cached) = cached {
                is_known(context.cluster, slot, cached.state)?;
            }
        }
        Ok(())
    }
}

fn is_known(cluster: &Cluster, slot: u8, state: State) -> Verdict {
    let written = cluster.written(state.n);
    if written == Some((slot, state)) {
        Ok(())
    } else {
        Err(format!(
            "no server had {state:?}; write {} was {written:?}",
            state.n
        ))
    }
}
