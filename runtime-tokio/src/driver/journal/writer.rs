//! The thread that writes a journal.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use informer_core::{
    Report, Timer as _,
    report::{Phase, Problem},
};
use informer_journal::{FileError, FileJournal, LogError, Reached, Record, RecordLog as _, Retry};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::outbox::{Op, Operations, Outbox, Range, SharedState};
use super::source::SourceJournal;
use crate::timer::TokioTimer;

/// The longest delay before a failed journal is retried.
const RETRY_LIMIT: Duration = Duration::from_secs(300);

/// Writes the operations of the driver, step by step, on a blocking thread of the runtime.
pub(crate) struct Writer {
    inbox: mpsc::UnboundedReceiver<Operations>,
    wants_list: mpsc::Sender<()>,
    disk: Disk,
    /// Whether a failure was reported without a recovery since.
    has_failed: bool,
    sync_every: Duration,
}

/// The part that works on the blocking thread.
struct Disk {
    /// `None` if it could not be opened, or if it was lost in a panic.
    log: Option<FileJournal>,
    journal: SourceJournal,
    state: Arc<SharedState>,
}

/// A job for the blocking thread.
enum DiskJob {
    Write(Operations),
    Sync,
    /// Checks whether the journal can be written again.
    Probe,
}

impl SourceJournal {
    /// Creates both ends of the queue of records. If there is no log, or if it has already failed, it is retried.
    pub(crate) fn queue(
        self,
        log: Option<FileJournal>,
        restart: bool,
        has_failed: bool,
    ) -> (Outbox, Writer) {
        let (steps, inbox) = mpsc::unbounded_channel();
        let (wants_list, lists) = mpsc::channel(1);
        let state = Arc::new(SharedState {
            waiting: watch::Sender::new(0),
            broken: AtomicBool::new(restart || has_failed),
        });
        let outbox = Outbox {
            steps,
            state: Arc::clone(&state),
            room: None,
            lists,
            ops: Vec::new(),
            place: None,
        };
        let sync_every = self.sync_every;
        let writer = Writer {
            inbox,
            wants_list,
            disk: Disk {
                log,
                journal: self,
                state,
            },
            has_failed,
            sync_every,
        };
        (outbox, writer)
    }
}

impl Writer {
    /// Runs until the other end is dropped and everything is written and synced.
    pub(crate) async fn run(self, report: impl Fn(&Report<'_>)) {
        let Self {
            mut inbox,
            wants_list,
            mut disk,
            mut has_failed,
            sync_every,
        } = self;
        let mut timer = TokioTimer::default();
        let mut retry = Retry::up_to(RETRY_LIMIT);
        let mut sync_at: Option<Instant> = None;
        loop {
            let is_broken = disk.state.broken.load(Ordering::Acquire);
            let retry_at = (has_failed && is_broken).then(|| retry.due(timer.now()));
            let (work, is_last) = tokio::select! {
                biased;
                () = until(sync_at) => (DiskJob::Sync, false),
                () = until_due(&mut timer, retry_at) => {
                    retry.is_due(timer.now());
                    (DiskJob::Probe, false)
                }
                step = inbox.recv() => match step {
                    Some(step) => (DiskJob::Write(step), false),
                    None if sync_at.is_none() => return,
                    None => (DiskJob::Sync, true),
                },
            };
            let bytes = match &work {
                DiskJob::Write(step) => step.bytes(),
                DiskJob::Sync | DiskJob::Probe => 0,
            };
            sync_at = match work {
                DiskJob::Sync => None,
                DiskJob::Probe => sync_at,
                DiskJob::Write(_) => sync_at.or_else(|| Instant::now().checked_add(sync_every)),
            };
            let is_probe = matches!(work, DiskJob::Probe);
            let Some(mut done) = disk.run(work).await else {
                return;
            };
            if has_failed && matches!(done, Ok(Done::Committed)) {
                // A disk may report that it is full only on sync.
                match disk.run(DiskJob::Sync).await {
                    Some(Ok(_)) => {
                        has_failed = false;
                        retry.reset();
                        report(&Report::about(Phase::Journal, Problem::JournalRecovered));
                    }
                    Some(failed) => done = failed,
                    None => return,
                }
            }
            disk.state.waiting.send_modify(|waiting| {
                *waiting = waiting.saturating_sub(bytes);
            });
            match done {
                // There may be a pending request already.
                Ok(_) if is_probe => drop(wants_list.try_send(())),
                Ok(_) => {}
                // The failure has been reported already.
                Err(_) if is_probe => {}
                Err(message) => {
                    has_failed = true;
                    disk.state.broken.store(true, Ordering::Release);
                    let problem = Problem::Journal { message: &message };
                    report(&Report::about(Phase::Journal, problem));
                }
            }
            if is_last {
                return;
            }
        }
    }
}

async fn until_due(timer: &mut TokioTimer, at: Option<informer_core::Instant>) {
    match at {
        Some(at) => timer.sleep_until(at).await,
        None => core::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => core::future::pending().await,
    }
}

/// The result of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    /// A version was written, with all records that it covers.
    Committed,
    Nothing,
}

impl Disk {
    /// Does a job on a blocking thread. The error is its message. `None` if the runtime is shutting down.
    async fn run(&mut self, work: DiskJob) -> Option<Result<Done, String>> {
        let mut log = self.log.take();
        let (state, journal) = (Arc::clone(&self.state), self.journal.clone());
        let turned = tokio::task::spawn_blocking(move || {
            let done = match (work, &mut log) {
                (DiskJob::Write(step), Some(log)) => write(log, &step, &state),
                (DiskJob::Sync, Some(log)) if !state.broken.load(Ordering::Acquire) => {
                    sync(log).map(|()| Done::Nothing)
                }
                (DiskJob::Write(_) | DiskJob::Sync, _) => Ok(Done::Nothing),
                (DiskJob::Probe, _) => journal.probe(&mut log).map(|()| Done::Nothing),
            };
            (log, done.map_err(|error| error.to_string()))
        });
        match turned.await {
            Ok((log, done)) => {
                self.log = log;
                Some(done)
            }
            // The files are consistent anyway. They are opened again with the next attempt.
            Err(error) if error.is_panic() => Some(Err(format!("its writer panicked: {error}"))),
            Err(_) => None,
        }
    }
}

fn sync(log: &mut FileJournal) -> Result<(), LogError<FileError>> {
    log.sync()
}

fn write(
    log: &mut FileJournal,
    step: &Operations,
    state: &SharedState,
) -> Result<Done, LogError<FileError>> {
    let key = |(start, end): Range| step.keys.get(start..end).unwrap_or_default();
    let mut done = Done::Nothing;
    for op in &step.ops {
        if matches!(op, Op::Restart) {
            log.restart()?;
            state.broken.store(false, Ordering::Release);
            continue;
        }
        if state.broken.load(Ordering::Acquire) {
            // Skipped until the next list, since a part of a list is not a state of the server.
            continue;
        }
        let record = match op {
            Op::Restart => continue,
            Op::Put(name, (start, end)) => Record::Put {
                key: key(*name),
                object: step.objects.get(*start..*end).unwrap_or_default(),
            },
            Op::Delete(name) => Record::Delete { key: key(*name) },
            Op::Gone(key) => Record::Delete { key },
            Op::Stale(name) => Record::Stale { key: key(*name) },
            Op::Version {
                version,
                at,
                complete,
            } => {
                done = Done::Committed;
                Record::Version(Reached::new(version).at(*at).complete(*complete))
            }
            #[cfg(test)]
            Op::Panic => panic!("on purpose"),
        };
        log.append(record)?;
    }
    Ok(done)
}
