//! The checks after each step, and what is recorded of it.

use core::hash::Hash as _;
use std::hash::DefaultHasher;

use super::{Failed, Run};
use crate::client::Seen;
use crate::engine::{NoteKind, Snapshot};
use crate::invariants::{Context, Invariant, source};
use crate::plan::KEY_NAMES;

impl Run {
    /// Checks everything that happened since the last time, and the state.
    pub(super) fn check(&mut self) -> Result<(), Failed> {
        self.journaled();
        let seen = core::mem::take(&mut self.client.seen);
        for seen in &seen {
            self.digest_of(seen);
            if self.wants_trace
                && let Some(line) = shown(seen)
            {
                self.note(|| format!("    {line}"));
            }
        }
        // Events of handlers repeat earlier notifications.
        let quiet = seen
            .iter()
            .all(|seen| matches!(seen, Seen::Drained(..) | Seen::Heard(..)));
        let touched = core::mem::take(&mut self.client.touched) || !quiet;
        // Without an event the state is unchanged.
        let snapshot = if touched {
            self.client.snapshot()
        } else {
            Snapshot::default()
        };
        for seen in &seen {
            if let Seen::Wrong(what) = seen {
                return Err(("rules", "docs/RUN-LOOP.md", what.clone()));
            }
            self.ask(&snapshot, |invariant, context| {
                invariant.seen(seen, context)
            })?;
        }
        if touched {
            self.ask(&snapshot, |invariant, context| invariant.step(context))?;
        }
        Ok(())
    }

    pub(super) fn settled(&mut self) -> Result<(), Failed> {
        let snapshot = self.client.snapshot();
        self.ask(&snapshot, |invariant, context| invariant.settled(context))
    }

    /// Calls each invariant, up to the first violation.
    fn ask(
        &mut self,
        snapshot: &Snapshot,
        mut ask: impl FnMut(&mut dyn Invariant, &Context<'_>) -> Result<(), String>,
    ) -> Result<(), Failed> {
        let context = Context {
            cluster: &self.cluster,
            world: &self.world,
            client: &self.client,
            snapshot,
            now: self.now,
        };
        for (name, invariant) in &mut self.invariants {
            ask(&mut **invariant, &context).map_err(|what| (*name, source(name), what))?;
        }
        Ok(())
    }

    fn digest_of(&mut self, seen: &Seen) {
        feed(seen, &mut self.digest);
        let part = match seen {
            // Whether a pass replays an object that arrived during it depends on the object's position.
            Seen::Notified(note) if matches!(note.kind, NoteKind::Replayed(_)) => return,
            Seen::Notified(note) if note.kind != NoteKind::Synced => note.slot.into(),
            // Events of handlers follow from the notifications.
            Seen::Heard(..) => return,
            _ => KEY_NAMES.len(),
        };
        feed(seen, &mut self.agreement[part]);
    }
}

fn feed(seen: &Seen, hasher: &mut DefaultHasher) {
    match seen {
        Seen::Asked(asked) => (1, asked.source, asked.at, &asked.target).hash(hasher),
        Seen::Reported(source, class) => (2, source, class).hash(hasher),
        Seen::Notified(note) => (3, note.slot, note.state).hash(hasher),
        Seen::Heard(handler, event) => {
            (4, handler, event.entry().map(|(key, _)| key.0)).hash(hasher);
        }
        Seen::Joined(handler) => (5, handler.number).hash(hasher),
        Seen::Left(handler) => (6, handler).hash(hasher),
        Seen::Resync(pass, _) => (7, pass).hash(hasher),
        Seen::Drained(source, outputs, wait) => (8, source, outputs, wait).hash(hasher),
        Seen::Wrong(what) => (9, what).hash(hasher),
    }
}

fn shown(seen: &Seen) -> Option<String> {
    Some(match seen {
        Seen::Asked(asked) => format!("-> {} {}", asked.source, asked.target),
        Seen::Reported(source, class) => format!("!  {source} {class}"),
        Seen::Notified(note) => format!("*  {note}"),
        Seen::Heard(handler, event) => format!("   handler {handler} is notified of {event:?}"),
        Seen::Joined(handler) => format!("   handler {} joined", handler.number),
        Seen::Left(handler) => format!("   handler {handler} left"),
        Seen::Resync(pass, _) => format!("   resync, pass {pass}"),
        Seen::Drained(..) => return None,
        Seen::Wrong(what) => format!("?? {what}"),
    })
}
