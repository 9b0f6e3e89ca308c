//! The state of an informer, for people and probes: what it does, what went wrong, and what to do about it.

mod advice;
pub(crate) mod error;
mod snapshot;
pub(crate) mod source;

pub use {
    informer_core::{
        Report,
        report::{DriftKind, Level, Phase, Problem},
    },
    snapshot::{HandlerHealth, Health, Lag, SourceHealth, State, Trouble},
};
