//! Faults that are planned and wait for the request that they meet.

use core::time::Duration;

use super::action::{CrashAt, ReadFault, WriteFault};

/// The planned faults of a run, by what they meet.
#[derive(Default)]
pub(super) struct Due {
    writes: Vec<OfWrite>,
    /// Each with the number of reads that it still meets.
    reads: Vec<(ReadFault, u64)>,
    crashes: Vec<Crash>,
    /// Whether each takes effect, and the number of calls before it.
    calls: Vec<(bool, u64)>,
    /// The resources that the program has written, in the order of the first writes.
    written: Vec<String>,
}

/// A fault of a write.
struct OfWrite {
    fault: WriteFault,
    /// The number of writes before it.
    skip: u64,
    /// The resource whose writes count, or all.
    resource: Option<String>,
}

/// A process that dies at one of its writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    pub(super) replica: usize,
    pub(super) at: CrashAt,
    /// The number of writes before it.
    pub(super) skip: u64,
    /// How long the process stays away.
    pub(super) down: Duration,
}

impl Due {
    /// Adds a fault of a write. `of` selects one of the resources that the program has written.
    pub(super) fn write(&mut self, fault: WriteFault, skip: u64, of: Option<u64>) {
        let count = self.written.len() as u64;
        let index = of.and_then(|of| usize::try_from(of.checked_rem(count)?).ok());
        let resource = index.and_then(|index| self.written.get(index).cloned());
        self.writes.push(OfWrite {
            fault,
            skip,
            resource,
        });
    }

    pub(super) fn read(&mut self, fault: ReadFault, count: u64) {
        self.reads.push((fault, count));
    }

    pub(super) fn crash(&mut self, crash: Crash) {
        self.crashes.push(crash);
    }

    pub(super) fn call(&mut self, has_effect: bool, skip: u64) {
        self.calls.push((has_effect, skip));
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        let written = core::mem::take(&mut self.written);
        *self = Self {
            written,
            ..Self::default()
        };
    }
}

/// # What a request meets
impl Due {
    /// Counts a write of a resource, and returns its fault.
    pub(super) fn take_write(&mut self, resource: &str) -> Option<WriteFault> {
        if !self.written.iter().any(|one| one == resource) {
            self.written.push(resource.to_owned());
        }
        let counts = |one: &OfWrite| one.resource.as_ref().is_none_or(|of| of == resource);
        let due = |one: &OfWrite| counts(one) && one.skip == 0;
        let due = self.writes.iter().position(due);
        for one in self.writes.iter_mut().filter(|one| counts(one)) {
            one.skip = one.skip.saturating_sub(1);
        }
        due.map(|index| self.writes.remove(index).fault)
    }

    /// Returns the fault of a read.
    pub(super) fn take_read(&mut self, is_watch: bool) -> Option<ReadFault> {
        let fits = |(fault, _): &(ReadFault, u64)| is_watch || !fault.is_of_watches();
        let (fault, left) = self.reads.iter_mut().find(|fault| fits(fault))?;
        *left -= 1;
        let fault = *fault;
        self.reads.retain(|(_, left)| *left > 0);
        Some(fault)
    }

    /// Counts a point at which a process can die. Returns how long it stays away if it does.
    pub(super) fn take_crash(&mut self, replica: usize, at: CrashAt) -> Option<Duration> {
        let fits = |crash: &Crash| crash.replica == replica && crash.at == at;
        let index = self.crashes.iter().position(fits)?;
        if let Some(less) = self.crashes[index].skip.checked_sub(1) {
            self.crashes[index].skip = less;
            return None;
        }
        Some(self.crashes.remove(index).down)
    }

    /// Counts a call of an outside system. Returns its fault: whether it takes effect.
    pub(super) fn take_call(&mut self) -> Option<bool> {
        let due = self.calls.iter().position(|(_, skip)| *skip == 0);
        for (_, skip) in &mut self.calls {
            *skip = skip.saturating_sub(1);
        }
        due.map(|index| self.calls.remove(index).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_meets_the_write_that_it_is_planned_for() {
        let mut due = Due::default();
        assert_eq!(due.take_write("pods"), None);
        assert_eq!(due.take_write("secrets"), None);
        due.write(WriteFault::Failed, 1, Some(1)); // Of Secrets.
        due.write(WriteFault::Reset, 2, None);
        assert_eq!(due.take_write("pods"), None);
        assert_eq!(due.take_write("secrets"), None);
        assert_eq!(due.take_write("pods"), Some(WriteFault::Reset));
        assert_eq!(due.take_write("pods"), None);
        assert_eq!(due.take_write("secrets"), Some(WriteFault::Failed));
        assert_eq!(due.take_write("secrets"), None);
    }
}
