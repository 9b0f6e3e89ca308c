//! Opening connections.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use crate::address::{Address, Host};
use crate::error::HyperError;
use crate::http1::Http1;
use crate::http2::{Http2, Http2Settings};
use crate::stream::Stream;
use crate::tls::TlsConnector;

/// Opens connections to one server.
pub(crate) struct Connector {
    pub(crate) address: Arc<Address>,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) limit: Duration,
    pub(crate) protocols: Protocols,
    pub(crate) http2: Http2Settings,
}

/// Which protocols may be spoken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocols {
    pub(crate) http1: bool,
    pub(crate) http2: bool,
}

/// A connection on which requests can be sent.
pub(crate) enum Opened {
    Http1(Http1),
    Http2(Arc<Http2>),
}

impl Protocols {
    /// What is offered in the TLS handshake, the preferred one first.
    pub(crate) fn alpn(self) -> Vec<Vec<u8>> {
        let offers = [(self.http2, H2), (self.http1, b"http/1.1")];
        let offered = offers.iter().filter(|(is_on, _)| *is_on);
        offered.map(|(_, name)| name.to_vec()).collect()
    }
}

/// The name of HTTP/2 in a TLS handshake.
const H2: &[u8] = b"h2";

impl Connector {
    /// Tells whether a new connection can turn out to speak HTTP/2.
    pub(crate) fn may_speak_http2(&self) -> bool {
        self.protocols.http2 && (self.tls.is_some() || !self.protocols.http1)
    }

    /// Opens a connection and begins to speak HTTP on it.
    pub(crate) async fn open(&self) -> Result<Opened, HyperError> {
        let started = Instant::now();
        let stream = self.connect(started).await?;
        // Without TLS nothing is agreed on: the server is known to speak HTTP/2 where nothing else is allowed.
        let http2 = match stream.alpn() {
            Some(agreed) => agreed == H2,
            None => !self.protocols.http1,
        };
        if http2 {
            if self.tls.is_some() && stream.alpn().is_none() {
                return Err(HyperError::not_http2(&self.address));
            }
            let opening = Http2::open(&self.address, stream, self.http2);
            return match timeout(self.left(started), opening).await {
                Ok(opened) => Ok(Opened::Http2(opened?)),
                Err(_elapsed) => Err(HyperError::slow(
                    &self.address,
                    "begin HTTP/2 with",
                    self.limit,
                )),
            };
        }
        let opened = Http1::open(stream).await;
        opened
            .map(Opened::Http1)
            .map_err(|error| HyperError::answering(&self.address, &error, false))
    }

    async fn connect(&self, started: Instant) -> Result<Stream, HyperError> {
        let tcp = self.connect_tcp(started).await?;
        let Some(tls) = &self.tls else {
            return Ok(Stream::Plain(tcp));
        };
        match timeout(
            self.left(started),
            tls.connector.connect(tls.name.clone(), tcp),
        )
        .await
        {
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(stream))),
            Ok(Err(error)) => Err(HyperError::handshake(&self.address, &error)),
            Err(_elapsed) => Err(HyperError::slow(
                &self.address,
                "shake hands by TLS with",
                self.limit,
            )),
        }
    }

    /// Tries the host's addresses in turn; each gets its share of the time that is left.
    async fn connect_tcp(&self, started: Instant) -> Result<TcpStream, HyperError> {
        let candidates = self.candidates(started).await?;
        let mut failure = None;
        for (tried, candidate) in (0u32..).zip(&candidates) {
            let untried = u32::try_from(candidates.len())
                .unwrap_or(u32::MAX)
                .saturating_sub(tried)
                .max(1);
            match timeout(self.left(started) / untried, TcpStream::connect(candidate)).await {
                Ok(Ok(tcp)) => {
                    tune(&tcp);
                    return Ok(tcp);
                }
                Ok(Err(error)) => {
                    failure = Some(HyperError::connecting(
                        &self.address,
                        candidate.ip(),
                        &error,
                    ));
                }
                Err(_elapsed) => {
                    failure = Some(HyperError::slow(&self.address, "connect to", self.limit));
                }
            }
        }
        Err(failure.unwrap_or_else(|| HyperError::lookup(&self.address, "it has no address")))
    }

    async fn candidates(&self, started: Instant) -> Result<Vec<SocketAddr>, HyperError> {
        let name = match self.address.host() {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, self.address.port())]),
            Host::Name(name) => name.as_str(),
        };
        match timeout(self.left(started), lookup_host((name, self.address.port()))).await {
            Ok(Ok(found)) => Ok(found.collect()),
            Ok(Err(error)) => Err(HyperError::lookup(&self.address, &error)),
            Err(_elapsed) => Err(HyperError::slow(
                &self.address,
                "find the address of",
                self.limit,
            )),
        }
    }

    fn left(&self, started: Instant) -> Duration {
        self.limit.saturating_sub(started.elapsed())
    }
}

/// Sets a socket's options. A connection works without them, so failures are of no interest.
fn tune(tcp: &TcpStream) {
    let _ = tcp.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = SockRef::from(tcp).set_tcp_keepalive(&keepalive);
}

/// How long a connection may be silent before the system asks whether the other end is there. Kubernetes' own clients
/// have the same.
const KEEPALIVE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_connection_is_kept_alive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = Arc::new(Address::parse(&url).unwrap());
        let connector = Connector {
            address,
            tls: None,
            limit: Duration::from_secs(5),
            protocols: Protocols {
                http1: true,
                http2: true,
            },
            http2: Http2Settings {
                pings: None,
                window: 65_536,
            },
        };
        let tcp = connector.connect_tcp(Instant::now()).await.unwrap();
        assert!(SockRef::from(&tcp).keepalive().unwrap());
        assert!(tcp.nodelay().unwrap());
    }
}
