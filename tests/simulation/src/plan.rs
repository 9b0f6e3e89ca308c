//! The plan of one run: the world and a list of actions. It is made from a seed, and can be shrunk.

use core::fmt;

use informer_core::resource::{Shard, ShardBy};

use super::cluster::{Poison, State};
use super::entropy::Entropy;
use super::faults::FaultKind;

/// The keys of all worlds. Most worlds use the first three, which lie in two namespaces.
pub const KEYS: [(&str, &str); 6] = [
    ("a", "x"),
    ("b", "x"),
    ("a", "y"),
    ("a", "z"),
    ("b", "y"),
    ("b", "z"),
];

/// `namespace/name` of [`KEYS`].
pub const KEY_NAMES: [&str; 6] = ["a/x", "b/x", "a/y", "a/z", "b/y", "b/z"];

/// The number of actions in a plan made from a seed.
pub const STEPS: usize = 220;

/// The objects that an informer requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// All objects.
    All,
    /// The objects of one namespace.
    Namespace(&'static str),
    /// The objects with one label, in all namespaces.
    Label(u8),
    /// Half of the objects, divided by uid. The server sends both halves.
    Half(u8),
}

impl Scope {
    /// Returns whether the scope includes an object in this state.
    #[must_use]
    pub fn takes(self, slot: u8, state: State) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => KEYS[usize::from(slot)].0 == namespace,
            Self::Label(label) => state.label == label,
            Self::Half(half) => half_of(half).has(&state.uid_text()),
        }
    }
}

/// Returns one half of all uids.
///
/// # Panics
/// Panics unless `half` is 0 or 1.
#[must_use]
pub fn half_of(half: u8) -> Shard {
    Shard::of(ShardBy::Uid, half.into(), 2).expect("there are two halves")
}

/// A custom resource: the API server sorts its members, so the identity follows annotations and managedFields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Custom {
    /// The decoder skips managedFields, and usable objects exceed the frame limit only because of them.
    pub skips_managed_fields: bool,
}

/// The settings of a world.
#[derive(Clone, Debug)]
pub struct World {
    /// The seed of jitter and hashes.
    pub seed: u64,
    /// The number of [`KEYS`] in use.
    pub keys: u8,
    /// The scope of each source. Two scopes make a cache of two sources.
    pub scopes: &'static [Scope],
    /// Drives the reflector and the cache separately instead of through a `PolledInformer`.
    pub parts: bool,
    /// Merges the deltas of a key while they are pending.
    pub merged: bool,
    /// Behaves as client-go does.
    pub client_go: bool,
    /// Starts with a streaming list.
    pub stream: bool,
    /// Remembers that the server refuses streaming lists.
    pub remember_refusal: bool,
    /// The page size; 0 means no pages.
    pub page: u8,
    /// The server supports streaming lists.
    pub watch_list: bool,
    /// The server sends bookmarks.
    pub bookmarks: bool,
    /// The watch cache honours `limit`.
    pub cache_pages: bool,
    /// A watch at an expired version is answered with status 410 rather than with an ERROR event.
    pub gone_http: bool,
    /// The server forgets events after 75 s, and its history after 5 minutes.
    pub forgetful: bool,
    /// Milliseconds until an answer starts.
    pub latency: u16,
    /// Seconds of silence after which a middlebox resets a connection; 0 means never.
    pub idle_cut: u8,
    /// An object exists under every key when the informer starts.
    pub full: bool,
    /// The number of objects that fit into the cache; 0 means any number.
    pub room: u8,
    /// An unusual behaviour of the server's watches.
    pub oddity: Oddity,
    /// The resource is a custom resource.
    pub custom: Option<Custom>,
    /// The objects, unless they are custom ones, and the format that the informer requests.
    pub objects: Objects,
    /// The frame limit: the maximum size of an object in bytes.
    pub frame_limit: u16,
    /// The version of a complete list is passed on only after the list is applied, as in a runtime that applies
    /// batches.
    pub batched: bool,
}

/// The objects of a world, and the format in which an informer requests them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Objects {
    /// JSON with members that no Pod has.
    Untyped,
    /// Pods in JSON.
    Json,
    /// Pods in protobuf. A custom resource is served in JSON nevertheless.
    Protobuf,
}

/// An unusual behaviour of a server's watches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Oddity {
    /// None.
    None,
    /// The resource has no watch cache: the only bookmark is the one that ends a streaming list.
    Uncached,
    /// Streaming lists never send the bookmark that ends them, but a bookmark is sent every 20 s.
    Endless,
}

/// One action in a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Creates or changes an object.
    Put(u8, u8),
    /// Writes an object that the informer cannot use.
    Spoil(u8, bool),
    /// Deletes an object.
    Delete(u8),
    /// Deletes an object and creates it again at once.
    Recreate(u8),
    /// Advances the version for an unrelated write.
    Bump,
    /// Injects a fault into the next request.
    Fault(FaultKind, u8),
    /// Injects a fault into the next request for a later page.
    PageFault(FaultKind, u8),
    /// Compacts the etcd, up to this many versions ago.
    Compact(u8),
    /// Makes the watch caches forget their events.
    ForgetEvents,
    /// A server lags from now on, initially by this many versions.
    Lag(u8, u8),
    /// A lagging server catches up: by one version, or completely.
    CatchUp(u8, bool),
    /// Routes new connections to this server.
    Route(u8),
    /// A server goes down.
    Down(u8),
    /// A server comes up.
    Up(u8),
    /// A server restarts and is not ready for this many seconds.
    Restart(u8, u8),
    /// The etcd is restored from a backup.
    Restore(u8, bool),
    /// The server loses an object without an event.
    Lose(u8),
    /// Resets the connections of watches.
    CutWatches,
    /// Ends watches cleanly.
    CloseWatches,
    /// Makes watches fall silent.
    StallWatches,
    /// A server sends GOAWAY: requests without an answer are cut, answers that have started continue.
    GoAway(u8),
    /// Turns bookmarks on or off.
    Bookmarks(bool),
    /// The client reads up to this many of the available bytes.
    Read(u8, u8),
    /// The client reads all available bytes.
    ReadAll(u8),
    /// Pops this many notifications.
    Pop(u8),
    /// Delivers up to this many events to a handler.
    Hear(u8, u8),
    /// Lets milliseconds pass; the flag chooses whether data is read and popped meanwhile.
    Pass(u32, bool),
    /// Jumps to the next deadline.
    ToDeadline,
    /// Sets the clock back by milliseconds.
    ClockBack(u16),
    /// A handler joins, with its resync period in seconds, its backlog, and whether it wants unchanged objects.
    Join(u8, u8, bool),
    /// Pops notifications up to a deletion; a handler with this backlog joins before the next one.
    JoinAmid(u8),
    /// A handler leaves.
    Leave(u8),
    /// The user adds an index.
    AddIndex,
    /// A handler with a resync period of one second joins, and no handler receives anything for this many seconds.
    Unheard(u8),
    /// The journal's disk becomes full, or has room again.
    DiskFull(bool),
    /// The user requests a resync.
    Resync,
    /// The user requests a relist.
    Relist(u8),
    /// An abandoned request is answered after all.
    LateAnswer(u8),
    /// The client's process ends and a new one starts.
    Reborn,
    /// The user stops the informer and starts a new one.
    Stop,
}

/// A world and the actions in it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings of the world.
    pub world: World,
    /// The actions.
    pub actions: Vec<Action>,
}

impl Plan {
    /// In some plans, fills the journal's disk for a while.
    pub(super) fn fill_disk(&mut self, seed: u64) {
        // A separate generator, so that no other choice of the seed changes.
        let entropy = &mut Entropy::of(!seed);
        if entropy.one_in(3) {
            let begin = entropy.below(u32::try_from(self.actions.len()).unwrap_or(u32::MAX));
            let end = self.actions.len().min((begin + entropy.below(60)) as usize);
            self.actions.insert(end, Action::DiskFull(false));
            self.actions.insert(begin as usize, Action::DiskFull(true));
        }
    }

    /// Makes the plan of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut entropy = Entropy::of(seed);
        Self::generate(&mut entropy, seed, STEPS)
    }

    /// Makes a plan from bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut entropy = Entropy::Bytes(bytes);
        let seed = u64::from(entropy.below(256));
        Self::generate(&mut entropy, seed, STEPS)
    }

    fn generate(entropy: &mut Entropy<'_>, seed: u64, steps: usize) -> Self {
        let mut world = World::generate(entropy, seed);
        let mut temper = Temper::generate(entropy);
        if temper.pager {
            temper.reading *= 4;
            temper.client *= 4;
            temper.servers *= 4;
            world.stream = false;
            world.page = 1;
            world.full = true;
        }
        let mut actions = Vec::with_capacity(steps);
        while actions.len() < steps && !entropy.is_spent() {
            actions.push(temper.action(entropy, &world));
        }
        // Drawn last, so that no other choice changes.
        world.oddity = match entropy.below(12) {
            10 => Oddity::Endless,
            11 => Oddity::Uncached,
            _ => Oddity::None,
        };
        world.customize(entropy);
        world.batched = entropy.one_in(6);
        for (rare, often) in [(Action::AddIndex, 4), (Action::Unheard(0), 8)] {
            if entropy.one_in(often) {
                let rare = match rare {
                    Action::Unheard(_) => Action::Unheard(18 + small(entropy, 20)),
                    rare => rare,
                };
                insert(entropy, &mut actions, rare);
            }
        }
        Self { world, actions }
    }
}

impl World {
    fn generate(entropy: &mut Entropy<'_>, seed: u64) -> Self {
        const SCOPES: [&[Scope]; 6] = [
            &[Scope::All],
            &[Scope::All],
            &[Scope::Namespace("a"), Scope::Namespace("b")],
            &[Scope::Label(0)],
            &[Scope::Namespace("a")],
            &[Scope::Namespace("b"), Scope::Namespace("a")],
        ];
        let client_go = entropy.one_in(10);
        Self {
            seed,
            keys: [3, 3, 2, 6][entropy.below(4) as usize],
            scopes: entropy.pick(&SCOPES),
            parts: entropy.one_in(3),
            merged: entropy.one_in(3),
            client_go,
            stream: entropy.below(2) == 1,
            remember_refusal: entropy.one_in(4),
            page: [0, 1, 2, 0][entropy.below(4) as usize],
            watch_list: !entropy.one_in(4),
            bookmarks: !entropy.one_in(4),
            cache_pages: entropy.one_in(3),
            gone_http: entropy.one_in(3),
            forgetful: entropy.one_in(4),
            latency: [0, 0, 5, 400][entropy.below(4) as usize],
            idle_cut: [0, 0, 0, 0, 0, 2, 20, 50][entropy.below(8) as usize],
            full: entropy.one_in(3),
            room: 0,
            oddity: Oddity::None,
            custom: None,
            objects: Objects::Untyped,
            frame_limit: 4096,
            batched: false,
        }
    }

    /// Makes some worlds use a custom resource, and some of these one or two shards.
    fn customize(&mut self, entropy: &mut Entropy<'_>) {
        if !entropy.one_in(4) {
            return;
        }
        self.frame_limit = entropy.pick(&[4096, 1024, 2048]);
        self.custom = Some(Custom {
            skips_managed_fields: entropy.one_in(3),
        });
        if self.scopes == [Scope::All] && entropy.one_in(2) {
            self.scopes = if entropy.one_in(2) {
                &[Scope::Half(0), Scope::Half(1)]
            } else {
                &[Scope::Half(0)]
            };
        }
    }

    /// Returns whether answers are in protobuf.
    #[must_use]
    pub fn is_in_protobuf(&self) -> bool {
        self.objects == Objects::Protobuf && self.custom.is_none() && !self.client_go
    }

    /// Returns whether each half of the objects has a source, so that an object can be created again in the other one.
    #[must_use]
    pub const fn is_of_halves(&self) -> bool {
        matches!(self.scopes, [Scope::Half(_), _])
    }

    /// Returns whether the reflector and the cache must be driven separately.
    #[must_use]
    pub const fn needs_parts(&self) -> bool {
        self.parts || self.scopes.len() > 1 || self.merged || self.batched
    }
}

/// The character of a run. Each run has more of some actions, so that rare combinations occur often.
#[derive(Clone, Copy, Debug)]
struct Temper {
    changes: u32,
    faults: u32,
    servers: u32,
    reading: u32,
    time: u32,
    client: u32,
    favourite: FaultKind,
    /// The servers do not lie. Lies weaken what the invariants can check.
    honest: bool,
    /// The run concentrates on lists in many pages.
    pager: bool,
}

impl Temper {
    fn generate(entropy: &mut Entropy<'_>) -> Self {
        let mut weight = |usual: u32| usual * [1, 1, 2, 4][entropy.below(4) as usize];
        Self {
            changes: weight(6),
            faults: weight(2),
            servers: weight(1),
            reading: weight(6),
            time: weight(3),
            client: weight(1),
            favourite: entropy.pick(&FaultKind::ALL),
            honest: !entropy.one_in(3),
            pager: entropy.one_in(3),
        }
    }

    fn action(self, entropy: &mut Entropy<'_>, world: &World) -> Action {
        let weights = [
            self.changes,
            self.faults,
            self.servers,
            self.reading,
            self.time,
            self.client,
        ];
        let mut at = entropy.below(weights.iter().sum());
        let mut group = 0;
        while at >= weights[group] {
            at -= weights[group];
            group += 1;
        }
        match group {
            0 => Self::change(entropy, world),
            1 => self.fault(entropy),
            2 => self.server(entropy),
            3 => self.reading(entropy),
            4 => self.time(entropy),
            _ => self.client(entropy),
        }
    }

    fn change(entropy: &mut Entropy<'_>, world: &World) -> Action {
        let what = entropy.below(16);
        let slot = small(entropy, world.keys.into());
        match what {
            0..8 => Action::Put(slot, small(entropy, 2)),
            8..12 => Action::Delete(slot),
            12..14 => Action::Recreate(slot),
            14 => Action::Spoil(slot, entropy.below(2) == 1),
            _ => Action::Bump,
        }
    }

    fn fault(self, entropy: &mut Entropy<'_>) -> Action {
        let kind = if entropy.below(2) == 1 {
            self.favourite
        } else {
            entropy.pick(&FaultKind::ALL)
        };
        let kind = if self.honest && kind.lies() {
            FaultKind::Half
        } else {
            kind
        };
        let at = small(entropy, 256);
        if entropy.one_in(if self.pager { 2 } else { 8 }) {
            Action::PageFault(kind, at)
        } else {
            Action::Fault(kind, at)
        }
    }

    fn server(self, entropy: &mut Entropy<'_>) -> Action {
        let what = entropy.below(27);
        let server = small(entropy, 2);
        match what {
            0..5 => Action::CutWatches,
            5..7 => Action::CloseWatches,
            7 => Action::StallWatches,
            8..11 => Action::Compact(small(entropy, 4)),
            11 => Action::ForgetEvents,
            12 => Action::Lag(server, small(entropy, 8)),
            13..16 => Action::CatchUp(server, entropy.below(2) == 1),
            16..18 => Action::Route(server),
            18 => Action::Down(server),
            19..21 => Action::Up(server),
            21 => Action::Restart(server, small(entropy, 10)),
            22 => Action::Bookmarks(entropy.below(2) == 1),
            23 if !entropy.one_in(4) => Action::CutWatches,
            23 => Action::Restore(small(entropy, 8), self.honest || entropy.below(2) == 1),
            26 => Action::GoAway(server),
            24 if !self.honest => Action::Lose(small(entropy, 6)),
            _ => Action::Up(server),
        }
    }

    fn reading(self, entropy: &mut Entropy<'_>) -> Action {
        let source = small(entropy, 2);
        match entropy.below(8) {
            // Reads one page at a time, or a part of one.
            0..6 if self.pager => Action::Read(source, small(entropy, 60) + 1),
            0..4 => Action::ReadAll(source),
            4..6 => Action::Read(source, small(entropy, 250) + 1),
            6 => Action::Pop(small(entropy, 6) + 1),
            _ => Action::Hear(small(entropy, 4), small(entropy, 8) + 1),
        }
    }

    fn time(self, entropy: &mut Entropy<'_>) -> Action {
        match entropy.below(16) {
            // Passing time while everything is read would leave no page half read.
            0..5 if self.pager => Action::ToDeadline,
            0..6 => Action::Pass(
                [10, 900, 1_100, 2_000, 5_000, 31_000][entropy.below(6) as usize],
                true,
            ),
            6 | 7 => Action::Pass([10, 900, 5_000, 61_000][entropy.below(4) as usize], false),
            8..14 => Action::ToDeadline,
            14 => Action::Pass(
                [62_000, 80_000, 240_000, 3_600_000][entropy.below(4) as usize],
                true,
            ),
            _ => Action::ClockBack(10 + 500 * u16::from(small(entropy, 4))),
        }
    }

    fn client(self, entropy: &mut Entropy<'_>) -> Action {
        if self.pager {
            match entropy.below(3) {
                0 => return Action::Relist(small(entropy, 2)),
                // Occasionally in the middle of a page.
                1 if entropy.one_in(3) => return Action::Stop,
                1 if entropy.one_in(3) => return Action::Reborn,
                _ => {}
            }
        }
        match entropy.below(14) {
            0..3 => {
                let resync = [0, 0, 1, 7, 30][entropy.below(5) as usize];
                let backlog = [255, 1, 2, 8][entropy.below(4) as usize];
                Action::Join(resync, backlog, entropy.below(2) == 1)
            }
            3 => Action::Leave(small(entropy, 4)),
            4..7 => Action::Resync,
            7 => Action::Relist(small(entropy, 2)),
            8..10 => Action::LateAnswer(small(entropy, 3)),
            12 | 13 => Action::JoinAmid([255, 1, 2, 8][entropy.below(4) as usize]),
            10 if entropy.one_in(3) => Action::Reborn,
            11 if entropy.one_in(3) => Action::Stop,
            _ => Action::Pop(small(entropy, 6) + 1),
        }
    }
}

/// Inserts an action at a random position.
fn insert(entropy: &mut Entropy<'_>, actions: &mut Vec<Action>, action: Action) {
    let places = u32::try_from(actions.len() + 1).unwrap_or(u32::MAX);
    actions.insert(entropy.below(places) as usize, action);
}

fn small(entropy: &mut Entropy<'_>, bound: u32) -> u8 {
    u8::try_from(entropy.below(bound)).unwrap_or(0)
}

impl Action {
    /// Returns why the informer cannot use the object.
    #[must_use]
    pub const fn poison(large: bool) -> Poison {
        if large {
            Poison::Large
        } else {
            Poison::Undecodable
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |slot: u8| KEY_NAMES[usize::from(slot) % KEY_NAMES.len()];
        match *self {
            Self::Put(slot, label) => write!(f, "put {} with label l{label}", key(slot)),
            Self::Spoil(slot, true) => write!(f, "put {}, too large for a frame", key(slot)),
            Self::Spoil(slot, false) => write!(f, "put {}, which cannot be decoded", key(slot)),
            Self::Delete(slot) => write!(f, "delete {}", key(slot)),
            Self::Recreate(slot) => write!(f, "delete {} and create it again", key(slot)),
            Self::Bump => f.write_str("another resource changes"),
            Self::Fault(kind, at) => write!(f, "fault for the next request: {kind} ({at})"),
            Self::PageFault(kind, at) => write!(f, "fault for the next later page: {kind} ({at})"),
            Self::Compact(back) => write!(f, "compact up to {back} versions ago"),
            Self::ForgetEvents => f.write_str("watch caches forget their events"),
            Self::Lag(server, back) => write!(f, "server {server} lags, {back} versions behind"),
            Self::CatchUp(server, true) => write!(f, "server {server} catches up"),
            Self::CatchUp(server, false) => write!(f, "server {server} catches up by one version"),
            Self::Route(server) => write!(f, "new connections go to server {server}"),
            Self::Down(server) => write!(f, "server {server} goes down"),
            Self::Up(server) => write!(f, "server {server} comes up"),
            Self::Restart(server, unready) => {
                write!(f, "server {server} restarts, ready after {unready} s")
            }
            Self::Restore(back, true) => write!(
                f,
                "restore a backup without the last {back} writes, version moved on"
            ),
            Self::Restore(back, false) => write!(
                f,
                "restore a backup without the last {back} writes, version as it was"
            ),
            Self::Lose(slot) => write!(f, "the server loses {}", key(slot)),
            Self::CutWatches => f.write_str("watches are reset"),
            Self::CloseWatches => f.write_str("watches end"),
            Self::StallWatches => f.write_str("watches fall silent"),
            Self::GoAway(server) => write!(f, "server {server} sends GOAWAY"),
            Self::Bookmarks(on) => write!(f, "bookmarks {}", if on { "on" } else { "off" }),
            Self::Read(source, bytes) => write!(f, "source {source} reads {bytes} bytes"),
            Self::ReadAll(source) => write!(f, "source {source} reads all"),
            Self::Pop(count) => write!(f, "pop {count}"),
            Self::Hear(listener, count) => write!(f, "handler {listener} takes {count}"),
            Self::Pass(ms, true) => write!(f, "{ms} ms pass"),
            Self::Pass(ms, false) => write!(f, "{ms} ms pass, and nothing is read"),
            Self::ToDeadline => f.write_str("time jumps to the next deadline"),
            Self::ClockBack(ms) => write!(f, "the clock goes back by {ms} ms"),
            Self::Join(resync, backlog, unchanged) => {
                write!(
                    f,
                    "a handler joins: resync {resync} s, backlog {backlog}, unchanged {unchanged}"
                )
            }
            Self::JoinAmid(backlog) => write!(
                f,
                "pop up to a deletion, behind which a handler joins with backlog {backlog}"
            ),
            Self::Leave(listener) => write!(f, "handler {listener} leaves"),
            Self::AddIndex => f.write_str("an index is added"),
            Self::Unheard(seconds) => write!(
                f,
                "a handler joins with a resync every second, and none takes anything for {seconds} s"
            ),
            Self::DiskFull(true) => f.write_str("the journal's disk is full"),
            Self::DiskFull(false) => f.write_str("the journal's disk has room again"),
            Self::Resync => f.write_str("resync"),
            Self::Relist(source) => write!(f, "the user wants a list of source {source}"),
            Self::LateAnswer(which) => write!(f, "an abandoned request is answered ({which})"),
            Self::Reborn => f.write_str("the client's process restarts"),
            Self::Stop => f.write_str("the user stops the informer and starts another"),
        }
    }
}
