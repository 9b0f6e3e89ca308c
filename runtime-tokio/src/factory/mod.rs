//! One informer for each resource, shared by whoever asks for it.

mod driver;
mod request;
pub(crate) mod transport;

use core::any::{Any, TypeId};
use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use informer_core::{
    BackoffConfig, Decode, Initial, Json, Meta, OwnedResource, Raw, Report, Resource,
    ResourceError, Typed,
};
use tokio::sync::{mpsc, watch};

pub use driver::FactoryDriver;
pub use request::Request;

use crate::driver::Job;
use crate::factory::transport::BoxTransport;
use crate::health::error::NotSynced;
use crate::health::snapshot::Health;
use crate::informer::Informer;
use crate::informer::kind::Kind;
use crate::informer::wait::{HasSynced, wait_until};

/// Shares informers: whoever asks for the same resource, namespaces and selectors in the same form gets the same
/// [`Informer`], with one cache and one watch for all. The watch ends with the last user, be it a handle, a lister, a
/// subscription, a registered handler or a controller.
///
/// An informer that has ended, because one of its users stopped it or its driver failed, is replaced: the next request
/// for it gets a new one. The users of the old one are not moved. Their subscriptions and handlers end, waits for it
/// fail, its listers keep the last state, and [`Factory::health`] shows it as ended until it is replaced.
///
/// Its driver is spawned once. Informers that are asked for later begin at once.
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::{Factory, boxed};
/// # use informer_mock::{FakeServer, Mock, TokioClock};
///
/// #[derive(serde::Deserialize)]
/// struct Pod {}
/// informer_tokio::kind!(Pod, "v1", "pods");
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let transport = Mock::with_clock(FakeServer::new(1), TokioClock::new()).transport();
/// let (factory, driver) = Factory::builder(boxed!(transport)).resync(Duration::from_secs(600)).build();
/// tokio::spawn(driver.run());
///
/// let pods = factory.informer::<Pod>();
/// let of_two = factory.of::<Pod>().namespaces(["prod", "staging"]).labels("app=web").get();
/// let nodes = factory.raw("nodes")?.get();
/// let deployments = factory.metadata("deployments.apps")?.get();
///
/// factory.synced_within(Duration::from_secs(30)).await?; // It says who is missing, and why.
/// println!("{} Pods", pods.lister().len());
///
/// drop(of_two); // Its watch ends.
/// factory.shutdown().await; // And now the others.
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Factory {
    inner: Arc<Inner>,
    jobs: mpsc::UnboundedSender<Job>,
}

/// Collects how the informers of a factory should be.
///
/// ```
/// # use informer_tokio::{BoxTransport, Factory};
/// # fn example(transport: BoxTransport) {
/// let (factory, driver) = Factory::builder(transport).page_size(1000).build();
/// # }
/// ```
#[must_use]
pub struct FactoryBuilder {
    transport: BoxTransport,
    settings: Settings,
}

/// Hears of the reports of every informer of a factory.
type OnReport = Arc<dyn Fn(&str, &Report<'_>) + Send + Sync>;

/// What every informer of a factory is given.
#[derive(Clone, Default)]
struct Settings {
    resync: Option<Duration>,
    initial: Option<Initial>,
    page_size: Option<u32>,
    frame_limit: Option<usize>,
    backoff: Option<BackoffConfig>,
    drain: Option<Duration>,
    client_go: bool,
    on_report: Option<OnReport>,
}

struct Inner {
    /// A transport can be sent and cloned, and no more is asked of it.
    transport: Mutex<BoxTransport>,
    settings: Settings,
    shared: Mutex<Table>,
    status: watch::Sender<Status>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Status {
    stopping: bool,
    ended: bool,
}

#[derive(Default)]
struct Table {
    slots: HashMap<SlotKey, Slot>,
    next: u64,
}

/// By what informers are told apart.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SlotKey {
    decoder: TypeId,
    fingerprint: u64,
    /// With its selectors.
    resource: OwnedResource,
    namespaces: Vec<String>,
}

struct Slot {
    number: u64,
    informer: Box<dyn AnyInformer>,
    in_use: Weak<InUse>,
}

/// What a factory does with informers of whatever type.
trait AnyInformer: HasSynced {
    fn as_any(&self) -> &dyn Any;
    fn boxed(&self) -> Box<dyn AnyInformer>;
    fn stop(&self);
    fn health(&self) -> Health;
}

impl<V: Send + Sync + 'static> AnyInformer for Informer<V> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn boxed(&self) -> Box<dyn AnyInformer> {
        Box::new(self.clone())
    }

    fn stop(&self) {
        Self::stop(self);
    }

    fn health(&self) -> Health {
        Self::health(self)
    }
}

/// Counts the users of one informer, each of which holds it. It stops the informer when the last one is gone.
pub(crate) struct InUse {
    factory: Weak<Inner>,
    key: SlotKey,
    number: u64,
    stop: Box<dyn Fn() + Send + Sync>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        (self.stop)();
        if let Some(factory) = self.factory.upgrade() {
            let mut table = factory.table();
            // Somebody may have asked for it anew by now.
            if table.slots.get(&self.key).map(|slot| slot.number) == Some(self.number) {
                table.slots.remove(&self.key);
            }
        }
    }
}

impl FactoryBuilder {
    /// Sets how often every object is replayed to handlers that do not say otherwise.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.resync(core::time::Duration::from_secs(600));
    /// # }
    /// ```
    pub const fn resync(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Chooses how the initial state is fetched.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.initial(informer_tokio::Initial::List);
    /// # }
    /// ```
    pub const fn initial(mut self, initial: Initial) -> Self {
        self.settings.initial = Some(initial);
        self
    }

    /// Sets how many objects a page of a list has.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.page_size(1000);
    /// # }
    /// ```
    pub const fn page_size(mut self, size: u32) -> Self {
        self.settings.page_size = Some(size);
        self
    }

    /// Sets how many bytes one object may have.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.frame_limit(1024 * 1024);
    /// # }
    /// ```
    pub const fn frame_limit(mut self, bytes: usize) -> Self {
        self.settings.frame_limit = Some(bytes);
        self
    }

    /// Sets how the delays between attempts grow.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.backoff(informer_core::BackoffConfig::default());
    /// # }
    /// ```
    pub const fn backoff(mut self, backoff: BackoffConfig) -> Self {
        self.settings.backoff = Some(backoff);
        self
    }

    /// Sets how long handlers get to deliver what is pending when an informer stops.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.drain(core::time::Duration::from_secs(60));
    /// # }
    /// ```
    pub const fn drain(mut self, time: Duration) -> Self {
        self.settings.drain = Some(time);
        self
    }

    /// Behaves as client-go does wherever a difference can be seen from outside: see `docs/DIFFERENCES.md`.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.client_go();
    /// # }
    /// ```
    pub const fn client_go(mut self) -> Self {
        self.settings.client_go = true;
        self
    }

    /// Has `hear` called with every report of every informer, and the informer's name.
    ///
    /// ```
    /// # fn example(builder: informer_tokio::FactoryBuilder) {
    /// builder.on_report(|informer, report| println!("{informer}: {report}"));
    /// # }
    /// ```
    pub fn on_report(mut self, hear: impl Fn(&str, &Report<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_report = Some(Arc::new(hear));
        self
    }

    /// Makes the factory, and the driver of all its informers. Nothing happens before that runs.
    ///
    /// ```
    /// # async fn example(builder: informer_tokio::FactoryBuilder) {
    /// let (factory, driver) = builder.build();
    /// tokio::spawn(driver.run());
    /// # }
    /// ```
    #[must_use = "nothing happens before the driver runs"]
    pub fn build(self) -> (Factory, FactoryDriver) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            transport: Mutex::new(self.transport),
            settings: self.settings,
            shared: Mutex::default(),
            status: watch::Sender::new(Status::default()),
        });
        let driver = FactoryDriver::new(Arc::clone(&inner), queue);
        (Factory { inner, jobs }, driver)
    }
}

impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder").finish_non_exhaustive()
    }
}

impl Factory {
    /// Starts a factory whose informers all use this transport: see [`boxed!`](crate::boxed!).
    ///
    /// ```
    /// # use informer_mock::{FakeServer, Mock, TokioClock};
    /// # let transport = Mock::with_clock(FakeServer::new(1), TokioClock::new()).transport();
    /// let (factory, driver) = informer_tokio::Factory::builder(informer_tokio::boxed!(transport)).build();
    /// ```
    pub fn builder(transport: BoxTransport) -> FactoryBuilder {
        FactoryBuilder {
            transport,
            settings: Settings::default(),
        }
    }

    /// Returns the informer of all objects of a type: [`Factory::of`] without conditions.
    ///
    /// ```
    /// # use informer_tokio::Factory;
    /// #[derive(serde::Deserialize)]
    /// struct Pod {}
    /// informer_tokio::kind!(Pod, "v1", "pods");
    /// # fn example(factory: Factory) {
    /// let pods = factory.informer::<Pod>();
    /// # }
    /// ```
    pub fn informer<K>(&self) -> Informer<Typed<K>>
    where
        K: Kind + Send + Sync + 'static,
        Json<K>: Decode<Value = Typed<K>>,
    {
        self.of::<K>().get()
    }

    /// Asks for an informer of a resource that has a type.
    ///
    /// ```
    /// # use informer_tokio::Factory;
    /// #[derive(serde::Deserialize)]
    /// struct Pod {}
    /// informer_tokio::kind!(Pod, "v1", "pods");
    /// # fn example(factory: Factory) {
    /// let web = factory.of::<Pod>().namespace("prod").labels("app=web").get();
    /// # }
    /// ```
    pub fn of<K>(&self) -> Request<'_, Json<K>>
    where
        K: Kind,
        Json<K>: Decode<Value = Typed<K>>,
    {
        self.with(K::resource().as_ref(), Json::new())
    }

    /// Asks for an informer of a resource that is known only at run time, kept as bytes: `pods`, or
    /// `widgets.v1.example.com`.
    ///
    /// # Errors
    /// Fails where the text names no resource.
    ///
    /// ```
    /// # use informer_tokio::Factory;
    /// # fn example(factory: Factory) -> Result<(), informer_core::ResourceError> {
    /// let widgets = factory.raw("widgets.v1.example.com")?.get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw(&self, resource: &str) -> Result<Request<'_, Raw>, ResourceError> {
        Ok(self.with(Resource::parse(resource)?, Raw))
    }

    /// Asks for an informer of no more than metadata, of a resource that is known only at run time.
    ///
    /// # Errors
    /// Fails where the text names no resource.
    ///
    /// ```
    /// # use informer_tokio::Factory;
    /// # fn example(factory: Factory) -> Result<(), informer_core::ResourceError> {
    /// let owners = factory.metadata("replicasets.apps")?.get();
    /// # Ok(())
    /// # }
    /// ```
    pub fn metadata(&self, resource: &str) -> Result<Request<'_, Meta>, ResourceError> {
        Ok(self.with(Resource::parse(resource)?, Meta))
    }

    /// Asks for an informer of any resource with any decoder. Decoders of the same type and the same
    /// [`Decode::fingerprint`] count as the same.
    ///
    /// ```
    /// # use informer_tokio::{Factory, Raw, Resource};
    /// # fn example(factory: Factory) {
    /// let widgets = factory.with(Resource::new("example.com", "v1", "widgets"), Raw).get();
    /// # }
    /// ```
    pub fn with<D: Decode>(&self, resource: Resource<'_>, decode: D) -> Request<'_, D> {
        Request::new(self, resource.into(), decode)
    }

    /// Waits until every informer there is now is synced.
    ///
    /// # Errors
    /// Fails where one of them ends before that.
    ///
    /// ```
    /// # async fn example(factory: informer_tokio::Factory) -> Result<(), informer_tokio::NotSynced> {
    /// factory.synced().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn synced(&self) -> Result<(), NotSynced> {
        self.wait(None).await
    }

    /// Waits until every informer there is now is synced, but no longer than `limit`.
    ///
    /// # Errors
    /// Names all that are missing, and why: which verb on which resource is not granted, what is not installed.
    ///
    /// ```
    /// # async fn example(factory: informer_tokio::Factory) {
    /// if let Err(error) = factory.synced_within(core::time::Duration::from_secs(30)).await {
    ///     eprintln!("{error}");
    /// }
    /// # }
    /// ```
    pub async fn synced_within(&self, limit: Duration) -> Result<(), NotSynced> {
        self.wait(Some(limit)).await
    }

    async fn wait(&self, limit: Option<Duration>) -> Result<(), NotSynced> {
        let informers = self.inner.informers();
        let all: Vec<&dyn HasSynced> = informers
            .iter()
            .map(|informer| -> &dyn HasSynced { &**informer })
            .collect();
        wait_until(limit, &all).await
    }

    /// Returns how each informer is, in the order of names.
    ///
    /// ```
    /// # fn example(factory: informer_tokio::Factory) {
    /// for health in factory.health() {
    ///     println!("{}: {}", health.name, health.state);
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        let informers = self.inner.informers();
        let mut health: Vec<Health> = informers.iter().map(|informer| informer.health()).collect();
        health.sort_by(|a, b| a.name.cmp(&b.name));
        health
    }

    /// Stops every informer, also those that are asked for later. Handlers get what is pending, and then the driver
    /// ends.
    ///
    /// ```
    /// # fn example(factory: informer_tokio::Factory) {
    /// factory.stop();
    /// # }
    /// ```
    pub fn stop(&self) {
        self.inner
            .status
            .send_modify(|status| status.stopping = true);
        self.inner
            .informers()
            .iter()
            .for_each(|informer| informer.stop());
    }

    /// Waits until the driver has ended.
    ///
    /// ```
    /// # async fn example(factory: informer_tokio::Factory) {
    /// factory.ended().await;
    /// # }
    /// ```
    pub async fn ended(&self) {
        let mut status = self.inner.status.subscribe();
        // The sender is in `inner`, so this ends with the status and with nothing else.
        let _ = status.wait_for(|status| status.ended).await;
    }

    /// Stops every informer, and waits until all handlers have what was pending and the driver has ended.
    ///
    /// ```
    /// # async fn example(factory: informer_tokio::Factory) {
    /// factory.shutdown().await;
    /// # }
    /// ```
    pub async fn shutdown(&self) {
        self.stop();
        self.ended().await;
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informers = self.inner.informers();
        f.debug_set()
            .entries(informers.iter().map(|informer| informer.who()))
            .finish()
    }
}

impl Inner {
    // No code of a user runs under these locks, so a poisoned one is as good as another.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn transport(&self) -> BoxTransport {
        self.transport
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn informers(&self) -> Vec<Box<dyn AnyInformer>> {
        let table = self.table();
        table
            .slots
            .values()
            .map(|slot| slot.informer.boxed())
            .collect()
    }

    fn status(&self) -> Status {
        *self.status.borrow()
    }
}
