//! Adding an index to a cache that already contains objects.

use std::sync::Arc;

use informer_core::{Report, cache::IndexError};

use super::entry::{Key, SharedObject};
use super::index::{Index, IndexFn};
use super::shared::Inner;

/// The number of objects that are indexed before the lock and the thread are released.
const PIECE: usize = 256;

/// An index under construction.
pub(crate) struct Building<V> {
    inner: Arc<Inner<V>>,
    index: Index<V>,
}

impl<V> Building<V> {
    /// Begins to build an index. From then on, the driver computes the values of arriving objects.
    pub(crate) fn begin(
        inner: &Arc<Inner<V>>,
        name: &str,
        function: IndexFn<V>,
    ) -> Result<Self, IndexError> {
        let mut cache = inner.cache_mut();
        let index = Index {
            number: cache.begin_index(name)?,
            name: name.to_owned(),
            function,
        };
        let replaced = inner.set_indexes(inner.indexes().with(index.clone()));
        drop(cache);
        // It may hold the last reference to a user-defined function.
        drop(replaced);
        Ok(Self {
            inner: Arc::clone(inner),
            index,
        })
    }

    /// Indexes the existing objects.
    pub(crate) async fn run(self) {
        while self.index_piece() {
            tokio::task::yield_now().await;
        }
        self.inner.cache_mut().finish_index(self.index.number);
    }

    /// Indexes the next objects. Returns whether there were any. The index function runs outside of the lock.
    fn index_piece(&self) -> bool {
        let Self { inner, index } = self;
        let mut piece: Vec<(Key, SharedObject<V>)> = Vec::new();
        let found = inner
            .cache_mut()
            .next_unindexed(index.number, PIECE, |key, object| {
                piece.push((key.clone(), object.clone()));
            });
        let values: Vec<Vec<String>> = piece
            .iter()
            .map(|(key, object)| {
                let mut values = Vec::new();
                let report = &mut |report: Report<'_>| inner.report(&report);
                index.values(
                    key.as_str(),
                    object.value(),
                    &mut |value| values.push(value.to_owned()),
                    report,
                );
                values
            })
            .collect();
        let mut cache = inner.cache_mut();
        for ((key, object), values) in piece.iter().zip(&values) {
            // If the object has been replaced in the meantime, the driver has indexed the new one.
            let values = values.iter().map(String::as_str);
            cache.add_values(key.as_str(), index.number, values, |other| object.is(other));
        }
        drop(cache);
        // This may be the last reference to an object, and dropping it can run user code.
        drop(piece);
        found
    }
}
