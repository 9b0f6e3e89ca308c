//! The Leases of the API server, with optimistic concurrency.

use std::collections::BTreeMap;

use informer_tokio::election::{LeaseRecord, Written};

use super::process::{Answer, Ask};

/// The last two states of each Lease, with their versions.
#[derive(Default)]
pub(super) struct Server {
    version: u64,
    leases: BTreeMap<String, Vec<(LeaseRecord, u64)>>,
}

impl Server {
    /// Answers a request for a Lease. A read returns an older state if `stale` is set.
    pub(super) fn answer(&mut self, name: &str, ask: Ask, stale: bool) -> Answer {
        let newest = self.newest(name).map(|(_, version)| version.to_string());
        match ask {
            Ask::Read => {
                let states = self.leases.get(name).map_or(&[][..], Vec::as_slice);
                let newest = states.len().saturating_sub(usize::from(stale));
                let state = states[..newest].last();
                Answer::Read(state.map(|(record, version)| (record.clone(), version.to_string())))
            }
            Ask::Create(record) if newest.is_none() => self.write(name, record),
            Ask::Update(record, version) if newest.as_ref() == Some(&version) => {
                self.write(name, record)
            }
            Ask::Create(_) | Ask::Update(..) => Answer::Written(Written::Conflict),
            Ask::Remove(gone) => {
                // On the server, the uid and the version of the list take the place of the text of the renewal.
                self.leases.retain(|_, states| {
                    let newest = states.last().map(|(record, _)| record);
                    newest.is_none_or(|lease| {
                        (&lease.holder, &lease.renewed) != (&gone.holder, &gone.renewed)
                    })
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
        // The writer's wall-clock time, which nobody parses.
        record.renewed = format!("at {}", self.version + 1);
        self.put(name, record);
        Answer::Written(Written::Done(self.version.to_string()))
    }

    fn put(&mut self, name: &str, record: LeaseRecord) {
        self.version += 1;
        let states = self.leases.entry(name.to_owned()).or_default();
        states.push((record, self.version));
        let old = states.len().saturating_sub(2);
        states.drain(..old);
    }

    /// Another client than its holder changes a Lease, or deletes it. Returns whether there was one.
    pub(super) fn touch(&mut self, name: &str, deletes: bool) -> bool {
        let Some((record, _)) = self.newest(name).cloned() else {
            return false;
        };
        if deletes {
            self.leases.remove(name);
        } else {
            self.put(name, record);
        }
        true
    }

    /// Returns the names of the Leases.
    pub(super) fn leases(&self) -> impl Iterator<Item = &str> {
        self.leases.keys().map(String::as_str)
    }

    /// Returns a Lease and its version.
    pub(super) fn newest(&self, name: &str) -> Option<&(LeaseRecord, u64)> {
        self.leases.get(name)?.last()
    }
}
