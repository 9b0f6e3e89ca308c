//! An index finds exactly the objects that have a value, and lists exactly the values that objects have. The same
//! holds for an index added while objects were stored and queued.
//!
//! Source: client-go's `ThreadSafeStore`, `updateSingleIndex`, `ListIndexFuncValues`.

use super::super::engine::{LABELS, LATE};
use super::super::plan::KEYS;
use super::{Context, Invariant, Verdict};

pub(super) struct Index;

impl Invariant for Index {
    fn step(&mut self, context: &Context<'_>) -> Verdict {
        let engine = &context.client.engine;
        let cached = || {
            (0_u8..)
                .zip(context.snapshot)
                .filter_map(|(slot, cached)| Some((slot, (*cached)?)))
        };
        if engine.cache().len() != cached().count() {
            return Err(format!(
                "the cache counts {} objects, and has {}",
                engine.cache().len(),
                cached().count()
            ));
        }
        let late = engine.has_late_index().then_some(LATE);
        for index in ["app"].into_iter().chain(late) {
            for (number, label) in LABELS.iter().enumerate().take(2) {
                let with = cached().filter(|(_, cached)| usize::from(cached.state.label) == number);
                let right = with.fold(0, |bits, (slot, _)| bits | 1 << slot);
                let found = engine.cache().indexed(index, label);
                if found != right {
                    return Err(format!(
                        "{index}={label}: the index has {found:b}, the cache {right:b}"
                    ));
                }
            }
        }
        let right = cached().fold(0, |bits, (_, cached)| bits | 1 << cached.state.label);
        let named = engine.cache().labels();
        if named != right {
            return Err(format!(
                "the index names the labels {named:b}, the cache has {right:b}"
            ));
        }
        for namespace in ["a", "b"] {
            let with = cached().filter(|(slot, _)| KEYS[usize::from(*slot)].0 == namespace);
            let right = with.fold(0, |bits, (slot, _)| bits | 1 << slot);
            let found = engine.cache().indexed("namespace", namespace);
            if found != right {
                return Err(format!(
                    "namespace {namespace}: the index has {found:b}, the cache {right:b}"
                ));
            }
        }
        Ok(())
    }
}
