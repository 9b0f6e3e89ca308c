//! The future that runs every informer of a factory.

use core::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::table::Inner;
use crate::driver::Job;

/// The future that does the work of every informer of a factory.
///
/// It is to be spawned: `tokio::spawn(driver.run())`. It ends after [`Factory::stop`](super::Factory::stop), or when
/// the factory and all its informers were let go. Dropping it ends everything at once. Each informer runs in a task of
/// its own, which belongs to this future and never outlives it.
#[must_use = "nothing happens before the driver runs"]
pub struct FactoryDriver {
    inner: EndOnDrop,
    jobs: mpsc::UnboundedReceiver<Job>,
}

impl FactoryDriver {
    pub(super) const fn new(inner: Arc<Inner>, jobs: mpsc::UnboundedReceiver<Job>) -> Self {
        Self {
            inner: EndOnDrop(inner),
            jobs,
        }
    }

    /// Does the work until the factory is stopped.
    pub async fn run(self) {
        let Self {
            inner: end,
            mut jobs,
        } = self;
        let mut status = end.0.status.subscribe();
        // Dropped with this future, it ends what runs in it.
        let mut informers = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                job = jobs.recv() => match job {
                    Some(job) => { informers.spawn(job); }
                    // Nobody can ask for another one. Those that are there go on while they have users.
                    None => break,
                },
                _ = status.wait_for(|status| status.stopping) => break,
                Some(_) = informers.join_next(), if !informers.is_empty() => {}
            }
        }
        // Whoever asks from here on gets an informer that has ended. What was asked for before is stopped, and ends.
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

/// Says that the factory has ended, also where its driver is dropped.
struct EndOnDrop(Arc<Inner>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.status.send_modify(|status| status.ended = true);
    }
}
