//! Events for handlers and subscriptions.

use informer_core::{Form, listeners::Event as CoreEvent};

use crate::cache::entry::{Entry, Key, Shared};

/// A notification about an object, or that the first state is complete.
///
/// ```
/// use informer_tokio::{Event, Raw};
/// fn line(event: &Event<Raw>) -> String {
///     match event {
///         Event::Added { entry, is_in_initial_list } => format!("+ {entry} {is_in_initial_list}"),
///         Event::Updated { new, .. } => format!("~ {new}"),
///         Event::Replayed { entry } => format!("= {entry}"),
///         Event::Deleted { entry, final_state_unknown } => format!("- {entry} {final_state_unknown}"),
///         Event::Synced => "synced".to_owned(),
///         _ => String::new(),
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<F: Form> {
    /// An object was added.
    Added {
        /// The object.
        entry: Entry<F>,
        /// Whether the object belongs to the listener's initial list.
        is_in_initial_list: bool,
    },
    /// An object was updated.
    Updated {
        /// The old state.
        old: Entry<F>,
        /// The new state.
        new: Entry<F>,
    },
    /// A resync replays an object that has not changed.
    Replayed {
        /// The object.
        entry: Entry<F>,
    },
    /// An object was deleted.
    Deleted {
        /// The object as the deletion carried it, or its last known state.
        entry: Entry<F>,
        /// Whether the deletion itself was not observed, so that the last changes before it may be unknown.
        final_state_unknown: bool,
    },
    /// The initial list is complete, and the listener was notified of all of it.
    Synced,
}

impl<F: Form> Event<F> {
    pub(crate) fn of(event: CoreEvent<Key, Shared<F::Stored>>) -> Self {
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
