//! Replicas that share keys and fail, on paused time.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use informer_core::time::Rng;
use informer_tokio::controller::{Controller, ControllerHandle, Task};
use informer_tokio::election::Replica;
use informer_tokio::{Informer, Key, Lister, Raw};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::leases::Leases;
use crate::support::{PODS, Server, numbered, pod, secs, server_of, truth};

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
    name: String,
    leases: Leases,
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
    fn start(mock: &Server, leases: &Leases, name: &str, observer: &Observer) -> Self {
        let access = leases.access(name, name);
        let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS).build();
        let (replica, work) =
            Replica::new(access.clone(), access, name, Default::default()).unwrap();
        let controller = Controller::new(&pods)
            .workers(5)
            .sharing((replica.clone(), work));
        let handle = controller.handle();
        let (who, observer, lister) = (name.to_owned(), Arc::clone(observer), pods.lister());
        let running = controller
            .run(move |task| reconcile(task, who.clone(), lister.clone(), Arc::clone(&observer)));
        Self {
            name: name.to_owned(),
            leases: leases.clone(),
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
        self.leases.cut_off(&self.name);
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

/// Three replicas. One is killed, cut off or ended at random times while another one begins. Each change of each key is
/// reconciled, and no key is processed by two at once.
#[tokio::test(start_paused = true)]
async fn every_key_is_done_and_by_one_at_a_time() {
    let (mut moved, mut cut) = (0, 0);
    for seed in 0..6 {
        let mock = server_of(numbered(12));
        let (leases, observer) = (Leases::default(), Observer::default());
        let mut numbers = Rng::new(seed);
        let mut started = 0;
        let mut replicas: Vec<One> = Vec::new();
        for round in 2..31 {
            while replicas.len() < 3 {
                started += 1;
                replicas.push(One::start(
                    &mock,
                    &leases,
                    &format!("r{started}"),
                    &observer,
                ));
            }
            for _ in 0..numbers.below(6) {
                let name = format!("p{}", numbers.below(12));
                mock.update("pods", pod(&name, round)).unwrap();
            }
            sleep(Duration::from_millis(numbers.below(20_000))).await;
            let which = usize::try_from(numbers.below(3)).unwrap();
            match numbers.below(5) {
                0 => replicas.remove(which).kill(),
                1 => {
                    let name = &replicas[which].name;
                    if !leases.reconnect(name) {
                        leases.cut_off(name);
                    }
                }
                2 => replicas.remove(which).leave().await,
                _ => {}
            }
        }
        // One more change of everything, during which a replica is killed.
        for number in 0..12 {
            mock.update("pods", pod(&format!("p{number}"), 100))
                .unwrap();
        }
        sleep(secs(1)).await;
        replicas.remove(0).kill();
        for replica in &replicas {
            leases.reconnect(&replica.name);
        }
        sleep(secs(90)).await;
        let mut alive: Vec<_> = replicas.iter().map(|one| one.name.clone()).collect();
        alive.sort();
        assert_eq!(leases.names(), alive, "others are removed");
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
    let mock = server_of(numbered(60));
    let (leases, observer) = (Leases::default(), Observer::default());
    let a = One::start(&mock, &leases, "a", &observer);
    let b = One::start(&mock, &leases, "b", &observer);
    let c = One::start(&mock, &leases, "c", &observer);
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
    let of_b = owned(&b);
    a.kill();
    sleep(secs(10)).await;
    assert_eq!(owned(&b), of_b, "it may yet be there");
    sleep(secs(10)).await;
    assert_eq!(owned(&b) + owned(&c), 60);
    let of_c = owned(&c);
    assert!(b.replica.resign().now_or_never().is_none());
    assert_eq!(owned(&b), 0, "it has begun to leave");
    b.leave().await;
    sleep(secs(3)).await;
    assert!(of_c < 60 && owned(&c) == 60);

    // Some lists that fail cost nothing, and are shown.
    leases.refuse("c list");
    sleep(secs(5)).await;
    let error = c.replica.error().unwrap();
    assert_eq!(error, "cannot list the Leases of the replicas: refused");
    leases.reconnect("c list");
    sleep(secs(5)).await;
    assert_eq!((c.replica.error(), owned(&c)), (None, 60));
    // A Lease that cannot be removed, first since that fails, and then since there is no answer, stays alone.
    let removal = "c remove a";
    leases.refuse(removal);
    sleep(secs(120)).await;
    assert_eq!(leases.names(), ["a", "c"]);
    leases.cut_off(removal);
    sleep(secs(60)).await;
    assert_eq!(owned(&c), 60, "it goes on listing");
    leases.reconnect(removal);
    sleep(secs(60)).await;
    assert_eq!(leases.names(), ["c"]);
    // A replica that is cut off stops by itself, and all its runs are cut.
    leases.cut_off("c");
    for key in &keys {
        mock.update("pods", pod(key.name(), 2)).unwrap();
    }
    let before = c.controller.metrics().cut;
    sleep(secs(13)).await;
    let metrics = c.controller.metrics();
    assert_eq!((owned(&c), metrics.running), (0, 0));
    assert_eq!(metrics.cut - before, 5);
    assert!(!c.replica.is_active());
    // One whose controller is dropped leaves.
    leases.reconnect("c");
    sleep(secs(40)).await;
    assert_eq!(owned(&c), 60);
    c.working.abort();
    sleep(secs(1)).await;
    assert_eq!((owned(&c), leases.holder("c").as_deref()), (0, Some("")));
}
