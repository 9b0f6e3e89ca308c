//! An asynchronous work queue.

use core::fmt;
use core::future::poll_fn;
use core::ops::Deref;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{
    Timer,
    queue::{Exponential, MaxOf, QueueMetrics, RateLimit, TokenBucket, Turn, Waiter, Waiters},
};
use tokio::sync::Notify;

use crate::timer::TokioTimer;

/// A work queue for any number of workers: [`informer_core::queue::PolledQueue`] on tokio's time. Clones share the same
/// queue.
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::queue::WorkQueue;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let queue = WorkQueue::new();
/// queue.add("prod/web".to_string());
/// let worker = tokio::spawn({
///     let queue = queue.clone();
///     async move {
///         let mut tries = 0;
///         while let Some(work) = queue.next().await {
///             tries += 1;
///             if tries < 3 {
///                 // It failed: retry with an increasing delay.
///                 work.retry();
///             } else {
///                 work.finish();
///             }
///         }
///         tries
///     }
/// });
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// queue.shut_down_with_drain().await;
/// assert_eq!(worker.await.ok(), Some(3));
/// # }
/// ```
pub struct WorkQueue<K> {
    shared: Arc<SharedQueue<K>>,
}

struct SharedQueue<K> {
    state: Mutex<QueueState<K>>,
    /// Wakes the futures that wait for the queue to become empty.
    over: Notify,
    timer: TokioTimer,
}

struct QueueState<K> {
    queue: informer_core::queue::PolledQueue<K, Limit<K>>,
    waiters: Waiters,
    /// The wakers of sleeping waiters.
    wakers: BTreeMap<Waiter, Waker>,
}

/// A rate limit of any type.
struct Limit<K>(Box<dyn RateLimit<K> + Send>);

impl<K> RateLimit<K> for Limit<K> {
    fn delay(&mut self, now: informer_core::Instant, key: &K) -> Duration {
        self.0.delay(now, key)
    }

    fn forget(&mut self, key: &K) {
        self.0.forget(key);
    }

    fn requeues(&self, key: &K) -> u32 {
        self.0.requeues(key)
    }
}

impl<K: Ord + Clone + Send + 'static> WorkQueue<K> {
    /// Creates a queue with client-go's rate limit for controllers; see [`informer_core::queue::PolledQueue::new`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(MaxOf(
            Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)),
            TokenBucket::new(10.0, 100),
        ))
    }

    /// Replaces the rate limit, in all clones. Failures that the former one has counted are forgotten.
    pub(crate) fn set_limit(&self, limit: impl RateLimit<K> + Send + 'static) {
        let mut limit = Limit(Box::new(limit));
        // The former one is dropped outside of the lock.
        core::mem::swap(self.lock().queue.limit_mut(), &mut limit);
    }

    /// Creates a queue with a custom rate limit.
    #[must_use]
    pub fn with_limit(limit: impl RateLimit<K> + Send + 'static) -> Self {
        let queue = informer_core::queue::PolledQueue::with_limit(Limit(Box::new(limit)));
        Self {
            shared: Arc::new(SharedQueue {
                state: Mutex::new(QueueState {
                    queue,
                    waiters: Waiters::default(),
                    wakers: BTreeMap::new(),
                }),
                over: Notify::new(),
                timer: TokioTimer::default(),
            }),
        }
    }
}

impl<K: Ord + Clone + Send + 'static> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// Adds a key, unless it is already waiting.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::queue::WorkQueue::new();
    /// queue.add("web");
    /// queue.add("web");
    /// assert_eq!(queue.waiting(), 1);
    /// # }
    /// ```
    pub fn add(&self, key: K) {
        self.add_with_priority(key, 0);
    }

    /// Adds a key that precedes all keys of lower priority. Those do not starve: see
    /// [`informer_core::queue::PolledQueue`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::queue::WorkQueue::new();
    /// queue.add("event");
    /// queue.add_with_priority("urgent", 1);
    /// assert_eq!(queue.next().await.map(|work| *work), Some("urgent"));
    /// # }
    /// ```
    pub fn add_with_priority(&self, key: K, priority: i32) {
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_with_priority(now, key, priority));
    }

    /// Adds a key after a delay. Of several delays for a key, the earliest applies.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::queue::WorkQueue::new();
    /// queue.add_after("web", Duration::from_secs(60));
    /// assert_eq!(queue.waiting(), 0);
    /// assert_eq!(queue.next().await.map(|work| *work), Some("web"));
    /// # }
    /// ```
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_after_with_priority(key, delay, 0);
    }

    /// Adds a key after a delay, with a priority. Of several priorities for a key, the highest applies.
    pub fn add_after_with_priority(&self, key: K, delay: Duration, priority: i32) {
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_after_with_priority(now, key, delay, priority));
    }

    /// Adds a key after the delay that the rate limit returns. A key that is being processed keeps its priority.
    pub fn add_rate_limited(&self, key: K) {
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_rate_limited(now, key));
    }

    /// Resets the rate limit for a key, after a success.
    pub fn forget(&self, key: &K) {
        self.lock().queue.forget(key);
    }

    /// Returns how often the rate limit has delayed a key since it was reset.
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.lock().queue.requeues(key)
    }

    /// Waits for the next key; `None` after a shutdown. The key counts as being processed until the returned value is
    /// finished or dropped.
    ///
    /// Dropping the future loses nothing: another waiter gets its key, and takes over the timer of a delayed key.
    /// Without another waiter, the next call returns a key that has become due at once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::queue::WorkQueue::new();
    /// queue.add("web");
    /// let work = queue.next().await;
    /// assert_eq!(work.map(|work| *work), Some("web"));
    /// queue.shut_down();
    /// assert!(queue.next().await.is_none());
    /// # }
    /// ```
    pub async fn next(&self) -> Option<Work<K>> {
        let wait = Wait {
            waiter: self.lock().waiters.join(),
            queue: self,
        };
        let mut timer = self.shared.timer;
        loop {
            let until = match wait.look() {
                Turn::Work(key) => {
                    let queue = self.clone();
                    return Some(Work { key, queue });
                }
                Turn::Over => return None,
                Turn::Wait(until) => until,
            };
            let woken = poll_fn(|context| wait.poll_woken(context));
            match until {
                None => woken.await,
                Some(until) => tokio::select! {
                    biased;
                    () = woken => {}
                    () = timer.sleep_until(until) => {}
                },
            }
        }
    }

    /// Stops accepting keys. Waiting keys are still returned, and so are delayed keys whose time has come. Other delayed keys
    /// are discarded, and their number is returned.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::queue::WorkQueue::new();
    /// queue.add_after("web", Duration::from_secs(1));
    /// assert_eq!(queue.shut_down(), 1);
    /// # }
    /// ```
    pub fn shut_down(&self) -> usize {
        let now = self.shared.timer.now();
        let mut state = self.lock();
        state.queue.advance(now);
        let dropped = state.queue.shut_down();
        self.wake(state);
        dropped
    }

    /// Stops accepting keys, and waits until all keys have been processed. This includes keys that are being processed
    /// and were added again before. A call of [`shut_down`](Self::shut_down) ends the wait.
    pub async fn shut_down_with_drain(&self) -> usize {
        let dropped = {
            let now = self.shared.timer.now();
            let mut state = self.lock();
            state.queue.advance(now);
            let dropped = state.queue.shut_down_with_drain();
            self.wake(state);
            dropped
        };
        loop {
            let mut over = pin!(self.shared.over.notified());
            // Notifications are recorded from here on.
            over.as_mut().enable();
            if self.lock().queue.is_shut_down() {
                return dropped;
            }
            over.await;
        }
    }

    /// Returns whether the queue has stopped accepting keys.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.lock().queue.is_shutting_down()
    }

    /// Returns the metrics of the queue.
    #[must_use]
    pub fn metrics(&self) -> QueueMetrics {
        self.lock().queue.metrics(self.shared.timer.now())
    }

    /// Returns the number of keys that wait for a worker, without delayed ones.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.metrics().depth
    }

    fn change(&self, change: impl FnOnce(&mut informer_core::queue::PolledQueue<K, Limit<K>>)) {
        let mut state = self.lock();
        change(&mut state.queue);
        self.wake(state);
    }

    /// Wakes the waiters that a change affects, after the lock is released, since a waker can run any code.
    fn wake(&self, mut state: MutexGuard<'_, QueueState<K>>) {
        let now = self.shared.timer.now();
        let QueueState {
            queue,
            waiters,
            wakers,
        } = &mut *state;
        let mut woken = Vec::new();
        while let Some(waiter) = waiters.wake(now, queue) {
            // A waiter that is not asleep yet checks whether it was woken.
            woken.extend(wakers.remove(&waiter));
        }
        let is_over = queue.is_shut_down();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        if is_over {
            self.shared.over.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        // A rate limit that panicked has at worst not counted a failure.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call of [`WorkQueue::next`]. It may be dropped at any time.
struct Wait<'a, K: Ord + Clone> {
    waiter: Waiter,
    queue: &'a WorkQueue<K>,
}

impl<K: Ord + Clone> Wait<'_, K> {
    fn look(&self) -> Turn<K> {
        let now = self.queue.shared.timer.now();
        let state = &mut *self.queue.lock();
        state.waiters.look(now, self.waiter, &mut state.queue)
    }

    fn poll_woken(&self, context: &Context<'_>) -> Poll<()> {
        let state = &mut *self.queue.lock();
        if state.waiters.is_woken(self.waiter) {
            return Poll::Ready(());
        }
        state.wakers.insert(self.waiter, context.waker().clone());
        Poll::Pending
    }
}

/// Passes on an unused wake-up and the timer of a delayed key.
impl<K: Ord + Clone> Drop for Wait<'_, K> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.waiters.leave(self.waiter);
        let waker = state.wakers.remove(&self.waiter);
        self.queue.wake(state);
        drop(waker);
    }
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").finish_non_exhaustive()
    }
}

/// A key that is being processed. Dropping it ends the processing without a change of the rate limit.
#[must_use = "dropping it ends the processing of the key"]
pub struct Work<K: Ord + Clone> {
    key: K,
    queue: WorkQueue<K>,
}

impl<K: Ord + Clone> Work<K> {
    pub(crate) const fn key(&self) -> &K {
        &self.key
    }

    /// Returns the priority with which the key was taken.
    #[must_use]
    pub fn priority(&self) -> i32 {
        // The key is being processed as long as this exists.
        self.queue
            .lock()
            .queue
            .priority(&self.key)
            .unwrap_or_default()
    }

    /// Ends the processing after a success: resets the rate limit for the key.
    pub fn finish(self) {
        self.queue.forget(&self.key);
    }

    /// Ends the processing after a failure: adds the key again after the delay that the rate limit returns, with the same
    /// priority.
    pub fn retry(self) {
        self.queue.add_rate_limited(self.key.clone());
    }

    /// Ends the processing after a success, and adds the key again after a delay, with the same priority.
    pub fn requeue_after(self, delay: Duration) {
        self.queue.forget(&self.key);
        self.queue
            .add_after_with_priority(self.key.clone(), delay, self.priority());
    }
}

impl<K: Ord + Clone> Deref for Work<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K: Ord + Clone> Drop for Work<K> {
    fn drop(&mut self) {
        let now = self.queue.shared.timer.now();
        self.queue.change(|queue| queue.done(now, &self.key));
    }
}

impl<K: Ord + Clone + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.key).finish()
    }
}
