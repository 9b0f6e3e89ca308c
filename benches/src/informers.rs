//! Whole informers as cases: on tokio, with a journal, with handlers, and in fixed storage.
//!
//! As in [`cases`](crate::cases), each is a separate function that is not inlined.

use core::hint::black_box;
use std::path::Path;

use informer_core::cache::SourceId;
use informer_core::{
    Cache, Decode, Decoder, End, Head, Heap, Inline, Instant, Listeners, Notification, Object,
    Output, PolledInformer, Raw, RawObject, ReflectorConfig, RequestId, Resource, ResourceVersion,
    Step, Storage, Uid,
    cache::CacheConfig,
    cache::Recording,
    json,
    listeners::ListenerConfig,
    reflector::{Change, Initial},
};
use informer_journal::{FileJournal, Recorder};
use tokio::runtime::Builder;

use crate::cases::Input;
use crate::data::DataSet;
use crate::script::{Script, list_and_watch};

const PODS: Resource<'static> = Resource::new("", "v1", "pods").kind("Pod");
const SEED: u64 = 7;

/// The input of the cases.
#[derive(Debug)]
pub struct Work {
    list: Script,
    updates: Script,
    sweep: Script,
    /// A folder with a journal of all Pods.
    folder: tempfile::TempDir,
    /// The version of the list.
    listed: u64,
    /// The version of the last update.
    updated: u64,
}

impl Work {
    /// Makes the scripts, and a journal to start from.
    #[must_use]
    pub fn new(pods: u64) -> Self {
        let set = DataSet::generate(pods, pods * 5);
        let few = set.pods.len() / 10;
        // Nothing can be measured without a folder for temporary files.
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let work = Self {
            list: Script::default().list(set.pods.iter(), set.list_version()),
            updates: list_and_watch(&set),
            sweep: Script::default()
                .list(set.pods.iter(), set.list_version())
                .expired()
                .list(set.pods.iter().take(few), set.list_version() + 1),
            folder,
            listed: set.list_version(),
            updated: set.list_version() + set.events.len() as u64,
        };
        record(&work.list, &work.path("restart"));
        work
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs an informer on tokio until it has applied everything up to a version.
fn drive(script: &Script, version: u64) {
    // Paused: a backoff takes no time.
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs nothing of the system");
    runtime.block_on(async {
        let (pods, driver) = informer_tokio::Informer::<Raw>::builder_for(script, PODS)
            .seed(SEED)
            .decoders(0)
            .initial(Initial::List)
            .build();
        let mut events = pods.subscribe();
        let driver = tokio::spawn(driver.run());
        pods.wait_until(&version.to_string()).await.ok();
        pods.stop();
        while let Some(event) = events.recv().await {
            black_box(&event);
        }
        driver.await.ok();
    });
}

/// Lists into an informer on tokio.
#[inline(never)]
pub fn case_drive_list(input: &Input) {
    drive(&input.work.list, input.work.listed);
}

/// Lists into an informer on tokio, which then watches five updates of each Pod.
#[inline(never)]
pub fn case_drive_update(input: &Input) {
    drive(&input.work.updates, input.work.updated);
}

/// Lists into an informer on tokio, and relists after the watch has expired, when most Pods are deleted.
#[inline(never)]
pub fn case_drive_sweep(input: &Input) {
    drive(&input.work.sweep, input.work.listed + 1);
}

fn listen(input: &Input, handlers: usize) {
    let mut listeners: Listeners<&str, u64> = Listeners::default();
    let ids: Vec<_> = (0..handlers)
        .map(|_| listeners.join(ListenerConfig::default(), [], true))
        .collect();
    let mut events: Vec<Notification<(&str, u64)>> = Vec::new();
    for round in 0..10 {
        for key in input.keys() {
            listeners.append(Notification::Added {
                entry: (&key, &round),
                is_in_initial_list: false,
            });
        }
        for id in &ids {
            while listeners.take(*id, 64, &mut events) {}
            black_box(&events);
            events.clear();
        }
    }
}

/// Notifies one handler of ten changes of each Pod.
#[inline(never)]
pub fn case_listener(input: &Input) {
    listen(input, 1);
}

/// Notifies eight handlers of ten changes of each Pod.
#[inline(never)]
pub fn case_listeners_8(input: &Input) {
    listen(input, 8);
}

/// Replays every object ten times.
#[inline(never)]
pub fn case_resync(input: &Input) {
    let mut cache: Cache<Object<u64, Box<str>>, Heap> = Cache::new(CacheConfig::default(), 1, SEED);
    cache.apply(SourceId::FIRST, Step::Begin, &mut ()).ok();
    for key in input.keys() {
        let object = Object::new(Uid::new(key), ResourceVersion::new("1"), 0);
        cache
            .apply(
                SourceId::FIRST,
                Step::object(Change::Listed, key, object),
                &mut (),
            )
            .ok();
    }
    cache
        .apply(
            SourceId::FIRST,
            Step::Complete(ResourceVersion::new("9")),
            &mut (),
        )
        .ok();
    for _ in 0..10 {
        cache.resync();
        while let Some(notification) = cache.pop() {
            black_box(&notification);
        }
    }
}

/// Runs an informer of the core over a script; `take` receives the data.
fn feed<I: Core>(
    script: &Script,
    informer: &mut I,
    mut take: impl FnMut(Instant, RequestId, &[u8], &mut I),
) {
    let now = Instant::from_micros(1);
    let mut current = None;
    script.chunks(|answer, chunk| {
        let id = match current {
            Some((number, id)) if number == answer => id,
            earlier => {
                if let Some((_, id)) = earlier {
                    informer.end(now, id);
                }
                let id = informer.begin(now);
                current = Some((answer, id));
                id
            }
        };
        take(now, id, chunk, informer);
        informer.drain();
    });
}

/// The methods that [`feed`] needs of an informer of any storage.
trait Core {
    /// Accepts its next request and answers with 200.
    fn begin(&mut self, now: Instant) -> RequestId;
    fn end(&mut self, now: Instant, id: RequestId);
    fn drain(&mut self);
}

impl<D: Decode, S: Storage<Text: PartialEq>, J: Recording> Core
    for PolledInformer<Resource<'static>, D, S, J>
{
    fn begin(&mut self, now: Instant) -> RequestId {
        loop {
            match self.poll_output(now) {
                Output::Send(request) => {
                    let id = request.id();
                    self.handle_head(now, id, Head::new(200));
                    return id;
                }
                Output::Wait(_) => panic!("the informer waits in the middle of the script"),
                Output::Report(_) | Output::Cancel(_) | _ => {}
            }
        }
    }

    fn end(&mut self, now: Instant, id: RequestId) {
        self.handle_end(now, id, End::Clean);
    }

    fn drain(&mut self) {
        while let Some(notification) = self.pop() {
            black_box(&notification);
        }
    }
}

fn record(script: &Script, path: &Path) {
    let journal = FileJournal::open(path).expect("a journal in a folder for temporary files");
    let informer: PolledInformer<_, _, Heap> =
        PolledInformer::new(PODS, Decoder::<Raw>::new(), ReflectorConfig::list(), SEED);
    let mut informer = informer.with_recorder(Recorder::new(journal));
    informer.restore("bench", &mut |report| panic!("{report}"));
    feed(script, &mut informer, |now, id, chunk, informer| {
        informer.recorder().set_time(Some(1));
        let taken = informer.handle_data(now, id, chunk, &mut |report| panic!("{report}"));
        assert_eq!(taken, chunk.len(), "growing storage takes everything");
    });
}

/// Lists into an informer with a journal, which then watches five updates of each Pod.
#[inline(never)]
pub fn case_record(input: &Input) {
    record(&input.work.updates, &input.work.path("record"));
}

/// Starts from a journal of all Pods.
#[inline(never)]
pub fn case_restart(input: &Input) {
    let journal = FileJournal::open(input.work.path("restart")).expect("the journal is there");
    let informer: PolledInformer<_, _, Heap> =
        PolledInformer::new(PODS, Decoder::<Raw>::new(), ReflectorConfig::list(), SEED);
    let mut informer = informer.with_recorder(Recorder::new(journal));
    let restored = informer.restore("bench", &mut |report| panic!("{report}"));
    assert!(restored.is_some(), "the journal has all Pods");
    informer.drain();
}

/// At most 128 objects, with one bit stored of each.
type Memory = Inline<128, 80, 16_384>;

fn is_running(raw: &RawObject<'_>) -> Result<bool, &'static str> {
    let phase = json::value_at(raw.json(), &["status", "phase"]).and_then(json::as_str);
    Ok(phase.ok_or("there is no phase")?.eq_str("Running"))
}

/// Lists into fixed storage, and watches five updates of each Pod.
#[inline(never)]
pub fn case_inline(input: &Input) {
    let mut informer: PolledInformer<_, _, Memory> =
        PolledInformer::new(PODS, is_running, ReflectorConfig::list(), SEED);
    feed(
        &input.work.updates,
        &mut informer,
        |now, id, chunk, informer| {
            let mut rest = chunk;
            while !rest.is_empty() {
                let taken = informer.handle_data(now, id, rest, &mut |report| panic!("{report}"));
                rest = &rest[taken..];
                while let Some(notification) = informer.pop() {
                    black_box(&notification);
                }
            }
        },
    );
}
