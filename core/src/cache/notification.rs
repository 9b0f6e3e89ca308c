//! Notifications: what a cache lends, a log owns, and a handler gets.

use crate::object::Object;

/// A change of the cache, or that it is synced. `E` is an object with its key.
///
/// A cache lends its own objects, `E` being `(&key, &object)`. `Listeners` own them, and a runtime may
/// have a type that joins both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notification<E> {
    /// An object was added.
    Added {
        /// The object.
        entry: E,
        /// Whether the object belongs to the initial state. For a handler, this is its own initial state.
        is_in_initial_list: bool,
    },
    /// An object was updated.
    Updated {
        /// The previous state.
        old: E,
        /// The new state.
        new: E,
    },
    /// An object is unchanged: a resync, or a relist if unchanged objects are notified.
    Replayed {
        /// The object.
        entry: E,
        /// The resync pass, see [`Cache::resync`](crate::Cache::resync); `None` if the server sent the same state again.
        pass: Option<u32>,
    },
    /// An object was deleted.
    Deleted {
        /// The object as in the deletion event, or else its last known state.
        entry: E,
        /// Whether the deletion event was missed, so that earlier changes may have been missed as well.
        final_state_unknown: bool,
    },
    /// The initial state is complete, and the handler was notified of all of it.
    Synced,
}

/// A notification of a cache of [`Object`]s. It borrows from the cache until the next call.
pub type ObjectNotification<'a, V, X> = Notification<(&'a X, &'a Object<V, X>)>;

impl<E> Notification<E> {
    /// Converts the objects.
    #[inline]
    pub fn map<F>(self, mut f: impl FnMut(E) -> F) -> Notification<F> {
        match self {
            Self::Added {
                entry,
                is_in_initial_list,
            } => Notification::Added {
                entry: f(entry),
                is_in_initial_list,
            },
            Self::Updated { old, new } => Notification::Updated {
                old: f(old),
                new: f(new),
            },
            Self::Replayed { entry, pass } => Notification::Replayed {
                entry: f(entry),
                pass,
            },
            Self::Deleted {
                entry,
                final_state_unknown,
            } => Notification::Deleted {
                entry: f(entry),
                final_state_unknown,
            },
            Self::Synced => Notification::Synced,
        }
    }

    /// Returns the object in its newest state, if the notification is about one.
    pub const fn entry(&self) -> Option<&E> {
        match self {
            Self::Added { entry, .. }
            | Self::Updated { new: entry, .. }
            | Self::Replayed { entry, .. }
            | Self::Deleted { entry, .. } => Some(entry),
            Self::Synced => None,
        }
    }
}
