//! The body of a response on a port, compressed, and with the faults that are visible only there.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future as _, poll_fn};
use core::pin::pin;
use core::task::Poll;

use informer_core::transport::FailureKind;

use super::gzip::{self, Gzip};
use super::wire::Wire;
use crate::backend::{Backend, Compression, ResponseHead};
use crate::mock::Exchange;
use crate::service::{Boxed, Chunks, Part};
use crate::tokio_clock::TokioClock;

/// Reads a response.
pub(super) struct Reading<B: Backend> {
    exchange: Exchange<B, TokioClock>,
    wire: Arc<Wire>,
    http2: bool,
    /// The parts that are read to learn the length of the body.
    ahead: VecDeque<Vec<u8>>,
    gzip: Option<Gzip>,
    /// The number of announced bytes that are not read; `None` over HTTP/2, where the client checks the length.
    left: Option<u64>,
    ended: bool,
}

impl<B: Backend> Reading<B> {
    pub(super) const fn new(
        exchange: Exchange<B, TokioClock>,
        wire: Arc<Wire>,
        http2: bool,
    ) -> Self {
        Self {
            exchange,
            wire,
            http2,
            ahead: VecDeque::new(),
            gzip: None,
            left: None,
            ended: false,
        }
    }

    /// Waits for the head.
    pub(super) async fn head(
        &mut self,
        compression: Compression,
    ) -> Result<ResponseHead, FailureKind> {
        let head = self.exchange.head().await;
        let mut head = self.checked(head).await?;
        self.gzip = match compression {
            // Error responses are short, and a body with a false length must keep that length.
            _ if head.status != 200 || head.content_length.is_some() => None,
            Compression::None => None,
            Compression::EachFlush => Some(Gzip::each_flush()),
            Compression::Large => self.large().await?.then(Gzip::whole),
        };
        if self.gzip.is_some() {
            head.set_header("Content-Encoding", "gzip");
        }
        if !self.http2 {
            self.left = head.content_length;
        }
        if self.left == Some(0) {
            self.spill().await;
        }
        self.wire.sending();
        Ok(head)
    }

    /// Reads until the body is known to be worth compressing.
    async fn large(&mut self) -> Result<bool, FailureKind> {
        let mut length = 0;
        while length <= gzip::LARGE {
            let part = self.exchange.raw_chunk().await;
            let Some(bytes) = self.checked(part).await? else {
                self.ended = true;
                return Ok(false);
            };
            length += bytes.len();
            self.ahead.push_back(bytes);
        }
        Ok(true)
    }

    async fn next(&mut self) -> Part {
        while !self.ended || !self.ahead.is_empty() {
            let part = match self.ahead.pop_front() {
                Some(bytes) => Some(bytes),
                None => {
                    let part = self.exchange.raw_chunk().await;
                    self.checked(part).await?
                }
            };
            self.ended |= part.is_none();
            let part = match (part, &mut self.gzip) {
                (part, None) => Ok(part.unwrap_or_default()),
                (Some(bytes), Some(gzip)) => gzip.write(&bytes),
                (None, Some(_)) => self.gzip.take().map_or(Ok(Vec::new()), Gzip::finish),
            };
            let mut bytes = part.map_err(|_| FailureKind::Other)?;
            if bytes.is_empty() {
                continue;
            }
            self.wire.sending();
            self.cut(&mut bytes).await;
            return Ok(Some(bytes));
        }
        if self.left.is_some_and(|left| left > 0) {
            // hyper closes the connection.
            self.wire.sent().await;
        }
        Ok(None)
    }

    /// Counts the bytes of a body of announced length, and sends those beyond it by another way than hyper's.
    async fn cut(&mut self, bytes: &mut Vec<u8>) {
        let Some(left) = &mut self.left else {
            return;
        };
        let fitting = usize::try_from(*left)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        *left -= fitting as u64;
        let full = *left == 0;
        self.wire.surplus(&bytes.split_off(fitting));
        if full {
            self.spill().await;
        }
    }

    /// Sends the parts that are there after the announced end of the body.
    async fn spill(&mut self) {
        loop {
            let part = {
                let mut part = pin!(self.exchange.raw_chunk());
                poll_fn(|context| Poll::Ready(part.as_mut().poll(context))).await
            };
            let Poll::Ready(Ok(Some(bytes))) = part else {
                self.ended = true;
                return;
            };
            self.wire.surplus(&bytes);
        }
    }

    /// Over HTTP/1.1, a failed response resets the connection. What it has sent before arrives.
    async fn checked<T>(&self, result: Result<T, FailureKind>) -> Result<T, FailureKind> {
        if result.is_err() {
            self.wire.sent().await;
            if !self.http2 {
                self.wire.reset();
            }
        }
        result
    }
}

impl<B: Backend + Send> Chunks for Reading<B> {
    fn chunk(&mut self) -> Boxed<'_, Part> {
        Box::pin(self.next())
    }
}
