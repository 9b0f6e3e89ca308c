//! Metrics of a controller for the `metrics` facade. Without that feature they do nothing.

#[cfg(feature = "metrics")]
use informer_core::queue::QueueMetrics;

use super::handle::ControllerMetrics;

/// The metrics of one controller.
#[derive(Debug)]
pub(crate) struct Figures {
    #[cfg(feature = "metrics")]
    name: String,
    #[cfg(feature = "metrics")]
    cells: std::sync::OnceLock<Cells>,
}

/// They are looked up once, when the controller starts, so the recorder must be installed by then.
#[cfg(feature = "metrics")]
#[derive(Debug)]
struct Cells {
    depth: metrics::Gauge,
    delayed: metrics::Gauge,
    running: metrics::Gauge,
    waiting_for_writes: metrics::Gauge,
    succeeded: metrics::Counter,
    failed: metrics::Counter,
    panicked: metrics::Counter,
    cut: metrics::Counter,
    retries: metrics::Counter,
    writes_not_seen: metrics::Counter,
}

#[cfg(feature = "metrics")]
impl Figures {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cells: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn begin(&self) {
        use metrics::{describe_counter as counter, describe_gauge as gauge};
        gauge!(
            "informer_controller_queue_depth",
            "Keys that wait for a worker"
        );
        gauge!("informer_controller_delayed", "Keys that are delayed");
        gauge!(
            "informer_controller_running",
            "Keys that are being reconciled"
        );
        gauge!(
            "informer_controller_waiting_for_writes",
            "Keys that wait for the cache to show what they wrote"
        );
        counter!(
            "informer_controller_runs_total",
            "Runs of the reconcile function, by result"
        );
        counter!(
            "informer_controller_retries_total",
            "Keys that were retried after a failure"
        );
        counter!(
            "informer_controller_writes_not_seen_total",
            "Writes that the cache did not show in time"
        );
        self.cells.get_or_init(|| {
            let gauge = |name: &'static str| metrics::gauge!(name, "controller" => self.name.clone());
            let counter =
                |name: &'static str| metrics::counter!(name, "controller" => self.name.clone());
            let runs = |result: &'static str| {
                let name = self.name.clone();
                metrics::counter!("informer_controller_runs_total", "controller" => name, "result" => result)
            };
            Cells {
                depth: gauge("informer_controller_queue_depth"),
                delayed: gauge("informer_controller_delayed"),
                running: gauge("informer_controller_running"),
                waiting_for_writes: gauge("informer_controller_waiting_for_writes"),
                succeeded: runs("succeeded"),
                failed: runs("failed"),
                panicked: runs("panicked"),
                cut: runs("cut"),
                retries: counter("informer_controller_retries_total"),
                writes_not_seen: counter("informer_controller_writes_not_seen_total"),
            }
        });
    }

    /// Updates all metrics after an event of the controller.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn show(&self, metrics: impl FnOnce() -> ControllerMetrics) {
        let Some(cells) = self.cells.get() else {
            return;
        };
        let metrics = metrics();
        self.queue(|| metrics.queue.clone());
        cells.running.set(metrics.running as f64);
        cells
            .waiting_for_writes
            .set(metrics.waiting_for_writes as f64);
        cells.succeeded.absolute(metrics.succeeded);
        cells.failed.absolute(metrics.failed);
        cells.panicked.absolute(metrics.panicked);
        cells.cut.absolute(metrics.cut);
        cells.writes_not_seen.absolute(metrics.writes_not_seen);
    }

    /// Updates the depth of the queue. The controller's loop does not do so while all its workers are busy.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn queue(&self, metrics: impl FnOnce() -> QueueMetrics) {
        if let Some(cells) = self.cells.get() {
            let metrics = metrics();
            cells.depth.set(metrics.depth as f64);
            cells.delayed.set(metrics.delayed as f64);
            cells.retries.absolute(metrics.retries);
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

    pub(crate) fn queue(&self, _metrics: impl FnOnce() -> informer_core::queue::QueueMetrics) {}
}
