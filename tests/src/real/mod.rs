//! Helpers shared by the tests on a real API server.
//!
//! `INFORMER_TEST_KUBECONFIG` names a kubeconfig. It may be that of any cluster, with a user who may create
//! CustomResourceDefinitions. For a server started by `tests/apiserver/apiserver`, `INFORMER_TEST_APISERVER` names
//! its folder; then tests can start, kill and restart servers.

mod causes;
mod cluster;
mod control;
mod history;
mod kubectl;
mod plane;
mod recorded;
pub mod review;
mod subject;
mod table;

pub use causes::sort_causes;
pub use cluster::{Cluster, Identity, Protocol};
pub use control::{Reviews, Server};
pub use history::{Book, History};
pub use kubectl::Kubectl;
pub use plane::{Plane, Usage};
pub use recorded::{Asked, Log, Recorded};
pub use subject::{Subject, Watcher};
pub use table::{Table, Versions, versions};

use core::fmt;
use core::time::Duration;

/// Why a test could not continue.
pub type Error = Box<dyn core::error::Error + Send + Sync>;
/// The result of a test.
pub type Outcome<T = ()> = Result<T, Error>;

/// Waits until a condition holds.
///
/// # Errors
/// Fails with a description of the condition if it does not hold in time.
pub async fn until(
    limit: Duration,
    what: impl fmt::Display,
    mut holds: impl FnMut() -> bool,
) -> Outcome {
    let end = tokio::time::Instant::now() + limit;
    while !holds() {
        if tokio::time::Instant::now() >= end {
            return Err(format!("in {limit:?} it did not come to this: {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Fails with a message if a condition does not hold.
///
/// # Errors
/// Fails if it does not hold.
pub fn ensure(holds: bool, what: impl fmt::Display) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(what.to_string().into())
    }
}
