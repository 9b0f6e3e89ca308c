//! Handlers and subscriptions for a subset of the objects.

use core::fmt;
use std::collections::HashSet;

use super::event::Event;
use super::event_handler::{AsyncEventHandler, EventHandler, deliver, deliver_async};
use crate::cache::entry::{Entry, Key};

/// A handler that is called only for objects that match a predicate, like client-go's `FilteringResourceEventHandler`.
///
/// An object that begins to match is notified as an add, and one that ceases to match as a delete of its old state. The
/// keys of the objects that the handler knows are stored, so it is notified of the end of exactly those, whatever the
/// predicate returns for the object's last state.
///
/// ```
/// use informer_tokio::{Handlers, Informer, Metadata};
/// # fn example(pods: Informer<Metadata>) {
/// let web = Handlers::<Metadata>::new()
///     .on_add(|pod, _| println!("+ {pod}"))
///     .filter(|pod| pod.label("app").is_some_and(|app| app.to_string() == "web"));
/// pods.add_handler(web);
/// # }
/// ```
pub struct Filter<V, H> {
    gate: Gate<V>,
    handler: H,
}

impl<V, H> Filter<V, H> {
    /// Creates a handler of any kind that receives only the objects for which `keep` returns `true`.
    #[must_use]
    pub fn new(keep: impl FnMut(&Entry<V>) -> bool + Send + 'static, handler: H) -> Self {
        Self {
            gate: Gate::new(keep),
            handler,
        }
    }
}

impl<V: 'static, H: EventHandler<V>> EventHandler<V> for Filter<V, H> {
    fn on_add(&mut self, entry: &Entry<V>, is_in_initial_list: bool) {
        self.pass(added(entry, is_in_initial_list));
    }

    fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) {
        self.pass(updated(old, new));
    }

    fn on_delete(&mut self, entry: &Entry<V>, final_state_unknown: bool) {
        self.pass(deleted(entry, final_state_unknown));
    }

    fn on_synced(&mut self) {
        self.handler.on_synced();
    }
}

impl<V: 'static, H: EventHandler<V>> Filter<V, H> {
    fn pass(&mut self, event: Event<V>) {
        if let Some(event) = self.gate.pass(event) {
            deliver(&mut self.handler, &event);
        }
    }
}

impl<V: Send + Sync + 'static, H: AsyncEventHandler<V>> AsyncEventHandler<V> for Filter<V, H> {
    async fn on_add(&mut self, entry: &Entry<V>, is_in_initial_list: bool) {
        self.pass_async(added(entry, is_in_initial_list)).await;
    }

    async fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) {
        self.pass_async(updated(old, new)).await;
    }

    async fn on_delete(&mut self, entry: &Entry<V>, final_state_unknown: bool) {
        self.pass_async(deleted(entry, final_state_unknown)).await;
    }

    async fn on_synced(&mut self) {
        self.handler.on_synced().await;
    }
}

impl<V: Send + Sync + 'static, H: AsyncEventHandler<V>> Filter<V, H> {
    async fn pass_async(&mut self, event: Event<V>) {
        if let Some(event) = self.gate.pass(event) {
            deliver_async(&mut self.handler, &event).await;
        }
    }
}

impl<V, H> fmt::Debug for Filter<V, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

fn added<V>(entry: &Entry<V>, is_in_initial_list: bool) -> Event<V> {
    Event::Added {
        entry: entry.clone(),
        is_in_initial_list,
    }
}

fn updated<V>(old: &Entry<V>, new: &Entry<V>) -> Event<V> {
    if old.is_same_state(new) {
        return Event::Replayed { entry: new.clone() };
    }
    Event::Updated {
        old: old.clone(),
        new: new.clone(),
    }
}

fn deleted<V>(entry: &Entry<V>, final_state_unknown: bool) -> Event<V> {
    Event::Deleted {
        entry: entry.clone(),
        final_state_unknown,
    }
}

type Keep<V> = Box<dyn FnMut(&Entry<V>) -> bool + Send>;

/// Passes on the events of matching objects, and stores which objects the handler knows.
pub(crate) struct Gate<V> {
    keep: Keep<V>,
    known: HashSet<Key>,
}

impl<V> Gate<V> {
    pub(crate) fn new(keep: impl FnMut(&Entry<V>) -> bool + Send + 'static) -> Self {
        Self {
            keep: Box::new(keep),
            known: HashSet::new(),
        }
    }

    /// Returns the event to deliver, if any.
    pub(crate) fn pass(&mut self, event: Event<V>) -> Option<Event<V>> {
        match event {
            Event::Added {
                entry,
                is_in_initial_list,
            } => self.keeps(&entry).then_some(Event::Added {
                entry,
                is_in_initial_list,
            }),
            Event::Updated { old, new } => {
                let was_known = self.known.contains(new.key());
                match (was_known, self.keeps(&new)) {
                    (true, true) => Some(Event::Updated { old, new }),
                    (true, false) => Some(gone(old)),
                    (false, true) => Some(come(new)),
                    (false, false) => None,
                }
            }
            Event::Replayed { entry } => {
                let was_known = self.known.contains(entry.key());
                match (was_known, self.keeps(&entry)) {
                    (true, true) => Some(Event::Replayed { entry }),
                    (true, false) => Some(gone(entry)),
                    (false, true) => Some(come(entry)),
                    (false, false) => None,
                }
            }
            Event::Deleted {
                entry,
                final_state_unknown,
            } => self.known.remove(entry.key()).then_some(Event::Deleted {
                entry,
                final_state_unknown,
            }),
            Event::Synced => Some(Event::Synced),
        }
    }

    /// Calls the predicate, and records its result.
    fn keeps(&mut self, entry: &Entry<V>) -> bool {
        let keeps = (self.keep)(entry);
        if keeps {
            self.known.insert(entry.key().clone());
        } else {
            self.known.remove(entry.key());
        }
        keeps
    }
}

const fn come<V>(entry: Entry<V>) -> Event<V> {
    Event::Added {
        entry,
        is_in_initial_list: false,
    }
}

const fn gone<V>(entry: Entry<V>) -> Event<V> {
    Event::Deleted {
        entry,
        final_state_unknown: false,
    }
}
