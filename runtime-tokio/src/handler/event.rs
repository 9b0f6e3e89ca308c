//! Events: what a handler or a subscription is notified of.

use informer_core::listeners::Event as CoreEvent;

use crate::cache::entry::{Entry, Key, Shared};

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
    /// The first state is complete, and the handler was notified of all of it.
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
