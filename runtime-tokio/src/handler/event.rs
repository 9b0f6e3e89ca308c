//! Events for handlers and subscriptions.

use informer_core::{Form, Notification};

use crate::cache::entry::{Entry, Key, SharedObject};

/// A notification of a handler or a subscription: a change of an object, or that the initial list is complete.
///
/// ```
/// use informer_tokio::{Event, Raw};
/// fn line(event: &Event<Raw>) -> String {
///     match event {
///         Event::Added { entry, is_in_initial_list } => format!("+ {entry} {is_in_initial_list}"),
///         Event::Updated { new, .. } => format!("~ {new}"),
///         Event::Replayed { entry, .. } => format!("= {entry}"),
///         Event::Deleted { entry, final_state_unknown } => format!("- {entry} {final_state_unknown}"),
///         Event::Synced => "synced".to_owned(),
///         _ => String::new(),
///     }
/// }
/// ```
pub type Event<F> = Notification<Entry<F>>;

/// An event as the log of notifications has it.
pub(super) type Logged<F> = Notification<(Key, SharedObject<<F as Form>::Stored>)>;

pub(super) fn of_logged<F: Form>(event: Logged<F>) -> Event<F> {
    event.map(|(key, object)| Entry::new(key, object))
}
