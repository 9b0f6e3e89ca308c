//! The work queue with workers that wait.

use core::fmt;
use core::ops::Deref;
use core::pin::pin;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informer_core::{Exponential, MaxOf, QueueMetrics, RateLimit, Timer, TokenBucket};
use tokio::sync::Notify;

use crate::timer::TokioTimer;

/// What has to be done, for any number of workers: [`informer_core::WorkQueue`] on tokio's time. Clones are the same
/// queue.
///
/// ```
/// use core::time::Duration;
/// use informer_tokio::WorkQueue;
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
///                 // It went wrong: again, a little later each time.
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
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    queue: Mutex<informer_core::WorkQueue<K, Limit<K>>>,
    /// For workers: one is woken for each key that can be taken, all at the end.
    news: Notify,
    /// For those who wait for the end.
    over: Notify,
    timer: TokioTimer,
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
    /// Makes a queue with client-go's rate limit for controllers, see [`informer_core::WorkQueue::new`].
    ///
    /// ```
    /// let queue = informer_tokio::WorkQueue::<String>::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(MaxOf(
            Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)),
            TokenBucket::new(10.0, 100),
        ))
    }

    /// Makes a queue with another rate limit.
    ///
    /// ```
    /// use core::time::Duration;
    /// use informer_core::Exponential;
    /// use informer_tokio::WorkQueue;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limit = Exponential::new(Duration::from_secs(1), Duration::from_secs(60));
    /// let queue = WorkQueue::<String>::with_limit(limit);
    /// # }
    /// ```
    #[must_use]
    pub fn with_limit(limit: impl RateLimit<K> + Send + 'static) -> Self {
        let queue = informer_core::WorkQueue::with_limit(Limit(Box::new(limit)));
        Self {
            shared: Arc::new(Shared {
                queue: Mutex::new(queue),
                news: Notify::new(),
                over: Notify::new(),
                timer: TokioTimer::new(),
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
    /// Adds a key. One that waits already is not added again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// queue.add("web");
    /// assert_eq!(queue.waiting(), 1);
    /// # }
    /// ```
    pub fn add(&self, key: K) {
        self.add_with_priority(key, 0);
    }

    /// Adds a key that goes before all of lower priority.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("event");
    /// queue.add_with_priority("urgent", 1);
    /// assert_eq!(queue.next().await.map(|work| *work), Some("urgent"));
    /// # }
    /// ```
    pub fn add_with_priority(&self, key: K, priority: i32) {
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_with_priority(now, key, priority));
    }

    /// Adds a key after a delay; of several delays of a key the earliest counts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add_after("web", Duration::from_secs(60));
    /// assert_eq!(queue.waiting(), 0);
    /// assert_eq!(queue.next().await.map(|work| *work), Some("web"));
    /// # }
    /// ```
    pub fn add_after(&self, key: K, delay: Duration) {
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_after(now, key, delay));
    }

    /// Adds a key after the time that the rate limit says.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add_rate_limited("web");
    /// assert_eq!(queue.requeues(&"web"), 1);
    /// # }
    /// ```
    pub fn add_rate_limited(&self, key: K) {
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_rate_limited(now, key));
    }

    /// Has the rate limit forget a key, for which all went well.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add_rate_limited("web");
    /// queue.forget(&"web");
    /// assert_eq!(queue.requeues(&"web"), 0);
    /// # }
    /// ```
    pub fn forget(&self, key: &K) {
        self.lock().forget(key);
    }

    /// Returns how often a key was added by the rate limit since it was forgotten.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// # queue.add("web");
    /// assert_eq!(queue.requeues(&"web"), 0);
    /// # }
    /// ```
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.lock().requeues(key)
    }

    /// Waits for the next key that is to be done; `None` after a shutdown. It is worked on until what is returned is
    /// finished or dropped. Giving up to wait loses nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// let work = queue.next().await;
    /// assert_eq!(work.map(|work| *work), Some("web"));
    /// queue.shut_down();
    /// assert!(queue.next().await.is_none());
    /// # }
    /// ```
    pub async fn next(&self) -> Option<Work<K>> {
        loop {
            let mut news = pin!(self.shared.news.notified());
            // From here on no news is missed.
            news.as_mut().enable();
            let due = {
                let mut queue = self.lock();
                let now = self.shared.timer.now();
                if let Some(key) = queue.take(now) {
                    self.tell(&queue);
                    drop(queue);
                    return Some(Work {
                        key,
                        queue: self.clone(),
                    });
                }
                if queue.is_shut_down() {
                    return None;
                }
                queue.next_due()
            };
            let mut timer = self.shared.timer;
            match due {
                None => news.await,
                Some(due) => tokio::select! {
                    () = news => {}
                    () = timer.sleep_until(due) => {}
                },
            }
        }
    }

    /// Takes nothing more in: what is queued is still given out, what is delayed is dropped, and its number returned.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add_after("web", Duration::from_secs(1));
    /// assert_eq!(queue.shut_down(), 1);
    /// # }
    /// ```
    pub fn shut_down(&self) -> usize {
        let mut queue = self.lock();
        let dropped = queue.shut_down();
        self.tell(&queue);
        dropped
    }

    /// Takes nothing more in, and waits until everything is done. What is added while it is worked on before that is done,
    /// too. A [`shut_down`](Self::shut_down) ends the waiting.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add_after("web", Duration::from_secs(1));
    /// assert_eq!(queue.shut_down_with_drain().await, 1);
    /// # }
    /// ```
    pub async fn shut_down_with_drain(&self) -> usize {
        let dropped = {
            let mut queue = self.lock();
            let dropped = queue.shut_down_with_drain();
            self.tell(&queue);
            dropped
        };
        loop {
            let mut over = pin!(self.shared.over.notified());
            // From here on nothing is missed.
            over.as_mut().enable();
            if self.lock().is_shut_down() {
                return dropped;
            }
            over.await;
        }
    }

    /// Tells whether nothing is taken in any more.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// # queue.add("web");
    /// queue.shut_down();
    /// assert!(queue.is_shutting_down());
    /// # }
    /// ```
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.lock().is_shutting_down()
    }

    /// Returns figures.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// assert_eq!(queue.metrics().depth, 1);
    /// # }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> QueueMetrics {
        self.lock().metrics(self.shared.timer.now())
    }

    /// Returns how many keys wait for a worker, delayed ones aside.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// assert_eq!(queue.waiting(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    /// Tells whether no key waits, is delayed or worked on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// let work = queue.next().await;
    /// assert!(!queue.is_empty(), "it is worked on");
    /// drop(work);
    /// assert!(queue.is_empty());
    /// # }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn change(&self, change: impl FnOnce(&mut informer_core::WorkQueue<K, Limit<K>>)) {
        let mut queue = self.lock();
        let before = queue.next_due();
        change(&mut queue);
        self.tell(&queue);
        if queue.next_due() != before {
            // Somebody has to wait for another time.
            self.shared.news.notify_one();
        }
    }

    fn done(&self, key: &K) {
        let mut queue = self.lock();
        queue.done(self.shared.timer.now(), key);
        self.tell(&queue);
    }

    /// Wakes those whom the state concerns.
    fn tell(&self, queue: &informer_core::WorkQueue<K, Limit<K>>) {
        if queue.waiting() > 0 {
            self.shared.news.notify_one();
        } else if queue.is_shut_down() {
            self.shared.news.notify_waiters();
            self.shared.over.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, informer_core::WorkQueue<K, Limit<K>>> {
        // A rate limit that panicked has at worst not counted a failure.
        self.shared
            .queue
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

/// A key that is worked on. Where it is dropped it is done, be it well or not, and the rate limit keeps what it knows.
///
/// ```
/// # async fn example(queue: informer_tokio::WorkQueue<String>) {
/// while let Some(work) = queue.next().await {
///     println!("{}", work.key());
/// }
/// # }
/// ```
#[must_use = "what is dropped is done"]
pub struct Work<K: Ord + Clone> {
    key: K,
    queue: WorkQueue<K>,
}

impl<K: Ord + Clone> Work<K> {
    /// Returns the key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// if let Some(work) = queue.next().await {
    ///     assert_eq!(*work.key(), "web");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub const fn key(&self) -> &K {
        &self.key
    }

    /// All went well: the rate limit forgets the key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// if let Some(work) = queue.next().await {
    ///     work.finish();
    /// }
    /// assert!(queue.is_empty());
    /// # }
    /// ```
    pub fn finish(self) {
        self.queue.forget(&self.key);
    }

    /// It went wrong: the key is added again after the time that the rate limit says.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// if let Some(work) = queue.next().await {
    ///     work.retry();
    /// }
    /// assert_eq!(queue.requeues(&"web"), 1);
    /// # }
    /// ```
    pub fn retry(self) {
        self.queue.add_rate_limited(self.key.clone());
    }

    /// All went well, and the key is to be looked at again after a time.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::WorkQueue::new();
    /// queue.add("web");
    /// if let Some(work) = queue.next().await {
    ///     work.requeue_after(Duration::from_secs(600));
    /// }
    /// assert!(!queue.is_empty());
    /// # }
    /// ```
    pub fn requeue_after(self, delay: Duration) {
        self.queue.forget(&self.key);
        self.queue.add_after(self.key.clone(), delay);
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
        self.queue.done(&self.key);
    }
}

impl<K: Ord + Clone + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.key).finish()
    }
}
