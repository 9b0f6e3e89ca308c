//! Decoders and transports whose panics fail a single call.

use core::fmt;

use informer_core::{
    Body, Decode, Head, RawObject, Transport,
    decode::Accept,
    transport::{FailureKind, Get, TransportError},
};

use tracing::Span;

use crate::cache::panics::{Panic, catch, catch_async, message};
use crate::spans::Traced;

/// Wraps a decoder or a transport. A panic fails only the current call.
#[derive(Clone)]
pub(crate) struct Guarded<T>(pub(crate) T);

impl<T, P: Fn() -> Span> Guarded<Traced<T, P>> {
    /// Wraps a transport, whose requests have spans in the one that `within` returns.
    pub(crate) const fn traced(transport: T, within: P) -> Self {
        Self(Traced { transport, within })
    }
}

/// The reason why a call failed.
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

/// A panic of the decoder counts as a decoding error of the object.
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

    fn is_in_pieces(&self) -> bool {
        self.0.is_in_pieces()
    }

    fn accept(&self) -> Accept {
        self.0.accept()
    }

    fn skips_managed_fields(&self) -> bool {
        self.0.skips_managed_fields()
    }
}

/// A panic of the transport counts as a failed request.
impl<T: Transport> Transport for Guarded<T> {
    type Body = Guarded<T::Body>;
    type Error = Failed<T::Error>;

    async fn ready(&mut self) {
        // The following request fails by itself.
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

    fn warning(&mut self) -> Option<&str> {
        catch(|| self.0.warning()).ok()?
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
