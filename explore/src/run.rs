//! One run: a plan is carried out, and then everything must come to rest.

use core::future::{Future as _, poll_fn};
use core::panic::AssertUnwindSafe;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use super::context;
use super::driver::Driver;
use super::interpose;
use super::invariants::Snapshot;
use super::logs;
use super::plan::Plan;
use super::process::{Life, Process};
use super::pulse::{MOST_POLLS, Pulse, RETURNS, WAITS};
use super::spec::Spec;
use super::tally::Tally;
use super::trace::{EntryKind, SERVER, Trace};
use super::world::{Running, Shared, Violation, Wishes};

/// Starts the program under test.
pub(super) type Start = dyn Fn(Process) -> Running + Send + Sync;

/// The result of a run.
pub(super) struct Ran {
    pub(super) trace: Trace,
    pub(super) violation: Option<Violation>,
    pub(super) tally: Tally,
    /// What users want in the end.
    pub(super) wishes: Wishes,
    /// The objects in the end, if the world came to rest.
    pub(super) end: Option<Snapshot>,
}

/// Carries out a plan, on a thread of its own: whatever a program keeps for each thread is new in each run. If it never
/// returns, the thread is left behind.
pub(super) fn run(spec: &Arc<Spec>, plan: &Plan, start: &Arc<Start>) -> Ran {
    interpose::restore_signals();
    // What is created once is created by no run.
    let subscriber = logs::subscriber();
    let pulse = Arc::new(Pulse::default());
    let (sender, result) = mpsc::channel();
    let thread = {
        let (spec, plan, start, pulse) = (
            Arc::clone(spec),
            plan.clone(),
            Arc::clone(start),
            Arc::clone(&pulse),
        );
        let work = move || {
            let _lines = tracing::dispatcher::set_default(&subscriber);
            let ran = carry_out(&spec, &plan, &start, &pulse);
            // Nobody waits for it if it took too long.
            let _ = sender.send(ran);
        };
        let thread = std::thread::Builder::new().name("run".to_owned());
        thread.spawn(work)
    };
    let thread =
        thread.unwrap_or_else(|error| panic!("a thread for a run cannot be started: {error}"));
    if let Some(ran) = pulse.wait(&result) {
        // It has nothing left to do but to end.
        drop(thread.join());
        interpose::restore_signals();
        return ran;
    }
    let Some(shared) = pulse.run.get() else {
        // The preparation of the world panics.
        match thread.join() {
            Ok(()) => unreachable!("a run has a result or panics"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    };
    shared.violate_in_real_time(
        RETURNS,
        "for 10 s of real time, a future of the program has not returned from `poll`: it sleeps, waits for a lock, or \
         computes in a loop without an await",
    );
    result_of(shared)
}

fn result_of(shared: &Shared) -> Ran {
    let mut state = shared.state();
    state.is_over = true;
    let mut trace = core::mem::take(&mut state.trace);
    let violation = state.violation.take();
    if violation.is_some() {
        trace.complete();
    }
    let (end, wishes) = (state.end.take(), core::mem::take(&mut state.wishes));
    let mut tally = core::mem::take(&mut state.tally);
    (tally.runs, tally.requests) = (1, state.requests as u64);
    Ran {
        trace,
        violation,
        tally,
        wishes,
        end,
    }
}

fn carry_out(spec: &Arc<Spec>, plan: &Plan, start: &Arc<Start>, pulse: &Arc<Pulse>) -> Ran {
    let seed = plan.seed;
    context::seed(seed, 0);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Programs may ask for signals and sockets. None of them comes in a run.
    builder.enable_all().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(
        &plan.seed.to_ne_bytes(),
    ));
    // The runtime keeps this function, and the run keeps wakers of the runtime.
    let (threads, of_thread) = (AtomicU64::new(1), Arc::downgrade(pulse));
    builder.on_thread_start(move || {
        let pulse = of_thread.upgrade();
        if let Some(run) = pulse.as_ref().and_then(|pulse| pulse.run.get()) {
            context::seed(seed, threads.fetch_add(1, Ordering::Relaxed));
            context::enter(run);
        }
    });
    let runtime = builder
        .build()
        .unwrap_or_else(|error| panic!("a runtime of one thread cannot be built: {error}"));
    let ran = runtime.block_on(async {
        let shared = Shared::new(spec, plan.seed, plan.settings);
        let _ = pulse.run.set(Arc::clone(&shared));
        context::enter(&shared);
        tokio::spawn(Arc::clone(pulse).answer(Arc::clone(&shared)));
        let slots = Slots::new(&shared);
        let mut all = slots.list();
        let mut driver = pin!(Driver::new(&shared, &slots).drive(plan));
        let mut polls = Polls::default();
        poll_fn(|context| {
            shared.set_main(context.waker());
            let elapsed = shared.elapsed();
            pulse.at(elapsed);
            let ended = driver.as_mut().poll(context).is_ready();
            slots.join(&mut all);
            for slot in &mut all {
                slot.poll(&shared, &**start, context);
            }
            all.retain(|slot| !slot.is_over);
            polls.count(&shared, elapsed);
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
        let ran = result_of(&shared);
        drop(all);
        ran
    });
    // Tasks that the program has spawned are dropped here. Its threads are not waited for.
    runtime.shutdown_background();
    if let Some(run) = pulse.run.get() {
        run.forget_main();
    }
    context::leave();
    ran
}

/// Counts how often the processes are polled at one instant.
#[derive(Default)]
struct Polls {
    at: Duration,
    count: u64,
}

impl Polls {
    fn count(&mut self, shared: &Shared, now: Duration) {
        if self.at != now {
            (self.at, self.count) = (now, 0);
        }
        self.count += 1;
        if self.count == MOST_POLLS {
            let what = format!(
                "the program was polled {MOST_POLLS} times at one instant, {:.3} s after the start: it repeats without \
                 a delay",
                now.as_secs_f32()
            );
            shared.violate(WAITS, &what);
        }
    }
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

    /// Replaces the processes of a replica by the new program, if they run the old one.
    pub(super) fn upgrade(&self, shared: &Shared, replica: usize) {
        if shared.spec.old.is_none() || !shared.state().upgraded.insert(replica) {
            return;
        }
        let lives = shared.lives();
        for life in lives.iter().filter(|life| life.replica == replica) {
            life.die("to be replaced by the new program", Duration::from_secs(1));
        }
    }

    /// Kills the processes of a replica.
    pub(super) fn kill(&self, shared: &Shared, replica: usize, down: Duration) {
        let lives = shared.lives();
        for life in lives.iter().filter(|life| life.replica == replica) {
            life.crash("wherever it is", down);
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
    fn poll(&mut self, shared: &Arc<Shared>, start: &Start, context: &mut Context<'_>) {
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
            if shared.is_paused(self.replica) {
                return;
            }
            let Some(future) = &mut self.future else {
                return;
            };
            context::set_process(Some(self.lane), shared.skew(self.replica));
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
            // The clock of a task that was spawned is that of the first replica.
            context::set_process(None, shared.skew(0));
            match polled {
                Ok(Poll::Pending) if self.is_alive() => return,
                // It has died by one of its requests.
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(())) => self.exit(shared),
                // It is recorded where panics of all tasks are.
                Err(_) => {
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

    fn begin(&mut self, shared: &Arc<Shared>, start: &Start) {
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
            spared: Mutex::default(),
            down: Mutex::new(Duration::ZERO),
        });
        shared.record(self.lane, EntryKind::Note, "starts".to_owned());
        shared.live(&life);
        self.life = Some(Arc::clone(&life));
        let is_upgraded = shared.state().upgraded.contains(&self.replica);
        let old = shared.spec.old.as_ref().filter(|_| !is_upgraded);
        let process = Process { life };
        self.future = Some(match old {
            Some(old) => old(process),
            None => start(process),
        });
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
