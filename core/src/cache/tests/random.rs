//! Random runs against a simple model.

use alloc::collections::{BTreeMap, BTreeSet};

use super::*;

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
    /// All sources were complete at some time.
    was_complete: bool,
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
        let other = self.truth.get(key).filter(|fact| fact.source != source);
        if other.is_some_and(|other| version < other.version) {
            return;
        }
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

    fn remove(&mut self, source: u16) {
        self.truth.retain(|_, fact| fact.source != source);
        self.lists.remove(&source);
        self.complete.remove(&source);
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

    /// `sources` is the number of sources that the cache has.
    fn check_idle<S: Storage>(&mut self, pods: &Pods<S>, sources: u16)
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
        self.was_complete |= self.complete.len() == usize::from(sources);
        assert_eq!(self.synced, self.was_complete);
        assert_eq!(pods.is_synced(), self.synced && !pods.is_incomplete());
        // An object is missing only if another source had one of its key, and then it is listed.
        if pods.is_incomplete() {
            let sources = pods.sources.as_slice();
            assert!(sources.len() > 1);
            assert!(
                sources
                    .iter()
                    .any(|source| source.wants_relist || source.in_list)
            );
        }
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
    let mut ids: Vec<SourceId> = pods.sources().collect();
    let mut version = 0;
    for _ in 0..if cfg!(miri) { 60 } else { 300 } {
        version += 1;
        let source = rng.below(u64::from(sources)) as u16;
        let key = format!("k{}", rng.below(6));
        let is_listing = listing.contains(&source);
        match rng.below(15) {
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
                pods.mark_stale(source, &key);
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
                    1 if old.version > 1 && rng.below(4) == 0 => old.version - 1,
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
            // It leaves, and another one joins at its place.
            12 if sources > 1 && rng.below(4) == 0 => {
                model.was_complete |= model.complete.len() == usize::from(sources);
                let left = ids[usize::from(source)];
                assert!(pods.remove_source(left) && !pods.remove_source(left));
                model.remove(source);
                listing.remove(&source);
                while let Some(notification) = pods.pop() {
                    model.hear(&notification, config);
                }
                model.check_idle(&pods, sources - 1);
                let joined = pods.add_source().unwrap();
                assert_eq!(pods.place(joined), Some(source));
                assert!(joined != left && pods.version(left).is_none());
                assert!(!pods.version(joined).unwrap().is_known());
                ids[usize::from(source)] = joined;
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
