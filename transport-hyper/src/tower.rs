//! Uses any service over HTTP requests as a transport.

use alloc::sync::Arc;
use core::error::Error;
use core::fmt;
use core::future::poll_fn;
use std::sync::Mutex;

use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderValue, Request, Response};
use hyper::body::Body as HttpBody;
use informer_core::{
    Body, Head, Transport,
    transport::{BoxChunk, BoxFuture, BoxSend, Get, SendTransport, Warnings},
};
use tower_service::Service;

use crate::body::{BodySource, HyperBody, Origin};
use crate::error::HyperError;
use crate::transport::{Answer, check_length};

/// Sends requests through a [`tower::Service`](tower_service::Service). The service finds the server and authenticates.
///
/// A request has a path and a query but no host, as `kube::Client` expects. Its body is empty: by default, it is the
/// `Default` of the service's body type. A gzip response is decoded, although the request does not ask for gzip.
/// Connections, deadlines and the classification of failures are up to the service.
///
/// # Examples
/// A function can be used; for a `kube::Client`, the crate `informer-kube` has a transport.
/// ```
/// use std::convert::Infallible;
///
/// use informer_core::{Body, Transport, transport::Get};
/// use informer_hyper::TowerTransport;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), informer_hyper::HyperError> {
/// let service = tower::service_fn(|request: http::Request<String>| async move {
///     Ok::<_, Infallible>(http::Response::new(format!("asked for {}", request.uri())))
/// });
/// let (head, mut body) = TowerTransport::new(service).send(Get::new("/version")).await?;
/// assert_eq!(head.status, 200);
/// assert_eq!(body.chunk().await?, Some(&b"asked for /version"[..]));
/// # Ok(())
/// # }
/// ```
pub struct TowerTransport<S, B> {
    service: S,
    empty: fn() -> B,
    warnings: Arc<Mutex<Warnings>>,
}

impl<S, B: Default> TowerTransport<S, B> {
    /// Creates a transport from a service.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self::with_empty(service, B::default)
    }
}

impl<S, B> TowerTransport<S, B> {
    /// Creates a transport from a service whose body type has no default. `empty` creates an empty body, as
    /// `kube::client::Body::empty` does.
    #[must_use]
    pub fn with_empty(service: S, empty: fn() -> B) -> Self {
        Self {
            service,
            empty,
            warnings: Arc::default(),
        }
    }
}

impl<S: Clone, B> Clone for TowerTransport<S, B> {
    fn clone(&self) -> Self {
        Self {
            service: self.service.clone(),
            empty: self.empty,
            warnings: Arc::clone(&self.warnings),
        }
    }
}

impl<S, B> fmt::Debug for TowerTransport<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TowerTransport")
    }
}

impl<S, B, R> Transport for TowerTransport<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    R: HttpBody + Send + 'static,
    R::Data: Send,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Body = HyperBody;
    type Error = HyperError;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, HyperBody), HyperError> {
        let request = request(&get, (self.empty)())?;
        poll_fn(|cx| self.service.poll_ready(cx))
            .await
            .map_err(|error| HyperError::service(&*error.into()))?;
        let answer = self.service.call(request).await;
        let (parts, body) = answer
            .map_err(|error| HyperError::service(&*error.into()))?
            .into_parts();
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            source: BodySource::Service(Box::pin(body)),
        };
        Ok(answer.read(Origin::Service, None, &self.warnings))
    }
}

impl<S, B, R> SendTransport for TowerTransport<S, B>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send> + Clone + Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    B: Send + 'static,
    R: HttpBody + Send + 'static,
    R::Data: Send,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
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

fn request<B>(get: &Get<'_>, body: B) -> Result<Request<B>, HyperError> {
    let refused = |why: &dyn fmt::Display| HyperError::request(&"the service", why);
    check_length(get.target).map_err(|why| refused(&why))?;
    Request::get(get.target)
        .header(ACCEPT, get.accept)
        .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"))
        .body(body)
        .map_err(|error| refused(&error))
}
