//! The work queue with workers, on paused time.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use informer_core::{
    Instant,
    queue::{Exponential, RateLimit},
};
use informer_tokio::queue::WorkQueue;
use tokio::time::{Instant as Time, advance, sleep, timeout};

use crate::support::secs;

fn queue() -> WorkQueue<u32> {
    WorkQueue::with_limit(Exponential::new(secs(1), secs(60)))
}

#[tokio::test(start_paused = true)]
async fn every_key_is_given_to_one_worker_at_a_time() {
    let queue = queue();
    let running = Arc::new(Mutex::new(Vec::new()));
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (queue, running, done) = (queue.clone(), Arc::clone(&running), Arc::clone(&done));
        workers.spawn(async move {
            while let Some(work) = queue.next().await {
                let key = *work;
                assert!(!running.lock().unwrap().contains(&key), "{key} by two");
                running.lock().unwrap().push(key);
                sleep(Duration::from_millis(u64::from(key) + 1)).await;
                running.lock().unwrap().retain(|other| *other != key);
                done.lock().unwrap().push(key);
                work.finish();
            }
        });
    }
    for round in 0..100 {
        for key in 0..20 {
            queue.add(key);
        }
        sleep(Duration::from_millis(round % 7)).await;
    }
    queue.shut_down_with_drain().await;
    workers.join_all().await;
    assert!(is_empty(&queue) && running.lock().unwrap().is_empty());
    let done = done.lock().unwrap();
    for key in 0..20 {
        assert!(done.contains(&key));
    }
}

#[tokio::test(start_paused = true)]
async fn delays_and_retries_take_their_time() {
    let queue = queue();
    let start = Time::now();
    queue.add_after(1, secs(30));
    queue.add_after(2, secs(10));
    assert_eq!(*queue.next().await.unwrap(), 2);
    assert_eq!(start.elapsed().as_secs(), 10);
    // While a waiter waits for the later key, an earlier one is added.
    let (work, ()) = tokio::join!(queue.next(), async {
        sleep(secs(1)).await;
        queue.add_after(3, secs(2));
    });
    assert_eq!((*work.unwrap(), start.elapsed().as_secs()), (3, 13));
    let work = queue.next().await.unwrap();
    assert_eq!((*work, start.elapsed().as_secs()), (1, 30));
    work.retry();
    let work = queue.next().await.unwrap();
    assert_eq!((start.elapsed().as_secs(), queue.requeues(&1)), (31, 1));
    work.retry();
    let work = queue.next().await.unwrap();
    assert_eq!((start.elapsed().as_secs(), queue.requeues(&1)), (33, 2));
    work.requeue_after(secs(100));
    let work = queue.next().await.unwrap();
    assert_eq!((start.elapsed().as_secs(), queue.requeues(&1)), (133, 0));
    work.finish();
    assert!(is_empty(&queue));
    let metrics = queue.metrics();
    assert_eq!(
        (metrics.adds, metrics.retries, metrics.work.count),
        (6, 2, 6)
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_is_not_lost_when_a_waiter_gives_up() {
    let queue = queue();
    for key in 0..50 {
        let (gave_up, ()) = tokio::join!(timeout(secs(1), queue.next()), async {
            sleep(secs(1)).await;
            queue.add(key);
        });
        // Either it was in time, or the next waiter gets the key.
        let work = match gave_up {
            Ok(work) => work,
            Err(_) => timeout(secs(1), queue.next()).await.unwrap(),
        };
        assert_eq!(*work.unwrap(), key);
    }
    // A waiter that was woken and dropped before it looked passes the key on.
    let mut first = Box::pin(queue.next());
    let mut second = Box::pin(queue.next());
    for waiting in [&mut first, &mut second] {
        assert!(futures_poll(waiting).await.is_none());
    }
    queue.add(1);
    drop(first);
    assert_eq!(*timeout(secs(1), second).await.unwrap().unwrap(), 1);
}

/// The last key may be processed for a long time. Those who wait learn of the shutdown before it is done.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_waiting_when_the_last_key_is_taken() {
    let queue = queue();
    let mut first = Box::pin(queue.next());
    let mut second = Box::pin(queue.next());
    for waiting in [&mut first, &mut second] {
        assert!(futures_poll(waiting).await.is_none());
    }
    queue.add(1);
    let mut drained = Box::pin(queue.shut_down_with_drain());
    assert!(futures_poll(&mut drained).await.is_none());
    queue.shut_down();
    let work = timeout(secs(1), first).await.unwrap();
    assert_eq!(work.as_deref(), Some(&1));
    assert!(timeout(secs(1), second).await.unwrap().is_none());
    assert_eq!(timeout(secs(1), drained).await.unwrap(), 0);
}

async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    core::future::poll_fn(|context| {
        core::task::Poll::Ready(match core::pin::Pin::new(&mut *future).poll(context) {
            core::task::Poll::Ready(value) => Some(value),
            core::task::Poll::Pending => None,
        })
    })
    .await
}

/// A waiter that keeps the timer of a delayed key may stop waiting, or take another key and process it for a long time.
/// Another waiter then takes over the timer.
#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_handed_out_on_time_whoever_waited_for_it() {
    for stops_waiting in [true, false] {
        let queue = queue();
        let mut first = Box::pin(queue.next());
        let mut second = Box::pin(queue.next());
        for waiting in [&mut first, &mut second] {
            assert!(futures_poll(waiting).await.is_none());
        }
        let start = Time::now();
        queue.add_after(1, secs(1));
        queue.add_after(2, secs(2));
        let (wanted, _busy) = if stops_waiting {
            assert!(futures_poll(&mut first).await.is_none());
            drop(first);
            (1, None)
        } else {
            (2, first.await)
        };
        let work = timeout(secs(3600), second).await.unwrap().unwrap();
        assert_eq!((*work, start.elapsed().as_secs()), (wanted, wanted.into()));
    }
    // Without waiters, the key is returned by the next call after it is due.
    let queue = queue();
    queue.add_after(1, secs(1));
    let mut only = Box::pin(queue.next());
    assert!(futures_poll(&mut only).await.is_none());
    drop(only);
    sleep(secs(5)).await;
    let work = futures_poll(&mut Box::pin(queue.next())).await;
    assert_eq!(work.flatten().map(|work| *work), Some(1));
}

#[tokio::test(start_paused = true)]
async fn k04_a_drain_waits_for_work_and_a_shutdown_ends_the_waiting() {
    let queue = queue();
    queue.add(1);
    let work = queue.next().await.unwrap();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.next().await.is_none() }
    });
    queue.add_after(2, secs(5));
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(timeout(secs(100), &mut drain).await.is_err());
    assert!(!waiting.is_finished(), "what is worked on may come again");
    drop(work);
    assert_eq!(drain.await, 1, "one that was delayed is dropped");
    assert!(waiting.await.unwrap());

    let queue = WorkQueue::<u32>::default();
    queue.add(1);
    let _work = queue.next().await.unwrap();
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(timeout(secs(1), &mut drain).await.is_err());
    queue.shut_down();
    assert_eq!(drain.await, 0);
    queue.add(2);
    assert!(queue.next().await.is_none() && queue.is_shutting_down());
}

struct Panics;

impl RateLimit<u32> for Panics {
    fn delay(&mut self, _: Instant, _: &u32) -> Duration {
        panic!("on purpose")
    }
    fn forget(&mut self, _: &u32) {}
    fn requeues(&self, _: &u32) -> u32 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_panics_spoils_nothing() {
    let queue = WorkQueue::with_limit(Panics);
    queue.add(1);
    let work = queue.next().await.unwrap();
    let failed = tokio::spawn(async move { work.retry() }).await;
    assert!(failed.is_err());
    advance(secs(1)).await;
    queue.add(1);
    assert_eq!(*queue.next().await.unwrap(), 1);
}

fn is_empty<K: Ord + Clone>(queue: &WorkQueue<K>) -> bool {
    let metrics = queue.metrics();
    metrics.depth + metrics.working == 0
}
