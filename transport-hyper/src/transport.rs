//! From the informer's requests to HTTP requests.

use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, RETRY_AFTER};
use http::uri::{self, Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Uri, Version};
use http_body_util::Empty;
use informer_core::{Get, Head, Transport};

use crate::address::Address;
use crate::body::{HyperBody, Source};
use crate::builder::HyperBuilder;
use crate::connect::Connector;
use crate::credentials::Credentials;
use crate::error::HyperError;
use crate::pool::{Pool, Taken};

/// Sends requests to one API server by HTTP.
///
/// See the [crate] for how it treats connections. A clone shares the settings and the connections of HTTP/2.
///
/// # Examples
/// ```
/// use informer_hyper::HyperTransport;
///
/// let transport = HyperTransport::builder("http://127.0.0.1:8080").build()?;
/// assert_eq!(format!("{transport:?}"), "HyperTransport(http://127.0.0.1:8080)");
/// # Ok::<(), informer_hyper::BuildError>(())
/// ```
#[derive(Clone)]
pub struct HyperTransport {
    settings: Arc<Settings>,
    pool: Pool,
}

/// What a transport needs to write a request.
pub(crate) struct Settings {
    pub(crate) address: Arc<Address>,
    pub(crate) authority: Authority,
    pub(crate) scheme: Scheme,
    /// The headers that are the same for all requests.
    pub(crate) headers: HeaderMap,
    pub(crate) credentials: Option<Box<dyn Credentials>>,
}

impl HyperTransport {
    /// Starts to set up a transport to the API server at `url`.
    ///
    /// The URL is `http://host:port` or `https://host:port`; the port is 80 or 443 where none is given. A path is put
    /// before the path of all requests. IPv6 addresses go into brackets. [`HyperBuilder::build`] says what is wrong
    /// with it.
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

    pub(crate) fn new(settings: Settings, connector: Connector) -> Self {
        Self {
            settings: Arc::new(settings),
            pool: Pool::new(connector),
        }
    }
}

impl Transport for HyperTransport {
    type Body = HyperBody;
    type Error = HyperError;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, HyperBody), HyperError> {
        let request = self.settings.request(&get).await?;
        let address = &self.settings.address;
        let mut attempts = 0;
        let (status, headers, source) = loop {
            attempts += 1;
            match self.pool.take().await? {
                Taken::Http1(mut connection) => {
                    let was_used = connection.was_used();
                    let response = connection
                        .request(request.for_http1())
                        .await
                        .map_err(|error| HyperError::answering(address, &error, was_used))?;
                    let (parts, incoming) = response.into_parts();
                    let source = Source::Http1 {
                        connection: Box::new(connection),
                        incoming,
                        slot: self.pool.slot(),
                    };
                    break (parts.status, parts.headers, source);
                }
                Taken::Http2(place) => match place.request(request.for_http2()).await {
                    Ok((status, headers, body)) => break (status, headers, Source::Http2(body)),
                    // The server has done nothing and says so: it goes away, or has too much to do on this connection.
                    Err(failure) if failure.is_untouched && attempts < MOST_ATTEMPTS => {}
                    Err(failure) => return Err(failure.error),
                },
            }
        };
        let head = Head::new(status.as_u16());
        let head = match headers.get(RETRY_AFTER).map(HeaderValue::to_str) {
            Some(Ok(value)) => head.with_retry_after(value),
            Some(Err(_)) | None => head,
        };
        Ok((head, HyperBody::new(address.clone(), &headers, source)))
    }
}

/// A server that goes away on every connection is not asked for ever.
const MOST_ATTEMPTS: u32 = 5;

/// A request in the parts that both protocols have.
struct Parts {
    target: PathAndQuery,
    /// What the host is called in an URL, and in the `Host` header.
    authority: Authority,
    scheme: Scheme,
    headers: HeaderMap,
}

impl Parts {
    fn for_http1(&self) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = Uri::from(self.target.clone());
        *request.headers_mut() = self.headers.clone();
        if let Ok(host) = HeaderValue::from_str(self.authority.as_str()) {
            request.headers_mut().insert(HOST, host);
        }
        request
    }

    fn for_http2(&self) -> Request<()> {
        let mut request = Request::new(());
        let mut uri = uri::Parts::default();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(self.target.clone());
        // All three are there, which is what can fail.
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl Settings {
    async fn request(&self, get: &Get<'_>) -> Result<Parts, HyperError> {
        let mut headers = self.headers.clone();
        let accept = HeaderValue::from_str(get.accept).map_err(|_| {
            HyperError::request(
                &self.address,
                "the Accept header has characters that are not allowed",
            )
        })?;
        headers.insert(ACCEPT, accept);
        if let Some(credentials) = &self.credentials {
            headers.insert(AUTHORIZATION, credentials.authorization().await?);
        }
        if !get.target.starts_with('/') {
            return Err(HyperError::request(
                &self.address,
                "its path does not begin with a slash",
            ));
        }
        let target = format!("{}{}", self.address.prefix(), get.target);
        let target = target.parse().map_err(|_| {
            HyperError::request(
                &self.address,
                "its path has characters that are not allowed",
            )
        })?;
        Ok(Parts {
            target,
            authority: self.authority.clone(),
            scheme: self.scheme.clone(),
            headers,
        })
    }
}

impl fmt::Debug for HyperTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HyperTransport({})", self.settings.address.url())
    }
}
