//! Handlers: user code that is called with what happens.

use core::fmt;

use crate::cache::entry::Entry;
use crate::handler::filter::Filter;
use crate::handler::subscription::Event;

/// Is called with what happens. Every method may be left out.
///
/// Calls to one handler come one after another, in order for each object. They should be quick; a slow handler gets
/// what it missed coalesced by key and holds back nobody. One that blocks its thread is registered with
/// [`HandlerOptions::blocking`](crate::HandlerOptions::blocking), one that awaits is an [`AsyncEventHandler`]. A panic is
/// reported, and the handler goes on with the next call.
///
/// ```
/// use informer_tokio::{Entry, EventHandler, Metadata};
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

    /// The first state is complete, and all of it was told.
    fn on_synced(&mut self) {}
}

/// A handler whose calls await: [`EventHandler`] with `async fn`. Every method may be left out.
///
/// The next call comes when the one before it is done, so that the order of each object is kept. While one waits,
/// nobody else does. A panic is reported, and the handler goes on with the next call. Where the informer stops, a call
/// under way has the time of [`Builder::drain`](crate::Builder::drain) to end.
///
/// ```
/// use informer_tokio::{AsyncEventHandler, Entry, Metadata};
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

    /// The first state is complete, and all of it was told.
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

/// A handler made of closures.
///
/// ```
/// use informer_tokio::{Handlers, RawJson};
///
/// let handler = Handlers::<RawJson>::new()
///     .on_add(|pod, initial| println!("+ {pod} {initial}"))
///     .on_update(|_, pod| println!("~ {pod}"))
///     .on_delete(|pod, _| println!("- {pod}"))
///     .on_synced(|| println!("that is all for now"));
/// ```
#[must_use]
pub struct Handlers<V> {
    add: Option<OnOne<V>>,
    update: Option<OnTwo<V>>,
    delete: Option<OnOne<V>>,
    synced: Option<OnNone>,
}

type OnOne<V> = Box<dyn FnMut(&Entry<V>, bool) + Send>;
type OnTwo<V> = Box<dyn FnMut(&Entry<V>, &Entry<V>) + Send>;
type OnNone = Box<dyn FnMut() + Send>;

impl<V> Handlers<V> {
    /// Makes a handler that does nothing.
    ///
    /// ```
    /// let idle = informer_tokio::Handlers::<informer_tokio::RawJson>::new();
    /// ```
    pub const fn new() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
            synced: None,
        }
    }

    /// Sets what is done with a new object, and whether it is in the initial list.
    ///
    /// ```
    /// # use informer_tokio::{Handlers, RawJson};
    /// let handler = Handlers::<RawJson>::new().on_add(|pod, initial| println!("+ {pod} {initial}"));
    /// ```
    pub fn on_add(mut self, f: impl FnMut(&Entry<V>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(f));
        self
    }

    /// Sets what is done with a change: the old state and the new one.
    ///
    /// ```
    /// # use informer_tokio::{Handlers, RawJson};
    /// let handler = Handlers::<RawJson>::new().on_update(|old, pod| {
    ///     println!("{pod} is news: {}", !pod.is_same_state(old));
    /// });
    /// ```
    pub fn on_update(mut self, f: impl FnMut(&Entry<V>, &Entry<V>) + Send + 'static) -> Self {
        self.update = Some(Box::new(f));
        self
    }

    /// Sets what is done with a deletion, and whether the final state is unknown.
    ///
    /// ```
    /// # use informer_tokio::{Handlers, RawJson};
    /// let handler = Handlers::<RawJson>::new().on_delete(|pod, unseen| println!("- {pod} {unseen}"));
    /// ```
    pub fn on_delete(mut self, f: impl FnMut(&Entry<V>, bool) + Send + 'static) -> Self {
        self.delete = Some(Box::new(f));
        self
    }

    /// Sets what is done when all of the first state was told.
    ///
    /// ```
    /// # use informer_tokio::{Handlers, RawJson};
    /// let handler = Handlers::<RawJson>::new().on_synced(|| println!("from here on it is news"));
    /// ```
    pub fn on_synced(mut self, f: impl FnMut() + Send + 'static) -> Self {
        self.synced = Some(Box::new(f));
        self
    }

    /// Has it called only with what `keep` keeps: see [`Filter`].
    ///
    /// ```
    /// # use informer_tokio::{Handlers, RawJson};
    /// let in_prod = Handlers::<RawJson>::new()
    ///     .on_add(|pod, _| println!("+ {pod}"))
    ///     .filter(|pod| pod.namespace() == "prod");
    /// ```
    pub fn filter(self, keep: impl FnMut(&Entry<V>) -> bool + Send + 'static) -> Filter<V, Self> {
        Filter::new(keep, self)
    }
}

impl<V> Default for Handlers<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> fmt::Debug for Handlers<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

impl<V: 'static> EventHandler<V> for Handlers<V> {
    fn on_add(&mut self, entry: &Entry<V>, is_in_initial_list: bool) {
        if let Some(f) = &mut self.add {
            f(entry, is_in_initial_list);
        }
    }

    fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) {
        if let Some(f) = &mut self.update {
            f(old, new);
        }
    }

    fn on_delete(&mut self, entry: &Entry<V>, final_state_unknown: bool) {
        if let Some(f) = &mut self.delete {
            f(entry, final_state_unknown);
        }
    }

    fn on_synced(&mut self) {
        if let Some(f) = &mut self.synced {
            f();
        }
    }
}

/// A handler made of closures that give futures. They get entries of their own, which are cheap to clone.
///
/// ```
/// use informer_tokio::{AsyncHandlers, RawJson};
/// # async fn ring(who: &str) {}
///
/// let handler = AsyncHandlers::<RawJson>::new()
///     .on_add(|pod, _initial| async move { ring(pod.name()).await })
///     .on_delete(|pod, _unseen| async move { ring(pod.name()).await });
/// ```
#[must_use]
pub struct AsyncHandlers<V> {
    add: Option<AsyncOnOne<V>>,
    update: Option<AsyncOnTwo<V>>,
    delete: Option<AsyncOnOne<V>>,
}

type Called = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
type AsyncOnOne<V> = Box<dyn FnMut(Entry<V>, bool) -> Called + Send>;
type AsyncOnTwo<V> = Box<dyn FnMut(Entry<V>, Entry<V>) -> Called + Send>;

impl<V> AsyncHandlers<V> {
    /// Makes a handler that does nothing.
    ///
    /// ```
    /// let idle = informer_tokio::AsyncHandlers::<informer_tokio::RawJson>::new();
    /// ```
    pub const fn new() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
        }
    }

    /// Sets what is done with a new object, and whether it is in the initial list.
    ///
    /// ```
    /// # use informer_tokio::{AsyncHandlers, RawJson};
    /// let handler = AsyncHandlers::<RawJson>::new().on_add(|pod, _| async move {
    ///     tokio::time::sleep(core::time::Duration::from_secs(1)).await;
    ///     println!("+ {pod}, a second ago");
    /// });
    /// ```
    pub fn on_add<F>(mut self, mut f: impl FnMut(Entry<V>, bool) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.add = Some(Box::new(move |entry, initial| Box::pin(f(entry, initial))));
        self
    }

    /// Sets what is done with a change: the old state and the new one.
    ///
    /// ```
    /// # use informer_tokio::{AsyncHandlers, RawJson};
    /// let handler = AsyncHandlers::<RawJson>::new()
    ///     .on_update(|old, pod| async move { println!("{old} was, {pod} is") });
    /// ```
    pub fn on_update<F>(
        mut self,
        mut f: impl FnMut(Entry<V>, Entry<V>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.update = Some(Box::new(move |old, new| Box::pin(f(old, new))));
        self
    }

    /// Sets what is done with a deletion, and whether the final state is unknown.
    ///
    /// ```
    /// # use informer_tokio::{AsyncHandlers, RawJson};
    /// let handler = AsyncHandlers::<RawJson>::new()
    ///     .on_delete(|pod, unseen| async move { println!("- {pod} {unseen}") });
    /// ```
    pub fn on_delete<F>(mut self, mut f: impl FnMut(Entry<V>, bool) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.delete = Some(Box::new(move |entry, unknown| Box::pin(f(entry, unknown))));
        self
    }

    /// Has it called only with what `keep` keeps: see [`Filter`].
    ///
    /// ```
    /// # use informer_tokio::{AsyncHandlers, RawJson};
    /// let in_prod = AsyncHandlers::<RawJson>::new()
    ///     .on_add(|pod, _| async move { println!("+ {pod}") })
    ///     .filter(|pod| pod.namespace() == "prod");
    /// ```
    pub fn filter(self, keep: impl FnMut(&Entry<V>) -> bool + Send + 'static) -> Filter<V, Self> {
        Filter::new(keep, self)
    }
}

impl<V> Default for AsyncHandlers<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> fmt::Debug for AsyncHandlers<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncHandlers").finish_non_exhaustive()
    }
}

impl<V: Send + Sync + 'static> AsyncEventHandler<V> for AsyncHandlers<V> {
    async fn on_add(&mut self, entry: &Entry<V>, is_in_initial_list: bool) {
        if let Some(f) = &mut self.add {
            f(entry.clone(), is_in_initial_list).await;
        }
    }

    async fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) {
        if let Some(f) = &mut self.update {
            f(old.clone(), new.clone()).await;
        }
    }

    async fn on_delete(&mut self, entry: &Entry<V>, final_state_unknown: bool) {
        if let Some(f) = &mut self.delete {
            f(entry.clone(), final_state_unknown).await;
        }
    }
}
