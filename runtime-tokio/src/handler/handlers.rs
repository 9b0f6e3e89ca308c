//! Handlers built from closures.

use core::fmt;

use informer_core::Form;

use super::event_handler::{AsyncEventHandler, EventHandler};
use super::filter::Filter;
use crate::cache::entry::Entry;

/// An [`EventHandler`] built from closures.
///
/// ```
/// use informer_tokio::{Handlers, Raw};
///
/// let handler = Handlers::<Raw>::new()
///     .on_add(|pod, initial| println!("+ {pod} {initial}"))
///     .on_update(|_, pod| println!("~ {pod}"))
///     .on_delete(|pod, _| println!("- {pod}"))
///     .on_synced(|| println!("synced"));
/// ```
#[must_use]
pub struct Handlers<F: Form> {
    add: Option<OnOne<F>>,
    update: Option<OnTwo<F>>,
    delete: Option<OnOne<F>>,
    synced: Option<OnNone>,
}

type OnOne<F> = Box<dyn FnMut(&Entry<F>, bool) + Send>;
type OnTwo<F> = Box<dyn FnMut(&Entry<F>, &Entry<F>) + Send>;
type OnNone = Box<dyn FnMut() + Send>;

impl<F: Form> Handlers<F> {
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
    pub fn on_add(mut self, f: impl FnMut(&Entry<F>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(f));
        self
    }

    /// Sets the function for updates. Its arguments are the old and the new state.
    pub fn on_update(mut self, f: impl FnMut(&Entry<F>, &Entry<F>) + Send + 'static) -> Self {
        self.update = Some(Box::new(f));
        self
    }

    /// Sets the function for deletions. Its second argument is whether the final state is unknown.
    pub fn on_delete(mut self, f: impl FnMut(&Entry<F>, bool) + Send + 'static) -> Self {
        self.delete = Some(Box::new(f));
        self
    }

    /// Sets the function that is called after the notifications of the initial list.
    pub fn on_synced(mut self, f: impl FnMut() + Send + 'static) -> Self {
        self.synced = Some(Box::new(f));
        self
    }

    /// Restricts the handler to objects for which `keep` returns `true`; see [`Filter`].
    pub fn filter(self, keep: impl FnMut(&Entry<F>) -> bool + Send + 'static) -> Filter<F, Self> {
        Filter::new(keep, self)
    }
}

impl<F: Form> Default for Handlers<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Form> fmt::Debug for Handlers<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

impl<F: Form> EventHandler<F> for Handlers<F> {
    fn on_add(&mut self, entry: &Entry<F>, is_in_initial_list: bool) {
        if let Some(f) = &mut self.add {
            f(entry, is_in_initial_list);
        }
    }

    fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) {
        if let Some(f) = &mut self.update {
            f(old, new);
        }
    }

    fn on_delete(&mut self, entry: &Entry<F>, final_state_unknown: bool) {
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
/// use informer_tokio::Raw;
/// use informer_tokio::handler::AsyncHandlers;
/// # async fn ring(who: &str) {}
///
/// let handler = AsyncHandlers::<Raw>::new()
///     .on_add(|pod, _initial| async move { ring(pod.name()).await })
///     .on_delete(|pod, _unseen| async move { ring(pod.name()).await });
/// ```
#[must_use]
pub struct AsyncHandlers<F: Form> {
    add: Option<AsyncOnOne<F>>,
    update: Option<AsyncOnTwo<F>>,
    delete: Option<AsyncOnOne<F>>,
}

type Called = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
type AsyncOnOne<F> = Box<dyn FnMut(Entry<F>, bool) -> Called + Send>;
type AsyncOnTwo<F> = Box<dyn FnMut(Entry<F>, Entry<F>) -> Called + Send>;

impl<F: Form> AsyncHandlers<F> {
    /// Creates a handler without closures.
    pub const fn new() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
        }
    }

    /// Sets the function for added objects. Its second argument is whether the object belongs to the initial list.
    pub fn on_add<Fut>(mut self, mut f: impl FnMut(Entry<F>, bool) -> Fut + Send + 'static) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.add = Some(Box::new(move |entry, initial| Box::pin(f(entry, initial))));
        self
    }

    /// Sets the function for updates. Its arguments are the old and the new state.
    pub fn on_update<Fut>(
        mut self,
        mut f: impl FnMut(Entry<F>, Entry<F>) -> Fut + Send + 'static,
    ) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.update = Some(Box::new(move |old, new| Box::pin(f(old, new))));
        self
    }

    /// Sets the function for deletions. Its second argument is whether the final state is unknown.
    pub fn on_delete<Fut>(
        mut self,
        mut f: impl FnMut(Entry<F>, bool) -> Fut + Send + 'static,
    ) -> Self
    where
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.delete = Some(Box::new(move |entry, unknown| Box::pin(f(entry, unknown))));
        self
    }

    /// Restricts the handler to objects for which `keep` returns `true`; see [`Filter`].
    pub fn filter(self, keep: impl FnMut(&Entry<F>) -> bool + Send + 'static) -> Filter<F, Self> {
        Filter::new(keep, self)
    }
}

impl<F: Form> Default for AsyncHandlers<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Form> fmt::Debug for AsyncHandlers<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncHandlers").finish_non_exhaustive()
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> AsyncEventHandler<F> for AsyncHandlers<F> {
    async fn on_add(&mut self, entry: &Entry<F>, is_in_initial_list: bool) {
        if let Some(f) = &mut self.add {
            f(entry.clone(), is_in_initial_list).await;
        }
    }

    async fn on_update(&mut self, old: &Entry<F>, new: &Entry<F>) {
        if let Some(f) = &mut self.update {
            f(old.clone(), new.clone()).await;
        }
    }

    async fn on_delete(&mut self, entry: &Entry<F>, final_state_unknown: bool) {
        if let Some(f) = &mut self.delete {
            f(entry.clone(), final_state_unknown).await;
        }
    }
}
