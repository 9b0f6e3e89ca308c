//! Sources that join and leave.

use super::*;

#[test]
fn a_source_that_joins_a_synced_cache_adds_nothing_to_the_initial_list() {
    let mut pods = default_pods();
    pods.list(0, 5, &[("a", 1)]);
    assert_eq!(pods.notified(), ["add* a@1", "synced"]);
    let joined = pods.add_source().unwrap();
    let joined = pods.place(joined).unwrap();
    pods.list(joined, 6, &[("b", 1)]);
    assert_eq!(pods.notified(), ["add b@1"]);
}

#[test]
fn objects_of_a_removed_source_are_deleted_and_its_id_is_unknown() {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list(0, 5, &[("a", 1)]);
    pods.list(1, 6, &[("b", 1)]);
    pods.notified();
    let left = pods.sources().nth(1).unwrap();
    assert!(pods.remove_source(left));
    assert!(!pods.remove_source(left));
    assert_eq!(pods.sources().collect::<Vec<_>>(), [SourceId::FIRST]);
    assert_eq!(pods.notified(), ["delete? b@1"]);
    assert!(pods.is_synced() && !pods.is_source_synced(left));

    // Another source does not begin where the removed one was.
    let joined = pods.add_source().unwrap();
    assert_ne!(joined, left);
    assert!(!pods.is_source_synced(joined) && !pods.version(joined).unwrap().is_known());
    assert_eq!(pods.version(left), None);
    let step = Step::object(Change::Added, "late", item("u-late", 9));
    let rejected = pods.0.apply(left, step, &mut ());
    assert_eq!(rejected, Err(KeyError::UnknownSource));
    for step in [Step::Begin, Step::Complete(ResourceVersion::new("9"))] {
        assert_eq!(pods.0.apply(left, step, &mut ()), Ok(false));
    }
    assert_eq!(pods.notified(), [""; 0]);
    assert_eq!(pods.held(), ["a@1"]);
    assert!(!pods.version(joined).unwrap().is_known());
}

#[test]
fn a_cache_does_not_wait_for_the_list_of_a_removed_source() {
    let mut pods = pods(CacheConfig::default(), 2);
    pods.list(0, 5, &[("a", 1)]);
    pods.begin(1);
    pods.listed(1, "b", 1);
    assert_eq!(pods.notified(), ["add* a@1"]);
    let left = pods.sources().nth(1).unwrap();
    assert!(pods.remove_source(left));
    // Nobody was notified of its object.
    assert_eq!(pods.notified(), ["synced"]);
    assert_eq!(pods.held(), ["a@1"]);
}

#[test]
fn a_cache_whose_last_source_is_removed_is_synced_and_empty() {
    let mut pods = default_pods();
    assert!(pods.remove_source(SourceId::FIRST));
    assert_eq!(pods.notified(), ["synced"]);
    assert_eq!(pods.sources().count(), 0);
    let joined = pods.add_source().unwrap();
    assert_ne!(joined, SourceId::FIRST);
    let place = pods.place(joined).unwrap();
    pods.list(place, 6, &[("a", 1)]);
    assert_eq!(pods.notified(), ["add a@1"]);
}

#[test]
fn fixed_storage_has_the_place_of_a_removed_source_again() {
    let mut pods: Pods<Inline<8, 16, 64>> = Pods(Cache::new(CacheConfig::default(), 8, 1));
    assert_eq!(pods.add_source(), None);
    let mut known: BTreeSet<SourceId> = pods.sources().collect();
    for _ in 0..20 {
        let left = pods.sources().last().unwrap();
        assert!(pods.remove_source(left));
        assert_eq!(pods.add_source(), None, "its objects are not deleted yet");
        pods.notified();
        assert!(known.insert(pods.add_source().unwrap()));
    }
}
