//! A process as a service over HTTP requests.

use core::time::Duration;

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

    /// Like [`service`](Self::service), and a response that sends nothing for this time fails. The connections of kube
    /// before 5.0 do so after 295 s, and its watches rely on it if they are half open.
    #[must_use]
    pub fn service_with_read_timeout(&self, limit: Duration) -> MockService {
        let process = self.clone();
        MockService::new(Limited { process, limit })
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

/// A process whose connections have a limit for silence.
struct Limited {
    process: Process,
    limit: Duration,
}

impl Connect for Limited {
    fn read<'a>(&'a self, target: &'a str, accept: &'a str) -> Boxed<'a, Opened> {
        Box::pin(async move {
            let (head, body) = self.process.life.open(target, accept).await?;
            let source: Source = Box::new(LimitedBody(Some(body), self.limit));
            Ok((head, source))
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> Boxed<'a, Result<(u16, Vec<u8>), FailureKind>> {
        self.process.write(write)
    }
}

/// The body of a response, until it has been silent for too long.
struct LimitedBody(Option<LifeBody>, Duration);

impl Chunks for LimitedBody {
    fn chunk(&mut self) -> Boxed<'_, Part> {
        Box::pin(async move {
            let Self(body, limit) = self;
            let Some(open) = body else {
                return Err(FailureKind::TimedOut);
            };
            match tokio::time::timeout(*limit, open.chunk()).await {
                Ok(part) => part,
                Err(_) => {
                    let closed = body.take();
                    Err(closed.map_or(FailureKind::TimedOut, |body| body.give_up()))
                }
            }
        })
    }
}
