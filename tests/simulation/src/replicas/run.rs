//! One run: carries out the plan, checks everything after every event, and requires convergence at the end.

mod check;

use std::collections::BTreeMap;

use informer_core::{Instant, election::Written};
use informer_mock::DeleteAnswer;

use super::super::entropy::Entropy;
use super::super::run::Violation;
use super::super::runner::{Ran, Simulation};
use super::plan::{Action, KEYS, MOST, Path, Plan, World};
use super::replica::{Answer, Ask, Clock, KEY_NAMES, Outcome, Replica};
use super::server::Server;

/// Counters of the runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The number of events.
    pub events: u64,
    /// The number of times a key changed its owner.
    pub moved: u64,
    /// The number of runs cancelled.
    pub cut: u64,
    /// The number of processes that had keys when they froze and none when they thawed.
    pub overslept: u64,
    /// The number of times a running process lost all keys.
    pub lapsed: u64,
    /// The number of requests lost.
    pub lost: u64,
    /// The number of conflicting writes of a Lease.
    pub conflicts: u64,
    /// The number of successful writes of reconcile functions.
    pub writes: u64,
    /// The number of answers after their request had timed out.
    pub late: u64,
    /// The number of Leases that were removed.
    pub removed: u64,
    /// The longest time to convergence, in thousandths of the lease duration.
    pub slowest: u64,
}

/// The simulation of replicas that share keys.
#[derive(Clone, Copy, Debug)]
pub struct Replicas;

impl Simulation for Replicas {
    type Plan = Plan;
    type Figures = Figures;

    fn arguments(self) -> String {
        " --replicas".to_owned()
    }

    fn plan(self, seed: u64) -> Plan {
        Plan::of_seed(seed)
    }

    fn run(self, plan: &Plan, trace: bool) -> Ran<Figures> {
        let mut run = Run::new(&plan.world, trace);
        match run.go(plan) {
            Ok(()) => Ok((run.figures, run.trace)),
            Err((invariant, what)) => Err(Box::new(Violation {
                invariant,
                source: "docs/CONTROLLERS.md, several replicas",
                what,
                step: run.step,
                trace: run.trace,
            })),
        }
    }

    fn add(sum: &mut Figures, one: Figures) {
        sum.events += one.events;
        sum.moved += one.moved;
        sum.cut += one.cut;
        sum.overslept += one.overslept;
        sum.lapsed += one.lapsed;
        sum.lost += one.lost;
        sum.conflicts += one.conflicts;
        sum.late += one.late;
        sum.writes += one.writes;
        sum.removed += one.removed;
        sum.slowest = sum.slowest.max(one.slowest);
    }

    fn shrink(self, mut plan: Plan, fails: &mut dyn FnMut(&Plan) -> bool) -> (Plan, String) {
        let (count, world) = (plan.actions.len(), plan.world.clone());
        plan.actions = informer_explore::shrink(&plan.actions, &mut 2_000, &mut |actions| {
            let (world, actions) = (world.clone(), actions.to_vec());
            fails(&Plan { world, actions })
        });
        let said = format!("{} of its {count} actions in {world:?}", plan.actions.len());
        (plan, said)
    }
}

type Failed = (&'static str, String);

/// A process, and the state of its connection to the API server.
struct Process {
    replica: Replica,
    clock: Clock,
    frozen: bool,
    /// It had keys when it froze.
    had_keys: bool,
    /// Mail that arrived while it was frozen.
    waiting: Vec<Mail>,
    cuts: Vec<Cut>,
    /// The times of its last two requests that failed at once.
    refused: [Option<u64>; 2],
    /// The time of its last long wait for an answer, or of its last freeze.
    hindered: Option<u64>,
    /// The delay of its watch in microseconds.
    lag: u64,
    /// The time of its next step, computed after its last event.
    wakes: Option<u64>,
    /// Its keys and the list they follow from, while it has any.
    owned: Option<Owned>,
    /// The keys it reconciles, except for a time after its Lease.
    running: u16,
    /// Its open requests: the time of sending on its own clock, and the version to be replaced.
    sent: BTreeMap<u64, (Instant, u64)>,
    /// When the last write of its Lease that the server applied was sent.
    renewed: Option<Instant>,
    /// The version at which a write of its Lease conflicted, until it reads a later state or writes successfully.
    refusal: Option<u64>,
}

struct Owned {
    lists: u64,
    live: Vec<String>,
    keys: u16,
}

#[derive(Clone, Copy)]
struct Cut {
    path: Path,
    /// The request arrives, but its answer is lost.
    back: bool,
    until: u64,
}

enum Mail {
    Answer(u64, Answer),
    /// The first changes of the log, up to this number, have arrived.
    Deliver(usize),
}

enum Event {
    /// A request reaches the API server.
    Arrive(usize, u64, Ask),
    Mail(usize, Mail),
    /// A fault may be over now.
    Mend(usize),
    Thaw(usize),
}

struct Run {
    world: World,
    server: Server,
    /// All processes ever started, in order.
    processes: Vec<Option<Process>>,
    events: BTreeMap<(u64, u64), Event>,
    serial: u64,
    /// In microseconds.
    now: u64,
    entropy: Entropy<'static>,
    /// The last owner of each key.
    owners: [Option<usize>; KEYS],
    has_faults: bool,
    /// Every key has an owner, which must not change any more.
    is_settled: bool,
    figures: Figures,
    step: usize,
    wants_trace: bool,
    trace: Vec<String>,
}

impl Run {
    fn new(world: &World, trace: bool) -> Self {
        Self {
            world: world.clone(),
            server: Server::default(),
            processes: Vec::new(),
            events: BTreeMap::new(),
            serial: 0,
            now: 0,
            entropy: Entropy::Seed(world.seed ^ 0x5eed_0f0e_1eaf_0001),
            owners: [None; KEYS],
            has_faults: true,
            is_settled: false,
            figures: Figures::default(),
            step: 0,
            wants_trace: trace,
            trace: Vec::new(),
        }
    }

    fn go(&mut self, plan: &Plan) -> Result<(), Failed> {
        for key in 0..KEYS {
            self.server.change(key, key % 4 != 3);
        }
        for _ in 0..self.world.replicas {
            self.start()?;
        }
        self.pass(self.lease() * 2)?;
        for action in &plan.actions {
            self.step += 1;
            self.act(*action)?;
        }
        self.step += 1;
        self.come_right()
    }

    fn act(&mut self, action: Action) -> Result<(), Failed> {
        if let Action::Pass(ms) = action {
            return self.pass(u64::from(ms) * 1000);
        }
        if action == Action::Start {
            return if self.alive().count() < MOST {
                self.start()
            } else {
                Ok(())
            };
        }
        if let Action::Put(key) | Action::Delete(key) = action {
            let (key, is_there) = (usize::from(key) % KEYS, matches!(action, Action::Put(_)));
            let what = if is_there { "put" } else { "delete" };
            self.note(|| format!("{what} {}", KEY_NAMES[key]));
            self.change(key, is_there);
            return Ok(());
        }
        let (Action::Kill(which)
        | Action::Leave(which)
        | Action::Freeze(which, _)
        | Action::Cut(which, ..)
        | Action::Lag(which, _)
        | Action::Touch(which)) = action
        else {
            return Ok(());
        };
        let count = self.alive().count().max(1);
        let Some(number) = self.alive().nth(usize::from(which) % count) else {
            return Ok(());
        };
        self.trouble(number, action)
    }

    /// Carries out an action on a process.
    fn trouble(&mut self, number: usize, action: Action) -> Result<(), Failed> {
        let now = self.now;
        let Some(process) = self.processes[number].as_mut() else {
            return Ok(());
        };
        let name = process.replica.name.clone();
        let mut later = None;
        let what = match action {
            Action::Kill(_) => {
                self.processes[number] = None;
                "is killed".to_owned()
            }
            Action::Leave(_) if !process.frozen && process.replica.is_working() => {
                process.replica.leave(process.clock.at(now));
                "leaves".to_owned()
            }
            Action::Freeze(_, ms) if !process.frozen => {
                process.frozen = true;
                process.had_keys = process.owned.is_some();
                process.hindered = Some(now);
                later = Some((now + u64::from(ms) * 1000, Event::Thaw(number)));
                format!("freezes for {ms} ms")
            }
            Action::Cut(_, path, back, ms) => {
                let until = now + u64::from(ms) * 1000;
                process.cuts.push(Cut { path, back, until });
                later = Some((until, Event::Mend(number)));
                let what = if back { "no answer of" } else { "no way to" };
                format!("has {what} {path} for {ms} ms")
            }
            Action::Touch(_) if self.server.touch(&name) => {
                "has its Lease changed by another client".to_owned()
            }
            Action::Lag(_, ms) => {
                process.lag = u64::from(ms) * 1000;
                format!("has a watch that is behind by {ms} ms")
            }
            _ => return Ok(()),
        };
        self.note(|| format!("{name} {what}"));
        if let Some((at, event)) = later {
            self.schedule(at, event);
        }
        self.turn(number)
    }

    fn start(&mut self) -> Result<(), Failed> {
        let number = self.processes.len();
        let skew = u64::from(self.world.skew);
        let rate = match self.entropy.below(3) {
            0 => 1000 - skew,
            1 => 1000 + skew,
            _ => 1000,
        };
        let offset = u64::from(self.entropy.below(1_000_000_000));
        let clock = Clock { offset, rate };
        let seed = self.world.seed.wrapping_add((number as u64 + 1) << 40);
        let name = format!("r{number}");
        self.note(|| format!("{name} starts, with a clock that goes at {rate} ‰"));
        let replica = Replica::new(name, &self.world, seed, clock.at(self.now));
        self.processes.push(Some(Process {
            replica,
            clock,
            frozen: false,
            had_keys: false,
            waiting: Vec::new(),
            cuts: Vec::new(),
            refused: [None; 2],
            hindered: None,
            lag: 0,
            wakes: None,
            owned: None,
            running: 0,
            sent: BTreeMap::new(),
            renewed: None,
            refusal: None,
        }));
        self.schedule(self.now, Event::Mend(number));
        self.turn(number)
    }

    fn change(&mut self, key: usize, is_there: bool) {
        self.server.change(key, is_there);
        for number in 0..self.processes.len() {
            self.deliver(number);
        }
    }

    /// Schedules the delivery of changes to a process.
    fn deliver(&mut self, number: usize) {
        let latency = self.latency();
        if let Some(process) = &self.processes[number] {
            let at = self.now + process.lag + latency;
            let mail = Mail::Deliver(self.server.log.len());
            self.schedule(at, Event::Mail(number, mail));
        }
    }

    /// Lets microseconds pass.
    fn pass(&mut self, time: u64) -> Result<(), Failed> {
        let end = self.now + time;
        for _ in 0..1_000_000 {
            let event = self.events.keys().next().map(|(at, _)| *at);
            let processes = self.processes.iter().enumerate();
            let wakes =
                processes.filter_map(|(number, process)| Some((process.as_ref()?.wakes?, number)));
            let wake = wakes.min();
            let at = event.into_iter().chain(wake.map(|(at, _)| at)).min();
            let Some(at) = at.filter(|at| *at <= end) else {
                self.now = end;
                return Ok(());
            };
            self.now = self.now.max(at);
            self.figures.events += 1;
            if event == Some(at) {
                if let Some((_, event)) = self.events.pop_first() {
                    self.happen(event)?;
                }
            } else if let Some((_, number)) = wake {
                self.turn(number)?;
            }
        }
        Err(("busy", "time does not pass".to_owned()))
    }

    fn happen(&mut self, event: Event) -> Result<(), Failed> {
        match event {
            Event::Arrive(number, serial, ask) => {
                self.may_remove(&ask)?;
                self.arrive(number, serial, ask);
                Ok(())
            }
            Event::Mail(number, mail) => {
                if let Some(process) = &mut self.processes[number] {
                    process.waiting.push(mail);
                }
                self.turn(number)
            }
            Event::Mend(number) => {
                self.deliver(number);
                Ok(())
            }
            Event::Thaw(number) => self.thaw(number),
        }
    }

    fn thaw(&mut self, number: usize) -> Result<(), Failed> {
        let Some(process) = self.processes[number].as_mut().filter(|p| p.frozen) else {
            return Ok(());
        };
        let now = process.clock.at(self.now);
        process.frozen = false;
        process.hindered = Some(self.now);
        let has_keys = process.replica.is_active(now);
        let name = process.replica.name.clone();
        self.figures.overslept += u64::from(process.had_keys && !has_keys);
        self.note(|| format!("{name} thaws"));
        // Due work, received mail and running keys proceed in any order.
        match self.entropy.below(3) {
            0 => self.go_on(number, false)?,
            1 => self.go_on(number, true)?,
            _ => {}
        }
        self.turn(number)
    }

    /// A request reaches the API server, even if its sender no longer waits.
    fn arrive(&mut self, number: usize, serial: u64, ask: Ask) {
        let path = match ask {
            Ask::List | Ask::Remove(..) => Path::Members,
            Ask::Read | Ask::Create(_) | Ask::Update(..) => Path::Lease,
        };
        let name = format!("r{number}");
        let cut = self.processes[number]
            .as_ref()
            .and_then(|process| process.cut(path, self.now))
            .map(|cut| cut.back);
        // A conflict on creation has no other cause than the Lease that exists already.
        let is_update = matches!(ask, Ask::Update(..));
        let mut answer = Answer::Failed;
        if cut != Some(false) {
            let stale = self.has_faults && self.world.stale_reads && self.entropy.one_in(4);
            let before = self.server.leases().count();
            answer = self.server.answer(&name, ask, stale);
            self.figures.removed += before.saturating_sub(self.server.leases().count()) as u64;
            if stale && matches!(answer, Answer::Read(None)) {
                // The Lease appears to be deleted.
                self.hindered(number);
            }
        }
        match (&answer, &mut self.processes[number]) {
            (Answer::Written(Written::Conflict), _) => {
                self.figures.conflicts += 1;
                self.note(|| format!("    {name} has a conflict with its Lease"));
                if is_update {
                    // A leader stops at once.
                    self.hindered(number);
                }
            }
            (Answer::Written(Written::Done(_)), Some(process)) => {
                let sent = process.sent.get(&serial).map(|(sent, _)| *sent);
                process.renewed = process.renewed.max(sent);
            }
            _ => {}
        }
        if let Some(back) = cut {
            self.figures.lost += 1;
            let what = if back { "answer" } else { "request" };
            self.note(|| format!("    {name} has lost a {what} for {path}"));
            // Either the request fails at once, or there is never an answer.
            if self.entropy.below(2) == 0 {
                self.hindered(number);
                return;
            }
            self.refused(number);
            answer = Answer::Failed;
        }
        let at = self.now + self.latency_of(number);
        self.schedule(at, Event::Mail(number, Mail::Answer(serial, answer)));
    }

    /// A process handles its mail and its due work; then everything is checked.
    fn turn(&mut self, number: usize) -> Result<(), Failed> {
        let process = self.processes[number].as_mut();
        if let Some(process) = process.filter(|process| !process.frozen) {
            let now = process.clock.at(self.now);
            for mail in core::mem::take(&mut process.waiting) {
                match mail {
                    Mail::Answer(serial, answer) => {
                        let in_time = process.replica.answered(now, serial, &answer);
                        self.figures.late += u64::from(!in_time);
                        process.note_answer(serial, &answer, in_time);
                    }
                    Mail::Deliver(count) => {
                        if process.cut(Path::Objects, self.now).is_none() {
                            process.replica.deliver(now, &self.server.log[..count]);
                        }
                    }
                }
            }
            return self.go_on(number, false);
        }
        self.check(number)
    }

    fn go_on(&mut self, number: usize, runs_first: bool) -> Result<(), Failed> {
        let Some(process) = self.processes[number].as_mut() else {
            return Ok(());
        };
        let now = process.clock.at(self.now);
        process.replica.is_cut = process.cut(Path::Objects, self.now).is_some();
        process.cuts.retain(|cut| cut.until > self.now);
        let mut out = Outcome {
            said: self.wants_trace.then(Vec::new),
            ..Outcome::default()
        };
        process.replica.step(now, runs_first, &mut out);
        for request in &out.requests {
            let expected = match &request.ask {
                Ask::Update(_, version) => version.parse().unwrap_or(0),
                Ask::Read | Ask::Create(_) | Ask::List | Ask::Remove(..) => 0,
            };
            process.sent.insert(request.serial, (now, expected));
        }
        let is_gone = process.replica.is_gone();
        let name = process.replica.name.clone();
        for line in out.said.into_iter().flatten() {
            self.note(|| format!("    {name} {line}"));
        }
        for request in out.requests {
            let at = self.now + self.latency_of(number);
            let event = Event::Arrive(number, request.serial, request.ask);
            self.schedule(at, event);
        }
        for (key, version) in out.finished {
            self.server.reconciled(key, version);
        }
        for (key, version, delete) in out.writes {
            self.write(number, key, version, delete);
        }
        if let Some(broken) = out.broken {
            return Err(broken);
        }
        self.figures.cut += out.cut;
        self.check(number)?;
        if is_gone {
            self.note(|| format!("{name} has left"));
            self.processes[number] = None;
        }
        Ok(())
    }

    /// A run writes its object, and its key waits until the cache shows the write.
    fn write(&mut self, number: usize, key: usize, version: u64, delete: Option<DeleteAnswer>) {
        let expected = self.server.write_object(key, version, delete);
        let went_through = expected.is_some();
        let changes = self.server.log.len();
        if let Some(process) = &mut self.processes[number] {
            let now = process.clock.at(self.now);
            process.replica.wrote(now, key, expected, changes);
            let name = process.replica.name.clone();
            let what = if delete.is_some() {
                "deletes"
            } else {
                "updates"
            };
            self.note(|| format!("    {name} {what} {}: {went_through}", KEY_NAMES[key]));
        }
        if went_through {
            self.figures.writes += 1;
            (0..self.processes.len()).for_each(|number| self.deliver(number));
        } else {
            // Its workers check for keys again.
            self.deliver(number);
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    /// Returns the latency of half a request, in microseconds.
    fn latency(&mut self) -> u64 {
        u64::from(self.entropy.below(self.world.latency) + 1) * 1000
    }

    /// The same for a request that may be slow.
    fn latency_of(&mut self, number: usize) -> u64 {
        if self.has_faults && self.entropy.one_in(self.world.slow) {
            self.hindered(number);
            return u64::from(self.entropy.below(self.world.times[1]) + 1) * 1000;
        }
        self.latency()
    }

    fn refused(&mut self, number: usize) {
        if let Some(process) = &mut self.processes[number] {
            process.refused = [process.refused[1], Some(self.now)];
        }
    }

    fn hindered(&mut self, number: usize) {
        if let Some(process) = &mut self.processes[number] {
            process.hindered = Some(self.now);
        }
    }

    fn lease(&self) -> u64 {
        u64::from(self.world.times[0]) * 1000
    }

    fn alive(&self) -> impl Iterator<Item = usize> {
        let processes = self.processes.iter().enumerate();
        processes
            .filter(|(_, process)| process.is_some())
            .map(|(number, _)| number)
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.wants_trace {
            let seconds = self.now as f64 / 1e6;
            self.trace
                .push(format!("{:>4} {seconds:>10.3}s {}", self.step, line()));
        }
    }

    /// Ends all faults and requires that every key is owned and reconciled.
    fn come_right(&mut self) -> Result<(), Failed> {
        self.note(|| "all faults end".to_owned());
        self.has_faults = false;
        for number in 0..self.processes.len() {
            if let Some(process) = &mut self.processes[number] {
                process.cuts.clear();
                process.lag = 0;
                process.replica.calm();
            }
            self.thaw(number)?;
            self.deliver(number);
        }
        let [lease, renew, _] = self.world.times.map(|ms| u64::from(ms) * 1000);
        // Open requests are answered or time out.
        self.pass(renew * 2)?;
        let mut processes = self.processes.iter().flatten();
        if !processes.any(|process| process.replica.is_working()) {
            self.start()?;
        }
        // Covers acquiring a Lease, waiting for every other Lease, and the backoff of failed keys.
        let began = self.now;
        self.until_right(lease * 5 + 30_000_000)?;
        self.figures.slowest = (self.now - began) * 1000 / lease;
        self.note(|| "all is right".to_owned());
        // Ownership must remain stable, and later changes must be reconciled too.
        self.is_settled = true;
        for key in 0..KEYS {
            self.change(key, true);
        }
        self.pass(lease * 2)?;
        self.until_right(10_000_000)?;
        // Four lease durations after the last release, and the lists before and after.
        let end = self.now + lease * 6;
        while let Some(left) = self.left_behind() {
            if self.now > end {
                return Err((
                    "cleaned",
                    format!("the Lease {left} of a process that is gone remains"),
                ));
            }
            self.pass(1_000_000)?;
        }
        Ok(())
    }

    fn until_right(&mut self, patience: u64) -> Result<(), Failed> {
        // A single replica may have to do all the work, and starts with the changes since.
        let work = u64::from(self.world.run) * 2000 * KEYS as u64;
        let end = self.now + patience + work;
        while !self.is_right() {
            if self.now > end {
                return Err(("liveness", self.what_is_missing()));
            }
            self.pass(1_000_000)?;
        }
        Ok(())
    }
}

impl Process {
    /// Records what an answer reveals about the own Lease.
    fn note_answer(&mut self, serial: u64, answer: &Answer, in_time: bool) {
        let Some((_, expected)) = self.sent.remove(&serial).filter(|_| in_time) else {
            return;
        };
        match answer {
            Answer::Written(Written::Conflict) => self.refusal = Some(expected),
            Answer::Written(Written::Done(_)) => self.refusal = None,
            Answer::Read(Some((lease, version))) if lease.holder == self.replica.name => {
                let version = version.parse().unwrap_or(0);
                self.refusal = self.refusal.filter(|refused| version <= *refused);
            }
            Answer::Read(_)
            | Answer::Written(Written::Failed)
            | Answer::List(_)
            | Answer::Removed
            | Answer::Failed => {}
        }
    }

    /// Returns the fault that cuts off a request.
    fn cut(&self, path: Path, now: u64) -> Option<Cut> {
        let mut cuts = self.cuts.iter().filter(|cut| cut.until > now);
        cuts.find(|cut| cut.path == path || cut.path == Path::All)
            .copied()
    }
}
