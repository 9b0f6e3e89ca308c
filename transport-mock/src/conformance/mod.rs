//! A conformance suite for transports.
//!
//! [`Transport`] and [`Body`](crate::Body) document what the engine relies on: every status is a response, a cut is an
//! error and never an end, an event is delivered when it arrives, and a dropped future loses no data. [`check`] tests
//! all that against a [`Server`] in memory, and reports the failed checks by name.
//!
//! The connection between the transport and the server is up to the caller. `check` takes a function that gets the
//! server, makes it reachable, and returns a transport to it. [`serve`](fn@crate::serve) (feature `serve`) opens a port
//! for HTTP/1.1. The far end of a tunnel can use [`Mock::transport`]. If it gets an error, the transport under test
//! must return an error as well.
//!
//! ```
//! use informer_mock::conformance;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! conformance::check(async |server| server.transport()).await.assert();
//! # }
//! ```
//!
//! The suite runs inside tokio, on real or paused time, and takes a second or two over real sockets. Each check has its
//! own server and transport, and a limit of 30 s.

mod checks;
mod server;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use core::time::Duration;

use informer_core::Transport;

use crate::mock::Mock;
use crate::tokio_clock::TokioClock;

pub use server::Server;

/// The server of one check.
pub type TestServer = Mock<Server, TokioClock>;

/// Runs all checks on the transports that `connect` returns.
pub async fn check<T: Transport + 'static>(connect: impl AsyncFn(TestServer) -> T) -> Verdict {
    let mut verdict = Verdict {
        passed: Vec::new(),
        failed: Vec::new(),
    };
    for (name, check) in checks::all::<T>() {
        let server = Mock::with_clock(Server::new(), TokioClock::new());
        let transport = connect(server.clone()).await;
        let outcome = tokio::time::timeout(LIMIT, check(server, transport)).await;
        match outcome.unwrap_or_else(|_| Err("it did not finish within 30 s".to_string())) {
            Ok(()) => verdict.passed.push(name),
            Err(why) => verdict.failed.push((name, why)),
        }
    }
    verdict
}

const LIMIT: Duration = Duration::from_secs(30);

type Outcome = Result<(), String>;
type Check<T> = fn(TestServer, T) -> Pin<Box<dyn Future<Output = Outcome>>>;

/// The results of the checks. `Display` writes a line for each.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it may contain failed checks"]
pub struct Verdict {
    passed: Vec<&'static str>,
    failed: Vec<(&'static str, String)>,
}

impl Verdict {
    /// Returns the names of the checks that passed.
    pub fn passed(&self) -> &[&'static str] {
        &self.passed
    }

    /// Returns the names of the checks that failed, each with its reason.
    pub fn failed(&self) -> &[(&'static str, String)] {
        &self.failed
    }

    /// Asserts that all checks passed.
    ///
    /// # Panics
    /// Panics with all results if a check failed.
    pub fn assert(&self) {
        assert!(
            self.failed.is_empty(),
            "the transport does not conform\n{self}"
        );
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in &self.passed {
            writeln!(f, "ok      {name}")?;
        }
        for (name, why) in &self.failed {
            writeln!(f, "FAILED  {name}: {why}")?;
        }
        Ok(())
    }
}
