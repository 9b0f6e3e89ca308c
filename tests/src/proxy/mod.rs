//! A proxy for TCP that does to connections what networks do: delays, stalls, cuts, resets, silence.
//!
//! It knows nothing of what it carries, so that it stands between any client and any server, TLS included.

mod chaos;
mod pump;

pub use chaos::{Chaos, Random};

use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How a connection is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Both ends are closed: each side reads the end of the stream.
    Close,
    /// Both ends are reset.
    Reset,
}

/// What is done to all that passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Weather {
    delay: Duration,
    /// Bytes a second, each way and connection.
    bandwidth: Option<u32>,
    stalled: bool,
    refusing: bool,
}

/// What a connection is told to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Run,
    /// Bytes stop, and nobody is told: not even the end of a side goes to the other one.
    Freeze,
    Cut(Cut),
}

/// A connection that came through the proxy.
#[derive(Debug)]
struct Connection {
    order: watch::Sender<Order>,
    /// How many bytes went to the client.
    down: AtomicU64,
    /// After how many bytes to the client it is cut.
    limit: Mutex<Option<(u64, Cut)>>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    weather: watch::Sender<Weather>,
    live: Mutex<Vec<Arc<Connection>>>,
    /// Cuts that are laid for connections to come, first come first served.
    laid: Mutex<Vec<(u64, Cut)>>,
    accepted: AtomicU64,
}

/// A running proxy. It ends when it is dropped, and with it what goes through it.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy on a free port of this machine, or at `listen`, that connects to `upstream`.
    ///
    /// # Errors
    /// Fails where the port cannot be had.
    pub async fn start(listen: Option<SocketAddr>, upstream: SocketAddr) -> io::Result<Self> {
        let listen = listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            weather: watch::Sender::new(Weather::default()),
            live: Mutex::default(),
            laid: Mutex::default(),
            accepted: AtomicU64::new(0),
        });
        let task = tokio::spawn(accept(listener, address, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            task,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it has accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Relaxed)
    }

    /// How many connections there are, frozen ones included.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.shared.live).len()
    }

    /// How many bytes went to clients by the connections that there are.
    #[must_use]
    pub fn bytes_down(&self) -> u64 {
        lock(&self.shared.live)
            .iter()
            .map(|connection| connection.down.load(Relaxed))
            .sum()
    }

    /// Holds every piece back for so long, each way.
    pub fn delay(&self, delay: Duration) {
        self.shared
            .weather
            .send_modify(|weather| weather.delay = delay);
    }

    /// Lets so many bytes pass in a second, each way and connection; `None` is without limit.
    pub fn bandwidth(&self, bytes: Option<u32>) {
        self.shared
            .weather
            .send_modify(|weather| weather.bandwidth = bytes);
    }

    /// Stops all bytes, or lets them go on. Nothing is lost meanwhile.
    pub fn stall(&self, stalled: bool) {
        self.shared
            .weather
            .send_modify(|weather| weather.stalled = stalled);
    }

    /// Refuses new connections, or accepts them again.
    pub fn refuse(&self, refusing: bool) {
        self.shared
            .weather
            .send_modify(|weather| weather.refusing = refusing);
    }

    /// Leaves the connections that there are half open: their bytes stop for ever, and neither side is told. New
    /// connections work.
    pub fn freeze(&self) {
        self.order(Order::Freeze);
    }

    /// Ends the connections that there are.
    pub fn cut(&self, cut: Cut) {
        self.order(Order::Cut(cut));
    }

    /// Ends each of the connections that there are after so many more bytes to the client.
    pub fn cut_after(&self, bytes: u64, cut: Cut) {
        for connection in lock(&self.shared.live).iter() {
            let at = connection.down.load(Relaxed) + bytes;
            *lock(&connection.limit) = Some((at, cut));
        }
    }

    /// Ends the next connection that comes after so many bytes to the client. Several of these wait for one
    /// connection each.
    pub fn cut_next_at(&self, bytes: u64, cut: Cut) {
        lock(&self.shared.laid).push((bytes, cut));
    }

    /// Forgets delays, limits, stalls and what was laid for connections to come.
    pub fn calm(&self) {
        self.shared
            .weather
            .send_modify(|weather| *weather = Weather::default());
        lock(&self.shared.laid).clear();
        for connection in lock(&self.shared.live).iter() {
            *lock(&connection.limit) = None;
        }
    }

    fn order(&self, order: Order) {
        for connection in lock(&self.shared.live).iter() {
            connection.order.send_replace(order);
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts until it is dropped; the connections are its own tasks.
async fn accept(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut listener = Some(listener);
    let mut weather = shared.weather.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let refusing = weather.borrow_and_update().refusing;
        match (&listener, refusing) {
            (Some(_), true) => listener = None,
            (None, false) => listener = TcpListener::bind(address).await.ok(),
            (Some(_), false) | (None, true) => {}
        }
        tokio::select! {
            accepted = next(listener.as_ref()) => {
                let connection = shared.connection();
                connections.spawn(carry(accepted, connection, Arc::clone(&shared)));
            }
            // The sender is in `shared`.
            _ = weather.changed() => {}
            Some(_) = connections.join_next() => {}
            () = tokio::time::sleep(Duration::from_millis(50)), if listener.is_none() && !refusing => {}
        }
    }
}

async fn next(listener: Option<&TcpListener>) -> TcpStream {
    match listener {
        None => core::future::pending().await,
        Some(listener) => loop {
            match listener.accept().await {
                Ok((client, _)) => break client,
                // Out of descriptors, or a client that is gone already.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        },
    }
}

async fn carry(client: TcpStream, connection: Arc<Connection>, shared: Arc<Shared>) {
    match TcpStream::connect(shared.upstream).await {
        Ok(server) => pump::pump(client, server, &connection, &shared).await,
        // Whoever connects to a proxy is let in before it is known that there is no server.
        Err(_) => pump::end(client, Cut::Reset).await,
    }
    lock(&shared.live).retain(|other| !Arc::ptr_eq(other, &connection));
}

impl Shared {
    fn connection(&self) -> Arc<Connection> {
        self.accepted.fetch_add(1, Relaxed);
        let mut laid = lock(&self.laid);
        let limit = (!laid.is_empty()).then(|| laid.remove(0));
        let connection = Arc::new(Connection {
            order: watch::Sender::new(Order::Run),
            down: AtomicU64::new(0),
            limit: Mutex::new(limit),
        });
        lock(&self.live).push(Arc::clone(&connection));
        connection
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
