//! Replicas that share keys and fail, on paused time.
#![allow(clippy::unwrap_used, reason = "a test may")]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informer_mock::{FakeServer, Mock, MutationError, TokioClock, json};
use informer_tokio::controller::{Controller, ControllerHandle, Task};
use informer_tokio::election::{LeaseClient, LeaseRecord, MembersClient, Replica, Written};
use informer_tokio::{Informer, Key, Lister, Raw, Resource};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

type Server = Mock<FakeServer, TokioClock>;

/// The access of one replica to the Leases.
#[derive(Clone)]
struct Api {
    mock: Server,
    name: String,
    is_cut: Arc<AtomicBool>,
    renewals: Arc<AtomicU64>,
}

impl Api {
    /// A request takes time, and none arrives if the connection is cut.
    async fn reach(&self) {
        sleep(Duration::from_millis(30)).await;
        if self.is_cut.load(Ordering::Relaxed) {
            core::future::pending::<()>().await;
        }
    }

    fn object(&self, record: &LeaseRecord, version: Option<&str>) -> Value {
        let renewal = self.renewals.fetch_add(1, Ordering::Relaxed);
        json!({
            "metadata": { "namespace": "prod", "name": self.name, "resourceVersion": version.unwrap_or_default() },
            "spec": { "holderIdentity": record.holder, "renewTime": format!("{}-{renewal}", self.name) },
        })
    }
}

fn record(lease: &Value) -> LeaseRecord {
    let text = |member: &str| {
        lease["spec"][member]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    LeaseRecord {
        holder: text("holderIdentity"),
        renewed: text("renewTime"),
        ..LeaseRecord::default()
    }
}

fn written(result: Result<u64, MutationError>) -> Written {
    match result {
        Ok(version) => Written::Done(version.to_string()),
        Err(_) => Written::Conflict,
    }
}

impl LeaseClient for Api {
    type Error = String;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, String> {
        self.reach().await;
        let lease = self
            .mock
            .with(|server| server.get("leases", "prod", &self.name));
        Ok(lease.map(|lease| {
            let version = lease["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default();
            (record(&lease), version.to_owned())
        }))
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, String> {
        self.reach().await;
        Ok(written(
            self.mock.create("leases", self.object(record, None)),
        ))
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        version: &str,
        _: bool,
    ) -> Result<Written, String> {
        self.reach().await;
        Ok(written(
            self.mock
                .update("leases", self.object(record, Some(version))),
        ))
    }
}

impl MembersClient for Api {
    type Error = String;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, String> {
        self.reach().await;
        let leases = self.mock.with(|server| {
            let leases: Vec<String> = server
                .objects("leases")
                .map(|lease| lease.name().to_owned())
                .collect();
            let leases = leases.iter();
            leases
                .filter_map(|name| server.get("leases", "prod", name))
                .collect::<Vec<_>>()
        });
        Ok(leases.iter().map(record).collect())
    }

    async fn remove(&mut self, gone: &LeaseRecord) -> Result<(), String> {
        self.reach().await;
        self.mock.with(|server| {
            let names = server
                .objects("leases")
                .map(|lease| lease.name().to_owned());
            let names: Vec<String> = names.collect();
            let is_gone = |name: &&String| {
                let lease = server.get("leases", "prod", name);
                lease.is_some_and(|lease| record(&lease) == *gone)
            };
            if let Some(name) = names.iter().find(is_gone) {
                server.delete("leases", "prod", name).unwrap();
            }
        });
        Ok(())
    }
}

fn leases(mock: &Server) -> Vec<String> {
    mock.with(|server| {
        let leases = server.objects("leases");
        leases.map(|lease| lease.name().to_owned()).collect()
    })
}

/// The actions of all replicas, as seen by an observer.
#[derive(Default)]
struct Seen {
    /// The replica that processes each key now.
    running: BTreeMap<Key, String>,
    /// The version of the state with which each key was last reconciled.
    done: BTreeMap<String, String>,
    /// How often a key moved to another replica.
    moved: usize,
    last: BTreeMap<Key, String>,
    cut: usize,
}

type Observer = Arc<Mutex<Seen>>;

/// One run. It ends when this is dropped, whether it completed, was cut or was killed.
struct Run {
    observer: Observer,
    key: Key,
    is_done: bool,
}

impl Run {
    fn begin(observer: &Observer, key: &Key, who: &str) -> Self {
        let mut seen = observer.lock().unwrap();
        let before = seen.running.insert(key.clone(), who.to_owned());
        assert_eq!(before, None, "{key} is begun by {who} as well");
        let last = seen.last.insert(key.clone(), who.to_owned());
        seen.moved += usize::from(last.is_some_and(|last| last != who));
        drop(seen);
        Self {
            observer: Arc::clone(observer),
            key: key.clone(),
            is_done: false,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // If the assertion above failed, the lock is not available.
        if let Ok(mut seen) = self.observer.lock() {
            seen.running.remove(&self.key);
            seen.cut += usize::from(!self.is_done);
        }
    }
}

/// A replica: its tasks, and handles to disturb it.
struct One {
    api: Api,
    replica: Replica,
    controller: ControllerHandle,
    working: JoinHandle<()>,
    driver: JoinHandle<()>,
}

async fn reconcile(
    task: Task<Raw>,
    who: String,
    pods: Lister<Raw>,
    observer: Observer,
) -> Result<(), String> {
    let mut run = Run::begin(&observer, task.key(), &who);
    let version = pods
        .get_by_key(task.as_str())
        .map(|pod| pod.resource_version().to_string());
    // Some runs are long, by different times.
    let length = version
        .as_deref()
        .unwrap_or("0")
        .parse::<u64>()
        .unwrap_or_default()
        % 5;
    sleep(Duration::from_millis(200 + 1700 * length)).await;
    run.is_done = true;
    let mut seen = observer.lock().unwrap();
    seen.done
        .insert(task.to_string(), version.unwrap_or_default());
    Ok(())
}

impl One {
    fn start(mock: &Server, name: &str, observer: &Observer) -> Self {
        let api = Api {
            mock: mock.clone(),
            name: name.to_owned(),
            is_cut: Arc::default(),
            renewals: Arc::default(),
        };
        let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS).build();
        let (replica, work) =
            Replica::new(api.clone(), api.clone(), name, Default::default()).unwrap();
        let controller = Controller::new(&pods)
            .workers(5)
            .sharing((replica.clone(), work));
        let handle = controller.handle();
        let (who, observer, lister) = (name.to_owned(), Arc::clone(observer), pods.lister());
        let running = controller
            .run(move |task| reconcile(task, who.clone(), lister.clone(), Arc::clone(&observer)));
        Self {
            api,
            replica,
            controller: handle,
            working: tokio::spawn(async move {
                running.await.unwrap();
            }),
            driver: tokio::spawn(driver.run()),
        }
    }

    /// Ends at once, without notice.
    fn kill(self) {
        // The task that renews the Lease outlives the controller, but not a process.
        self.api.is_cut.store(true, Ordering::Relaxed);
        self.working.abort();
        self.driver.abort();
    }

    /// Ends regularly.
    async fn leave(self) {
        self.controller.stop();
        self.working.await.unwrap();
        self.driver.abort();
    }
}

/// A small pseudorandom generator, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn server(count: u64) -> Server {
    let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
    for number in 0..count {
        mock.create("pods", pod(number, 0)).unwrap();
    }
    mock
}

fn pod(number: u64, round: u64) -> Value {
    json!({ "metadata": { "namespace": "prod", "name": format!("p{number}") }, "spec": { "round": round } })
}

fn truth(mock: &Server) -> BTreeMap<String, String> {
    mock.with(|server| {
        let objects = server.objects("pods");
        objects
            .map(|object| (object.key(), object.version().to_string()))
            .collect()
    })
}

/// Three replicas. One is killed, cut off or ended at random times while another one begins. Each change of each key is
/// reconciled, and no key is processed by two at once.
#[tokio::test(start_paused = true)]
async fn every_key_is_done_and_by_one_at_a_time() {
    let (mut moved, mut cut) = (0, 0);
    for seed in 0..6 {
        let mock = server(12);
        let observer = Observer::default();
        let mut numbers = Numbers(seed);
        let mut started = 0;
        let mut replicas: Vec<One> = Vec::new();
        for round in 1..30 {
            while replicas.len() < 3 {
                started += 1;
                replicas.push(One::start(&mock, &format!("r{started}"), &observer));
            }
            for _ in 0..numbers.below(6) {
                mock.update("pods", pod(numbers.below(12), round)).unwrap();
            }
            sleep(Duration::from_millis(numbers.below(20_000))).await;
            let which = usize::try_from(numbers.below(3)).unwrap();
            match numbers.below(5) {
                0 => replicas.remove(which).kill(),
                1 => {
                    let cut = !replicas[which].api.is_cut.load(Ordering::Relaxed);
                    replicas[which].api.is_cut.store(cut, Ordering::Relaxed);
                }
                2 => replicas.remove(which).leave().await,
                _ => {}
            }
        }
        // One more change of everything, during which a replica is killed.
        for number in 0..12 {
            mock.update("pods", pod(number, 100)).unwrap();
        }
        sleep(secs(1)).await;
        replicas.remove(0).kill();
        for replica in &replicas {
            replica.api.is_cut.store(false, Ordering::Relaxed);
        }
        sleep(secs(90)).await;
        let mut alive: Vec<_> = replicas.iter().map(|one| one.api.name.clone()).collect();
        alive.sort();
        assert_eq!(leases(&mock), alive, "others are removed");
        let seen = observer.lock().unwrap();
        assert_eq!(seen.done, truth(&mock), "seed {seed}");
        moved += seen.moved;
        cut += seen.cut;
    }
    assert!(moved > 200 && cut > 15, "{moved} moved, {cut} were cut");
}

/// All replicas share the keys. The keys of a killed replica move after the duration of its Lease, and those of one
/// that leaves move at once.
#[tokio::test(start_paused = true)]
async fn keys_are_spread_and_move_when_they_have_to() {
    let mock = server(60);
    let observer = Observer::default();
    let a = One::start(&mock, "a", &observer);
    let b = One::start(&mock, "b", &observer);
    let c = One::start(&mock, "c", &observer);
    let keys: Vec<Key> = truth(&mock).keys().map(|key| Key::new(key)).collect();
    let owned = |of: &One| keys.iter().filter(|key| of.replica.owns(key)).count();
    sleep(secs(10)).await;
    assert_eq!(
        (owned(&a), owned(&b), owned(&c)),
        (0, 0, 0),
        "nobody is sure of the others"
    );
    sleep(secs(10)).await;
    assert_eq!(owned(&a) + owned(&b) + owned(&c), 60);
    assert!(owned(&a) > 10 && owned(&b) > 10 && owned(&c) > 10);
    let of_a = owned(&a);
    b.kill();
    sleep(secs(10)).await;
    assert_eq!(owned(&a), of_a, "it may yet be there");
    sleep(secs(10)).await;
    assert_eq!(owned(&a) + owned(&c), 60);
    let of_c = owned(&c);
    a.leave().await;
    sleep(secs(3)).await;
    assert!(of_c < 60 && owned(&c) == 60);
    // A replica that is cut off stops by itself, and its runs are cut.
    c.api.is_cut.store(true, Ordering::Relaxed);
    sleep(secs(13)).await;
    assert_eq!((owned(&c), c.controller.metrics().running), (0, 0));
    assert!(!c.replica.is_active());
}
