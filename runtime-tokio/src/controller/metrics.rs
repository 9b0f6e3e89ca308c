//! Metrics of a controller, for the page and for the `metrics` facade. Without that feature the facade gets none.

#[cfg(feature = "metrics")]
use core::time::Duration;
#[cfg(feature = "metrics")]
use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "metrics")]
use std::sync::{Mutex, PoisonError};

use super::counts::ControllerMetrics;
#[cfg(feature = "metrics")]
use crate::health::figure::Of;
#[cfg(any(feature = "metrics", feature = "page"))]
use crate::health::figure::{Figure, figures};

/// The names are those of client-go and controller-runtime where they have such a metric.
#[cfg(any(feature = "metrics", feature = "page"))]
#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) const FIGURES: &[Figure<ControllerMetrics>] = figures! {
    gauge "workqueue_depth" "Keys that wait for a worker." |c| Some(c.queue.depth as f64);
    counter "workqueue_adds_total" "Keys that were added, without those that were already waiting." |c| Some(c.queue.adds as f64);
    counter "workqueue_retries_total" "Keys that were retried after a failure." |c| Some(c.queue.retries as f64);
    histogram "workqueue_queue_duration_seconds" "Times that keys waited before they were processed." |c| &c.queue.wait;
    histogram "workqueue_work_duration_seconds" "Times that keys were processed, waits for writes included." |c| &c.queue.work;
    gauge "workqueue_unfinished_work_seconds" "Total time of the keys that are being processed or wait for a write." |c| Some(c.queue.unfinished.as_secs_f64());
    gauge "workqueue_longest_running_processor_seconds" "Time of the key that has been processed for the longest time." |c| Some(c.queue.longest_running.as_secs_f64());
    gauge "controller_runtime_active_workers" "Keys that are being reconciled." |c| Some(c.running as f64);
    histogram "controller_runtime_reconcile_time_seconds" "Times of the runs of the reconcile function." |c| &c.reconcile;
    counter "controller_runtime_reconcile_total" ["success"] "Runs of the reconcile function, by result." |c| Some(c.succeeded as f64);
    counter "controller_runtime_reconcile_total" ["error"] "Runs of the reconcile function, by result." |c| Some((c.failed + c.panicked) as f64);
    counter "controller_runtime_reconcile_errors_total" "Runs that returned an error or panicked." |c| Some((c.failed + c.panicked) as f64);
    counter "controller_runtime_reconcile_panics_total" "Runs that panicked." |c| Some(c.panicked as f64);
    gauge "informer_controller_delayed" "Keys that are delayed." |c| Some(c.queue.delayed as f64);
    gauge "informer_controller_waiting_for_writes" "Keys that wait for the cache to show what they wrote." |c| Some(c.waiting_for_writes as f64);
    gauge "informer_controller_waiting_for_lists" "Keys that wait for the first list of their namespace or cluster." |c| Some(c.waiting_for_lists as f64);
    gauge "leader_election_master_status" "1 while this replica leads or shares keys, with an election." |c| Some(f64::from(u8::from(c.is_active?)));
    counter "informer_controller_writes_not_seen_total" "Writes that the cache did not show in time." |c| Some(c.writes_not_seen as f64);
    counter "informer_controller_own_writes_skipped_total" "Changes that were skipped as the controller's own writes." |c| Some(c.own_writes_skipped as f64);
    counter "informer_controller_runs_cut_total" "Runs that were cut by a stop, or because the key moved to another controller." |c| Some(c.cut as f64);
};

/// The name and the help of the gauges of keys by priority, which also have the label `priority`.
#[cfg(any(feature = "metrics", feature = "page"))]
pub(crate) const DEPTHS: (&str, &str) = (
    "informer_controller_depth",
    "Keys that wait for a worker, by priority.",
);

/// Returns the labels of a series. Metrics of the queue have the name twice, as in controller-runtime.
#[cfg(any(feature = "metrics", feature = "page"))]
pub(crate) fn labels<'a>(
    figure: &'a Figure<ControllerMetrics>,
    name: &'a str,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let is_of_queue = figure.name.starts_with("workqueue_");
    let second = is_of_queue.then_some(("name", name));
    let result = figure.result.map(|result| ("result", result));
    [("controller", name)]
        .into_iter()
        .chain(second)
        .chain(result)
}

/// The metrics of one controller in the facade.
#[derive(Debug)]
pub(crate) struct Figures {
    #[cfg(feature = "metrics")]
    name: String,
    #[cfg(feature = "metrics")]
    cells: std::sync::OnceLock<Vec<Cell>>,
    #[cfg(feature = "metrics")]
    depths: Mutex<BTreeMap<i32, metrics::Gauge>>,
}

/// The name of a controller while it runs; `None` for one that another controller has.
#[derive(Debug)]
pub(crate) struct RunningName(#[cfg(feature = "metrics")] Option<String>);

/// The names of the controllers that run.
#[cfg(feature = "metrics")]
fn names() -> std::sync::MutexGuard<'static, BTreeSet<String>> {
    static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(feature = "metrics")]
impl Drop for RunningName {
    fn drop(&mut self) {
        if let Some(name) = &self.0 {
            names().remove(name);
        }
    }
}

#[cfg(feature = "metrics")]
#[derive(Debug)]
enum Cell {
    Gauge(metrics::Gauge),
    Counter(metrics::Counter),
    /// With the number and the sum of the durations that it has.
    Histogram(metrics::Histogram, Mutex<(u64, Duration)>),
}

#[cfg(feature = "metrics")]
impl Figures {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cells: std::sync::OnceLock::new(),
            depths: Mutex::default(),
        }
    }

    /// Looks up the metrics. This is done once, when the controller starts, so the recorder must be installed by then.
    pub(crate) fn begin(&self) -> RunningName {
        let is_first = names().insert(self.name.clone());
        if !is_first {
            tracing::warn!(
                controller = self.name,
                "another controller of this name runs, so their metrics are mixed: set `Controller::name`"
            );
        }
        let cell = |figure: &Figure<ControllerMetrics>| {
            let labels: Vec<metrics::Label> = labels(figure, &self.name)
                .map(|(label, value)| metrics::Label::new(label, value.to_owned()))
                .collect();
            match figure.kind {
                "counter" => {
                    metrics::describe_counter!(figure.name, figure.help);
                    Cell::Counter(metrics::counter!(figure.name, labels))
                }
                "histogram" => {
                    let unit = metrics::Unit::Seconds;
                    metrics::describe_histogram!(figure.name, unit, figure.help);
                    Cell::Histogram(metrics::histogram!(figure.name, labels), Mutex::default())
                }
                _ => {
                    metrics::describe_gauge!(figure.name, figure.help);
                    Cell::Gauge(metrics::gauge!(figure.name, labels))
                }
            }
        };
        self.cells
            .get_or_init(|| FIGURES.iter().map(cell).collect());
        RunningName(is_first.then(|| self.name.clone()))
    }

    /// Updates all metrics, after an event of the controller or of its queue. Durations that end between two updates are
    /// recorded with their mean. The loop of a controller updates after each event, so that is rare.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "counters are whole numbers"
    )]
    pub(crate) fn show(&self, metrics: impl FnOnce() -> ControllerMetrics) {
        let Some(cells) = self.cells.get() else {
            return;
        };
        let metrics = metrics();
        self.show_depths(&metrics.queue.depths);
        for (figure, cell) in FIGURES.iter().zip(cells) {
            let value = figure.number(&metrics).unwrap_or_default();
            match (cell, &figure.of) {
                (Cell::Gauge(gauge), _) => gauge.set(value),
                (Cell::Counter(counter), _) => counter.absolute(value as u64),
                (Cell::Histogram(histogram, before), Of::Spread(of)) => {
                    let spread = of(&metrics);
                    let mut before = before.lock().unwrap_or_else(PoisonError::into_inner);
                    let count = spread.count.saturating_sub(before.0);
                    let mean =
                        spread.sum.saturating_sub(before.1).as_secs_f64() / count.max(1) as f64;
                    if count > 0 {
                        *before = (spread.count, spread.sum);
                        histogram.record_many(mean, usize::try_from(count).unwrap_or(usize::MAX));
                    }
                }
                (Cell::Histogram(..), Of::Number(_)) => {}
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
    fn show_depths(&self, depths: &[(i32, usize)]) {
        let (name, help) = DEPTHS;
        let mut gauges = self.depths.lock().unwrap_or_else(PoisonError::into_inner);
        for (priority, gauge) in &*gauges {
            if depths.iter().all(|(shown, _)| shown != priority) {
                gauge.set(0.0);
            }
        }
        for (priority, depth) in depths {
            let gauge = gauges.entry(*priority).or_insert_with(|| {
                metrics::describe_gauge!(name, help);
                let labels = [
                    ("controller", self.name.clone()),
                    ("priority", priority.to_string()),
                ];
                metrics::gauge!(name, &labels)
            });
            gauge.set(*depth as f64);
        }
    }
}

#[cfg(not(feature = "metrics"))]
#[expect(
    clippy::unused_self,
    reason = "the methods do something with the feature"
)]
impl Figures {
    pub(crate) const fn new(_name: &str) -> Self {
        Self {}
    }

    pub(crate) const fn begin(&self) -> RunningName {
        RunningName()
    }

    pub(crate) fn show(&self, _metrics: impl FnOnce() -> ControllerMetrics) {}
}
