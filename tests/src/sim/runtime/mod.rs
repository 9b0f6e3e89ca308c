//! The informer on tokio under user code that fails: one seed makes the changes, the faults and what users do.
//!
//! The `Informer` and the `Factory` that users run are driven by a runtime of one thread, on paused time, against the fake
//! API server on the same clock. Handlers join, leave, are slow and panic; hooks, the decoder and the transport panic;
//! informers are stopped and drivers dropped. At the end all faults are taken away, and everything has to come right.
//!
//! Each seed also runs a `process` that dies and starts again, with all that an informer has beside its watch, and
//! `replicas` that share keys.

mod decoder;
mod history;
mod listener;
mod process;
mod replicas;
mod user;
mod work;

use core::fmt::{self, Write as _};
use core::ops::Range;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_core::Resource;
use informer_mock::{FakeServer, Fault, Mock, TokioClock, Verb, json};
use informer_tokio::factory::Factory;
use informer_tokio::handler::{HandlerHandle, HandlerOptions};
use informer_tokio::{Event, Informer, Lister, Raw, boxed};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::entropy::Entropy;
use super::run::Violation;
use user::{Awaiting, Fold, HOOKS, Mark, Picky, Recorder, Shaky, State, User, lock};

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const STEPS: usize = 40;
/// Within this time everything comes right once there are no more faults.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What happened in a run, so that a simulation of nothing is noticed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    /// How many times user-defined code panicked.
    pub panics: u64,
    /// How many handlers and subscriptions joined.
    pub joined: u64,
    /// How many informers were stopped, or lost their driver, before the end.
    pub replaced: u64,
    /// How many drivers were dropped.
    pub dropped: u64,
    /// How many processes began with objects from a journal.
    pub restored: u64,
    /// How many writes were waited for until the cache showed them.
    pub waits: u64,
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.panics += other.panics;
        self.joined += other.joined;
        self.replaced += other.replaced;
        self.dropped += other.dropped;
        self.restored += other.restored;
        self.waits += other.waits;
    }
}

/// What many runs came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many seeds were run.
    pub seeds: u64,
    /// What happened in all of them.
    pub figures: Figures,
    /// The seeds that failed, and why.
    pub failed: Vec<(u64, Violation)>,
}

/// Runs seeds one after another on this thread; stops after `enough` that fail. `begin` is called on each other thread.
#[must_use]
pub fn explore(
    seeds: Range<u64>,
    enough: usize,
    begin: impl Fn() + Clone + Send + Sync + 'static,
) -> Summary {
    let mut summary = Summary::default();
    for seed in seeds {
        summary.seeds += 1;
        match run_with(seed, begin.clone()) {
            Ok((figures, _)) => summary.figures.add(&figures),
            Err(violation) => summary.failed.push((seed, *violation)),
        }
        if summary.failed.len() >= enough {
            break;
        }
    }
    summary
}

/// Runs a seed; returns what happened and the trace.
///
/// # Errors
/// The first invariant that was violated.
pub fn run(seed: u64) -> Result<(Figures, Vec<String>), Box<Violation>> {
    run_with(seed, || {})
}

fn run_with(
    seed: u64,
    begin: impl Fn() + Clone + Send + Sync + 'static,
) -> Result<(Figures, Vec<String>), Box<Violation>> {
    let of_users = async {
        let mut world = World::new(seed);
        match world.play().await {
            Ok(()) => Ok((world.figures, world.trace)),
            Err(wrong) => Err(wrong.violation(world.step, world.trace)),
        }
    };
    let (mut figures, mut trace) = on_paused_time(1, begin.clone(), of_users)?;
    let kit = process::Kit::of_seed(seed);
    let of_process = async {
        let mut world = match process::World::new(seed, kit) {
            Ok(world) => world,
            Err(wrong) => return Err(wrong.violation(0, Vec::new())),
        };
        match world.play().await {
            Ok(()) => Ok((world.figures, core::mem::take(&mut world.trace))),
            Err(wrong) => Err(wrong.violation(world.step, core::mem::take(&mut world.trace))),
        }
    };
    let (more, rest) = on_paused_time(kit.blocking_threads(), begin.clone(), of_process)?;
    figures.add(&more);
    trace.extend(rest);
    let of_replicas = async {
        let played = replicas::play(seed).await;
        played.map_err(|wrong| wrong.violation(0, Vec::new()))?;
        Ok((Figures::default(), Vec::new()))
    };
    on_paused_time(1, begin, of_replicas)?;
    Ok((figures, trace))
}

type Ran = Result<(Figures, Vec<String>), Box<Violation>>;

/// Runs something on one thread and paused time, with so many threads for blocking work.
fn on_paused_time(
    blocking: usize,
    begin: impl Fn() + Send + Sync + 'static,
    run: impl Future<Output = Ran>,
) -> Ran {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = builder.enable_time().start_paused(true);
    let builder = builder
        .max_blocking_threads(blocking)
        .on_thread_start(begin);
    match builder.build() {
        Ok(runtime) => runtime.block_on(run),
        Err(error) => Err(Wrong::new("runtime", &error).violation(0, Vec::new())),
    }
}

/// Describes what is wrong with a seed, if anything, with its trace.
#[must_use]
pub fn report(seed: u64) -> String {
    let (mut text, trace) = match run(seed) {
        Ok((_, trace)) => (format!("seed {seed} violates nothing\n\n"), trace),
        Err(violation) => {
            let text = format!("seed {seed} violates {violation}\n\n");
            (text, violation.trace)
        }
    };
    for line in &trace {
        let _ = writeln!(text, "{line}");
    }
    text
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

/// Where informers come from.
enum Source {
    /// Built by itself, with every hook.
    Own(Informer<Raw>, Option<JoinHandle<()>>),
    /// A factory's. Between two steps nobody has the informer itself, but a lister.
    Shared(Factory, Lister<Raw>),
}

/// A handler or the reader of a subscription.
struct Joined {
    fold: Arc<Mutex<Fold>>,
    handle: Result<HandlerHandle<Raw>, JoinHandle<()>>,
}

struct World {
    dice: Entropy<'static>,
    mock: Server,
    user: Arc<User>,
    source: Source,
    joined: Vec<Joined>,
    /// The mark of each object on the server.
    marks: Vec<(&'static str, Mark)>,
    began: Instant,
    step: usize,
    trace: Vec<String>,
    figures: Figures,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Entropy::Seed(seed);
        let mock = Mock::with_clock(FakeServer::new(seed), TokioClock::new());
        let user = Arc::new(User::default());
        let source = if dice.one_in(2) {
            let (informer, driver) = own(&mock, &user, seed);
            Source::Own(informer, Some(driver))
        } else {
            let transport = Shaky(mock.transport(), Arc::clone(&user));
            let hook = Arc::clone(&user);
            let (factory, driver) = Factory::builder(boxed!(transport))
                .drain(PATIENCE)
                .on_report(move |_, report| hook.on_report(report))
                .build();
            tokio::spawn(driver.run());
            let lister = shared(&factory, &user).lister();
            Source::Shared(factory, lister)
        };
        Self {
            dice,
            mock,
            user,
            source,
            joined: Vec::new(),
            marks: Vec::new(),
            began: Instant::now(),
            step: 0,
            trace: Vec::new(),
            figures: Figures::default(),
        }
    }

    fn note(&mut self, what: &str) {
        let at = self.began.elapsed().as_millis();
        self.trace.push(format!("{at:>9} ms  {what}"));
    }

    fn informer(&self) -> Informer<Raw> {
        match &self.source {
            Source::Own(informer, _) => informer.clone(),
            Source::Shared(factory, _) => shared(factory, &self.user),
        }
    }

    async fn play(&mut self) -> Verdict {
        for step in 0..STEPS {
            self.step = step;
            match self.dice.below(100) {
                0..45 => self.change(),
                45..60 => self.trouble(),
                60..72 => self.join(),
                72..78 => self.leave(),
                78..92 => {
                    let hook = self.dice.below(4) as usize;
                    self.note(&format!("{} panics at its next call", HOOKS[hook]));
                    self.user.arm(hook);
                }
                92..94 => {
                    self.end(false).await?;
                    self.figures.replaced += 1;
                    self.begin();
                }
                _ => {}
            }
            let pause = self.dice.pick([0, 1, 50, 1_000, 7_000, 40_000].as_slice());
            sleep(Duration::from_millis(pause)).await;
            self.folds()?;
        }
        self.step = STEPS;
        self.come_right().await?;
        let dropped = matches!(self.source, Source::Own(..)) && self.dice.one_in(3);
        self.end(dropped).await?;
        self.reported(dropped)
    }

    /// Writes or deletes an object.
    fn change(&mut self) {
        let name = self.dice.pick(&NAMES);
        let mark = match self.dice.below(8) {
            0 => Mark::Refused,
            1 => Mark::Panics,
            _ => Mark::Fine,
        };
        self.marks.retain(|(other, _)| *other != name);
        let version = if self.dice.one_in(4) {
            self.mock.delete("pods", "prod", name).ok()
        } else {
            self.marks.push((name, mark));
            let labels = json!({ "mark": format!("{mark:?}"), "step": self.step.to_string() });
            let metadata = json!({ "name": name, "namespace": "prod", "labels": labels });
            self.mock
                .apply("pods", json!({ "metadata": metadata }))
                .ok()
        };
        self.note(&format!("{name} is {mark:?} at {version:?}"));
    }

    /// Has the server or the network fail.
    fn trouble(&mut self) {
        let which = self.dice.below(8);
        let at = u64::from(self.dice.below(400));
        self.note(&format!("fault {which}"));
        self.mock.with(|server| match which {
            0 => server.inject(Fault::refuse()),
            1 => server.inject(Fault::reset()),
            2 => server.inject(Fault::status(500, "{}")),
            3 => server.inject(Fault::nothing().cut_after_bytes(at)),
            4 => server.inject(Fault::expired().on(Verb::Watch)),
            5 => server.inject(Fault::delay(Duration::from_millis(at * 10))),
            6 => server.cut_watches(),
            _ => {
                server.compact_all();
                server.cut_watches();
            }
        });
    }

    fn join(&mut self) {
        let informer = self.informer();
        let fold = Arc::new(Mutex::new(Fold::default()));
        let recorder = Recorder {
            fold: Arc::clone(&fold),
            user: Arc::clone(&self.user),
            dice: Entropy::Seed(u64::from(self.dice.below(1 << 20))),
        };
        let sort = self.dice.below(3);
        // A backlog so small that notifications are merged.
        let options = HandlerOptions::default().backlog(self.dice.pick(&[2, 4096]));
        let handle = match sort {
            0 => Ok(informer.add_handler_with(&options, recorder)),
            1 => Ok(informer.add_async_handler_with(&options, Awaiting(recorder))),
            _ => Err(tokio::spawn(read(informer, options, recorder.fold))),
        };
        self.joined.push(Joined { fold, handle });
        self.figures.joined += 1;
        self.note(&format!("a listener of the sort {sort} joins"));
    }

    fn leave(&mut self) {
        if self.joined.is_empty() {
            return;
        }
        let count = u32::try_from(self.joined.len()).unwrap_or(u32::MAX);
        let gone = self.joined.swap_remove(self.dice.below(count) as usize);
        match gone.handle {
            Ok(handle) => handle.remove(),
            Err(reader) => reader.abort(),
        }
        self.note("a listener leaves");
    }

    /// Ends the informer, and looks at what everybody was notified of. A user of a shared one stops it for all.
    async fn end(&mut self, drop_driver: bool) -> Verdict {
        self.note(if drop_driver {
            "the driver is dropped"
        } else {
            "a stop"
        });
        let informer = self.informer();
        if let (true, Source::Own(_, driver)) = (drop_driver, &mut self.source) {
            driver.take().into_iter().for_each(|driver| driver.abort());
        } else {
            informer.stop();
        }
        let ended = timeout(PATIENCE * 2, informer.ended()).await;
        holds("ended", ended.is_ok(), &|| "it does not end".to_owned())?;
        let shown = shown(&informer.lister());
        for joined in core::mem::take(&mut self.joined) {
            match joined.handle {
                // What it has not received by now it never will.
                Ok(_) if drop_driver => continue,
                Ok(_) => {}
                Err(reader) => {
                    let read = timeout(PATIENCE, reader).await;
                    let is_over = matches!(read, Ok(Ok(())));
                    holds("ended", is_over, &|| {
                        format!("a subscription has no end: {read:?}")
                    })?;
                }
            }
            let fold = lock(&joined.fold);
            holds(
                "ended",
                !informer.is_synced() || fold.state == shown,
                &|| {
                    format!(
                        "a listener knows {:?}, and the cache has {shown:?}",
                        fold.state
                    )
                },
            )?;
        }
        let health = informer.health();
        let class = health.last_error.map(|error| error.class);
        let is_seen = health.ended && (!drop_driver || class == Some("driver-ended"));
        holds("reported", is_seen, &|| {
            format!("health has ended: {}, {class:?}", health.ended)
        })?;
        self.figures.dropped += u64::from(drop_driver);
        Ok(())
    }

    /// Begins anew after the end of an informer. A factory gives a new one by itself.
    fn begin(&mut self) {
        match &mut self.source {
            Source::Own(informer, driver) => {
                let (new, running) = own(&self.mock, &self.user, self.step as u64);
                (*informer, *driver) = (new, Some(running));
            }
            Source::Shared(factory, lister) => *lister = shared(factory, &self.user).lister(),
        }
    }

    fn folds(&self) -> Verdict {
        for joined in &self.joined {
            let wrong = lock(&joined.fold).wrong.clone();
            holds("grammar", wrong.is_none(), &|| {
                wrong.clone().unwrap_or_default()
            })?;
        }
        Ok(())
    }

    /// Takes all faults away and waits until the cache shows the server's state.
    async fn come_right(&mut self) -> Verdict {
        self.note("no more faults");
        self.user.disarm();
        let last = self.mock.with(|server| {
            server.clear_faults();
            server.apply(
                "pods",
                json!({ "metadata": { "name": "last", "namespace": "prod" } }),
            )
        });
        self.marks.push(("last", Mark::Fine));
        let last = last.map_err(|error| Wrong::new("server", &error))?;
        // A lister that was kept must be as good as the informer, although nobody held that.
        let lister = match &self.source {
            Source::Own(informer, _) => informer.lister(),
            Source::Shared(_, lister) => lister.clone(),
        };
        let informer = self.informer();
        let waited = timeout(PATIENCE, informer.wait_until(&last.to_string())).await;
        holds("liveness", matches!(waited, Ok(Ok(()))), &|| {
            format!(
                "it does not come right: {waited:?}, {:?}",
                informer.health()
            )
        })?;
        let shown = shown(&lister);
        let stale = informer.health().stale;
        let server: Vec<(String, String)> = self.mock.with(|server| {
            let objects = server.objects("pods");
            objects
                .map(|pod| (pod.key(), pod.version().to_string()))
                .collect()
        });
        for (key, version) in &server {
            let name = key.trim_start_matches("prod/");
            let mark = self.marks.iter().find(|(other, _)| *other == name);
            let is_fine = mark.is_none_or(|(_, mark)| *mark == Mark::Fine);
            let cached = shown.get(key);
            let is_right = match cached {
                Some(cached) if is_fine => cached == version,
                Some(cached) => cached != version && stale.contains(key),
                None => !is_fine,
            };
            holds("converges", is_right, &|| {
                format!("{key}@{version} is {mark:?}, and cached as {cached:?}; stale: {stale:?}")
            })?;
        }
        let gone = shown
            .keys()
            .find(|key| server.iter().all(|(other, _)| other != *key));
        holds("converges", gone.is_none(), &|| {
            format!("{gone:?} is not on the server")
        })
    }

    /// Compares what user code did wrong with what was reported.
    fn reported(&mut self, dropped: bool) -> Verdict {
        let counts = self.user.counts();
        let failures = |what| counts.failures.get(what).copied().unwrap_or_default();
        let reports = |class| counts.reports.get(class).copied().unwrap_or_default();
        let reported = |hook| counts.reported.get(hook).copied().unwrap_or_default();
        for (what, class) in [
            ("decoder", "undecodable"),
            ("handler", "handler-panicked"),
            ("index", "index-panicked"),
        ] {
            holds("reported", failures(what) == reports(class), &|| {
                format!(
                    "{what}: {} failures, {} reports",
                    failures(what),
                    reports(class)
                )
            })?;
        }
        // The first panic in each informer is reported.
        for hook in ["on_report", "on_version"] {
            let (failures, reported) = (failures(hook), reported(hook));
            let is_right = (failures > 0) == (reported > 0) && reported <= failures;
            holds("reported", is_right, &|| {
                format!("{hook}: {failures} panics, {reported} reports")
            })?;
        }
        let (failures, reported) = (failures("transport"), reported("transport"));
        holds("reported", failures == reported, &|| {
            format!("transport: {failures} panics, {reported} reports")
        })?;
        let ends = reports("driver-ended");
        holds("reported", ends == u64::from(dropped), &|| {
            format!("{ends} reports of a driver that ended, and dropped: {dropped}")
        })?;
        self.figures.panics = counts.failures.values().sum();
        Ok(())
    }
}

/// Builds an informer with every hook, and runs it.
fn own(mock: &Server, user: &Arc<User>, seed: u64) -> (Informer<Raw>, JoinHandle<()>) {
    let [report, version, index] = [(); 3].map(|()| Arc::clone(user));
    let transport = Shaky(mock.transport(), Arc::clone(user));
    let (informer, driver) = Informer::builder_with(transport, PODS, Picky(Arc::clone(user)))
        .seed(seed)
        .drain(PATIENCE)
        .index_with("nothing", move |_, _| index.call("index"))
        .on_report(move |said| report.on_report(said))
        .on_version(move |_| version.call("on_version"))
        .build();
    (informer, tokio::spawn(driver.run()))
}

fn shared(factory: &Factory, user: &Arc<User>) -> Informer<Raw> {
    factory.with::<Raw, _>(PODS, Picky(Arc::clone(user))).get()
}

fn shown(lister: &Lister<Raw>) -> State {
    let entries = lister.list();
    let entries = entries.iter();
    entries
        .map(|entry| {
            (
                entry.key().to_string(),
                entry.resource_version().to_string(),
            )
        })
        .collect()
}

/// Reads a subscription to its end. Whoever is notified that all is synced sees the version.
async fn read(informer: Informer<Raw>, options: HandlerOptions, fold: Arc<Mutex<Fold>>) {
    let mut events = informer.subscribe_with(&options);
    while let Some(event) = events.recv().await {
        let mut fold = lock(&fold);
        match event {
            Event::Added { entry, .. } => fold.put(&entry, true),
            Event::Updated { new, .. } => fold.put(&new, false),
            Event::Deleted { entry, .. } => fold.delete(&entry),
            Event::Synced => {
                fold.sync();
                if informer.resource_version().is_empty() {
                    fold.wrong = Some("synced, without a version".to_owned());
                }
            }
            _ => {}
        }
    }
}
