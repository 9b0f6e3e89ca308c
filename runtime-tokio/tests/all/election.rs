//! Elections among replicas, on paused time.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use futures_util::stream;
use informer_core::queue::Exponential;
use informer_mock::json;
use informer_tokio::controller::{Controller, ControllerHandle};
use informer_tokio::election::{Election, ElectionConfig, Leadership};
use informer_tokio::{Informer, Key, Raw, Resource};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::leases::{Access, Leases};
use crate::support::{PODS, Server, numbered, secs, server_of};

const LEASE: &str = "lease";

fn join(leases: &Leases, name: &str) -> (Leadership, JoinHandle<()>) {
    let (leadership, election) = elect(leases, name);
    (leadership, tokio::spawn(election.run()))
}

fn elect(leases: &Leases, name: &str) -> (Leadership, Election<Access>) {
    Election::new(leases.access(LEASE, name), name, ElectionConfig::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_the_next_one_leads() {
    let leases = Leases::default();
    let (a, _a) = join(&leases, "a");
    assert!(a.acquired().await);
    let (b, _b) = join(&leases, "b");
    sleep(secs(60)).await;
    assert!(a.is_leader() && !b.is_leader());
    assert_eq!(b.holder().as_deref(), Some("a"));

    // A few requests that fail cost it nothing.
    for name in ["a", "b"] {
        leases.refuse(name);
    }
    let worked = a.while_leading(sleep(secs(5))).await;
    assert!(worked.is_some() && a.error().is_some() && b.error().is_some());
    for name in ["a", "b"] {
        leases.reconnect(name);
    }
    let worked = a.while_leading(sleep(secs(5))).await;
    assert!(worked.is_some() && !b.is_leader());
    assert_eq!((a.error(), b.error()), (None, None));

    leases.cut_off("a");
    let worked = a.while_leading(sleep(secs(3600))).await;
    assert!(worked.is_none() && !a.is_leader());
    assert!(
        !b.is_leader(),
        "the one has stopped before the other begins"
    );
    timeout(secs(20), b.acquired()).await.unwrap();
    assert!(b.is_leader() && !a.is_leader());
    assert_eq!(b.while_leading(async { 7 }).await, Some(7));

    // Its writes in the meantime are not trusted, and it sees another holder.
    leases.reconnect("a");
    sleep(secs(60)).await;
    assert!(b.is_leader() && !a.is_leader());
    assert_eq!(a.holder().as_deref(), Some("b"));
    assert_eq!(a.while_leading(async { 7 }).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_resigns_is_replaced_at_once() {
    let leases = Leases::default();
    let (a, a_runs) = join(&leases, "a");
    assert!(a.acquired().await);
    let (b, _b) = join(&leases, "b");
    sleep(secs(5)).await;
    let losing = a.lost();
    let ((), ()) = tokio::join!(losing, a.resign());
    assert!(!a.is_leader() && !a.acquired().await);
    a_runs.await.unwrap();
    timeout(secs(3), b.acquired()).await.unwrap();
    assert!(b.is_leader());
    // It also leaves when all handles were dropped.
    let (c, _c) = join(&leases, "c");
    drop(b);
    timeout(secs(5), c.acquired()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_leads_until_its_time_is_over_and_no_longer() {
    let leases = Leases::default();
    let (a, a_runs) = join(&leases, "a");
    assert!(a.acquired().await);
    let (b, _b) = join(&leases, "b");
    sleep(secs(5)).await;
    a_runs.abort();
    let start = tokio::time::Instant::now();
    a.lost().await;
    assert!(!a.is_leader() && start.elapsed() <= secs(10));
    assert!(!b.is_leader());
    assert!(timeout(secs(20), b.acquired()).await.unwrap());
    assert!(!a.acquired().await, "it never will");
}

/// Controllers that write to a server, of which only the leader may.
struct Team {
    leases: Leases,
    mock: Server,
    /// The runs that have begun and ended, by replica.
    runs: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
    /// The number of each attempt, by replica.
    attempts: Arc<Mutex<Vec<(&'static str, u32)>>>,
}

impl Team {
    fn new() -> Self {
        Self {
            leases: Leases::default(),
            mock: server_of(numbered(1)),
            runs: Arc::default(),
            attempts: Arc::default(),
        }
    }

    /// Starts a controller whose runs fail after three seconds, and whose keys are retried after one.
    fn start(&self, name: &'static str) -> (ControllerHandle, Leadership, JoinHandle<()>) {
        let (leadership, election) = elect(&self.leases, name);
        let transport = self.mock.transport();
        let controller = Controller::new(Informer::<Raw>::builder_for(&transport, PODS))
            .limit(Exponential::new(secs(1), secs(1)))
            .on_failure(|_, _| {})
            .elected((leadership.clone(), election));
        let (handle, runs) = (controller.handle(), Arc::clone(&self.runs));
        let attempts = Arc::clone(&self.attempts);
        let running = controller.run(move |task| {
            let runs = Arc::clone(&runs);
            attempts.lock().unwrap().push((name, task.attempt()));
            async move {
                let run = Run(runs, name);
                run.note("begins");
                sleep(secs(3)).await;
                Err::<(), _>("not yet")
            }
        });
        let running = async {
            running.await.unwrap();
        };
        (handle, leadership, tokio::spawn(running))
    }

    fn holder(&self) -> Option<String> {
        self.leases.holder(LEASE)
    }

    fn runs(&self) -> Vec<(&'static str, &'static str)> {
        core::mem::take(&mut *self.runs.lock().unwrap())
    }
}

struct Run(Arc<Mutex<Vec<(&'static str, &'static str)>>>, &'static str);

impl Run {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push((self.1, what));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.note("ends");
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_stops_releases_the_lease_after_its_last_run() {
    let team = Team::new();
    let (a, _a_leads, a_runs) = team.start("a");
    sleep(secs(2)).await;
    let (_b, _b_leads, _b_runs) = team.start("b");
    sleep(secs(60)).await;
    assert!(team.runs().iter().all(|(name, _)| *name == "a"));
    while team.runs() != [("a", "begins")] {
        sleep(Duration::from_millis(100)).await;
    }
    a.stop();
    sleep(secs(2)).await;
    assert_eq!(team.holder().as_deref(), Some("a"), "a run is going on");
    a_runs.await.unwrap();
    assert_eq!(team.holder().as_deref(), Some(""));
    assert_eq!(team.runs(), [("a", "ends")]);
    sleep(secs(3)).await;
    assert_eq!(team.runs()[0], ("b", "begins"));
}

/// The future of `run` is dropped during a run, and the handles of the election live on.
#[tokio::test(start_paused = true)]
async fn a_controller_that_is_dropped_releases_the_lease() {
    let team = Team::new();
    let (_a, leads, a_runs) = team.start("a");
    sleep(secs(2)).await;
    assert!(leads.is_leader());
    a_runs.abort();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(team.runs(), [("a", "begins"), ("a", "ends")]);
    assert_eq!(team.holder().as_deref(), Some(""));
    assert!(!leads.is_leader());
}

/// A leader that is cut off loses its runs, continues as a candidate, and works again once it leads.
#[tokio::test(start_paused = true)]
async fn a_controller_that_loses_the_lease_waits_for_it() {
    let team = Team::new();
    let (a, leads, a_runs) = team.start("a");
    sleep(secs(2)).await;
    let (b, _, b_runs) = team.start("b");
    sleep(secs(5)).await;
    team.leases.cut_off("a");
    sleep(secs(30)).await;
    let runs = team.runs();
    let first = runs.iter().position(|run| *run == ("b", "begins")).unwrap();
    assert_eq!(runs[first - 1], ("a", "ends"), "{runs:?}");
    assert!(runs[first..].iter().all(|(name, _)| *name == "b"));
    assert!(a.metrics().cut > 0 && !leads.is_leader());

    team.leases.reconnect("a");
    b.stop();
    b_runs.await.unwrap();
    team.runs();
    let before = core::mem::take(&mut *team.attempts.lock().unwrap());
    assert!(before.contains(&("a", 1)), "{before:?}");
    sleep(secs(15)).await;
    assert_eq!(team.runs()[0], ("a", "begins"));
    assert_eq!(team.attempts.lock().unwrap()[0], ("a", 0));
    // The controller ends with the election.
    leads.resign().await;
    timeout(secs(5), a_runs).await.unwrap().unwrap();
}

/// Not only those of its objects: those that other objects lead to, and those of a stream, a handle and a deletion too.
#[tokio::test(start_paused = true)]
async fn a_new_leader_reconciles_every_key_that_came_before() {
    let (leases, mock) = (Leases::default(), server_of(numbered(1)));
    let config = |name: &str| json!({ "metadata": { "namespace": "prod", "name": name } });
    mock.create("configmaps", config("left")).unwrap();
    mock.create("configmaps", config("gone")).unwrap();
    let start = |name: &'static str| {
        let (leadership, election) = elect(&leases, name);
        let informer = |resource| Informer::<Raw>::builder_for(&mock.transport(), resource).spawn();
        let controller = Controller::new(informer(PODS))
            .watches(informer(Resource::new("", "v1", "configmaps")), |config| {
                [Key::new(&format!("of/{}", config.name()))]
            })
            .reconcile_on(stream::iter(["of/stream", "of/stream"].map(Key::new)))
            .elected((leadership.clone(), election));
        let (handle, runs) = (controller.handle(), Arc::<Mutex<Vec<String>>>::default());
        let noted = Arc::clone(&runs);
        tokio::spawn(controller.run(move |task| {
            noted.lock().unwrap().push(task.key().to_string());
            core::future::ready(Ok::<_, std::io::Error>(()))
        }));
        let take = move || {
            let mut runs = core::mem::take(&mut *runs.lock().unwrap());
            runs.sort();
            runs
        };
        (handle, leadership, take)
    };
    let (a, _a_leads, a_runs) = start("a");
    sleep(secs(5)).await;
    assert_eq!(
        a_runs(),
        ["of/gone", "of/left", "of/stream", "prod/p0"],
        "it is alone, and was elected after its informers were synced"
    );
    let (b, b_leads, b_runs) = start("b");
    sleep(secs(5)).await;
    for _ in 0..2 {
        b.enqueue(Key::new("of/handle"));
    }
    mock.delete("configmaps", "prod", "gone").unwrap();
    sleep(secs(5)).await;
    assert_eq!((a_runs(), b_runs()), (vec!["of/gone".to_owned()], vec![]));
    a.stop();
    sleep(secs(5)).await;
    assert_eq!(
        b_runs(),
        ["of/gone", "of/handle", "of/left", "of/stream", "prod/p0"]
    );
    // Another term begins with what exists, and with what came in between.
    leases.cut_off("b");
    b_leads.lost().await;
    b.enqueue(Key::new("of/handle"));
    leases.reconnect("b");
    sleep(secs(5)).await;
    assert_eq!(b_runs(), ["of/handle", "of/left", "prod/p0"]);
}

/// Without the right to its Lease, a replica never reconciles anything, and everybody who asks learns why.
#[tokio::test(start_paused = true)]
async fn an_election_that_cannot_reach_its_lease_is_shown() {
    // During the first read, and during the creation that follows it.
    an_unreachable_lease_is_shown(0, "cannot read the Lease: ").await;
    an_unreachable_lease_is_shown(45, "cannot write the Lease: ").await;
}

async fn an_unreachable_lease_is_shown(from: u64, first: &str) {
    let (leases, mock) = (Leases::default(), server_of(numbered(1)));
    let (leadership, election) = elect(&leases, "a");
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hook = Arc::clone(&heard);
    let election = election.on_error(move |error| {
        hook.lock().unwrap().push(error.to_owned());
        panic!("the hook panics as well");
    });
    let informer = Informer::<Raw>::builder_for(&mock.transport(), PODS);
    let controller = Controller::new(informer).elected((leadership.clone(), election));
    let handle = controller.handle();
    tokio::spawn(controller.run(|_| core::future::ready(Ok::<_, std::io::Error>(()))));
    sleep(Duration::from_millis(from)).await;
    leases.cut_off("a");
    sleep(secs(60)).await;
    let metrics = handle.metrics();
    let error = metrics.election_error.unwrap();
    assert!(error.starts_with("cannot read the Lease: "), "{error}");
    assert_eq!((metrics.is_active, metrics.succeeded), (Some(false), 0));
    assert_eq!(leadership.error(), Some(error.clone()));
    let heard = heard.lock().unwrap().clone();
    assert!(heard.len() > 3 && heard[0].starts_with(first), "{heard:?}");
    assert!(heard[1..].iter().all(|heard| *heard == error));

    leases.reconnect("a");
    sleep(secs(60)).await;
    let metrics = handle.metrics();
    assert_eq!(
        (metrics.is_active, metrics.election_error),
        (Some(true), None)
    );
    assert_eq!(metrics.succeeded, 1);
}
