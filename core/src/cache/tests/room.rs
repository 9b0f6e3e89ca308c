//! Fixed storage: what is rejected for want of room, and when a list is wanted for it.

use super::*;

/// A list with one object more than there is room for.
fn overfull() -> Pods<Small> {
    let mut pods = small();
    pods.begin(0);
    for key in ["a", "b", "c"] {
        pods.listed(0, key, 1);
    }
    assert_eq!(pods.put(0, Change::Listed, "d", 1), Err(KeyError::Full));
    pods
}

#[test]
fn objects_without_room_are_refused_until_there_is_room() {
    let mut pods = overfull();
    pods.done(0, 5);
    assert_eq!(
        pods.notified(),
        ["add* a@1", "add* b@1", "add* c@1", "synced"]
    );
    assert!(pods.is_incomplete() && !pods.is_synced());
    assert!(
        !pods.take_wants_relist(SourceId::FIRST),
        "there is no room yet"
    );
    // Reading continues, and a deletion makes room: one relist.
    assert!(pods.wants_read());
    pods.deleted(0, "a", 6);
    assert_eq!(pods.notified(), ["delete a@6"]);
    assert!(pods.is_incomplete());
    assert!(pods.take_wants_relist(SourceId::FIRST));
    assert!(!pods.take_wants_relist(SourceId::FIRST), "once");
    pods.list(0, 7, &[("b", 1), ("c", 1), ("d", 1)]);
    assert_eq!(pods.notified(), ["add d@1"]);
    assert!(!pods.is_incomplete() && pods.is_synced());
    // There is no further relist.
    assert!(!pods.take_wants_relist(SourceId::FIRST));
    pods.deleted(0, "b", 8);
    pods.notified();
    assert!(!pods.take_wants_relist(SourceId::FIRST));
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
    assert!(!pods.take_wants_relist(SourceId::FIRST));
    pods.done(0, 6);
    assert!(
        !pods.take_wants_relist(SourceId::FIRST),
        "the sweep has not run yet"
    );
    assert_eq!(pods.notified(), ["delete? b@1", "delete? c@1"]);
    assert!(pods.is_incomplete());
    assert!(pods.take_wants_relist(SourceId::FIRST));
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
    assert!(!pods.take_wants_relist(SourceId::FIRST), "it was complete");
}

/// Room that appears during a list counts when the list is complete.
#[test]
fn room_that_is_made_during_a_stream_is_room() {
    let mut pods = overfull();
    pods.notified();
    pods.deleted(0, "a", 2);
    pods.notified();
    assert!(
        !pods.take_wants_relist(SourceId::FIRST),
        "a list is under way"
    );
    pods.done(0, 5);
    pods.notified();
    assert!(pods.is_incomplete());
    assert!(pods.take_wants_relist(SourceId::FIRST));
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
    assert!(!pods.take_wants_relist(SourceId::FIRST));
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
    assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "7");
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

#[test]
fn a_list_that_begins_does_not_make_an_older_one_complete() {
    let mut pods = overfull();
    pods.done(0, 5);
    pods.begin(0);
    pods.notified();
    assert!(pods.is_incomplete() && !pods.is_synced());
}

#[test]
fn a_missing_object_that_is_deleted_is_not_missing_any_more() {
    let mut pods = small();
    pods.list(0, 5, &[("a", 1), ("b", 1), ("c", 1)]);
    pods.notified();
    assert_eq!(pods.put(0, Change::Added, "d", 6), Err(KeyError::Full));
    pods.deleted(0, "d", 7);
    assert!(pods.is_incomplete());
    assert!(pods.take_wants_relist(SourceId::FIRST));
    pods.list(0, 8, &[("a", 1), ("b", 1), ("c", 1)]);
    pods.notified();
    assert!(pods.is_synced());

    let long = "a-long-name";
    assert_eq!(pods.put(0, Change::Added, long, 9), Err(KeyError::TooLong));
    pods.deleted(0, "e", 10);
    assert!(!pods.take_wants_relist(SourceId::FIRST), "another key");
    pods.deleted(0, long, 11);
    assert!(pods.take_wants_relist(SourceId::FIRST));
}

#[test]
fn an_addition_and_a_deletion_that_cancel_out_make_room() {
    let mut pods = small();
    pods.list(0, 5, &[("a", 1), ("b", 1)]);
    pods.notified();
    pods.added(0, "c", 6);
    assert_eq!(pods.put(0, Change::Added, "d", 7), Err(KeyError::Full));
    assert!(!pods.take_wants_relist(SourceId::FIRST));
    pods.deleted(0, "c", 8);
    assert_eq!(pods.notified(), [""; 0]);
    assert!(pods.take_wants_relist(SourceId::FIRST));
}

/// There is one place for a walk, or one for each source, and the running sweeps have them.
#[test]
fn a_list_is_not_lost_behind_sweeps() {
    fn check<S: Storage<Text: PartialEq>>(sources: u16) {
        let mut pods: Pods<S> = Pods(Cache::new(CacheConfig::default(), sources, 1));
        for source in 0..sources {
            pods.list(source, 5, &[(&format!("{source}"), 1)]);
        }
        // The sweep of the first has begun.
        assert!(pods.pop().is_some());
        pods.list(0, 6, &[("new", 6)]);
        pods.notified();
        assert!(pods.held().contains(&"new@6".into()));
        assert!(!pods.held().contains(&"0@1".into()));
        assert_eq!(pods.version(SourceId::FIRST).unwrap().to_string(), "6");
        assert!(pods.is_synced());
    }
    check::<Inline<4, 9, 64, 4, 1>>(1);
    check::<Inline<12, 9, 64, 12, 8>>(8);
}
