//! The client's side: an engine, its connections, its handlers. It does what a runtime would do, at the pace of the
//! plan.

use std::collections::VecDeque;

use core::time::Duration;

use informer_core::{
    End, Event, Failure, FailureKind, ListenerConfig, ListenerId, Listeners, Notification,
    RequestId, Verb,
};
use informer_mock::{Chunk, HeadPoll, Instant};

use super::cluster::{Cluster, Open, State};
use super::coverage::{Coverage, Phase};
use super::engine::{Engine, Note, NoteKind, Out, Snapshot};
use super::faults::FaultKind;
use super::plan::{KEY_NAMES, World};
use super::wire::{Answer, Refused, Wire};

/// How often a request is asked again below the reflector.
const MAX_RETRIES: u32 = 10;

/// The key of an object, for [`Listeners`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(pub u8);

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        KEY_NAMES[usize::from(self.0)]
    }
}

/// What a handler heard.
pub type Heard = Event<Key, State>;

/// Somebody who hears.
#[derive(Clone, Debug)]
pub struct Handler {
    /// Its name among the listeners.
    pub id: ListenerId,
    /// Its number, in the order in which handlers joined.
    pub number: usize,
    /// Its resync period.
    pub resync: Option<Duration>,
    /// How much may wait for it before it is coalesced.
    pub backlog: usize,
    /// Whether it wants unchanged objects.
    pub unchanged: bool,
}

/// A request as it was sent.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The source.
    pub source: usize,
    /// When, by a clock that never goes back.
    pub at: Instant,
    /// What for.
    pub verb: Verb,
    /// Path and query.
    pub target: String,
    /// The versions that the source has reached, as far as can be said.
    pub versions: Vec<u64>,
    /// The server has refused the last version, or may have done so.
    pub refused: Refused,
    /// How the request of this source before it ended.
    pub before: Option<Ended>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it asked for.
    pub verb: Verb,
    /// Path and query.
    pub target: String,
    /// The status of its answer.
    pub status: Option<u16>,
    /// The answer asked to wait so long.
    pub retry_after: Option<Duration>,
    /// Why it failed.
    pub failure: Option<FailureKind>,
    /// The client has abandoned it.
    pub cancelled: bool,
    /// The user, or room in the cache, has made the client list.
    pub forced: bool,
    /// How the answer was.
    pub answer: Answer,
    /// How often it had been asked before, below the reflector.
    repeats: u32,
    /// When it was first sent, before all its repetitions, by the client's clock.
    began: Instant,
    /// For how long it was under way since then, by the client's clock.
    pub lived: Duration,
    /// When it ended.
    pub at: Instant,
}

impl Ended {
    /// Tells whether it is asked again below the reflector, so that the next one of the same text is the same request. Two
    /// watches can ask for the same time by chance.
    fn is_repeated(&self) -> bool {
        let cut = matches!(
            self.failure,
            Some(FailureKind::Reset | FailureKind::TimedOut)
        );
        let is_asked_again =
            self.status != Some(200) && self.retry_after.is_some() || self.status.is_none() && cut;
        is_asked_again && self.repeats < MAX_RETRIES
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Conn {
    id: RequestId,
    verb: Verb,
    target: String,
    open: Open,
    began: Instant,
    repeats: u32,
    status: Option<u16>,
    retry_after: Option<Duration>,
    /// What was received and not yet read.
    bytes: VecDeque<u8>,
    /// How it will end when the bytes are read.
    ending: Option<End>,
    hit: Option<FaultKind>,
    forced: bool,
}

impl Conn {
    fn abort(&mut self, kind: FailureKind) {
        // What is compressed and cut is an error of the decompressor, not of the connection.
        let kind = if self.hit == Some(FaultKind::CutInMember) {
            FailureKind::Other
        } else {
            kind
        };
        self.ending = Some(End::Failed(Failure::new(kind)));
    }
}

/// Something that happened in the client, for the invariants.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A request was sent.
    Asked(Asked),
    /// A report was made.
    Reported(usize, &'static str),
    /// A notification was popped.
    Told(Note),
    /// A handler heard something.
    Heard(usize, Heard),
    /// A handler joined.
    Joined(Handler),
    /// A handler left.
    Left(usize),
    /// A resync began, for these handlers; none where it is the user who wants it.
    Resync(u32, Vec<usize>),
    /// How many outputs a source gave until it waited, and until when it waits, seen from now.
    Drained(usize, usize, Option<Duration>),
    /// Something that nobody may do.
    Wrong(String),
}

/// The client.
pub struct Client {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// What each source should know.
    pub wires: Vec<Wire>,
    /// The handlers.
    pub handlers: Vec<Handler>,
    /// What happened and was not looked at yet.
    pub seen: Vec<Seen>,
    pub(super) conns: Vec<Option<Conn>>,
    deadlines: Vec<Option<Instant>>,
    ended: Vec<Option<Ended>>,
    forced: Vec<bool>,
    /// The last list was one in pages at the last version, which shows no newer one.
    exact: Vec<bool>,
    /// The next list is such a one: it is so, or may be.
    next_is_exact: Option<bool>,
    client_go: bool,
    abandoned: VecDeque<(usize, RequestId)>,
    listeners: Listeners<Key, State>,
    joined: usize,
    /// How far the client's clock is behind the true one.
    behind: Duration,
    /// The fault that waits for a request.
    pub fault: Option<FaultKind>,
    /// The fault, and its place, that waits for a request for a later page.
    pub page_fault: Option<(FaultKind, u8)>,
    stopped: bool,
    /// Something may have changed since [`Client::seen`] was looked at.
    pub touched: bool,
    /// All that was read was popped.
    popped: bool,
    /// The engine has stopped in the middle of what was given to it, until there is room for more: the version that the
    /// cache shows is that of what it was given before. Where that is all that ever comes, it is so until the next list.
    held: Vec<bool>,
    /// How many complete lists of each source there were when all was popped last.
    pictures: Vec<u32>,
    /// How many lists had begun then.
    begun: Vec<u32>,
}

impl Client {
    /// Makes a client that has not begun.
    #[must_use]
    pub fn new(engine: Box<dyn Engine>, world: &World) -> Self {
        let sources = engine.sources();
        debug_assert_eq!(
            sources,
            if world.needs_parts() {
                world.scopes.len()
            } else {
                1
            }
        );
        Self {
            engine,
            wires: vec![Wire::default(); sources],
            handlers: Vec::new(),
            seen: Vec::new(),
            conns: (0..sources).map(|_| None).collect(),
            deadlines: vec![None; sources],
            ended: vec![None; sources],
            forced: vec![false; sources],
            exact: vec![false; sources],
            next_is_exact: match (world.page > 0, world.stream, world.remember_refusal) {
                (true, false, _) => Some(true),
                // Whether it has been told that streaming lists are refused, only the reflector knows for sure.
                (true, true, true) => None,
                (true, true, false) | (false, ..) => Some(false),
            },
            client_go: world.client_go,
            abandoned: VecDeque::new(),
            listeners: Listeners::default(),
            joined: 0,
            behind: Duration::ZERO,
            fault: None,
            page_fault: None,
            stopped: false,
            touched: true,
            popped: true,
            held: vec![false; sources],
            pictures: vec![0; sources],
            begun: vec![0; sources],
        }
    }

    /// Takes note of what a process knows that has restored something.
    pub fn restore(&mut self, wire: Wire) {
        self.wires[0] = wire;
        self.popped = false;
    }

    /// Returns how many sources there are.
    #[must_use]
    pub const fn sources(&self) -> usize {
        self.wires.len()
    }

    /// Returns what the client's clock shows.
    fn clock(&self, now: Instant) -> Instant {
        let behind = u64::try_from(self.behind.as_micros()).unwrap_or(0);
        Instant::from_micros(now.as_micros().saturating_sub(behind))
    }

    /// Sets the client's clock back.
    pub fn clock_back(&mut self, by: Duration) {
        // A clock that goes on going back is none.
        if self.behind < Duration::from_secs(60) {
            self.behind += by;
        }
    }

    /// Returns when the client wants to do something, or a server has news.
    pub fn next_deadline(&mut self, cluster: &mut Cluster, now: Instant) -> Option<Instant> {
        let own = self.deadlines.iter().flatten().copied().min();
        let clock = self.clock(now);
        let resync = self.listeners.next_resync(clock);
        let own = own
            .into_iter()
            .chain(resync)
            .min()
            .map(|at| at + self.behind);
        let mut next = own;
        for conn in self.conns.iter().flatten() {
            if conn.ending.is_some() || !conn.bytes.is_empty() {
                continue;
            }
            let until = if conn.status.is_none() {
                match cluster.head(now, conn.open) {
                    HeadPoll::Pending { until } => until,
                    HeadPoll::Ready(_) | HeadPoll::Failed(_) => Some(now),
                }
            } else {
                // It is asked at the time of the next bookmark or end, and what comes then is kept for the reader.
                None
            };
            next = next.into_iter().chain(until).min();
        }
        next
    }

    /// Does what the engine asks for, until it waits.
    pub fn poll(&mut self, cluster: &mut Cluster, now: Instant, coverage: &mut Coverage) {
        for source in 0..self.sources() {
            self.poll_source(source, cluster, now, coverage);
        }
    }

    fn poll_source(
        &mut self,
        source: usize,
        cluster: &mut Cluster,
        now: Instant,
        coverage: &mut Coverage,
    ) {
        let clock = self.clock(now);
        let mut outputs = 0;
        loop {
            outputs += 1;
            if outputs > 100 {
                self.seen
                    .push(Seen::Wrong("poll_output never waits".to_owned()));
                return;
            }
            match self.engine.poll(source, clock) {
                Out::Report(class) => self.seen.push(Seen::Reported(source, class)),
                Out::Cancel(id) => self.cancel(source, id, cluster, now),
                Out::Send {
                    id,
                    verb,
                    target,
                    accept,
                } => {
                    self.send(source, id, verb, target, accept, cluster, now, coverage);
                }
                Out::Wait(until) => {
                    let wait = until.map(|until| until.saturating_duration_since(clock));
                    self.deadlines[source] = until;
                    self.seen.push(Seen::Drained(source, outputs, wait));
                    return;
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "it is one request, taken apart")]
    fn send(
        &mut self,
        source: usize,
        id: RequestId,
        verb: Verb,
        target: String,
        accept: &'static str,
        cluster: &mut Cluster,
        now: Instant,
        coverage: &mut Coverage,
    ) {
        if self.conns[source].is_some() {
            self.seen
                .push(Seen::Wrong(format!("two requests at once: {target}")));
        }
        if self.stopped {
            self.seen
                .push(Seen::Wrong(format!("a request after the stop: {target}")));
        }
        let before = self.ended[source].take();
        let repeated = before
            .as_ref()
            .filter(|before| before.target == target && before.is_repeated());
        let began = repeated.map_or_else(|| self.clock(now), |before| before.began);
        let repeats = repeated.map_or(0, |before| before.repeats + 1);
        if target.contains("continue=")
            && let Some((fault, at)) = self.page_fault.take()
        {
            cluster.inject(&fault.fault(at));
            self.fault = Some(fault);
        }
        let hit = if cluster.has_faults() {
            self.fault
        } else {
            None
        };
        let open = cluster.ask(now, &target, accept);
        self.conns[source] = Some(Conn {
            id,
            verb,
            target: target.clone(),
            open,
            began,
            repeats,
            status: None,
            retry_after: None,
            bytes: VecDeque::new(),
            ending: None,
            hit,
            forced: core::mem::take(&mut self.forced[source]),
        });
        if !target.contains("continue=") && verb != Verb::Watch {
            let has_version =
                target.contains("resourceVersion=") && !target.contains("resourceVersion=0");
            self.exact[source] = verb == Verb::List && target.contains("limit=") && has_version;
        }
        if let Some(fault) = hit {
            coverage.hit(self.phase(source), fault);
        }
        let wire = &self.wires[source];
        let (versions, refused) = (wire.versions.clone(), wire.refused);
        self.seen.push(Seen::Asked(Asked {
            source,
            at: now,
            verb,
            target,
            versions,
            refused,
            before,
        }));
    }

    fn cancel(&mut self, source: usize, id: RequestId, cluster: &mut Cluster, now: Instant) {
        match self.conns[source].take() {
            Some(conn) if conn.id == id => {
                self.finish(source, &conn, None, true, now);
                cluster.close(conn.open);
                self.abandoned.push_front((source, id));
                self.abandoned.truncate(3);
            }
            conn => {
                self.conns[source] = conn;
                self.seen
                    .push(Seen::Wrong("what is cancelled is not under way".to_owned()));
            }
        }
    }

    fn finish(
        &mut self,
        source: usize,
        conn: &Conn,
        end: Option<End>,
        cancelled: bool,
        now: Instant,
    ) {
        let answer = self.wires[source].end();
        let is_gone = conn.status == Some(410) || answer.error && !answer.overloaded;
        self.note_refusal(source, conn, end);
        let has_version = conn.target.contains("resourceVersion=");
        let is_refused = match conn.verb {
            Verb::Watch if self.client_go => Some(false),
            Verb::Watch if self.exact[source] => Some(true),
            Verb::Watch => self.next_is_exact,
            Verb::Stream => Some(answer.initial && has_version),
            Verb::List => Some(false),
        };
        if is_gone && is_refused != Some(false) {
            // What the user gave up in the middle of the refusal may not have said it.
            self.wires[source].refuse(is_refused == Some(true) && !conn.forced);
        }
        let failure = match end {
            Some(End::Failed(failure)) => Some(failure.kind),
            Some(End::Clean) | None => None,
        };
        self.ended[source] = Some(Ended {
            verb: conn.verb,
            target: conn.target.clone(),
            status: conn.status,
            retry_after: conn.retry_after,
            failure,
            cancelled,
            forced: conn.forced,
            answer,
            repeats: conn.repeats,
            began: conn.began,
            lived: self.clock(now).saturating_duration_since(conn.began),
            at: now,
        });
    }

    /// Receives what is there for a source, and has the engine read up to so many bytes of it. Returns whether
    /// anything happened.
    pub fn read(
        &mut self,
        source: usize,
        cluster: &mut Cluster,
        now: Instant,
        bytes: usize,
        coverage: &mut Coverage,
    ) -> bool {
        let clock = self.clock(now);
        let Some(mut conn) = self.conns[source].take() else {
            return false;
        };
        self.receive(&mut conn, cluster, now);
        let mut news = false;
        if conn.status.is_none() {
            match cluster.head(now, conn.open) {
                HeadPoll::Pending { .. } => {}
                HeadPoll::Failed(kind) => {
                    let mut failure = Failure::new(kind);
                    failure.connection_was_used = conn.hit == Some(FaultKind::StaleConnection);
                    conn.ending = Some(End::Failed(failure));
                }
                HeadPoll::Ready(head) => {
                    let head = head.to_head();
                    conn.status = Some(head.status);
                    conn.retry_after = head.retry_after;
                    if head.status == 200 {
                        let first = !conn.target.contains("continue=");
                        let honest = !conn.hit.is_some_and(FaultKind::lies);
                        self.wires[source].begin(conn.verb, first, cluster.era_number(), honest);
                    }
                    self.engine.head(source, clock, conn.id, head);
                    news = true;
                }
            }
        } else if !conn.bytes.is_empty() {
            let take = bytes.min(conn.bytes.len());
            let chunk: Vec<u8> = conn.bytes.iter().take(take).copied().collect();
            let mut reports = Vec::new();
            self.popped = false;
            let taken = self
                .engine
                .data(source, clock, conn.id, &chunk, &mut reports);
            conn.bytes.drain(..taken);
            self.held[source] = taken < chunk.len();
            self.wires[source].read(&chunk[..taken]);
            if taken > chunk.len() {
                self.seen
                    .push(Seen::Wrong("more was read than there was".to_owned()));
            }
            self.seen.extend(
                reports
                    .into_iter()
                    .map(|class| Seen::Reported(source, class)),
            );
            news = taken > 0;
        }
        // After each call the engine is asked what it wants, so an end comes by itself.
        if !news
            && conn.bytes.is_empty()
            && let Some(end) = conn.ending
        {
            self.finish(source, &conn, Some(end), false, now);
            cluster.close(conn.open);
            self.engine.end(source, clock, conn.id, end);
            news = true;
        } else {
            self.conns[source] = Some(conn);
        }
        self.touched |= news;
        self.poll_source(source, cluster, now, coverage);
        news
    }

    /// A refused version is not asked for again until there is a list.
    fn note_refusal(&mut self, source: usize, conn: &Conn, end: Option<End>) {
        let is_page = conn.target.contains("continue=");
        let without = conn.verb == Verb::Stream && !conn.target.contains("resourceVersion=");
        let is_whole = conn.hit.is_none() && !conn.forced && matches!(end, Some(End::Clean));
        if is_page && conn.status == Some(410) && !is_whole {
            // Half of it, or what was given up for taking too long, says that something is gone, but not that it is the
            // page.
            self.wires[source].refuse(false);
        }
        if conn.verb != Verb::Watch
            && !without
            && (conn.status == Some(410) && !is_page || conn.status == Some(504))
        {
            // What was abandoned or cut in the middle may not have said it.
            let is_clear = matches!(end, Some(End::Clean))
                && matches!(conn.hit, None | Some(FaultKind::Gone | FaultKind::TooLarge));
            self.wires[source].refuse(is_clear);
        }
    }

    /// Takes what the servers have sent.
    fn receive(&mut self, conn: &mut Conn, cluster: &mut Cluster, now: Instant) {
        if conn.status.is_none() || conn.ending.is_some() {
            return;
        }
        loop {
            match cluster.chunk(now, conn.open) {
                Chunk::Data(data) => conn.bytes.extend(data),
                Chunk::End => conn.ending = Some(End::Clean),
                Chunk::Abort(kind) => conn.abort(kind),
                Chunk::Pending { .. } => return,
            }
            if conn.ending.is_some() {
                return;
            }
        }
    }

    /// Returns when the servers have more to say on what is open.
    pub fn next_news(&mut self, cluster: &mut Cluster, now: Instant) -> Option<Instant> {
        let mut next = None;
        for source in 0..self.sources() {
            let Some(mut conn) = self.conns[source].take() else {
                continue;
            };
            if conn.status.is_some() && conn.ending.is_none() {
                loop {
                    match cluster.chunk(now, conn.open) {
                        Chunk::Data(data) => conn.bytes.extend(data),
                        Chunk::End => conn.ending = Some(End::Clean),
                        Chunk::Abort(kind) => conn.abort(kind),
                        Chunk::Pending { until } => {
                            next = next.into_iter().chain(until).min();
                            break;
                        }
                    }
                    if conn.ending.is_some() {
                        break;
                    }
                }
            }
            if conn.ending.is_some() || !conn.bytes.is_empty() {
                next = Some(now);
            }
            self.conns[source] = Some(conn);
        }
        next
    }

    /// Pops up to so many notifications; returns how many there were.
    pub fn pop(&mut self, count: usize) -> usize {
        let mut popped = 0;
        while popped < count {
            let Some(note) = self.engine.pop() else {
                self.touched |= !self.popped;
                self.popped = true;
                self.pictures = self.wires.iter().map(|wire| wire.complete).collect();
                self.begun = self.wires.iter().map(|wire| wire.begun).collect();
                break;
            };
            popped += 1;
            self.tell(note);
        }
        if popped > 0 {
            self.listeners.coalesce();
        }
        popped
    }

    fn tell(&mut self, note: Note) {
        self.seen.push(Seen::Told(note));
        let (key, object) = (&Key(note.slot), &note.state);
        let notification = match &note.kind {
            NoteKind::Added(initial) => Notification::Added {
                key,
                object,
                is_in_initial_list: *initial,
            },
            NoteKind::Updated(old) => Notification::Updated { key, old, object },
            NoteKind::Replayed(pass) => Notification::Replayed {
                key,
                object,
                pass: *pass,
            },
            NoteKind::Deleted(unknown) => Notification::Deleted {
                key,
                object,
                final_state_unknown: *unknown,
            },
            NoteKind::Synced => Notification::Synced,
        };
        self.listeners.append(&notification);
    }

    /// Pops up to and with a deletion; returns whether there was one.
    pub fn pop_deletion(&mut self) -> bool {
        while self.pop(1) > 0 {
            let last = self.seen.iter().rev().find_map(|seen| match seen {
                Seen::Told(note) => Some(note.kind),
                _ => None,
            });
            if matches!(last, Some(NoteKind::Deleted(_))) {
                return true;
            }
        }
        false
    }

    /// Has a handler hear up to so many events; returns how many there were.
    pub fn hear(&mut self, handler: usize, count: usize) -> usize {
        let Some(id) = self
            .handlers
            .get(handler)
            .map(|handler| (handler.id, handler.number))
        else {
            return 0;
        };
        let mut events = Vec::new();
        self.listeners.take(id.0, count, &mut events);
        let heard = events.len();
        self.seen
            .extend(events.into_iter().map(|event| Seen::Heard(id.1, event)));
        heard
    }

    /// A handler joins.
    pub fn join(&mut self, resync: u8, backlog: u8, unchanged: bool) {
        if self.handlers.len() >= 4 {
            return;
        }
        let resync = (resync > 0).then(|| Duration::from_secs(resync.into()));
        let backlog = if backlog == 255 {
            usize::MAX
        } else {
            backlog.into()
        };
        let config = ListenerConfig::default()
            .resync(resync)
            .backlog(backlog)
            .unchanged(unchanged);
        let told = self.engine.told();
        let initial = told.into_iter().map(|(slot, state)| (Key(slot), state));
        let id = self
            .listeners
            .join(config, initial, self.engine.has_told_synced());
        let handler = Handler {
            id,
            number: self.joined,
            resync,
            backlog,
            unchanged,
        };
        self.joined += 1;
        self.handlers.push(handler.clone());
        self.seen.push(Seen::Joined(handler));
    }

    /// A handler leaves.
    pub fn leave(&mut self, handler: usize) {
        if handler < self.handlers.len() {
            let handler = self.handlers.remove(handler);
            self.listeners.leave(handler.id);
            self.seen.push(Seen::Left(handler.number));
        }
    }

    /// Begins a resync, as the user wants it.
    pub fn resync(&mut self) {
        let pass = self.engine.resync();
        self.seen.push(Seen::Resync(pass, Vec::new()));
    }

    /// Begins the resyncs whose time has come.
    pub fn resync_due(&mut self, now: Instant) {
        let clock = self.clock(now);
        if self
            .listeners
            .next_resync(clock)
            .is_none_or(|due| due > clock)
        {
            return;
        }
        let pass = self.engine.resync();
        let next = self.listeners.next_resync(clock);
        debug_assert!(next.is_some());
        self.listeners.begin_pass(clock, pass);
        self.seen.push(Seen::Resync(pass, Vec::new()));
    }

    /// The user wants a list.
    pub fn relist(&mut self, source: usize, now: Instant) {
        let clock = self.clock(now);
        self.force(source);
        self.engine.relist(source, clock);
    }

    fn force(&mut self, source: usize) {
        match (&mut self.conns[source], &mut self.ended[source]) {
            (Some(conn), _) => conn.forced = true,
            (None, Some(ended)) => ended.forced = true,
            (None, None) => {}
        }
    }

    /// An abandoned request is answered after all.
    pub fn late_answer(&mut self, which: usize, now: Instant) {
        let clock = self.clock(now);
        let Some((source, id)) = self.abandoned.get(which).copied() else {
            return;
        };
        let mut reports = Vec::new();
        self.engine
            .head(source, clock, id, informer_core::Head::new(200));
        let late = br#"{"type":"DELETED","object":{"kind":"Pod","metadata":{"name":"x","namespace":"a","uid":"u9","resourceVersion":"1"}}}"#;
        self.engine.data(source, clock, id, late, &mut reports);
        self.engine.end(source, clock, id, End::Clean);
        if !reports.is_empty() {
            self.seen
                .push(Seen::Wrong("an abandoned answer was read".to_owned()));
        }
    }

    /// The user stops it. What is under way is abandoned.
    pub fn stop(&mut self, cluster: &mut Cluster, now: Instant, coverage: &mut Coverage) {
        self.engine.stop();
        self.stopped = true;
        self.poll(cluster, now, coverage);
        if self.conns.iter().any(Option::is_some) {
            self.seen.push(Seen::Wrong(
                "a request is under way after the stop".to_owned(),
            ));
        }
        if self.deadlines.iter().any(Option::is_some) {
            self.seen.push(Seen::Wrong(
                "a stopped informer waits for something".to_owned(),
            ));
        }
    }

    /// Breaks all connections, as TCP does in the end with those that are half open.
    pub fn break_connections(&mut self) {
        for conn in self.conns.iter_mut().flatten() {
            conn.bytes.clear();
            conn.ending = Some(End::Failed(Failure::new(FailureKind::Reset)));
        }
    }

    /// Breaks the connections on which a server may yet lie, or goes on with a list of which it has told a part that is
    /// no truth.
    pub fn break_lies(&mut self) {
        for (conn, wire) in self.conns.iter_mut().zip(&self.wires) {
            let Some(conn) = conn else { continue };
            // After a reset the same page would be asked for again.
            let kind = if conn.target.contains("continue=") && !wire.list_is_honest() {
                FailureKind::Refused
            } else if conn.hit.is_some_and(FaultKind::lies) {
                FailureKind::Reset
            } else {
                continue;
            };
            conn.bytes.clear();
            conn.ending = Some(End::Failed(Failure::new(kind)));
        }
    }

    /// Drops all connections, as when the process ends.
    pub fn abandon(&mut self, cluster: &mut Cluster) {
        for conn in self.conns.iter_mut().filter_map(Option::take) {
            cluster.close(conn.open);
        }
    }

    /// Returns what a source is doing.
    #[must_use]
    pub fn phase(&self, source: usize) -> Phase {
        let Some(conn) = &self.conns[source] else {
            return Phase::Paused;
        };
        let has_head = conn.status == Some(200);
        match conn.verb {
            Verb::List if conn.target.contains("continue=") && has_head => Phase::PageBody,
            Verb::List if conn.target.contains("continue=") => Phase::PageSent,
            Verb::List if has_head => Phase::ListBody,
            Verb::List => Phase::ListSent,
            Verb::Stream if has_head && self.wires[source].follows() => Phase::StreamFollowing,
            Verb::Stream if has_head => Phase::StreamInitial,
            Verb::Stream => Phase::StreamSent,
            Verb::Watch if has_head => Phase::WatchBody,
            Verb::Watch => Phase::WatchSent,
        }
    }

    /// Tells whether every source follows the changes, and nothing waits anywhere.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let follows = |(conn, wire): (&Option<Conn>, &Wire)| {
            let open = conn
                .as_ref()
                .is_some_and(|conn| conn.bytes.is_empty() && conn.ending.is_none());
            open && wire.follows()
        };
        self.conns.iter().zip(&self.wires).all(follows) && self.engine.is_idle()
    }

    /// Tells whether all that was read was popped, up to the point where there is nothing more.
    #[must_use]
    pub fn is_popped(&self) -> bool {
        self.popped && self.engine.is_idle() && !self.held.contains(&true)
    }

    /// Tells whether the last complete list of a source was popped, so that the version which the cache shows is not one
    /// from before it.
    #[must_use]
    pub fn shows_last_list(&self, source: usize) -> bool {
        self.pictures[source] == self.wires[source].complete
    }

    /// Returns how many lists of a source, or parts of one, were not popped yet.
    #[must_use]
    pub fn unpopped_lists(&self, source: usize) -> u32 {
        let wire = &self.wires[source];
        (wire.complete - self.pictures[source]).max(wire.begun.saturating_sub(self.begun[source]))
    }

    /// Returns how much waits for a handler.
    #[must_use]
    pub fn pending(&self, handler: &Handler) -> usize {
        self.listeners.pending(handler.id)
    }

    /// Returns what the cache has.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.engine.snapshot()
    }
}
