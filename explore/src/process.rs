//! A process under test, and its connections to the server.

use core::fmt;
use core::future::{Future, pending, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use informer_core::{Instant, Timer as _, transport::FailureKind};

use super::action::{CrashAt, FaultKind};
use super::connect::ApiError;
use super::dice::Dice;
use super::trace::EntryKind;
use super::world::{Shared, World};

/// A process that runs the program under test, from its start to its death.
///
/// When it dies, its future is dropped at the await where it is. Tasks that it has spawned cannot be ended, but none of
/// their requests reaches the server any more, and they get no response.
#[derive(Clone)]
pub struct Process {
    pub(super) life: Arc<Life>,
}

impl Process {
    /// Returns a seed for this process, for everything that is random in it: `Builder::seed` of an informer, for
    /// example. Without it, two runs of the same seed differ.
    #[must_use]
    pub fn seed(&self) -> u64 {
        let life = &self.life;
        Dice::of(&[life.shared.seed, life.replica as u64, life.number.into()]).below(u64::MAX)
    }

    /// Returns the index of the replica, from 0.
    #[must_use]
    pub fn replica(&self) -> usize {
        self.life.replica
    }

    /// Returns a name that no other process of the run has, as a Pod has one. It is an identity for elections.
    #[must_use]
    pub fn pod(&self) -> String {
        format!("controller-{}-{}", self.life.replica + 1, self.life.number)
    }

    /// Returns the time of day on the machine of the process. It is also that of `SystemTime::now` on platforms where
    /// [the time of day is the world's](crate#determinism), except in tasks that replicas other than the first have
    /// spawned. Machines differ, as [`FaultKind::Clocks`] says.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let shared = &self.life.shared;
        let epoch = shared.mock.read(|server| server.config().epoch);
        let epoch = epoch.saturating_add_signed(shared.skew(self.life.replica));
        SystemTime::UNIX_EPOCH + Duration::from_secs(epoch) + shared.elapsed()
    }

    /// Returns the world, for state outside of the cluster.
    #[must_use]
    pub fn world(&self) -> World {
        World {
            shared: Arc::clone(&self.life.shared),
        }
    }

    /// Calls a system outside of the cluster, such as a cloud, whose state is in
    /// [`World::outside`]. It takes some time and counts as a write: the process may die before it, or before it gets
    /// the result. `what` describes the call in the trace.
    pub async fn call<T>(&self, what: &str, call: impl FnOnce() -> T) -> T {
        let life = &self.life;
        life.alive(async {
            let outside = life.shared.lane("outside");
            let number = life.begin(outside, what, b"");
            life.reach().await;
            life.crash_at(CrashAt::BeforeWrite).await;
            life.travel(number).await;
            life.run().await;
            let result = call();
            life.shared.changed("");
            life.crash_at(CrashAt::AfterWrite).await;
            life.end(
                (number, outside),
                EntryKind::Response,
                "done".to_owned(),
                b"",
            );
            result
        })
        .await
    }
}

/// # Calls that fail
impl Process {
    /// Like [`call`](Self::call), but the call fails at times, with or without an effect
    /// ([`FaultKind::FailedCall`]).
    ///
    /// # Errors
    /// Fails if the world wants it: the connection is reset.
    pub async fn try_call<T>(&self, what: &str, call: impl FnOnce() -> T) -> Result<T, ApiError> {
        let has_effect = self.life.shared.state().due.take_call();
        if has_effect.is_some() {
            self.life.shared.fired(FaultKind::FailedCall);
        }
        if has_effect == Some(false) {
            self.call(&format!("{what}: it fails without an effect"), || ())
                .await;
        } else {
            let done = self.call(what, call).await;
            if has_effect.is_none() {
                return Ok(done);
            }
        }
        Err(ApiError::of_connection(FailureKind::Reset))
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.pod()).finish()
    }
}

/// The state of a process.
pub(super) struct Life {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: usize,
    pub(super) replica: usize,
    pub(super) number: u32,
    pub(super) is_dead: AtomicBool,
    pub(super) spared: std::sync::Mutex<Spared>,
    /// How long the process stays away after its death.
    pub(super) down: std::sync::Mutex<Duration>,
}

/// When a process last got a list, and a failure of a read.
#[derive(Default)]
pub(super) struct Spared {
    list: Option<Instant>,
    failure: Option<Instant>,
}

impl Life {
    /// Keeps lists and failures of reads apart by a millisecond, if kube-runtime is spared.
    pub(super) async fn keep_apart(&self, is_list: bool) {
        if !self.shared.spec.spares_kube {
            return;
        }
        loop {
            let now = self.shared.now();
            {
                let mut spared = self
                    .spared
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                let Spared { list, failure } = &mut *spared;
                let (own, other) = if is_list {
                    (list, failure)
                } else {
                    (failure, list)
                };
                if *other != Some(now) {
                    *own = Some(now);
                    return;
                }
            }
            self.sleep_until(now + Duration::from_millis(1)).await;
        }
    }

    /// Ends the process: no request of it is served any more.
    pub(super) fn die(&self, why: &str, down: Duration) {
        if self.is_dead.swap(true, Ordering::AcqRel) {
            return;
        }
        *self
            .down
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = down;
        self.shared
            .record(self.lane, EntryKind::Note, format!("dies {why}"));
        self.shared.wake_main();
    }

    /// Ends the process by a planned crash.
    pub(super) fn crash(&self, why: &str, down: Duration) {
        self.shared.state().tally.deaths += 1;
        self.shared.fired(FaultKind::Crash);
        self.die(why, down);
    }

    /// Runs a future while the process is alive. After its death, the future never ends.
    pub(super) async fn alive<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.is_dead.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            future.as_mut().poll(context)
        })
        .await
    }

    /// Waits while the process cannot reach the server.
    pub(super) async fn reach(&self) {
        let mut is_cut_off = false;
        loop {
            let until = self.shared.state().partitions.get(&self.replica).copied();
            let Some(until) = until.filter(|until| *until > self.shared.now()) else {
                return;
            };
            if !core::mem::replace(&mut is_cut_off, true) {
                self.shared.fired(FaultKind::Partition);
            }
            self.sleep_until(until).await;
        }
    }

    /// Waits while the process does not run.
    pub(super) async fn run(&self) {
        let until = self.shared.state().pauses.get(&self.replica).copied();
        if let Some(until) = until {
            self.sleep_until(until).await;
        }
    }

    pub(super) async fn sleep_until(&self, until: Instant) {
        let mut clock = *self.shared.mock.clock();
        clock.sleep_until(until).await;
    }

    /// Waits for the way of a write in one direction.
    pub(super) async fn travel(&self, number: usize) {
        let most = self.shared.settings.write_ms.max(1);
        let time = 1 + Dice::of(&[self.shared.seed, number as u64, 7]).below(most);
        self.sleep_until(self.shared.now() + Duration::from_millis(time))
            .await;
    }

    /// Dies here if that is planned.
    pub(super) async fn crash_at(&self, at: CrashAt) {
        let down = {
            let mut state = self.shared.state();
            if at == CrashAt::BeforeWrite {
                state.tally.sent.by.push(self.replica);
            }
            state.due.take_crash(self.replica, at)
        };
        if let Some(down) = down {
            let why = match at {
                CrashAt::AfterWrite => "after its write took effect, before the response",
                CrashAt::BeforeWrite | CrashAt::Now => "before it sends this",
            };
            self.crash(why, down);
            pending::<()>().await;
        }
    }
}
