//! Controllers: a reconcile function that is called with the keys of changed objects.

mod builder;
pub(crate) mod counts;
mod engine;
mod follow;
mod handle;
mod live;
mod only;
mod own;
mod owned;
mod part;
mod predicate;
mod provided;
pub(crate) mod queue;
#[cfg(feature = "requests")]
mod record;
mod results;
mod run;
mod seat;
#[cfg(feature = "signal")]
mod signal;
mod skip;
mod sources;
mod start;
mod task;
mod writes;

pub(crate) use start::Places;

#[cfg(feature = "requests")]
pub use record::{RecordWrites, RecordedBody};
#[cfg(feature = "signal")]
pub use signal::StopSignal;
pub use {
    builder::Controller,
    counts::ControllerMetrics,
    handle::{ControllerHandle, Stopped},
    live::Ended,
    owned::{Owned, OwnedObject, Owner},
    predicate::Predicate,
    provided::{IntoInformer, IntoOwned, Provided, When},
    results::Reconciled,
    task::{Failure, Next, Retry, Task},
    writes::WriteLog,
};
