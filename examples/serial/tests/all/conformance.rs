//! The conformance suite for transports, over an in-memory line.

use informer_mock::conformance::{self, Verdict};
use tokio::task::LocalSet;

use crate::support::connect;

async fn verdict(room: usize) -> Verdict {
    let check = conformance::check(async |server| connect(server.transport(), room, 1).0);
    LocalSet::new().run_until(check).await
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    verdict(4096).await.assert();
}

/// The writing of each frame is interrupted here. So STOP cannot be written at once, and an abandoned response ends with
/// the next request or after a minute.
#[tokio::test(start_paused = true)]
async fn it_conforms_on_a_line_with_room_for_less_than_a_frame() {
    let verdict = verdict(7).await;
    let failed: Vec<_> = verdict.failed().iter().map(|(name, _)| *name).collect();
    let expected = [
        "an_abandoned_request_ends_at_the_server",
        "a_dropped_body_ends_at_the_server",
    ];
    assert_eq!(failed, expected, "{verdict}");
}
