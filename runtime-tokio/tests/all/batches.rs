//! Data that arrives in one piece is one batch, and nothing in it is lost.

use core::future::{pending, poll_fn};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;
use std::sync::{Arc, Mutex};

use informer_core::transport::{FailureKind, TransportError};
use informer_tokio::informer::Initial;
use informer_tokio::transport::{Body, Get, Head, Transport};
use informer_tokio::{Event, Handlers, Informer, Raw, Resource};

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

fn end_of_first_state(version: usize) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
    ) + "\n"
}

#[tokio::test(start_paused = true)]
async fn updates_in_the_same_piece_as_the_end_of_the_first_state_are_notified() {
    const PODS: usize = 1000;
    let mut text: String = (0..PODS).map(|i| event("ADDED", i, i + 1)).collect();
    text.push_str(&end_of_first_state(1000));
    (0..PODS).for_each(|i| text.push_str(&event("MODIFIED", PODS - 1 - i, 1001 + i)));

    let pods = Resource::new("", "v1", "pods").kind("Pod");
    let transport = OnePiece {
        text: Some(text),
        ends: false,
    };
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let (pods, driver) = Informer::<Raw>::builder_for(&transport, pods)
        .initial(Initial::Stream)
        .on_version(move |version| hear.lock().unwrap().push(version.parse().unwrap()))
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
    let versions: Vec<usize> = (1001..=2000).collect();
    assert!(heard.lock().unwrap().ends_with(&versions));
    driver.abort();
}

/// A server whose next event arrives whenever the driver has applied the last one.
#[derive(Clone, Default)]
struct Fast {
    event: String,
    sent: usize,
    notified: Arc<AtomicUsize>,
    /// The most events that were sent and not notified.
    most: Arc<AtomicUsize>,
}

impl Transport for Fast {
    type Body = Self;
    type Error = NoFailure;

    async fn send(&mut self, _: Get<'_>) -> Result<(Head, Self), NoFailure> {
        Ok((Head::new(200), self.clone()))
    }
}

impl Body for Fast {
    type Error = NoFailure;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, NoFailure> {
        if self.event.is_empty() {
            self.event = end_of_first_state(1);
            return Ok(Some(self.event.as_bytes()));
        }
        if self.sent == Self::EVENTS {
            return pending().await;
        }
        // It is not there when the driver polls first, and then applies what it has.
        let mut is_there = false;
        poll_fn(|_| {
            if core::mem::replace(&mut is_there, true) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        let notified = self.notified.load(Ordering::Relaxed);
        self.most.fetch_max(self.sent - notified, Ordering::Relaxed);
        self.sent += 1;
        self.event = event("ADDED", self.sent, self.sent + 1);
        Ok(Some(self.event.as_bytes()))
    }
}

impl Fast {
    const EVENTS: usize = 300;
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_notified_of_each_event_while_more_keep_arriving() {
    let server = Fast::default();
    let pods = Resource::new("", "v1", "pods").kind("Pod");
    let (pods, driver) = Informer::<Raw>::builder_for(&server, pods)
        .initial(Initial::Stream)
        .build();
    let notified = Arc::clone(&server.notified);
    pods.add_handler(Handlers::new().on_add(move |_, _| {
        notified.fetch_add(1, Ordering::Relaxed);
    }));
    let driver = tokio::spawn(driver.run());
    pods.wait_until(&(Fast::EVENTS + 1).to_string())
        .await
        .unwrap();
    assert!(server.most.load(Ordering::Relaxed) <= 2);
    driver.abort();
}
