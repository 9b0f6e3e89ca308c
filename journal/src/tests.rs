//! A log on a medium in memory, compared with a map.
#![cfg(feature = "alloc")]

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::Cell;

mod damage;
mod recovery;
mod shards;

use super::*;
use informer_core::Resource;
use informer_core::time::Rng;

/// Two areas in memory, growing or of a fixed size, which may fail.
#[derive(Clone, Default)]
struct Memory {
    areas: [Vec<u8>; 2],
    capacity: Option<usize>,
    /// The number of calls that succeed. The next one fails, and if it is a write, its first half is stored.
    calls: Option<usize>,
    has_failed: bool,
    /// Set while nothing can be read or written.
    is_away: Rc<Cell<bool>>,
}

impl Memory {
    fn of_size(capacity: usize) -> Self {
        Self {
            capacity: Some(capacity),
            ..Self::default()
        }
    }

    /// Returns the same data on a medium that does not fail.
    fn intact(&self) -> Self {
        Self {
            calls: None,
            has_failed: false,
            ..self.clone()
        }
    }

    fn call(&mut self) -> Result<(), &'static str> {
        self.has_failed |= self.calls == Some(0);
        if self.has_failed || self.is_away.get() {
            return Err("no space left");
        }
        self.calls = self.calls.map(|left| left - 1);
        Ok(())
    }
}

impl Medium for Memory {
    type Error = &'static str;

    fn unit(&self) -> usize {
        if self.capacity.is_some() { 8 } else { 1 }
    }

    fn capacity(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |bytes| bytes as u64)
    }

    fn len(&mut self, area: Area) -> Result<u64, Self::Error> {
        self.call()?;
        Ok(self.areas[area as usize].len() as u64)
    }

    fn read(&mut self, area: Area, at: u64, into: &mut [u8]) -> Result<(), Self::Error> {
        self.call()?;
        let at = place(at);
        into.copy_from_slice(&self.areas[area as usize][at..at + into.len()]);
        Ok(())
    }

    fn write(&mut self, area: Area, at: u64, bytes: &[u8]) -> Result<(), Self::Error> {
        let had_failed = self.has_failed;
        let done = self.call();
        let taken = match done {
            Ok(()) => bytes.len(),
            Err(_) if had_failed => 0,
            Err(_) => bytes.len() / 2 / self.unit() * self.unit(),
        };
        let area = &mut self.areas[area as usize];
        assert_eq!(
            area.len() as u64,
            at,
            "an area is written from start to end"
        );
        area.extend_from_slice(&bytes[..taken]);
        done
    }

    fn clear(&mut self, area: Area) -> Result<(), Self::Error> {
        self.call()?;
        self.areas[area as usize].clear();
        Ok(())
    }

    fn cut(&mut self, area: Area, at: u64) -> Result<bool, Self::Error> {
        self.call()?;
        let area = &mut self.areas[area as usize];
        let is_clean = area.len() as u64 == at;
        if self.capacity.is_none() {
            area.truncate(place(at));
        }
        Ok(is_clean || self.capacity.is_none())
    }

    fn commit(&mut self) -> Result<(), Self::Error> {
        self.call()
    }

    fn sync(&mut self, _area: Area) -> Result<(), Self::Error> {
        self.call()
    }

    fn free(&mut self, area: Area) -> Result<(), Self::Error> {
        self.clear(area)
    }
}

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

/// The end of the first record of an area.
const HEAD_END: usize = 60;

/// The objects, whether they are stale, and the version.
type State = (BTreeMap<String, (Vec<u8>, bool)>, String);

fn identity() -> Identity {
    Identity::new("here", &Resource::new("", "v1", "pods"), 7)
}

fn load<I: Index>(medium: Memory) -> (Log<Memory, I, Vec<u8>>, Option<State>) {
    let (log, found, _) = load_and_lose(medium);
    (log, found)
}

type InMemory<I> = Log<Memory, I, Vec<u8>>;

/// Like [`load`], with the lost parts.
fn load_and_lose<I: Index>(medium: Memory) -> (InMemory<I>, Option<State>, Vec<LostRecords>) {
    let mut log = Log::new(medium, Vec::new());
    let (mut state, mut lost) = (State::default(), Vec::new());
    let found = log.load(
        &identity(),
        &mut |record| take(&mut state, record),
        &mut |loss| lost.push(loss),
    );
    let found = (found.unwrap() == Loaded::Restored).then_some(state);
    (log, found, lost)
}

fn take((objects, version): &mut State, record: Record<'_>) {
    match record {
        Record::Put { key, object } => {
            drop(objects.insert(key.to_owned(), (object.to_vec(), false)));
        }
        Record::Delete { key } => drop(objects.remove(key)),
        Record::Stale { key } => {
            if let Some(object) = objects.get_mut(key) {
                object.1 = true;
            }
        }
        Record::Version(reached) => *version = reached.version.to_owned(),
    }
}

/// Passes a random record to `with`.
fn random(rng: &mut Rng, number: u64, with: &mut dyn FnMut(Record<'_>)) {
    let mut pick = |below: u64| rng.below(below);
    let key = alloc::format!("prod/web-{}", pick(6));
    match pick(8) {
        0..4 => {
            let object = alloc::format!(
                "{{\"n\":{number},\"pad\":\"{}\"}}",
                "x".repeat(pick(300) as usize)
            );
            with(Record::Put {
                key: &key,
                object: object.as_bytes(),
            });
        }
        4 => with(Record::Delete { key: &key }),
        5 => with(Record::Stale { key: &key }),
        _ => with(Record::Version(
            Reached::new(&number.to_string()).at(Some(number)),
        )),
    }
}

/// Opens the log repeatedly, and finds the state of the last version each time.
fn keeps_what_a_version_covers<I: Index>(memory: &Memory) {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut medium = memory.clone();
        let mut committed = None;
        let mut number = 0;
        for _ in 0..12 {
            let (mut log, found) = load::<I>(medium);
            assert_eq!(found, committed, "seed {seed}");
            let mut state = found.unwrap_or_default();
            for _ in 0..rng.below(60) {
                number += 1;
                random(&mut rng, number, &mut |record| {
                    log.append(record).unwrap();
                    take(&mut state, record);
                    if matches!(record, Record::Version(_)) {
                        committed = Some(state.clone());
                    }
                });
            }
            if rng.below(4) == 0 {
                log.compact().unwrap();
            }
            medium = log.into_medium();
        }
        let sizes = medium.areas.each_ref().map(Vec::len);
        assert!(
            sizes
                .iter()
                .all(|size| *size <= memory.capacity.unwrap_or(usize::MAX)),
            "{sizes:?}"
        );
    }
}

#[test]
fn records_before_a_version_are_restored() {
    keeps_what_a_version_covers::<Keys>(&Memory::default());
    keeps_what_a_version_covers::<Scanned>(&Memory::default());
}

#[test]
fn an_area_that_is_full_is_compacted() {
    // Six objects of 400 bytes, twice, and a step of sixty.
    let small = Memory::of_size(24 << 10);
    keeps_what_a_version_covers::<Scanned>(&small);
    keeps_what_a_version_covers::<Keys>(&small);
}

/// Wherever a file is truncated, a state that existed is found.
fn is_whole_wherever_it_is_cut<I: Index>() {
    let (mut log, _) = load::<I>(Memory::default());
    let mut rng = Rng::new(3);
    let mut state = State::default();
    let (mut states, mut ends) = (Vec::new(), Vec::new());
    for number in 1..60 {
        random(&mut rng, number, &mut |record| {
            log.append(record).unwrap();
            take(&mut state, record);
            if matches!(record, Record::Version(_)) {
                states.push(Some(state.clone()));
                ends.push(log.medium().areas[0].len());
            }
        });
    }
    let medium = log.into_medium();
    let mut last = 0;
    states.insert(0, None);
    ends.insert(0, 0);
    for end in 0..medium.areas[0].len() {
        let mut cut = medium.clone();
        cut.areas[0].truncate(end);
        let (_, found, lost) = load_and_lose::<I>(cut.clone());
        let place = states.iter().position(|state| *state == found).unwrap();
        assert!(place >= last, "a longer file has no older state");
        last = place;
        let dropped: u64 = lost.iter().map(|lost| lost.bytes).sum();
        // An area with only its first record was begun a moment ago.
        let expected = if end == ends[place] + HEAD_END && place == 0 {
            0
        } else {
            end - ends[place]
        };
        assert_eq!(dropped, expected as u64, "{lost:?} of {end}");
        // A record that was torn in the middle is detected as well.
        cut.areas[0].resize(medium.areas[0].len(), 0);
        assert_eq!(load::<I>(cut).1, found);
    }
    assert!(last > 5);
}

#[test]
fn it_is_whole_wherever_it_is_cut() {
    is_whole_wherever_it_is_cut::<Keys>();
    is_whole_wherever_it_is_cut::<Scanned>();
}

/// Whichever byte is damaged, the state of a version before it is found.
fn is_whole_wherever_it_is_damaged<I: Index>() {
    let (mut log, _) = load::<I>(Memory::default());
    let mut rng = Rng::new(4);
    let mut state = State::default();
    let mut states = alloc::vec![(0, None)];
    for number in 1..60 {
        random(&mut rng, number, &mut |record| {
            log.append(record).unwrap();
            take(&mut state, record);
            if matches!(record, Record::Version(_)) {
                states.push((log.medium().areas[0].len(), Some(state.clone())));
            }
        });
    }
    let medium = log.into_medium();
    for at in 0..medium.areas[0].len() {
        let mut damaged = medium.clone();
        damaged.areas[0][at] ^= 1 << (at % 8);
        let (end, before) = states.iter().rev().find(|(end, _)| *end <= at).unwrap();
        let (_, found, lost) = load_and_lose::<I>(damaged);
        assert_eq!(found, *before, "at {at}");
        let dropped: u64 = lost.iter().map(|lost| lost.bytes).sum();
        assert_eq!(
            dropped,
            (medium.areas[0].len() - end) as u64,
            "at {at}: {lost:?}"
        );
    }
}

#[test]
fn it_is_whole_wherever_it_is_damaged() {
    is_whole_wherever_it_is_damaged::<Keys>();
    is_whole_wherever_it_is_damaged::<Scanned>();
}

/// In a single pass, each object is passed on once, unless it is taken back.
#[test]
fn records_of_a_damaged_version_are_taken_back() {
    let (mut log, _) = load::<Keys>(Memory::default());
    let mut append = |record| log.append(record).unwrap();
    append(put("a", b"1"));
    append(put("b", b"1"));
    append(Record::Version(Reached::new("1")));
    append(put("b", b"2"));
    append(put("c", b"2"));
    append(Record::Delete { key: "a" });
    append(Record::Version(Reached::new("2")));
    let mut medium = log.into_medium();
    assert_eq!(recorded(medium.clone()), ["+b 2", "+c 2", "@2"]);
    // The last version is damaged, but looks valid.
    *medium.areas[0].last_mut().unwrap() ^= 1;
    assert_eq!(
        recorded(medium.clone()),
        ["+b 2", "+c 2", "-b", "-c", "+a 1", "+b 1", "@1"]
    );
    // Only the first record of the area remains.
    let at = medium.areas[0].windows(2).position(|two| two == b"a1");
    medium.areas[0][at.unwrap()] ^= 1;
    assert_eq!(recorded(medium), [""; 0]);
}

const fn put<'a>(key: &'a str, object: &'a [u8]) -> Record<'a> {
    Record::Put { key, object }
}

/// Returns the records that are passed on, in order.
fn recorded(medium: Memory) -> Vec<String> {
    let mut recorded = Vec::new();
    let mut log: Log<_, Keys, _> = Log::new(medium, Vec::new());
    let mut take = |record: Record<'_>| {
        recorded.push(match record {
            Record::Put { key, object } => {
                alloc::format!("+{key} {}", core::str::from_utf8(object).unwrap())
            }
            Record::Delete { key } => alloc::format!("-{key}"),
            Record::Stale { key } => alloc::format!("?{key}"),
            Record::Version(reached) => alloc::format!("@{}", reached.version),
        });
    };
    let loaded = log.load(&identity(), &mut take, &mut |_| ());
    let is_empty = loaded.unwrap() == Loaded::Empty;
    assert_eq!(
        is_empty,
        recorded.last().is_none_or(|last| !last.starts_with('@'))
    );
    recorded
}

#[test]
fn a_log_that_grows_is_compacted() {
    let (mut log, _) = load::<Keys>(Memory::default());
    let object = [b'x'; 1000];
    for number in 0..1000 {
        let key = ["a", "b"][number % 2];
        log.append(Record::Put {
            key,
            object: &object,
        })
        .unwrap();
        log.append(Record::Version(Reached::new(&number.to_string())))
            .unwrap();
        let size: usize = log.medium().areas.iter().map(Vec::len).sum();
        assert!(size < (64 << 10) + 10_000, "{size}");
    }
    let (_, found) = load::<Keys>(log.into_medium());
    let (objects, version) = found.unwrap();
    assert_eq!((objects.len(), version.as_str()), (2, "999"));
}

#[test]
fn another_cache_is_refused_and_stays_until_there_is_one_of_ours() {
    let (mut log, _) = load::<Keys>(Memory::default());
    log.append(Record::Put {
        key: "a",
        object: b"{}",
    })
    .unwrap();
    log.append(Record::Version(Reached::new("5"))).unwrap();
    let medium = log.into_medium();

    let pods = Resource::new("", "v1", "pods");
    for (other, mismatch) in [
        (Identity::new("there", &pods, 7), Mismatch::Cluster),
        (
            Identity::new("here", &pods.namespace("prod"), 7),
            Mismatch::Resource,
        ),
        (
            Identity::new("here", &pods.labels("app=web"), 7),
            Mismatch::Selectors,
        ),
        (Identity::new("here", &pods, 8), Mismatch::Decoder),
    ] {
        let mut log: Log<_, Keys, _> = Log::new(medium.clone(), Vec::new());
        let mut lost = Vec::new();
        let found = log.load(&other, &mut |record| panic!("{record:?}"), &mut |loss| {
            lost.push((loss.why, loss.records));
        });
        assert_eq!(found, Ok(Loaded::Refused(mismatch)));
        assert_eq!(lost, [(Loss::Refused(mismatch), 2)]);
        log.append(Record::Put {
            key: "b",
            object: b"{}",
        })
        .unwrap();
        let (_, found) = load::<Keys>(log.medium().clone());
        assert_eq!(found.unwrap().1, "5", "there is no version of ours yet");
        log.append(Record::Version(Reached::new("9"))).unwrap();
        let mut log: Log<_, Keys, _> = Log::new(log.into_medium(), Vec::new());
        let mut version = String::new();
        let mut take = |record: Record<'_>| {
            if let Record::Version(reached) = record {
                version = reached.version.to_owned();
            }
        };
        let found = log.load(&other, &mut take, &mut |_| ());
        assert_eq!((found, version.as_str()), (Ok(Loaded::Restored), "9"));
    }
}

#[test]
fn a_record_that_does_not_fit_is_an_error_and_harms_nothing() {
    let small = Memory::of_size(1 << 10);
    let (mut log, _) = load::<Scanned>(small);
    log.append(Record::Put {
        key: "a",
        object: b"{}",
    })
    .unwrap();
    log.append(Record::Version(Reached::new("5"))).unwrap();
    let full = log.append(Record::Put {
        key: "b",
        object: &[b' '; 2000],
    });
    assert_eq!(full, Err(LogError::Full { capacity: 1 << 10 }));
    assert_eq!(
        log.append(Record::Delete { key: "a" }),
        Err(LogError::Broken)
    );
    let (_, found) = load::<Scanned>(log.medium().clone());
    assert_eq!(found.unwrap().1, "5");

    log.restart().unwrap();
    log.append(Record::Version(Reached::new("6"))).unwrap();
    let (_, found) = load::<Scanned>(log.into_medium());
    assert_eq!(found.unwrap(), (BTreeMap::new(), "6".to_owned()));
}

/// Returns the version and the objects as text.
fn shown(state: Option<&State>) -> String {
    let Some((objects, version)) = state else {
        return "nothing".to_owned();
    };
    let keys: Vec<_> = objects.keys().map(String::as_str).collect();
    alloc::format!("{version} with {}", keys.join(", "))
}

/// Makes each call fail in turn. The call must return an error, and nothing can be written after it. Reopening must
/// find the state of one of the last two versions, and a restart must succeed once there is room.
fn survives_each_failure<I: Index>(memory: &Memory) {
    for calls in 0.. {
        let mut rng = Rng::new(3);
        let mut log = Log::<_, I, _>::new(
            Memory {
                calls: Some(calls),
                ..memory.clone()
            },
            Vec::new(),
        );
        let mut state = State::default();
        let mut covered = [None, None];
        let mut failed = log
            .load(
                &identity(),
                &mut |_| panic!("the journal is empty"),
                &mut |_| (),
            )
            .err();
        for number in 1..=150 {
            if failed.is_some() {
                break;
            }
            random(&mut rng, number, &mut |record| {
                take(&mut state, record);
                if matches!(record, Record::Version(_)) {
                    covered = [covered[1].take(), Some(state.clone())];
                }
                failed = log.append(record).err();
            });
            if number % 40 == 0 && failed.is_none() {
                failed = log.compact().err();
            }
        }
        let Some(failed) = failed else {
            assert!(calls as u64 > 150, "only {calls} calls");
            return;
        };
        assert_eq!(failed, LogError::Medium("no space left"), "call {calls}");
        assert_eq!(
            log.append(Record::Delete { key: "a" }),
            Err(LogError::Broken),
            "call {calls}"
        );
        let (_, found) = load::<I>(log.medium().intact());
        assert!(
            covered.contains(&found),
            "call {calls}: {} is none of {}",
            shown(found.as_ref()),
            covered
                .each_ref()
                .map(|state| shown(state.as_ref()))
                .join(" and ")
        );

        let mut log = Log::<_, I, _>::new(log.medium().intact(), Vec::new());
        log.load(&identity(), &mut |_| {}, &mut |_| {}).unwrap();
        log.restart().unwrap();
        log.append(Record::Version(Reached::new("6"))).unwrap();
        let (_, found) = load::<I>(log.into_medium());
        let empty = (BTreeMap::new(), "6".to_owned());
        assert_eq!(found, Some(empty), "call {calls}");
    }
}

#[test]
fn a_medium_that_fails_at_any_call_loses_no_version_and_returns_no_other() {
    let small = Memory::of_size(8 << 10);
    for memory in [Memory::default(), small] {
        survives_each_failure::<Keys>(&memory);
        survives_each_failure::<Scanned>(&memory);
    }
}

/// A log whose medium could not be read when it was opened, and can be read again when the first list begins.
#[test]
fn a_log_that_could_not_be_read_is_not_overwritten() {
    fn check<I: Index>(memory: Memory) {
        let put = |log: &mut InMemory<I>, key: &str| log.append(Record::Put { key, object: b"{}" });
        let reach = |log: &mut InMemory<I>, version: &str| {
            log.append(Record::Version(Reached::new(version))).unwrap();
        };
        let (mut log, _) = load::<I>(memory);
        // The state is in the second area.
        for version in ["1", "2"] {
            log.restart().unwrap();
            put(&mut log, "old").unwrap();
            reach(&mut log, version);
        }
        let found = |log: &InMemory<I>| shown(load::<I>(log.medium().clone()).1.as_ref());
        let old = found(&log);
        let medium = log.into_medium();
        let away = Rc::clone(&medium.is_away);
        away.set(true);
        let mut log: InMemory<I> = Log::new(medium, Vec::new());
        let loaded = log.load(&identity(), &mut |_| (), &mut |_| ());
        assert!(loaded.is_err() && log.restart().is_err());
        away.set(false);
        log.restart().unwrap();
        put(&mut log, "new").unwrap();
        assert_eq!(found(&log), old, "a partial list");
        reach(&mut log, "3");
        let new = load::<I>(log.medium().clone()).1.unwrap();
        assert_eq!((new.1.as_str(), new.0.len()), ("3", 1));
        assert!(new.0.contains_key("new"));
    }
    check::<Keys>(Memory::default());
    check::<Scanned>(Memory::of_size(1 << 12));
}
