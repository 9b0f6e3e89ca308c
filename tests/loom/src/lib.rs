//! Every interleaving of the driver with the threads that decode for it, by loom:
//!
//!     cd tests/loom && cargo test --release
//!
//! `jobs` is the file that informer-tokio compiles, with the locks of loom. Loom finds a lost wake-up as a deadlock; its
//! time stands still, so no helper thread ends for lack of jobs.
#![cfg(test)]

use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread::{self, JoinHandle};

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::jobs::{Job, Queue};

#[path = "../../../runtime-tokio/src/driver/pool/jobs.rs"]
mod jobs;

/// A batch that counts how often it is decoded.
struct Batch {
    number: usize,
    decoded: usize,
}

/// The driver's part of a pool with up to `most` helper threads.
struct Pool {
    queue: Arc<Queue<Batch>>,
    most: usize,
    threads: Vec<JoinHandle<()>>,
    pushed: usize,
}

impl Pool {
    fn new(most: usize) -> Self {
        let (queue, threads) = (Arc::new(Queue::new()), Vec::new());
        Self {
            queue,
            most,
            threads,
            pushed: 0,
        }
    }

    fn push(&mut self, decode: fn(&mut Batch)) -> Arc<Job<Batch>> {
        let number = self.pushed;
        self.pushed += 1;
        let job = Arc::new(Job::new(Batch { number, decoded: 0 }));
        if self.queue.push(Arc::clone(&job), self.most) {
            let queue = Arc::clone(&self.queue);
            self.threads.push(thread::spawn(move || {
                while let Some(job) = queue.next() {
                    job.help(decode);
                }
            }));
        }
        job
    }

    /// Ends the helper threads, and returns how many there were.
    fn close(self) -> usize {
        self.queue.close();
        let started = self.threads.len();
        for thread in self.threads {
            thread.join().expect("a helper thread does not panic");
        }
        started
    }
}

fn count(batch: &mut Batch) {
    batch.decoded += 1;
}

/// Returns the batch of a job, which has to be decoded once.
fn finished(job: &Job<Batch>) -> usize {
    let batch = job.finish();
    assert_eq!(batch.decoded, 1, "batch {} is decoded once", batch.number);
    batch.number
}

#[test]
fn helper_threads_do_every_job_without_the_driver() {
    for most in 1..=2 {
        loom::model(move || {
            let mut pool = Pool::new(most);
            let jobs = [pool.push(count), pool.push(count)];
            assert_eq!(jobs.each_ref().map(|job| finished(job)), [0, 1]);
            assert!((1..=most).contains(&pool.close()));
        });
    }
}

#[test]
fn the_driver_can_leave_all_jobs_to_a_helper_thread() {
    loom::model(|| {
        let mut pool = Pool::new(1);
        let jobs = [pool.push(count), pool.push(count)];
        for (number, job) in jobs.iter().enumerate() {
            assert!(job.is_taken_within(Duration::ZERO), "time stands still");
            assert_eq!(finished(job), number);
        }
        assert_eq!(pool.close(), 1);
    });
}

#[test]
fn an_idle_helper_thread_is_woken() {
    loom::model(|| {
        let mut pool = Pool::new(1);
        for number in 0..2 {
            let job = pool.push(count);
            assert_eq!(finished(&job), number);
        }
        assert_eq!(pool.close(), 1);
    });
}

#[test]
fn the_driver_and_a_helper_thread_share_the_jobs() {
    loom::model(|| {
        let mut pool = Pool::new(1);
        let jobs = [pool.push(count), pool.push(count)];
        jobs[0].help(count);
        if !jobs[0].is_done() {
            jobs[1].help(count);
        }
        assert_eq!(jobs.each_ref().map(|job| finished(job)), [0, 1]);
        pool.close();
    });
}

#[test]
fn the_panic_of_a_decoder_reaches_the_driver() {
    loom::model(|| {
        let mut pool = Pool::new(1);
        // Without the hook that prints a panic.
        let job = pool.push(|_| std::panic::resume_unwind(Box::new("planned")));
        let panic = catch_unwind(AssertUnwindSafe(|| job.finish())).err();
        let text = panic.expect("the job panicked").downcast_ref().copied();
        assert_eq!(text, Some("planned"));
        assert!(!job.is_done(), "the panic is resumed once");
        pool.close();
    });
}

#[test]
fn a_closed_queue_ends_its_threads_at_any_time() {
    loom::model(|| {
        let mut pool = Pool::new(2);
        let _unfinished = [pool.push(count), pool.push(count)];
        pool.close();
    });
}
