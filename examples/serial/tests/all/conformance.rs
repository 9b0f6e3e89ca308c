//! The conformance suite for transports, over an in-memory line.

use std::time::Duration;

use informer_mock::conformance;
use tokio::task::LocalSet;

use crate::support::Bench;

#[tokio::test(start_paused = true)]
async fn it_conforms_at_any_split_and_with_frames_of_any_length() {
    LocalSet::new()
        .run_until(async {
            check::<512>(4096).await;
            check::<256>(13).await;
        })
        .await;
}

async fn check<const B: usize>(step: usize) {
    let verdict = conformance::check(async |server| {
        Bench::<B>::start(server.transport(), step, 1, Duration::from_secs(60)).device
    });
    verdict.await.assert();
}
