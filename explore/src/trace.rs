//! The events of a run, in order.

use core::fmt;
use core::time::Duration;

use std::collections::BTreeMap;

use serde_json::Value;

/// Everything that happened in a run, in order: actions, requests with their responses, and events.
#[derive(Clone, Default, Debug)]
pub struct Trace {
    pub(super) lanes: Vec<String>,
    pub(super) entries: Vec<Entry>,
}

/// Something that happened in a run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The time since the start of the run.
    pub at: Duration,
    /// The kind of entry.
    pub kind: EntryKind,
    /// The index of the actor in [`Trace::lanes`].
    pub lane: usize,
    /// The index of the actor at the other end of a request or event: the API server, or the world outside.
    pub peer: usize,
    /// The number of the request, which its response has too.
    pub request: Option<usize>,
    /// The event, on one line.
    pub what: String,
    /// The body of a request or response, shortened.
    pub detail: String,
    /// A hash of the whole body, without the times in it.
    pub(super) hash: u64,
    /// An event of a watch that is not described yet.
    pub(super) raw: Vec<u8>,
}

/// The kind of an [`Entry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EntryKind {
    /// An action of the plan, such as a change by a user or a fault.
    Action,
    /// Another actor writes to the server, which takes effect at once.
    Change,
    /// A process sends a request.
    Request,
    /// A process gets the response.
    Response,
    /// A request fails without a response.
    Failure,
    /// A process receives an event of a watch.
    Event,
    /// A process starts, ends or dies, or a check fails.
    Note,
    /// The program logs a line with `tracing`.
    Log,
}

/// The longest text of a body in a trace.
const DETAIL: usize = 400;

/// The API server's lane.
pub(super) const SERVER: usize = 0;

impl Trace {
    /// Returns the names of the actors. The first is the API server.
    #[must_use]
    pub fn lanes(&self) -> &[String] {
        &self.lanes
    }

    /// Iterates over the entries.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Iterates over the requests of the processes under test and their responses, one line each. Two runs of a
    /// deterministic program with the same seed have the same lines. Times of day in bodies, and the parameter
    /// `timeoutSeconds`, are left out.
    pub fn requests(&self) -> impl Iterator<Item = String> {
        let own = self.entries.iter().filter(|entry| {
            matches!(
                entry.kind,
                EntryKind::Request | EntryKind::Response | EntryKind::Failure
            )
        });
        own.map(|entry| format!("{} #{:08x}", Line(self, entry), entry.hash as u32))
    }

    /// Describes the events of watches. Bookmarks come every minute and change nothing, so they are left out.
    pub(super) fn complete(&mut self) {
        self.entries.retain_mut(|entry| {
            if entry.raw.is_empty() {
                return true;
            }
            let raw = core::mem::take(&mut entry.raw);
            let Ok(event) = serde_json::from_slice::<Value>(&raw) else {
                entry.what = format!("{} bytes of a watch", raw.len());
                return true;
            };
            if event["type"] == "BOOKMARK" {
                return false;
            }
            entry.what = event_text(&event);
            entry.detail = shorten(event["object"].to_string().as_bytes());
            true
        });
    }

    /// Describes the most frequent of the last requests, with the last response to them.
    pub(super) fn busiest(&self, last: usize) -> String {
        let is_request = |entry: &&Entry| entry.kind == EntryKind::Request;
        let mut counts = BTreeMap::<&str, (usize, Option<usize>)>::new();
        for entry in self.entries.iter().rev().filter(is_request).take(last) {
            let (count, number) = counts.entry(&entry.what).or_default();
            *count += 1;
            // The newest has no response yet.
            if *count <= 2 {
                *number = entry.request;
            }
        }
        let Some((what, (count, number))) = counts.into_iter().max_by_key(|(_, (count, _))| *count)
        else {
            return String::new();
        };
        let answers = |entry: &&Entry| {
            entry.request == number
                && [EntryKind::Response, EntryKind::Failure].contains(&entry.kind)
        };
        let answer = self.entries.iter().rev().find(answers);
        let answer = answer.map_or_else(String::new, |answer| {
            let detail: String = answer.detail.chars().take(200).collect();
            format!("; one of the last answers: {} {detail}", answer.what)
        });
        format!("{count} of them {what}{answer}")
    }

    /// Returns the lane with a name, which is added if it is new.
    pub(super) fn lane(&mut self, name: &str) -> usize {
        if let Some(index) = self.lanes.iter().position(|own| own == name) {
            return index;
        }
        self.lanes.push(name.to_owned());
        self.lanes.len() - 1
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries
            .iter()
            .try_for_each(|entry| writeln!(f, "{}", Line(self, entry)))
    }
}

/// A trace with so many of its entries, most of them from its end.
pub(super) struct Part<'a> {
    trace: &'a Trace,
    most: usize,
}

impl Trace {
    pub(super) const fn part(&self, most: usize) -> Part<'_> {
        Part { trace: self, most }
    }
}

impl<'a> Part<'a> {
    /// The first entries, the number of those that are left out, and the last entries.
    pub(super) fn split(&self) -> (&'a [Entry], usize, &'a [Entry]) {
        let entries = &self.trace.entries;
        let omitted = entries.len().saturating_sub(self.most);
        if omitted == 0 {
            return (entries, 0, &[]);
        }
        let (first, rest) = entries.split_at(self.most / 4);
        (first, omitted, &rest[omitted..])
    }
}

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, omitted, last) = self.split();
        let line = |entry: &'_ Entry| Line(self.trace, entry).to_string();
        for entry in first {
            writeln!(f, "{}", line(entry))?;
        }
        if omitted > 0 {
            writeln!(f, "             … {omitted} more lines, which the page has")?;
        }
        last.iter()
            .try_for_each(|entry| writeln!(f, "{}", line(entry)))
    }
}

/// An entry on one line.
struct Line<'a>(&'a Trace, &'a Entry);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(trace, entry) = self;
        let sign = match entry.kind {
            EntryKind::Action => "*",
            EntryKind::Request | EntryKind::Change => "->",
            EntryKind::Response | EntryKind::Event => "<-",
            EntryKind::Failure => "<x",
            EntryKind::Note => "!",
            EntryKind::Log => "|",
        };
        let lane = trace.lanes.get(entry.lane).map_or("", String::as_str);
        let time = seconds(entry.at);
        write!(f, "{time:>11}  {lane:<14} {sign:<2} {}", entry.what)?;
        if !entry.detail.is_empty() {
            write!(f, "  {}", entry.detail)?;
        }
        Ok(())
    }
}

/// Describes an event of a watch.
fn event_text(event: &Value) -> String {
    let object = &event["object"];
    let kind = object["kind"].as_str().unwrap_or_default();
    let version = object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or("-");
    let event = event["type"].as_str().unwrap_or("an event without a type");
    match event {
        "ERROR" => format!("ERROR {}", object["message"]),
        event => {
            let key = super::paths::key_of(object);
            format!("{event} {kind} {key} at {version}")
        }
    }
}

/// Formats a time of a run.
pub(super) fn seconds(time: Duration) -> String {
    format!("{}.{:03} s", time.as_secs(), time.subsec_millis())
}

/// Shortens a body for people.
pub(super) fn shorten(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut rest = text.trim();
    let mut short = String::new();
    while short.len() < DETAIL && !rest.is_empty() {
        let (part, after) = before_managed_fields(rest);
        let mut end = part.len().min(DETAIL - short.len());
        while !part.is_char_boundary(end) {
            end -= 1;
        }
        short += &part[..end];
        if end < part.len() {
            break;
        }
        rest = after;
    }
    if !rest.is_empty() {
        short += " …";
    }
    short
}

/// Splits JSON at the next `managedFields`, which say little to people and are often longer than all else, and leaves
/// them out.
fn before_managed_fields(json: &str) -> (&str, &str) {
    const MEMBER: &str = "\"managedFields\":[";
    let Some(at) = json.find(MEMBER) else {
        return (json, "");
    };
    let (mut depth, mut in_text, mut escaped) = (1_usize, false, false);
    for (index, byte) in json.bytes().enumerate().skip(at + MEMBER.len()) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let after = &json[index + 1..];
            return match after.strip_prefix(',') {
                Some(after) => (&json[..at], after),
                // It is the last member.
                None => (json[..at].trim_end_matches(','), after),
            };
        }
    }
    (json, "")
}

/// Hashes a body with FNV-1a, leaving out the times of day: programs read them from the real clock.
///
/// A copy of the core's, which is private. The runs of a seed depend on it, and std's may change with the version.
pub(super) fn hash(body: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut rest = body;
    while let Some((first, others)) = rest.split_first() {
        if let Some(after) = time_of_day(rest) {
            rest = after;
            continue;
        }
        hash = (hash ^ u64::from(*first)).wrapping_mul(0x0100_0000_01b3);
        rest = others;
    }
    hash
}

/// Whether a text is a time in RFC 3339 and UTC.
pub(super) fn is_time_of_day(text: &str) -> bool {
    time_of_day(text.as_bytes()).is_some_and(<[u8]>::is_empty)
}

/// Returns what follows a time in RFC 3339 and UTC.
fn time_of_day(text: &[u8]) -> Option<&[u8]> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let matches = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    };
    if text.len() <= FORM.len() || !text.iter().zip(FORM).all(matches) {
        return None;
    }
    let fraction = text[FORM.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    text[FORM.len() + fraction..].strip_prefix(b"Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_do_not_count() {
        let at = |time: &str| hash(format!("{{\"renewTime\":\"{time}\"}}").as_bytes());
        assert_eq!(
            at("2026-01-02T03:04:05Z"),
            at("2031-12-30T23:59:59.123456Z")
        );
        assert_ne!(at("2026-01-02T03:04:05Z"), at("2026-01-02"));
        assert_ne!(at("a"), at("b"));
    }

    #[test]
    fn long_bodies_are_shortened_between_characters() {
        let text = shorten("ü".repeat(DETAIL).as_bytes());
        assert_eq!(text.chars().count(), DETAIL / 2 + 2);
        assert_eq!(shorten(b" a \n"), "a");
        let fields = r#""managedFields":[{"a":["]\"","b"]},[]]"#;
        let json = [r#"{"a":1,"#, fields, r#","b":{"c":2,"#, fields, "}}"].concat();
        assert_eq!(shorten(json.as_bytes()), r#"{"a":1,"b":{"c":2}}"#);
    }
}
