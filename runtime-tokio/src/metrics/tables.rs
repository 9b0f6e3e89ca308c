//! The metrics of informers and controllers. Where client-go or controller-runtime have the same metric, it has their
//! name, labels and buckets.

use informer_core::queue::Spread;

use super::figure::Of::{Counter, Counters, Gauge, Gauges, Histogram};
use super::figure::{Family, Figure, Labels, bit, figures, number, size};
use crate::controller::counts::{ControllerMetrics, RECONCILE};
use crate::health::snapshot::{HandlerHealth, Health, PROCESSING, State};

const INFORMER: &[Figure<Health>] = figures! {
    "informer_synced" "1 if the cache is synced." Gauge(|h| Some(bit(h.synced)));
    "informer_sources_not_synced" "Namespaces and clusters without a complete list." Gauge(|h| Some(size(h.sources.iter().filter(|source| !source.synced).count())));
    "informer_running" "1 while the driver has not ended." Gauge(|h| Some(bit(!h.ended)));
    "informer_incomplete" "1 if an object is missing: it did not fit, or it will come with the list that is due." Gauge(|h| Some(bit(h.incomplete)));
    "informer_objects" "Objects in the cache." Gauge(|h| Some(size(h.objects)));
    "informer_object_bytes" "Bytes of JSON of the objects in the cache, as received." Gauge(|h| Some(size(h.bytes)));
    "informer_stale_objects" "Objects in an older state because the latest one could not be used." Gauge(|h| Some(size(h.stale_count)));
    "informer_state" "1 for the current state of the informer." Gauges("state", |h| STATES.map(|state| (state.to_string(), bit(state == h.state))).into());
    "informer_state_age_seconds" "Time in the current state." Gauge(|h| Some(h.state_age.as_secs_f64()));
    "informer_staleness_seconds" "The longest time for which the cache may have lacked a change that the server had." Gauge(|h| Some(h.staleness?.as_secs_f64()));
    "informer_watch_age_seconds" "Time since the watch was opened." Gauge(|h| Some(h.watch_age?.as_secs_f64()));
    "informer_deltas_total" "Objects received by lists and watches." Counter(|h| number(h.deltas));
    "informer_lists_total" "Completed lists." Counter(|h| number(h.lists));
    "informer_watches_total" "Opened watches." Counter(|h| number(h.watches));
    "informer_received_bytes_total" "Bytes of response bodies, decompressed." Counter(|h| number(h.received_bytes));
    "informer_protobuf" "1 if the last response was in protobuf." Gauge(|h| Some(bit(h.sources.iter().any(|source| source.format == Some("protobuf")))));
    "informer_failures_total" "Failed requests." Counter(|h| number(h.failures));
    "informer_troubles" "Problems that are not resolved." Gauge(|h| Some(size(h.troubles().count())));
    "informer_reports_total" "Reports, by class." Counters("class", |h| h.reports.iter().map(|(class, count)| ((*class).to_owned(), number(*count))).collect());
    "informer_audits_total" "Completed audits." Counter(|h| number(h.audits));
    "informer_audit_age_seconds" "Time since the last completed audit." Gauge(|h| Some(h.audit_age?.as_secs_f64()));
    "informer_drifted_objects" "Objects that differed permanently from the server in the last audit." Gauge(|h| Some(size(h.drifted)));
};

/// Those of client-go, with its labels.
const IN_CLIENT_GO: &[Figure<Health>] = figures! {
    "informer_queued_items" "Objects that were received and are not in the cache yet." Gauge(|h| Some(size(h.queued)));
    "informer_processing_latency_seconds" "Times in which a batch of objects was put into the cache and into the backlogs of handlers." Histogram(&PROCESSING, |h| &h.processing);
    "informer_store_resource_version" "The 15 least significant digits of the resourceVersion that the cache has reached." Gauge(|h| last_digits(&h.resource_version));
};

const HANDLER: &[Figure<HandlerHealth>] = figures! {
    "informer_handler_behind_seconds" "Time for which a handler has continuously had pending notifications." Gauge(|h| Some(h.lag.behind.as_secs_f64()));
    "informer_handler_merged_total" "Notifications merged into others of the same key." Counter(|h| number(h.lag.merged));
    "informer_handler_calls_total" "Calls to a handler." Counter(|h| number(h.calls));
    "informer_handler_panics_total" "Calls to a handler that panicked." Counter(|h| number(h.panics));
};

/// That of client-go, with its labels.
const HANDLER_IN_CLIENT_GO: &[Figure<HandlerHealth>] = figures! {
    "informer_pending_notifications" "Notifications that are pending for a handler." Gauge(|h| Some(size(h.lag.pending)));
};

const CONTROLLER: &[Figure<ControllerMetrics>] = figures! {
    "controller_runtime_active_workers" "Keys that are being reconciled." Gauge(|c| Some(size(c.running)));
    "controller_runtime_max_concurrent_reconciles" "The most keys that are reconciled at the same time." Gauge(|c| Some(size(c.workers)));
    "controller_runtime_reconcile_time_seconds" "Times of the runs of the reconcile function." Histogram(&RECONCILE, |c| &c.reconcile);
    "controller_runtime_reconcile_total" "Runs of the reconcile function, by result." Counters("result", |c| results(c).into());
    "controller_runtime_reconcile_errors_total" "Runs that returned an error or panicked." Counter(|c| number(c.failed + c.panicked));
    "controller_runtime_reconcile_panics_total" "Runs that panicked." Counter(|c| number(c.panicked));
    "controller_runtime_terminal_reconcile_errors_total" "Runs that returned an error and are not retried." Counter(|c| number(c.terminal));
    "controller_runtime_reconcile_timeouts_total" "Runs that were cut because their time was over." Counter(|c| number(c.timed_out));
    "informer_controller_depth" "Keys that wait for a worker, by priority." Gauges("priority", |c| c.queue.depths.iter().map(|(priority, depth)| (priority.to_string(), size(*depth))).collect());
    "informer_controller_delayed" "Keys that are delayed." Gauge(|c| Some(size(c.queue.delayed)));
    "informer_controller_waiting_for_writes" "Keys that wait for the cache to show what they wrote." Gauge(|c| Some(size(c.waiting_for_writes)));
    "informer_controller_waiting_for_lists" "Keys that wait for the first list of their namespace or cluster, or for a cache that is new enough." Gauge(|c| Some(size(c.waiting_for_lists)));
    "informer_controller_writes_not_seen_total" "Writes that the cache did not show in time." Counter(|c| number(c.writes_not_seen));
    "informer_controller_own_writes_skipped_total" "Changes that were skipped as the controller's own writes." Counter(|c| number(c.own_writes_skipped));
    "informer_controller_runs_cut_total" "Runs that were cut by a stop, or because the key moved to another controller." Counter(|c| number(c.cut));
};

/// Those of client-go, which have the label `name`. Metrics of a queue also have `controller`, as in controller-runtime.
const NAMED: &[Figure<ControllerMetrics>] = figures! {
    "workqueue_depth" "Keys that wait for a worker." Gauge(|c| Some(size(c.queue.depth)));
    "workqueue_adds_total" "Keys that were added, without those that were already waiting." Counter(|c| number(c.queue.adds));
    "workqueue_retries_total" "Keys that were retried after a failure." Counter(|c| number(c.queue.retries));
    "workqueue_queue_duration_seconds" "Times that keys waited before they were processed." Histogram(&Spread::DECADES, |c| &c.queue.wait);
    "workqueue_work_duration_seconds" "Times that keys were processed, waits for writes included." Histogram(&Spread::DECADES, |c| &c.queue.work);
    "workqueue_unfinished_work_seconds" "Total time of the keys that are being processed or wait for a write." Gauge(|c| Some(c.queue.unfinished.as_secs_f64()));
    "workqueue_longest_running_processor_seconds" "Time of the key that has been processed for the longest time." Gauge(|c| Some(c.queue.longest_running.as_secs_f64()));
    "leader_election_master_status" "1 while this replica leads or shares keys, with an election." Gauge(|c| Some(bit(c.is_active?)));
};

const STATES: [State; 8] = [
    State::Watching,
    State::Opening,
    State::Listing,
    State::Streaming,
    State::NotStarted,
    State::Waiting,
    State::Stopping,
    State::Ended,
];

/// Returns all metrics of informers and controllers, each name once.
pub(crate) fn families(
    informers: &[Health],
    controllers: &[(String, ControllerMetrics)],
) -> Vec<Family> {
    let handlers: Vec<_> = informers.iter().map(|h| (h, handlers_of(h))).collect();
    let of_handlers = |labels: fn(&Health) -> Labels| {
        let all = handlers.iter().flat_map(move |(health, handlers)| {
            handlers.iter().map(move |handler| {
                let mut labels = labels(health);
                labels.push(("handler", handler.name.clone()));
                (labels, handler)
            })
        });
        all.collect::<Vec<_>>()
    };
    let of_informers = |labels: fn(&Health) -> Labels| {
        let all = informers.iter().map(move |health| (labels(health), health));
        all.collect::<Vec<_>>()
    };
    let of_controllers = |labels: fn(&str) -> Labels| {
        let all = controllers.iter().map(move |(name, c)| (labels(name), c));
        all.collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    put(&mut all, INFORMER, &of_informers(own_labels));
    put(&mut all, IN_CLIENT_GO, &of_informers(labels));
    put(&mut all, HANDLER, &of_handlers(own_labels));
    put(&mut all, HANDLER_IN_CLIENT_GO, &of_handlers(labels));
    put(
        &mut all,
        NAMED,
        &of_controllers(|name| vec![("controller", name.to_owned()), ("name", name.to_owned())]),
    );
    put(
        &mut all,
        CONTROLLER,
        &of_controllers(|name| vec![("controller", name.to_owned())]),
    );
    all
}

fn put<T>(families: &mut Vec<Family>, figures: &[Figure<T>], all: &[(Labels, &T)]) {
    let new = figures.iter().map(|figure| figure.family(all));
    families.extend(new.filter(|family| !family.series.is_empty()));
}

/// Returns the upper bounds of the buckets of each histogram, in seconds.
#[cfg(feature = "metrics")]
pub(crate) fn buckets() -> impl Iterator<Item = (&'static str, &'static [core::time::Duration])> {
    fn of<T>(figure: &Figure<T>) -> Option<(&'static str, &'static [core::time::Duration])> {
        let Histogram(bounds, _) = figure.of else {
            return None;
        };
        Some((figure.name, bounds))
    }
    let controllers = NAMED.iter().chain(CONTROLLER).filter_map(of);
    IN_CLIENT_GO.iter().filter_map(of).chain(controllers)
}

fn own_labels(health: &Health) -> Labels {
    vec![("informer", health.name.clone())]
}

/// Returns the labels of client-go, and `informer`.
fn labels(health: &Health) -> Labels {
    // A resource is written as `deployments.v1.apps`; `pods.v1` has no group.
    let mut parts = health.resource.splitn(3, '.');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (resource, version, group) = (next(), next(), next());
    vec![
        ("informer", health.name.clone()),
        ("name", health.name.clone()),
        ("group", group),
        ("version", version),
        ("resource", resource),
    ]
}

/// Returns the handlers of an informer. Names of handlers may not be unique, but series must be, so those of one name are
/// one.
fn handlers_of(health: &Health) -> Vec<HandlerHealth> {
    let mut all: Vec<HandlerHealth> = Vec::new();
    for handler in &health.handlers {
        match all.iter_mut().find(|other| other.name == handler.name) {
            Some(other) => {
                other.lag.pending += handler.lag.pending;
                other.lag.merged += handler.lag.merged;
                other.lag.behind = other.lag.behind.max(handler.lag.behind);
                other.calls += handler.calls;
                other.panics += handler.panics;
            }
            None => all.push(handler.clone()),
        }
    }
    all
}

/// Returns the runs by controller-runtime's results.
fn results(metrics: &ControllerMetrics) -> [(String, f64); 4] {
    let (requeued, after) = (metrics.requeued, metrics.requeued_after);
    let done = metrics.succeeded.saturating_sub(requeued + after);
    [
        ("success", done),
        ("error", metrics.failed + metrics.panicked),
        ("requeue", requeued),
        ("requeue_after", after),
    ]
    .map(|(result, count)| (result.to_owned(), number(count)))
}

/// Returns a version as a float holds it exactly; `None` for one that is not a number.
fn last_digits(version: &str) -> Option<f64> {
    let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    let digits = version.get(version.len().saturating_sub(15)..)?;
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_cut_to_the_digits_that_a_float_holds() {
        assert_eq!(
            last_digits("1234567890123456789"),
            Some(567_890_123_456_789.0)
        );
        assert_eq!(last_digits("42"), Some(42.0));
        assert_eq!(last_digits(""), None);
        assert_eq!(last_digits("v1"), None);
    }

    #[test]
    fn no_name_occurs_twice() {
        let of_informers = INFORMER
            .iter()
            .chain(IN_CLIENT_GO)
            .map(|figure| figure.name);
        let of_handlers = HANDLER.iter().chain(HANDLER_IN_CLIENT_GO);
        let of_controllers = NAMED.iter().chain(CONTROLLER).map(|figure| figure.name);
        let mut names: Vec<&str> = of_informers
            .chain(of_handlers.map(|figure| figure.name))
            .chain(of_controllers)
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
