//! The handlers of a client: they join, receive events and leave.

use core::time::Duration;

use informer_core::{
    Notification,
    listeners::{ListenerConfig, ListenerId},
};
use informer_mock::Instant;

use super::{Client, Seen};
use crate::cluster::State;
use crate::engine::{Note, NoteKind};
use crate::plan::KEY_NAMES;

/// The key of an object, for [`Listeners`](informer_core::Listeners).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(pub u8);

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        KEY_NAMES[usize::from(self.0)]
    }
}

/// An event that a handler received.
pub type Heard = Notification<(Key, State)>;

/// A handler.
#[derive(Clone, Debug)]
pub struct Handler {
    /// Its id among the listeners.
    pub id: ListenerId,
    /// Its number, in order of joining.
    pub number: usize,
    /// Its resync period.
    pub resync: Option<Duration>,
    /// Events are coalesced once this many are pending.
    pub backlog: usize,
    /// Whether it wants unchanged objects.
    pub unchanged: bool,
    /// The time of its next resync. Its periods start with the first step after it joined.
    due: Option<Instant>,
}

impl Client {
    /// Pops up to `count` notifications; returns how many were popped.
    pub fn pop(&mut self, count: usize) -> usize {
        let mut popped = 0;
        while popped < count {
            let Some(note) = self.engine.pop() else {
                self.touched |= !self.popped;
                self.popped = true;
                self.pictures = self.wires.iter().map(|wire| wire.complete).collect();
                self.begun = self.wires.iter().map(|wire| wire.begun).collect();
                break;
            };
            popped += 1;
            self.tell(note);
        }
        if popped > 0 {
            self.listeners.coalesce();
        }
        popped
    }

    fn tell(&mut self, note: Note) {
        self.seen.push(Seen::Notified(note));
        let (key, object) = (&Key(note.slot), &note.state);
        let notification = match &note.kind {
            NoteKind::Added(initial) => Notification::Added {
                entry: (key, object),
                is_in_initial_list: *initial,
            },
            NoteKind::Updated(old) => Notification::Updated {
                old: (key, old),
                new: (key, object),
            },
            NoteKind::Replayed(pass) => Notification::Replayed {
                entry: (key, object),
                pass: *pass,
            },
            NoteKind::Deleted(unknown) => Notification::Deleted {
                entry: (key, object),
                final_state_unknown: *unknown,
            },
            NoteKind::Synced => Notification::Synced,
        };
        self.listeners.append(notification);
    }

    /// Pops up to and including a deletion; returns whether there was one.
    pub fn pop_deletion(&mut self) -> bool {
        while self.pop(1) > 0 {
            let last = self.seen.iter().rev().find_map(|seen| match seen {
                Seen::Notified(note) => Some(note.kind),
                _ => None,
            });
            if matches!(last, Some(NoteKind::Deleted(_))) {
                return true;
            }
        }
        false
    }

    /// Delivers up to `count` events to a handler; returns how many were delivered.
    pub fn hear(&mut self, handler: usize, count: usize) -> usize {
        let Some(id) = self
            .handlers
            .get(handler)
            .map(|handler| (handler.id, handler.number))
        else {
            return 0;
        };
        let mut events = Vec::new();
        self.listeners.take(id.0, count, &mut events);
        let heard = events.len();
        self.seen
            .extend(events.into_iter().map(|event| Seen::Heard(id.1, event)));
        heard
    }

    /// Adds a handler.
    pub fn join(&mut self, resync: u8, backlog: u8, unchanged: bool) {
        if self.handlers.len() >= 4 {
            return;
        }
        let resync = (resync > 0).then(|| Duration::from_secs(resync.into()));
        let backlog = if backlog == 255 {
            usize::MAX
        } else {
            backlog.into()
        };
        let config = ListenerConfig {
            resync,
            backlog,
            unchanged,
        };
        let notified = self.engine.cache().notified();
        let initial = notified.into_iter().map(|(slot, state)| (Key(slot), state));
        let id = self
            .listeners
            .join(config, initial, self.engine.cache().has_sent_synced());
        let handler = Handler {
            id,
            number: self.joined,
            resync,
            backlog,
            unchanged,
            due: None,
        };
        self.joined += 1;
        self.handlers.push(handler.clone());
        self.seen.push(Seen::Joined(handler));
    }

    /// Removes a handler.
    pub fn leave(&mut self, handler: usize) {
        if handler < self.handlers.len() {
            let handler = self.handlers.remove(handler);
            self.listeners.leave(handler.id);
            self.seen.push(Seen::Left(handler.number));
        }
    }

    /// Starts a resync requested by the user.
    pub fn resync(&mut self) {
        let pass = self.engine.resync();
        self.seen.push(Seen::Resync(pass, Vec::new()));
    }

    /// Starts the resyncs that are due.
    pub fn resync_due(&mut self, now: Instant) {
        let clock = self.clock(now);
        for handler in &mut self.handlers {
            let first = handler.resync.map(|period| clock + period);
            handler.due = handler.due.or(first);
        }
        let next = self.listeners.next_resync(clock);
        let expected = self.handlers.iter().filter_map(|handler| handler.due).min();
        if next != expected {
            self.seen.push(Seen::Wrong(format!(
                "the next resync is due at {expected:?}, and begins at {next:?}"
            )));
        }
        if next.is_none_or(|due| due > clock) {
            return;
        }
        let pass = self.engine.resync();
        self.listeners.begin_pass(clock, pass);
        let mut due = Vec::new();
        for handler in &mut self.handlers {
            if let (Some(at), Some(period)) = (handler.due, handler.resync)
                && at <= clock
            {
                due.push(handler.number);
                // Periods that were missed entirely are skipped.
                let next = at + period;
                handler.due = Some(if next > clock { next } else { clock + period });
            }
        }
        self.seen.push(Seen::Resync(pass, due));
    }

    /// Returns the number of events pending for a handler.
    #[must_use]
    pub fn pending(&self, handler: &Handler) -> usize {
        self.listeners.pending(handler.id)
    }
}
