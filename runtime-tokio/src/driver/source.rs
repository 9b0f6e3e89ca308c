//! The sources of an informer: each is a resource of a namespace or a cluster, listed and watched by itself.

use core::future::poll_fn;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use informer_core::{
    Decode, Reflector, ReflectorConfig, Report, Sink as _, Timer as _, Transport,
    cache::SourceId,
    drive,
    drive::Command,
    report::{Phase, Problem},
};
use tokio::sync::{mpsc, oneshot};

use crate::cache::entry::Store;
use crate::cache::shared::Inner;
use crate::driver::audit::Audited;
use crate::driver::guard::Guarded;
use crate::driver::journal::{Journal, SourceJournal, Writer};
use crate::driver::pool::{Decoder, Pool};
use crate::driver::probe::Probed;
use crate::driver::sink::{CacheSink, Restored, StopSignal};
use crate::driver::{DriverParts, Member, Probes, Scope, Transports};
use crate::timer::TokioTimer;

/// What all sources of an informer share.
pub(super) struct Sources<D: Decode> {
    inner: Arc<Inner<D::Value>>,
    decode: Arc<D>,
    /// The number of threads that may decode besides the driver's own.
    decoders: Option<usize>,
    config: ReflectorConfig,
    /// The seed of the next source. Sources with equal seeds would wait for equal times.
    seed: u64,
    /// The first source handles the resyncs of all of them, so they share one clock.
    timer: TokioTimer,
    journal: Option<Journal>,
    is_one_of_many: bool,
}

/// A source that is about to be listed and watched.
pub(super) struct Source<D: Decode> {
    pool: Pool<D>,
    config: ReflectorConfig,
    seed: u64,
    timer: TokioTimer,
    /// Repair requests of its audit.
    repairs: mpsc::Receiver<()>,
    journal: Option<SourceJournal>,
    /// Resolves when a source that can leave is to leave.
    leaves: Option<oneshot::Receiver<()>>,
}

/// The sources that join and leave at run time.
pub(super) struct Members<T> {
    changes: Option<mpsc::UnboundedReceiver<Member<T>>>,
    /// A member leaves when its sender is dropped.
    present: HashMap<Scope, oneshot::Sender<()>>,
    /// Dropped when all initial members have joined.
    initial: Option<oneshot::Sender<()>>,
}

impl<D> Sources<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Takes what the sources share from the parts of a driver. The transports remain.
    pub(super) fn new<T>(
        inner: &Arc<Inner<D::Value>>,
        parts: DriverParts<T, D>,
    ) -> (Self, Transports<T>) {
        let sources = Self {
            inner: Arc::clone(inner),
            decode: Arc::new(parts.decode),
            decoders: parts.decoders,
            config: parts.config,
            seed: parts.seed,
            timer: TokioTimer::default(),
            journal: parts.journal,
            is_one_of_many: parts.transports.sources.len() > 1,
        };
        (sources, parts.transports)
    }

    /// Creates one of the sources that the informer was built with, and the sender of its audit's repair requests.
    pub(super) fn first(&mut self, id: SourceId) -> (Source<D>, mpsc::Sender<()>) {
        let (repair, repairs) = mpsc::channel(1);
        let journal = self.journal.as_ref().and_then(|journal| {
            self.inner.source(id, |source| {
                let resource = source.resource.as_ref();
                journal.of_source(&resource, self.decode.fingerprint(), self.is_one_of_many)
            })
        });
        let source = Source {
            journal,
            repairs,
            ..self.source(id)
        };
        (source, repair)
    }

    fn source(&mut self, id: SourceId) -> Source<D> {
        let seed = self.seed;
        self.seed = seed.wrapping_add(1);
        Source {
            pool: Pool::new(self.decoder(id), self.decoders),
            config: self.config.clone(),
            seed,
            timer: self.timer,
            repairs: mpsc::channel(1).1,
            journal: None,
            leaves: None,
        }
    }

    fn decoder(&self, source: SourceId) -> Decoder<D> {
        Decoder {
            inner: Arc::clone(&self.inner),
            decode: Arc::clone(&self.decode),
            source,
        }
    }

    /// Handles the resyncs of a cache whose sources join and leave at run time. Its first source, which lists nothing,
    /// is removed when the initial ones have joined.
    pub(super) fn run_resyncs(
        &self,
        initial: oneshot::Receiver<()>,
    ) -> impl Future<Output = ()> + use<D> {
        run_resyncs(
            Pool::new(self.decoder(SourceId::FIRST), Some(0)),
            self.timer,
            initial,
        )
    }
}

impl<T> Members<T> {
    pub(super) fn new(changes: Option<mpsc::UnboundedReceiver<Member<T>>>) -> Self {
        Self {
            changes,
            present: HashMap::new(),
            initial: None,
        }
    }

    /// Returns a receiver that resolves when all initial members have joined; `None` if none can join.
    pub(super) fn wait_for_initial(&mut self) -> Option<oneshot::Receiver<()>> {
        self.changes.as_ref()?;
        let (initial, receiver) = oneshot::channel();
        self.initial = Some(initial);
        Some(receiver)
    }

    pub(super) async fn next(&mut self) -> Option<Member<T>> {
        self.changes.as_mut()?.recv().await
    }

    /// Handles a change. Returns the source that joins with it.
    pub(super) fn take<D>(
        &mut self,
        member: Member<T>,
        sources: &mut Sources<D>,
    ) -> Option<(Source<D>, T)>
    where
        D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
    {
        match member {
            Member::Join(scope, ..) if self.present.contains_key(&scope) => None,
            Member::Join(scope, transport, join) => {
                let inner = &sources.inner;
                let (cluster, namespace) = &scope;
                let resource = inner.resource.as_ref().namespace(namespace).into();
                let id = inner.join_source(resource, cluster, join)?;
                let (stays, leaves) = oneshot::channel();
                self.present.insert(scope, stays);
                let source = Source {
                    leaves: Some(leaves),
                    ..sources.source(id)
                };
                Some((source, transport))
            }
            Member::Leave(scope) => {
                self.present.remove(&scope);
                None
            }
            Member::Initial => {
                self.initial = None;
                None
            }
        }
    }
}

impl<D> Source<D>
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    /// Returns the part of it that is audited.
    pub(super) fn audited(&self, repair: mpsc::Sender<()>) -> Audited<D::Value> {
        let Decoder { inner, source, .. } = self.pool.decoder();
        Audited {
            inner: Arc::clone(inner),
            source: *source,
            config: self.config.clone(),
            seed: !self.seed,
            timer: self.timer,
            repair,
        }
    }

    /// Lists and watches, and probes meanwhile, with a copy of the transport.
    pub(super) async fn probed_run<T: Transport>(self, transport: T, probes: Option<Probes<T>>) {
        let Some((period, copy)) = probes else {
            return self.run(transport).await;
        };
        // It is boxed, since its size would count for the sources without probes as well.
        let probed = Box::pin(self.probed(period).run(copy(&transport)));
        let probing = async {
            probed.await;
            core::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = self.run(transport) => {}
            () = probing => {}
        }
    }

    fn probed(&self, period: Duration) -> Probed<D::Value> {
        let Decoder { inner, source, .. } = self.pool.decoder();
        Probed {
            inner: Arc::clone(inner),
            source: *source,
            config: self.config.clone(),
            seed: !self.seed,
            timer: self.timer,
            period,
        }
    }

    /// Lists and watches until the informer stops or the source leaves.
    async fn run<T: Transport>(self, transport: T) {
        let Self {
            pool,
            config,
            seed,
            mut timer,
            repairs,
            journal,
            leaves,
        } = self;
        let Decoder {
            inner,
            decode,
            source,
        } = pool.decoder();
        let (inner, source) = (Arc::clone(inner), *source);
        let Some(resource) = inner.source(source, |source| source.resource.clone()) else {
            return;
        };
        let mut reflector: Reflector<_, Store> =
            Reflector::new(resource, config, seed).with_decoder(&**decode);
        let reports = Arc::clone(&inner);
        let report = move |report: &Report<'_>| reports.report_of(Some(source), report);
        let requests = Arc::clone(&inner);
        let mut transport = Guarded::traced(transport, move || requests.span(source));
        let may_leave = leaves.is_some();
        let stop = stop_signal(&inner, leaves);
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
            let is_stopping = inner.status.borrow().stopping;
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
}

/// Returns a future that resolves when the informer stops, or when the source is to leave.
fn stop_signal<V: Send + Sync + 'static>(
    inner: &Inner<V>,
    leaves: Option<oneshot::Receiver<()>>,
) -> StopSignal {
    let mut status = inner.status.subscribe();
    Box::pin(async move {
        let left = async {
            match leaves {
                // The sender is dropped when the source leaves.
                Some(leaves) => drop(leaves.await),
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // An error would mean that the sender is dropped, but `inner` holds it.
            _ = status.wait_for(|status| status.stopping) => {}
            () = left => {}
        }
    })
}

async fn run_resyncs<D>(pool: Pool<D>, mut timer: TokioTimer, mut initial: oneshot::Receiver<()>)
where
    D: Decode<Value: Send + Sync + 'static> + Send + Sync + 'static,
{
    let stop = stop_signal(&pool.decoder().inner, None);
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
            _ = &mut initial, if waits => {
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
