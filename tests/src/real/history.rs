//! What a handler was told, and whether it makes sense.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use informer_tokio::handler::EventHandler;
use informer_tokio::{Entry, Raw};

use super::Versions;

/// Folds what a handler is told to a state, and notes what cannot be.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Key to uid and version.
    pub state: Versions,
    /// How often each uid was told deleted.
    pub deletes: HashMap<String, u32>,
    /// How many adds, updates, deletions, and deletions that nobody saw, there were.
    pub counts: [u64; 4],
    /// What contradicts what was told before.
    pub contradictions: Vec<String>,
    /// Whether it was told that the initial state is complete.
    pub synced: bool,
}

/// A handler that keeps a [`Book`].
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<Book>>);

impl History {
    /// Looks at what was told so far.
    pub fn with<R>(&self, look: impl FnOnce(&Book) -> R) -> R {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, note: impl FnOnce(&mut Book)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Book {
    /// Says where the history does not fold to this state, or tells a deletion twice.
    #[must_use]
    pub fn differences(&self, state: &Versions) -> Vec<String> {
        let mut differences = self.contradictions.clone();
        let twice = self.deletes.iter().filter(|(_, times)| **times > 1);
        differences
            .extend(twice.map(|(uid, times)| format!("{uid} was told deleted {times} times")));
        differences.extend(compare("told", &self.state, "there is", state));
        differences
    }

    fn contradict(&mut self, what: String) {
        // Enough to see what it is.
        if self.contradictions.len() < 20 {
            self.contradictions.push(what);
        }
    }
}

/// Says where two states differ.
pub(super) fn compare(left: &str, a: &Versions, right: &str, b: &Versions) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    differ
        .map(|key| format!("{key}: {left} {:?}, {right} {:?}", a.get(key), b.get(key)))
        .collect()
}

fn of(entry: &Entry<Raw>) -> (String, String, String) {
    (
        entry.key().as_str().to_owned(),
        entry.uid().to_string(),
        entry.resource_version().to_string(),
    )
}

impl EventHandler<Raw> for History {
    fn on_add(&mut self, entry: &Entry<Raw>, _is_in_initial_list: bool) {
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

    fn on_update(&mut self, old: &Entry<Raw>, new: &Entry<Raw>) {
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

    fn on_delete(&mut self, entry: &Entry<Raw>, final_state_unknown: bool) {
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

/// The state of a cache: key to uid and version.
#[must_use]
pub(super) fn state_of(entries: &[Entry<Raw>]) -> Versions {
    let entries = entries.iter().map(of);
    entries
        .map(|(key, uid, version)| (key, (uid, version)))
        .collect::<BTreeMap<_, _>>()
}
