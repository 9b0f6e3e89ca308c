//! Responses over a line that loses, changes and inserts bytes, and frames that do not continue a response.

use std::time::Duration;

use informer_core::{
    Body, Transport,
    transport::{FailureKind, Get, TransportError},
};
use informer_mock::{FakeServer, Fault, Mock, TokioClock};
use informer_serial::SerialError;
use informer_serial::frame::{Decoder, encode};
use informer_serial::host::{SILENCE, serve};
use informer_serial::message::{Header, Kind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use crate::support::{Device, Random, connect};

fn server() -> Mock<FakeServer, TokioClock> {
    Mock::with_clock(FakeServer::new(1), TokioClock::new())
}

/// Reads a response. Returns the data before an error too.
async fn get(device: &mut Device) -> (Vec<u8>, Result<u16, SerialError>) {
    let mut read = Vec::new();
    let (head, mut body) = match device.send(Get::new("/api/v1/pods")).await {
        Ok(answer) => answer,
        Err(error) => return (read, Err(error)),
    };
    loop {
        match body.chunk().await {
            Ok(Some(bytes)) => read.extend_from_slice(bytes),
            Ok(None) => return (read, Ok(head.status)),
            Err(error) => {
                // It has not ended, however often it is asked.
                assert_eq!(body.chunk().await.unwrap_err(), error);
                return (read, Err(error));
            }
        }
    }
}

/// Under noise a response is correct or an error, and the data before the error is correct too. Without noise it is
/// correct, whatever happened before.
#[tokio::test(start_paused = true)]
async fn responses_under_noise_are_correct_or_errors() {
    let (mut whole, mut failed) = (0, 0);
    for seed in 0..150 {
        let run = async {
            let mut random = Random::new(seed);
            let length = random.below(4000);
            let expected: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            let server = server();
            let (mut device, noise) = connect(server.transport(), 64, seed);
            for level in [1, 10, 100, 0] {
                noise.set(level);
                server.with(|server| {
                    // Earlier requests may have been lost before they reached the server.
                    server.clear_faults();
                    server.inject(Fault::raw(&expected).split(&[1 + length as usize / 3]));
                });
                let start = Instant::now();
                let (read, how) = get(&mut device).await;
                assert!(expected.starts_with(&read), "seed {seed}: wrong bytes");
                match how {
                    Ok(status) => {
                        assert_eq!((status, read.len()), (200, expected.len()), "seed {seed}");
                        whole += 1;
                    }
                    Err(error) => {
                        assert_eq!((error.kind(), level > 0), (FailureKind::TimedOut, true));
                        assert_eq!(start.elapsed(), Duration::from_secs(5), "seed {seed}");
                        failed += 1;
                    }
                }
            }
        };
        LocalSet::new().run_until(run).await;
    }
    // Or there was no attempt.
    assert!(whole > 200 && failed > 100, "{whole} whole, {failed} not");
}

/// The host's end of a line, with its frames written and read one by one.
struct Raw(DuplexStream);

impl Raw {
    async fn write(&mut self, kind: Kind, number: u32, data: &[u8]) {
        let header = Header { kind, number }.to_bytes();
        let frame: Vec<u8> = encode(&[&header, data]).collect();
        self.0.write_all(&frame).await.unwrap();
    }

    /// Waits for the next frame.
    async fn read(&mut self) -> (Kind, u32) {
        let mut decoder = Decoder::<512>::new();
        while !decoder.push(self.0.read_u8().await.unwrap()) {}
        let (header, _) = Header::parse(decoder.content()).unwrap();
        (header.kind, header.number)
    }
}

const WATCH: &[u8] = b"\x01/api/v1/pods?watch=true&resourceVersion=1\napplication/json";

/// A frame that does not continue the response ends it, and so does silence: no server may keep a watch without a reader.
#[tokio::test(start_paused = true)]
async fn a_response_is_continued_in_order_or_not_at_all() {
    let server = server();
    let (device, host) = duplex(4096);
    let (reader, writer) = split(host);
    let check = async {
        let mut host = Raw(device);
        // After a restart the host knows no response.
        host.write(Kind::More, 7, b"").await;
        assert_eq!(host.read().await, (Kind::Failed, 7));
        for skipped in [false, true] {
            host.write(Kind::Ask, 7, WATCH).await;
            assert_eq!(host.read().await, (Kind::Head, 7));
            // The device has repeated an interrupted write.
            host.write(Kind::More, 8, b"").await;
            host.write(Kind::More, 8, b"").await;
            assert_eq!(host.read().await, (Kind::Nothing, 8));
            let next = if skipped {
                10
            } else {
                sleep(SILENCE - Duration::from_secs(1)).await;
                assert_eq!(server.with(FakeServer::open_responses), (1, 1));
                sleep(Duration::from_secs(2)).await;
                9
            };
            host.write(Kind::More, next, b"").await;
            assert_eq!(host.read().await, (Kind::Failed, next));
            assert_eq!(server.with(FakeServer::open_responses).0, 0);
        }
        // Frames of its own kinds, from a line with an echo, are not answered.
        host.write(Kind::Failed, 10, b"").await;
        host.write(Kind::Ask, 11, WATCH).await;
        assert_eq!(host.read().await, (Kind::Head, 11));
    };
    tokio::select! {
        ended = serve(reader, writer, server.transport()) => panic!("{ended:?}"),
        () = check => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_is_refused_at_once() {
    let run = async {
        let (mut device, _) = connect(server().transport(), 64, 1);
        let target = format!("/api/v1/pods?continue={}", "x".repeat(2048));
        let error = device.send(Get::new(&target)).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Request);
    };
    LocalSet::new().run_until(run).await;
}
