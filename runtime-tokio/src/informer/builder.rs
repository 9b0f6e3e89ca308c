//! The builder of an informer and its driver.

use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::sync::Arc;

use informer_core::{
    Decode, Form, OwnedResource, Report, Resource, Transport, audit::AuditConfig,
    cache::CacheConfig, resource::Shard, transport::SendTransport,
};
use tokio::sync::mpsc;

use crate::cache::index::{Index, IndexFn, Indexes};
use crate::cache::shared::{Inner, OnReport, OnVersion};
use crate::driver::journal::Journal;
use crate::driver::{Audits, Driver, DriverParts, Member, Transports};
use crate::erased::BoxTransport;
use crate::informer::parts::{parts_of, sources};
use crate::informer::{Informer, Kind, Settings, selector_methods, settings_methods};

/// The builder of an informer.
///
/// See [`Informer::builder`].
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::{Informer, Raw, Resource};
/// # fn build<T: informer_core::Transport + Clone>(transport: T) -> Result<(), informer_core::resource::ResourceError> {
/// let (pods, driver) = Informer::<Raw>::builder_for(&transport, Resource::parse("pods")?)
///     .namespace("prod")
///     .labels("app=web")
///     .resync(Duration::from_secs(600))
///     .build();
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Builder<T, F: Form, D = <F as Form>::Decoder> {
    /// `None` if each member has its own.
    transport: Option<T>,
    members: Option<mpsc::UnboundedReceiver<Member<T>>>,
    decode: D,
    resource: OwnedResource,
    /// The namespaces, if there are several.
    namespaces: Vec<String>,
    /// The namespaces with selectors of their own.
    parts: Vec<OwnedResource>,
    /// The shards, if there are several.
    shards: Vec<Shard>,
    audit: Option<AuditConfig>,
    /// Clones the transport, if more than one is needed.
    copy: Option<fn(&T) -> T>,
    pub(crate) settings: Settings,
    name: Option<String>,
    indexes: Vec<(String, IndexFn<F::Stored>)>,
    on_report: Option<OnReport>,
    on_version: Option<OnVersion>,
    decoders: Option<usize>,
    journal: Option<Journal>,
}

impl<F: Form> Informer<F> {
    /// Returns the builder of an informer for the resource that a type represents. The transport is cloned.
    pub fn builder<T: Clone>(transport: &T) -> Builder<T, F, F::Decoder>
    where
        F: Kind,
        F::Decoder: Decode<Value = F::Stored> + Default,
    {
        Self::builder_for(transport, F::resource())
    }

    /// Returns the builder of an informer for any resource. The transport is cloned.
    ///
    /// ```
    /// use informer_tokio::{Informer, Meta, Raw, Resource};
    /// # fn build(client: &informer_tokio::transport::BoxTransport) -> Result<(), informer_core::resource::ResourceError> {
    /// let widgets = Informer::<Raw>::builder_for(client, Resource::parse("widgets.v1.example.com")?);
    /// // The server sends only metadata too (`PartialObjectMetadata`).
    /// let pods = Informer::<Meta>::builder_for(client, Resource::parse("pods")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_for<T: Clone>(
        transport: &T,
        resource: impl Into<OwnedResource>,
    ) -> Builder<T, F, F::Decoder>
    where
        F::Decoder: Decode<Value = F::Stored> + Default,
    {
        Self::builder_with(transport.clone(), resource, F::Decoder::default())
    }

    /// Returns the builder of an informer for any resource. The decoder determines what is stored of each object.
    ///
    /// ```
    /// use informer_tokio::{Informer, Json, Resource};
    /// use informer_tokio::decode::{Decoder, Prune};
    /// #[derive(serde::Deserialize)]
    /// struct Pod {}
    /// # fn build<T: informer_core::Transport>(transport: T) {
    /// let decoder = Decoder::<Json<Pod>>::new().prune(Prune::NOISE);
    /// let pods = Informer::<Pod>::builder_with(transport, Resource::new("", "v1", "pods"), decoder);
    /// # }
    /// ```
    pub fn builder_with<T, D: Decode<Value = F::Stored>>(
        transport: T,
        resource: impl Into<OwnedResource>,
        decode: D,
    ) -> Builder<T, F, D> {
        Builder::of_parts(Some(transport), resource.into(), decode)
    }
}

impl<T, F: Form, D: Decode<Value = F::Stored>> Builder<T, F, D> {
    pub(crate) fn of_parts(transport: Option<T>, resource: OwnedResource, decode: D) -> Self {
        Self {
            transport,
            members: None,
            decode,
            resource,
            namespaces: Vec::new(),
            parts: Vec::new(),
            shards: Vec::new(),
            audit: None,
            copy: None,
            settings: Settings::default(),
            name: None,
            indexes: Vec::new(),
            on_report: None,
            on_version: None,
            decoders: None,
            journal: None,
        }
    }
}

impl<T, F: Form, D: Decode<Value = F::Stored>> Builder<T, F, D> {
    /// Lets sources join and leave at run time, each with its own transport.
    pub(crate) fn members(mut self) -> (Self, mpsc::UnboundedSender<Member<T>>) {
        let (sender, members) = mpsc::unbounded_channel();
        (self.transport, self.members) = (None, Some(members));
        (self, sender)
    }

    /// Restricts the informer to a namespace. An empty one, which is the default, means all namespaces.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.clear();
        self.parts.clear();
        self.resource = self.resource.as_ref().namespace(namespace).into();
        self
    }

    /// Restricts the informer to several namespaces: one cache, with a list and a watch for each of them. It is synced
    /// when all of them are. Duplicates are ignored, and the empty namespace means all namespaces.
    ///
    /// A resource that is known to be cluster-scoped is listed and watched once, with all its objects. A custom resource counts
    /// as namespaced unless [`Resource::namespaced`](informer_core::Resource::namespaced) says otherwise; if it is not, the server answers 404, which is reported.
    ///
    /// # Panics
    /// Panics if there are no namespaces.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self
    where
        T: Clone,
    {
        let mut namespaces: Vec<String> = namespaces.into_iter().map(Into::into).collect();
        assert!(!namespaces.is_empty(), "name at least one namespace");
        namespaces.sort();
        namespaces.dedup();
        if self.resource.as_ref().is_namespaced() == Some(false) {
            return self.namespace("");
        }
        if namespaces.len() == 1 || namespaces.first().is_some_and(String::is_empty) {
            return self.namespace(&namespaces[0]);
        }
        self.resource = self.resource.as_ref().namespace("").into();
        self.copy = Some(T::clone);
        self.namespaces = namespaces;
        self.parts.clear();
        self
    }

    /// Restricts the informer to parts of the resource: namespaces with selectors of their own, in one cache. `parts` gets the
    /// resource without selectors. The part without a namespace is that of all others. Selectors of the builder apply to
    /// each part as well.
    ///
    /// # Panics
    /// Panics if there are no parts, or if two of them have the same namespace.
    ///
    /// ```
    /// # use informer_tokio::Raw;
    /// # use informer_tokio::informer::Builder;
    /// # use informer_tokio::transport::BoxTransport;
    /// # fn example(pods: Builder<BoxTransport, Raw>) {
    /// let pods = pods.parts(|pods| {
    ///     vec![pods.namespace("prod"), pods.namespace("test").labels("app=web"), pods.labels("tier=infra")]
    /// });
    /// # }
    /// ```
    pub fn parts(mut self, parts: impl FnOnce(Resource<'_>) -> Vec<Resource<'_>>) -> Self
    where
        T: Clone,
    {
        let parts = parts_of(&self.resource, parts);
        self.resource = self.resource.as_ref().namespace("").into();
        self.namespaces.clear();
        self.with_parts(parts)
    }

    pub(crate) fn with_parts(mut self, parts: Vec<OwnedResource>) -> Self
    where
        T: Clone,
    {
        self.parts = parts;
        self.copy = Some(T::clone);
        self
    }

    /// Lists and watches in shards (KEP-5866), which are separate sources of one cache. If the watch of a shard breaks,
    /// only that shard is relisted. The shards should be disjoint and complete, like those of
    /// [`Shard::of`](informer_core::resource::Shard::of). Objects outside of all shards are not seen. The informer is
    /// synced when all shards are.
    ///
    /// A server without support for shards sends everything to each source, and each source keeps only its own objects.
    ///
    /// An object that is deleted and created again may come from another shard, whose watch is ahead of the first. The newer of
    /// the two is shown, and what the first shard sends late does not replace it. If one of them was left out although the
    /// other is gone, its shard is listed again.
    ///
    /// # Panics
    /// Panics if there are no shards.
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
        assert!(!self.shards.is_empty(), "name at least one shard");
        self.copy = Some(T::clone);
        self
    }

    /// Compares the cache with the server periodically, with lists of metadata at the newest version, and repairs
    /// permanent differences. An example is an object whose deletion a faulty server never sent.
    ///
    /// Each difference is reported with the class `drift`, and handlers are notified of the changes that the repair
    /// makes. There are no audits by default. See `docs/AUDIT.md`.
    pub fn audit(mut self, config: AuditConfig) -> Self
    where
        T: Clone,
    {
        self.audit = Some(config);
        self.copy = Some(T::clone);
        self
    }

    /// Asks the server periodically for its newest version, with a list of one object, so that
    /// [`Health::staleness`](crate::health::Health::staleness) is never too short. Without probes it relies on a watch
    /// that delivers at once. A watch that falls behind is reported with the class `watch-lags`.
    ///
    /// There are no probes by default. The period is at least a second. Nothing in a quiet resource shows that the watch
    /// is up to date but a bookmark, which the server sends about once a minute.
    pub fn probe(mut self, period: Duration) -> Self
    where
        T: Clone,
    {
        self.settings.probe(period);
        self.copy = Some(T::clone);
        self
    }

    selector_methods!();

    /// Sets the name for logs and reports. The default is the name of the resource.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    settings_methods!();

    /// Sets the number of threads that help to decode large amounts of data, such as the first list. With 0, the driver
    /// decodes alone. The default on a multi-threaded runtime is one less than the number of processors, at most 8. On
    /// other runtimes it is 0. The informers of a process that use the default have at most 16 such threads together,
    /// and the drivers of the others decode alone.
    ///
    /// They are blocking threads of the runtime, and used only while there is work. They do not affect the order of
    /// notifications. A decoder returns from [`Decode::is_costly`] whether the effort is worth it, and from
    /// [`Decode::is_in_pieces`] whether they decode all objects, so that an object is freed where it was allocated.
    pub const fn decoders(mut self, threads: usize) -> Self {
        self.decoders = Some(threads);
        self
    }

    /// Stores the cache in a file, so that it can be served immediately after a restart, even without a reachable API
    /// server.
    ///
    /// The watch resumes at the last version, and handlers are notified of the changes since then. Until the server has
    /// confirmed the state, the cache is [stale](Informer::stale_since) and not synced. See `docs/JOURNAL.md`.
    ///
    /// A journal of another cluster, resource, selector or decoder is rejected, and one that cannot be used is ignored.
    /// Both are reported, with the classes `journal-refused` and `journal`.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Adds an index. `values` returns the values of an object in it, which may be none.
    ///
    /// # Panics
    /// Panics if the name is in use. `namespace` always is.
    ///
    /// ```
    /// use informer_tokio::informer::Builder;
    /// #[derive(serde::Deserialize)]
    /// struct Pod { node: Option<String> }
    /// # fn example<T>(builder: Builder<T, Pod>) {
    /// builder.index("node", |pod| pod.node.clone());
    /// # }
    /// ```
    pub fn index<I>(
        self,
        name: &str,
        values: impl Fn(&F::Stored) -> I + Send + Sync + 'static,
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

    /// Adds an index whose function passes on values borrowed from the object.
    ///
    /// # Panics
    /// Panics if the name is in use. `namespace` always is.
    ///
    /// ```
    /// use informer_tokio::informer::Builder;
    /// #[derive(serde::Deserialize)]
    /// struct Pod { node: Option<String> }
    /// # fn example<T>(builder: Builder<T, Pod>) {
    /// builder.index_with("node", |pod, value| pod.node.iter().for_each(|node| value(node)));
    /// # }
    /// ```
    pub fn index_with(
        mut self,
        name: &str,
        values: impl Fn(&F::Stored, &mut dyn FnMut(&str)) + Send + Sync + 'static,
    ) -> Self {
        let taken = name == informer_core::cache::NAMESPACE_INDEX
            || self.indexes.iter().any(|(other, _)| other == name);
        assert!(
            !taken,
            "the index {name} already exists: choose another name"
        );
        self.indexes.push((name.to_owned(), Arc::new(values)));
        self
    }

    /// Calls `callback` with every report: failures, skipped objects, and the next attempts.
    pub fn on_report(mut self, callback: impl Fn(&Report<'_>) + Send + Sync + 'static) -> Self {
        self.on_report = Some(Arc::new(callback));
        self
    }

    /// Calls `callback` with every resourceVersion that the cache has reached, including bookmarks.
    pub fn on_version(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_version = Some(Arc::new(callback));
        self
    }

    /// Boxes the transport, so that the driver's future is `Send`.
    pub(crate) fn boxed(self) -> Builder<BoxTransport, F, D>
    where
        T: SendTransport,
    {
        Builder {
            transport: self.transport.map(BoxTransport::of),
            // Only a factory makes informers with members, whose transports are boxed already.
            members: None,
            copy: self.copy.map(|_| BoxTransport::clone as fn(&_) -> _),
            decode: self.decode,
            resource: self.resource,
            namespaces: self.namespaces,
            parts: self.parts,
            shards: self.shards,
            audit: self.audit,
            settings: self.settings,
            name: self.name,
            indexes: self.indexes,
            on_report: self.on_report,
            on_version: self.on_version,
            decoders: self.decoders,
            journal: self.journal,
        }
    }

    /// Builds the informer, and spawns its driver on the current tokio runtime. It runs until it is
    /// [stopped](Informer::stop), or until the runtime ends.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn spawn(self) -> Informer<F>
    where
        T: SendTransport,
        D: Send + Sync + 'static,
        F::Stored: Send + Sync + 'static,
    {
        let (informer, driver) = self.boxed().build();
        // The handle waits for its end, and a panic in it is reported.
        drop(tokio::spawn(driver.run()));
        informer
    }

    /// Builds the handle and the driver, for a program that runs the driver itself. Nothing happens until it runs.
    #[must_use = "nothing happens before the driver runs"]
    pub fn build(self) -> (Informer<F>, Driver<T, D>)
    where
        T: Transport,
    {
        let settings = self.settings;
        let mut config = if settings.config.client_go {
            CacheConfig::client_go()
        } else {
            CacheConfig::default()
        };
        // The options of each handler decide whether it is notified.
        config.notify_unchanged = true;
        let seed = settings
            .seed
            .unwrap_or_else(|| RandomState::new().hash_one(0));
        let name = self.name.unwrap_or_else(|| self.resource.to_string());
        let sources = match self.members {
            Some(_) => None,
            None => Some(sources(
                &self.resource,
                &self.namespaces,
                &self.parts,
                &self.shards,
            )),
        };
        let count = sources.as_ref().map_or(0, Vec::len);
        let inner: Inner<D::Value> = Inner::new(
            name,
            sources,
            self.resource,
            config,
            seed,
            self.on_report,
            self.on_version,
        );
        inner.speak(settings.speaks);
        let mut indexes = Indexes::default();
        {
            let mut cache = inner.cache_mut();
            for (name, function) in self.indexes {
                // The names are distinct, and `Heap` is unbounded.
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
        // `copy` is set by everything that needs more than one transport.
        let copies =
            |count: usize| (0..count).filter_map(|_| Some(self.copy?(self.transport.as_ref()?)));
        let audits = self.audit.map(|config| Audits {
            config,
            transports: copies(count).collect(),
        });
        let mut sources: Vec<T> = copies(count.saturating_sub(1)).collect();
        sources.extend(self.transport);
        let transports = Transports {
            sources,
            members: self.members,
            audits,
            probes: settings.probe.zip(self.copy),
        };
        let parts = DriverParts {
            transports,
            decode: self.decode,
            decoders: self.decoders,
            config: settings.config,
            seed,
            drain: settings.drain,
            journal: self.journal,
        };
        let driver = Driver::new(inner, parts, queue);
        (informer, driver)
    }
}

impl<T, F: Form, D> core::fmt::Debug for Builder<T, F, D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Builder")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}
