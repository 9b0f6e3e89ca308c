//! An informer under test, and everything observed of it.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use informer_core::decode::{Decode, Form};
use informer_tokio::informer::Builder;
use informer_tokio::transport::SendTransport;
use informer_tokio::{Informer, Raw};

use super::history::{compare, state_of};
use super::{History, Log, Outcome, Recorded, Table, Versions, until};

/// The time limit for an expected state.
const PATIENCE: Duration = Duration::from_secs(240);

/// Configures an informer before it is built.
pub type Watcher<T, F = Raw> = Builder<Recorded<T>, F>;

/// A running informer with a handler that records its history. Dropping it ends it.
pub struct Subject<F: Form = Raw> {
    /// The handle.
    pub informer: Informer<F>,
    /// Its requests.
    pub log: Log,
    /// The notifications of its handler.
    pub history: History,
    reports: Arc<Mutex<Vec<(&'static str, String)>>>,
    namespace: String,
}

impl Subject {
    /// Starts an informer of a table that stores raw objects.
    pub fn start<T>(
        transport: Recorded<T>,
        table: &Table,
        set: impl FnOnce(Watcher<T>) -> Watcher<T>,
    ) -> Self
    where
        T: Clone,
        Recorded<T>: SendTransport,
    {
        Self::of_form(transport, table, set)
    }
}

impl<F: Form> Subject<F> {
    /// Starts an informer of a table.
    pub fn of_form<T>(
        transport: Recorded<T>,
        table: &Table,
        set: impl FnOnce(Watcher<T, F>) -> Watcher<T, F>,
    ) -> Self
    where
        T: Clone,
        Recorded<T>: SendTransport,
        F::Decoder: Decode<Value = F::Stored> + Default + Send + Sync + 'static,
        F::Stored: Send + Sync + 'static,
    {
        let log = transport.log();
        let reports: Arc<Mutex<Vec<(&'static str, String)>>> = Arc::default();
        let heard = Arc::clone(&reports);
        let builder = Informer::<F>::builder_for(&transport, table.resource().as_ref()).on_report(
            move |report| {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                // Enough for every test, and bounded in case of a loop.
                if heard.len() < 10_000 {
                    heard.push((report.class(), report.to_string()));
                }
            },
        );
        let informer = set(builder).spawn();
        let history = History::default();
        // Whenever it joins, the handler is notified of what is there.
        let _ = informer.add_handler(history.clone());
        Self {
            informer,
            log,
            history,
            reports,
            namespace: table.namespace().to_owned(),
        }
    }

    /// Returns the number of reports of a class.
    #[must_use]
    pub fn reports(&self, class: &str) -> usize {
        let heard = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().filter(|(other, _)| *other == class).count()
    }

    /// Adds the number of reports of each class.
    pub fn count_reports(&self, counts: &mut BTreeMap<&'static str, usize>) {
        let heard = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        for (class, _) in heard.iter() {
            *counts.entry(class).or_default() += 1;
        }
    }

    /// Waits until it is synced.
    ///
    /// # Errors
    /// Fails if that takes too long.
    pub async fn synced(&self) -> Outcome {
        self.informer
            .synced_within(PATIENCE)
            .await
            .map_err(|error| format!("{error}\n{self}"))?;
        Ok(())
    }

    /// Waits until the cache shows an object at this version.
    ///
    /// # Errors
    /// Fails if that takes too long.
    pub async fn shows(&self, name: &str, version: &str) -> Outcome {
        let lister = self.informer.lister();
        let shows = || {
            let entry = lister.get(&self.namespace, name);
            entry.is_some_and(|entry| entry.resource_version().to_string() == version)
        };
        until(
            PATIENCE,
            format_args!("the cache shows {name} at {version}"),
            shows,
        )
        .await
        .map_err(|error| format!("{error}\n{self}").into())
    }

    /// Updates an object and waits until the cache shows it.
    ///
    /// # Errors
    /// Fails if the update fails or the cache takes too long.
    pub async fn follows(&self, table: &Table, name: &str, value: u64) -> Outcome {
        let version = table.update(name, value).await?;
        self.shows(name, &version).await
    }

    /// Requires a condition; the error shows all requests and reports.
    ///
    /// # Errors
    /// Fails if the condition does not hold.
    pub fn ensure(&self, holds: bool, what: impl fmt::Display) -> Outcome {
        super::ensure(holds, format_args!("{what}\n{self}"))
    }

    /// Returns how the cache and the handler's history differ from this state.
    #[must_use]
    pub fn differences(&self, truth: &Versions) -> Vec<String> {
        let cached = state_of(&self.informer.lister().list());
        let mut differences = compare("cached", &cached, "there is", truth);
        differences.extend(self.history.with(|book| book.differences(truth)));
        differences
    }

    /// Waits until the cache and the handler's history equal a fresh LIST.
    ///
    /// # Errors
    /// Fails if that takes too long, a deletion was notified twice, or the history contradicts itself.
    pub async fn agrees(&self, table: &Table) -> Outcome {
        let (truth, version) = table.list().await?;
        let mut differences = Vec::new();
        let agrees = || {
            differences = self.differences(&truth);
            differences.is_empty()
        };
        let agreed = until(
            PATIENCE,
            format_args!("all is as a list at {version} says"),
            agrees,
        )
        .await;
        differences.truncate(10);
        agreed.map_err(|error| format!("{error}\n{}\n{self}", differences.join("\n")).into())
    }
}

/// Formats the requests and the reports.
impl<F: Form> fmt::Display for Subject<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.log)?;
        let heard = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        for (class, message) in heard.iter().rev().take(20).rev() {
            writeln!(f, "! [{class}] {message}")?;
        }
        let [adds, updates, deletes, unseen] = self.history.with(|book| book.counts);
        writeln!(
            f,
            "notified: {adds} adds, {updates} updates, {deletes} deletions ({unseen} of them unseen)"
        )
    }
}

impl<F: Form> fmt::Debug for Subject<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<F: Form> Drop for Subject<F> {
    fn drop(&mut self) {
        self.informer.stop();
    }
}
