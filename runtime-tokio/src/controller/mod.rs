//! Controllers: a reconcile function that is called with the keys of changed objects.

mod builder;
mod handle;
mod metrics;
mod only;
mod owned;
mod provided;
pub(crate) mod queue;
mod run;
#[cfg(feature = "signal")]
mod signal;
mod task;
mod writes;

#[cfg(feature = "signal")]
pub use signal::StopSignal;
pub use {
    builder::Controller,
    handle::{ControllerHandle, ControllerMetrics, Stopped},
    owned::{Owned, OwnedObject, Owner},
    provided::{IntoInformer, IntoOwned, Provided},
    task::{Failure, Next, Task},
    writes::WriteLog,
};
