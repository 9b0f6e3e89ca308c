//! An engine with a journal, on a disk that outlives it and loses data that was not synced.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use informer_core::{End, Head, Heap, Instant, RawObject, RequestId};
use informer_journal::{Area, Identity, Keys, Log, Medium, Record, RecordLog, Recorder, Recording};

use super::engine::{Engine, Note, One, Out, Shown, config, decode, informer, shown};
use super::plan::World;
use crate::journal::disk::Disk;
use crate::journal::power::{Chance, Off, Power};
use crate::journal::process::Noted;

/// The disk of one run.
#[derive(Clone)]
pub struct Shelf(Rc<RefCell<Kept>>);

struct Kept {
    disk: Disk,
    chance: Chance,
    /// Whether and when the medium corrupts stored data.
    damage: Chance,
}

/// The disk as one process sees it. It works until that process dies.
struct Lent(Shelf);

type Journal = Noted<Log<Lent, Keys, Vec<u8>>>;

struct Journaled {
    one: One<Heap, Recorder<Journal>>,
    restored: Option<u64>,
    reached: Rc<Cell<Option<u64>>>,
    clock: u64,
    /// Damage that removed something without a report.
    unreported: Option<String>,
    /// A failure of the journal was reported, and it is not complete again yet.
    failed: bool,
    shelf: Shelf,
}

/// The objects in a journal, and its version.
type Content = (BTreeMap<String, Vec<u8>>, String);

impl Shelf {
    /// Makes an empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(RefCell::new(Kept {
            disk: Disk::new(Power::default()),
            chance: Chance::new(seed),
            damage: Chance::new(seed.rotate_left(17)),
        })))
    }

    /// Makes the engine of a process, which finds what survived of the previous process's writes.
    #[must_use]
    pub fn engine(&self, world: &World, seed: u64) -> Box<dyn Engine> {
        let one = One(informer(world, config(world), seed));
        let damaged_from = {
            let mut kept = self.0.borrow_mut();
            let Kept {
                disk,
                chance,
                damage,
            } = &mut *kept;
            *disk = core::mem::take(disk).after_loss(chance);
            damage.one_in(8).then(|| {
                let before = content(disk.clone(), &one);
                disk.damage(damage);
                (before, content(disk.clone(), &one))
            })
        };
        let log = Log::new(Lent(self.clone()), Vec::new());
        let journal = Noted::new(log, Some(Chance::new(seed)));
        let reached = journal.last();
        let mut is_reported = false;
        let mut one = One(one.0.with_recorder(Recorder::new(journal)));
        let restored = one.0.restore("here", &mut |report| {
            // An object that the decoder rejects was rejected before, so it is not in the journal.
            assert_ne!(report.class(), "journal", "{report}");
            is_reported |= report.class() == "journal-lost";
        });
        let unreported = damaged_from
            .filter(|(before, after)| before != after && !is_reported)
            .map(|(before, after)| format!("{before:?} became {after:?}, and nobody was notified"));
        let restored = restored.and_then(|restored| restored.version.to_string().parse().ok());
        Box::new(Journaled {
            one,
            restored,
            reached,
            clock: 0,
            unreported,
            failed: false,
            shelf: self.clone(),
        })
    }
}

/// Reads the contents of a disk.
fn content<J: Recording>(disk: Disk, one: &One<Heap, J>) -> Content {
    let resource = one.0.reflector().resource();
    let identity = Identity::new("here", &resource, 0);
    let mut content = Content::default();
    let (objects, version) = &mut content;
    let mut take = |record: Record<'_>| match record {
        Record::Put { key, object } => drop(objects.insert(key.to_owned(), object.to_vec())),
        Record::Delete { key } => drop(objects.remove(key)),
        Record::Version(reached) => reached.version.clone_into(version),
        _ => {}
    };
    let mut log: Log<_, Keys, _> = Log::new(disk, Vec::new());
    let loaded = log.load(&identity, &mut take, &mut |_| ());
    assert!(loaded.is_ok(), "{loaded:?}");
    content
}

impl Medium for Lent {
    type Error = Off;

    fn unit(&self) -> usize {
        1
    }
    fn capacity(&self) -> u64 {
        u64::MAX
    }
    fn len(&mut self, area: Area) -> Result<u64, Off> {
        self.0.0.borrow_mut().disk.len(area)
    }
    fn read(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), Off> {
        self.0.0.borrow_mut().disk.read(area, at, into)
    }
    fn write(&mut self, area: Area, at: u64, bytes: &[u8]) -> Result<(), Off> {
        self.0.0.borrow_mut().disk.write(area, at, bytes)
    }
    fn clear(&mut self, area: Area) -> Result<(), Off> {
        self.0.0.borrow_mut().disk.clear(area)
    }
    fn cut(&mut self, area: Area, at: u64) -> Result<bool, Off> {
        self.0.0.borrow_mut().disk.cut(area, at)
    }
    fn sync(&mut self, area: Area) -> Result<(), Off> {
        self.0.0.borrow_mut().disk.sync(area)
    }
    fn free(&mut self, area: Area) -> Result<(), Off> {
        self.0.0.borrow_mut().disk.free(area)
    }
}

impl Engine for Journaled {
    fn sources(&self) -> usize {
        1
    }
    fn poll(&mut self, source: usize, now: Instant) -> Out {
        self.one.poll(source, now)
    }
    fn head(&mut self, source: usize, now: Instant, id: RequestId, head: Head) {
        self.one.head(source, now, id, head);
    }
    fn data(
        &mut self,
        _source: usize,
        now: Instant,
        id: RequestId,
        data: &[u8],
        reports: &mut Vec<&'static str>,
    ) -> usize {
        self.clock += 1;
        self.one.0.recorder().set_time(Some(self.clock));
        let failed = &mut self.failed;
        self.one.0.handle_data(now, id, data, &mut |report| {
            match report.class() {
                "journal" => *failed = true,
                "journal-recovered" => *failed = false,
                _ => {}
            }
            reports.push(shown(&report));
        })
    }
    fn end(&mut self, source: usize, now: Instant, id: RequestId, end: End) {
        self.one.end(source, now, id, end);
    }
    fn pop(&mut self) -> Option<Note> {
        self.one.pop()
    }
    fn resync(&mut self) -> u32 {
        self.one.resync()
    }
    fn relist(&mut self, source: usize, now: Instant) {
        self.one.relist(source, now);
    }
    fn stop(&mut self) {
        self.one.stop();
    }
    fn cache(&self) -> &dyn Shown {
        self.one.cache()
    }
    fn is_idle(&self) -> bool {
        self.one.is_idle()
    }
    fn reached(&self, source: usize) -> Option<u64> {
        self.one.reached(source)
    }
    fn add_index(&mut self) {
        self.one.add_index();
    }
    fn has_late_index(&self) -> bool {
        self.one.has_late_index()
    }
    fn fill_disk(&mut self, full: bool) {
        self.shelf.0.borrow_mut().disk.fill(full);
    }
    fn has_failed_journal(&self) -> bool {
        self.failed
    }
    fn journal_lacks(&self) -> Option<String> {
        if self.failed {
            return Some("the journal failed, and nothing was reported since".to_owned());
        }
        let (objects, version) = content(self.shelf.0.borrow().disk.clone(), &self.one);
        let number = |bytes: &Vec<u8>| decode(&RawObject::parse(bytes)).ok().map(|value| value.n);
        let cache = self.one.0.cache();
        let kept = |key: &str| objects.get(key).and_then(number);
        // An object that a list showed in an unusable state is absent from a journal that this list restarted.
        let wrong = cache
            .iter()
            .find(|(key, object)| kept(key) != Some(object.value().n) && !cache.is_stale(key));
        if let Some((key, object)) = wrong {
            let what = format!("the cache has {key} as {:?}", object.value());
            return Some(format!("{what}, and the journal has {:?}", kept(key)));
        }
        let gone = objects.keys().find(|key| cache.get(key).is_none());
        gone.map(|key| format!("the journal at {version} has {key}, which the cache has not"))
    }
    fn restored(&self) -> Option<u64> {
        self.restored
    }
    fn unreported_loss(&self) -> Option<&str> {
        self.unreported.as_deref()
    }
    fn journaled(&self) -> Option<u64> {
        self.reached.get()
    }
}
