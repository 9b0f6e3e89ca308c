//! The contract of the Indexer, on both storages: examples, and random operations on a model. Recorded traces of client-go
//! (`traces_replay` in `tests/tests/all`) check it too. `i01` to `i15` are scenarios of client-go's own tests.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::error::Error;
use core::fmt::Write;

use super::*;
use crate::cache::NAMESPACE_INDEX;
use crate::object::split_key;
#[cfg(feature = "alloc")]
use crate::storage::Heap;
use crate::storage::Inline;

/// Runs each property on both storages.
macro_rules! on_both {
    ($($name:ident)*) => {
        #[cfg(feature = "alloc")]
        mod heap {
            $(#[test] fn $name() { super::$name::<super::Heap>(); })*
        }
        mod inline {
            $(#[test] fn $name() { super::$name::<super::Roomy>(); })*
        }
    };
}

on_both! {
    i01_store
    i03_a_key_error_is_reported
    i06_several_values_through_changes
    an_index_by_namespace_is_there
    indexes_are_found_by_name
    an_index_may_come_later
    replace_ends_at_an_object_without_a_key
    a_key_may_be_given
    indexes_agree_with_the_objects
}

/// On the heap, objects that share a value are found without calling the index function for any of them.
#[cfg(feature = "alloc")]
#[test]
fn objects_that_share_a_value_are_not_asked_for_it() {
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicUsize, Ordering};

    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let mut store = Indexer::<Obj, Heap>::new(Obj::write_key);
    let f = move |object: &Obj, value: &mut dyn FnMut(&str)| {
        counted.fetch_add(1, Ordering::Relaxed);
        zones(object, value);
    };
    store.add_index("zones", Box::new(f)).unwrap();
    for number in 0..100 {
        let zones = format!("{},{}", number % 10, number % 7);
        store.add(obj(&number.to_string(), &zones)).unwrap();
    }
    assert_eq!(calls.swap(0, Ordering::Relaxed), 100);
    let found = sharing(&store, "zones", &obj("?", "6,9,6"));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let expected: Vec<_> = (0..100)
        .filter(|n| [n % 10, n % 7].iter().any(|zone| [6, 9].contains(zone)))
        .map(|n| n.to_string())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    assert_eq!(found, expected.join(" "));
}

type Roomy = Inline<64, 32, 64>;

/// Calls the closure with each value of an object.
type IndexFunction = fn(&Obj, &mut dyn FnMut(&str));

/// Converts a plain function to an index function of the storage.
trait Functions: Storage {
    fn function(f: IndexFunction) -> Self::IndexFn<Obj>;
}

#[cfg(feature = "alloc")]
impl Functions for Heap {
    fn function(f: IndexFunction) -> Self::IndexFn<Obj> {
        alloc::boxed::Box::new(f)
    }
}

impl<const N: usize, const K: usize, const F: usize> Functions for Inline<N, K, F> {
    fn function(f: IndexFunction) -> Self::IndexFn<Obj> {
        f
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Obj {
    key: String,
    /// The values of an index, separated by commas.
    zones: String,
}

impl Obj {
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        if self.key.is_empty() {
            return Err(fmt::Error);
        }
        out.write_str(&self.key)
    }
}

fn obj(key: &str, zones: &str) -> Obj {
    Obj {
        key: key.to_string(),
        zones: zones.to_string(),
    }
}

fn zones(object: &Obj, value: &mut dyn FnMut(&str)) {
    object
        .zones
        .split(',')
        .filter(|zone| !zone.is_empty())
        .for_each(value);
}

/// The number of zones: always one value.
fn count(object: &Obj, value: &mut dyn FnMut(&str)) {
    let mut n = 0;
    zones(object, &mut |_| n += 1);
    value(&n.to_string());
}

fn store<S: Functions>(objects: &[(&str, &str)]) -> Indexer<Obj, S> {
    let mut store = Indexer::new(Obj::write_key);
    store.add_index("zones", S::function(zones)).unwrap();
    for (key, zones) in objects {
        store.add(obj(key, zones)).unwrap();
    }
    store
}

/// Returns the keys under a value, sorted, separated by spaces.
fn under<S: Storage>(store: &Indexer<Obj, S>, index: &str, value: &str) -> String {
    let mut keys: Vec<&str> = store
        .by_index(index, value)
        .unwrap()
        .map(|object| object.key.as_str())
        .collect();
    keys.sort_unstable();
    #[cfg(feature = "alloc")]
    assert_eq!(store.index_keys(index, value).as_deref(), Ok(&*keys));
    keys.join(" ")
}

/// Returns the values of an index in the order of the calls, sorted, separated by spaces.
fn values<S: Storage>(store: &Indexer<Obj, S>, index: &str) -> String {
    let mut values = Vec::new();
    store.index_values(index, |value| values.push(value.to_string()));
    values.sort_unstable();
    values.join(" ")
}

/// Returns the keys of the objects that share a value with an object, sorted, separated by spaces.
fn sharing<S: Storage>(store: &Indexer<Obj, S>, index: &str, object: &Obj) -> String {
    let mut keys = Vec::new();
    store
        .index(index, object, |found| keys.push(found.key.as_str()))
        .unwrap();
    keys.sort_unstable();
    keys.join(" ")
}

fn keys<S: Storage>(store: &Indexer<Obj, S>) -> String {
    let mut keys: Vec<&str> = store.keys().collect();
    keys.sort_unstable();
    keys.join(" ")
}

fn i01_store<S: Functions>() {
    let mut store = store::<S>(&[]);
    assert!(store.is_empty() && store.list().next().is_none());

    assert_eq!(store.add(obj("a", "1")), Ok(None));
    assert_eq!(store.get("a"), Some(&obj("a", "1")));
    assert_eq!(store.get("b"), None);
    assert_eq!(store.add(obj("a", "2")), Ok(Some(obj("a", "1"))));
    assert_eq!(store.get("a"), Some(&obj("a", "2")));
    assert_eq!(store.delete("a"), Some(obj("a", "2")));
    assert_eq!(store.get("a"), None);
    assert_eq!(store.delete("a"), None, "an unknown key is no error");

    // An update of an unknown object stores it, and an addition of a stored object replaces it.
    assert_eq!(store.add(obj("b", "1")), Ok(None));
    assert_eq!(store.add(obj("b", "2")), Ok(Some(obj("b", "1"))));
    store.add(obj("c", "")).unwrap();
    store.add(obj("ns/c", "")).unwrap();
    assert_eq!((keys(&store).as_str(), store.len()), ("b c ns/c", 3));
    let mut list: Vec<&str> = store.list().map(|object| object.key.as_str()).collect();
    list.sort_unstable();
    assert_eq!(list, ["b", "c", "ns/c"]);

    store.replace([obj("c", "new"), obj("d", "")]).unwrap();
    assert_eq!(keys(&store), "c d");
    assert_eq!(store.get("c"), Some(&obj("c", "new")));
    store.replace([]).unwrap();
    assert!(store.is_empty());
    assert!(format!("{store:?}").contains("len: 0"));
}

/// The cause of an error of another library.
#[derive(Debug)]
struct Wrapped(KeyError);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("could not store it")
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn i03_a_key_error_is_reported<S: Functions>() {
    let mut store = store::<S>(&[("a", "x")]);
    for result in [store.add(obj("", "x")), store.add(obj("", "x"))] {
        let error = Wrapped(result.unwrap_err());
        let cause = error.source().and_then(|cause| cause.downcast_ref());
        assert_eq!(cause, Some(&KeyError::NoKey));
        assert!(error.0.to_string().contains("metadata.name"));
    }
    assert_eq!(keys(&store), "a");
    assert_eq!(under(&store, "zones", "x"), "a");
}

fn i06_several_values_through_changes<S: Functions>() {
    let mut store = store::<S>(&[]);
    for (key, zones, [foo, bar, baz]) in [
        ("1", Some("foo"), ["1", "", ""]),
        ("2", Some("bar"), ["1", "2", ""]),
        ("2", Some("foo,bar"), ["1 2", "2", ""]),
        ("1", Some("foo,bar"), ["1 2", "1 2", ""]),
        ("3", Some("foo,bar,baz"), ["1 2 3", "1 2 3", "3"]),
        ("1", Some("foo"), ["1 2 3", "2 3", "3"]),
        ("2", Some("bar"), ["1 3", "2 3", "3"]),
        ("3", Some("baz,foo"), ["1 3", "2", "3"]),
        ("1", None, ["3", "2", "3"]),
        ("2", None, ["3", "", "3"]),
        ("3", None, ["", "", ""]),
    ] {
        match zones {
            Some(zones) => drop(store.add(obj(key, zones)).unwrap()),
            None => drop(store.delete(key).unwrap()),
        }
        for (value, expected) in [("foo", foo), ("bar", bar), ("baz", baz)] {
            let at = format!("{value} after {key} has {zones:?}");
            assert_eq!(under(&store, "zones", value), expected, "{at}");
        }
    }
}

/// Every key can be split and joined again. client-go's parser rejects a key with a second slash; this function cannot
/// fail, and leaves the slash in the name, which no API server would accept.
#[test]
fn i15_split_key() {
    use crate::object::split_key;

    for (key, parts) in [
        ("", ("", "")),
        ("name", ("", "name")),
        ("ns/name", ("ns", "name")),
        ("ns/", ("ns", "")),
        ("/name", ("", "name")),
        ("a/b/c", ("a", "b/c")),
    ] {
        assert_eq!(split_key(key), parts, "{key}");
    }
    let mut rng = XorShift(0x9e37_79b9_7f4a_7c15);
    for _ in 0..100 {
        let (namespace, name) = (rng.text(), rng.text());
        let key = format!("{namespace}/{name}");
        assert_eq!(split_key(&key), (namespace.as_str(), name.as_str()));
        assert_eq!(split_key(&name), ("", name.as_str()));
    }
}

fn an_index_by_namespace_is_there<S: Functions>() {
    let mut store = Indexer::<Obj, S>::new(Obj::write_key);
    for key in ["a", "prod/a", "prod/b", "test/a"] {
        store.add(obj(key, "")).unwrap();
    }
    assert!(store.index_names().eq([NAMESPACE_INDEX]));
    assert_eq!(values(&store, NAMESPACE_INDEX), " prod test");
    assert_eq!(under(&store, NAMESPACE_INDEX, ""), "a");
    assert_eq!(under(&store, NAMESPACE_INDEX, "prod"), "prod/a prod/b");
    store.delete("prod/a");
    assert_eq!(under(&store, NAMESPACE_INDEX, "prod"), "prod/b");
    assert_eq!(under(&store, NAMESPACE_INDEX, "pro"), "");
}

fn indexes_are_found_by_name<S: Functions>() {
    let mut store = store::<S>(&[("a", "x")]);
    assert!(store.index_names().eq(["namespace", "zones"]));
    for name in ["zones", NAMESPACE_INDEX] {
        let error = store.add_index(name, S::function(count)).unwrap_err();
        assert_eq!(error, IndexError::Exists);
    }
    assert!(store.index_names().eq(["namespace", "zones"]));
    assert_eq!(under(&store, "zones", "x"), "a", "the old object stays");
    assert_eq!(
        store.by_index("count", "1").err(),
        Some(IndexError::Unknown)
    );
    #[cfg(feature = "alloc")]
    assert_eq!(store.index_keys("count", "1"), Err(IndexError::Unknown));
}

fn an_index_may_come_later<S: Functions>() {
    let mut store = store::<S>(&[("a", "x,y"), ("b", "y"), ("c", "")]);
    store.delete("c");
    store.add(obj("d", "")).unwrap();
    store.add_index("count", S::function(count)).unwrap();
    assert_eq!(values(&store, "count"), "0 1 2");
    assert_eq!(under(&store, "count", "0"), "d");
    store.add(obj("a", "z")).unwrap();
    assert_eq!(under(&store, "count", "1"), "a b");
    assert_eq!(under(&store, "zones", "y"), "b");
}

/// client-go computes the keys first and then changes nothing; here no object is stored twice.
fn replace_ends_at_an_object_without_a_key<S: Functions>() {
    let mut store = store::<S>(&[("a", "x")]);
    let list = [obj("b", "y"), obj("", "z"), obj("c", "w")];
    assert_eq!(store.replace(list), Err(KeyError::NoKey));
    assert_eq!(keys(&store), "b");
    assert_eq!(values(&store, "zones"), "y");
}

fn a_key_may_be_given<S: Functions>() {
    let mut store = store::<S>(&[]);
    assert_eq!(store.put("ns/a", obj("ignored", "x")), Ok(None));
    assert!(store.get("ignored").is_none());
    assert_eq!(store.get("ns/a"), Some(&obj("ignored", "x")));
    assert_eq!(
        store.by_index("namespace", "ns").map(Iterator::count),
        Ok(1)
    );
    assert_eq!(store.delete("ns/a"), Some(obj("ignored", "x")));
    assert_eq!(values(&store, "namespace"), "");
}

#[test]
fn objects_that_do_not_fit_are_refused_and_the_rest_stays() {
    let mut store = Indexer::<Obj, Inline<2, 5, 16>>::new(Obj::write_key);
    store.add(obj("a", "1")).unwrap();
    assert_eq!(store.add(obj("long-a", "1")), Err(KeyError::TooLong));
    store.add(obj("b", "1")).unwrap();
    assert_eq!(store.add(obj("c", "1")), Err(KeyError::Full));
    assert_eq!(store.add(obj("a", "2")), Ok(Some(obj("a", "1"))));
    assert_eq!(keys(&store), "a b");
    store.delete("a");
    assert_eq!(store.add(obj("c", "1")), Ok(None));
    let list = [obj("x", ""), obj("y", ""), obj("z", "")];
    assert_eq!(store.replace(list), Err(KeyError::Full));
    assert_eq!(keys(&store), "x y");
}

#[test]
fn fixed_storage_has_room_for_eight_indexes() {
    let mut store = Indexer::<Obj, Inline<2, 9, 16>>::new(Obj::write_key);
    store.add(obj("a", "x")).unwrap();
    assert_eq!(
        store.add_index("long-name-", zones),
        Err(IndexError::Full),
        "its name is too long"
    );
    for n in 1..8 {
        store.add_index(&n.to_string(), zones).unwrap();
    }
    assert_eq!(store.add_index("8", zones), Err(IndexError::Full));
    assert_eq!(store.index_names().count(), 8);
    assert_eq!(under(&store, "7", "x"), "a");
}

#[cfg(feature = "alloc")]
#[test]
fn nothing_is_stored_when_an_index_function_panics() {
    use core::panic::AssertUnwindSafe;
    use std::panic::catch_unwind;

    let mut store = store::<Heap>(&[("a", "x")]);
    let picky = |object: &Obj, value: &mut dyn FnMut(&str)| {
        assert_ne!(object.zones, "bad");
        value("good");
    };
    store.add_index("picky", Heap::function(picky)).unwrap();
    for key in ["a", "b"] {
        let result = catch_unwind(AssertUnwindSafe(|| store.add(obj(key, "bad"))));
        assert!(result.is_err());
    }
    assert_eq!(keys(&store), "a");
    assert_eq!(under(&store, "zones", "x"), "a");
    assert_eq!(under(&store, "picky", "good"), "a");
    store.add(obj("b", "y")).unwrap();
    assert_eq!(under(&store, "picky", "good"), "a b");
}

struct XorShift(u64);

impl XorShift {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % u64::try_from(bound).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Returns text without a slash.
    fn text(&mut self) -> String {
        (0..self.below(20))
            .map(|_| self.pick(&["a", "0", "-", ".", "é", "\u{10ffff}", " ", "\\", "%2f"]))
            .collect()
    }

    /// Returns an object with up to five zones, in any order, some of them twice.
    fn object(&mut self) -> Obj {
        let zones: Vec<&str> = (0..self.below(6))
            .map(|_| self.pick(&["u", "v", "w", "x", "y", "z"]))
            .collect();
        let key = self.pick(&["a", "b", "c", "n/a", "n/b", "n/c", "m/a", "m/b"]);
        obj(key, &zones.join(","))
    }
}

/// The objects alone; every index is computed from them.
#[derive(Default)]
struct Model {
    objects: BTreeMap<String, Obj>,
    indexes: Vec<(&'static str, IndexFunction)>,
}

impl Model {
    fn values(f: IndexFunction, object: &Obj) -> BTreeSet<String> {
        let mut values = BTreeSet::new();
        f(object, &mut |value| {
            values.insert(value.to_string());
        });
        values
    }

    fn compare<S: Storage>(&self, store: &Indexer<Obj, S>, probe: &Obj, at: &str) {
        let words = |words: Vec<&str>| words.join(" ");
        assert_eq!(
            keys(store),
            words(self.objects.keys().map(|k| &**k).collect()),
            "{at}"
        );
        assert_eq!(store.len(), self.objects.len(), "{at}");
        assert_eq!(store.is_empty(), self.objects.is_empty(), "{at}");
        for (key, object) in &self.objects {
            assert_eq!(store.get(key), Some(object), "{at}");
        }
        for &(index, f) in &self.indexes {
            let mut expected: BTreeMap<String, Vec<&str>> = BTreeMap::new();
            for (key, object) in &self.objects {
                for value in Self::values(f, object) {
                    expected.entry(value).or_default().push(key);
                }
            }
            let present = words(expected.keys().map(|value| &**value).collect());
            assert_eq!(values(store, index), present, "{at}, {index}");
            // Also query a value without objects.
            expected.entry("nobody".to_string()).or_default();
            for (value, keys) in expected {
                assert_eq!(
                    under(store, index, &value),
                    words(keys),
                    "{at}, {index} {value}"
                );
            }
            let own = Self::values(f, probe);
            let shares = |object: &Obj| !own.is_disjoint(&Self::values(f, object));
            let shared = self.objects.values().filter(|object| shares(object));
            let shared = words(shared.map(|object| &*object.key).collect());
            assert_eq!(
                sharing(store, index, probe),
                shared,
                "{at}, {index} of {probe:?}"
            );
        }
    }
}

/// The number of seeds, and of steps for each.
const ROUNDS: (u64, u32) = if cfg!(miri) { (1, 15) } else { (200, 80) };

fn indexes_agree_with_the_objects<S: Functions>() {
    let namespace: IndexFunction = |object, value| value(split_key(&object.key).0);
    let later: [(&str, IndexFunction); 3] = [
        ("zones", zones),
        ("count", count),
        ("backwards", |object, value| {
            object.zones.split(',').rev().for_each(value);
        }),
    ];
    for seed in 1..=ROUNDS.0 {
        let mut rng = XorShift(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut store = Indexer::<Obj, S>::new(Obj::write_key);
        let mut model = Model {
            indexes: vec![(NAMESPACE_INDEX, namespace)],
            ..Model::default()
        };
        let mut later = later.iter();
        for step in 0..ROUNDS.1 {
            let object = rng.object();
            let key = object.key.clone();
            let at = format!("seed {seed}, step {step}");
            match rng.below(40) {
                0..=23 => {
                    let old = model.objects.insert(key, object.clone());
                    assert_eq!(store.add(object), Ok(old), "{at}");
                }
                24..=36 => assert_eq!(store.delete(&key), model.objects.remove(&key), "{at}"),
                37 => {
                    let list: Vec<Obj> = (0..rng.below(8)).map(|_| rng.object()).collect();
                    let pairs = list
                        .iter()
                        .map(|object| (object.key.clone(), object.clone()));
                    model.objects = pairs.collect();
                    store.replace(list).unwrap();
                }
                _ => {
                    if let Some(&(name, f)) = later.next() {
                        store.add_index(name, S::function(f)).unwrap();
                        model.indexes.push((name, f));
                    }
                }
            }
            model.compare(&store, &rng.object(), &at);
        }
    }
}
