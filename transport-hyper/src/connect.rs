//! Opening connections.

use alloc::sync::Arc;
use core::error::Error;
use core::future::{Ready, ready};
use core::net::SocketAddr;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use http::Uri;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use crate::address::{Address, Host};
use crate::error::HyperError;
use crate::http1::Http1;
use crate::http2::{Http2, Http2Settings};
use crate::proxy::{Kind, Proxy};
use crate::stream::Stream;
use crate::tls::{Handshake, Tls, Version};

/// The HTTP versions that are enabled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocols {
    pub(crate) http1: bool,
    pub(crate) http2: bool,
}

impl Default for Protocols {
    fn default() -> Self {
        Self {
            http1: true,
            http2: cfg!(feature = "http2"),
        }
    }
}

/// The ALPN name of HTTP/2.
pub(crate) const H2: &[u8] = b"h2";

/// Opens connections to one server.
pub(crate) struct Connector {
    pub(crate) address: Arc<Address>,
    pub(crate) tls: Option<Tls>,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) limit: Duration,
    /// How long an idle connection can be reused.
    pub(crate) idle: Duration,
    pub(crate) protocols: Protocols,
    pub(crate) http2: Http2Settings,
}

/// A new connection, ready for requests.
pub(crate) enum Opened {
    Http1(Http1),
    Http2(Arc<Http2>),
}

impl Connector {
    /// Returns whether a new connection may turn out to use HTTP/2.
    pub(crate) fn may_speak_http2(&self) -> bool {
        self.protocols.http2 && (self.tls.is_some() || !self.protocols.http1)
    }

    /// Opens a connection and performs the TLS and HTTP handshakes.
    pub(crate) async fn open(&self) -> Result<Opened, HyperError> {
        let started = Instant::now();
        let (stream, version) = self.connect(started).await?;
        // Without TLS there is no negotiation. HTTP/2 is used only if HTTP/1.1 is disabled.
        let http2 = match stream.alpn() {
            Some(agreed) => agreed == H2,
            None => !self.protocols.http1,
        };
        if http2 {
            if self.tls.is_some() && stream.alpn().is_none() {
                return Err(HyperError::not_http2(&self.address));
            }
            let opening = Http2::open(&self.address, stream, self.http2, version);
            return match timeout(self.left(started), opening).await {
                Ok(opened) => Ok(Opened::Http2(opened?)),
                Err(_elapsed) => Err(HyperError::slow(
                    &self.address,
                    "start HTTP/2 with",
                    self.limit,
                )),
            };
        }
        let opened = Http1::open(stream, version).await;
        opened
            .map(Opened::Http1)
            .map_err(|error| HyperError::answering(&self.address, &error, false))
    }

    /// The version of the TLS configuration that a new connection would use.
    pub(crate) async fn version(&self) -> Version {
        match &self.tls {
            Some(tls) => tls.version().await,
            None => Version::default(),
        }
    }

    async fn connect(&self, started: Instant) -> Result<(Stream, Version), HyperError> {
        let stream = match &self.proxy {
            None => self.connect_tcp(&self.address, started).await?.into(),
            Some(proxy) => self.connect_through(proxy, started).await?,
        };
        let Some(tls) = &self.tls else {
            return Ok((stream, Version::default()));
        };
        // The files may be on a slow disk or a network file system.
        let handshake = timeout(self.left(started), tls.handshake()).await;
        let handshake = handshake.map_err(|_elapsed| {
            HyperError::slow(&self.address, "read the certificates for", self.limit)
        })?;
        let (handshake, version) =
            handshake.map_err(|why| HyperError::trust(&self.address, &why))?;
        let stream = self
            .shake_hands(&self.address, stream, &handshake, started)
            .await?;
        Ok((stream, version))
    }

    async fn shake_hands(
        &self,
        address: &Address,
        stream: Stream,
        handshake: &Handshake,
        started: Instant,
    ) -> Result<Stream, HyperError> {
        match timeout(self.left(started), handshake.shake(stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(HyperError::handshake(address, &error)),
            Err(_elapsed) => Err(HyperError::slow(
                address,
                "complete the TLS handshake with",
                self.limit,
            )),
        }
    }

    /// Opens a connection to the server through a proxy.
    async fn connect_through(&self, proxy: &Proxy, started: Instant) -> Result<Stream, HyperError> {
        let mut stream: Stream = self.connect_tcp(&proxy.address, started).await?.into();
        if let Kind::Http { tls: Some(tls), .. } = &proxy.kind {
            stream = self
                .shake_hands(&proxy.address, stream, tls, started)
                .await?;
        }
        let connector = Opener(Some(TokioIo::new(stream)));
        let target = self.target();
        let failed =
            |error: &(dyn Error + 'static)| HyperError::proxy(&proxy.address, &self.address, error);
        let asking = async {
            match &proxy.kind {
                Kind::Http { authorization, .. } => {
                    let mut tunnel = Tunnel::new(proxy.uri.clone(), connector);
                    if let Some(authorization) = authorization {
                        tunnel = tunnel.with_auth(authorization.clone());
                    }
                    tunnel.call(target).await.map_err(|error| failed(&error))
                }
                Kind::Socks { login, remote_dns } => {
                    let mut socks =
                        SocksV5::new(proxy.uri.clone(), connector).local_dns(!remote_dns);
                    if let Some((user, password)) = login {
                        socks = socks.with_auth(user.clone(), password.clone());
                    }
                    socks.call(target).await.map_err(|error| failed(&error))
                }
            }
        };
        match timeout(self.left(started), asking).await {
            Ok(stream) => Ok(stream?.into_inner()),
            Err(_elapsed) => Err(HyperError::slow(
                &proxy.address,
                "connect through the proxy",
                self.limit,
            )),
        }
    }

    /// The server's address as a URI for a proxy, always with its port.
    fn target(&self) -> Uri {
        let scheme = if self.address.is_tls() {
            "https"
        } else {
            "http"
        };
        // The parts of an address always form a valid URI.
        format!("{scheme}://{}/", self.address)
            .parse()
            .unwrap_or_default()
    }

    /// Tries the host's addresses in turn. Each gets an equal share of the remaining time.
    async fn connect_tcp(
        &self,
        address: &Address,
        started: Instant,
    ) -> Result<TcpStream, HyperError> {
        let candidates = self.candidates(address, started).await?;
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
                    failure = Some(HyperError::connecting(address, candidate.ip(), &error));
                }
                Err(_elapsed) => {
                    failure = Some(HyperError::slow(address, "connect to", self.limit));
                }
            }
        }
        Err(failure.unwrap_or_else(|| HyperError::lookup(address, "it has no address")))
    }

    async fn candidates(
        &self,
        address: &Address,
        started: Instant,
    ) -> Result<Vec<SocketAddr>, HyperError> {
        let name = match address.host() {
            Host::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, address.port())]),
            Host::Name(name) => name.as_str(),
        };
        match timeout(self.left(started), lookup_host((name, address.port()))).await {
            Ok(Ok(found)) => Ok(found.collect()),
            Ok(Err(error)) => Err(HyperError::lookup(address, &error)),
            Err(_elapsed) => Err(HyperError::slow(
                address,
                "resolve the address of",
                self.limit,
            )),
        }
    }

    fn left(&self, started: Instant) -> Duration {
        self.limit.saturating_sub(started.elapsed())
    }
}

/// A connector that returns a stream which is open already.
struct Opener(Option<TokioIo<Stream>>);

impl tower_service::Service<Uri> for Opener {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<Stream>>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let taken = self.0.take();
        ready(taken.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)))
    }
}

/// Sets socket options. Failures are ignored, since a connection works without these options.
fn tune(tcp: &TcpStream) {
    let _ = tcp.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = SockRef::from(tcp).set_tcp_keepalive(&keepalive);
}

/// How long a connection may be silent before the operating system sends a TCP keepalive probe. Kubernetes' own clients
/// use the same value.
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
            address: Arc::clone(&address),
            tls: None,
            proxy: None,
            limit: Duration::from_secs(5),
            idle: Duration::from_secs(90),
            protocols: Protocols::default(),
            http2: Http2Settings::default(),
        };
        let tcp = connector
            .connect_tcp(&address, Instant::now())
            .await
            .unwrap();
        assert!(SockRef::from(&tcp).keepalive().unwrap());
        assert!(tcp.nodelay().unwrap());
    }
}
