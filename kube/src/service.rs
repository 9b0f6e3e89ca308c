//! A `kube::Client` as a service.

use core::pin::Pin;
use core::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use informer_tokio::requests::HttpService;
use kube_client::client::Body;
use kube_client::{Client, Error};
use tower_service::Service;

/// Returns a service that sends requests through a client, such as those of
/// [`Rights::check`](informer_tokio::rights::Rights::check).
///
/// ```no_run
/// use informer_kube::Informers;
/// use informer_kube::rights::Rights;
/// use k8s_openapi::api::core::v1::Pod;
/// # async fn start(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let informers = Informers::new(client.clone());
/// let pods = informers.all::<Pod>().get();
/// Rights::new().informer(&pods).election("prod").check(&mut informer_kube::service(client)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn service(client: Client) -> impl HttpService + Clone {
    Requests(client)
}

/// Sends requests through a client, with a body of kube or of bytes.
#[derive(Clone)]
pub(crate) struct Requests(pub(crate) Client);

type Sent = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

impl Service<Request<Body>> for Requests {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Sent;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Sent {
        let client = self.0.clone();
        Box::pin(async move { client.send(request).await })
    }
}

impl Service<Request<Full<Bytes>>> for Requests {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Sent;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Sent {
        let client = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let body = Body::from(body.to_bytes());
            client.send(Request::from_parts(head, body)).await
        })
    }
}

type Bytes = <Body as http_body::Body>::Data;
