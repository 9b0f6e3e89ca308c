//! The engine under test, behind types that do not depend on its storage.

use core::fmt;

use informer_core::decode::Accept;
use informer_core::json::{as_u64, value_at};
use informer_core::protobuf;
use informer_core::storage::Postings;
use informer_core::{
    Cache, Decode, End, Frame, Head, Heap, Inline, Instant, Notification, Object, Output,
    OwnedResource, PolledInformer, RawObject, Reflector, ReflectorConfig, Report, RequestId,
    Resource, ResourceVersion, Step, Storage,
    cache::{CacheConfig, IndexValues, SourceId, decode_object, take_frame},
    reflector::{Initial, Purpose},
    report::{Phase, Problem},
};
use informer_journal::Recording;

use super::cluster::State;
use super::plan::{KEY_NAMES, Objects, Scope, World, half_of};

/// What the decoder stores of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    pub(super) n: u32,
    label: u8,
}

/// The error of the decoder.
#[derive(Clone, Copy, Debug)]
pub struct NoNumber;

impl fmt::Display for NoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no number")
    }
}

/// Decodes [`Value`]s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder {
    /// The informer requests protobuf.
    protobuf: bool,
}

type Held<S> = Object<Value, <S as Storage>::Text>;

impl Decoder {
    fn new(world: &World) -> Self {
        Self {
            protobuf: world.objects == Objects::Protobuf,
        }
    }
}

impl Decode for Decoder {
    type Value = Value;
    type Error = NoNumber;

    fn decode(&self, raw: &RawObject<'_>) -> Result<Value, NoNumber> {
        decode(raw)
    }

    fn accept(&self) -> Accept {
        if self.protobuf {
            Accept::default().protobuf()
        } else {
            Accept::default()
        }
    }
}

pub(super) fn decode(raw: &RawObject<'_>) -> Result<Value, NoNumber> {
    let n = if let Some(pod) = raw.protobuf() {
        match pod.field(&[2, 5]) {
            Some(protobuf::Value::Varint(n)) => Some(n),
            _ => None,
        }
    } else {
        let json = value_at(raw.json(), &["n"])
            .or_else(|| value_at(raw.json(), &["spec", "activeDeadlineSeconds"]));
        json.and_then(as_u64)
    };
    let label = raw.labels().find(|(key, _)| key.as_plain() == Some("app"));
    let label = label.and_then(|(_, label)| label.as_plain()?.strip_prefix('l')?.parse().ok());
    Ok(Value {
        n: n.and_then(|n| u32::try_from(n).ok()).ok_or(NoNumber)?,
        label: label.ok_or(NoNumber)?,
    })
}

/// An owned notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The key; meaningless for [`NoteKind::Synced`].
    pub slot: u8,
    /// What happened.
    pub kind: NoteKind,
    /// The object.
    pub state: State,
}

/// The kinds of notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoteKind {
    /// A new object; the flag is whether it belongs to the initial state.
    Added(bool),
    /// A change from this state.
    Updated(State),
    /// An unchanged object, sent by a resync pass or because the server repeated it.
    Replayed(Option<u32>),
    /// A deletion; the flag is whether nobody observed it.
    Deleted(bool),
    /// The initial state is complete.
    Synced,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = KEY_NAMES[usize::from(self.slot)];
        let State {
            n, uid, version, ..
        } = self.state;
        match self.kind {
            NoteKind::Added(true) => write!(f, "add* {key}@{version} (u{uid} n{n})"),
            NoteKind::Added(false) => write!(f, "add {key}@{version} (u{uid} n{n})"),
            NoteKind::Updated(old) => {
                write!(f, "update {key}@{}->{version} (u{uid} n{n})", old.version)
            }
            NoteKind::Replayed(_) => write!(f, "replay {key}@{version} (u{uid} n{n})"),
            NoteKind::Deleted(unknown) => {
                let sign = if unknown { "?" } else { "" };
                write!(f, "delete{sign} {key}@{version} (u{uid} n{n})")
            }
            NoteKind::Synced => f.write_str("synced"),
        }
    }
}

/// An output of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Out {
    /// A request.
    Send {
        /// Its id.
        id: RequestId,
        /// Its verb.
        verb: Purpose,
        /// Path and query.
        target: String,
        /// The `Accept` header.
        accept: &'static str,
    },
    /// Abandons a request.
    Cancel(RequestId),
    /// A report.
    Report(&'static str),
    /// Nothing to do until this time.
    Wait(Option<Instant>),
}

/// The report for each key that does not fit into the cache.
pub const NO_ROOM: [&str; KEY_NAMES.len()] = [
    "no-room a/x",
    "no-room b/x",
    "no-room a/y",
    "no-room a/z",
    "no-room b/y",
    "no-room b/z",
];

/// A cached object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cached {
    /// The object.
    pub state: State,
    /// Handlers were notified of it.
    pub notified: bool,
    /// A newer state could not be used.
    pub stale: bool,
}

/// The cached objects of all keys.
pub type Snapshot = [Option<Cached>; KEY_NAMES.len()];

/// The contents of a cache, independent of its storage.
pub trait Shown {
    /// Returns whether the initial state is complete.
    fn is_synced(&self) -> bool;
    /// Returns whether the synced notification was sent.
    fn has_sent_synced(&self) -> bool;
    /// Returns whether an object was rejected because the cache was full.
    fn is_incomplete(&self) -> bool;
    /// Returns the version that the cache shows.
    fn version(&self, source: usize) -> Option<u64>;
    /// Returns the cached objects.
    fn snapshot(&self) -> Snapshot;
    /// Returns the objects of which handlers were notified. A handler that joins now starts with them.
    fn notified(&self) -> Vec<(u8, State)>;
    /// Returns the keys in an index, as bits.
    fn indexed(&self, index: &str, value: &str) -> u32;
    /// Returns the [`LABELS`] that the index by label contains, as bits.
    fn labels(&self) -> u32;
    /// Returns the number of objects that the cache reports.
    fn len(&self) -> usize;
    /// Returns whether the cache reports no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns whether the restored state is still unconfirmed.
    fn is_restored(&self) -> bool;
}

/// An informer of any storage, with one or more reflectors.
pub trait Engine {
    /// Returns the number of sources.
    fn sources(&self) -> usize;
    /// Returns the next output of a source.
    fn poll(&mut self, source: usize, now: Instant) -> Out;
    /// Receives the head of an answer.
    fn head(&mut self, source: usize, now: Instant, id: RequestId, head: Head);
    /// Receives bytes of an answer. Returns how many were consumed, and appends reports.
    fn data(
        &mut self,
        source: usize,
        now: Instant,
        id: RequestId,
        data: &[u8],
        reports: &mut Vec<&'static str>,
    ) -> usize;
    /// Receives the end of an answer.
    fn end(&mut self, source: usize, now: Instant, id: RequestId, end: End);
    /// Pops the next notification.
    fn pop(&mut self) -> Option<Note>;
    /// Starts a resync; returns its pass.
    fn resync(&mut self) -> u32;
    /// Requests a relist.
    fn relist(&mut self, source: usize, now: Instant);
    /// Requests a stop.
    fn stop(&mut self);
    /// Returns the cache.
    fn cache(&self) -> &dyn Shown;
    /// Returns whether everything received was popped.
    fn is_idle(&self) -> bool;
    /// Returns the version that the reflector has reached.
    fn reached(&self, source: usize) -> Option<u64>;
    /// Returns the version of the last list given to the cache, if the cache has applied all of it and has received
    /// no version since.
    fn listed(&self, _source: usize) -> Option<u64> {
        None
    }
    /// Adds the index [`LATE`], which is built while the informer runs. Does nothing if it exists already.
    fn add_index(&mut self);
    /// Returns whether [`LATE`] is built.
    fn has_late_index(&self) -> bool;
    /// Makes the journal's disk full, or gives it room again.
    fn fill_disk(&mut self, _full: bool) {}
    /// Returns whether writing the journal failed, so that a list may restart it.
    fn has_failed_journal(&self) -> bool {
        false
    }
    /// Returns how the journal differs from the cache.
    fn journal_lacks(&self) -> Option<String> {
        None
    }
    /// Returns the version that was restored from a journal.
    fn restored(&self) -> Option<u64> {
        None
    }
    /// Returns what the journal dropped at its start without a report.
    fn unreported_loss(&self) -> Option<&str> {
        None
    }
    /// Returns the version that the journal has reached.
    fn journaled(&self) -> Option<u64> {
        None
    }
}

/// A storage for the simulation.
pub trait SimStorage: Storage<Text: PartialEq> {
    /// Returns the function of the index by label.
    fn by_label() -> Self::IndexFn<Held<Self>>
    where
        Self: Sized;
}

impl SimStorage for Heap {
    fn by_label() -> Self::IndexFn<Held<Self>> {
        Box::new(|object, value| value(label(object.value().label)))
    }
}

impl<const N: usize, const K: usize, const F: usize> SimStorage for Inline<N, K, F> {
    fn by_label() -> Self::IndexFn<Held<Self>> {
        |object, value| value(label(object.value().label))
    }
}

/// The name of an index that is added while the informer runs.
pub const LATE: &str = "late";

/// The values of the index by label.
pub const LABELS: [&str; 4] = ["l0", "l1", "l2", "l3"];

fn label(number: u8) -> &'static str {
    LABELS[usize::from(number % 4)]
}

/// Makes the engine of a world.
#[must_use]
pub fn engine<S: SimStorage + 'static>(world: &World, seed: u64) -> Box<dyn Engine> {
    let config = config(world);
    if world.needs_parts() {
        return Box::new(Parts::<S>::new(world, &config, seed));
    }
    Box::new(One::<S>(informer(world, config, seed)))
}

/// Makes the informer of a world with one source.
pub(super) fn informer<S: SimStorage>(
    world: &World,
    config: ReflectorConfig,
    seed: u64,
) -> PolledInformer<OwnedResource, Decoder, S> {
    let mut informer = PolledInformer::new(
        resource(world, world.scopes[0]),
        Decoder::new(world),
        config,
        seed,
    );
    let added = informer.cache_mut().add_index("app", S::by_label());
    assert!(added.is_ok(), "there is room for an index");
    informer
}

pub(super) fn config(world: &World) -> ReflectorConfig {
    ReflectorConfig {
        initial: if world.stream {
            Initial::Stream
        } else {
            Initial::List
        },
        page_size: (world.page > 0).then_some(world.page.into()),
        frame_limit: world.frame_limit.into(),
        skip_managed_fields: world
            .custom
            .is_some_and(|custom| custom.skips_managed_fields),
        remember_stream_refusal: world.remember_refusal,
        client_go: world.client_go,
        ..ReflectorConfig::default()
    }
}

/// Returns the resource that a source requests.
pub(super) fn resource(world: &World, scope: Scope) -> OwnedResource {
    let group = world.custom.map_or("", |_| CUSTOM_GROUP);
    let pods = Resource::new(group, "v1", "pods").kind("Pod");
    match scope {
        Scope::All => pods.into(),
        Scope::Namespace(namespace) => pods.namespace(namespace).into(),
        Scope::Label(label) => {
            let selector = format!("app=l{label}");
            pods.labels(&selector).into()
        }
        Scope::Half(half) => pods.shard(half_of(half)).into(),
    }
}

/// The group of a custom resource.
pub(super) const CUSTOM_GROUP: &str = "example.com";

/// An `PolledInformer`.
pub(super) struct One<S: Storage<Text: PartialEq>, J = ()>(
    pub(super) PolledInformer<OwnedResource, Decoder, S, J>,
);

/// Reflectors and a cache that are connected by hand, as a runtime does.
struct Parts<S: Storage<Text: PartialEq>> {
    reflectors: Vec<Reflector<OwnedResource, S>>,
    cache: Cache<Held<S>, S>,
    late: Late,
    /// See [`World::batched`].
    batched: bool,
    /// The version of a list, and the version that the source has reached with it. The cache receives the latter once
    /// it is idle.
    withheld: Vec<Option<(u64, ResourceVersion<S::Text>)>>,
}

/// The index [`LATE`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Late {
    None,
    /// Built piece by piece. New objects bring their values with them.
    Building(u16),
    Built(u16),
    /// A storage that scans its objects has nothing to build.
    Scanned,
}

impl<S: SimStorage, J: Recording> Engine for One<S, J> {
    fn sources(&self) -> usize {
        1
    }

    fn poll(&mut self, _source: usize, now: Instant) -> Out {
        out(self.0.poll_output(now))
    }

    fn head(&mut self, _source: usize, now: Instant, id: RequestId, head: Head) {
        self.0.handle_head(now, id, head);
    }

    fn data(
        &mut self,
        _source: usize,
        now: Instant,
        id: RequestId,
        data: &[u8],
        reports: &mut Vec<&'static str>,
    ) -> usize {
        self.0
            .handle_data(now, id, data, &mut |report| reports.push(shown(&report)))
    }

    fn end(&mut self, _source: usize, now: Instant, id: RequestId, end: End) {
        self.0.handle_end(now, id, end);
    }

    fn pop(&mut self) -> Option<Note> {
        self.0.pop().as_ref().map(note::<S>)
    }

    fn resync(&mut self) -> u32 {
        self.0.cache_mut().resync()
    }

    fn relist(&mut self, _source: usize, now: Instant) {
        self.0.relist(now);
    }

    fn stop(&mut self) {
        self.0.stop();
    }

    fn cache(&self) -> &dyn Shown {
        self.0.cache()
    }

    fn is_idle(&self) -> bool {
        self.0.cache().is_idle()
    }

    fn reached(&self, _source: usize) -> Option<u64> {
        number(self.0.reflector().version())
    }

    fn add_index(&mut self) {
        // A name that is taken is an error without effect.
        let _ = self.0.cache_mut().add_index(LATE, S::by_label());
    }

    fn has_late_index(&self) -> bool {
        self.0.cache().by_index(LATE, "").is_ok()
    }
}

impl<S: SimStorage> Shown for Cache<Held<S>, S> {
    fn is_synced(&self) -> bool {
        Self::is_synced(self)
    }

    fn has_sent_synced(&self) -> bool {
        Self::has_sent_synced(self)
    }

    fn is_incomplete(&self) -> bool {
        Self::is_incomplete(self)
    }

    fn is_restored(&self) -> bool {
        Self::is_restored(self, SourceId::FIRST)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn version(&self, source: usize) -> Option<u64> {
        self.version(source_id(self, source)).and_then(number)
    }

    fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot::default();
        for (key, object) in self.iter() {
            all[usize::from(slot(key.as_ref()))] = Some(Cached {
                state: state(object),
                notified: false,
                stale: false,
            });
        }
        let mut mark = |key: &S::Text, f: fn(&mut Cached)| {
            if let Some(cached) = &mut all[usize::from(slot(key.as_ref()))] {
                f(cached);
            }
        };
        self.notified()
            .for_each(|(key, _)| mark(key, |cached| cached.notified = true));
        self.stale_keys()
            .for_each(|key| mark(key, |cached| cached.stale = true));
        assert_eq!(self.stale_keys().count(), self.stale_len());
        all
    }

    fn notified(&self) -> Vec<(u8, State)> {
        self.notified()
            .map(|(key, object)| (slot(key.as_ref()), state(object)))
            .collect()
    }

    fn indexed(&self, index: &str, value: &str) -> u32 {
        self.by_index(index, value).map_or(0, |found| {
            found.fold(0, |bits, (key, _)| bits | 1 << slot(key.as_ref()))
        })
    }

    fn labels(&self) -> u32 {
        let mut bits = 0;
        self.index_values("app", |value| {
            // An unknown value sets a bit that no label has.
            let label = LABELS.iter().position(|own| *own == value);
            bits |= 1 << label.unwrap_or(LABELS.len());
        });
        bits
    }
}

impl<S: SimStorage> Parts<S> {
    fn new(world: &World, config: &ReflectorConfig, seed: u64) -> Self {
        let mut cache_config = if world.client_go {
            CacheConfig::client_go()
        } else {
            CacheConfig::default()
        };
        cache_config.merged |= world.merged;
        let sources = u16::try_from(world.scopes.len()).unwrap_or(1);
        let mut cache = Cache::new(cache_config, sources, seed);
        let added = cache.add_index("app", S::by_label());
        assert!(added.is_ok(), "there is room for an index");
        let reflector = |(index, scope): (usize, &Scope)| {
            let reflector = Reflector::new(
                resource(world, *scope),
                config.clone(),
                seed.wrapping_add(index as u64),
            );
            if world.objects == Objects::Protobuf {
                return reflector.with_decoder(&Decoder::new(world));
            }
            reflector
        };
        Self {
            reflectors: world.scopes.iter().enumerate().map(reflector).collect(),
            cache,
            late: Late::None,
            batched: world.batched,
            withheld: vec![None; world.scopes.len()],
        }
    }

    /// Builds a piece of the late index, as a runtime does that releases its lock between pieces.
    fn build_index(&mut self) {
        let Late::Building(index) = self.late else {
            return;
        };
        let mut piece = Vec::new();
        let take = |key: &S::Text, object: &Held<S>| piece.push((key.clone(), state(object)));
        if !self.cache.next_unindexed(index, 1, take) {
            self.cache.finish_index(index);
            self.late = Late::Built(index);
        }
        for (key, taken) in piece {
            let is = |object: &Held<S>| state(object) == taken;
            self.cache
                .add_values(key.as_ref(), index, [label(taken.label)], is);
        }
    }
}

impl<S: SimStorage> Engine for Parts<S> {
    fn sources(&self) -> usize {
        self.reflectors.len()
    }

    fn poll(&mut self, source: usize, now: Instant) -> Out {
        if self.cache.take_wants_relist(source_id(&self.cache, source)) {
            self.reflectors[source].refill(now);
        }
        if !self.cache.wants_read() {
            self.reflectors[source].excuse_silence(now);
        }
        self.build_index();
        let out = out(self.reflectors[source].poll_output(now));
        if matches!(out, Out::Wait(_))
            && self.cache.is_idle()
            && let Some((_, version)) = self.withheld[source].take()
        {
            let reached = Step::Reached(version);
            let applied = self
                .cache
                .apply(source_id(&self.cache, source), reached, &mut ());
            assert!(applied.is_ok(), "the cache has the source");
        }
        out
    }

    fn head(&mut self, source: usize, now: Instant, id: RequestId, head: Head) {
        self.reflectors[source].handle_head(now, id, head);
    }

    fn data(
        &mut self,
        source: usize,
        now: Instant,
        id: RequestId,
        data: &[u8],
        reports: &mut Vec<&'static str>,
    ) -> usize {
        let mut rest = data;
        let mut listed = None;
        while self.cache.wants_read() {
            let Some(frame) = self.reflectors[source].next_frame(now, id, &mut rest) else {
                break;
            };
            if let Frame::Complete { version } = &frame {
                listed = number(version);
            }
            let from = source_id(&self.cache, source);
            take(&mut self.cache, from, frame, self.late, reports);
        }
        let reached = self.reflectors[source].version();
        if rest.is_empty() && reached.is_known() {
            self.withheld[source] = listed
                .filter(|_| self.batched)
                .map(|listed| (listed, reached.clone()));
            if self.withheld[source].is_none() {
                let reached = Step::Reached(reached.clone());
                let applied = self
                    .cache
                    .apply(source_id(&self.cache, source), reached, &mut ());
                assert!(applied.is_ok(), "the cache has the source");
            }
        }
        data.len() - rest.len()
    }

    fn end(&mut self, source: usize, now: Instant, id: RequestId, end: End) {
        self.reflectors[source].handle_end(now, id, end);
    }

    fn pop(&mut self) -> Option<Note> {
        self.cache.pop().as_ref().map(note::<S>)
    }

    fn resync(&mut self) -> u32 {
        self.cache.resync()
    }

    fn relist(&mut self, source: usize, now: Instant) {
        self.reflectors[source].relist(now);
    }

    fn stop(&mut self) {
        self.reflectors.iter_mut().for_each(Reflector::stop);
    }

    fn cache(&self) -> &dyn Shown {
        &self.cache
    }

    fn is_idle(&self) -> bool {
        self.cache.is_idle() && self.withheld.iter().all(Option::is_none)
    }

    fn reached(&self, source: usize) -> Option<u64> {
        number(self.reflectors[source].version())
    }

    fn listed(&self, source: usize) -> Option<u64> {
        let (listed, _) = self.withheld[source].as_ref()?;
        self.cache.is_idle().then_some(*listed)
    }

    fn add_index(&mut self) {
        if self.late != Late::None {
            return;
        }
        if S::Postings::SCANS {
            let added = self.cache.add_index(LATE, S::by_label());
            assert!(added.is_ok(), "there is room for an index");
            self.late = Late::Scanned;
        } else if let Ok(index) = self.cache.begin_index(LATE) {
            self.late = Late::Building(index);
        }
    }

    fn has_late_index(&self) -> bool {
        matches!(self.late, Late::Built(_) | Late::Scanned)
    }
}

/// Processes a frame like a runtime that computes index values outside the cache.
fn take<S: SimStorage>(
    cache: &mut Cache<Held<S>, S>,
    source: SourceId,
    frame: Frame<'_, S::Text>,
    late: Late,
    reports: &mut Vec<&'static str>,
) {
    // Only the reflector depends on the format.
    let decoder = Decoder { protobuf: false };
    let report = &mut |report: Report<'_>| reports.push(shown(&report));
    let (Frame::Object(object), Late::Building(index) | Late::Built(index)) = (&frame, late) else {
        return take_frame(&decoder, cache, source, frame, &mut (), report);
    };
    let key = object.key;
    let decoded = decode_object(&decoder, object, report);
    let mut values = IndexValues::<S>::default();
    if let Some(object) = &decoded {
        values = cache.index_values_of(key, object);
        S::Postings::add_value(&mut values, index, label(object.value().label));
    }
    let step = Step::Object {
        change: object.change,
        key,
        object: decoded,
        values: Some(values),
    };
    if let Err(why) = cache.apply(source, step, &mut ()) {
        report(Report::about(Phase::Cache, why.problem(key)));
    }
}

fn out(output: Output<'_>) -> Out {
    match output {
        Output::Send(request) => {
            let mut target = String::new();
            // Writing into a `String` does not fail.
            let _ = request.write_target(&mut target);
            Out::Send {
                id: request.id(),
                verb: request.purpose(),
                target,
                accept: request.accept(),
            }
        }
        Output::Cancel(id) => Out::Cancel(id),
        Output::Report(report) => Out::Report(shown(&report)),
        Output::Wait(deadline) => Out::Wait(deadline),
        _ => Out::Wait(None),
    }
}

pub(super) fn shown(report: &Report<'_>) -> &'static str {
    if let Problem::NoRoom { key } = report.problem {
        return NO_ROOM[usize::from(slot(key))];
    }
    report.class()
}

fn source_id<T: informer_core::object::Cached, S: Storage>(
    cache: &Cache<T, S>,
    source: usize,
) -> SourceId {
    let found = cache.sources().nth(source);
    found.expect("the cache has the source")
}

fn state<X: informer_core::storage::Text>(object: &Object<Value, X>) -> State {
    State {
        n: object.value().n,
        uid: digits(object.uid())
            .and_then(|uid| u32::try_from(uid).ok())
            .unwrap_or(0),
        version: number(object.resource_version()).unwrap_or(0),
        label: object.value().label,
    }
}

fn number<X: informer_core::storage::Text>(version: &ResourceVersion<X>) -> Option<u64> {
    if version.is_known() {
        digits(version)
    } else {
        None
    }
}

/// Parses the number in a short text, without the letters of a uid.
fn digits(text: &dyn fmt::Display) -> Option<u64> {
    struct Digits(Option<u64>);
    impl fmt::Write for Digits {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for digit in text.bytes().filter(u8::is_ascii_digit) {
                self.0 = Some(self.0.unwrap_or(0) * 10 + u64::from(digit - b'0'));
            }
            Ok(())
        }
    }
    let mut digits = Digits(None);
    // Reading does not fail.
    let _ = fmt::write(&mut digits, format_args!("{text}"));
    digits.0
}

fn slot(key: &str) -> u8 {
    let found = KEY_NAMES.iter().position(|own| *own == key);
    // An unknown key counts as a key that is not in the cache, which an invariant detects.
    found.and_then(|slot| u8::try_from(slot).ok()).unwrap_or(0)
}

fn note<S: SimStorage>(notified: &Notification<(&S::Text, &Held<S>)>) -> Note {
    let at = |kind, key: &S::Text, object: &Held<S>| Note {
        slot: slot(key.as_ref()),
        kind,
        state: state(object),
    };
    match notified {
        Notification::Added {
            entry: (key, object),
            is_in_initial_list,
        } => at(NoteKind::Added(*is_in_initial_list), key, object),
        Notification::Updated {
            old: (_, old),
            new: (key, object),
        } => at(NoteKind::Updated(state(old)), key, object),
        Notification::Replayed {
            entry: (key, object),
            pass,
        } => at(NoteKind::Replayed(*pass), key, object),
        Notification::Deleted {
            entry: (key, object),
            final_state_unknown,
        } => at(NoteKind::Deleted(*final_state_unknown), key, object),
        _ => Note {
            slot: 0,
            kind: NoteKind::Synced,
            state: State {
                n: 0,
                uid: 0,
                version: 0,
                label: 0,
            },
        },
    }
}
