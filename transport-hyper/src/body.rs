//! Response bodies.

use alloc::sync::Arc;
use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use hyper::body::{Body as HttpBody, Frame, Incoming};
use informer_core::Body;
use tokio::time::{Instant, Sleep, sleep};

use crate::address::Address;
use crate::builder::LONGEST;
use crate::error::HyperError;
use crate::gzip::{Gunzip, GzipError};
use crate::http1::Http1;
use crate::http2::Http2Body;
use crate::pool::Slot;

/// The body of a response.
///
/// Reading an HTTP/1.1 body drives its connection. When it has been read to its end, the connection returns to the
/// transport; dropping it earlier closes the connection. Dropping an HTTP/2 body resets its stream only.
/// After a failure, every further read returns the same error; after the end, every further read returns the end.
///
/// Gzip bodies are decoded. A decoded chunk is at most 32 KiB long. The data of a gzip member is returned before the
/// member's checksum has arrived, and a wrong checksum is an error.
pub struct HyperBody {
    from: Origin,
    state: BodyState,
    /// The bytes received last. They are lent to the caller as they are, or decoded first.
    received: Bytes,
    gzip: Option<Gzip>,
    silence: Option<Silence>,
    /// The warnings of the head that were not taken yet, the last one first.
    warnings: Vec<String>,
    /// The one that is lent.
    warning: String,
}

/// Limits the time without data.
struct Silence {
    limit: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether a read is pending. The timer counts from the moment at which it began.
    waiting: bool,
    /// Whether the limit is for the whole body.
    is_total: bool,
}

impl Silence {
    fn new(limit: Duration) -> Self {
        let limit = limit.min(LONGEST);
        Self {
            limit,
            timer: Box::pin(sleep(limit)),
            waiting: false,
            is_total: false,
        }
    }

    /// Resolves when a read has been pending for too long. Time without a pending read does not count.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.limit);
        }
        self.timer.as_mut().poll(cx)
    }
}

enum BodyState {
    Open(BodySource),
    Ended,
    Failed(HyperError),
}

/// The source of a body's data.
pub(crate) enum BodySource {
    Http1 {
        connection: Box<Http1>,
        incoming: Incoming,
        /// The pool's slot to which the connection returns at the end.
        slot: Slot,
    },
    Http2(Http2Body),
    /// A text instead of the server's.
    Text(Option<String>),
    #[cfg(feature = "tower")]
    Service(Pin<Box<dyn Pieces + Send>>),
}

/// Any `http_body::Body`, as chunks of bytes.
#[cfg(feature = "tower")]
pub(crate) trait Pieces {
    fn poll_piece(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>>;
}

#[cfg(feature = "tower")]
type BoxError = Box<dyn core::error::Error + Send + Sync>;

#[cfg(feature = "tower")]
impl<B: HttpBody<Error: Into<BoxError>>> Pieces for B {
    fn poll_piece(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        use bytes::Buf as _;
        self.poll_frame(cx).map(|frame| match frame? {
            Ok(frame) => Some(Ok(frame.into_data().map_or_else(
                |_trailers| Bytes::new(),
                |mut data| data.copy_to_bytes(data.remaining()),
            ))),
            Err(error) => Some(Err(error.into())),
        })
    }
}

/// The sender of a body, as named in errors.
#[derive(Clone)]
pub(crate) enum Origin {
    Server(Arc<Address>),
    #[cfg(feature = "tower")]
    Service,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(address) => address.fmt(f),
            #[cfg(feature = "tower")]
            Self::Service => f.write_str("the service"),
        }
    }
}

struct Gzip {
    decoder: Gunzip,
    /// The number of chunks decoded since this task last yielded.
    in_a_row: u32,
}

impl HyperBody {
    pub(crate) fn new(
        from: Origin,
        headers: &HeaderMap,
        source: BodySource,
        silence: Option<Duration>,
    ) -> Self {
        let open = BodyState::Open(source);
        let (state, gzip) = match Coding::of(headers) {
            Coding::Identity => (open, None),
            Coding::Gzip => (open, Some(Gzip::new())),
            Coding::Unknown(name) => (BodyState::Failed(HyperError::encoding(&from, &name)), None),
        };
        Self {
            from,
            state,
            received: Bytes::new(),
            gzip,
            silence: silence.map(Silence::new),
            warnings: Vec::new(),
            warning: String::new(),
        }
    }

    /// Limits the time until the end of the body.
    pub(crate) fn within(mut self, limit: Duration) -> Self {
        self.silence = Some(Silence {
            waiting: true,
            is_total: true,
            ..Silence::new(limit)
        });
        self
    }

    /// Adds the warnings of the head.
    pub(crate) fn warning_of(mut self, mut warnings: Vec<String>) -> Self {
        warnings.reverse();
        self.warnings = warnings;
        self
    }

    /// Prepares the next chunk. Returns `false` at the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, HyperError>> {
        loop {
            let source = match &mut self.state {
                BodyState::Open(source) => source,
                BodyState::Ended => return Poll::Ready(Ok(false)),
                BodyState::Failed(error) => return Poll::Ready(Err(error.clone())),
            };
            if let Some(gzip) = &mut self.gzip {
                match ready!(gzip.poll_decode(&mut self.received, cx)) {
                    Ok(true) => return Poll::Ready(Ok(true)),
                    Ok(false) => {}
                    Err(error) => {
                        self.fail(HyperError::decoding(&self.from, &error));
                        continue;
                    }
                }
            }
            // All of it has been used. Releasing it lets its owner reuse the memory.
            self.received = Bytes::new();
            let polled = source.poll_data(&self.from, cx);
            if let Some(silence) = &mut self.silence {
                if polled.is_ready() {
                    silence.waiting = silence.is_total;
                } else if silence.poll_over(cx).is_ready() {
                    let limit = silence.limit;
                    self.fail(HyperError::slow(&self.from, "read on from", limit));
                    continue;
                }
            }
            match ready!(polled) {
                Some(Ok(data)) => {
                    self.received = data;
                    // Empty chunks have no meaning.
                    if self.gzip.is_none() && !self.received.is_empty() {
                        return Poll::Ready(Ok(true));
                    }
                }
                Some(Err(error)) => self.fail(error),
                None => match self.gzip.as_ref().map(|gzip| gzip.decoder.finish()) {
                    None | Some(Ok(())) => self.end(cx),
                    Some(Err(error)) => self.fail(HyperError::decoding(&self.from, &error)),
                },
            }
        }
    }

    fn fail(&mut self, error: HyperError) {
        self.received = Bytes::new();
        self.gzip = None;
        self.state = BodyState::Failed(error);
    }

    /// Ends the body and returns the connection to the pool, if the connection can be reused.
    fn end(&mut self, cx: &mut Context<'_>) {
        self.received = Bytes::new();
        self.gzip = None;
        let state = core::mem::replace(&mut self.state, BodyState::Ended);
        if let BodyState::Open(BodySource::Http1 {
            mut connection,
            slot,
            ..
        }) = state
        {
            connection.set_used();
            if connection.poll_alive(cx) {
                slot.put(*connection);
            }
        }
    }
}

impl BodySource {
    fn poll_data(
        &mut self,
        from: &Origin,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, HyperError>>> {
        let (connection, incoming) = match self {
            Self::Http1 {
                connection,
                incoming,
                ..
            } => (connection, incoming),
            Self::Http2(body) => return body.poll_data(cx),
            Self::Text(text) => return Poll::Ready(text.take().map(|text| Ok(text.into()))),
            #[cfg(feature = "tower")]
            Self::Service(body) => {
                let polled = body.as_mut().poll_piece(cx);
                return polled.map_err(|error| HyperError::reading(from, &*error));
            }
        };
        let mut polled = Pin::new(&mut *incoming).poll_frame(cx);
        if polled.is_pending() {
            connection.drive(cx);
            polled = Pin::new(&mut *incoming).poll_frame(cx);
        }
        polled.map(|frame| match frame? {
            // Trailers are not used.
            Ok(frame) => Some(Ok(frame.into_data().unwrap_or_default())),
            Err(error) => Some(Err(HyperError::reading(from, &error))),
        })
    }
}

impl Body for HyperBody {
    type Error = HyperError;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, HyperError> {
        let more = poll_fn(|cx| self.poll_chunk(cx)).await?;
        let chunk = match &self.gzip {
            Some(gzip) => gzip.decoder.output(),
            None => &self.received,
        };
        Ok(more.then_some(chunk))
    }

    fn warning(&mut self) -> Option<&str> {
        self.warning = self.warnings.pop()?;
        Some(&self.warning)
    }
}

/// As the body of a response of the [`Service`](tower_service::Service). It has no trailers.
impl HttpBody for HyperBody {
    type Data = Bytes;
    type Error = HyperError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HyperError>>> {
        let more = match ready!(self.poll_chunk(cx)) {
            Ok(more) => more,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let data = match &self.gzip {
            Some(gzip) if more => Bytes::copy_from_slice(gzip.decoder.output()),
            _ => core::mem::take(&mut self.received),
        };
        Poll::Ready(more.then(|| Ok(Frame::data(data))))
    }
}

impl Gzip {
    fn new() -> Self {
        Self {
            decoder: Gunzip::new(),
            in_a_row: 0,
        }
    }

    /// Decodes more output; `false` means that more input is needed. A few compressed bytes can expand to much data, so
    /// the task yields after `MOST_IN_A_ROW` chunks.
    fn poll_decode(
        &mut self,
        input: &mut Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, GzipError>> {
        if self.in_a_row == MOST_IN_A_ROW {
            self.in_a_row = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let decoded = self.decoder.decode(input);
        self.in_a_row = match decoded {
            Ok(true) => self.in_a_row + 1,
            // The next step reads from the socket, and tokio makes that yield.
            Ok(false) | Err(_) => 0,
        };
        Poll::Ready(decoded)
    }
}

/// The number of chunks decoded before the task yields: 1 MiB of data.
const MOST_IN_A_ROW: u32 = 32;

/// The content encoding of a body.
#[derive(PartialEq, Eq, Debug)]
enum Coding {
    Identity,
    Gzip,
    Unknown(String),
}

impl Coding {
    fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONTENT_ENCODING).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        let names = values.iter().flat_map(|value| value.split(','));
        let names: Vec<_> = names
            .map(str::trim)
            .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"))
            .collect();
        match *names {
            [] => Self::Identity,
            [name] if GZIP.iter().any(|gzip| name.eq_ignore_ascii_case(gzip)) => Self::Gzip,
            _ => Self::Unknown(names.join(", ")),
        }
    }
}

/// The names of gzip. The second one is used by old servers.
const GZIP: [&str; 2] = ["gzip", "x-gzip"];

impl fmt::Debug for HyperBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            BodyState::Open(_) => "open",
            BodyState::Ended => "ended",
            BodyState::Failed(_) => "failed",
        };
        write!(f, "HyperBody({}, {state})", self.from)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::task::Waker;
    use std::task::Wake;

    use http::HeaderValue;

    use super::*;
    use crate::gzip::tests::member;

    fn coding(values: &[&'static str]) -> Coding {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        Coding::of(&headers)
    }

    #[test]
    fn the_encoding_is_found_in_all_its_spellings() {
        for values in [&[][..], &[""], &["identity"], &["Identity", " , "]] {
            assert_eq!(coding(values), Coding::Identity, "{values:?}");
        }
        for values in [
            &["gzip"][..],
            &[" GZip "],
            &["x-gzip"],
            &["identity, gzip"],
            &["", "gzip"],
        ] {
            assert_eq!(coding(values), Coding::Gzip, "{values:?}");
        }
        for (values, name) in [
            (&["br"][..], "br"),
            (&["gzip,br"], "gzip, br"),
            (&["gzip", "gzip"], "gzip, gzip"),
            (&["gzipped"], "gzipped"),
        ] {
            assert_eq!(coding(values), Coding::Unknown(name.to_owned()));
        }
    }

    /// Records whether it was woken.
    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_decoder_that_lets_others_run_is_polled_again() {
        let mut gzip = Gzip::new();
        let mut input = Bytes::from(member(&[0; 5 << 20]));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let (mut chunks, mut pauses) = (0, 0);
        loop {
            match gzip.poll_decode(&mut input, &mut Context::from_waker(&waker)) {
                Poll::Ready(Ok(true)) => chunks += 1,
                Poll::Ready(decoded) => break assert_eq!(decoded, Ok(false)),
                Poll::Pending => {
                    assert!(
                        woken.0.swap(false, Ordering::SeqCst),
                        "it waits for nothing"
                    );
                    pauses += 1;
                }
            }
        }
        assert_eq!((chunks, pauses), (5 * MOST_IN_A_ROW, 5));
    }
}
