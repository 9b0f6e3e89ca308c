//! Objects that are no longer needed are dropped outside of the lock.

use super::*;

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
                1 => pods.end_list(source, SweepEnd::Complete(ResourceVersion::new("1"))),
                2 => pods.delete(source, &key, None),
                3 => pods.mark_stale(source, &key),
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
