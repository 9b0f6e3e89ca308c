//! A process as a service over HTTP requests.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;

use informer_core::transport::FailureKind;

use super::process::{Life, LifeBody, Process};
use crate::backend::ResponseHead;
use crate::backend::Write;
use crate::service::{Chunks, Connect, MockService, Source};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl Process {
    /// Returns the server as a service for the client of kube-rs: `kube::Client::new(process.service(), "default")`.
    #[must_use]
    pub fn service(&self) -> MockService {
        MockService::new(Arc::clone(&self.life))
    }
}

impl Connect for Arc<Life> {
    fn read<'a>(
        &'a self,
        target: &'a str,
        accept: &'a str,
    ) -> Boxed<'a, Result<(ResponseHead, Source), FailureKind>> {
        Box::pin(async move {
            let (head, body) = self.open(target, accept).await?;
            let source: Source = Box::new(body);
            Ok((head, source))
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> Boxed<'a, Result<(u16, Vec<u8>), FailureKind>> {
        Box::pin(Life::write(
            self,
            write.method,
            write.target,
            write.content_type,
            write.body,
        ))
    }
}

impl Chunks for LifeBody {
    fn chunk(&mut self) -> Boxed<'_, Result<Option<Vec<u8>>, FailureKind>> {
        Box::pin(Self::chunk(self))
    }
}
