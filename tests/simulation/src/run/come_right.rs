//! The end of a run: all faults end, and the cache must converge.

use core::time::Duration;

use informer_core::audit::{Audit, AuditConfig, AuditStep, AuditVerdict};

use super::{Failed, PATIENCE, Run};
use crate::audit::{Entries, list, version};
use crate::engine::resource;
use crate::invariants;
use crate::plan::KEY_NAMES;

/// The time limit for a failed journal: the longest delay until it requests a list, and a margin.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(2 * 3600);

impl Run {
    /// Ends all faults and requires convergence.
    pub(super) fn come_right(&mut self) -> Result<(), Failed> {
        self.step += 1;
        self.note(|| "all faults end".to_owned());
        self.cluster.heal();
        self.client.fault = None;
        self.client.page_fault = None;
        self.client.break_lies();
        self.client.engine.fill_disk(false);
        if self.world.client_go {
            // client-go waits on a half-open connection until TCP gives up, which takes long but not forever.
            self.client.break_connections();
            // A paged list at a version from which no watch can resume keeps that version until the etcd compacts.
            self.cluster.compact(0);
        }
        if self.lost {
            // The lost objects would reappear from the history.
            self.cluster.compact(0);
        }
        self.poll();
        self.drain()?;
        self.lose_what_is_spoilt();
        for source in 0..self.client.sources() {
            if self.client.wires[source].trusted {
                continue;
            }
            // No watch reveals that a server has lied. An audit does.
            self.audit(source)?;
        }
        self.poll();
        self.drain()?;
        self.wait_until_right()?;
        self.settled()?;
        // It must not have converged by chance: later changes must arrive as well.
        for slot in 0..self.world.keys {
            self.cluster.put(slot, slot % 2, None);
        }
        self.drain()?;
        self.cluster.delete(0);
        self.drain()?;
        self.wait_until_right()?;
        self.settled()?;
        if self.client.engine.cache().is_incomplete() {
            self.make_room()?;
        }
        self.wait_for_journal()
    }

    /// A journal whose disk was full is written again by a list, and then equals the cache.
    fn wait_for_journal(&mut self) -> Result<(), Failed> {
        let start = self.now;
        while let Some(what) = self.client.engine.journal_lacks() {
            if self.now.saturating_duration_since(start) > JOURNAL_PATIENCE {
                return Err(("journaled", "docs/JOURNAL.md", what));
            }
            self.cluster.put(0, 0, None);
            self.pass(Duration::from_secs(60), true)?;
        }
        Ok(())
    }

    /// Servers that have lied also lose the objects whose newest state cannot be used, which is hardest to detect.
    fn lose_what_is_spoilt(&mut self) {
        if self.client.wires.iter().all(|wire| wire.trusted) {
            return;
        }
        for slot in 0..self.world.keys {
            if self.cluster.is_spoilt(slot) && self.cluster.lose(slot) {
                self.note(|| format!("the server loses {}", KEY_NAMES[usize::from(slot)]));
                self.give_up();
                self.cluster.compact(0);
            }
        }
    }

    /// Objects that did not fit must arrive once there is room.
    fn make_room(&mut self) -> Result<(), Failed> {
        self.step += 1;
        self.note(|| "objects are deleted until the others fit".to_owned());
        self.must_fit = true;
        for slot in self.world.room..self.world.keys {
            self.cluster.delete(slot);
        }
        self.drain()?;
        self.wait_until_right()?;
        self.settled()
    }

    /// Audits the cache for the effects of a server's lies. An audit without findings must be right.
    fn audit(&mut self, source: usize) -> Result<(), Failed> {
        let scope = self.world.scopes[source];
        let resource = resource(&self.world, scope);
        let mut audit = Audit::new(AuditConfig::new(Duration::from_secs(300)), 1);
        let start = self.now;
        while self.now.saturating_duration_since(start) < PATIENCE {
            let reached = version(self.client.engine.cache().version(source).unwrap_or(0));
            let entries = Entries::of(&self.client.snapshot(), scope);
            match audit.poll(self.now, &reached) {
                AuditStep::Wait(until) | AuditStep::Behind(until) => {
                    let left = until.saturating_duration_since(self.now);
                    self.pass(left.min(Duration::from_secs(20)), true)?;
                }
                AuditStep::List => {
                    if !list(&mut self.cluster, &resource, self.now, &mut audit, &entries) {
                        self.pass(Duration::from_secs(1), true)?;
                    }
                }
                AuditStep::Compare => match audit.compare(self.now, &reached, entries.iter()) {
                    AuditVerdict::Clean => {
                        self.note(|| "an audit finds nothing".to_owned());
                        return Ok(());
                    }
                    AuditVerdict::Doubt => {}
                    AuditVerdict::Drift { count, .. } => {
                        self.note(|| format!("an audit finds {count} objects of source {source}"));
                        self.client.relist(source, self.now);
                        return Ok(());
                    }
                },
            }
        }
        let what = format!("after {PATIENCE:?} no audit has come to its end");
        Err(("liveness", "simulation 5.8.2", what))
    }

    fn wait_until_right(&mut self) -> Result<(), Failed> {
        let start = self.now;
        while !self.is_right() {
            if self.now.saturating_duration_since(start) > PATIENCE {
                return Err(("liveness", "simulation 5.8.2", self.what_is_missing()));
            }
            self.pass(Duration::from_secs(20), true)?;
        }
        let took = self.now.saturating_duration_since(start);
        self.note(|| format!("all is right after {took:?}"));
        Ok(())
    }

    fn is_right(&mut self) -> bool {
        let quiet = self.client.is_quiet();
        let synced = self.client.engine.cache().is_synced() || self.lacks_room();
        let heard = self
            .client
            .handlers
            .iter()
            .all(|handler| self.client.pending(handler) == 0);
        quiet && synced && heard && self.missing().is_none()
    }

    /// Returns whether the cache is incomplete, and is allowed to be.
    fn lacks_room(&self) -> bool {
        self.client.engine.cache().is_incomplete() && !self.must_fit
    }

    fn missing(&self) -> Option<String> {
        if self.lacks_room() {
            return None;
        }
        let snapshot = self.client.snapshot();
        let era = self.cluster.era_number();
        invariants::bookmarkable::difference(&self.cluster, &self.world, &snapshot, |_| {
            Some((era, u64::MAX))
        })
    }

    fn what_is_missing(&self) -> String {
        let phases: Vec<_> = (0..self.client.sources())
            .map(|source| self.client.phase(source))
            .collect();
        format!(
            "after {PATIENCE:?} without faults: synced {}, idle {}, states {phases:?}, {}",
            self.client.engine.cache().is_synced(),
            self.client.engine.is_idle(),
            self.missing()
                .unwrap_or_else(|| "the cache is right".to_owned()),
        )
    }
}
