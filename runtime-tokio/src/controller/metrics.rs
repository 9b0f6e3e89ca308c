//! Metrics of a controller, for the page and for the `metrics` facade. Without that feature the facade gets none.

use super::handle::ControllerMetrics;
#[cfg(any(feature = "metrics", feature = "page"))]
use crate::health::figure::{Figure, figures};

/// The names are those of client-go and controller-runtime where they have such a metric.
#[cfg(any(feature = "metrics", feature = "page"))]
#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) const FIGURES: &[Figure<ControllerMetrics>] = figures! {
    gauge "workqueue_depth" "Keys that wait for a worker." |c| Some(c.queue.depth as f64);
    counter "workqueue_adds_total" "Keys that were added, without those that were already waiting." |c| Some(c.queue.adds as f64);
    counter "workqueue_retries_total" "Keys that were retried after a failure." |c| Some(c.queue.retries as f64);
    gauge "workqueue_unfinished_work_seconds" "Total time of the keys that are being processed or wait for a write." |c| Some(c.queue.unfinished.as_secs_f64());
    gauge "workqueue_longest_running_processor_seconds" "Time of the key that has been processed for the longest time." |c| Some(c.queue.longest_running.as_secs_f64());
    gauge "controller_runtime_active_workers" "Keys that are being reconciled." |c| Some(c.running as f64);
    counter "controller_runtime_reconcile_total" ["success"] "Runs of the reconcile function, by result." |c| Some(c.succeeded as f64);
    counter "controller_runtime_reconcile_total" ["error"] "Runs of the reconcile function, by result." |c| Some((c.failed + c.panicked) as f64);
    counter "controller_runtime_reconcile_errors_total" "Runs that returned an error or panicked." |c| Some((c.failed + c.panicked) as f64);
    counter "controller_runtime_reconcile_panics_total" "Runs that panicked." |c| Some(c.panicked as f64);
    gauge "informer_controller_delayed" "Keys that are delayed." |c| Some(c.queue.delayed as f64);
    gauge "informer_controller_waiting_for_writes" "Keys that wait for the cache to show what they wrote." |c| Some(c.waiting_for_writes as f64);
    counter "informer_controller_writes_not_seen_total" "Writes that the cache did not show in time." |c| Some(c.writes_not_seen as f64);
    counter "informer_controller_runs_cut_total" "Runs that were cut by a stop, or because the key moved to another controller." |c| Some(c.cut as f64);
};

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
}

#[cfg(feature = "metrics")]
#[derive(Debug)]
enum Cell {
    Gauge(metrics::Gauge),
    Counter(metrics::Counter),
}

#[cfg(feature = "metrics")]
impl Figures {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cells: std::sync::OnceLock::new(),
        }
    }

    /// Looks up the metrics. This is done once, when the controller starts, so the recorder must be installed by then.
    pub(crate) fn begin(&self) {
        let cell = |figure: &Figure<ControllerMetrics>| {
            let labels: Vec<metrics::Label> = labels(figure, &self.name)
                .map(|(label, value)| metrics::Label::new(label, value.to_owned()))
                .collect();
            if figure.kind == "counter" {
                metrics::describe_counter!(figure.name, figure.help);
                Cell::Counter(metrics::counter!(figure.name, labels))
            } else {
                metrics::describe_gauge!(figure.name, figure.help);
                Cell::Gauge(metrics::gauge!(figure.name, labels))
            }
        };
        self.cells
            .get_or_init(|| FIGURES.iter().map(cell).collect());
    }

    /// Updates all metrics, after an event of the controller or of its queue.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counters are whole numbers"
    )]
    pub(crate) fn show(&self, metrics: impl FnOnce() -> ControllerMetrics) {
        let Some(cells) = self.cells.get() else {
            return;
        };
        let metrics = metrics();
        for (figure, cell) in FIGURES.iter().zip(cells) {
            let value = (figure.of)(&metrics).unwrap_or_default();
            match cell {
                Cell::Gauge(gauge) => gauge.set(value),
                Cell::Counter(counter) => counter.absolute(value as u64),
            }
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

    pub(crate) const fn begin(&self) {}

    pub(crate) fn show(&self, _metrics: impl FnOnce() -> ControllerMetrics) {}
}
