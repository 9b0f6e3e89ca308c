//! A server that replays the data set from memory: pages of a list, a streaming list, and a watch.
//!
//! It implements only what that needs of HTTP and Kubernetes, so that it uses little of the machine being measured.
//! It answers every request for a path that ends in `/pods` or `/nodes`, with one thread per connection.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use informer_mock::{json, protobuf};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::data::DataSet;
use crate::encoded::Encoded;

/// How the server sends the events.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The pause between the initial state and the first event.
    pub pause: Duration,
    /// Events per second, stamped with their time of sending; `None` sends as fast as the client reads.
    pub rate: Option<u32>,
    /// How often the events are sent, in JSON and at a rate: each time with higher versions, and the last event only
    /// once.
    pub repeat: u32,
    /// How the bodies are cut into chunks.
    pub chunks: Cut,
    /// The first watch of each resource ends with 410, so that clients relist.
    pub expires: bool,
    /// The number of bookmarks after the last event, in JSON; the last event follows them once more.
    pub bookmarks: u32,
}

/// How a body is cut into chunks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Cut {
    /// One chunk for each event or item.
    #[default]
    Event,
    /// Several whole events or items in each chunk; at a rate, eight events at once.
    Many,
    /// Chunks of one size, which end anywhere in an event or item; at a rate, each is written by itself.
    Split,
}

/// The data set in all formats.
#[derive(Debug)]
pub struct Replay {
    set: DataSet,
    /// A watch has expired.
    expired: AtomicBool,
    /// Converted when it is requested first.
    encoded: OnceLock<Encoded>,
}

impl Replay {
    /// Prepares a data set in JSON.
    #[must_use]
    pub const fn new(set: DataSet) -> Self {
        Self {
            set,
            expired: AtomicBool::new(false),
            encoded: OnceLock::new(),
        }
    }

    /// Returns the data set in protobuf.
    pub fn encoded(&self) -> &Encoded {
        self.encoded.get_or_init(|| Encoded::new(&self.set))
    }
}

/// Answers requests forever, over TLS if there is a configuration for it.
///
/// # Errors
/// Fails if connections cannot be accepted.
pub fn serve(
    listener: &TcpListener,
    tls: Option<&Arc<ServerConfig>>,
    pods: &Arc<Replay>,
    nodes: &Arc<Replay>,
    pace: Pace,
) -> io::Result<()> {
    for stream in listener.incoming() {
        let (stream, pods, nodes) = (stream?, Arc::clone(pods), Arc::clone(nodes));
        stream.set_nodelay(true)?;
        let tls = tls.cloned();
        // A client that disconnects ends its thread.
        std::thread::spawn(move || match tls {
            Some(tls) => {
                let tls = ServerConnection::new(tls).map_err(io::Error::other)?;
                answer(StreamOwned::new(tls, stream), &pods, &nodes, pace)
            }
            None => answer(stream, &pods, &nodes, pace),
        });
    }
    Ok(())
}

/// A new certificate, which its own key has signed, so that clients must not verify it.
///
/// # Errors
/// Fails if the certificate cannot be made.
pub fn self_signed() -> io::Result<Arc<ServerConfig>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let made = made.map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], made.signing_key.into())
        .map_err(io::Error::other)?;
    Ok(Arc::new(config))
}

/// A response of one resource.
struct Connection<'a> {
    replay: &'a Replay,
    pace: Pace,
}

/// The number of bytes written at once.
const PIECE: usize = 128 << 10;
/// The size of a chunk that does not end with an event.
const CHUNK: usize = 4 << 10;
/// The number of events that are sent at once if chunks have several.
const BURST: usize = 8;

fn answer(stream: impl Read + Write, pods: &Replay, nodes: &Replay, pace: Pace) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let target = line.split_whitespace().nth(1).unwrap_or("/").to_owned();
        let mut accept = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim_end().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("accept")
            {
                value.trim().clone_into(&mut accept);
            }
        }
        let request = Request::parse(&target, &accept);
        let mut out = Chunks::new(reader.get_mut(), pace.chunks);
        let replay = match request.resource.as_str() {
            "pods" => pods,
            "nodes" => nodes,
            _ => {
                out.raw(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
                out.flush()?;
                continue;
            }
        };
        out.raw(request.head().as_bytes())?;
        let connection = Connection { replay, pace };
        if !request.watch {
            connection.list(&request, &mut out)?;
            continue;
        }
        if request.initial_events {
            connection.initial(&request, &mut out)?;
        }
        if pace.expires && !replay.expired.swap(true, Ordering::Relaxed) {
            out.chunk(&[EXPIRED])?;
            out.end_chunk()?;
            out.raw(b"0\r\n\r\n")?;
            out.flush()?;
            continue;
        }
        connection.events(&request, &mut out)?;
    }
}

/// An event in JSON, which ends a watch.
const EXPIRED: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Expired","code":410}}"#;

impl Connection<'_> {
    fn list(&self, request: &Request, out: &mut Chunks<'_>) -> io::Result<()> {
        let set = &self.replay.set;
        // Like the watch cache, which ignores `limit` at version 0.
        let limit = if request.version == Some(0) {
            0
        } else {
            request.limit
        };
        let end = match limit {
            0 => set.pods.len(),
            limit => (request.from + limit).min(set.pods.len()),
        };
        let (version, left) = (set.list_version(), set.pods.len() - end);
        if request.protobuf {
            let mut metadata = json!({ "resourceVersion": version.to_string() });
            if left > 0 {
                metadata["continue"] = end.to_string().into();
                metadata["remainingItemCount"] = left.into();
            }
            for [part] in self.replay.encoded().list(request.from..end, &metadata) {
                out.chunk(&[&part])?;
            }
        } else {
            let more = if left > 0 {
                format!(r#","continue":"{end}","remainingItemCount":{left}"#)
            } else {
                String::new()
            };
            out.chunk(&[format!(
                r#"{{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{version}"{more}}},"items":["#,
                set.kind, set.api_version
            )
            .as_bytes()])?;
            for number in request.from..end {
                let comma: &[u8] = if number > request.from { b"," } else { b"" };
                out.chunk(&[comma, set.pods.at(number).unwrap_or_default()])?;
            }
            out.chunk(&[b"]}\n"])?;
        }
        out.end_chunk()?;
        out.raw(b"0\r\n\r\n")?;
        out.flush()
    }

    fn initial(&self, request: &Request, out: &mut Chunks<'_>) -> io::Result<()> {
        let set = &self.replay.set;
        let version = set.list_version();
        if request.protobuf {
            for frame in self.replay.encoded().added() {
                out.chunk(&[frame])?;
            }
            out.chunk(&[&self.replay.encoded().bookmark(version)])?;
            return out.flush();
        }
        let types = format!(
            r#""kind":"{}","apiVersion":"{}""#,
            set.kind, set.api_version
        );
        let start = format!(r#"{{"type":"ADDED","object":{{{types},"#);
        for pod in set.pods.iter() {
            out.chunk(&[start.as_bytes(), pod.get(1..).unwrap_or_default(), b"}\n"])?;
        }
        let bookmark = format!(
            r#"{{"type":"BOOKMARK","object":{{{types},"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#,
        );
        out.chunk(&[bookmark.as_bytes(), b"\n"])?;
        out.flush()
    }

    /// Sends the events after a version, and then keeps the watch open.
    fn events(&self, request: &Request, out: &mut Chunks<'_>) -> io::Result<()> {
        out.flush()?;
        let (events, end): (_, &[u8]) = if request.protobuf {
            (&self.replay.encoded().events, b"")
        } else {
            (&self.replay.set.events, b"\n")
        };
        std::thread::sleep(self.pace.pause);
        let seen = request
            .version
            .filter(|after| *after > 0)
            .map_or(0, |after| {
                after.saturating_sub(self.replay.set.list_version())
            });
        let seen = usize::try_from(seen).unwrap_or(usize::MAX);
        match self.pace.rate {
            None => {
                for event in events.iter().skip(seen) {
                    out.chunk(&[event, end])?;
                }
                out.flush()?;
            }
            Some(rate) => {
                let began = Instant::now();
                let step = Duration::from_secs(1) / rate.max(1);
                let mut stamped = Vec::new();
                let last = events.len().saturating_sub(1);
                let rounds = 0..self.pace.repeat.max(1);
                let rounds = rounds.flat_map(|_| events.iter().take(last));
                let all = rounds.chain(events.at(last)).enumerate();
                let burst = match self.pace.chunks {
                    Cut::Many => BURST,
                    Cut::Event | Cut::Split => 1,
                };
                out.gathers = false;
                for (number, event) in all.skip(seen) {
                    let at = number - seen;
                    let due = step * u32::try_from(at - at % burst).unwrap_or(u32::MAX);
                    std::thread::sleep(due.saturating_sub(began.elapsed()));
                    stamped.clear();
                    stamped.extend_from_slice(event);
                    if self.pace.repeat > 1 {
                        raise_version(&mut stamped, number / last.max(1) * last);
                    }
                    stamp(&mut stamped);
                    out.chunk(&[&stamped, end])?;
                    if at % burst == burst - 1 {
                        out.flush()?;
                    }
                }
                out.flush()?;
            }
        }
        if let Some(last) = events.iter().last().filter(|_| self.pace.bookmarks > 0) {
            self.bookmarks(last, out)?;
        }
        // The watch stays open until the client ends it.
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }

    /// Sends bookmarks, and then the last event with a higher version.
    fn bookmarks(&self, last: &[u8], out: &mut Chunks<'_>) -> io::Result<()> {
        std::thread::sleep(self.pace.pause);
        let set = &self.replay.set;
        let version = set.list_version() + set.events.len() as u64;
        for number in 1..=u64::from(self.pace.bookmarks) {
            let bookmark = format!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"{}","apiVersion":"{}","metadata":{{"resourceVersion":"{}"}}}}}}"#,
                set.kind,
                set.api_version,
                version + number
            );
            out.chunk(&[bookmark.as_bytes(), b"\n"])?;
        }
        let mut last = last.to_vec();
        raise_version(&mut last, self.pace.bookmarks as usize + 1);
        out.chunk(&[&last, b"\n"])?;
        out.flush()
    }
}

/// Adds to the resourceVersion of an event in JSON.
fn raise_version(event: &mut Vec<u8>, by: usize) {
    const MARK: &[u8] = b"\"resourceVersion\":\"";
    let found = event.windows(MARK.len()).position(|window| window == MARK);
    let Some(start) = found.map(|at| at + MARK.len()) else {
        return;
    };
    let digits = event.iter().skip(start).take_while(|b| b.is_ascii_digit());
    let end = start + digits.count();
    let version = core::str::from_utf8(&event[start..end]).unwrap_or_default();
    let version = version.parse::<u64>().unwrap_or_default() + by as u64;
    event.splice(start..end, version.to_string().into_bytes());
}

/// Writes the time into the annotation reserved for it, as nanoseconds since 1970 in 20 digits.
fn stamp(event: &mut [u8]) {
    const MARK: &[u8] = b"kubectl.kubernetes.io/restartedAt";
    /// What stands between key and value in JSON and in protobuf, where it is the tag and the length of the value.
    const BETWEEN: [&[u8]; 2] = [b"\":\"", b"\x12\x14"];
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let digits = format!("{:020}", now.as_nanos());
    // The managedFields have the key as well, without a value.
    let starts = event.windows(MARK.len()).enumerate();
    let ends = starts
        .filter(|(_, window)| *window == MARK)
        .map(|(at, _)| at + MARK.len());
    let mut at = ends.filter_map(|end| {
        let rest = event.get(end..)?;
        let between = BETWEEN.iter().find(|between| rest.starts_with(between))?;
        Some(end + between.len())
    });
    if let Some(at) = at.next()
        && let Some(place) = event.get_mut(at..at + digits.len())
    {
        place.copy_from_slice(digits.as_bytes());
    }
}

/// A parsed request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    resource: String,
    protobuf: bool,
    watch: bool,
    initial_events: bool,
    version: Option<u64>,
    limit: usize,
    from: usize,
}

impl Request {
    fn parse(target: &str, accept: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            resource: path.rsplit('/').next().unwrap_or_default().to_owned(),
            protobuf: accept.starts_with(protobuf::MEDIA_TYPE),
            ..Self::default()
        };
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "watch" => request.watch = matches!(value, "true" | "1"),
                "sendInitialEvents" => request.initial_events = matches!(value, "true" | "1"),
                "resourceVersion" => request.version = value.parse().ok(),
                "limit" => request.limit = value.parse().unwrap_or(0),
                "continue" => request.from = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        request
    }

    /// Returns the head of the response.
    fn head(&self) -> String {
        let media = match (self.protobuf, self.watch) {
            (false, _) => "application/json",
            (true, false) => protobuf::MEDIA_TYPE,
            (true, true) => "application/vnd.kubernetes.protobuf;stream=watch",
        };
        format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ntransfer-encoding: chunked\r\n\r\n")
    }
}

/// Collects chunks, by default one per event as an API server sends them, and writes many at once.
struct Chunks<'a> {
    stream: &'a mut dyn Write,
    cut: Cut,
    /// The chunk that is not complete.
    open: Vec<u8>,
    gathered: Vec<u8>,
    /// Whether chunks are written together.
    gathers: bool,
}

impl<'a> Chunks<'a> {
    fn new(stream: &'a mut dyn Write, cut: Cut) -> Self {
        Self {
            stream,
            cut,
            open: Vec::new(),
            gathered: Vec::with_capacity(2 * PIECE),
            gathers: true,
        }
    }

    /// Appends an event or an item.
    fn chunk(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        match self.cut {
            Cut::Event => return self.write_chunk(parts),
            Cut::Many | Cut::Split => self.open.extend(parts.iter().copied().flatten()),
        }
        let open = core::mem::take(&mut self.open);
        match self.cut {
            Cut::Many if open.len() >= PIECE / 4 => self.write_chunk(&[&open])?,
            Cut::Split => {
                let (whole, rest) = open.split_at(open.len() - open.len() % CHUNK);
                for piece in whole.chunks(CHUNK) {
                    self.write_chunk(&[piece])?;
                }
                self.open = rest.to_vec();
            }
            Cut::Event | Cut::Many => self.open = open,
        }
        Ok(())
    }

    /// Writes the rest of the last chunk.
    fn end_chunk(&mut self) -> io::Result<()> {
        let open = core::mem::take(&mut self.open);
        if open.is_empty() {
            return Ok(());
        }
        self.write_chunk(&[&open])
    }

    fn write_chunk(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        write!(self.gathered, "{len:x}\r\n")?;
        for part in parts {
            self.gathered.extend_from_slice(part);
        }
        self.raw(b"\r\n")?;
        if self.gathers { Ok(()) } else { self.send() }
    }

    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE {
            return self.send();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.end_chunk()?;
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use informer_hyper::HyperTransport;
    use informer_tokio::{Informer, Raw, Resource};

    use super::*;

    #[test]
    fn reads_requests() {
        let request = Request::parse(
            "/api/v1/pods?limit=500&continue=1500&resourceVersion=7",
            "application/json",
        );
        assert_eq!(
            request,
            Request {
                resource: "pods".to_owned(),
                limit: 500,
                from: 1500,
                version: Some(7),
                ..Request::default()
            }
        );
        let request = Request::parse(
            "/api/v1/pods?watch=1&sendInitialEvents=true",
            "application/vnd.kubernetes.protobuf,application/json",
        );
        assert!(request.watch && request.initial_events && request.version.is_none());
        assert!(request.protobuf && request.head().contains("stream=watch"));
    }

    #[test]
    fn stamps_events() {
        let set = DataSet::generate(1, 1);
        let mut event = set.events.at(0).unwrap().to_vec();
        let mut frame = Encoded::new(&set).events.at(0).unwrap().to_vec();
        let lengths = (event.len(), frame.len());
        stamp(&mut event);
        stamp(&mut frame);
        assert_eq!((event.len(), frame.len()), lengths);
        let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
        let frame = protobuf::events(&frame).unwrap().remove(0);
        for event in [event, frame] {
            let stamp =
                &event["object"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"];
            assert!(stamp.as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000_000_000_000);
        }
    }

    #[tokio::test]
    async fn serves_over_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let replay = |set| Arc::new(Replay::new(set));
        let pods = replay(DataSet::generate(20, 0));
        let nodes = replay(DataSet::of_nodes(0));
        let pace = Pace {
            pause: Duration::from_secs(3600),
            rate: None,
            repeat: 1,
            chunks: Cut::Split,
            expires: false,
            bookmarks: 0,
        };
        std::thread::spawn(move || {
            serve(
                &listener,
                Some(&self_signed().unwrap()),
                &pods,
                &nodes,
                pace,
            )
            .unwrap();
        });
        let transport = HyperTransport::builder(url).insecure_skip_tls_verify(true);
        let resource = Resource::parse("pods").unwrap();
        let pods = Informer::<Raw>::builder_for(&transport.build().unwrap(), resource).spawn();
        pods.synced_within(Duration::from_secs(60)).await.unwrap();
        assert_eq!(pods.lister().len(), 20);
    }

    #[test]
    fn cuts_chunks() {
        let mut bodies = Vec::new();
        for cut in [Cut::Event, Cut::Many, Cut::Split] {
            let mut stream = Vec::new();
            let mut out = Chunks::new(&mut stream, cut);
            for size in [3000, 3000, 40_000, 1] {
                out.chunk(&[&vec![b'x'; size]]).unwrap();
            }
            out.end_chunk().unwrap();
            let text = String::from_utf8(out.gathered).unwrap();
            let sizes = text
                .split("\r\n")
                .step_by(2)
                .filter(|size| !size.is_empty());
            let sizes = sizes.map(|size| usize::from_str_radix(size, 16).unwrap());
            bodies.push(sizes.collect::<Vec<_>>());
        }
        assert_eq!(bodies[0], [3000, 3000, 40_000, 1]);
        assert_eq!(bodies[1], [46_000, 1]);
        assert_eq!(
            (bodies[2].len(), bodies[2][0], bodies[2][11]),
            (12, CHUNK, 945)
        );
    }
}
