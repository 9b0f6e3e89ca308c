//! Controllers: a reconcile function that is called with the keys of changed objects.

mod builder;
mod handle;
mod metrics;
mod only;
mod owned;
pub(crate) mod queue;
mod run;
#[cfg(feature = "signal")]
mod signal;
mod task;

#[cfg(feature = "signal")]
pub use signal::StopSignal;
pub use {
    builder::Controller,
    handle::{ControllerHandle, ControllerMetrics, Stopped},
    owned::{Owned, OwnedObject, Owner},
    task::{Failure, Next, Task},
};
