//! From the informer's requests to HTTP requests.

use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::Empty;
use informer_core::{Get, Head, Transport};

use crate::address::Address;
use crate::body::HyperBody;
use crate::builder::HyperBuilder;
use crate::connect::Connector;
use crate::credentials::Credentials;
use crate::error::HyperError;
use crate::pool::Pool;

/// Sends requests to one API server by HTTP.
///
/// See the [crate] for how it treats connections. A clone shares the settings and has connections of its own.
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
        let mut connection = self.pool.take().await?;
        let was_used = connection.was_used();
        let response = connection
            .request(request)
            .await
            .map_err(|error| HyperError::answering(&self.settings.address, &error, was_used))?;
        let (parts, incoming) = response.into_parts();
        let head = Head::new(parts.status.as_u16());
        let head = match parts.headers.get(RETRY_AFTER).map(HeaderValue::to_str) {
            Some(Ok(value)) => head.with_retry_after(value),
            Some(Err(_)) | None => head,
        };
        let body = HyperBody::new(
            self.settings.address.clone(),
            connection,
            &parts.headers,
            incoming,
            self.pool.slot(),
        );
        Ok((head, body))
    }
}

impl Settings {
    async fn request(&self, get: &Get<'_>) -> Result<Request<Empty<Bytes>>, HyperError> {
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
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = format!("{}{}", self.address.prefix(), get.target)
            .parse()
            .map_err(|_| {
                HyperError::request(
                    &self.address,
                    "its path has characters that are not allowed",
                )
            })?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

impl fmt::Debug for HyperTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HyperTransport({})", self.settings.address.url())
    }
}
