//! The servers and the reference, which records every state that ever existed.
//!
//! Two API servers share one etcd. Each server can lag, go down and restart. The etcd can be compacted or restored
//! from a backup. The reference does not depend on how the fake server stores objects: it is a list of writes, and
//! the state at a version is the result of the writes up to it.

use core::time::Duration;

use informer_core::transport::FailureKind;
use informer_mock::{Backend, Chunk, Config, FakeServer, HeadPoll, Instant, ResponseId, json};

use serde_json::Value;

use super::engine::CUSTOM_GROUP;
use super::faults::FaultKind;
use super::plan::{Custom, KEYS, Objects, Scope, World};

/// One state of an object. `n` differs for every write ever made, so it identifies the state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct State {
    /// The number of the write.
    pub n: u32,
    /// Identifies the object: an object that was deleted and created again has a new one.
    pub uid: u32,
    /// Its resourceVersion.
    pub version: u64,
    /// The number in its label.
    pub label: u8,
}

impl State {
    /// Returns the uid on the wire. Its first character makes its hash fall into either half.
    #[must_use]
    pub fn uid_text(self) -> String {
        format!("{}-uid", self.uid)
    }
}

/// Why the informer cannot use an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Poison {
    /// The decoder rejects it.
    Undecodable,
    /// It exceeds the frame limit.
    Large,
}

/// A change of one key.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Its version.
    pub version: u64,
    /// The key.
    pub slot: u8,
    /// The new state; `None` for a deletion.
    pub state: Option<State>,
    /// Why the state cannot be used, if it cannot.
    pub poison: Option<Poison>,
}

/// The contents of etcd between two restores from a backup.
#[derive(Clone, Debug, Default)]
pub struct Era {
    writes: Vec<Write>,
    /// The version at its end.
    pub version: u64,
}

impl Era {
    /// Returns the last write of a key up to a version.
    #[must_use]
    pub fn at(&self, slot: u8, version: u64) -> Option<&Write> {
        let writes = self.writes.iter().rev();
        writes
            .skip_while(|write| write.version > version)
            .find(|write| write.slot == slot)
    }

    /// Returns the writes of a key, newest first.
    pub fn of(&self, slot: u8) -> impl Iterator<Item = &Write> {
        self.writes
            .iter()
            .rev()
            .filter(move |write| write.slot == slot)
    }

    /// Returns all writes.
    #[must_use]
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }
}

/// One of the two API servers.
#[derive(Debug)]
struct Server {
    fake: FakeServer,
    /// Incremented by each restart, which resets open connections.
    life: u32,
    lagging: bool,
    visible: u64,
}

/// The API servers and their etcd.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    seed: u64,
    custom: Option<Custom>,
    /// The objects are Pods, apart from custom ones.
    has_pods: bool,
    in_protobuf: bool,
    frame_limit: usize,
    servers: [Server; 2],
    /// The server that answers new connections.
    pub route: usize,
    eras: Vec<Era>,
    /// Indexed by `n`.
    states: Vec<(u8, State)>,
    next_uid: u32,
    /// The highest version ever reached.
    high: u64,
    /// A backup was restored, but its version was not moved beyond what clients have seen.
    pub raw_restore: bool,
}

/// Identifies a response of one of the servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    server: usize,
    life: u32,
    id: ResponseId,
}

impl Cluster {
    /// Makes the servers.
    #[must_use]
    pub fn new(world: &World, config: &Config) -> Self {
        let server = || Server {
            fake: fake(world.seed, config, world.custom),
            life: 0,
            lagging: false,
            visible: 1,
        };
        Self {
            config: config.clone(),
            seed: world.seed,
            custom: world.custom,
            has_pods: world.objects != Objects::Untyped && world.custom.is_none(),
            in_protobuf: world.is_in_protobuf(),
            frame_limit: world.frame_limit.into(),
            servers: [server(), server()],
            route: 0,
            eras: vec![Era {
                writes: Vec::new(),
                version: 1,
            }],
            states: Vec::new(),
            next_uid: 1,
            high: 1,
            raw_restore: false,
        }
    }

    /// Creates or changes an object.
    pub fn put(&mut self, slot: u8, label: u8, poison: Option<Poison>) {
        let uid = self
            .now()
            .at(slot, u64::MAX)
            .and_then(|write| write.state)
            .map(|state| state.uid);
        let uid = uid.unwrap_or_else(|| {
            self.next_uid += 1;
            self.next_uid
        });
        let version = self.era().version + 1;
        let n = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        let state = State {
            n,
            uid,
            version,
            label,
        };
        self.states.push((slot, state));
        self.write(Write {
            version,
            slot,
            state: Some(state),
            poison,
        });
    }

    /// Deletes an object; returns whether it existed.
    pub fn delete(&mut self, slot: u8) -> bool {
        let is_there = self
            .now()
            .at(slot, u64::MAX)
            .is_some_and(|write| write.state.is_some());
        if is_there {
            let version = self.era().version + 1;
            self.write(Write {
                version,
                slot,
                state: None,
                poison: None,
            });
        }
        is_there
    }

    fn write(&mut self, write: Write) {
        let object = self.object(&write);
        for server in &mut self.servers {
            apply(
                &mut server.fake,
                resource(self.custom),
                write.slot,
                object.clone(),
            );
        }
        let era = self.era_mut();
        era.writes.push(write);
        era.version = write.version;
        self.high = self.high.max(write.version);
    }

    /// Returns the object of a write; `None` for a deletion.
    fn object(&self, write: &Write) -> Option<Value> {
        let (namespace, name) = KEYS[usize::from(write.slot)];
        let state = write.state?;
        let filler = match write.poison {
            Some(Poison::Large) => "x".repeat(5000),
            _ => String::new(),
        };
        let mut metadata = self.metadata(write);
        metadata["name"] = name.into();
        metadata["namespace"] = namespace.into();
        metadata["uid"] = state.uid_text().into();
        metadata["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        metadata["labels"] = json!({ "app": format!("l{}", state.label) });
        // Characters of every length in UTF-8, for cuts in the middle of them.
        let note = "ü€𝄞\\\"\u{1}";
        let is_undecodable = write.poison == Some(Poison::Undecodable);
        if self.has_pods {
            let n = (!is_undecodable).then_some(state.n);
            let spec = json!({
                "nodeName": note,
                "activeDeadlineSeconds": n,
                "hostname": filler,
                "subdomain": state.n.to_string(),
            });
            return Some(json!({ "metadata": metadata, "spec": spec }));
        }
        Some(json!({
            "metadata": metadata,
            "note": note,
            "n": if is_undecodable { json!("?") } else { json!(state.n) },
            "filler": filler,
            // Makes every write different.
            "write": state.n,
        }))
    }

    /// Returns the metadata of an object, apart from its names, in the order in which the writers of a custom
    /// resource leave it.
    ///
    /// In an object that exceeds the frame limit, the identity begins around that limit.
    fn metadata(&self, write: &Write) -> Value {
        let (Some(custom), Some(state)) = (self.custom, write.state) else {
            return json!({});
        };
        let is_large = write.poison == Some(Poison::Large);
        let padding = match self
            .frame_limit
            .checked_sub(60 + state.n as usize * 7 % 300)
        {
            Some(padding) if is_large => "p".repeat(padding),
            _ => String::new(),
        };
        let managed = |text: String| json!([{ "manager": text, "name": "no" }]);
        match (custom.skips_managed_fields, state.n % 2) {
            (true, odd) => json!({
                "annotations": { "note": padding },
                "managedFields": managed("m".repeat(if odd == 1 { self.frame_limit } else { 0 })),
            }),
            (false, 0) => json!({ "annotations": { "note": padding } }),
            (false, _) => json!({ "managedFields": managed(padding) }),
        }
    }

    /// Uses a version for an unrelated write.
    pub fn bump(&mut self) {
        let version = self.era().version + 1;
        self.bump_to(version);
    }

    fn bump_to(&mut self, version: u64) {
        for server in &mut self.servers {
            server.fake.set_version(version);
        }
        let era = self.era_mut();
        era.version = era.version.max(version);
        self.high = self.high.max(version);
    }

    /// Compacts the etcd, up to `back` versions ago.
    pub fn compact(&mut self, back: u64) {
        let version = self.era().version.saturating_sub(back);
        for server in &mut self.servers {
            server.fake.compact(version.max(1));
        }
    }

    /// Makes the watch caches forget their events; the etcd keeps its history.
    pub fn forget_events(&mut self) {
        let version = self.era().version;
        for server in &mut self.servers {
            server.fake.forget_events(version);
        }
    }

    /// Makes a server lag behind the etcd from now on, initially by `back` versions.
    pub fn lag(&mut self, server: usize, back: u64) {
        let version = self.era().version.saturating_sub(back).max(1);
        let server = &mut self.servers[server];
        server.lagging = true;
        server.visible = version;
        server.fake.lag_at(version);
    }

    /// Lets a lagging server see one more version, or all of them.
    pub fn catch_up(&mut self, server: usize, all: bool) {
        let version = self.era().version;
        let server = &mut self.servers[server];
        if !server.lagging {
            return;
        }
        if all {
            server.lagging = false;
            server.fake.catch_up();
        } else {
            server.visible = (server.visible + 1).min(version);
            server.fake.show_up_to(server.visible);
        }
    }

    /// Takes a server down.
    pub fn go_down(&mut self, server: usize) {
        self.servers[server].fake.go_down();
    }

    /// Brings a server up.
    pub fn come_up(&mut self, server: usize) {
        self.servers[server].fake.come_up();
    }

    /// Restarts a server.
    pub fn restart(&mut self, server: usize, unready: Duration) {
        self.servers[server].fake.restart(unready);
    }

    /// Restores the etcd from a backup that lacks the last `back` writes. A proper restore moves the version beyond
    /// all that clients have seen, and compacts. An improper one, which is common, does neither.
    pub fn restore(&mut self, now: Instant, back: usize, properly: bool) {
        let old = self.era().clone();
        let kept = old.writes.len().saturating_sub(back);
        let mut era = Era {
            version: 1,
            writes: old.writes[..kept].to_vec(),
        };
        self.raw_restore |= !properly;
        let objects: Vec<Option<Value>> =
            era.writes.iter().map(|write| self.object(write)).collect();
        for server in &mut self.servers {
            server.fake.go_down();
            server.fake = fake(self.seed, &self.config, self.custom);
            server.life += 1;
            server.fake.tick(now);
            server.lagging = false;
            for (write, object) in era.writes.iter().zip(&objects) {
                server.fake.set_version(write.version - 1);
                apply(
                    &mut server.fake,
                    resource(self.custom),
                    write.slot,
                    object.clone(),
                );
            }
        }
        era.version = era.writes.last().map_or(1, |write| write.version);
        self.eras.push(era);
        if properly {
            self.bump_to(self.high + 1000);
            self.compact(0);
        }
    }

    /// Returns whether an object exists whose newest state cannot be used.
    #[must_use]
    pub fn is_spoilt(&self, slot: u8) -> bool {
        let newest = self.now().at(slot, u64::MAX);
        newest.is_some_and(|write| write.state.is_some() && write.poison.is_some())
    }

    /// Loses an object without an event, as a buggy server does. Returns whether there was one.
    pub fn lose(&mut self, slot: u8) -> bool {
        let newest = self.now().at(slot, u64::MAX);
        if newest.is_none_or(|write| write.state.is_none()) {
            return false;
        }
        let (namespace, name) = KEYS[usize::from(slot)];
        let mut lost = false;
        for server in &mut self.servers {
            lost |= server
                .fake
                .forget(resource(self.custom), namespace, name)
                .is_ok();
        }
        if lost {
            // In the reference the object is absent from the next version on, as it is for a client that lists.
            self.bump();
            let version = self.era().version;
            self.era_mut().writes.push(Write {
                version,
                slot,
                state: None,
                poison: None,
            });
        }
        lost
    }

    /// Adds a fault for the next request, see [`FaultKind::fault`].
    pub fn inject(&mut self, kind: FaultKind, at: u8) {
        let fault = kind.fault(at, self.in_protobuf);
        for server in &mut self.servers {
            server.fake.clear_faults();
            server.fake.inject(fault.clone());
        }
    }

    /// Resets, ends or stalls all watches.
    pub fn disturb_watches(&mut self, how: fn(&mut FakeServer)) {
        for server in &mut self.servers {
            how(&mut server.fake);
        }
    }

    /// Ends all faults. If clients may hold versions that do not exist, moves the etcd beyond them.
    pub fn heal(&mut self) {
        for server in 0..2 {
            self.catch_up(server, true);
            self.come_up(server);
            let fake = &mut self.servers[server].fake;
            fake.clear_faults();
            let config = fake.config_mut();
            config.bookmarks = true;
            config.ends_streams = true;
            config.bookmark_every = Config::default().bookmark_every;
            config.latency = Duration::ZERO;
            config.idle_cut = None;
        }
        self.route = 0;
        if self.raw_restore {
            self.bump_to(self.high + 1);
            self.compact(0);
        }
    }

    /// Sends a request to one of the servers.
    pub fn ask(&mut self, now: Instant, target: &str, accept: &str) -> Open {
        let server = self.route;
        let id = self.servers[server]
            .fake
            .handle_request(now, target, accept);
        // A fault hits one request, on whichever server receives it.
        if !self.servers[server].fake.has_faults() {
            self.servers[1 - server].fake.clear_faults();
        }
        let life = self.servers[server].life;
        Open { server, life, id }
    }

    /// Returns whether a fault is pending.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.servers[self.route].fake.has_faults()
    }

    /// Polls the head of an answer.
    pub fn head(&mut self, now: Instant, open: Open) -> HeadPoll {
        self.living(open)
            .map_or(HeadPoll::Failed(FailureKind::Reset), |fake| {
                fake.poll_head(now, open.id)
            })
    }

    /// Polls the next chunk of an answer.
    pub fn chunk(&mut self, now: Instant, open: Open) -> Chunk {
        self.living(open)
            .map_or(Chunk::Abort(FailureKind::Reset), |fake| {
                fake.poll_chunk(now, open.id)
            })
    }

    /// Closes an answer.
    pub fn close(&mut self, open: Open) {
        if let Some(fake) = self.living(open) {
            fake.close(open.id);
        }
    }

    /// Returns the server of an answer, unless it has restarted since.
    fn living(&mut self, open: Open) -> Option<&mut FakeServer> {
        let server = &mut self.servers[open.server];
        (server.life == open.life).then_some(&mut server.fake)
    }

    /// Makes a server send GOAWAY.
    pub fn go_away(&mut self, server: usize) {
        self.servers[server].fake.go_away();
    }

    /// Sets the time of the servers.
    pub fn tick(&mut self, now: Instant) {
        for server in &mut self.servers {
            server.fake.tick(now);
        }
    }

    /// Changes the configuration of both servers.
    pub fn configure(&mut self, change: impl Fn(&mut Config)) {
        for server in &mut self.servers {
            change(server.fake.config_mut());
        }
    }

    /// Returns the present contents of etcd.
    #[must_use]
    pub fn now(&self) -> &Era {
        self.era()
    }

    fn era(&self) -> &Era {
        // There is always at least one era.
        &self.eras[self.eras.len() - 1]
    }

    fn era_mut(&mut self) -> &mut Era {
        let last = self.eras.len() - 1;
        &mut self.eras[last]
    }

    /// Returns the number of the present era.
    #[must_use]
    pub const fn era_number(&self) -> usize {
        self.eras.len() - 1
    }

    /// Returns the contents of etcd in an era.
    #[must_use]
    pub fn in_era(&self, era: usize) -> &Era {
        &self.eras[era]
    }

    /// Returns the state made by the write with this number, and its key.
    #[must_use]
    pub fn written(&self, n: u32) -> Option<(u8, State)> {
        self.states.get(n as usize).copied()
    }

    /// Returns the state of a key that an informer with this scope should have at a version.
    #[must_use]
    pub fn expected(&self, era: usize, scope: Scope, slot: u8, version: u64) -> Expected {
        let era = self.in_era(era);
        let chosen = era
            .at(slot, version)
            .and_then(|write| Some((write, write.state?)));
        let Some((write, state)) = chosen.filter(|(_, state)| scope.takes(slot, *state)) else {
            return Expected::Nothing;
        };
        match write.poison {
            None => Expected::State(state),
            Some(_) => Expected::OlderThan(state),
        }
    }
}

/// The expected state of a key in an informer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// No object.
    Nothing,
    /// This state.
    State(State),
    /// The latest state cannot be used: an older state, if there was one, or no object.
    OlderThan(State),
}

/// The name under which the fake server knows the resource.
const fn resource(custom: Option<Custom>) -> &'static str {
    match custom {
        Some(_) => "pods.example.com",
        None => "pods",
    }
}

fn fake(seed: u64, config: &Config, custom: Option<Custom>) -> FakeServer {
    let mut fake = FakeServer::with_config(seed, config.clone());
    if custom.is_some() {
        fake.add_resource(CUSTOM_GROUP, "v1", "pods", "Pod", true);
    }
    fake
}

/// Creates, changes or deletes an object.
fn apply(server: &mut FakeServer, resource: &str, slot: u8, object: Option<Value>) {
    let (namespace, name) = KEYS[usize::from(slot)];
    // The reference has confirmed that the write is possible.
    let _ = match object {
        Some(object) => server.put(resource, object).map(drop),
        None => server.delete(resource, namespace, name).map(drop),
    };
}
