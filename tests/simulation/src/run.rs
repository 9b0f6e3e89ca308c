//! One run: carries out the plan, checks everything after every step, and requires convergence at the end.

mod check;
mod come_right;

use core::fmt;
use core::hash::Hasher as _;
use core::time::Duration;
use std::collections::BTreeMap;
use std::hash::DefaultHasher;

use informer_mock::{Config, Gone, Instant};

use super::client::Client;
use super::cluster::Cluster;
use super::coverage::Coverage;
use super::engine::Engine;
use super::invariants::{self, Named};
use super::plan::{Action, KEY_NAMES, Oddity, Plan, Scope, World};
use super::wire::Wire;

/// The time limit for convergence without faults. It covers the longest delay (a credential refused repeatedly, with
/// jitter), a watch with the longest timeout that has fallen silent, and a margin.
pub const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which fault met which state.
    pub coverage: Coverage,
    /// The number of steps, including those of the end.
    pub steps: usize,
    /// The trace, one line per event; empty unless requested.
    pub trace: Vec<String>,
    /// A hash of everything that happened.
    pub digest: u64,
    /// One hash of the notifications of each key, and one of everything else. The order among keys is up to the
    /// storage, and replays are left out.
    pub agreement: [u64; KEY_NAMES.len() + 1],
}

/// A violation of an invariant.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The invariant.
    pub invariant: &'static str,
    /// The document that defines the invariant.
    pub source: &'static str,
    /// What is wrong.
    pub what: String,
    /// The step after which it was found.
    pub step: usize,
    /// The trace up to there, if requested.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}), after step {}: {}",
            self.invariant, self.source, self.step, self.what
        )
    }
}

/// Makes the engine of a process from the world and the number of the process.
pub type MakeEngine = dyn Fn(&World, u64) -> Box<dyn Engine>;

/// Carries out a plan on an engine that the caller makes.
///
/// # Errors
/// The first violation of an invariant.
pub fn run_with(plan: &Plan, trace: bool, make: &MakeEngine) -> Result<Outcome, Box<Violation>> {
    let mut run = Run::new(plan, trace, make);
    match run.go(plan, make) {
        Ok(()) => Ok(Outcome {
            coverage: run.coverage,
            steps: run.step,
            trace: run.trace,
            digest: run.digest.finish(),
            agreement: run.agreement.map(|part| part.finish()),
        }),
        Err((invariant, source, what)) => Err(Box::new(Violation {
            invariant,
            source,
            what,
            step: run.step,
            trace: run.trace,
        })),
    }
}

type Failed = (&'static str, &'static str, String);

struct Run {
    cluster: Cluster,
    client: Client,
    invariants: Vec<Named>,
    world: World,
    now: Instant,
    step: usize,
    processes: u64,
    lost: bool,
    /// What was known when the journal reached a version.
    journaled: BTreeMap<u64, Wire>,
    /// All remaining objects fit into the cache.
    must_fit: bool,
    coverage: Coverage,
    wants_trace: bool,
    trace: Vec<String>,
    digest: DefaultHasher,
    agreement: [DefaultHasher; KEY_NAMES.len() + 1],
}

impl Run {
    fn new(plan: &Plan, trace: bool, make: &MakeEngine) -> Self {
        let world = plan.world.clone();
        let cluster = Cluster::new(&world, &config(&world));
        let client = Client::new(make(&world, world.seed), &world);
        Self {
            cluster,
            client,
            invariants: invariants::all(&world),
            world,
            now: Instant::from_micros(10_000_000_000),
            step: 0,
            processes: 0,
            lost: false,
            journaled: BTreeMap::new(),
            must_fit: false,
            coverage: Coverage::default(),
            wants_trace: trace,
            trace: Vec::new(),
            digest: DefaultHasher::new(),
            agreement: Default::default(),
        }
    }

    fn go(&mut self, plan: &Plan, make: &MakeEngine) -> Result<(), Failed> {
        self.cluster.tick(self.now);
        if self.world.full {
            for slot in 0..self.world.keys {
                self.cluster.put(slot, slot % 2, None);
            }
        }
        self.client.join(0, 255, false);
        self.poll();
        self.check()?;
        for action in &plan.actions {
            self.step += 1;
            self.note(|| format!("{action}"));
            for source in 0..self.client.sources() {
                self.coverage.act(self.client.phase(source), action);
            }
            self.act(action, make)?;
            self.poll();
            self.check()?;
        }
        self.come_right()
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.wants_trace {
            let seconds = (self.now.as_micros() - 10_000_000_000) as f64 / 1e6;
            self.trace
                .push(format!("{:>4} {seconds:>10.3}s {}", self.step, line()));
        }
    }

    fn poll(&mut self) {
        self.client.resync_due(self.now);
        self.client
            .poll(&mut self.cluster, self.now, &mut self.coverage);
    }

    fn act(&mut self, action: &Action, make: &MakeEngine) -> Result<(), Failed> {
        let keys = self.world.keys;
        let sources = self.client.sources();
        let cluster = &mut self.cluster;
        match *action {
            Action::Put(slot, label) => cluster.put(slot % keys, label, None),
            Action::Spoil(slot, large) => cluster.put(slot % keys, 0, Some(Action::poison(large))),
            Action::Delete(slot) => drop(cluster.delete(slot % keys)),
            Action::Recreate(slot) => {
                cluster.delete(slot % keys);
                cluster.put(slot % keys, 0, None);
            }
            Action::Bump => cluster.bump(),
            Action::Fault(kind, at) => {
                cluster.inject(kind, at);
                self.client.fault = Some(kind);
            }
            Action::PageFault(kind, at) => self.client.page_fault = Some((kind, at)),
            Action::Compact(back) => cluster.compact(back.into()),
            Action::ForgetEvents => cluster.forget_events(),
            Action::Lag(server, back) => cluster.lag(server.into(), back.into()),
            Action::CatchUp(server, all) => cluster.catch_up(server.into(), all),
            Action::Route(server) => cluster.route = server.into(),
            Action::Down(server) => cluster.go_down(server.into()),
            Action::Up(server) => cluster.come_up(server.into()),
            Action::Restart(server, unready) => {
                cluster.restart(server.into(), Duration::from_secs(unready.into()));
            }
            Action::Restore(back, properly) => {
                cluster.restore(self.now, back.into(), properly);
                if !properly {
                    self.client.wires.iter_mut().for_each(Wire::distrust);
                }
            }
            Action::Lose(slot) => {
                if cluster.lose(slot % keys) {
                    self.give_up();
                }
            }
            Action::CutWatches => cluster.disturb_watches(informer_mock::FakeServer::cut_watches),
            Action::CloseWatches => {
                cluster.disturb_watches(informer_mock::FakeServer::close_watches);
            }
            Action::StallWatches => {
                cluster.disturb_watches(informer_mock::FakeServer::stall_watches);
            }
            Action::GoAway(server) => cluster.go_away(server.into()),
            Action::Bookmarks(on) => cluster.configure(|config| config.bookmarks = on),
            Action::Read(source, bytes) => {
                self.read(usize::from(source) % sources, bytes.into());
            }
            Action::ReadAll(source) => {
                let source = usize::from(source) % sources;
                for _ in 0..1000 {
                    if !self.read(source, usize::MAX) {
                        break;
                    }
                    self.check()?;
                }
            }
            Action::Pop(count) => self.pop(count.into())?,
            Action::Hear(handler, count) => drop(self.client.hear(handler.into(), count.into())),
            Action::Pass(ms, live) => self.pass(Duration::from_millis(ms.into()), live)?,
            Action::ToDeadline => self.jump_to_deadline()?,
            Action::ClockBack(ms) => self.client.clock_back(Duration::from_millis(ms.into())),
            Action::Join(resync, backlog, unchanged) => {
                self.client.join(resync, backlog, unchanged);
            }
            Action::JoinAmid(backlog) => {
                if self.client.pop_deletion() {
                    self.check()?;
                    if self.client.handlers.len() >= 4 {
                        self.client.leave(1);
                    }
                    self.client.join(0, backlog, false);
                }
            }
            Action::Leave(handler) => self.client.leave(handler.into()),
            Action::AddIndex => self.client.engine.add_index(),
            Action::Unheard(seconds) => self.unheard(seconds)?,
            Action::DiskFull(full) => self.client.engine.fill_disk(full),
            Action::Resync => self.client.resync(),
            Action::Relist(source) => self.client.relist(usize::from(source) % sources, self.now),
            Action::LateAnswer(which) => self.client.late_answer(which.into(), self.now),
            Action::Reborn => self.reborn(make)?,
            Action::Stop => {
                self.client
                    .stop(&mut self.cluster, self.now, &mut self.coverage);
                self.check()?;
                self.reborn(make)?;
            }
        }
        Ok(())
    }

    fn reborn(&mut self, make: &MakeEngine) -> Result<(), Failed> {
        self.client.abandon(&mut self.cluster);
        self.processes += 1;
        let seed = self.world.seed.wrapping_add(self.processes << 32);
        let fault = self.client.fault;
        self.client = Client::new(make(&self.world, seed), &self.world);
        self.client.fault = fault;
        self.restore()?;
        if self.lost {
            self.client.wires.iter_mut().for_each(Wire::give_up);
        }
        self.invariants = invariants::all(&self.world);
        self.client.join(0, 255, false);
        Ok(())
    }

    /// A restored version must have been reached before, and must not be older than the version restored last.
    fn restore(&mut self) -> Result<(), Failed> {
        if let Some(what) = self.client.engine.unreported_loss() {
            return Err(("losses", "docs/JOURNAL.md", what.to_owned()));
        }
        let Some(version) = self.client.engine.restored() else {
            return Ok(());
        };
        self.note(|| format!("version {version} is restored"));
        // If several versions were reached in one step, the restored one lies between them.
        let Some((_, wire)) = self.journaled.range(version..).next() else {
            let what = format!("version {version} is restored, which was never reached");
            return Err(("journal", "docs/JOURNAL.md", what));
        };
        self.client.restore(wire.restored(version));
        Ok(())
    }

    /// Records what is known when the journal reaches a version.
    fn journaled(&mut self) {
        let wire = &self.client.wires[0];
        // Events of the other half move the wire, and are not in the journal.
        let is_half = matches!(self.world.scopes, [Scope::Half(_)]);
        let is_reached = |version: u64| {
            wire.versions.contains(&version)
                || is_half
                    && !wire.versions.is_empty()
                    && wire.versions.iter().all(|reached| *reached > version)
        };
        if let Some(version) = self.client.engine.journaled()
            && !wire.in_list
            && is_reached(version)
        {
            let mut wire = wire.restored(version);
            // If this version was reached twice, either state may be the one left after a loss.
            let before = self.journaled.get(&version);
            wire.trusted &= before.is_none_or(|before| before.trusted && before.era == wire.era);
            self.journaled.insert(version, wire);
        }
    }

    fn read(&mut self, source: usize, bytes: usize) -> bool {
        self.client.read(
            source,
            &mut self.cluster,
            self.now,
            bytes,
            &mut self.coverage,
        )
    }

    fn pop(&mut self, count: usize) -> Result<(), Failed> {
        for _ in 0..count {
            let popped = self.client.pop(1);
            self.check()?;
            if popped == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Makes a handler with a resync period of one second fall behind by several passes.
    fn unheard(&mut self, seconds: u8) -> Result<(), Failed> {
        if self.client.handlers.len() >= 4 {
            self.client.leave(1);
        }
        self.client.join(1, 255, false);
        for _ in 0..seconds {
            self.poll();
            self.drain_for(false)?;
            self.jump(self.now + Duration::from_secs(1));
        }
        Ok(())
    }

    /// Reads, pops and delivers everything available.
    fn drain(&mut self) -> Result<(), Failed> {
        self.drain_for(true)
    }

    /// Reads and pops everything available, and delivers it only if `hears` is set.
    fn drain_for(&mut self, hears: bool) -> Result<(), Failed> {
        for _ in 0..10_000 {
            let mut news = false;
            for source in 0..self.client.sources() {
                news |= self.read(source, usize::MAX);
            }
            self.check()?;
            while self.client.pop(1) > 0 {
                news = true;
                self.check()?;
            }
            for handler in 0..self.client.handlers.len() {
                news |= hears && self.client.hear(handler, 100) > 0;
            }
            self.check()?;
            self.poll();
            if !news {
                return Ok(());
            }
        }
        Err((
            "busy",
            "reference",
            "it does not come to rest while no time passes".to_owned(),
        ))
    }

    fn next_event(&mut self) -> Option<Instant> {
        let deadline = self.client.next_deadline(&mut self.cluster, self.now);
        let news = self.client.next_news(&mut self.cluster, self.now);
        deadline.into_iter().chain(news).min()
    }

    fn jump(&mut self, to: Instant) {
        self.now = self.now.max(to);
        self.cluster.tick(self.now);
    }

    fn pass(&mut self, time: Duration, live: bool) -> Result<(), Failed> {
        let end = self.now + time;
        if live {
            self.drain()?;
        }
        for _ in 0..100_000 {
            let next = if live {
                self.next_event()
            } else {
                self.client.next_deadline(&mut self.cluster, self.now)
            };
            let Some(next) = next.filter(|next| *next <= end && (live || *next > self.now)) else {
                self.jump(end);
                self.poll();
                if live {
                    self.drain()?;
                }
                return Ok(());
            };
            self.jump(next);
            self.poll();
            if live {
                self.drain()?;
            }
            self.check()?;
        }
        Err((
            "busy",
            "reference",
            format!("time does not pass: it is still {:?}", self.now),
        ))
    }

    fn jump_to_deadline(&mut self) -> Result<(), Failed> {
        if let Some(next) = self.next_event() {
            // The deadline is one of the moments to check: nothing that must wait for it may happen before it.
            self.jump(next);
            self.poll();
            self.check()?;
        }
        Ok(())
    }

    /// An object was lost, so the servers no longer show a consistent history.
    fn give_up(&mut self) {
        self.lost = true;
        self.client.wires.iter_mut().for_each(Wire::give_up);
    }
}

fn config(world: &World) -> Config {
    let mut config = Config::default();
    if world.forgetful {
        config = config.forgetful();
    }
    config.watch_list = world.watch_list;
    config.bookmarks = world.bookmarks;
    match world.oddity {
        Oddity::None => {}
        Oddity::Uncached => config.periodic_bookmarks = false,
        Oddity::Endless => {
            config.ends_streams = false;
            config.bookmark_every = Duration::from_secs(20);
        }
    }
    config.cache_ignores_limit = !world.cache_pages;
    config.gone = if world.gone_http {
        Gone::Http
    } else {
        Gone::Event
    };
    config.latency = Duration::from_millis(world.latency.into());
    config.idle_cut = (world.idle_cut > 0).then(|| Duration::from_secs(world.idle_cut.into()));
    config
}
