//! Journals step by step: of shards that have objects of one key, and without versions.

use super::*;
use informer_core::cache::{CacheConfig, SourceId, Step};
use informer_core::reflector::Change;
use informer_core::{Cache, Decoder, Heap, Instant, Object, Raw, ResourceVersion, Uid};

type Journal = Recorder<Log<Memory, Keys, Vec<u8>>>;

struct Shards {
    cache: Cache<Object<Raw, alloc::boxed::Box<str>>, Heap>,
    journals: [Journal; 2],
}

impl Shards {
    fn new() -> Self {
        let mut cache = Cache::new(CacheConfig::default(), 2, 1);
        let ids: Vec<SourceId> = cache.sources().collect();
        let journals = [0, 1].map(|source: usize| {
            let mut journal = Recorder::new(Log::new(Memory::default(), Vec::new()));
            let decode = Decoder::<Raw>::new();
            let (id, quiet) = (identity(), &mut |_: informer_core::Report<'_>| ());
            let found = journal.restore(&id, &decode, &mut cache, ids[source], &mut |_| (), quiet);
            assert!(found.is_none());
            journal
        });
        Self { cache, journals }
    }

    fn apply(&mut self, source: usize, step: Step<'_, Object<Raw, alloc::boxed::Box<str>>, Heap>) {
        let id = self.cache.sources().nth(source).unwrap();
        let journal = &mut self.journals[source];
        if self.cache.apply(id, step, journal).unwrap() {
            let (key, object) = ("x", b"{}");
            journal.append(Record::Put { key, object });
        }
        while self.cache.pop().is_some() {}
    }

    fn object(&mut self, source: usize, change: Change, uid: &str, version: u32) {
        let version = ResourceVersion::new(&version.to_string());
        let object = Object::new(Uid::new(uid), version, Raw::new(b"{}"));
        self.apply(source, Step::object(change, "x", object));
    }

    fn complete(&mut self, source: usize, version: u32) {
        let version = ResourceVersion::new(&version.to_string());
        self.apply(source, Step::Complete(version));
    }

    fn list(&mut self, source: usize, version: u32, object: Option<(&str, u32)>) {
        self.apply(source, Step::Begin);
        if let Some((uid, version)) = object {
            self.object(source, Change::Listed, uid, version);
        }
        self.complete(source, version);
    }

    /// The number of objects and the version that a new process would find.
    fn found(&mut self, source: usize) -> (usize, String) {
        let medium = self.journals[source].journal().medium().clone();
        let (objects, version) = load::<Keys>(medium).1.unwrap();
        (objects.len(), version)
    }
}

fn moved() -> Shards {
    let mut shards = Shards::new();
    shards.list(0, 10, None);
    shards.list(1, 10, Some(("u1", 5)));
    assert_eq!(shards.found(1), (1, "10".into()));
    shards
}

#[test]
fn a_key_that_another_shard_has_leaves_the_journal_with_its_object() {
    let mut shards = moved();
    shards.object(0, Change::Added, "u2", 12);
    shards.object(1, Change::Deleted, "u1", 11);
    shards.apply(1, Step::Reached(ResourceVersion::new("12")));
    assert_eq!(shards.found(1), (0, "12".into()));

    // The watch missed the deletion.
    let mut shards = moved();
    shards.object(0, Change::Added, "u2", 12);
    shards.list(1, 15, None);
    assert_eq!(shards.found(1), (0, "15".into()));
    shards.apply(0, Step::Reached(ResourceVersion::new("15")));
    assert_eq!(shards.found(0), (1, "15".into()));

    // Another list of the shard has the old object still.
    let mut shards = moved();
    shards.object(0, Change::Added, "u2", 12);
    shards.list(1, 10, Some(("u1", 5)));
    assert_eq!(shards.found(1), (1, "10".into()));
}

#[test]
fn a_list_that_another_shard_overtakes_is_not_recorded() {
    let mut shards = moved();
    shards.apply(1, Step::Begin);
    shards.object(0, Change::Added, "u2", 12);
    shards.complete(1, 15);
    assert_eq!(shards.found(1), (1, "10".into()), "the state before it");
    let mut wants =
        |hour| shards.journals[1].wants_list(Instant::from_micros(hour * 3_600_000_000_u64));
    assert!(!wants(0) && wants(1));
    shards.list(1, 16, None);
    assert_eq!(shards.found(1), (0, "16".into()));
}

#[test]
fn a_journal_without_versions_is_reported_once_and_does_not_grow() {
    let mut shards = Shards::new();
    let mut sizes = Vec::new();
    let mut reports = Vec::new();
    for version in 1..=3 {
        shards.apply(0, Step::Begin);
        shards.object(0, Change::Listed, "u1", version);
        shards.apply(0, Step::Complete(ResourceVersion::default()));
        for event in 10..50 {
            shards.object(0, Change::Modified, "u1", event);
        }
        let journal = &mut shards.journals[0];
        journal.report(&mut |report| reports.push(report.class()));
        sizes.push(journal.journal().medium().areas.iter().map(Vec::len).sum());
    }
    assert_eq!(reports, ["journal"]);
    assert_eq!(sizes, [sizes[0]; 3] as [usize; 3]);
}
