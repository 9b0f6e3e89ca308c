//! Probes: lists of one object at the newest version, which show how old the cache is.

use core::time::Duration;
use std::sync::Arc;

use informer_core::cache::SourceId;
use informer_core::{
    Decoder, Frame, Instant, Meta, Reflector, ReflectorConfig, Report, ResourceVersion, Sink,
    Timer as _, Transport, drive,
    report::{Phase, Problem},
};
use tracing::{Instrument as _, Span};

use crate::cache::entry::{Key, Store};
use crate::cache::shared::Inner;
use crate::driver::guard::Guarded;
use crate::spans;
use crate::timer::TokioTimer;

/// The longest time for a probe.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a watch may take to reach the version of a probe. An idle one receives a bookmark about once a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// A source that is probed.
pub(crate) struct Probed<V> {
    pub(crate) inner: Arc<Inner<V>>,
    pub(crate) source: SourceId,
    pub(crate) config: ReflectorConfig,
    pub(crate) seed: u64,
    pub(crate) timer: TokioTimer,
    pub(crate) period: Duration,
}

impl<V> Probed<V> {
    /// Probes until the informer stops. The caller drops it when the source leaves.
    pub(crate) async fn run<T: Transport>(self, transport: T) {
        let mut transport = Guarded::traced(transport, Span::current);
        let mut status = self.inner.status.subscribe();
        let mut timer = self.timer;
        self.inner
            .source(self.source, |source| source.freshness.probes_begin());
        let probing = async {
            let mut has_failed = false;
            loop {
                let span = self.inner.new_span(self.source, spans::probe);
                has_failed = !self
                    .probe(&mut transport, has_failed)
                    .instrument(span)
                    .await;
                self.look_for_a_lag();
                timer.sleep_until(timer.now() + self.period).await;
            }
        };
        tokio::select! {
            biased;
            // An error would mean that the sender is dropped, but `inner` holds it.
            _ = status.wait_for(|status| status.stopping) => {}
            () = probing => {}
        }
    }

    /// Returns whether the probe succeeded. Failures after a failed probe are not reported.
    async fn probe<T: Transport>(&self, transport: &mut T, has_failed: bool) -> bool {
        let resource = self
            .inner
            .source(self.source, |source| source.resource.clone());
        let Some(resource) = resource else {
            return false;
        };
        let began = self.inner.clock.now();
        let mut reflector: Reflector<_, Store> =
            Reflector::new(resource, self.config.clone(), self.seed)
                .probe()
                .with_decoder(&Decoder::<Meta>::new());
        let mut page = Page {
            inner: &self.inner,
            is_quiet: has_failed,
            version: None,
            failure: String::new(),
        };
        let mut timer = self.timer;
        let driving = drive(&mut reflector, transport, &mut timer, &mut page);
        let _ = tokio::time::timeout(LIMIT, driving).await;
        let Some(version) = page.version else {
            return false;
        };
        let reached = self.inner.cache().version(self.source).cloned();
        let reached = reached.unwrap_or_default();
        self.inner.source(self.source, |source| {
            source.freshness.probed(began, &version, &reached);
        });
        true
    }

    fn look_for_a_lag(&self) {
        let now = self.inner.clock.now();
        let lag = self
            .inner
            .source(self.source, |source| source.freshness.lags(now, PATIENCE));
        if let Some(lag) = lag.flatten() {
            let problem = Problem::WatchLags { lag };
            self.inner.report(&Report::about(Phase::Audit, problem));
        }
    }
}

/// The sink of a probe.
struct Page<'a, V> {
    inner: &'a Inner<V>,
    is_quiet: bool,
    version: Option<ResourceVersion<Key>>,
    /// The text of the transport's last error.
    failure: String,
}

impl<V> Page<'_, V> {
    fn say(&self, report: &Report<'_>) {
        if !self.is_quiet {
            self.inner.report(report);
        }
    }
}

impl<V> Sink<Key> for Page<'_, V> {
    fn frame(&mut self, _now: Instant, frame: Frame<'_, Key>) {
        match frame {
            Frame::Complete { version } => self.version = Some(version.clone()),
            Frame::Report(report) => self.say(&report),
            Frame::Begin | Frame::Object(_) | Frame::Bookmark { .. } | Frame::Internal | _ => {}
        }
    }

    fn flush(&mut self, _now: Instant, _version: &ResourceVersion<Key>) {}

    fn report(&mut self, _now: Instant, report: Report<'_>) {
        self.say(&report.with_detail(&self.failure));
    }

    fn failure(&mut self, _now: Instant, error: &dyn core::fmt::Display) {
        self.failure = error.to_string();
    }
}
