//! Handlers: user code that is called with what happens.

use core::any::Any;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;

use informer_core::{Event as CoreEvent, ListenerConfig, ListenerId, Phase, Problem, Report};
use tokio::sync::watch;

use crate::driver::Job;
use crate::entry::{Entry, Key, Shared};
use crate::error::Ended;
use crate::shared::Inner;
use crate::subscription::Event;

/// Is called with what happens. Every method may be left out.
///
/// Calls to one handler come one after another, in order for each object. They should be quick; a slow handler gets
/// what it missed coalesced by key and holds back nobody. A panic is reported, and the handler goes on with the next
/// call.
pub trait EventHandler<V>: Send + 'static {
    /// There is a new object.
    fn on_add(&mut self, entry: &Entry<V>, is_in_initial_list: bool) {
        let _ = (entry, is_in_initial_list);
    }

    /// An object changed. In a resync both are the same state: [`Entry::is_same_state`].
    fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) {
        let _ = (old, new);
    }

    /// An object is gone. Where nobody saw it go, `entry` is its last known state.
    fn on_delete(&mut self, entry: &Entry<V>, final_state_unknown: bool) {
        let _ = (entry, final_state_unknown);
    }

    /// The first state is complete, and all of it was told.
    fn on_synced(&mut self) {}
}

/// A handler made of closures.
///
/// ```
/// use informer_tokio::{Handlers, RawJson};
///
/// let handler = Handlers::<RawJson>::new()
///     .on_add(|pod, initial| println!("+ {pod} {initial}"))
///     .on_update(|_, pod| println!("~ {pod}"))
///     .on_delete(|pod, _| println!("- {pod}"));
/// ```
#[must_use]
pub struct Handlers<V> {
    add: Option<OnOne<V>>,
    update: Option<OnTwo<V>>,
    delete: Option<OnOne<V>>,
}

type OnOne<V> = Box<dyn FnMut(&Entry<V>, bool) + Send>;
type OnTwo<V> = Box<dyn FnMut(&Entry<V>, &Entry<V>) + Send>;

impl<V> Handlers<V> {
    /// Makes a handler that does nothing.
    pub const fn new() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
        }
    }

    /// Sets what is done with a new object, and whether it is in the initial list.
    pub fn on_add(mut self, f: impl FnMut(&Entry<V>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(f));
        self
    }

    /// Sets what is done with a change: the old state and the new one.
    pub fn on_update(mut self, f: impl FnMut(&Entry<V>, &Entry<V>) + Send + 'static) -> Self {
        self.update = Some(Box::new(f));
        self
    }

    /// Sets what is done with a deletion, and whether the final state is unknown.
    pub fn on_delete(mut self, f: impl FnMut(&Entry<V>, bool) + Send + 'static) -> Self {
        self.delete = Some(Box::new(f));
        self
    }
}

impl<V> Default for Handlers<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> fmt::Debug for Handlers<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

impl<V: 'static> EventHandler<V> for Handlers<V> {
    fn on_add(&mut self, entry: &Entry<V>, is_in_initial_list: bool) {
        if let Some(f) = &mut self.add {
            f(entry, is_in_initial_list);
        }
    }

    fn on_update(&mut self, old: &Entry<V>, new: &Entry<V>) {
        if let Some(f) = &mut self.update {
            f(old, new);
        }
    }

    fn on_delete(&mut self, entry: &Entry<V>, final_state_unknown: bool) {
        if let Some(f) = &mut self.delete {
            f(entry, final_state_unknown);
        }
    }
}

/// What a handler or a subscription wants.
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::HandlerOptions;
///
/// let options = HandlerOptions::default().name("load-balancer").resync(Duration::from_secs(600));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandlerOptions {
    /// Its name in reports.
    pub name: String,
    /// How often every object is replayed to it; `None` is the informer's period, zero is never.
    pub resync: Option<Option<Duration>>,
    /// How many notifications may wait before they are coalesced by key.
    pub backlog: usize,
    /// Whether it is told of objects that a relist brought again unchanged.
    pub unchanged: bool,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            name: "handler".to_owned(),
            resync: None,
            backlog: 4096,
            unchanged: false,
        }
    }
}

impl HandlerOptions {
    /// Sets its name in reports.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how often every object is replayed to it; zero is never.
    #[must_use]
    pub const fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(Some(period));
        self
    }

    /// Sets how many notifications may wait before they are coalesced by key.
    #[must_use]
    pub const fn backlog(mut self, limit: usize) -> Self {
        self.backlog = limit;
        self
    }

    /// Sets whether objects that a relist brought again unchanged are told.
    #[must_use]
    pub const fn unchanged(mut self, tell: bool) -> Self {
        self.unchanged = tell;
        self
    }
}

/// A registered handler. Dropping the handle leaves the handler registered.
pub struct HandlerHandle<V> {
    inner: Arc<Inner<V>>,
    id: ListenerId,
    name: String,
    progress: Arc<watch::Sender<Progress>>,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    /// Its loop runs. Before that nothing is to be waited for where it is removed.
    began: bool,
    synced: bool,
    done: bool,
}

impl<V> HandlerHandle<V> {
    /// Removes the handler. A call that is under way ends; what still waits for it is dropped, and reported. Removing
    /// it again does nothing.
    pub fn remove(&self) {
        let count = self.inner.leave(self.id);
        report_undelivered(&self.inner, &self.name, count);
        self.progress
            .send_modify(|progress| progress.done |= !progress.began);
    }

    /// Waits until the handler has ended, after it was removed or the informer stopped. It must not be called from
    /// within the handler.
    pub async fn removed(&self) {
        // An error says that the handler's loop is gone, which is what is waited for.
        let _ = self
            .progress
            .subscribe()
            .wait_for(|progress| progress.done)
            .await;
    }

    /// Tells whether the handler has been called with the whole first state.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.progress.borrow().synced
    }

    /// Waits until the handler has been called with the whole first state.
    ///
    /// # Errors
    /// Fails where it is removed, or the driver ends, before that.
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

    /// Returns how many notifications wait for the handler.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.inner.told().listeners.pending(self.id)
    }
}

impl<V> fmt::Debug for HandlerHandle<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerHandle")
            .field("informer", &self.inner.name)
            .finish_non_exhaustive()
    }
}

/// Registers a handler; returns its handle, and its loop for the driver to run.
pub(crate) fn register<V: Send + Sync + 'static>(
    inner: Arc<Inner<V>>,
    config: ListenerConfig,
    options: &HandlerOptions,
    handler: impl EventHandler<V>,
) -> (HandlerHandle<V>, Job) {
    let id = inner.join(config);
    let progress = Arc::new(watch::Sender::new(Progress::default()));
    let running = Running {
        inner: Arc::clone(&inner),
        id,
        name: options.name.clone(),
        progress: Arc::clone(&progress),
    };
    (
        HandlerHandle {
            inner,
            id,
            name: options.name.clone(),
            progress,
        },
        Box::pin(running.run(handler)),
    )
}

/// A handler's loop.
struct Running<V> {
    inner: Arc<Inner<V>>,
    id: ListenerId,
    name: String,
    progress: Arc<watch::Sender<Progress>>,
}

impl<V: Send + Sync + 'static> Running<V> {
    async fn run(self, mut handler: impl EventHandler<V>) {
        self.progress.send_modify(|progress| progress.began = true);
        let mut events: Vec<CoreEvent<Key, Shared<V>>> = Vec::new();
        while core::future::poll_fn(|cx| self.inner.poll_take(cx, self.id, &mut events)).await {
            let mut undelivered = 0;
            for event in events.drain(..) {
                if self.inner.told().listeners.contains(self.id) {
                    self.call(&mut handler, Event::of(event));
                } else {
                    undelivered += 1;
                }
            }
            report_undelivered(&self.inner, &self.name, undelivered);
            // A handler that is always busy lets others have the thread.
            tokio::task::yield_now().await;
        }
    }

    fn call(&self, handler: &mut impl EventHandler<V>, event: Event<V>) {
        let is_synced = matches!(event, Event::Synced);
        let called = catch_unwind(AssertUnwindSafe(|| match event {
            Event::Added {
                entry,
                is_in_initial_list,
            } => handler.on_add(&entry, is_in_initial_list),
            Event::Updated { old, new } => handler.on_update(&old, &new),
            Event::Replayed { entry } => handler.on_update(&entry, &entry),
            Event::Deleted {
                entry,
                final_state_unknown,
            } => handler.on_delete(&entry, final_state_unknown),
            Event::Synced => handler.on_synced(),
        }));
        if let Err(panic) = called {
            let problem = Problem::HandlerPanicked {
                handler: &self.name,
                message: message(&*panic),
            };
            self.inner.report(&Report::about(Phase::Handler, problem));
        }
        if is_synced {
            self.progress.send_modify(|progress| progress.synced = true);
        }
    }
}

impl<V> Drop for Running<V> {
    fn drop(&mut self) {
        let count = self.inner.leave(self.id);
        report_undelivered(&self.inner, &self.name, count);
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

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a value that is no text")
}
