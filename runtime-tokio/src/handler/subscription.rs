//! Events as a stream.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::Arc;

use futures_core::Stream;
use informer_core::{
    Form,
    listeners::{ListenerConfig, ListenerId},
};

use super::event::{Event, Logged, of_logged};
use super::filter::Gate;
use crate::cache::listener::ListenerState;
use crate::cache::shared::Inner;
use crate::cache::users::Users;
use crate::health::Lag;

/// A stream of events that begins with the current state. It ends when the informer ends.
///
/// The pending events of a slow reader are merged by key. Dropping it ends the subscription.
///
/// ```
/// use informer_tokio::{Event, Informer, Raw};
/// # async fn example(pods: Informer<Raw>) {
/// let mut events = pods.subscribe();
/// while let Some(event) = events.recv().await {
///     match event {
///         Event::Added { entry, .. } => println!("+ {entry}"),
///         Event::Deleted { entry, .. } => println!("- {entry}"),
///         _ => {}
///     }
/// }
/// # }
/// ```
pub struct Subscription<F: Form> {
    inner: Arc<Inner<F::Stored>>,
    id: ListenerId,
    listener: Arc<ListenerState>,
    gate: Option<Gate<F>>,
    taken: VecDeque<Logged<F>>,
    buffer: Vec<Logged<F>>,
    _in_use: Option<Arc<Users>>,
}

impl<F: Form> Subscription<F> {
    pub(crate) fn new(
        (inner, in_use): (Arc<Inner<F::Stored>>, Option<Arc<Users>>),
        config: ListenerConfig,
        name: &str,
        gate: Option<Gate<F>>,
    ) -> Self {
        let listener = Arc::new(ListenerState::new(name));
        let id = inner.join(config, Arc::clone(&listener), None);
        Self {
            inner,
            id,
            listener,
            gate,
            taken: VecDeque::new(),
            buffer: Vec::new(),
            _in_use: in_use,
        }
    }

    /// Waits for the next event; `None` after the informer has ended and all events were read.
    pub async fn recv(&mut self) -> Option<Event<F>> {
        core::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Returns how far the reader is behind.
    #[must_use]
    pub fn lag(&self) -> Lag {
        self.inner.lag(self.id)
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event<F>>> {
        loop {
            if self.taken.is_empty() {
                core::task::ready!(self.inner.poll_take(cx, self.id, &mut self.buffer));
                self.taken.extend(self.buffer.drain(..));
            }
            let next = self.taken.pop_front();
            self.listener.take(self.taken.len());
            let Some(event) = next.map(of_logged) else {
                return Poll::Ready(None);
            };
            if matches!(event, Event::Synced) {
                self.listener.set_synced();
            }
            let passed = match &mut self.gate {
                Some(gate) => gate.pass(event),
                None => Some(event),
            };
            if passed.is_some() {
                return Poll::Ready(passed);
            }
        }
    }
}

impl<F: Form> Stream for Subscription<F> {
    type Item = Event<F>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<F>>> {
        self.get_mut().poll_recv(cx)
    }
}

impl<F: Form> Drop for Subscription<F> {
    fn drop(&mut self) {
        self.inner.leave(self.id);
    }
}

impl<F: Form> fmt::Debug for Subscription<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("informer", &self.inner.name)
            .finish_non_exhaustive()
    }
}
