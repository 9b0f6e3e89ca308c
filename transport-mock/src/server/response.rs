//! A response in progress: the source of its bytes, and the effects of faults on it.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::time::Duration;

use informer_core::{Instant, transport::FailureKind};

use super::list::ListBody;
use super::progress::Progress;
use super::watch::WatchBody;
use crate::backend::{Chunk, HeadPoll, ResponseHead};
use crate::fault::{Edit, Effects, Ending, Mark};

/// The size of a full chunk, in bytes.
const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Response {
    pub(super) source: BodySource,
    /// The mark of the request in the log.
    pub(super) mark: usize,
    /// The API server that sends it.
    pub(super) replica: usize,
    head: ResponseHead,
    ready_at: Instant,
    effects: Effects,
    sent: u64,
    events: usize,
    /// Bytes that are pending because chunks are split.
    stash: Vec<u8>,
    splits: usize,
    ending: Option<Ending>,
    /// Whether it is a watch that sends nothing more without having ended.
    is_stalled: bool,
    pace: Pace,
}

/// Limits of the speed and the silence of a body.
#[derive(Debug, Default)]
struct Pace {
    /// In bytes per second.
    bandwidth: Option<NonZeroU32>,
    /// The time until which the link is busy with earlier bytes.
    busy_until: Option<Instant>,
    idle_cut: Option<Duration>,
    /// When the last byte came.
    last: Option<Instant>,
}

/// The source of a body's bytes.
#[derive(Debug)]
pub(super) enum BodySource {
    Whole(Vec<u8>),
    List(ListBody),
    Watch(WatchBody),
}

impl Response {
    pub(super) fn new(
        head: ResponseHead,
        source: BodySource,
        mark: usize,
        ready_at: Instant,
        effects: Effects,
    ) -> Self {
        let mut response = Self {
            source,
            mark,
            head,
            ready_at: ready_at + effects.delay,
            replica: 0,
            pace: Pace::default(),
            effects,
            sent: 0,
            events: 0,
            stash: Vec::new(),
            splits: 0,
            ending: None,
            is_stalled: false,
        };
        response.decorate();
        response
    }

    /// Sets the bandwidth, unless a fault has set it, and the time without data after which the body is cut.
    pub(super) fn pace(&mut self, bandwidth: Option<NonZeroU32>, idle_cut: Option<Duration>) {
        self.pace.bandwidth = self.effects.bandwidth.or(bandwidth);
        self.pace.idle_cut = idle_cut;
    }

    /// Sets the response to a request that had to wait.
    pub(super) fn answer(&mut self, head: ResponseHead, source: BodySource) {
        (self.head, self.source) = (head, source);
        self.decorate();
    }

    pub(super) fn watch_mut(&mut self) -> Option<&mut WatchBody> {
        match &mut self.source {
            BodySource::Watch(body) if self.ending.is_none() => Some(body),
            BodySource::Watch(_) | BodySource::Whole(_) | BodySource::List(_) => None,
        }
    }

    /// Returns whether it is a watch, half open or not.
    pub(super) const fn is_watch(&self) -> bool {
        self.is_stalled || matches!(self.source, BodySource::Watch(_))
    }

    /// Returns whether it is a watch whose connection is half open.
    pub(super) const fn is_half_open(&self) -> bool {
        self.is_watch() && matches!(self.ending, Some(Ending::Stall))
    }

    /// Ends the body at once and drops unsent data.
    pub(super) fn end(&mut self, ending: Ending) {
        self.is_stalled = self.is_watch() && ending == Ending::Stall;
        self.stash.clear();
        self.ending = Some(ending);
        self.source = BodySource::Whole(Vec::new());
    }

    pub(super) fn poll_head(&mut self, now: Instant) -> HeadPoll {
        if self.effects.silent {
            return HeadPoll::Pending { until: None };
        }
        if self.ready_at > now {
            return HeadPoll::Pending {
                until: Some(self.ready_at),
            };
        }
        if let Some(kind) = self.effects.fail {
            return HeadPoll::Failed(kind);
        }
        if self.sent == 0
            && self.stash.is_empty()
            && let Some(Ending::Abort(kind)) = self.ending
        {
            return HeadPoll::Failed(kind);
        }
        if self.effects.late_head
            && let BodySource::Watch(body) = &self.source
            && let Some(until) = body.idle_until(now)
        {
            return HeadPoll::Pending { until };
        }
        HeadPoll::Ready(self.head.clone())
    }

    pub(super) fn poll_chunk(&mut self, now: Instant) -> Chunk {
        if let Some(until) = self.pace.busy_until.filter(|until| *until > now) {
            return Chunk::Pending { until: Some(until) };
        }
        let last = *self.pace.last.get_or_insert_with(|| now.max(self.ready_at));
        match self.poll_source(now) {
            Chunk::Data(mut bytes) => {
                if let Some(bandwidth) = self.pace.bandwidth {
                    let bandwidth = bandwidth.get();
                    // A tenth of a second at a time.
                    let most = usize::try_from(bandwidth / 10).unwrap_or(usize::MAX).max(1);
                    if bytes.len() > most {
                        self.stash.splice(0..0, bytes.drain(most..));
                    }
                    let micros = bytes.len() as u64 * 1_000_000 / u64::from(bandwidth);
                    self.pace.busy_until = Some(now + Duration::from_micros(micros));
                }
                self.pace.last = Some(self.pace.busy_until.unwrap_or(now));
                Chunk::Data(bytes)
            }
            Chunk::Pending { until } => match self.pace.idle_cut.map(|idle| last + idle) {
                Some(cut) if cut <= now => {
                    let reset = FailureKind::Reset;
                    self.end(Ending::Abort(reset));
                    Chunk::Abort(reset)
                }
                Some(cut) => Chunk::Pending {
                    until: Some(until.map_or(cut, |until| until.min(cut))),
                },
                None => Chunk::Pending { until },
            },
            end @ (Chunk::End | Chunk::Abort(_)) => end,
        }
    }

    fn poll_source(&mut self, now: Instant) -> Chunk {
        if self.effects.silent {
            return Chunk::Pending { until: None };
        }
        if self.ready_at > now {
            return Chunk::Pending {
                until: Some(self.ready_at),
            };
        }
        if let Some(kind) = self.effects.fail {
            return Chunk::Abort(kind);
        }
        if !self.stash.is_empty() {
            return self.next_split();
        }
        let mut out = Vec::new();
        let mut until = None;
        while self.ending.is_none() && out.len() < CHUNK {
            if self.is_cut() {
                self.ending = Some(self.effects.ending);
                break;
            }
            let step = self.step(now, &mut out);
            if let Progress::Pending(next) = step {
                until = next;
                break;
            }
        }
        self.cut_bytes(&mut out);
        if !out.is_empty() {
            self.sent += out.len() as u64;
            if self.effects.split.is_empty() {
                return Chunk::Data(out);
            }
            self.stash = out;
            return self.next_split();
        }
        match self.ending {
            None => Chunk::Pending { until },
            Some(Ending::Stall) => Chunk::Pending { until: None },
            Some(Ending::Close) => Chunk::End,
            Some(Ending::Abort(kind)) => Chunk::Abort(kind),
        }
    }

    fn decorate(&mut self) {
        if let BodySource::List(body) = &mut self.source {
            body.announce(&self.effects.edits);
        }
        for (name, value) in &self.effects.headers {
            self.head.set_header(name, value);
        }
        if let Some(length) = self.effects.content_length {
            self.head.content_length = Some(length);
        } else if !self.effects.append.is_empty()
            && let Some(length) = &mut self.head.content_length
        {
            *length += self.effects.append.len() as u64;
        }
    }

    /// Takes the next part from the source and applies the fault's edits.
    fn step(&mut self, now: Instant, out: &mut Vec<u8>) -> Progress {
        let start = out.len();
        let step = self.source.next(now, out);
        match step {
            Progress::Event => {
                let index = self.events;
                self.events += 1;
                self.edit(index, start, out);
                if self.effects.cut == Some(Mark::Inside(index)) {
                    out.truncate(start + (out.len() - start) / 2);
                    self.ending = Some(self.effects.ending);
                }
            }
            Progress::End(ending) => {
                if ending == Ending::Close {
                    out.append(&mut self.effects.append);
                }
                self.ending = Some(ending);
            }
            Progress::Bytes | Progress::Pending(_) => {}
        }
        step
    }

    fn edit(&mut self, index: usize, start: usize, out: &mut Vec<u8>) {
        for (_, edit) in self
            .effects
            .edits
            .iter()
            .filter(|(event, _)| *event == index)
        {
            match edit {
                Edit::Duplicate => {
                    let commas = matches!(&self.source, BodySource::List(body) if body.is_json());
                    if commas && out.get(start) != Some(&b',') {
                        out.push(b',');
                    }
                    out.extend_from_within(start..);
                    if commas && out.last() == Some(&b',') {
                        out.pop();
                    }
                }
                Edit::Drop => {
                    out.truncate(start);
                    if let (0, BodySource::List(body)) = (index, &mut self.source) {
                        body.starts_again();
                    }
                }
                Edit::Before(bytes) => {
                    out.splice(start..start, bytes.iter().copied());
                }
            }
        }
    }

    fn is_cut(&self) -> bool {
        match self.effects.cut {
            Some(Mark::Events(events)) => self.events >= events,
            Some(Mark::Bytes(bytes)) => self.sent >= bytes,
            Some(Mark::Inside(_)) | None => false,
        }
    }

    fn cut_bytes(&mut self, out: &mut Vec<u8>) {
        let Some(Mark::Bytes(bytes)) = self.effects.cut else {
            return;
        };
        if out.is_empty() && self.ending.is_some() {
            // The body has ended already, perhaps in another way since.
            return;
        }
        let left = usize::try_from(bytes.saturating_sub(self.sent)).unwrap_or(usize::MAX);
        if out.len() >= left {
            out.truncate(left);
            self.ending = Some(self.effects.ending);
        }
    }

    fn next_split(&mut self) -> Chunk {
        let size = self
            .effects
            .split
            .get(self.splits % self.effects.split.len().max(1));
        self.splits += 1;
        let size = size.copied().unwrap_or(usize::MAX).min(self.stash.len());
        let rest = self.stash.split_off(size);
        Chunk::Data(core::mem::replace(&mut self.stash, rest))
    }
}

impl BodySource {
    fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Progress {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => Progress::End(Ending::Close),
            Self::Whole(bytes) => {
                out.append(bytes);
                Progress::Bytes
            }
            Self::List(body) => body.next(out),
            Self::Watch(body) => body.next(now, out),
        }
    }
}

/// The error for an unknown response.
pub(super) const UNKNOWN: FailureKind = FailureKind::Reset;
