//! Metrics as tables, which the page and the `metrics` facade share.

use informer_core::queue::Spread;

/// A metric of a `T`. `None` omits it.
#[derive(Debug)]
pub(crate) struct Figure<T> {
    pub(crate) name: &'static str,
    /// `gauge`, `counter` or `histogram`.
    pub(crate) kind: &'static str,
    /// The label `result`, where several figures share a name.
    pub(crate) result: Option<&'static str>,
    pub(crate) help: &'static str,
    pub(crate) of: Of<T>,
}

/// The value of a metric.
#[derive(Debug)]
pub(crate) enum Of<T> {
    Number(fn(&T) -> Option<f64>),
    /// A histogram of seconds.
    Spread(fn(&T) -> &Spread),
}

impl<T> Figure<T> {
    /// Returns the value of a gauge or a counter.
    pub(crate) fn number(&self, of: &T) -> Option<f64> {
        match self.of {
            Of::Number(value) => value(of),
            Of::Spread(_) => None,
        }
    }
}

macro_rules! figures {
    ($($kind:tt $name:literal $([$result:literal])? $help:literal $of:expr;)*) => {
        &[$($crate::health::figure::Figure {
            name: $name,
            kind: stringify!($kind),
            result: $crate::health::figure::figures!(@ $($result)?),
            help: $help,
            of: $crate::health::figure::figures!(@of $kind $of),
        }),*]
    };
    (@of histogram $of:expr) => { $crate::health::figure::Of::Spread($of) };
    (@of $kind:tt $of:expr) => { $crate::health::figure::Of::Number($of) };
    (@) => { None };
    (@ $result:literal) => { Some($result) };
}
pub(crate) use figures;
