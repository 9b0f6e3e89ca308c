//! An independent reading of the bytes given to the engine: the state that a reflector should derive from them.
//!
//! It shares no code with the engine. It is slower, buffers whole answers, and parses them with serde_json, or with the
//! mock's reader of protobuf.

use informer_core::reflector::Purpose;
use informer_mock::protobuf;
use serde_json::{Deserializer, Value};

use super::plan::{KEY_NAMES, KEYS};

/// The expected state of one source.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// The possible versions reached; empty before the first list.
    pub versions: Vec<u64>,
    /// The version of the last complete list.
    pub listed: Option<u64>,
    /// That version was older than the one reached before it.
    pub went_back: bool,
    /// A list has started and is not complete.
    pub in_list: bool,
    /// The number of lists started. Objects from a list that was cut are kept.
    pub begun: u32,
    /// The number of complete lists.
    pub complete: u32,
    /// The state is true: no server has lied since the last complete list.
    pub trusted: bool,
    /// The era of the list.
    pub era: usize,
    /// Whether the server has refused the last version, which permits a list without a version.
    pub refused: Refused,
    /// The number of bookmarks, except those up to the end of a streaming list.
    pub bookmarks: u32,
    /// The write number of the newest state of each key received by a watch; `None` if unknown.
    pub newest: [Option<u32>; KEY_NAMES.len()],
    lost: bool,
    reading: Option<Reading>,
    list: ListSoFar,
}

/// Whether a server has refused a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Refused {
    /// It has not refused it.
    #[default]
    No,
    /// It may have: the answer was cut, so the client may not know.
    Perhaps,
    /// It has refused it.
    Yes,
}

#[derive(Clone, Debug, Default)]
struct ListSoFar {
    version: Option<u64>,
    eras: Vec<usize>,
    honest: bool,
}

/// The state of the answer being read.
#[derive(Clone, Debug)]
struct Reading {
    verb: Purpose,
    in_protobuf: bool,
    bytes: Vec<u8>,
    started: bool,
    /// Still before the end of a streaming list.
    initial: bool,
    is_first_page: bool,
    done: bool,
    broken: bool,
    gone: bool,
    overloaded: bool,
    events: u32,
    era: usize,
    honest: bool,
}

/// A summary of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The number of events, including bookmarks.
    pub events: u32,
    /// An ERROR event arrived.
    pub error: bool,
    /// That ERROR event asked the client to wait.
    pub overloaded: bool,
    /// The bytes cannot be parsed further.
    pub broken: bool,
    /// A streaming list that has not reached its end.
    pub initial: bool,
}

impl Wire {
    /// Starts an answer with status 200.
    pub fn begin(
        &mut self,
        verb: Purpose,
        in_protobuf: bool,
        is_first_page: bool,
        era: usize,
        honest: bool,
    ) {
        if verb == Purpose::Watch && era != self.era {
            // The watch resumes at a version of another history. Unless the server reports this, no client can detect
            // it.
            self.trusted = false;
        }
        self.reading = Some(Reading {
            verb,
            in_protobuf,
            bytes: Vec::new(),
            started: false,
            initial: verb == Purpose::Stream,
            is_first_page,
            done: false,
            broken: false,
            gone: false,
            overloaded: false,
            events: 0,
            era,
            honest,
        });
    }

    /// Returns the expected state after this version is restored, given the state when it was reached.
    #[must_use]
    pub fn restored(&self, version: u64) -> Self {
        Self {
            versions: vec![version],
            listed: Some(version),
            begun: 1,
            complete: 1,
            trusted: self.trusted,
            era: self.era,
            ..Self::default()
        }
    }

    /// A server has lost an object without an event, so what it shows from now on is not a consistent history.
    pub fn give_up(&mut self) {
        self.lost = true;
        self.distrust();
    }

    /// The server has refused the last version; `is_clear` is whether it did so unambiguously.
    pub fn refuse(&mut self, is_clear: bool) {
        if is_clear {
            self.refused = Refused::Yes;
        } else if self.refused == Refused::No {
            self.refused = Refused::Perhaps;
        }
    }

    /// Returns whether everything received of the current list is true.
    pub const fn list_is_honest(&self) -> bool {
        self.list.honest
    }

    /// The server has started to lie.
    pub fn distrust(&mut self) {
        self.trusted = false;
        self.newest = Default::default();
        self.list.honest = false;
        if let Some(reading) = &mut self.reading {
            reading.honest = false;
        }
    }

    /// Reads bytes of the answer.
    pub fn read(&mut self, bytes: &[u8]) {
        let Some(mut reading) = self.reading.take() else {
            return;
        };
        if bytes.is_empty() {
            self.reading = Some(reading);
            return;
        }
        if !reading.honest && !reading.verb.is_watch() {
            self.list.honest = false;
        }
        if !reading.honest && reading.verb.is_watch() {
            self.trusted = false;
        }
        if !core::mem::replace(&mut reading.started, true) && reading.begins() {
            self.in_list = true;
            self.begun += 1;
            self.newest = Default::default();
            self.list = ListSoFar {
                version: None,
                eras: Vec::new(),
                honest: reading.honest,
            };
        }
        reading.bytes.extend_from_slice(bytes);
        let may_end = reading.in_protobuf || bytes.contains(&b'}');
        if !reading.done && !reading.broken && may_end {
            if reading.verb == Purpose::List {
                self.page(&mut reading);
            } else {
                self.events(&mut reading);
            }
        }
        self.reading = Some(reading);
    }

    /// The answer has ended or was abandoned.
    pub fn end(&mut self) -> Answer {
        self.reading
            .take()
            .map_or_else(Answer::default, |reading| Answer {
                events: reading.events,
                error: reading.gone || reading.overloaded,
                overloaded: reading.overloaded,
                broken: reading.broken || reading.looks_broken(),
                initial: reading.initial,
            })
    }

    /// Returns whether the answer being read is a watch past its initial events.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| {
            reading.verb.is_watch()
                && !reading.initial
                && !reading.gone
                && !reading.overloaded
                && !reading.broken
        })
    }

    fn page(&mut self, reading: &mut Reading) {
        let value = match reading.list() {
            Ok(Some(value)) => value,
            Ok(None) => return,
            Err(Broken) => {
                reading.broken = true;
                return;
            }
        };
        reading.done = true;
        if value["kind"] != "PodList" {
            reading.broken = true;
            return;
        }
        let metadata = &value["metadata"];
        if reading.is_first_page {
            self.list.version = number(&metadata["resourceVersion"]);
        }
        self.list.eras.push(reading.era);
        self.list.honest &= reading.honest;
        if metadata["continue"].as_str().unwrap_or_default().is_empty() {
            let honest = self.list.honest && self.list.eras.iter().all(|era| *era == reading.era);
            self.complete(self.list.version, reading.era, honest);
        }
    }

    fn complete(&mut self, version: Option<u64>, era: usize, honest: bool) {
        self.went_back = self.versions.iter().any(|reached| Some(*reached) > version);
        self.versions = version.into_iter().collect();
        self.listed = version;
        self.in_list = false;
        self.complete += 1;
        self.trusted = honest && !self.lost;
        self.era = era;
        self.refused = Refused::No;
    }

    fn events(&mut self, reading: &mut Reading) {
        if reading.in_protobuf {
            return self.events_in_protobuf(reading);
        }
        let bytes = core::mem::take(&mut reading.bytes);
        let mut stream = Deserializer::from_slice(&bytes).into_iter::<Value>();
        let mut at = 0;
        while let Some(next) = stream.next() {
            match next {
                Ok(event) => {
                    at = stream.byte_offset();
                    self.event(reading, &event);
                    if reading.gone || reading.overloaded || reading.broken {
                        return;
                    }
                }
                Err(error) => {
                    reading.broken = !error.is_eof();
                    break;
                }
            }
        }
        reading.bytes = bytes[at..].trim_ascii_start().to_vec();
    }

    fn events_in_protobuf(&mut self, reading: &mut Reading) {
        while let Some((length, rest)) = reading.bytes.split_first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if rest.len() < length {
                return;
            }
            let frame: Vec<u8> = reading.bytes.drain(..4 + length).collect();
            let events = protobuf::events(&frame).unwrap_or_default();
            reading.broken = events.is_empty();
            for event in &events {
                self.event(reading, event);
            }
            if reading.gone || reading.overloaded || reading.broken {
                return;
            }
        }
    }

    fn event(&mut self, reading: &mut Reading, event: &Value) {
        let object = &event["object"];
        let version = number(&object["metadata"]["resourceVersion"]);
        match event["type"].as_str() {
            Some("ERROR") => {
                reading.gone = object["code"] != 429;
                reading.overloaded = object["code"] == 429;
            }
            Some("BOOKMARK") => {
                reading.events += 1;
                let ends = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
                if reading.initial && ends {
                    reading.initial = false;
                    self.complete(version, reading.era, reading.honest && self.list.honest);
                } else if !reading.initial {
                    self.bookmarks += 1;
                    self.versions = version.into_iter().collect();
                }
            }
            Some("ADDED" | "MODIFIED" | "DELETED") => {
                if object["kind"] != "Pod"
                    || object["metadata"]["name"]
                        .as_str()
                        .unwrap_or_default()
                        .is_empty()
                {
                    return;
                }
                reading.events += 1;
                self.note(event["type"] == "DELETED", object);
                if reading.initial {
                    return;
                }
                self.versions = version.into_iter().collect();
            }
            Some(_) => reading.events += 1,
            None => reading.broken = true,
        }
    }
}

impl Wire {
    fn note(&mut self, is_deletion: bool, object: &Value) {
        let named = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        let key = (named("namespace"), named("name"));
        if let Some(slot) = KEYS.iter().position(|own| *own == key) {
            let spec = &object["spec"];
            let n = object["n"]
                .as_u64()
                .or_else(|| spec["activeDeadlineSeconds"].as_u64());
            let n = n.and_then(|n| u32::try_from(n).ok());
            let filler = object["filler"].as_str();
            let filler = filler.or_else(|| spec["hostname"].as_str());
            let is_of_use = filler.is_none_or(str::is_empty);
            self.newest[slot] = n.filter(|_| !is_deletion && is_of_use);
        }
    }
}

impl Reading {
    /// Returns whether the answer starts a complete list.
    fn begins(&self) -> bool {
        match self.verb {
            Purpose::List => self.is_first_page,
            Purpose::Stream => true,
            Purpose::Watch => false,
        }
    }

    /// Returns the list, if all of it was read.
    fn list(&self) -> Result<Option<Value>, Broken> {
        if self.in_protobuf {
            let Some(end) = end_of_list(&self.bytes) else {
                return Ok(None);
            };
            let list = protobuf::to_json(&self.bytes[..end]);
            return list.map(Some).ok_or(Broken);
        }
        let list = Deserializer::from_slice(&self.bytes).into_iter().next();
        match list {
            Some(Ok(list)) => Ok(Some(list)),
            Some(Err(error)) if error.is_eof() => Ok(None),
            Some(Err(_)) | None => Err(Broken),
        }
    }

    /// A body that was cut in the middle may have been malformed before the cut.
    fn looks_broken(&self) -> bool {
        if self.in_protobuf {
            return false;
        }
        let mut stream = Deserializer::from_slice(&self.bytes).into_iter::<Value>();
        matches!(stream.next(), Some(Err(error)) if !error.is_eof())
    }
}

/// The bytes are no valid answer.
struct Broken;

/// Returns the end of a list in its envelope: after the magic number and the kind, which has fewer than 128 bytes, the
/// length of the list precedes it. `None` if the list continues after the bytes.
fn end_of_list(bytes: &[u8]) -> Option<usize> {
    let list = 6 + usize::from(*bytes.get(5)?);
    let mut length = 0;
    for (index, byte) in bytes.get(list + 1..)?.iter().enumerate().take(9) {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            let end = list + 2 + index + length;
            return (end <= bytes.len()).then_some(end);
        }
    }
    None
}

fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
