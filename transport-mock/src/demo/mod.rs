//! A demo cluster: several hundred Pods and a few other objects, which change continuously.

mod objects;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use informer_core::Instant;
use informer_core::time::Rng;
use serde_json::Value;

use self::objects::{APPS, PHASES};
use crate::seed;
use crate::server::FakeServer;
use crate::template::Template;

/// The settings of a demo cluster. The same settings give the same objects and the same changes.
///
/// ```
/// use core::time::Duration;
/// use informer_mock::demo::Demo;
/// use informer_mock::{FakeServer, Instant};
///
/// let demo = Demo::new(7).pods(50).rate(10);
/// let mut server = FakeServer::new(7);
/// demo.fill(&mut server);
/// assert_eq!(server.objects("pods").count(), 50);
///
/// let before = server.version();
/// let mut changes = demo.changes(Instant::from_micros(0));
/// changes.run_to(&mut server, Instant::from_micros(0) + Duration::from_secs(2));
/// assert!(server.version() >= before + 15, "10 changes a second");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demo {
    pods: usize,
    namespaces: usize,
    nodes: usize,
    seed: u64,
    rate: u32,
    cut_every: Option<Duration>,
    compact_every: Option<Duration>,
}

impl Demo {
    /// Creates a demo with 300 Pods in 5 namespaces on 10 nodes, and 5 changes per second. Watches are cut every 45 s,
    /// and history is compacted every 2 minutes.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let (cut_every, compact_every) = (
            Some(Duration::from_secs(45)),
            Some(Duration::from_secs(120)),
        );
        Self {
            pods: 300,
            namespaces: 5,
            nodes: 10,
            seed,
            rate: 5,
            cut_every,
            compact_every,
        }
    }

    /// Sets the number of Pods. It stays about the same over time.
    #[must_use]
    pub const fn pods(self, pods: usize) -> Self {
        Self { pods, ..self }
    }

    /// Sets the number of namespaces, at least 1.
    #[must_use]
    pub fn namespaces(self, namespaces: usize) -> Self {
        Self {
            namespaces: namespaces.max(1),
            ..self
        }
    }

    /// Sets the number of nodes, at least 1.
    #[must_use]
    pub fn nodes(self, nodes: usize) -> Self {
        Self {
            nodes: nodes.max(1),
            ..self
        }
    }

    /// Sets the number of changes per second; 0 makes none.
    #[must_use]
    pub const fn rate(self, per_second: u32) -> Self {
        Self {
            rate: per_second,
            ..self
        }
    }

    /// Sets how often all watches are cut.
    #[must_use]
    pub const fn cut_every(self, cut_every: Option<Duration>) -> Self {
        Self { cut_every, ..self }
    }

    /// Sets how often history is compacted while the watches are down, so that they fail with 410.
    #[must_use]
    pub const fn compact_every(self, compact_every: Option<Duration>) -> Self {
        Self {
            compact_every,
            ..self
        }
    }

    /// Creates the objects in a server, and compacts the history of their creation.
    pub fn fill(&self, server: &mut FakeServer) {
        let mut rng = Rng::new(self.seed);
        let pods = PodMaker::new(server);
        for index in 0..self.nodes {
            put(server, "nodes", objects::node(index));
        }
        for index in 0..self.namespaces {
            let namespace = objects::namespace(index);
            put(server, "namespaces", objects::bare("", &namespace));
            put(server, "configmaps", objects::config_map(&namespace, 0));
            for app in APPS {
                put(server, "services", objects::service(&namespace, app));
                put(
                    server,
                    "deployments.apps",
                    objects::deployment(&namespace, app, 1),
                );
            }
        }
        for serial in 0..self.pods {
            pods.create(self, server, &mut rng, serial as u64);
        }
        server.compact(server.version());
    }

    /// Returns the changes from a time on, for a server that has been filled.
    #[must_use]
    pub fn changes(&self, start: Instant) -> Changes {
        let first = |every: Option<Duration>| every.map(|every| start + every);
        Changes {
            demo: self.clone(),
            rng: Rng::new(self.seed ^ 0x5eed),
            serial: self.pods as u64,
            pods: Vec::new(),
            next_change: self.period().map(|period| start + period),
            next_cut: first(self.cut_every),
            next_compaction: first(self.compact_every),
        }
    }

    /// Fills the server of a mock, and returns a future that changes it for ever, which is meant to be spawned.
    ///
    /// The server is filled when this returns, so a server that is opened afterwards never answers without the objects.
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_mock::demo::Demo;
    /// use informer_mock::{FakeServer, Mock, Simulation};
    ///
    /// let mock = Mock::new(FakeServer::new(1));
    /// let changes = Demo::new(1).pods(20).run(mock.clone());
    /// assert_eq!(mock.with(|server| server.objects("pods").count()), 20);
    ///
    /// let mut simulation = Simulation::new(mock.clock());
    /// simulation.spawn(changes);
    /// simulation.run_for(Duration::from_secs(600));
    /// assert!(mock.with(|server| server.objects("pods").count()).abs_diff(20) <= 10);
    /// ```
    #[cfg(feature = "std")]
    pub fn run<T: informer_core::Timer + Clone>(
        self,
        mock: crate::Mock<FakeServer, T>,
    ) -> impl Future<Output = ()> {
        let mut timer = mock.clock().clone();
        mock.with(|server| self.fill(server));
        let mut changes = self.changes(timer.now());
        async move {
            loop {
                match changes.next_at() {
                    Some(next) => timer.sleep_until(next).await,
                    None => core::future::pending().await,
                }
                let now = timer.now();
                mock.with(|server| changes.run_to(server, now));
            }
        }
    }

    fn period(&self) -> Option<Duration> {
        Duration::from_secs(1).checked_div(self.rate)
    }
}

/// Creates Pods from a template for each application and phase.
#[derive(Debug)]
struct PodMaker {
    templates: Vec<Template>,
}

impl PodMaker {
    fn new(server: &FakeServer) -> Self {
        let kinds = APPS
            .iter()
            .flat_map(|app| PHASES[..2].iter().map(move |phase| (app, phase)));
        let templates =
            kinds.filter_map(|(app, phase)| server.template("pods", &objects::pod(app, phase)));
        Self {
            templates: templates.collect(),
        }
    }

    /// Creates a Pod and returns its namespace and name.
    fn create(
        &self,
        demo: &Demo,
        server: &mut FakeServer,
        rng: &mut Rng,
        serial: u64,
    ) -> (String, String) {
        let namespace = objects::namespace(below(rng, demo.namespaces));
        let (app, phase) = (below(rng, APPS.len()), below(rng, 2));
        let node = objects::node_name(below(rng, demo.nodes));
        let hash = format!("{:08x}", rng.next() >> 32);
        let name = format!("{}-{hash}-{}", APPS[app], seed::suffix(rng));
        let (ip, tag) = (objects::pod_ip(serial), format!("{}", serial % 20));
        if let Some(template) = self.templates.get(2 * app + phase) {
            let fill = |hole: &str, out: &mut String| {
                *out += match hole {
                    "node" => &node,
                    "hash" => &hash,
                    "ip" => &ip,
                    _ => &tag,
                };
            };
            // The server has the resource `pods`.
            let _ = server.create_from("pods", template, (&namespace, &name), fill);
        }
        (namespace, name)
    }
}

/// The changes of a demo, in the order of their times.
#[derive(Clone, Debug)]
pub struct Changes {
    demo: Demo,
    rng: Rng,
    /// Counts Pods and their changes.
    serial: u64,
    /// The namespace and name of each Pod. It is empty until it is first needed.
    pods: Vec<(String, String)>,
    next_change: Option<Instant>,
    next_cut: Option<Instant>,
    next_compaction: Option<Instant>,
}

impl Changes {
    /// Returns the time of the next change; `None` if there is none.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        [self.next_change, self.next_cut, self.next_compaction]
            .into_iter()
            .flatten()
            .min()
    }

    /// Makes the changes up to a time. If more than 10,000 are due, the rest is skipped.
    pub fn run_to(&mut self, server: &mut FakeServer, now: Instant) {
        for _ in 0..10_000 {
            let Some(next) = self.next_at().filter(|next| *next <= now) else {
                return;
            };
            self.step(server, next);
        }
        // After a long pause, such as a sleeping laptop, the missed changes are not made up for.
        let fresh = self.demo.changes(now);
        (self.next_change, self.next_cut, self.next_compaction) =
            (fresh.next_change, fresh.next_cut, fresh.next_compaction);
    }

    fn step(&mut self, server: &mut FakeServer, at: Instant) {
        if self.next_compaction.is_some_and(|next| next <= at) {
            self.next_compaction = self.demo.compact_every.map(|every| at + later(every));
            server.cut_watches();
            server.compact_all();
        } else if self.next_cut.is_some_and(|next| next <= at) {
            self.next_cut = self.demo.cut_every.map(|every| at + later(every));
            server.cut_watches();
        } else {
            self.next_change = self.demo.period().map(|period| at + period);
            self.change(server);
        }
    }

    fn change(&mut self, server: &mut FakeServer) {
        if self.pods.is_empty() {
            self.pods = server
                .objects("pods")
                .map(|pod| (pod.namespace().into(), pod.name().into()))
                .collect();
        }
        self.serial += 1;
        let (have, want) = (self.pods.len(), self.demo.pods);
        match below(&mut self.rng, 100) {
            0..10 if have < want + want / 4 => self.create(server),
            10..20 if have > want.saturating_sub(want / 4).max(1) => self.delete(server),
            20..26 => self.change_another(server),
            _ if have == 0 => self.create(server),
            _ => self.change_phase(server),
        }
    }

    fn create(&mut self, server: &mut FakeServer) {
        let maker = PodMaker::new(server);
        self.pods
            .push(maker.create(&self.demo, server, &mut self.rng, self.serial));
    }

    fn delete(&mut self, server: &mut FakeServer) {
        let index = below(&mut self.rng, self.pods.len());
        let (namespace, name) = self.pods.swap_remove(index);
        // The test may have deleted it already.
        let _ = server.delete("pods", &namespace, &name);
    }

    fn change_phase(&mut self, server: &mut FakeServer) {
        let index = below(&mut self.rng, self.pods.len());
        let Some((namespace, name)) = self.pods.get(index) else {
            return;
        };
        let Some(mut pod) = server.get("pods", namespace, name) else {
            return;
        };
        let phase = PHASES[below(&mut self.rng, PHASES.len())];
        let app = String::from(
            pod["metadata"]["labels"]["app"]
                .as_str()
                .unwrap_or_default(),
        );
        let ip = objects::pod_ip(self.serial);
        pod["status"] = objects::pod_status(
            &app,
            phase,
            &ip,
            &format!("{}", self.serial % 20),
            self.serial % 5,
        );
        put(server, "pods", pod);
    }

    fn change_another(&mut self, server: &mut FakeServer) {
        let namespace = objects::namespace(below(&mut self.rng, self.demo.namespaces));
        if below(&mut self.rng, 2) == 0 {
            put(
                server,
                "configmaps",
                objects::config_map(&namespace, self.serial),
            );
        } else {
            let app = APPS[below(&mut self.rng, APPS.len())];
            put(
                server,
                "deployments.apps",
                objects::deployment(&namespace, app, 1 + self.serial % 9),
            );
        }
    }
}

/// The demo's objects are valid. The call can only fail if the test changed the server's objects, which does no harm.
fn put(server: &mut FakeServer, resource: &str, object: Value) {
    let _ = server.put(resource, object);
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    usize::try_from(rng.below(bound as u64)).unwrap_or(0)
}

/// A period of zero would stop time.
fn later(every: Duration) -> Duration {
    every.max(Duration::from_millis(1))
}
