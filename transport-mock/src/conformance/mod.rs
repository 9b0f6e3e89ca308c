//! What a transport promises, as a suite that any can run.
//!
//! [`Transport`] and [`Body`](crate::Body) say what the engine relies on: that every status is an answer, that a cut is an
//! error and never an end, that an event is told when it comes, that a future that is dropped loses no byte. [`check`]
//! tries all that against a [`Server`] in memory, and says by name what does not hold.
//!
//! What is between the transport and the server is given by a function: it gets the server, lets it be reached in
//! whatever way the transport has, and returns a transport that reaches it. [`serve`](fn@crate::serve) (feature `serve`)
//! gives it a port for HTTP/1.1; the far end of a tunnel asks it by [`Mock::transport`]. What such a far end does
//! with an error it gets is up to it, as long as the transport makes an error of it again.
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
//! It runs inside tokio, on real time or paused time, and takes a second or two over real sockets. Each check has a new
//! server and a new transport, and 30 s.

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

/// The server of a check.
pub type TestServer = Mock<Server, TokioClock>;

/// Runs all checks on the transports that `connect` makes.
pub async fn check<T: Transport + 'static>(connect: impl AsyncFn(TestServer) -> T) -> Verdict {
    let mut verdict = Verdict {
        passed: Vec::new(),
        failed: Vec::new(),
    };
    for (name, check) in checks::all::<T>() {
        let server = Mock::with_clock(Server::new(), TokioClock::new());
        let transport = connect(server.clone()).await;
        let outcome = tokio::time::timeout(LIMIT, check(server, transport)).await;
        match outcome.unwrap_or_else(|_| Err("it did not come to an end within 30 s".to_string())) {
            Ok(()) => verdict.passed.push(name),
            Err(why) => verdict.failed.push((name, why)),
        }
    }
    verdict
}

const LIMIT: Duration = Duration::from_secs(30);

type Outcome = Result<(), String>;
type Check<T> = fn(TestServer, T) -> Pin<Box<dyn Future<Output = Outcome>>>;

/// What came of the checks. `Display` has a line for each.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "it may say that a check has failed"]
pub struct Verdict {
    passed: Vec<&'static str>,
    failed: Vec<(&'static str, String)>,
}

impl Verdict {
    /// Returns the names of the checks that hold.
    pub fn passed(&self) -> &[&'static str] {
        &self.passed
    }

    /// Returns the names of the checks that do not, and why.
    pub fn failed(&self) -> &[(&'static str, String)] {
        &self.failed
    }

    /// Fails a test where a check does not hold.
    ///
    /// # Panics
    /// Where there is one, with all that is to be said.
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
