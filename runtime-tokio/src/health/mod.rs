//! The health of an informer, for people and probes: its state, its problems, and advice.

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
