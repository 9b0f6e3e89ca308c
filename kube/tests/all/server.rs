//! The mock as the server of a `kube::Client`.

use informer_mock::{Backend, Mock, TokioClock};
use kube::Client;

pub(crate) use crate::support::{Server, server, settle};

pub(crate) fn client<B: Backend + Send + 'static>(mock: &Mock<B, TokioClock>) -> Client {
    Client::new(mock.service(), "default")
}
