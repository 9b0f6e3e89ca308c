//! Runs a controller in thousands of worlds: objects, users, other controllers, faults and crashes, all from a seed.
//!
//! [`Explore`] has the rules of the worlds and the checks. [`Explore::run`] starts the program under test in one world
//! for each seed, on tokio's paused time and one thread. Users change objects, servers and connections fail, and
//! processes die between two writes and start again. Then all faults end. When nothing changes any more, all checks
//! must hold.
//!
//! A failure is shrunk to the shortest sequence of actions that still fails, and the report has the command that
//! replays it. It is text, and a page with a timeline.
//!
//! ```
//! use informer_explore::{Explore, Objects, Process};
//! use informer_mock::json;
//!
//! /// Each ConfigMap gets a Secret of the same name. A real controller watches; this one looks every second.
//! async fn controller(process: Process) {
//!     let client = process.client();
//!     loop {
//!         for map in client.list("configmaps", "prod").await.unwrap_or_default() {
//!             let name = &map["metadata"]["name"];
//!             let secret = json!({ "metadata": { "namespace": "prod", "name": name } });
//!             // If it fails or the Secret exists already, the next round sees what is missing.
//!             let _ = client.create("secrets", &secret).await;
//!         }
//!         tokio::time::sleep(std::time::Duration::from_secs(1)).await;
//!     }
//! }
//!
//! Explore::new()
//!     .objects(Objects::new("configmaps", json!({ "metadata": { "namespace": "prod" } })))
//!     .check("each ConfigMap has its Secret", |world| {
//!         for map in world.objects("configmaps") {
//!             let name = map["metadata"]["name"].as_str().unwrap_or_default();
//!             world.get("secrets", "prod", name).ok_or(format!("{name} has none"))?;
//!         }
//!         Ok(())
//!     })
//!     .seeds(20)
//!     .run(controller);
//! ```
//!
//! # The program under test
//! It is a function of a [`Process`] that returns the future of the whole program. It reaches the server by
//! [`Process::transport`] (for informers), [`Process::client`] (JSON), or `Process::service` (feature `tower`, for the
//! client of kube-rs). Anything that outlives a process,
//! such as the load balancers of a cloud, is state of the world: [`World::outside`] and [`Process::call`].
//!
//! A process dies when its future is dropped at the await where it is. Tasks that it has spawned cannot be ended, but
//! they are cut off from the server for ever. If the future ends or the program has died, it is started again.
//!
//! # Determinism
//! The same seed gives the same run. Each run has a thread of its own, on which random bytes (`getrandom`: hashers,
//! UUIDs), `fastrand`, and the time of day (`SystemTime`, `jiff`, `chrono`) follow from the seed. That is done on Linux
//! with glibc and 64 bits. There is code for macOS, which nobody has run yet. These remain:
//! - `tokio::select!` without `biased;`, and several receivers of one `tokio::sync::watch`: tokio's random numbers
//!   follow from the seed only if everything is compiled with `RUSTFLAGS="--cfg tokio_unstable"`;
//! - static variables that are kept from run to run, such as counters and caches;
//! - threads of the program's own, `spawn_blocking`, sockets and files;
//! - [`std::time::Instant`]: [`tokio::time::Instant`] is the clock of the world.
//!
//! A seed that fails is run six times. The report says how many of them have failed, and where the first difference is.
//! It shows the run that has failed.
//!
//! # What fails besides the checks
//! - A panic in any task or thread of the program, and in a check.
//! - A program that never waits: 100,000 polls or 1.5 s of processor time at one instant of virtual time, or a future
//!   that does not return for 10 s of real time.
//! - Runs that prove nothing: no request at all, objects of users that the server refuses each time, and faults that
//!   were asked for by name and never had an effect in 200 runs.
//!
//! # Environment
//! These apply to `run`, which also prints a line on stderr every ten seconds, and one as soon as a seed fails.
//!
//! | variable | effect |
//! |---|---|
//! | `EXPLORE_SEED=n` | [`Explore::run`] runs this seed only, and prints everything that happens |
//! | `EXPLORE_POINT=n` | runs this point of [`Explore::each_write`] only |
//! | `EXPLORE_SEEDS=n` | runs n seeds, instead of the number of [`Explore::seeds`] |
//! | `EXPLORE_TIME=60s` | begins seeds for that long, instead of a number; `10m` are minutes |
//! | `EXPLORE_FROM=n` | the first seed, instead of 0 |
//! | `EXPLORE_ALL=1` | runs all seeds although some fail, and lists them by check; without points and regressions |
//! | `EXPLORE_WITHOUT=Silence,Converges` | leaves out faults and invariants |
//! | `EXPLORE_LOG=kube=debug,info` | which lines of `tracing` are in traces, by target and level, instead of `info` |
//! | `EXPLORE_PAGES=folder` | writes the page of a failure there, instead of `explore` in the build folder |
//! | `EXPLORE_THREADS=n` | runs on n threads, instead of one for each processor |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an action concerns a part of the faults, and a rule a part of a JSON value"
)]

mod action;
mod actors;
mod body;
mod connect;
mod context;
mod converge;
mod describe;
mod dice;
mod driver;
mod due;
mod ending;
mod environment;
mod failure;
mod interpose;
mod invariants;
#[cfg(feature = "kube")]
mod kube;
mod logs;
mod page;
mod paths;
mod plan;
mod process;
mod progress;
mod pulse;
mod ready;
mod regressions;
mod requests;
mod rules;
mod run;
mod search;
mod seeds;
#[cfg(feature = "tower")]
mod service;
mod shrink;
mod simplify;
mod spec;
mod survey;
mod systematic;
mod tally;
mod trace;
mod world;

use core::future::Future;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use informer_mock::Config;
use informer_mock::FakeServer;

use rules::Rules;
use run::Start;
use spec::{Check, Spec};

pub use action::FaultKind;
pub use actors::{Actor, Cluster};
pub use connect::{ApiError, Client, ProcessBody, ProcessTransport};
pub use failure::{Difference, Failure, Planned};
pub use invariants::Invariant;
#[cfg(feature = "kube")]
#[cfg_attr(docsrs, doc(cfg(feature = "kube")))]
pub use kube::{Env, Kube, kube};
pub use process::Process;
pub use search::Explored;
pub use seeds::each_seed;
pub use shrink::shrink;
pub use spec::Objects;
pub use trace::{Entry, EntryKind, Trace};
pub use world::World;

/// The rules of the worlds that a program is run in, and what must hold there. The
/// [documentation of the crate](self) has an example.
///
/// `P` is the program, if the rules have it already, as those of `kube` (feature `kube`) do.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `run` is called"]
pub struct Explore<P = ()> {
    rules: Rules,
    #[cfg_attr(
        not(feature = "kube"),
        expect(dead_code, reason = "only the rules of `kube` have it")
    )]
    program: P,
}

impl Explore {
    /// Creates rules without objects and checks: Kubernetes 1.36, one replica, and all honest faults.
    pub fn new() -> Self {
        Self::with_program(())
    }
}

/// # The world
impl<P> Explore<P> {
    fn with_program(program: P) -> Self {
        let honest = FaultKind::ALL.into_iter().filter(|kind| kind.is_honest());
        let spec = Spec {
            config: Config::default(),
            setups: Vec::new(),
            objects: Vec::new(),
            edited: Vec::new(),
            actors: Vec::new(),
            replicas: 1,
            old: None,
            faults: honest.collect(),
            named: Vec::new(),
            spares_kube: false,
            checks: Vec::new(),
            invariants: Invariant::ALL.into(),
            masks: Vec::new(),
            steps: 30,
            patience: Duration::from_secs(30 * 60),
            settle: Duration::from_secs(30),
        };
        let rules = Rules {
            spec,
            seeds: 1_000,
            time: None,
            shrinks: 400,
            each_write: false,
            regressions: None,
        };
        Self { rules, program }
    }

    /// Sets the behaviour of the server. Faults vary some settings with the seed: streaming lists and bookmarks
    /// ([`FaultKind::OldServer`]), the length of the history ([`FaultKind::Expired`]), the garbage collector and grace periods
    /// ([`FaultKind::SlowDeletion`]).
    pub fn config(mut self, config: Config) -> Self {
        self.rules.spec.config = config;
        self
    }

    /// Prepares the server of each run: custom resources, and objects that exist from the start.
    pub fn setup(mut self, setup: impl Fn(&mut FakeServer) + Send + Sync + 'static) -> Self {
        self.rules.spec.setups.push(Arc::new(setup));
        self
    }

    /// Adds objects that users create, change and delete. Where Namespaces must exist
    /// ([`Config::requires_namespaces`], and for a `kube::Client`), theirs do from the start. Others do not, unless
    /// [`setup`](Self::setup) or the program creates them.
    pub fn objects(mut self, objects: Objects) -> Self {
        self.rules.spec.objects.push(objects);
        self
    }

    /// Adds a resource whose objects a person edits (an annotation) and deletes, such as those that the controller
    /// creates.
    pub fn edited(mut self, resource: &str) -> Self {
        self.rules.spec.edited.push(resource.into());
        self
    }

    /// Adds another controller, or anybody else who acts on the state of the cluster.
    pub fn actor(mut self, actor: Actor) -> Self {
        self.rules.spec.actors.push(actor);
        self
    }

    /// Sets how many replicas of the program run; the default is 1. Each has its own [`Process::replica`], and their
    /// clocks differ.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.rules.spec.replicas = replicas.max(1);
        self
    }

    /// Sets the faults, instead of all honest ones. Each must have an effect in some of 200 runs.
    pub fn faults(mut self, faults: impl IntoIterator<Item = FaultKind>) -> Self {
        self.rules.spec.faults = faults.into_iter().collect();
        self.rules.spec.named = self.rules.spec.faults.clone();
        self
    }

    /// Adds a kind of fault that is off by default. It must have an effect in some of 200 runs.
    pub fn with(mut self, fault: FaultKind) -> Self {
        if !self.rules.spec.has(fault) {
            self.rules.spec.faults.push(fault);
        }
        self.rules.spec.named.push(fault);
        self
    }

    /// Removes a kind of fault.
    pub fn without(mut self, fault: FaultKind) -> Self {
        self.rules.spec.faults.retain(|kind| *kind != fault);
        self.rules.spec.named.retain(|kind| *kind != fault);
        self
    }
}

/// # Checks
///
/// A check returns what is wrong. A panic of the program is a failure too, and so is a program that does not come to
/// rest, or breaks an [`Invariant`].
impl<P> Explore<P> {
    /// Adds what must hold in the end: all faults are over, and nothing changes any more.
    pub fn check(
        self,
        name: &str,
        test: impl Fn(&World) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, false, test)
    }

    /// Adds what must always hold: it is checked after every change, and in the end.
    pub fn always(
        self,
        name: &str,
        test: impl Fn(&World) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.add(name, true, test)
    }

    /// Removes an invariant, for a program that is meant to differ.
    pub fn without_invariant(mut self, invariant: Invariant) -> Self {
        self.rules.spec.invariants.retain(|own| *own != invariant);
        self
    }

    /// Leaves a member of a resource's objects out of [`Invariant::Converges`], by its path as in a JSON Patch: one that
    /// depends on how often or when the program has done something.
    ///
    /// ```
    /// # use informer_explore::Explore;
    /// let rules = Explore::new().without_field("shops.example.com", "/status/attempts");
    /// ```
    pub fn without_field(mut self, resource: &str, path: &str) -> Self {
        self.rules.spec.masks.push((resource.into(), path.into()));
        self
    }

    fn add(
        mut self,
        name: &str,
        always: bool,
        test: impl Fn(&World) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.rules.spec.checks.push(Check {
            name: name.into(),
            always,
            test: Arc::new(test),
        });
        self
    }
}

/// # Extent
impl<P> Explore<P> {
    /// Sets the number of seeds; the default is 1,000. The variable `EXPLORE_SEEDS` overrides it.
    pub fn seeds(mut self, seeds: u64) -> Self {
        (self.rules.seeds, self.rules.time) = (seeds, None);
        self
    }

    /// Sets for how long seeds are begun, in real time, instead of their number. The variable `EXPLORE_TIME` overrides
    /// it.
    pub fn time(mut self, time: Duration) -> Self {
        self.rules.time = Some(time);
        self
    }

    /// Explores each write systematically, before the seeds: in a world without faults, users create, change and delete
    /// their objects one after the other, and the writes of the program are counted. For each of them there is a run in
    /// which the process dies before it, a run in which the process dies after it, and runs in which its response is
    /// lost, it fails with 500, and another client has changed the object before it. Faults that are off are left out.
    ///
    /// The summary says how many of these points hold, as in `120 of 120 points`. `EXPLORE_POINT=n` replays one.
    pub fn each_write(mut self) -> Self {
        self.rules.each_write = true;
        self
    }

    /// Keeps the plans of failures in a file, one in a line, and carries them out before everything else. The path is
    /// relative to the folder of the crate that is tested. A failure of [`run`](Explore::run) adds its plan to the file.
    ///
    /// A seed means another plan when the rules change, for example when an object or a kind of fault is added. A plan in
    /// the file stays what it is, as long as its objects exist.
    pub fn regressions(mut self, path: impl Into<PathBuf>) -> Self {
        self.rules.regressions = Some(path.into());
        self
    }

    /// Sets the number of actions in each run; the default is 30.
    pub fn steps(mut self, steps: usize) -> Self {
        self.rules.spec.steps = steps;
        self
    }

    /// Sets how long it may take after the last fault until all checks hold; the default is 30 minutes of virtual
    /// time.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.rules.spec.patience = patience;
        self
    }

    /// Sets for how long nothing may change before the last check; the default is 30 s of virtual time. Changes of
    /// Leases and Events do not count.
    pub fn settle(mut self, settle: Duration) -> Self {
        self.rules.spec.settle = settle;
        self
    }

    /// Sets how many runs may be spent on shrinking a failure; the default is 400.
    pub fn shrinks(mut self, shrinks: usize) -> Self {
        self.rules.shrinks = shrinks;
        self
    }
}

/// # Upgrades
impl Explore {
    /// Sets the program that runs before an upgrade. Each run begins with it, and at some time each replica is replaced
    /// by the program under test, one after the other.
    pub fn upgraded_from<F: Future + 'static>(
        mut self,
        old: impl Fn(Process) -> F + Send + Sync + 'static,
    ) -> Self {
        self.rules.spec.old = Some(boxed(old));
        self
    }
}

/// # Running
impl Explore {
    /// Runs the program in the world of each seed.
    ///
    /// The program is a function that outlives the call, since a future that never returns is left behind on its
    /// thread. With the variable `EXPLORE_SEED`, it runs that seed only, and prints what happens.
    ///
    /// # Panics
    /// Panics with a report if a check fails, so that a test fails.
    pub fn run<F: Future + 'static>(
        &self,
        start: impl Fn(Process) -> F + Send + Sync + 'static,
    ) -> Explored {
        search::run(&self.rules, &boxed(start))
    }

    /// Runs the program in the world of each seed, until a check fails.
    ///
    /// # Errors
    /// The failure of the smallest seed that fails.
    pub fn find<F: Future + 'static>(
        &self,
        start: impl Fn(Process) -> F + Send + Sync + 'static,
    ) -> Result<Explored, Box<Failure>> {
        search::find(&self.rules, &boxed(start))
    }

    /// Runs the program in the world of one seed, and returns what happened.
    pub fn trace<F: Future + 'static>(
        &self,
        seed: u64,
        start: impl Fn(Process) -> F + Send + Sync + 'static,
    ) -> Trace {
        search::trace(&self.rules, seed, &boxed(start))
    }
}

impl Default for Explore {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts the future of each process into a box. Its output does not matter.
fn boxed<F, S>(start: S) -> Arc<Start>
where
    F: Future + 'static,
    S: Fn(Process) -> F + Send + Sync + 'static,
{
    Arc::new(move |process| {
        let program = start(process);
        Box::pin(async move {
            program.await;
        })
    })
}

/// The program in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
