//! One run: carries out the plan, checks everything after every tick, and requires convergence at the end.

mod check;

use core::time::Duration;
use std::collections::BTreeMap;

use informer_mock::{FakeServer, Instant, Mock, json};
use informer_tokio::election::Written;
use tokio::sync::oneshot;

use super::super::entropy::Entropy;
use super::super::run::Violation;
use super::super::runner::{Ran, Simulation};
use super::plan::{Action, KEYS, MOST, Path, Plan, World};
use super::process::{Answer, Ask, KEY_NAMES, Process, Reply, Request};
use super::server::Server;

/// Counters of the runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The number of requests for Leases.
    pub requests: u64,
    /// The number of times a key changed its owner.
    pub moved: u64,
    /// The number of runs cancelled.
    pub cut: u64,
    /// The number of times a frozen process lost all keys.
    pub overslept: u64,
    /// The number of times a running process lost all keys.
    pub lapsed: u64,
    /// The number of requests lost.
    pub lost: u64,
    /// The number of requests that failed and cost their process nothing.
    pub made_up: u64,
    /// The number of conflicting writes of a Lease.
    pub conflicts: u64,
    /// The number of answers after their request had timed out.
    pub late: u64,
    /// The number of Leases that were removed.
    pub removed: u64,
    /// The longest time to convergence, in thousandths of the lease duration.
    pub slowest: u64,
}

/// The simulation of replicas of a controller.
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
        sum.requests += one.requests;
        sum.moved += one.moved;
        sum.cut += one.cut;
        sum.overslept += one.overslept;
        sum.lapsed += one.lapsed;
        sum.lost += one.lost;
        sum.made_up += one.made_up;
        sum.conflicts += one.conflicts;
        sum.late += one.late;
        sum.removed += one.removed;
        sum.slowest = sum.slowest.max(one.slowest);
    }

    fn shrink(self, mut plan: Plan, fails: &mut dyn FnMut(&Plan) -> bool) -> (Plan, String) {
        let (count, world) = (plan.actions.len(), plan.world.clone());
        plan.actions = informer_explore::shrink(&plan.actions, &mut 500, &mut |actions| {
            let (world, actions) = (world.clone(), actions.to_vec());
            fails(&Plan { world, actions })
        });
        let said = format!("{} of its {count} actions in {world:?}", plan.actions.len());
        (plan, said)
    }
}

type Failed = (&'static str, String);

/// A process, and the state of its connection to the API server.
struct Place {
    process: Process,
    /// When it was started.
    began: u64,
    /// The milliseconds that its clock goes on per second.
    rate: u64,
    frozen: bool,
    /// Answers that arrived while it was frozen.
    waiting: Vec<Mail>,
    cuts: Vec<Cut>,
    /// The requests for its Lease, and those for the list of all Leases.
    links: [Link; 2],
    /// Its keys and the list they follow from, while it has any.
    owned: Option<Owned>,
    /// When the last write of its Lease that the server applied was sent, on its clock.
    renewed: Duration,
    /// The version at which a write of its Lease conflicted, until it reads a later state or writes successfully.
    refusal: Option<u64>,
}

/// The requests of a process of one kind.
#[derive(Clone, Copy, Default)]
struct Link {
    /// When the last one that succeeded was sent, on the clock of the process.
    good: Duration,
    /// The time that faults have cost since. It has no limit if a request was lost or refused.
    lost: Duration,
}

struct Owned {
    live: Vec<String>,
    keys: u16,
}

#[derive(Clone, Copy)]
struct Cut {
    path: Path,
    /// The request arrives, but its answer is lost.
    back: bool,
    /// Without it, the next request fails.
    until: Option<u64>,
}

/// The answer to a request.
struct Mail {
    reply: oneshot::Sender<Reply>,
    answer: Reply,
    sent: Duration,
    /// Of a list of all Leases, rather than of a Lease.
    is_list: bool,
    /// The version to be replaced.
    expected: u64,
}

enum Event {
    /// A request reaches the API server.
    Arrive(usize, Request),
    Mail(usize, Mail),
    Thaw(usize),
}

struct Run {
    world: World,
    /// The objects.
    mock: Mock,
    /// The version of each object, and up to which it was reconciled.
    objects: [(Option<u64>, u64); KEYS],
    server: Server,
    /// All processes ever started, in order.
    places: Vec<Option<Place>>,
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
            mock: Mock::new(FakeServer::new(world.seed)),
            objects: [(None, 0); KEYS],
            server: Server::default(),
            places: Vec::new(),
            events: BTreeMap::new(),
            serial: 0,
            now: 0,
            entropy: Entropy::of(world.seed ^ 0x5eed_0f0e_1eaf_0001),
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
        (0..KEYS).for_each(|key| self.change(key, key % 4 != 3));
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
        let which = match action {
            Action::Pass(ms) => return self.pass(u64::from(ms) * 1000),
            Action::Start if self.alive().count() < MOST => return self.start(),
            Action::Start => return Ok(()),
            Action::Put(key) => {
                self.change(usize::from(key) % KEYS, true);
                return Ok(());
            }
            Action::Delete(key) => {
                self.change(usize::from(key) % KEYS, false);
                return Ok(());
            }
            Action::Kill(which)
            | Action::Leave(which)
            | Action::Freeze(which, _)
            | Action::Cut(which, ..)
            | Action::Fail(which, ..)
            | Action::Touch(which, _) => which,
        };
        let count = self.alive().count().max(1);
        let number = self.alive().nth(usize::from(which) % count);
        if let Some(number) = number {
            self.trouble(number, action);
        }
        Ok(())
    }

    /// Carries out an action on a process.
    fn trouble(&mut self, number: usize, action: Action) {
        let now = self.now;
        let lease = self.lease_of(number);
        let is_in_use = self.world.elects
            || self.places[number].as_ref().is_some_and(|place| {
                place.process.now() < place.renewed + self.world.config().renew_deadline
            });
        let Some(place) = self.places[number].as_mut() else {
            return;
        };
        let name = place.process.name.clone();
        let what = match action {
            Action::Kill(_) => {
                self.places[number] = None;
                "is killed".to_owned()
            }
            Action::Leave(_) if !place.frozen && place.process.is_working() => {
                place.process.leave();
                "leaves".to_owned()
            }
            Action::Freeze(_, ms) if !place.frozen => {
                place.frozen = true;
                let time = place.span(u64::from(ms) * 1000);
                place.links.iter_mut().for_each(|link| link.lose(time));
                self.schedule(now + u64::from(ms) * 1000, Event::Thaw(number));
                format!("freezes for {ms} ms")
            }
            Action::Cut(_, path, back, ms) => {
                let until = Some(now + u64::from(ms) * 1000);
                place.cuts.push(Cut { path, back, until });
                let what = if back { "no answer of" } else { "no way to" };
                format!("has {what} {path} for {ms} ms")
            }
            Action::Fail(_, path, back) => {
                let until = None;
                place.cuts.push(Cut { path, back, until });
                let what = if back { "answered" } else { "arriving" };
                format!("will have a request for {path} fail before it is {what}")
            }
            // Nobody may delete a Lease that is in use.
            Action::Touch(_, true) if is_in_use => return,
            Action::Touch(_, deletes) if self.server.touch(&lease, deletes) => {
                let what = if deletes { "deleted" } else { "changed" };
                format!("has its Lease {what} by another client")
            }
            _ => return,
        };
        self.note(|| format!("{name} {what}"));
    }

    fn start(&mut self) -> Result<(), Failed> {
        let number = self.places.len();
        let skew = u64::from(self.world.skew);
        let rate = self.entropy.pick(&[1000 - skew, 1000 + skew, 1000]);
        let seed = self.world.seed.wrapping_add((number as u64 + 1) << 40);
        let name = format!("r{number}");
        self.note(|| format!("{name} starts, with a clock that goes at {rate} ‰"));
        let process = Process::start(name, &self.world, seed, &self.mock)
            .map_err(|error| ("start", error.to_string()))?;
        self.places.push(Some(Place {
            process,
            began: self.now,
            rate,
            frozen: false,
            waiting: Vec::new(),
            cuts: Vec::new(),
            links: [Link::default(); 2],
            owned: None,
            renewed: Duration::ZERO,
            refusal: None,
        }));
        Ok(())
    }

    /// Changes an object or deletes it.
    fn change(&mut self, key: usize, is_there: bool) {
        let what = if is_there { "put" } else { "delete" };
        self.note(|| format!("{what} {}", KEY_NAMES[key]));
        let (namespace, name) = KEY_NAMES[key].split_once('/').unwrap_or_default();
        self.objects[key].0 = if is_there {
            let metadata = json!({ "name": name, "namespace": namespace });
            let spec = json!({ "nodeName": self.now.to_string() });
            let pod = json!({ "metadata": metadata, "spec": spec });
            self.mock.put("pods", pod).ok()
        } else {
            // It fails if there is none.
            let _ = self.mock.delete("pods", namespace, name);
            None
        };
    }

    /// Lets microseconds pass.
    fn pass(&mut self, time: u64) -> Result<(), Failed> {
        let end = self.now + time;
        while self.now < end {
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= self.now
            {
                match entry.remove() {
                    Event::Arrive(number, request) => self.arrive(number, request)?,
                    Event::Mail(number, mail) => self.receive(number, mail),
                    Event::Thaw(number) => self.thaw(number),
                }
            }
            self.now = end.min(self.now + u64::from(self.world.tick) * 1000);
            let shown = Instant::from_micros(1_000_000 + self.now);
            self.mock.clock().advance_to(shown);
            for number in 0..self.places.len() {
                self.go_on(number)?;
            }
            self.check()?;
        }
        Ok(())
    }

    /// Lets a process run until now.
    fn go_on(&mut self, number: usize) -> Result<(), Failed> {
        let Some(place) = self.places[number].as_mut() else {
            return Ok(());
        };
        let time = place.span(self.now - place.began);
        if place.frozen {
            place.process.freeze_to(time);
            return Ok(());
        }
        let is_cut = place.cut(Path::Objects, self.now).is_some();
        place.process.cut_off(is_cut);
        place.process.run_to(time);
        let shown = place.process.now();
        let mut desk = place.process.desk();
        let mut requests = core::mem::take(&mut desk.requests);
        // The branches of a `select!` are polled in any order.
        requests.sort_by_key(|request| (request.sent, is_list(&request.ask)));
        let said = core::mem::take(&mut desk.said);
        self.figures.cut += core::mem::take(&mut desk.cut);
        for (key, version) in core::mem::take(&mut desk.done) {
            self.objects[key].1 = self.objects[key].1.max(version);
        }
        let (twice, name) = (desk.twice, place.process.name.clone());
        drop(desk);
        let (rate, is_gone) = (place.rate, place.process.is_gone());
        let is_leaving = place.process.is_leaving;
        if let Some(key) = twice {
            let what = format!("{name} reconciles {} twice at once", KEY_NAMES[key]);
            return Err(("at_once", what));
        }
        for line in said {
            self.note(|| format!("    {name} {line}"));
        }
        for request in requests {
            let ago = shown.saturating_sub(request.sent).as_micros() as u64 * 1000 / rate;
            let at = self.now.saturating_sub(ago) + self.latency(number, is_list(&request.ask));
            self.figures.requests += 1;
            self.schedule(at, Event::Arrive(number, request));
        }
        if is_gone {
            self.note(|| format!("{name} has left"));
            self.places[number] = None;
            if !is_leaving {
                return Err(("ended", format!("{name} ends by itself")));
            }
        }
        Ok(())
    }

    fn thaw(&mut self, number: usize) {
        let Some(place) = self.places[number].as_mut().filter(|one| one.frozen) else {
            return;
        };
        place.frozen = false;
        let name = place.process.name.clone();
        let waiting = core::mem::take(&mut place.waiting);
        // What is due and what has arrived is seen in either order.
        if self.entropy.one_in(2) {
            place.process.catch_up();
        }
        self.note(|| format!("{name} thaws"));
        waiting
            .into_iter()
            .for_each(|mail| self.receive(number, mail));
    }

    /// A request reaches the API server, even if its sender no longer waits.
    fn arrive(&mut self, number: usize, request: Request) -> Result<(), Failed> {
        let Request { ask, sent, reply } = request;
        self.may_remove(&ask)?;
        let is_list = is_list(&ask);
        let path = if is_list { Path::Members } else { Path::Lease };
        let (name, lease) = (format!("r{number}"), self.lease_of(number));
        let mut cut = None;
        if let Some(place) = &mut self.places[number] {
            let once = |cut: &Cut| cut.until.is_none() && cut.is_of(path);
            cut = place.cut(path, self.now).or_else(|| {
                let once = place.cuts.iter().position(once)?;
                Some(place.cuts.swap_remove(once))
            });
        }
        let expected = match &ask {
            Ask::Update(_, version) => version.parse().unwrap_or(0),
            Ask::Read | Ask::Create(_) | Ask::List | Ask::Remove(..) => 0,
        };
        let mut answer = Err("refused");
        if cut.is_none_or(|cut| cut.back) {
            let stale = self.has_faults && self.world.stale_reads && self.entropy.one_in(4);
            let before = self.server.leases().count();
            answer = Ok(self.server.answer(&lease, ask, stale));
            self.figures.removed += before.saturating_sub(self.server.leases().count()) as u64;
        }
        match (&answer, &mut self.places[number]) {
            (Ok(Answer::Written(Written::Conflict)), _) => {
                self.figures.conflicts += 1;
                self.note(|| format!("    {name} has a conflict with its Lease"));
            }
            (Ok(Answer::Written(Written::Done(_))), Some(place)) => {
                place.renewed = place.renewed.max(sent);
            }
            _ => {}
        }
        if let Some(Cut { back, until, .. }) = cut {
            self.figures.lost += 1;
            let what = if back { "answer" } else { "request" };
            self.note(|| format!("    {name} has lost a {what} for {path}"));
            // Either the request fails at once, or there is never an answer.
            if until.is_some() && self.entropy.one_in(2) {
                if let Some(place) = &mut self.places[number] {
                    place.links[usize::from(is_list)].lose(Duration::MAX);
                }
                return Ok(());
            }
            answer = Err("lost");
        }
        let mail = Mail {
            reply,
            answer,
            sent,
            is_list,
            expected,
        };
        let at = self.now + self.latency(number, is_list);
        self.schedule(at, Event::Mail(number, mail));
        Ok(())
    }

    /// A process gets an answer.
    fn receive(&mut self, number: usize, mail: Mail) {
        let Some(place) = &mut self.places[number] else {
            return;
        };
        if place.frozen {
            return place.waiting.push(mail);
        }
        let (usual, retry) = (self.world.usual(), self.world.config().retry_period);
        let took = place.process.now().saturating_sub(mail.sent);
        let link = &mut place.links[usize::from(mail.is_list)];
        if mail.reply.is_closed() {
            self.figures.late += 1;
            link.lose(Duration::MAX);
            return;
        }
        match &mail.answer {
            Ok(Answer::Written(Written::Done(_)) | Answer::List(_)) => {
                let made_up = link.lost > Duration::ZERO && place.owned.is_some();
                self.figures.made_up += u64::from(made_up);
                link.good = mail.sent;
                link.lost = took.saturating_sub(usual);
                if !mail.is_list {
                    place.refusal = None;
                }
            }
            Ok(Answer::Written(_)) if mail.expected > 0 => {
                link.lose(Duration::MAX);
                place.refusal = Some(mail.expected);
            }
            // The Lease appears to be deleted.
            Ok(Answer::Read(None)) => link.lose(Duration::MAX),
            Ok(Answer::Read(Some((lease, version)))) => {
                link.lose(took.saturating_sub(usual));
                if lease.holder == place.process.name {
                    let version = version.parse().unwrap_or(0);
                    place.refusal = place.refusal.filter(|refused| version <= *refused);
                }
            }
            Ok(Answer::Removed) => {}
            // The Lease is read before the next write. Nobody creates a Lease that is known to exist.
            Ok(Answer::Written(_)) | Err(_) => link.lose(took + retry + usual),
        }
        drop(mail.reply.send(mail.answer));
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    /// Returns the latency of half a request, in microseconds.
    fn latency(&mut self, number: usize, is_list: bool) -> u64 {
        if !self.has_faults || !self.entropy.one_in(self.world.slow) {
            return u64::from(self.entropy.below(self.world.latency) + 1) * 1000;
        }
        let time = u64::from(self.entropy.below(self.world.times[1]) + 1) * 1000;
        if let Some(place) = &mut self.places[number] {
            let lost = place.span(time);
            place.links[usize::from(is_list)].lose(lost);
        }
        time
    }

    /// Returns the name of the Lease of a process.
    fn lease_of(&self, number: usize) -> String {
        if self.world.elects {
            "leader".to_owned()
        } else {
            format!("r{number}")
        }
    }

    fn lease(&self) -> u64 {
        u64::from(self.world.times[0]) * 1000
    }

    fn alive(&self) -> impl Iterator<Item = usize> {
        let places = self.places.iter().enumerate();
        places
            .filter(|(_, place)| place.is_some())
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
        for number in 0..self.places.len() {
            if let Some(place) = &mut self.places[number] {
                place.cuts.clear();
                place.process.calm();
            }
            self.thaw(number);
        }
        let [lease, renew, _] = self.world.times.map(|ms| u64::from(ms) * 1000);
        // Open requests are answered or time out.
        self.pass(renew * 2)?;
        let mut places = self.places.iter().flatten();
        if !places.any(|place| place.process.is_working()) {
            self.start()?;
        }
        // Covers acquiring a Lease, waiting for every other Lease, and the backoff of failed keys.
        let began = self.now;
        self.until_right(lease * 5 + 30_000_000)?;
        self.figures.slowest = (self.now - began) * 1000 / lease;
        self.note(|| "all is right".to_owned());
        // Ownership must remain stable, and later changes must be reconciled too.
        self.is_settled = true;
        (0..KEYS).for_each(|key| self.change(key, true));
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

impl Place {
    /// Returns the fault that cuts off requests for a while.
    fn cut(&mut self, path: Path, now: u64) -> Option<Cut> {
        self.cuts
            .retain(|cut| cut.until.is_none_or(|until| until > now));
        let mut cuts = self.cuts.iter();
        cuts.find(|cut| cut.until.is_some() && cut.is_of(path))
            .copied()
    }

    /// Returns how far its clock goes on in this many microseconds.
    const fn span(&self, time: u64) -> Duration {
        Duration::from_micros(time * self.rate / 1000)
    }
}

impl Link {
    const fn lose(&mut self, time: Duration) {
        self.lost = self.lost.saturating_add(time);
    }
}

impl Cut {
    fn is_of(&self, path: Path) -> bool {
        self.path == path || self.path == Path::All
    }
}

const fn is_list(ask: &Ask) -> bool {
    matches!(ask, Ask::List | Ask::Remove(_))
}
