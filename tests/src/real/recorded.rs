//! A transport that records requests, so that a test can check for lists in one line.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use informer_core::{Head, Transport, transport::Get};
use informer_tokio::transport::{BoxChunk, BoxFuture, BoxSend, SendTransport};

/// A request and its result.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it was sent.
    pub at: Instant,
    /// Path and query.
    pub target: String,
    /// The HTTP status; `None` if there was no answer yet.
    pub status: Option<u16>,
}

impl Asked {
    /// Returns a parameter of the query in its encoded form.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        let (_, query) = self.target.split_once('?')?;
        query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            (key == name).then_some(value)
        })
    }

    /// Returns whether it requests the whole state: a list's page, or a watch that starts with the state.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.query("watch").is_none() || self.query("sendInitialEvents").is_some()
    }
}

/// Formats the verb, the version and the distinctive parameters.
impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match (self.query("watch"), self.query("sendInitialEvents")) {
            (None, _) => "LIST",
            (Some(_), Some(_)) => "STREAM",
            (Some(_), None) => "WATCH",
        };
        write!(
            f,
            "{verb} rv={}",
            self.query("resourceVersion").unwrap_or_default()
        )?;
        if let Some(limit) = self.query("limit") {
            write!(f, " limit={limit}")?;
        }
        if self.query("continue").is_some() {
            f.write_str(" continue")?;
        }
        match self.status {
            Some(200) => Ok(()),
            Some(status) => write!(f, " -> {status}"),
            None => f.write_str(" -> no answer"),
        }
    }
}

/// The requests so far. Clones share one log.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Asked>>>);

impl Log {
    /// Returns all requests.
    #[must_use]
    pub fn all(&self) -> Vec<Asked> {
        self.lock().clone()
    }

    /// Returns the number of lists started: first pages and streaming lists, not later pages.
    #[must_use]
    pub fn lists(&self) -> usize {
        let begins = |asked: &&Asked| asked.is_list() && asked.query("continue").is_none();
        self.lock().iter().filter(begins).count()
    }

    /// Returns the number of lists answered with status 200.
    #[must_use]
    pub fn answered_lists(&self) -> usize {
        let begins = |asked: &&Asked| {
            asked.is_list() && asked.query("continue").is_none() && asked.status == Some(200)
        };
        self.lock().iter().filter(begins).count()
    }

    /// Returns the number of watches that resume at a version.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.lock().iter().filter(|asked| !asked.is_list()).count()
    }

    /// Returns the number of watches that resume at a version and were answered with status 200.
    #[must_use]
    pub fn answered_watches(&self) -> usize {
        let opened = |asked: &&Asked| !asked.is_list() && asked.status == Some(200);
        self.lock().iter().filter(opened).count()
    }

    /// Notes a request.
    fn begin(&self, target: &str) -> usize {
        let mut log = self.lock();
        log.push(Asked {
            at: Instant::now(),
            target: target.to_owned(),
            status: None,
        });
        log.len() - 1
    }

    fn answered(&self, index: usize, head: &Head) {
        if let Some(asked) = self.lock().get_mut(index) {
            asked.status = Some(head.status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line per request.
impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.all();
        let began = asked.first().map(|asked| asked.at);
        for asked in &asked {
            let after = began.map_or(0.0, |began| (asked.at - began).as_secs_f32());
            writeln!(f, "{after:8.2} s  {asked}")?;
        }
        Ok(())
    }
}

/// A transport and its log.
#[derive(Clone, Debug)]
pub struct Recorded<T> {
    inner: T,
    log: Log,
    /// The timeout of watches in seconds; 0 leaves it as requested.
    watch_timeout: Arc<AtomicU64>,
}

impl<T> Recorded<T> {
    /// Starts a log.
    pub fn new(inner: T) -> Self {
        Self {
            inner,
            log: Log::default(),
            watch_timeout: Arc::default(),
        }
    }

    /// Makes the server end watches that are opened from now on after some seconds. Clones share this; 0 ends it.
    pub fn end_watches_after(&self, seconds: u64) {
        self.watch_timeout.store(seconds, Relaxed);
    }

    /// Returns the target of a request, with the timeout of watches replaced.
    fn target(&self, get: &Get<'_>) -> String {
        let seconds = self.watch_timeout.load(Relaxed);
        let target = get.target.to_owned();
        if seconds == 0 || !get.watch {
            return target;
        }
        let Some((head, tail)) = target.split_once("timeoutSeconds=") else {
            return target;
        };
        let rest = tail.trim_start_matches(|digit: char| digit.is_ascii_digit());
        format!("{head}timeoutSeconds={seconds}{rest}")
    }

    /// Starts another log, for another informer on the same connections.
    #[must_use]
    pub fn anew(&self) -> Self
    where
        T: Clone,
    {
        Self::new(self.inner.clone())
    }

    /// Returns the log.
    pub fn log(&self) -> Log {
        self.log.clone()
    }
}

impl<T: Transport + Send> Transport for Recorded<T> {
    type Body = T::Body;
    type Error = T::Error;

    async fn ready(&mut self) {
        self.inner.ready().await;
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, T::Body), T::Error> {
        let target = self.target(&get);
        let index = self.log.begin(&target);
        let mut get: Get<'_> = get;
        get.target = &target;
        let answer = self.inner.send(get).await?;
        self.log.answered(index, &answer.0);
        Ok(answer)
    }
}

impl<T: SendTransport> SendTransport for Recorded<T> {
    fn boxed_ready(&mut self) -> BoxFuture<'_, ()> {
        self.inner.boxed_ready()
    }

    fn boxed_send<'a>(&'a mut self, get: Get<'a>) -> BoxSend<'a, Self> {
        Box::pin(async move {
            let target = self.target(&get);
            let index = self.log.begin(&target);
            let mut get: Get<'_> = get;
            get.target = &target;
            let answer = self.inner.boxed_send(get).await?;
            self.log.answered(index, &answer.0);
            Ok(answer)
        })
    }

    fn boxed_chunk<E: Send + 'static>(
        body: &mut Self::Body,
        error: fn(Self::Error) -> E,
    ) -> BoxChunk<'_, E> {
        T::boxed_chunk(body, error)
    }
}
