//! Indexes that are added later, while objects change.

use super::*;

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

#[test]
fn an_object_without_values_is_indexed_by_the_functions_of_the_cache() {
    let mut pods = default_pods();
    let by_version: <Heap as Storage>::IndexFn<Item<Box<str>>> =
        Box::new(|pod, value| value(&pod.resource_version().to_string()));
    pods.add_index("version", by_version).unwrap();
    pods.list(0, 5, &[]);
    let added = Step::object(Change::Added, "a", item("u-a", 6));
    pods.0.apply(SourceId::FIRST, added, &mut ()).unwrap();
    pods.notified();
    assert_eq!(pods.by_index("version", "6").unwrap().count(), 1);
}
