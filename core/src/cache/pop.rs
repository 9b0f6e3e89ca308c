//! How queued deltas are applied to the objects, and which notifications follow.

use super::enqueue::Incoming;
use super::store::Held;
use super::{Cache, Notification};
use crate::object::Cached;
use crate::storage::{Delta, DeltaKind, DeltaList, Few, Last, Payload, SlotId, Storage};

/// A notification before its contents are borrowed.
#[derive(Clone, Copy)]
pub(super) enum Notice {
    Added { id: SlotId, initial: bool },
    Updated { id: SlotId },
    Replayed { id: SlotId, pass: Option<u32> },
    Deleted { unknown: bool },
    Synced,
}

/// The effect of one delta, or of one object of a walk.
pub(super) enum Outcome {
    Notify(Notice),
    Continue,
    /// Nothing is pending.
    Idle,
}

/// The parts of a notification that are no longer in the table.
pub(super) struct Stash<T, S: Storage> {
    pub(super) key: Option<S::Text>,
    pub(super) object: Option<T>,
}

impl<T: Cached, S: Storage> Cache<T, S> {
    /// Applies pending deltas up to the next notification, and lends it. Returns `None` if nothing is pending.
    pub fn pop(&mut self) -> Option<Notification<(&S::Text, &T)>> {
        self.pop_within(&mut u32::MAX.clone())
    }

    /// Like [`Cache::pop`], but takes at most `budget` steps and subtracts the steps taken. `None` with a remaining
    /// budget means that nothing is pending. The budget limits the time for which a lock is held.
    pub fn pop_within(&mut self, budget: &mut u32) -> Option<Notification<(&S::Text, &T)>> {
        self.stash.key = None;
        if let Some(object) = self.stash.object.take() {
            self.discarded.put(object);
        }
        let notice = match self.follow_up.take() {
            Some(notice) => notice,
            None => loop {
                *budget = budget.checked_sub(1)?;
                match self.apply_next() {
                    Outcome::Notify(notice) => break notice,
                    Outcome::Continue => {}
                    Outcome::Idle => return None,
                }
            },
        };
        self.lend(notice)
    }

    /// Returns whether all input has been applied and notified.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.len() == 0
            && self.walks.as_slice().is_empty()
            && self.follow_up.is_none()
            && !self.confirmed
    }

    /// Takes one step: a delta of the queue, or one slot of a walk if the queue is empty.
    fn apply_next(&mut self) -> Outcome {
        // `Synced` comes before the change that confirms the restored state. The notifications of a sweep belong to the
        // initial state, and the sweep checks again at its end.
        if self.confirmed && !self.is_sweeping() {
            self.confirmed = false;
            let synced = self.notify_synced();
            if matches!(synced, Outcome::Notify(_)) {
                return synced;
            }
        }
        if let Some((id, mut deltas, _)) = self.queue.pop(&mut self.table) {
            // Merged deltas can cancel out.
            let outcome = deltas
                .pop_oldest()
                .map_or(Outcome::Continue, |delta| self.apply_delta(id, delta));
            self.put_back(id, deltas);
            return outcome;
        }
        self.reach_pending_versions();
        self.walk()
    }

    /// Applies one delta.
    fn apply_delta(&mut self, id: SlotId, delta: Delta<Incoming<T, S>>) -> Outcome {
        match (delta.kind, delta.payload) {
            (DeltaKind::Deleted, Payload::Object(incoming)) => {
                self.apply_deletion(id, Some(incoming.object), false)
            }
            (DeltaKind::Deleted, Payload::Tombstone(Last::Object(incoming))) => {
                self.apply_deletion(id, Some(incoming.object), true)
            }
            (DeltaKind::Deleted, _) => self.apply_deletion(id, None, true),
            (kind, Payload::Object(incoming)) => {
                self.apply_upsert(id, incoming, kind == DeltaKind::Replaced)
            }
            (_, Payload::Stored | Payload::Tombstone(_)) => Outcome::Continue,
        }
    }

    fn apply_upsert(&mut self, id: SlotId, incoming: Incoming<T, S>, listed: bool) -> Outcome {
        let Incoming {
            object,
            source,
            stale,
            values,
        } = incoming;
        let notifies = self.notifies(source);
        let changed = self.source(source).map_or(0, |source| source.relist);
        let Some(slot) = self.table.get_mut(id) else {
            return Outcome::Continue;
        };
        let was_notified = slot.object.as_ref().is_some_and(|held| held.notified);
        if let Some(held) = &mut slot.object
            && held.object.same_version(&object)
            && !held.object.is_another(&object)
        {
            self.stale += usize::from(stale);
            self.stale -= usize::from(held.stale);
            held.stale = stale;
            held.notified |= notifies;
            // The state is unchanged. In a list, the sweep notifies of replays.
            let replays = self.config.notify_unchanged && was_notified && !listed;
            if replays {
                held.changed = changed;
            }
            if held.source != source {
                self.store
                    .move_to_source(&mut self.table, id, source, values);
            }
            self.discarded.put(object);
            return if !was_notified && notifies {
                Outcome::Notify(Notice::Added { id, initial: false })
            } else if replays {
                Outcome::Notify(Notice::Replayed { id, pass: None })
            } else {
                Outcome::Continue
            };
        }
        self.bytes += object.bytes();
        let held = Held {
            object,
            source,
            stale,
            notified: was_notified || notifies,
            changed,
        };
        let old = self.store.put(&mut self.table, id, held, values);
        self.bytes = self
            .bytes
            .saturating_sub(old.as_ref().map_or(0, |old| old.object.bytes()));
        self.stale += usize::from(stale);
        self.stale -= usize::from(old.as_ref().is_some_and(|old| old.stale));
        match old {
            Some(old) if was_notified => return self.notify_update(id, old.object),
            Some(old) => self.discarded.put(old.object),
            None => {}
        }
        if notifies {
            Outcome::Notify(Notice::Added { id, initial: false })
        } else {
            Outcome::Continue
        }
    }

    /// Notifies of a new state of an object, or of a recreated one.
    fn notify_update(&mut self, id: SlotId, old: T) -> Outcome {
        let recreated = self
            .table
            .get(id)
            .and_then(|slot| slot.object.as_ref())
            .is_some_and(|held| held.object.is_another(&old));
        self.stash(old);
        if recreated && self.config.notify_recreated {
            self.stash.key = self.table.get(id).map(|slot| slot.key.clone());
            self.follow_up = Some(Notice::Added { id, initial: false });
            return Outcome::Notify(Notice::Deleted { unknown: true });
        }
        Outcome::Notify(Notice::Updated { id })
    }

    /// Removes an object; `last` is its last state, if the deletion contained it.
    fn apply_deletion(&mut self, id: SlotId, last: Option<T>, unknown: bool) -> Outcome {
        let Some(held) = self.remove(id) else {
            self.discarded.put_some(last);
            return Outcome::Continue;
        };
        // If deltas were merged or lost, the deleted object may be one of which no handler was notified.
        let is_another = last
            .as_ref()
            .is_some_and(|last| last.is_another(&held.object));
        let keeps = is_another && self.config.notify_recreated;
        let unknown = unknown || keeps;
        let shown = match last {
            Some(last) if keeps => {
                self.discarded.put(last);
                held.object
            }
            Some(last) => {
                self.discarded.put(held.object);
                last
            }
            None => held.object,
        };
        self.stash(shown);
        self.stash.key = self.table.get(id).map(|slot| slot.key.clone());
        if held.notified {
            Outcome::Notify(Notice::Deleted { unknown })
        } else {
            Outcome::Continue
        }
    }

    /// Removes an object from the store; its key may still be queued.
    pub(super) fn remove(&mut self, id: SlotId) -> Option<Held<T>> {
        let held = self.store.remove(&mut self.table, id)?;
        self.stale -= usize::from(held.stale);
        self.bytes = self.bytes.saturating_sub(held.object.bytes());
        self.request_relists();
        Some(held)
    }

    /// Stores an object that the next notification borrows.
    fn stash(&mut self, object: T) {
        // The same call may have removed an object of which no handler was notified.
        self.discarded.put_some(self.stash.object.replace(object));
    }

    /// Puts back the deltas of a key that are not yet applied, and frees the slot if it is unused.
    fn put_back(&mut self, id: SlotId, deltas: S::Deltas<Incoming<T, S>>) {
        if deltas.as_slice().is_empty() {
            self.free(id);
        } else {
            self.queue.push_front(&mut self.table, id, deltas);
        }
    }

    /// Borrows the contents of a notification.
    fn lend(&self, notice: Notice) -> Option<Notification<(&S::Text, &T)>> {
        let at = |id| self.table.entry(id).map(|(key, held)| (key, &held.object));
        Some(match notice {
            Notice::Added { id, initial } => Notification::Added {
                entry: at(id)?,
                is_in_initial_list: initial,
            },
            Notice::Updated { id } => {
                let new = at(id)?;
                let old = (new.0, self.stash.object.as_ref()?);
                Notification::Updated { old, new }
            }
            Notice::Replayed { id, pass } => Notification::Replayed {
                entry: at(id)?,
                pass,
            },
            Notice::Deleted { unknown } => Notification::Deleted {
                entry: (self.stash.key.as_ref()?, self.stash.object.as_ref()?),
                final_state_unknown: unknown,
            },
            Notice::Synced => Notification::Synced,
        })
    }
}
