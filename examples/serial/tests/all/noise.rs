//! Responses over a line that loses, changes and inserts bytes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use informer_core::{
    Body, Head, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_mock::{FakeServer, Fault, Mock, TokioClock};
use informer_serial::{SerialError, SerialProblem};
use tokio::task::LocalSet;

use crate::support::{Bench, Device, Random};

type Server = Mock<FakeServer, TokioClock>;

fn server() -> Server {
    Mock::with_clock(FakeServer::new(1), TokioClock::new())
}

const LIST: &str = "/api/v1/pods?limit=500&resourceVersion=0";
const WATCH: &str = "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=300";

/// Reads a response. Returns the data before an error too.
async fn get<const B: usize>(device: &mut Device<B>) -> (Vec<u8>, Result<u16, SerialError>) {
    let mut read = Vec::new();
    let (head, mut body) = match device.send(Get::new(LIST)).await {
        Ok(answer) => answer,
        Err(error) => return (read, Err(error)),
    };
    loop {
        match body.chunk().await {
            Ok(Some(bytes)) => read.extend_from_slice(bytes),
            Ok(None) => return (read, Ok(head.status)),
            Err(error) => return (read, Err(error)),
        }
    }
}

/// Under noise a response is correct or an error, and the data before the error is correct too. Without noise it is
/// correct, whatever happened before.
#[tokio::test(start_paused = true)]
async fn what_comes_through_is_right() {
    let (mut whole, mut failed, mut hits) = (0, 0, 0);
    for seed in 0..150 {
        let run = async {
            let mut random = Random::new(seed);
            let length = random.below(6000);
            let expected: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            let server = server();
            let mut bench = Bench::<128>::start(
                server.transport(),
                1 + random.below(200) as usize,
                seed,
                Duration::from_secs(60),
            );
            bench.noise.set([2, 20, 100, 400][random.below(4) as usize]);
            for _ in 0..3 {
                let sizes = [1 + random.below(500) as usize];
                server.with(|server| server.inject(Fault::raw(&expected).split(&sizes)));
                let (read, how) = get(&mut bench.device).await;
                assert!(
                    expected.starts_with(&read),
                    "seed {seed}: bytes that nobody sent"
                );
                match how {
                    Ok(status) => {
                        assert_eq!((status, read.len()), (200, expected.len()), "seed {seed}");
                        whole += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.problem(), SerialProblem::Silent, "seed {seed}");
                        failed += 1;
                    }
                }
            }
            hits += bench.noise.hits();
            bench.noise.set(0);
            // Earlier requests may have been abandoned before they reached the server.
            server.with(|server| server.inject(Fault::raw(&expected)));
            let (read, how) = get(&mut bench.device).await;
            assert_eq!((read == expected, how), (true, Ok(200)), "seed {seed}");
        };
        LocalSet::new().run_until(run).await;
    }
    // Or there was no attempt.
    assert!(
        whole > 100 && failed > 10 && hits > 1_000,
        "{whole} whole, {failed} failed, {hits} bytes spoilt"
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_without_anybody_is_notified_after_five_tries() {
    LocalSet::new()
        .run_until(async {
            let mut bench =
                Bench::<128>::start(server().transport(), 64, 1, Duration::from_secs(60));
            bench.noise.set(10_000);
            let start = tokio::time::Instant::now();
            let (_, how) = get(&mut bench.device).await;
            let error = how.unwrap_err();
            assert_eq!(error.problem(), SerialProblem::Silent);
            assert_eq!(error.kind(), FailureKind::TimedOut);
            assert_eq!(start.elapsed(), Duration::from_millis(250));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_restarted_says_that_it_knows_of_nothing() {
    LocalSet::new()
        .run_until(async {
            let server = server();
            let mut bench = Bench::<128>::start(server.transport(), 64, 1, Duration::from_secs(60));
            let (_, mut watch) = bench
                .device
                .send(Get::new(WATCH).watch(true))
                .await
                .unwrap();
            let restart = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                bench.restart_host(server.transport()).await;
            };
            let (read, ()) = tokio::join!(watch.chunk(), restart);
            let error = read.unwrap_err();
            assert_eq!(error.problem(), SerialProblem::Gone);
            assert_eq!(error.kind(), FailureKind::Reset);
            drop(watch);
            assert_eq!(get(&mut bench.device).await.1, Ok(200));
        })
        .await;
}

/// No server may keep a watch without a reader.
#[tokio::test(start_paused = true)]
async fn a_device_that_went_away_has_its_watch_given_up() {
    LocalSet::new()
        .run_until(async {
            let open = Rc::new(Cell::new(0));
            let transport = Counted(server().transport(), Rc::clone(&open));
            let mut bench = Bench::<128>::start(transport, 64, 1, Duration::from_secs(60));
            let (_, watch) = bench
                .device
                .send(Get::new(WATCH).watch(true))
                .await
                .unwrap();
            // As in a power failure.
            std::mem::forget(watch);
            tokio::time::sleep(Duration::from_secs(59)).await;
            assert_eq!(open.get(), 1);
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(open.get(), 0);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_too_long_is_refused_at_once() {
    LocalSet::new()
        .run_until(async {
            let mut bench =
                Bench::<128>::start(server().transport(), 64, 1, Duration::from_secs(60));
            let target = format!("/api/v1/pods?continue={}", "x".repeat(2048));
            let sent = bench.device.send(Get::new(&target)).await;
            let error = sent.map(drop).unwrap_err();
            assert_eq!(error.problem(), SerialProblem::RequestTooLong);
            assert_eq!(error.kind(), FailureKind::Request);
        })
        .await;
}

/// A transport that counts its open responses.
#[derive(Clone)]
struct Counted<T>(T, Rc<Cell<usize>>);

struct CountedBody<B>(B, Rc<Cell<usize>>);

impl<T: Transport> Transport for Counted<T> {
    type Body = CountedBody<T::Body>;
    type Error = T::Error;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), T::Error> {
        let (head, body) = self.0.send(get).await?;
        self.1.set(self.1.get() + 1);
        Ok((head, CountedBody(body, Rc::clone(&self.1))))
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Error = B::Error;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, B::Error> {
        self.0.chunk().await
    }
}

impl<B> Drop for CountedBody<B> {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}
