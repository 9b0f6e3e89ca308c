//! The conformance suite for transports, over each protocol.
#![allow(clippy::std_instead_of_core, reason = "a test may")]

use std::future::poll_fn;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use informer_core::{Body, Transport, transport::Get};
use informer_hyper::HyperTransport;
use informer_mock::conformance::{self, Server, TestServer};
use informer_mock::{MockTransport, TokioClock, serve};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn http1_conforms() {
    let verdict = conformance::check(async |server| {
        let serving = serve(server, "127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", serving.local_addr());
        tokio::spawn(serving.run());
        HyperTransport::builder(url).build().unwrap()
    });
    verdict.await.assert();
}

#[tokio::test]
async fn http2_conforms() {
    let verdict = conformance::check(async |server| {
        let url = serve_http2(server).await;
        HyperTransport::builder(url).http1(false).build().unwrap()
    });
    verdict.await.assert();
}

#[cfg(feature = "tower")]
#[tokio::test]
async fn a_service_conforms() {
    use http_body_util::Empty;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    use informer_hyper::TowerTransport;
    use tower::service_fn;

    let verdict = conformance::check(async |server| {
        let serving = serve(server, "127.0.0.1:0").await.unwrap();
        let address = serving.local_addr();
        tokio::spawn(serving.run());
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        TowerTransport::new(service_fn(move |mut request: http::Request<_>| {
            *request.uri_mut() = format!("http://{address}{}", request.uri())
                .parse()
                .unwrap();
            client.request(request)
        }))
    });
    verdict.await.assert();
}

/// Serves a mock with HTTP/2 in plain text.
async fn serve_http2(server: TestServer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(connection(tcp, server.transport()));
        }
    });
    url
}

async fn connection(tcp: TcpStream, transport: MockTransport<Server, TokioClock>) {
    // Without it, each response waits for the acknowledgement of the previous one.
    tcp.set_nodelay(true).unwrap();
    let Ok(mut http2) = h2::server::handshake(tcp).await else {
        return;
    };
    while let Some(Ok((request, respond))) = http2.accept().await {
        tokio::spawn(answer(request, respond, transport.clone()));
    }
}

/// A cut of the mock is a reset of the stream here.
async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    mut transport: MockTransport<Server, TokioClock>,
) {
    let target = request.uri().path_and_query().unwrap().as_str();
    let accept = request.headers()["accept"].to_str().unwrap();
    let asking = transport.send(Get::new(target).accept(accept));
    let asked = tokio::select! {
        asked = asking => asked,
        _ = poll_fn(|cx| respond.poll_reset(cx)) => return,
    };
    let Ok((head, mut body)) = asked else {
        return respond.send_reset(Reason::INTERNAL_ERROR);
    };
    let mut response = http::Response::builder().status(head.status);
    if let Some(after) = head.retry_after {
        response = response.header("retry-after", after.as_secs());
    }
    let response = response.body(()).unwrap();
    let mut stream = respond.send_response(response, false).unwrap();
    loop {
        let piece = tokio::select! {
            piece = body.chunk() => piece.map(|piece| piece.map(Bytes::copy_from_slice)),
            _ = poll_fn(|cx| stream.poll_reset(cx)) => return,
        };
        match piece {
            Ok(Some(piece)) => {
                if write(&mut stream, piece).await.is_none() {
                    return;
                }
            }
            Ok(None) => {
                let _ = stream.send_data(Bytes::new(), true);
                return;
            }
            Err(_) => return stream.send_reset(Reason::INTERNAL_ERROR),
        }
    }
}

/// Writes as far as the client's window allows.
async fn write(stream: &mut SendStream<Bytes>, mut piece: Bytes) -> Option<()> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let room = poll_fn(|cx| stream.poll_capacity(cx)).await?.ok()?;
        let part = piece.split_to(room.min(piece.len()));
        stream.send_data(part, false).ok()?;
    }
    Some(())
}
