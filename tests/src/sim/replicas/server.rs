//! The API server as replicas see it: Leases that are written where they have not changed, and objects.

use std::collections::BTreeMap;

use informer_core::{LeaseRecord, Written};

use super::plan::KEYS;
use super::replica::{Answer, Ask};

/// A change of an object: its number, and its version where it is still there.
pub(super) type Change = (usize, Option<u64>);

#[derive(Default)]
pub(super) struct Server {
    version: u64,
    leases: BTreeMap<String, Vec<(LeaseRecord, u64)>>,
    /// All changes of objects, in order.
    pub(super) log: Vec<Change>,
    pub(super) objects: [Option<u64>; KEYS],
    /// Up to which version each object was reconciled.
    pub(super) done: [u64; KEYS],
}

impl Server {
    /// Answers a request for a Lease. A read shows an older state where it is `stale`.
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
            Ask::List => {
                let newest = self.leases.values().filter_map(|states| states.last());
                Answer::List(newest.map(|(record, _)| record.clone()).collect())
            }
        }
    }

    fn write(&mut self, name: &str, mut record: LeaseRecord) -> Answer {
        self.version += 1;
        // The time of whoever writes it, which nobody reads as a time.
        record.renewed = format!("at {}", self.version);
        let states = self.leases.entry(name.to_owned()).or_default();
        states.push((record, self.version));
        let old = states.len().saturating_sub(2);
        states.drain(..old);
        Answer::Written(Written::Done(self.version.to_string()))
    }

    /// Another client changes a Lease, and not its holder. Returns whether there was one.
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

    /// Changes an object, or deletes it.
    pub(super) fn change(&mut self, key: usize, is_there: bool) {
        self.version += 1;
        let state = is_there.then_some(self.version);
        self.objects[key] = state;
        self.log.push((key, state));
    }

    /// An object is as its state of this version says. A write from an older one is refused.
    pub(super) fn reconciled(&mut self, key: usize, version: u64) {
        self.done[key] = self.done[key].max(version);
    }

    /// Returns an object that is not as it should be.
    pub(super) fn undone(&self) -> Option<usize> {
        let states = self.objects.iter().zip(&self.done);
        let mut undone =
            states.map(|(object, done)| object.is_some_and(|version| version != *done));
        undone.position(|undone| undone)
    }
}
