//! Setting up a transport.

use alloc::sync::Arc;
use core::error::Error;
use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

use http::header::{ACCEPT_ENCODING, HeaderName, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue};
use rustls::ClientConfig;

use crate::address::Address;
use crate::connect::{Connector, Protocols};
use crate::credentials::{self, Credential, CredentialSource, Fixed, Secret, TokenFile};
use crate::http2::{Http2Settings, Pings};
use crate::proxy::{Proxy, ProxySetting};
use crate::tls::{Identity, Source, Tls, TlsSettings};
use crate::transport::{HyperTransport, Settings};

/// Collects the settings of a [`HyperTransport`].
///
/// All that is given is checked by [`build`](Self::build), so the calls can be chained. `Debug` shows no secrets.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use informer_hyper::HyperTransport;
///
/// let transport = HyperTransport::builder("http://127.0.0.1:8080")
///     .user_agent("my-controller/1.2")
///     .connect_timeout(Duration::from_secs(3))
///     .build()?;
/// # Ok::<(), informer_hyper::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct HyperBuilder {
    url: Url,
    tls: TlsSettings,
    credentials: Login,
    headers: Vec<(String, Secret)>,
    proxy: ProxySetting,
    user_agent: Option<String>,
    login_timeout: Option<Duration>,
    connect_timeout: Duration,
    answer_timeout: Option<Duration>,
    silence_timeout: Option<Duration>,
    idle_timeout: Duration,
    gzip: bool,
    protocols: Protocols,
    http2: Http2Settings,
}

impl HyperBuilder {
    pub(crate) fn new(url: String) -> Self {
        Self {
            url: Url(url),
            tls: TlsSettings::default(),
            credentials: Login::None,
            headers: Vec::new(),
            proxy: ProxySetting::Environment,
            user_agent: None,
            login_timeout: Some(Duration::from_secs(300)),
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Some(Duration::from_secs(65)),
            silence_timeout: None,
            // Go's clients have the same. Later something on the way may have forgotten the connection.
            idle_timeout: Duration::from_secs(90),
            gzip: true,
            protocols: Protocols {
                http1: true,
                http2: true,
            },
            http2: Http2Settings {
                pings: Some(Pings {
                    after: Duration::from_secs(12),
                    within: Duration::from_secs(10),
                }),
                window: 1024 * 1024,
            },
        }
    }

    /// Trusts the CA certificates in `certificates`: PEM text with one or more, or one in DER.
    ///
    /// A certificate that has expired, is not valid yet or cannot be read is not trusted, with a warning. If none is left, the
    /// transport cannot be built, or its requests fail with an error of the class TLS.
    ///
    /// It can be called several times; then all of them are trusted. Where it is not called, the public CAs are
    /// trusted that Mozilla trusts (by `webpki-roots`); the CA of a cluster is seldom among them.
    ///
    /// # Examples
    /// ```no_run
    /// # use informer_hyper::HyperTransport;
    /// let transport = HyperTransport::builder("https://10.0.0.1:6443")
    ///     .root_certificates(std::fs::read("/etc/kubernetes/pki/ca.crt")?)
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn root_certificates(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        let data = Secret(certificates.into());
        self.tls.roots.push(Source::Data(data));
        self
    }

    /// Trusts the CA certificates in a file; see [`root_certificates`](Self::root_certificates).
    ///
    /// The file is looked at before a connection is opened, and at most every 10 s when a request is sent. When it has
    /// changed, connections that were opened before take no new requests, and what runs on them goes on. A file that
    /// cannot be read or used then changes nothing, with a warning.
    ///
    /// # Examples
    /// ```no_run
    /// # use informer_hyper::HyperTransport;
    /// let transport = HyperTransport::builder("https://10.0.0.1:6443")
    ///     .root_certificates_file("/etc/kubernetes/pki/ca.crt")
    ///     .build()?;
    /// # Ok::<(), informer_hyper::BuildError>(())
    /// ```
    pub fn root_certificates_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.roots.push(Source::File(path.into()));
        self
    }

    /// Logs in by a client certificate in files, which are looked at as
    /// [`root_certificates_file`](Self::root_certificates_file) does.
    ///
    /// # Examples
    /// ```no_run
    /// # use informer_hyper::HyperTransport;
    /// let transport = HyperTransport::builder("https://10.0.0.1:6443")
    ///     .root_certificates_file("ca.crt")
    ///     .client_certificate_files("client.crt", "client.key")
    ///     .build()?;
    /// # Ok::<(), informer_hyper::BuildError>(())
    /// ```
    pub fn client_certificate_files(
        mut self,
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.tls.identity = Some(Identity {
            chain: Source::File(chain.into()),
            key: Source::File(key.into()),
        });
        self
    }

    #[cfg(feature = "kubeconfig")]
    pub(crate) fn roots(mut self, source: Source) -> Self {
        self.tls.roots.push(source);
        self
    }

    #[cfg(feature = "kubeconfig")]
    pub(crate) fn identity(mut self, identity: Identity) -> Self {
        self.tls.identity = Some(identity);
        self
    }

    /// Wants this name in the server's certificate in place of the URL's host.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let through_a_tunnel = HyperTransport::builder("https://127.0.0.1:16443").server_name("kubernetes");
    /// ```
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.tls.server_name = Some(name.into());
        self
    }

    /// Takes any certificate of the server, or not, which is so where nothing is set.
    ///
    /// **Whoever is on the way can read and change everything then, credentials included.** [`build`](Self::build)
    /// warns of it in the log.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let on_my_desk = HyperTransport::builder("https://127.0.0.1:6443").insecure_skip_tls_verify(true);
    /// ```
    pub fn insecure_skip_tls_verify(mut self, insecure: bool) -> Self {
        self.tls.insecure = insecure;
        self
    }

    /// Logs in by a client certificate: the chain, its own certificate first, and its private key.
    ///
    /// Both are PEM text or DER. The key is PKCS#8, PKCS#1 or SEC1; the text of both may be the same file.
    ///
    /// # Examples
    /// ```no_run
    /// # use informer_hyper::HyperTransport;
    /// let transport = HyperTransport::builder("https://10.0.0.1:6443")
    ///     .root_certificates(std::fs::read("ca.crt")?)
    ///     .client_certificate(std::fs::read("client.crt")?, std::fs::read("client.key")?)
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client_certificate(
        mut self,
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.identity = Some(Identity {
            chain: Source::Data(Secret(chain.into())),
            key: Source::Data(Secret(key.into())),
        });
        self
    }

    /// Uses this TLS configuration in place of one made from certificates.
    ///
    /// Its ALPN protocols are replaced by those that the transport speaks.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use informer_hyper::HyperTransport;
    ///
    /// let provider = Arc::new(rustls::crypto::ring::default_provider());
    /// let config = rustls::ClientConfig::builder_with_provider(provider)
    ///     .with_protocol_versions(&[&rustls::version::TLS13])?
    ///     .with_root_certificates(rustls::RootCertStore::empty())
    ///     .with_no_client_auth();
    /// let transport = HyperTransport::builder("https://10.0.0.1:6443").tls_config(config).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tls_config(mut self, config: ClientConfig) -> Self {
        self.tls.config = Some(config);
        self
    }

    /// Logs in by a bearer token. White space around it is taken away.
    ///
    /// It is sent with every request, over plain HTTP too.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").bearer_token("abc.def.ghi");
    /// assert!(!format!("{builder:?}").contains("abc"));
    /// ```
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.credentials = Login::Token(Secret(token.into().into_bytes()));
        self
    }

    /// Logs in by the bearer token in a file, which is read again every minute, and once where the server answers 401.
    ///
    /// A file that can no longer be read leaves the token as it was, with a warning.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443")
    ///     .bearer_token_file("/var/run/secrets/kubernetes.io/serviceaccount/token");
    /// ```
    pub fn bearer_token_file(self, path: impl Into<PathBuf>) -> Self {
        self.credentials(TokenFile::new(path.into()))
    }

    /// Logs in by what this source gives. The last of this and the methods for tokens holds.
    ///
    /// # Examples
    /// See [`CredentialSource`].
    pub fn credentials(mut self, source: impl CredentialSource) -> Self {
        self.credentials = Login::Source(Arc::new(source));
        self
    }

    /// Sends this header with every request, such as `Impersonate-User`. `Debug` does not show its value.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").header("Impersonate-User", "jane");
    /// ```
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let value = Secret(value.into().into_bytes());
        self.headers.push((name.into(), value));
        self
    }

    /// Goes through this proxy: `http://`, `https://` or `socks5://`, with user and password where it wants them.
    ///
    /// Where nothing is set, the environment is asked as other programs do: `HTTPS_PROXY` or `HTTP_PROXY` by the
    /// server's URL, else `ALL_PROXY`, unless `NO_PROXY` names the server; servers on this machine are reached without.
    /// An HTTP proxy is asked by CONNECT, also for a server without TLS.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").proxy("http://me:s3cret@proxy:3128");
    /// assert!(!format!("{builder:?}").contains("s3cret"));
    /// ```
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = ProxySetting::Url(url.into());
        self
    }

    /// Goes through no proxy, whatever the environment says.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").no_proxy();
    /// ```
    pub fn no_proxy(mut self) -> Self {
        self.proxy = ProxySetting::None;
        self
    }

    /// Sets the `User-Agent` header, by which the server's audit log tells clients apart.
    ///
    /// It is `informer-hyper/<version>` where nothing is set.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let builder = HyperTransport::builder("http://127.0.0.1:8080").user_agent("my-controller/1.2");
    /// ```
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = Some(user_agent.into());
        self
    }

    /// Limits the time to acquire a credential; `None` is no limit. It is 5 minutes by default.
    ///
    /// A login may wait for a person, so it counts for no other limit, and it continues with the next request if the one
    /// that began it is dropped. An exec plugin that exceeds the limit is killed.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// // Without a terminal nobody can log in, so a plugin that waits for one should fail soon.
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").login_timeout(Some(Duration::from_secs(30)));
    /// ```
    pub fn login_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.login_timeout = timeout;
        self
    }

    /// Limits the time to open a connection: to find the address, to connect and to shake hands. It is 10 s where
    /// nothing is set.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// let builder = HyperTransport::builder("http://127.0.0.1:8080").connect_timeout(Duration::from_secs(3));
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Limits the time from a request to the head of its answer; `None` is without end. It is 65 s where nothing is set:
    /// an API server gives up a request after 60 s.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// let builder = HyperTransport::builder("http://127.0.0.1:8080").answer_timeout(Some(Duration::from_secs(20)));
    /// ```
    pub fn answer_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Limits the time for which an answer may bring nothing while it is read; `None`, which it is where nothing is
    /// set, is without end.
    ///
    /// The informer has its own limits, which know what it waits for: a watch without a change is silent between two
    /// bookmarks, which come about every minute.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// let builder = HyperTransport::builder("http://127.0.0.1:8080").silence_timeout(Some(Duration::from_secs(90)));
    /// ```
    pub fn silence_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.silence_timeout = timeout;
        self
    }

    /// Sets for how long a connection may be idle and still be used again; 90 s by default.
    ///
    /// With zero, each request opens a connection, except while another request uses one of HTTP/2.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// let builder = HyperTransport::builder("http://127.0.0.1:8080").idle_timeout(Duration::from_secs(20));
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Lets the server compress what it sends, or asks it not to. It may where nothing is set.
    ///
    /// See [Compression](crate#compression) for when a server does. It pays where the network is slow or dear; over a
    /// fast one, decoding may cost more time than it saves. A server that compresses though it was asked not to is
    /// understood all the same.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let builder = HyperTransport::builder("http://127.0.0.1:8080").gzip(false);
    /// ```
    pub fn gzip(mut self, allowed: bool) -> Self {
        self.gzip = allowed;
        self
    }

    /// Speaks HTTP/1.1 or not. It may where nothing is set.
    ///
    /// Over TLS the server chooses, and HTTP/2 is preferred. In plain text nothing can be chosen: HTTP/1.1 is spoken, and
    /// HTTP/2 (with prior knowledge, [RFC 9113 section 3.3](https://www.rfc-editor.org/rfc/rfc9113#section-3.3)) where
    /// HTTP/1.1 is turned off here.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let only_http2 = HyperTransport::builder("https://10.0.0.1:6443").http1(false);
    /// let http2_in_plain_text = HyperTransport::builder("http://127.0.0.1:8080").http1(false);
    /// ```
    pub fn http1(mut self, allowed: bool) -> Self {
        self.protocols.http1 = allowed;
        self
    }

    /// Speaks HTTP/2 or not. It may where nothing is set; see [`http1`](Self::http1).
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let only_http1 = HyperTransport::builder("https://10.0.0.1:6443").http2(false);
    /// ```
    pub fn http2(mut self, allowed: bool) -> Self {
        self.protocols.http2 = allowed;
        self
    }

    /// Sets when a connection of HTTP/2 is taken for dead: where nothing was heard `after` so long, a ping is sent, and
    /// where still nothing is heard `within` so long, the connection is given up. `None` sends no pings.
    ///
    /// They are 12 s and 10 s where nothing is set, so that a connection that died in silence is noticed in 22 s.
    /// (client-go has 30 s and 15 s.) They go out only while somebody waits for something of the connection. HTTP/1.1
    /// has no pings.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// let as_client_go = (Duration::from_secs(30), Duration::from_secs(15));
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").pings(Some(as_client_go));
    /// ```
    pub fn pings(mut self, after_and_within: Option<(Duration, Duration)>) -> Self {
        self.http2.pings = after_and_within.map(|(after, within)| Pings { after, within });
        self
    }

    /// Sets how many bytes the server may send on one stream of HTTP/2 before they are read; it is 1 MiB where nothing
    /// is set.
    ///
    /// This bounds the memory of a connection: so much for each of its streams that is not read. It also bounds the
    /// speed of a stream, to so much in each round trip. At least 64 KiB and at most 2 GiB are taken.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let on_a_gateway = HyperTransport::builder("https://10.0.0.1:6443").http2_window(64 * 1024);
    /// ```
    pub fn http2_window(mut self, bytes: u32) -> Self {
        self.http2.window = bytes.clamp(64 * 1024 - 1, i32::MAX.unsigned_abs());
        self
    }

    /// Makes the transport. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails where the URL or something else that was given cannot be used.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let transport = HyperTransport::builder("http://127.0.0.1:8080").build()?;
    /// # Ok::<(), informer_hyper::BuildError>(())
    /// ```
    pub fn build(self) -> Result<HyperTransport, BuildError> {
        let address = Address::parse(&self.url.0)
            .map_err(|advice| BuildError(format!("server URL {:?}: {advice}", self.url)))?;
        let address = Arc::new(address);
        let tls = if address.is_tls() {
            Some(Tls::new(self.tls, address.host(), self.protocols)?)
        } else if self.tls.is_empty() {
            None
        } else {
            let url = address.url();
            return Err(BuildError(format!(
                "server URL {url:?}: certificates are of use only with an https URL"
            )));
        };
        if !self.protocols.http1 && !self.protocols.http2 {
            let advice = "http1 and http2: both are turned off; one is needed";
            return Err(BuildError(advice.to_owned()));
        }
        let mut headers = HeaderMap::new();
        let authority = Authority::try_from(address.host_header()).map_err(|_| {
            BuildError(format!(
                "server URL {:?}: its host is not a name",
                address.url()
            ))
        })?;
        let encoding = if self.gzip { "gzip" } else { "identity" };
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
        let user_agent = match self.user_agent {
            None => HeaderValue::from_static(DEFAULT_USER_AGENT),
            Some(text) => HeaderValue::from_str(&text).map_err(|_| {
                BuildError(format!(
                    "user agent {text:?}: only printable ASCII is allowed"
                ))
            })?,
        };
        headers.insert(USER_AGENT, user_agent);
        for (name, value) in &self.headers {
            let parsed = HeaderName::try_from(name).ok().zip(value.header());
            let (header, value) = parsed.ok_or_else(|| {
                BuildError(format!(
                    "header {name:?}: its name or its value has characters that are not allowed"
                ))
            })?;
            headers.append(header, value);
        }
        let source = self.credentials.source()?;
        let login = source.map(|source| credentials::Login::new(source, self.login_timeout));
        let scheme = if address.is_tls() {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        let connector = Connector {
            address: address.clone(),
            tls,
            proxy: Proxy::choose(&self.proxy, &address)?,
            limit: self.connect_timeout,
            idle: self.idle_timeout,
            protocols: self.protocols,
            http2: self.http2,
        };
        Ok(HyperTransport::new(
            Settings {
                address,
                authority,
                scheme,
                headers,
                login,
                answer_timeout: self.answer_timeout,
                silence_timeout: self.silence_timeout,
            },
            connector,
        ))
    }
}

/// How the user logs in.
#[derive(Clone)]
enum Login {
    None,
    Token(Secret),
    Source(Arc<dyn CredentialSource>),
}

impl Login {
    fn source(self) -> Result<Option<Arc<dyn CredentialSource>>, BuildError> {
        match self {
            Self::None => Ok(None),
            Self::Token(token) => match Credential::bearer(&token.0) {
                Ok(credential) => Ok(Some(Arc::new(Fixed(credential)))),
                Err(why) => Err(BuildError(format!("bearer token: {why}"))),
            },
            Self::Source(source) => Ok(Some(source)),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) | Self::Source(_) => "[secret]",
        })
    }
}

/// A URL as it was given. `Debug` hides a user name and password in it.
#[derive(Clone)]
struct Url(String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.rsplit_once('@') {
            Some((_, rest)) => fmt::Debug::fmt(&format!("[hidden]@{rest}"), f),
            None => fmt::Debug::fmt(&self.0, f),
        }
    }
}

const DEFAULT_USER_AGENT: &str = concat!("informer-hyper/", env!("CARGO_PKG_VERSION"));

/// Tells what a transport cannot be made of, in one line that says what to do. It shows no secrets.
///
/// # Examples
/// ```
/// let error = informer_hyper::HyperTransport::builder("http://host:99999").build().unwrap_err();
/// assert_eq!(error.to_string(), "server URL \"http://host:99999\": its port is not a number from 1 to 65535");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError(pub(crate) String);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BuildError {}

informer_core::readable_errors!(BuildError);
