//! The settings of HTTP/2.

use core::time::Duration;

use crate::builder::{HyperBuilder, LONGEST};
use crate::http2::Pings;

impl HyperBuilder {
    /// Enables or disables HTTP/1.1. It is enabled by default.
    ///
    /// Over TLS the server chooses, and HTTP/2 is preferred. In plain text there is no negotiation: the transport uses
    /// HTTP/1.1, or HTTP/2 with prior knowledge ([RFC 9113 section
    /// 3.3](https://www.rfc-editor.org/rfc/rfc9113#section-3.3)) if HTTP/1.1 is disabled here.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let only_http2 = HyperTransport::builder("https://10.0.0.1:6443").http1(false);
    /// let http2_in_plain_text = HyperTransport::builder("http://127.0.0.1:8080").http1(false);
    /// ```
    pub fn http1(mut self, allowed: bool) -> Self {
        self.protocols.http1 = allowed;
        self
    }

    /// Enables or disables HTTP/2. It is enabled by default; see [`http1`](Self::http1).
    pub fn http2(mut self, allowed: bool) -> Self {
        self.protocols.http2 = allowed;
        self
    }

    /// Sets when an HTTP/2 connection is considered dead; `None` sends no pings.
    ///
    /// After `after` without data, a ping is sent. After another `within` without data, the connection is closed. The
    /// defaults are 12 s and 10 s, so a dead connection is noticed within 22 s (30 s and 15 s in client-go). Pings are
    /// sent as long as the connection is open, also between requests. HTTP/1.1 has no pings. Times of more than a year
    /// count as a year.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// # use std::time::Duration;
    /// let as_client_go = (Duration::from_secs(30), Duration::from_secs(15));
    /// let builder = HyperTransport::builder("https://10.0.0.1:6443").pings(Some(as_client_go));
    /// ```
    pub fn pings(mut self, after_and_within: Option<(Duration, Duration)>) -> Self {
        self.http2.pings = after_and_within.map(|(after, within)| Pings {
            after: after.min(LONGEST),
            within: within.min(LONGEST),
        });
        self
    }

    /// Sets the flow-control window of an HTTP/2 stream, in bytes. The default is 1 MiB.
    ///
    /// The window bounds the memory of each stream that is not being read. It also bounds the speed of a stream to one
    /// window per round trip. The value is clamped to between 64 KiB and 2 GiB.
    ///
    /// # Examples
    /// ```
    /// # use informer_hyper::HyperTransport;
    /// let on_a_gateway = HyperTransport::builder("https://10.0.0.1:6443").http2_window(64 * 1024);
    /// ```
    pub fn http2_window(mut self, bytes: u32) -> Self {
        self.http2.window = bytes.clamp(64 * 1024 - 1, i32::MAX.unsigned_abs());
        self
    }
}
