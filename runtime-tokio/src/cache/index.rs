//! Index functions. They run before the cache is locked, so a function that panics or is slow affects nothing else.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use informer_core::{
    Report,
    report::{Phase, Problem},
};

/// Computes an object's values in an index.
pub(crate) type IndexFn<V> = Arc<dyn Fn(&V, &mut dyn FnMut(&str)) + Send + Sync>;

/// The indexes of one cache, in the order of their numbers.
pub(crate) struct Indexes<V>(Vec<Index<V>>);

pub(crate) struct Index<V> {
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(crate) function: IndexFn<V>,
}

impl<V> Clone for Index<V> {
    fn clone(&self) -> Self {
        Self {
            number: self.number,
            name: self.name.clone(),
            function: Arc::clone(&self.function),
        }
    }
}

impl<V> Default for Indexes<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Indexes<V> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the same indexes and another one.
    pub(crate) fn with(&self, index: Index<V>) -> Self {
        Self(self.0.iter().cloned().chain([index]).collect())
    }

    /// Computes the values of an object in the indexes from the number `from` on.
    pub(crate) fn values(
        &self,
        from: usize,
        key: &str,
        value: &V,
        values: &mut Vec<(u16, Box<str>)>,
        report: &mut dyn FnMut(Report<'_>),
    ) {
        for index in self.0.iter().skip(from) {
            index.values(
                key,
                value,
                &mut |text| values.push((index.number, text.into())),
                report,
            );
        }
    }
}

impl<V> Index<V> {
    pub(crate) fn values(
        &self,
        key: &str,
        value: &V,
        emit: &mut dyn FnMut(&str),
        report: &mut dyn FnMut(Report<'_>),
    ) {
        // A partial result of a panic is discarded; the value itself is only read.
        if catch_unwind(AssertUnwindSafe(|| (self.function)(value, emit))).is_err() {
            report(Report::about(
                Phase::Cache,
                Problem::IndexPanicked {
                    key,
                    index: &self.name,
                },
            ));
        }
    }
}
