//! A process as a service over HTTP requests.

use informer_core::transport::FailureKind;
use informer_mock::Write;
use informer_mock::service::{Boxed, Chunks, Connect, MockService, Opened, Part, Source};

use super::body::LifeBody;
use super::process::Process;

impl Process {
    /// Returns the server as a service for the client of kube-rs: `kube::Client::new(process.service(), "default")`.
    #[must_use]
    pub fn service(&self) -> MockService {
        MockService::new(self.clone())
    }
}

impl Connect for Process {
    fn read<'a>(&'a self, target: &'a str, accept: &'a str) -> Boxed<'a, Opened> {
        Box::pin(async move {
            let (head, body) = self.life.open(target, accept).await?;
            let source: Source = Box::new(body);
            Ok((head, source))
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> Boxed<'a, Result<(u16, Vec<u8>), FailureKind>> {
        Box::pin(
            self.life
                .write(write.method, write.target, write.content_type, write.body),
        )
    }
}

impl Chunks for LifeBody {
    fn chunk(&mut self) -> Boxed<'_, Part> {
        Box::pin(Self::chunk(self))
    }
}
