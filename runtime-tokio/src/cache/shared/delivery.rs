//! The log of notifications, and those who wait for it.

use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::sync::Arc;

use informer_core::listeners::{ListenerConfig, ListenerId};
use informer_core::{Listeners, Notification};
use tokio::time::Instant;

use super::{Inner, MAP};
use crate::cache::entry::{Key, SharedObject};
use crate::cache::listener::ListenerState;
use crate::health::Lag;

/// The most events that are passed to a listener at a time.
pub(crate) const TAKE: usize = 64;

/// The log of notifications with its listeners.
pub(crate) struct Delivery<V> {
    pub(crate) listeners: Listeners<Key, SharedObject<V>>,
    waiting: BTreeMap<ListenerId, Waiting<V>>,
    pub(super) ended: bool,
    /// The waker of the driver, for changes that affect its deadline.
    driver: Option<Waker>,
    pub(crate) resyncs_changed: bool,
}

/// Called with the states that a slow listener misses.
pub(crate) type Lost<V> = Arc<dyn Fn(&Key, &SharedObject<V>) + Send + Sync>;

/// The state of one listener.
struct Waiting<V> {
    listener: Arc<ListenerState>,
    lost: Option<Lost<V>>,
    waker: Option<Waker>,
    /// The time since which it has always had pending notifications.
    behind_since: Option<Instant>,
}

impl<V> Inner<V> {
    /// Calls `work` with the log only, and drops what it no longer needs after the lock is released.
    fn with_delivery<R>(&self, work: impl FnOnce(&mut Delivery<V>) -> R) -> R {
        let mut delivery = self.delivery();
        let result = work(&mut delivery);
        let discarded = delivery.listeners.take_discarded();
        drop(delivery);
        drop(discarded);
        result
    }

    /// Adds a listener, which begins with a snapshot of the cache.
    pub(crate) fn join(
        &self,
        config: ListenerConfig,
        listener: Arc<ListenerState>,
        lost: Option<Lost<V>>,
    ) -> ListenerId {
        // With the cache locked, nothing is appended to the log between the snapshot and the listener's position.
        let cache = self.cache();
        let mut delivery = self.delivery();
        let initial = cache
            .notified()
            .map(|(key, object)| (key.clone(), object.clone()));
        let id = delivery
            .listeners
            .join(config, initial, cache.has_sent_synced());
        let waiting = Waiting {
            listener,
            lost,
            waker: None,
            behind_since: Some(Instant::now()),
        };
        delivery.waiting.insert(id, waiting);
        delivery.resyncs_changed = true;
        let driver = delivery.driver.take();
        drop(delivery);
        drop(cache);
        driver.into_iter().for_each(Waker::wake);
        id
    }

    /// Removes a listener. Returns the number of its pending notifications.
    pub(crate) fn leave(&self, id: ListenerId) -> usize {
        let (waiting, pending) = self
            .with_delivery(|delivery| (delivery.waiting.remove(&id), delivery.listeners.leave(id)));
        if let Some(waiting) = waiting {
            waiting.listener.leave();
            waiting.waker.into_iter().for_each(Waker::wake);
        }
        pending
    }

    /// Returns how far a listener is behind.
    pub(crate) fn lag(&self, id: ListenerId) -> Lag {
        self.delivery().lag(id, Instant::now())
    }

    /// Waits for events for a listener and moves some of them into `out`. `Ready(false)` means that there will be no
    /// more.
    pub(crate) fn poll_take(
        &self,
        cx: &mut Context<'_>,
        id: ListenerId,
        out: &mut Vec<Notification<(Key, SharedObject<V>)>>,
    ) -> Poll<bool> {
        let mut waker = Some(cx.waker().clone());
        self.with_delivery(|delivery| {
            delivery.listeners.take(id, TAKE, out);
            if !out.is_empty() {
                return Poll::Ready(true);
            }
            if delivery.ended || !delivery.listeners.contains(id) {
                return Poll::Ready(false);
            }
            if let Some(waiting) = delivery.waiting.get_mut(&id) {
                waiting.behind_since = None;
                // The previous waker is dropped outside of the lock: it may hold a task, and that may hold objects.
                core::mem::swap(&mut waiting.waker, &mut waker);
            }
            Poll::Pending
        })
    }

    /// Wakes all listeners, and coalesces the pending notifications of slow ones.
    pub(crate) fn wake(&self) {
        let mut missed = Vec::new();
        let wakers: Vec<Waker> = self.with_delivery(|delivery| {
            let Delivery {
                listeners, waiting, ..
            } = delivery;
            listeners.coalesce_with(&mut |id, key, object| {
                let lost = waiting.get(&id).and_then(|waiting| waiting.lost.clone());
                missed.extend(lost.map(|lost| (lost, key.clone(), object.clone())));
            });
            let now = Instant::now();
            let waiting = delivery.waiting.values_mut();
            waiting
                .filter_map(|waiting| {
                    let waker = waiting.waker.take()?;
                    waiting.behind_since = Some(now);
                    Some(waker)
                })
                .collect()
        });
        wakers.into_iter().for_each(Waker::wake);
        for (lost, key, object) in missed {
            self.hook(MAP, || lost(&key, &object));
        }
    }

    /// Wakes the driver when its deadline may have changed.
    pub(crate) fn poll_resyncs_changed(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut delivery = self.delivery();
        if core::mem::take(&mut delivery.resyncs_changed) {
            return Poll::Ready(());
        }
        let replaced = delivery.driver.replace(cx.waker().clone());
        drop(delivery);
        drop(replaced);
        Poll::Pending
    }
}

impl<V> Delivery<V> {
    pub(super) fn new(seed: u64) -> Self {
        let mut listeners = Listeners::default().with_seed(seed);
        listeners.keep_discarded();
        Self {
            listeners,
            waiting: BTreeMap::new(),
            ended: false,
            driver: None,
            resyncs_changed: false,
        }
    }

    fn lag(&self, id: ListenerId, now: Instant) -> Lag {
        let Some(waiting) = self.waiting.get(&id) else {
            return Lag::default();
        };
        let pending = self.listeners.pending(id) + waiting.listener.taken();
        let call = waiting.listener.call(now);
        let behind = waiting
            .behind_since
            .filter(|_| pending > 0 || call.is_some())
            .map_or_else(Default::default, |since| {
                now.saturating_duration_since(since)
            });
        Lag {
            pending,
            merged: self.listeners.merged(id),
            behind,
            call,
        }
    }

    /// Returns every listener and how far it is behind.
    pub(crate) fn listeners(&self) -> Vec<(Arc<ListenerState>, Lag)> {
        let now = Instant::now();
        let listeners = self.waiting.iter();
        listeners
            .map(|(id, waiting)| (Arc::clone(&waiting.listener), self.lag(*id, now)))
            .collect()
    }
}
