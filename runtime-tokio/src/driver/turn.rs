//! The turn of other tasks.

use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

/// Waits until tokio has run other tasks and checked its timers and sockets.
///
/// The task of a driver is also woken by its connection, which wakes itself to read on. `yield_now` would be over by that
/// wake, and a handler on the same thread would hardly ever run.
#[derive(Default)]
pub(crate) struct Turn(Option<Arc<Yielded>>);

struct Yielded {
    is_over: AtomicBool,
    driver: Waker,
}

impl Turn {
    /// Begins a turn unless it `has_begun`, and waits for its end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, has_begun: bool) -> Poll<()> {
        if !has_begun {
            let turn = Arc::new(Yielded {
                is_over: AtomicBool::new(false),
                driver: cx.waker().clone(),
            });
            let waker = Waker::from(Arc::clone(&turn));
            let _ = pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker));
            self.0 = Some(turn);
            return Poll::Pending;
        }
        match &self.0 {
            Some(turn) if !turn.is_over.load(Ordering::Acquire) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

impl Wake for Yielded {
    fn wake(self: Arc<Self>) {
        self.is_over.store(true, Ordering::Release);
        self.driver.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use core::sync::atomic::AtomicUsize;

    use super::*;

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
