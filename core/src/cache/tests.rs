//! The notifications and contents of a cache, for any input and any pace of popping.
#![cfg(feature = "alloc")]

mod discarded;
mod index;
mod random;
mod rivals;
mod room;
mod sources;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use super::source::SweepEnd;
use super::*;
use crate::object::{KeyError, Object, ResourceVersion, Uid};
use crate::reflector::Change;
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
        self.0.end_list(source, SweepEnd::Complete(version));
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

type Small = Inline<3, 8, 64>;

fn small() -> Pods<Small> {
    Pods(Cache::new(CacheConfig::default(), 1, 1))
}

#[test]
fn i16_before_the_first_sync_objects_are_there_but_not_notified() {
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
    assert!(!pods.version(SourceId::FIRST).unwrap().is_known());
    pods.done(0, 5);
    assert_eq!(pods.notified(), ["add* a@1", "synced"]);
    assert_eq!(pods.0.notified().count(), 1);
    assert!(pods.is_synced());
    assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "5");
}

#[test]
fn an_empty_list_syncs() {
    let mut pods = default_pods();
    pods.list(0, 5, &[]);
    assert_eq!(pods.notified(), ["synced"]);
    assert!(pods.is_synced() && pods.is_empty());
}

#[test]
fn a_restarted_first_list_notifies_nothing_of_the_first_attempt() {
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
fn events_right_after_the_first_list_are_notified_once() {
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
fn c07_a_relist_notifies_changes_as_they_arrive_and_deletions_at_its_end() {
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
    assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "5");
    pods.done(0, 9);
    assert_eq!(pods.notified(), ["delete? a@1"]);
    assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "9");
}

/// The objects of an interrupted relist were notified, so their deletion is notified too.
#[test]
fn a_restarted_relist_notifies_additions_and_deletions() {
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
fn unchanged_objects_are_notified_where_that_is_wanted_once_per_list() {
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
    assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "7");
    assert_eq!(pods.version(SourceId::initial(1)).unwrap().to_string(), "6");
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
fn i16_a_key_that_moves_to_a_source_that_is_not_synced_is_not_notified_twice() {
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
fn an_unusable_object_keeps_its_older_state_and_is_stale() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1), ("b", 1)]);
    pods.notified();
    pods.begin(0);
    pods.mark_stale(0, "a");
    pods.mark_stale(0, "never");
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
    pods.mark_stale(0, "a");
    assert_eq!(pods.notified(), ["update a@1->7"]);
    assert_eq!(pods.stale(), ["a"]);
    // A later delta is newer than the unusable state.
    pods.mark_stale(0, "a");
    pods.modified(0, "a", 8);
    assert_eq!(pods.notified(), ["update a@7->8"]);
    assert_eq!(pods.stale(), [""; 0]);
    // An unusable state alone does not create an object.
    pods.added(0, "n", 9);
    pods.mark_stale(0, "n");
    assert_eq!(pods.notified(), ["add n@9"]);
    assert_eq!(pods.stale(), ["n"]);
    pods.deleted(0, "n", 10);
    pods.mark_stale(0, "n");
    assert_eq!(pods.notified(), ["delete n@10"]);
    assert_eq!(pods.stale(), [""; 0]);
}

#[test]
fn a_resync_replays_all_that_was_notified_with_its_number() {
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
    let version = |pods: &Pods<Heap>| pods.version(SourceId::FIRST).unwrap().to_string();
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
    assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "6");
}

/// If deltas were merged or lost, the deleted object may be one of which no handler was notified.
#[test]
fn the_end_of_another_object_is_notified_as_the_end_of_the_one_that_was_notified() {
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
fn between_a_deletion_and_an_addition_the_new_object_is_not_notified_yet() {
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

#[test]
fn steps_of_an_unknown_source_are_rejected() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    pods.notified();
    pods.begin(1);
    assert_eq!(
        pods.put(1, Change::Listed, "b", 1),
        Err(KeyError::UnknownSource)
    );
    pods.mark_stale(1, "a");
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
            pods.end_list(0, SweepEnd::Restored(ResourceVersion::new("7")));
        } else {
            pods.done(0, 7);
        }
        pods.notified();
        assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "7");
        // A version after the list is newer.
        pods.list(0, 8, &[("a", 6)]);
        pods.modified(0, "a", 9);
        pods.advance(0, ResourceVersion::new("9"));
        pods.notified();
        assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "9");
    }
}

#[test]
fn a_restored_cache_is_synced_before_the_change_that_confirms_it() {
    for change in [Change::Added, Change::Modified, Change::Deleted] {
        let mut pods = default_pods();
        pods.begin(0);
        pods.listed(0, "a", 1);
        pods.end_list(0, SweepEnd::Restored(ResourceVersion::new("4")));
        assert_eq!(pods.notified(), ["add* a@1"]);
        pods.0
            .apply(
                SourceId::FIRST,
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

/// A streaming list can contain the deletion of an object that it began with.
#[test]
fn a_deletion_within_a_list_does_not_confirm_the_restored_state() {
    let mut pods = default_pods();
    pods.begin(0);
    pods.listed(0, "a", 1);
    pods.listed(0, "b", 1);
    pods.end_list(0, SweepEnd::Restored(ResourceVersion::new("4")));
    assert_eq!(pods.notified(), ["add* a@1", "add* b@1"]);
    pods.begin(0);
    let gone = Step::object(Change::Deleted, "a", item("u-a", 5));
    pods.0.apply(SourceId::FIRST, gone, &mut ()).unwrap();
    assert_eq!(pods.notified(), ["delete a@5"]);
    assert!(pods.is_restored(SourceId::FIRST));
    pods.listed(0, "b", 1);
    pods.done(0, 8);
    assert_eq!(pods.notified(), ["synced"]);
}

#[test]
fn a_confirmed_cache_is_not_idle_until_it_has_notified_of_that() {
    let mut pods = default_pods();
    pods.begin(0);
    pods.end_list(0, SweepEnd::Restored(ResourceVersion::new("4")));
    pods.notified();
    pods.0
        .apply(SourceId::FIRST, Step::Confirm, &mut ())
        .unwrap();
    assert!(!pods.is_idle());
    assert_eq!(pods.notified(), ["synced"]);
}

/// The objects that only the list has are notified before.
#[test]
fn a_change_does_not_confirm_a_list_that_is_being_notified() {
    let mut pods = default_pods();
    pods.begin(0);
    pods.listed(0, "a", 1);
    pods.end_list(0, SweepEnd::Restored(ResourceVersion::new("4")));
    pods.notified();
    pods.list(0, 6, &[]);
    let step = Step::object(Change::Added, "b", item("u-b", 7));
    pods.0.apply(SourceId::FIRST, step, &mut ()).unwrap();
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
    assert_eq!(pods.entries_of(SourceId::initial(3)).count(), 1);
    pods.begin(4);
    pods.listed(4, "4/1", 2);
    assert_eq!(pods.unlisted(4).count(), 19);
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
