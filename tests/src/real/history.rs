//! The notifications of a handler, and whether they are consistent.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use informer_core::decode::Form;
use informer_tokio::Entry;
use informer_tokio::handler::EventHandler;

use super::Versions;

/// The state that follows from the notifications of a handler, and their contradictions.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Key to uid and version.
    pub state: Versions,
    /// The number of deletions notified for each uid.
    pub deletes: HashMap<String, u32>,
    /// The number of adds, updates, deletions and unobserved deletions.
    pub counts: [u64; 4],
    /// The notifications that contradict earlier ones.
    pub contradictions: Vec<String>,
    /// Whether the synced notification arrived.
    pub synced: bool,
}

/// A handler that maintains a [`Book`].
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Book>>);

impl History {
    /// Inspects the notifications so far.
    pub fn with<R>(&self, look: impl FnOnce(&Book) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server is restored to an older state: what was deleted since may be there again.
    pub fn server_is_restored(&self) {
        self.note(|book| book.deletes.clear());
    }

    fn note(&self, note: impl FnOnce(&mut Book)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Book {
    /// Returns the differences between the history and this state, and deletions that were notified twice.
    #[must_use]
    pub fn differences(&self, state: &Versions) -> Vec<String> {
        let mut differences = self.contradictions.clone();
        let twice = self.deletes.iter().filter(|(_, times)| **times > 1);
        differences.extend(
            twice.map(|(uid, times)| format!("{uid} had {times} notifications of its deletion")),
        );
        differences.extend(compare("notified", &self.state, "there is", state));
        differences
    }

    fn contradict(&mut self, what: String) {
        // Enough to see the problem.
        if self.contradictions.len() < 20 {
            self.contradictions.push(what);
        }
    }
}

/// Returns the differences between two states.
pub(super) fn compare(left: &str, a: &Versions, right: &str, b: &Versions) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    differ
        .map(|key| format!("{key}: {left} {:?}, {right} {:?}", a.get(key), b.get(key)))
        .collect()
}

fn of<F: Form>(entry: &Entry<F>) -> (String, String, String) {
    (
        entry.key().as_str().to_owned(),
        entry.uid().to_string(),
        entry.resource_version().to_string(),
    )
}

impl<F: Form> EventHandler<F> for History {
    fn on_add(&mut self, entry: &Entry<F>, _is_in_initial_list: bool) {
        let (key, uid, version) = of(entry);
        self.note(|book| {
            book.counts[0] += 1;
            if book.deletes.contains_key(&uid) {
                book.contradict(format!("{key} is added after its deletion"));
            }
            if let Some(before) = book.state.insert(key.clone(), (uid, version)) {
                book.contradict(format!("{key} is added, but was there as {before:?}"));
            }
        });
    }

    fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) {
        let (key, uid, version) = of(new);
        let (_, old_uid, old_version) = of(old);
        self.note(|book| {
            book.counts[1] += 1;
            if old_uid != uid {
                book.contradict(format!("{key} is updated to another object"));
            }
            let before = book.state.insert(key.clone(), (uid, version));
            if before.as_ref() != Some(&(old_uid, old_version)) {
                book.contradict(format!(
                    "{key} is updated from {old:?}, but was there as {before:?}"
                ));
            }
        });
    }

    fn on_delete(&mut self, entry: &Entry<F>, final_state_unknown: bool) {
        let (key, uid, _) = of(entry);
        self.note(|book| {
            book.counts[2] += 1;
            book.counts[3] += u64::from(final_state_unknown);
            *book.deletes.entry(uid.clone()).or_default() += 1;
            match book.state.remove(&key) {
                None => book.contradict(format!("{key} is deleted, but was not there")),
                Some((before, _)) if before != uid => {
                    book.contradict(format!(
                        "{key} is deleted as {uid}, but was there as {before}"
                    ));
                }
                Some(_) => {}
            }
        });
    }

    fn on_synced(&mut self) {
        self.note(|book| book.synced = true);
    }
}

/// Returns the state of a cache: key to uid and version.
#[must_use]
pub(super) fn state_of<F: Form>(entries: &[Entry<F>]) -> Versions {
    let entries = entries.iter().map(of::<F>);
    entries
        .map(|(key, uid, version)| (key, (uid, version)))
        .collect::<BTreeMap<_, _>>()
}
