//! The persisted cache: what is kept in a file, and who writes it.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use informer_core::journal::{FileError, FileJournal, Identity, LogError, Reached, Record};
use informer_core::{Phase, Problem, Report, Resource, ResourceVersion};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::entry::Key;

/// How many bytes may wait to be written. Where there are more, nothing is read from the server before they are.
const WAITING: usize = 8 << 20;

/// A cache that is kept in a file: it is served at once after a start, also where no API server can be reached.
///
/// The files are `PATH.0` and `PATH.1`; with several namespaces or parts each has two of its own, `PATH-….0` and
/// `PATH-….1`. The folder has to be there, and one informer at a time can have them. What is promised after a crash, and
/// what it costs, is in `docs/JOURNAL.md`.
///
/// ```
/// use informer_tokio::{Informer, Journal, Raw, Resource};
/// # async fn example(transport: informer_tokio::BoxTransport) -> Result<(), Box<dyn std::error::Error>> {
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
    /// let journal = informer_tokio::Journal::file("/var/lib/gateway/pods");
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
    /// let journal = informer_tokio::Journal::file("pods").cluster("https://10.0.2.2:6443");
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
    /// let journal = informer_tokio::Journal::file("pods").sync_every(Duration::from_secs(60));
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
pub(crate) struct SourceJournal {
    path: PathBuf,
    pub(crate) identity: Identity,
    sync_every: Duration,
}

impl SourceJournal {
    pub(crate) fn open(&self) -> Result<FileJournal, FileError> {
        FileJournal::open(&self.path)
    }

    /// Makes the two ends between which records wait to be written.
    pub(crate) fn queue(&self, log: FileJournal, begin_anew: bool) -> (Outbox, Writer) {
        let (steps, inbox) = mpsc::unbounded_channel();
        let state = Arc::new(State {
            waiting: watch::Sender::new(0),
            broken: AtomicBool::new(begin_anew),
        });
        let outbox = Outbox {
            steps,
            state: Arc::clone(&state),
            room: None,
            ops: Vec::new(),
            in_list: false,
            whole: false,
            written: None,
        };
        let writer = Writer {
            inbox,
            state,
            log,
            sync_every: self.sync_every,
        };
        (outbox, writer)
    }
}

/// What the driver and the writer know of each other.
struct State {
    /// How many bytes wait to be written.
    waiting: watch::Sender<usize>,
    /// Nothing is written before the next list, which begins the journal anew.
    broken: AtomicBool,
}

/// What is to be written; texts are where they were gathered.
enum Op {
    /// Begin anew.
    Restart,
    /// The ranges of the key and of the object.
    Put((usize, usize), (usize, usize)),
    Delete((usize, usize)),
    /// One that a list did not name.
    Gone(Key),
    Stale((usize, usize)),
    Version {
        version: String,
        at: Option<u64>,
        complete: bool,
    },
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
    ops: Vec<Op>,
    in_list: bool,
    /// The journal was begun anew, and has nothing yet of what is in the cache.
    whole: bool,
    /// The version that was written last.
    written: Option<ResourceVersion<Key>>,
}

impl Outbox {
    /// A list begins.
    pub(crate) fn begin(&mut self) {
        self.in_list = true;
        if self.state.broken.swap(false, Ordering::AcqRel) {
            self.whole = true;
            self.ops.push(Op::Restart);
        }
    }

    /// Whether an object that is in the cache as it is has to be written all the same.
    pub(crate) const fn wants_all(&self) -> bool {
        self.whole
    }

    /// An object came: the ranges of its key and of what is kept of it.
    pub(crate) fn put(&mut self, key: (usize, usize), object: (usize, usize)) {
        self.ops.push(Op::Put(key, object));
    }

    /// An object is gone.
    pub(crate) fn delete(&mut self, key: (usize, usize)) {
        self.ops.push(Op::Delete(key));
    }

    /// An object is gone that a list did not name.
    pub(crate) fn gone(&mut self, key: &Key) {
        self.ops.push(Op::Gone(key.clone()));
    }

    /// The newest state of an object could not be used.
    pub(crate) fn stale(&mut self, key: (usize, usize)) {
        self.ops.push(Op::Stale(key));
    }

    /// A list is complete.
    pub(crate) fn complete(&mut self, version: &ResourceVersion<Key>, complete: bool) {
        (self.in_list, self.whole) = (false, false);
        self.written = None;
        self.reached(version, complete);
    }

    /// The server says that it is still so.
    pub(crate) fn still(&mut self) {
        self.written = None;
    }

    /// A version was reached with all that came before.
    pub(crate) fn reached(&mut self, version: &ResourceVersion<Key>, complete: bool) {
        // What is in the middle of a list is no state of the server.
        let is_news = !self.ops.is_empty() || self.written.as_ref() != Some(version);
        if self.in_list || !is_news || !version.is_known() {
            return;
        }
        self.ops.push(Op::Version {
            version: version.to_string(),
            at: now(),
            complete,
        });
        self.written = Some(version.clone());
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
        if self.steps.send(step).is_ok() {
            self.state.waiting.send_modify(|waiting| *waiting += bytes);
        }
    }

    /// Waits until there is room for more.
    pub(crate) fn poll_room(&mut self, cx: &mut core::task::Context<'_>) -> core::task::Poll<()> {
        if self.room.is_none() {
            if *self.state.waiting.borrow() < WAITING {
                return core::task::Poll::Ready(());
            }
            let mut waiting = self.state.waiting.subscribe();
            self.room = Some(Box::pin(async move {
                // The sender is in the state, which the writer has.
                let _ = waiting.wait_for(|waiting| *waiting < WAITING).await;
            }));
        }
        let waited = match &mut self.room {
            Some(room) => room.as_mut().poll(cx),
            None => core::task::Poll::Ready(()),
        };
        if waited.is_ready() {
            self.room = None;
        }
        waited
    }
}

/// Writes what the driver gathers, on a thread of the runtime for blocking work, one step after another.
pub(crate) struct Writer {
    inbox: mpsc::UnboundedReceiver<Step>,
    state: Arc<State>,
    log: FileJournal,
    sync_every: Duration,
}

/// What a turn on the other thread came to.
type Turn = (FileJournal, Result<(), LogError<FileError>>);

impl Writer {
    /// Works until the other end is gone and all is written and synced.
    pub(crate) async fn run(self, report: impl Fn(&Report<'_>)) {
        let Self {
            mut inbox,
            state,
            mut log,
            sync_every,
        } = self;
        let mut sync_at: Option<Instant> = None;
        loop {
            let step = match sync_at {
                None => inbox.recv().await.map(Some),
                Some(at) => tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(at) => Some(None),
                    step = inbox.recv() => step.map(Some),
                },
            };
            let is_last = step.is_none();
            let step = step.flatten();
            let bytes = step.as_ref().map_or(0, Step::bytes);
            let is_sync = step.is_none();
            if is_sync && sync_at.is_none() {
                return;
            }
            // Where it panicked, or the runtime ends, there is no journal any more, and what is there is whole.
            let Some((turned, done)) = turn(log, step, Arc::clone(&state)).await else {
                return;
            };
            log = turned;
            if let Err(error) = done {
                state.broken.store(true, Ordering::Release);
                let message = error.to_string();
                report(&Report::about(
                    Phase::Journal,
                    Problem::Journal { message: &message },
                ));
            }
            state.waiting.send_modify(|waiting| *waiting -= bytes);
            sync_at = match sync_at {
                _ if is_sync => None,
                None => Instant::now().checked_add(sync_every),
                Some(at) => Some(at),
            };
            if is_last {
                return;
            }
        }
    }
}

/// Writes a step, or syncs where there is none.
async fn turn(mut log: FileJournal, step: Option<Step>, state: Arc<State>) -> Option<Turn> {
    use informer_core::journal::Journal as _;
    let turned = tokio::task::spawn_blocking(move || {
        let done = match &step {
            Some(step) => write(&mut log, step, &state),
            None if state.broken.load(Ordering::Acquire) => Ok(()),
            None => log.sync(),
        };
        (log, done)
    });
    turned.await.ok()
}

fn write(log: &mut FileJournal, step: &Step, state: &State) -> Result<(), LogError<FileError>> {
    use informer_core::journal::Journal as _;
    let key = |(start, end): (usize, usize)| step.keys.get(start..end).unwrap_or_default();
    for op in &step.ops {
        if matches!(op, Op::Restart) {
            log.restart()?;
            continue;
        }
        let record = match op {
            Op::Restart => continue,
            Op::Put(name, (start, end)) => Record::Put {
                key: key(*name),
                object: step.objects.get(*start..*end).unwrap_or_default(),
            },
            Op::Delete(name) => Record::Delete { key: key(*name) },
            Op::Gone(key) => Record::Delete { key: key.as_str() },
            Op::Stale(name) => Record::Stale { key: key(*name) },
            Op::Version {
                version,
                at,
                complete,
            } => Record::Version(Reached::new(version).at(*at).complete(*complete)),
        };
        match log.append(record) {
            // It was said before, and the next list will mend it.
            Err(LogError::Broken) => state.broken.store(true, Ordering::Release),
            done => done?,
        }
    }
    Ok(())
}

/// The time, in milliseconds since 1970.
fn now() -> Option<u64> {
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
