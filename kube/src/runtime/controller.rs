//! A replacement of the constructors of `kube::runtime::Controller`.

use core::fmt::Debug;
use core::hash::Hash;
use std::sync::Arc;

use futures_core::{Stream, TryFuture};
use kube_client::Api;
use kube_core::{PartialObjectMeta, Resource};
use kube_runtime::controller::{Action, Config, Error};
use kube_runtime::reflector::{ObjectRef, Store, store::Writer};
use kube_runtime::utils::Backoff;
use kube_runtime::{WatchStreamExt as _, reflector};
use serde::de::DeserializeOwned;

use crate::runtime::watcher::{self, metadata_watcher, watcher};

/// kube's [`Controller`](kube_runtime::Controller) on the [`watcher()`](crate::runtime::watcher()) of this crate.
///
/// A program changes its import only. The queue, the store and the scheduling are kube's. A
/// [`Controller`](informer_tokio::controller::Controller) of informers has those of client-go, waits for its own writes,
/// and gets the keys of deleted objects.
///
/// It needs kube's feature `unstable-runtime-stream-control`, which may change in a minor version of kube. The feature
/// `controller` of this crate enables it.
#[must_use = "a controller does nothing until it is run"]
pub struct Controller<K>(kube_runtime::Controller<K>)
where
    K: Clone + Resource<DynamicType: Eq + Hash> + Debug + 'static;

impl<K> Controller<K>
where
    K: Clone + Resource<DynamicType: Debug + Clone + Eq + Hash + Unpin> + DeserializeOwned,
    K: Debug + Send + Sync + 'static,
{
    /// Creates a controller of the objects of a type.
    pub fn new(api: Api<K>, config: watcher::Config) -> Self
    where
        K::DynamicType: Default,
    {
        Self::new_with(api, config, K::DynamicType::default())
    }

    /// Creates a controller of objects whose type is known only at run time.
    pub fn new_with(api: Api<K>, config: watcher::Config, dyntype: K::DynamicType) -> Self {
        let writer = Writer::<K>::new(dyntype.clone());
        let store = writer.as_reader();
        let objects = reflector(writer, watcher(api, config)).applied_objects();
        Self(kube_runtime::Controller::for_stream_with(
            objects, store, dyntype,
        ))
    }

    /// Also reconciles the owners of changed objects, of which only metadata is requested.
    pub fn owns<C>(self, api: Api<C>, config: watcher::Config) -> Self
    where
        C: Clone + Resource<DynamicType = ()> + DeserializeOwned + Debug + Send + 'static,
    {
        self.owns_with(api, (), config)
    }

    /// As [`owns`](Self::owns), for a type that is known only at run time.
    pub fn owns_with<C>(self, api: Api<C>, dyntype: C::DynamicType, config: watcher::Config) -> Self
    where
        C: Clone + Resource<DynamicType: Debug + Eq + Hash + Clone> + DeserializeOwned,
        C: Debug + Send + 'static,
    {
        let objects = metadata_watcher(api, config).touched_objects();
        Self(
            self.0
                .owns_stream_with::<PartialObjectMeta<C>>(objects, dyntype),
        )
    }

    /// Also reconciles the objects that `mapper` returns for a changed object.
    pub fn watches<O, I>(
        self,
        api: Api<O>,
        config: watcher::Config,
        mapper: impl Fn(O) -> I + Sync + Send + 'static,
    ) -> Self
    where
        O: Clone + Resource<DynamicType: Default + Debug + Clone + Eq + Hash> + DeserializeOwned,
        O: Debug + Send + 'static,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static,
    {
        self.watches_with(api, O::DynamicType::default(), config, mapper)
    }

    /// As [`watches`](Self::watches), for a type that is known only at run time.
    pub fn watches_with<O, I>(
        self,
        api: Api<O>,
        dyntype: O::DynamicType,
        config: watcher::Config,
        mapper: impl Fn(O) -> I + Sync + Send + 'static,
    ) -> Self
    where
        O: Clone + Resource<DynamicType: Debug + Clone + Eq + Hash> + DeserializeOwned,
        O: Debug + Send + 'static,
        I: IntoIterator<Item = ObjectRef<K>, IntoIter: Send> + 'static,
    {
        let objects = watcher(api, config).touched_objects();
        Self(self.0.watches_stream_with(objects, mapper, dyntype))
    }

    /// Sets the delays after failures of the watches.
    pub fn trigger_backoff(self, backoff: impl Backoff + 'static) -> Self {
        Self(self.0.trigger_backoff(backoff))
    }

    /// Sets the concurrency and the debounce.
    pub fn with_config(self, config: Config) -> Self {
        Self(self.0.with_config(config))
    }

    /// Reconciles all objects whenever the stream has an item.
    pub fn reconcile_all_on(self, trigger: impl Stream<Item = ()> + Send + 'static) -> Self {
        Self(self.0.reconcile_all_on(trigger))
    }

    /// Stops when the future ends.
    pub fn graceful_shutdown_on(
        self,
        trigger: impl Future<Output = ()> + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.graceful_shutdown_on(trigger))
    }

    /// Stops at SIGINT or SIGTERM.
    pub fn shutdown_on_signal(self) -> Self {
        Self(self.0.shutdown_on_signal())
    }

    /// Returns the store of the controller's objects.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.0.store()
    }

    /// Returns kube's controller, for its other methods.
    pub fn into_inner(self) -> kube_runtime::Controller<K> {
        self.0
    }

    /// Runs the controller while the stream is polled.
    pub fn run<R, X>(
        self,
        reconciler: impl FnMut(Arc<K>, Arc<X>) -> R,
        error_policy: impl Fn(Arc<K>, &R::Error, Arc<X>) -> Action,
        context: Arc<X>,
    ) -> impl Stream<Item = Result<(ObjectRef<K>, Action), Error<R::Error, watcher::Error>>>
    where
        R: TryFuture<Ok = Action> + Send + 'static,
        R::Error: core::error::Error + Send + 'static,
    {
        self.0.run(reconciler, error_policy, context)
    }
}

impl<K> Debug for Controller<K>
where
    K: Clone + Resource<DynamicType: Eq + Hash> + Debug + 'static,
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Controller").finish_non_exhaustive()
    }
}
