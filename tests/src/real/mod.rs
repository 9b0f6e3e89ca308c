//! What the tests on a real API server share.
//!
//! `INFORMER_TEST_KUBECONFIG` names a kubeconfig: of any cluster, whose user may make CustomResourceDefinitions. Where
//! the server is one that `tests/apiserver/apiserver` started, `INFORMER_TEST_APISERVER` names its folder, and tests
//! may start, kill and restart servers.

mod cluster;
mod control;
mod history;
mod recorded;
pub mod review;
mod subject;

pub use cluster::{Cluster, Identity, Protocol, Table, Versions};
pub use control::{Reviews, Server};
pub use history::{Book, History};
pub use recorded::{Asked, Log, Recorded};
pub use subject::{Run, Subject, Watcher};

use core::fmt;
use core::time::Duration;

/// Why a test could not go on.
pub type Error = Box<dyn core::error::Error + Send + Sync>;
/// What a test ends with.
pub type Outcome<T = ()> = Result<T, Error>;

/// Waits until something holds, and says what was waited for where it does not.
///
/// # Errors
/// Fails where it does not hold in time.
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

/// Fails with a message where a condition does not hold.
///
/// # Errors
/// Where it does not hold.
pub fn ensure(holds: bool, what: impl fmt::Display) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(what.to_string().into())
    }
}
