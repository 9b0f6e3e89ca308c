//! Read access to the cache.

use core::cell::Ref;
use core::fmt;
use core::future::poll_fn;
use core::task::Poll;

use informer_core::{Object, ResourceVersion, Storage, cache::SourceId};

use crate::resources::{Objects, Resources};
use crate::waiters::TooManyWaiters;

/// Reads the cache of an informer, and controls its [`Runner`](crate::Runner). It is `Copy`, and bound to one executor.
///
/// Objects are passed to closures, since they cannot be copied without an allocator. Within a
/// [`Handler`](crate::Handler) or such a closure, every method that accesses the cache fails.
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

/// The error of a call from within a handler or a closure of the lister, while the cache is borrowed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InHandler;

impl fmt::Display for InHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cache cannot be read from within a handler")
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

    /// Calls `f` with the object that has this key, `namespace/name`. Returns `None` if it does not exist.
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

    /// Calls `f` with each object and its key, in no particular order.
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

    /// Calls `f` with each object that has `value` in an index. Returns `false` if the index does not exist.
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

    /// Adds an index. Returns `false` if its name is in use or there is no room for it.
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

    /// Returns the number of objects.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn len(&self) -> Result<usize, InHandler> {
        Ok(self.cache()?.len())
    }

    /// Returns whether there are no objects.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn is_empty(&self) -> Result<bool, InHandler> {
        Ok(self.len()? == 0)
    }

    /// Returns whether a complete list has been delivered, and all of it fitted. It is `false` within a handler.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.cache().is_ok_and(|cache| cache.is_synced())
    }

    /// Returns whether objects are missing because they did not fit. It is `false` within a handler.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.cache().is_ok_and(|cache| cache.is_incomplete())
    }

    /// Returns the resourceVersion that the cache has reached.
    ///
    /// # Errors
    /// Fails from within a handler.
    pub fn version(&self) -> Result<ResourceVersion<S::Text>, InHandler> {
        Ok(self
            .cache()?
            .version(SourceId::FIRST)
            .cloned()
            .unwrap_or_default())
    }

    /// Waits until [`Lister::is_synced`] is true.
    ///
    /// # Errors
    /// Fails as [`Lister::changed`] does.
    pub async fn synced(&self) -> Result<(), TooManyWaiters> {
        while !self.is_synced() {
            self.changed().await?;
        }
        Ok(())
    }

    /// Waits until an object, the version or the sync state changes.
    ///
    /// A task is woken only by a change, so a device can sleep until then.
    ///
    /// # Errors
    /// Fails at once if [`MAX_WAITERS`](crate::MAX_WAITERS) futures of this informer are already waiting, since there
    /// is no memory for another waker.
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

    /// Replays every object to the handler, without a request to the API server.
    pub fn resync(&self) {
        self.resources.order(|orders| orders.resync = true);
    }

    /// Requests a relist, after the delay between runs.
    pub fn relist(&self) {
        self.resources.order(|orders| orders.relist = true);
    }

    /// Stops the runner. The cache stays as it is.
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
