//! The persisted cache: its files, and the thread that writes them.

use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use informer_core::journal::{
    FileError, FileJournal, Identity, Loaded, LogError, LostRecords, Reached, Record, Retry,
};
use informer_core::{
    Report, Resource, Timer as _,
    report::{Phase, Problem},
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::timer::TokioTimer;

/// The most bytes that may be pending. Above this, nothing is read from the server until they are written.
const WAITING: usize = 8 << 20;
/// The longest delay before a failed journal is retried.
const RETRY_LIMIT: Duration = Duration::from_secs(300);

/// A cache that is stored in a file, so that it can be served immediately after a restart, even without a reachable API
/// server.
///
/// The files are `PATH.0` and `PATH.1`. With several namespaces or shards, each has two files of its own, `PATH-….0`
/// and `PATH-….1`. The folder must exist, and only one informer at a time can use the files. `docs/JOURNAL.md`
/// describes the guarantees after a crash and the cost.
///
/// The files contain the JSON of the objects, including Secrets, without encryption. They are created with mode 0600,
/// and wider modes are tightened.
///
/// A journal that fails, for example on a full disk, is reported with the class `journal`. It is retried after a second
/// and then at intervals of up to five minutes. Once it can be written, one relist fills it, and `journal-recovered` is
/// reported.
///
/// ```
/// use informer_tokio::{Informer, Raw, Resource};
/// use informer_tokio::journal::Journal;
/// # async fn example(transport: informer_tokio::transport::BoxTransport) -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Journal::file("/var/lib/gateway/pods").cluster("edge-7");
/// let (pods, driver) = Informer::<Raw>::builder_for(&transport, Resource::parse("pods")?)
///     .journal(journal)
///     .build();
/// tokio::spawn(driver.run());
/// pods.served().await?; // Within milliseconds with a journal, and otherwise once it is synced.
/// if let Some(since) = pods.stale_since() {
///     println!("{} objects, possibly stale since {since:?}", pods.lister().len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `Builder::journal`"]
pub struct Journal {
    path: PathBuf,
    cluster: String,
    sync_every: Duration,
}

impl Journal {
    /// Creates a journal in two files: this path with `.0` and `.1` appended.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cluster: String::new(),
            sync_every: Duration::from_secs(10),
        }
    }

    /// Sets the name of the cluster. A journal of another cluster is rejected. The uid of the namespace `kube-system`
    /// is the best name, and the address of the server is sufficient. Without a name, journals of all clusters are
    /// considered equal.
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets how long a change may remain unsynced (`fdatasync`), and so be lost in a power failure. The default is 10
    /// seconds.
    ///
    /// A crash of the program alone loses nothing that was written. A loss only means that the watch resumes at an
    /// older version: the restored state is always one that the server had.
    pub const fn sync_every(mut self, period: Duration) -> Self {
        self.sync_every = period;
        self
    }

    /// The journal of one source of an informer.
    pub(crate) fn of_source(
        &self,
        resource: &Resource<'_>,
        decoder: u64,
        is_one_of_many: bool,
    ) -> SourceJournal {
        let identity = Identity::new(&self.cluster, resource, decoder);
        let mut path = self.path.clone().into_os_string();
        if is_one_of_many {
            path.push(format!("-{}", identity.source()));
        }
        SourceJournal {
            path: path.into(),
            identity,
            sync_every: self.sync_every,
        }
    }
}

/// The journal of one source.
#[derive(Clone)]
pub(crate) struct SourceJournal {
    path: PathBuf,
    pub(crate) identity: Identity,
    sync_every: Duration,
}

impl SourceJournal {
    pub(crate) fn open(&self) -> Result<FileJournal, FileError> {
        FileJournal::open(&self.path)
    }

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

/// The state that the driver and the writer share.
struct SharedState {
    /// The number of pending bytes.
    waiting: watch::Sender<usize>,
    /// Whether nothing is written until the next list, which restarts the journal. Set and cleared by the writer.
    broken: AtomicBool,
}

/// A pending operation. Its texts are in the buffers of its step.
enum Op {
    /// Restarts the journal.
    Restart,
    /// Stores an object, given by the ranges of its key and its data.
    Put(Range, Range),
    Delete(Range),
    /// Deletes an object that a list did not contain.
    Gone(Box<str>),
    Stale(Range),
    Version {
        version: String,
        at: Option<u64>,
        complete: bool,
    },
    #[cfg(test)]
    Panic,
}

/// Several operations, with their texts.
struct Operations {
    ops: Vec<Op>,
    keys: String,
    objects: Vec<u8>,
}

impl Operations {
    fn bytes(&self) -> usize {
        self.keys.len() + self.objects.len() + self.ops.len() * size_of::<Op>()
    }
}

/// A future that resolves when there is room.
type Room = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Gathers the operations for the writer. Nothing here waits for a disk.
pub(crate) struct Outbox {
    steps: mpsc::UnboundedSender<Operations>,
    state: Arc<SharedState>,
    room: Option<Room>,
    /// Requests of the writer for a list.
    lists: mpsc::Receiver<()>,
    ops: Vec<Op>,
    /// The ranges of the next record's key and data.
    place: Option<(Range, Range)>,
}

/// Start and end.
pub(crate) type Range = (usize, usize);

impl Outbox {
    /// Sets the ranges of the next object's texts, which are passed on without a copy. `None` if no object is next.
    pub(crate) const fn at(&mut self, place: Option<(Range, Range)>) {
        self.place = place;
    }

    /// Passes on the gathered operations with their texts.
    pub(crate) fn send(&mut self, keys: &mut String, objects: &mut Vec<u8>) {
        if self.ops.is_empty() {
            objects.clear();
            return;
        }
        let has_objects = self.ops.iter().any(|op| matches!(op, Op::Put(..)));
        let step = Operations {
            ops: core::mem::take(&mut self.ops),
            keys: core::mem::take(keys),
            objects: if has_objects {
                core::mem::take(objects)
            } else {
                Vec::new()
            },
        };
        objects.clear();
        let bytes = step.bytes();
        self.state.waiting.send_modify(|waiting| *waiting += bytes);
        // Without a writer, nothing waits for room any more.
        let _ = self.steps.send(step);
    }

    /// Waits until there is room for more, or until the writer has ended.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (state, steps) = (&self.state, &self.steps);
        let room = match &mut self.room {
            Some(room) => room,
            None if *state.waiting.borrow() < WAITING => return Poll::Ready(()),
            None => {
                let (mut waiting, steps) = (state.waiting.subscribe(), steps.clone());
                self.room.insert(Box::pin(async move {
                    tokio::select! {
                        _ = waiting.wait_for(|waiting| *waiting < WAITING) => {}
                        () = steps.closed() => {}
                    }
                }))
            }
        };
        let waited = room.as_mut().poll(cx);
        if waited.is_ready() {
            self.room = None;
        }
        waited
    }

    /// Waits until a journal that had failed requests a list.
    pub(crate) fn poll_list(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.lists.poll_recv(cx) {
            Poll::Ready(Some(())) => Poll::Ready(()),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// The other end does the work: it loads the journal, syncs it and reports failures.
impl informer_core::journal::RecordLog for Outbox {
    type Error = core::convert::Infallible;

    fn load(
        &mut self,
        _identity: &Identity,
        _take: &mut dyn FnMut(Record<'_>),
        _lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Loaded, Self::Error> {
        Ok(Loaded::Empty)
    }

    fn append(&mut self, record: Record<'_>) -> Result<(), Self::Error> {
        let op = match (record, self.place.take()) {
            (Record::Put { .. }, Some((key, object))) => Op::Put(key, object),
            (Record::Delete { .. }, Some((key, _))) => Op::Delete(key),
            (Record::Delete { key }, None) => Op::Gone(key.into()),
            (Record::Stale { .. }, Some((key, _))) => Op::Stale(key),
            (Record::Version(reached), _) => Op::Version {
                version: reached.version.to_owned(),
                at: reached.at,
                complete: reached.complete,
            },
            // Every object has its ranges set.
            _ => return Ok(()),
        };
        self.ops.push(op);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn compact(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.state.broken.load(Ordering::Acquire)
    }

    fn restart(&mut self) -> Result<(), Self::Error> {
        self.ops.push(Op::Restart);
        Ok(())
    }
}

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
                        retry.settle();
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

impl SourceJournal {
    /// Starts an area and syncs it. This leaves the state of the other area intact, and shows whether the files can be
    /// written again.
    fn probe(&self, log: &mut Option<FileJournal>) -> Result<(), LogError<FileError>> {
        use informer_core::journal::RecordLog as _;
        let log = match log {
            Some(log) => log,
            None => {
                let mut opened = self.open()?;
                // This determines which area is valid. The cache already has newer objects than the journal.
                opened.load(&self.identity, &mut |_| (), &mut |_| ())?;
                log.insert(opened)
            }
        };
        log.restart()?;
        log.sync()
    }
}

fn sync(log: &mut FileJournal) -> Result<(), LogError<FileError>> {
    use informer_core::journal::RecordLog as _;
    log.sync()
}

fn write(
    log: &mut FileJournal,
    step: &Operations,
    state: &SharedState,
) -> Result<Done, LogError<FileError>> {
    use informer_core::journal::RecordLog as _;
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

/// The current time, in milliseconds since 1970.
pub(crate) fn now() -> Option<u64> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
}

/// Converts a time in milliseconds since 1970. An unknown time becomes 1970, the earliest possible one.
pub(crate) fn moment(at: Option<u64>) -> SystemTime {
    let since_1970 = Duration::from_millis(at.unwrap_or(0));
    SystemTime::UNIX_EPOCH
        .checked_add(since_1970)
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use std::sync::Mutex;

    use informer_core::ResourceVersion;
    use informer_core::journal::{Recorder, Recording as _};

    use crate::cache::entry::Key;

    use super::*;

    /// Runs a writer on files in a separate folder. The list collects its reports.
    fn start(folder: &std::path::Path) -> (Outbox, Arc<Mutex<Vec<String>>>) {
        use informer_core::journal::RecordLog as _;
        let pods = Resource::new("", "v1", "pods");
        let source = Journal::file(folder.join("pods")).of_source(&pods, 0, false);
        let mut log = source.open().unwrap();
        log.load(&source.identity, &mut |_| (), &mut |_| ())
            .unwrap();
        let (outbox, writer) = source.queue(Some(log), false, false);
        let reports = Arc::<Mutex<Vec<String>>>::default();
        let list = Arc::clone(&reports);
        tokio::spawn(writer.run(move |report| list.lock().unwrap().push(report.to_string())));
        (outbox, reports)
    }

    fn put(outbox: &mut Recorder<Outbox>, size: usize) {
        let (mut keys, mut objects) = ("prod/web".to_owned(), vec![b' '; size]);
        outbox.journal().at(Some(((0, keys.len()), (0, size))));
        let (key, object) = (keys.as_str(), objects.as_slice());
        outbox.append(Record::Put { key, object });
        outbox.journal().send(&mut keys, &mut objects);
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_that_panics_is_reported_and_holds_nobody_back() {
        let folder = tempfile::tempdir().unwrap();
        let (outbox, reports) = start(folder.path());
        let mut outbox = Recorder::new(outbox);
        outbox.journal().ops.push(Op::Panic);
        put(&mut outbox, WAITING);
        assert!(*outbox.journal().state.waiting.borrow() >= WAITING);
        poll_fn(|cx| outbox.journal().poll_room(cx)).await;
        poll_fn(|cx| outbox.journal().poll_list(cx)).await;
        let reported = reports.lock().unwrap().join("; ");
        assert!(reported.contains("its writer panicked"), "{reported}");

        // The files are opened again, and the list makes the journal complete.
        outbox.begin();
        assert!(outbox.is_restarted());
        put(&mut outbox, 100);
        outbox.complete();
        outbox.reached(&ResourceVersion::<Key>::new("7"), true);
        outbox.journal().send(&mut String::new(), &mut Vec::new());
        while reports.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let reported = reports.lock().unwrap().join("; ");
        assert!(
            reported.ends_with("the journal is complete again"),
            "{reported}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_room_without_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let pods = Resource::new("", "v1", "pods");
        let source = Journal::file(folder.path().join("pods")).of_source(&pods, 0, false);
        let (outbox, writer) = source.queue(None, true, true);
        let mut outbox = Recorder::new(outbox);
        put(&mut outbox, WAITING);
        let mut cx = Context::from_waker(core::task::Waker::noop());
        assert!(outbox.journal().poll_room(&mut cx).is_pending());
        drop(writer);
        poll_fn(|cx| outbox.journal().poll_room(cx)).await;
    }
}
