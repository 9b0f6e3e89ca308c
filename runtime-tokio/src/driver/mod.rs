//! The future that lists, watches and updates the cache.

mod allocator;
mod audit;
mod batch;
mod guard;
pub(crate) mod journal;
mod pool;
mod sink;
mod turn;

use core::future::poll_fn;
use core::pin::Pin;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::Either;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use informer_core::{
    Decode, Reflector, ReflectorConfig, Report, Sink as _, Timer as _, Transport,
    audit::AuditConfig,
    cache::SourceId,
    drive,
    drive::Command,
    report::{Level, Phase, Problem},
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};

use crate::cache::entry::Store;
use crate::cache::panics::catch_async;
use crate::cache::panics::message;
use crate::cache::shared::{Inner, METRICS};
use crate::driver::audit::Audited;
use crate::driver::journal::{Journal, SourceJournal, Writer};
use crate::driver::pool::{Decoder, Pool};
use crate::driver::sink::{CacheSink, Restored};
use crate::timer::TokioTimer;
use guard::Guarded;

/// A handler's loop, sent to the driver.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    work: Work<T, D>,
    jobs: mpsc::UnboundedReceiver<Job>,
}

/// The parts and settings of a driver.
pub(crate) struct Work<T, D> {
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
}

/// A change of the sources of an informer.
pub(crate) enum Member<T> {
    /// A namespace of a cluster joins; all namespaces if it is empty. The number is that of the join of the cluster.
    Join(Place, T, u64),
    /// Its objects are removed.
    Leave(Place),
    /// All initial members have joined. The informer is synced when all of them are.
    Initial,
}

/// A cluster and a namespace. Either may be empty.
pub(crate) type Place = (String, String);

/// The settings of audits, and a transport for each source.
pub(crate) struct Audits<T> {
    pub(crate) config: AuditConfig,
    pub(crate) transports: Vec<T>,
}

impl<T: Transport, D: Decode> Driver<T, D> {
    pub(crate) const fn new(
        inner: Arc<Inner<D::Value>>,
        work: Work<T, D>,
        jobs: mpsc::UnboundedReceiver<Job>,
    ) -> Self {
        Self {
            inner: EndOnDrop(inner),
            work,
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
        let Self {
            inner: end,
            work,
            mut jobs,
        } = self;
        let inner = Arc::clone(&end.0);
        let drain = work.drain;
        let mut handlers = JoinSet::new();
        let driven = catch_async(run_sources(&inner, work, &mut jobs, &mut handlers)).await;
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
        if let Err(panic) = driven {
            std::panic::resume_unwind(panic);
        }
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
    work: Work<T, D>,
    jobs: &mut mpsc::UnboundedReceiver<Job>,
    handlers: &mut JoinSet<()>,
) where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    let Work {
        transports,
        decode,
        decoders,
        config,
        seed,
        journal,
        drain: _,
    } = work;
    inner.hook(METRICS, || inner.figures.begin());
    let decode = Arc::new(decode);
    // All sources share one clock, since the first source handles the resyncs of all of them.
    let timer = TokioTimer::default();
    let mut audits = transports.audits.into_iter().flat_map(|audit| {
        let transports = audit.transports.into_iter();
        transports.map(move |transport| (audit.config, transport))
    });
    // They are boxed, since each set has room for one more future, of 10 kB.
    let mut driving = FuturesUnordered::new();
    let mut auditing = FuturesUnordered::new();
    let is_one_of_many = transports.sources.len() > 1;
    let mut members = transports.members;
    let mut present: HashMap<Place, oneshot::Sender<()>> = HashMap::new();
    let mut initial = None;
    if members.is_some() {
        let (begun, is_begun) = oneshot::channel();
        initial = Some(begun);
        let decoder = Decoder {
            inner: Arc::clone(inner),
            decode: Arc::clone(&decode),
            source: SourceId::FIRST,
        };
        let resyncs = run_resyncs(Pool::new(decoder, Some(0)), timer, is_begun);
        driving.push(Box::pin(Either::Right(resyncs)));
    }
    let ids = inner.each_source(|id, _| id);
    // Sources with equal seeds would wait for equal times.
    let mut seeds = (0..).map(|number| seed.wrapping_add(number));
    for (transport, source) in transports.sources.into_iter().zip(ids) {
        let seed = seeds.next().unwrap_or_default();
        let (repair, repairs) = mpsc::channel(1);
        if let Some((audit, transport)) = audits.next() {
            let audited = Audited {
                inner: Arc::clone(inner),
                source,
                config: config.clone(),
                seed: !seed,
                timer,
                repair,
            };
            auditing.push(Box::pin(audited.run(Guarded(transport), audit)));
        }
        let decoder = Decoder {
            inner: Arc::clone(inner),
            decode: Arc::clone(&decode),
            source,
        };
        let journal = journal.as_ref().and_then(|journal| {
            inner.source(source, |source| {
                let resource = source.resource.as_ref();
                journal.of_source(&resource, decode.fingerprint(), is_one_of_many)
            })
        });
        let pool = Pool::new(decoder, decoders);
        driving.push(Box::pin(Either::Left(run_source(
            pool,
            Guarded(transport),
            config.clone(),
            seed,
            timer,
            repairs,
            journal,
            None,
        ))));
    }
    loop {
        tokio::select! {
            biased;
            Some(job) = jobs.recv() => { handlers.spawn(job); }
            Some(member) = async { members.as_mut()?.recv().await } => match member {
                Member::Join(place, ..) if present.contains_key(&place) => {}
                Member::Join(place, transport, join) => {
                    let resource = inner.resource.as_ref().namespace(&place.1).into();
                    let Some(source) = inner.join_source(resource, &place.0, join) else {
                        continue;
                    };
                    let decoder = Decoder {
                        inner: Arc::clone(inner),
                        decode: Arc::clone(&decode),
                        source,
                    };
                    let (stays, leaves) = oneshot::channel();
                    present.insert(place, stays);
                    driving.push(Box::pin(Either::Left(run_source(
                        Pool::new(decoder, decoders),
                        Guarded(transport),
                        config.clone(),
                        seeds.next().unwrap_or_default(),
                        timer,
                        mpsc::channel(1).1,
                        None,
                        Some(leaves),
                    ))));
                }
                Member::Leave(place) => drop(present.remove(&place)),
                Member::Initial => drop(initial.take()),
            },
            // A source ends when it leaves, and the first one only at a stop.
            ended = driving.next() => if ended.is_none() { break },
            Some(()) = auditing.next(), if !auditing.is_empty() => {}
            Some(joined) = handlers.join_next(), if !handlers.is_empty() => {
                note_handler(inner, joined);
            }
        }
    }
}

/// Handles the resyncs of a cache whose sources join and leave at run time. Its first source, which lists nothing, is
/// removed when the initial ones have joined.
async fn run_resyncs<D>(pool: Pool<D>, mut timer: TokioTimer, mut is_begun: oneshot::Receiver<()>)
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    let mut status = pool.decoder().inner.status.subscribe();
    let stop = Box::pin(async move {
        let _ = status.wait_for(|status| status.stopping).await;
    });
    let mut sink = CacheSink::new(pool, stop, mpsc::channel(1).1);
    let mut waits = true;
    loop {
        let due = sink.deadline();
        let due = async {
            match due {
                Some(due) => timer.sleep_until(due).await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = poll_fn(|cx| sink.poll_command(cx)) => if command == Command::Stop {
                return;
            },
            // The sender is dropped when the initial members have joined.
            _ = &mut is_begun, if waits => {
                waits = false;
                sink.leave().await;
            }
            () = due => {}
        }
        let now = timer.now();
        if sink.deadline().is_some_and(|due| due <= now) {
            sink.handle_timeout(now);
        }
    }
}

/// Lists and watches one source of the cache.
#[expect(clippy::too_many_arguments, reason = "each is a part of one source")]
async fn run_source<T: Transport, D>(
    pool: Pool<D>,
    mut transport: T,
    config: ReflectorConfig,
    seed: u64,
    mut timer: TokioTimer,
    repairs: mpsc::Receiver<()>,
    journal: Option<SourceJournal>,
    leaves: Option<oneshot::Receiver<()>>,
) where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    let Decoder {
        inner,
        decode,
        source,
    } = pool.decoder();
    let source = *source;
    let mut status = inner.status.subscribe();
    let may_leave = leaves.is_some();
    let stop = Box::pin(async move {
        let left = async {
            match leaves {
                // The sender is dropped when the source leaves.
                Some(leaves) => drop(leaves.await),
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            // An error would mean that the sender is dropped, but `inner` holds it.
            _ = status.wait_for(|status| status.stopping) => {}
            () = left => {}
        }
    });
    let inner_of_sink = Arc::clone(inner);
    let Some(resource) = inner.source(source, |source| source.resource.clone()) else {
        return;
    };
    let mut reflector: Reflector<_, Store> =
        Reflector::new(resource, config, seed).with_decoder(&**decode);
    let reports = Arc::clone(inner);
    let report = move |report: &Report<'_>| reports.report_of(Some(source), report);
    let mut sink = CacheSink::new(pool, stop, repairs);
    let mut writer = None;
    if let Some(journal) = journal {
        let Some(restoring) = restore(sink, journal, &report).await else {
            // The runtime is shutting down.
            return;
        };
        (sink, writer) = (restoring.sink, Some(restoring.writer));
        if let Some(restored) = &restoring.restored {
            reflector.resume(restored);
        }
    }
    let driving = async move {
        // Dropping the sink closes the writer's queue.
        let mut sink = sink;
        drive(&mut reflector, &mut transport, &mut timer, &mut sink).await;
        let is_stopping = inner_of_sink.status.borrow().stopping;
        if may_leave && !is_stopping {
            sink.leave().await;
        }
    };
    match writer {
        Some(writer) => {
            tokio::join!(driving, writer.run(report));
        }
        None => driving.await,
    }
}

/// A restored source.
struct Restoring<D: Decode> {
    sink: CacheSink<D>,
    restored: Option<Restored>,
    writer: Writer,
}

/// Fills the cache from a journal, on a blocking thread. `None` if the runtime is shutting down.
async fn restore<D>(
    mut sink: CacheSink<D>,
    journal: SourceJournal,
    report: &impl Fn(&Report<'_>),
) -> Option<Restoring<D>>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    let restoring = tokio::task::spawn_blocking(move || {
        let mut log = match journal.open() {
            Ok(log) => log,
            Err(error) => {
                let (outbox, writer) = journal.queue(None, true, true);
                sink.record(outbox);
                return (sink, None, writer, Some(error.to_string()), None);
            }
        };
        let exposed = log.medium().exposed().map(ToString::to_string);
        let (restored, trouble) = match sink.restore(&mut log, &journal.identity) {
            Ok(restored) => (restored, None),
            Err(error) => (None, Some(error.to_string())),
        };
        // An entry in the journal but not in the cache would never be swept by a relist, so the journal is restarted.
        let lacks = restored.as_ref().is_some_and(|restored| !restored.complete);
        let (outbox, writer) = journal.queue(Some(log), lacks, trouble.is_some());
        sink.record(outbox);
        (sink, restored, writer, trouble, exposed)
    });
    let (sink, restored, writer, trouble, exposed) = match restoring.await {
        Ok(restored) => restored,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => return None,
    };
    if let Some(message) = trouble {
        let problem = Problem::Journal { message: &message };
        report(&Report::about(Phase::Journal, problem));
    }
    if let Some(message) = exposed {
        let problem = Problem::JournalExposed { message: &message };
        report(&Report::about(Phase::Journal, problem));
    }
    Some(Restoring {
        sink,
        restored,
        writer,
    })
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
