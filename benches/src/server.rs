//! A server that replays the data set from memory: pages of a list, a streaming list, and a watch.
//!
//! It implements only what that needs of HTTP and Kubernetes, so that it uses little of the machine being measured.
//! It answers every request for a path that ends in `/pods`, with one thread per connection.

use core::time::Duration;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::data::DataSet;

/// How the server sends the events.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The pause between the initial state and the first event.
    pub pause: Duration,
    /// Events per second, stamped with their time of sending; `None` sends as fast as the client reads.
    pub rate: Option<u32>,
}

/// Answers requests forever.
///
/// # Errors
/// Fails if connections cannot be accepted.
pub fn serve(listener: &TcpListener, set: &Arc<DataSet>, pace: Pace) -> io::Result<()> {
    for stream in listener.incoming() {
        let (stream, set) = (stream?, Arc::clone(set));
        // A client that disconnects ends its thread.
        std::thread::spawn(move || Connection { set, pace }.answer(&stream));
    }
    Ok(())
}

struct Connection {
    set: Arc<DataSet>,
    pace: Pace,
}

/// The number of bytes written at once.
const PIECE: usize = 128 << 10;
const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

impl Connection {
    fn answer(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let target = line.split_whitespace().nth(1).unwrap_or("/").to_owned();
            loop {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if line.trim_end().is_empty() {
                    break;
                }
            }
            let request = Request::parse(&target);
            let mut out = Chunks::new(stream);
            if !request.is_pods {
                out.raw(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
                out.flush()?;
                continue;
            }
            out.raw(CHUNKED.as_bytes())?;
            if !request.watch {
                self.list(&request, &mut out)?;
                continue;
            }
            if request.initial_events {
                self.initial(&mut out)?;
            }
            self.events(request.version, &mut out)?;
        }
    }

    fn list(&self, request: &Request, out: &mut Chunks<'_>) -> io::Result<()> {
        let pods = &self.set.pods;
        // Like the watch cache, which ignores `limit` at version 0.
        let limit = if request.version == Some(0) {
            0
        } else {
            request.limit
        };
        let end = match limit {
            0 => pods.len(),
            limit => (request.from + limit).min(pods.len()),
        };
        let more = if end < pods.len() {
            format!(
                r#","continue":"{end}","remainingItemCount":{}"#,
                pods.len() - end
            )
        } else {
            String::new()
        };
        out.chunk(&[format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{}"{more}}},"items":["#,
            self.set.list_version(),
        )
        .as_bytes()])?;
        for number in request.from..end {
            let comma: &[u8] = if number > request.from { b"," } else { b"" };
            out.chunk(&[comma, pods.at(number).unwrap_or_default()])?;
        }
        out.chunk(&[b"]}\n"])?;
        out.raw(b"0\r\n\r\n")?;
        out.flush()
    }

    fn initial(&self, out: &mut Chunks<'_>) -> io::Result<()> {
        for pod in self.set.pods.iter() {
            out.chunk(&[
                br#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","#,
                pod.get(1..).unwrap_or_default(),
                b"}\n",
            ])?;
        }
        let bookmark = format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#,
            self.set.list_version(),
        );
        out.chunk(&[bookmark.as_bytes(), b"\n"])?;
        out.flush()
    }

    /// Sends the events after a version, and then keeps the watch open.
    fn events(&self, after: Option<u64>, out: &mut Chunks<'_>) -> io::Result<()> {
        out.flush()?;
        std::thread::sleep(self.pace.pause);
        let seen = after
            .filter(|after| *after > 0)
            .map_or(0, |after| after.saturating_sub(self.set.list_version()));
        let rest = self
            .set
            .events
            .iter()
            .skip(usize::try_from(seen).unwrap_or(usize::MAX));
        match self.pace.rate {
            None => {
                for event in rest {
                    out.chunk(&[event, b"\n"])?;
                }
                out.flush()?;
            }
            Some(rate) => {
                let began = Instant::now();
                let step = Duration::from_secs(1) / rate.max(1);
                let mut stamped = Vec::new();
                for (number, event) in rest.enumerate() {
                    let due = step * u32::try_from(number).unwrap_or(u32::MAX);
                    std::thread::sleep(due.saturating_sub(began.elapsed()));
                    stamped.clear();
                    stamped.extend_from_slice(event);
                    stamp(&mut stamped);
                    out.chunk(&[&stamped, b"\n"])?;
                    out.flush()?;
                }
            }
        }
        // The watch stays open until the client ends it.
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}

/// Writes the time into the annotation reserved for it, as nanoseconds since 1970 in 20 digits.
fn stamp(event: &mut [u8]) {
    const MARK: &[u8] = br#""kubectl.kubernetes.io/restartedAt":""#;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let digits = format!("{:020}", now.as_nanos());
    if let Some(at) = event.windows(MARK.len()).position(|window| window == MARK)
        && let Some(place) = event.get_mut(at + MARK.len()..at + MARK.len() + digits.len())
    {
        place.copy_from_slice(digits.as_bytes());
    }
}

/// A parsed request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    is_pods: bool,
    watch: bool,
    initial_events: bool,
    version: Option<u64>,
    limit: usize,
    from: usize,
}

impl Request {
    fn parse(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            is_pods: path.ends_with("/pods"),
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
}

/// Collects chunks, one per event as an API server sends them, and writes many at once.
struct Chunks<'a> {
    stream: &'a TcpStream,
    gathered: Vec<u8>,
}

impl<'a> Chunks<'a> {
    fn new(stream: &'a TcpStream) -> Self {
        Self {
            stream,
            gathered: Vec::with_capacity(2 * PIECE),
        }
    }

    fn chunk(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        write!(self.gathered, "{len:x}\r\n")?;
        for part in parts {
            self.gathered.extend_from_slice(part);
        }
        self.raw(b"\r\n")
    }

    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.gathered)?;
        self.gathered.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_requests() {
        let request = Request::parse("/api/v1/pods?limit=500&continue=1500&resourceVersion=7");
        assert_eq!(
            request,
            Request {
                is_pods: true,
                limit: 500,
                from: 1500,
                version: Some(7),
                ..Request::default()
            }
        );
        let request = Request::parse("/api/v1/pods?watch=1&sendInitialEvents=true");
        assert!(request.watch && request.initial_events && request.version.is_none());
    }

    #[test]
    fn stamps_events() {
        let set = DataSet::generate(1, 1);
        let mut event = set.events.at(0).unwrap().to_vec();
        let len = event.len();
        stamp(&mut event);
        assert_eq!(event.len(), len);
        let event: serde_json::Value = serde_json::from_slice(&event).unwrap();
        let stamp =
            &event["object"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"];
        assert!(stamp.as_str().unwrap().parse::<u64>().unwrap() > 1_700_000_000_000_000_000);
    }
}
