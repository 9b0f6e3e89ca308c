//! Compares the DeltaFIFO and the Indexer with a model of client-go's implementation, and `Inline` with `Heap`.

use core::fmt::{self, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use informer_core::{
    Heap, Inline, Storage,
    cache::{DeltaFifo, Indexer, KnownObjects},
    object::KeyError,
    storage::{Delta, DeltaKind, Tombstone},
};

use crate::entropy::Entropy;

/// Fits all keys at once.
type Small = Inline<8, 16, 64>;

/// Runs operations on queues with their stores, on the model, and on fixed storage.
///
/// # Panics
/// If the results differ.
pub fn queues(data: &[u8]) {
    let entropy = &mut Entropy::Bytes(data);
    run(entropy.below(4), entropy, 400);
}

/// Each number selects a storage and a mode.
fn run(number: u32, entropy: &mut Entropy<'_>, steps: u32) {
    match number {
        0 => agrees_with_the_model::<Heap>(DeltaFifo::new(Obj::write_key), false, entropy, steps),
        1 => agrees_with_the_model::<Heap>(DeltaFifo::merged(Obj::write_key), true, entropy, steps),
        2 => {
            agrees_with_the_model::<Small>(DeltaFifo::merged(Obj::write_key), true, entropy, steps);
        }
        _ => heap_and_inline_agree(entropy, steps),
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Obj {
    key: String,
    rv: u32,
}

impl Obj {
    fn write_key(&self, out: &mut dyn Write) -> fmt::Result {
        if self.key.is_empty() {
            return Err(fmt::Error);
        }
        out.write_str(&self.key)
    }
}

fn obj(key: &str, rv: u32) -> Obj {
    let key = key.to_owned();
    Obj { key, rv }
}

/// A delta, as it was when it was queued.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Notified {
    kind: DeltaKind,
    object: Option<Obj>,
    tombstone: bool,
}

impl Notified {
    fn new(kind: DeltaKind, object: &Obj) -> Self {
        Self {
            kind,
            object: Some(object.clone()),
            tombstone: false,
        }
    }

    fn tombstone(object: Option<Obj>) -> Self {
        Self {
            kind: DeltaKind::Deleted,
            object,
            tombstone: true,
        }
    }
}

/// The queue as client-go implements it, with a copy of every object, and the consumer's store.
struct Model {
    is_merged: bool,
    emit_replaced: bool,
    /// The queue has access to the store.
    sees_store: bool,
    items: BTreeMap<String, Vec<Notified>>,
    queue: VecDeque<String>,
    populated: bool,
    /// The keys of the initial population that are not popped yet.
    initial: BTreeSet<String>,
    store: BTreeMap<String, Obj>,
}

impl Model {
    fn has_synced(&self) -> bool {
        self.populated && self.initial.is_empty()
    }

    fn is_stored(&self, key: &str) -> bool {
        !self.sees_store || self.store.contains_key(key)
    }

    fn enqueue(&mut self, key: &str, notified: Notified) {
        let stored = self.is_stored(key);
        let list = self.items.entry(key.to_string()).or_default();
        if list.is_empty() {
            self.queue.push_back(key.to_string());
        }
        let gathered = if self.is_merged {
            Self::merge(core::mem::take(list), notified, stored)
        } else {
            Self::gather(core::mem::take(list), notified)
        };
        *list = gathered;
        if list.is_empty() {
            self.items.remove(key);
            self.queue.retain(|queued| queued != key);
            self.initial.remove(key);
        }
    }

    fn gather(mut list: Vec<Notified>, notified: Notified) -> Vec<Notified> {
        list.push(notified);
        if let [.., older, newer] = list.as_slice()
            && older.kind == DeltaKind::Deleted
            && newer.kind == DeltaKind::Deleted
        {
            let newer = list.pop().expect("two deltas");
            if list.last().expect("two deltas").tombstone {
                list.pop();
                list.push(newer);
            }
        }
        list
    }

    /// Merges a delta into a list, which becomes a deletion, a change, or a deletion followed by a change.
    fn merge(list: Vec<Notified>, notified: Notified, stored: bool) -> Vec<Notified> {
        let (deletions, changes): (Vec<Notified>, Vec<Notified>) = list
            .into_iter()
            .partition(|notified| notified.kind == DeltaKind::Deleted);
        let (deletion, change) = (deletions.into_iter().next(), changes.into_iter().next());
        let (deletion, change) = match (deletion, change, notified.kind == DeltaKind::Deleted) {
            (deletion, Some(change), false) if change.kind == DeltaKind::Added => {
                let kind = DeltaKind::Added;
                (deletion, Some(Notified { kind, ..notified }))
            }
            (deletion, _, false) => (deletion, Some(notified)),
            (Some(deletion), Some(_), true) => (Some(deletion), None),
            (Some(older), None, true) if !older.tombstone => (Some(older), None),
            (_, None, true) => (Some(notified), None),
            (None, Some(_), true) => (Some(notified).filter(|_| stored), None),
        };
        deletion.into_iter().chain(change).collect()
    }

    fn delete(&mut self, key: &str, notified: Notified) {
        self.populated = true;
        let known = self.sees_store && self.store.contains_key(key);
        if known || self.items.contains_key(key) {
            self.enqueue(key, notified);
        }
    }

    /// Returns the keys that were queued in unspecified order.
    fn replace(&mut self, items: &[Obj]) -> BTreeSet<String> {
        let kind = if self.emit_replaced {
            DeltaKind::Replaced
        } else {
            DeltaKind::Sync
        };
        for item in items {
            if item.key.is_empty() {
                return BTreeSet::new();
            }
            self.enqueue(&item.key, Notified::new(kind, item));
        }
        let listed: BTreeSet<&str> = items.iter().map(|item| item.key.as_str()).collect();
        let queued: Vec<String> = self.items.keys().cloned().collect();
        for key in queued.iter().filter(|key| !listed.contains(key.as_str())) {
            let last = self.items[key].last().expect("a delta").object.clone();
            self.enqueue(key, Notified::tombstone(last));
        }
        let mut unordered = BTreeSet::new();
        if self.sees_store {
            for (key, object) in self.store.clone() {
                if !listed.contains(key.as_str()) && !self.items.contains_key(&key) {
                    self.enqueue(&key, Notified::tombstone(Some(object)));
                    unordered.insert(key);
                }
            }
        }
        if !self.populated {
            self.populated = true;
            self.initial = self.items.keys().cloned().collect();
        }
        unordered
    }

    /// Returns the keys that were queued in unspecified order.
    fn resync(&mut self) -> BTreeSet<String> {
        let mut unordered = BTreeSet::new();
        for (key, object) in self.store.clone() {
            if !self.items.contains_key(&key) {
                self.enqueue(&key, Notified::new(DeltaKind::Sync, &object));
                unordered.insert(key);
            }
        }
        unordered
    }

    fn pop(&mut self) -> Option<(String, Vec<Notified>, bool)> {
        let key = self.queue.pop_front()?;
        let initial = !self.has_synced();
        self.initial.remove(&key);
        let list = self.items.remove(&key)?;
        for notified in &list {
            match &notified.object {
                Some(object) if notified.kind != DeltaKind::Deleted => {
                    self.store.insert(key.clone(), object.clone());
                }
                _ => drop(self.store.remove(&key)),
            }
        }
        Some((key, list, initial))
    }

    /// Adopts the actual order of keys that were queued in unspecified order.
    fn adopt(&mut self, unordered: &BTreeSet<String>, order: &[String]) {
        let head = self.queue.len() - unordered.len();
        let (same, tail) = order.split_at(head);
        assert!(self.queue.iter().take(head).eq(same));
        assert_eq!(tail.iter().cloned().collect::<BTreeSet<_>>(), *unordered);
        self.queue = order.iter().cloned().collect();
    }
}

/// Returns one of a few objects, sometimes one without a key.
fn object(entropy: &mut Entropy<'_>) -> Obj {
    let keys = ["a", "b", "ns/a", "ns/b", "ns/c", "other/a", "other/d"];
    match entropy.below(40) {
        0 => obj("", 0),
        n => obj(keys[n as usize % keys.len()], entropy.below(1_000_000)),
    }
}

/// An operation on a queue and its consumer.
#[derive(Clone, Debug)]
enum Op {
    Add(Obj),
    Update(Obj),
    Delete(Obj),
    Gone(Obj, bool),
    Replace(Vec<Obj>),
    Resync,
    Pop,
    Drain,
}

impl Op {
    fn any(entropy: &mut Entropy<'_>) -> Self {
        match entropy.below(40) {
            0..=8 => Self::Add(object(entropy)),
            9..=15 => Self::Update(object(entropy)),
            16..=22 => Self::Delete(object(entropy)),
            23..=26 => Self::Gone(object(entropy), entropy.below(3) > 0),
            27..=29 => Self::Replace((0..entropy.below(8)).map(|_| object(entropy)).collect()),
            30..=31 => Self::Resync,
            32..=37 => Self::Pop,
            _ => Self::Drain,
        }
    }
}

/// A queue and its consumer's store.
struct Real<S: Storage> {
    fifo: DeltaFifo<Obj, S>,
    store: Indexer<Obj, S>,
    sees_store: bool,
}

/// A key, its deltas, and whether they belong to the initial list.
type Pops = Vec<(String, Vec<Notified>, bool)>;

impl<S: Storage> Real<S> {
    fn new(mut fifo: DeltaFifo<Obj, S>, emit_replaced: bool, sees_store: bool) -> Self {
        fifo.set_emit_replaced(emit_replaced);
        Self {
            fifo,
            store: Indexer::new(Obj::write_key),
            sees_store,
        }
    }

    fn run(&mut self, op: Op) -> (Result<(), KeyError>, Pops) {
        let known = self.sees_store.then_some(&self.store as &dyn KnownObjects);
        let mut pops = Vec::new();
        let done = match op {
            Op::Add(object) => self.fifo.add(object),
            Op::Update(object) => self.fifo.update(object),
            Op::Delete(object) => self.fifo.delete(object, known),
            Op::Gone(object, has_last) => {
                let key = object.key.clone();
                let last = has_last.then_some(object);
                self.fifo
                    .delete_tombstone(Tombstone { key: &key, last }, known)
            }
            Op::Replace(objects) => self.fifo.replace(objects, known),
            Op::Resync => known.map_or(Ok(()), |known| self.fifo.resync(known)),
            Op::Pop => {
                pops.extend(self.pop());
                Ok(())
            }
            Op::Drain => {
                while let Some(popped) = self.pop() {
                    pops.push(popped);
                }
                Ok(())
            }
        };
        (done, pops)
    }

    /// Returns the pending deltas of a key, with the objects they refer to.
    fn notified(&self, key: &str, deltas: &[Delta<Obj>]) -> Vec<Notified> {
        let mut stored = self.store.get(key).cloned();
        let tell = |delta: &Delta<Obj>| {
            let object = delta.object(stored.as_ref()).cloned();
            stored = object.clone().filter(|_| delta.kind != DeltaKind::Deleted);
            Notified {
                kind: delta.kind,
                object,
                tombstone: delta.is_tombstone(),
            }
        };
        deltas.iter().map(tell).collect()
    }

    fn pop(&mut self) -> Option<(String, Vec<Notified>, bool)> {
        let popped = self.fifo.pop().ok()?;
        let key = popped.deltas.key().as_ref().to_string();
        let notified = self.notified(&key, popped.deltas.as_slice());
        self.store.apply(popped.deltas).expect("there is room");
        Some((key, notified, popped.is_in_initial_list))
    }

    fn queued(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.fifo.for_each_queued(|key| keys.push(key.to_string()));
        keys
    }

    fn stored(&self) -> BTreeMap<String, Obj> {
        let pair = |object: &Obj| (object.key.clone(), object.clone());
        let stored: BTreeMap<String, Obj> = self.store.list().map(pair).collect();
        for namespace in ["", "ns", "other"] {
            let of = |key: &str| key.split_once('/').map_or("", |(of, _)| of) == namespace;
            let found = self.store.by_index("namespace", namespace);
            let found = found.map(|found| found.map(|object| object.key.clone()).collect());
            let right = stored.keys().filter(|key| of(key)).cloned().collect();
            assert_eq!(found, Ok::<BTreeSet<String>, _>(right), "{namespace}");
        }
        stored
    }
}

/// Runs operations on a queue and its store, and on the model, until the choices or the steps end.
fn agrees_with_the_model<S: Storage>(
    fifo: DeltaFifo<Obj, S>,
    is_merged: bool,
    entropy: &mut Entropy<'_>,
    steps: u32,
) {
    let (emit_replaced, sees_store) = (entropy.below(2) == 0, entropy.below(2) == 0);
    let mut real = Real::new(fifo, emit_replaced, sees_store);
    let mut model = Model {
        is_merged,
        emit_replaced,
        sees_store,
        items: BTreeMap::new(),
        queue: VecDeque::new(),
        populated: false,
        initial: BTreeSet::new(),
        store: BTreeMap::new(),
    };
    for step in 0..steps {
        if entropy.is_spent() {
            break;
        }
        let op = Op::any(entropy);
        let at = format!("step {step}: {op:?}");
        let (done, pops) = real.run(op.clone());
        let mut unordered = BTreeSet::new();
        let mut expected = Ok(());
        let mut expected_pops = Vec::new();
        let keyless = || Err(KeyError::NoKey);
        match op {
            Op::Add(object) | Op::Update(object) if object.key.is_empty() => {
                model.populated = true;
                expected = keyless();
            }
            Op::Delete(object) if object.key.is_empty() => expected = keyless(),
            Op::Add(object) => {
                model.populated = true;
                model.enqueue(&object.key, Notified::new(DeltaKind::Added, &object));
            }
            Op::Update(object) => {
                model.populated = true;
                model.enqueue(&object.key, Notified::new(DeltaKind::Updated, &object));
            }
            Op::Delete(object) => {
                model.delete(&object.key, Notified::new(DeltaKind::Deleted, &object));
            }
            Op::Gone(object, has_last) => {
                let last = Some(object.clone()).filter(|_| has_last);
                model.delete(&object.key, Notified::tombstone(last));
            }
            Op::Replace(objects) => {
                unordered = model.replace(&objects);
                if objects.iter().any(|object| object.key.is_empty()) {
                    expected = keyless();
                }
            }
            Op::Resync if sees_store => unordered = model.resync(),
            Op::Resync => {}
            Op::Pop => expected_pops.extend(model.pop()),
            Op::Drain => {
                while let Some(popped) = model.pop() {
                    expected_pops.push(popped);
                }
            }
        }
        assert_eq!(done, expected, "{at}");
        assert_eq!(pops, expected_pops, "{at}");
        let queued = real.queued();
        assert_eq!(queued.len(), model.queue.len(), "{at}: {queued:?}");
        model.adopt(&unordered, &queued);
        assert_eq!(real.fifo.len(), queued.len(), "{at}");
        assert_eq!(real.fifo.is_empty(), queued.is_empty(), "{at}");
        assert_eq!(real.fifo.has_synced(), model.has_synced(), "{at}");
        for key in &queued {
            let waiting = real.notified(key, real.fifo.pending(key));
            assert_eq!(waiting, model.items[key], "{at}: {key}");
        }
        assert_eq!(real.stored(), model.store, "{at}");
    }
}

/// Both storages yield the same deltas for every key while there is room. A resync and the deletions of a list visit
/// the store's keys in unspecified order, so everything is popped at once and compared by key.
fn heap_and_inline_agree(entropy: &mut Entropy<'_>, steps: u32) {
    let emit_replaced = entropy.below(2) == 0;
    let mut heap = Real::<Heap>::new(DeltaFifo::merged(Obj::write_key), emit_replaced, true);
    let mut inline = Real::<Small>::new(DeltaFifo::merged(Obj::write_key), emit_replaced, true);
    for step in 0..steps {
        if entropy.is_spent() {
            break;
        }
        let mut op = Op::any(entropy);
        if matches!(op, Op::Pop) {
            op = Op::Drain;
        }
        let at = format!("step {step}: {op:?}");
        let (one, mut ones) = heap.run(op.clone());
        let (other, mut others) = inline.run(op);
        ones.sort_by(|a, b| a.0.cmp(&b.0));
        others.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!((one, ones), (other, others), "{at}");
        let sorted = |mut keys: Vec<String>| {
            keys.sort();
            keys
        };
        assert_eq!(sorted(heap.queued()), sorted(inline.queued()), "{at}");
        assert_eq!(heap.fifo.has_synced(), inline.fifo.has_synced(), "{at}");
        assert_eq!(heap.stored(), inline.stored(), "{at}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_operations_agree_with_the_model_on_every_storage() {
        for seed in 0..800 {
            for number in 0..4 {
                run(number, &mut Entropy::of(seed), 60);
            }
        }
    }
}
