//! A server with fixed answers, for measuring an informer without a network.

use core::fmt;
use std::collections::VecDeque;

use informer_core::{
    Body, Head, Transport,
    transport::{FailureKind, Get, TransportError},
};

use crate::data::DataSet;

/// The number of bytes of a body that arrive at once.
const CHUNK: usize = 64 << 10;

/// The answers to successive requests. Requests after the last answer are never answered.
#[derive(Clone, Debug, Default)]
pub struct Script(VecDeque<Answer>);

#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    stays_open: bool,
}

impl Script {
    /// Adds a list of these Pods.
    #[must_use]
    pub fn list<'a>(self, pods: impl Iterator<Item = &'a [u8]>, version: u64) -> Self {
        let mut body = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":["#
        )
        .into_bytes();
        for (number, pod) in pods.enumerate() {
            if number > 0 {
                body.push(b',');
            }
            body.extend_from_slice(pod);
        }
        body.extend_from_slice(b"]}");
        self.answer(200, body, false)
    }

    /// Adds a watch with these events that stays open after them.
    #[must_use]
    pub fn watch<'a>(self, events: impl Iterator<Item = &'a [u8]>) -> Self {
        self.answer(200, lines(events), true)
    }

    /// Adds a watch whose version has expired.
    #[must_use]
    pub fn expired(self) -> Self {
        let body = br#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}"#;
        self.answer(200, body.to_vec(), false)
    }

    fn answer(mut self, status: u16, body: Vec<u8>, stays_open: bool) -> Self {
        self.0.push_back(Answer {
            status,
            body,
            stays_open,
        });
        self
    }

    /// Passes each body to `take`, in chunks.
    pub fn chunks(&self, mut take: impl FnMut(usize, &[u8])) {
        for (number, answer) in self.0.iter().enumerate() {
            answer
                .body
                .chunks(CHUNK)
                .for_each(|chunk| take(number, chunk));
        }
    }
}

/// A list of all Pods of a data set, and a watch with all of its events.
#[must_use]
pub fn list_and_watch(set: &DataSet) -> Script {
    Script::default()
        .list(set.pods.iter(), set.list_version())
        .watch(set.events.iter())
}

fn lines<'a>(events: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    for event in events {
        body.extend_from_slice(event);
        body.push(b'\n');
    }
    body
}

/// No answer of a script fails.
#[derive(Clone, Copy, Debug)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl TransportError for Never {
    fn kind(&self) -> FailureKind {
        match *self {}
    }
}

impl Transport for Script {
    type Body = Bytes;
    type Error = Never;

    async fn send(&mut self, _get: Get<'_>) -> Result<(Head, Bytes), Never> {
        match self.0.pop_front() {
            Some(answer) => Ok((
                Head::new(answer.status),
                Bytes {
                    body: answer.body,
                    taken: 0,
                    stays_open: answer.stays_open,
                },
            )),
            None => core::future::pending().await,
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
pub struct Bytes {
    body: Vec<u8>,
    taken: usize,
    stays_open: bool,
}

impl Body for Bytes {
    type Error = Never;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Never> {
        let start = self.taken;
        self.taken = self.body.len().min(start + CHUNK);
        match self.body.get(start..self.taken) {
            Some(chunk) if !chunk.is_empty() => Ok(Some(chunk)),
            _ if self.stays_open => core::future::pending().await,
            _ => Ok(None),
        }
    }
}
