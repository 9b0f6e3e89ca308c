//! Reports, and the functions of the user.

use core::sync::atomic::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use informer_core::Report;
use informer_core::cache::SourceId;
use informer_core::report::{Level, Phase, Problem};
use tokio::time::Instant;
use tracing::Span;

use super::Inner;
use crate::cache::entry::SharedObject;
use crate::cache::panics::{Panic, catch, message};
use crate::health::source::{Noted, Recovered};
use crate::health::unheard;
use crate::spans::{self, Origin};

/// Called with every report.
pub(crate) type OnReport = Arc<dyn Fn(&Report<'_>) + Send + Sync>;

/// The names of user-defined functions in reports.
pub(crate) const METRICS: &str = "the metrics recorder";
pub(crate) const MAP: &str = "the function of `watches`";
pub(crate) const ON_VERSION: &str = "`on_version`";
const DROP: &str = "the drop of an object";
const ON_REPORT: &str = "`on_report`";
pub(super) const TRACING: &str = "the tracing subscriber";

/// What the informer remembers of its reports and of its end.
#[derive(Default)]
pub(super) struct Last {
    report: Option<Noted>,
    pub(super) ended: Option<Instant>,
    pub(super) stopping: Option<Instant>,
    /// The reason why the driver ended without a stop request.
    failure: Option<Noted>,
    /// The number of panics in each user-defined function, by its name.
    hook_panics: BTreeMap<&'static str, u64>,
    /// The number of reports of each class.
    reports: BTreeMap<&'static str, u64>,
    /// The classes of problems without a source that were written to stderr.
    said: BTreeSet<&'static str>,
}

impl<V> Inner<V> {
    /// Reports a problem that does not belong to a source.
    pub(crate) fn report(&self, report: &Report<'_>) {
        self.report_of(None, report);
    }

    /// Reports a problem of a source.
    pub(crate) fn report_of(&self, source: Option<SourceId>, report: &Report<'_>) {
        self.log(source, report);
        *self.last().reports.entry(report.class()).or_default() += 1;
        // A warning is no error: the server answered the request.
        if report.level >= Level::Info && !matches!(report.problem, Problem::Warning { .. }) {
            let noted = Noted::of(report);
            if Noted::is_of_a_request(report)
                && let Some(source) = source
            {
                self.source(source, |source| source.note(noted.clone()));
                // What waits for the first list of the source may go on.
                self.source_changed();
            }
            self.last().report = Some(noted);
        }
        if let Some(on_report) = &self.on_report {
            self.hook(ON_REPORT, || on_report(report));
        } else if self.speaks.load(Ordering::Relaxed) {
            self.say(source, report);
        }
    }

    /// Logs a report within the list or watch in progress, or else within the span of the caller.
    fn log(&self, source: Option<SourceId>, report: &Report<'_>) {
        let (span, origin) = self.place(source);
        // Once in an outage.
        let of_source = source
            .filter(|_| Noted::is_of_a_request(report))
            .and_then(|id| self.source(id, |source| source.advised.insert(report.class())));
        let advice = of_source.filter(|is_first| *is_first).and_then(|_| {
            Noted::of(report)
                .trouble(&self.resource, Instant::now())
                .advice
        });
        self.hook(TRACING, || {
            spans::report(&span, &self.name, &origin, report, advice.as_deref());
        });
    }

    /// Logs that requests of a source succeed again.
    pub(super) fn recovered(&self, source: SourceId, recovered: Recovered) {
        let (span, origin) = self.place(Some(source));
        let line = format!(
            "requests succeed again, after {:.1} s",
            recovered.after.as_secs_f32()
        );
        self.hook(TRACING, || {
            spans::recovered(&span, &self.name, &origin, &line);
        });
        if recovered.was_said {
            unheard::say(&format!("informer {}: {line}", self.name));
        }
    }

    /// Returns the span of a source, or else of the caller, and where its objects come from.
    fn place(&self, source: Option<SourceId>) -> (Span, Origin) {
        let of_source =
            source.and_then(|id| self.source(id, |source| (source.span.clone(), source.origin())));
        match of_source {
            Some((span, origin)) if span.is_none() => (Span::current(), origin),
            Some(place) => place,
            None => {
                let origin = Origin {
                    resource: self.resource.to_string(),
                    ..Origin::default()
                };
                (Span::current(), origin)
            }
        }
    }

    /// Writes a problem to stderr that nobody hears of otherwise: each class once until a request succeeds.
    fn say(&self, source: Option<SourceId>, report: &Report<'_>) {
        let class = report.class();
        let missing = source.and_then(|id| self.source(id, |source| !source.is_complete));
        let least = match missing {
            // The program waits for its first list.
            Some(true) if Noted::is_of_a_request(report) => Level::Info,
            _ => Level::Error,
        };
        let was_said = source
            .and_then(|source| self.source(source, |source| source.said.contains(class)))
            .unwrap_or_else(|| self.last().said.contains(class));
        if report.level < least || was_said {
            return;
        }
        let trouble = Noted::of(report).trouble(&self.resource, Instant::now());
        let advice = trouble
            .advice
            .map_or_else(String::new, |advice| format!(". {advice}"));
        let line = format!("informer {}: {}{advice}", self.name, trouble.message);
        if unheard::say(&line) {
            let noted = source.and_then(|id| self.source(id, |source| source.said.insert(class)));
            if noted.is_none() {
                self.last().said.insert(class);
            }
        }
    }

    /// Sets whether problems are written to stderr if nobody hears of them otherwise.
    pub(crate) fn speak(&self, speaks: bool) {
        self.speaks.store(speaks, Ordering::Relaxed);
    }

    /// The last report.
    pub(crate) fn last_report(&self) -> Option<Noted> {
        self.last().report.clone()
    }

    /// Calls a user-defined function. Its first panic is reported, and all panics are counted.
    pub(crate) fn hook(&self, name: &'static str, call: impl FnOnce()) {
        if let Err(panic) = catch(call) {
            self.hook_panicked(name, &panic);
        }
    }

    /// Counts a panic of a user-defined function, and reports the first one.
    pub(crate) fn hook_panicked(&self, name: &'static str, panic: &Panic) {
        let count = {
            let mut last = self.last();
            let count = last.hook_panics.entry(name).or_default();
            *count += 1;
            *count
        };
        // A report of `on_report` is also passed to `on_report`, so this condition ends a recursion too.
        if count == 1 {
            let problem = Problem::HookPanicked {
                hook: name,
                message: message(&**panic),
            };
            self.report(&Report::about(Phase::Driver, problem));
        }
    }

    /// Returns the number of panics in user-defined functions.
    pub(crate) fn hook_panics(&self) -> u64 {
        self.last().hook_panics.values().sum()
    }

    /// Returns the number of reports of each class.
    pub(crate) fn reports(&self) -> BTreeMap<&'static str, u64> {
        self.last().reports.clone()
    }

    /// Drops objects, which can run user-defined code.
    pub(crate) fn discard(&self, objects: impl IntoIterator<Item = SharedObject<V>>) {
        for object in objects {
            self.hook(DROP, || drop(object));
        }
    }

    /// Reports that the driver ended without a stop request.
    pub(crate) fn driver_failed(&self, reason: &str, level: Level) {
        let mut report = Report::about(Phase::Driver, Problem::DriverEnded { reason });
        report.level = level;
        {
            let mut last = self.last();
            if last.stopping.is_some() || last.ended.is_some() || last.failure.is_some() {
                return;
            }
            last.failure = Some(Noted::of(&report));
        }
        self.report(&report);
    }

    /// Returns the reason why the driver ended without a stop request.
    pub(crate) fn failure(&self) -> Option<Noted> {
        self.last().failure.clone()
    }

    pub(super) fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the stop request, and the time at which the informer ended.
    pub(crate) fn stopped(&self) -> (Option<Instant>, Option<Instant>) {
        let last = self.last();
        (last.stopping, last.ended)
    }
}
