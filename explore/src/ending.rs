//! The end of a run: faults end, everything comes to rest, all checks hold, and a start changes nothing.

use core::time::Duration;

use super::dice::Dice;
use super::driver::Driver;
use super::invariants::{Invariant, start_again};

impl Driver<'_> {
    /// Ends a run.
    pub(super) async fn end(&mut self) {
        // A request that waits cannot be told that its replica reaches a server again, so these end by themselves.
        let isolated = {
            let state = self.shared.state();
            let partitions = state.partitions.values();
            partitions.chain(state.pauses.values()).copied().max()
        };
        if let Some(end) = isolated {
            self.pass_until(end).await;
        }
        self.calm();
        self.come_to_rest().await;
    }

    /// Waits until nothing changes any more and all checks hold.
    async fn come_to_rest(&mut self) {
        let (patience, settle) = (self.shared.spec.patience, self.shared.spec.settle);
        let mut end = self.shared.now() + patience;
        let mut failed = None;
        loop {
            self.shared.begin_rest();
            if self.rests_for(settle).await {
                let checked = self.shared.check_end();
                failed = match checked.and_then(|()| self.shared.check_rest()) {
                    Ok(()) => {
                        let end = self.shared.snapshot();
                        self.shared.state().end = Some(end);
                        return self.start_at_rest().await;
                    }
                    Err(failed) => Some(failed),
                };
            }
            if self.shared.state().absent > 0 {
                // A process that is down can do nothing.
                end = self.shared.now() + patience;
            }
            if self.shared.now() < end {
                continue;
            }
            let minutes = patience.as_secs() / 60;
            match failed {
                Some((check, what)) => self.shared.violate(&check, &what),
                None => {
                    let what = format!(
                        "{minutes} minutes after the last fault, objects still change more often than every {} s",
                        settle.as_secs()
                    );
                    self.shared.violate("it comes to rest", &what);
                }
            }
            return;
        }
    }
}

/// # A start at rest
impl Driver<'_> {
    /// Lets time pass. Returns whether nothing has changed, and all processes run.
    async fn rests_for(&mut self, time: Duration) -> bool {
        let before = self.shared.state().activity;
        self.pass_until(self.shared.now() + time).await;
        let state = self.shared.state();
        // A process that is dead may do something when it starts again.
        state.activity == before && state.absent == 0
    }

    /// In some runs, kills the program and checks that its start changes nothing. What a watch has missed is work of
    /// the program itself first, so it has some time to notice that.
    async fn start_at_rest(&mut self) {
        let shared = self.shared;
        let is_checked = Dice::of(&[shared.seed, 11]).one_in(4);
        if !is_checked || !shared.spec.keeps(Invariant::StartChangesNothing) {
            return;
        }
        if !self.rests_for(QUIET).await && !self.rests_for(QUIET).await {
            shared.note("the start at rest is not checked: something changes every few minutes");
            shared
                .state()
                .tally
                .cannot_decide(Invariant::StartChangesNothing);
            return;
        }
        let before = start_again(shared);
        let end = shared.now() + shared.spec.patience;
        while !self.rests_for(shared.spec.settle).await && shared.now() < end {}
        shared.check_start(&before);
    }
}

/// How long nothing changes before the program is started at rest. Clients reopen watches that are half open earlier.
const QUIET: Duration = Duration::from_secs(330);
