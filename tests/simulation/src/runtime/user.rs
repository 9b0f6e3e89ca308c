//! User-defined code: its behaviour, its planned failures, and the notifications it received.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{
    Decode, Decoder, Head, Raw, RawObject, Report, Transport, report::Problem, transport::Get,
};
use informer_tokio::Entry;
use informer_tokio::handler::{AsyncEventHandler, EventHandler};

use super::super::entropy::Entropy;

/// The functions that can be made to panic at their next call.
pub(super) const HOOKS: [&str; 4] = ["on_report", "on_version", "index", "transport"];

/// The planned failures of user-defined code, and its observations.
#[derive(Default)]
pub(super) struct User {
    armed: [AtomicBool; HOOKS.len()],
    refuses_restore: AtomicBool,
    accepts_all: AtomicBool,
    counts: Mutex<Counts>,
}

/// The number of occurrences of each event.
#[derive(Default)]
pub(super) struct Counts {
    /// The panics of each function, and the objects that the decoder refused.
    pub(super) failures: BTreeMap<&'static str, u64>,
    /// The reports of each class.
    pub(super) reports: BTreeMap<&'static str, u64>,
    /// The panics that were reported, by the name of the function.
    pub(super) reported: BTreeMap<&'static str, u64>,
    /// The keys that an audit reported.
    pub(super) drifted: BTreeSet<String>,
}

impl User {
    pub(super) fn arm(&self, hook: usize) {
        self.armed[hook].store(true, Ordering::Relaxed);
    }

    pub(super) fn disarm(&self) {
        self.armed
            .iter()
            .for_each(|armed| armed.store(false, Ordering::Relaxed));
    }

    /// Makes the decoder reject some of the objects that a journal restores.
    pub(super) fn refuse_restore(&self, refuses: bool) {
        self.refuses_restore.store(refuses, Ordering::Relaxed);
    }

    /// Makes the decoder accept every object, as a new release of a program does.
    pub(super) fn mend_decoder(&self) {
        self.accepts_all.store(true, Ordering::Relaxed);
    }

    pub(super) fn refuses_restore(&self) -> bool {
        self.refuses_restore.load(Ordering::Relaxed)
    }

    /// Panics if a panic is planned for the hook.
    pub(super) fn call(&self, hook: &str) {
        let armed = HOOKS.iter().zip(&self.armed);
        for (name, armed) in armed {
            if *name == hook && armed.swap(false, Ordering::Relaxed) {
                self.panic(name);
            }
        }
    }

    /// Panics without output on the terminal.
    fn panic(&self, what: &'static str) -> ! {
        self.failed(what);
        resume_unwind(Box::new("as planned"))
    }

    fn failed(&self, what: &'static str) {
        *self.counts().failures.entry(what).or_default() += 1;
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        lock(&self.counts)
    }

    /// The hook for reports.
    pub(super) fn on_report(&self, report: &Report<'_>) {
        {
            let mut counts = self.counts();
            *counts.reports.entry(report.class()).or_default() += 1;
            if let Problem::Drift { key, .. } = report.problem {
                counts.drifted.insert(key.to_owned());
            }
            let text = report.to_string();
            for hook in HOOKS {
                let is_of = text.contains(&format!("`{hook}` panicked"))
                    || text.contains(&format!("the {hook} panicked"));
                *counts.reported.entry(hook).or_default() += u64::from(is_of);
            }
        }
        self.call("on_report");
    }
}

pub(in super::super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the decoder treats an object, chosen by one of its labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    Fine,
    Refused,
    Panics,
}

impl Mark {
    /// Returns a random mark; most objects are fine.
    pub(super) fn any(dice: &mut Entropy<'_>) -> Self {
        match dice.below(8) {
            0 => Self::Refused,
            1 => Self::Panics,
            _ => Self::Fine,
        }
    }
}

/// Decodes into bytes, unless the object is marked.
#[derive(Clone)]
pub(super) struct Picky(pub(super) Arc<User>);

impl Decode for Picky {
    type Value = Raw;
    type Error = &'static str;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Raw, Self::Error> {
        let accepts_all = self.0.accepts_all.load(Ordering::Relaxed);
        let marked = |mark: Mark| {
            if accepts_all {
                return false;
            }
            let mark = format!("{mark:?}");
            raw.json()
                .windows(mark.len())
                .any(|part| part == mark.as_bytes())
        };
        if marked(Mark::Panics) {
            self.0.panic("decoder");
        }
        if marked(Mark::Refused) {
            self.0.failed("decoder");
            return Err("refused as planned");
        }
        let Ok(decoded) = Decoder::<Raw>::new().decode(raw);
        Ok(decoded)
    }

    fn distinction(&self) -> Option<u64> {
        // There is one user in a run.
        Some(0)
    }
}

/// A transport that panics in `send` if a panic is planned.
#[derive(Clone)]
pub(super) struct Shaky<T>(pub(super) T, pub(super) Arc<User>);

impl<T: Transport> Transport for Shaky<T> {
    type Body = T::Body;
    type Error = T::Error;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, T::Body), T::Error> {
        self.1.call("transport");
        self.0.send(get).await
    }
}

/// The versions of the notified objects, by key.
pub(super) type State = BTreeMap<String, String>;

/// The state that follows from the notifications, and the first notification that was out of order.
#[derive(Default)]
pub(super) struct Fold {
    pub(super) state: State,
    pub(super) synced: bool,
    /// The number of notifications without a change.
    pub(super) replays: u64,
    pub(super) wrong: Option<String>,
}

impl Fold {
    pub(super) fn put(&mut self, entry: &Entry<Raw>, is_new: bool) {
        let (key, version) = (
            entry.key().to_string(),
            entry.resource_version().to_string(),
        );
        let before = self.state.insert(key.clone(), version.clone());
        self.replays += u64::from(before == Some(version));
        let known = before.is_some();
        if known == is_new {
            self.fail(&format!("{key} is added: {is_new}, and was known: {known}"));
        }
    }

    pub(super) fn delete(&mut self, entry: &Entry<Raw>) {
        let key = entry.key().to_string();
        if self.state.remove(&key).is_none() {
            self.fail(&format!("{key} is deleted, and was not known"));
        }
    }

    pub(super) fn sync(&mut self) {
        if core::mem::replace(&mut self.synced, true) {
            self.fail(&"synced for the second time");
        }
    }

    fn fail(&mut self, what: &dyn fmt::Display) {
        self.wrong.get_or_insert_with(|| what.to_string());
    }
}

/// A handler that is randomly slow and panics at random, after recording the notification.
pub(super) struct Recorder {
    pub(super) fold: Arc<Mutex<Fold>>,
    pub(super) user: Arc<User>,
    pub(super) dice: Entropy<'static>,
}

impl Recorder {
    fn note(&mut self, note: impl FnOnce(&mut Fold)) {
        note(&mut lock(&self.fold));
        if self.dice.one_in(12) {
            self.user.panic("handler");
        }
    }

    pub(super) async fn dawdle(&mut self) {
        if self.dice.one_in(4) {
            let wait = u64::from(self.dice.below(2_000));
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }
}

impl EventHandler<Raw> for Recorder {
    fn on_add(&mut self, entry: &Entry<Raw>, _: bool) {
        self.note(|fold| fold.put(entry, true));
    }

    fn on_update(&mut self, _: &Entry<Raw>, new: &Entry<Raw>) {
        self.note(|fold| fold.put(new, false));
    }

    fn on_delete(&mut self, entry: &Entry<Raw>, _: bool) {
        self.note(|fold| fold.delete(entry));
    }

    fn on_synced(&mut self) {
        self.note(Fold::sync);
    }
}

/// The same, for an async handler.
pub(super) struct Awaiting(pub(super) Recorder);

impl AsyncEventHandler<Raw> for Awaiting {
    async fn on_add(&mut self, entry: &Entry<Raw>, initial: bool) {
        self.0.dawdle().await;
        self.0.on_add(entry, initial);
    }

    async fn on_update(&mut self, old: &Entry<Raw>, new: &Entry<Raw>) {
        self.0.dawdle().await;
        self.0.on_update(old, new);
    }

    async fn on_delete(&mut self, entry: &Entry<Raw>, unknown: bool) {
        self.0.dawdle().await;
        self.0.on_delete(entry, unknown);
    }

    async fn on_synced(&mut self) {
        self.0.dawdle().await;
        self.0.on_synced();
    }
}
