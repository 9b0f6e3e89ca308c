//! Notices a program that never waits: at one instant of virtual time, real time goes on and on.
//!
//! A run has a thread of its own. The thread that waits for it looks at the clock, and asks a task of the run whether
//! virtual time moves. Without an answer, a future of the program does not return.

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::interpose;
use super::world::Shared;

/// How often a process may be polled at one instant.
pub(super) const MOST_POLLS: u64 = 100_000;

/// The check that a program without a wait fails.
pub(super) const WAITS: &str = "it waits between its rounds";
/// The check that a program fails whose future does not return.
pub(super) const RETURNS: &str = "it does not block its thread";

/// For how long the processor may work at one instant of virtual time, by the time of the thread.
const LONGEST: Duration = Duration::from_millis(1_500);
/// When the run is first asked, in real time.
const QUIET: Duration = Duration::from_millis(400);
/// When an answer is overdue.
const BLOCKED: Duration = Duration::from_secs(10);
/// For how long virtual time may wait for something real, such as a thread or a socket.
const OUTSIDE: Duration = Duration::from_secs(30);

/// What the thread of a run and the thread that waits for it share.
#[derive(Default)]
pub(super) struct Pulse {
    /// Changes whenever something happens in the run at a new instant.
    pub(super) moved: AtomicU64,
    pub(super) run: OnceLock<Arc<Shared>>,
    asked: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Pulse {
    /// Notes the virtual time.
    pub(super) fn at(&self, elapsed: Duration) {
        let at = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.moved.store(at, Ordering::Relaxed);
    }

    /// Waits for the end of the run on another thread. Returns `None` if a future of the program does not return, or
    /// the thread has ended without a result.
    pub(super) fn wait<T>(&self, result: &Receiver<T>) -> Option<T> {
        let (mut last, mut since) = (u64::MAX, Instant::now());
        let mut asked_at = None::<Instant>;
        loop {
            match result.recv_timeout(Duration::from_millis(50)) {
                Ok(result) => return Some(result),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => interpose::restore_signals(),
            }
            let moved = self.moved.load(Ordering::Relaxed);
            if moved != last {
                (last, since, asked_at) = (moved, Instant::now(), None);
            } else if since.elapsed() >= QUIET {
                if !self.asked.swap(true, Ordering::AcqRel) || asked_at.is_none() {
                    asked_at = Some(Instant::now());
                }
                let waker = self.waker().take();
                if let Some(waker) = waker {
                    waker.wake();
                }
                if asked_at.is_some_and(|asked| asked.elapsed() >= BLOCKED) {
                    return None;
                }
            }
        }
    }

    /// Answers in the run, until the processor has worked for too long at one instant.
    pub(super) async fn answer(self: Arc<Self>, run: Arc<Shared>) {
        let mut at = None::<(Duration, Instant, Option<Duration>)>;
        loop {
            poll_fn(|context| {
                if self.asked.swap(false, Ordering::AcqRel) {
                    return Poll::Ready(());
                }
                *self.waker() = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
            let now = run.elapsed();
            let (worked, passed) = match at {
                Some((instant, since, processor)) if instant == now => {
                    let processor = interpose::processor_time().zip(processor);
                    let worked = processor.map(|(now, then)| now.saturating_sub(then));
                    (worked.unwrap_or_else(|| since.elapsed()), since.elapsed())
                }
                _ => {
                    at = Some((now, Instant::now(), interpose::processor_time()));
                    self.at(now);
                    continue;
                }
            };
            if worked > LONGEST {
                run.violate_in_real_time(
                    WAITS,
                    &format!(
                        "the program has worked for {:.1} s of the processor at one instant, {:.3} s after the start, \
                         and nothing waits for a time or a response. A task yields in a loop, or repeats without a delay",
                        worked.as_secs_f32(),
                        now.as_secs_f32()
                    ),
                );
                return;
            }
            if passed > OUTSIDE {
                run.violate_in_real_time(
                    WAITS,
                    "for 30 s of real time, the program has waited for something that does not follow virtual time: a \
                     thread, a socket, or a file",
                );
                return;
            }
        }
    }

    fn waker(&self) -> std::sync::MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
