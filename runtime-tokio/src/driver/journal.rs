//! The persisted cache: what is kept in a file, and who writes it.

use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use informer_core::journal::{
    FileError, FileJournal, Identity, Loaded, LogError, Lost, Reached, Record, Retry,
};
use informer_core::{
    Report, Resource, Timer as _,
    report::{Phase, Problem},
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::timer::TokioTimer;

/// How many bytes may wait to be written. Where there are more, nothing is read from the server before they are.
const WAITING: usize = 8 << 20;
/// How long it takes at most until a journal that failed is tried again.
const RETRY_LIMIT: Duration = Duration::from_secs(300);

/// A cache that is kept in a file: it is served at once after a start, also where no API server can be reached.
///
/// The files are `PATH.0` and `PATH.1`; with several namespaces or parts each has two of its own, `PATH-….0` and
/// `PATH-….1`. The folder has to be there, and one informer at a time can have them. What is promised after a crash, and
/// what it costs, is in `docs/JOURNAL.md`.
///
/// The files hold the JSON of the objects, Secrets included, and are not encrypted. They are made with mode 0600, and wider
/// modes are tightened.
///
/// A journal that fails, on a full disk for example, is reported with the class `journal`. It is tried again after a
/// second and then up to every five minutes; once it can be written, one list fills it, and `journal-recovered` is reported.
///
/// ```
/// use informer_tokio::{Informer, Raw, Resource};
/// use informer_tokio::journal::Journal;
/// # async fn example(transport: informer_tokio::transport::BoxTransport) -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Journal::file("/var/lib/gateway/pods").cluster("edge-7");
/// let (pods, driver) = Informer::builder(transport, Resource::parse("pods")?, Raw)
///     .journal(journal)
///     .build();
/// tokio::spawn(driver.run());
/// pods.served().await?; // Within milliseconds, if there was a journal; else as soon as it is synced.
/// if let Some(since) = pods.stale_since() {
///     println!("these {} objects are of {since:?}", pods.lister().len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is for `Builder::journal`"]
pub struct Journal {
    path: PathBuf,
    cluster: String,
    sync_every: Duration,
}

impl Journal {
    /// Keeps it in files of this path, with `.0` and `.1` behind it.
    ///
    /// ```
    /// let journal = informer_tokio::journal::Journal::file("/var/lib/gateway/pods");
    /// ```
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cluster: String::new(),
            sync_every: Duration::from_secs(10),
        }
    }

    /// Names the cluster: a journal of another one is refused. The uid of the namespace `kube-system` is best, and the
    /// address of the server will do. Left out, journals of all clusters are taken for the same.
    ///
    /// ```
    /// let journal = informer_tokio::journal::Journal::file("pods").cluster("https://10.0.2.2:6443");
    /// ```
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets how long a change may wait until it would outlive a loss of power (`fdatasync`); the default is 10 seconds. A
    /// crash of the program alone loses nothing that was written. What is lost costs no more than that the watch is resumed
    /// at an older version: what is restored is a state that the server had in any case.
    ///
    /// ```
    /// # use core::time::Duration;
    /// let journal = informer_tokio::journal::Journal::file("pods").sync_every(Duration::from_secs(60));
    /// ```
    pub const fn sync_every(mut self, period: Duration) -> Self {
        self.sync_every = period;
        self
    }

    /// The journal of one source of an informer, which may have several.
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

    /// Makes the two ends between which records wait to be written. Without a log, or where it has failed already, it is
    /// tried again.
    pub(crate) fn queue(
        self,
        log: Option<FileJournal>,
        begin_anew: bool,
        has_failed: bool,
    ) -> (Outbox, Writer) {
        let (steps, inbox) = mpsc::unbounded_channel();
        let (wants_list, lists) = mpsc::channel(1);
        let state = Arc::new(State {
            waiting: watch::Sender::new(0),
            broken: AtomicBool::new(begin_anew || has_failed),
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

/// What the driver and the writer know of each other.
struct State {
    /// How many bytes wait to be written.
    waiting: watch::Sender<usize>,
    /// Nothing is written before the next list, which begins the journal anew. The writer sets and clears it.
    broken: AtomicBool,
}

/// What is to be written; texts are where they were gathered.
enum Op {
    /// Begin anew.
    Restart,
    /// The ranges of the key and of the object.
    Put(Range, Range),
    Delete(Range),
    /// An object that a list did not name.
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

/// Some of it, with the texts.
struct Step {
    ops: Vec<Op>,
    keys: String,
    objects: Vec<u8>,
}

impl Step {
    fn bytes(&self) -> usize {
        self.keys.len() + self.objects.len() + self.ops.len() * size_of::<Op>()
    }
}

/// Waits for room.
type Room = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Gathers what is to be written. Nothing here waits for a disk.
pub(crate) struct Outbox {
    steps: mpsc::UnboundedSender<Step>,
    state: Arc<State>,
    room: Option<Room>,
    /// The writer wants a list.
    lists: mpsc::Receiver<()>,
    ops: Vec<Op>,
    /// Where the texts of the next record are: its key, and what is kept of its object.
    place: Option<(Range, Range)>,
}

/// From where to where.
type Range = (usize, usize);

impl Outbox {
    /// Says where the texts of the next object are, which are handed on without a copy; `None` if no object is next.
    pub(crate) const fn at(&mut self, place: Option<(Range, Range)>) {
        self.place = place;
    }

    /// Hands on what was gathered, with its texts.
    pub(crate) fn send(&mut self, keys: &mut String, objects: &mut Vec<u8>) {
        if self.ops.is_empty() {
            objects.clear();
            return;
        }
        let has_objects = self.ops.iter().any(|op| matches!(op, Op::Put(..)));
        let step = Step {
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
        // Without a writer nobody waits for room any more.
        let _ = self.steps.send(step);
    }

    /// Waits until there is room for more, or nobody writes any more.
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

    /// Waits until the journal, which had failed, wants a list.
    pub(crate) fn poll_list(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.lists.poll_recv(cx) {
            Poll::Ready(Some(())) => Poll::Ready(()),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// The far end writes: it has loaded the journal, syncs it, and reports its failures.
impl informer_core::journal::Journal for Outbox {
    type Error = core::convert::Infallible;

    fn load(
        &mut self,
        _identity: &Identity,
        _take: &mut dyn FnMut(Record<'_>),
        _lost: &mut dyn FnMut(Lost),
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
            // Each object has a place.
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

/// Writes what the driver gathers, on a thread of the runtime for blocking work, one step after another.
pub(crate) struct Writer {
    inbox: mpsc::UnboundedReceiver<Step>,
    wants_list: mpsc::Sender<()>,
    disk: Disk,
    /// A failure was reported, and no recovery from it.
    has_failed: bool,
    sync_every: Duration,
}

/// What works on the other thread.
struct Disk {
    /// `None` where it could not be opened, or was lost with a panic.
    log: Option<FileJournal>,
    journal: SourceJournal,
    state: Arc<State>,
}

/// What is to be done there.
enum Work {
    Write(Step),
    Sync,
    /// Find out whether it can be written again.
    Probe,
}

impl Writer {
    /// Works until the other end is gone and all is written and synced.
    pub(crate) async fn run(self, report: impl Fn(&Report<'_>)) {
        let Self {
            mut inbox,
            wants_list,
            mut disk,
            mut has_failed,
            sync_every,
        } = self;
        let mut timer = TokioTimer::new();
        let mut retry = Retry::up_to(RETRY_LIMIT);
        let mut sync_at: Option<Instant> = None;
        loop {
            let is_broken = disk.state.broken.load(Ordering::Acquire);
            let retry_at = (has_failed && is_broken).then(|| retry.due(timer.now()));
            let (work, is_last) = tokio::select! {
                biased;
                () = until(sync_at) => (Work::Sync, false),
                () = until_due(&mut timer, retry_at) => {
                    retry.is_due(timer.now());
                    (Work::Probe, false)
                }
                step = inbox.recv() => match step {
                    Some(step) => (Work::Write(step), false),
                    None if sync_at.is_none() => return,
                    None => (Work::Sync, true),
                },
            };
            let bytes = match &work {
                Work::Write(step) => step.bytes(),
                Work::Sync | Work::Probe => 0,
            };
            sync_at = match work {
                Work::Sync => None,
                Work::Probe => sync_at,
                Work::Write(_) => sync_at.or_else(|| Instant::now().checked_add(sync_every)),
            };
            let is_probe = matches!(work, Work::Probe);
            let Some(mut done) = disk.turn(work).await else {
                return;
            };
            if has_failed && matches!(done, Ok(Done::Committed)) {
                // A disk may find out that it is full only when it is synced.
                match disk.turn(Work::Sync).await {
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
                // There may be a request already.
                Ok(_) if is_probe => drop(wants_list.try_send(())),
                Ok(_) => {}
                // It was reported that it failed.
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

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    /// A version was written, with all that it covers.
    Committed,
    Nothing,
}

impl Disk {
    /// Does something on another thread; the error says what failed. `None` where the runtime ends.
    async fn turn(&mut self, work: Work) -> Option<Result<Done, String>> {
        let mut log = self.log.take();
        let (state, journal) = (Arc::clone(&self.state), self.journal.clone());
        let turned = tokio::task::spawn_blocking(move || {
            let done = match (work, &mut log) {
                (Work::Write(step), Some(log)) => write(log, &step, &state),
                (Work::Sync, Some(log)) if !state.broken.load(Ordering::Acquire) => {
                    sync(log).map(|()| Done::Nothing)
                }
                (Work::Write(_) | Work::Sync, _) => Ok(Done::Nothing),
                (Work::Probe, _) => journal.probe(&mut log).map(|()| Done::Nothing),
            };
            (log, done.map_err(|error| error.to_string()))
        });
        match turned.await {
            Ok((log, done)) => {
                self.log = log;
                Some(done)
            }
            // What is in the files is whole all the same. They are opened again when it is tried again.
            Err(error) if error.is_panic() => Some(Err(format!("its writer panicked: {error}"))),
            Err(_) => None,
        }
    }
}

impl SourceJournal {
    /// Begins an area and syncs it. That leaves the state of the other area as it is, and shows whether the files can be
    /// written again.
    fn probe(&self, log: &mut Option<FileJournal>) -> Result<(), LogError<FileError>> {
        use informer_core::journal::Journal as _;
        let log = match log {
            Some(log) => log,
            None => {
                let mut opened = self.open()?;
                // It finds out which area is valid. The cache has newer objects than the journal by now.
                opened.load(&self.identity, &mut |_| (), &mut |_| ())?;
                log.insert(opened)
            }
        };
        log.restart()?;
        log.sync()
    }
}

fn sync(log: &mut FileJournal) -> Result<(), LogError<FileError>> {
    use informer_core::journal::Journal as _;
    log.sync()
}

fn write(log: &mut FileJournal, step: &Step, state: &State) -> Result<Done, LogError<FileError>> {
    use informer_core::journal::Journal as _;
    let key = |(start, end): Range| step.keys.get(start..end).unwrap_or_default();
    let mut done = Done::Nothing;
    for op in &step.ops {
        if matches!(op, Op::Restart) {
            log.restart()?;
            state.broken.store(false, Ordering::Release);
            continue;
        }
        if state.broken.load(Ordering::Acquire) {
            // Up to the next list: a part of what it brings is no state of the server.
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

/// The time, in milliseconds since 1970.
pub(crate) fn now() -> Option<u64> {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
}

/// A time in milliseconds since 1970; where it is not known, 1970 itself: nothing says that it was not then.
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

    /// Runs a writer on files in a folder of its own; what it reports is in the list.
    fn start(folder: &std::path::Path) -> (Outbox, Arc<Mutex<Vec<String>>>) {
        use informer_core::journal::Journal as _;
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

        // The files are opened again, and the list makes the journal whole.
        outbox.begin();
        assert!(outbox.is_anew());
        put(&mut outbox, 100);
        outbox.complete();
        outbox.reached(&ResourceVersion::<Key>::new("7"), true);
        outbox.journal().send(&mut String::new(), &mut Vec::new());
        while reports.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let reported = reports.lock().unwrap().join("; ");
        assert!(
            reported.ends_with("the journal is whole again"),
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
