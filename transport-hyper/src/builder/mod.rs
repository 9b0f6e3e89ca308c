//! The builder of a transport.

#[cfg(feature = "http2")]
mod http2;
#[cfg(feature = "tls")]
mod tls;

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

use http::header::{ACCEPT_ENCODING, HeaderName, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue};

use crate::address::Address;
use crate::build_error::BuildError;
use crate::connect::{Connector, Protocols};
use crate::credentials::{self, Credential, CredentialSource, Fixed, Secret, TokenFile};
use crate::http2::Http2Settings;
use crate::proxy::{Proxy, ProxySetting};
use crate::tls::{Tls, TlsSettings};
use crate::transport::{HyperTransport, Settings};

/// The longest time of a timer. A longer one could not be added to the time of day.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Collects the settings of a [`HyperTransport`].
///
/// [`build`](Self::build) checks all settings, so the calls can be chained. `Debug` shows no secrets.
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

impl HyperTransport {
    /// Returns a builder for a transport to the API server at `url`.
    ///
    /// The URL is `http://host:port` or `https://host:port`; the default port is 80 or 443. A path in the URL is
    /// prepended to the path of every request. IPv6 addresses are written in brackets. [`HyperBuilder::build`] reports
    /// an invalid URL.
    ///
    /// # Examples
    /// ```
    /// use informer_hyper::HyperTransport;
    ///
    /// let through_rancher = HyperTransport::builder("https://rancher.example/k8s/clusters/c-1").build()?;
    /// let error = HyperTransport::builder("localhost:8080").build().map(|_| ()).map_err(|e| e.to_string());
    /// assert_eq!(
    ///     error,
    ///     Err("server URL \"localhost:8080\": it has no scheme; write it like https://host:6443".to_owned()),
    /// );
    /// # Ok::<(), informer_hyper::BuildError>(())
    /// ```
    pub fn builder(url: impl Into<String>) -> HyperBuilder {
        HyperBuilder::new(url.into())
    }
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
            // The same as in Go's clients. Middleboxes may drop connections that are idle for longer.
            idle_timeout: Duration::from_secs(90),
            gzip: true,
            protocols: Protocols::default(),
            http2: Http2Settings::default(),
        }
    }

    /// Authenticates with a bearer token. Surrounding white space is removed.
    ///
    /// The token is sent with every request, also over plain HTTP.
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.credentials = Login::Token(Secret(token.into().into_bytes()));
        self
    }

    /// Authenticates with the bearer token in a file.
    ///
    /// The file is read again every minute, and once after the server responds with 401. If it can no longer be read,
    /// the previous token stays in use and a warning is logged.
    pub fn bearer_token_file(self, path: impl Into<PathBuf>) -> Self {
        self.credentials(TokenFile::new(path.into()))
    }

    /// Authenticates with the credentials that a source provides. It replaces an earlier token or source.
    ///
    /// See [`CredentialSource`] for an example.
    pub fn credentials(mut self, source: impl CredentialSource) -> Self {
        self.credentials = Login::Source(Arc::new(source));
        self
    }

    #[cfg(feature = "kubeconfig")]
    pub(crate) fn shared_credentials(mut self, source: Arc<dyn CredentialSource>) -> Self {
        self.credentials = Login::Source(source);
        self
    }

    /// Adds a header to every request, such as `Impersonate-User`. `Debug` does not show its value.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let value = Secret(value.into().into_bytes());
        self.headers.push((name.into(), value));
        self
    }

    /// Connects through this proxy: `http://`, `https://` or `socks5://`, with user and password if it requires them.
    ///
    /// The certificate of an `https://` proxy must be signed by a CA of the operating system's store, which is read as
    /// described for [`root_certificates`](Self::root_certificates).
    ///
    /// By default, the proxy is taken from the environment: `HTTPS_PROXY` or `HTTP_PROXY`, depending on the server's
    /// URL, else `ALL_PROXY`. Servers listed in `NO_PROXY` and servers on this machine are reached directly. An HTTP
    /// proxy receives a CONNECT request, even if the server does not use TLS.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = ProxySetting::Url(url.into());
        self
    }

    /// Connects directly, regardless of the environment.
    pub fn no_proxy(mut self) -> Self {
        self.proxy = ProxySetting::None;
        self
    }

    /// Sets the `User-Agent` header, which identifies the client in the server's audit log.
    ///
    /// The default is `informer-hyper/<version>`.
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = Some(user_agent.into());
        self
    }

    /// Limits the time to acquire a credential; `None` is no limit. The default is 5 minutes.
    ///
    /// A login may wait for a person, so it does not count towards any other limit. It continues with the next request
    /// if the one that began it is dropped. An exec plugin that exceeds the limit is killed.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// // Without a terminal a login is impossible, so a plugin that waits for one should fail soon.
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").login_timeout(Some(Duration::from_secs(30)));
    /// ```
    pub fn login_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.login_timeout = timeout;
        self
    }

    /// Limits the time to open a connection, including name resolution, TCP connect and the TLS handshake. The default
    /// is 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Limits the time from a request to the head of its response; `None` is no limit.
    ///
    /// The default is 65 s, since an API server gives up a request after 60 s. For writes it also limits the bodies of
    /// the request and of its response.
    pub fn answer_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// Limits the time without data while a response body is read. The default is `None`, no limit.
    ///
    /// The informer has its own limits, which take bookmarks into account: a quiet watch receives only a bookmark about
    /// every minute.
    pub fn silence_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.silence_timeout = timeout;
        self
    }

    /// Sets how long an idle connection can be reused. The default is 90 s.
    ///
    /// With zero, each request opens a connection, unless an HTTP/2 connection is in use by another request.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets whether the server may compress responses with gzip. It may by default.
    ///
    /// See [Compression](crate#compression) for when a server does. Compression pays on a slow or expensive network; on
    /// a fast one, decoding may take longer than it saves. A response that is compressed against this setting is still
    /// decoded.
    pub fn gzip(mut self, allowed: bool) -> Self {
        self.gzip = allowed;
        self
    }

    /// Builds the transport. No request is sent yet. It reads the files with certificates, and blocks meanwhile.
    ///
    /// # Errors
    /// Fails if the URL or another setting is invalid, if there is no CA to trust, or if TLS has no provider of cryptography.
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
                "server URL {url:?}: certificates require an https URL"
            )));
        };
        if !self.protocols.http1 && !self.protocols.http2 {
            let advice = "http1 and http2: both are disabled; enable one";
            return Err(BuildError(advice.to_owned()));
        }
        let mut headers = HeaderMap::new();
        let authority = Authority::try_from(address.host_header()).map_err(|_| {
            BuildError(format!(
                "server URL {:?}: its host is not a valid name",
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
                    "header {name:?}: its name or value has characters that are not allowed"
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

/// The user's choice of authentication.
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

/// A URL as the user wrote it. `Debug` hides a user name and password in it.
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
