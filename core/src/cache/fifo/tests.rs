//! Examples of the DeltaFIFO's contract, and what is particular to fixed storage. Recorded traces of client-go
//! (`traces_replay` in `tests/tests/all`) and random operations on a model (the fuzz target `queues`) check the rest.
//!
//! `d01` to `d28` are the scenarios of client-go's own tests. D10, the transformer, is left out: objects are decoded
//! and pruned before they are queued, so the queue transforms nothing.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt::Write;

use super::*;
use crate::cache::queue::gather;
#[cfg(feature = "alloc")]
use crate::storage::Heap;
use crate::storage::{DeltaList as _, Discarded, Inline};
use crate::time::Rng;

/// Runs each property on every storage, and on `Heap` in both modes.
macro_rules! on_all {
    ($($name:ident)*) => {
        #[cfg(feature = "alloc")]
        mod heap_all {
            $(#[test] fn $name() { super::$name::<super::Heap>(super::Mode::All); })*
        }
        #[cfg(feature = "alloc")]
        mod heap_merged {
            $(#[test] fn $name() { super::$name::<super::Heap>(super::Mode::Merged); })*
        }
        mod inline {
            $(#[test] fn $name() { super::$name::<super::Roomy>(super::Mode::Merged); })*
        }
    };
}

on_all! {
    scenarios
    x15_d27_has_synced
}

/// Enough room for all tests here.
#[cfg(not(miri))]
type Roomy = Inline<1024, 32, 64>;
#[cfg(miri)]
type Roomy = Inline<64, 32, 64>;
/// Two keys of at most four bytes.
type Tiny = Inline<2, 4, 64>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Obj {
    key: String,
    rv: u32,
}

impl Obj {
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        if self.key.is_empty() {
            return Err(fmt::Error);
        }
        out.write_str(&self.key)
    }
}

fn obj(key: &str, rv: u32) -> Obj {
    Obj {
        key: key.to_string(),
        rv,
    }
}

/// Parses objects from pairs of a key and a version: `foo 1 bar 2`.
fn objects(words: &str) -> Vec<Obj> {
    let words: Vec<&str> = words.split_whitespace().collect();
    words
        .chunks(2)
        .map(|pair| obj(pair[0], pair[1].parse().unwrap()))
        .collect()
}

/// A constant store of a consumer.
impl KnownObjects for Vec<Obj> {
    fn contains_key(&self, key: &str) -> bool {
        self.iter().any(|object| object.key == key)
    }

    fn for_each_key(&self, f: &mut dyn FnMut(&str)) {
        self.iter().for_each(|object| f(&object.key));
    }
}

/// A queue that is operated by words and shown as words.
struct Rig<S: Storage> {
    fifo: DeltaFifo<Obj, S>,
    known: Option<Vec<Obj>>,
}

impl<S: Storage> Rig<S> {
    /// `known` contains the objects of the store, or is `None` to give the queue no store.
    fn new(mode: Mode, known: Option<&str>) -> Self {
        Self {
            fifo: DeltaFifo::in_mode(Obj::write_key, mode),
            known: known.map(objects),
        }
    }

    /// Runs operations that are separated by commas.
    fn run(&mut self, script: &str) {
        for line in script.split(',') {
            self.op(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }

    /// `add`, `update` and `delete` take a key and a version; `gone` (a tombstone) takes a key and optionally a
    /// version. `replace` takes any number of pairs; `resync`, `pop` and `emit_replaced` take nothing.
    fn op(&mut self, line: &str) -> Result<(), KeyError> {
        let line = line.trim();
        let (op, rest) = line.split_once(' ').unwrap_or((line, ""));
        let known = self.known.as_ref().map(|known| known as &dyn KnownObjects);
        let one = || objects(rest).remove(0);
        match op {
            "add" => self.fifo.add(one()),
            "update" => self.fifo.update(one()),
            "delete" => self.fifo.delete(one(), known),
            "gone" => {
                let (key, rv) = rest.split_once(' ').unwrap_or((rest, ""));
                let last = rv.parse().ok().map(|rv| obj(key, rv));
                self.fifo.delete_tombstone(Tombstone { key, last }, known)
            }
            "replace" => self.fifo.replace(objects(rest), known),
            "resync" => self.fifo.resync(known.unwrap()),
            "emit_replaced" => {
                self.fifo.set_emit_replaced(true);
                Ok(())
            }
            "pop" => self.fifo.pop().map(drop).map_err(|_| KeyError::NoKey),
            _ => panic!("{op}: no such operation"),
        }
    }

    /// Pops a key: `foo: Added 1, Deleted 2`. A key of the initial list has a `*`; a tombstone has a `?` after its last
    /// known state.
    fn pop(&mut self) -> Option<String> {
        let popped = self.fifo.pop().ok()?;
        let key = popped.deltas.key().as_ref();
        let known = self.known.iter().flatten();
        let mut stored = known.clone().find(|object| object.key == key).cloned();
        let mut shown = String::new();
        for delta in popped.deltas.as_slice() {
            let object = delta.object(stored.as_ref()).cloned();
            let comma = if shown.is_empty() { "" } else { "," };
            let version = object.as_ref().map(|object| format!(" {}", object.rv));
            let unseen = if delta.is_tombstone() { "?" } else { "" };
            write!(
                shown,
                "{comma} {}{}{unseen}",
                delta.kind,
                version.unwrap_or_default()
            )
            .unwrap();
            stored = object.filter(|_| delta.kind != DeltaKind::Deleted);
        }
        let star = if popped.is_in_initial_list { "*" } else { "" };
        Some(format!("{key}{star}:{shown}"))
    }

    /// Pops everything: the keys separated by `;`.
    fn drain(&mut self) -> String {
        let all: Vec<String> = core::iter::from_fn(|| self.pop()).collect();
        all.join("; ")
    }

    fn queued(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.fifo.for_each_queued(|key| keys.push(key.to_string()));
        keys
    }
}

/// Runs each scenario on a new queue, and compares what is popped after it.
///
/// A scenario is a line: its name, the store (`-` for a queue without one), the operations, the expected deltas, and those
/// of merged deltas if they differ.
fn run_all<S: Storage>(mode: Mode, scenarios: &str) {
    for line in scenarios.lines() {
        let mut cells = line.split('|').map(str::trim);
        let [_, known, script, all] = [(); 4].map(|()| cells.next().unwrap());
        let merged = cells.next().unwrap_or(all);
        let mut rig = Rig::<S>::new(mode, Some(known).filter(|known| *known != "-"));
        rig.run(script);
        let expected = if mode == Mode::All { all } else { merged };
        assert_eq!(rig.drain(), expected, "{mode:?}: {line}");
        assert!(rig.fifo.has_synced() && rig.fifo.is_empty(), "{line}");
    }
}

/// The queue gets no store.
const NONE: Option<&str> = None;
/// An empty store.
const EMPTY: Option<&str> = Some("");

fn scenarios<S: Storage>(mode: Mode) {
    run_all::<S>(mode, SCENARIOS);
}

const SCENARIOS: &str = "\
d01 keys in their order   | -     | add b 1, add a 1, add c 1, pop, add b 2 | a: Added 1; c: Added 1; b: Added 2
d02 deletion, list        | foo 1 | delete foo 1, replace foo 2 | foo: Deleted 1, Sync 2
d03 add, empty list       | -     | add foo 1, replace | foo: Added 1, Deleted 1? | foo: Deleted 1?
d04 add, two lists        | -     | emit_replaced, add foo 1, replace foo 2, replace | foo: Added 1, Replaced 2, Deleted 2? | foo: Deleted 2?
d05 add, delete, list     | -     | add foo 1, delete foo 2, replace | foo: Added 1, Deleted 2 | foo: Deleted 2
d06 add, three lists      | -     | add foo 1, replace foo 2, replace foo 3, replace | foo: Added 1, Sync 2, Sync 3, Deleted 3? | foo: Deleted 3?
d07 add, two empty lists  | -     | add foo 1, replace, replace | foo: Added 1, Deleted 1? | foo: Deleted 1?
d08 add, delete, add      | foo 0 | add foo 1, delete foo 1, add foo 2, replace | foo: Added 1, Deleted 1, Added 2, Deleted 2? | foo: Deleted 1
d09 changes pop together  | -     | add foo 10, update foo 12, delete foo 15 | foo: Added 10, Updated 12, Deleted 15 | foo: Deleted 15
d11 unknown deletion      | -     | delete foo 10, gone foo 10 |
d11 popped is unknown     | -     | add foo 15, pop, delete foo 16 |
d12 of a known, no other  | foo 10 bar 1 baz 2 | delete foo 15, gone baz 2, delete zab 1 | foo: Deleted 15; baz: Deleted 2?
d13 add and list together | -     | add foo 10, replace foo 15 | foo: Added 10, Sync 15 | foo: Added 15
d14 no sync of a deleted  | foo 5 | delete foo 10, resync | foo: Deleted 10
d15 replays what is known | foo 5 bar 6 | replace foo 5 bar 6, pop, pop, resync, resync | foo: Sync 5; bar: Sync 6
d16 the store lacks it    |       | add foo 5, delete foo 6 | foo: Added 5, Deleted 6 |
d17 a deletion stays      | foo 5 bar 6 baz 7 | delete baz 10, replace foo 5 | baz: Deleted 10; foo: Sync 5; bar: Deleted 6?
d18 an addition goes      | foo 5 bar 6 baz 7 | add baz 10, replace foo 5 | baz: Added 10, Deleted 10?; foo: Sync 5; bar: Deleted 6? | baz: Deleted 10?; foo: Sync 5; bar: Deleted 6?
d19 newest in tombstone   | foo 5 bar 6 | delete bar 6, add bar 100, replace foo 5 | bar: Deleted 6, Added 100, Deleted 100?; foo: Sync 5 | bar: Deleted 6; foo: Sync 5
d20 listed, then not      |       | replace bar 100 foo 5, replace foo 5 | bar*: Sync 100, Deleted 100?; foo*: Sync 5, Sync 5 | foo*: Sync 5
d21 no store to compare   | -     | add baz 10, replace foo 5 | baz: Added 10, Deleted 10?; foo: Sync 5 | baz: Deleted 10?; foo: Sync 5
d22 Replaced, not Sync    | foo 5 bar 6 | emit_replaced, replace foo 5 | foo*: Replaced 5; bar*: Deleted 6?
d22 but Sync by a resync  | foo 5 bar 6 | emit_replaced, replace foo 7 bar 6, pop, resync | bar*: Replaced 6; foo: Sync 5
d23 no sync of a change   | foo 5 | update foo 10, resync | foo: Updated 10
d24 deletions of a list   | foo 5 bar 6 | replace foo 5 | foo*: Sync 5; bar*: Deleted 6?
d25 a key keeps its place | -     | add foo 10, add bar 1, add foo 11 | foo: Added 10, Added 11; bar: Added 1 | foo: Added 11; bar: Added 1
a seen deletion stays     | a 1   | delete a 2, delete a 3, gone a 4, replace | a: Deleted 2
a tombstone gives way     | a 1   | gone a, gone a 3, delete a 4, gone a 5 | a: Deleted 4
a list's gives way too    | a 1   | replace, delete a 3 | a*: Deleted 3
a list adds no deletion   | a 1   | gone a 2, replace | a: Deleted 2?
unknown last state        | -     | add a 1, gone a | a: Added 1, Deleted? | a: Deleted?
only neighbours collapse  | a 1   | delete a 2, add a 3, delete a 4 | a: Deleted 2, Added 3, Deleted 4 | a: Deleted 2";

/// The key of deltas is that under which they were added, also if a tombstone has another object. Without one nothing is
/// queued.
#[test]
fn d26_keys_of_everything() {
    let mut fifo = DeltaFifo::<Obj, Roomy>::merged(Obj::write_key);
    assert_eq!(fifo.delete(obj("", 1), None), Err(KeyError::NoKey));
    assert!(!fifo.has_synced(), "a deletion without a key is nothing");
    assert_eq!(fifo.add(obj("", 1)), Err(KeyError::NoKey));
    assert!(
        fifo.has_synced(),
        "but an addition populates, as in client-go"
    );
    fifo.add(obj("foo", 1)).unwrap();
    assert_eq!(fifo.pop().unwrap().deltas.key().as_ref(), "foo");
    let known = vec![obj("gone", 1)];
    let deletion = Tombstone {
        key: "gone",
        last: Some(obj("other", 1)),
    };
    fifo.delete_tombstone(deletion, Some(&known)).unwrap();
    assert_eq!(fifo.pop().unwrap().deltas.key().as_ref(), "gone");
}

fn x15_d27_has_synced<S: Storage>(mode: Mode) {
    let table = [
        (NONE, "", false),
        (NONE, "add a 1", true),
        (NONE, "delete a 1", true),
        (NONE, "replace", true),
        (NONE, "replace a 1 b 2, pop", false),
        (NONE, "replace a 1 b 2, pop, pop", true),
        (NONE, "replace a 1 a 2, pop", true),
        (NONE, "add a 1, replace a 1 b 2", true),
        (NONE, "replace a 1, add b 2, pop", true),
        (NONE, "replace a 1, pop, replace b 2", true),
        (Some("a 1"), "replace", false),
        (Some("a 1"), "resync, pop", false),
    ];
    for (known, script, expected) in table {
        let mut rig = Rig::<S>::new(mode, known);
        if !script.is_empty() {
            rig.run(script);
        }
        assert_eq!(rig.fifo.has_synced(), expected, "{known:?}, {script}");
    }
}

/// The scenario without blocking, which does not exist here.
#[test]
fn d28_close() {
    let mut rig = Rig::<Roomy>::new(Mode::Merged, NONE);
    assert_eq!(rig.fifo.pop().err(), Some(PopError::Empty));
    rig.run("add foo 1");
    rig.fifo.close();
    rig.run("add bar 2");
    assert_eq!(
        format!("{:?}", rig.fifo),
        "DeltaFifo { len: 2, has_synced: true, closed: true, .. }"
    );
    assert_eq!(rig.drain(), "foo: Added 1; bar: Added 2");
    assert_eq!(rig.fifo.pop().err(), Some(PopError::Closed));
}

/// With this many elements, a removal that moved the others would take minutes.
#[cfg(all(feature = "alloc", not(miri)))]
#[test]
fn many_deltas_of_a_key_are_taken_at_the_same_cost() {
    let mut fifo = DeltaFifo::<Obj, Heap>::new(Obj::write_key);
    for n in 0..300_000 {
        fifo.update(obj("a", n)).unwrap();
    }
    let mut taken = 0;
    for delta in fifo.pop().unwrap().deltas {
        assert_eq!(delta.object(None), Some(&obj("a", taken)));
        taken += 1;
    }
    assert_eq!(taken, 300_000);
}

/// Compares removing the oldest, removing the newest and adding, in any order, with a deque.
fn a_list_of_deltas_is_a_deque<S: Storage>(room: usize) {
    let mut rng = Rng::new(1);
    let mut list = S::Deltas::<u32>::default();
    let mut model = VecDeque::new();
    for n in 0..2_000 {
        match rng.below(5) {
            0 => assert_eq!(list.pop_oldest(), model.pop_front()),
            1 => assert_eq!(list.pop_newest(), model.pop_back()),
            _ if model.len() < room => {
                let delta = Delta::new(DeltaKind::Updated, Payload::Object(n));
                list.push(delta.clone());
                model.push_back(delta);
            }
            _ => model.drain(..).for_each(|delta| {
                assert_eq!(list.pop_oldest(), Some(delta));
            }),
        }
        assert_eq!(list.as_slice(), model.make_contiguous());
    }
}

#[test]
fn lists_of_deltas_are_deques() {
    #[cfg(feature = "alloc")]
    a_list_of_deltas_is_a_deque::<Heap>(9);
    a_list_of_deltas_is_a_deque::<Roomy>(2);
}

mod merged {
    use super::*;

    /// What was added stays added.
    const RULES: &str = "\
the last of two changes          | -   | add a 1, update a 2, replace a 3 | a: Added 3
the last of two changes          | -   | update a 1, replace a 2 | a: Sync 2
the last of two changes          | -   | replace a 1, update a 2 | a*: Updated 2
nothing of what the store lacks  |     | add a 1, delete a 2, gone a |
nothing of what the store lacks  |     | add a 1, replace |
nothing of what the store lacks  |     | add a 1, delete a 2, add a 3 | a: Added 3
the deletion of what it may have | -   | add a 1, delete a 2 | a: Deleted 2
the deletion of what it may have | a 0 | update a 1, replace | a: Deleted 1?
deletion and change, in order    | a 0 | gone a 1, add a 2, update a 3 | a: Deleted 1?, Added 3
deletion and change, in order    | a 0 | delete a 1, add a 2, delete a 3 | a: Deleted 1
a resync gives way               | a 0 | replace a 1, pop, resync, update a 2 | a: Updated 2
a resync gives way               | a 0 | replace a 1, pop, resync, replace | a: Deleted 0?";

    #[test]
    fn follows_the_rules() {
        run_all::<Tiny>(Mode::Merged, RULES);
    }

    /// Deltas that cancel out are not queued, and do not delay HasSynced.
    #[test]
    fn deltas_that_cancel_out_are_not_queued() {
        let mut rig = Rig::<Tiny>::new(Mode::Merged, EMPTY);
        rig.run("add a 1, add b 2, delete a 3");
        assert_eq!((rig.fifo.len(), rig.queued()), (1, vec!["b".to_string()]));
        rig.run("add c 4");
        assert_eq!(rig.drain(), "b: Added 2; c: Added 4", "it made room");

        rig.run("add a 1, delete a 2");
        assert!(rig.fifo.is_empty());
        assert_eq!(rig.fifo.pop().err(), Some(PopError::Empty));
    }

    /// The queue never requests this, since a resync skips queued keys.
    #[test]
    fn a_replay_does_not_take_the_place_of_an_object() {
        let mut deltas = <Roomy as Storage>::Deltas::<Obj>::default();
        let added = Delta::new(DeltaKind::Added, Payload::Object(obj("a", 1)));
        deltas.push(added.clone());
        let sync = Delta::new(DeltaKind::Sync, Payload::Stored);
        gather::<Obj, Roomy>(
            Mode::Merged,
            &mut deltas,
            sync,
            true,
            &mut Discarded::default(),
        );
        assert_eq!(deltas.as_slice(), [added]);
    }
}

mod full {
    use super::*;

    fn rig(known: Option<&str>) -> Rig<Tiny> {
        let mut rig = Rig::new(Mode::Merged, known);
        rig.run("add a 1, add b 2");
        rig
    }

    #[test]
    fn keys_that_do_not_fit_are_refused_and_the_rest_stays() {
        let mut rig = rig(Some("a 0 b 0 c 0 long-key 0"));
        for (line, why) in [
            ("add c 3", KeyError::Full),
            ("update c 3", KeyError::Full),
            ("delete c 3", KeyError::Full),
            ("gone c", KeyError::Full),
            ("resync", KeyError::Full),
            ("add long-key 3", KeyError::TooLong),
            ("delete long-key 3", KeyError::TooLong),
            ("gone long-key 3", KeyError::TooLong),
        ] {
            assert_eq!(rig.op(line), Err(why), "{line}");
            assert_eq!(rig.queued(), ["a", "b"], "{line}");
        }
        // A queued key can still change.
        rig.run("update a 3, delete b 4, add b 5");
        assert_eq!(rig.pop().as_deref(), Some("a: Added 3"));
        rig.run("add c 6");
        assert_eq!(rig.drain(), "b: Deleted 4, Added 5; c: Added 6");
    }

    #[test]
    fn a_list_too_long_ends_at_the_first_that_does_not_fit() {
        let mut rig = Rig::<Tiny>::new(Mode::Merged, NONE);
        assert_eq!(rig.op("replace a 1 b 2 c 3"), Err(KeyError::Full));
        assert_eq!(rig.queued(), ["a", "b"]);
        assert!(!rig.fifo.has_synced());
        rig.run("pop, pop");
        assert!(!rig.fifo.has_synced(), "the list was incomplete");
        rig.run("replace a 1 b 2, pop, pop");
        assert!(rig.fifo.has_synced());
    }

    #[test]
    fn deletions_that_do_not_fit_are_made_by_the_next_list() {
        let mut rig = Rig::<Tiny>::new(Mode::Merged, Some("a 1 b 2 c 3"));
        assert_eq!(rig.op("replace a 4"), Err(KeyError::Full));
        assert_eq!(rig.drain(), "a*: Sync 4; b*: Deleted 2?");
        assert!(!rig.fifo.has_synced(), "c is still to be deleted");
        rig.known = Some(objects("a 4 c 3"));
        rig.run("replace a 4");
        assert_eq!(rig.drain(), "a*: Sync 4; c*: Deleted 3?");
        assert!(rig.fifo.has_synced());
    }

    #[test]
    fn a_list_makes_no_room_by_its_deletions() {
        // Even if both would fit in the end, no queued delta is dropped.
        let mut rig = rig(Some("a 1 b 2"));
        assert_eq!(rig.op("replace c 3"), Err(KeyError::Full));
        assert_eq!(rig.drain(), "a: Added 1; b: Added 2");
    }

    /// A key that is longer than any key of Kubernetes is distinguished from a key function that fails.
    #[test]
    fn a_key_longer_than_any_of_kubernetes_is_too_long() {
        let mut fifo = DeltaFifo::<Obj, Roomy>::merged(Obj::write_key);
        assert_eq!(fifo.add(obj(&"x".repeat(400), 1)), Err(KeyError::TooLong));
        assert_eq!(fifo.add(obj(&"x".repeat(33), 1)), Err(KeyError::TooLong));
        assert_eq!(fifo.add(obj(&"x".repeat(32), 1)), Ok(()));
    }
}
