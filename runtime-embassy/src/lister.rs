//! Asks the cache.

use core::cell::Ref;
use core::fmt;
use core::future::poll_fn;
use core::task::Poll;

use informer_core::{Object, ResourceVersion, Storage};

use crate::resources::{Objects, Resources};
use crate::waiters::TooManyWaiters;

/// Asks the cache of an informer, and gives its [`Runner`](crate::Runner) orders. It is `Copy`, and for one executor.
///
/// Objects are lent to closures, since without an allocator there is nothing to copy them to. From within a
/// [`Handler`](crate::Handler) or one of those closures everything that would touch the cache is an error.
///
/// ```
/// use informer_embassy::{InHandler, Inline, Lister};
///
/// type Memory = Inline<32, 80, 2048>;
///
/// fn show(pods: Lister<'_, bool, Memory>) -> Result<(), InHandler> {
///     let running = pods.with("prod/web", |pod| *pod.value())?;
///     pods.for_each(|key, pod| println!("{} {}", key.as_ref(), pod.value()))?;
///     assert_eq!(running, Some(true));
///     Ok(())
/// }
/// # let _ = show;
/// ```
pub struct Lister<'a, V, S: Storage> {
    resources: &'a Resources<V, S>,
}

/// The cache is lent: the question comes from within a handler or a closure of the lister.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InHandler;

impl fmt::Display for InHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cache is lent: it cannot be asked from within a handler")
    }
}

impl core::error::Error for InHandler {}

informer_core::readable_errors!(InHandler);

impl<'a, V, S: Storage> Lister<'a, V, S>
where
    S::Text: PartialEq,
{
    pub(crate) const fn new(resources: &'a Resources<V, S>) -> Self {
        Self { resources }
    }

    /// Lends the object with this key, `namespace/name`; `None` where there is none.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn with<O>(
        &self,
        key: &str,
        f: impl FnOnce(&Object<V, S::Text>) -> O,
    ) -> Result<Option<O>, InHandler> {
        Ok(self.cache()?.get(key).map(f))
    }

    /// Lends all objects, with their keys, in no particular order.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn for_each(
        &self,
        mut f: impl FnMut(&S::Text, &Object<V, S::Text>),
    ) -> Result<(), InHandler> {
        self.cache()?
            .iter()
            .for_each(|(key, object)| f(key, object));
        Ok(())
    }

    /// Lends the objects that have `value` in an index; `false` where there is no such index.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn by_index(
        &self,
        name: &str,
        value: &str,
        mut f: impl FnMut(&S::Text, &Object<V, S::Text>),
    ) -> Result<bool, InHandler> {
        let cache = self.cache()?;
        let Ok(found) = cache.by_index(name, value) else {
            return Ok(false);
        };
        found.for_each(|(key, object)| f(key, object));
        Ok(true)
    }

    /// Adds an index; `false` where its name is taken or there is no room for it.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn add_index(
        &self,
        name: &str,
        f: S::IndexFn<Object<V, S::Text>>,
    ) -> Result<bool, InHandler> {
        let cache = self.resources.cache.try_borrow_mut();
        Ok(cache.map_err(|_| InHandler)?.add_index(name, f).is_ok())
    }

    /// Returns how many objects there are.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn len(&self) -> Result<usize, InHandler> {
        Ok(self.cache()?.len())
    }

    /// Tells whether there are none.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn is_empty(&self) -> Result<bool, InHandler> {
        Ok(self.len()? == 0)
    }

    /// Tells whether a complete list was told, and there was room for all of it. It is false from within a handler.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.cache().is_ok_and(|cache| cache.is_synced())
    }

    /// Tells whether objects are missing that did not fit. It is false from within a handler.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.cache().is_ok_and(|cache| cache.is_incomplete())
    }

    /// Returns the version that the cache shows.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn version(&self) -> Result<ResourceVersion<S::Text>, InHandler> {
        Ok(self.cache()?.version(0).cloned().unwrap_or_default())
    }

    /// Waits until [`Lister::is_synced`].
    ///
    /// # Errors
    /// Fails as [`Lister::changed`] does.
    pub async fn synced(&self) -> Result<(), TooManyWaiters> {
        while !self.is_synced() {
            self.changed().await?;
        }
        Ok(())
    }

    /// Waits until something has changed: an object, the version, whether the cache is synced.
    ///
    /// A task is woken by a change only, so a device can sleep until then.
    ///
    /// # Errors
    /// Fails at once if [`MAX_WAITERS`](crate::MAX_WAITERS) futures of this informer wait already: there is no memory for
    /// another waker.
    pub async fn changed(&self) -> Result<(), TooManyWaiters> {
        let seen = self.resources.changes.get();
        let place = self.resources.waiters.join()?;
        poll_fn(|cx| {
            if self.resources.changes.get() != seen {
                return Poll::Ready(());
            }
            place.register(cx.waker());
            Poll::Pending
        })
        .await;
        Ok(())
    }

    /// Replays every object to the handler, without asking the API server.
    pub fn resync(&self) {
        self.resources.order(|orders| orders.resync = true);
    }

    /// Has everything listed again, after the delay for runs.
    pub fn relist(&self) {
        self.resources.order(|orders| orders.relist = true);
    }

    /// Ends the runner. The cache stays as it is.
    pub fn stop(&self) {
        self.resources.order(|orders| orders.stop = true);
    }

    fn cache(&self) -> Result<Ref<'_, Objects<V, S>>, InHandler> {
        self.resources.cache.try_borrow().map_err(|_| InHandler)
    }
}

impl<V, S: Storage> Clone for Lister<'_, V, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, S: Storage> Copy for Lister<'_, V, S> {}

impl<V, S: Storage> fmt::Debug for Lister<'_, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").finish_non_exhaustive()
    }
}
