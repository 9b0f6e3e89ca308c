//! The traits of handlers.

use informer_core::Form;

use super::event::Event;
use crate::cache::entry::Entry;

/// A handler that is called with each event. All methods are optional.
///
/// Calls to one handler are sequential, and in order for each object. They should return quickly. The pending
/// notifications of a slow handler are merged by key, and other handlers are not affected. Register a handler that
/// blocks its thread with [`HandlerOptions::blocking`](crate::handler::HandlerOptions::blocking), and implement
/// [`AsyncEventHandler`] for one that awaits. A panic is reported, and the handler continues with the next call.
///
/// ```
/// use informer_tokio::{Entry, Meta};
/// use informer_tokio::handler::EventHandler;
///
/// struct Counter(usize);
///
/// impl EventHandler<Meta> for Counter {
///     fn on_add(&mut self, pod: &Entry<Meta>, is_in_initial_list: bool) {
///         self.0 += 1;
///         println!("{pod} is number {}, found at the start: {is_in_initial_list}", self.0);
///     }
///     fn on_delete(&mut self, _pod: &Entry<Meta>, _final_state_unknown: bool) {
///         self.0 -= 1;
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of objects stored as `{F}`",
    label = "does not implement `EventHandler<{F}>`",
    note = "pass `Handlers::new().on_add(|object, is_in_initial_list| ..)`, or a type that implements `EventHandler<{F}>`"
)]
pub trait EventHandler<F: Form>: Send + 'static {
    /// Called when an object was added.
    fn on_add(&mut self, entry: &Entry<F>, is_in_initial_list: bool) {
        let _ = (entry, is_in_initial_list);
    }

    /// Called when an object was updated. In a resync both states are the same; see [`Entry::is_same_state`].
    fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) {
        let _ = (old, new);
    }

    /// Called when an object was deleted. If the deletion was not observed, `entry` is the last known state.
    fn on_delete(&mut self, entry: &Entry<F>, final_state_unknown: bool) {
        let _ = (entry, final_state_unknown);
    }

    /// Called when the initial list is complete, after all its notifications.
    fn on_synced(&mut self) {}
}

/// A handler whose methods are `async fn`; see [`EventHandler`]. All methods are optional.
///
/// The next call begins after the previous one has ended, so the order of each object is preserved. A waiting handler
/// does not block others. A panic is reported, and the handler continues with the next call. When the informer stops, a
/// running call has the time of [`Builder::drain`](crate::informer::Builder::drain) to end.
///
/// ```
/// use informer_tokio::{Entry, Meta};
/// use informer_tokio::handler::AsyncEventHandler;
///
/// struct Firewall { rules: tokio::sync::mpsc::Sender<String> }
///
/// impl AsyncEventHandler<Meta> for Firewall {
///     async fn on_add(&mut self, pod: &Entry<Meta>, _is_in_initial_list: bool) {
///         let _ = self.rules.send(format!("allow {pod}")).await;
///     }
///     async fn on_delete(&mut self, pod: &Entry<Meta>, _final_state_unknown: bool) {
///         let _ = self.rules.send(format!("forget {pod}")).await;
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an async handler of objects stored as `{F}`",
    label = "does not implement `AsyncEventHandler<{F}>`",
    note = "pass `AsyncHandlers::new().on_add(async |object, is_in_initial_list| ..)`, or a type that implements `AsyncEventHandler<{F}>`"
)]
pub trait AsyncEventHandler<F: Form>: Send + 'static {
    /// Called when an object was added.
    fn on_add(
        &mut self,
        entry: &Entry<F>,
        is_in_initial_list: bool,
    ) -> impl Future<Output = ()> + Send {
        let _ = (entry, is_in_initial_list);
        core::future::ready(())
    }

    /// Called when an object was updated. In a resync both states are the same; see [`Entry::is_same_state`].
    fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) -> impl Future<Output = ()> + Send {
        let _ = (old, new);
        core::future::ready(())
    }

    /// Called when an object was deleted. If the deletion was not observed, `entry` is the last known state.
    fn on_delete(
        &mut self,
        entry: &Entry<F>,
        final_state_unknown: bool,
    ) -> impl Future<Output = ()> + Send {
        let _ = (entry, final_state_unknown);
        core::future::ready(())
    }

    /// Called when the initial list is complete, after all its notifications.
    fn on_synced(&mut self) -> impl Future<Output = ()> + Send {
        core::future::ready(())
    }
}

/// Calls the method for an event.
pub(crate) fn deliver<F: Form>(handler: &mut impl EventHandler<F>, event: &Event<F>) {
    match event {
        Event::Added {
            entry,
            is_in_initial_list,
        } => handler.on_add(entry, *is_in_initial_list),
        Event::Updated { old, new } => handler.on_update(old, new),
        Event::Replayed { entry, .. } => handler.on_update(entry, entry),
        Event::Deleted {
            entry,
            final_state_unknown,
        } => handler.on_delete(entry, *final_state_unknown),
        Event::Synced | _ => handler.on_synced(),
    }
}

/// Calls the method for an event, like [`deliver`].
pub(crate) async fn deliver_async<F: Form<Stored: Send + Sync>>(
    handler: &mut impl AsyncEventHandler<F>,
    event: &Event<F>,
) {
    match event {
        Event::Added {
            entry,
            is_in_initial_list,
        } => handler.on_add(entry, *is_in_initial_list).await,
        Event::Updated { old, new } => handler.on_update(old, new).await,
        Event::Replayed { entry, .. } => handler.on_update(entry, entry).await,
        Event::Deleted {
            entry,
            final_state_unknown,
        } => handler.on_delete(entry, *final_state_unknown).await,
        Event::Synced | _ => handler.on_synced().await,
    }
}
