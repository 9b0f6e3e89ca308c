//! The client's side: an engine, its connections and its handlers. It does the work of a runtime, at the pace set by
//! the plan.

mod handlers;
mod request;

use std::collections::VecDeque;

use core::time::Duration;

use informer_core::{End, Listeners, RequestId, reflector::Purpose};
use informer_mock::{HeadPoll, Instant};

pub use handlers::{Handler, Heard, Key};
pub use request::{Asked, Ended};

use super::cluster::{Cluster, State};
use super::coverage::{Coverage, Phase};
use super::engine::{Engine, Note, Out, Snapshot};
use super::faults::FaultKind;
use super::plan::World;
use super::wire::Wire;
use request::Conn;

/// An event in the client, checked by the invariants.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A request was sent.
    Asked(Asked),
    /// A report was made.
    Reported(usize, &'static str),
    /// A notification was popped.
    Notified(Note),
    /// A handler received an event.
    Heard(usize, Heard),
    /// A handler joined.
    Joined(Handler),
    /// A handler left.
    Left(usize),
    /// A resync started for these handlers; the list is empty if the user requested it.
    Resync(u32, Vec<usize>),
    /// The number of outputs of a source until it waited, and the duration of the wait.
    Drained(usize, usize, Option<Duration>),
    /// A violation found by the client itself.
    Wrong(String),
}

/// The client.
pub struct Client {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// The expected state of each source.
    pub wires: Vec<Wire>,
    /// The handlers.
    pub handlers: Vec<Handler>,
    /// Events that were not checked yet.
    pub seen: Vec<Seen>,
    conns: Vec<Option<Conn>>,
    deadlines: Vec<Option<Instant>>,
    ended: Vec<Option<Ended>>,
    forced: Vec<bool>,
    /// The last list was paged at the last version, so it cannot show a newer one.
    exact: Vec<bool>,
    /// Whether the next list will be such a list; `None` if unknown.
    next_is_exact: Option<bool>,
    client_go: bool,
    abandoned: VecDeque<(usize, RequestId)>,
    listeners: Listeners<Key, State>,
    joined: usize,
    /// How far the client's clock is behind true time.
    behind: Duration,
    /// The fault for the next request.
    pub fault: Option<FaultKind>,
    /// The fault, and its position, for the next request for a later page.
    pub page_fault: Option<(FaultKind, u8)>,
    stopped: bool,
    /// Something may have changed since [`Client::seen`] was checked.
    pub touched: bool,
    /// Everything read was popped.
    popped: bool,
    /// The engine stopped within its input until there is room for more, so the cache still shows the version before
    /// that input. If no more input arrives, this lasts until the next list.
    held: Vec<bool>,
    /// The number of complete lists of each source when everything was last popped.
    pictures: Vec<u32>,
    /// The number of lists started by then.
    begun: Vec<u32>,
}

impl Client {
    /// Makes a client that has not started.
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
                // Only the reflector knows whether it has received the refusal of streaming lists.
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

    /// Sets the expected state of a process that has restored a journal.
    pub fn restore(&mut self, wire: Wire) {
        self.wires[0] = wire;
        self.popped = false;
    }

    /// Returns the number of sources.
    #[must_use]
    pub const fn sources(&self) -> usize {
        self.wires.len()
    }

    /// Returns the time on the client's clock.
    fn clock(&self, now: Instant) -> Instant {
        let behind = u64::try_from(self.behind.as_micros()).unwrap_or(0);
        Instant::from_micros(now.as_micros().saturating_sub(behind))
    }

    /// Sets the client's clock back.
    pub fn clock_back(&mut self, by: Duration) {
        // Bounded: a clock that keeps going back would be no clock.
        if self.behind < Duration::from_secs(60) {
            self.behind += by;
        }
    }

    /// Returns the time of the next deadline of the client, or of the next news from a server.
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
                // Not needed: the server is polled when the next bookmark or end is due, and bytes are kept until
                // read.
                None
            };
            next = next.into_iter().chain(until).min();
        }
        next
    }

    /// Carries out the engine's outputs until it waits.
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

    /// Requests a relist.
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

    /// Delivers an answer to an abandoned request.
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

    /// Stops the engine; abandons open requests.
    pub fn stop(&mut self, cluster: &mut Cluster, now: Instant, coverage: &mut Coverage) {
        self.engine.stop();
        self.stopped = true;
        self.poll(cluster, now, coverage);
        if self.conns.iter().any(Option::is_some) {
            self.seen.push(Seen::Wrong(
                "a request is in progress after the stop".to_owned(),
            ));
        }
        if self.deadlines.iter().any(Option::is_some) {
            self.seen.push(Seen::Wrong(
                "a stopped informer waits for something".to_owned(),
            ));
        }
    }

    /// Returns the phase of a source.
    #[must_use]
    pub fn phase(&self, source: usize) -> Phase {
        let Some(conn) = &self.conns[source] else {
            return Phase::Paused;
        };
        let has_head = conn.status == Some(200);
        match conn.verb {
            Purpose::List if conn.target.contains("continue=") && has_head => Phase::PageBody,
            Purpose::List if conn.target.contains("continue=") => Phase::PageSent,
            Purpose::List if has_head => Phase::ListBody,
            Purpose::List => Phase::ListSent,
            Purpose::Stream if has_head && self.wires[source].follows() => Phase::StreamFollowing,
            Purpose::Stream if has_head => Phase::StreamInitial,
            Purpose::Stream => Phase::StreamSent,
            Purpose::Watch if has_head => Phase::WatchBody,
            Purpose::Watch => Phase::WatchSent,
        }
    }

    /// Returns whether every source follows changes and nothing is pending.
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

    /// Returns whether everything read was popped, until nothing was left.
    #[must_use]
    pub fn is_popped(&self) -> bool {
        self.popped && self.engine.is_idle() && !self.held.contains(&true)
    }

    /// Returns whether the last complete list of a source was popped, so that the cache does not show a version from
    /// before it.
    #[must_use]
    pub fn shows_last_list(&self, source: usize) -> bool {
        self.pictures[source] == self.wires[source].complete
    }

    /// Returns how many lists of a source, complete or partial, were not popped yet.
    #[must_use]
    pub fn unpopped_lists(&self, source: usize) -> u32 {
        let wire = &self.wires[source];
        (wire.complete - self.pictures[source]).max(wire.begun.saturating_sub(self.begun[source]))
    }

    /// Returns the cached objects.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.engine.cache().snapshot()
    }
}
