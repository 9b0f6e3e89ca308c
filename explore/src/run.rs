//! One run: a plan is carried out, and then everything must come to rest.

use core::future::{Future as _, poll_fn};
use core::panic::AssertUnwindSafe;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use super::driver::Driver;
use super::plan::Plan;
use super::process::{Life, Process};
use super::spec::Spec;
use super::trace::{EntryKind, SERVER, Trace};
use super::world::{Running, Shared};

/// Starts the program under test.
pub(super) type Start<'a> = dyn Fn(Process) -> Running + 'a;

/// The result of a run.
pub(super) struct Ran {
    pub(super) trace: Trace,
    /// The name of the check that failed, and why.
    pub(super) violation: Option<(String, String)>,
    pub(super) requests: usize,
}

/// Carries out a plan.
pub(super) fn run(spec: &Arc<Spec>, plan: &Plan, start: &Start<'_>, verbose: bool) -> Ran {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("a runtime of one thread cannot be built: {error}"));
    runtime.block_on(async {
        let shared = Shared::new(spec, plan.seed, plan.settings, verbose);
        let slots = Slots::new(&shared);
        let mut all = slots.list();
        let mut driver = pin!(Driver::new(&shared, &slots).drive(plan));
        poll_fn(|context| {
            shared.set_main(context.waker());
            let ended = driver.as_mut().poll(context).is_ready();
            slots.join(&mut all);
            for slot in &mut all {
                slot.poll(&shared, start, context);
            }
            all.retain(|slot| !slot.is_over);
            if ended || shared.state().violation.is_some() {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        // Whatever a process does while it is dropped is no part of the run.
        for slot in &all {
            slot.silence();
        }
        drop(all);
        let mut state = shared.state();
        Ran {
            trace: core::mem::take(&mut state.trace),
            violation: state.violation.take(),
            requests: state.requests,
        }
    })
}

/// The processes, as the driver sees them.
#[derive(Default)]
pub(super) struct Slots {
    joining: Mutex<Vec<Slot>>,
}

impl Slots {
    fn new(shared: &Shared) -> Self {
        let slots = Self::default();
        for replica in 0..shared.spec.replicas {
            slots.add(shared, replica, None);
        }
        slots
    }

    fn list(&self) -> Vec<Slot> {
        let mut all = Vec::new();
        self.join(&mut all);
        all
    }

    fn join(&self, all: &mut Vec<Slot>) {
        let mut joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        all.append(&mut joining);
    }

    /// Adds a process that is started when it is next polled, and ends after a time.
    pub(super) fn add(&self, shared: &Shared, replica: usize, time: Option<Duration>) {
        let mut name = match shared.spec.replicas {
            1 => "controller".to_owned(),
            _ => format!("controller {}", replica + 1),
        };
        if time.is_some() {
            name += " (copy)";
        }
        let lane = shared.lane(&name);
        let slot = Slot {
            replica,
            lane,
            number: if time.is_some() { 1000 } else { 0 },
            life: None,
            future: None,
            again: Box::pin(tokio::time::sleep(Duration::ZERO)),
            end: time.map(|time| Box::pin(tokio::time::sleep(time))),
            exits: 0,
            is_absent: false,
            is_over: false,
        };
        let mut joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        joining.push(slot);
        drop(joining);
        shared.wake_main();
    }

    /// Kills the processes of a replica.
    pub(super) fn kill(&self, shared: &Shared, replica: usize, down: Duration) {
        let lives = shared.lives();
        for life in lives.iter().filter(|life| life.replica == replica) {
            life.die("wherever it is", down);
        }
    }
}

/// A process, and those that replace it.
struct Slot {
    replica: usize,
    lane: usize,
    /// The number of the life.
    number: u32,
    life: Option<Arc<Life>>,
    future: Option<Running>,
    /// When it starts again.
    again: Pin<Box<tokio::time::Sleep>>,
    /// When it ends for good.
    end: Option<Pin<Box<tokio::time::Sleep>>>,
    /// The number of ends by itself, since it last died.
    exits: u32,
    /// Whether it has died and not started again yet.
    is_absent: bool,
    is_over: bool,
}

impl Slot {
    fn poll(&mut self, shared: &Arc<Shared>, start: &Start<'_>, context: &mut Context<'_>) {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            if let Some(life) = &self.life {
                life.die("for good", Duration::ZERO);
            }
            self.future = None;
            self.is_over = true;
            if core::mem::take(&mut self.is_absent) {
                shared.state().absent -= 1;
            }
            return;
        }
        loop {
            if let Some(life) = self
                .life
                .take_if(|life| life.is_dead.load(Ordering::Acquire))
            {
                self.future = None;
                self.exits = 0;
                shared.state().absent += 1;
                self.is_absent = true;
                let down = *life.down.lock().unwrap_or_else(PoisonError::into_inner);
                self.start_in(down);
            }
            if self.future.is_none() {
                if self.again.as_mut().poll(context).is_pending() {
                    return;
                }
                self.begin(shared, start);
            }
            let Some(future) = &mut self.future else {
                return;
            };
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
            match polled {
                Ok(Poll::Pending) if self.is_alive() => return,
                // It has died by one of its requests.
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(())) => self.exit(shared),
                Err(panic) => {
                    let what = panic.downcast_ref::<String>().map(String::as_str);
                    let what = what.or_else(|| panic.downcast_ref::<&str>().copied());
                    shared.violate("it does not panic", what.unwrap_or("it panics"));
                    self.future = None;
                    return;
                }
            }
        }
    }

    fn is_alive(&self) -> bool {
        let dead = |life: &Arc<Life>| life.is_dead.load(Ordering::Acquire);
        !self.life.as_ref().is_some_and(dead)
    }

    fn begin(&mut self, shared: &Arc<Shared>, start: &Start<'_>) {
        self.number += 1;
        if core::mem::take(&mut self.is_absent) {
            let mut state = shared.state();
            state.absent -= 1;
            state.activity += 1;
        }
        let life = Arc::new(Life {
            shared: Arc::clone(shared),
            lane: self.lane,
            replica: self.replica,
            number: self.number,
            is_dead: AtomicBool::new(false),
            down: Mutex::new(Duration::ZERO),
        });
        shared.record(self.lane, EntryKind::Note, "starts".to_owned());
        shared.live(&life);
        self.life = Some(Arc::clone(&life));
        self.future = Some(start(Process { life }));
    }

    /// The program has ended by itself, so it is started again, like a container.
    fn exit(&mut self, shared: &Shared) {
        self.future = None;
        if let Some(life) = self.life.take() {
            life.is_dead.store(true, Ordering::Release);
        }
        let pause = Duration::from_secs(1 << self.exits.min(6));
        self.exits += 1;
        let what = format!(
            "ends by itself, and starts again {} s later",
            pause.as_secs()
        );
        shared.record(self.lane, EntryKind::Note, what);
        self.start_in(pause);
    }

    fn start_in(&mut self, time: Duration) {
        self.again = Box::pin(tokio::time::sleep(time));
    }

    fn silence(&self) {
        if let Some(life) = &self.life {
            life.is_dead.store(true, Ordering::Release);
        }
    }
}

impl Shared {
    /// Records that nothing of importance happens at the server.
    pub(super) fn note(&self, what: &str) {
        self.record(SERVER, EntryKind::Note, what.to_string());
    }
}
