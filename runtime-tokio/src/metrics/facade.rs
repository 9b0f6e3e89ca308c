//! The `metrics` facade, which gets the same metrics as the page. Without the feature it gets none.

use crate::controller::counts::ControllerMetrics;
use crate::health::snapshot::Health;

/// The kinds of sets of metrics.
pub(crate) const INFORMER: &str = "informer";
pub(crate) const CONTROLLER: &str = "controller";

/// The metrics of one informer or controller in the facade.
///
/// A facade cannot ask for values, and some of them change as time goes by, so they are updated periodically. When those
/// of a controller are dropped, its gauges become 0.
#[derive(Debug)]
pub(crate) struct Facade {
    #[cfg(feature = "metrics")]
    on: on::Facade,
}

#[cfg(feature = "metrics")]
impl Facade {
    /// `kind` is [`INFORMER`] or [`CONTROLLER`]. The metrics of another one of this name would be mixed with these, which is
    /// reported.
    pub(crate) fn new(kind: &'static str, name: &str) -> Self {
        Self {
            on: on::Facade::new(kind, name),
        }
    }

    /// Waits until the metrics are to be updated.
    pub(crate) async fn due(&self) {
        self.on.due().await;
    }

    pub(crate) fn show_informer(&mut self, health: impl FnOnce() -> Health) {
        self.on.show(&super::tables::families(&[health()], &[]));
    }

    pub(crate) fn show_controller(&mut self, metrics: impl FnOnce() -> ControllerMetrics) {
        let controller = (self.on.name().to_owned(), metrics());
        self.on.show(&super::tables::families(&[], &[controller]));
    }
}

#[cfg(not(feature = "metrics"))]
#[expect(
    clippy::unused_self,
    reason = "the methods do something with the feature"
)]
impl Facade {
    pub(crate) const fn new(_kind: &'static str, _name: &str) -> Self {
        Self {}
    }

    pub(crate) async fn due(&self) {
        core::future::pending::<()>().await;
    }

    pub(crate) fn show_informer(&mut self, _health: impl FnOnce() -> Health) {}

    pub(crate) fn show_controller(&mut self, _metrics: impl FnOnce() -> ControllerMetrics) {}
}

#[cfg(feature = "metrics")]
mod on {
    use core::hash::BuildHasher as _;
    use core::panic::AssertUnwindSafe;
    use core::time::Duration;
    use std::collections::hash_map::{Entry, RandomState};
    use std::collections::{BTreeSet, HashMap};
    use std::panic::catch_unwind;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use informer_core::queue::Spread;
    use metrics::{Label, Unit};
    use tokio::time::Instant;

    use super::CONTROLLER;
    use crate::metrics::figure::{Family, Kind, Labels, Value};

    /// The time between two updates. It doubles for as long as nothing happens.
    const SOON: Duration = Duration::from_secs(1);
    const LATE: Duration = Duration::from_secs(15);

    #[derive(Debug)]
    pub(super) struct Facade {
        name: Name,
        due: Instant,
        period: Duration,
        /// By a hash of name and labels, which are many bytes for each informer.
        cells: HashMap<u64, Cell>,
        hashes: RandomState,
        /// The number of updates.
        round: u64,
    }

    /// A series of the recorder, and the update that it was last part of.
    #[derive(Debug)]
    struct Cell {
        metric: Metric,
        round: u64,
    }

    #[derive(Debug)]
    enum Metric {
        Gauge(metrics::Gauge),
        /// With the value that the recorder has.
        Counter(metrics::Counter, u64),
        /// With the durations that the recorder has.
        Histogram(metrics::Histogram, Option<Box<Spread>>),
    }

    impl Facade {
        pub(super) fn new(kind: &'static str, name: &str) -> Self {
            Self {
                name: Name::take(kind, name),
                due: Instant::now(),
                period: SOON,
                cells: HashMap::new(),
                hashes: RandomState::new(),
                round: 0,
            }
        }

        pub(super) fn name(&self) -> &str {
            &self.name.name
        }

        pub(super) async fn due(&self) {
            tokio::time::sleep_until(self.due).await;
        }

        pub(super) fn show(&mut self, families: &[Family]) {
            self.round += 1;
            // If the recorder panics, the rest follows with the next update.
            self.due = Instant::now() + SOON;
            let mut is_idle = true;
            for family in families {
                for (labels, value) in &family.series {
                    let cell = self.hashes.hash_one((family.name, labels));
                    let cell = self.cells.entry(cell);
                    if matches!((value, &cell), (Value::Unknown, Entry::Vacant(_))) {
                        continue;
                    }
                    let cell = cell.or_insert_with(|| Cell {
                        metric: Metric::new(family, labels),
                        round: 0,
                    });
                    cell.round = self.round;
                    is_idle &= !cell.metric.set(value);
                }
            }
            self.period = match is_idle {
                true => (self.period * 2).min(LATE),
                false => SOON,
            };
            self.due = Instant::now() + self.period;
            self.end(|cell| cell.round < self.round);
        }

        /// Sets the gauges of series that exist no more to 0, since a recorder forgets no series.
        fn end(&self, has_ended: impl Fn(&Cell) -> bool) {
            for cell in self.cells.values().filter(|cell| has_ended(cell)) {
                if let Metric::Gauge(gauge) = &cell.metric {
                    gauge.set(0.0);
                }
            }
        }
    }

    impl Drop for Facade {
        fn drop(&mut self) {
            if self.name.kind == CONTROLLER {
                // A recorder that panics has been reported.
                let _ = catch_unwind(AssertUnwindSafe(|| self.end(|_| true)));
            }
        }
    }

    impl Metric {
        fn new(family: &Family, labels: &Labels) -> Self {
            let (name, help) = (family.name, family.help);
            let labels: Vec<Label> = labels
                .iter()
                .map(|(label, value)| Label::new(*label, value.clone()))
                .collect();
            match (family.kind, unit(name)) {
                (Kind::Gauge, Some(unit)) => metrics::describe_gauge!(name, unit, help),
                (Kind::Gauge, None) => metrics::describe_gauge!(name, help),
                (Kind::Counter, Some(unit)) => metrics::describe_counter!(name, unit, help),
                (Kind::Counter, None) => metrics::describe_counter!(name, help),
                (Kind::Histogram, _) => {
                    metrics::describe_histogram!(name, Unit::Seconds, help);
                }
            }
            match family.kind {
                Kind::Gauge => Self::Gauge(metrics::gauge!(name, labels)),
                Kind::Counter => Self::Counter(metrics::counter!(name, labels), 0),
                Kind::Histogram => Self::Histogram(metrics::histogram!(name, labels), None),
            }
        }

        /// Sets the value. Returns whether something has happened: a counter or a histogram has grown.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counters are whole numbers"
        )]
        fn set(&mut self, value: &Value) -> bool {
            match (self, value) {
                (Self::Gauge(gauge), Value::Number(value)) => {
                    gauge.set(*value);
                    false
                }
                // Not a number, which no alert takes for one.
                (Self::Gauge(gauge), Value::Unknown) => {
                    gauge.set(f64::NAN);
                    false
                }
                (Self::Counter(counter, before), Value::Number(value)) => {
                    let value = *value as u64;
                    counter.absolute(value);
                    core::mem::replace(before, value) != value
                }
                (Self::Histogram(histogram, before), Value::Histogram(spread)) => {
                    let new = new_durations(before.as_deref(), spread);
                    for (value, count) in &new {
                        histogram.record_many(*value, *count);
                    }
                    *before = Some(Box::new(spread.clone()));
                    !new.is_empty()
                }
                _ => false,
            }
        }
    }

    /// Returns the durations that were added to a histogram, in seconds, with their numbers: one duration for each bucket,
    /// so that the recorder gets the same buckets and the same sum.
    pub(super) fn new_durations(before: Option<&Spread>, now: &Spread) -> Vec<(f64, usize)> {
        let empty = Spread::default();
        let before = before.unwrap_or(&empty);
        let sum = now.sum.saturating_sub(before.sum).as_secs_f64();
        let count = now.count.saturating_sub(before.count);
        let had = before.at_most().map(|(_, count)| count);
        let had = had.chain([before.count]);
        let has = now
            .at_most()
            .map(|(bound, count)| (bound.as_secs_f64(), count));
        let has = has.chain([(now.max.as_secs_f64(), now.count)]);
        // Between the bounds of its bucket, and how many there are.
        let (mut from, mut shorter) = (0.0, 0);
        let mut new = Vec::new();
        for ((to, at_most), had) in has.zip(had.chain(core::iter::repeat(0))) {
            let at_most = at_most.saturating_sub(had);
            let own = usize::try_from(at_most.saturating_sub(shorter)).unwrap_or(usize::MAX);
            if own > 0 {
                new.push((from, to.max(from), own));
            }
            (from, shorter) = (to, at_most);
        }
        if count == 1 {
            return vec![(sum, 1)];
        }
        let total = |of: fn(&(f64, f64, usize)) -> f64| new.iter().map(of).sum::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
        let least = total(|(from, _, count)| from * *count as f64);
        #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
        let most = total(|(_, to, count)| to * *count as f64);
        let share = if most > least {
            ((sum - least) / (most - least)).clamp(0.0, 1.0)
        } else {
            1.0
        };
        let place = |(from, to, count)| (from + share * (to - from), count);
        new.into_iter().map(place).collect()
    }

    fn unit(name: &str) -> Option<Unit> {
        let name = name.strip_suffix("_total").unwrap_or(name);
        if name.ends_with("_seconds") {
            Some(Unit::Seconds)
        } else if name.ends_with("_bytes") {
            Some(Unit::Bytes)
        } else {
            None
        }
    }

    /// The name of an informer or a controller while it runs.
    #[derive(Debug)]
    struct Name {
        kind: &'static str,
        name: String,
        is_first: bool,
    }

    type Names = BTreeSet<(&'static str, String)>;

    impl Name {
        fn take(kind: &'static str, name: &str) -> Self {
            let name = name.to_owned();
            let is_first = Self::all().insert((kind, name.clone()));
            if !is_first {
                tracing::warn!(
                    kind,
                    name,
                    "another one of this name runs, so their metrics are mixed: set `name`"
                );
            }
            Self {
                kind,
                name,
                is_first,
            }
        }

        fn all() -> MutexGuard<'static, Names> {
            static NAMES: Mutex<Names> = Mutex::new(BTreeSet::new());
            NAMES.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Drop for Name {
        fn drop(&mut self) {
            if self.is_first {
                Self::all().remove(&(self.kind, core::mem::take(&mut self.name)));
            }
        }
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use core::time::Duration;

    use informer_core::queue::Spread;

    use super::on::new_durations;

    #[test]
    fn a_recorder_gets_the_same_buckets_and_the_same_sum() {
        let mut before = Spread::default();
        before += Duration::from_millis(500);
        let mut now = before.clone();
        for millis in [2, 3, 70, 7_000, 5_000_000] {
            now += Duration::from_millis(millis);
        }
        let mut seen = before.clone();
        for (seconds, count) in new_durations(Some(&before), &now) {
            for _ in 0..count {
                seen += Duration::from_secs_f64(seconds);
            }
        }
        assert!(seen.at_most().eq(now.at_most()));
        assert_eq!(seen.count, now.count);
        let difference = now.sum.abs_diff(seen.sum);
        assert!(difference < Duration::from_micros(1), "{difference:?}");
        assert_eq!(new_durations(Some(&now), &now), []);
        assert_eq!(new_durations(None, &Spread::default()), []);
    }
}
