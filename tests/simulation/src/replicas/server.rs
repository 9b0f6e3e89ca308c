//! The API server as replicas see it: Leases with optimistic concurrency, and objects.

use std::collections::BTreeMap;

use informer_core::{
    election::{LeaseRecord, Written},
    object::ExpectedState,
};
use informer_mock::DeleteAnswer;

use super::plan::KEYS;
use super::replica::{Answer, Ask};

/// A change or deletion of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) key: usize,
    pub(super) version: u64,
    pub(super) state: Option<State>,
}

/// A state of an object. Its uid is the version at which it was created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State {
    pub(super) version: u64,
    pub(super) uid: u64,
}

#[derive(Default)]
pub(super) struct Server {
    version: u64,
    leases: BTreeMap<String, Vec<(LeaseRecord, u64)>>,
    /// All changes of objects, in order.
    pub(super) log: Vec<Change>,
    pub(super) objects: [Option<State>; KEYS],
    /// The version up to which each object was reconciled.
    pub(super) done: [u64; KEYS],
}

impl Server {
    /// Answers a request for a Lease. A read returns an older state if `stale` is set.
    pub(super) fn answer(&mut self, name: &str, ask: Ask, stale: bool) -> Answer {
        match ask {
            Ask::Read => {
                let states = self.leases.get(name).map_or(&[][..], Vec::as_slice);
                let newest = states.len().saturating_sub(usize::from(stale));
                let state = states[..newest].last();
                Answer::Read(state.map(|(record, version)| (record.clone(), version.to_string())))
            }
            Ask::Create(record) if self.leases.contains_key(name) => {
                drop(record);
                Answer::Written(Written::Conflict)
            }
            Ask::Create(record) => self.write(name, record),
            Ask::Update(record, version) => {
                let states = self.leases.get(name);
                let newest = states.and_then(|states| states.last());
                if newest.is_some_and(|(_, newest)| newest.to_string() == version) {
                    self.write(name, record)
                } else {
                    Answer::Written(Written::Conflict)
                }
            }
            Ask::Remove(holder, renewed) => {
                // On the server, the uid and the version of the list take the place of the text of the renewal.
                let (holder, renewed) = (holder.as_str(), renewed.as_str());
                self.leases.retain(|_, states| {
                    let newest = states.last().map(|(record, _)| record);
                    newest
                        .is_none_or(|lease| (&*lease.holder, &*lease.renewed) != (holder, renewed))
                });
                Answer::Removed
            }
            Ask::List => {
                let newest = self.leases.values().filter_map(|states| states.last());
                Answer::List(newest.map(|(record, _)| record.clone()).collect())
            }
        }
    }

    fn write(&mut self, name: &str, mut record: LeaseRecord) -> Answer {
        self.version += 1;
        // The writer's wall-clock time, which nobody parses.
        record.renewed = format!("at {}", self.version);
        let states = self.leases.entry(name.to_owned()).or_default();
        states.push((record, self.version));
        let old = states.len().saturating_sub(2);
        states.drain(..old);
        Answer::Written(Written::Done(self.version.to_string()))
    }

    /// Changes a Lease as a client other than its holder. Returns whether the Lease exists.
    pub(super) fn touch(&mut self, name: &str) -> bool {
        let Some(states) = self.leases.get_mut(name) else {
            return false;
        };
        self.version += 1;
        let newest = states.last().map(|(record, _)| record.clone());
        states.extend(newest.map(|record| (record, self.version)));
        let old = states.len().saturating_sub(2);
        states.drain(..old);
        true
    }

    /// Returns the names of the Leases.
    pub(super) fn leases(&self) -> impl Iterator<Item = &str> {
        self.leases.keys().map(String::as_str)
    }

    /// Returns the text of the last write of a Lease.
    pub(super) fn renewed(&self, name: &str) -> Option<&str> {
        let (record, _) = self.leases.get(name)?.last()?;
        Some(&record.renewed)
    }

    /// Changes an object or deletes it.
    pub(super) fn change(&mut self, key: usize, is_there: bool) {
        self.version += 1;
        let version = self.version;
        let uid = self.objects[key].map_or(version, |state| state.uid);
        let state = is_there.then_some(State { version, uid });
        self.objects[key] = state;
        self.log.push(Change {
            key,
            version,
            state,
        });
    }

    /// Updates or deletes an object for a reconcile function, if it still has this version. Returns the state to
    /// expect in the cache, as read from the answer.
    pub(super) fn write_object(
        &mut self,
        key: usize,
        version: u64,
        delete: Option<DeleteAnswer>,
    ) -> Option<ExpectedState<Box<str>>> {
        let before = self.objects[key].filter(|state| state.version == version)?;
        self.change(key, delete.is_none());
        let uid = before.uid;
        let version = match delete {
            None => return Some(ExpectedState::at_version(&self.version.to_string())),
            Some(DeleteAnswer::Status) => {
                let answer = format!(r#"{{"kind":"Status","details":{{"uid":"{uid}"}}}}"#);
                return ExpectedState::after_delete(answer.as_bytes());
            }
            Some(DeleteAnswer::OldVersion) => before.version,
            Some(DeleteAnswer::NewVersion) => self.version,
        };
        let answer = format!(r#"{{"metadata":{{"uid":"{uid}","resourceVersion":"{version}"}}}}"#);
        ExpectedState::after_delete(answer.as_bytes())
    }

    /// Records that an object was reconciled at this version. An older version changes nothing.
    pub(super) fn reconciled(&mut self, key: usize, version: u64) {
        self.done[key] = self.done[key].max(version);
    }

    /// Returns an object that is not reconciled.
    pub(super) fn undone(&self) -> Option<usize> {
        let states = self.objects.iter().zip(&self.done);
        let mut undone =
            states.map(|(object, done)| object.is_some_and(|state| state.version != *done));
        undone.position(|undone| undone)
    }
}
