//! Waiting for several informers and handlers.

use core::pin::Pin;
use core::time::Duration;
use informer_core::Form;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;

use crate::handler::HandlerHandle;
use crate::health::Trouble;
use crate::health::error::{Ended, Missing, NotSynced};
use crate::informer::Informer;

/// Something that becomes synced: an informer, or a handler that is called with all existing objects.
pub trait HasSynced: Send + Sync {
    /// Returns its name.
    fn who(&self) -> String;

    /// Waits until it is synced.
    ///
    /// # Errors
    /// Fails if it ends before that.
    fn wait(&self) -> Pin<Box<dyn Future<Output = Result<(), Ended>> + Send + '_>>;

    /// Returns why it is not synced: a line of text, and the problems.
    fn why_not(&self) -> (String, Vec<Trouble>);
}

impl<F: Form<Stored: Send + Sync + 'static>> HasSynced for Informer<F> {
    fn who(&self) -> String {
        self.name().to_owned()
    }

    fn wait(&self) -> Pin<Box<dyn Future<Output = Result<(), Ended>> + Send + '_>> {
        Box::pin(self.synced())
    }

    fn why_not(&self) -> (String, Vec<Trouble>) {
        self.why()
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> HasSynced for HandlerHandle<F> {
    fn who(&self) -> String {
        format!("{} of {}", self.name(), self.inner().name)
    }

    fn wait(&self) -> Pin<Box<dyn Future<Output = Result<(), Ended>> + Send + '_>> {
        Box::pin(self.synced())
    }

    fn why_not(&self) -> (String, Vec<Trouble>) {
        if !self.inner().is_synced() {
            return self.inner().why();
        }
        let lag = self.lag();
        let call = match lag.call {
            Some(time) => format!(
                ", and a call has been running for {:.1} s",
                time.as_secs_f32()
            ),
            None => String::new(),
        };
        let reason = format!("{} notifications are pending{call}", lag.pending);
        (reason, Vec::new())
    }
}

/// Waits until all of them are synced, for at most `limit`.
///
/// # Errors
/// Fails if the time is over, or if one of them ends. The error names all that are not synced, with reasons.
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::informer::wait_for_sync;
/// # async fn example(pods: Informer<Raw>, nodes: Informer<Raw>) -> Result<(), informer_tokio::informer::NotSynced> {
/// wait_for_sync(Duration::from_secs(30), [&pods as _, &nodes as _]).await?;
/// # Ok(())
/// # }
/// ```
pub async fn wait_for_sync(
    limit: Duration,
    all: impl IntoIterator<Item = &dyn HasSynced>,
) -> Result<(), NotSynced> {
    let all: Vec<_> = all.into_iter().collect();
    wait_until(Some(limit), &all).await
}

/// Waits until all are synced. Without a limit, it waits as long as none has ended.
pub(crate) async fn wait_until(
    limit: Option<Duration>,
    all: &[&dyn HasSynced],
) -> Result<(), NotSynced> {
    let began = Instant::now();
    let mut synced = vec![false; all.len()];
    let mut failed = false;
    {
        let mut waits: FuturesUnordered<_> = all
            .iter()
            .enumerate()
            .map(|(number, one)| async move { (number, one.wait().await) })
            .collect();
        // If one ends, the others are still awaited until the limit, so that the list of missing ones is complete.
        let every = async {
            while let Some((number, waited)) = waits.next().await {
                failed |= waited.is_err();
                if let Some(synced) = synced.get_mut(number) {
                    *synced = waited.is_ok();
                }
            }
        };
        match limit {
            Some(limit) => {
                let _ = tokio::time::timeout(limit, every).await;
            }
            None => every.await,
        }
    }
    let mut missing: Vec<Missing> = all
        .iter()
        .zip(&synced)
        .filter(|(_, synced)| !**synced)
        .map(|(one, _)| {
            let (reason, troubles) = one.why_not();
            let name = one.who();
            Missing {
                name,
                reason,
                troubles,
            }
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    missing.sort_by(|a, b| a.name.cmp(&b.name));
    let waited = limit.filter(|_| !failed).unwrap_or_else(|| {
        // Digits that tell nothing are left out.
        Duration::from_millis(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
    });
    Err(NotSynced { waited, missing })
}
