//! Data that arrives in one piece is one batch, and nothing in it is lost.

use core::future::pending;

use informer_core::transport::{FailureKind, TransportError};
use informer_tokio::informer::Initial;
use informer_tokio::transport::{Body, Get, Head, Transport};
use informer_tokio::{Event, Informer, Raw, Resource};

/// Responds to the first request with a body in one piece, which ends or stays open.
#[derive(Clone)]
pub(crate) struct OnePiece {
    pub(crate) text: Option<String>,
    pub(crate) ends: bool,
}

pub(crate) struct Piece {
    text: String,
    is_given: bool,
    ends: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("no failure")]
pub(crate) struct NoFailure;

impl TransportError for NoFailure {
    fn kind(&self) -> FailureKind {
        FailureKind::Other
    }
}

impl Transport for OnePiece {
    type Body = Piece;
    type Error = NoFailure;

    async fn send(&mut self, _: Get<'_>) -> Result<(Head, Piece), NoFailure> {
        match self.text.take() {
            Some(text) => Ok((
                Head::new(200),
                Piece {
                    text,
                    is_given: false,
                    ends: self.ends,
                },
            )),
            None => pending().await,
        }
    }
}

impl Body for Piece {
    type Error = NoFailure;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, NoFailure> {
        if self.is_given && self.ends {
            return Ok(None);
        }
        if self.is_given {
            return pending().await;
        }
        self.is_given = true;
        Ok(Some(self.text.as_bytes()))
    }
}

pub(crate) fn event(kind: &str, number: usize, version: usize) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p{number}","namespace":"a","uid":"u{number}","resourceVersion":"{version}"}}}}}}"#
    ) + "\n"
}

#[tokio::test(start_paused = true)]
async fn updates_in_the_same_piece_as_the_end_of_the_first_state_are_notified() {
    const PODS: usize = 1000;
    let mut text: String = (0..PODS).map(|i| event("ADDED", i, i + 1)).collect();
    text.push_str(r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1000","annotations":{"k8s.io/initial-events-end":"true"}}}}"#);
    text.push('\n');
    (0..PODS).for_each(|i| text.push_str(&event("MODIFIED", PODS - 1 - i, 1001 + i)));

    let pods = Resource::new("", "v1", "pods").kind("Pod");
    let transport = OnePiece {
        text: Some(text),
        ends: false,
    };
    let (pods, driver) = Informer::<Raw>::builder_for(&transport, pods)
        .initial(Initial::Stream)
        .build();
    let mut events = pods.subscribe();
    let driver = tokio::spawn(driver.run());
    let (mut added, mut synced, mut updated) = (0, 0, 0);
    while updated < PODS {
        match events.recv().await.unwrap() {
            Event::Added { .. } => added += 1,
            Event::Synced => synced += 1,
            Event::Updated { old, new } => {
                assert_eq!(old.key(), new.key());
                updated += 1;
            }
            Event::Replayed { .. } | Event::Deleted { .. } | _ => {
                panic!("nothing else happened")
            }
        }
    }
    assert_eq!((added, synced), (PODS, 1));
    pods.wait_until("2000").await.unwrap();
    driver.abort();
}
