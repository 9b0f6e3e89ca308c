//! The requests of a client: sent, answered, read, ended.

use std::collections::VecDeque;

use core::time::Duration;

use informer_core::{End, RequestId, TransportFailure, reflector::Purpose, transport::FailureKind};
use informer_mock::{Chunk, HeadPoll, Instant, protobuf};

use super::{Client, Seen};
use crate::cluster::{Cluster, Open};
use crate::coverage::Coverage;
use crate::faults::FaultKind;
use crate::wire::{Answer, Refused};

/// The maximum number of retries of a request below the reflector.
const MAX_RETRIES: u32 = 10;

/// A request as it was sent.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The source.
    pub source: usize,
    /// The time of sending, by a monotonic clock.
    pub at: Instant,
    /// The verb.
    pub verb: Purpose,
    /// Path and query.
    pub target: String,
    /// The versions that the source may have reached.
    pub versions: Vec<u64>,
    /// Whether the server has refused the last version.
    pub refused: Refused,
    /// The end of this source's previous request.
    pub before: Option<Ended>,
}

/// The end of a request.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its verb.
    pub verb: Purpose,
    /// Path and query.
    pub target: String,
    /// The status of its answer.
    pub status: Option<u16>,
    /// The `Retry-After` of the answer.
    pub retry_after: Option<Duration>,
    /// Why it failed.
    pub failure: Option<FailureKind>,
    /// The client abandoned it.
    pub cancelled: bool,
    /// The client was forced to list, by the user or because the cache has room again.
    pub forced: bool,
    /// The summary of the answer.
    pub answer: Answer,
    /// The number of earlier attempts below the reflector.
    repeats: u32,
    /// When the first attempt was sent, by the client's clock.
    began: Instant,
    /// The time since the first attempt, by the client's clock.
    pub lived: Duration,
    /// When it ended.
    pub at: Instant,
}

impl Ended {
    /// Returns whether the request is retried below the reflector, so that the next one with the same text is the
    /// same request. The text alone is not enough: two watches can have the same timeout by chance.
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

/// An open request.
#[derive(Debug)]
pub(super) struct Conn {
    id: RequestId,
    pub(super) verb: Purpose,
    pub(super) target: String,
    pub(super) open: Open,
    began: Instant,
    repeats: u32,
    pub(super) status: Option<u16>,
    retry_after: Option<Duration>,
    /// Bytes received and not yet read.
    pub(super) bytes: VecDeque<u8>,
    /// Its end, once the bytes are read.
    pub(super) ending: Option<End>,
    hit: Option<FaultKind>,
    pub(super) forced: bool,
}

impl Conn {
    /// Receives what the servers have sent; returns when they will have more.
    fn receive(&mut self, cluster: &mut Cluster, now: Instant) -> Option<Instant> {
        // There is no body before the head.
        self.status?;
        while self.ending.is_none() {
            match cluster.chunk(now, self.open) {
                Chunk::Data(data) => self.bytes.extend(data),
                Chunk::End => self.ending = Some(End::Clean),
                Chunk::Abort(kind) => self.abort(kind),
                Chunk::Pending { until } => return until,
            }
        }
        None
    }

    fn abort(&mut self, kind: FailureKind) {
        // A cut within compressed data is an error of the decompressor, not of the connection.
        let kind = if self.hit == Some(FaultKind::CutInMember) {
            FailureKind::Other
        } else {
            kind
        };
        self.ending = Some(End::Failed(TransportFailure::new(kind)));
    }
}

impl Client {
    #[expect(clippy::too_many_arguments, reason = "it is one request, taken apart")]
    pub(super) fn send(
        &mut self,
        source: usize,
        id: RequestId,
        verb: Purpose,
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
            cluster.inject(fault, at);
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
        if !target.contains("continue=") && verb != Purpose::Watch {
            let has_version =
                target.contains("resourceVersion=") && !target.contains("resourceVersion=0");
            self.exact[source] = verb == Purpose::List && target.contains("limit=") && has_version;
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

    pub(super) fn cancel(
        &mut self,
        source: usize,
        id: RequestId,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        match self.conns[source].take() {
            Some(conn) if conn.id == id => {
                self.finish(source, &conn, None, true, now);
                cluster.close(conn.open);
                self.abandoned.push_front((source, id));
                self.abandoned.truncate(3);
            }
            conn => {
                self.conns[source] = conn;
                self.seen.push(Seen::Wrong(
                    "the cancelled request is not in progress".to_owned(),
                ));
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
            Purpose::Watch if self.client_go => Some(false),
            Purpose::Watch if self.exact[source] => Some(true),
            Purpose::Watch => self.next_is_exact,
            Purpose::Stream => Some(answer.initial && has_version),
            Purpose::List => Some(false),
        };
        if is_gone && is_refused != Some(false) {
            // A refusal that the user interrupted may not have reached the reflector.
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

    /// Receives the available data of a source and passes up to `bytes` bytes to the engine. Returns whether anything
    /// happened.
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
        conn.receive(cluster, now);
        let mut news = false;
        if conn.status.is_none() {
            match cluster.head(now, conn.open) {
                HeadPoll::Pending { .. } => {}
                HeadPoll::Failed(kind) => {
                    let mut failure = TransportFailure::new(kind);
                    failure.connection_was_used = conn.hit == Some(FaultKind::StaleConnection);
                    conn.ending = Some(End::Failed(failure));
                }
                HeadPoll::Ready(head) => {
                    let in_protobuf = head.headers.iter().any(|(name, value)| {
                        name == "Content-Type" && value.starts_with(protobuf::MEDIA_TYPE)
                    });
                    let head = head.to_head();
                    conn.status = Some(head.status);
                    conn.retry_after = head.retry_after;
                    if head.status == 200 {
                        let first = !conn.target.contains("continue=");
                        let honest = !conn.hit.is_some_and(FaultKind::lies);
                        self.wires[source].begin(
                            conn.verb,
                            in_protobuf,
                            first,
                            cluster.era_number(),
                            honest,
                        );
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
        // The engine is polled after each call, so an end is handled without further reading.
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

    /// A refused version is not requested again before the next list.
    fn note_refusal(&mut self, source: usize, conn: &Conn, end: Option<End>) {
        let is_page = conn.target.contains("continue=");
        let without = conn.verb == Purpose::Stream && !conn.target.contains("resourceVersion=");
        let is_whole = conn.hit.is_none() && !conn.forced && matches!(end, Some(End::Clean));
        if is_page && conn.status == Some(410) && !is_whole {
            // A partial answer, or one abandoned because it took too long, shows that something expired, but not that
            // it was the page.
            self.wires[source].refuse(false);
        }
        if conn.verb != Purpose::Watch
            && !without
            && (conn.status == Some(410) && !is_page || conn.status == Some(504))
        {
            // An answer that was abandoned or cut may lack the refusal.
            let is_clear = matches!(end, Some(End::Clean))
                && matches!(conn.hit, None | Some(FaultKind::Gone | FaultKind::TooLarge));
            self.wires[source].refuse(is_clear);
        }
    }

    /// Returns when the servers will have more to send on open connections.
    pub fn next_news(&mut self, cluster: &mut Cluster, now: Instant) -> Option<Instant> {
        let mut next = None;
        for source in 0..self.sources() {
            let Some(mut conn) = self.conns[source].take() else {
                continue;
            };
            let until = conn.receive(cluster, now);
            next = next.into_iter().chain(until).min();
            if conn.ending.is_some() || !conn.bytes.is_empty() {
                next = Some(now);
            }
            self.conns[source] = Some(conn);
        }
        next
    }

    /// Breaks all connections, as TCP eventually does with half-open ones.
    pub fn break_connections(&mut self) {
        for conn in self.conns.iter_mut().flatten() {
            conn.bytes.clear();
            conn.ending = Some(End::Failed(TransportFailure::new(FailureKind::Reset)));
        }
    }

    /// Breaks the connections on which a server may still lie, or continues a list that already contains a lie.
    pub fn break_lies(&mut self) {
        for (conn, wire) in self.conns.iter_mut().zip(&self.wires) {
            let Some(conn) = conn else { continue };
            // After a reset the same page would be requested again.
            let kind = if conn.target.contains("continue=") && !wire.list_is_honest() {
                FailureKind::Refused
            } else if conn.hit.is_some_and(FaultKind::lies) {
                FailureKind::Reset
            } else {
                continue;
            };
            conn.bytes.clear();
            conn.ending = Some(End::Failed(TransportFailure::new(kind)));
        }
    }

    /// Drops all connections, as the end of the process does.
    pub fn abandon(&mut self, cluster: &mut Cluster) {
        for conn in self.conns.iter_mut().filter_map(Option::take) {
            cluster.close(conn.open);
        }
    }
}
