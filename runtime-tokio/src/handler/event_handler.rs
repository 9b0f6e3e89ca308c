//! The traits of handlers: user code that is called with each change.

use super::event::Event;
use crate::cache::entry::Entry;

/// Is called with what happens. Every method may be left out.
///
/// Calls to one handler come one after another, in order for each object. They should be quick; a slow handler gets
/// what it missed coalesced by key and holds back nobody. One that blocks its thread is registered with
/// [`HandlerOptions::blocking`](crate::handler::HandlerOptions::blocking), one that awaits is an [`AsyncEventHandler`]. A panic is
/// reported, and the handler goes on with the next call.
///
/// ```
/// use informer_tokio::{Entry, Metadata};
/// use informer_tokio::handler::EventHandler;
///
/// struct Counter(usize);
///
/// impl EventHandler<Metadata> for Counter {
///     fn on_add(&mut self, pod: &Entry<Metadata>, is_in_initial_list: bool) {
///         self.0 += 1;
///         println!("{pod} is number {}, found at the start: {is_in_initial_list}", self.0);
///     }
///     fn on_delete(&mut self, _pod: &Entry<Metadata>, _final_state_unknown: bool) {
///         self.0 -= 1;
///     }
/// }
/// ```
pub trait EventHandler<V>: Send + 'static {
    /// There is a new object.
    fn on_add(&mut self, entry: &Entry<V>, is_in_initial_list: bool) {
        let _ = (entry, is_in_initial_list);
    }

    /// An object changed. In a resync both are the same state: [`Entry::is_same_state`].
    fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) {
        let _ = (old, new);
    }

    /// An object is gone. Where nobody saw it go, `entry` is its last known state.
    fn on_delete(&mut self, entry: &Entry<V>, final_state_unknown: bool) {
        let _ = (entry, final_state_unknown);
    }

    /// The first state is complete, and the handler was notified of all of it.
    fn on_synced(&mut self) {}
}

/// A handler whose calls await: [`EventHandler`] with `async fn`. Every method may be left out.
///
/// The next call comes when the one before it is done, so that the order of each object is kept. While one waits,
/// nobody else does. A panic is reported, and the handler goes on with the next call. Where the informer stops, a call
/// under way has the time of [`Builder::drain`](crate::informer::Builder::drain) to end.
///
/// ```
/// use informer_tokio::{Entry, Metadata};
/// use informer_tokio::handler::AsyncEventHandler;
///
/// struct Firewall { rules: tokio::sync::mpsc::Sender<String> }
///
/// impl AsyncEventHandler<Metadata> for Firewall {
///     async fn on_add(&mut self, pod: &Entry<Metadata>, _is_in_initial_list: bool) {
///         let _ = self.rules.send(format!("allow {pod}")).await;
///     }
///     async fn on_delete(&mut self, pod: &Entry<Metadata>, _final_state_unknown: bool) {
///         let _ = self.rules.send(format!("forget {pod}")).await;
///     }
/// }
/// ```
pub trait AsyncEventHandler<V>: Send + 'static {
    /// There is a new object.
    fn on_add(
        &mut self,
        entry: &Entry<V>,
        is_in_initial_list: bool,
    ) -> impl Future<Output = ()> + Send {
        let _ = (entry, is_in_initial_list);
        core::future::ready(())
    }

    /// An object changed. In a resync both are the same state: [`Entry::is_same_state`].
    fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) -> impl Future<Output = ()> + Send {
        let _ = (old, new);
        core::future::ready(())
    }

    /// An object is gone. Where nobody saw it go, `entry` is its last known state.
    fn on_delete(
        &mut self,
        entry: &Entry<V>,
        final_state_unknown: bool,
    ) -> impl Future<Output = ()> + Send {
        let _ = (entry, final_state_unknown);
        core::future::ready(())
    }

    /// The first state is complete, and the handler was notified of all of it.
    fn on_synced(&mut self) -> impl Future<Output = ()> + Send {
        core::future::ready(())
    }
}

/// Calls the method that an event is for.
pub(crate) fn deliver<V>(handler: &mut impl EventHandler<V>, event: &Event<V>) {
    match event {
        Event::Added {
            entry,
            is_in_initial_list,
        } => handler.on_add(entry, *is_in_initial_list),
        Event::Updated { old, new } => handler.on_update(old, new),
        Event::Replayed { entry } => handler.on_update(entry, entry),
        Event::Deleted {
            entry,
            final_state_unknown,
        } => handler.on_delete(entry, *final_state_unknown),
        Event::Synced => handler.on_synced(),
    }
}

/// As [`deliver`], for a handler that awaits.
pub(crate) async fn deliver_async<V: Send + Sync>(
    handler: &mut impl AsyncEventHandler<V>,
    event: &Event<V>,
) {
    match event {
        Event::Added {
            entry,
            is_in_initial_list,
        } => handler.on_add(entry, *is_in_initial_list).await,
        Event::Updated { old, new } => handler.on_update(old, new).await,
        Event::Replayed { entry } => handler.on_update(entry, entry).await,
        Event::Deleted {
            entry,
            final_state_unknown,
        } => handler.on_delete(entry, *final_state_unknown).await,
        Event::Synced => handler.on_synced().await,
    }
}
