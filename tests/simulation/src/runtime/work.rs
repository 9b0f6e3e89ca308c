//! The workers of a queue that is filled by a handler.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use informer_tokio::handler::EventHandler;
use informer_tokio::queue::WorkQueue;
use informer_tokio::{Entry, Informer, Lister, Raw};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::entropy::Entropy;
use super::user::lock;
use super::{Verdict, holds};

/// The workers and their queue.
pub(super) struct Workers {
    queue: WorkQueue<String>,
    desk: Arc<Mutex<Desk>>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Desk {
    lister: Option<Lister<Raw>>,
    /// The number of workers waiting for a key.
    idle: usize,
    busy: BTreeSet<String>,
    /// The version of each key that was last reconciled.
    done: BTreeMap<String, Option<String>>,
    wrong: Option<String>,
}

/// Adds the keys of all notifications.
struct Feeder(WorkQueue<String>);

impl Workers {
    pub(super) fn new(count: u64, dice: &mut Entropy<'_>) -> Self {
        let queue = WorkQueue::new();
        let desk = Arc::new(Mutex::new(Desk::default()));
        let mut tasks = JoinSet::new();
        for worker in 0..count {
            let dice = Entropy::of(worker + u64::from(dice.below(1 << 20)));
            tasks.spawn(work(queue.clone(), Arc::clone(&desk), dice));
        }
        Self { queue, desk, tasks }
    }

    /// Checks that every worker ends when the queue is shut down.
    pub(super) async fn end(&mut self) -> Verdict {
        self.queue.shut_down();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let ended = timeout(Duration::from_secs(60), all).await;
        holds("ended", ended.is_ok(), &|| {
            "a worker waits after the end of its queue".to_owned()
        })
    }

    /// Fills the queue from this informer from now on.
    pub(super) fn follow(&self, informer: &Informer<Raw>) {
        lock(&self.desk).lister = Some(informer.lister());
        // The handler leaves together with its informer.
        drop(informer.add_handler(Feeder(self.queue.clone())));
    }

    /// Returns whether a key is pending while a worker is idle. The timer of a delayed key may be due at this very
    /// moment.
    pub(super) fn is_missed(&self) -> bool {
        self.queue.waiting() > 0 && lock(&self.desk).idle > 0
    }

    /// Checks that no key is pending while a worker is idle, and that no key is reconciled by two workers at once.
    pub(super) fn check(&self) -> Verdict {
        holds("handed_out", !self.is_missed(), &|| {
            "a key waits, and a worker too".to_owned()
        })?;
        let wrong = lock(&self.desk).wrong.clone();
        holds("at_once", wrong.is_none(), &|| {
            wrong.clone().unwrap_or_default()
        })
    }

    /// Checks that each object was reconciled in its newest state.
    pub(super) fn settled(&self, lister: &Lister<Raw>) -> Verdict {
        let desk = lock(&self.desk);
        let entries = lister.list();
        let missed = entries.iter().find(|entry| {
            let done = desk.done.get(&entry.key().to_string()).cloned().flatten();
            done != Some(entry.resource_version().to_string())
        });
        holds("reconciled", missed.is_none(), &|| {
            format!("{missed:?} was not reconciled: {:?}", desk.done)
        })
    }
}

async fn work(queue: WorkQueue<String>, desk: Arc<Mutex<Desk>>, mut dice: Entropy<'static>) {
    loop {
        lock(&desk).idle += 1;
        // Some workers stop waiting, even if they were just woken; during shutdown none does.
        let patience = if dice.one_in(3) && !queue.is_shutting_down() {
            u64::from(dice.below(2_000))
        } else {
            u64::MAX / 1_000_000
        };
        let next = timeout(Duration::from_millis(patience), queue.next()).await;
        lock(&desk).idle -= 1;
        let Ok(next) = next else { continue };
        let Some(work) = next else { return };
        let key = String::clone(&work);
        let version = {
            let mut desk = lock(&desk);
            if !desk.busy.insert(key.clone()) {
                desk.wrong = Some(format!("{key} is reconciled by two"));
            }
            let entry = desk
                .lister
                .as_ref()
                .and_then(|lister| lister.get_by_key(&key));
            entry.map(|entry| entry.resource_version().to_string())
        };
        if !dice.one_in(3) {
            sleep(Duration::from_millis(u64::from(dice.below(3_000)))).await;
        }
        {
            let mut desk = lock(&desk);
            desk.busy.remove(&key);
            desk.done.insert(key, version);
        }
        match dice.below(8) {
            0 => work.retry(),
            1 => work.requeue_after(Duration::from_millis(u64::from(dice.below(5_000)))),
            2 => drop(work),
            _ => work.finish(),
        }
    }
}

impl EventHandler<Raw> for Feeder {
    fn on_add(&mut self, entry: &Entry<Raw>, _: bool) {
        self.0.add(entry.key().to_string());
    }

    fn on_update(&mut self, _: &Entry<Raw>, new: &Entry<Raw>) {
        self.0.add(new.key().to_string());
    }

    fn on_delete(&mut self, entry: &Entry<Raw>, _: bool) {
        self.0.add(entry.key().to_string());
    }
}
