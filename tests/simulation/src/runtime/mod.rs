//! The informer on tokio with failing user code: one seed determines the changes, the faults and the actions of
//! users.
//!
//! The `Informer` and the `Factory` of the public API run on a single-threaded runtime with paused time, against the
//! fake API server on the same clock. Handlers join, leave, are slow and panic. Hooks, the decoder and the transport
//! panic. Informers are stopped and drivers dropped. At the end all faults are removed, and everything must converge.
//!
//! Each seed also runs a `process` that dies and restarts, with all features of an informer, and a `controller` that
//! must see its own writes.

mod controller;
mod decoder;
mod fleet;
mod history;
mod life;
mod listener;
mod process;
mod user;
mod users;
mod work;

use core::fmt;
use core::time::Duration;
use informer_core::Resource;
use informer_mock::{FakeServer, Fault, Mock, ObjectRef, TokioClock, Verb};
use informer_tokio::{Entry, Informer, Lister, Raw};
use tokio::time::timeout;

use super::bugs::choose;
use super::run::Violation;
use super::runner::{Ran, Simulation};
use user::State;
pub(super) use user::lock;

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");
/// The time limit for convergence without faults.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Counters of a run, which reveal a simulation that does nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    /// The number of panics in user-defined code.
    pub panics: u64,
    /// The number of handlers and subscriptions that joined.
    pub joined: u64,
    /// The number of informers that were stopped or lost their driver before the end.
    pub replaced: u64,
    /// The number of drivers dropped.
    pub dropped: u64,
    /// The number of processes that started with objects from a journal.
    pub restored: u64,
    /// The number of writes awaited in the cache.
    pub waits: u64,
    /// The number of runs of a controller.
    pub runs: u64,
    /// The number of own writes that caused no run.
    pub skipped: u64,
    /// The number of times that a staleness was compared with the truth.
    pub proven: u64,
}

/// The simulation of the informer on tokio. Its other threads have this planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Runtime(pub Option<&'static str>);

impl Simulation for Runtime {
    type Plan = u64;
    type Figures = Figures;

    fn arguments(self) -> String {
        " --runtime".to_owned()
    }

    fn plan(self, seed: u64) -> u64 {
        seed
    }

    fn run(self, seed: &u64, _: bool) -> Ran<Figures> {
        let seed = *seed;
        let (mut figures, mut trace) = self.on_paused_time(1, async {
            let mut world = users::World::new(seed);
            let played = world.play().await;
            ran(played, world.figures, world.step, world.trace)
        })?;
        let kit = life::Kit::of_seed(seed);
        let (more, rest) = self.on_paused_time(kit.blocking_threads(), async {
            let world = process::World::new(seed, kit);
            let mut world = world.map_err(|wrong| wrong.violation(0, Vec::new()))?;
            let played = world.play().await;
            let trace = core::mem::take(&mut world.trace);
            ran(played, world.figures, world.step, trace)
        })?;
        Self::add(&mut figures, more);
        trace.extend(rest);
        let (more, _) = self.on_paused_time(1, async {
            let played = controller::play(seed).await;
            let figures = played.as_ref().copied().unwrap_or_default();
            ran(played.map(drop), figures, 0, Vec::new())
        })?;
        Self::add(&mut figures, more);
        self.on_paused_time(1, async {
            ran(fleet::play(seed).await, Figures::default(), 0, Vec::new())
        })?;
        Ok((figures, trace))
    }

    fn add(sum: &mut Figures, one: Figures) {
        sum.panics += one.panics;
        sum.joined += one.joined;
        sum.replaced += one.replaced;
        sum.dropped += one.dropped;
        sum.restored += one.restored;
        sum.waits += one.waits;
        sum.runs += one.runs;
        sum.skipped += one.skipped;
        sum.proven += one.proven;
    }

    fn shrink(self, seed: u64, _: &mut dyn FnMut(&u64) -> bool) -> (u64, String) {
        (seed, "all that it does".to_owned())
    }
}

impl Runtime {
    /// Runs a future on one thread and paused time, with this many threads for blocking work.
    fn on_paused_time(
        self,
        blocking: usize,
        run: impl Future<Output = Ran<Figures>>,
    ) -> Ran<Figures> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let builder = builder.enable_time().start_paused(true);
        let builder = builder
            .max_blocking_threads(blocking)
            .on_thread_start(move || choose(self.0));
        match builder.build() {
            Ok(runtime) => runtime.block_on(run),
            Err(error) => Err(Wrong::new("runtime", &error).violation(0, Vec::new())),
        }
    }
}

fn ran(played: Verdict, figures: Figures, step: usize, trace: Vec<String>) -> Ran<Figures> {
    match played {
        Ok(()) => Ok((figures, trace)),
        Err(wrong) => Err(wrong.violation(step, trace)),
    }
}

#[derive(Debug)]
struct Wrong {
    invariant: &'static str,
    what: String,
}

impl Wrong {
    fn new(invariant: &'static str, what: &dyn fmt::Display) -> Self {
        Self {
            invariant,
            what: what.to_string(),
        }
    }

    fn violation(self, step: usize, trace: Vec<String>) -> Box<Violation> {
        Box::new(Violation {
            invariant: self.invariant,
            source: "docs/TESTING.md, the informer on tokio",
            what: self.what,
            step,
            trace,
        })
    }
}

type Verdict = Result<(), Wrong>;
type Server = Mock<FakeServer, TokioClock>;

fn holds(invariant: &'static str, holds: bool, what: &dyn Fn() -> String) -> Verdict {
    if holds {
        return Ok(());
    }
    Err(Wrong::new(invariant, &what()))
}

/// Injects a fault into the server or the network.
fn trouble(mock: &Server, which: u32, at: u64) {
    mock.with(|server| match which {
        0 => server.inject(Fault::refuse()),
        1 => server.inject(Fault::reset()),
        2 => server.inject(Fault::status(500, "{}")),
        3 => server.inject(Fault::nothing().cut_after_bytes(at)),
        4 => server.inject(Fault::expired().on(Verb::Watch)),
        5 => server.inject(Fault::delay(Duration::from_millis(at * 10))),
        6 => server.cut_watches(),
        7 => server.inject(Fault::nothing().cut_after_events(2).silently()),
        8 => server.inject(Fault::stall().on(Verb::List)),
        _ => {
            server.compact_all();
            server.cut_watches();
        }
    });
}

/// Waits until a cache reaches a version of the server.
async fn reaches(informer: &Informer<Raw>, version: u64) -> Verdict {
    let waited = timeout(PATIENCE, informer.wait_until(&version.to_string())).await;
    holds("liveness", matches!(waited, Ok(Ok(()))), &|| {
        let health = informer.health();
        format!("it does not come right: {waited:?}, {health:?}")
    })
}

/// Waits until a stopped informer has ended.
async fn ends(informer: &Informer<Raw>) -> Verdict {
    let ended = timeout(PATIENCE * 2, informer.ended()).await;
    holds("ended", ended.is_ok(), &|| "it does not end".to_owned())
}

/// Returns the keys and versions of the server's objects.
fn objects(mock: &Server, wants: impl Fn(&ObjectRef<'_>) -> bool) -> Vec<(String, String)> {
    mock.with(|server| {
        let objects = server.objects("pods").filter(|pod| wants(pod));
        objects
            .map(|pod| (pod.key(), pod.version().to_string()))
            .collect()
    })
}

/// Compares a cache with the server. An object that the decoder rejects must be stale or missing.
fn converges(
    server: &[(String, String)],
    shown: &State,
    informer: &Informer<Raw>,
    is_fine: impl Fn(&str) -> bool,
) -> Verdict {
    let stale = informer.health().stale;
    for (key, version) in server {
        let cached = shown.get(key);
        let is_right = match cached {
            Some(cached) if is_fine(key) => cached == version,
            Some(cached) => cached != version && stale.contains(key),
            None => !is_fine(key),
        };
        holds("converges", is_right, &|| {
            format!("{key}@{version} is cached as {cached:?}; stale: {stale:?}")
        })?;
    }
    let is_there = |key: &str| server.iter().any(|(other, _)| other == key);
    let gone = shown.keys().find(|key| !is_there(key));
    holds("converges", gone.is_none(), &|| {
        format!("{gone:?} is not on the server")
    })
}

fn shown(lister: &Lister<Raw>) -> State {
    shown_of(lister, |_| true)
}

/// Returns the versions of the selected objects in a cache, by key.
fn shown_of(lister: &Lister<Raw>, wants: impl Fn(&Entry<Raw>) -> bool) -> State {
    let entries = lister.list();
    let entries = entries.iter().filter(|entry| wants(entry));
    let pairs = entries.map(|entry| (entry.key(), entry.resource_version()));
    pairs
        .map(|(key, version)| (key.to_string(), version.to_string()))
        .collect()
}
