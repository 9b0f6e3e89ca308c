//! Figures for the `metrics` facade. Without the feature nothing is kept.

/// What the cache of an informer has at a moment.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(feature = "metrics"),
    expect(dead_code, reason = "nobody reads it")
)]
pub(crate) struct Levels {
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
    pub(crate) stale: usize,
    pub(crate) synced: bool,
    pub(crate) incomplete: bool,
}

/// The figures of one informer.
#[derive(Debug)]
pub(crate) struct Figures {
    #[cfg(feature = "metrics")]
    name: std::sync::Arc<str>,
    #[cfg(feature = "metrics")]
    gauges: std::sync::OnceLock<Gauges>,
}

/// The gauges are looked up once, when the driver begins, so that a recorder has to be there by then.
#[cfg(feature = "metrics")]
#[derive(Debug)]
struct Gauges {
    objects: metrics::Gauge,
    bytes: metrics::Gauge,
    stale: metrics::Gauge,
    synced: metrics::Gauge,
    incomplete: metrics::Gauge,
    told: metrics::Counter,
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
        gauge!("informer_objects", "Objects in the cache");
        gauge!(
            "informer_object_bytes",
            Unit::Bytes,
            "Bytes of these objects as they came, as JSON"
        );
        gauge!(
            "informer_synced",
            "1 where the cache has shown a complete list"
        );
        gauge!(
            "informer_stale_objects",
            "Objects that are shown in an older state, since their latest one could not be used"
        );
        gauge!(
            "informer_incomplete",
            "1 where something had no room, so that the cache is not complete"
        );
        gauge!(
            "informer_watch_opened_timestamp_seconds",
            Unit::Seconds,
            "When a watch was opened last, since 1970"
        );
        gauge!(
            "informer_handler_pending",
            "Notifications that wait for a handler"
        );
        counter!(
            "informer_deltas_total",
            "Objects that lists and watches brought"
        );
        counter!("informer_lists_total", "Lists that were completed");
        counter!("informer_watches_total", "Watches that were opened");
        counter!(
            "informer_reports_total",
            "Reports of what went wrong, by class"
        );
        counter!(
            "informer_audits_total",
            "Audits that have come to their end"
        );
        gauge!(
            "informer_audit_timestamp_seconds",
            Unit::Seconds,
            "When an audit came to its end last, since 1970"
        );
        gauge!(
            "informer_drifted_objects",
            "Objects that differed from the server for good when the last audit ended"
        );
        counter!("informer_handler_calls_total", "Calls of a handler");
        counter!(
            "informer_handler_panics_total",
            "Calls of a handler that panicked"
        );
        let informer = self.name.to_string();
        self.gauges.get_or_init(|| Gauges {
            objects: metrics::gauge!("informer_objects", "informer" => informer.clone()),
            bytes: metrics::gauge!("informer_object_bytes", "informer" => informer.clone()),
            stale: metrics::gauge!("informer_stale_objects", "informer" => informer.clone()),
            incomplete: metrics::gauge!("informer_incomplete", "informer" => informer.clone()),
            synced: metrics::gauge!("informer_synced", "informer" => informer.clone()),
            told: metrics::counter!("informer_deltas_total", "informer" => informer.clone()),
        });
    }

    /// A batch was applied.
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
    pub(crate) fn applied(&self, deltas: usize, levels: Levels) {
        if let Some(gauges) = self.gauges.get() {
            gauges.told.increment(deltas as u64);
            gauges.objects.set(levels.objects as f64);
            gauges.bytes.set(levels.bytes as f64);
            gauges.stale.set(levels.stale as f64);
            gauges.synced.set(f64::from(u8::from(levels.synced)));
            gauges
                .incomplete
                .set(f64::from(u8::from(levels.incomplete)));
        }
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

    /// An audit has come to its end, and so many objects of all sources differed.
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

    /// A handler was called so often, and so much waits for it.
    pub(crate) fn handled(&self, handler: &str, calls: u64, panics: u64, pending: usize) {
        let labels = [
            ("informer", self.name.to_string()),
            ("handler", handler.to_owned()),
        ];
        metrics::counter!("informer_handler_calls_total", &labels).increment(calls);
        if panics > 0 {
            metrics::counter!("informer_handler_panics_total", &labels).increment(panics);
        }
        #[expect(clippy::cast_precision_loss, reason = "gauges are floats")]
        metrics::gauge!("informer_handler_pending", &labels).set(pending as f64);
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
    reason = "with the feature there is something to do"
)]
impl Figures {
    pub(crate) const fn new(_name: &str) -> Self {
        Self {}
    }

    pub(crate) const fn begin(&self) {}

    pub(crate) const fn applied(&self, _deltas: usize, _levels: Levels) {}

    pub(crate) const fn listed(&self) {}

    pub(crate) const fn watch_opened(&self) {}

    pub(crate) const fn audited(&self, _drifted: usize) {}

    pub(crate) const fn report(&self, _class: &'static str) {}

    pub(crate) const fn handled(&self, _handler: &str, _calls: u64, _panics: u64, _pending: usize) {
    }
}
