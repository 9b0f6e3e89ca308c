//! The work queue with workers that wait.

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

/// What has to be done, for any number of workers: [`informer_core::queue::WorkQueue`] on tokio's time. Clones are the same
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
    state: Mutex<State<K>>,
    /// For those who wait for the end.
    over: Notify,
    timer: TokioTimer,
}

struct State<K> {
    queue: informer_core::queue::WorkQueue<K, Limit<K>>,
    waiters: Waiters,
    /// Of the waiters that sleep.
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
    /// Makes a queue with client-go's rate limit for controllers, see [`informer_core::queue::WorkQueue::new`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(MaxOf(
            Exponential::new(Duration::from_millis(5), Duration::from_secs(1000)),
            TokenBucket::new(10.0, 100),
        ))
    }

    /// Makes a queue with another rate limit.
    #[must_use]
    pub fn with_limit(limit: impl RateLimit<K> + Send + 'static) -> Self {
        let queue = informer_core::queue::WorkQueue::with_limit(Limit(Box::new(limit)));
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    queue,
                    waiters: Waiters::new(),
                    wakers: BTreeMap::new(),
                }),
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
    /// # let queue = informer_tokio::queue::WorkQueue::new();
    /// queue.add("web");
    /// queue.add("web");
    /// assert_eq!(queue.waiting(), 1);
    /// # }
    /// ```
    pub fn add(&self, key: K) {
        self.add_with_priority(key, 0);
    }

    /// Adds a key that goes before all of lower priority, which do not starve: see [`informer_core::queue::WorkQueue`].
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

    /// Adds a key after a delay; of several delays of a key the earliest counts.
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
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_after(now, key, delay));
    }

    /// Adds a key after the time that the rate limit says.
    pub fn add_rate_limited(&self, key: K) {
        let now = self.shared.timer.now();
        self.change(|queue| queue.add_rate_limited(now, key));
    }

    /// Has the rate limit forget a key, for which all went well.
    pub fn forget(&self, key: &K) {
        self.lock().queue.forget(key);
    }

    /// Returns how often a key was added by the rate limit since it was forgotten.
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.lock().queue.requeues(key)
    }

    /// Waits for the next key to work on; `None` after a shutdown. It is worked on until the returned value is finished or
    /// dropped. A future that is dropped loses nothing: another waiter gets its key, and takes over the timer of a delayed
    /// one. With no other waiter, a key that has become due is handed out to the next one at once.
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

    /// Takes nothing more in: what is queued is still given out, what is delayed is dropped, and its number returned.
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
        let mut state = self.lock();
        let dropped = state.queue.shut_down();
        self.wake(state);
        dropped
    }

    /// Takes nothing more in, and waits until everything is done. What is added while it is worked on before that is done,
    /// too. A [`shut_down`](Self::shut_down) ends the waiting.
    pub async fn shut_down_with_drain(&self) -> usize {
        let dropped = {
            let mut state = self.lock();
            let dropped = state.queue.shut_down_with_drain();
            self.wake(state);
            dropped
        };
        loop {
            let mut over = pin!(self.shared.over.notified());
            // From here on nothing is missed.
            over.as_mut().enable();
            if self.lock().queue.is_shut_down() {
                return dropped;
            }
            over.await;
        }
    }

    /// Tells whether nothing is taken in any more.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.lock().queue.is_shutting_down()
    }

    /// Returns figures.
    #[must_use]
    pub fn metrics(&self) -> QueueMetrics {
        self.lock().queue.metrics(self.shared.timer.now())
    }

    /// Returns how many keys wait for a worker, delayed ones aside.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().queue.waiting()
    }

    /// Tells whether no key waits, is delayed or worked on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use core::time::Duration;
    /// # let queue = informer_tokio::queue::WorkQueue::new();
    /// queue.add("web");
    /// let work = queue.next().await;
    /// assert!(!queue.is_empty(), "it is worked on");
    /// drop(work);
    /// assert!(queue.is_empty());
    /// # }
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    fn change(&self, change: impl FnOnce(&mut informer_core::queue::WorkQueue<K, Limit<K>>)) {
        let mut state = self.lock();
        change(&mut state.queue);
        self.wake(state);
    }

    /// Wakes those whom a change concerns, after the lock is released: a waker may be any code.
    fn wake(&self, mut state: MutexGuard<'_, State<K>>) {
        let now = self.shared.timer.now();
        let State {
            queue,
            waiters,
            wakers,
        } = &mut *state;
        let mut woken = Vec::new();
        while let Some(waiter) = waiters.wake(now, queue) {
            // One that is not asleep yet sees that it is woken.
            woken.extend(wakers.remove(&waiter));
        }
        let is_over = queue.is_shut_down();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        if is_over {
            self.shared.over.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // A rate limit that panicked has at worst not counted a failure.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call of [`WorkQueue::next`], which may be dropped at any moment.
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

/// Passes on what it leaves: a wake-up that it has not followed, and the timer of a delayed key.
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

/// A key that is worked on. Where it is dropped it is done, be it well or not, and the rate limit keeps what it knows.
///
/// ```
/// # async fn example(queue: informer_tokio::queue::WorkQueue<String>) {
/// while let Some(work) = queue.next().await {
///     println!("{}", *work);
/// }
/// # }
/// ```
#[must_use = "what is dropped is done"]
pub struct Work<K: Ord + Clone> {
    key: K,
    queue: WorkQueue<K>,
}

impl<K: Ord + Clone> Work<K> {
    pub(crate) const fn key(&self) -> &K {
        &self.key
    }

    /// All went well: the rate limit forgets the key.
    pub fn finish(self) {
        self.queue.forget(&self.key);
    }

    /// It went wrong: the key is added again after the time that the rate limit says.
    pub fn retry(self) {
        self.queue.add_rate_limited(self.key.clone());
    }

    /// All went well, and the key is to be looked at again after a time.
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
        let now = self.queue.shared.timer.now();
        self.queue.change(|queue| queue.done(now, &self.key));
    }
}

impl<K: Ord + Clone + fmt::Debug> fmt::Debug for Work<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Work").field(&self.key).finish()
    }
}
