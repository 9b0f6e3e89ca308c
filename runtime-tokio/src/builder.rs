//! From what a user wants to an informer and its driver.

use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::sync::Arc;

use informer_core::{
    BackoffConfig, CacheConfig, Decode, Initial, Json, OwnedResource, ReflectorConfig, Report,
    Resource, Transport, Typed,
};
use tokio::sync::mpsc;

use crate::driver::Driver;
use crate::index::{Index, IndexFn, Indexes};
use crate::informer::Informer;
use crate::shared::{Inner, OnReport, OnVersion};

/// A type that stands for a Kubernetes resource.
///
/// ```
/// use informer_core::Resource;
/// use informer_tokio::Kind;
///
/// struct Widget;
/// impl Kind for Widget {
///     const RESOURCE: Resource<'static> = Resource::new("example.com", "v1", "widgets").kind("Widget");
/// }
/// ```
pub trait Kind {
    /// The resource: group, version, plural, and the kind, by which objects of another kind are noticed.
    const RESOURCE: Resource<'static>;
}

/// Collects what an informer should be.
///
/// See [`Informer::of`] and [`Informer::builder`].
#[must_use]
pub struct Builder<T, D: Decode> {
    transport: T,
    decode: D,
    resource: OwnedResource,
    config: ReflectorConfig,
    name: Option<String>,
    seed: Option<u64>,
    resync: Option<Duration>,
    indexes: Vec<(String, IndexFn<D::Value>)>,
    on_report: Option<OnReport>,
    on_version: Option<OnVersion>,
    drain: Duration,
}

impl Informer<()> {
    /// Starts an informer of any resource, with a decoder that says what is kept of each object.
    ///
    /// ```
    /// use informer_tokio::{Informer, Raw, Resource};
    /// # fn build<T: informer_core::Transport>(transport: T) -> Result<(), informer_core::ResourceError> {
    /// let (pods, driver) = Informer::builder(transport, Resource::parse("pods")?, Raw).build();
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder<T, D: Decode>(transport: T, resource: Resource<'_>, decode: D) -> Builder<T, D> {
        Builder {
            transport,
            decode,
            resource: resource.into(),
            config: ReflectorConfig::default(),
            name: None,
            seed: None,
            resync: None,
            indexes: Vec::new(),
            on_report: None,
            on_version: None,
            drain: Duration::from_secs(10),
        }
    }
}

impl<K: Kind> Informer<K> {
    /// Starts an informer of a resource that has a type.
    pub fn of<T>(transport: T) -> Builder<T, Json<K>>
    where
        Json<K>: Decode<Value = Typed<K>>,
    {
        Informer::builder(transport, K::RESOURCE, Json::new())
    }
}

impl<T, D: Decode> Builder<T, D> {
    /// Limits it to a namespace. Left out, or empty, it is all of them.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.resource = self.resource.as_ref().namespace(namespace).into();
        self
    }

    /// Limits it to objects with these labels; the server selects.
    pub fn labels(mut self, selector: &str) -> Self {
        self.resource = self.resource.as_ref().labels(selector).into();
        self
    }

    /// Limits it to objects with these fields; the server selects.
    pub fn fields(mut self, selector: &str) -> Self {
        self.resource = self.resource.as_ref().fields(selector).into();
        self
    }

    /// Names it in logs and reports. Left out, it is named by its resource.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Chooses how the initial state is fetched. Left out, by a streaming list where the server has it, and else by LIST.
    pub const fn initial(mut self, initial: Initial) -> Self {
        self.config.initial = initial;
        self
    }

    /// Sets how many objects a page of a list has.
    pub const fn page_size(mut self, size: u32) -> Self {
        self.config.page_size = Some(size);
        self
    }

    /// Sets how often every object is replayed to handlers that do not say otherwise. A resync asks no API server.
    pub const fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Sets how many bytes one object may have; a larger one is reported and skipped. The default is 16 MiB.
    pub const fn frame_limit(mut self, bytes: usize) -> Self {
        self.config.frame_limit = bytes;
        self
    }

    /// Sets how the delays between attempts grow.
    pub const fn backoff(mut self, backoff: BackoffConfig) -> Self {
        self.config.backoff = backoff;
        self
    }

    /// Sets the seed of what is random in it: jitter and the time for which watches are asked.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Behaves as client-go does wherever a difference can be seen from outside: see `docs/DIFFERENCES.md`.
    pub const fn client_go(mut self) -> Self {
        self.config.client_go = true;
        self
    }

    /// Sets how long handlers get to deliver what is pending when the informer stops. The default is 10 seconds.
    pub const fn drain(mut self, time: Duration) -> Self {
        self.drain = time;
        self
    }

    /// Adds an index: `values` gives an object's 0 to n values in it.
    ///
    /// # Panics
    /// Where the name is taken already; `namespace` always is.
    pub fn index<I>(
        self,
        name: &str,
        values: impl Fn(&D::Value) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        self.index_with(name, move |value, emit| {
            values(value)
                .into_iter()
                .for_each(|value| emit(value.as_ref()));
        })
    }

    /// Adds an index whose function hands over values that it borrows from the object.
    ///
    /// # Panics
    /// Where the name is taken already; `namespace` always is.
    pub fn index_with(
        mut self,
        name: &str,
        values: impl Fn(&D::Value, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Self {
        let taken = name == informer_core::NAMESPACE_INDEX
            || self.indexes.iter().any(|(other, _)| other == name);
        assert!(
            !taken,
            "there is an index named {name} already: choose another name"
        );
        self.indexes.push((name.to_owned(), Arc::new(values)));
        self
    }

    /// Has `hear` called with every report: what failed, what was skipped, and what will be tried next.
    pub fn on_report(mut self, hear: impl Fn(&Report<'_>) + Send + Sync + 'static) -> Self {
        self.on_report = Some(Arc::new(hear));
        self
    }

    /// Has `hear` called with every resourceVersion that is reached, bookmarks included, after the cache shows it.
    pub fn on_version(mut self, hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_version = Some(Arc::new(hear));
        self
    }

    /// Makes the handle and the driver. Nothing happens before the driver runs.
    #[must_use = "nothing happens before the driver runs"]
    pub fn build(self) -> (Informer<D::Value>, Driver<T, D>)
    where
        T: Transport,
    {
        let mut config = if self.config.client_go {
            CacheConfig::client_go()
        } else {
            CacheConfig::default()
        };
        // Which of the handlers want to hear of it, their options say.
        config.tell_unchanged = true;
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let name = self.name.unwrap_or_else(|| self.resource.to_string());
        let inner: Inner<D::Value> = Inner::new(
            name,
            self.resource,
            config,
            seed,
            self.on_report,
            self.on_version,
        );
        let mut indexes = Indexes::default();
        {
            let mut cache = inner.cache_mut();
            for (name, function) in self.indexes {
                // The names are distinct, and there is no bound on `Heap`.
                if let Ok(number) = cache.declare_index(&name) {
                    indexes = indexes.with(Index {
                        number,
                        name,
                        function,
                    });
                }
            }
        }
        inner.set_indexes(indexes);
        let inner = Arc::new(inner);
        let (jobs, queue) = mpsc::unbounded_channel();
        let informer = Informer::new(Arc::clone(&inner), jobs, self.resync, self.config.client_go);
        let driver = Driver::new(
            inner,
            self.transport,
            self.decode,
            self.config,
            seed,
            queue,
            self.drain,
        );
        (informer, driver)
    }
}

impl<T, D: Decode> core::fmt::Debug for Builder<T, D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Builder")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
