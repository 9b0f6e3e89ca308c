//! Every handler receives a legal sequence for each key and one synced notification, and in the end its state equals
//! the cache. This holds whenever it joined and however slow it is. A handler with an unbounded backlog receives each
//! replay of each resync pass that was due for it.
//!
//! Source: client-go's `SharedInformer`; DESIGN: the table of coalescing, "skipped initial adds count for HasSynced".

use std::collections::{BTreeMap, BTreeSet};

use informer_core::Notification;

use super::super::client::{Handler, Heard, Seen};
use super::super::cluster::State;
use super::super::engine::NoteKind;
use super::super::plan::KEY_NAMES;
use super::grammar::{Notified, follow};
use super::{Context, Invariant, Verdict};

#[derive(Default)]
pub(super) struct Handlers {
    all: BTreeMap<usize, One>,
}

struct One {
    handler: Handler,
    has: [Option<State>; KEY_NAMES.len()],
    synced: bool,
    /// The passes for which it was due.
    passes: BTreeSet<u32>,
    /// The number of replays it has not received yet.
    replays: u32,
}

impl Invariant for Handlers {
    fn seen(&mut self, seen: &Seen, context: &Context<'_>) -> Verdict {
        match seen {
            Seen::Joined(handler) => {
                self.all.insert(
                    handler.number,
                    One {
                        handler: handler.clone(),
                        has: [None; KEY_NAMES.len()],
                        synced: false,
                        passes: BTreeSet::new(),
                        replays: 0,
                    },
                );
                Ok(())
            }
            Seen::Left(number) => {
                self.all.remove(number);
                Ok(())
            }
            Seen::Resync(pass, due) => {
                for number in due {
                    if let Some(one) = self.all.get_mut(number) {
                        one.passes.insert(*pass);
                    }
                }
                Ok(())
            }
            Seen::Notified(note) => {
                if let NoteKind::Replayed(pass) = note.kind {
                    for one in self.all.values_mut() {
                        let wants =
                            pass.map_or(one.handler.unchanged, |pass| one.passes.contains(&pass));
                        one.replays += u32::from(wants);
                    }
                }
                Ok(())
            }
            Seen::Heard(number, event) => {
                let Some(one) = self.all.get_mut(number) else {
                    return Err(format!(
                        "handler {number} has not joined, and is notified of {event:?}"
                    ));
                };
                one.hear(event, context.world.client_go)
                    .map_err(|what| format!("handler {number} is notified of {event:?}: {what}"))
            }
            _ => Ok(()),
        }
    }

    fn settled(&mut self, context: &Context<'_>) -> Verdict {
        for (number, one) in &self.all {
            for (slot, has) in one.has.iter().enumerate() {
                let cached = context.snapshot[slot].map(|cached| cached.state);
                if *has != cached {
                    let key = KEY_NAMES[slot];
                    return Err(format!(
                        "handler {number} has {has:?} of {key}, the cache has {cached:?}"
                    ));
                }
            }
            if one.replays > 0 && one.handler.backlog == usize::MAX {
                return Err(format!(
                    "handler {number} was not notified of {} replays that were due",
                    one.replays
                ));
            }
            if !one.synced && !context.client.engine.cache().is_incomplete() {
                return Err(format!("handler {number} was never notified of the sync"));
            }
        }
        Ok(())
    }
}

impl One {
    fn hear(&mut self, event: &Heard, client_go: bool) -> Verdict {
        let (key, notified) = match event {
            Notification::Added {
                entry: (key, object),
                is_in_initial_list,
            } => {
                if *is_in_initial_list && self.synced {
                    return Err("the first state was complete".to_owned());
                }
                (key, Notified::Added(*object))
            }
            // Merged changes may end where they began. The update to the same state then looks like a replay.
            Notification::Updated {
                old: (_, old),
                new: (key, object),
            } if old == object && self.handler.backlog != usize::MAX => {
                (key, Notified::Replayed(*object))
            }
            Notification::Updated {
                old: (_, old),
                new: (key, object),
            } => (key, Notified::Updated(*old, *object)),
            Notification::Replayed {
                entry: (key, object),
                ..
            } => {
                if self.handler.resync.is_none() && !self.handler.unchanged {
                    return Err("it wants no replays".to_owned());
                }
                self.replays = self.replays.saturating_sub(1);
                (key, Notified::Replayed(*object))
            }
            Notification::Deleted {
                entry: (key, object),
                ..
            } => (key, Notified::Deleted(*object)),
            Notification::Synced => {
                return if core::mem::replace(&mut self.synced, true) {
                    Err("for the second time".to_owned())
                } else {
                    Ok(())
                };
            }
            _ => return Err("what is this?".to_owned()),
        };
        follow(&mut self.has, key.0, notified, client_go)
    }
}
