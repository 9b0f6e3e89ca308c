//! Two sources with objects of one key, as shards by uid have after an object is created again.

use super::*;

impl<S: Storage> Pods<S>
where
    S::Text: PartialEq,
{
    /// Applies a change of `x`.
    fn x(&mut self, source: u16, change: Change, uid: &str, version: &str) {
        let object = Object::new(Uid::new(uid), ResourceVersion::new(version), ());
        if change == Change::Deleted {
            self.0.delete(source, "x", Some(object));
        } else {
            let values = Values::<S>::default();
            self.0.upsert(source, change, "x", object, values).unwrap();
        }
    }

    /// Applies a complete list of `x`, or of nothing.
    fn list_x(&mut self, source: u16, version: u32, x: Option<(&str, &str)>) {
        let step: Step<'_, _, S> = Step::Begin;
        assert!(
            self.0
                .apply(SourceId::initial(source), step, &mut ())
                .is_ok()
        );
        if let Some((uid, version)) = x {
            self.x(source, Change::Listed, uid, version);
        }
        self.done(source, version);
    }

    fn wants_relist(&mut self) -> [bool; 2] {
        [0, 1].map(|source| self.take_wants_relist(SourceId::initial(source)))
    }
}

/// `x` was in shard 1, and is created again in shard 0, of which shard 1 does not know yet.
fn created_again() -> Pods<Heap> {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list_x(0, 5, None);
    pods.list_x(1, 5, Some(("u1", "5")));
    assert_eq!(pods.notified(), ["add* x@5", "synced"]);
    pods.x(0, Change::Added, "u2", "9");
    assert_eq!(pods.notified(), ["delete? x@5", "add x@9"]);
    pods
}

#[test]
fn late_events_of_a_shard_do_not_replace_a_newer_object() {
    let mut pods = created_again();
    pods.x(1, Change::Modified, "u1", "7");
    pods.x(1, Change::Deleted, "u1", "8");
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.held(), ["x@9"]);
    // The other shard has none any more.
    pods.x(0, Change::Deleted, "u2", "10");
    assert_eq!(pods.notified(), ["delete x@10"]);
    assert_eq!(pods.wants_relist(), [false; 2]);

    // A list from an older server.
    let mut pods = created_again();
    pods.list_x(1, 6, Some(("u1", "5")));
    pods.x(1, Change::Deleted, "u1", "8");
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.held(), ["x@9"]);

    // A newer list without it.
    let mut pods = created_again();
    pods.list_x(1, 12, None);
    pods.x(0, Change::Deleted, "u2", "13");
    assert_eq!(pods.notified(), ["delete x@13"]);
    assert_eq!(pods.wants_relist(), [false; 2]);
}

#[test]
fn an_object_that_was_left_out_is_listed_once_the_other_is_gone() {
    // A backup is restored: versions are lower than before.
    let mut pods = created_again();
    pods.list_x(1, 4, Some(("u1", "3")));
    assert_eq!(pods.notified(), [""; 0]);
    assert!(pods.is_synced());
    pods.list_x(0, 4, None);
    assert_eq!(pods.notified(), ["delete? x@9"]);
    assert!(!pods.is_synced(), "x is missing");
    assert_eq!(pods.wants_relist(), [false, true]);
    pods.list_x(1, 4, Some(("u1", "3")));
    assert_eq!(pods.notified(), ["add x@3"]);
    assert!(pods.is_synced());
    assert_eq!(pods.wants_relist(), [false; 2]);

    // Versions that cannot be compared: the later one is shown.
    let mut pods = pods_with_texts();
    pods.x(1, Change::Modified, "u1", "c");
    pods.notified();
    assert_eq!(pods.held(), ["x@c"]);
    pods.x(1, Change::Deleted, "u1", "d");
    pods.notified();
    assert_eq!(pods.wants_relist(), [true, false]);
    pods.list_x(0, 12, Some(("u2", "b")));
    pods.notified();
    assert_eq!(pods.held(), ["x@b"]);
    assert!(pods.is_synced());
}

fn pods_with_texts() -> Pods<Heap> {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list_x(0, 5, None);
    pods.list_x(1, 5, Some(("u1", "a")));
    pods.x(0, Change::Added, "u2", "b");
    pods.notified();
    assert_eq!(pods.held(), ["x@b"]);
    pods
}

#[test]
fn an_addition_and_a_deletion_that_cancel_out_reveal_the_other() {
    let config = CacheConfig {
        merged: true,
        ..CacheConfig::default()
    };
    let mut pods = pods(config, 2);
    pods.list_x(0, 5, None);
    pods.list_x(1, 5, None);
    pods.notified();
    pods.x(0, Change::Added, "u2", "9");
    pods.x(1, Change::Added, "u1", "7");
    pods.x(0, Change::Deleted, "u2", "10");
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.wants_relist(), [false, true]);
}

#[test]
fn an_unusable_object_of_another_shard_keeps_nothing() {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list_x(0, 5, None);
    pods.list_x(1, 5, Some(("u1", "5")));
    pods.notified();
    pods.begin(0);
    pods.mark_stale(0, "x");
    pods.done(0, 9);
    pods.list_x(1, 9, None);
    assert_eq!(pods.notified(), ["delete? x@5"]);
}
