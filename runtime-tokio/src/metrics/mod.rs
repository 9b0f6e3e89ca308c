//! Metrics of informers and controllers for the `metrics` facade.
//!
//! With the feature `metrics` each informer and each controller sends its metrics to the recorder that is installed when
//! it starts: at its start and its end, and every second; while nothing happens, up to every 15 seconds. The
//! [page](crate::page) has the same metrics for Prometheus without a recorder. They are listed in `docs/HEALTH.md` of the
//! repository.

pub(crate) mod facade;
#[cfg(any(feature = "metrics", feature = "page"))]
pub(crate) mod figure;
#[cfg(any(feature = "metrics", feature = "page"))]
pub(crate) mod tables;

/// Returns the names of the histograms, and the upper bounds of their buckets in seconds. They are those of client-go and
/// controller-runtime.
///
/// A recorder chooses its buckets by itself, so it must be told:
///
/// ```
/// # struct Builder; // Like `PrometheusBuilder` of metrics-exporter-prometheus.
/// # impl Builder { fn set_buckets_for_metric(self, _: String, _: &[f64]) -> Self { self } }
/// # let mut builder = Builder;
/// for (name, bounds) in informer_tokio::metrics::buckets() {
///     builder = builder.set_buckets_for_metric(name.to_owned(), &bounds);
/// }
/// ```
#[cfg(feature = "metrics")]
pub fn buckets() -> impl Iterator<Item = (&'static str, Vec<f64>)> {
    tables::buckets().map(|(name, bounds)| {
        let seconds = bounds.iter().map(core::time::Duration::as_secs_f64);
        (name, seconds.collect())
    })
}
