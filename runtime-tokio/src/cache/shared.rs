//! The state that the driver, handles, handlers and subscriptions of one informer share.

use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use informer_core::cache::SourceId;
use informer_core::{
    Cache, Listeners, Notification, OwnedResource, Report, ResourceVersion,
    cache::CacheConfig,
    drive::Activity,
    listeners::{ListenerConfig, ListenerId},
    report::{Level, Phase, Problem},
    wire::Format,
};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cache::entry::{Key, Shared as Object, Store};
use crate::cache::index::Indexes;
use crate::cache::listener::ListenerState;
use crate::cache::metrics::Figures;
use crate::cache::panics::{Panic, catch};
use crate::cache::retired::Retired;
use crate::health::Lag;
use crate::health::source::{Counts, Noted, SourceRecord};
use crate::health::unheard;

/// Called with every report.
pub(crate) type OnReport = Arc<dyn Fn(&Report<'_>) + Send + Sync>;

/// Called with every resourceVersion that the cache reaches.
pub(crate) type OnVersion = Arc<dyn Fn(&str) + Send + Sync>;

/// The most events that are passed to a listener at a time.
pub(crate) const TAKE: usize = 64;

pub(crate) struct Inner<V> {
    pub(crate) name: String,
    pub(crate) resource: OwnedResource,
    cache: RwLock<Cache<Object<V>, Store>>,
    /// Locked after the cache, never before it.
    delivery: Mutex<Delivery<V>>,
    /// Changed only under the cache's write lock.
    indexes: RwLock<Arc<Indexes<V>>>,
    pub(crate) status: watch::Sender<Status>,
    /// The version that the cache has reached, for each source.
    pub(crate) reached: watch::Sender<Reached>,
    on_report: Option<OnReport>,
    pub(crate) on_version: Option<OnVersion>,
    sources: RwLock<Sources>,
    /// Whether sources join and leave at run time.
    joins: bool,
    /// The last report, and the time of the last change of state.
    last: Mutex<Last>,
    pub(crate) figures: Figures,
    pub(crate) retired: Retired<V>,
    /// Whether a predicate compares the metadata of objects.
    hashes: AtomicBool,
    /// Whether a controller reconciles its objects, of which it sees only a part.
    selects_for_controller: AtomicBool,
    /// Whether problems are written to stderr if nobody hears of them otherwise.
    speaks: AtomicBool,
}

/// The version that the cache has reached, for each source.
pub(crate) type Reached = BTreeMap<SourceId, ResourceVersion<Key>>;

/// The sources that list and watch.
struct Sources {
    records: BTreeMap<SourceId, Mutex<SourceRecord>>,
    /// The counts of those that have left.
    left: Counts,
}

/// The states that futures wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Status {
    pub(crate) synced: bool,
    /// How often a source was completed, has failed or has left.
    pub(crate) sources: u64,
    /// Whether there is data to serve: it was synced once, or a journal was restored.
    pub(crate) served: bool,
    /// Whether a stop was requested.
    pub(crate) stopping: bool,
    /// Whether no further events will arrive. Handlers still get the pending ones.
    pub(crate) closed: bool,
    /// Whether the driver and the handlers have ended.
    pub(crate) ended: bool,
}

#[derive(Debug)]
struct Last {
    report: Option<Noted>,
    ended: Option<Instant>,
    stopping: Option<Instant>,
    /// The reason why the driver ended without a stop request.
    failure: Option<Noted>,
    /// The number of panics in each user-defined function, by its name.
    hook_panics: BTreeMap<&'static str, u64>,
    /// The classes of problems without a source that were written to stderr.
    said: BTreeSet<&'static str>,
}

/// The names of user-defined functions in reports.
pub(crate) const METRICS: &str = "the metrics recorder";
pub(crate) const MAP: &str = "the function of `watches`";
pub(crate) const ON_VERSION: &str = "`on_version`";
const DROP: &str = "the drop of an object";
const ON_REPORT: &str = "`on_report`";
const TRACING: &str = "the tracing subscriber";

pub(crate) struct Delivery<V> {
    pub(crate) listeners: Listeners<Key, Object<V>>,
    waiting: BTreeMap<ListenerId, Waiting<V>>,
    ended: bool,
    /// The waker of the driver, for changes that affect its deadline.
    driver: Option<Waker>,
    pub(crate) resyncs_changed: bool,
}

/// Called with the states that a slow listener misses.
pub(crate) type Lost<V> = Arc<dyn Fn(&Key, &Object<V>) + Send + Sync>;

/// The state of one listener.
struct Waiting<V> {
    listener: Arc<ListenerState>,
    lost: Option<Lost<V>>,
    waker: Option<Waker>,
    /// The time since which it has always had pending notifications.
    behind_since: Option<Instant>,
}

impl<V> Inner<V> {
    /// If `sources` is `None`, sources join and leave at run time. The first source of the cache then has no record: it
    /// lists nothing, and is removed when the initial ones have joined, so that the cache is not synced before.
    pub(crate) fn new(
        name: String,
        sources: Option<Vec<OwnedResource>>,
        resource: OwnedResource,
        config: CacheConfig,
        seed: u64,
        on_report: Option<OnReport>,
        on_version: Option<OnVersion>,
    ) -> Self {
        let joins = sources.is_none();
        let sources = sources.unwrap_or_default();
        let count = u16::try_from(sources.len()).unwrap_or(u16::MAX);
        let mut cache = Cache::new(config, count, seed);
        cache.keep_discarded();
        let records: BTreeMap<_, _> = cache
            .sources()
            .zip(sources)
            .map(|(id, resource)| (id, Mutex::new(SourceRecord::new(resource))))
            .collect();
        let reached = records.keys().map(|id| (*id, ResourceVersion::default()));
        let reached = watch::Sender::new(reached.collect());
        let mut listeners = Listeners::default().with_seed(seed);
        listeners.keep_discarded();
        Self {
            retired: Retired::default(),
            hashes: AtomicBool::new(false),
            selects_for_controller: AtomicBool::new(false),
            speaks: AtomicBool::new(true),
            figures: Figures::new(&name),
            name,
            resource,
            cache: RwLock::new(cache),
            delivery: Mutex::new(Delivery {
                listeners,
                waiting: BTreeMap::new(),
                ended: false,
                driver: None,
                resyncs_changed: false,
            }),
            indexes: RwLock::new(Arc::default()),
            status: watch::Sender::new(Status::default()),
            reached,
            on_report,
            on_version,
            sources: RwLock::new(Sources {
                records,
                left: Counts::default(),
            }),
            joins,
            last: Mutex::new(Last {
                report: None,
                ended: None,
                stopping: None,
                failure: None,
                hook_panics: BTreeMap::new(),
                said: BTreeSet::new(),
            }),
        }
    }

    /// Returns whether a predicate compares the metadata of objects.
    pub(crate) fn hashes(&self) -> bool {
        self.hashes.load(Ordering::Relaxed)
    }

    pub(crate) fn keep_hashes(&self) {
        self.hashes.store(true, Ordering::Relaxed);
    }

    /// Returns whether a controller reconciles its objects, of which it sees only a part.
    pub(crate) fn selects_for_controller(&self) -> bool {
        self.selects_for_controller.load(Ordering::Relaxed)
    }

    /// Notes that a controller reconciles its objects.
    pub(crate) fn note_controller(&self) {
        let resource = self.resource.as_ref();
        let selects = resource.label_selector.is_some() || resource.field_selector.is_some();
        self.selects_for_controller
            .fetch_or(selects, Ordering::Relaxed);
    }

    // No user code runs under these locks, not even the `Drop` of an object, so the data behind a poisoned lock is
    // consistent.

    pub(crate) fn cache(&self) -> RwLockReadGuard<'_, Cache<Object<V>, Store>> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cache_mut(&self) -> RwLockWriteGuard<'_, Cache<Object<V>, Store>> {
        self.cache.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn delivery(&self) -> MutexGuard<'_, Delivery<V>> {
        self.delivery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn indexes(&self) -> Arc<Indexes<V>> {
        Arc::clone(&self.indexes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the indexes. Returns the previous ones, which must be dropped outside of all locks.
    pub(crate) fn set_indexes(&self, indexes: Indexes<V>) -> Arc<Indexes<V>> {
        let indexes = Arc::new(indexes);
        let mut shown = self.indexes.write().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut *shown, indexes)
    }

    /// Calls `work` with the cache and the log. Objects that are no longer needed are dropped after both locks are
    /// released: that runs user code, which may read this cache.
    pub(crate) fn locked<R>(
        &self,
        work: impl FnOnce(&mut Cache<Object<V>, Store>, &mut Delivery<V>) -> R,
    ) -> R {
        let mut cache = self.cache_mut();
        let mut delivery = self.delivery();
        let result = work(&mut cache, &mut delivery);
        let discarded = (cache.take_discarded(), delivery.listeners.take_discarded());
        drop(delivery);
        drop(cache);
        drop(discarded);
        result
    }

    /// Calls `work` with the log only, and drops what it no longer needs after the lock is released.
    fn with_delivery<R>(&self, work: impl FnOnce(&mut Delivery<V>) -> R) -> R {
        let mut delivery = self.delivery();
        let result = work(&mut delivery);
        let discarded = delivery.listeners.take_discarded();
        drop(delivery);
        drop(discarded);
        result
    }

    /// Calls `look` with the state of one source.
    pub(crate) fn source<R>(
        &self,
        source: SourceId,
        look: impl FnOnce(&mut SourceRecord) -> R,
    ) -> Option<R> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let source = sources.records.get(&source)?;
        Some(look(
            &mut source.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    /// Calls `look` with the state of each source.
    pub(crate) fn each_source<R>(
        &self,
        mut look: impl FnMut(SourceId, &SourceRecord) -> R,
    ) -> Vec<R> {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        sources
            .records
            .iter()
            .map(|(id, source)| look(*id, &source.lock().unwrap_or_else(PoisonError::into_inner)))
            .collect()
    }

    /// Returns the counts of all sources, also of those that have left.
    pub(crate) fn counts(&self) -> Counts {
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let mut counts = sources.left;
        for source in sources.records.values() {
            counts += source
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .counts();
        }
        counts
    }

    /// Returns whether sources join and leave at run time.
    pub(crate) const fn joins(&self) -> bool {
        self.joins
    }

    /// Adds a source at run time; `None` if there are too many.
    pub(crate) fn join_source(
        &self,
        resource: OwnedResource,
        cluster: &str,
        join: u64,
    ) -> Option<SourceId> {
        let mut new = SourceRecord::new(resource);
        cluster.clone_into(&mut new.cluster);
        new.join = join;
        let id = self.cache_mut().add_source()?;
        self.reached
            .send_modify(|reached| drop(reached.insert(id, ResourceVersion::default())));
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.records.insert(id, Mutex::new(new));
        Some(id)
    }

    /// Forgets a source that was removed from the cache. Its counts stay.
    pub(crate) fn source_left(&self, source: SourceId) {
        {
            let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(record) = sources.records.remove(&source) {
                let record = record.into_inner().unwrap_or_else(PoisonError::into_inner);
                sources.left += record.counts();
            }
        }
        // Nobody waits for its versions any more.
        self.reached
            .send_modify(|reached| drop(reached.remove(&source)));
        self.source_changed();
    }

    /// Records the activity of a source's driver.
    pub(crate) fn activity(&self, source: SourceId, activity: Activity) {
        if self.source(source, |source| source.activity(activity)) == Some(true) {
            self.hook(METRICS, || self.figures.watch_opened());
        }
    }

    /// Records bytes that a source received.
    pub(crate) fn received(&self, source: SourceId, format: Format, bytes: u64) {
        self.source(source, |source| source.received(format, bytes));
        self.hook(METRICS, || self.figures.received(format, bytes));
    }

    /// Returns the time since which the cache may be stale. If the data of a source comes from a journal, that is the
    /// time of the journal's last write.
    pub(crate) fn stale_since(&self) -> Option<std::time::SystemTime> {
        let since = self.each_source(|_, source| source.stale_since);
        since.into_iter().flatten().min()
    }

    /// Records that a source was completed, has failed or has left.
    pub(crate) fn source_changed(&self) {
        let missing = self.each_source(|_, source| !source.is_complete);
        let missing = missing.into_iter().filter(|missing| *missing).count();
        self.hook(METRICS, || self.figures.sources_missing(missing));
        self.status
            .send_modify(|status| status.sources = status.sources.wrapping_add(1));
    }

    /// Records that a source completed a list.
    pub(crate) fn listed(&self, source: SourceId) {
        self.source(source, SourceRecord::listed);
        self.hook(METRICS, || self.figures.listed());
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
        out: &mut Vec<Notification<(Key, Object<V>)>>,
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

    /// Requests a stop.
    pub(crate) fn stop(&self) {
        self.last().stopping.get_or_insert_with(Instant::now);
        self.status.send_modify(|status| status.stopping = true);
    }

    /// Records that no further events will arrive. Listeners end after their pending notifications.
    pub(crate) fn close(&self) {
        self.delivery().ended = true;
        self.status.send_modify(|status| status.closed = true);
        self.wake();
    }

    /// Records that the driver and its handlers have ended.
    pub(crate) fn end(&self) {
        self.close();
        self.last().ended.get_or_insert_with(Instant::now);
        self.status.send_modify(|status| status.ended = true);
    }

    /// Reports that the driver ended without a stop request.
    pub(crate) fn driver_failed(&self, reason: &str, level: Level) {
        let mut report = Report::about(Phase::Driver, Problem::DriverEnded { reason });
        report.level = level;
        {
            let mut last = self.last();
            if last.stopping.is_some() || last.ended.is_some() || last.failure.is_some() {
                return;
            }
            last.failure = Some(Noted::of(&report));
        }
        self.report(&report);
    }

    /// Returns the reason why the driver ended without a stop request.
    pub(crate) fn failure(&self) -> Option<Noted> {
        self.last().failure.clone()
    }

    /// Calls a user-defined function. Its first panic is reported, and all panics are counted.
    pub(crate) fn hook(&self, name: &'static str, call: impl FnOnce()) {
        if let Err(panic) = catch(call) {
            self.hook_panicked(name, &panic);
        }
    }

    /// Drops objects, which can run user-defined code.
    pub(crate) fn discard(&self, objects: impl IntoIterator<Item = Object<V>>) {
        for object in objects {
            self.hook(DROP, || drop(object));
        }
    }

    /// Counts a panic of a user-defined function, and reports the first one.
    pub(crate) fn hook_panicked(&self, name: &'static str, panic: &Panic) {
        let count = {
            let mut last = self.last();
            let count = last.hook_panics.entry(name).or_default();
            *count += 1;
            *count
        };
        // A report of `on_report` is also passed to `on_report`, so this condition ends a recursion too.
        if count == 1 {
            let message = crate::cache::panics::message(&**panic);
            let problem = Problem::HookPanicked {
                hook: name,
                message,
            };
            self.report(&Report::about(Phase::Driver, problem));
        }
    }

    /// Returns the number of panics in user-defined functions.
    pub(crate) fn hook_panics(&self) -> u64 {
        self.last().hook_panics.values().sum()
    }

    /// Reports a problem that does not belong to a source.
    pub(crate) fn report(&self, report: &Report<'_>) {
        self.report_of(None, report);
    }

    /// Reports a problem of a source.
    pub(crate) fn report_of(&self, source: Option<SourceId>, report: &Report<'_>) {
        let (name, class) = (self.name.as_str(), report.class());
        self.hook(TRACING, || match report.level {
            Level::Debug => tracing::debug!(informer = name, class, "{report}"),
            Level::Info => tracing::info!(informer = name, class, "{report}"),
            Level::Warn => tracing::warn!(informer = name, class, "{report}"),
            Level::Error => tracing::error!(informer = name, class, "{report}"),
        });
        self.hook(METRICS, || self.figures.report(class));
        // A warning is no error: the server answered the request.
        if report.level >= Level::Info && !matches!(report.problem, Problem::Warning { .. }) {
            let noted = Noted::of(report);
            if Noted::is_of_a_request(report)
                && let Some(source) = source
            {
                self.source(source, |source| source.note(noted.clone()));
                // What waits for the first list of the source may go on.
                self.source_changed();
            }
            self.last().report = Some(noted);
        }
        if let Some(on_report) = &self.on_report {
            self.hook(ON_REPORT, || on_report(report));
        } else if self.speaks.load(Ordering::Relaxed) {
            self.say(source, report);
        }
    }

    /// Writes a problem to stderr that nobody hears of otherwise: each class once until a request succeeds.
    fn say(&self, source: Option<SourceId>, report: &Report<'_>) {
        let class = report.class();
        let missing = source.and_then(|id| self.source(id, |source| !source.is_complete));
        let least = match missing {
            // The program waits for its first list.
            Some(true) if Noted::is_of_a_request(report) => Level::Info,
            _ => Level::Error,
        };
        let was_said = source
            .and_then(|source| self.source(source, |source| source.said.contains(class)))
            .unwrap_or_else(|| self.last().said.contains(class));
        if report.level < least || was_said {
            return;
        }
        let trouble = Noted::of(report).trouble(&self.resource, Instant::now());
        let advice = trouble
            .advice
            .map_or_else(String::new, |advice| format!(". {advice}"));
        let line = format!("informer {}: {}{advice}", self.name, trouble.message);
        if unheard::say(&line) {
            let noted = source.and_then(|id| self.source(id, |source| source.said.insert(class)));
            if noted.is_none() {
                self.last().said.insert(class);
            }
        }
    }

    /// Sets whether problems are written to stderr if nobody hears of them otherwise.
    pub(crate) fn speak(&self, speaks: bool) {
        self.speaks.store(speaks, Ordering::Relaxed);
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last report.
    pub(crate) fn last_report(&self) -> Option<Noted> {
        self.last().report.clone()
    }

    /// The time of the stop request, and the time at which the informer ended.
    pub(crate) fn stopped(&self) -> (Option<Instant>, Option<Instant>) {
        let last = self.last();
        (last.stopping, last.ended)
    }
}

impl<V> Delivery<V> {
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
