//! Requests of any kind, such as writes, over the connections and with the credentials of a transport.

use alloc::sync::Arc;
use core::error::Error;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, RETRY_AFTER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as HttpBody;
use informer_core::Body as _;
use tokio::time::{Instant, sleep_until, timeout};
use tower_service::Service;

use crate::body::{HyperBody, Origin};
use crate::builder::LONGEST;
use crate::error::HyperError;
use crate::transport::{Answer, HyperTransport, Parts};

type BoxError = Box<dyn Error + Send + Sync>;

/// The most bytes of the body of a request. An API server accepts 3 MiB.
const MOST_BODY: usize = 16 << 20;

/// The most times that a request is sent to a server that responds with 429.
const MOST_TIMES: u32 = 10;

/// A request of any method, with or without a body.
///
/// Its URI is a path with a query; a host, if there is one, must be the server's. The transport adds its headers, such as
/// `User-Agent`, where the request has none, and replaces `Authorization` if it has a credential. The body is read into
/// memory first, at most 16 MiB. A gzip response is decoded. Redirects are returned as they are.
///
/// **A request is sent again** only if the server has certainly not processed it: its connection ended before anything
/// was written, the server refused the stream or closes the connection before it (GOAWAY), the server refused the
/// credential and the source has another, or the server responded with 429 and `Retry-After`. Any other failure is
/// returned, and the caller decides: the server may have processed the request.
///
/// **Limits.** Each attempt has [`answer_timeout`](crate::HyperBuilder::answer_timeout) for the head of the response. The
/// same limit is for reading the body of the request, for waiting after 429, and for the body of a response to anything
/// other than GET and HEAD. A request does not wait for watches: if all streams of the HTTP/2 connections are in use,
/// another connection is opened.
///
/// Upgraded connections (`exec`, `attach`, `portforward`) are not supported: such a request is an error.
///
/// # Examples
/// For `kube::Client`, pass a clone: `kube::Client::new(transport.clone(), "default")`.
/// ```no_run
/// use http::Request;
/// use http_body_util::BodyExt as _;
/// use informer_hyper::HyperTransport;
/// use tower::Service as _;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let mut transport = HyperTransport::in_cluster()?.build()?;
/// let patch = Request::patch("/api/v1/namespaces/prod/configmaps/web")
///     .header("Content-Type", "application/merge-patch+json")
///     .body(r#"{"data":{"color":"blue"}}"#.to_owned())?;
/// let response = transport.call(patch).await?;
/// println!("{}: {:?}", response.status(), response.into_body().collect().await?.to_bytes());
/// # Ok(())
/// # }
/// ```
impl<B> Service<Request<B>> for HyperTransport
where
    B: HttpBody<Error: Into<BoxError>> + Send + 'static,
    B::Data: Send,
{
    type Response = Response<HyperBody>;
    type Error = HyperError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<HyperBody>, HyperError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HyperError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut transport = self.shared();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = transport.read(body).await?;
            transport.perform(Request::from_parts(head, body)).await
        })
    }
}

impl HyperTransport {
    /// Sends a request and reads its response to the end.
    ///
    /// It is the [`Service`] for callers who want bytes. A response with an error status is not an error here. The
    /// response is held in memory, so request a watch or a large list from the service, and read its body in pieces.
    ///
    /// # Errors
    /// Fails if there is no response, or if it ends too early.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn run(transport: informer_hyper::HyperTransport) -> Result<(), Box<dyn std::error::Error>> {
    /// let delete = http::Request::delete("/api/v1/namespaces/prod/pods/web").body(bytes::Bytes::new())?;
    /// let response = transport.request(delete).await?;
    /// assert!(response.status().is_success());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HyperError> {
        let response = self.shared().perform(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    async fn perform(
        &mut self,
        request: Request<Bytes>,
    ) -> Result<Response<HyperBody>, HyperError> {
        let request = self.parts(request)?;
        let began = Instant::now();
        let mut times = 1;
        loop {
            let answer = self.answer(&request).await?;
            match self.pause(&answer, began) {
                Some(pause) if times < MOST_TIMES => {
                    let until = Instant::now() + pause;
                    // Reading the body to its end keeps its connection.
                    let mut body = self.response(&request, answer).into_body().within(pause);
                    while let Ok(Some(_)) = body.chunk().await {}
                    sleep_until(until).await;
                    times += 1;
                }
                _ => return Ok(self.response(&request, answer)),
            }
        }
    }

    fn parts(&self, request: Request<Bytes>) -> Result<Parts, HyperError> {
        let settings = &self.settings;
        let refused = |why: &str| Err(HyperError::request(&settings.address, why));
        let (head, body) = request.into_parts();
        if head.headers.contains_key(UPGRADE) || head.method == Method::CONNECT {
            return refused("upgraded connections are not supported");
        }
        if !settings.is_of(&head.uri) {
            return refused("its URI has the host of another server");
        }
        let mut headers = settings.headers.clone();
        // `extend` of a map with several values of a name replaces those that were there.
        headers.extend(head.headers);
        // The transport decides about these.
        for name in [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let target = head
            .uri
            .path_and_query()
            .map_or("/", |target| target.as_str());
        settings.parts(head.method, target, headers, body)
    }

    /// Returns how long to wait before the request is sent again, if the server asks for it and the time is left.
    fn pause(&self, answer: &Answer, began: Instant) -> Option<Duration> {
        if answer.status != StatusCode::TOO_MANY_REQUESTS {
            return None;
        }
        let after = answer.headers.get(RETRY_AFTER)?.to_str().ok()?;
        let seconds: u64 = after.trim().parse().ok()?;
        let pause = Duration::from_secs(seconds.max(1));
        let limit = self.settings.answer_timeout.unwrap_or(LONGEST);
        (began.elapsed().saturating_add(pause) < limit).then_some(pause)
    }

    fn response(&self, request: &Parts, answer: Answer) -> Response<HyperBody> {
        let from = Origin::Server(Arc::clone(&self.settings.address));
        let silence = self.settings.silence_timeout;
        let mut body = HyperBody::new(from, &answer.headers, answer.source, silence);
        if let Some(limit) = self.settings.answer_timeout
            && ![Method::GET, Method::HEAD].contains(&request.method)
        {
            body = body.within(limit);
        }
        let mut response = Response::new(body);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        if response.headers_mut().remove(CONTENT_ENCODING).is_some() {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        response
    }

    /// Reads the body of a request.
    async fn read<B: HttpBody<Error: Into<BoxError>>>(&self, body: B) -> Result<Bytes, HyperError> {
        let refused = |why: &dyn fmt::Display| HyperError::request(&self.settings.address, why);
        let limit = self.settings.answer_timeout.unwrap_or(LONGEST);
        match timeout(limit, Limited::new(body, MOST_BODY).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let most = MOST_BODY >> 20;
                Err(refused(&format_args!("its body is larger than {most} MiB")))
            }
            Ok(Err(error)) => Err(refused(&format_args!("its body cannot be read: {error}"))),
            Err(_elapsed) => Err(refused(&format_args!(
                "its body took longer than {limit:?}"
            ))),
        }
    }
}
