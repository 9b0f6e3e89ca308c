//! One shared informer for each resource.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_core::Report;
use informer_core::transport::BoxFuture;
use tokio::sync::{mpsc, watch};

use super::driver::FactoryDriver;
use super::table::{Clusters, Inner, OnReport, Status};
use crate::driver::Member;
use crate::erased::BoxTransport;
use crate::health::Health;
use crate::health::error::NotSynced;
use crate::informer::{HasSynced, Settings, settings_methods, wait_until};

/// Shares informers. Requests for the same resource, namespaces and selectors in the same form get the same
/// [`Informer`](crate::Informer), with one cache and one watch for all. The watch ends with the last user: a handle, a
/// lister, a subscription, a registered handler or a controller.
///
/// An informer that has ended is replaced by the next request for it, whether a user stopped it or its driver failed.
/// The users of the old informer are not moved: their subscriptions and handlers end, their waits fail, and their
/// listers keep the last state. [`Factory::health`] shows it as ended until it is replaced.
///
/// The driver is spawned once. Informers that are requested later start at once.
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
/// factory.synced_within(Duration::from_secs(30)).await?; // The error names what is missing, and why.
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
    pub(super) jobs: mpsc::UnboundedSender<BoxFuture<'static, ()>>,
}

/// The builder of a [`Factory`].
#[must_use]
pub struct FactoryBuilder {
    /// `None` if clusters join at run time.
    transport: Option<BoxTransport>,
    settings: Settings,
    on_report: Option<OnReport>,
}

impl FactoryBuilder {
    settings_methods!();

    /// Lets each informer ask the server of each of its namespaces and clusters periodically for the newest version, so that
    /// [`Health::staleness`](crate::health::Health::staleness) is never too short. There are no probes by default, and the
    /// period is at least a second; see [`Builder::probe`](crate::informer::Builder::probe).
    pub fn probe(mut self, period: Duration) -> Self {
        self.settings.probe(period);
        self
    }

    /// Calls `callback` with every report of every informer, and with the informer's name.
    pub fn on_report(
        mut self,
        callback: impl Fn(&str, &Report<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.on_report = Some(Arc::new(callback));
        self
    }

    /// Builds the factory and the driver of all its informers. Nothing happens until the driver runs.
    #[must_use = "informers do nothing until their driver runs"]
    pub fn build(self) -> (Factory, FactoryDriver) {
        let (jobs, queue) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            of_clusters: self.transport.is_none(),
            clusters: Mutex::new(Clusters {
                all: self
                    .transport
                    .map(|one| (String::new(), (one, 0)))
                    .into_iter()
                    .collect(),
                joins: 0,
            }),
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
    /// Returns the builder of a factory whose informers use this transport; see [`boxed!`](crate::boxed!).
    pub fn builder(transport: BoxTransport) -> FactoryBuilder {
        FactoryBuilder {
            transport: Some(transport),
            settings: Settings::default(),
            on_report: None,
        }
    }

    /// Returns the builder of a factory whose informers watch several clusters, which [join](Self::join) and
    /// [leave](Self::leave) at run time.
    ///
    /// Each informer has one cache with the objects of all clusters. Keys begin with the cluster:
    /// `cluster:namespace/name`, or `cluster:/name`. A lister takes `cluster:namespace` as the namespace. An informer is
    /// synced when all clusters that had joined before it was requested are, and stays synced when others join.
    /// Versions of different clusters cannot be compared, so wait for the sync rather than for versions.
    ///
    /// ```
    /// use informer_tokio::controller::{Controller, Task};
    /// use informer_tokio::factory::Factory;
    /// # use informer_tokio::Raw;
    /// # use informer_tokio::transport::BoxTransport;
    /// # async fn reconcile(task: Task<Raw>) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn example(eu: BoxTransport, us: BoxTransport) -> Result<(), Box<dyn std::error::Error>> {
    /// let (factory, driver) = Factory::of_clusters().build();
    /// tokio::spawn(driver.run());
    /// factory.join("eu", eu);
    /// factory.join("us", us);
    /// let running = Controller::new(factory.raw("configmaps")?).run(reconcile); // `task.key().cluster()` names the cluster.
    /// factory.leave("us"); // Its objects are deleted from the caches, so their keys are reconciled.
    /// running.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_clusters() -> FactoryBuilder {
        FactoryBuilder {
            transport: None,
            settings: Settings::default(),
            on_report: None,
        }
    }

    /// Lets a cluster join all informers, present and future. A cluster of this name leaves first.
    ///
    /// # Panics
    /// Panics if the factory is not one of [several clusters](Self::of_clusters), or if the name is empty or contains
    /// `:` or `/`.
    pub fn join(&self, cluster: &str, transport: BoxTransport) {
        assert!(self.inner.of_clusters, "use `Factory::of_clusters`");
        let is_valid = !cluster.is_empty() && !cluster.contains([':', '/']);
        assert!(is_valid, "{cluster:?} is no name of a cluster");
        self.leave(cluster);
        let join = {
            let mut clusters = self.inner.clusters();
            clusters.joins += 1;
            let join = clusters.joins;
            let joined = (transport.clone(), join);
            clusters.all.insert(cluster.to_owned(), joined);
            join
        };
        self.inner.tell_members(
            |scope| Member::Join(scope, transport.clone(), join),
            cluster,
        );
    }

    /// Lets a cluster leave all informers. Its objects are deleted from the caches, and handlers are notified of that.
    pub fn leave(&self, cluster: &str) {
        if self.inner.clusters().all.remove(cluster).is_some() {
            self.inner.tell_members(Member::Leave, cluster);
        }
    }

    /// Waits until all current informers are synced.
    ///
    /// # Errors
    /// Fails if one of them ends before it is synced.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        self.wait(None).await
    }

    /// Waits until all current informers are synced, for at most `limit`.
    ///
    /// # Errors
    /// The error names all informers that are not synced, with reasons such as a missing RBAC verb or a resource that
    /// is not installed.
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

    /// Returns the health of each informer, ordered by name.
    #[must_use]
    pub fn health(&self) -> Vec<Health> {
        let informers = self.inner.informers();
        let mut health: Vec<Health> = informers.iter().map(|informer| informer.health()).collect();
        health.sort_by(|a, b| a.name.cmp(&b.name));
        health
    }

    /// Stops all informers, including those requested later. Handlers get the pending notifications, and then the
    /// driver ends.
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
        // The sender is in `inner`, so only a change of the status ends this wait.
        let _ = status.wait_for(|status| status.ended).await;
    }

    /// Stops all informers, and waits until handlers have received the pending notifications and the driver has ended.
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
