//! Metrics as tables, which the page and the `metrics` facade share.

/// A metric of a `T`. `None` omits it.
#[derive(Debug)]
pub(crate) struct Figure<T> {
    pub(crate) name: &'static str,
    /// `gauge` or `counter`.
    pub(crate) kind: &'static str,
    /// The label `result`, where several figures share a name.
    pub(crate) result: Option<&'static str>,
    pub(crate) help: &'static str,
    pub(crate) of: fn(&T) -> Option<f64>,
}

macro_rules! figures {
    ($($kind:ident $name:literal $([$result:literal])? $help:literal $of:expr;)*) => {
        &[$($crate::health::figure::Figure {
            name: $name,
            kind: stringify!($kind),
            result: $crate::health::figure::figures!(@ $($result)?),
            help: $help,
            of: $of,
        }),*]
    };
    (@) => { None };
    (@ $result:literal) => { Some($result) };
}
pub(crate) use figures;
