//! Watches a resource until the end of the program, and prints events.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use super::terminal::written;
use informer::controller::StopSignal;
use informer::decode::Decode;
use informer::health::Level;
use informer::informer::Initial;
use informer::{Form, Informer};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, timeout};

use super::heard::{Heard, Outage};
use super::screen::Screen;
use super::table::Table;
use super::writer::{self, Line};
use super::{First, Options, Output, Target};

/// The longest time to write the last lines.
const LAST_LINES: Duration = Duration::from_secs(2);

/// The reason why the program ends.
enum Ending {
    /// A signal.
    Signal,
    /// The time limit.
    Time,
    /// Standard output cannot be written to.
    Written(io::Result<()>),
    /// The informer has ended, which only happens after a stop or a panic.
    Informer,
    /// The resource cannot be listed.
    Failed(String),
}

pub(crate) async fn watch<F>(
    options: Options,
    target: Target,
    decoder: F::Decoder,
    signal: &mut StopSignal,
) -> Result<(), String>
where
    F: Form<Stored: Send + Sync + 'static>,
    F::Decoder: Decode<Value = F::Stored> + Send + Sync + 'static,
{
    let server = target.transport.url();
    let resource = target.resource.as_ref();
    let namespace = options
        .namespace
        .as_deref()
        .filter(|_| !options.all_namespaces);
    let mut what = resource.plural.to_owned();
    if let Some(namespace) = namespace {
        what += &format!(" in the namespace {namespace}");
    }
    if options.selector.is_some() || options.field_selector.is_some() {
        what += " that match the selectors";
    }
    let has_namespaces = namespace.is_none();
    let mut screen = Screen::new(
        options.output,
        what,
        Table::new(target.columns, has_namespaces),
    );
    // Further reports are lost if standard output blocks; the summary counts all of them.
    let (report, mut reports) = mpsc::channel(256);
    let count = Arc::new(AtomicU64::new(0));
    let transport = target.transport.clone();
    let mut builder = Informer::<F>::builder_with(transport, resource, decoder)
        .resync(Duration::from_secs(options.resync))
        .initial(match options.initial {
            First::List => Initial::List,
            First::Stream => Initial::Stream,
        })
        .on_report({
            let is_table = options.output == Output::Table;
            let (all, count) = (!is_table && !options.client_go, Arc::clone(&count));
            move |it| {
                let is_problem = it.level > Level::Debug;
                count.fetch_add(u64::from(is_problem), Ordering::Relaxed);
                if is_problem || all {
                    let _ = report.try_send(Heard::of(it));
                }
            }
        });
    if let Some(namespace) = namespace {
        builder = builder.namespace(namespace);
    }
    if let Some(selector) = &options.selector {
        builder = builder.labels(selector);
    }
    if let Some(selector) = &options.field_selector {
        builder = builder.fields(selector);
    }
    if let Some(size) = options.page_size {
        builder = builder.page_size(size);
    }
    if let Some(seed) = options.seed {
        builder = builder.seed(seed);
    }
    if options.client_go {
        builder = builder.client_go();
    }
    let (informer, driver) = builder.build();
    let mut events = informer.subscribe();
    let driver = tokio::spawn(driver.run());
    let (lines, mut all_written) = writer::start();

    let mut follow = Follow {
        screen: &mut screen,
        informer: &informer,
        outage: None,
        advised: None,
        gives_up: !options.client_go,
    };
    let ending = {
        let ending = async {
            tokio::select! {
                () = signal.recv() => Ending::Signal,
                () = after(options.seconds) => Ending::Time,
                result = &mut all_written => Ending::Written(result.unwrap_or(Ok(()))),
            }
        };
        tokio::pin!(ending);
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            // Events stay in the subscription, which merges them, until there is room for another line.
            let room = tokio::select! {
                biased;
                ending = &mut ending => break ending,
                room = lines.reserve() => room,
            };
            let line = tokio::select! {
                biased;
                ending = &mut ending => break ending,
                _ = ticks.tick() => follow.tick(),
                // The objects of a list are printed before the failure of the watch that follows it.
                event = events.recv() => match event {
                    Some(event) => follow.screen.event(&event, &informer),
                    None => break Ending::Informer,
                },
                Some(heard) = reports.recv() => match follow.report(&heard) {
                    Ok(line) => line,
                    Err(message) => break Ending::Failed(format!("{server}: {message}")),
                },
            };
            // Without room the writer has ended, and the next iteration gets the reason.
            if let (Ok(room), Some(line)) = (room, line) {
                room.send(line);
            }
        }
    };

    let health = informer.health();
    informer.stop();
    let summary = match &ending {
        Ending::Written(_) => None,
        Ending::Failed(_) => screen.rows(),
        Ending::Signal | Ending::Time | Ending::Informer => {
            screen.summary(count.load(Ordering::Relaxed))
        }
    };
    let rest = async {
        let driver = driver.await;
        if let Some(line) = summary {
            // Without a receiver, `all_written` has the reason.
            let _ = lines.send(line).await;
        }
        drop(lines);
        (driver, all_written.await.unwrap_or(Ok(())))
    };
    match ending {
        Ending::Written(Ok(())) => Ok(()),
        Ending::Written(Err(error)) => written(error),
        Ending::Failed(message) => Err(message),
        Ending::Signal => tokio::select! {
            // A second signal ends the program at once.
            () = signal.recv() => Ok(()),
            rest = timeout(LAST_LINES, rest) => match rest {
                Ok((_, Err(error))) => written(error),
                // A user who ends the program need not read the rest.
                Ok((_, Ok(()))) | Err(_) => Ok(()),
            },
        },
        Ending::Time | Ending::Informer => match timeout(LAST_LINES, rest).await {
            Err(_) => Err("the last lines were not written in time".to_owned()),
            Ok((Err(error), _)) => Err(format!("the informer failed: {error}")),
            Ok((_, Err(error))) => written(error),
            Ok((Ok(()), Ok(()))) if health.synced || options.client_go => Ok(()),
            Ok((Ok(()), Ok(()))) => Err(match health.troubles().next() {
                Some(trouble) => format!("{server}: not synced yet: {trouble}"),
                None => format!("{server}: not synced yet: the list is not complete"),
            }),
        },
    }
}

/// Waits for this many seconds, or for ever.
async fn after(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        None => core::future::pending().await,
    }
}

/// The state besides events.
struct Follow<'a, F: Form> {
    screen: &'a mut Screen,
    informer: &'a Informer<F>,
    outage: Option<Outage>,
    /// The class of the last report with advice.
    advised: Option<&'static str>,
    /// Whether a permanent failure ends the program. client-go continues, and so does a controller.
    gives_up: bool,
}

impl<F: Form> Follow<'_, F> {
    /// Reports the end of an outage, or updates the status line.
    fn tick(&mut self) -> Option<Line> {
        if self.outage.is_some() && self.informer.health().troubles().next().is_none() {
            self.advised = None;
            let outage = self.outage.take()?;
            return Some(self.screen.recovered(&outage.over()));
        }
        self.screen.tick(&self.informer.health())
    }

    /// Prints a report. Returns an error that ends the program if nothing can be listed and never could.
    fn report(&mut self, heard: &Heard) -> Result<Option<Line>, String> {
        let health = self.informer.health();
        let advice = || {
            let trouble = health.last_error.as_ref();
            let same = trouble.filter(|trouble| trouble.class == heard.class);
            same.and_then(|trouble| trouble.advice.as_deref())
        };
        let is_refused = matches!(heard.class, "connection-refused" | "dns");
        if heard.is_permanent && (self.gives_up || is_refused) && !health.synced {
            return Err(match advice() {
                Some(advice) => format!("{}. {advice}", heard.last_text.trim_end_matches('.')),
                None => heard.last_text.clone(),
            });
        }
        Outage::note(&mut self.outage, heard);
        let is_news = heard.level >= Level::Error && self.advised != Some(heard.class);
        let advice = if is_news { advice() } else { None };
        if advice.is_some() {
            self.advised = Some(heard.class);
        }
        Ok(self.screen.report(heard, advice))
    }
}
