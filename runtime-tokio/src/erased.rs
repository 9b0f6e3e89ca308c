//! A transport whose type is chosen at run time.

use core::any::Any;
use core::fmt;

use async_trait::async_trait;
use informer_core::{
    Body, Head, Transport,
    transport::{BoxChunk, BoxFuture, BoxSend, FailureKind, Get, SendTransport, TransportError},
};

/// A [`Transport`] as a trait object.
///
/// Most programs do not implement it: [`boxed!`](crate::boxed!) converts any transport. By hand:
///
/// ```
/// use informer_tokio::transport::{BoxTransport, DynBody, DynTransport, Get, Head, Lost};
///
/// #[derive(Clone)]
/// struct Canned;
/// struct Piece(Vec<u8>, bool);
///
/// #[informer_tokio::transport::async_trait]
/// impl DynTransport for Canned {
///     async fn send(&mut self, _get: Get<'_>) -> Result<(Head, Box<dyn DynBody>), Lost> {
///         let list = br#"{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}"#;
///         Ok((Head::new(200), Box::new(Piece(list.to_vec(), true))))
///     }
///     fn fork(&self) -> Box<dyn DynTransport> {
///         Box::new(self.clone())
///     }
/// }
///
/// #[informer_tokio::transport::async_trait]
/// impl DynBody for Piece {
///     async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost> {
///         // The returned slice is owned by `self` until the next call.
///         Ok(std::mem::take(&mut self.1).then_some(&self.0[..]))
///     }
/// }
/// let transport = BoxTransport::new(Canned);
/// # let _ = transport;
/// ```
#[async_trait]
pub trait DynTransport: Send {
    /// Waits until a request can be sent, like [`Transport::ready`]. The default does not wait.
    ///
    /// ```
    /// # async fn ask(mut transport: informer_tokio::transport::BoxTransport) {
    /// use informer_tokio::transport::DynTransport;
    /// // Unlike in `send`, a login that waits for a person does not count towards a deadline here.
    /// DynTransport::ready(&mut transport).await;
    /// # }
    /// ```
    async fn ready(&mut self) {}

    /// Sends a GET request and waits for the head of the response, like [`Transport::send`].
    ///
    /// # Errors
    /// Fails if there is no response.
    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Box<dyn DynBody>), Lost>;

    /// Returns another handle to the same transport, for another informer or namespace.
    fn fork(&self) -> Box<dyn DynTransport>;
}

/// The [`Body`] of a response as a trait object. See [`DynTransport`] for an example.
#[async_trait]
pub trait DynBody: Send {
    /// Waits for the next chunk of the body, like [`Body::chunk`]. `None` is the regular end. It must be cancel-safe
    /// too.
    ///
    /// # Errors
    /// Fails if the body ends prematurely.
    async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost>;

    /// Returns the next warning in the head of the response, like [`Body::warning`]. The default returns none.
    fn warning(&mut self) -> Option<&str> {
        None
    }
}

/// The error of a boxed transport, with the class and text of the transport's own error.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Lost {
    kind: FailureKind,
    connection_was_used: bool,
    message: String,
}

informer_core::readable_errors!(Lost);

impl Lost {
    /// Creates an error from its class and a text.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            connection_was_used: false,
            message: message.into(),
        }
    }

    /// Copies the class and text of another transport's error, for a [`DynTransport`] that wraps it.
    ///
    /// ```
    /// use informer_tokio::transport::{FailureKind, Lost, TransportError};
    ///
    /// let error = Lost::new(FailureKind::Refused, "10.0.0.1:6443 refuses the connection");
    /// assert_eq!(Lost::of(&error).kind(), FailureKind::Refused);
    /// ```
    #[must_use]
    pub fn of(error: &impl TransportError) -> Self {
        Self {
            kind: error.kind(),
            connection_was_used: error.connection_was_used(),
            message: error.to_string(),
        }
    }
}

impl TransportError for Lost {
    fn kind(&self) -> FailureKind {
        self.kind
    }

    fn connection_was_used(&self) -> bool {
        self.connection_was_used
    }
}

/// A transport whose type is chosen at run time, for example from a setting or a plugin.
///
/// Each request costs a few allocations, and each chunk one. A [`Factory`](crate::factory::Factory) uses it.
///
/// ```
/// use informer_tokio::{Informer, Raw, Resource, boxed};
/// use informer_tokio::transport::BoxTransport;
/// # use informer_mock::{FakeServer, Mock, TokioClock};
/// # fn http() -> informer_mock::MockTransport<FakeServer, TokioClock> { unreachable!() }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
/// # let over_the_bus = true;
/// # let bus = || mock.transport();
/// let transport: BoxTransport = if over_the_bus { boxed!(bus()) } else { boxed!(http()) };
/// let (pods, driver) = Informer::<Raw>::builder_for(&transport, Resource::parse("pods")?).build();
/// # Ok(())
/// # }
/// ```
pub struct BoxTransport(Box<dyn DynTransport>);

impl BoxTransport {
    /// Boxes a type that implements [`DynTransport`]. For other transports use [`boxed!`](crate::boxed!).
    #[must_use]
    pub fn new(transport: impl DynTransport + 'static) -> Self {
        Self(Box::new(transport))
    }

    /// Boxes a transport that is known to have `Send` futures. A boxed one is not boxed again.
    pub(crate) fn of<T: SendTransport>(transport: T) -> Self {
        let any: &dyn Any = &transport;
        match any.downcast_ref::<Self>() {
            Some(boxed) => boxed.clone(),
            None => erase(transport, T::boxed_ready, T::boxed_send, |body| {
                T::boxed_chunk(body, |error| Lost::of(&error))
            }),
        }
    }
}

impl SendTransport for BoxTransport {
    fn boxed_ready(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.ready())
    }

    fn boxed_send<'a>(&'a mut self, get: Get<'a>) -> BoxSend<'a, Self> {
        Box::pin(Transport::send(self, get))
    }

    fn boxed_chunk<E: Send + 'static>(
        body: &mut Self::Body,
        error: fn(Lost) -> E,
    ) -> BoxChunk<'_, E> {
        Box::pin(async move { Body::chunk(body).await.map_err(error) })
    }
}

impl Clone for BoxTransport {
    fn clone(&self) -> Self {
        Self(self.0.fork())
    }
}

impl fmt::Debug for BoxTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxTransport").finish_non_exhaustive()
    }
}

impl Transport for BoxTransport {
    type Body = Box<dyn DynBody>;
    type Error = Lost;

    async fn ready(&mut self) {
        self.0.ready().await;
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), Lost> {
        self.0.send(get).await
    }
}

#[async_trait]
impl DynTransport for BoxTransport {
    async fn ready(&mut self) {
        self.0.ready().await;
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Box<dyn DynBody>), Lost> {
        self.0.send(get).await
    }

    fn fork(&self) -> Box<dyn DynTransport> {
        self.0.fork()
    }
}

impl Body for Box<dyn DynBody> {
    type Error = Lost;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost> {
        self.as_mut().chunk().await
    }

    fn warning(&mut self) -> Option<&str> {
        self.as_mut().warning()
    }
}

/// Converts a transport to a [`BoxTransport`]. The transport must implement `Clone`, and its futures must be `Send`.
///
/// It is a macro because the compiler can prove that the futures are `Send` only where the transport's type is known.
#[macro_export]
macro_rules! boxed {
    ($transport:expr) => {
        $crate::__erase(
            $transport,
            |transport| {
                ::std::boxed::Box::pin(async move {
                    $crate::transport::Transport::ready(transport).await
                })
            },
            |transport, get| {
                ::std::boxed::Box::pin(async move {
                    $crate::transport::Transport::send(transport, get).await
                })
            },
            |body| {
                ::std::boxed::Box::pin(async move {
                    let read = $crate::transport::Body::chunk(body).await;
                    read.map_err(|error| $crate::transport::Lost::of(&error))
                })
            },
        )
    };
}

/// A transport with the functions that box its futures.
struct Erased<T: Transport> {
    transport: T,
    ready: for<'a> fn(&'a mut T) -> BoxFuture<'a, ()>,
    send: for<'a> fn(&'a mut T, Get<'a>) -> BoxSend<'a, T>,
    chunk: for<'a> fn(&'a mut T::Body) -> BoxChunk<'a, Lost>,
}

struct ErasedBody<T: Transport> {
    body: T::Body,
    chunk: for<'a> fn(&'a mut T::Body) -> BoxChunk<'a, Lost>,
}

/// The expansion of [`boxed!`](crate::boxed!).
#[doc(hidden)]
pub fn erase<T>(
    transport: T,
    ready: for<'a> fn(&'a mut T) -> BoxFuture<'a, ()>,
    send: for<'a> fn(&'a mut T, Get<'a>) -> BoxSend<'a, T>,
    chunk: for<'a> fn(&'a mut T::Body) -> BoxChunk<'a, Lost>,
) -> BoxTransport
where
    T: Transport<Body: Send, Error: Send> + Clone + Send + 'static,
{
    BoxTransport::new(Erased {
        transport,
        ready,
        send,
        chunk,
    })
}

#[async_trait]
impl<T> DynTransport for Erased<T>
where
    T: Transport<Body: Send, Error: Send> + Clone + Send + 'static,
{
    async fn ready(&mut self) {
        (self.ready)(&mut self.transport).await;
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Box<dyn DynBody>), Lost> {
        let sent = (self.send)(&mut self.transport, get).await;
        let (head, body) = sent.map_err(|error| Lost::of(&error))?;
        let chunk = self.chunk;
        Ok((head, Box::new(ErasedBody::<T> { body, chunk })))
    }

    fn fork(&self) -> Box<dyn DynTransport> {
        Box::new(Self {
            transport: self.transport.clone(),
            ..*self
        })
    }
}

impl<T> DynBody for ErasedBody<T>
where
    T: Transport<Body: Send> + 'static,
{
    // As `async_trait` writes it, but without a box around the box.
    fn chunk<'a, 'b>(&'a mut self) -> BoxFuture<'b, Result<Option<&'a [u8]>, Lost>>
    where
        'a: 'b,
        Self: 'b,
    {
        (self.chunk)(&mut self.body)
    }

    fn warning(&mut self) -> Option<&str> {
        self.body.warning()
    }
}
