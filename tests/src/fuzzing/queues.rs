//! The DeltaFIFO and the Indexer against a model that is written as client-go is, and `Inline` against `Heap`.

use core::fmt::{self, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use informer_core::{
    Heap, Inline, Storage,
    cache::{DeltaFifo, Indexer, KnownObjects},
    object::Keyed,
    storage::{DeltaKind, Payload, Tombstone},
};

const KEYS: [&str; 6] = ["a/x", "a/y", "b/x", "b/y", "c", "d"];

/// Room for all keys at once.
type Small = Inline<8, 16, 64>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pod {
    key: u8,
    n: u32,
}

impl Keyed for Pod {
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        out.write_str(KEYS[usize::from(self.key)])
    }
}

/// Carries out operations on a queue and its store, on the model, and on fixed storage.
///
/// # Panics
/// Where these do not agree.
pub fn queues(data: &[u8]) {
    let mut all = Both::<Heap>::new(DeltaFifo::new());
    let mut merged = Both::<Heap>::new(DeltaFifo::merged());
    let mut small = Both::<Small>::new(DeltaFifo::merged());
    let mut model = Model::default();
    let mut truth: BTreeMap<u8, u32> = BTreeMap::new();
    for (n, op) in data.chunks(2).enumerate().take(400) {
        let n = u32::try_from(n).unwrap_or(0);
        let &[what, argument] = op else { break };
        let pod = Pod {
            key: argument % 6,
            n,
        };
        match what % 8 {
            0 | 1 => {
                let is_add = what.is_multiple_of(8);
                let kind = if is_add {
                    DeltaKind::Added
                } else {
                    DeltaKind::Updated
                };
                model.enqueue(pod.key, kind, Some(n));
                all.put(pod, is_add);
                merged.put(pod, is_add);
                small.put(pod, is_add);
                truth.insert(pod.key, n);
            }
            2 | 3 => {
                let by_key = what % 8 == 3;
                model.delete(pod.key, (!by_key).then_some(n));
                all.delete(pod, by_key);
                merged.delete(pod, by_key);
                small.delete(pod, by_key);
                truth.remove(&pod.key);
            }
            4 => {
                let items: Vec<Pod> = (0..6)
                    .filter(|key| argument >> key & 1 == 1)
                    .map(|key| Pod { key, n })
                    .collect();
                let before = all.order();
                model.replace(&items);
                all.replace(&items, &before);
                merged.replace(&items, &VecDeque::new());
                small.replace(&items, &VecDeque::new());
                model.queue = all.order();
                truth = items.iter().map(|pod| (pod.key, pod.n)).collect();
            }
            5 => {
                model.resync();
                all.resync();
                merged.resync();
                small.resync();
                model.queue = all.order();
            }
            _ => {
                all.pop_as(&mut model);
                merged.pop();
                small.pop();
            }
        }
        all.agrees_with(&model);
    }
    while all.pop_as(&mut model) {}
    while merged.pop() {}
    while small.pop() {}
    assert_eq!(all.stored(), truth, "every delta kept");
    assert_eq!(merged.stored(), truth, "deltas merged");
    assert_eq!(small.stored(), truth, "deltas merged, in fixed storage");
}

/// A queue and the store of its consumer.
struct Both<S: Storage> {
    fifo: DeltaFifo<Pod, S>,
    store: Indexer<Pod, S>,
}

impl<S: Storage> Both<S> {
    fn new(fifo: DeltaFifo<Pod, S>) -> Self {
        Self {
            fifo,
            store: Indexer::new(),
        }
    }

    fn put(&mut self, pod: Pod, is_add: bool) {
        let queued = if is_add {
            self.fifo.add(pod)
        } else {
            self.fifo.update(pod)
        };
        assert_eq!(queued, Ok(()));
    }

    fn delete(&mut self, pod: Pod, by_key: bool) {
        let known: Option<&dyn KnownObjects> = Some(&self.store);
        let queued = if by_key {
            let key = KEYS[usize::from(pod.key)];
            self.fifo
                .delete_tombstone(Tombstone { key, last: None }, known)
        } else {
            self.fifo.delete(pod, known)
        };
        assert_eq!(queued, Ok(()));
    }

    fn replace(&mut self, items: &[Pod], before: &VecDeque<u8>) {
        assert_eq!(
            self.fifo.replace(items.iter().copied(), Some(&self.store)),
            Ok(())
        );
        let order = self.order();
        assert!(
            order.iter().zip(before).all(|(own, before)| own == before),
            "what was queued stays in its place"
        );
    }

    fn resync(&mut self) {
        assert_eq!(self.fifo.resync(&self.store), Ok(()));
    }

    fn pop(&mut self) -> bool {
        let Ok(popped) = self.fifo.pop() else {
            return false;
        };
        assert_eq!(self.store.apply(popped.deltas), Ok(()));
        true
    }

    fn order(&self) -> VecDeque<u8> {
        let mut order = VecDeque::new();
        self.fifo.for_each_queued(|key| order.extend(number(key)));
        order
    }

    fn stored(&self) -> BTreeMap<u8, u32> {
        let stored: BTreeMap<u8, u32> = self.store.list().map(|pod| (pod.key, pod.n)).collect();
        for namespace in ["a", "b", ""] {
            let found = self
                .store
                .by_index("namespace", namespace)
                .map(|found| found.map(|pod| pod.key).collect());
            let right = stored
                .keys()
                .copied()
                .filter(|key| namespace_of(*key) == namespace)
                .collect();
            assert_eq!(
                found,
                Ok::<BTreeSet<u8>, _>(right),
                "the index of {namespace}"
            );
        }
        stored
    }
}

impl Both<Heap> {
    fn pop_as(&mut self, model: &mut Model) -> bool {
        let popped = self.fifo.pop();
        let Some((key, deltas)) = model.pop() else {
            assert!(popped.is_err(), "the model has nothing");
            return false;
        };
        let Ok(popped) = popped else {
            panic!("the model has {deltas:?}");
        };
        assert_eq!(popped.deltas.key().as_ref(), KEYS[usize::from(key)]);
        assert_eq!(self.store.apply(popped.deltas), Ok(()));
        true
    }

    fn agrees_with(&self, model: &Model) {
        assert_eq!(self.order(), model.queue);
        for (key, deltas) in &model.items {
            let shown = |delta: &informer_core::storage::Delta<Pod>| {
                let n = match &delta.payload {
                    Payload::Object(pod) => Some(pod.n),
                    Payload::Stored | Payload::Tombstone(_) => None,
                };
                (delta.kind, n)
            };
            let own: Vec<_> = self
                .fifo
                .pending(KEYS[usize::from(*key)])
                .iter()
                .map(shown)
                .collect();
            assert_eq!(own, *deltas, "{}", KEYS[usize::from(*key)]);
        }
        let stored: BTreeSet<u8> = self.store.list().map(|pod| pod.key).collect();
        assert_eq!(stored, model.stored);
    }
}

/// What waits for a key: kinds of delta, and numbers of objects.
type Waiting = Vec<(DeltaKind, Option<u32>)>;

/// client-go's `DeltaFIFO`, as far as it concerns one consumer.
#[derive(Default)]
struct Model {
    items: BTreeMap<u8, Waiting>,
    queue: VecDeque<u8>,
    stored: BTreeSet<u8>,
}

impl Model {
    /// `queueActionLocked` and `dedupDeltas`. No number is a tombstone, or what is in the store.
    fn enqueue(&mut self, key: u8, kind: DeltaKind, n: Option<u32>) {
        if !self.items.contains_key(&key) {
            self.queue.push_back(key);
        }
        let deltas = self.items.entry(key).or_default();
        if let (DeltaKind::Deleted, Some((DeltaKind::Deleted, last))) = (kind, deltas.last_mut()) {
            *last = last.or(n);
        } else {
            deltas.push((kind, n));
        }
    }

    fn delete(&mut self, key: u8, n: Option<u32>) {
        if self.items.contains_key(&key) || self.stored.contains(&key) {
            self.enqueue(key, DeltaKind::Deleted, n);
        }
    }

    fn replace(&mut self, items: &[Pod]) {
        for pod in items {
            self.enqueue(pod.key, DeltaKind::Sync, Some(pod.n));
        }
        let listed = |key: u8| items.iter().any(|pod| pod.key == key);
        let gone: BTreeSet<u8> = self
            .items
            .keys()
            .chain(&self.stored)
            .copied()
            .filter(|key| !listed(*key))
            .collect();
        for key in gone {
            self.enqueue(key, DeltaKind::Deleted, None);
        }
    }

    fn resync(&mut self) {
        for key in self.stored.clone() {
            if !self.items.contains_key(&key) {
                self.enqueue(key, DeltaKind::Sync, None);
            }
        }
    }

    fn pop(&mut self) -> Option<(u8, Waiting)> {
        let key = self.queue.pop_front()?;
        let deltas = self.items.remove(&key).unwrap_or_default();
        for (kind, _) in &deltas {
            if *kind == DeltaKind::Deleted {
                self.stored.remove(&key);
            } else {
                self.stored.insert(key);
            }
        }
        Some((key, deltas))
    }
}

fn number(key: &str) -> Option<u8> {
    KEYS.iter()
        .position(|own| *own == key)
        .and_then(|at| u8::try_from(at).ok())
}

fn namespace_of(key: u8) -> &'static str {
    KEYS[usize::from(key)]
        .split_once('/')
        .map_or("", |(namespace, _)| namespace)
}
