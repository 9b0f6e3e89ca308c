//! Forwards the bytes of one connection.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::{Connection, Cut, Order, Shared, lock};

/// The maximum number of bytes read at once.
const PIECE: usize = 16 * 1024;

/// Forwards in both directions until both sides have ended or the connection is ordered to end.
pub(super) async fn pump(
    client: TcpStream,
    server: TcpStream,
    connection: &Connection,
    shared: &Shared,
) {
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut orders = connection.order.subscribe();
    let cut = {
        let up = one_way(&mut from_client, &mut to_server, connection, shared, false);
        let down = one_way(&mut from_server, &mut to_client, connection, shared, true);
        let both = async { tokio::try_join!(up, down).err() };
        tokio::select! {
            cut = both => cut,
            order = orders.wait_for(|order| matches!(order, Order::Cut(_))) => match order.as_deref() {
                Ok(Order::Cut(cut)) => Some(*cut),
                Ok(_) | Err(_) => None,
            },
        }
    };
    let (Some(cut), Ok(client), Ok(server)) = (
        cut,
        from_client.reunite(to_client),
        from_server.reunite(to_server),
    ) else {
        return;
    };
    tokio::join!(end(client, cut), end(server, cut));
}

/// Ends a connection in the way that the other end must see.
pub(super) async fn end(mut stream: TcpStream, cut: Cut) {
    match cut {
        Cut::Reset => {
            // Makes the drop of the stream reset it.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
        Cut::Close => {
            // Dropping a socket with unread bytes would reset it, so read them first.
            let _ = stream.shutdown().await;
            let mut rest = [0; 1024];
            let _ = tokio::time::timeout(Duration::from_secs(1), async {
                while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
            })
            .await;
        }
    }
}

/// Forwards in one direction until the end or the cut.
async fn one_way(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    connection: &Connection,
    shared: &Shared,
    is_down: bool,
) -> Result<(), Cut> {
    let mut buffer = vec![0; PIECE];
    let mut weather = shared.weather.subscribe();
    let mut orders = connection.order.subscribe();
    loop {
        let count = from.read(&mut buffer).await.map_err(|_| Cut::Reset)?;
        let mut piece = &buffer[..count];
        let delay = weather.borrow().delay;
        tokio::time::sleep(delay).await;
        if piece.is_empty() {
            flowing(&mut weather, &mut orders).await;
            let _ = to.shutdown().await;
            return Ok(());
        }
        while !piece.is_empty() {
            flowing(&mut weather, &mut orders).await;
            let bandwidth = weather.borrow().bandwidth;
            let mut share = piece.len();
            if let Some(bandwidth) = bandwidth {
                // Ten shares per second.
                share = share.min(usize::try_from(bandwidth / 10).unwrap_or(PIECE).max(1));
            }
            let limit = if is_down {
                *lock(&connection.limit)
            } else {
                None
            };
            if let Some((at, cut)) = limit {
                let left = at.saturating_sub(connection.down.load(Relaxed));
                let Some(left) = usize::try_from(left).ok().filter(|left| *left > 0) else {
                    return Err(cut);
                };
                share = share.min(left);
            }
            let (now, rest) = piece.split_at(share);
            to.write_all(now).await.map_err(|_| Cut::Reset)?;
            if is_down {
                connection.down.fetch_add(share as u64, Relaxed);
                if let Some((at, cut)) = limit
                    && connection.down.load(Relaxed) >= at
                {
                    return Err(cut);
                }
            }
            piece = rest;
            if let Some(bandwidth) = bandwidth {
                let micros = share as u64 * 1_000_000 / u64::from(bandwidth.max(1));
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
        }
    }
}

/// Waits while bytes are stalled.
async fn flowing(
    weather: &mut watch::Receiver<super::Weather>,
    orders: &mut watch::Receiver<Order>,
) {
    // The senders live as long as the proxy and the connection.
    let _ = weather.wait_for(|weather| !weather.stalled).await;
    let _ = orders.wait_for(|order| *order != Order::Freeze).await;
}
