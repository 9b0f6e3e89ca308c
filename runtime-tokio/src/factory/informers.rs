//! One informer for each resource, shared by whoever asks for it.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_core::Report;
use tokio::sync::{mpsc, watch};

use super::driver::FactoryDriver;
use super::table::{Inner, OnReport, Status};
use super::transport::BoxTransport;
use crate::driver::Job;
use crate::health::Health;
use crate::health::error::NotSynced;
use crate::informer::{HasSynced, Settings, settings_methods, wait_until};

/// Shares informers: whoever asks for the same resource, namespaces and selectors in the same form gets the same
/// [`Informer`](crate::Informer), with one cache and one watch for all. The watch ends with the last user, be it a handle, a lister, a
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
/// use informer_tokio::boxed;
/// use informer_tokio::factory::Factory;
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
    pub(super) inner: Arc<Inner>,
    pub(super) jobs: mpsc::UnboundedSender<Job>,
}

/// Collects how the informers of a factory should be.
#[must_use]
pub struct FactoryBuilder {
    transport: BoxTransport,
    settings: Settings,
    on_report: Option<OnReport>,
}

impl FactoryBuilder {
    settings_methods!();

    /// Has `hear` called with every report of every informer, and the informer's name.
    pub fn on_report(mut self, hear: impl Fn(&str, &Report<'_>) + Send + Sync + 'static) -> Self {
        self.on_report = Some(Arc::new(hear));
        self
    }

    /// Makes the factory, and the driver of all its informers. Nothing happens before that runs.
    #[must_use = "nothing happens before the driver runs"]
    pub fn build(self) -> (Factory, FactoryDriver) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            transport: Mutex::new(self.transport),
            settings: self.settings,
            on_report: self.on_report,
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
    pub fn builder(transport: BoxTransport) -> FactoryBuilder {
        FactoryBuilder {
            transport,
            settings: Settings::default(),
            on_report: None,
        }
    }

    /// Waits until every informer there is now is synced.
    ///
    /// # Errors
    /// Fails where one of them ends before that.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        self.wait(None).await
    }

    /// Waits until every informer there is now is synced, but no longer than `limit`.
    ///
    /// # Errors
    /// Names all that are missing, and why: which verb on which resource is not granted, what is not installed.
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
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        let informers = self.inner.informers();
        let mut health: Vec<Health> = informers.iter().map(|informer| informer.health()).collect();
        health.sort_by(|a, b| a.name.cmp(&b.name));
        health
    }

    /// Stops every informer, also those that are asked for later. Handlers get what is pending, and then the driver
    /// ends.
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
    pub async fn ended(&self) {
        let mut status = self.inner.status.subscribe();
        // The sender is in `inner`, so this ends with the status and with nothing else.
        let _ = status.wait_for(|status| status.ended).await;
    }

    /// Stops every informer, and waits until all handlers have what was pending and the driver has ended.
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
