//! Carries out the actions of a plan, and lets other actors act.

use core::future::{Future as _, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use informer_core::{Instant, Timer as _};
use serde_json::{Value, json};

use super::action::{Action, CrashAt, FaultKind, UserChange};
use super::describe::describe;
use super::dice::Dice;
use super::due::Crash;
use super::paths::{namespace_of, path};
use super::plan::Plan;
use super::run::Slots;
use super::trace::{EntryKind, SERVER};
use super::world::Shared;
use informer_mock::FakeServer;

/// The number of API servers.
pub(super) const SERVERS: usize = 2;

/// Drives the world of a run.
pub(super) struct Driver<'a> {
    pub(super) shared: &'a Arc<Shared>,
    slots: &'a Slots,
    /// The times at which servers that are down come up.
    coming_up: Vec<(Instant, usize)>,
    /// When the garbage collector acts next, if it is slow.
    garbage_at: Option<Instant>,
    /// When each actor acts next.
    acting: Vec<Option<Instant>>,
    /// The version that the actors have noticed.
    seen: u64,
    rounds: u64,
}

impl<'a> Driver<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, slots: &'a Slots) -> Self {
        let acting = shared.spec.actors.iter().map(|_| Some(shared.now()));
        Self {
            shared,
            slots,
            coming_up: Vec::new(),
            garbage_at: None,
            acting: acting.collect(),
            seen: 0,
            rounds: 0,
        }
    }

    /// Carries out a plan until everything has come to rest and all checks hold, or until one fails.
    pub(super) async fn drive(mut self, plan: &Plan) {
        let start = self.shared.now();
        for step in &plan.steps {
            let mut had_effect = false;
            for (after, action) in &step.actions {
                self.pass_until(start + step.at + *after).await;
                let what = describe(action, &self.shared.spec);
                let lane = self.lane_of(action);
                self.shared.record(lane, EntryKind::Action, what);
                had_effect |= self.act(action);
                self.shared.changed("events");
            }
            if let Some(kind) = step.kind.filter(|_| had_effect) {
                self.shared.fired(kind);
            }
        }
        self.pass_until(start + plan.end).await;
        self.end().await;
    }

    fn lane_of(&self, action: &Action) -> usize {
        match action {
            Action::User { .. } => self.shared.lane("user"),
            Action::Person { .. } => self.shared.lane("person"),
            _ => SERVER,
        }
    }

    /// Lets time pass, in which actors act and servers come up.
    pub(super) async fn pass_until(&mut self, end: Instant) {
        loop {
            self.notice();
            let due = self.acting.iter().flatten().copied();
            let due = due.chain(self.garbage_at);
            let next = due.chain(self.coming_up.iter().map(|(at, _)| *at)).min();
            let next = next.map_or(end, |next| next.min(end));
            if self.wait(next).await {
                continue;
            }
            let now = self.shared.now();
            self.come_up(now);
            self.collect_garbage(now);
            for index in 0..self.acting.len() {
                if self.acting[index].is_some_and(|at| at <= now) {
                    self.acting[index] = None;
                    let actor = self.shared.spec.actors[index].clone();
                    let again = actor.act(self.shared);
                    self.acting[index] = again.map(|again| now + again);
                }
            }
            if now >= end {
                return;
            }
        }
    }

    /// Waits until a time. Returns true if the state has changed before, which actors may notice.
    async fn wait(&self, until: Instant) -> bool {
        let mut clock = *self.shared.mock.clock();
        let mut sleep = pin!(clock.sleep_until(until));
        let watches = !self.acting.is_empty() || self.shared.settings.slow_deletion;
        poll_fn(|context| {
            if watches && self.version() != self.seen {
                return Poll::Ready(true);
            }
            // The run polls this whenever a process does something.
            sleep.as_mut().poll(context).map(|()| false)
        })
        .await
    }

    fn version(&self) -> u64 {
        self.shared.mock.read(FakeServer::version)
    }

    /// Schedules the actors after a change.
    fn notice(&mut self) {
        let version = self.version();
        if version == self.seen {
            return;
        }
        self.seen = version;
        self.rounds += 1;
        let now = self.shared.now();
        if self.shared.settings.slow_deletion && self.garbage_at.is_none() {
            let mut dice = Dice::of(&[self.shared.seed, self.rounds, 13]);
            let most = if self.shared.state().is_calm {
                1
            } else {
                60_000
            };
            self.garbage_at = Some(now + Duration::from_millis(1 + dice.below(most)));
        }
        for (index, at) in self.acting.iter_mut().enumerate() {
            let most = self.shared.spec.actors[index].within.as_millis();
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            let mut dice = Dice::of(&[self.shared.seed, self.rounds, index as u64, 9]);
            let due = now + Duration::from_millis(1 + dice.below(most));
            *at = Some(at.map_or(due, |at| at.min(due)));
        }
    }

    /// Carries out an action. Returns whether a fault has had an effect by that alone: a fault of a request is counted
    /// when it meets one.
    fn act(&mut self, action: &Action) -> bool {
        let shared = self.shared;
        let now = shared.now();
        match *action {
            Action::Wait => return false,
            Action::User { slot, change } => {
                self.user(slot, change);
                return false;
            }
            Action::Person {
                resource,
                which,
                deletes,
            } => {
                self.person(resource, which, deletes);
                return false;
            }
            Action::Crash {
                replica,
                at: CrashAt::Now,
                down,
                ..
            } => {
                self.slots.kill(shared, replica, down);
                return false;
            }
            Action::Crash {
                replica,
                at,
                skip,
                down,
            } => {
                shared.state().due.crash(Crash {
                    replica,
                    at,
                    skip,
                    down,
                });
                return false;
            }
            Action::Partition { replica, time } => {
                let mut state = shared.state();
                let until = state.partitions.entry(replica).or_insert(now);
                *until = (now + time).max(*until);
                return false;
            }
            Action::Upgrade { replica } => {
                self.slots.upgrade(shared, replica);
                return false;
            }
            Action::Pause { replica, time } => {
                {
                    let mut state = shared.state();
                    let until = state.pauses.entry(replica).or_insert(now);
                    *until = (now + time).max(*until);
                }
                // The run is polled again when it ends.
                let shared = Arc::clone(shared);
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    shared.wake_main();
                });
            }
            Action::Jump { replica, by } => {
                *shared.state().jumps.entry(replica).or_default() += by;
            }
            Action::Call { has_effect, skip } => {
                shared.state().due.call(has_effect, skip);
                return false;
            }
            Action::Duplicate { replica, time } => self.slots.add(shared, replica, Some(time)),
            Action::Lag { server } => self.at(server, |server| server.lag_at(server.version())),
            Action::CatchUp { server } => self.at(server, FakeServer::catch_up),
            Action::Route { replica, server } => {
                shared.state().routes.insert(replica, server);
            }
            Action::Down { server, time } => {
                self.at(server, FakeServer::go_down);
                shared.state().down.insert(server, now + time);
                self.coming_up.push((now + time, server));
            }
            Action::Restart { server, unready } => {
                self.at(server, |server| server.restart(unready));
                shared.state().down.insert(server, now + unready);
            }
            Action::CutWatches => return self.at_watches(FakeServer::cut_watches),
            Action::CloseWatches => return self.at_watches(FakeServer::close_watches),
            Action::StallWatches => return self.at_watches(FakeServer::stall_watches),
            Action::GoAway => self.at_all(FakeServer::go_away),
            Action::ForgetEvents => shared
                .mock
                .with(|server| server.forget_events(server.version())),
            Action::Compact => shared.mock.with(FakeServer::compact_all),
            Action::Read { fault, count } => {
                shared.state().due.read(fault, count);
                return false;
            }
            Action::Write { fault, skip, of } => {
                shared.state().due.write(fault, skip, of);
                return false;
            }
            Action::Restore { back } => {
                shared
                    .mock
                    .with(|server| server.restore(server.version().saturating_sub(back)));
            }
            Action::Lose { which } => return self.lose(which),
        }
        true
    }

    /// A user changes an object.
    fn user(&self, slot: usize, change: UserChange) {
        let (objects, name) = self.shared.spec.find(slot);
        let Some(kind) = self.shared.resource(&objects.resource) else {
            let what = format!("there is no resource {}", objects.resource);
            self.shared.violate("the resources exist", &what);
            return;
        };
        let object = objects.make(name, 0);
        let namespace = namespace_of(&kind, &object);
        let (one, all) = (path(&kind, namespace, name), path(&kind, namespace, ""));
        let lane = self.shared.lane("user");
        let get = || {
            self.shared
                .mock
                .read(|server| server.get(&objects.resource, namespace, name))
        };
        if matches!(change, UserChange::Delete | UserChange::Recreate(_)) && get().is_some() {
            let (status, _) = self.shared.write(lane, "DELETE", &one, &Value::Null);
            if status < 300 {
                self.shared.state().wishes.remove(&slot);
            }
        }
        if let UserChange::Put(variant) | UserChange::Recreate(variant) = change {
            let (status, answer) = if get().is_some() {
                self.shared
                    .write(lane, "PATCH", &one, &objects.change(variant))
            } else {
                let object = objects.make(name, variant);
                self.shared.write(lane, "POST", &all, &object)
            };
            let refused = match answer["message"].as_str() {
                _ if status < 300 => String::new(),
                message => format!("{status} {}", message.unwrap_or_default()),
            };
            let of = (self.shared.spec.index_of(slot), variant);
            let mut state = self.shared.state();
            if refused.is_empty() {
                state.wishes.insert(slot, variant);
            }
            state.tally.wrote(of, refused);
        }
    }

    /// A person edits or deletes an object that the controller may have written.
    fn person(&self, resource: usize, which: u64, deletes: bool) {
        let resource = &self.shared.spec.edited[resource];
        let (Some(kind), Some((namespace, name))) =
            (self.shared.resource(resource), self.one_of(resource, which))
        else {
            return;
        };
        let target = path(&kind, &namespace, &name);
        let lane = self.shared.lane("person");
        if deletes {
            self.shared.write(lane, "DELETE", &target, &Value::Null);
        } else {
            let edit = json!({ "metadata": { "annotations": { "edited": format!("{which}") } } });
            self.shared.write(lane, "PATCH", &target, &edit);
        }
    }

    /// Returns the namespace and name of one of the objects of a resource.
    fn one_of(&self, resource: &str, which: u64) -> Option<(String, String)> {
        self.shared.mock.read(|server| {
            let count = server.objects(resource).count() as u64;
            let index = usize::try_from(which.checked_rem(count)?).ok()?;
            let object = server.objects(resource).nth(index)?;
            Some((object.namespace().to_owned(), object.name().to_owned()))
        })
    }

    /// The server loses an object of the users without an event.
    fn lose(&self, which: u64) -> bool {
        let slots = self.shared.spec.slots() as u64;
        let Some(slot) = which.checked_rem(slots) else {
            return false;
        };
        let (objects, name) = self.shared.spec.find(times(slot));
        let namespace = objects.object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or("default");
        // It may not exist.
        let lost = |server: &mut FakeServer| server.forget(&objects.resource, namespace, name);
        self.shared.mock.with(lost).is_ok()
    }

    /// Changes one API server.
    fn at(&self, index: usize, change: impl FnOnce(&mut FakeServer)) {
        self.shared.mock.with(|server| {
            server.route_to(index);
            change(server);
            server.route_to(0);
        });
    }

    fn at_all(&self, change: impl Fn(&mut FakeServer)) {
        for server in 0..SERVERS {
            self.at(server, &change);
        }
    }

    /// Changes all watches. Returns whether there are any.
    fn at_watches(&self, change: impl Fn(&mut FakeServer)) -> bool {
        let (_, watches) = self.shared.mock.with(FakeServer::open_responses);
        self.at_all(change);
        watches > 0
    }

    fn collect_garbage(&mut self, now: Instant) {
        if self.garbage_at.is_none_or(|at| at > now) {
            return;
        }
        self.garbage_at = None;
        let (before, after) = self.shared.mock.with(|server| {
            let before = server.version();
            server.collect_garbage();
            (before, server.version())
        });
        if before != after {
            self.shared
                .note("the garbage collector deletes objects without an owner");
            self.shared.fired(FaultKind::SlowDeletion);
            self.shared.changed("garbage");
        }
    }

    fn come_up(&mut self, now: Instant) {
        let mut due: Vec<usize> = Vec::new();
        self.coming_up.retain(|(at, server)| {
            if *at <= now {
                due.push(*server);
            }
            *at > now
        });
        for server in due {
            self.at(server, FakeServer::come_up);
        }
    }

    /// Ends all faults.
    pub(super) fn calm(&mut self) {
        self.shared.note("all faults end");
        self.garbage_at = self.garbage_at.map(|_| self.shared.now());
        for server in core::mem::take(&mut self.coming_up) {
            self.at(server.1, FakeServer::come_up);
        }
        self.at_all(FakeServer::catch_up);
        self.shared.mock.with(FakeServer::clear_faults);
        for replica in 0..self.shared.spec.replicas {
            self.slots.upgrade(self.shared, replica);
        }
        let mut state = self.shared.state();
        state.due.clear();
        state.routes.clear();
        state.is_calm = true;
        state.down.clear();
    }
}

fn times(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
