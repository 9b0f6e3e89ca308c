//! HTTP/2: one connection for many concurrent requests.
//!
//! It uses h2 directly rather than hyper's client. hyper's client counts a connection as dead if a pong is late while
//! data arrives, and it does not tell callers how many streams the server allows.

mod error;
mod health;

use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::address::Address;
use crate::error::{HyperError, MOST_HEAD, NoResponse};
use crate::http2::health::Health;
use crate::stream::Stream;
use crate::tls::Version;

pub(crate) use crate::http2::error::{io_error, is_remote, may_be_of_head};
pub(crate) use crate::http2::health::Pings;

/// The settings of HTTP/2 connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2Settings {
    pub(crate) pings: Option<Pings>,
    /// The flow-control window of a stream: the most bytes that the server may send before they are read.
    pub(crate) window: u32,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self {
            pings: Some(Pings {
                after: Duration::from_secs(12),
                within: Duration::from_secs(10),
            }),
            window: 1024 * 1024,
        }
    }
}

/// The reason why the connection ended, if it is more precise than the error that its streams get.
type Death = Arc<OnceLock<HyperError>>;

/// One HTTP/2 connection. A task on the runtime that opened it drives its I/O until it is dropped.
pub(crate) struct Http2 {
    server: Arc<Address>,
    version: Version,
    sender: SendRequest<Bytes>,
    /// The task that drives the I/O.
    task: AbortHandle,
    death: Death,
    /// The number of requests in progress.
    streams: AtomicUsize,
    was_used: AtomicBool,
    idle_since: Mutex<Instant>,
}

impl Http2 {
    /// Starts HTTP/2 on a stream, and waits until the server announces how many concurrent streams it allows.
    pub(crate) async fn open(
        server: &Arc<Address>,
        stream: Stream,
        settings: Http2Settings,
        version: Version,
    ) -> Result<Arc<Self>, HyperError> {
        let heard = stream.heard();
        let (sender, mut connection) = Builder::new()
            .initial_max_send_streams(NOT_SAID)
            .enable_push(false)
            .initial_window_size(settings.window)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MOST_HEAD)
            .handshake(stream)
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
        let death = Death::default();
        let driving = drive(connection, health, Arc::clone(server), Arc::clone(&death));
        Ok(Arc::new(Self {
            server: Arc::clone(server),
            version,
            sender,
            task: tokio::spawn(driving).abort_handle(),
            death,
            streams: AtomicUsize::new(0),
            was_used: AtomicBool::new(false),
            idle_since: Mutex::new(Instant::now()),
        }))
    }

    /// Returns whether the connection accepts new requests. After a GOAWAY it does not, but its open streams continue.
    pub(crate) fn is_open(&self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        matches!(self.sender.clone().poll_ready(cx), Poll::Ready(Ok(())))
    }

    /// The version of the TLS configuration that the connection was opened with.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The time since the last request ended; `None` while a request is in progress.
    pub(crate) fn idle(&self) -> Option<Duration> {
        if self.streams.load(Ordering::SeqCst) > 0 {
            return None;
        }
        let since = self.idle_since.lock();
        Some(since.unwrap_or_else(PoisonError::into_inner).elapsed())
    }

    /// Reserves one of the streams that the server allows.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<StreamSlot> {
        let most = self.sender.current_max_send_streams();
        let more = |streams| (streams < most).then_some(streams + 1);
        self.streams
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .ok()?;
        Some(StreamSlot {
            connection: Arc::clone(self),
        })
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Drives the I/O of a connection until it ends. h2 gives the reason to each stream.
async fn drive(
    mut connection: Connection<Stream, Bytes>,
    mut health: Option<Health>,
    server: Arc<Address>,
    death: Death,
) {
    poll_fn(|cx| {
        // Received data is read before the connection may be declared dead.
        if Pin::new(&mut connection).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(health) = &mut health else {
            return Poll::Pending;
        };
        let silence = ready!(health.poll_dead(cx));
        let _ = death.set(HyperError::silent(&server, silence));
        Poll::Ready(())
    })
    .await;
}

/// The right to open one stream of a connection.
pub(crate) struct StreamSlot {
    connection: Arc<Http2>,
}

impl StreamSlot {
    /// Sends a request and waits for the head of its response.
    pub(crate) async fn request(
        self,
        request: Request<Bytes>,
    ) -> Result<(StatusCode, HeaderMap, Http2Body), NoResponse> {
        let (mut parts, data) = request.into_parts();
        if !data.is_empty() {
            parts.headers.insert(CONTENT_LENGTH, data.len().into());
        }
        let mut sender = self.connection.sender.clone();
        let sent = sender.send_request(Request::from_parts(parts, ()), data.is_empty());
        drop(sender); // It may hold the stream too, which would then outlive the body.
        let (response, stream) = sent.map_err(|error| NoResponse {
            is_untouched: !self.connection.is_open(),
            ..self.failure(&error)
        })?;
        let mut body = Http2Body {
            stage: Stage::Asked(response),
            upload: (!data.is_empty()).then_some(Upload { stream, data }),
            place: self,
        };
        let (status, headers) = poll_fn(|cx| body.poll_head(cx)).await?;
        Ok((status, headers, body))
    }

    fn failure(&self, error: &h2::Error) -> NoResponse {
        let connection = &self.connection;
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        let used = connection.was_used.load(Ordering::SeqCst);
        NoResponse {
            error: match connection.death.get() {
                Some(death) => death.clone().on_used(used),
                None => HyperError::answering(&connection.server, error, used),
            },
            is_untouched: error.is_remote() && (refused || error.is_go_away()),
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let connection = &self.connection;
        let mut since = connection
            .idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *since = Instant::now();
        connection.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The rest of a request's body.
struct Upload {
    stream: SendStream<Bytes>,
    data: Bytes,
}

impl Upload {
    /// Sends as much as the server's window allows. If the server does not want the rest, the response says why.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.data.is_empty() {
            self.stream.reserve_capacity(self.data.len());
            let room = self.stream.capacity().min(self.data.len());
            if room == 0 {
                match ready!(self.stream.poll_capacity(cx)) {
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => break,
                }
            }
            let piece = self.data.split_to(room);
            if self.stream.send_data(piece, self.data.is_empty()).is_err() {
                break;
            }
        }
        Poll::Ready(())
    }
}

/// The body of a response, or the wait for its head. Dropping it resets the stream.
pub(crate) struct Http2Body {
    stage: Stage,
    upload: Option<Upload>,
    place: StreamSlot,
}

enum Stage {
    Asked(ResponseFuture),
    Reading(RecvStream),
}

impl Http2Body {
    fn send_on(&mut self, cx: &mut Context<'_>) {
        if let Some(upload) = &mut self.upload
            && upload.poll_end(cx).is_ready()
        {
            self.upload = None;
        }
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(StatusCode, HeaderMap), NoResponse>> {
        self.send_on(cx);
        let Stage::Asked(response) = &mut self.stage else {
            return Poll::Pending;
        };
        let polled = Pin::new(response).poll(cx);
        let response = ready!(polled).map_err(|error| self.place.failure(&error))?;
        let (parts, stream) = response.into_parts();
        self.stage = Stage::Reading(stream);
        self.place.connection.was_used.store(true, Ordering::SeqCst);
        Poll::Ready(Ok((parts.status, parts.headers)))
    }

    /// Waits for the next chunk; `None` is the regular end.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, HyperError>>> {
        self.send_on(cx);
        let Stage::Reading(stream) = &mut self.stage else {
            return Poll::Ready(None);
        };
        let polled = stream.poll_data(cx);
        let connection = &self.place.connection;
        Poll::Ready(match ready!(polled) {
            Some(Ok(data)) => {
                // It fails only if the stream has ended, and then the window no longer matters.
                let _ = stream.flow_control().release_capacity(data.len());
                Some(Ok(data))
            }
            Some(Err(error)) => Some(Err(match connection.death.get() {
                Some(death) => death.clone(),
                None => HyperError::reading(&connection.server, &error),
            })),
            None => None,
        })
    }
}

/// h2's value for the server's limit before the server has sent its settings. A server without a limit has another
/// value.
const NOT_SAID: usize = usize::MAX - 1;

/// The largest possible window: unread data of one stream must never hold back another. The windows of the streams
/// bound the memory.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

#[cfg(test)]
mod tests;
