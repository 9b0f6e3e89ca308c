//! HTTP/2: one connection for many requests at a time.
//!
//! It is on h2 rather than on hyper's client above it, for a connection without a task of its own has to know how many
//! streams the server allows, that it is going away, and what was read of a stream. h2 says all that and spawns
//! nothing.

mod driver;
mod health;

use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, StatusCode};
use tokio::time::Instant;

use crate::address::Address;
use crate::error::HyperError;
use crate::http2::driver::{Driver, Io, Ticket};
use crate::http2::health::{Health, Heard, Watched};
use crate::stream::Stream;
use crate::tls::Version;

pub(crate) use crate::http2::health::Pings;

/// How to speak HTTP/2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2Settings {
    pub(crate) pings: Option<Pings>,
    /// How much the server may send on one stream before it is read.
    pub(crate) window: u32,
}

/// One connection.
pub(crate) struct Http2 {
    server: Arc<Address>,
    version: Version,
    sender: SendRequest<Bytes>,
    driver: Arc<Driver>,
    /// How many requests are under way.
    streams: AtomicUsize,
    was_used: AtomicBool,
    idle_since: Mutex<Instant>,
}

impl Http2 {
    /// Begins to speak HTTP/2 on a stream and waits for the server to say how many requests it takes at a time.
    pub(crate) async fn open(
        server: &Arc<Address>,
        stream: Stream,
        settings: Http2Settings,
        version: Version,
    ) -> Result<Arc<Self>, HyperError> {
        let heard = Heard::now();
        let (sender, mut connection) = Builder::new()
            .initial_max_send_streams(NOT_SAID)
            .enable_push(false)
            .initial_window_size(settings.window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MOST_HEADERS)
            .handshake(Watched::new(stream, heard.clone()))
            .await
            .map_err(|error| HyperError::beginning(server, &error))?;
        let health = match (settings.pings, connection.ping_pong()) {
            (Some(pings), Some(channel)) => Some(Health::new(pings, channel, heard)),
            _ => None,
        };
        poll_fn(|cx| {
            let polled = Pin::new(&mut connection).poll(cx);
            if sender.current_max_send_streams() != NOT_SAID {
                return Poll::Ready(Ok(()));
            }
            match ready!(polled) {
                Ok(()) => Poll::Ready(Err(HyperError::not_http2(server))),
                Err(error) => Poll::Ready(Err(HyperError::beginning(server, &error))),
            }
        })
        .await?;
        if sender.current_max_send_streams() == 0 {
            return Err(HyperError::no_streams(server));
        }
        Ok(Arc::new(Self {
            server: Arc::clone(server),
            version,
            sender,
            driver: Arc::new(Driver::new(Arc::clone(server), Io { connection, health })),
            streams: AtomicUsize::new(0),
            was_used: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
        }))
    }

    /// Tells whether the connection takes new requests, after reading what there is to read. One that is going away
    /// does not, while those that it has go on.
    pub(crate) fn is_open(&self) -> bool {
        self.driver.drive_now();
        let cx = &mut Context::from_waker(Waker::noop());
        !self.driver.has_ended()
            && matches!(self.sender.clone().poll_ready(cx), Poll::Ready(Ok(())))
    }

    /// What it was opened with.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// For how long nothing was asked of it.
    pub(crate) fn idle(&self) -> Option<Duration> {
        if self.streams.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let since = self.idle_since.lock();
        Some(since.unwrap_or_else(PoisonError::into_inner).elapsed())
    }

    /// Takes one of the streams that the server allows.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<Place> {
        let most = self.sender.current_max_send_streams();
        let more = |streams| (streams < most).then_some(streams + 1);
        self.streams
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .ok()?;
        Some(Place {
            connection: Arc::clone(self),
            ticket: Ticket::default(),
        })
    }
}

/// The socket holds a waker, and with it the driver, which holds the socket. So they would stay for ever.
impl Drop for Http2 {
    fn drop(&mut self) {
        self.driver.close();
    }
}

/// The right to one stream of a connection.
pub(crate) struct Place {
    connection: Arc<Http2>,
    ticket: Ticket,
}

/// Why there is no response.
pub(crate) struct NoResponse {
    pub(crate) error: HyperError,
    /// Whether the server says that it has done nothing, so that the request can be sent again elsewhere.
    pub(crate) is_untouched: bool,
}

impl Place {
    /// Sends a request and waits for the head of its response.
    pub(crate) async fn request(
        self,
        request: Request<()>,
    ) -> Result<(StatusCode, HeaderMap, Http2Body), NoResponse> {
        let driver = Arc::clone(&self.connection.driver);
        let mut sender = self.connection.sender.clone();
        let sent = driver.and_drive(|| sender.send_request(request, true));
        drop(sender); // It may hold the stream as well, which would outlive the body.
        let (response, _) = sent.map_err(|error| self.failure(&error))?;
        let mut body = Http2Body {
            place: self,
            stage: Stage::Asked(response),
        };
        let (status, headers) = poll_fn(|cx| body.poll_head(cx)).await?;
        Ok((status, headers, body))
    }

    /// Polls something, and drives the connection where there is nothing yet.
    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let driver = &self.connection.driver;
        let mut polled = poll(cx);
        if polled.is_pending() {
            driver.register(&mut self.ticket, cx.waker());
            driver.drive();
            polled = poll(cx);
        }
        if polled.is_ready() {
            driver.leave(&mut self.ticket);
        }
        polled
    }

    fn failure(&self, error: &h2::Error) -> NoResponse {
        let connection = &self.connection;
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        let used = connection.was_used.load(Ordering::SeqCst);
        NoResponse {
            error: match connection.driver.death() {
                Some(death) => death.clone().on_used(used),
                None => HyperError::answering(&connection.server, error, used),
            },
            is_untouched: error.is_remote() && (refused || error.is_go_away()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.driver.leave(&mut self.ticket);
        let mut since = connection
            .idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *since = Instant::now();
        connection.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The body of a response, or what comes before it. Dropping it tells the server that nobody reads on.
pub(crate) struct Http2Body {
    place: Place,
    stage: Stage,
}

enum Stage {
    Asked(ResponseFuture),
    Reading(RecvStream),
    Left,
}

impl Http2Body {
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(StatusCode, HeaderMap), NoResponse>> {
        let Stage::Asked(response) = &mut self.stage else {
            return Poll::Pending;
        };
        let polled = self.place.poll(cx, |cx| Pin::new(&mut *response).poll(cx));
        let response = ready!(polled).map_err(|error| self.place.failure(&error))?;
        let (parts, stream) = response.into_parts();
        self.stage = Stage::Reading(stream);
        self.place.connection.was_used.store(true, Ordering::SeqCst);
        Poll::Ready(Ok((parts.status, parts.headers)))
    }

    /// Waits for the next piece; `None` is the clean end.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, HyperError>>> {
        let Stage::Reading(stream) = &mut self.stage else {
            return Poll::Ready(None);
        };
        let polled = self.place.poll(cx, |cx| stream.poll_data(cx));
        let connection = &self.place.connection;
        Poll::Ready(match ready!(polled) {
            Some(Ok(data)) => {
                // It fails only where the stream is over, and then there is nothing to let the server send.
                let _ = connection
                    .driver
                    .and_drive(|| stream.flow_control().release_capacity(data.len()));
                Some(Ok(data))
            }
            Some(Err(error)) => Some(Err(match connection.driver.death() {
                Some(death) => death.clone(),
                None => HyperError::reading(&connection.server, &error),
            })),
            None => None,
        })
    }
}

impl Drop for Http2Body {
    fn drop(&mut self) {
        let driver = &self.place.connection.driver;
        driver.and_drive(|| self.stage = Stage::Left);
    }
}

/// What h2 says of the server's limit while the server has said nothing. A server that has none has another figure.
const NOT_SAID: usize = usize::MAX - 1;

/// As much as can be: what is unread of one stream must never hold back another. The windows of the streams bound the
/// memory.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// An API server's heads have some hundred bytes.
const MOST_HEADERS: u32 = 64 * 1024;

#[cfg(test)]
mod tests;
