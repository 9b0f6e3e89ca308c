//! The conformance suite for transports, over each protocol.

use informer_hyper::HyperTransport;
use informer_mock::conformance::{self, TestServer};
use informer_mock::serve;

#[tokio::test]
async fn http1_conforms() {
    let verdict = conformance::check(async |server| {
        let url = start(server).await;
        HyperTransport::builder(url).build().unwrap()
    });
    verdict.await.assert();
}

#[tokio::test]
async fn http2_conforms() {
    let verdict = conformance::check(async |server| {
        let url = start(server).await;
        HyperTransport::builder(url).http1(false).build().unwrap()
    });
    verdict.await.assert();
}

#[cfg(feature = "tower")]
#[tokio::test]
async fn a_service_conforms() {
    use bytes::Bytes;
    use http_body_util::Empty;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    use informer_hyper::TowerTransport;
    use tower::service_fn;

    let verdict = conformance::check(async |server| {
        let url = start(server).await;
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        TowerTransport::new(service_fn(move |mut request: http::Request<_>| {
            *request.uri_mut() = format!("{url}{}", request.uri()).parse().unwrap();
            client.request(request)
        }))
    });
    verdict.await.assert();
}

/// Serves a mock, and returns its address.
async fn start(server: TestServer) -> String {
    let serving = serve(server, "127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", serving.local_addr());
    tokio::spawn(serving.run());
    url
}
