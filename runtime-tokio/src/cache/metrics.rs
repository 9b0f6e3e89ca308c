//! Metrics of an informer for the `metrics` facade. Without that feature they do nothing.

use informer_core::wire::Format;

/// The state of an informer's cache at one moment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "metrics"),
    expect(dead_code, reason = "only the `metrics` feature reads it")
)]
pub(crate) struct Levels {
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
    pub(crate) stale: usize,
    pub(crate) synced: bool,
    pub(crate) incomplete: bool,
}

/// The metrics of one informer.
#[derive(Debug)]
pub(crate) struct Figures {
    #[cfg(feature = "metrics")]
    name: std::sync::Arc<str>,
    #[cfg(feature = "metrics")]
    gauges: std::sync::OnceLock<Gauges>,
}

/// The gauges are looked up once, when the driver starts, so the recorder must be installed by then.
#[cfg(feature = "metrics")]
#[derive(Debug)]
struct Gauges {
    objects: metrics::Gauge,
    bytes: metrics::Gauge,
    stale: metrics::Gauge,
    synced: metrics::Gauge,
    incomplete: metrics::Gauge,
    deltas: metrics::Counter,
    received: metrics::Counter,
    protobuf: metrics::Gauge,
}

#[cfg(feature = "metrics")]
impl Figures {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            gauges: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn begin(&self) {
        use metrics::{Unit, describe_counter as counter, describe_gauge as gauge};
        macro_rules! describe {
            ($($kind:ident $name:literal $([$unit:ident])? $help:literal;)*) => {
                $($kind!($name, $(Unit::$unit,)? $help);)*
            };
        }
        describe! {
            gauge "informer_objects" "Objects in the cache";
            gauge "informer_object_bytes" [Bytes] "Bytes of JSON of the objects in the cache, as received";
            gauge "informer_synced" "1 if the cache is synced";
            gauge "informer_sources_not_synced" "Namespaces and clusters without a complete list";
            gauge "informer_stale_objects" "Objects in an older state because the latest one could not be used";
            gauge "informer_incomplete" "1 if an object is missing: it did not fit, or it will come with the list that is due";
            gauge "informer_watch_opened_timestamp_seconds" [Seconds] "Time of the last opened watch, in seconds since 1970";
            gauge "informer_handler_pending" "Notifications that are pending for a handler";
            counter "informer_deltas_total" "Objects received by lists and watches";
            counter "informer_lists_total" "Completed lists";
            counter "informer_watches_total" "Opened watches";
            counter "informer_received_bytes_total" [Bytes] "Bytes of response bodies, decompressed";
            gauge "informer_protobuf" "1 if the last response was in protobuf";
            counter "informer_reports_total" "Reports of problems, by class";
            counter "informer_audits_total" "Completed audits";
            gauge "informer_audit_timestamp_seconds" [Seconds] "Time of the last completed audit, in seconds since 1970";
            gauge "informer_drifted_objects" "Objects that differed permanently from the server in the last audit";
            counter "informer_handler_calls_total" "Calls to a handler";
            counter "informer_handler_panics_total" "Calls to a handler that panicked";
        }
        let informer = self.name.to_string();
        self.gauges.get_or_init(|| Gauges {
            objects: metrics::gauge!("informer_objects", "informer" => informer.clone()),
            bytes: metrics::gauge!("informer_object_bytes", "informer" => informer.clone()),
            stale: metrics::gauge!("informer_stale_objects", "informer" => informer.clone()),
            incomplete: metrics::gauge!("informer_incomplete", "informer" => informer.clone()),
            synced: metrics::gauge!("informer_synced", "informer" => informer.clone()),
            deltas: metrics::counter!("informer_deltas_total", "informer" => informer.clone()),
            received: metrics::counter!("informer_received_bytes_total", "informer" => informer.clone()),
            protobuf: metrics::gauge!("informer_protobuf", "informer" => informer.clone()),
        });
    }

    /// Records that a batch was applied.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn applied(&self, deltas: usize, levels: Levels) {
        if let Some(gauges) = self.gauges.get() {
            gauges.deltas.increment(deltas as u64);
            gauges.objects.set(levels.objects as f64);
            gauges.bytes.set(levels.bytes as f64);
            gauges.stale.set(levels.stale as f64);
            gauges.synced.set(f64::from(u8::from(levels.synced)));
            gauges
                .incomplete
                .set(f64::from(u8::from(levels.incomplete)));
        }
    }

    /// Records bytes that were received.
    pub(crate) fn received(&self, format: Format, bytes: u64) {
        if let Some(gauges) = self.gauges.get() {
            gauges.received.increment(bytes);
            let is_protobuf = format == Format::Protobuf;
            gauges.protobuf.set(f64::from(u8::from(is_protobuf)));
        }
    }

    /// Records the number of sources without a complete list.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn sources_missing(&self, missing: usize) {
        metrics::gauge!("informer_sources_not_synced", "informer" => self.name.to_string())
            .set(missing as f64);
    }

    pub(crate) fn listed(&self) {
        metrics::counter!("informer_lists_total", "informer" => self.name.to_string()).increment(1);
    }

    pub(crate) fn watch_opened(&self) {
        metrics::counter!("informer_watches_total", "informer" => self.name.to_string())
            .increment(1);
        let name = self.name.to_string();
        metrics::gauge!("informer_watch_opened_timestamp_seconds", "informer" => name)
            .set(seconds_since_1970());
    }

    /// Records a completed audit, with the number of objects of all sources that differed.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn audited(&self, drifted: usize) {
        let name = || self.name.to_string();
        metrics::counter!("informer_audits_total", "informer" => name()).increment(1);
        metrics::gauge!("informer_audit_timestamp_seconds", "informer" => name())
            .set(seconds_since_1970());
        metrics::gauge!("informer_drifted_objects", "informer" => name()).set(drifted as f64);
    }

    pub(crate) fn report(&self, class: &'static str) {
        let informer = self.name.to_string();
        metrics::counter!("informer_reports_total", "informer" => informer, "class" => class)
            .increment(1);
    }

    /// Records calls to a handler, and the number of its pending notifications.
    pub(crate) fn handled(
        &self,
        handler: &str,
        calls: u64,
        panics: u64,
        pending: impl FnOnce() -> usize,
    ) {
        let labels = [
            ("informer", self.name.to_string()),
            ("handler", handler.to_owned()),
        ];
        metrics::counter!("informer_handler_calls_total", &labels).increment(calls);
        if panics > 0 {
            metrics::counter!("informer_handler_panics_total", &labels).increment(panics);
        }
        #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
        metrics::gauge!("informer_handler_pending", &labels).set(pending() as f64);
    }
}

#[cfg(feature = "metrics")]
fn seconds_since_1970() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
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

    pub(crate) const fn applied(&self, _deltas: usize, _levels: Levels) {}

    pub(crate) const fn received(&self, _format: Format, _bytes: u64) {}

    pub(crate) const fn sources_missing(&self, _missing: usize) {}

    pub(crate) const fn listed(&self) {}

    pub(crate) const fn watch_opened(&self) {}

    pub(crate) const fn audited(&self, _drifted: usize) {}

    pub(crate) const fn report(&self, _class: &'static str) {}

    pub(crate) fn handled(
        &self,
        _handler: &str,
        _calls: u64,
        _panics: u64,
        _pending: impl FnOnce() -> usize,
    ) {
    }
}
