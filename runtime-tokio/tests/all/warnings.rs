//! Warnings of the server become reports.

use std::sync::{Arc, Mutex};

use informer_mock::{FakeServer, MockTransport, TokioClock};
use informer_tokio::transport::{BoxTransport, Get, Head, Transport};
use informer_tokio::{Informer, Raw, Resource, boxed};

use crate::support::server;

/// Adds this many warnings to each response.
#[derive(Clone)]
struct Warning<T>(T, usize);

struct WarningBody<B>(B, usize);

impl<T: Transport> Transport for Warning<T> {
    type Body = WarningBody<T::Body>;
    type Error = T::Error;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), T::Error> {
        let (head, body) = self.0.send(get).await?;
        Ok((head, WarningBody(body, self.1)))
    }
}

impl<B: informer_tokio::transport::Body> informer_tokio::transport::Body for WarningBody<B> {
    type Error = B::Error;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, B::Error> {
        self.0.chunk().await
    }

    fn warning(&mut self) -> Option<&str> {
        self.1 = self.1.checked_sub(1)?;
        Some("pods are\nold")
    }
}

#[tokio::test(start_paused = true)]
async fn a_warning_is_a_report_and_no_failure() {
    for warnings in [1, usize::MAX] {
        reports_of(warnings).await;
    }
}

async fn reports_of(warnings: usize) {
    let mock = server();
    let inner: Warning<MockTransport<FakeServer, TokioClock>> = Warning(mock.transport(), warnings);
    let transport: BoxTransport = boxed!(inner);
    let reports = Arc::<Mutex<Vec<_>>>::default();
    let heard = Arc::clone(&reports);
    let (pods, driver) = Informer::<Raw>::builder_for(&transport, Resource::parse("pods").unwrap())
        .on_report(move |report| {
            let said = format!("{:?} {} {report}", report.level, report.class());
            heard.lock().unwrap().push(said);
        })
        .build();
    let driver = tokio::spawn(driver.run());
    pods.synced().await.unwrap();
    let reports = reports.lock().unwrap().clone();
    let begin = "Warn warning ";
    let end = ": the server warns: pods are\\nold";
    assert!(
        !reports.is_empty()
            && reports
                .iter()
                .all(|said| said.starts_with(begin) && said.ends_with(end)),
        "{reports:?}"
    );
    // A list or a stream, and perhaps a watch.
    assert!(reports.len() <= 2 * warnings.min(100), "{}", reports.len());
    assert!(pods.health().last_error.is_none());
    driver.abort();
}
