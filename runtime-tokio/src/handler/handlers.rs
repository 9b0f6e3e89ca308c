//! Handlers built from closures.

use core::fmt;

use super::event_handler::{AsyncEventHandler, EventHandler};
use super::filter::Filter;
use crate::cache::entry::Entry;

/// An [`EventHandler`] built from closures.
///
/// ```
/// use informer_tokio::{Handlers, RawJson};
///
/// let handler = Handlers::<RawJson>::new()
///     .on_add(|pod, initial| println!("+ {pod} {initial}"))
///     .on_update(|_, pod| println!("~ {pod}"))
///     .on_delete(|pod, _| println!("- {pod}"))
///     .on_synced(|| println!("synced"));
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
    /// Creates a handler without closures.
    pub const fn new() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
            synced: None,
        }
    }

    /// Sets the function for added objects. Its second argument is whether the object belongs to the initial list.
    pub fn on_add(mut self, f: impl FnMut(&Entry<V>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(f));
        self
    }

    /// Sets the function for updates. Its arguments are the old and the new state.
    ///
    /// ```
    /// # use informer_tokio::{Handlers, RawJson};
    /// let handler = Handlers::<RawJson>::new().on_update(|old, pod| {
    ///     println!("{pod} has changed: {}", !pod.is_same_state(old));
    /// });
    /// ```
    pub fn on_update(mut self, f: impl FnMut(&Entry<V>, &Entry<V>) + Send + 'static) -> Self {
        self.update = Some(Box::new(f));
        self
    }

    /// Sets the function for deletions. Its second argument is whether the final state is unknown.
    pub fn on_delete(mut self, f: impl FnMut(&Entry<V>, bool) + Send + 'static) -> Self {
        self.delete = Some(Box::new(f));
        self
    }

    /// Sets the function that is called after the notifications of the initial list.
    pub fn on_synced(mut self, f: impl FnMut() + Send + 'static) -> Self {
        self.synced = Some(Box::new(f));
        self
    }

    /// Restricts the handler to objects for which `keep` returns `true`; see [`Filter`].
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

/// An [`AsyncEventHandler`] built from closures that return futures. They get owned entries, which are cheap to clone.
///
/// ```
/// use informer_tokio::RawJson;
/// use informer_tokio::handler::AsyncHandlers;
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
    /// Creates a handler without closures.
    pub const fn new() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
        }
    }

    /// Sets the function for added objects. Its second argument is whether the object belongs to the initial list.
    ///
    /// ```
    /// # use informer_tokio::RawJson;
    /// # use informer_tokio::handler::AsyncHandlers;
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

    /// Sets the function for updates. Its arguments are the old and the new state.
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

    /// Sets the function for deletions. Its second argument is whether the final state is unknown.
    pub fn on_delete<F>(mut self, mut f: impl FnMut(Entry<V>, bool) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.delete = Some(Box::new(move |entry, unknown| Box::pin(f(entry, unknown))));
        self
    }

    /// Restricts the handler to objects for which `keep` returns `true`; see [`Filter`].
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
