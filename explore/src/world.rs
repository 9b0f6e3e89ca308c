//! The world of a run: the cluster, the state outside of it, and what has happened.

use core::any::{Any, TypeId};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::Waker;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::sync::{Mutex, MutexGuard, PoisonError};

use informer_core::{Instant, OwnedResource, Timer as _};
use serde_json::Value;

use super::action::FaultKind;
use super::connect::body_of;
use super::context;
use super::dice::Dice;
use super::due::Due;
use super::invariants::{Holder, Rest, Snapshot};
use super::paths::plural_of;
use super::plan::Settings;
use super::process::Life;
use super::spec::{Check, Spec};
use super::tally::Tally;
use super::trace::{self, Entry, EntryKind, Trace};
use informer_mock::FakeServer;
use informer_mock::Mock;
use informer_mock::TokioClock;
use informer_mock::Write;

/// The state of a run, as a check sees it.
///
/// ```
/// use informer_explore::World;
///
/// fn each_claim_has_its_pod(world: &World) -> Result<(), String> {
///     for claim in world.objects("persistentvolumeclaims") {
///         let name = claim["metadata"]["name"].as_str().unwrap_or_default();
///         world.get("pods", "prod", name).ok_or(format!("claim {name} has no Pod"))?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct World {
    pub(super) shared: Arc<Shared>,
}

impl World {
    /// Returns the objects of a resource, in the order of lists.
    ///
    /// # Panics
    /// Panics if the resource does not exist: a check of nothing cannot fail.
    #[must_use]
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        self.shared.mock.read(|server| {
            assert!(
                server.resource(resource).is_some(),
                "the server has no resource {resource:?}: add it in `Explore::setup`"
            );
            let objects = server.objects(resource);
            objects
                .filter_map(|object| serde_json::from_slice(&object.to_bytes()).ok())
                .collect()
        })
    }

    /// Returns an object. The namespace is empty for a cluster-scoped resource.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.shared
            .mock
            .read(|server| server.get(resource, namespace, name))
    }

    /// Returns state outside of the cluster, such as the load balancers of a cloud. It is created when it is first
    /// used, and outlives the processes of its run. Each run has its own.
    #[must_use]
    pub fn outside<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.shared.outside()
    }

    /// Returns the time since the start of the run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.elapsed()
    }

    /// Returns the server, for everything else.
    #[must_use]
    pub fn mock(&self) -> &Mock<FakeServer, TokioClock> {
        &self.shared.mock
    }
}

/// The state that all parts of a run share.
pub(super) struct Shared {
    pub(super) mock: Mock<FakeServer, TokioClock>,
    pub(super) spec: Arc<Spec>,
    pub(super) seed: u64,
    pub(super) settings: Settings,
    start: Instant,
    tokio_start: tokio::time::Instant,
    state: Mutex<State>,
    outside: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

/// The parts of [`Shared`] that change.
#[derive(Default)]
pub(super) struct State {
    pub(super) trace: Trace,
    pub(super) violation: Option<Violation>,
    /// Whether the run has ended: what happens then is no part of it.
    pub(super) is_over: bool,
    /// Whether all faults have ended.
    pub(super) is_calm: bool,
    pub(super) requests: usize,
    /// When requests were last counted anew, and how many there were since.
    pub(super) burst: (Duration, usize),
    pub(super) tally: Tally,
    /// What users want: the variants of their objects, by their slots. Writes that were refused do not count.
    pub(super) wishes: Wishes,
    /// The objects in the end.
    pub(super) end: Option<Snapshot>,
    /// What happens at rest.
    pub(super) rest: Rest,
    /// The processes that hold Leases, by the path of the Lease.
    pub(super) holders: BTreeMap<String, Holder>,
    /// The faults that requests meet.
    pub(super) due: Due,
    /// The replicas that run the new program.
    pub(super) upgraded: BTreeSet<usize>,
    /// The seconds by which the clocks of replicas have jumped.
    pub(super) jumps: BTreeMap<usize, i64>,
    /// The servers that replicas send new requests to, unless it is the first.
    pub(super) routes: BTreeMap<usize, usize>,
    /// The times until which replicas do not run.
    pub(super) pauses: BTreeMap<usize, Instant>,
    /// The times until which replicas reach no server.
    pub(super) partitions: BTreeMap<usize, Instant>,
    /// The times until which servers are down or not ready.
    pub(super) down: BTreeMap<usize, Instant>,
    /// Counts the changes that count as activity.
    pub(super) activity: u64,
    /// The number of processes that have died and not started again.
    pub(super) absent: usize,
    lives: Vec<Weak<Life>>,
    main: Option<Waker>,
}

/// Variants of objects by their slots.
pub(super) type Wishes = BTreeMap<usize, usize>;

/// A check that fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Violation {
    pub(super) check: String,
    pub(super) what: String,
    /// Whether real time decided it, so that it is slow to repeat.
    pub(super) is_real_time: bool,
}

impl Shared {
    pub(super) fn new(spec: &Arc<Spec>, seed: u64, settings: Settings) -> Arc<Self> {
        let mut config = spec.config.clone();
        config.watch_list &= settings.streams;
        config.bookmarks &= settings.bookmarks;
        if settings.gone_http {
            config.gone = informer_mock::Gone::Http;
        }
        if settings.forgetful {
            config = config.forgetful();
        }
        config.collects_garbage &= !settings.slow_deletion;
        config.graceful_pods |= settings.slow_deletion;
        // A request always takes some time, or a loop of them would never end.
        config.latency = config.latency.max(Duration::from_millis(1));
        let mut server = FakeServer::with_config(seed, config);
        for setup in &spec.setups {
            setup(&mut server);
        }
        if spec.config.requires_namespaces {
            spec.add_namespaces(&mut server);
        }
        server.add_server();
        let mock = Mock::with_clock(server, TokioClock::new());
        let start = mock.clock().now();
        let mut state = State::default();
        state.trace.lane("API server");
        Arc::new(Self {
            mock,
            spec: Arc::clone(spec),
            seed,
            settings,
            start,
            tokio_start: tokio::time::Instant::now(),
            state: Mutex::new(state),
            outside: Mutex::default(),
        })
    }

    /// Nothing of the user runs while the state is locked.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        self.mock.clock().now()
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.now().saturating_duration_since(self.start)
    }

    /// Returns the start of the run by tokio's clock, and the time of day then, in nanoseconds since the Unix epoch.
    pub(super) fn clock(&self) -> (tokio::time::Instant, u64) {
        let epoch = self.mock.read(|server| server.config().epoch);
        (self.tokio_start, epoch.saturating_mul(1_000_000_000))
    }

    /// Returns the seconds by which the clock of a replica is ahead.
    pub(super) fn skew(&self, replica: usize) -> i64 {
        let jumps = self.state().jumps.get(&replica).copied();
        let replica = i64::try_from(replica).unwrap_or(i64::MAX);
        let skew = self.settings.skew.saturating_mul(replica);
        skew + self.settings.ahead + jumps.unwrap_or(0)
    }

    /// Returns how late a watch is, by the number of its request.
    pub(super) fn late(&self, number: usize) -> Duration {
        if self.state().is_calm {
            return Duration::ZERO;
        }
        let dice = &mut Dice::of(&[self.seed, number as u64, 12]);
        Duration::from_millis(dice.below(self.settings.late_ms + 1))
    }

    /// Returns the server that new requests of a replica go to.
    pub(super) fn route(&self, replica: usize) -> usize {
        self.state().routes.get(&replica).copied().unwrap_or(0)
    }

    /// Calls a function while new requests go to the server of a replica.
    pub(super) fn on_route<T>(&self, replica: usize, open: impl FnOnce() -> T) -> T {
        let server = self.route(replica);
        self.mock.with(|server_of| server_of.route_to(server));
        let opened = open();
        self.mock.with(|server_of| server_of.route_to(0));
        opened
    }

    /// Whether the processes of a replica do not run now.
    pub(super) fn is_paused(&self, replica: usize) -> bool {
        let until = self.state().pauses.get(&replica).copied();
        until.is_some_and(|until| until > self.now())
    }

    /// Counts a fault that had an effect.
    pub(super) fn fired(&self, kind: FaultKind) {
        *self.state().tally.faults.entry(kind).or_default() += 1;
    }

    pub(super) fn outside<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut outside = self.outside.lock().unwrap_or_else(PoisonError::into_inner);
        let found = outside
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        Arc::clone(found)
            .downcast()
            .unwrap_or_else(|_| unreachable!("it is stored by its type"))
    }

    pub(super) fn resource(&self, name: &str) -> Option<OwnedResource> {
        self.mock.read(|server| server.resource(name))
    }

    pub(super) fn live(&self, life: &Arc<Life>) {
        let mut state = self.state();
        state.lives.retain(|life| life.strong_count() > 0);
        state.lives.push(Arc::downgrade(life));
    }

    pub(super) fn lives(&self) -> Vec<Arc<Life>> {
        let state = self.state();
        state.lives.iter().filter_map(Weak::upgrade).collect()
    }

    /// Sets the waker of the run itself, which polls all processes.
    pub(super) fn set_main(&self, waker: &Waker) {
        let mut state = self.state();
        if !state
            .main
            .as_ref()
            .is_some_and(|main| main.will_wake(waker))
        {
            state.main = Some(waker.clone());
        }
    }

    /// Drops the waker of the run, which keeps its runtime.
    pub(super) fn forget_main(&self) {
        self.state().main = None;
    }

    pub(super) fn wake_main(&self) {
        let main = self.state().main.clone();
        if let Some(main) = main {
            main.wake();
        }
    }
}

/// # Records
impl Shared {
    pub(super) fn record(&self, lane: usize, kind: EntryKind, what: String) {
        self.record_body((lane, trace::SERVER), kind, None, what, &[]);
    }

    pub(super) fn record_body(
        &self,
        (lane, peer): (usize, usize),
        kind: EntryKind,
        request: Option<usize>,
        what: String,
        body: &[u8],
    ) {
        let at = self.elapsed();
        self.state().trace.entries.push(Entry {
            at,
            kind,
            lane,
            peer,
            request,
            what,
            detail: trace::shorten(body),
            raw: Vec::new(),
            hash: trace::hash(body),
        });
    }

    /// Records an event of a watch, which is described when the run has failed.
    pub(super) fn record_event(&self, lane: usize, request: usize, raw: Vec<u8>) {
        let at = self.elapsed();
        self.state().trace.entries.push(Entry {
            at,
            kind: EntryKind::Event,
            lane,
            peer: trace::SERVER,
            request: Some(request),
            what: String::new(),
            detail: String::new(),
            hash: 0,
            raw,
        });
    }

    pub(super) fn lane(&self, name: &str) -> usize {
        self.state().trace.lane(name)
    }

    /// Records that a check fails, and ends the run. Only the first one counts.
    pub(super) fn violate(&self, check: &str, what: &str) {
        self.fail(check, what, false);
    }

    /// Like [`violate`](Self::violate), if real time decides that it fails.
    pub(super) fn violate_in_real_time(&self, check: &str, what: &str) {
        self.fail(check, what, true);
    }

    fn fail(&self, check: &str, what: &str, is_real_time: bool) {
        let is_first = {
            let mut state = self.state();
            let is_first = state.violation.is_none() && !state.is_over;
            if is_first {
                state.violation = Some(Violation {
                    check: check.to_owned(),
                    what: what.to_owned(),
                    is_real_time,
                });
            }
            is_first
        };
        if is_first {
            let text = format!("\"{check}\" does not hold: {what}");
            self.record(trace::SERVER, EntryKind::Note, text);
            self.wake_main();
        }
    }

    /// Checks what must always hold, after a change. Changes of a resource that is written periodically do not count
    /// as activity, nor do those outside of the cluster, which may be no changes.
    pub(super) fn changed(self: &Arc<Self>, plural: &str) {
        if !["leases", "events", ""].contains(&plural) {
            self.state().activity += 1;
        }
        for check in self.spec.checks.iter().filter(|check| check.always) {
            if let Err(what) = self.test(check) {
                self.violate(&check.name, &what);
            }
        }
        self.wake_main();
    }

    /// Checks what must hold in the end. Returns the name of the first check that fails, and why.
    pub(super) fn check_end(self: &Arc<Self>) -> Result<(), (String, String)> {
        for check in &self.spec.checks {
            self.test(check)
                .map_err(|what| (check.name.clone(), what))?;
        }
        Ok(())
    }

    fn test(self: &Arc<Self>, check: &Check) -> Result<(), String> {
        let world = World {
            shared: Arc::clone(self),
        };
        context::catch(|| (check.test)(&world))
    }
}

/// # Writes by other actors
impl Shared {
    /// Sends a write to the server at once, and records it.
    pub(super) fn write(
        self: &Arc<Self>,
        lane: usize,
        method: &str,
        target: &str,
        body: &Value,
    ) -> (u16, Value) {
        let (content_type, body) = body_of(method, body);
        let write = Write {
            method,
            target,
            content_type,
            body: &body,
        };
        let now = self.now();
        let (before, status, answer, after) = self.mock.with(|server| {
            let before = server.version();
            let (status, answer) = server.execute(now, write);
            (before, status, answer, server.version())
        });
        let what = format!("{method} {target}: {status}");
        self.record_body((lane, trace::SERVER), EntryKind::Change, None, what, &body);
        if before != after {
            self.changed(plural_of(target));
        }
        (status, serde_json::from_slice(&answer).unwrap_or_default())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("seed", &self.seed)
            .field("elapsed", &self.elapsed())
            .finish_non_exhaustive()
    }
}

/// A future in a box, on the thread of its run.
pub(super) type Running = Pin<Box<dyn Future<Output = ()>>>;
