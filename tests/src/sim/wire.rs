//! A second reading of the bytes that the engine was given: what a reflector should have made of them.
//!
//! It shares no code with the engine. It is slower, keeps whole answers, and reads them by serde_json.

use informer_core::reflector::Verb;
use serde_json::{Deserializer, Value};

use super::plan::{KEY_NAMES, KEYS};

/// What one source should know.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// The version reached, if any; none before the first list.
    pub versions: Vec<u64>,
    /// The version of the last complete picture.
    pub listed: Option<u64>,
    /// It was older than what had been reached before it.
    pub went_back: bool,
    /// A complete picture has begun and is not complete.
    pub in_list: bool,
    /// How many pictures have begun. What came of one that was cut is kept.
    pub begun: u32,
    /// How many complete pictures there were.
    pub complete: u32,
    /// What was told is the truth: no server has lied since the last complete picture.
    pub trusted: bool,
    /// The era to which the picture belongs.
    pub era: usize,
    /// Whether the server has refused the last version, so that a list without one is in order.
    pub refused: Refused,
    /// How many bookmarks have come, but for those of streaming lists up to their end.
    pub bookmarks: u32,
    /// The number of the newest state of each key that has come by a watch; none where that cannot be said.
    pub newest: [Option<u32>; KEY_NAMES.len()],
    lost: bool,
    reading: Option<Reading>,
    list: ListSoFar,
}

/// Whether a server has refused a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Refused {
    /// It has not.
    #[default]
    No,
    /// The answer was cut, so that a client may not know.
    Perhaps,
    /// It has.
    Yes,
}

#[derive(Clone, Debug, Default)]
struct ListSoFar {
    version: Option<u64>,
    eras: Vec<usize>,
    honest: bool,
}

/// What is known of the answer that is being read.
#[derive(Clone, Debug)]
struct Reading {
    verb: Verb,
    bytes: Vec<u8>,
    started: bool,
    /// Before the end of a streaming list.
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

/// How an answer was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// How many events came; bookmarks count.
    pub events: u32,
    /// An ERROR event came.
    pub error: bool,
    /// It was an ERROR event that asks for patience.
    pub overloaded: bool,
    /// What came cannot be read on.
    pub broken: bool,
    /// A streaming list that has not come to its end.
    pub initial: bool,
}

impl Wire {
    /// An answer with status 200 begins.
    pub fn begin(&mut self, verb: Verb, is_first_page: bool, era: usize, honest: bool) {
        if verb == Verb::Watch && era != self.era {
            // It goes on from a version of another history. Where it does not say so, nobody can know.
            self.trusted = false;
        }
        self.reading = Some(Reading {
            verb,
            bytes: Vec::new(),
            started: false,
            initial: verb == Verb::Stream,
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

    /// What a process should know that has restored this version, which was reached when this was so.
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

    /// A server has lost an object, and all that was known of it: what it shows from now on is no history.
    pub fn give_up(&mut self) {
        self.lost = true;
        self.distrust();
    }

    /// A server has refused the last version; whether it was clear in saying so.
    pub fn refuse(&mut self, is_clear: bool) {
        if is_clear {
            self.refused = Refused::Yes;
        } else if self.refused == Refused::No {
            self.refused = Refused::Perhaps;
        }
    }

    /// Tells whether all that has come of the list that is being read is the truth.
    pub const fn list_is_honest(&self) -> bool {
        self.list.honest
    }

    /// A server has begun to lie.
    pub fn distrust(&mut self) {
        self.trusted = false;
        self.newest = Default::default();
        self.list.honest = false;
        if let Some(reading) = &mut self.reading {
            reading.honest = false;
        }
    }

    /// Bytes of the answer have come.
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
        if !reading.done && !reading.broken && bytes.contains(&b'}') {
            if reading.verb == Verb::List {
                self.page(&mut reading);
            } else {
                self.events(&mut reading);
            }
        }
        self.reading = Some(reading);
    }

    /// The answer has ended, or was abandoned.
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

    /// Tells whether the answer that is being read is a watch that is past its initial events.
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
        let value = match Deserializer::from_slice(&reading.bytes)
            .into_iter::<Value>()
            .next()
        {
            Some(Ok(value)) => value,
            Some(Err(error)) if error.is_eof() => return,
            Some(Err(_)) | None => {
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
            let n = object["n"].as_u64().and_then(|n| u32::try_from(n).ok());
            let is_of_use = object["filler"].as_str().is_some_and(str::is_empty);
            self.newest[slot] = n.filter(|_| !is_deletion && is_of_use);
        }
    }
}

impl Reading {
    /// Tells whether it begins a complete picture.
    fn begins(&self) -> bool {
        match self.verb {
            Verb::List => self.is_first_page,
            Verb::Stream => true,
            Verb::Watch => false,
        }
    }

    /// What was cut in the middle may have been broken already.
    fn looks_broken(&self) -> bool {
        let mut stream = Deserializer::from_slice(&self.bytes).into_iter::<Value>();
        matches!(stream.next(), Some(Err(error)) if !error.is_eof())
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
