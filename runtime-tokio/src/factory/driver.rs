//! The future that runs all informers of a factory.

use core::fmt;
use std::sync::Arc;

use informer_core::transport::BoxFuture;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::table::Inner;

/// Runs all informers of a factory.
///
/// Spawn it with `tokio::spawn(driver.run())`. It ends after [`Factory::stop`](super::Factory::stop), or after the
/// factory and all its informers were dropped. Dropping it stops everything at once. Each informer runs in a separate
/// task that belongs to this future and never outlives it.
#[must_use = "informers do nothing until their driver runs"]
pub struct FactoryDriver {
    inner: EndOnDrop,
    jobs: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
}

impl FactoryDriver {
    pub(super) const fn new(
        inner: Arc<Inner>,
        jobs: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    ) -> Self {
        Self {
            inner: EndOnDrop(inner),
            jobs,
        }
    }

    /// Runs until the factory is stopped.
    pub async fn run(self) {
        let Self {
            inner: end,
            mut jobs,
        } = self;
        let mut status = end.0.status.subscribe();
        // Dropping this with the future ends all tasks.
        let mut informers = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                job = jobs.recv() => match job {
                    Some(job) => { informers.spawn(job); }
                    // The factory was dropped, so no further informer can be requested. Existing ones run while they
                    // have users.
                    None => break,
                },
                _ = status.wait_for(|status| status.stopping) => break,
                Some(_) = informers.join_next(), if !informers.is_empty() => {}
            }
        }
        // Later requests get an informer that has ended. Earlier ones are stopped, and end.
        jobs.close();
        while let Ok(job) = jobs.try_recv() {
            informers.spawn(job);
        }
        while informers.join_next().await.is_some() {}
    }
}

impl fmt::Debug for FactoryDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryDriver").finish_non_exhaustive()
    }
}

/// Marks the factory as ended, even if its driver is dropped.
struct EndOnDrop(Arc<Inner>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.status.send_modify(|status| status.ended = true);
    }
}
