//! The contract of the DeltaFIFO, on both storages and in both modes.
//!
//! `d01` to `d28` are the scenarios of client-go's own tests. D10, the transformer, is left out: objects are decoded
//! and pruned before they are queued, so the queue transforms nothing.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt::Write;

use super::*;
use crate::cache::indexer::Indexer;
#[cfg(feature = "alloc")]
use crate::storage::Heap;
use crate::storage::Inline;

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
    d01_keys_of_each_producer_pop_in_their_order
    d02_replace_after_a_deletion_is_not_lost
    d03_add_replace_nothing
    d04_add_replace_it_replace_nothing
    d05_add_delete_replace_nothing
    d06_add_replace_it_twice_replace_nothing
    d07_add_replace_nothing_twice
    d08_add_delete_add_replace_nothing
    d09_changes_of_a_key_pop_together
    d11_without_a_store_an_unknown_deletion_is_ignored
    d12_a_deletion_of_a_known_key_is_queued
    d13_add_and_replace_pop_together
    d14_no_sync_of_what_is_being_deleted
    d15_resync_replays_each_known_object
    d16_a_deletion_of_what_the_store_lacks
    d17_replace_keeps_a_deletion_that_waits
    d18_replace_deletes_an_addition_that_waits
    d19_a_tombstone_has_the_newest_object
    d20_a_tombstone_of_a_listed_object
    d21_replace_without_a_store_deletes_what_is_queued
    d22_replaced_instead_of_sync
    d23_no_sync_over_an_update
    d24_deletions_count_for_has_synced
    d25_a_queued_key_keeps_its_place
    d26_keys_of_everything
    x15_d27_has_synced
    d28_close
    two_deletions_in_a_row_are_one
    a_deletion_of_an_unknown_state
    an_object_without_a_key_is_refused
    a_replace_that_fails_is_not_a_population
    a_resync_before_the_first_list_is_part_of_it
    what_waits_can_be_looked_at
    a_key_function_of_ones_own
    agrees_with_the_model_with_a_store
    agrees_with_the_model_without_a_store
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

impl Keyed for Obj {
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
            "pop" => self.fifo.pop().map(drop).map_err(|_| KeyError::NoDeltas),
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

/// Runs a script on a new queue, and compares all that is popped afterwards.
fn check<S: Storage>(mode: Mode, known: Option<&str>, script: &str, all: &str, merged: &str) {
    let mut rig = Rig::<S>::new(mode, known);
    rig.run(script);
    let expected = if mode == Mode::All { all } else { merged };
    assert_eq!(
        rig.drain(),
        expected,
        "{mode:?}, store {known:?}, after {script}"
    );
    assert!(rig.fifo.has_synced() && rig.fifo.is_empty(), "{script}");
}

/// Like [`check`], if the mode makes no difference.
fn check_same<S: Storage>(mode: Mode, known: Option<&str>, script: &str, expected: &str) {
    check::<S>(mode, known, script, expected, expected);
}

/// The queue gets no store.
const NONE: Option<&str> = None;
/// An empty store.
const EMPTY: Option<&str> = Some("");

fn d01_keys_of_each_producer_pop_in_their_order<S: Storage>(mode: Mode) {
    // Fixed-size storage is moved often, which is slow under miri.
    let many = if cfg!(miri) { 20 } else { 500 };
    let mut fifo = DeltaFifo::<Obj, S>::in_mode(Obj::write_key, mode);
    for n in 0..many {
        fifo.add(obj(&format!("a{n}"), n)).unwrap();
        fifo.add(obj(&format!("b{}", n + 1000), n)).unwrap();
    }
    let mut popped = [Vec::new(), Vec::new()];
    while let Ok(next) = fifo.pop() {
        let key = next.deltas.key().as_ref();
        let (producer, n) = key.split_at(1);
        popped[usize::from(producer == "b")].push(n.parse::<u32>().unwrap());
    }
    assert!(popped[0].iter().copied().eq(0..many));
    assert!(popped[1].iter().copied().eq(1000..1000 + many));
}

fn d02_replace_after_a_deletion_is_not_lost<S: Storage>(mode: Mode) {
    check_same::<S>(
        mode,
        Some("foo 1"),
        "delete foo 1, replace foo 2",
        "foo: Deleted 1, Sync 2",
    );
}

fn d03_add_replace_nothing<S: Storage>(mode: Mode) {
    let script = "add foo 1, replace";
    let all = "foo: Added 1, Deleted 1?";
    check::<S>(mode, NONE, script, all, "foo: Deleted 1?");
    check::<S>(mode, EMPTY, script, all, "");
    check::<S>(mode, Some("foo 0"), script, all, "foo: Deleted 1?");
}

fn d04_add_replace_it_replace_nothing<S: Storage>(mode: Mode) {
    let script = "emit_replaced, add foo 1, replace foo 2, replace";
    let all = "foo: Added 1, Replaced 2, Deleted 2?";
    check::<S>(mode, NONE, script, all, "foo: Deleted 2?");
    check::<S>(mode, EMPTY, script, all, "");
    check::<S>(mode, Some("foo 0"), script, all, "foo: Deleted 2?");
}

fn d05_add_delete_replace_nothing<S: Storage>(mode: Mode) {
    let script = "add foo 1, delete foo 2, replace";
    let all = "foo: Added 1, Deleted 2";
    check::<S>(mode, NONE, script, all, "foo: Deleted 2");
    check::<S>(mode, EMPTY, script, all, "");
    check::<S>(mode, Some("foo 0"), script, all, "foo: Deleted 2");
}

fn d06_add_replace_it_twice_replace_nothing<S: Storage>(mode: Mode) {
    let script = "add foo 1, replace foo 2, replace foo 3, replace";
    let all = "foo: Added 1, Sync 2, Sync 3, Deleted 3?";
    check::<S>(mode, NONE, script, all, "foo: Deleted 3?");
    check::<S>(mode, EMPTY, script, all, "");
    check::<S>(mode, Some("foo 0"), script, all, "foo: Deleted 3?");
}

fn d07_add_replace_nothing_twice<S: Storage>(mode: Mode) {
    let script = "add foo 1, replace, replace";
    let all = "foo: Added 1, Deleted 1?";
    check::<S>(mode, NONE, script, all, "foo: Deleted 1?");
    check::<S>(mode, EMPTY, script, all, "");
    check::<S>(mode, Some("foo 0"), script, all, "foo: Deleted 1?");
}

fn d08_add_delete_add_replace_nothing<S: Storage>(mode: Mode) {
    let script = "add foo 1, delete foo 1, add foo 2, replace";
    let all = "foo: Added 1, Deleted 1, Added 2, Deleted 2?";
    check::<S>(mode, NONE, script, all, "foo: Deleted 1");
    check::<S>(mode, EMPTY, script, all, "");
    check::<S>(mode, Some("foo 0"), script, all, "foo: Deleted 1");
}

fn d09_changes_of_a_key_pop_together<S: Storage>(mode: Mode) {
    let mut rig = Rig::<S>::new(mode, NONE);
    rig.run("add foo 10, update foo 12, delete foo 15");
    assert_eq!(rig.queued(), ["foo"]);
    let newest = rig.fifo.pending("foo").last().cloned().unwrap();
    assert_eq!(newest.kind, DeltaKind::Deleted);
    assert_eq!(newest.object(None), Some(&obj("foo", 15)));
    let expected = match mode {
        Mode::All => "foo: Added 10, Updated 12, Deleted 15",
        Mode::Merged => "foo: Deleted 15",
    };
    assert_eq!(rig.pop().as_deref(), Some(expected));
    assert!(rig.fifo.pending("foo").is_empty());
    assert_eq!(rig.pop(), None);
}

fn d11_without_a_store_an_unknown_deletion_is_ignored<S: Storage>(mode: Mode) {
    check_same::<S>(mode, NONE, "delete foo 10", "");
    check_same::<S>(mode, NONE, "gone foo 10", "");
    let all = "foo: Added 15, Deleted 16";
    check::<S>(
        mode,
        NONE,
        "add foo 15, delete foo 16",
        all,
        "foo: Deleted 16",
    );
    // A popped key is unknown again.
    let mut rig = Rig::<S>::new(mode, NONE);
    rig.run("add foo 15, pop, delete foo 16");
    assert_eq!(rig.pop(), None);
}

fn d12_a_deletion_of_a_known_key_is_queued<S: Storage>(mode: Mode) {
    let known = Some("foo 10 bar 1 baz 2");
    check_same::<S>(mode, known, "delete foo 15", "foo: Deleted 15");
    check_same::<S>(mode, known, "gone baz 2", "baz: Deleted 2?");
    check_same::<S>(mode, known, "delete zab 1, gone zab", "");
}

fn d13_add_and_replace_pop_together<S: Storage>(mode: Mode) {
    check::<S>(
        mode,
        NONE,
        "add foo 10, replace foo 15",
        "foo: Added 10, Sync 15",
        "foo: Added 15",
    );
}

fn d14_no_sync_of_what_is_being_deleted<S: Storage>(mode: Mode) {
    check_same::<S>(
        mode,
        Some("foo 5"),
        "delete foo 10, resync",
        "foo: Deleted 10",
    );
}

fn d15_resync_replays_each_known_object<S: Storage>(mode: Mode) {
    let mut rig = Rig::<S>::new(mode, Some("foo 5 bar 6"));
    rig.run("resync, resync");
    assert!(!rig.fifo.has_synced(), "a resync is not a population");
    assert!(
        rig.fifo
            .pending("foo")
            .iter()
            .map(|delta| &delta.payload)
            .eq([&Payload::Stored]),
        "it refers to the object and does not own it"
    );
    assert_eq!(rig.drain(), "foo*: Sync 5; bar*: Sync 6");
    check_same::<S>(mode, EMPTY, "replace, resync", "");
}

fn d16_a_deletion_of_what_the_store_lacks<S: Storage>(mode: Mode) {
    check::<S>(
        mode,
        EMPTY,
        "add foo 5, delete foo 6",
        "foo: Added 5, Deleted 6",
        "",
    );
}

fn d17_replace_keeps_a_deletion_that_waits<S: Storage>(mode: Mode) {
    check_same::<S>(
        mode,
        Some("foo 5 bar 6 baz 7"),
        "delete baz 10, replace foo 5",
        "baz: Deleted 10; foo: Sync 5; bar: Deleted 6?",
    );
}

fn d18_replace_deletes_an_addition_that_waits<S: Storage>(mode: Mode) {
    check::<S>(
        mode,
        Some("foo 5 bar 6 baz 7"),
        "add baz 10, replace foo 5",
        "baz: Added 10, Deleted 10?; foo: Sync 5; bar: Deleted 6?",
        "baz: Deleted 10?; foo: Sync 5; bar: Deleted 6?",
    );
}

fn d19_a_tombstone_has_the_newest_object<S: Storage>(mode: Mode) {
    check::<S>(
        mode,
        Some("foo 5 bar 6 baz 7"),
        "delete bar 6, add bar 100, replace foo 5",
        "bar: Deleted 6, Added 100, Deleted 100?; foo: Sync 5; baz: Deleted 7?",
        // The stored object is removed by the real deletion, and the new object leaves no trace.
        "bar: Deleted 6; foo: Sync 5; baz: Deleted 7?",
    );
}

fn d20_a_tombstone_of_a_listed_object<S: Storage>(mode: Mode) {
    let script = "replace bar 100 foo 5, replace foo 5";
    let all = "bar*: Sync 100, Deleted 100?; foo*: Sync 5, Sync 5";
    check::<S>(mode, EMPTY, script, all, "foo*: Sync 5");
    check::<S>(mode, NONE, script, all, "bar*: Deleted 100?; foo*: Sync 5");
    check::<S>(
        mode,
        Some("foo 5 bar 6 baz 7"),
        script,
        "bar*: Sync 100, Deleted 100?; foo*: Sync 5, Sync 5; baz*: Deleted 7?",
        "bar*: Deleted 100?; foo*: Sync 5; baz*: Deleted 7?",
    );
}

fn d21_replace_without_a_store_deletes_what_is_queued<S: Storage>(mode: Mode) {
    check::<S>(
        mode,
        NONE,
        "add baz 10, replace foo 5",
        "baz: Added 10, Deleted 10?; foo: Sync 5",
        "baz: Deleted 10?; foo: Sync 5",
    );
}

fn d22_replaced_instead_of_sync<S: Storage>(mode: Mode) {
    check_same::<S>(
        mode,
        Some("foo 5 bar 6 baz 7"),
        "emit_replaced, delete baz 10, replace foo 5",
        "baz: Deleted 10; foo: Replaced 5; bar: Deleted 6?",
    );
    // A resync is a Sync in this mode, too.
    check_same::<S>(
        mode,
        Some("foo 5 bar 6"),
        "emit_replaced, replace foo 7 bar 6, pop, resync",
        "bar*: Replaced 6; foo: Sync 5",
    );
    check_same::<S>(mode, NONE, "replace foo 5", "foo*: Sync 5");
}

fn d23_no_sync_over_an_update<S: Storage>(mode: Mode) {
    check_same::<S>(
        mode,
        Some("foo 5"),
        "update foo 10, resync",
        "foo: Updated 10",
    );
}

fn d24_deletions_count_for_has_synced<S: Storage>(mode: Mode) {
    let mut rig = Rig::<S>::new(mode, Some("foo 5 bar 6 baz 7"));
    rig.run("replace foo 5");
    for expected in ["foo*: Sync 5", "bar*: Deleted 6?", "baz*: Deleted 7?"] {
        assert!(!rig.fifo.has_synced());
        assert_eq!(rig.pop().as_deref(), Some(expected));
    }
    assert!(rig.fifo.has_synced());
    // Once synced, it stays synced.
    rig.run("replace");
    assert!(rig.fifo.has_synced());
    assert_eq!(
        rig.drain(),
        "foo: Deleted 5?; bar: Deleted 6?; baz: Deleted 7?"
    );
}

fn d25_a_queued_key_keeps_its_place<S: Storage>(mode: Mode) {
    let mut rig = Rig::<S>::new(mode, NONE);
    rig.run("add foo 10, add bar 1, add foo 11, add foo 13, add zab 30");
    assert_eq!(rig.queued(), ["foo", "bar", "zab"]);
    let foo = match mode {
        Mode::All => "foo: Added 10, Added 11, Added 13",
        Mode::Merged => "foo: Added 13",
    };
    assert_eq!(rig.pop().as_deref(), Some(foo));
    rig.run("add foo 14");
    assert_eq!(rig.drain(), "bar: Added 1; zab: Added 30; foo: Added 14");
}

fn d26_keys_of_everything<S: Storage>(mode: Mode) {
    let mut fifo = DeltaFifo::<Obj, S>::in_mode(Obj::write_key, mode);
    let text = |key: Result<S::Text, KeyError>| key.map(|key| key.as_ref().to_string());
    let is = |key: &str| Ok(key.to_string());
    let tombstone = |key, last| Tombstone { key, last };
    assert_eq!(
        text(fifo.key_of(KeyOf::Object(&obj("foo", 1)))),
        is("foo"),
        "an object"
    );
    assert_eq!(
        text(fifo.key_of(KeyOf::Object(&obj("", 1)))),
        Err(KeyError::NoKey)
    );
    // A tombstone has its own key, independent of the object in it.
    for last in [None, Some(obj("other", 1))] {
        let tombstone = tombstone("foo", last);
        assert_eq!(text(fifo.key_of(KeyOf::Tombstone(&tombstone))), is("foo"));
    }

    fifo.add(obj("foo", 1)).unwrap();
    let mut deltas = fifo.pop().unwrap().deltas;
    assert_eq!(text(fifo.key_of(KeyOf::Deltas(&deltas))), is("foo"));
    assert!(deltas.next().is_some());
    assert_eq!(
        text(fifo.key_of(KeyOf::Deltas(&deltas))),
        Err(KeyError::NoDeltas)
    );

    let known = vec![obj("gone", 1)];
    let deletion = tombstone("gone", Some(obj("other", 1)));
    fifo.delete_tombstone(deletion, Some(&known)).unwrap();
    let deltas = fifo.pop().unwrap().deltas;
    assert_eq!(text(fifo.key_of(KeyOf::Deltas(&deltas))), is("gone"));
}

fn x15_d27_has_synced<S: Storage>(mode: Mode) {
    let table = [
        (NONE, "", false),
        (NONE, "add a 1", true),
        (NONE, "update a 1", true),
        (NONE, "delete a 1", true),
        (NONE, "gone a", true),
        (NONE, "replace", true),
        (NONE, "replace a 1 b 2", false),
        (NONE, "replace a 1 b 2, pop", false),
        (NONE, "replace a 1 b 2, pop, pop", true),
        (NONE, "replace a 1 a 2, pop", true),
        (NONE, "replace a 1 b 2 a 3, pop", false),
        (NONE, "add a 1, replace a 1 b 2", true),
        (NONE, "replace a 1, add b 2, pop", true),
        (NONE, "replace a 1, add b 2, replace c 3", false),
        (EMPTY, "replace", true),
        (Some("a 1"), "replace", false),
        (Some("a 1"), "replace, pop", true),
        (Some("a 1"), "resync", false),
        (Some("a 1"), "resync, pop", false),
        (Some("a 1 b 2"), "replace b 3, pop", false),
        (Some("a 1 b 2"), "replace b 3, pop, pop", true),
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
fn d28_close<S: Storage>(mode: Mode) {
    let mut rig = Rig::<S>::new(mode, NONE);
    assert_eq!(rig.fifo.pop().err(), Some(PopError::Empty));
    rig.run("add foo 1");
    rig.fifo.close();
    assert!(rig.fifo.is_closed());
    rig.run("add bar 2");
    assert_eq!(rig.drain(), "foo: Added 1; bar: Added 2");
    assert_eq!(rig.fifo.pop().err(), Some(PopError::Closed));
    rig.run("add foo 3");
    assert_eq!(rig.drain(), "foo: Added 3");
}

fn two_deletions_in_a_row_are_one<S: Storage>(mode: Mode) {
    let known = Some("a 1");
    for (script, expected) in [
        // The older deletion wins if it is real, and loses if it is a tombstone.
        ("delete a 2, delete a 3", "a: Deleted 2"),
        ("delete a 2, gone a 3", "a: Deleted 2"),
        ("delete a 2, gone a", "a: Deleted 2"),
        ("gone a 2, delete a 3", "a: Deleted 3"),
        ("gone a 2, gone a 3", "a: Deleted 3?"),
        ("gone a 2, gone a", "a: Deleted?"),
        ("gone a, gone a 3, delete a 4, gone a 5", "a: Deleted 4"),
        ("delete a 2, replace", "a: Deleted 2"),
        ("gone a 2, replace", "a: Deleted 2?"),
        ("gone a, replace", "a: Deleted?"),
    ] {
        check_same::<S>(mode, known, script, expected);
    }
    // Only consecutive deletions collapse.
    check_same::<S>(mode, known, "delete a 2, add a 3", "a: Deleted 2, Added 3");
    check::<S>(
        mode,
        known,
        "delete a 2, add a 3, delete a 4, gone a 5",
        "a: Deleted 2, Added 3, Deleted 4",
        "a: Deleted 2",
    );
    let mut rig = Rig::<S>::new(mode, known);
    rig.run("replace, delete a 3");
    assert_eq!(rig.drain(), "a*: Deleted 3", "the tombstone of a list too");
}

fn a_deletion_of_an_unknown_state<S: Storage>(mode: Mode) {
    check::<S>(
        mode,
        NONE,
        "add a 1, gone a",
        "a: Added 1, Deleted?",
        "a: Deleted?",
    );
    check::<S>(
        mode,
        NONE,
        "add a 1, gone a, replace a 2, replace",
        "a: Added 1, Deleted?, Sync 2, Deleted 2?",
        "a: Deleted?",
    );
}

fn an_object_without_a_key_is_refused<S: Storage>(mode: Mode) {
    let mut fifo = DeltaFifo::<Obj, S>::in_mode(Obj::write_key, mode);
    assert_eq!(fifo.delete(obj("", 1), None), Err(KeyError::NoKey));
    assert!(!fifo.has_synced(), "a deletion without a key is nothing");
    assert_eq!(fifo.add(obj("", 1)), Err(KeyError::NoKey));
    assert!(
        fifo.has_synced(),
        "but an addition populates, as in client-go"
    );
    assert_eq!(fifo.update(obj("", 1)), Err(KeyError::NoKey));
    assert!(fifo.is_empty() && fifo.pop().is_err());
}

fn a_replace_that_fails_is_not_a_population<S: Storage>(mode: Mode) {
    let known = vec![obj("a", 1), obj("b", 1)];
    let mut rig = Rig::<S>::new(mode, Some("a 1 b 1"));
    let list = [obj("c", 2), obj("", 2), obj("d", 2)];
    assert_eq!(rig.fifo.replace(list, Some(&known)), Err(KeyError::NoKey));
    assert_eq!(rig.queued(), ["c"], "earlier items stay queued");
    assert!(!rig.fifo.has_synced());
    // The next list compensates for it.
    rig.run("replace a 3 c 3");
    assert_eq!(rig.queued(), ["c", "a", "b"]);
    rig.run("pop, pop");
    assert!(!rig.fifo.has_synced());
    rig.run("pop");
    assert!(rig.fifo.has_synced());
}

fn a_resync_before_the_first_list_is_part_of_it<S: Storage>(mode: Mode) {
    check::<S>(
        mode,
        Some("a 1 b 2"),
        "resync, replace b 3",
        "a*: Sync 1, Deleted 1?; b*: Sync 2, Sync 3",
        "a*: Deleted 1?; b*: Sync 3",
    );
}

fn what_waits_can_be_looked_at<S: Storage>(mode: Mode) {
    let mut rig = Rig::<S>::new(mode, NONE);
    assert!(rig.fifo.is_empty() && rig.queued().is_empty());
    assert_eq!(format!("{:?}", rig.fifo.pop()), "Err(the queue is empty)");
    rig.run("update a 1, add b 2");
    assert_eq!((rig.fifo.len(), rig.fifo.is_empty()), (2, false));
    assert!(rig.fifo.pending("c").is_empty());
    let [delta] = rig.fifo.pending("a") else {
        panic!("one delta");
    };
    assert_eq!(
        *delta,
        Delta::new(DeltaKind::Updated, Payload::Object(obj("a", 1)))
    );
    let popped = rig.fifo.pop().unwrap();
    assert_eq!(popped.deltas.newest(), popped.deltas.oldest());
    assert!(format!("{popped:?}").contains("Updated"));
    assert_eq!(rig.queued(), ["b"]);
    assert!(format!("{:?}", rig.fifo).contains("len: 1"));
}

fn a_key_function_of_ones_own<S: Storage>(mode: Mode) {
    let by_version = |object: &Obj, out: &mut dyn Write| write!(out, "v{}", object.rv);
    let mut fifo = DeltaFifo::<Obj, S>::in_mode(by_version, mode);
    fifo.add(obj("a", 1)).unwrap();
    fifo.add(obj("b", 1)).unwrap();
    fifo.add(obj("a", 2)).unwrap();
    assert_eq!(fifo.len(), 2);
    assert_eq!(fifo.pop().unwrap().deltas.key().as_ref(), "v1");
}

#[test]
fn fixed_storage_merges() {
    let mut fifo = DeltaFifo::<Obj, Roomy>::default();
    fifo.update(obj("a", 1)).unwrap();
    fifo.update(obj("a", 2)).unwrap();
    assert_eq!(fifo.pop().unwrap().deltas.count(), 1);
}

#[cfg(feature = "alloc")]
#[test]
fn growing_storage_keeps_every_delta_unless_told_otherwise() {
    for (mut fifo, count) in [
        (DeltaFifo::<Obj, Heap>::new(), 2),
        (DeltaFifo::default(), 2),
        (DeltaFifo::merged(), 1),
    ] {
        fifo.update(obj("a", 1)).unwrap();
        fifo.update(obj("a", 2)).unwrap();
        assert_eq!(fifo.pop().unwrap().deltas.count(), count);
    }
}

/// With this many elements, a removal that moved the others would take minutes.
#[cfg(all(feature = "alloc", not(miri)))]
#[test]
fn many_deltas_of_a_key_are_taken_at_the_same_cost() {
    let mut fifo = DeltaFifo::<Obj, Heap>::new();
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
    let mut rng = XorShift(0x9e37_79b9_7f4a_7c15);
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

    /// A store with an older `a`.
    const STORED: Option<&str> = Some("a 0");

    /// Every pair of a change and a later operation, and some longer sequences.
    const RULES: [(Option<&str>, &str, &str); 36] = [
        // Two changes become the last one; an addition stays an addition.
        (NONE, "add a 1, add a 2", "a: Added 2"),
        (NONE, "add a 1, update a 2", "a: Added 2"),
        (NONE, "add a 1, replace a 2", "a: Added 2"),
        (NONE, "update a 1, add a 2", "a: Added 2"),
        (NONE, "update a 1, update a 2", "a: Updated 2"),
        (NONE, "update a 1, replace a 2", "a: Sync 2"),
        (NONE, "replace a 1, add a 2", "a*: Added 2"),
        (NONE, "replace a 1, update a 2", "a*: Updated 2"),
        (NONE, "replace a 1, replace a 2", "a*: Sync 2"),
        (
            NONE,
            "add a 1, update a 2, replace a 3, update a 4",
            "a: Added 4",
        ),
        // A change and a deletion cancel out if the store lacks the key.
        (EMPTY, "add a 1, delete a 2", ""),
        (EMPTY, "update a 1, delete a 2", ""),
        (EMPTY, "replace a 1, delete a 2", ""),
        (EMPTY, "add a 1, gone a", ""),
        (EMPTY, "add a 1, replace", ""),
        (EMPTY, "add a 1, delete a 2, delete a 3", ""),
        (EMPTY, "add a 1, delete a 2, gone a", ""),
        (EMPTY, "add a 1, delete a 2, replace", ""),
        (EMPTY, "add a 1, delete a 2, add a 3", "a: Added 3"),
        (EMPTY, "add a 1, delete a 2, update a 3, delete a 4", ""),
        // If the store has the key, or may have it, the deletion remains.
        (NONE, "add a 1, delete a 2", "a: Deleted 2"),
        (STORED, "add a 1, delete a 2", "a: Deleted 2"),
        (STORED, "update a 1, delete a 2", "a: Deleted 2"),
        (STORED, "update a 1, gone a 2", "a: Deleted 2?"),
        (STORED, "update a 1, replace", "a: Deleted 1?"),
        // A deletion and a change both remain, in order; later operations merge with the change.
        (STORED, "delete a 1, add a 2", "a: Deleted 1, Added 2"),
        (STORED, "gone a 1, add a 2", "a: Deleted 1?, Added 2"),
        (STORED, "delete a 1, replace a 2", "a: Deleted 1, Sync 2"),
        (
            STORED,
            "delete a 1, add a 2, update a 3",
            "a: Deleted 1, Added 3",
        ),
        (STORED, "delete a 1, add a 2, delete a 3", "a: Deleted 1"),
        (STORED, "gone a 1, add a 2, delete a 3", "a: Deleted 1?"),
        (
            STORED,
            "delete a 1, add a 2, delete a 3, update a 4",
            "a: Deleted 1, Updated 4",
        ),
        // A resync replaces no pending delta, and any delta replaces it.
        (STORED, "update a 1, resync", "a: Updated 1"),
        (STORED, "delete a 1, resync", "a: Deleted 1"),
        (
            STORED,
            "replace a 1, pop, resync, update a 2",
            "a: Updated 2",
        ),
        (STORED, "replace a 1, pop, resync, replace", "a: Deleted 0?"),
    ];

    fn follows_the_rules<S: Storage>() {
        for (known, script, expected) in RULES {
            check::<S>(Mode::Merged, known, script, "", expected);
        }
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn follows_the_rules_on_heap() {
        follows_the_rules::<Heap>();
    }

    #[test]
    fn follows_the_rules_inline() {
        follows_the_rules::<Roomy>();
        follows_the_rules::<Tiny>();
    }

    /// Deltas that cancel out are not queued, and do not delay HasSynced.
    #[test]
    fn what_came_to_nothing_is_gone() {
        let mut rig = Rig::<Tiny>::new(Mode::Merged, EMPTY);
        rig.run("add a 1, add b 2, delete a 3");
        assert_eq!((rig.fifo.len(), rig.queued()), (1, vec!["b".to_string()]));
        rig.run("add c 4");
        assert_eq!(rig.drain(), "b: Added 2; c: Added 4", "it made room");

        rig.run("add a 1, delete a 2");
        assert!(rig.fifo.is_empty());
        assert_eq!(rig.fifo.pop().err(), Some(PopError::Empty));
    }

    #[test]
    fn what_came_to_nothing_does_not_hold_back_has_synced() {
        let after = |script| {
            let mut rig = Rig::<Roomy>::new(Mode::Merged, EMPTY);
            rig.run(script);
            rig
        };
        assert!(after("replace a 1, delete a 2").fifo.has_synced());

        let mut rig = after("replace a 1 b 1, delete b 2");
        assert!(!rig.fifo.has_synced());
        assert_eq!(rig.drain(), "a*: Sync 1");
        assert!(rig.fifo.has_synced());

        // They do not count twice either.
        let mut rig = after("replace a 1 b 1, add c 2, delete c 3, delete a 2, add a 4");
        assert!(!rig.fifo.has_synced());
        assert_eq!(rig.drain(), "b*: Sync 1; a: Added 4");
    }

    /// Removing keys at the head, the middle and the end of the queue preserves the order of the others.
    #[test]
    fn leaves_the_queue_from_any_place() {
        for (gone, expected) in [("a", ["b", "c"]), ("b", ["a", "c"]), ("c", ["a", "b"])] {
            let mut rig = Rig::<Roomy>::new(Mode::Merged, EMPTY);
            rig.run(&format!("add a 1, add b 1, add c 1, delete {gone} 2"));
            assert_eq!(rig.queued(), expected);
            rig.run("add d 1");
            assert_eq!(rig.queued(), [expected[0], expected[1], "d"]);
            rig.run("pop, add e 1, delete d 2, add f 1");
            assert_eq!(rig.queued(), [expected[1], "e", "f"]);
        }
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
    fn what_does_not_fit_is_refused_and_the_rest_stays() {
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
    fn a_key_that_the_storage_cannot_take_has_no_text() {
        let rig = rig(NONE);
        let too_long = obj("long-key", 1);
        let tombstone = Tombstone {
            key: "long-key",
            last: None,
        };
        for of in [KeyOf::Object(&too_long), KeyOf::Tombstone(&tombstone)] {
            assert_eq!(rig.fifo.key_of(of).err(), Some(KeyError::TooLong));
        }
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
        let mut fifo = DeltaFifo::<Obj, Roomy>::merged_with_key_fn(Obj::write_key);
        assert_eq!(fifo.add(obj(&"x".repeat(400), 1)), Err(KeyError::TooLong));
        assert_eq!(fifo.add(obj(&"x".repeat(33), 1)), Err(KeyError::TooLong));
        assert_eq!(fifo.add(obj(&"x".repeat(32), 1)), Ok(()));
    }
}

/// A delta at the time when it was queued.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    kind: DeltaKind,
    object: Option<Obj>,
    tombstone: bool,
}

impl Told {
    fn new(kind: DeltaKind, object: &Obj) -> Self {
        Self {
            kind,
            object: Some(object.clone()),
            tombstone: false,
        }
    }

    fn tombstone(object: Option<Obj>) -> Self {
        Self {
            kind: DeltaKind::Deleted,
            object,
            tombstone: true,
        }
    }
}

/// The queue as client-go specifies it, with a copy of every object, and the consumer's store.
struct Model {
    mode: Mode,
    emit_replaced: bool,
    /// Whether the queue has access to the store.
    sees_store: bool,
    items: BTreeMap<String, Vec<Told>>,
    queue: VecDeque<String>,
    populated: bool,
    /// The keys of the initial population that were not popped yet.
    initial: BTreeSet<String>,
    store: BTreeMap<String, Obj>,
}

impl Model {
    fn has_synced(&self) -> bool {
        self.populated && self.initial.is_empty()
    }

    fn is_stored(&self, key: &str) -> bool {
        !self.sees_store || self.store.contains_key(key)
    }

    fn enqueue(&mut self, key: &str, notified: Told) {
        let stored = self.is_stored(key);
        let list = self.items.entry(key.to_string()).or_default();
        if list.is_empty() {
            self.queue.push_back(key.to_string());
        }
        let gathered = match self.mode {
            Mode::All => Self::gather(core::mem::take(list), notified),
            Mode::Merged => Self::merge(core::mem::take(list), notified, stored),
        };
        *list = gathered;
        if list.is_empty() {
            self.items.remove(key);
            self.queue.retain(|queued| queued != key);
            self.initial.remove(key);
        }
    }

    fn gather(mut list: Vec<Told>, notified: Told) -> Vec<Told> {
        list.push(notified);
        if let [.., older, newer] = list.as_slice()
            && older.kind == DeltaKind::Deleted
            && newer.kind == DeltaKind::Deleted
        {
            let newer = list.pop().unwrap();
            if list.last().unwrap().tombstone {
                list.pop();
                list.push(newer);
            }
        }
        list
    }

    /// A merged list is a deletion, a change, or a deletion and a change.
    fn merge(list: Vec<Told>, notified: Told, stored: bool) -> Vec<Told> {
        let (deletions, changes): (Vec<Told>, Vec<Told>) = list
            .into_iter()
            .partition(|notified| notified.kind == DeltaKind::Deleted);
        let (deletion, change) = (deletions.into_iter().next(), changes.into_iter().next());
        let (deletion, change) = match (deletion, change, notified.kind == DeltaKind::Deleted) {
            (deletion, Some(change), false) if change.kind == DeltaKind::Added => {
                let kind = DeltaKind::Added;
                (deletion, Some(Told { kind, ..notified }))
            }
            (deletion, _, false) => (deletion, Some(notified)),
            (Some(deletion), Some(_), true) => (Some(deletion), None),
            (Some(older), None, true) if !older.tombstone => (Some(older), None),
            (_, None, true) => (Some(notified), None),
            (None, Some(_), true) => (Some(notified).filter(|_| stored), None),
        };
        deletion.into_iter().chain(change).collect()
    }

    fn delete(&mut self, key: &str, notified: Told) {
        self.populated = true;
        let known = self.sees_store && self.store.contains_key(key);
        if known || self.items.contains_key(key) {
            self.enqueue(key, notified);
        }
    }

    /// Returns the queued keys whose order is unspecified.
    fn replace(&mut self, items: &[Obj]) -> BTreeSet<String> {
        let kind = if self.emit_replaced {
            DeltaKind::Replaced
        } else {
            DeltaKind::Sync
        };
        for item in items {
            if item.key.is_empty() {
                return BTreeSet::new();
            }
            self.enqueue(&item.key, Told::new(kind, item));
        }
        let listed: BTreeSet<&str> = items.iter().map(|item| item.key.as_str()).collect();
        let queued: Vec<String> = self.items.keys().cloned().collect();
        for key in queued.iter().filter(|key| !listed.contains(key.as_str())) {
            let last = self.items[key].last().unwrap().object.clone();
            self.enqueue(key, Told::tombstone(last));
        }
        let mut unordered = BTreeSet::new();
        if self.sees_store {
            for (key, object) in self.store.clone() {
                if !listed.contains(key.as_str()) && !self.items.contains_key(&key) {
                    self.enqueue(&key, Told::tombstone(Some(object)));
                    unordered.insert(key);
                }
            }
        }
        if !self.populated {
            self.populated = true;
            self.initial = self.items.keys().cloned().collect();
        }
        unordered
    }

    /// Returns the queued keys whose order is unspecified.
    fn resync(&mut self) -> BTreeSet<String> {
        let mut unordered = BTreeSet::new();
        for (key, object) in self.store.clone() {
            if !self.items.contains_key(&key) {
                self.enqueue(&key, Told::new(DeltaKind::Sync, &object));
                unordered.insert(key);
            }
        }
        unordered
    }

    fn pop(&mut self) -> Option<(String, Vec<Told>, bool)> {
        let key = self.queue.pop_front()?;
        let initial = !self.has_synced();
        self.initial.remove(&key);
        let list = self.items.remove(&key)?;
        for notified in &list {
            match &notified.object {
                Some(object) if notified.kind != DeltaKind::Deleted => {
                    self.store.insert(key.clone(), object.clone());
                }
                _ => drop(self.store.remove(&key)),
            }
        }
        Some((key, list, initial))
    }

    /// Adopts the actual order of the last keys, which was unspecified.
    fn adopt(&mut self, unordered: &BTreeSet<String>, order: &[String]) {
        let head = self.queue.len() - unordered.len();
        let (same, tail) = order.split_at(head);
        assert!(self.queue.iter().take(head).eq(same));
        assert_eq!(tail.iter().cloned().collect::<BTreeSet<_>>(), *unordered);
        self.queue = order.iter().cloned().collect();
    }
}

struct XorShift(u64);

impl XorShift {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 16) % u64::from(bound)).unwrap()
    }

    /// Returns one of a few objects, sometimes one without a key.
    fn object(&mut self) -> Obj {
        let keys = ["a", "b", "ns/a", "ns/b", "ns/c", "other/a", "other/d"];
        match self.below(40) {
            0 => obj("", 0),
            n => obj(keys[n as usize % keys.len()], self.below(1_000_000)),
        }
    }
}

/// An operation on a queue and its consumer.
#[derive(Clone, Debug)]
enum Op {
    Add(Obj),
    Update(Obj),
    Delete(Obj),
    Gone(Obj, bool),
    Replace(Vec<Obj>),
    Resync,
    Pop,
    Drain,
}

impl Op {
    fn any(rng: &mut XorShift) -> Self {
        match rng.below(40) {
            0..=8 => Self::Add(rng.object()),
            9..=15 => Self::Update(rng.object()),
            16..=22 => Self::Delete(rng.object()),
            23..=26 => Self::Gone(rng.object(), rng.below(3) > 0),
            27..=29 => Self::Replace((0..rng.below(8)).map(|_| rng.object()).collect()),
            30..=31 => Self::Resync,
            32..=37 => Self::Pop,
            _ => Self::Drain,
        }
    }
}

/// A queue and its consumer's store.
struct Real<S: Storage> {
    fifo: DeltaFifo<Obj, S>,
    store: Indexer<Obj, S>,
    sees_store: bool,
}

/// A key, its deltas, and whether they belong to the initial list.
type Pops = Vec<(String, Vec<Told>, bool)>;

impl<S: Storage> Real<S> {
    fn new(mode: Mode, emit_replaced: bool, sees_store: bool) -> Self {
        let mut fifo = DeltaFifo::in_mode(Obj::write_key, mode);
        fifo.set_emit_replaced(emit_replaced);
        Self {
            fifo,
            store: Indexer::new(),
            sees_store,
        }
    }

    fn run(&mut self, op: Op) -> (Result<(), KeyError>, Pops) {
        let known = self.sees_store.then_some(&self.store as &dyn KnownObjects);
        let mut pops = Vec::new();
        let done = match op {
            Op::Add(object) => self.fifo.add(object),
            Op::Update(object) => self.fifo.update(object),
            Op::Delete(object) => self.fifo.delete(object, known),
            Op::Gone(object, has_last) => {
                let key = object.key.clone();
                let last = has_last.then_some(object);
                self.fifo
                    .delete_tombstone(Tombstone { key: &key, last }, known)
            }
            Op::Replace(objects) => self.fifo.replace(objects, known),
            Op::Resync => known.map_or(Ok(()), |known| self.fifo.resync(known)),
            Op::Pop => {
                pops.extend(self.pop());
                Ok(())
            }
            Op::Drain => {
                while let Some(popped) = self.pop() {
                    pops.push(popped);
                }
                Ok(())
            }
        };
        (done, pops)
    }

    /// Returns the pending deltas of a key, with the objects that they refer to.
    fn notified(&self, key: &str, deltas: &[Delta<Obj>]) -> Vec<Told> {
        let mut stored = self.store.get(key).cloned();
        let notice = |delta: &Delta<Obj>| {
            let object = delta.object(stored.as_ref()).cloned();
            stored = object.clone().filter(|_| delta.kind != DeltaKind::Deleted);
            Told {
                kind: delta.kind,
                object,
                tombstone: delta.is_tombstone(),
            }
        };
        deltas.iter().map(notice).collect()
    }

    fn pop(&mut self) -> Option<(String, Vec<Told>, bool)> {
        let popped = self.fifo.pop().ok()?;
        let key = popped.deltas.key().as_ref().to_string();
        let notified = self.notified(&key, popped.deltas.as_slice());
        self.store.apply(popped.deltas).unwrap();
        Some((key, notified, popped.is_in_initial_list))
    }

    fn queued(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.fifo.for_each_queued(|key| keys.push(key.to_string()));
        keys
    }

    fn stored(&self) -> BTreeMap<String, Obj> {
        self.store
            .list()
            .map(|object| (object.key.clone(), object.clone()))
            .collect()
    }
}

/// The number of seeds, and of steps for each.
const ROUNDS: (u64, u32) = if cfg!(miri) { (1, 15) } else { (400, 60) };

fn agrees_with_the_model_with_a_store<S: Storage>(mode: Mode) {
    (1..=ROUNDS.0).for_each(|seed| agrees_with_the_model::<S>(mode, true, seed));
}

fn agrees_with_the_model_without_a_store<S: Storage>(mode: Mode) {
    (1..=ROUNDS.0).for_each(|seed| agrees_with_the_model::<S>(mode, false, seed));
}

fn agrees_with_the_model<S: Storage>(mode: Mode, sees_store: bool, seed: u64) {
    let mut rng = XorShift(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let emit_replaced = rng.below(2) == 0;
    let mut real = Real::<S>::new(mode, emit_replaced, sees_store);
    let mut model = Model {
        mode,
        emit_replaced,
        sees_store,
        items: BTreeMap::new(),
        queue: VecDeque::new(),
        populated: false,
        initial: BTreeSet::new(),
        store: BTreeMap::new(),
    };
    for step in 0..ROUNDS.1 {
        let op = Op::any(&mut rng);
        let at = format!("seed {seed}, step {step}: {op:?}");
        let (done, pops) = real.run(op.clone());
        let mut unordered = BTreeSet::new();
        let mut expected = Ok(());
        let mut expected_pops = Vec::new();
        let keyless = || Err(KeyError::NoKey);
        match op {
            Op::Add(object) | Op::Update(object) if object.key.is_empty() => {
                model.populated = true;
                expected = keyless();
            }
            Op::Delete(object) if object.key.is_empty() => expected = keyless(),
            Op::Add(object) => {
                model.populated = true;
                model.enqueue(&object.key, Told::new(DeltaKind::Added, &object));
            }
            Op::Update(object) => {
                model.populated = true;
                model.enqueue(&object.key, Told::new(DeltaKind::Updated, &object));
            }
            Op::Delete(object) => {
                model.delete(&object.key, Told::new(DeltaKind::Deleted, &object));
            }
            Op::Gone(object, has_last) => {
                let last = Some(object.clone()).filter(|_| has_last);
                model.delete(&object.key, Told::tombstone(last));
            }
            Op::Replace(objects) => {
                unordered = model.replace(&objects);
                if objects.iter().any(|object| object.key.is_empty()) {
                    expected = keyless();
                }
            }
            Op::Resync if sees_store => unordered = model.resync(),
            Op::Resync => {}
            Op::Pop => expected_pops.extend(model.pop()),
            Op::Drain => {
                while let Some(popped) = model.pop() {
                    expected_pops.push(popped);
                }
            }
        }
        assert_eq!(done, expected, "{at}");
        assert_eq!(pops, expected_pops, "{at}");
        let queued = real.queued();
        assert_eq!(queued.len(), model.queue.len(), "{at}: {queued:?}");
        model.adopt(&unordered, &queued);
        assert_eq!(real.fifo.len(), queued.len(), "{at}");
        assert_eq!(real.fifo.is_empty(), queued.is_empty(), "{at}");
        assert_eq!(real.fifo.has_synced(), model.has_synced(), "{at}");
        for key in &queued {
            let waiting = real.notified(key, real.fifo.pending(key));
            assert_eq!(waiting, model.items[key], "{at}: {key}");
        }
        assert_eq!(real.stored(), model.store, "{at}");
    }
}

/// Both storages produce the same deltas for every key while there is room. They may visit the keys of the store in any
/// order, so everything is popped at once and compared by key.
#[cfg(feature = "alloc")]
#[test]
fn heap_and_inline_agree_while_there_is_room() {
    for seed in 1..=ROUNDS.0 {
        let mut rng = XorShift(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let emit_replaced = rng.below(2) == 0;
        let mut heap = Real::<Heap>::new(Mode::Merged, emit_replaced, true);
        let mut inline = Real::<Inline<7, 7, 16>>::new(Mode::Merged, emit_replaced, true);
        for step in 0..ROUNDS.1 {
            let mut op = Op::any(&mut rng);
            if matches!(op, Op::Pop) {
                op = Op::Drain;
            }
            let at = format!("seed {seed}, step {step}: {op:?}");
            let (one, mut ones) = heap.run(op.clone());
            let (other, mut others) = inline.run(op);
            ones.sort_by(|a, b| a.0.cmp(&b.0));
            others.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!((one, ones), (other, others), "{at}");
            let sorted = |mut keys: Vec<String>| {
                keys.sort();
                keys
            };
            assert_eq!(sorted(heap.queued()), sorted(inline.queued()), "{at}");
            assert_eq!(heap.fifo.has_synced(), inline.fifo.has_synced(), "{at}");
            assert_eq!(heap.stored(), inline.stored(), "{at}");
        }
    }
}
