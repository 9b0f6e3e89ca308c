//! Events as a stream.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::sync::Arc;

use futures_core::Stream;
use informer_core::{Event as CoreEvent, ListenerConfig, ListenerId};

use crate::cache::entry::{Entry, Key, Shared};
use crate::cache::listener::Seat;
use crate::cache::shared::Inner;
use crate::factory::InUse;
use crate::handler::filter::Gate;
use crate::health::snapshot::Lag;

/// Something that happened.
///
/// ```
/// use informer_tokio::{Event, RawJson};
/// fn line(event: &Event<RawJson>) -> String {
///     match event {
///         Event::Added { entry, is_in_initial_list } => format!("+ {entry} {is_in_initial_list}"),
///         Event::Updated { new, .. } => format!("~ {new}"),
///         Event::Replayed { entry } => format!("= {entry}"),
///         Event::Deleted { entry, final_state_unknown } => format!("- {entry} {final_state_unknown}"),
///         Event::Synced => "that is all for now".to_owned(),
///         _ => String::new(),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<V> {
    /// There is a new object.
    Added {
        /// The object.
        entry: Entry<V>,
        /// Whether it belongs to the first state that this listener is shown.
        is_in_initial_list: bool,
    },
    /// An object changed.
    Updated {
        /// What it was.
        old: Entry<V>,
        /// What it is.
        new: Entry<V>,
    },
    /// An object is as it was: a replay by a resync, and no news.
    Replayed {
        /// The object.
        entry: Entry<V>,
    },
    /// An object is gone.
    Deleted {
        /// The object as the deletion carried it, or its last known state.
        entry: Entry<V>,
        /// Whether nobody saw it go, so that there may have been changes before that are not known.
        final_state_unknown: bool,
    },
    /// The first state is complete, and all of it was told.
    Synced,
}

impl<V> Event<V> {
    pub(crate) fn of(event: CoreEvent<Key, Shared<V>>) -> Self {
        match event {
            CoreEvent::Added {
                key,
                object,
                is_in_initial_list,
            } => Self::Added {
                entry: Entry::new(key, object),
                is_in_initial_list,
            },
            CoreEvent::Updated { key, old, object } => Self::Updated {
                old: Entry::new(key.clone(), old),
                new: Entry::new(key, object),
            },
            CoreEvent::Replayed { key, object } => Self::Replayed {
                entry: Entry::new(key, object),
            },
            CoreEvent::Deleted {
                key,
                object,
                final_state_unknown,
            } => Self::Deleted {
                entry: Entry::new(key, object),
                final_state_unknown,
            },
            CoreEvent::Synced | _ => Self::Synced,
        }
    }
}

/// A stream of what happens, which starts with the present state. It ends when the informer does.
///
/// Who reads too slowly gets the rest coalesced by key. Dropping it ends the subscription.
///
/// ```
/// use informer_tokio::{Event, Informer, RawJson};
/// # async fn example(pods: Informer<RawJson>) {
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
pub struct Subscription<V> {
    inner: Arc<Inner<V>>,
    id: ListenerId,
    seat: Arc<Seat>,
    gate: Option<Gate<V>>,
    taken: VecDeque<CoreEvent<Key, Shared<V>>>,
    buffer: Vec<CoreEvent<Key, Shared<V>>>,
    _in_use: Option<Arc<InUse>>,
}

impl<V> Subscription<V> {
    pub(crate) fn new(
        (inner, in_use): (Arc<Inner<V>>, Option<Arc<InUse>>),
        config: ListenerConfig,
        name: &str,
        gate: Option<Gate<V>>,
    ) -> Self {
        let seat = Arc::new(Seat::new(name));
        let id = inner.join(config, Arc::clone(&seat));
        Self {
            inner,
            id,
            seat,
            gate,
            taken: VecDeque::new(),
            buffer: Vec::new(),
            _in_use: in_use,
        }
    }

    /// Waits for the next event; `None` when the informer has ended and all was read.
    ///
    /// ```
    /// # async fn example(mut events: informer_tokio::Subscription<informer_tokio::RawJson>) {
    /// let first = events.recv().await;
    /// # }
    /// ```
    pub async fn recv(&mut self) -> Option<Event<V>> {
        core::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Returns how far the reader is behind.
    ///
    /// ```
    /// # fn example(events: informer_tokio::Subscription<informer_tokio::RawJson>) {
    /// println!("{:?}", events.lag());
    /// # }
    /// ```
    #[must_use]
    pub fn lag(&self) -> Lag {
        self.inner.lag(self.id)
    }

    /// Returns how many events wait to be read: [`Lag::pending`].
    ///
    /// ```
    /// # fn example(events: informer_tokio::Subscription<informer_tokio::RawJson>) {
    /// println!("{} wait", events.pending());
    /// # }
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.lag().pending
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event<V>>> {
        loop {
            if self.taken.is_empty() {
                core::task::ready!(self.inner.poll_take(cx, self.id, &mut self.buffer));
                self.taken.extend(self.buffer.drain(..));
            }
            let next = self.taken.pop_front();
            self.seat.take(self.taken.len());
            let Some(event) = next.map(Event::of) else {
                return Poll::Ready(None);
            };
            if matches!(event, Event::Synced) {
                self.seat.set_synced();
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

impl<V> Stream for Subscription<V> {
    type Item = Event<V>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<V>>> {
        self.get_mut().poll_recv(cx)
    }
}

impl<V> Drop for Subscription<V> {
    fn drop(&mut self) {
        self.inner.leave(self.id);
    }
}

impl<V> fmt::Debug for Subscription<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("informer", &self.inner.name)
            .finish_non_exhaustive()
    }
}
