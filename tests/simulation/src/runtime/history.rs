//! The writes to the server, in order of version.

use core::time::Duration;

use tokio::time::Instant;

use super::user::{Mark, State};

/// A write of a key.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) version: u64,
    pub(super) key: String,
    /// How the decoder treats the object; `None` after a deletion.
    pub(super) mark: Option<Mark>,
    at: Instant,
    /// An earlier decoder rejected it, so the cache may lack it until the next list.
    was_rejected: bool,
}

impl Write {
    fn is_rejected(&self) -> bool {
        self.mark.is_some_and(|mark| mark != Mark::Fine)
    }
}

/// All writes.
#[derive(Default, Debug)]
pub(super) struct History {
    writes: Vec<Write>,
    accepts_all: bool,
}

impl History {
    pub(super) fn add(&mut self, version: u64, key: String, mark: Option<Mark>) {
        let mark = mark.map(|mark| if self.accepts_all { Mark::Fine } else { mark });
        self.writes.push(Write {
            version,
            key,
            mark,
            at: Instant::now(),
            was_rejected: false,
        });
    }

    /// Records that the decoder accepts all objects from now on, the earlier ones as well.
    pub(super) fn accept_all(&mut self) {
        self.accepts_all = true;
        let rejected = self.writes.iter_mut().filter(|write| write.is_rejected());
        for write in rejected {
            (write.mark, write.was_rejected) = (Some(Mark::Fine), true);
        }
    }

    /// Returns for how long a cache of a namespace that has reached this version has lacked a change.
    pub(super) fn lacks_for(&self, namespace: &str, version: u64) -> Duration {
        let mut writes = self.writes.iter();
        let first = writes.find(|write| {
            let is_in = |key: (&str, &str)| key.0 == namespace;
            write.version > version && write.key.split_once('/').is_some_and(is_in)
        });
        first.map_or(Duration::ZERO, |write| write.at.elapsed())
    }

    /// Returns the version of the last write.
    pub(super) fn version(&self) -> u64 {
        self.writes.last().map_or(0, |write| write.version)
    }

    /// Returns the mark of a key's newest state.
    pub(super) fn mark(&self, key: &str) -> Option<Mark> {
        self.last(key, u64::MAX)?.mark
    }

    fn last(&self, key: &str, version: u64) -> Option<&Write> {
        let mut writes = self.writes.iter().rev();
        writes.find(|write| write.key == key && write.version <= version)
    }

    /// Returns whether the decoder rejects a later state of a key than that at `version`.
    pub(super) fn is_rejected_since(&self, key: &str, version: u64) -> bool {
        let mut later = self.writes.iter().filter(|write| write.version > version);
        later.any(|write| write.key == key && write.is_rejected())
    }

    /// Returns whether a cache that shows a key at version `shown` has seen the write at `version`.
    pub(super) fn is_shown(&self, key: &str, version: u64, shown: Option<u64>) -> bool {
        let is_useless = |write: &Write| write.mark != Some(Mark::Fine);
        let mut later = self
            .writes
            .iter()
            .filter(|write| write.key == key && write.version >= version);
        shown.is_some_and(|shown| shown >= version) || later.any(is_useless)
    }

    /// Returns why this is not a state that the server had, at a version if one is given. After a state that the
    /// decoder rejects, the older one stays valid.
    pub(super) fn is_no_state(&self, shown: &State, version: Option<u64>) -> Option<String> {
        let never = shown.iter().find(|(key, shown)| {
            let mut writes = self.writes.iter();
            !writes.any(|write| {
                write.key == **key
                    && write.version.to_string() == **shown
                    && write.mark == Some(Mark::Fine)
            })
        });
        if let Some((key, shown)) = never {
            return Some(format!("{key}@{shown} was never written"));
        }
        let version = version?;
        let mut keys: Vec<&str> = self.writes.iter().map(|write| write.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| key.starts_with("prod/"));
        keys.into_iter().find_map(|key| {
            let last = self.last(key, version);
            let cached = shown.get(key).and_then(|shown| shown.parse::<u64>().ok());
            let is_right = match last {
                Some(Write {
                    version,
                    mark: Some(Mark::Fine),
                    was_rejected,
                    ..
                }) => {
                    let is_older = cached.is_none_or(|cached| cached < *version);
                    cached == Some(*version) || *was_rejected && is_older
                }
                Some(Write {
                    version,
                    mark: Some(_),
                    ..
                }) => cached.is_none_or(|cached| cached < *version),
                Some(Write { mark: None, .. }) | None => cached.is_none(),
            };
            (!is_right)
                .then(|| format!("{key} is shown as {cached:?}, and the server had {last:?}"))
        })
    }
}
