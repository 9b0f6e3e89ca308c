//! Shared informers over a `kube::Client`.

use core::fmt;
use core::marker::PhantomData;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{Decode, Form, Meta, OwnedResource, Raw, Resource};
use informer_tokio::controller::{
    IntoInformer, IntoOwned, Owned, Owner, Provided, RecordWrites, WriteLog,
};
use informer_tokio::factory::{Factory, FactoryBuilder};
use informer_tokio::informer::Ended;
use informer_tokio::{Entry, Informer};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::Client;
use kube_core::{ApiResource, DynamicObject, NamespaceResourceScope};
use serde::de::DeserializeOwned;

use crate::service::Requests;

/// Shared informers of a program: one cache and one watch for all requests of the same resource, namespaces, selectors
/// and form. A watch ends with its last user.
///
/// [`client`](Self::client) returns a client whose writes the informers know: a controller does not reconcile a key
/// again before its caches show the writes of the last run.
///
/// ```
/// use informer_kube::Informers;
/// use informer_tokio::controller::{Controller, Task};
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let informers = Informers::new(kube::Client::try_default().await?);
/// let client = informers.client();
/// Controller::new(informers.all::<Namespace>().labels("team"))
///     .owns(informers.all::<ConfigMap>().labels("made-by=teams"))
///     .run(move |task| reconcile(task, client.clone()))
///     .await?;
///
/// async fn reconcile(task: Task<Namespace>, client: kube::Client) -> Result<(), kube::Error> {
///     // Creates the ConfigMap of the Namespace.
/// #   let _ = (task, client);
///     Ok(())
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Informers {
    factory: Factory,
    /// The client of each cluster. The only one of informers without clusters has no name.
    clients: Arc<Mutex<BTreeMap<String, Client>>>,
    writes: WriteLog,
}

impl Informers {
    /// Creates shared informers with default settings. They start when they are requested.
    ///
    /// Failures, such as a missing permission, are logged with `tracing`, and retried. In a program without a subscriber
    /// they are written to stderr.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime, in which it spawns the driver of all informers.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self::with(client, |builder| builder)
    }

    /// Creates shared informers with settings of the factory, such as a resync period and a function for reports.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    ///
    /// ```
    /// # fn example(client: kube::Client) {
    /// use informer_kube::Informers;
    /// let informers = Informers::with(client, |builder| builder.on_report(|name, report| eprintln!("{name}: {report}")));
    /// # }
    /// ```
    #[must_use]
    pub fn with(client: Client, settings: impl FnOnce(FactoryBuilder) -> FactoryBuilder) -> Self {
        let builder = Factory::builder(crate::transport(client.clone()));
        let informers = Self::spawn(settings(builder));
        informers.put_client("", client);
        informers
    }

    /// Creates informers of several clusters, with settings of the factory. The clusters [join](Self::join) and
    /// [leave](Self::leave) at run time; their names prefix the keys of their objects. See [`Factory::of_clusters`].
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    ///
    /// ```
    /// use informer_kube::Informers;
    /// use informer_tokio::controller::{Controller, Task};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # async fn example(eu: kube::Client, us: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let informers = Informers::of_clusters(|builder| builder);
    /// informers.join("eu", eu);
    /// informers.join("us", us);
    /// let maps = informers.all::<ConfigMap>().namespaces_where("team=web");
    /// let clients = informers.clone();
    /// Controller::new(maps)
    ///     .run(move |task| reconcile(clients.client_of(task.key().cluster()), task))
    ///     .await?;
    ///
    /// async fn reconcile(client: Option<kube::Client>, task: Task<ConfigMap>) -> Result<(), kube::Error> {
    ///     // Without a client, the cluster has left.
    /// #   let _ = (task, client);
    ///     Ok(())
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of_clusters(settings: impl FnOnce(FactoryBuilder) -> FactoryBuilder) -> Self {
        Self::spawn(settings(Factory::of_clusters()))
    }

    fn spawn(builder: FactoryBuilder) -> Self {
        let (factory, driver) = builder.build();
        // It ends after the last informer.
        tokio::spawn(driver.run());
        Self {
            factory,
            clients: Arc::default(),
            writes: WriteLog::default(),
        }
    }

    /// Lets a cluster join all informers, present and future. A cluster of this name leaves first.
    ///
    /// # Panics
    /// Panics as [`Factory::join`] does: if these are not informers of [several clusters](Self::of_clusters), or if the
    /// name is empty or contains `:` or `/`.
    pub fn join(&self, cluster: &str, client: Client) {
        self.factory.join(cluster, crate::transport(client.clone()));
        self.put_client(cluster, client);
    }

    /// Lets a cluster leave all informers. Its objects are deleted from the caches, and its writes are not awaited any
    /// more.
    pub fn leave(&self, cluster: &str) {
        let client = self.clients().remove(cluster);
        self.factory.leave(cluster);
        drop(client);
    }

    fn put_client(&self, cluster: &str, client: Client) {
        let namespace = client.default_namespace().to_owned();
        let valid_until = *client.valid_until();
        let recorder = RecordWrites::new(Requests(client), &self.writes).cluster(cluster);
        let client = Client::new(recorder, namespace).with_valid_until(valid_until);
        let replaced = self.clients().insert(cluster.to_owned(), client);
        drop(replaced);
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<String, Client>> {
        // Clients are dropped outside of this lock, so no code of users runs under it.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests an informer of all objects of a type.
    pub fn all<K>(&self) -> Request<'_, K>
    where
        K: kube_core::Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.request(crate::resource::<K>())
    }

    /// Requests an informer of the objects of a type in a namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> Request<'_, K>
    where
        K: kube_core::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: DeserializeOwned + Send + Sync + 'static,
    {
        self.all().namespaces([namespace])
    }

    /// Requests an informer of a resource that is known only at run time.
    pub fn of_resource(&self, resource: &ApiResource) -> Request<'_, DynamicObject> {
        self.request(crate::resource_of(resource))
    }

    const fn request<F: Form>(&self, resource: OwnedResource) -> Request<'_, F> {
        Request {
            informers: self,
            resource,
            namespaces: Vec::new(),
            namespaces_where: None,
            parts: None,
            form: PhantomData,
        }
    }

    /// Returns a client for reads and writes. Its successful writes are remembered until the informers show them.
    ///
    /// Everything else is as with the client that was passed to [`new`](Self::new). Writes that another client makes
    /// are not known. [`RecordWrites`] says which requests are writes; [`writes_by`](Self::writes_by) adds subresources.
    ///
    /// # Panics
    /// Panics if these are informers of [several clusters](Self::of_clusters); see [`client_of`](Self::client_of).
    #[must_use]
    pub fn client(&self) -> Client {
        self.client_of("")
            .expect("use `client_of` for informers of several clusters")
    }

    /// Adds a subresource through which objects are written, and whose answer is the object. Its answers are read whole
    /// before the client returns them, so it must not be answered by a stream.
    ///
    /// ```
    /// # fn example(client: kube::Client) {
    /// let informers = informer_kube::Informers::new(client).writes_by("restart");
    /// # }
    /// ```
    #[must_use]
    pub fn writes_by(self, subresource: impl Into<String>) -> Self {
        self.writes.add_subresource(subresource);
        self
    }

    /// Returns the [client](Self::client) of a cluster, and `None` if the cluster has not joined. Its writes are awaited
    /// in the caches for this cluster only.
    #[must_use]
    pub fn client_of(&self, cluster: &str) -> Option<Client> {
        self.clients().get(cluster).cloned()
    }

    /// Waits until the informers show everything that has been written through their [clients](Self::client) so far.
    ///
    /// A [`Controller`](informer_tokio::controller::Controller) does so between runs.
    ///
    /// # Errors
    /// Fails if an informer ends before its cache shows a write.
    pub async fn sees_own_writes(&self) -> Result<(), Ended> {
        self.writes.seen().await
    }

    /// Returns the factory, which waits for all informers, returns their health and stops them.
    #[must_use]
    pub const fn factory(&self) -> &Factory {
        &self.factory
    }
}

impl fmt::Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.factory.fmt(f)
    }
}

/// A request for an informer of [`Informers`], with its namespaces, selectors and form. A
/// [`Controller`](informer_tokio::controller::Controller) takes it as it is.
#[must_use = "`get` returns the informer"]
pub struct Request<'a, F, By = Typed> {
    informers: &'a Informers,
    resource: OwnedResource,
    namespaces: Vec<String>,
    namespaces_where: Option<String>,
    parts: Option<Parts>,
    form: PhantomData<fn() -> (F, By)>,
}

/// Returns the parts of a resource.
type Parts = Box<dyn FnOnce(Resource<'_>) -> Vec<Resource<'_>> + Send + Sync>;

/// Marks a [`Request`] for objects of kube's types.
#[derive(Debug)]
pub enum Typed {}

/// Marks a [`Request`] for objects in another form.
#[derive(Debug)]
pub enum Stored {}

impl<'a, F: Form, By> Request<'a, F, By> {
    /// Restricts the informer to namespaces: one cache, with a list and a watch for each of them. An empty name means
    /// all namespaces.
    ///
    /// # Panics
    /// Panics if there are no namespaces.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        assert!(!self.namespaces.is_empty(), "name at least one namespace");
        self.namespaces_where = None;
        self.parts = None;
        self
    }

    /// Restricts the informer to namespaces with selectors of their own; see
    /// [`parts`](informer_tokio::informer::Builder::parts) of its builder.
    ///
    /// # Panics
    /// [`get`](Self::get) panics if there are no parts or two of one namespace, and in informers of
    /// [several clusters](Informers::of_clusters).
    ///
    /// ```
    /// # fn example(informers: informer_kube::Informers) {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// let maps = informers.all::<ConfigMap>().parts(|maps| vec![maps.namespace("prod"), maps.labels("app=web")]);
    /// # }
    /// ```
    pub fn parts(
        mut self,
        parts: impl FnOnce(Resource<'_>) -> Vec<Resource<'_>> + Send + Sync + 'static,
    ) -> Self {
        self.namespaces.clear();
        self.namespaces_where = None;
        self.parts = Some(Box::new(parts));
        self
    }

    /// Restricts the informer to the namespaces with these labels, as they appear and disappear; see
    /// [`namespaces_where`](informer_tokio::factory::Request::namespaces_where) of the factory.
    pub fn namespaces_where(mut self, selector: &str) -> Self {
        self.namespaces.clear();
        self.parts = None;
        self.namespaces_where = Some(selector.to_owned());
        self
    }

    /// Restricts the informer to objects with these labels.
    pub fn labels(mut self, selector: &str) -> Self {
        self.resource = self.resource.as_ref().labels(selector).into();
        self
    }

    /// Restricts the informer to objects with these fields.
    pub fn fields(mut self, selector: impl AsRef<str>) -> Self {
        self.resource = self.resource.as_ref().fields(selector.as_ref()).into();
        self
    }

    /// Stores the exact bytes, which takes less memory than most types.
    pub fn raw(self) -> Request<'a, Raw, Stored> {
        self.form()
    }

    /// Requests and stores metadata only.
    pub fn metadata(self) -> Request<'a, Meta, Stored> {
        self.form()
    }

    /// Stores the objects compressed, and decodes them when they are read; see [`Packed`](informer_tokio::Packed). This
    /// takes a small part of the memory of the types themselves.
    #[cfg(feature = "zstd")]
    pub fn packed(self) -> Request<'a, informer_tokio::Packed<F>, Stored>
    where
        F: informer_tokio::decode::OnDemand,
    {
        self.form()
    }

    /// Stores the objects in any form, such as a type with a part of the fields.
    pub fn form<G: Form>(self) -> Request<'a, G, Stored> {
        Request {
            informers: self.informers,
            resource: self.resource,
            namespaces: self.namespaces,
            namespaces_where: self.namespaces_where,
            parts: self.parts,
            form: PhantomData,
        }
    }

    /// Returns the informer, which runs while it has users.
    #[must_use = "the watch ends with the last user"]
    pub fn get(self) -> Informer<F>
    where
        F: Form<Stored: Send + Sync + 'static>,
        F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
    {
        let request = self
            .informers
            .factory
            .with::<F, _>(self.resource.as_ref(), F::Decoder::default());
        let request = match (self.namespaces_where, self.parts) {
            (Some(selector), _) => request.namespaces_where(&selector),
            (None, Some(parts)) => request.parts(parts),
            (None, None) if self.namespaces.is_empty() => request,
            (None, None) => request.namespaces(self.namespaces),
        };
        let informer = request.get();
        self.informers.writes.attach(&informer);
        informer
    }
}

impl<F, By> IntoInformer for Request<'_, F, By>
where
    F: Form<Stored: Send + Sync + 'static>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    type Form = F;

    fn into_informer(self) -> Provided<F> {
        let writes = self.informers.writes.clone();
        Provided::from(self.get()).with_writes(&writes)
    }
}

impl<K> IntoOwned for Request<'_, K>
where
    K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
{
    fn owner(entry: &Entry<K>) -> Option<Owner> {
        let references = entry.value().meta().owner_references.iter().flatten();
        let mut managing = references.filter(|owner| owner.controller == Some(true));
        managing.next().map(owner_of)
    }

    fn owners(entry: &Entry<K>) -> Vec<Owner> {
        let references = entry.value().meta().owner_references.iter().flatten();
        references.map(owner_of).collect()
    }
}

fn owner_of(reference: &OwnerReference) -> Owner {
    Owner {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
    }
}

impl<F> IntoOwned for Request<'_, F, Stored>
where
    F: Form<Stored: Owned + Send + Sync + 'static>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    fn owner(entry: &Entry<F>) -> Option<Owner> {
        entry.value().controller()
    }

    fn owners(entry: &Entry<F>) -> Vec<Owner> {
        entry.value().owners()
    }
}

impl<F, By> fmt::Debug for Request<'_, F, By> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("resource", &self.resource)
            .field("namespaces", &self.namespaces)
            .field("namespaces_where", &self.namespaces_where)
            .finish_non_exhaustive()
    }
}
