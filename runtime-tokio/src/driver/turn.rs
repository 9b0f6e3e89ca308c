//! The turn of other tasks.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;

/// Waits until tokio has run other tasks and checked its timers and sockets.
///
/// The task of a driver is also woken by its connection, which wakes itself to read on. `yield_now` would be over by that
/// wake, and a handler on the same thread would hardly ever run.
#[derive(Default)]
pub(crate) struct Turn(Option<Arc<Yielded>>);

/// The task of the driver, until the turn is over.
struct Yielded(Mutex<Option<Waker>>);

impl Turn {
    /// Begins a turn unless it `has_begun`, and waits for its end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, has_begun: bool) -> Poll<()> {
        if !has_begun {
            let turn = Arc::new(Yielded(Mutex::new(Some(cx.waker().clone()))));
            let waker = Waker::from(Arc::clone(&turn));
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker));
            self.0 = Some(turn);
            return Poll::Pending;
        }
        match self.0.as_ref().map(|turn| turn.lock()).as_deref_mut() {
            Some(Some(driver)) => {
                // The driver may have moved to another task meanwhile.
                driver.clone_from(cx.waker());
                Poll::Pending
            }
            Some(None) | None => Poll::Ready(()),
        }
    }
}

impl Yielded {
    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // Code under this lock cannot panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Yielded {
    fn wake(self: Arc<Self>) {
        let driver = self.lock().take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A driver that is polled in a timeout first, and spawned later, is woken in its new task.
    #[tokio::test]
    async fn the_end_of_a_turn_wakes_the_task_that_polled_last() {
        let tasks = [(); 2].map(|()| Arc::new(Counted(AtomicUsize::new(0))));
        let mut turn = Turn::default();
        for (index, task) in tasks.iter().enumerate() {
            let waker = Waker::from(Arc::clone(task));
            let polled = turn.poll(&mut Context::from_waker(&waker), index > 0);
            assert!(polled.is_pending());
        }
        tokio::task::yield_now().await;
        let woken = tasks.map(|task| task.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
    }

    /// A connection may wake the task of its driver at any time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_wake_does_not_end_the_turn_of_other_tasks() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let driver = async {
            // It yields as a handler does.
            let handler = tokio::spawn(async {
                loop {
                    CALLS.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
            for turn in 0..20 {
                let (mut this, mut has_begun) = (Turn::default(), false);
                poll_fn(|cx| {
                    cx.waker().wake_by_ref();
                    this.poll(cx, core::mem::replace(&mut has_begun, true))
                })
                .await;
                let calls = CALLS.load(Ordering::Relaxed);
                assert!(calls + 1 >= turn, "{calls} calls in {turn} turns");
            }
            handler.abort();
        };
        tokio::spawn(driver).await.expect("a turn for each");
    }
}
