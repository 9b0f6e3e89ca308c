//! The suite for transports, and its detection of faulty ones.
#![cfg(feature = "tokio")]
#![allow(
    clippy::std_instead_of_core,
    clippy::wildcard_enum_match_arm,
    reason = "a test may"
)]

use std::fmt;

use informer_mock::conformance::{self, TestServer};
use informer_mock::{Body, FailureKind, Get, Head, Transport, TransportError};

#[tokio::test(start_paused = true)]
async fn the_mock_conforms() {
    let verdict = conformance::check(async |server| server.transport()).await;
    verdict.assert();
    assert!(verdict.passed().len() >= 19, "{verdict}");
}

/// The faults of a transport.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    DropsRetryAfter,
    MakesErrorsOfStatuses,
    DropsTheAccept,
    DecodesTheTarget,
    TakesACutForAnEnd,
    TakesAnEndForACut,
    GathersBeforeItTells,
    LosesWhatIsAbandoned,
    ReadsAsText,
    BreaksForEver,
    CallsACutATimeout,
    HoldsOn,
}

struct Broken<T> {
    wrong: Wrong,
    inner: T,
    broken: bool,
}

struct BrokenBody<B> {
    wrong: Wrong,
    inner: Option<B>,
    piece: Vec<u8>,
}

#[derive(Debug)]
struct Failed(FailureKind);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TransportError for Failed {
    fn kind(&self) -> FailureKind {
        self.0
    }
}

impl<T: Transport<Body: 'static>> Transport for Broken<T> {
    type Body = BrokenBody<T::Body>;
    type Error = Failed;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Self::Body), Failed> {
        if self.broken {
            return Err(Failed(FailureKind::Reset));
        }
        let target = match self.wrong {
            Wrong::DecodesTheTarget => get.target.replace("%2B", "+").replace("%26", "&"),
            _ => get.target.to_owned(),
        };
        let mut asked = Get::new(&target).watch(get.watch);
        if self.wrong != Wrong::DropsTheAccept {
            asked = asked.accept(get.accept);
        }
        let sent = self.inner.send(asked).await;
        let (mut head, inner) = sent.map_err(|error| {
            self.broken = self.wrong == Wrong::BreaksForEver;
            Failed(match self.wrong {
                Wrong::CallsACutATimeout => FailureKind::TimedOut,
                _ => error.kind(),
            })
        })?;
        match self.wrong {
            Wrong::DropsRetryAfter => head.retry_after = None,
            Wrong::MakesErrorsOfStatuses if head.status != 200 => {
                return Err(Failed(FailureKind::Other));
            }
            _ => {}
        }
        let body = BrokenBody {
            wrong: self.wrong,
            inner: Some(inner),
            piece: Vec::new(),
        };
        Ok((head, body))
    }
}

impl<B: Body> Body for BrokenBody<B> {
    type Error = Failed;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Failed> {
        let inner = self.inner.as_mut().unwrap();
        self.piece.clear();
        loop {
            if self.wrong == Wrong::LosesWhatIsAbandoned {
                let piece = inner.chunk().await.map_err(|error| Failed(error.kind()))?;
                let piece = piece.map(<[u8]>::to_vec);
                tokio::task::yield_now().await;
                self.piece = piece.clone().unwrap_or_default();
                return Ok(piece.is_some().then_some(&self.piece));
            }
            match inner.chunk().await {
                Ok(Some(piece)) => self.piece.extend_from_slice(piece),
                Ok(None) if self.wrong == Wrong::TakesAnEndForACut => {
                    return Err(Failed(FailureKind::Reset));
                }
                Ok(None) => return Ok((!self.piece.is_empty()).then_some(&self.piece)),
                Err(_) if self.wrong == Wrong::TakesACutForAnEnd => return Ok(None),
                Err(error) => return Err(Failed(error.kind())),
            }
            if self.wrong == Wrong::ReadsAsText {
                self.piece = String::from_utf8_lossy(&self.piece).into_owned().into();
            }
            if self.wrong != Wrong::GathersBeforeItTells {
                return Ok(Some(&self.piece));
            }
        }
    }
}

impl<B> Drop for BrokenBody<B> {
    fn drop(&mut self) {
        if self.wrong == Wrong::HoldsOn {
            std::mem::forget(self.inner.take());
        }
    }
}

async fn failed(wrong: Wrong) -> Vec<&'static str> {
    let connect = async |server: TestServer| Broken {
        wrong,
        inner: server.transport(),
        broken: false,
    };
    let verdict = conformance::check(connect).await;
    verdict.failed().iter().map(|(name, _)| *name).collect()
}

#[tokio::test(start_paused = true)]
async fn each_wrong_transport_fails_its_check() {
    for (wrong, expected) in [
        (
            Wrong::DropsRetryAfter,
            "a_retry_after_in_seconds_is_reported",
        ),
        (Wrong::MakesErrorsOfStatuses, "every_status_is_an_answer"),
        (Wrong::DropsTheAccept, "requests_arrive_unchanged"),
        (Wrong::DecodesTheTarget, "requests_arrive_unchanged"),
        (Wrong::TakesACutForAnEnd, "a_cut_inside_a_list_is_an_error"),
        (Wrong::TakesACutForAnEnd, "a_cut_inside_a_watch_is_an_error"),
        (
            Wrong::TakesAnEndForACut,
            "the_clean_end_of_a_watch_is_no_error",
        ),
        (
            Wrong::GathersBeforeItTells,
            "an_event_is_delivered_on_arrival",
        ),
        (
            Wrong::LosesWhatIsAbandoned,
            "no_byte_is_lost_if_a_read_is_abandoned",
        ),
        (Wrong::ReadsAsText, "bytes_are_passed_unchanged"),
        (
            Wrong::BreaksForEver,
            "after_a_failure_the_next_request_works",
        ),
        (
            Wrong::CallsACutATimeout,
            "a_cut_before_the_answer_is_an_error",
        ),
        (Wrong::HoldsOn, "a_dropped_body_ends_at_the_server"),
    ] {
        let failed = failed(wrong).await;
        assert!(failed.contains(&expected), "{expected}: {failed:?}");
    }
}
