//! The log of requests, and assertions on it.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use informer_core::Instant;
use serde_json::{Map, Value, json};

use crate::query::Query;

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Verb {
    /// A list, or one page of it.
    List,
    /// A watch without `sendInitialEvents=true`.
    Watch,
    /// A streaming list: a watch with `sendInitialEvents=true`.
    Stream,
    /// A GET of one object.
    Get,
    /// Any other request.
    Other,
}

impl Verb {
    pub(crate) fn of(query: &Query) -> Self {
        match (query.flag("watch"), query.flag("sendInitialEvents")) {
            (false, _) => Self::List,
            (true, false) => Self::Watch,
            (true, true) => Self::Stream,
        }
    }

    /// Returns the verb as written in the log: `LIST`, `WATCH`, `STREAM`, `GET`, `OTHER`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Stream => "STREAM",
            Self::Get => "GET",
            Self::Other => "OTHER",
        }
    }
}

/// A request that the server received.
///
/// `Display` writes it on one line with its path, and [`compact`](Self::compact) without the path.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RequestRecord {
    /// When the request arrived.
    pub at: Instant,
    /// The kind of the request.
    pub verb: Verb,
    /// The decoded path.
    pub path: String,
    /// The decoded query.
    pub query: Query,
    /// The `Accept` header.
    pub accept: String,
    /// The HTTP status of the response; `None` if there was no response, or none yet.
    pub status: Option<u16>,
}

impl RequestRecord {
    pub(crate) fn new(at: Instant, verb: Verb, path: &str, query: &Query, accept: &str) -> Self {
        let (path, accept) = (path.to_string(), accept.to_string());
        Self {
            at,
            verb,
            path,
            query: query.clone(),
            accept,
            status: None,
        }
    }

    /// Returns the requested resourceVersion; `None` without this parameter.
    #[must_use]
    pub fn resource_version(&self) -> Option<&str> {
        self.query.get("resourceVersion")
    }

    /// Returns the requested `timeoutSeconds`.
    #[must_use]
    pub fn timeout(&self) -> Option<u64> {
        self.query.get("timeoutSeconds")?.parse().ok()
    }

    /// Formats the request on one line: the verb, then `rv=`, `match=`, `limit=`, `continue`, `labels=`, `fields=` and
    /// `bookmarks` if they are present, then other parameters as they are. `watch` and `sendInitialEvents` are omitted
    /// because the verb implies them, and `timeoutSeconds` because it is random.
    #[must_use]
    pub fn compact(&self) -> String {
        let mut text = self.verb.as_str().to_string();
        self.write_parameters(&mut text);
        text
    }

    /// Converts the request to the format of the conformance suite's scripted server: `t`, `verb`, `path`, `query`
    /// (without `timeoutSeconds`) and `timeout`. `start` is the time of the first request.
    #[must_use]
    pub fn to_json(&self, start: Instant) -> Value {
        let millis = self.at.saturating_duration_since(start).as_millis();
        let query = self.query.iter().filter(|pair| pair.0 != "timeoutSeconds");
        let query: Map<String, Value> = query.map(|(k, v)| (k.to_string(), v.into())).collect();
        let seconds = f64::from(u32::try_from(millis).unwrap_or(u32::MAX)) / 1000.0;
        let timeout = self
            .query
            .filled("timeoutSeconds")
            .and_then(|text| text.parse::<f64>().ok());
        json!({ "t": seconds, "verb": self.verb.as_str(), "path": self.path, "query": query, "timeout": timeout })
    }

    fn write_parameters(&self, text: &mut String) {
        const SHORT: &[(&str, &str)] = &[
            ("resourceVersion", "rv="),
            ("resourceVersionMatch", "match="),
            ("limit", "limit="),
            ("continue", "continue"),
            ("labelSelector", "labels="),
            ("fieldSelector", "fields="),
            ("allowWatchBookmarks", "bookmarks"),
        ];
        for (key, short) in SHORT {
            let Some(value) = self.query.get(key) else {
                continue;
            };
            if *short == "bookmarks" && !self.query.flag(key) {
                continue;
            }
            *text += " ";
            *text += short;
            if short.ends_with('=') {
                *text += value;
            }
        }
        for (key, value) in self.query.iter() {
            let known = SHORT.iter().any(|(name, _)| *name == key);
            if !known && !["watch", "sendInitialEvents", "timeoutSeconds"].contains(&key) {
                *text += &format!(" {key}={value}");
            }
        }
    }
}

impl fmt::Display for RequestRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parameters = String::new();
        self.write_parameters(&mut parameters);
        write!(f, "{} {}{parameters}", self.verb.as_str(), self.path)
    }
}

/// All requests that a server received, in order.
///
/// Marks and indexes count from the first request ever, even if old requests have been dropped from the log.
///
/// ```
/// use informer_mock::{Backend as _, FakeServer, Instant};
///
/// let mut server = FakeServer::new(1);
/// let now = Instant::from_micros(0);
/// server.handle_request(now, "/api/v1/pods?limit=500&resourceVersion=0", "application/json");
/// let mark = server.log().mark();
/// server.handle_request(now, "/api/v1/pods?watch=true&resourceVersion=10&allowWatchBookmarks=true", "application/json");
///
/// server.log().assert_requests(&["LIST rv=0 limit=500", "WATCH rv=10 bookmarks"]);
/// server.log().assert_requests_since(mark, &["WATCH /api/v1/pods rv=10 bookmarks"]);
/// server.log().assert_no_list_since(mark);
/// assert_eq!(server.log().lists().count(), 1);
/// ```
#[derive(Clone, Default, Debug)]
pub struct RequestLog {
    records: VecDeque<RequestRecord>,
    dropped: usize,
    limit: Option<usize>,
}

impl RequestLog {
    pub(crate) fn with_limit(limit: Option<usize>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Adds a request and returns its mark.
    pub(crate) fn push(&mut self, record: RequestRecord) -> usize {
        self.records.push_back(record);
        if self.limit.is_some_and(|limit| self.records.len() > limit) {
            self.records.pop_front();
            self.dropped += 1;
        }
        self.mark() - 1
    }

    pub(crate) fn set_status(&mut self, mark: usize, status: u16) {
        let index = mark.checked_sub(self.dropped);
        if let Some(record) = index.and_then(|index| self.records.get_mut(index)) {
            record.status = Some(status);
        }
    }

    /// Returns the number of requests so far. It is a mark for the methods that look at later requests.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.dropped + self.records.len()
    }

    /// Iterates over all requests.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &RequestRecord> {
        self.records.iter()
    }

    /// Iterates over the requests since a mark.
    pub fn since(&self, mark: usize) -> impl DoubleEndedIterator<Item = &RequestRecord> {
        self.records.iter().skip(mark.saturating_sub(self.dropped))
    }

    /// Iterates over the list requests, one for each page.
    pub fn lists(&self) -> impl DoubleEndedIterator<Item = &RequestRecord> {
        self.of(Verb::List)
    }

    /// Iterates over the plain watches.
    pub fn watches(&self) -> impl DoubleEndedIterator<Item = &RequestRecord> {
        self.of(Verb::Watch)
    }

    /// Iterates over the streaming lists.
    pub fn streams(&self) -> impl DoubleEndedIterator<Item = &RequestRecord> {
        self.of(Verb::Stream)
    }

    /// Asserts that there was no list and no streaming list since the mark.
    ///
    /// # Panics
    /// Panics if there was one.
    #[track_caller]
    pub fn assert_no_list_since(&self, mark: usize) {
        let list = |record: &&RequestRecord| matches!(record.verb, Verb::List | Verb::Stream);
        let found = self.since(mark).find(list);
        assert!(
            found.is_none(),
            "there was a list since mark {mark}:\n{}",
            self.render(mark, |record| list(&record))
        );
    }

    /// Asserts that the requests are exactly these, in this order. A line has the format of
    /// [`compact`](RequestRecord::compact), or of `Display` if the path matters.
    ///
    /// # Panics
    /// Panics with both lists if they differ.
    #[track_caller]
    pub fn assert_requests(&self, expected: &[&str]) {
        self.assert_requests_since(0, expected);
    }

    /// Asserts that the requests since a mark are exactly these, like [`assert_requests`](Self::assert_requests).
    ///
    /// # Panics
    /// Panics with both lists if they differ.
    #[track_caller]
    pub fn assert_requests_since(&self, mark: usize, expected: &[&str]) {
        let got: Vec<&RequestRecord> = self.since(mark).collect();
        let same = |(record, line): (&&RequestRecord, &&str)| {
            if line.contains(" /") {
                record.to_string() == *line
            } else {
                record.compact() == *line
            }
        };
        let all = got.len() == expected.len() && got.iter().zip(expected).all(same);
        assert!(
            all,
            "the requests differ from the expected ones (> marks the first difference)\nexpected:\n  {}\ngot:\n{}",
            expected.join("\n  "),
            self.render(mark, {
                let first = got.iter().zip(expected).position(|pair| !same(pair));
                let first = first.unwrap_or_else(|| got.len().min(expected.len()));
                let first = got.get(first).copied();
                move |record| first.is_some_and(|first| core::ptr::eq(first, record))
            })
        );
    }

    /// Asserts the number of requests with this verb since the mark.
    ///
    /// # Panics
    /// Panics if the number differs.
    #[track_caller]
    pub fn assert_count_since(&self, mark: usize, verb: Verb, expected: usize) {
        let count = self
            .since(mark)
            .filter(|record| record.verb == verb)
            .count();
        assert!(
            count == expected,
            "{count} requests are {}, not {expected}:\n{}",
            verb.as_str(),
            self.render(mark, |record| record.verb == verb)
        );
    }

    /// Clears the log. Marks start from zero again.
    pub fn clear(&mut self) {
        self.records.clear();
        self.dropped = 0;
    }

    fn of(&self, verb: Verb) -> impl DoubleEndedIterator<Item = &RequestRecord> {
        self.iter().filter(move |record| record.verb == verb)
    }

    fn render(&self, mark: usize, marked: impl Fn(&RequestRecord) -> bool) -> String {
        let mut text = String::new();
        for record in self.since(mark) {
            let sign = if marked(record) { '>' } else { ' ' };
            let status = record
                .status
                .map_or_else(|| "-".to_string(), |status| status.to_string());
            text += &format!("{sign} {:?} {record} -> {status}\n", record.at);
        }
        if text.is_empty() {
            text += "  (nothing)\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(targets: &[&str]) -> RequestLog {
        let mut log = RequestLog::with_limit(Some(3));
        for target in targets {
            let query = Query::parse(target);
            log.push(RequestRecord::new(
                Instant::from_micros(0),
                Verb::of(&query),
                "/api/v1/pods",
                &query,
                "",
            ));
        }
        log
    }

    #[test]
    fn old_requests_are_dropped_and_marks_stay() {
        let log = log(&["limit=1", "limit=2", "limit=3", "limit=4"]);
        assert_eq!(log.mark(), 4);
        assert_eq!(log.iter().count(), 3);
        log.assert_requests_since(3, &["LIST limit=4"]);
        log.assert_requests_since(1, &["LIST limit=2", "LIST limit=3", "LIST limit=4"]);
        log.assert_count_since(2, Verb::List, 2);
    }

    #[test]
    #[should_panic(expected = "> 0.000000s WATCH /api/v1/pods rv= -> -")]
    fn a_difference_is_shown() {
        log(&["limit=1", "watch=1&resourceVersion="])
            .assert_requests(&["LIST limit=1", "WATCH rv=5"]);
    }

    #[test]
    #[should_panic(expected = "there was a list since mark 1")]
    fn a_streaming_list_counts_as_a_list() {
        log(&["limit=1", "watch=1&sendInitialEvents=true"]).assert_no_list_since(1);
    }

    #[test]
    fn all_parameters() {
        let log = log(&[
            "x=1&watch=true&allowWatchBookmarks=false&continue=a&labelSelector=b&fieldSelector=c&resourceVersionMatch=Exact",
        ]);
        log.assert_requests(&["WATCH match=Exact continue labels=b fields=c x=1"]);
    }
}
