//! The spans and events that `tracing` gets of informers. `docs/HEALTH.md` lists their names and fields.

use core::hash::{BuildHasher as _, Hasher as _};
use core::time::Duration;
use std::hash::RandomState;

use informer_core::report::{Level, OneLine, Problem};
use informer_core::{Head, OwnedResource, Report, Transport, transport::Get};
use tracing::{Instrument as _, Span, field::Empty};

use crate::cache::entry::{Key, place};

/// Where the objects of a source come from.
#[derive(Clone, Default, Debug)]
pub(crate) struct Origin {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) cluster: String,
}

/// Returns a span of a source. `None` is a field that is missing.
macro_rules! span_of {
    ($level:ident, $name:literal, $informer:expr, $origin:expr) => {
        tracing::$level!(
            $name,
            informer = $informer,
            resource = $origin.resource,
            namespace = known(&$origin.namespace),
            cluster = known(&$origin.cluster),
            initial_events = Empty,
            error = Empty,
            otel.status_code = Empty,
        )
    };
}

/// The span of a list, with all its pages.
pub(crate) fn list(informer: &str, origin: &Origin) -> Span {
    span_of!(info_span, "list", informer, origin)
}

/// The span of a watch, or of a streaming list that continues as a watch.
pub(crate) fn watch(informer: &str, origin: &Origin) -> Span {
    span_of!(info_span, "watch", informer, origin)
}

/// The span of the list of an audit.
pub(crate) fn audit(informer: &str, origin: &Origin) -> Span {
    span_of!(info_span, "audit", informer, origin)
}

/// The span of a probe.
pub(crate) fn probe(informer: &str, origin: &Origin) -> Span {
    span_of!(debug_span, "probe", informer, origin)
}

/// Logs a report. A warning or an error is the result of the span, if there is one.
pub(crate) fn report(
    span: &Span,
    informer: &str,
    origin: &Origin,
    report: &Report<'_>,
    advice: Option<&str>,
) {
    let class = report.class();
    let status = if let Problem::Answer { status, .. } = report.problem {
        (status > 0).then_some(status)
    } else {
        None
    };
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(
                parent: span,
                informer,
                class,
                resource = known(&origin.resource),
                namespace = known(&origin.namespace),
                cluster = known(&origin.cluster),
                key = report.key().map(|key| tracing::field::display(OneLine(key))),
                status,
                delay = report.retry_in.map(|delay| delay.as_secs_f64()),
                advice,
                "{report}"
            )
        };
    }
    match report.level {
        Level::Debug => event!(debug),
        Level::Info => event!(info),
        Level::Warn => event!(warn),
        Level::Error | _ => event!(error),
    }
    if report.level >= Level::Warn {
        span.record("error", class);
        span.record("otel.status_code", "ERROR");
    }
}

/// The span of a run of a controller. Its id differs from those of other runs, also of other processes.
pub(crate) fn run(controller: &str, resource: &OwnedResource, key: &Key, attempt: u32) -> Span {
    let (cluster, namespace) = place(key.as_str());
    tracing::info_span!(
        "reconcile",
        run = %format_args!("{:016x}", RandomState::new().build_hasher().finish()),
        controller,
        %resource,
        namespace = known(namespace),
        cluster = known(cluster),
        key = %OneLine(key),
        attempt,
        result = Empty,
        delay = Empty,
        otel.status_code = Empty,
    )
}

/// Records the result of a run, and the delay until the next one of the key if it is known.
pub(crate) fn run_ended(span: &Span, result: &str, delay: Option<Duration>) {
    span.record("result", result);
    if let Some(delay) = delay {
        span.record("delay", delay.as_secs_f64());
    }
    if matches!(result, "error" | "panic" | "timeout") {
        span.record("otel.status_code", "ERROR");
    }
}

/// Logs the end of an outage.
pub(crate) fn recovered(span: &Span, informer: &str, origin: &Origin, line: &str) {
    tracing::info!(
        parent: span,
        informer,
        resource = known(&origin.resource),
        namespace = known(&origin.namespace),
        cluster = known(&origin.cluster),
        "{line}"
    );
}

fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Returns the span of a request, which ends with the head of its response.
pub(crate) fn request(method: &str, path: &str) -> Span {
    tracing::debug_span!(
        "request",
        otel.kind = "client",
        method,
        path,
        status = Empty,
        error = Empty,
        otel.status_code = Empty,
    )
}

/// Records the answer to a request, or its error.
pub(crate) fn answered<T, E: core::fmt::Display>(
    span: &Span,
    answer: &Result<T, E>,
    status: impl FnOnce(&T) -> u16,
) {
    let is_refused = match answer {
        Ok(answer) => {
            let status = status(answer);
            span.record("status", status);
            status >= 400
        }
        Err(error) => {
            span.record("error", tracing::field::display(OneLine(error)));
            true
        }
    };
    if is_refused {
        span.record("otel.status_code", "ERROR");
    }
}

/// A transport whose requests have spans, in the one that `within` returns.
pub(crate) struct Traced<T, P> {
    pub(crate) transport: T,
    pub(crate) within: P,
}

impl<T: Transport, P: Fn() -> Span> Transport for Traced<T, P> {
    type Body = T::Body;
    type Error = T::Error;

    async fn ready(&mut self) {
        self.transport.ready().await;
    }

    async fn send(&mut self, get: Get<'_>) -> Result<(Head, T::Body), T::Error> {
        let span = (self.within)().in_scope(|| request("GET", get.target));
        let sent = self.transport.send(get).instrument(span.clone()).await;
        answered(&span, &sent, |(head, _)| head.status);
        sent
    }
}
