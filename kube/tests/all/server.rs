//! The mock as the server of a `kube::Client`.

use informer_mock::{Backend, FakeServer, Mock, TokioClock};
use kube::Client;

pub(crate) type Server = Mock<FakeServer, TokioClock>;

pub(crate) fn server() -> Server {
    Mock::with_clock(FakeServer::new(1), TokioClock::new())
}

/// Runs everything that is ready.
pub(crate) async fn settle() {
    tokio::time::sleep(core::time::Duration::from_millis(10)).await;
}

pub(crate) fn client<B: Backend + Send + 'static>(mock: &Mock<B, TokioClock>) -> Client {
    Client::new(mock.service(), "default")
}
