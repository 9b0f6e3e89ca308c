//! An object that is too large is never buffered whole. A separate test process, because all its allocations are
//! counted.

use core::convert::Infallible;
use core::fmt;
use std::sync::{Arc, Mutex};

use informer_core::Form;
use informer_mock::{Body, FailureKind, Get, Head, Transport, TransportError};
use informer_tests::memory::Counting;
use informer_tests::say;
use informer_tests::support::{next, shown};
use informer_tokio::decode::Decode;
use informer_tokio::informer::Initial;
use informer_tokio::{Informer, Meta, Raw, Resource};
use serde::Deserialize;

#[global_allocator]
static MEMORY: Counting = Counting::new();

const MIB: usize = 1024 * 1024;
/// The default frame limit.
const LIMIT: usize = 16 * MIB;

#[derive(Deserialize)]
#[expect(dead_code, reason = "it is decoded, and that is all")]
struct Pod {
    metadata: PodMeta,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "it is decoded, and that is all")]
struct PodMeta {
    name: String,
}

/// A minimal server that uses almost no memory: a list of one Pod, and a watch with a large Pod and another one. The
/// list and the watch both contain an object of `size` bytes, which is generated while it is read.
#[derive(Clone, Copy)]
struct Server {
    size: usize,
    chunk: usize,
}

/// A text in which `@` is replaced by padding.
struct Filled {
    text: &'static str,
    fill: usize,
    hold: bool,
    chunk: Vec<u8>,
}

impl Transport for Server {
    type Body = Filled;
    type Error = Never;

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, Filled), Never> {
        let text = if get.watch {
            concat!(
                r#"{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"11"},"data":"@"}}"#,
                r#"{"type":"ADDED","object":{"metadata":{"name":"c","resourceVersion":"12"}}}"#,
            )
        } else {
            concat!(
                r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":["#,
                r#"{"metadata":{"name":"b","resourceVersion":"5"},"data":"@"},"#,
                r#"{"metadata":{"name":"a","resourceVersion":"6"}}]}"#,
            )
        };
        let body = Filled {
            text,
            fill: self.size,
            hold: get.watch,
            chunk: Vec::with_capacity(self.chunk),
        };
        Ok((Head::new(200), body))
    }
}

impl Body for Filled {
    type Error = Never;

    async fn chunk(&mut self) -> Result<Option<&[u8]>, Never> {
        let most = self.chunk.capacity();
        self.chunk.clear();
        let (before, after) = self.text.split_once('@').unwrap_or((self.text, ""));
        if self.text.starts_with('@') && self.fill > 0 {
            let size = self.fill.min(most);
            self.fill -= size;
            self.chunk.resize(size, b'x');
        } else if self.text.starts_with('@') {
            self.text = after;
            self.chunk.extend_from_slice(after.as_bytes());
            self.text = "";
        } else if self.text.is_empty() {
            if self.hold {
                return core::future::pending().await;
            }
            return Ok(None);
        } else {
            self.chunk.extend_from_slice(before.as_bytes());
            self.text = &self.text[before.len()..];
        }
        Ok(Some(&self.chunk))
    }
}

#[derive(Debug)]
struct Never(Infallible);

impl TransportError for Never {
    fn kind(&self) -> FailureKind {
        match self.0 {}
    }
}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

/// Reads a list and a watch with an object of `size` bytes; returns the peak of the memory allocated for it.
async fn peak<F>(size: usize, chunk: usize) -> usize
where
    F: Form<Stored: Send + Sync + 'static>,
    F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
{
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    let before = MEMORY.reset_peak();
    let (informer, driver) = Informer::<F>::builder_for(
        &Server { size, chunk },
        Resource::new("", "v1", "pods").kind("Pod"),
    )
    .initial(Initial::List)
    .on_report(move |report| {
        let mut reported = reported.lock().expect("nobody panics with it");
        reported.push(report.class());
    })
    .build();
    let mut events = informer.subscribe();
    let driver = tokio::spawn(driver.run());
    for expected in ["++a@6", "synced", "+c@12"] {
        assert_eq!(shown(&next(&mut events).await), expected, "{size} bytes");
    }
    let peak = MEMORY.peak() - before;
    assert_eq!(
        *reports.lock().expect("nobody panics with it"),
        ["object-too-large"; 2],
        "{size} bytes"
    );
    informer.stop();
    driver.await.expect("no panic");
    peak
}

/// The frame buffer uses the limit, and everything else less than a MiB.
async fn is_not_held(chunk: usize) {
    for size in [20 * MIB, 100 * MIB] {
        for (form, peak) in [
            ("raw", peak::<Raw>(size, chunk).await),
            ("metadata", peak::<Meta>(size, chunk).await),
            ("typed", peak::<Pod>(size, chunk).await),
        ] {
            say(&format!(
                "an object of {} MiB in chunks of {} kiB, {form}: at most {:.1} MiB",
                size / MIB,
                chunk / 1024,
                peak as f64 / MIB as f64
            ));
            assert!(
                peak <= LIMIT + MIB,
                "{form}: {peak} bytes for an object of {size}"
            );
        }
    }
}

/// All allocations are counted, so one test runs at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_is_not_held() {
    let _alone = ALONE.lock().await;
    is_not_held(64 * 1024).await;
}

/// The same if doubling the buffer does not hit the limit exactly.
#[tokio::test(start_paused = true)]
async fn the_frame_buffer_grows_to_its_limit_and_no_further() {
    let _alone = ALONE.lock().await;
    is_not_held(48 * 1024).await;
}
