//! The future that lists, watches and updates the cache.

mod allocator;
mod audit;
mod batch;
mod guard;
pub(crate) mod journal;
mod pool;
mod probe;
mod sink;
mod source;
mod turn;

use core::time::Duration;
use std::sync::Arc;

use futures_util::future::Either;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use informer_core::transport::BoxFuture;
use informer_core::{Decode, ReflectorConfig, Transport, audit::AuditConfig, report::Level};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use crate::cache::panics::catch_async;
use crate::cache::panics::message;
use crate::cache::shared::{Inner, METRICS};
use crate::driver::journal::Journal;
use crate::driver::source::{Members, Source, Sources};
use crate::metrics::facade::{Facade, INFORMER};

/// Lists, watches, updates the cache and calls the handlers.
///
/// Spawn it with `tokio::spawn(driver.run())`. It ends after [`Informer::stop`](crate::Informer::stop). Dropping it
/// stops everything at once, which is reported unless a stop was requested. Each handler runs in a separate task that
/// belongs to the driver and never outlives it, so a slow handler does not block others.
///
/// A panic in user-defined code (`on_report`, `on_version`, an index, a decoder, a handler, a transport, a metrics
/// recorder) is reported and does not end the driver. Any other panic, such as one in the `Drop` of an object, ends it.
/// It is then reported and shown by health, handlers receive the pending notifications, and the panic resumes in the
/// task that runs the driver. With `panic = "abort"` every panic ends the process.
#[must_use = "an informer does nothing until its driver runs"]
pub struct Driver<T, D: Decode> {
    inner: EndOnDrop<D::Value>,
    parts: DriverParts<T, D>,
    jobs: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
}

/// The parts and settings of a driver.
pub(crate) struct DriverParts<T, D> {
    pub(crate) transports: Transports<T>,
    pub(crate) decode: D,
    /// The number of threads that may decode besides the driver's own.
    pub(crate) decoders: Option<usize>,
    pub(crate) config: ReflectorConfig,
    pub(crate) seed: u64,
    pub(crate) drain: Duration,
    pub(crate) journal: Option<Journal>,
}

/// One transport for each source, and one for each source's audits if there are any.
pub(crate) struct Transports<T> {
    pub(crate) sources: Vec<T>,
    /// The sources that join and leave at run time. The first source of the cache stands for them.
    pub(crate) members: Option<mpsc::UnboundedReceiver<Member<T>>>,
    pub(crate) audits: Option<Audits<T>>,
    pub(crate) probes: Option<Probes<T>>,
}

/// The period of probes, and what copies the transport of a source for them.
pub(crate) type Probes<T> = (Duration, fn(&T) -> T);

/// A change of the sources of an informer.
pub(crate) enum Member<T> {
    /// A namespace of a cluster joins; all namespaces if it is empty. The number is that of the join of the cluster.
    Join(Scope, T, u64),
    /// Its objects are removed.
    Leave(Scope),
    /// All initial members have joined. The informer is synced when all of them are.
    Initial,
}

/// A cluster and a namespace. Either may be empty.
pub(crate) type Scope = (String, String);

/// The settings of audits, and a transport for each source.
pub(crate) struct Audits<T> {
    pub(crate) config: AuditConfig,
    pub(crate) transports: Vec<T>,
}

impl<T: Transport, D: Decode> Driver<T, D> {
    pub(crate) const fn new(
        inner: Arc<Inner<D::Value>>,
        parts: DriverParts<T, D>,
        jobs: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    ) -> Self {
        Self {
            inner: EndOnDrop(inner),
            parts,
            jobs,
        }
    }
}

impl<T: Transport, D> Driver<T, D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Runs until the informer is stopped.
    pub async fn run(self) {
        let inner = Arc::clone(&self.inner.0);
        // It is dropped after `end`, so the last update shows the end.
        let mut shown = Shown {
            inner: &inner,
            facade: Facade::new(INFORMER, &inner.name),
        };
        let Self {
            inner: end,
            parts,
            mut jobs,
        } = self;
        let drain = parts.drain;
        let mut handlers = JoinSet::new();
        let driven = catch_async(async {
            tokio::select! {
                biased;
                () = run_sources(&inner, parts, &mut jobs, &mut handlers) => {}
                () = shown.run() => {}
            }
        })
        .await;
        match &driven {
            Ok(()) => inner.driver_failed("all its sources ended", Level::Error),
            Err(panic) => {
                let reason = format!("it panicked: {}", message(&**panic));
                inner.driver_failed(&reason, Level::Error);
            }
        }
        inner.close();
        // Handlers get the pending notifications. A handler that does not finish in time reports the rest when it is
        // dropped.
        let _ = tokio::time::timeout(drain, async {
            loop {
                tokio::select! {
                    biased;
                    Some(job) = jobs.recv() => { handlers.spawn(job); }
                    joined = handlers.join_next() => match joined {
                        Some(joined) => note_handler(&inner, joined),
                        None => break,
                    }
                }
            }
        })
        .await;
        handlers.abort_all();
        while let Some(joined) = handlers.join_next().await {
            note_handler(&inner, joined);
        }
        drop(end);
        drop(shown);
        if let Err(panic) = driven {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The metrics of an informer in the facade, which are updated for the last time when they are dropped.
struct Shown<'a, V> {
    inner: &'a Inner<V>,
    facade: Facade,
}

impl<V> Shown<'_, V> {
    /// Updates them for ever.
    async fn run(&mut self) {
        loop {
            self.facade.due().await;
            self.update();
        }
    }

    fn update(&mut self) {
        let health = || self.inner.health();
        let update = || self.facade.show_informer(health);
        self.inner.hook(METRICS, update);
    }
}

impl<V> Drop for Shown<'_, V> {
    fn drop(&mut self) {
        self.update();
    }
}

/// Reports a handler whose task panicked. Its calls are caught, but not its `Drop`.
fn note_handler<V>(inner: &Inner<V>, joined: Result<(), JoinError>) {
    if let Some(Ok(panic)) = joined.err().map(JoinError::try_into_panic) {
        inner.hook_panicked("the `Drop` of a handler", &panic);
    }
}

/// Lists, watches and audits all sources, and runs handlers, until all sources have ended.
async fn run_sources<T: Transport, D>(
    inner: &Arc<Inner<D::Value>>,
    parts: DriverParts<T, D>,
    jobs: &mut mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    handlers: &mut JoinSet<()>,
) where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    let (mut sources, transports) = Sources::new(inner, parts);
    // They are boxed, since each set has room for one more future, of 10 kB.
    let mut driving = FuturesUnordered::new();
    let mut auditing = FuturesUnordered::new();
    let mut members = Members::new(transports.members);
    if let Some(initial) = members.wait_for_initial() {
        driving.push(Box::pin(Either::Right(sources.run_resyncs(initial))));
    }
    let mut audits = transports.audits.into_iter().flat_map(|audit| {
        let transports = audit.transports.into_iter();
        transports.map(move |transport| (audit.config, transport))
    });
    let probes = transports.probes;
    let drive =
        |source: Source<D>, transport| Box::pin(Either::Left(source.probed_run(transport, probes)));
    let ids = inner.each_source(|id, _| id);
    for (transport, id) in transports.sources.into_iter().zip(ids) {
        let (source, repair) = sources.first(id);
        if let Some((audit, transport)) = audits.next() {
            let audited = source.audited(repair);
            auditing.push(Box::pin(audited.run(transport, audit)));
        }
        driving.push(drive(source, transport));
    }
    loop {
        tokio::select! {
            biased;
            Some(job) = jobs.recv() => { handlers.spawn(job); }
            Some(member) = members.next() => {
                if let Some((source, transport)) = members.take(member, &mut sources) {
                    driving.push(drive(source, transport));
                }
            }
            // A source ends when it leaves, and the first one only at a stop.
            ended = driving.next() => if ended.is_none() { break },
            Some(()) = auditing.next(), if !auditing.is_empty() => {}
            Some(joined) = handlers.join_next(), if !handlers.is_empty() => {
                note_handler(inner, joined);
            }
        }
    }
}

/// Marks the informer as ended, even if its driver is dropped.
struct EndOnDrop<V>(Arc<Inner<V>>);

impl<V> Drop for EndOnDrop<V> {
    fn drop(&mut self) {
        // Dropping it may be intended when a program ends.
        self.0.driver_failed("its future was dropped", Level::Warn);
        self.0.end();
    }
}

impl<T, D: Decode> core::fmt::Debug for Driver<T, D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Driver")
            .field("informer", &self.inner.0.name)
            .finish_non_exhaustive()
    }
}
