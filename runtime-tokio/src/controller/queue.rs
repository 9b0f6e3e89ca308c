//! An asynchronous work queue.

use core::fmt;
use core::ops::Deref;
use core::pin::pin;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{
    Instant, Timer,
    queue::{Exponential, MaxOf, PolledQueue, QueueMetrics, RateLimit, TokenBucket},
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
    state: Mutex<PolledQueue<K, Limit<K>>>,
    /// Wakes one waiter for each key that becomes ready, and all of them if they have to compute their timers again.
    changed: Notify,
    /// Wakes the futures that wait for the queue to become empty.
    over: Notify,
    timer: TokioTimer,
}

/// A rate limit of any type.
struct Limit<K>(Box<dyn RateLimit<K> + Send>);

impl<K> RateLimit<K> for Limit<K> {
    fn delay(&mut self, now: Instant, key: &K) -> Duration {
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
        core::mem::swap(self.lock().limit_mut(), &mut limit);
    }

    /// Creates a queue with a custom rate limit.
    #[must_use]
    pub fn with_limit(limit: impl RateLimit<K> + Send + 'static) -> Self {
        Self {
            shared: Arc::new(SharedQueue {
                state: Mutex::new(PolledQueue::with_limit(Limit(Box::new(limit)))),
                changed: Notify::new(),
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
        self.change(|queue, now| queue.add_with_priority(now, key, priority));
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
        self.change(|queue, now| queue.add_after_with_priority(now, key, delay, priority));
    }

    /// Adds a key after the delay that the rate limit returns. A key that is being processed keeps its priority.
    pub fn add_rate_limited(&self, key: K) {
        self.change(|queue, now| queue.add_rate_limited(now, key));
    }

    /// Resets the rate limit for a key, after a success.
    pub fn forget(&self, key: &K) {
        self.lock().forget(key);
    }

    /// Returns how often the rate limit has delayed a key since it was reset.
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.lock().requeues(key)
    }

    /// Waits for the next key; `None` after a shutdown. The key counts as being processed until the returned value is
    /// finished or dropped.
    ///
    /// Dropping the future loses nothing: another waiter gets its key, or a delayed key when that is due.
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
        let mut timer = self.shared.timer;
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Changes are recorded from here on. A record that is not used goes to another waiter.
            changed.as_mut().enable();
            let due = {
                let now = timer.now();
                let mut queue = self.lock();
                if let Some(key) = queue.take(now) {
                    // It may be the last one after a shutdown.
                    let is_over = queue.is_shut_down();
                    drop(queue);
                    if is_over {
                        self.wake_all();
                    }
                    let queue = self.clone();
                    return Some(Work { key, queue });
                }
                if queue.is_shut_down() {
                    return None;
                }
                queue.next_due()
            };
            // Each waiter has a timer, so that it does not matter which of them is dropped.
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = timer.sleep_until(due) => {}
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
        self.change(|queue, _| queue.shut_down())
    }

    /// Stops accepting keys, and waits until all keys have been processed. This includes keys that are being processed
    /// and were added again before. A call of [`shut_down`](Self::shut_down) ends the wait.
    pub async fn shut_down_with_drain(&self) -> usize {
        let dropped = self.change(|queue, _| queue.shut_down_with_drain());
        loop {
            let mut over = pin!(self.shared.over.notified());
            // Notifications are recorded from here on.
            over.as_mut().enable();
            if self.lock().is_shut_down() {
                return dropped;
            }
            over.await;
        }
    }

    /// Returns whether the queue has stopped accepting keys.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.lock().is_shutting_down()
    }

    /// Returns the metrics of the queue.
    #[must_use]
    pub fn metrics(&self) -> QueueMetrics {
        self.lock().metrics(self.shared.timer.now())
    }

    /// Returns the number of keys that wait for a worker, without delayed ones.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.metrics().depth
    }

    /// Changes the queue, in which all keys are ready that are due by now, and wakes the waiters that this affects.
    fn change<R>(&self, change: impl FnOnce(&mut PolledQueue<K, Limit<K>>, Instant) -> R) -> R {
        let now = self.shared.timer.now();
        let mut queue = self.lock();
        let (ready, due) = (queue.waiting(), queue.next_due());
        queue.advance(now);
        let result = change(&mut queue, now);
        let more = queue.waiting().saturating_sub(ready);
        let is_earlier = queue
            .next_due()
            .is_some_and(|at| due.is_none_or(|due| at < due));
        let is_over = queue.is_shut_down();
        // A waker can run any code.
        drop(queue);
        if is_over {
            self.wake_all();
        } else if is_earlier {
            self.shared.changed.notify_waiters();
        }
        (0..more).for_each(|_| self.shared.changed.notify_one());
        result
    }

    /// Wakes everyone who waits, since the queue is shut down.
    fn wake_all(&self) {
        self.shared.changed.notify_waiters();
        self.shared.over.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, PolledQueue<K, Limit<K>>> {
        // A rate limit that panicked has at worst not counted a failure.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
        self.queue.lock().priority(&self.key).unwrap_or_default()
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
        self.queue.change(|queue, now| queue.done(now, &self.key));
    }
}

impl<K: Ord + Clone + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.key).finish()
    }
}
