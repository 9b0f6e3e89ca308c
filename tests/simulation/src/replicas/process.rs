//! One process: a controller on a runtime and a clock of its own.

use core::future::{pending, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex};

use informer_core::queue::Exponential;
use informer_mock::Mock;
use informer_tokio::controller::{Controller, ControllerHandle, Task};
use informer_tokio::election::{
    Election, Leadership, LeaseClient, LeaseRecord, MembersClient, Replica, Written,
};
use informer_tokio::{Informer, Key, Raw, Resource};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep, sleep_until};

use super::super::entropy::Entropy;
use super::super::runtime::lock;
use super::plan::{KEYS, World};

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");

pub(super) const KEY_NAMES: [&str; KEYS] = [
    "prod/a", "prod/b", "prod/c", "prod/d", "prod/e", "prod/f", "test/a", "test/b", "test/c",
    "test/d", "test/e", "test/f",
];

/// A request to the API server.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Read,
    Create(LeaseRecord),
    Update(LeaseRecord, String),
    List,
    Remove(LeaseRecord),
}

#[derive(Debug)]
pub(super) enum Answer {
    Read(Option<(LeaseRecord, String)>),
    Written(Written),
    List(Vec<LeaseRecord>),
    Removed,
}

pub(super) type Reply = Result<Answer, &'static str>;

pub(super) struct Request {
    pub(super) ask: Ask,
    /// On the clock of the process.
    pub(super) sent: Duration,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What a process and the world exchange.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) requests: Vec<Request>,
    /// The keys being reconciled, as bits.
    pub(super) running: u16,
    /// The keys reconciled, and the versions they were reconciled from.
    pub(super) done: Vec<(usize, u64)>,
    /// The number of runs cancelled.
    pub(super) cut: u64,
    /// A key that began although it was being reconciled.
    pub(super) twice: Option<usize>,
    /// It cannot reach its objects: its watch stands still, and runs fail.
    is_cut_off: bool,
    stalled: Option<Waker>,
    /// No run fails by itself any more.
    is_calm: bool,
    pub(super) said: Vec<String>,
}

/// What determines the keys of a process.
enum Seat {
    Member(Replica),
    Leader(Leadership),
}

pub(super) struct Process {
    pub(super) name: String,
    seat: Seat,
    controller: ControllerHandle,
    work: JoinHandle<()>,
    desk: Arc<Mutex<Desk>>,
    epoch: Instant,
    runtime: Runtime,
    pub(super) is_leaving: bool,
}

impl Process {
    pub(super) fn start(name: String, world: &World, seed: u64, mock: &Mock) -> io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build()?;
        let inside = runtime.enter();
        let (epoch, desk, config) = (Instant::now(), Arc::default(), world.config());
        let (pods, driver) = Informer::<Raw>::builder_for(&mock.transport(), PODS)
            .seed(seed)
            .build();
        drop(runtime.spawn(unless_cut_off(driver.run(), Arc::clone(&desk))));
        let controller = Controller::new(&pods)
            .workers(world.workers.into())
            .limit(Exponential::new(
                Duration::from_millis(5),
                Duration::from_secs(10),
            ))
            .drain(config.lease_duration)
            .on_failure(|_, _| {})
            .sync_within(None);
        let handle = controller.handle();
        let api = Api {
            desk: Arc::clone(&desk),
            epoch,
        };
        let (seat, controller) = if world.elects {
            let election = Election::new(api, name.as_str(), config).map_err(io::Error::other)?;
            let seat = Seat::Leader(election.0.clone());
            (seat, controller.elected(election))
        } else {
            let replica =
                Replica::new(api.clone(), api, name.as_str(), config).map_err(io::Error::other)?;
            let seat = Seat::Member(replica.0.clone());
            (seat, controller.sharing(replica))
        };
        let (shared, world) = (Arc::clone(&desk), world.clone());
        let dice = Arc::new(Mutex::new(Entropy::of(seed)));
        let work = runtime.spawn(async move {
            let run = move |task| {
                let mut dice = lock(&dice);
                let time = Duration::from_millis((dice.below(world.run) + 1).into());
                reconcile(task, Arc::clone(&shared), time, dice.one_in(world.failing))
            };
            // It fails only if its informer ends, which the simulation takes for the end of the process.
            drop(controller.run(run).await);
        });
        drop(inside);
        Ok(Self {
            name,
            seat,
            controller: handle,
            work,
            desk,
            epoch,
            runtime,
            is_leaving: false,
        })
    }

    /// Returns what its clock shows.
    pub(super) fn now(&self) -> Duration {
        let _inside = self.runtime.enter();
        self.epoch.elapsed()
    }

    /// Runs until its clock shows this time.
    pub(super) fn run_to(&self, time: Duration) {
        let until = self.epoch + time;
        self.runtime.block_on(async { sleep_until(until).await });
    }

    /// Lets its clock go on while nothing runs.
    pub(super) fn freeze_to(&self, time: Duration) {
        let jump = time.saturating_sub(self.now());
        let _inside = self.runtime.enter();
        // The clock moves when this is polled. Nothing waits for the end, which lets other tasks run.
        let _ = pin!(advance(jump)).poll(&mut Context::from_waker(Waker::noop()));
    }

    /// Runs what is due, without the passage of time.
    pub(super) fn catch_up(&self) {
        self.runtime.block_on(async {
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Exchanges requests and results.
    pub(super) fn desk(&self) -> impl core::ops::DerefMut<Target = Desk> {
        lock(&self.desk)
    }

    pub(super) fn cut_off(&self, is_cut_off: bool) {
        let mut desk = self.desk();
        desk.is_cut_off = is_cut_off;
        let stalled = desk.stalled.take_if(|_| !is_cut_off);
        drop(desk);
        stalled.into_iter().for_each(Waker::wake);
    }

    /// Ends the faults of its own.
    pub(super) fn calm(&self) {
        self.desk().is_calm = true;
    }

    /// Stops its controller; running keys have a grace period.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
        self.controller.stop();
    }

    pub(super) fn is_working(&self) -> bool {
        !self.is_leaving && !self.is_gone()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.work.is_finished()
    }

    /// Returns whether it may have keys at the time that its clock shows.
    pub(super) fn is_active(&self) -> bool {
        let _inside = self.runtime.enter();
        match &self.seat {
            Seat::Member(replica) => replica.is_active(),
            Seat::Leader(leadership) => leadership.is_leader(),
        }
    }

    /// Returns the names of the live replicas. One that leads has no need of them.
    pub(super) fn live(&self) -> Vec<String> {
        match &self.seat {
            Seat::Member(replica) => replica.live(),
            Seat::Leader(_) => Vec::new(),
        }
    }

    /// Returns the keys that it owns, as bits.
    pub(super) fn owned(&self) -> u16 {
        let _inside = self.runtime.enter();
        let owns = |key: &str| match &self.seat {
            Seat::Member(replica) => replica.owns(&Key::new(key)),
            Seat::Leader(leadership) => leadership.is_leader(),
        };
        let keys = KEY_NAMES.iter().enumerate();
        keys.map(|(bit, key)| u16::from(owns(key)) << bit).sum()
    }
}

/// Drives an informer, except while it is cut off.
async fn unless_cut_off(driver: impl Future<Output = ()>, desk: Arc<Mutex<Desk>>) {
    let mut driver = pin!(driver);
    poll_fn(|context| {
        let mut desk = lock(&desk);
        if desk.is_cut_off {
            desk.stalled = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(desk);
        driver.as_mut().poll(context)
    })
    .await;
}

/// A run of the reconcile function, which ends when it is dropped.
struct Run {
    desk: Arc<Mutex<Desk>>,
    key: usize,
    has_ended: bool,
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut desk = lock(&self.desk);
        desk.running &= !(1 << self.key);
        desk.cut += u64::from(!self.has_ended);
    }
}

async fn reconcile(
    task: Task<Raw>,
    desk: Arc<Mutex<Desk>>,
    time: Duration,
    fails: bool,
) -> Result<(), &'static str> {
    let names = KEY_NAMES.iter();
    let key = names.enumerate().find(|(_, name)| **name == task.as_str());
    let key = key.map_or(0, |(key, _)| key);
    {
        let mut desk = lock(&desk);
        if desk.running & 1 << key != 0 {
            desk.twice = Some(key);
        }
        desk.running |= 1 << key;
        desk.said.push(format!("begins {}", task.key()));
    }
    let mut run = Run {
        desk: Arc::clone(&desk),
        key,
        has_ended: false,
    };
    sleep(time).await;
    run.has_ended = true;
    let mut desk = lock(&desk);
    if (fails && !desk.is_calm) || desk.is_cut_off {
        desk.said.push(format!("fails with {}", task.key()));
        return Err("it fails");
    }
    desk.said.push(format!("has done {}", task.key()));
    let version = task.object().map(|pod| pod.resource_version().to_string());
    let version = version.and_then(|version| version.parse().ok());
    desk.done.extend(version.map(|version| (key, version)));
    Ok(())
}

/// The connection of a process to the Leases.
#[derive(Clone)]
struct Api {
    desk: Arc<Mutex<Desk>>,
    epoch: Instant,
}

impl Api {
    async fn ask(&self, ask: Ask) -> Reply {
        let (reply, answer) = oneshot::channel();
        lock(&self.desk).requests.push(Request {
            ask,
            sent: self.epoch.elapsed(),
            reply,
        });
        match answer.await {
            Ok(answer) => answer,
            // There will never be an answer.
            Err(_) => pending().await,
        }
    }

    async fn write(&self, ask: Ask) -> Result<Written, &'static str> {
        match self.ask(ask).await? {
            Answer::Written(written) => Ok(written),
            answer => Err(strange(&answer)),
        }
    }
}

const fn strange(_: &Answer) -> &'static str {
    "the answer to another request"
}

impl LeaseClient for Api {
    type Error = &'static str;

    async fn read(&mut self) -> Result<Option<(LeaseRecord, String)>, Self::Error> {
        match self.ask(Ask::Read).await? {
            Answer::Read(lease) => Ok(lease),
            answer => Err(strange(&answer)),
        }
    }

    async fn create(&mut self, record: &LeaseRecord) -> Result<Written, Self::Error> {
        self.write(Ask::Create(record.clone())).await
    }

    async fn update(
        &mut self,
        record: &LeaseRecord,
        version: &str,
        _: bool,
    ) -> Result<Written, Self::Error> {
        self.write(Ask::Update(record.clone(), version.to_owned()))
            .await
    }
}

impl MembersClient for Api {
    type Error = &'static str;

    async fn list(&mut self) -> Result<Vec<LeaseRecord>, Self::Error> {
        match self.ask(Ask::List).await? {
            Answer::List(leases) => Ok(leases),
            answer => Err(strange(&answer)),
        }
    }

    async fn remove(&mut self, gone: &LeaseRecord) -> Result<(), Self::Error> {
        self.ask(Ask::Remove(gone.clone())).await.map(drop)
    }
}
