//! Sends the informer's requests over HTTP.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER, WARNING};
use http::uri::{self, Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version};
use http_body_util::Full;
use informer_core::{
    Body, Head, Transport,
    transport::{BoxChunk, BoxFuture, BoxSend, Get, SendTransport, Warnings, redirect_body},
};

use crate::address::Address;
use crate::body::{BodySource, HyperBody, Origin};
use crate::connect::Connector;
use crate::credentials::{Credential, CredentialError, Login};
use crate::error::HyperError;
use crate::pool::{Attempts, Pool, Taken};

/// Sends requests to one API server over HTTP.
///
/// See the [crate] for how connections are used. Clones share the settings and the HTTP/2 connections.
pub struct HyperTransport {
    pub(crate) settings: Arc<Settings>,
    pool: Pool,
    /// The credential that `ready` has acquired for the next request.
    acquired: Option<Result<Option<Credential>, HyperError>>,
    /// The warnings that were returned to callers.
    warnings: Arc<Mutex<Warnings>>,
}

impl Clone for HyperTransport {
    fn clone(&self) -> Self {
        Self {
            settings: Arc::clone(&self.settings),
            pool: self.pool.clone(),
            acquired: None,
            warnings: Arc::clone(&self.warnings),
        }
    }
}

/// The settings that a request needs.
pub(crate) struct Settings {
    pub(crate) address: Arc<Address>,
    pub(crate) authority: Authority,
    pub(crate) scheme: Scheme,
    /// The headers that all requests share.
    pub(crate) headers: HeaderMap,
    pub(crate) login: Option<Login>,
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) silence_timeout: Option<Duration>,
}

impl HyperTransport {
    /// Returns the server's URL, including its port.
    #[must_use]
    pub fn url(&self) -> String {
        self.settings.address.url()
    }

    /// Returns a clone that also shares the idle HTTP/1.1 connection.
    pub(crate) fn shared(&self) -> Self {
        Self {
            pool: self.pool.shared(),
            ..self.clone()
        }
    }

    pub(crate) fn new(settings: Settings, connector: Connector) -> Self {
        Self {
            settings: Arc::new(settings),
            pool: Pool::new(connector),
            acquired: None,
            warnings: Arc::default(),
        }
    }
}

impl Transport for HyperTransport {
    type Body = HyperBody;
    type Error = HyperError;

    /// Acquires the credential for the next request. A login may wait for a person, so it does not count towards a
    /// deadline.
    async fn ready(&mut self) {
        self.acquired = None;
        self.acquired = Some(self.settings.credential(None).await);
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, HyperBody), HyperError> {
        let request = self.settings.request(&get)?;
        let answer = self.answer(&request).await?;
        let from = Origin::Server(Arc::clone(&self.settings.address));
        Ok(answer.read(from, self.settings.silence_timeout, &self.warnings))
    }
}

impl SendTransport for HyperTransport {
    fn boxed_ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.ready())
    }

    fn boxed_send<'a>(&'a mut self, get: Get<'a>) -> BoxSend<'a, Self> {
        Box::pin(self.send(get))
    }

    fn boxed_chunk<E: Send + 'static>(
        body: &mut HyperBody,
        error: fn(Self::Error) -> E,
    ) -> BoxChunk<'_, E> {
        Box::pin(async move { body.chunk().await.map_err(error) })
    }
}

/// Converts the status and headers of a response.
fn head(status: StatusCode, headers: &HeaderMap) -> Head {
    let mut head = Head::new(status.as_u16());
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(value) = text(RETRY_AFTER) {
        head = head.with_retry_after(value);
    }
    if let Some(value) = text(CONTENT_TYPE) {
        head = head.with_content_type(value);
    }
    head
}

/// A response whose body has not been read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) source: BodySource,
}

impl Answer {
    /// Returns the head and the body. The body of a redirect names its target instead.
    pub(crate) fn read(
        self,
        from: Origin,
        silence: Option<Duration>,
        warnings: &Mutex<Warnings>,
    ) -> (Head, HyperBody) {
        let Self {
            status,
            headers,
            source,
        } = self;
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let location = headers.get(LOCATION).map(text).unwrap_or_default();
        if let Some(body) = redirect_body(status.as_u16(), &location) {
            let source = BodySource::Text(Some(body));
            let body = HyperBody::new(from, &HeaderMap::new(), source, None);
            return (Head::new(status.as_u16()), body);
        }
        let mut reported = warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let warnings = headers
            .get_all(WARNING)
            .iter()
            .flat_map(|value| reported.unreported(&text(value)))
            .collect();
        let body = HyperBody::new(from, &headers, source, silence).warning_of(warnings);
        (head(status, &headers), body)
    }
}

impl HyperTransport {
    /// Sends a request, and once more if the server refuses the credential and the source has another.
    pub(crate) async fn answer(&mut self, request: &Parts) -> Result<Answer, HyperError> {
        let settings = Arc::clone(&self.settings);
        let mut attempts = Attempts::default();
        let credential = match self.acquired.take() {
            Some(acquired) => acquired?,
            None => settings.credential(None).await?,
        };
        let answer = self
            .ask(request, credential.as_ref(), &mut attempts)
            .await?;
        if answer.status == StatusCode::UNAUTHORIZED
            && let Some(refused) = &credential
            // If there is no other credential, the response explains more than the source's error.
            && let Ok(Some(renewed)) = settings.credential(Some(refused)).await
            && renewed != *refused
        {
            drop(answer);
            let answer = self.ask(request, Some(&renewed), &mut attempts).await?;
            if answer.status == StatusCode::UNAUTHORIZED
                && let Some(login) = &settings.login
            {
                login.note_refused(&renewed);
            }
            return Ok(answer);
        }
        Ok(answer)
    }

    /// Sends a request with a credential and waits for the head of the response.
    async fn ask(
        &self,
        request: &Parts,
        credential: Option<&Credential>,
        attempts: &mut Attempts,
    ) -> Result<Answer, HyperError> {
        let address = &self.settings.address;
        if let Some(credential) = credential {
            self.pool
                .present(credential.certificate())
                .map_err(|why| HyperError::login(address, &CredentialError::new(why)))?;
        }
        let exchange = self.exchange(request, credential, attempts);
        let Some(limit) = self.settings.answer_timeout else {
            return exchange.await;
        };
        // Opening a connection has its own limit. It may happen twice if the server refuses the first one.
        let answer = tokio::time::timeout(limit, exchange).await;
        answer
            .unwrap_or_else(|_elapsed| Err(HyperError::slow(address, "get a response from", limit)))
    }

    async fn exchange(
        &self,
        request: &Parts,
        credential: Option<&Credential>,
        attempts: &mut Attempts,
    ) -> Result<Answer, HyperError> {
        let address = &self.settings.address;
        loop {
            let answered = match self.pool.take(attempts).await? {
                Taken::Http1(mut connection) => {
                    let request = request.for_http1(credential);
                    let response = connection.request(address, request).await;
                    response.map(|response| {
                        let (parts, incoming) = response.into_parts();
                        let source = BodySource::Http1 {
                            connection: Box::new(connection),
                            incoming,
                            slot: self.pool.slot(),
                        };
                        (parts.status, parts.headers, source)
                    })
                }
                Taken::Http2(place) => {
                    let response = place.request(request.for_http2(credential)).await;
                    response
                        .map(|(status, headers, body)| (status, headers, BodySource::Http2(body)))
                }
            };
            match answered {
                Ok((status, headers, source)) => {
                    return Ok(Answer {
                        status,
                        headers,
                        source,
                    });
                }
                // The connection ended before the request was written, the server is closing it (GOAWAY), or the server
                // refuses further streams on it.
                Err(failure) if failure.is_untouched && attempts.fail() => {}
                Err(failure) => return Err(failure.error),
            }
        }
    }
}

/// A request in the parts that both protocols share.
pub(crate) struct Parts {
    pub(crate) method: Method,
    target: PathAndQuery,
    /// The host in the URL and in the `Host` header.
    authority: Authority,
    scheme: Scheme,
    headers: HeaderMap,
    body: Bytes,
}

impl Parts {
    fn for_http1(&self, credential: Option<&Credential>) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(self.target.clone());
        *request.headers_mut() = self.headers(credential);
        if let Ok(host) = HeaderValue::from_str(self.authority.as_str()) {
            request.headers_mut().insert(HOST, host);
        }
        request
    }

    fn for_http2(&self, credential: Option<&Credential>) -> Request<Bytes> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        let mut uri = uri::Parts::default();
        uri.scheme = Some(self.scheme.clone());
        uri.authority = Some(self.authority.clone());
        uri.path_and_query = Some(self.target.clone());
        // All three parts are set, so this cannot fail.
        *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.headers(credential);
        request
    }

    fn headers(&self, credential: Option<&Credential>) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(header) = credential.and_then(Credential::header) {
            headers.insert(AUTHORIZATION, header.clone());
        }
        headers
    }
}

impl Settings {
    /// Returns whether a URI names this server, or none.
    pub(crate) fn is_of(&self, uri: &Uri) -> bool {
        uri.authority()
            .is_none_or(|authority| *authority == self.authority)
            && uri.scheme().is_none_or(|scheme| *scheme == self.scheme)
    }

    async fn credential(
        &self,
        refused: Option<&Credential>,
    ) -> Result<Option<Credential>, HyperError> {
        let Some(login) = &self.login else {
            return Ok(None);
        };
        let credential = login.credential(refused).await;
        credential
            .map(Some)
            .map_err(|error| HyperError::login(&self.address, &error))
    }

    fn request(&self, get: &Get<'_>) -> Result<Parts, HyperError> {
        let mut headers = self.headers.clone();
        let accept = HeaderValue::from_str(get.accept).map_err(|_| {
            HyperError::request(
                &self.address,
                "the Accept header has characters that are not allowed",
            )
        })?;
        headers.insert(ACCEPT, accept);
        self.parts(Method::GET, get.target, headers, Bytes::new())
    }

    /// Adds what all requests share to the method, the path and query, the headers and the body of one.
    pub(crate) fn parts(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Parts, HyperError> {
        if !target.starts_with('/') {
            return Err(HyperError::request(
                &self.address,
                "its path does not start with a slash",
            ));
        }
        let target = format!("{}{target}", self.address.prefix());
        check_length(&target).map_err(|why| HyperError::request(&self.address, why))?;
        let target = target.parse().map_err(|_| {
            HyperError::request(
                &self.address,
                "its path has characters that are not allowed",
            )
        })?;
        Ok(Parts {
            method,
            target,
            authority: self.authority.clone(),
            scheme: self.scheme.clone(),
            headers,
            body,
        })
    }
}

/// Checks that `http` can hold the path and query of a request.
pub(crate) fn check_length(target: &str) -> Result<(), String> {
    let length = target.len();
    if length <= MOST_TARGET {
        return Ok(());
    }
    Err(format!(
        "its path and query have {length} bytes, and at most {MOST_TARGET} are possible: select by fewer values, or \
         select in the program, as with a handler's `filter`"
    ))
}

/// The longest path and query of `http::Uri`.
const MOST_TARGET: usize = 65_534;

impl fmt::Debug for HyperTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HyperTransport({})", self.settings.address.url())
    }
}
