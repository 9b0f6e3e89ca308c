//! Requests of any method, over a service that sends them to an API server.

use core::error::Error;
use core::fmt::Display;
use core::future::poll_fn;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use informer_core::report::OneLine;
use serde_json::{Map, Value};
use tower_service::Service;
use tracing::Instrument as _;

use crate::health::error::with_causes;
use crate::spans;

// They are in the signatures.
#[doc(no_inline)]
pub use {bytes, http};

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// The most bytes of a response.
const MOST_BODY: usize = 16 << 20;

/// A service that sends requests to an API server, such as `informer::transport::HyperTransport`.
///
/// It is implemented for every [`Service`] over HTTP requests. A request has a path and a query but no host: the service
/// finds the server, authenticates, and limits the time.
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use informer_tokio::requests::HttpService;
///
/// async fn delete(service: &mut impl HttpService) -> Result<(), Box<dyn std::error::Error>> {
///     let pod = Request::delete("/api/v1/namespaces/prod/pods/web").body(Bytes::new())?;
///     service.accepted(pod).await?;
///     Ok(())
/// }
/// ```
pub trait HttpService: Send + 'static {
    /// Sends a request and reads its response to the end, at most 16 MiB. A response with an error status is not an error
    /// here.
    fn exchange(
        &mut self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Bytes>, RequestError>> + Send;

    /// Sends a request, and returns the body of its response. A refusal is an error with the text of the server.
    fn accepted(
        &mut self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Bytes, RequestError>> + Send {
        async {
            let what = format!("{} {}", request.method(), request.uri());
            let response = self.exchange(request).await;
            let response = response.map_err(|error| error.of(&what))?;
            let status = response.status();
            if status.is_success() {
                return Ok(response.into_body());
            }
            let refusal = serde_json::from_slice::<Refusal>(response.body()).unwrap_or_default();
            let why = match refusal.message.as_str() {
                "" => format!("the server responds with {status}"),
                message => format!("the server responds with {status}: {message}"),
            };
            let refused = RequestError {
                status: Some(status.as_u16()),
                message: why,
            };
            Err(refused.of(&what))
        }
    }
}

/// The members of a `Status` that are read.
#[derive(serde::Deserialize, Default)]
struct Refusal {
    message: String,
}

impl<S, R> HttpService for S
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    R: http_body::Body<Error: Into<BoxError>> + Send,
    R::Data: Send,
{
    async fn exchange(&mut self, request: Request<Bytes>) -> Result<Response<Bytes>, RequestError> {
        let failed = |error: BoxError| RequestError::new(with_causes(&*error));
        let path = request.uri().path_and_query();
        let span = spans::request(
            request.method().as_str(),
            path.map_or("", PathAndQuery::as_str),
        );
        let response = call(self, request.map(Full::new)).instrument(span.clone());
        let response = response.await.map_err(failed);
        spans::answered(&span, &response, |response| response.status().as_u16());
        let (head, body) = response?.into_parts();
        let body = Limited::new(body, MOST_BODY).collect().await;
        let body = body.map_err(failed)?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

/// Sends a request when the service is ready for it.
pub(crate) async fn call<S, T>(service: &mut S, request: T) -> Result<S::Response, BoxError>
where
    S: Service<T, Error: Into<BoxError>>,
{
    let ready = poll_fn(|cx| service.poll_ready(cx)).await;
    ready.map_err(Into::into)?;
    service.call(request).await.map_err(Into::into)
}

/// A request failed, or the server refused it. `Display` writes one line.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", OneLine(.message))]
pub struct RequestError {
    status: Option<u16>,
    message: String,
}

informer_core::readable_errors!(RequestError);

impl RequestError {
    /// Returns the HTTP status if the server refused the request. Without it, the server may have processed the request.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        self.status
    }

    /// Names the request.
    fn of(self, what: &str) -> Self {
        Self {
            message: format!("{what}: {}", self.message),
            ..self
        }
    }

    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            status: None,
            message: message.into(),
        }
    }

    pub(crate) fn is(&self, refusals: &[u16]) -> bool {
        self.status.is_some_and(|status| refusals.contains(&status))
    }
}

/// Sends a request with JSON, and returns the object in the response. A refusal is an error.
pub(crate) async fn json(
    service: &mut impl HttpService,
    method: Method,
    target: &str,
    body: Option<Value>,
) -> Result<Map<String, Value>, RequestError> {
    let what = format!("{method} {target}");
    let failed = |error: &dyn Display| RequestError::new(error.to_string()).of(&what);
    let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(target)
        .header(CONTENT_TYPE, content_type)
        .body(body)
        .map_err(|error| failed(&error))?;
    let object = service.accepted(request).await?;
    serde_json::from_slice(&object)
        .map_err(|error| failed(&format_args!("the response is no object: {error}")))
}
