//! The health of an informer, for people and probes: its state, its problems, and advice.

pub(crate) mod advice;
pub(crate) mod error;
pub(crate) mod freshness;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod unheard;

pub use {
    informer_core::{
        Report,
        report::{DriftKind, Level, Phase, Problem, RequestProblem},
    },
    snapshot::{HandlerHealth, Health, Lag, SourceHealth, State, Trouble},
};
