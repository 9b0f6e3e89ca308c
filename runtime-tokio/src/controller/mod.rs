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

pub use builder::Controller;
pub use handle::{ControllerHandle, ControllerMetrics, Stopped};
pub use owned::{Owned, OwnedObject, Owner};
#[cfg(feature = "signal")]
pub use signal::StopSignal;
pub use task::{Failure, Next, Task};
