//! Registered handlers: their handles, and the loops that call them.

use core::fmt;
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use informer_core::transport::BoxFuture;
use informer_core::{
    Form, Report,
    listeners::{ListenerConfig, ListenerId},
    report::{Phase, Problem},
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::event::{Event, Logged, of_logged};
use super::event_handler::{AsyncEventHandler, EventHandler, deliver, deliver_async};
use super::options::HandlerOptions;
use crate::cache::entry::SharedObject;
use crate::cache::listener::ListenerState;
use crate::cache::panics::{Panic, catch, catch_async, message};
use crate::cache::shared::{Inner, Lost};
use crate::cache::users::Users;
use crate::health::Lag;
use crate::health::error::Ended;

/// A registered handler. Dropping the handle leaves the handler registered.
///
/// ```
/// use informer_tokio::{Handlers, Informer, Raw};
/// # async fn example(pods: Informer<Raw>) -> Result<(), informer_tokio::informer::Ended> {
/// let handle = pods.add_handler(Handlers::new().on_add(|pod, _| println!("+ {pod}")));
/// handle.synced().await?; // It has been called with all existing objects.
/// handle.remove();
/// handle.removed().await; // It is no longer called, and it was dropped.
/// # Ok(())
/// # }
/// ```
pub struct HandlerHandle<F: Form> {
    inner: Arc<Inner<F::Stored>>,
    id: ListenerId,
    listener: Arc<ListenerState>,
    progress: Arc<watch::Sender<Progress>>,
    in_use: InUse,
}

/// A handler counts as a user of a shared informer until it is removed or its loop ends, even if its handle is dropped.
type InUse = Arc<Mutex<Option<Arc<Users>>>>;

fn release(in_use: &InUse) {
    let users = in_use.lock().unwrap_or_else(PoisonError::into_inner).take();
    // The last one stops the informer, which must not run under the lock.
    drop(users);
}

struct ReleaseOnDrop(InUse);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        release(&self.0);
    }
}

#[derive(Clone, Copy, Default)]
struct Progress {
    /// Whether its loop has started. Before that, there is nothing to wait for when it is removed.
    began: bool,
    synced: bool,
    done: bool,
}

impl<F: Form> HandlerHandle<F> {
    /// Removes the handler. A running call finishes. Pending notifications are dropped and reported. Further calls of
    /// this method have no effect.
    pub fn remove(&self) {
        let count = self.inner.leave(self.id);
        report_undelivered(&self.inner, &self.listener.name, count);
        self.progress
            .send_modify(|progress| progress.done |= !progress.began);
        release(&self.in_use);
    }

    /// Waits until the handler has ended, after it was removed or the informer stopped. It must not be called from
    /// within the handler.
    pub async fn removed(&self) {
        // An error means that the handler's loop has ended already.
        let _ = self
            .progress
            .subscribe()
            .wait_for(|progress| progress.done)
            .await;
    }

    pub(crate) fn name(&self) -> &str {
        &self.listener.name
    }

    /// Returns whether the handler has been called with the whole initial list.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    /// Waits until the handler has been called with the whole initial list.
    ///
    /// # Errors
    /// Fails if the handler is removed or the driver ends before that.
    pub async fn synced(&self) -> Result<(), Ended> {
        match self
            .progress
            .subscribe()
            .wait_for(|progress| progress.synced || progress.done)
            .await
        {
            Ok(progress) if progress.synced => Ok(()),
            Ok(_) | Err(_) => Err(Ended),
        }
    }

    /// Waits until it becomes synced or ends after this call, even if that is before the first poll.
    pub(crate) fn becomes_synced(&self) -> impl Future<Output = ()> + Send + use<F> {
        let mut progress = self.progress.subscribe();
        let is_over = |progress: &Progress| progress.synced || progress.done;
        let was_over = is_over(&progress.borrow());
        async move {
            if was_over {
                core::future::pending::<()>().await;
            }
            // An error means that the handler's loop has ended.
            let _ = progress.wait_for(is_over).await;
        }
    }

    /// Returns the number of calls.
    pub(crate) fn calls(&self) -> u64 {
        self.listener.calls()
    }

    /// Returns how far the handler is behind.
    ///
    /// ```
    /// # fn example(handle: informer_tokio::handler::HandlerHandle<informer_tokio::Raw>) {
    /// if handle.lag().behind > core::time::Duration::from_secs(60) {
    ///     println!("the handler has been late for a minute");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn lag(&self) -> Lag {
        self.inner.lag(self.id)
    }

    pub(crate) fn inner(&self) -> &Inner<F::Stored> {
        &self.inner
    }
}

impl<F: Form> fmt::Debug for HandlerHandle<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerHandle")
            .field("informer", &self.inner.name)
            .field("name", &self.listener.name)
            .finish_non_exhaustive()
    }
}

/// Registers a handler. Returns its handle, and its loop for the driver to run.
pub(crate) fn register<F: Form<Stored: Send + Sync + 'static>>(
    (inner, in_use): (Arc<Inner<F::Stored>>, Option<Arc<Users>>),
    config: ListenerConfig,
    options: &HandlerOptions,
    handler: impl EventHandler<F>,
    lost: Option<Lost<F::Stored>>,
) -> (HandlerHandle<F>, BoxFuture<'static, ()>) {
    let (handle, running) = join(inner, in_use, config, options, lost);
    let job: BoxFuture<'static, ()> = if options.blocking {
        Box::pin(running.run_blocking(handler))
    } else {
        Box::pin(running.run(Direct(handler)))
    };
    (handle, job)
}

/// Registers an asynchronous handler, like [`register`].
pub(crate) fn register_async<F: Form<Stored: Send + Sync + 'static>>(
    (inner, in_use): (Arc<Inner<F::Stored>>, Option<Arc<Users>>),
    config: ListenerConfig,
    options: &HandlerOptions,
    handler: impl AsyncEventHandler<F>,
) -> (HandlerHandle<F>, BoxFuture<'static, ()>) {
    let (handle, running) = join(inner, in_use, config, options, None);
    (handle, Box::pin(running.run(Awaited(handler))))
}

fn join<F: Form>(
    inner: Arc<Inner<F::Stored>>,
    in_use: Option<Arc<Users>>,
    config: ListenerConfig,
    options: &HandlerOptions,
    lost: Option<Lost<F::Stored>>,
) -> (HandlerHandle<F>, Running<F>) {
    let listener = Arc::new(ListenerState::new(&options.name));
    let id = inner.join(config, Arc::clone(&listener), lost);
    let progress = Arc::new(watch::Sender::new(Progress::default()));
    let in_use = Arc::new(Mutex::new(in_use));
    let running = Running {
        inner: Arc::clone(&inner),
        id,
        listener: Arc::clone(&listener),
        progress: Arc::clone(&progress),
        events: Vec::new(),
        _in_use: ReleaseOnDrop(Arc::clone(&in_use)),
    };
    let handle = HandlerHandle {
        inner,
        id,
        listener,
        progress,
        in_use,
    };
    (handle, running)
}

/// How a handler is called. The error is a panic.
trait Call<F: Form> {
    fn call(&mut self, event: &Event<F>) -> impl Future<Output = Result<(), Panic>> + Send;
}

struct Direct<H>(H);

impl<F: Form<Stored: Send + Sync>, H: EventHandler<F>> Call<F> for Direct<H> {
    async fn call(&mut self, event: &Event<F>) -> Result<(), Panic> {
        catch(|| deliver(&mut self.0, event))
    }
}

struct Awaited<H>(H);

impl<F: Form<Stored: Send + Sync>, H: AsyncEventHandler<F>> Call<F> for Awaited<H> {
    async fn call(&mut self, event: &Event<F>) -> Result<(), Panic> {
        catch_async(deliver_async(&mut self.0, event)).await
    }
}

/// The turns after which a busy handler yields to the timers and sockets of its thread as well. The driver does so after fewer
/// events, so that a fast handler on its thread keeps up with it.
const TURNS: u8 = 4;

/// How long a handler is called before it yields within a batch. The driver and the other handlers may be on its thread.
const SLICE: Duration = Duration::from_micros(500);

/// Yields to the tasks that are ready.
async fn after_ready_tasks() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if core::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A handler's loop.
struct Running<F: Form> {
    inner: Arc<Inner<F::Stored>>,
    id: ListenerId,
    listener: Arc<ListenerState>,
    progress: Arc<watch::Sender<Progress>>,
    events: Vec<Logged<F>>,
    _in_use: ReleaseOnDrop,
}

/// Stops a batch of calls on a blocking thread when the task that waits for it is dropped.
struct LeaveOnDrop(Arc<ListenerState>);

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<F: Form<Stored: Send + Sync + 'static>> Running<F> {
    async fn run(mut self, mut handler: impl Call<F>) {
        let mut turns = (0..TURNS).rev().cycle();
        while self.take().await {
            let mut taken = TakenEvents::new(&self.inner, &self.listener, &mut self.events);
            let mut since = Instant::now();
            let mut now = since;
            loop {
                if now.saturating_duration_since(since) >= SLICE {
                    tokio::task::yield_now().await;
                    now = Instant::now();
                    since = now;
                }
                let Some(event) = taken.next(now) else { break };
                let called = handler.call(&event).await;
                after(&self.inner, &self.listener, &self.progress, &event, called);
                taken.retire(event);
                now = Instant::now();
            }
            drop(taken);
            // A handler that is always busy must yield to other tasks.
            if turns.next() == Some(0) {
                tokio::task::yield_now().await;
            } else {
                after_ready_tasks().await;
            }
        }
    }

    /// Calls the handler on blocking threads, one batch at a time.
    async fn run_blocking(mut self, mut handler: impl EventHandler<F>) {
        let _leave = LeaveOnDrop(Arc::clone(&self.listener));
        while self.take().await {
            let done = tokio::task::spawn_blocking(move || {
                let mut taken = TakenEvents::new(&self.inner, &self.listener, &mut self.events);
                while let Some(event) = taken.next(Instant::now()) {
                    let called = catch(|| deliver(&mut handler, &event));
                    after(&self.inner, &self.listener, &self.progress, &event, called);
                    taken.retire(event);
                }
                drop(taken);
                (self, handler)
            });
            // An error means that the runtime is shutting down. Both values are dropped, and the pending notifications
            // are reported.
            let Ok(both) = done.await else { return };
            (self, handler) = both;
        }
    }

    /// Waits for notifications. Returns `false` if there will be no more.
    async fn take(&mut self) -> bool {
        if !self.progress.borrow().began {
            self.progress.send_modify(|progress| progress.began = true);
        }
        let (inner, id, events) = (&self.inner, self.id, &mut self.events);
        let more = poll_fn(|cx| inner.poll_take(cx, id, events)).await;
        self.listener.take(self.events.len());
        more
    }
}

/// Notifications taken from the log. Those that remain when the handler is removed are counted and reported.
struct TakenEvents<'a, F: Form> {
    inner: &'a Inner<F::Stored>,
    listener: &'a ListenerState,
    events: std::vec::Drain<'a, Logged<F>>,
    /// Objects that nobody has any more.
    retired: Vec<SharedObject<F::Stored>>,
}

impl<'a, F: Form> TakenEvents<'a, F> {
    fn new(
        inner: &'a Inner<F::Stored>,
        listener: &'a ListenerState,
        events: &'a mut Vec<Logged<F>>,
    ) -> Self {
        Self {
            inner,
            listener,
            events: events.drain(..),
            retired: Vec::new(),
        }
    }

    fn next(&mut self, now: Instant) -> Option<Event<F>> {
        if self.listener.has_left() {
            return None;
        }
        let event = of_logged(self.events.next()?);
        let is_call = !matches!(event, Event::Synced);
        self.listener.begin_call(is_call, now);
        Some(event)
    }
}

impl<F: Form> TakenEvents<'_, F> {
    /// Leaves the old states to the threads that decoded them.
    fn retire(&mut self, event: Event<F>) {
        event.map(|entry| {
            let object = entry.into_object();
            if object.is_last() {
                self.retired.push(object);
            } else {
                self.inner.discard([object]);
            }
        });
    }
}

impl<F: Form> Drop for TakenEvents<'_, F> {
    fn drop(&mut self) {
        // A call that is still running was cut: it was awaiting when the time to stop was over.
        let cut = usize::from(self.listener.call(Instant::now()).is_some());
        report_undelivered(self.inner, &self.listener.name, self.events.len() + cut);
        self.listener.take(0);
        self.inner.retired.put(&mut self.retired);
        self.inner.discard(self.retired.drain(..));
    }
}

/// Records the end of a call.
fn after<F: Form>(
    inner: &Inner<F::Stored>,
    listener: &ListenerState,
    progress: &watch::Sender<Progress>,
    event: &Event<F>,
    called: Result<(), Panic>,
) {
    listener.end_call(called.is_err());
    if let Err(panic) = called {
        let problem = Problem::HandlerPanicked {
            handler: &listener.name,
            message: message(&*panic),
        };
        inner.report(&Report::about(Phase::Handler, problem));
    }
    if matches!(event, Event::Synced) {
        listener.set_synced();
        progress.send_modify(|progress| progress.synced = true);
    }
}

impl<F: Form> Drop for Running<F> {
    fn drop(&mut self) {
        let count = self.inner.leave(self.id);
        report_undelivered(&self.inner, &self.listener.name, count);
        self.progress.send_modify(|progress| progress.done = true);
    }
}

fn report_undelivered<V>(inner: &Inner<V>, handler: &str, count: usize) {
    if count > 0 {
        inner.report(&Report::about(
            Phase::Handler,
            Problem::Undelivered { handler, count },
        ));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use informer_core::Resource;
    use informer_mock::{FakeServer, Mock, TokioClock};

    use crate::{Handlers, Informer, Raw};

    /// A controller asks whether the handler is synced between the call and the first poll.
    #[tokio::test(start_paused = true)]
    async fn a_handler_that_becomes_synced_before_the_first_poll_is_noticed() {
        let mock = Mock::with_clock(FakeServer::new(1), TokioClock::new());
        let pods = Resource::new("", "v1", "pods");
        let pods = Informer::<Raw>::builder_for(&mock.transport(), pods).spawn();
        let handle = pods.add_handler(Handlers::new());
        let becomes_synced = handle.becomes_synced();
        handle.synced().await.unwrap();
        assert_eq!(becomes_synced.now_or_never(), Some(()));
        assert_eq!(handle.becomes_synced().now_or_never(), None);
    }
}
