//! One HTTP/2 connection over TLS, with many watches. Its server is another process on loopback.

use core::future::poll_fn;
use core::time::Duration;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use h2::SendStream;
use informer_core::{Body, Transport, transport::Get};
use informer_hyper::{HyperBody, HyperTransport};
use rustix::time::{ClockId, clock_gettime};
use rustls::ServerConfig;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::compare::Server;
use crate::server::self_signed;

/// What is measured.
#[derive(Args, Clone, Copy)]
pub struct Plan {
    /// How many watches the connection has, up to 200
    #[arg(long, default_value_t = 100, value_parser = numbers(1).range(1..=200))]
    watches: usize,
    /// Events a second of all watches, to measure latencies
    #[arg(long, default_value_t = 20_000, value_parser = numbers(1))]
    rate: usize,
    /// Events at that rate, at least 200, and as many again as fast as the client reads
    #[arg(long, default_value_t = 100_000, value_parser = numbers(200))]
    events: usize,
    /// The bytes of an event, at least 8
    #[arg(long, default_value_t = 512, value_parser = numbers(8))]
    size: usize,
    /// The megabytes of a list, which is read ten times
    #[arg(long, default_value_t = 20)]
    list: usize,
    /// The client's threads
    #[arg(long, default_value_t = 1, value_parser = numbers(1))]
    threads: usize,
}

/// Accepts numbers from `least` on.
fn numbers(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

/// Measures a client in this process. Its server serves one connection, so a client with two would not end.
///
/// # Errors
/// Fails if the server cannot be started, or a request fails.
pub fn run(plan: Plan) -> io::Result<String> {
    let server = Server::run(&["http2-server".to_owned()])?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(plan.threads)
        .enable_all()
        .build()?;
    runtime.block_on(async { runtime.spawn(measure(server.url.clone(), plan)).await? })
}

async fn measure(url: String, plan: Plan) -> io::Result<String> {
    let transport = HyperTransport::builder(url).insecure_skip_tls_verify(true);
    let transport = transport.build().map_err(io::Error::other)?;
    let mut bodies = Vec::new();
    for _ in 0..plan.watches {
        bodies.push(get(&transport, "/watch").await?);
    }
    let (each, size) = (plan.events / plan.watches, plan.size);
    let paced = format!("/events/{each}/{size}/{}", plan.rate);
    let (mut lags, _, paced_cpu) = events(&transport, &mut bodies, &paced, each, size).await?;
    let flood = format!("/events/{each}/{size}/0");
    let (all, took, flood_cpu) = events(&transport, &mut bodies, &flood, each, size).await?;
    let (began, before) = (Instant::now(), cpu());
    for _ in 0..10 {
        let mut list = get(&transport, &format!("/list/{}", plan.list)).await?;
        while list.chunk().await.map_err(io::Error::other)?.is_some() {}
    }
    let (lists, list_cpu) = (began.elapsed(), cpu().saturating_sub(before));
    lags.sort_unstable();
    let lag = |percent| {
        lags.get(lags.len() * percent / 100)
            .map_or(0, |lag| lag / 1000)
    };
    Ok(format!(
        "watches={} rate={} p50_us={} p99_us={} cpu_us_per_event={:.2} flood_events_s={:.0} flood_cpu_us_per_event={:.2} list_mb_s={:.0} list_cpu_ms={:.1}",
        plan.watches,
        plan.rate,
        lag(50),
        lag(99),
        paced_cpu.as_secs_f64() * 1e6 / lags.len() as f64,
        all.len() as f64 / took.as_secs_f64(),
        flood_cpu.as_secs_f64() * 1e6 / all.len() as f64,
        (10 * plan.list) as f64 / lists.as_secs_f64(),
        list_cpu.as_secs_f64() * 1e3 / 10.0,
    ))
}

async fn get(transport: &HyperTransport, path: &str) -> io::Result<HyperBody> {
    let answer = transport.clone().send(Get::new(path)).await;
    Ok(answer.map_err(io::Error::other)?.1)
}

/// Requests this many events for each watch, and reads each watch in a task. Returns the latencies, the time, and the
/// processor time of this process.
async fn events(
    transport: &HyperTransport,
    bodies: &mut Vec<HyperBody>,
    path: &str,
    each: usize,
    size: usize,
) -> io::Result<(Vec<u64>, Duration, Duration)> {
    let mut tasks = JoinSet::new();
    let (began, before) = (Instant::now(), cpu());
    for body in bodies.drain(..) {
        tasks.spawn(read(body, each, size));
    }
    get(transport, path).await?;
    let mut lags = Vec::with_capacity(each * tasks.len());
    while let Some(read) = tasks.join_next().await {
        let (body, of_one) = read??;
        lags.extend(of_one);
        bodies.push(body);
    }
    Ok((lags, began.elapsed(), cpu().saturating_sub(before)))
}

async fn read(
    mut body: HyperBody,
    events: usize,
    size: usize,
) -> io::Result<(HyperBody, Vec<u64>)> {
    let mut lags = Vec::with_capacity(events);
    let mut event = Vec::with_capacity(size);
    while lags.len() < events {
        let chunk = body.chunk().await.map_err(io::Error::other)?;
        let mut chunk = chunk.ok_or(io::ErrorKind::UnexpectedEof)?;
        let now = nanoseconds();
        while !chunk.is_empty() {
            let (piece, rest) = chunk.split_at(chunk.len().min(size - event.len()));
            event.extend_from_slice(piece);
            chunk = rest;
            if event.len() == size {
                let sent = event.first_chunk().copied().unwrap_or_default();
                lags.push(now.saturating_sub(u64::from_be_bytes(sent)));
                event.clear();
            }
        }
    }
    Ok((body, lags))
}

fn cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime)
        .try_into()
        .unwrap_or_default()
}

fn nanoseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

type Watches = Arc<Mutex<Vec<SendStream<Bytes>>>>;

/// Serves one connection.
///
/// # Errors
/// Fails if the client does not speak HTTP/2 over TLS.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    let mut config = ServerConfig::clone(&*self_signed()?);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (tcp, _) = listener.accept()?;
    tcp.set_nodelay(true)?;
    tcp.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let tcp = tokio::net::TcpStream::from_std(tcp)?;
        let tls = TlsAcceptor::from(Arc::new(config)).accept(tcp).await?;
        let mut builder = h2::server::Builder::new();
        let connection = builder.max_concurrent_streams(250).handshake(tls).await;
        let mut connection = connection.map_err(io::Error::other)?;
        let watches = Watches::default();
        // The end of the client ends the process.
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let mut parts = request.uri().path().split('/').skip(1);
            let kind = parts.next().unwrap_or_default();
            let numbers: Vec<_> = parts.map(|part| part.parse().unwrap_or(0)).collect();
            let response = http::Response::new(());
            let stream = respond.send_response(response, kind == "events");
            let mut stream = stream.map_err(io::Error::other)?;
            match (kind, &*numbers) {
                ("watch", []) => lock(&watches).push(stream),
                ("events", &[each, size, 0]) => {
                    for mut watch in lock(&watches).drain(..) {
                        tokio::spawn(async move {
                            for _ in 0..each {
                                send(&mut watch, event(size)).await?;
                            }
                            poll_fn(|cx| watch.poll_reset(cx)).await
                        });
                    }
                }
                ("events", &[each, size, rate]) => {
                    let watches = Arc::clone(&watches);
                    std::thread::spawn(move || pace(&mut lock(&watches), each, size, rate));
                }
                (_, &[megabytes]) => {
                    tokio::spawn(async move {
                        send(&mut stream, vec![b'x'; megabytes * 1_000_000].into()).await?;
                        stream.send_data(Bytes::new(), true)
                    });
                }
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        Ok(())
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event with the time of its sending.
fn event(size: usize) -> Bytes {
    let mut event = nanoseconds().to_be_bytes().to_vec();
    event.resize(size, b'x');
    event.into()
}

/// Sends events at a fixed rate. A thread sleeps for shorter times than a timer of tokio.
fn pace(watches: &mut [SendStream<Bytes>], each: usize, size: usize, rate: usize) {
    let began = Instant::now();
    let mut sent = 0;
    while sent < each * watches.len() {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as usize;
        while sent < due.min(each * watches.len()) {
            let watch = sent % watches.len();
            // The client reports a stream that has ended.
            let _ = watches[watch].send_data(event(size), false);
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        while stream.capacity() == 0 {
            poll_fn(|cx| stream.poll_capacity(cx)).await.transpose()?;
        }
        let room = stream.capacity().min(data.len());
        stream.send_data(data.split_to(room), false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_events_and_lists_arrive_over_one_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || serve(&listener));
        let plan = Plan {
            watches: 3,
            rate: 10_000,
            events: 300,
            size: 100,
            list: 1,
            threads: 1,
        };
        let line = measure(url, plan).await.unwrap();
        assert!(line.starts_with("watches=3 rate=10000 p50_us="), "{line}");
    }
}
