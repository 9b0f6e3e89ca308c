//! The notifications and contents of a cache, for any input and any pace of popping.
#![cfg(feature = "alloc")]

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::*;
use crate::object::{Object, Uid};
use crate::storage::{Heap, Inline, Text};
use crate::time::Rng;

type Item<X> = Object<(), X>;
type HeapCache = Cache<Item<Box<str>>, Heap>;

/// An object with this uid and version.
fn item<X: Text>(uid: &str, version: u32) -> Item<X> {
    Object::new(
        Uid::new(uid),
        ResourceVersion::new(&version.to_string()),
        (),
    )
}

/// A cache with the verbs of an API server.
struct Pods<S: Storage>(Cache<Item<S::Text>, S>)
where
    S::Text: PartialEq;

impl<S: Storage> Deref for Pods<S>
where
    S::Text: PartialEq,
{
    type Target = Cache<Item<S::Text>, S>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<S: Storage> DerefMut for Pods<S>
where
    S::Text: PartialEq,
{
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

fn pods(config: CacheConfig, sources: u16) -> Pods<Heap> {
    Pods(HeapCache::new(config, sources, 1))
}

fn default_pods() -> Pods<Heap> {
    pods(CacheConfig::default(), 1)
}

impl<S: Storage> Pods<S>
where
    S::Text: PartialEq,
{
    fn put(
        &mut self,
        source: u16,
        change: Change,
        key: &str,
        version: u32,
    ) -> Result<(), KeyError> {
        let object = item(&format!("u-{key}"), version);
        self.0
            .upsert(source, change, key, object, Values::<S>::default())
    }

    fn listed(&mut self, source: u16, key: &str, version: u32) {
        self.put(source, Change::Listed, key, version).unwrap();
    }

    fn added(&mut self, source: u16, key: &str, version: u32) {
        self.put(source, Change::Added, key, version).unwrap();
    }

    fn modified(&mut self, source: u16, key: &str, version: u32) {
        self.put(source, Change::Modified, key, version).unwrap();
    }

    fn deleted(&mut self, source: u16, key: &str, version: u32) {
        self.0
            .delete(source, key, Some(item(&format!("u-{key}"), version)));
    }

    fn done(&mut self, source: u16, version: u32) {
        let version = ResourceVersion::new(&version.to_string());
        self.0.end_list(source, End::Complete(version));
    }

    /// Applies a complete list.
    fn list(&mut self, source: u16, version: u32, items: &[(&str, u32)]) {
        self.begin(source);
        for (key, version) in items {
            self.listed(source, key, *version);
        }
        self.done(source, version);
    }

    /// Pops all notifications.
    fn notified(&mut self) -> Vec<String> {
        let mut notified = Vec::new();
        while let Some(notification) = self.0.pop() {
            notified.push(shown(&notification));
        }
        assert!(self.is_idle());
        notified
    }

    /// Like [`Self::notified`], sorted, since a sweep visits slots in their order.
    fn notified_sorted(&mut self) -> Vec<String> {
        let mut notified = self.notified();
        notified.sort();
        notified
    }

    fn held(&self) -> Vec<String> {
        let mut held: Vec<_> = self
            .iter()
            .map(|(key, object)| format!("{}@{}", key.as_ref(), object.resource_version()))
            .collect();
        held.sort();
        assert_eq!(held.len(), self.len());
        held
    }

    fn stale(&self) -> Vec<String> {
        assert_eq!(self.stale_keys().count(), self.stale_len());
        self.stale_keys().map(|k| k.as_ref().to_string()).collect()
    }
}

fn shown<X: Text>(notification: &Notification<(&X, &Item<X>)>) -> String {
    match notification {
        Notification::Added {
            entry: (key, object),
            is_in_initial_list,
        } => format!(
            "add{} {}@{}",
            if *is_in_initial_list { "*" } else { "" },
            key.as_ref(),
            object.resource_version()
        ),
        Notification::Updated {
            old: (_, old),
            new: (key, object),
        } => format!(
            "update {}@{}->{}",
            key.as_ref(),
            old.resource_version(),
            object.resource_version()
        ),
        Notification::Replayed {
            entry: (key, object),
            pass,
        } => format!(
            "replay{} {}@{}",
            pass.map(|pass| pass.to_string()).unwrap_or_default(),
            key.as_ref(),
            object.resource_version()
        ),
        Notification::Deleted {
            entry: (key, object),
            final_state_unknown,
        } => format!(
            "delete{} {}@{}",
            if *final_state_unknown { "?" } else { "" },
            key.as_ref(),
            object.resource_version()
        ),
        Notification::Synced => "synced".to_string(),
    }
}

#[test]
fn i16_before_the_first_sync_objects_are_there_but_not_told() {
    let mut pods = default_pods();
    pods.begin(0);
    pods.listed(0, "a", 1);
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.held(), ["a@1"]);
    assert_eq!(
        pods.0.notified().count(),
        0,
        "a handler that joins now does not see it"
    );
    assert!(!pods.is_synced());
    assert!(!pods.version(SourceId(0)).unwrap().is_known());
    pods.done(0, 5);
    assert_eq!(pods.notified(), ["add* a@1", "synced"]);
    assert_eq!(pods.0.notified().count(), 1);
    assert!(pods.is_synced());
    assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "5");
}

#[test]
fn an_empty_list_syncs() {
    let mut pods = default_pods();
    pods.list(0, 5, &[]);
    assert_eq!(pods.notified(), ["synced"]);
    assert!(pods.is_synced() && pods.is_empty());
}

#[test]
fn a_first_list_begun_again_tells_nothing_of_the_first_attempt() {
    let mut pods = default_pods();
    pods.begin(0);
    pods.listed(0, "a", 1);
    pods.listed(0, "b", 1);
    assert_eq!(pods.notified(), [""; 0]);
    pods.begin(0);
    pods.listed(0, "b", 2);
    pods.listed(0, "c", 2);
    pods.done(0, 5);
    assert_eq!(pods.notified_sorted(), ["add* b@2", "add* c@2", "synced"]);
    assert_eq!(pods.held(), ["b@2", "c@2"]);
}

/// Watch events between the end of the first list and its pop are notified after that list.
#[test]
fn what_comes_right_after_the_first_list_is_told_once() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    pods.added(0, "b", 6);
    pods.modified(0, "a", 7);
    assert_eq!(pods.notified(), ["add* a@7", "add b@6", "synced"]);
    pods.modified(0, "b", 8);
    assert_eq!(pods.notified(), ["update b@6->8"]);

    // The same if they arrive during the sweep.
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1), ("b", 1)]);
    assert_eq!(pods.pop().map(|n| shown(&n)).unwrap(), "add* a@1");
    pods.added(0, "c", 6);
    pods.modified(0, "a", 7);
    pods.modified(0, "b", 8);
    let notified = pods.notified();
    assert_eq!(notified, ["update a@1->7", "add* b@8", "add c@6", "synced"]);
}

#[test]
fn c07_a_relist_tells_changes_as_they_come_and_deletions_at_its_end() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1), ("b", 2), ("c", 3)]);
    pods.notified();
    pods.begin(0);
    pods.listed(0, "b", 6);
    assert_eq!(pods.notified(), ["update b@2->6"]);
    pods.listed(0, "d", 7);
    assert_eq!(pods.notified(), ["add d@7"]);
    pods.listed(0, "c", 3);
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "5");
    pods.done(0, 9);
    assert_eq!(pods.notified(), ["delete? a@1"]);
    assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "9");
}

/// The objects of an interrupted relist were notified, so their deletion is notified too.
#[test]
fn a_relist_begun_again_tells_what_it_brought_and_lost() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    pods.notified();
    pods.begin(0);
    pods.listed(0, "x", 6);
    assert_eq!(pods.notified(), ["add x@6"]);
    pods.begin(0);
    pods.listed(0, "a", 1);
    pods.done(0, 9);
    assert_eq!(pods.notified(), ["delete? x@6"]);
}

/// client-go replays objects that a list shows unchanged, once per completed list.
#[test]
fn unchanged_objects_are_told_where_that_is_wanted_once_per_list() {
    for pop_between in [false, true] {
        let mut pods = pods(CacheConfig::client_go(), 1);
        pods.list(0, 5, &[("a", 1), ("b", 1)]);
        assert_eq!(pods.notified(), ["add* a@1", "add* b@1", "synced"]);
        for _ in 0..2 {
            pods.begin(0);
            pods.listed(0, "a", 1);
            if pop_between {
                assert_eq!(pods.notified(), [""; 0]);
            }
            // A list that is begun again is the same list.
            pods.begin(0);
            pods.listed(0, "a", 1);
            pods.listed(0, "b", 1);
            pods.done(0, 6);
            assert_eq!(pods.notified(), ["replay a@1", "replay b@1"]);
        }
        // Objects that changed in the list are not replayed at its end.
        pods.list(0, 7, &[("a", 7), ("b", 1)]);
        assert_eq!(pods.notified(), ["update a@1->7", "replay b@1"]);
        // Objects that a watch sends again are replayed.
        pods.modified(0, "b", 1);
        assert_eq!(pods.notified(), ["replay b@1"]);
    }
    let mut quiet = default_pods();
    quiet.list(0, 5, &[("a", 1)]);
    quiet.notified();
    quiet.list(0, 6, &[("a", 1)]);
    quiet.modified(0, "a", 1);
    assert_eq!(quiet.notified(), [""; 0]);
}

#[test]
fn another_uid_is_a_deletion_and_an_addition() {
    for (config, expected) in [
        (
            CacheConfig::default(),
            &["delete? a@1", "add a@6"] as &[&str],
        ),
        (CacheConfig::client_go(), &["update a@1->6"]),
    ] {
        for change in [Change::Listed, Change::Added, Change::Modified] {
            let mut pods = pods(config, 1);
            pods.list(0, 5, &[("a", 1)]);
            pods.notified();
            let again = item("another", 6);
            pods.upsert(0, change, "a", again, Vec::new()).unwrap();
            assert_eq!(pods.notified(), expected);
            assert_eq!(pods.held(), ["a@6"]);
        }
        // The same at an equal version.
        let mut pods = pods(config, 1);
        pods.list(0, 5, &[("a", 1)]);
        pods.notified();
        pods.upsert(0, Change::Modified, "a", item("another", 1), Vec::new())
            .unwrap();
        assert_eq!(pods.notified().len(), expected.len());
    }
    // A recreated object that was not notified yet is notified as one addition.
    let mut pods = default_pods();
    pods.begin(0);
    pods.listed(0, "a", 1);
    pods.notified();
    pods.upsert(0, Change::Listed, "a", item("another", 2), Vec::new())
        .unwrap();
    pods.done(0, 3);
    assert_eq!(pods.notified(), ["add* a@2", "synced"]);
}

#[test]
fn a_deletion_has_the_events_object() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1), ("b", 2)]);
    pods.notified();
    pods.deleted(0, "a", 9);
    pods.delete(0, "b", None);
    pods.deleted(0, "never", 9);
    assert_eq!(pods.notified(), ["delete a@9", "delete? b@2"]);
    assert!(pods.is_empty());
    // A second deletion has no effect.
    pods.deleted(0, "a", 10);
    assert_eq!(pods.notified(), [""; 0]);
}

#[test]
fn a_sweep_does_not_touch_what_another_source_brought() {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list(0, 5, &[("x/a", 1), ("x/b", 1)]);
    assert_eq!(pods.notified(), ["add* x/a@1", "add* x/b@1"]);
    assert!(!pods.is_synced());
    pods.list(1, 6, &[("y/a", 1)]);
    assert_eq!(pods.notified(), ["add* y/a@1", "synced"]);
    assert!(pods.is_synced());
    pods.list(0, 7, &[]);
    assert_eq!(pods.notified(), ["delete? x/a@1", "delete? x/b@1"]);
    assert_eq!(pods.held(), ["y/a@1"]);
    assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "7");
    assert_eq!(pods.version(SourceId(1)).unwrap().to_string(), "6");
}

#[test]
fn a_key_that_moved_is_not_deleted_by_its_old_source() {
    for pop_between in [false, true] {
        let mut pods = pods(CacheConfig::default(), 2);
        pods.list(0, 5, &[("a", 1)]);
        pods.list(1, 5, &[]);
        pods.notified();
        pods.added(1, "a", 6);
        if pop_between {
            assert_eq!(pods.notified(), ["update a@1->6"]);
        }
        pods.deleted(0, "a", 7);
        if !pop_between {
            assert_eq!(pods.notified(), ["update a@1->6"]);
        }
        assert_eq!(pods.notified(), [""; 0]);
        // A list of its old source does not delete it either.
        pods.list(0, 8, &[]);
        assert_eq!(pods.notified(), [""; 0]);
        pods.deleted(1, "a", 9);
        assert_eq!(pods.notified(), ["delete a@9"]);
    }
}

/// An object stays notified when it moves to a source without a complete list.
#[test]
fn i16_a_key_that_moves_to_a_source_that_is_not_synced_is_not_told_twice() {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list(0, 5, &[("a", 1), ("b", 1)]);
    assert_eq!(pods.notified(), ["add* a@1", "add* b@1"]);
    pods.begin(1);
    pods.listed(1, "a", 6);
    pods.listed(1, "b", 1);
    assert_eq!(pods.notified(), ["update a@1->6"]);
    assert_eq!(pods.0.notified().count(), 2);
    // The first attempt of that list is discarded, and `a` with it.
    pods.begin(1);
    pods.listed(1, "b", 1);
    pods.listed(1, "c", 7);
    pods.done(1, 8);
    assert_eq!(pods.notified(), ["delete? a@6", "add* c@7", "synced"]);

    // Conversely, an object that was not notified is notified when it moves to a source with a complete list.
    let mut pods = self::pods(CacheConfig::default(), 2);
    pods.list(1, 5, &[]);
    pods.begin(0);
    pods.listed(0, "a", 1);
    pods.listed(0, "b", 1);
    assert_eq!(pods.notified(), [""; 0]);
    pods.added(1, "a", 6);
    pods.added(1, "b", 1);
    assert_eq!(pods.notified(), ["add a@6", "add b@1"]);
    pods.done(0, 7);
    assert_eq!(pods.notified(), ["synced"]);
}

#[test]
fn what_cannot_be_used_keeps_the_older_state_and_is_stale() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1), ("b", 1)]);
    pods.notified();
    pods.begin(0);
    pods.keep(0, "a");
    pods.keep(0, "never");
    pods.done(0, 6);
    assert_eq!(pods.notified(), ["delete? b@1"]);
    assert_eq!(
        (pods.held(), pods.stale()),
        (["a@1".into()].into(), ["a".into()].into())
    );
    // The same version in a usable form removes the mark without a notification.
    pods.modified(0, "a", 1);
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.stale(), [""; 0]);
    // A pending delta is older than the unusable state.
    pods.modified(0, "a", 7);
    pods.keep(0, "a");
    assert_eq!(pods.notified(), ["update a@1->7"]);
    assert_eq!(pods.stale(), ["a"]);
    // A later delta is newer than the unusable state.
    pods.keep(0, "a");
    pods.modified(0, "a", 8);
    assert_eq!(pods.notified(), ["update a@7->8"]);
    assert_eq!(pods.stale(), [""; 0]);
    // An unusable state alone does not create an object.
    pods.added(0, "n", 9);
    pods.keep(0, "n");
    assert_eq!(pods.notified(), ["add n@9"]);
    assert_eq!(pods.stale(), ["n"]);
    pods.deleted(0, "n", 10);
    pods.keep(0, "n");
    assert_eq!(pods.notified(), ["delete n@10"]);
    assert_eq!(pods.stale(), [""; 0]);
}

#[test]
fn a_resync_replays_all_that_was_told_with_its_number() {
    let mut pods = default_pods();
    pods.begin(0);
    pods.listed(0, "a", 1);
    assert_eq!(pods.resync(), 1);
    assert_eq!(pods.notified(), [""; 0], "there was no notification yet");
    pods.listed(0, "b", 1);
    pods.done(0, 5);
    pods.notified();
    assert_eq!(pods.resync(), 2);
    assert_eq!(pods.notified(), ["replay2 a@1", "replay2 b@1"]);
    assert_eq!(pods.resync(), 3);
    assert_eq!(pods.notified(), ["replay3 a@1", "replay3 b@1"]);
    // Changes are applied first, and the changed objects are replayed in their new state.
    pods.resync();
    pods.modified(0, "a", 6);
    pods.deleted(0, "b", 7);
    pods.added(0, "c", 8);
    assert_eq!(
        pods.notified(),
        [
            "update a@1->6",
            "delete b@7",
            "add c@8",
            "replay4 a@6",
            "replay4 c@8"
        ]
    );
    // The same in the middle of a resync.
    pods.resync();
    assert_eq!(pods.pop().map(|n| shown(&n)).unwrap(), "replay5 a@6");
    pods.modified(0, "a", 9);
    pods.modified(0, "c", 10);
    assert_eq!(
        pods.notified(),
        ["update a@6->9", "update c@8->10", "replay5 c@10"]
    );
}

/// An object that moves to another source during a resync is replayed once.
#[test]
fn a_resync_replays_objects_that_move_once() {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list(0, 1, &[("a", 1), ("b", 1)]);
    pods.list(1, 1, &[("c", 1), ("d", 1)]);
    pods.notified();
    pods.resync();
    assert_eq!(pods.pop().map(|n| shown(&n)).unwrap(), "replay1 a@1");
    // To a list that the resync has not visited, and to the current one; changed and unchanged.
    pods.modified(1, "a", 2);
    pods.modified(0, "c", 2);
    pods.modified(0, "d", 1);
    assert_eq!(
        pods.notified(),
        [
            "update a@1->2",
            "update c@1->2",
            "replay1 b@1",
            "replay1 c@2",
            "replay1 d@1"
        ]
    );
}

/// The version of a source is one that the cache has reached.
#[test]
fn i07_the_version_is_that_of_what_is_shown() {
    let version = |pods: &Pods<Heap>| pods.version(SourceId(0)).unwrap().to_string();
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    pods.modified(0, "a", 6);
    pods.advance(0, ResourceVersion::new("6"));
    assert_eq!(version(&pods), "");
    pods.pop();
    assert_eq!(version(&pods), "");
    pods.notified();
    assert_eq!(version(&pods), "6");
    pods.advance(0, ResourceVersion::new("7"));
    assert_eq!(version(&pods), "7", "a bookmark");
    pods.modified(0, "a", 8);
    pods.advance(0, ResourceVersion::new("8"));
    assert_eq!(version(&pods), "7");
    pods.notified();
    assert_eq!(version(&pods), "8");
}

#[test]
fn a_budget_is_a_number_of_steps() {
    let mut pods = default_pods();
    pods.begin(0);
    for i in 0..100 {
        pods.listed(0, &format!("p{i}"), i + 1);
    }
    pods.done(0, 200);
    let mut notified = 0;
    let mut rounds = 0;
    while !pods.is_idle() {
        let mut budget = 7;
        while pods.pop_within(&mut budget).is_some() {
            notified += 1;
        }
        rounds += 1;
        assert!(budget == 0 || pods.is_idle());
    }
    assert_eq!(notified, 101);
    assert!(rounds >= 201 / 7);
}

/// client-go's order of deltas against merged ones: the final state is the same.
#[test]
fn merged_deltas_tell_less_and_the_same_end() {
    let merged = CacheConfig {
        merged: true,
        ..CacheConfig::default()
    };
    let notified = |config| {
        let mut pods = pods(config, 1);
        pods.list(0, 5, &[("a", 1), ("d", 1)]);
        pods.notified();
        pods.modified(0, "a", 6);
        pods.modified(0, "a", 7);
        pods.added(0, "b", 8);
        pods.deleted(0, "b", 9);
        pods.added(0, "c", 10);
        pods.modified(0, "c", 11);
        pods.modified(0, "d", 12);
        pods.deleted(0, "d", 13);
        pods.added(0, "d", 14);
        pods.modified(0, "d", 15);
        let notified = pods.notified();
        assert_eq!(pods.held(), ["a@7", "c@11", "d@15"]);
        notified
    };
    assert_eq!(
        notified(CacheConfig::default()),
        [
            "update a@1->6",
            "update a@6->7",
            "add b@8",
            "delete b@9",
            "add c@10",
            "update c@10->11",
            "update d@1->12",
            "delete d@13",
            "add d@14",
            "update d@14->15"
        ]
    );
    assert_eq!(
        notified(merged),
        ["update a@1->7", "add c@11", "delete d@13", "add d@15"]
    );
}

/// The last state of a merged deletion is the newest one.
#[test]
fn a_merged_deletion_without_an_object_has_the_newest_state() {
    let mut pods = pods(
        CacheConfig {
            merged: true,
            ..CacheConfig::default()
        },
        1,
    );
    pods.list(0, 5, &[("a", 1)]);
    pods.notified();
    pods.modified(0, "a", 6);
    pods.delete(0, "a", None);
    assert_eq!(pods.notified(), ["delete? a@6"]);
}

type Small = Inline<3, 8, 64>;

fn small() -> Pods<Small> {
    Pods(Cache::new(CacheConfig::default(), 1, 1))
}

#[test]
fn what_has_no_room_is_refused_until_there_is_room() {
    let mut pods = small();
    pods.begin(0);
    for key in ["a", "b", "c"] {
        pods.listed(0, key, 1);
    }
    assert_eq!(pods.put(0, Change::Listed, "d", 1), Err(KeyError::Full));
    pods.done(0, 5);
    assert_eq!(
        pods.notified(),
        ["add* a@1", "add* b@1", "add* c@1", "synced"]
    );
    assert!(pods.is_incomplete() && !pods.is_synced());
    assert!(!pods.take_wants_relist(SourceId(0)), "there is no room yet");
    // Reading continues, and a deletion makes room: one relist.
    assert!(pods.wants_read());
    pods.deleted(0, "a", 6);
    assert_eq!(pods.notified(), ["delete a@6"]);
    assert!(pods.is_incomplete());
    assert!(pods.take_wants_relist(SourceId(0)));
    assert!(!pods.take_wants_relist(SourceId(0)), "once");
    pods.list(0, 7, &[("b", 1), ("c", 1), ("d", 1)]);
    assert_eq!(pods.notified(), ["add d@1"]);
    assert!(!pods.is_incomplete() && pods.is_synced());
    // There is no further relist.
    assert!(!pods.take_wants_relist(SourceId(0)));
    pods.deleted(0, "b", 8);
    pods.notified();
    assert!(!pods.take_wants_relist(SourceId(0)));
}

/// A list that has more room after its own sweep is repeated once; a list that fits is not.
#[test]
fn room_that_a_sweep_makes_is_room() {
    let mut pods = small();
    pods.list(0, 5, &[("a", 1), ("b", 1), ("c", 1)]);
    pods.notified();
    pods.begin(0);
    pods.listed(0, "a", 1);
    assert_eq!(pods.put(0, Change::Listed, "d", 1), Err(KeyError::Full));
    assert_eq!(pods.put(0, Change::Listed, "e", 1), Err(KeyError::Full));
    assert!(!pods.take_wants_relist(SourceId(0)));
    pods.done(0, 6);
    assert!(
        !pods.take_wants_relist(SourceId(0)),
        "the sweep has not run yet"
    );
    assert_eq!(pods.notified(), ["delete? b@1", "delete? c@1"]);
    assert!(pods.is_incomplete());
    assert!(pods.take_wants_relist(SourceId(0)));
    // This sweep runs while objects are still missing, but none are afterwards.
    pods.begin(0);
    pods.listed(0, "d", 1);
    pods.listed(0, "e", 1);
    pods.done(0, 7);
    assert_eq!(
        pods.notified_sorted(),
        ["add d@1", "add e@1", "delete? a@1"]
    );
    assert!(!pods.is_incomplete());
    assert!(!pods.take_wants_relist(SourceId(0)), "it was complete");
}

/// Room that appears during a list counts when the list is complete.
#[test]
fn room_that_is_made_during_a_stream_is_room() {
    let mut pods = small();
    pods.begin(0);
    for key in ["a", "b", "c"] {
        pods.listed(0, key, 1);
    }
    assert_eq!(pods.put(0, Change::Listed, "d", 1), Err(KeyError::Full));
    pods.notified();
    pods.deleted(0, "a", 2);
    pods.notified();
    assert!(!pods.take_wants_relist(SourceId(0)), "a list is under way");
    pods.done(0, 5);
    pods.notified();
    assert!(pods.is_incomplete());
    assert!(pods.take_wants_relist(SourceId(0)));
}

/// No amount of room helps a key that is too long.
#[test]
fn a_key_that_is_too_long_does_not_ask_for_lists() {
    let mut pods = small();
    pods.begin(0);
    pods.listed(0, "a", 1);
    let long = "a-long-name";
    assert_eq!(pods.put(0, Change::Listed, long, 1), Err(KeyError::TooLong));
    pods.done(0, 5);
    pods.notified();
    assert!(pods.is_incomplete() && !pods.is_synced());
    pods.deleted(0, "a", 6);
    pods.notified();
    assert!(!pods.take_wants_relist(SourceId(0)));
    pods.list(0, 7, &[]);
    pods.notified();
    assert!(!pods.is_incomplete());
}

/// An update needs no room of its own, and a full queue blocks the reader before it rejects an update.
#[test]
fn a_full_cache_takes_updates_and_holds_the_reader_back() {
    let mut pods = small();
    pods.list(0, 5, &[("a", 1), ("b", 1), ("c", 1)]);
    assert!(!pods.wants_read());
    pods.notified();
    assert!(pods.wants_read());
    pods.modified(0, "a", 6);
    pods.modified(0, "a", 7);
    pods.modified(0, "b", 8);
    assert!(pods.wants_read());
    pods.deleted(0, "c", 9);
    assert!(!pods.wants_read());
    assert_eq!(
        pods.notified(),
        ["update a@1->7", "update b@1->8", "delete c@9"]
    );
}

/// Many resyncs do not take the place of a list.
#[test]
fn a_list_is_not_lost_among_resyncs() {
    let mut pods = small();
    for _ in 0..20 {
        pods.resync();
    }
    pods.list(0, 5, &[("a", 1)]);
    assert_eq!(pods.notified(), ["add* a@1", "synced"]);
    for _ in 0..20 {
        pods.resync();
    }
    pods.list(0, 6, &[]);
    pods.list(0, 7, &[("b", 7)]);
    let notified = pods.notified();
    assert!(notified.contains(&"add b@7".into()) && notified.contains(&"delete? a@1".into()));
    assert_eq!(pods.held(), ["b@7"]);
    assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "7");
}

/// If there is no room for another pass, the running one restarts.
#[test]
fn a_resync_without_room_joins_the_one_under_way() {
    let mut pods: Pods<Small> = Pods(Cache::new(CacheConfig::default(), 7, 1));
    for source in 0..7 {
        let objects = [("a", 1), ("b", 1)];
        pods.list(source, 1, if source == 0 { &objects } else { &[] });
        pods.notified();
    }
    assert_eq!(pods.resync(), 1);
    pods.pop();
    assert_eq!(pods.resync(), 1);
    assert_eq!(pods.notified(), ["replay1 a@1", "replay1 b@1"]);
    assert_eq!(pods.resync(), 2);
}

// Random runs against a simple model.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Fact {
    source: u16,
    version: u32,
    uid: u32,
    /// The list that contained it last.
    named: u32,
}

/// The expected contents of the cache by the simplest rules, and a listener's view from the notifications.
#[derive(Default)]
struct Model {
    truth: BTreeMap<String, Fact>,
    lists: BTreeMap<u16, u32>,
    epoch: u32,
    complete: BTreeSet<u16>,
    known: BTreeMap<String, (String, String)>,
    synced: bool,
    /// For each running resync, the keys that it has still to replay.
    due: BTreeMap<u32, BTreeSet<String>>,
}

impl Model {
    fn begin(&mut self, source: u16) {
        self.epoch += 1;
        self.lists.insert(source, self.epoch);
    }

    fn upsert(&mut self, source: u16, key: &str, version: u32, uid: u32) {
        let named = self.lists.get(&source).copied().unwrap_or(0);
        let fact = Fact {
            source,
            version,
            uid,
            named,
        };
        self.truth.insert(key.to_string(), fact);
    }

    fn delete(&mut self, source: u16, key: &str) {
        if self.truth.get(key).is_some_and(|f| f.source == source) {
            self.truth.remove(key);
        }
    }

    fn complete(&mut self, source: u16) {
        let epoch = self.lists[&source];
        self.truth
            .retain(|_, fact| fact.source != source || fact.named >= epoch);
        self.complete.insert(source);
    }

    /// Updates a listener's view. Only valid sequences of notifications are accepted.
    fn hear<X: Text>(&mut self, notification: &Notification<(&X, &Item<X>)>, config: CacheConfig) {
        let text = shown(notification);
        let state = |o: &Item<X>| (o.resource_version().to_string(), o.uid().to_string());
        match notification {
            Notification::Added {
                entry: (key, object),
                ..
            } => {
                let old = self.known.insert(key.as_ref().to_string(), state(object));
                assert_eq!(old, None, "{text}");
            }
            Notification::Updated {
                old: (_, old),
                new: (key, object),
            } => {
                let was = self.known.insert(key.as_ref().to_string(), state(object));
                assert_eq!(was, Some(state(old)), "{text}");
                if config.notify_recreated {
                    assert_eq!(old.uid().to_string(), object.uid().to_string(), "{text}");
                }
            }
            Notification::Replayed {
                entry: (key, object),
                pass,
            } => {
                let key = key.as_ref();
                assert_eq!(self.known.get(key), Some(&state(object)), "{text}");
                match pass {
                    None => assert!(config.notify_unchanged, "{text}"),
                    Some(pass) => {
                        // An object that was added after the resync began may be replayed too.
                        self.due.get_mut(pass).unwrap().remove(key);
                    }
                }
            }
            Notification::Deleted {
                entry: (key, _), ..
            } => {
                assert!(self.known.remove(key.as_ref()).is_some(), "{text}");
                for due in self.due.values_mut() {
                    due.remove(key.as_ref());
                }
            }
            Notification::Synced => {
                assert!(!self.synced, "once");
                self.synced = true;
            }
        }
    }

    fn check_idle<S: Storage>(&self, pods: &Pods<S>, sources: u16)
    where
        S::Text: PartialEq,
    {
        let truth: Vec<_> = self
            .truth
            .iter()
            .map(|(key, fact)| format!("{key}@{}", fact.version))
            .collect();
        assert_eq!(pods.held(), truth);
        assert!(self.due.values().all(BTreeSet::is_empty), "{:?}", self.due);
        let known: Vec<_> = self.known.keys().cloned().collect();
        let mut notified: Vec<_> = pods
            .0
            .notified()
            .map(|(k, _)| k.as_ref().to_string())
            .collect();
        notified.sort();
        assert_eq!(notified, known);
        for (key, (version, uid)) in &self.known {
            let object = pods.get(key).unwrap();
            assert_eq!(&object.resource_version().to_string(), version);
            assert_eq!(&object.uid().to_string(), uid);
        }
        // All objects of a source with a complete list were notified.
        for (key, fact) in &self.truth {
            if self.complete.contains(&fact.source) {
                assert!(self.known.contains_key(key), "{key} was never notified");
            }
        }
        let all = self.complete.len() == usize::from(sources);
        assert_eq!((pods.is_synced(), self.synced), (all, all));
    }
}

fn random_run<S: Storage>(seed: u64, config: CacheConfig, sources: u16)
where
    S::Text: PartialEq,
{
    let mut rng = Rng::new(seed);
    let mut pods: Pods<S> = Pods(Cache::new(config, sources, seed));
    let mut model = Model::default();
    let mut listing: BTreeSet<u16> = BTreeSet::new();
    let mut version = 0;
    for _ in 0..if cfg!(miri) { 60 } else { 300 } {
        version += 1;
        let source = rng.below(u64::from(sources)) as u16;
        let key = format!("k{}", rng.below(6));
        let is_listing = listing.contains(&source);
        match rng.below(14) {
            0 => {
                pods.begin(source);
                model.begin(source);
                listing.insert(source);
            }
            1 | 2 if is_listing => {
                pods.done(source, version);
                model.complete(source);
                listing.remove(&source);
            }
            // Fixed storage drops resyncs that do not fit.
            3 if pods.walks.as_slice().len() + 5 <= pods.walks.bound() => {
                let number = pods.resync();
                model
                    .due
                    .insert(number, model.known.keys().cloned().collect());
            }
            4 if is_listing && model.truth.get(&key).is_some_and(|f| f.source == source) => {
                pods.keep(source, &key);
                let epoch = model.lists[&source];
                model.truth.get_mut(&key).unwrap().named = epoch;
            }
            5 | 6 => {
                let object = (rng.below(4) > 0).then(|| item("gone", version));
                pods.delete(source, &key, object);
                model.delete(source, &key);
            }
            7..=11 if is_listing || model.complete.contains(&source) => {
                let old = model.truth.get(&key).copied().unwrap_or_default();
                // Sometimes the same version, or another object under the same name.
                let at = match rng.below(4) {
                    0 if old.version > 0 => old.version,
                    _ => version,
                };
                let uid = if at != old.version && rng.below(5) == 0 {
                    version
                } else {
                    old.uid
                };
                let change = match rng.below(2) {
                    _ if is_listing => Change::Listed,
                    0 => Change::Added,
                    _ => Change::Modified,
                };
                let object = item(&format!("uid-{uid}"), at);
                pods.upsert(source, change, &key, object, Values::<S>::default())
                    .unwrap();
                model.upsert(source, &key, at, uid);
            }
            _ => {
                let mut budget = rng.below(12) as u32;
                while let Some(notification) = pods.pop_within(&mut budget) {
                    model.hear(&notification, config);
                }
            }
        }
        if rng.below(10) == 0 {
            while let Some(notification) = pods.pop() {
                model.hear(&notification, config);
            }
            model.check_idle(&pods, sources);
        }
    }
}

#[test]
fn random_runs_on_the_heap() {
    for seed in 0..crate::rounds(400) {
        for (notify_unchanged, notify_recreated) in [(false, true), (true, false)] {
            for merged in [false, true] {
                let config = CacheConfig {
                    notify_unchanged,
                    notify_recreated,
                    merged,
                };
                random_run::<Heap>(seed, config, 1 + (seed % 3) as u16);
            }
        }
    }
}

#[test]
fn random_runs_in_fixed_storage() {
    for seed in 0..crate::rounds(400) {
        let config = if seed % 2 == 0 {
            CacheConfig::default()
        } else {
            CacheConfig::client_go()
        };
        random_run::<Inline<8, 16, 64>>(seed, config, 1 + (seed % 3) as u16);
        random_run::<Inline<8, 16, 64, 8, 2>>(seed, config, 1);
    }
}

/// A pending version does not replace one that was reached since.
#[test]
fn a_version_that_was_reached_does_not_go_back() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    pods.advance(0, ResourceVersion::new("5"));
    while !pods.is_synced() {
        pods.0.pop();
    }
    assert!(pods.is_idle());
    pods.advance(0, ResourceVersion::new("6"));
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "6");
}

/// If deltas were merged or lost, the deleted object may be one of which no handler was notified.
#[test]
fn the_end_of_another_object_is_told_as_the_end_of_the_one_that_was_told() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    assert_eq!(pods.notified(), ["add* a@1", "synced"]);
    pods.0.delete(0, "a", Some(item("another", 7)));
    assert_eq!(pods.notified(), ["delete? a@1"]);

    let mut pods = self::pods(CacheConfig::client_go(), 1);
    pods.list(0, 5, &[("a", 1)]);
    pods.notified();
    pods.0.delete(0, "a", Some(item("another", 7)));
    assert_eq!(pods.notified(), ["delete a@7"]);
}

/// A handler that joins between the deletion and the addition of a recreated object gets the object once.
#[test]
fn between_a_deletion_and_an_addition_the_new_object_is_not_told_yet() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    pods.notified();
    let values = Values::<Heap>::default();
    pods.0
        .upsert(0, Change::Listed, "a", item("another", 7), values)
        .unwrap();
    assert!(matches!(pods.0.pop(), Some(Notification::Deleted { .. })));
    assert_eq!(pods.0.notified().count(), 0);
    assert!(matches!(pods.0.pop(), Some(Notification::Added { .. })));
    assert_eq!(pods.0.notified().count(), 1);
}

/// An index that is added between queueing and popping includes the objects in the queue.
#[test]
fn an_index_covers_objects_that_were_queued_before_it() {
    fn keys<S: Storage<Text: PartialEq>>(pods: &Pods<S>, version: &str) -> Vec<String> {
        let found = pods.by_index("version", version).unwrap();
        let mut keys: Vec<_> = found.map(|(key, _)| key.as_ref().to_string()).collect();
        keys.sort_unstable();
        keys
    }
    fn check<S: Storage<Text: PartialEq>>(
        mut pods: Pods<S>,
        by_version: S::IndexFn<Item<S::Text>>,
    ) {
        pods.list(0, 5, &[("a", 1), ("b", 1), ("c", 1)]);
        pods.notified();
        pods.modified(0, "a", 6);
        pods.modified(0, "a", 7);
        pods.deleted(0, "b", 8);
        pods.added(0, "b", 9);
        pods.add_index("version", by_version).unwrap();
        assert_eq!(keys(&pods, "1"), ["a", "b", "c"]);
        pods.notified();
        for (version, expected) in [("1", &["c"][..]), ("6", &[]), ("7", &["a"]), ("9", &["b"])] {
            assert_eq!(keys(&pods, version), expected, "at {version}");
        }
    }
    check::<Heap>(
        default_pods(),
        Box::new(|pod, value| value(&pod.resource_version().to_string())),
    );
    check::<Inline<3, 9, 64>>(
        Pods(Cache::new(CacheConfig::default(), 1, 1)),
        |pod, value| value(&pod.resource_version().to_string()),
    );
    // Without room for the name of the namespace index, another index would take its number.
    assert_eq!(
        small().add_index("version", |_, _| {}),
        Err(IndexError::Full)
    );
}

#[test]
fn what_an_unknown_source_brings_is_rejected() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    pods.notified();
    pods.begin(1);
    assert_eq!(
        pods.put(1, Change::Listed, "b", 1),
        Err(KeyError::UnknownSource)
    );
    pods.keep(1, "a");
    pods.0.delete(1, "a", None);
    pods.done(1, 6);
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(
        (pods.held(), pods.stale_len()),
        (Vec::from(["a@1".to_string()]), 0)
    );

    // Fixed storage has room for eight sources. A cache that lacks one is never synced.
    let mut pods: Pods<Small> = Pods(Cache::new(CacheConfig::default(), 9, 1));
    for source in 0..8 {
        pods.list(source, 5, &[]);
    }
    pods.notified();
    assert_eq!(
        pods.put(8, Change::Listed, "a", 1),
        Err(KeyError::UnknownSource)
    );
    assert!(pods.is_incomplete() && !pods.is_synced());
}

/// A version that was pending when a list completed is older than that list.
#[test]
fn a_complete_list_supersedes_the_version_that_was_pending() {
    for restored in [false, true] {
        let mut pods = default_pods();
        pods.list(0, 4, &[("a", 1)]);
        pods.notified();
        pods.modified(0, "a", 5);
        pods.advance(0, ResourceVersion::new("5"));
        pods.begin(0);
        pods.listed(0, "a", 6);
        if restored {
            pods.end_list(0, End::Restored(ResourceVersion::new("7")));
        } else {
            pods.done(0, 7);
        }
        pods.notified();
        assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "7");
        // A version after the list is newer.
        pods.list(0, 8, &[("a", 6)]);
        pods.modified(0, "a", 9);
        pods.advance(0, ResourceVersion::new("9"));
        pods.notified();
        assert_eq!(pods.version(SourceId(0)).unwrap().to_string(), "9");
    }
}

#[test]
fn a_restored_cache_is_synced_before_the_change_that_confirms_it() {
    for change in [Change::Added, Change::Modified, Change::Deleted] {
        let mut pods = default_pods();
        pods.begin(0);
        pods.listed(0, "a", 1);
        pods.end_list(0, End::Restored(ResourceVersion::new("4")));
        assert_eq!(pods.notified(), ["add* a@1"]);
        pods.0
            .apply(
                SourceId(0),
                Step::object(change, "a", item("u-a", 5)),
                &mut (),
            )
            .unwrap();
        let [synced, changed] = &pods.notified()[..] else {
            panic!("two notifications")
        };
        assert_eq!(synced, "synced");
        assert_ne!(changed, "synced");
        assert_eq!(pods.notified(), [""; 0]);
    }
}

/// The objects that only the list has are notified before.
#[test]
fn a_change_does_not_confirm_a_list_that_is_being_told() {
    let mut pods = default_pods();
    pods.begin(0);
    pods.listed(0, "a", 1);
    pods.end_list(0, End::Restored(ResourceVersion::new("4")));
    pods.notified();
    pods.list(0, 6, &[]);
    let step = Step::object(Change::Added, "b", item("u-b", 7));
    pods.0.apply(SourceId(0), step, &mut ()).unwrap();
    assert_eq!(pods.notified(), ["add b@7", "delete? a@1", "synced"]);
}

#[test]
fn resyncs_that_have_not_begun_are_one_pass() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1), ("b", 1)]);
    pods.notified();
    let passes: BTreeSet<u32> = (0..1000).map(|_| pods.resync()).collect();
    assert_eq!(passes, BTreeSet::from([1]));
    // A running pass is not joined: it has replayed some objects already.
    pods.pop();
    assert_eq!((pods.resync(), pods.resync()), (2, 2));
    assert_eq!(
        pods.notified(),
        ["replay1 b@1", "replay2 a@1", "replay2 b@1"]
    );
}

/// Pops everything; returns the number of steps.
fn steps(pods: &mut Pods<Heap>) -> u32 {
    let mut budget = u32::MAX;
    while pods.pop_within(&mut budget).is_some() {}
    u32::MAX - budget
}

#[test]
fn a_sweep_takes_as_many_steps_as_its_source_has_objects() {
    const SOURCES: u16 = 20;
    const OBJECTS: u32 = 20;
    let mut pods = pods(CacheConfig::default(), SOURCES);
    for version in [1, 2] {
        for source in 0..SOURCES {
            pods.begin(source);
            for object in 0..OBJECTS {
                pods.listed(source, &format!("{source}/{object}"), version);
            }
            pods.done(source, version);
            let steps = steps(&mut pods);
            assert!(
                steps <= 2 * OBJECTS + 3,
                "{steps} steps for {OBJECTS} objects"
            );
        }
    }
    // The walk of one source deletes no object of another.
    pods.list(3, 9, &[("3/7", 2)]);
    let taken = steps(&mut pods);
    assert!(taken <= 2 * OBJECTS + 3, "{taken}");
    assert_eq!(pods.len(), 381);
    assert_eq!(pods.entries_of(SourceId(3)).count(), 1);
    pods.begin(4);
    pods.listed(4, "4/1", 2);
    assert_eq!(pods.unnamed(4).count(), 19);
}

#[test]
fn walks_forget_how_large_the_cache_once_was() {
    let mut pods = default_pods();
    pods.begin(0);
    for object in 0..1000 {
        pods.listed(0, &object.to_string(), 1);
    }
    pods.done(0, 1);
    pods.notified();
    for object in (0..1000).filter(|object| *object != 700) {
        pods.deleted(0, &object.to_string(), 2);
    }
    pods.notified();
    pods.resync();
    assert_eq!(
        steps(&mut pods),
        3,
        "the object, the end, and nothing more to do"
    );
    pods.list(0, 3, &[("700", 1)]);
    assert_eq!(steps(&mut pods), 4, "and one delta");
}

/// The listeners of a cache that retains unneeded objects drop nothing under the lock.
#[test]
fn nothing_is_dropped_before_it_is_taken() {
    use alloc::rc::Rc;
    use core::cell::Cell;

    use crate::listeners::{ListenerConfig, Listeners};

    #[derive(Clone)]
    struct Watched {
        version: u32,
        uid: u32,
        locked: Rc<Cell<bool>>,
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            assert!(!self.locked.get(), "dropped under the lock");
        }
    }

    impl Cached for Watched {
        fn same_version(&self, other: &Self) -> bool {
            self.version == other.version
        }

        fn is_another(&self, other: &Self) -> bool {
            self.uid != other.uid
        }
    }

    fn run<S: Storage<Text: PartialEq>>(seed: u64, config: CacheConfig) {
        let mut rng = Rng::new(seed);
        let locked = Rc::new(Cell::new(false));
        let mut pods: Cache<Watched, S> = Cache::new(config, 2, seed);
        let mut listeners: Listeners<S::Text, Watched> = Listeners::default();
        pods.keep_discarded();
        listeners.keep_discarded();
        let mut ids = Vec::new();
        for version in 0..if cfg!(miri) { 60 } else { 400 } {
            let key = format!("k{}", rng.below(6));
            // The third source is unknown.
            let source = rng.below(21) as u16 / 10;
            let object = Watched {
                version: version / 2,
                uid: rng.below(2) as u32,
                locked: Rc::clone(&locked),
            };
            let mut out = Vec::new();
            locked.set(true);
            match rng.below(12) {
                0 => pods.begin(source),
                1 => pods.end_list(source, End::Complete(ResourceVersion::new("1"))),
                2 => pods.delete(source, &key, None),
                3 => pods.keep(source, &key),
                4 | 5 => pods.delete(source, &key, Some(object.clone())),
                6 => {
                    let config = ListenerConfig {
                        backlog: rng.below(4) as usize,
                        ..ListenerConfig::default()
                    };
                    let initial = pods
                        .notified()
                        .map(|(key, object)| (key.clone(), object.clone()));
                    ids.push(listeners.join(config, initial, pods.has_sent_synced()));
                }
                7 if ids.len() > 2 => {
                    listeners.leave(ids.remove(rng.below(3) as usize));
                }
                _ => {
                    let values = Values::<S>::default();
                    let change = [Change::Listed, Change::Modified][rng.below(2) as usize];
                    let _ = pods.upsert(source, change, &key, object.clone(), values);
                }
            }
            if rng.below(40) == 0 {
                pods.resync();
            }
            let mut budget = rng.below(4) as u32;
            while let Some(notification) = pods.pop_within(&mut budget) {
                listeners.append(notification);
            }
            if rng.below(2) == 0 {
                listeners.coalesce();
            }
            for id in &ids {
                listeners.take(*id, rng.below(3) as usize, &mut out);
            }
            let discarded = (pods.take_discarded(), listeners.take_discarded());
            locked.set(false);
            drop((discarded, out, object));
        }
    }

    for seed in 0..crate::rounds(200) {
        for merged in [false, true] {
            let config = CacheConfig {
                merged,
                ..CacheConfig::default()
            };
            run::<Heap>(seed, config);
            run::<Inline<4, 16, 64, 2>>(seed, config);
        }
    }
}

/// An index that is built step by step finally includes every object, no matter what happens in between.
#[test]
fn an_index_is_built_while_objects_change() {
    fn parity(version: &ResourceVersion<Box<str>>) -> &'static str {
        let text = version.to_string();
        ["even", "odd"][usize::from(text.as_bytes()[text.len() - 1] % 2)]
    }
    for seed in 0..crate::rounds(400) {
        let mut rng = Rng::new(seed);
        let mut pods = pods(CacheConfig::default(), 2);
        let mut index = None;
        let mut done = false;
        for version in 1..if cfg!(miri) { 60 } else { 200 } {
            let source = rng.below(2) as u16;
            let key = format!("k{}", rng.below(12));
            match rng.below(16) {
                0 => pods.begin(source),
                1 => pods.done(source, version),
                2 => pods.deleted(source, &key, version),
                // Sometimes the same state from another source.
                3..=9 => {
                    let at = match pods.get(&key) {
                        Some(object) if rng.below(3) == 0 => object.resource_version().clone(),
                        _ => ResourceVersion::new(&version.to_string()),
                    };
                    let values = index.map(|index| (index, parity(&at).into()));
                    let object = Object::new(Uid::new("u"), at, ());
                    let values = values.into_iter().collect();
                    pods.upsert(source, Change::Modified, &key, object, values)
                        .unwrap();
                }
                10 if version > 50 && index.is_none() => {
                    index = Some(pods.begin_index("parity").unwrap());
                    assert_eq!(pods.begin_index("parity"), Err(IndexError::Exists));
                }
                11 | 12 if !done && index.is_some() => {
                    let mut piece = Vec::new();
                    let more = pods.next_unindexed(index.unwrap(), 2, |key, object| {
                        piece.push((key.clone(), object.resource_version().clone()));
                    });
                    done = !more;
                    // Other callers may change objects before their values are added.
                    let mut budget = rng.below(6) as u32;
                    while pods.pop_within(&mut budget).is_some() {}
                    for (key, version) in piece {
                        let is = |object: &Item<Box<str>>| *object.resource_version() == version;
                        pods.add_values(&key, index.unwrap(), [parity(&version)], is);
                    }
                    if done {
                        pods.finish_index(index.unwrap());
                    } else {
                        let asked = pods.by_index("parity", "odd").err();
                        assert_eq!(asked, Some(IndexError::Building));
                    }
                }
                _ => {
                    let mut budget = rng.below(12) as u32;
                    while pods.pop_within(&mut budget).is_some() {}
                }
            }
        }
        if !done {
            continue;
        }
        pods.notified();
        for value in ["even", "odd"] {
            let found: BTreeSet<&str> = pods
                .by_index("parity", value)
                .unwrap()
                .map(|(key, _)| &**key)
                .collect();
            let expected: BTreeSet<&str> = pods
                .iter()
                .filter(|(_, object)| parity(object.resource_version()) == value)
                .map(|(key, _)| &**key)
                .collect();
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}
