//! From what a user wants to an informer and its driver.

use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::sync::Arc;

use informer_core::{
    Decode, Json, Meta, OwnedResource, ReflectorConfig, Report, Resource, Transport,
    audit::AuditConfig, cache::CacheConfig, decode::Typed, resource::Shard,
};
use tokio::sync::mpsc;

use crate::cache::index::{Index, IndexFn, Indexes};
use crate::cache::shared::{Inner, OnReport, OnVersion};
use crate::driver::journal::Journal;
use crate::driver::{Audits, Driver, Transports, Work};
use crate::informer::Informer;
use crate::informer::Kind;

/// Collects what an informer should be.
///
/// See [`Informer::of`] and [`Informer::builder`].
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::{Informer, Raw, Resource};
/// # fn build<T: informer_core::Transport>(transport: T) -> Result<(), informer_core::resource::ResourceError> {
/// let (pods, driver) = Informer::builder(transport, Resource::parse("pods")?, Raw)
///     .namespace("prod")
///     .labels("app=web")
///     .resync(Duration::from_secs(600))
///     .build();
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Builder<T, D: Decode> {
    transport: T,
    decode: D,
    resource: OwnedResource,
    /// The namespaces, where there are several.
    namespaces: Vec<String>,
    /// The parts, where there are several.
    shards: Vec<Shard>,
    audit: Option<AuditConfig>,
    /// Makes transports of one, where more than one is needed.
    copy: Option<fn(&T) -> T>,
    pub(crate) settings: Settings,
    name: Option<String>,
    seed: Option<u64>,
    indexes: Vec<(String, IndexFn<D::Value>)>,
    on_report: Option<OnReport>,
    on_version: Option<OnVersion>,
    decoders: Option<usize>,
    journal: Option<Journal>,
}

/// What a builder and a factory set for an informer alike.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) config: ReflectorConfig,
    pub(crate) resync: Option<Duration>,
    pub(crate) drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config: ReflectorConfig::default(),
            resync: None,
            drain: Duration::from_secs(10),
        }
    }
}

/// The methods of a builder that has [`Settings`].
macro_rules! settings_methods {
    () => {
        /// Chooses how the initial state is fetched. Left out, by a streaming list where the server has it, and else by LIST.
        pub const fn initial(mut self, initial: ::informer_core::reflector::Initial) -> Self {
            self.settings.config.initial = initial;
            self
        }

        /// Sets how many objects a page of a list has.
        pub const fn page_size(mut self, size: u32) -> Self {
            self.settings.config.page_size = Some(size);
            self
        }

        /// Sets how often every object is replayed to handlers that do not say otherwise. A resync asks no API server.
        pub const fn resync(mut self, period: ::core::time::Duration) -> Self {
            self.settings.resync = Some(period);
            self
        }

        /// Sets how many bytes one object may have; a larger one is reported and skipped. The default is 16 MiB.
        pub const fn frame_limit(mut self, bytes: usize) -> Self {
            self.settings.config.frame_limit = bytes;
            self
        }

        /// Sets how the delays between attempts grow.
        pub const fn backoff(mut self, backoff: ::informer_core::time::BackoffConfig) -> Self {
            self.settings.config.backoff = backoff;
            self
        }

        /// Behaves as client-go does wherever a difference can be seen from outside: see `docs/DIFFERENCES.md`.
        pub const fn client_go(mut self) -> Self {
            self.settings.config.client_go = true;
            self
        }

        /// Sets how long handlers get to deliver what is pending when the informer stops. The default is 10 seconds.
        pub const fn drain(mut self, time: ::core::time::Duration) -> Self {
            self.settings.drain = time;
            self
        }
    };
}
pub(crate) use settings_methods;

/// The methods of a builder that has a `resource`, by which the server selects objects.
macro_rules! selector_methods {
    () => {
        /// Limits it to objects with these labels; the server selects.
        pub fn labels(mut self, selector: &str) -> Self {
            self.resource = self.resource.as_ref().labels(selector).into();
            self
        }

        /// Limits it to objects with these fields, as text or as a [`FieldSelector`](crate::selector::FieldSelector); the server
        /// selects.
        pub fn fields(mut self, selector: impl AsRef<str>) -> Self {
            self.resource = self.resource.as_ref().fields(selector.as_ref()).into();
            self
        }
    };
}
pub(crate) use selector_methods;

impl Informer<()> {
    /// Starts an informer of any resource, with a decoder that says what is kept of each object.
    pub fn builder<T, D: Decode>(transport: T, resource: Resource<'_>, decode: D) -> Builder<T, D> {
        Builder {
            transport,
            decode,
            resource: resource.into(),
            namespaces: Vec::new(),
            shards: Vec::new(),
            audit: None,
            copy: None,
            settings: Settings::default(),
            name: None,
            seed: None,
            indexes: Vec::new(),
            on_report: None,
            on_version: None,
            decoders: None,
            journal: None,
        }
    }
}

impl<K: Kind> Informer<K> {
    /// Starts an informer of a resource that has a type.
    ///
    /// ```
    /// use informer_tokio::Informer;
    /// #[derive(serde::Deserialize)]
    /// struct Pod {}
    /// informer_tokio::kind!(Pod, "v1", "pods");
    /// # fn build<T: informer_core::Transport>(transport: T) {
    /// let (pods, driver) = Informer::<Pod>::of(transport).build();
    /// # }
    /// ```
    pub fn of<T>(transport: T) -> Builder<T, Json<K>>
    where
        Json<K>: Decode<Value = Typed<K>>,
    {
        Informer::builder(transport, K::resource().as_ref(), Json::new())
    }

    /// Starts an informer of no more than the metadata of a resource that has a type. The server sends no more than
    /// that (`PartialObjectMetadata`), and nothing else is kept.
    pub fn metadata_of<T>(transport: T) -> Builder<T, Meta> {
        Informer::builder(transport, K::resource().as_ref(), Meta)
    }
}

impl<T, D: Decode> Builder<T, D> {
    /// Limits it to a namespace. Left out, or empty, it is all of them.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.clear();
        self.resource = self.resource.as_ref().namespace(namespace).into();
        self
    }

    /// Limits it to several namespaces: one cache, with a list and a watch for each of them. It is synced when all of
    /// them are. A namespace that is named twice counts once; where the empty one is among them it is all of them.
    ///
    /// # Panics
    /// Where the list is empty: that is more likely a mistake than the wish for nothing, or for everything.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self
    where
        T: Clone,
    {
        let mut namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        assert!(!namespaces.is_empty(), "name at least one namespace");
        namespaces.sort();
        namespaces.dedup();
        if namespaces.len() == 1 || namespaces.first().is_some_and(String::is_empty) {
            return self.namespace(&namespaces[0]);
        }
        self.resource = self.resource.as_ref().namespace("").into();
        self.copy = Some(T::clone);
        self.namespaces = namespaces;
        self
    }

    /// Has it list and watch in parts (KEP-5866) that are sources of one cache, each with requests of its own: one part is
    /// listed again where its watch breaks, and not everything. They should be disjoint and complete, as those of
    /// [`Shard::of`](informer_core::resource::Shard::of) are; what is in none of them is not seen. It is synced when all of them
    /// are.
    ///
    /// It is of use where the server knows of parts. From one that does not each source gets everything, and keeps what
    /// is its own.
    ///
    /// # Panics
    /// Where there are none: that is more likely a mistake than the wish for nothing, or for everything.
    ///
    /// ```
    /// # use informer_tokio::Raw;
    /// # use informer_tokio::informer::Builder;
    /// # use informer_tokio::transport::BoxTransport;
    /// use informer_core::resource::{Shard, ShardBy};
    /// # fn example(builder: Builder<BoxTransport, Raw>) {
    /// builder.shards((0..4).filter_map(|index| Shard::of(ShardBy::Uid, index, 4)));
    /// # }
    /// ```
    pub fn shards(mut self, shards: impl IntoIterator<Item = Shard>) -> Self
    where
        T: Clone,
    {
        self.shards = shards.into_iter().collect();
        self.shards.sort();
        self.shards.dedup();
        assert!(!self.shards.is_empty(), "name at least one part");
        self.copy = Some(T::clone);
        self
    }

    /// Compares the cache with the server now and then, by lists of the metadata at the newest version, and repairs what
    /// differs for good: an object whose deletion a faulty server never told of, say. Each difference is a report of the
    /// class `drift`, and handlers hear of what the repair changes. Left out, it does not, and such an object stays: see
    /// `docs/AUDIT.md`.
    pub fn audit(mut self, config: AuditConfig) -> Self
    where
        T: Clone,
    {
        self.audit = Some(config);
        self.copy = Some(T::clone);
        self
    }

    selector_methods!();

    /// Names it in logs and reports. Left out, it is named by its resource.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    settings_methods!();

    /// Sets the seed of what is random in it: jitter and the time for which watches are asked.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how many threads may help to decode what comes in large pieces, such as the first list. Left out it is, on a
    /// runtime of several threads, one fewer than there are processors, 8 at most; on others none. With 0 the driver
    /// decodes alone.
    ///
    /// They are threads of the runtime for blocking work, taken while there is something to do; the order of what is
    /// told does not depend on them. A decoder says by [`Decode::is_costly`] whether it is worth it.
    pub const fn decoders(mut self, threads: usize) -> Self {
        self.decoders = Some(threads);
        self
    }

    /// Keeps the cache in a file, so that after a start it is served at once, also where no API server can be reached. The
    /// watch goes on from the version that was reached, and what changed meanwhile is told. Until the server has confirmed
    /// it, the cache is [stale](Informer::stale_since) and not synced. See `docs/JOURNAL.md`.
    ///
    /// A journal of another cluster, resource, selector or decoder is refused, and one that cannot be used is done without:
    /// both are reported, with the classes `journal-refused` and `journal`.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Adds an index: `values` gives an object's 0 to n values in it.
    ///
    /// # Panics
    /// Where the name is taken already; `namespace` always is.
    ///
    /// ```
    /// use informer_tokio::Json;
    /// use informer_tokio::informer::Builder;
    /// #[derive(serde::Deserialize)]
    /// struct Pod { node: Option<String> }
    /// # fn example<T>(builder: Builder<T, Json<Pod>>) {
    /// builder.index("node", |pod| pod.node.clone());
    /// # }
    /// ```
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
    ///
    /// ```
    /// use informer_tokio::Json;
    /// use informer_tokio::informer::Builder;
    /// #[derive(serde::Deserialize)]
    /// struct Pod { node: Option<String> }
    /// # fn example<T>(builder: Builder<T, Json<Pod>>) {
    /// builder.index_with("node", |pod, value| pod.node.iter().for_each(|node| value(node)));
    /// # }
    /// ```
    pub fn index_with(
        mut self,
        name: &str,
        values: impl Fn(&D::Value, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Self {
        let taken = name == informer_core::cache::NAMESPACE_INDEX
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
        let settings = self.settings;
        let mut config = if settings.config.client_go {
            CacheConfig::client_go()
        } else {
            CacheConfig::default()
        };
        // Which of the handlers want to hear of it, their options say.
        config.tell_unchanged = true;
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let name = self.name.unwrap_or_else(|| self.resource.to_string());
        let sources = sources(&self.resource, &self.namespaces, &self.shards);
        let count = sources.len();
        let inner: Inner<D::Value> = Inner::new(
            name,
            sources,
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
        let informer = Informer::new(
            Arc::clone(&inner),
            jobs,
            settings.resync,
            settings.config.client_go,
        );
        // There is a copy where more than one is needed: whatever asks for more sets it.
        let copies = |count: usize| (0..count).filter_map(|_| Some(self.copy?(&self.transport)));
        let audits = self.audit.map(|config| Audits {
            config,
            transports: copies(count).collect(),
        });
        let mut sources: Vec<T> = copies(count - 1).collect();
        sources.push(self.transport);
        let transports = Transports { sources, audits };
        let work = Work {
            transports,
            decode: self.decode,
            decoders: self.decoders,
            config: settings.config,
            seed,
            drain: settings.drain,
            journal: self.journal,
        };
        let driver = Driver::new(inner, work, queue);
        (informer, driver)
    }
}

/// Each namespace in each part is a source.
fn sources(
    resource: &OwnedResource,
    namespaces: &[String],
    shards: &[Shard],
) -> Vec<OwnedResource> {
    let whole = resource.as_ref();
    let mut sources = vec![whole];
    if !namespaces.is_empty() {
        let namespaces = namespaces.iter();
        sources = namespaces
            .map(|namespace| whole.namespace(namespace))
            .collect();
    }
    if !shards.is_empty() {
        let parts = sources.iter().flat_map(|source| {
            let parts = shards.iter();
            parts.map(|shard| source.shard(*shard))
        });
        sources = parts.collect();
    }
    sources.into_iter().map(Into::into).collect()
}

impl<T, D: Decode> core::fmt::Debug for Builder<T, D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Builder")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
