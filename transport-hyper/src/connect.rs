//! Opening connections.

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use crate::address::{Address, Host};
use crate::error::HyperError;
use crate::stream::Stream;
use crate::tls::TlsConnector;

/// Opens connections to one server.
pub(crate) struct Connector {
    address: Arc<Address>,
    tls: Option<TlsConnector>,
    limit: Duration,
}

impl Connector {
    pub(crate) fn new(address: Arc<Address>, tls: Option<TlsConnector>, limit: Duration) -> Self {
        Self {
            address,
            tls,
            limit,
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) async fn connect(&self) -> Result<Stream, HyperError> {
        let started = Instant::now();
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
        let connector = Connector::new(address, None, Duration::from_secs(5));
        let tcp = connector.connect_tcp(Instant::now()).await.unwrap();
        assert!(SockRef::from(&tcp).keepalive().unwrap());
        assert!(tcp.nodelay().unwrap());
    }
}
