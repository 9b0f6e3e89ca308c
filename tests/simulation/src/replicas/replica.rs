//! One replica: the behaviour of `Replica`, `Election` and `Controller` of `informer-tokio`, on given time and
//! without I/O.

use core::time::Duration;
use std::collections::BTreeMap;

use informer_core::{
    Instant, RequestId, ResourceVersion, Uid,
    election::{ElectionConfig, ElectionStep, Elector, LeaseRecord, Members, Written},
    object::ExpectedState,
    queue::{Exponential, PolledQueue},
};
use informer_mock::DeleteAnswer;

use super::super::entropy::Entropy;
use super::plan::{KEYS, NEVER, World};
use super::server::{Change, State};

/// The keys in the type of `Members`.
pub(super) const KEY_NAMES: [&str; KEYS] = [
    "prod/a", "prod/b", "prod/c", "prod/d", "prod/e", "prod/f", "test/a", "test/b", "test/c",
    "test/d", "test/e", "test/f",
];

/// A clock with its own offset and rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The time it shows at the start of the simulation, in microseconds.
    pub(super) offset: u64,
    /// Its rate: the milliseconds it advances per second.
    pub(super) rate: u64,
}

impl Clock {
    /// Returns the time it shows this many microseconds after the start.
    pub(super) fn at(self, time: u64) -> Instant {
        Instant::from_micros(self.offset + time * self.rate / 1000)
    }

    /// Returns when it shows this time.
    pub(super) fn when(self, shown: Instant) -> u64 {
        let passed = shown.as_micros().saturating_sub(self.offset);
        (passed * 1000).div_ceil(self.rate)
    }
}

/// A request to the API server.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Read,
    Create(LeaseRecord),
    Update(LeaseRecord, String),
    List,
    /// Remove the Lease with this holder and this text of its last renewal.
    Remove(String, String),
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Read(Option<(LeaseRecord, String)>),
    Written(Written),
    List(Vec<LeaseRecord>),
    Removed,
    Failed,
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) serial: u64,
    pub(super) ask: Ask,
}

/// The result of a step.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) requests: Vec<Request>,
    /// The keys reconciled, and the versions they were reconciled from.
    pub(super) finished: Vec<(usize, u64)>,
    pub(super) cut: u64,
    /// The writes of runs: the key, the expected version, and for a deletion the server's answer.
    pub(super) writes: Vec<(usize, u64, Option<DeleteAnswer>)>,
    /// A violated rule of the queue or of the waits.
    pub(super) broken: Option<(&'static str, String)>,
    /// The trace, if requested.
    pub(super) said: Option<Vec<String>>,
}

/// An open request, or the time of the next one.
#[derive(Clone, Copy, Debug)]
enum Call {
    Idle { due: Instant },
    Pending { serial: u64, began: Instant },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Working,
    /// Runs may end by themselves until this time, and are cancelled then.
    Draining {
        until: Instant,
    },
    Resigning,
    Gone,
}

/// A run of the reconcile function.
struct Run {
    key: usize,
    /// The version it has seen.
    version: Option<u64>,
    until: Instant,
    fails: bool,
}

/// A key that waits until the cache shows what its run wrote.
struct Settling {
    key: usize,
    expected: Option<ExpectedState<Box<str>>>,
    /// The key is requeued at this time in any case.
    until: Instant,
}

pub(super) struct Replica {
    pub(super) name: String,
    pub(super) members: Members,
    config: ElectionConfig,
    elector: Elector,
    lease: Call,
    /// The elector's ids of the open requests.
    ids: BTreeMap<u64, RequestId>,
    list: Call,
    /// The Leases that are to be removed after a list.
    gone: Vec<(String, String)>,
    serial: u64,
    /// The time until which the own Lease is held, as last published.
    notified: Option<Instant>,
    /// Whether this replica may have keys, and the live replicas, as last published.
    view: (bool, Vec<String>),
    /// The number of lists received.
    pub(super) lists: u64,
    queue: PolledQueue<usize, Exponential<usize>>,
    workers: usize,
    cache: [Option<State>; KEYS],
    /// The number of changes in the cache, and the version of the last one.
    seen: (usize, u64),
    synced: bool,
    runs: Vec<Run>,
    settling: Vec<Settling>,
    /// The number of changes after the last write of each key.
    wrote: [usize; KEYS],
    stage: Stage,
    entropy: Entropy<'static>,
    run: u32,
    failing: u32,
    writing: u32,
    deletes: DeleteAnswer,
    /// Chooses the writes.
    writes: Entropy<'static>,
    /// The reconcile function cannot reach the API server.
    pub(super) is_cut: bool,
}

impl Replica {
    pub(super) fn new(name: String, world: &World, seed: u64, now: Instant) -> Self {
        let config = world.config();
        Self {
            members: Members::new(name.clone(), config).expect("a valid config"),
            elector: Elector::new(name.clone(), config).expect("a valid config"),
            name,
            config,
            lease: Call::Idle { due: now },
            ids: BTreeMap::new(),
            list: Call::Idle { due: now },
            gone: Vec::new(),
            serial: 0,
            notified: None,
            view: (false, Vec::new()),
            lists: 0,
            queue: PolledQueue::with_limit(Exponential::new(
                Duration::from_millis(5),
                Duration::from_secs(10),
            )),
            workers: world.workers.into(),
            cache: [None; KEYS],
            seen: (0, 0),
            synced: false,
            runs: Vec::new(),
            settling: Vec::new(),
            wrote: [0; KEYS],
            stage: Stage::Working,
            entropy: Entropy::Seed(seed),
            run: world.run,
            failing: world.failing,
            writing: world.writing,
            deletes: world.deletes,
            writes: Entropy::Seed(seed ^ 0x5eed_0000_7a7e_0003),
            is_cut: false,
        }
    }

    pub(super) fn is_active(&self, now: Instant) -> bool {
        self.members.is_active(now)
    }

    /// Returns the keys that it owns, as bits.
    pub(super) fn owned(&self, now: Instant) -> u16 {
        let owns = |(bit, key): (usize, &&str)| u16::from(self.members.owns(now, key)) << bit;
        KEY_NAMES.iter().enumerate().map(owns).sum()
    }

    /// Returns the keys being reconciled, as bits.
    pub(super) fn running(&self) -> u16 {
        self.runs.iter().fold(0, |all, run| all | 1 << run.key)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    pub(super) fn is_working(&self) -> bool {
        self.stage == Stage::Working
    }

    /// Ends all faults of this replica.
    pub(super) const fn calm(&mut self) {
        self.failing = NEVER;
        self.writing = NEVER;
    }

    /// Stops; running keys have a grace period.
    pub(super) fn leave(&mut self, now: Instant) {
        let until = now + self.config.lease_duration;
        self.stage = Stage::Draining { until };
    }

    /// Receives an answer; returns whether its request was still open. A late answer is passed to the elector too,
    /// which must recognize it.
    pub(super) fn answered(&mut self, now: Instant, serial: u64, answer: &Answer) -> bool {
        let is = |call| matches!(call, Call::Pending { serial: own, .. } if own == serial);
        if let Some(id) = self.ids.remove(&serial) {
            match answer {
                Answer::Read(lease) => self.elector.handle_read(now, id, lease.clone()),
                Answer::Written(written) => self.elector.handle_written(now, id, written.clone()),
                Answer::List(_) | Answer::Removed | Answer::Failed => self.lease_failed(now, id),
            }
            let is_current = is(self.lease);
            if is_current {
                self.lease = Call::Idle { due: now };
            }
            return is_current;
        }
        let is_current = is(self.list);
        if let (true, Call::Pending { began, .. }) = (is(self.list), self.list) {
            if let Answer::List(leases) = answer {
                let leases = leases.iter();
                let leases = leases.map(|lease| (lease.holder.as_str(), lease.renewed.as_str()));
                self.members.handle_list(began, now, leases);
                let gone = self.members.gone(now);
                self.gone = gone
                    .map(|(holder, renewed)| (holder.to_owned(), renewed.to_owned()))
                    .collect();
                self.lists += 1;
            }
            let due = now + self.config.retry_period;
            self.list = Call::Idle { due };
        }
        is_current
    }

    /// Returns until when its elector considers it the leader of its own Lease, if it does.
    pub(super) fn leads_until(&self, now: Instant) -> Option<Instant> {
        let is_leader = self.elector.is_leader(now);
        self.elector.leads_until().filter(|_| is_leader)
    }

    /// The watch delivers changes; the first time, the whole state.
    pub(super) fn deliver(&mut self, now: Instant, log: &[Change]) {
        // Changes sent before the watch became faster may arrive after later ones.
        for change in log.get(self.seen.0..).unwrap_or_default() {
            self.cache[change.key] = change.state;
            self.seen = (self.seen.0 + 1, change.version);
            self.add(now, change.key);
        }
        self.synced = true;
    }

    /// Does what is due. With `runs_first`, the reconcile function runs before everything else.
    pub(super) fn step(&mut self, now: Instant, runs_first: bool, out: &mut Outcome) {
        if runs_first {
            self.work(now, out);
        }
        self.time_out(now);
        self.ask_lease(now, out);
        self.ask_list(now, out);
        self.tell(now, out);
        self.work(now, out);
        if let Stage::Draining { until } = self.stage {
            if now >= until {
                let runs = core::mem::take(&mut self.runs);
                out.cut += runs.len() as u64;
            }
            if self.runs.is_empty() {
                self.members.resign();
                self.stage = Stage::Resigning;
                if let Call::Idle { due } = &mut self.lease {
                    *due = now;
                }
                self.ask_lease(now, out);
                self.tell(now, out);
            }
        }
    }

    /// Returns the time of the next step.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let patience = self.config.renew_deadline;
        let call = |call| match call {
            Call::Idle { due } => due,
            Call::Pending { began, .. } => began + patience,
        };
        let drained = match self.stage {
            Stage::Draining { until } => Some(until),
            Stage::Working | Stage::Resigning | Stage::Gone => None,
        };
        let runs = self.runs.iter().map(|run| run.until);
        let work = self
            .has_free_worker()
            .then(|| self.queue.ready_at(now))
            .flatten();
        let settled = self.settling.iter().map(|settling| settling.until);
        let times = [call(self.lease), call(self.list)].into_iter().chain(runs);
        let times = times.chain(work).chain(drained).chain(settled);
        let times = times.chain(self.members.next_change(now));
        times.filter(|time| *time > now).min()
    }

    /// Only the elector knows whether the request was a read or a write.
    fn lease_failed(&mut self, now: Instant, id: RequestId) {
        self.elector.handle_read_failed(now, id);
        self.elector.handle_written(now, id, Written::Failed);
    }

    /// Abandons requests that take too long.
    fn time_out(&mut self, now: Instant) {
        let patience = self.config.renew_deadline;
        let is_over = |call| matches!(call, Call::Pending { began, .. } if now >= began + patience);
        if let Call::Pending { serial, .. } = self.lease
            && is_over(self.lease)
        {
            if let Some(id) = self.ids.get(&serial).copied() {
                self.lease_failed(now, id);
            }
            self.lease = Call::Idle { due: now };
        }
        if is_over(self.list) {
            let due = now + self.config.retry_period;
            self.list = Call::Idle { due };
        }
    }

    /// Like `Election::run`.
    fn ask_lease(&mut self, now: Instant, out: &mut Outcome) {
        while let Call::Idle { due } = self.lease
            && due <= now
        {
            if self.stage == Stage::Resigning {
                self.elector.release();
            }
            let step = self.elector.poll(now);
            self.publish(now);
            if self.elector.is_released() {
                self.stage = Stage::Gone;
                return;
            }
            let (id, ask) = match step {
                ElectionStep::Wait(until) => {
                    self.lease = Call::Idle { due: until };
                    continue;
                }
                ElectionStep::Read(id) => (id, Ask::Read),
                ElectionStep::Create { id, record } => (id, Ask::Create(record)),
                ElectionStep::Update {
                    id,
                    record,
                    resource_version,
                    ..
                } => (id, Ask::Update(record, resource_version)),
            };
            self.lease = self.ask(now, ask, out);
            self.ids.insert(self.serial, id);
        }
    }

    fn ask_list(&mut self, now: Instant, out: &mut Outcome) {
        if let Call::Idle { due } = self.list
            && due <= now
        {
            self.list = self.ask(now, Ask::List, out);
        }
        // Nobody waits for the answers.
        for (holder, renewed) in core::mem::take(&mut self.gone) {
            let _ = self.ask(now, Ask::Remove(holder, renewed), out);
        }
    }

    fn ask(&mut self, now: Instant, ask: Ask, out: &mut Outcome) -> Call {
        self.serial += 1;
        let serial = self.serial;
        out.requests.push(Request { serial, ask });
        Call::Pending { serial, began: now }
    }

    /// Passes the state of the own Lease to the members if it has changed.
    fn publish(&mut self, now: Instant) {
        let until = self.elector.leads_until();
        let until = until.filter(|_| self.elector.is_leader(now));
        if until != self.notified {
            self.notified = until;
            self.members.handle_lease(now, until);
        }
    }

    /// When ownership changes, cancels the runs of keys lost and queues the keys gained.
    fn tell(&mut self, now: Instant, out: &mut Outcome) {
        let is_active = self.members.is_active(now);
        let is_known = self.view.1.iter().map(String::as_str);
        if self.view.0 == is_active && is_known.eq(self.members.live()) {
            return;
        }
        let live = self.members.live().map(ToOwned::to_owned).collect();
        self.view = (is_active, live);
        if let Some(said) = &mut out.said {
            let may = if is_active { "has keys" } else { "has no keys" };
            said.push(format!("{may}; live are {}", self.view.1.join(", ")));
        }
        let (members, queue) = (&self.members, &mut self.queue);
        self.runs.retain(|run| {
            let stays = members.owns(now, KEY_NAMES[run.key]);
            if !stays {
                queue.done(now, &run.key);
                out.cut += 1;
                if let Some(said) = &mut out.said {
                    said.push(format!("cuts {}", KEY_NAMES[run.key]));
                }
            }
            stays
        });
        for key in 0..KEYS {
            if self.cache[key].is_some() {
                self.add(now, key);
            }
        }
    }

    fn add(&mut self, now: Instant, key: usize) {
        if self.members.owns(now, KEY_NAMES[key]) {
            self.queue.add(now, key);
        }
    }

    /// A key stays in progress after a write until the cache shows it. There was no write if the object had changed.
    pub(super) fn wrote(
        &mut self,
        now: Instant,
        key: usize,
        expected: Option<ExpectedState<Box<str>>>,
        changes: usize,
    ) {
        // The reconcile function must see its own write.
        self.queue.add(now, key);
        if expected.is_some() {
            self.wrote[key] = changes;
        }
        let until = now + Duration::from_secs(30);
        self.settling.push(Settling {
            key,
            expected,
            until,
        });
        self.settle(now);
    }

    fn settle(&mut self, now: Instant) {
        let reached = ResourceVersion::<Box<str>>::new(&self.seen.1.to_string());
        let (cache, queue, wrote) = (&self.cache, &mut self.queue, &mut self.wrote);
        self.settling.retain(|settling| {
            let object = cache[settling.key].map(|state| {
                let version = ResourceVersion::<Box<str>>::new(&state.version.to_string());
                (Uid::<Box<str>>::new(&state.uid.to_string()), version)
            });
            let object = object.as_ref().map(|(uid, version)| (uid, version));
            let is_over = now >= settling.until;
            let is_shown =
                |expected: &ExpectedState<Box<str>>| expected.is_shown([&reached], object);
            let stays = !is_over && settling.expected.as_ref().is_some_and(|one| !is_shown(one));
            if !stays {
                queue.done(now, &settling.key);
            }
            if is_over {
                wrote[settling.key] = 0;
            }
            stays
        });
    }

    /// Ends runs and starts new ones.
    fn work(&mut self, now: Instant, out: &mut Outcome) {
        self.settle(now);
        let mut at = 0;
        while at < self.runs.len() {
            if self.runs[at].until > now {
                at += 1;
                continue;
            }
            let run = self.runs.swap_remove(at);
            self.end(now, &run, out);
        }
        while self.has_free_worker()
            && let Some(key) = self.queue.take(now)
        {
            self.begin(now, key, out);
        }
    }

    fn has_free_worker(&self) -> bool {
        self.stage == Stage::Working && self.synced && self.runs.len() < self.workers
    }

    fn end(&mut self, now: Instant, run: &Run, out: &mut Outcome) {
        let fails = run.fails || self.is_cut;
        if fails {
            self.queue.add_rate_limited(now, run.key);
        } else {
            self.queue.forget(&run.key);
            out.finished
                .extend(run.version.map(|version| (run.key, version)));
        }
        if let Some(said) = &mut out.said {
            let how = if fails { "fails with" } else { "has done" };
            said.push(format!("{how} {}", KEY_NAMES[run.key]));
        }
        match run.version {
            Some(version) if !fails && self.writes.one_in(self.writing) => {
                let delete = self.writes.one_in(2).then_some(self.deletes);
                out.writes.push((run.key, version, delete));
            }
            _ => self.queue.done(now, &run.key),
        }
    }

    fn begin(&mut self, now: Instant, key: usize, out: &mut Outcome) {
        if !self.members.owns(now, KEY_NAMES[key]) {
            self.queue.done(now, &key);
            return;
        }
        if self.wrote[key] > self.seen.0 {
            let what = "runs on a state from before its own write";
            let what = format!(
                "{} {what}: {} {:?}",
                self.name, KEY_NAMES[key], self.cache[key]
            );
            out.broken = Some(("own_writes", what));
        }
        let ms = self.entropy.below(self.run) + 1;
        self.runs.push(Run {
            key,
            version: self.cache[key].map(|state| state.version),
            until: now + Duration::from_millis(ms.into()),
            fails: self.entropy.one_in(self.failing),
        });
        if let Some(said) = &mut out.said {
            said.push(format!("begins {}", KEY_NAMES[key]));
        }
    }
}
