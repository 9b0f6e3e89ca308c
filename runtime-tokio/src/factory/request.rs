//! Requests for an informer of a factory.

use core::any::TypeId;
use core::fmt;
use core::hash::{BuildHasher as _, BuildHasherDefault};
use core::marker::PhantomData;
use std::hash::DefaultHasher;
use std::sync::Arc;

use informer_core::{
    Decode, Decoder, Form, Meta, OwnedResource, Raw, Resource, resource::ResourceError,
};

use super::informers::Factory;
use super::table::{Inner, Members, Slot, SlotKey};
use crate::cache::entry::Entry;
use crate::cache::users::Users;
use crate::driver::Member;
use crate::erased::BoxTransport;
use crate::handler::{HandlerHandle, Handlers};
use crate::informer::parts::parts_of;
use crate::informer::{Builder, Informer, Kind, selector_methods};

impl Factory {
    /// Returns the informer of all objects of a type: [`Factory::of`] without restrictions.
    pub fn informer<F>(&self) -> Informer<F>
    where
        F: Form<Stored: Send + Sync + 'static> + Kind,
        F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
    {
        self.of::<F>().get()
    }

    /// Requests an informer for a typed resource.
    pub fn of<F>(&self) -> Request<'_, F>
    where
        F: Form + Kind,
        F::Decoder: Decode<Value = F::Stored> + Default,
    {
        self.with(F::resource().as_ref(), F::Decoder::default())
    }

    /// Requests an informer for a resource that is known only at run time, stored as bytes: `pods`, or
    /// `widgets.v1.example.com`.
    ///
    /// # Errors
    /// Fails if the text does not name a resource.
    ///
    /// ```
    /// # use informer_tokio::factory::Factory;
    /// # fn example(factory: Factory) -> Result<(), informer_core::resource::ResourceError> {
    /// let widgets = factory.raw("widgets.v1.example.com")?.get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw(&self, resource: &str) -> Result<Request<'_, Raw>, ResourceError> {
        Ok(self.with(Resource::parse(resource)?, Decoder::default()))
    }

    /// Requests an informer that stores metadata only, for a resource that is known only at run time.
    ///
    /// # Errors
    /// Fails if the text does not name a resource.
    pub fn metadata(&self, resource: &str) -> Result<Request<'_, Meta>, ResourceError> {
        Ok(self.with(Resource::parse(resource)?, Decoder::default()))
    }

    /// Requests an informer for any resource with any decoder. It is shared with requests of the same type of decoder and
    /// the same [`Decode::distinction`]. With a closure that captures something, each request has an informer of its own.
    pub fn with<F: Form, D: Decode<Value = F::Stored>>(
        &self,
        resource: Resource<'_>,
        decode: D,
    ) -> Request<'_, F, D> {
        Request::new(self, resource.into(), decode)
    }
}

/// A request for an informer of a [`Factory`], with its namespaces and selectors.
#[must_use = "`get` gives the informer"]
pub struct Request<'a, F: Form, D = <F as Form>::Decoder> {
    factory: &'a Factory,
    resource: OwnedResource,
    namespaces: Vec<String>,
    namespaces_where: Option<String>,
    parts: Vec<OwnedResource>,
    decode: D,
    form: PhantomData<fn() -> F>,
}

impl<'a, F: Form, D: Decode<Value = F::Stored>> Request<'a, F, D> {
    pub(super) const fn new(factory: &'a Factory, resource: OwnedResource, decode: D) -> Self {
        Self {
            factory,
            resource,
            namespaces: Vec::new(),
            namespaces_where: None,
            parts: Vec::new(),
            decode,
            form: PhantomData,
        }
    }

    /// Restricts the informer to a namespace. An empty one, which is the default, means all namespaces.
    pub fn namespace(self, namespace: &str) -> Self {
        self.namespaces([namespace])
    }

    /// Restricts the informer to several namespaces: one cache, with a list and a watch for each namespace. A resource that is
    /// known to be cluster-scoped is listed and watched once, with all its objects.
    ///
    /// # Panics
    /// Panics if there are no namespaces.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        assert!(!self.namespaces.is_empty(), "name at least one namespace");
        self.namespaces_where = None;
        self.parts.clear();
        self.namespaces.sort();
        self.namespaces.dedup();
        if self.namespaces.first().is_some_and(String::is_empty) || self.is_cluster_scoped() {
            self.namespaces.clear();
        }
        self
    }

    /// Restricts the informer to the namespaces with these labels, as they appear and disappear. When a namespace no longer
    /// matches, its objects are deleted from the cache, and handlers are notified of that.
    ///
    /// The namespaces come from another informer of the factory, so the client needs the rights to list and watch them. It has
    /// no effect on a resource that is known to be cluster-scoped.
    ///
    /// ```
    /// # use informer_tokio::factory::Factory;
    /// # fn example(factory: Factory) -> Result<(), informer_core::resource::ResourceError> {
    /// let pods = factory.raw("pods")?.namespaces_where("team=web").get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespaces_where(mut self, selector: &str) -> Self {
        self.namespaces.clear();
        self.parts.clear();
        self.namespaces_where = (!self.is_cluster_scoped()).then(|| selector.to_owned());
        self
    }

    /// Restricts the informer to namespaces with selectors of their own; see [`Builder::parts`].
    ///
    /// # Panics
    /// Panics as [`Builder::parts`] does, and in a factory of [several clusters](Factory::of_clusters).
    pub fn parts(mut self, parts: impl FnOnce(Resource<'_>) -> Vec<Resource<'_>>) -> Self {
        assert!(!self.factory.inner.of_clusters, "parts are of one cluster");
        self.namespaces.clear();
        self.namespaces_where = None;
        self.parts = parts_of(&self.resource, parts);
        self
    }

    fn is_cluster_scoped(&self) -> bool {
        self.resource.as_ref().is_namespaced() == Some(false)
    }

    selector_methods!();

    /// Returns the informer. It is created if there is no current one, or if that has ended.
    ///
    /// It runs while it has users; see [`Informer`]. After a stop of the factory it has already ended.
    #[must_use = "the watch ends with the last user"]
    pub fn get(self) -> Informer<F>
    where
        D: Send + Sync + 'static,
        F::Stored: Send + Sync + 'static,
    {
        let inner = &self.factory.inner;
        let key = SlotKey {
            decoder: TypeId::of::<(F, D)>(),
            distinction: self.decode.distinction().ok_or_else(|| inner.alone()),
            resource: self.resource.clone(),
            namespaces: self.namespaces.clone(),
            namespaces_where: self.namespaces_where.clone(),
            parts: self.parts.clone(),
        };
        // It is requested before the table is locked, and without a new informer it ends at once.
        let namespaces = self.namespaces_where.as_ref().map(|selector| {
            let namespaces = Resource::new("", "v1", "namespaces").labels(selector);
            self.factory
                .with(namespaces, Decoder::<Meta>::default())
                .get()
        });
        let mut replaced = None;
        let mut table = inner.table();
        if let Some(slot) = table.slots.get(&key)
            && let Some(in_use) = slot.in_use.upgrade()
            && let Some(informer) = slot.informer.as_any().downcast_ref::<Informer<F>>()
        {
            if !informer.is_over() || inner.status().stopping {
                return informer.clone().counted(in_use);
            }
            replaced = Some(in_use);
        }
        let factory = self.factory;
        let (mut builder, mut members) = (self.builder(), None);
        if inner.of_clusters || namespaces.is_some() {
            let (with, sender) = builder.members();
            (builder, members) = (with, Some(sender));
        }
        let (informer, driver) = builder.build();
        let number = table.next;
        table.next += 1;
        let end = {
            let (factory, key) = (Arc::downgrade(inner), key.clone());
            let informer = informer.clone();
            let following = namespaces
                .zip(members.clone())
                .map(|(namespaces, members)| follow(inner, namespaces, members));
            move || {
                following.iter().for_each(|(_, handler)| handler.remove());
                informer.stop();
                if let Some(factory) = factory.upgrade() {
                    factory.table().remove(&key, number);
                }
            }
        };
        let in_use = Arc::new(Users::new(end));
        let slot = Slot {
            number,
            informer: Box::new(informer.clone()),
            in_use: Arc::downgrade(&in_use),
            members: members.clone(),
        };
        if let (Some(members), None) = (&members, &key.namespaces_where) {
            for (cluster, (transport, join)) in &inner.clusters().all {
                for scope in key.scopes(cluster) {
                    let _ = members.send(Member::Join(scope, transport.clone(), *join));
                }
            }
            // The driver has not begun, so it receives these first.
            let _ = members.send(Member::Initial);
        }
        table.slots.insert(key, slot);
        if inner.status().stopping {
            informer.stop();
        }
        drop(table);
        // It may be the last user, whose drop takes the table's lock to remove the slot.
        drop(replaced);
        // If the factory's driver has ended, this drops the informer's driver, which ends the informer.
        let _ = factory.jobs.send(Box::pin(driver.run()));
        informer.counted(in_use)
    }

    /// Returns a builder with the request's settings and those of the factory.
    fn builder(self) -> Builder<BoxTransport, F, D> {
        let inner = &self.factory.inner;
        let selector = self.namespaces_where.as_deref();
        let name = name(&self.resource, &self.namespaces, &self.parts, selector);
        let transport = inner.clusters().all.get("").cloned();
        let transport = transport.map(|(transport, _)| transport);
        let mut builder =
            Builder::of_parts(transport, self.resource, self.decode).name(name.clone());
        if !self.namespaces.is_empty() && !inner.of_clusters {
            builder = builder.namespaces(self.namespaces);
        }
        if !self.parts.is_empty() {
            builder = builder.with_parts(self.parts);
        }
        builder.settings = inner.settings.clone();
        let seed = &mut builder.settings.seed;
        *seed =
            seed.map(|seed| BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, &name)));
        if let Some(period) = inner.settings.probe {
            builder = builder.probe(period);
        }
        if let Some(hear) = inner.on_report.clone() {
            builder = builder.on_report(move |report| hear(&name, report));
        }
        builder
    }
}

impl<F: Form, D> fmt::Debug for Request<'_, F, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field(
                "name",
                &name(
                    &self.resource,
                    &self.namespaces,
                    &self.parts,
                    self.namespaces_where.as_deref(),
                ),
            )
            .finish_non_exhaustive()
    }
}

/// Lets the namespaces of an informer join and leave another one.
fn follow(
    factory: &Arc<Inner>,
    namespaces: Informer<Meta>,
    members: Members,
) -> (Informer<Meta>, HandlerHandle<Meta>) {
    let scope = |namespace: &Entry<Meta>| {
        let key = namespace.key();
        (key.cluster().to_owned(), key.name().to_owned())
    };
    let (factory, [leaving, synced]) =
        (Arc::downgrade(factory), [members.clone(), members.clone()]);
    let handlers = Handlers::new()
        .on_add(move |namespace, _| {
            let scope = scope(namespace);
            let factory = factory.upgrade();
            // Without a transport, the cluster has left, and its namespaces follow.
            if let Some((transport, join)) =
                factory.and_then(|factory| factory.clusters().all.get(&scope.0).cloned())
            {
                let _ = members.send(Member::Join(scope, transport, join));
            }
        })
        .on_delete(move |namespace, _| drop(leaving.send(Member::Leave(scope(namespace)))))
        .on_synced(move || drop(synced.send(Member::Initial)));
    let handle = namespaces.add_handler(handlers);
    (namespaces, handle)
}

/// Returns the informer's name, which includes everything that distinguishes it from others of its form.
fn name(
    resource: &OwnedResource,
    namespaces: &[String],
    parts: &[OwnedResource],
    selector: Option<&str>,
) -> String {
    let mut name = resource.to_string();
    let resource = resource.as_ref();
    let mut add = |word: &str, text: &str| {
        if !text.is_empty() {
            name.push_str(word);
            name.push_str(text);
        }
    };
    add(" in ", &namespaces.join(","));
    for part in parts.iter().map(OwnedResource::as_ref) {
        add(
            " in ",
            part.namespace
                .filter(|namespace| !namespace.is_empty())
                .unwrap_or("others"),
        );
        add(" with labels ", part.label_selector.unwrap_or_default());
        add(" with fields ", part.field_selector.unwrap_or_default());
    }
    add(" in namespaces with ", selector.unwrap_or_default());
    add(" with labels ", resource.label_selector.unwrap_or_default());
    add(" with fields ", resource.field_selector.unwrap_or_default());
    name
}
