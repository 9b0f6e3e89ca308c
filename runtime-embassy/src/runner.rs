//! The future that lists and watches.

use core::fmt;
use core::future::Future;
use core::task::{Context, Poll};
use core::time::Duration;

use informer_core::cache::Recording;
use informer_core::{
    Decode, Frame, Instant, Reflector, ReflectorConfig, Report, ResourceVersion, Sink, Step,
    Storage, Timer, Transport,
    cache::{SourceId, take_frame},
    drive,
    drive::Command,
    reflector::Target,
};
#[cfg(feature = "journal")]
use informer_journal::{Identity, RecordLog, Recorder};

use crate::handler::Handler;
use crate::lister::Lister;
use crate::resources::Resources;
use crate::timer::EmbassyTimer;

/// Creates an informer in existing memory: a lister and a runner. The same seed gives the same jitter. Devices should
/// use different seeds, or they all reconnect at the same moment.
///
/// The storage `S` sets the bounds. An object that does not fit is rejected and reported. [`Lister::is_synced`] is then
/// `false` until there is room and a relist fits.
pub fn new<R: Target, D: Decode, S: Storage>(
    resources: &mut Resources<D::Value, S>,
    target: R,
    decode: D,
    config: ReflectorConfig,
    seed: u64,
) -> (Lister<'_, D::Value, S>, Runner<'_, R, D, S>)
where
    S::Text: PartialEq,
{
    let resources = &*resources;
    (
        Lister::new(resources),
        Runner::new(resources, target, decode, config, seed),
    )
}

/// Lists, watches, updates the cache and calls the handler. [`new`] creates it; its future belongs into a
/// task.
#[must_use = "a runner does nothing until it is run"]
pub struct Runner<'a, R, D: Decode, S: Storage> {
    resources: &'a Resources<D::Value, S>,
    decode: D,
    reflector: Reflector<R, S>,
    resync: Option<Duration>,
}

impl<'a, R: Target, D: Decode, S: Storage> Runner<'a, R, D, S>
where
    S::Text: PartialEq,
{
    pub(crate) fn new(
        resources: &'a Resources<D::Value, S>,
        target: R,
        decode: D,
        config: ReflectorConfig,
        seed: u64,
    ) -> Self {
        Self {
            resources,
            reflector: Reflector::new(target, config, seed).with_decoder(&decode),
            decode,
            resync: None,
        }
    }

    /// Replays every object to the handler at this interval, without a request to the API server. It is off by default.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.resync = (period > Duration::ZERO).then_some(period);
        self
    }

    /// Runs on embassy's time until [`Lister::stop`](crate::Lister::stop).
    pub fn run<T: Transport, H: Handler<D::Value, S::Text>>(
        self,
        transport: T,
        handler: H,
    ) -> impl Future<Output = ()> + use<'a, R, D, S, T, H> {
        self.run_on(EmbassyTimer, transport, handler)
    }

    /// Runs on another clock, until [`Lister::stop`](crate::Lister::stop).
    // Not an `async fn`, whose future would hold each argument twice: the frame of the reflector is most of a device's
    // memory.
    pub fn run_on<C: Timer, T: Transport, H: Handler<D::Value, S::Text>>(
        self,
        timer: C,
        transport: T,
        handler: H,
    ) -> impl Future<Output = ()> + use<'a, R, D, S, C, T, H> {
        self.run_recorded(timer, transport, handler, ())
    }

    /// Runs like [`Runner::run_on`] and stores the cache in a journal. Pass [`EmbassyTimer`] for embassy's time.
    ///
    /// The journal's content is in the cache before this returns, and the watch resumes from its version. See
    /// `docs/JOURNAL.md`.
    ///
    /// `cluster` is the user's name of the cluster. A journal blocks while the flash is busy.
    ///
    /// ```
    /// use informer_embassy::{
    ///     Decode, EmbassyTimer, Handler, Inline, Runner, Storage, Target, Transport, journal::RecordLog,
    /// };
    ///
    /// type Memory = Inline<32, 80, 2048>;
    ///
    /// async fn task<R: Target, D: Decode, J: RecordLog>(
    ///     runner: Runner<'_, R, D, Memory>,
    ///     transport: impl Transport,
    ///     handler: impl Handler<D::Value, <Memory as Storage>::Text>,
    ///     journal: J, // For example a `FlashJournal`.
    /// ) {
    ///     runner.run_with_journal(EmbassyTimer, transport, handler, journal, "edge-7").await;
    /// }
    /// ```
    #[cfg(feature = "journal")]
    pub fn run_with_journal<C, T, H, J>(
        mut self,
        timer: C,
        transport: T,
        mut handler: H,
        journal: J,
        cluster: &str,
    ) -> impl Future<Output = ()> + use<'a, R, D, S, C, T, H, J>
    where
        C: Timer,
        T: Transport,
        H: Handler<D::Value, S::Text>,
        J: RecordLog,
    {
        let resource = self.reflector.resource();
        let identity = Identity::new(cluster, &resource, self.decode.fingerprint());
        let mut recorder = Recorder::new(journal);
        // Nothing else uses the cache yet, and it has no other source with pending events.
        if let Ok(mut cache) = self.resources.cache.try_borrow_mut()
            && let Some(restored) = recorder.restore(
                &identity,
                &self.decode,
                &mut cache,
                SourceId::FIRST,
                &mut |_| (),
                &mut |report| handler.report(report),
            )
        {
            self.reflector.resume(&restored);
        }
        self.run_recorded(timer, transport, handler, recorder)
    }

    fn run_recorded<C: Timer, T: Transport, H: Handler<D::Value, S::Text>, J: Recording>(
        self,
        mut timer: C,
        mut transport: T,
        handler: H,
        recorder: J,
    ) -> impl Future<Output = ()> + use<'a, R, D, S, C, T, H, J> {
        let mut reflector = self.reflector;
        let mut sink = CacheSink {
            recorder,
            resources: self.resources,
            decode: self.decode,
            handler,
            resync: self.resync,
            next_resync: self.resync.map(|period| timer.now() + period),
        };
        async move {
            // The restored objects are delivered before the first request.
            sink.notify_handler();
            drive(&mut reflector, &mut transport, &mut timer, &mut sink).await;
        }
    }
}

impl<R, D: Decode, S: Storage> fmt::Debug for Runner<'_, R, D, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

/// Applies the reflector's frames, and notifies the handler.
struct CacheSink<'a, D: Decode, S: Storage, H, J> {
    recorder: J,
    resources: &'a Resources<D::Value, S>,
    decode: D,
    handler: H,
    resync: Option<Duration>,
    next_resync: Option<Instant>,
}

impl<D: Decode, S: Storage, H: Handler<D::Value, S::Text>, J> CacheSink<'_, D, S, H, J>
where
    S::Text: PartialEq,
{
    /// Delivers the pending notifications.
    fn notify_handler(&mut self) {
        // The cache is never borrowed across an await, nor while this is called.
        let Ok(mut cache) = self.resources.cache.try_borrow_mut() else {
            return;
        };
        while let Some(notification) = cache.pop() {
            self.handler.notify(notification);
        }
    }
}

impl<D: Decode, S: Storage, H: Handler<D::Value, S::Text>, J: Recording> Sink<S::Text>
    for CacheSink<'_, D, S, H, J>
where
    S::Text: PartialEq,
{
    const TURN: u16 = 16;

    fn frame(&mut self, _now: Instant, frame: Frame<'_, S::Text>) {
        {
            let Ok(mut cache) = self.resources.cache.try_borrow_mut() else {
                return;
            };
            let handler = &mut self.handler;
            let report = &mut |report: Report<'_>| handler.report(report);
            take_frame(
                &self.decode,
                &mut cache,
                SourceId::FIRST,
                frame,
                &mut self.recorder,
                report,
            );
        }
        // Notifying after each frame delivers every state, and the queue needs room for one delta only.
        self.notify_handler();
    }

    fn flush(&mut self, now: Instant, version: &ResourceVersion<S::Text>) {
        self.notify_handler();
        if let Ok(mut cache) = self.resources.cache.try_borrow_mut() {
            let reached = Step::Reached(version.clone());
            // The source exists, so this cannot fail.
            let _ = cache.apply(SourceId::FIRST, reached, &mut self.recorder);
            let handler = &mut self.handler;
            self.recorder.report(&mut |report| handler.report(report));
            if self.recorder.wants_list(now) || cache.take_wants_relist(SourceId::FIRST) {
                let mut orders = self.resources.orders.get();
                orders.refill = true;
                self.resources.orders.set(orders);
            }
        }
        self.resources.changed();
    }

    fn report(&mut self, _now: Instant, report: Report<'_>) {
        self.handler.report(report);
    }

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        // Frames are applied immediately.
        Poll::Ready(())
    }

    fn poll_command(&mut self, cx: &mut Context<'_>) -> Poll<Command> {
        let mut orders = self.resources.orders.get();
        let command = if core::mem::take(&mut orders.stop) {
            Command::Stop
        } else if core::mem::take(&mut orders.relist) {
            Command::Relist
        } else if core::mem::take(&mut orders.refill) {
            Command::Refill
        } else if core::mem::take(&mut orders.resync) {
            // The driver reads the deadline again, and finds it due.
            self.next_resync = Some(Instant::from_micros(0));
            Command::Wake
        } else {
            self.resources.runner.set(Some(cx.waker().clone()));
            return Poll::Pending;
        };
        self.resources.orders.set(orders);
        Poll::Ready(command)
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_resync
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.next_resync = self.resync.map(|period| now + period);
        if let Ok(mut cache) = self.resources.cache.try_borrow_mut() {
            cache.resync();
        }
        self.notify_handler();
        self.resources.changed();
    }
}
