//! A transport whose type is chosen at run time.

use core::fmt;

use async_trait::async_trait;
use informer_core::{
    Body, Head, Transport,
    transport::{FailureKind, Get, TransportError},
};

/// A transport as an object: what [`Transport`] asks for, in a form that fits behind a pointer.
///
/// Most programs do not write one: [`boxed!`](crate::boxed!) makes it of any transport. By hand:
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
///         // What is lent is kept here until the next call.
///         Ok(std::mem::take(&mut self.1).then_some(&self.0[..]))
///     }
/// }
/// let transport = BoxTransport::new(Canned);
/// # let _ = transport;
/// ```
#[async_trait]
pub trait DynTransport: Send {
    /// Waits until a request can be sent; the default does not wait: [`Transport::ready`].
    ///
    /// ```
    /// # async fn ask(mut transport: informer_tokio::transport::BoxTransport) {
    /// use informer_tokio::transport::DynTransport;
    /// // A login that waits for a person counts for no deadline here, as it would in `send`.
    /// DynTransport::ready(&mut transport).await;
    /// # }
    /// ```
    async fn ready(&mut self) {}

    /// Sends a GET request and waits for the head of the response: [`Transport::send`].
    ///
    /// # Errors
    /// Fails where there is no response at all.
    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Box<dyn DynBody>), Lost>;

    /// Returns another handle on the same transport, for another informer or another namespace.
    fn fork(&self) -> Box<dyn DynTransport>;
}

/// The body of a response as an object: what [`Body`] asks for. See [`DynTransport`] for an example.
///
/// ```
/// async fn length(mut body: Box<dyn informer_tokio::transport::DynBody>) -> Result<usize, informer_tokio::transport::Lost> {
///     let mut length = 0;
///     while let Some(chunk) = body.chunk().await? {
///         length += chunk.len();
///     }
///     Ok(length)
/// }
/// ```
#[async_trait]
pub trait DynBody: Send {
    /// Waits for more of the body; `None` is its clean end: [`Body::chunk`], and as there it is cancel-safe.
    ///
    /// # Errors
    /// Fails where the body ends before its end.
    async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost>;
}

/// Why a transport that is an object failed: what the transport's own error says.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Lost {
    kind: FailureKind,
    connection_was_used: bool,
    message: String,
}

informer_core::readable_errors!(Lost);

impl Lost {
    /// Makes an error of its class and of a line for a person.
    #[must_use]
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            connection_was_used: false,
            message: message.into(),
        }
    }

    /// Takes over what another transport's error says.
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

/// A transport whose type is not known before the program runs: one of several, or one that a plugin brings.
///
/// It costs an allocation for each request and each chunk. A [`Factory`](crate::factory::Factory) uses it.
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
/// let (pods, driver) = Informer::builder(transport, Resource::parse("pods")?, Raw).build();
/// # Ok(())
/// # }
/// ```
pub struct BoxTransport(Box<dyn DynTransport>);

impl BoxTransport {
    /// Boxes a transport that is one by hand. For any other one there is [`boxed!`](crate::boxed!).
    #[must_use]
    pub fn new(transport: impl DynTransport + 'static) -> Self {
        Self(Box::new(transport))
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
    type Body = BoxBody;
    type Error = Lost;

    async fn ready(&mut self) {
        self.0.ready().await;
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, BoxBody), Lost> {
        let (head, body) = self.0.send(get).await?;
        Ok((head, BoxBody(body)))
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

/// The body of a response of a [`BoxTransport`].
pub struct BoxBody(Box<dyn DynBody>);

impl Body for BoxBody {
    type Error = Lost;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost> {
        self.0.chunk().await
    }
}

impl fmt::Debug for BoxBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxBody").finish_non_exhaustive()
    }
}

/// Makes a [`BoxTransport`] of any transport that can be cloned and whose futures are `Send`.
///
/// It is a macro because only where the transport's type is named does the compiler know that its futures are `Send`.
///
/// ```
/// use informer_mock::{FakeServer, Mock, TokioClock};
/// let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
/// let transport: informer_tokio::transport::BoxTransport = informer_tokio::boxed!(mock.transport());
/// ```
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
                ::std::boxed::Box::pin(async move { $crate::transport::Body::chunk(body).await })
            },
        )
    };
}

/// What [`boxed!`](crate::boxed!) expands to.
#[doc(hidden)]
pub(crate) mod erase {
    use core::pin::Pin;

    use async_trait::async_trait;
    use informer_core::{Body, Head, Transport, transport::Get};

    use super::{BoxTransport, DynBody, DynTransport, Lost};

    type Pinned<'a, O> = Pin<Box<dyn Future<Output = O> + Send + 'a>>;

    type Sent<'a, T> = Pinned<'a, Result<(Head, <T as Transport>::Body), <T as Transport>::Error>>;
    type Read<'a, T> =
        Pinned<'a, Result<Option<&'a [u8]>, <<T as Transport>::Body as Body>::Error>>;

    struct Erased<T: Transport> {
        transport: T,
        ready: for<'a> fn(&'a mut T) -> Pinned<'a, ()>,
        send: for<'a> fn(&'a mut T, Get<'a>) -> Sent<'a, T>,
        chunk: for<'a> fn(&'a mut T::Body) -> Read<'a, T>,
    }

    struct ErasedBody<T: Transport> {
        body: T::Body,
        chunk: for<'a> fn(&'a mut T::Body) -> Read<'a, T>,
    }

    #[doc(hidden)]
    pub fn erase<T>(
        transport: T,
        ready: for<'a> fn(&'a mut T) -> Pinned<'a, ()>,
        send: for<'a> fn(&'a mut T, Get<'a>) -> Sent<'a, T>,
        chunk: for<'a> fn(&'a mut T::Body) -> Read<'a, T>,
    ) -> BoxTransport
    where
        T: Transport<Error: Send> + Clone + Send + 'static,
        T::Body: Send,
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
        T: Transport<Error: Send> + Clone + Send + 'static,
        T::Body: Send,
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
                ready: self.ready,
                send: self.send,
                chunk: self.chunk,
            })
        }
    }

    #[async_trait]
    impl<T> DynBody for ErasedBody<T>
    where
        T: Transport<Error: Send> + 'static,
        T::Body: Send,
    {
        async fn chunk(&mut self) -> Result<Option<&[u8]>, Lost> {
            let read = (self.chunk)(&mut self.body).await;
            read.map_err(|error| Lost::of(&error))
        }
    }
}
