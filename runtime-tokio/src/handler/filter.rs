//! Handlers and subscriptions for a subset of the objects.

use core::fmt;
use std::collections::HashSet;

use informer_core::Form;

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
/// use informer_tokio::{Handlers, Informer, Meta};
/// # fn example(pods: Informer<Meta>) {
/// let web = Handlers::<Meta>::new()
///     .on_add(|pod, _| println!("+ {pod}"))
///     .filter(|pod| pod.label("app").is_some_and(|app| app.to_string() == "web"));
/// pods.add_handler(web);
/// # }
/// ```
pub struct Filter<F: Form, H> {
    gate: Gate<F>,
    handler: H,
}

impl<F: Form, H> Filter<F, H> {
    /// Creates a handler of any kind that receives only the objects for which `keep` returns `true`.
    #[must_use]
    pub fn new(keep: impl FnMut(&Entry<F>) -> bool + Send + 'static, handler: H) -> Self {
        Self {
            gate: Gate::new(keep),
            handler,
        }
    }
}

impl<F: Form, H: EventHandler<F>> EventHandler<F> for Filter<F, H> {
    fn on_add(&mut self, entry: &Entry<F>, is_in_initial_list: bool) {
        self.pass(added(entry, is_in_initial_list));
    }

    fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) {
        self.pass(updated(old, new));
    }

    fn on_delete(&mut self, entry: &Entry<F>, final_state_unknown: bool) {
        self.pass(deleted(entry, final_state_unknown));
    }

    fn on_synced(&mut self) {
        self.handler.on_synced();
    }
}

impl<F: Form, H: EventHandler<F>> Filter<F, H> {
    fn pass(&mut self, event: Event<F>) {
        if let Some(event) = self.gate.pass(event) {
            deliver(&mut self.handler, &event);
        }
    }
}

impl<F: Form<Stored: Send + Sync + 'static>, H: AsyncEventHandler<F>> AsyncEventHandler<F>
    for Filter<F, H>
{
    async fn on_add(&mut self, entry: &Entry<F>, is_in_initial_list: bool) {
        self.pass_async(added(entry, is_in_initial_list)).await;
    }

    async fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) {
        self.pass_async(updated(old, new)).await;
    }

    async fn on_delete(&mut self, entry: &Entry<F>, final_state_unknown: bool) {
        self.pass_async(deleted(entry, final_state_unknown)).await;
    }

    async fn on_synced(&mut self) {
        self.handler.on_synced().await;
    }
}

impl<F: Form<Stored: Send + Sync + 'static>, H: AsyncEventHandler<F>> Filter<F, H> {
    async fn pass_async(&mut self, event: Event<F>) {
        if let Some(event) = self.gate.pass(event) {
            deliver_async(&mut self.handler, &event).await;
        }
    }
}

impl<F: Form, H> fmt::Debug for Filter<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

fn added<F: Form>(entry: &Entry<F>, is_in_initial_list: bool) -> Event<F> {
    Event::Added {
        entry: entry.clone(),
        is_in_initial_list,
    }
}

fn updated<F: Form>(old: &Entry<F>, new: &Entry<F>) -> Event<F> {
    if old.is_same_state(new) {
        return Event::Replayed {
            entry: new.clone(),
            pass: None,
        };
    }
    Event::Updated {
        old: old.clone(),
        new: new.clone(),
    }
}

fn deleted<F: Form>(entry: &Entry<F>, final_state_unknown: bool) -> Event<F> {
    Event::Deleted {
        entry: entry.clone(),
        final_state_unknown,
    }
}

type Predicate<F> = Box<dyn FnMut(&Entry<F>) -> bool + Send>;

/// Passes on the events of matching objects, and stores which objects the handler knows.
pub(crate) struct Gate<F: Form> {
    keep: Predicate<F>,
    known: HashSet<Key>,
}

impl<F: Form> Gate<F> {
    pub(crate) fn new(keep: impl FnMut(&Entry<F>) -> bool + Send + 'static) -> Self {
        Self {
            keep: Box::new(keep),
            known: HashSet::new(),
        }
    }

    /// Returns the event to deliver, if any.
    pub(crate) fn pass(&mut self, event: Event<F>) -> Option<Event<F>> {
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
            Event::Replayed { entry, pass } => {
                let was_known = self.known.contains(entry.key());
                match (was_known, self.keeps(&entry)) {
                    (true, true) => Some(Event::Replayed { entry, pass }),
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
            event @ (Event::Synced | _) => Some(event),
        }
    }

    /// Calls the predicate, and records its result.
    fn keeps(&mut self, entry: &Entry<F>) -> bool {
        let keeps = (self.keep)(entry);
        if keeps {
            self.known.insert(entry.key().clone());
        } else {
            self.known.remove(entry.key());
        }
        keeps
    }
}

const fn come<F: Form>(entry: Entry<F>) -> Event<F> {
    Event::Added {
        entry,
        is_in_initial_list: false,
    }
}

const fn gone<F: Form>(entry: Entry<F>) -> Event<F> {
    Event::Deleted {
        entry,
        final_state_unknown: false,
    }
}
