//! The fault proxy does exactly what it documents, to the byte.

use core::time::Duration;
use std::io::ErrorKind;

use informer_tests::proxy::{Cut, FaultProxy, Random};
use informer_tests::support::PATIENCE;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A server that answers each byte with a thousand copies.
async fn proxied() -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let upstream = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    if stream.write_all(&[byte; 1000]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    FaultProxy::start(None, upstream).await.expect("a port")
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address())
        .await
        .expect("it listens")
}

/// Sends a byte and reads the answer, which must be complete.
async fn ask(stream: &mut TcpStream, byte: u8) {
    stream.write_u8(byte).await.expect("it is sent");
    let mut answer = [0; 1000];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await;
    read.expect("in time").expect("the whole answer");
    assert_eq!(answer, [byte; 1000]);
}

/// Reads to the end, which may be an error.
async fn rest(stream: &mut TcpStream) -> (usize, Result<(), ErrorKind>) {
    let mut bytes = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let end = end
        .expect("it ends")
        .map(drop)
        .map_err(|error| error.kind());
    (bytes.len(), end)
}

#[tokio::test]
async fn it_cuts_at_a_byte() {
    let proxy = proxied().await;
    proxy.cut_next_at(1010, Cut::Close);
    let mut stream = connect(&proxy).await;
    ask(&mut stream, 1).await;
    stream.write_u8(2).await.expect("it is sent");
    assert_eq!(rest(&mut stream).await, (10, Ok(())));

    let mut stream = connect(&proxy).await;
    ask(&mut stream, 3).await;
    proxy.cut_after(999, Cut::Close);
    stream.write_u8(4).await.expect("it is sent");
    assert_eq!(rest(&mut stream).await, (999, Ok(())));
}

#[tokio::test]
async fn it_closes_and_resets() {
    let proxy = proxied().await;
    let mut stream = connect(&proxy).await;
    ask(&mut stream, 1).await;
    proxy.cut(Cut::Close);
    assert_eq!(rest(&mut stream).await, (0, Ok(())));
    let mut stream = connect(&proxy).await;
    ask(&mut stream, 1).await;
    proxy.cut(Cut::Reset);
    assert_eq!(
        rest(&mut stream).await,
        (0, Err(ErrorKind::ConnectionReset))
    );
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn it_holds_back_and_lets_go() {
    let proxy = proxied().await;
    let mut stream = connect(&proxy).await;
    ask(&mut stream, 1).await;
    proxy.stall(true);
    stream.write_u8(2).await.expect("it is sent");
    let mut byte = [0];
    let nothing = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut byte)).await;
    assert!(nothing.is_err(), "{nothing:?}");
    proxy.stall(false);
    let mut answer = [0; 1000];
    stream
        .read_exact(&mut answer)
        .await
        .expect("nothing is lost");
    assert_eq!(answer, [2; 1000]);
    proxy.delay(Duration::from_millis(5));
    proxy.bandwidth(Some(100_000));
    ask(&mut stream, 3).await;
}

#[tokio::test]
async fn a_frozen_connection_stays_half_open_and_others_work() {
    let proxy = proxied().await;
    let mut frozen = connect(&proxy).await;
    ask(&mut frozen, 1).await;
    proxy.freeze();
    frozen
        .write_u8(2)
        .await
        .expect("it is sent, and goes nowhere");
    let mut other = connect(&proxy).await;
    ask(&mut other, 3).await;
    let mut byte = [0];
    let nothing = tokio::time::timeout(Duration::from_millis(200), frozen.read(&mut byte)).await;
    assert!(nothing.is_err(), "{nothing:?}");
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn it_refuses_and_accepts_again() {
    let proxy = proxied().await;
    let mut stream = connect(&proxy).await;
    ask(&mut stream, 1).await;
    proxy.refuse(true);
    let refused = async {
        loop {
            match TcpStream::connect(proxy.address()).await {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
                // It was still listening a moment ago.
                Err(_) | Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await;
    refused.expect("in time");
    // Open connections continue.
    ask(&mut stream, 2).await;
    proxy.refuse(false);
    let accepted = async {
        loop {
            match TcpStream::connect(proxy.address()).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let accepted = tokio::time::timeout(PATIENCE, accepted).await;
    ask(&mut accepted.expect("in time"), 3).await;
}

#[test]
fn the_same_seed_gives_the_same() {
    let numbers = |seed| {
        let mut random = Random::new(seed);
        (0..100).map(|_| random.between(3, 9)).collect::<Vec<_>>()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    assert!(numbers(3).iter().all(|number| (3..=9).contains(number)));
}
