//! A TCP proxy that treats connections as networks do: delays, stalls, cuts, resets, silence.
//!
//! It does not interpret the bytes, so it works between any client and any server, TLS included.

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

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// Both ends are closed: each side reads the end of the stream.
    Close,
    /// Both ends are reset.
    Reset,
}

/// The conditions that apply to all connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Weather {
    delay: Duration,
    /// Bytes per second, per direction and connection.
    bandwidth: Option<u32>,
    stalled: bool,
    refusing: bool,
}

/// A command to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Run,
    /// Bytes stop without notice: even the end of one side is not passed on to the other.
    Freeze,
    Cut(Cut),
}

/// A connection through the proxy.
#[derive(Debug)]
struct Connection {
    order: watch::Sender<Order>,
    /// The number of bytes sent to the client.
    down: AtomicU64,
    /// The number of bytes to the client after which it is cut.
    limit: Mutex<Option<(u64, Cut)>>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    weather: watch::Sender<Weather>,
    live: Mutex<Vec<Arc<Connection>>>,
    /// Cuts prepared for future connections, in order.
    laid: Mutex<Vec<(u64, Cut)>>,
    accepted: AtomicU64,
}

/// A running proxy. Dropping it ends it and all connections through it.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy on a free local port, or at `listen`, that connects to `upstream`.
    ///
    /// # Errors
    /// Fails if the port cannot be bound.
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

    /// Returns the address on which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of connections accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Relaxed)
    }

    /// Returns the number of open connections, including frozen ones.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.shared.live).len()
    }

    /// Returns the number of bytes sent to clients on open connections.
    #[must_use]
    pub fn bytes_down(&self) -> u64 {
        lock(&self.shared.live)
            .iter()
            .map(|connection| connection.down.load(Relaxed))
            .sum()
    }

    /// Delays all bytes, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.shared
            .weather
            .send_modify(|weather| weather.delay = delay);
    }

    /// Limits the bytes per second, per direction and connection; `None` is unlimited.
    pub fn bandwidth(&self, bytes: Option<u32>) {
        self.shared
            .weather
            .send_modify(|weather| weather.bandwidth = bytes);
    }

    /// Stops all bytes, or lets them continue. Nothing is lost meanwhile.
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

    /// Leaves the open connections half open: their bytes stop forever, and neither side is notified. New connections
    /// work.
    pub fn freeze(&self) {
        self.order(Order::Freeze);
    }

    /// Ends the open connections.
    pub fn cut(&self, cut: Cut) {
        self.order(Order::Cut(cut));
    }

    /// Ends each open connection after this many more bytes to the client.
    pub fn cut_after(&self, bytes: u64, cut: Cut) {
        for connection in lock(&self.shared.live).iter() {
            let at = connection.down.load(Relaxed) + bytes;
            *lock(&connection.limit) = Some((at, cut));
        }
    }

    /// Ends the next new connection after this many bytes to the client. Several such cuts apply to one connection
    /// each, in order.
    pub fn cut_next_at(&self, bytes: u64, cut: Cut) {
        lock(&self.shared.laid).push((bytes, cut));
    }

    /// Removes delays, limits, stalls and cuts prepared for future connections.
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

/// Accepts connections until it is dropped. It owns their tasks.
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
            // Never fails: the sender is in `shared`.
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
                // Out of file descriptors, or the client has already left.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        },
    }
}

async fn carry(client: TcpStream, connection: Arc<Connection>, shared: Arc<Shared>) {
    match TcpStream::connect(shared.upstream).await {
        Ok(server) => pump::pump(client, server, &connection, &shared).await,
        // A client of a proxy is accepted before the proxy knows that the server is unreachable.
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
