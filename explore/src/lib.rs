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
//! The same seed gives the same run if the program has no randomness of its own. Each failing seed is run twice. If
//! the requests differ, the report shows the first difference. These are usual reasons:
//! - the order of a `HashMap` with the standard hasher: use a `BTreeMap`, or sort;
//! - jitter from a random seed: pass [`Process::seed`], as in `Builder::seed` of an informer;
//! - `tokio::select!` without `biased;`, if several branches are ready at once;
//! - the real clock (`SystemTime::now`) in decisions: use [`Process::now`] or tokio's clock;
//! - other threads: `spawn_blocking`, and sockets and files in general.
//!
//! kube-rs is random in the jitter of its backoffs and the hashers of its scheduler. Its controllers can be explored,
//! but a seed may need several runs to fail again.
//!
//! # Environment
//! | variable | effect |
//! |---|---|
//! | `EXPLORE_SEED=n` | [`Explore::run`] runs this seed only, and prints everything that happens |
//! | `EXPLORE_SEEDS=n` | runs the seeds from 0 to n − 1, instead of the number of [`Explore::seeds`] |
//! | `EXPLORE_PAGES=folder` | writes the page of a failure there, instead of `explore` in the build folder |
//! | `EXPLORE_THREADS=n` | runs on n threads, instead of one for each processor |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an action concerns a part of the faults, and a rule a part of a JSON value"
)]

mod action;
mod actors;
mod connect;
mod describe;
mod dice;
mod driver;
mod failure;
mod page;
mod plan;
mod process;
mod ready;
mod run;
mod search;
mod seeds;
#[cfg(feature = "tower")]
mod service;
mod shrink;
mod spec;
mod trace;
mod world;

use core::future::Future;
use core::time::Duration;
use std::sync::Arc;

use informer_mock::Config;
use informer_mock::FakeServer;

use spec::{Check, Spec};
use world::Running;

pub use action::FaultKind;
pub use actors::{Actor, Cluster};
pub use connect::{ApiError, Client, ProcessBody, ProcessTransport};
pub use failure::{Difference, Failure, Planned};
pub use process::Process;
pub use search::Explored;
pub use seeds::each_seed;
pub use shrink::shrink;
pub use spec::Objects;
pub use trace::{Entry, EntryKind, Trace};
pub use world::World;

/// The rules of the worlds that a program is run in, and what must hold there. The
/// [documentation of the crate](self) has an example.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `run` is called"]
pub struct Explore {
    spec: Spec,
    seeds: u64,
    shrinks: usize,
}

/// # The world
impl Explore {
    /// Creates rules without objects and checks: Kubernetes 1.36, one replica, and all honest faults.
    pub fn new() -> Self {
        let honest = FaultKind::ALL.into_iter().filter(|kind| kind.is_honest());
        let spec = Spec {
            config: Config::default(),
            setups: Vec::new(),
            objects: Vec::new(),
            edited: Vec::new(),
            actors: Vec::new(),
            replicas: 1,
            faults: honest.collect(),
            checks: Vec::new(),
            steps: 30,
            patience: Duration::from_secs(30 * 60),
            settle: Duration::from_secs(30),
            request_limit: 20_000,
        };
        Self {
            spec,
            seeds: 1_000,
            shrinks: 400,
        }
    }

    /// Sets the behaviour of the server. Some settings vary with the seed: streaming lists and bookmarks may be off,
    /// and the history short.
    pub fn config(mut self, config: Config) -> Self {
        self.spec.config = config;
        self
    }

    /// Prepares the server of each run: custom resources, and objects that exist from the start.
    pub fn setup(mut self, setup: impl Fn(&mut FakeServer) + Send + Sync + 'static) -> Self {
        self.spec.setups.push(Arc::new(setup));
        self
    }

    /// Adds objects that users create, change and delete.
    pub fn objects(mut self, objects: Objects) -> Self {
        self.spec.objects.push(objects);
        self
    }

    /// Adds a resource whose objects a person edits (an annotation) and deletes, such as those that the controller
    /// creates.
    pub fn edited(mut self, resource: &str) -> Self {
        self.spec.edited.push(resource.into());
        self
    }

    /// Adds another controller, or anybody else who acts on the state of the cluster.
    pub fn actor(mut self, actor: Actor) -> Self {
        self.spec.actors.push(actor);
        self
    }

    /// Sets how many replicas of the program run; the default is 1. Each has its own [`Process::replica`], and their
    /// clocks differ.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.spec.replicas = replicas.max(1);
        self
    }

    /// Sets the faults, instead of all honest ones.
    pub fn faults(mut self, faults: impl IntoIterator<Item = FaultKind>) -> Self {
        self.spec.faults = faults.into_iter().collect();
        self
    }

    /// Adds a kind of fault that is off by default.
    pub fn with(mut self, fault: FaultKind) -> Self {
        if !self.spec.has(fault) {
            self.spec.faults.push(fault);
        }
        self
    }

    /// Removes a kind of fault.
    pub fn without(mut self, fault: FaultKind) -> Self {
        self.spec.faults.retain(|kind| *kind != fault);
        self
    }
}

/// # Checks
///
/// A check returns what is wrong. A panic of the program is a failure too, and so is a program that does not come to
/// rest.
impl Explore {
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

    fn add(
        mut self,
        name: &str,
        always: bool,
        test: impl Fn(&World) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.spec.checks.push(Check {
            name: name.into(),
            always,
            test: Arc::new(test),
        });
        self
    }
}

/// # Extent
impl Explore {
    /// Sets the number of seeds; the default is 1,000. The variable `EXPLORE_SEEDS` overrides it.
    pub fn seeds(self, seeds: u64) -> Self {
        Self { seeds, ..self }
    }

    /// Sets the number of actions in each run; the default is 30.
    pub fn steps(mut self, steps: usize) -> Self {
        self.spec.steps = steps;
        self
    }

    /// Sets how long it may take after the last fault until all checks hold; the default is 30 minutes of virtual
    /// time.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.spec.patience = patience;
        self
    }

    /// Sets for how long nothing may change before the last check; the default is 30 s of virtual time. Changes of
    /// Leases and Events do not count.
    pub fn settle(mut self, settle: Duration) -> Self {
        self.spec.settle = settle;
        self
    }

    /// Sets how many runs may be spent on shrinking a failure; the default is 400.
    pub fn shrinks(self, shrinks: usize) -> Self {
        Self { shrinks, ..self }
    }
}

/// # Running
impl Explore {
    /// Runs the program in the world of each seed.
    ///
    /// With the variable `EXPLORE_SEED`, it runs that seed only, and prints what happens.
    ///
    /// # Panics
    /// Panics with a report if a check fails, so that a test fails.
    pub fn run<F: Future + 'static>(&self, start: impl Fn(Process) -> F + Sync) -> Explored {
        search::run(self, &boxed(&start))
    }

    /// Runs the program in the world of each seed, until a check fails.
    ///
    /// # Errors
    /// The failure of the smallest seed that fails.
    pub fn find<F: Future + 'static>(
        &self,
        start: impl Fn(Process) -> F + Sync,
    ) -> Result<Explored, Box<Failure>> {
        search::find(self, &boxed(&start))
    }

    /// Runs the program in the world of one seed, and returns what happened.
    pub fn trace<F: Future + 'static>(
        &self,
        seed: u64,
        start: impl Fn(Process) -> F + Sync,
    ) -> Trace {
        search::trace(self, seed, &boxed(&start))
    }
}

impl Default for Explore {
    fn default() -> Self {
        Self::new()
    }
}

/// Puts the future of each process into a box. Its output does not matter.
fn boxed<F, S>(start: &S) -> impl Fn(Process) -> Running + Sync
where
    F: Future + 'static,
    S: Fn(Process) -> F + Sync,
{
    move |process| {
        let program = start(process);
        Box::pin(async move {
            program.await;
        })
    }
}

/// The program in `README.md`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
