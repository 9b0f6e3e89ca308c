//! A journal that fails and recovers.

use core::time::Duration;

use super::*;
use informer_core::{
    Decoder, End, Head, Heap, Instant, Output, PolledInformer, Raw, ReflectorConfig, RequestId,
    ResourceVersion, reflector::Purpose,
};

/// A journal on a medium that is sometimes full.
struct Disk {
    log: Log<Memory, Keys, Vec<u8>>,
    is_full: bool,
}

impl RecordLog for Disk {
    type Error = &'static str;

    fn load(
        &mut self,
        identity: &Identity,
        take: &mut dyn FnMut(Record<'_>),
        lost: &mut dyn FnMut(LostRecords),
    ) -> Result<Loaded, Self::Error> {
        self.log
            .load(identity, take, lost)
            .map_err(|_| "it cannot be read")
    }

    fn append(&mut self, record: Record<'_>) -> Result<(), Self::Error> {
        if self.is_full {
            return Err("no space left");
        }
        self.log.append(record).map_err(|_| "it is broken")
    }

    fn sync(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn compact(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Self::Error> {
        self.log.restart().map_err(|_| "it is broken")
    }
}

/// An informer on a server with one Pod, which sends a bookmark each minute.
struct World {
    informer: PolledInformer<Resource<'static>, Decoder<Raw>, Heap, Recorder<Disk>>,
    now: Instant,
    version: u64,
    watch: Option<RequestId>,
    lists: usize,
    reports: Vec<&'static str>,
}

impl World {
    fn new() -> Self {
        let log = Log::new(Memory::default(), Vec::new());
        let pods = Resource::new("", "v1", "pods");
        let mut world = Self {
            informer: PolledInformer::new(pods, Decoder::new(), ReflectorConfig::list(), 1)
                .with_recorder(Recorder::new(Disk {
                    log,
                    is_full: false,
                })),
            now: Instant::from_micros(0),
            version: 10,
            watch: None,
            lists: 0,
            reports: Vec::new(),
        };
        let found = world.informer.restore("here", &mut |_| ());
        assert!(found.is_none());
        world
    }

    /// Advances a minute, with an event at its end.
    fn minute(&mut self, what: &str) {
        let end = self.now + Duration::from_secs(60);
        loop {
            match self.informer.poll_output(self.now) {
                Output::Send(request) => {
                    let (id, verb) = (request.id(), request.purpose());
                    self.informer.handle_head(self.now, id, Head::new(200));
                    if verb == Purpose::List {
                        self.lists += 1;
                        let list = alloc::format!(
                            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{}"}},"items":[{}]}}"#,
                            self.version,
                            pod(self.version)
                        );
                        self.data(id, &list);
                        self.informer.handle_end(self.now, id, End::Clean);
                    } else {
                        self.watch = Some(id);
                    }
                }
                Output::Cancel(_) => self.watch = None,
                Output::Wait(Some(until)) if until < end => self.now = until,
                Output::Wait(_) => break,
                Output::Report(_) | _ => {}
            }
        }
        self.now = end;
        self.version += 1;
        if let Some(id) = self.watch {
            let event = alloc::format!(r#"{{"type":"{what}","object":{}}}"#, pod(self.version));
            self.data(id, &event);
        }
    }

    fn data(&mut self, id: RequestId, data: &str) {
        let reports = &mut self.reports;
        let taken = self
            .informer
            .handle_data(self.now, id, data.as_bytes(), &mut |report| {
                reports.push(report.class());
            });
        assert_eq!(taken, data.len());
        while self.informer.pop().is_some() {}
    }

    fn is_full(&mut self, is_full: bool) {
        self.informer.recorder().journal().is_full = is_full;
    }

    /// Returns the state that a new process would find.
    fn found(&mut self) -> Option<String> {
        let medium = self.informer.recorder().journal().log.medium().clone();
        let mut version = None;
        let identity = Identity::new(
            "here",
            &Resource::new("", "v1", "pods"),
            informer_core::Decode::fingerprint(&Decoder::<Raw>::new()),
        );
        Log::<_, Keys, _>::new(medium, Vec::new())
            .load(
                &identity,
                &mut |record| {
                    if let Record::Version(reached) = record {
                        version = Some(reached.version.to_owned());
                    }
                },
                &mut |_| (),
            )
            .unwrap();
        version
    }
}

fn pod(version: u64) -> String {
    alloc::format!(
        r#"{{"kind":"Pod","metadata":{{"name":"web","namespace":"prod","uid":"u","resourceVersion":"{version}"}}}}"#
    )
}

#[test]
fn a_journal_that_failed_once_is_whole_after_one_list() {
    let mut world = World::new();
    world.minute("MODIFIED");
    assert_eq!((world.lists, world.found().as_deref()), (1, Some("11")));
    world.is_full(true);
    world.minute("MODIFIED");
    world.is_full(false);
    assert_eq!(world.reports, ["journal"]);
    for _ in 0..10 {
        world.minute("BOOKMARK");
    }
    assert_eq!(world.lists, 2);
    assert_eq!(world.reports, ["journal", "journal-recovered"]);
    assert_eq!(world.found(), Some(world.version.to_string()));
}

#[test]
fn a_journal_that_fails_forever_costs_a_list_an_hour() {
    let mut world = World::new();
    world.minute("MODIFIED");
    world.is_full(true);
    for _ in 0..24 * 60 {
        world.minute("MODIFIED");
    }
    // A few lists in the first hour, and then one per hour.
    assert!((20..=36).contains(&world.lists), "{}", world.lists);
    let failures = world.reports.iter().filter(|class| **class == "journal");
    assert!(failures.count() <= world.lists, "{:?}", world.reports);
    assert_eq!(
        world.found().as_deref(),
        Some("11"),
        "the old state is still there"
    );
}

#[test]
fn a_server_without_versions_is_reported_once_and_nothing_is_restored() {
    let mut recorder = Recorder::new(Disk {
        log: Log::new(Memory::default(), Vec::new()),
        is_full: false,
    });
    let mut reports = Vec::new();
    for _ in 0..2 {
        recorder.begin();
        recorder.append(Record::Put {
            key: "a",
            object: b"{}",
        });
        recorder.complete();
        recorder.reached(&ResourceVersion::<alloc::boxed::Box<str>>::default(), true);
        recorder.report(&mut |report| reports.push(report.to_string()));
    }
    let [report] = &reports[..] else {
        panic!("{reports:?}");
    };
    assert!(
        report.contains("the server sends no resourceVersions"),
        "{report}"
    );
    let mut journal = recorder.into_journal();
    let loaded = journal.load(&identity(), &mut |_| panic!("it is restored"), &mut |_| ());
    assert_eq!(loaded, Ok(Loaded::Empty));
}
