//! User-defined code, called so that a panic in it ends nothing else.
//!
//! Every place of this crate that runs such code goes through here, or catches the panic itself where it has to know the
//! object: [`Index::values`](crate::cache::index::Index::values), [`Running`](crate::handler::registered), the controller's functions.
//! `AssertUnwindSafe` is right in all of them: the informer lends shared references only, so that what a panic leaves half
//! done belongs to the user, who gets the report. With `panic = "abort"` nothing is caught and the process ends.

use core::any::Any;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::Poll;
use std::panic::catch_unwind;

use informer_core::{
    Accept, Body, Decode, FailureKind, Get, Head, RawObject, Transport, TransportError,
};

/// What a panic carries.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Calls a function; an error is the panic.
pub(crate) fn catch<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(call))
}

/// Awaits a future, which is not polled again after a panic; an error is the panic.
pub(crate) async fn catch_async<F: Future>(future: F) -> Result<F::Output, Panic> {
    let mut future = pin!(future);
    core::future::poll_fn(|cx| match catch(|| future.as_mut().poll(cx)) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text")
}

/// A decoder or a transport whose panics are failures of the one call.
#[derive(Clone)]
pub(crate) struct Guarded<T>(pub(crate) T);

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failed<E> {
    Error(E),
    Panicked { what: &'static str, message: String },
}

impl<E> Failed<E> {
    fn of<R>(what: &'static str, called: Result<Result<R, E>, Panic>) -> Result<R, Self> {
        match called {
            Ok(result) => result.map_err(Self::Error),
            Err(panic) => {
                let message = message(&*panic).to_owned();
                Err(Self::Panicked { what, message })
            }
        }
    }
}

impl<E: fmt::Display> fmt::Display for Failed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Panicked { what, message } => write!(f, "the {what} panicked: {message}"),
        }
    }
}

/// An object on which the decoder panics is one that it cannot decode.
impl<D: Decode> Decode for Guarded<&D> {
    type Value = D::Value;
    type Error = Failed<D::Error>;

    fn decode(&self, raw: &RawObject<'_>) -> Result<D::Value, Self::Error> {
        Failed::of("decoder", catch(|| self.0.decode(raw)))
    }

    fn restore(&self, raw: &RawObject<'_>) -> Result<D::Value, Self::Error> {
        Failed::of("decoder", catch(|| self.0.restore(raw)))
    }

    fn persist(&self, raw: &RawObject<'_>, keep: &mut dyn FnMut(&[u8])) {
        self.0.persist(raw, keep);
    }

    fn fingerprint(&self) -> u64 {
        self.0.fingerprint()
    }

    fn is_costly(&self) -> bool {
        self.0.is_costly()
    }

    fn accept(&self) -> Accept {
        self.0.accept()
    }

    fn skips_managed_fields(&self) -> bool {
        self.0.skips_managed_fields()
    }
}

/// A request on which the transport panics is one that failed.
impl<T: Transport> Transport for Guarded<T> {
    type Body = Guarded<T::Body>;
    type Error = Failed<T::Error>;

    async fn ready(&mut self) {
        // The request that follows fails by itself.
        let _ = catch_async(self.0.ready()).await;
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), Self::Error> {
        let sent = Failed::of("transport", catch_async(self.0.send(get)).await);
        sent.map(|(head, body)| (head, Guarded(body)))
    }
}

impl<B: Body> Body for Guarded<B> {
    type Error = Failed<B::Error>;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Self::Error> {
        Failed::of("transport", catch_async(self.0.chunk()).await)
    }
}

impl<E: TransportError> TransportError for Failed<E> {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Error(error) => error.kind(),
            Self::Panicked { .. } => FailureKind::Other,
        }
    }

    fn connection_was_used(&self) -> bool {
        match self {
            Self::Error(error) => error.connection_was_used(),
            Self::Panicked { .. } => false,
        }
    }
}
