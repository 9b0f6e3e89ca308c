//! Metrics as tables, which the page and the `metrics` facade share.

use core::time::Duration;

use informer_core::queue::Spread;

/// A metric of a `T`.
#[derive(Debug)]
pub(crate) struct Figure<T> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) of: Of<T>,
}

/// The kind of a metric, and how to read it.
#[derive(Debug)]
pub(crate) enum Of<T> {
    /// `None` is unknown.
    Gauge(fn(&T) -> Option<f64>),
    Counter(fn(&T) -> f64),
    /// A gauge or a counter with several series, which differ in the label of this name.
    Gauges(&'static str, fn(&T) -> Vec<(String, f64)>),
    Counters(&'static str, fn(&T) -> Vec<(String, f64)>),
    /// A histogram of seconds, with its bounds.
    Histogram(
        #[cfg_attr(
            not(feature = "metrics"),
            expect(dead_code, reason = "only a recorder must be told")
        )]
        &'static [Duration],
        fn(&T) -> &Spread,
    ),
}

pub(crate) type Labels = Vec<(&'static str, String)>;

/// All series of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) series: Vec<(Labels, Value)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Gauge,
    Counter,
    Histogram,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(f64),
    Histogram(Spread),
    Unknown,
}

impl<T> Figure<T> {
    const fn kind(&self) -> Kind {
        match self.of {
            Of::Gauge(_) | Of::Gauges(..) => Kind::Gauge,
            Of::Counter(_) | Of::Counters(..) => Kind::Counter,
            Of::Histogram(..) => Kind::Histogram,
        }
    }

    /// Returns the series of all `T`, each with its labels.
    pub(crate) fn family(&self, all: &[(Labels, &T)]) -> Family {
        let mut series = Vec::new();
        for (labels, one) in all {
            let mut several = |label, values: Vec<(String, f64)>| {
                for (of, value) in values {
                    let mut labels = labels.clone();
                    labels.push((label, of));
                    series.push((labels, Value::Number(value)));
                }
            };
            let value = match self.of {
                Of::Gauge(value) => Some(value(one).map_or(Value::Unknown, Value::Number)),
                Of::Counter(value) => Some(Value::Number(value(one))),
                Of::Histogram(_, spread) => Some(Value::Histogram(spread(one).clone())),
                Of::Gauges(label, values) | Of::Counters(label, values) => {
                    several(label, values(one));
                    None
                }
            };
            series.extend(value.map(|value| (labels.clone(), value)));
        }
        let (name, help, kind) = (self.name, self.help, self.kind());
        Family {
            name,
            help,
            kind,
            series,
        }
    }
}

pub(crate) fn bit(is: bool) -> f64 {
    f64::from(u8::from(is))
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) const fn number(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
pub(crate) const fn size(count: usize) -> f64 {
    count as f64
}

macro_rules! figures {
    ($($name:literal $help:literal $of:expr;)*) => {
        &[$($crate::metrics::figure::Figure { name: $name, help: $help, of: $of }),*]
    };
}
pub(crate) use figures;
