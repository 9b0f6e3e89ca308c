//! Conditions on changes.

use core::fmt;
use core::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use informer_core::{Form, json};

use crate::cache::entry::Entry;
use crate::cache::hashes::Hashes;

/// A condition on a change, which compares the old and the new state of an object.
///
/// [`IntoInformer::when`](super::IntoInformer::when) restricts a controller to changes for which it holds. Additions, deletions and resyncs are not
/// restricted. Predicates are combined by `&`, `|` and `!`.
///
/// Metadata is compared in every form, also in one that does not store it: the informer keeps hashes beside each object
/// that it decodes from the time on at which its controller is built, which take some 50 bytes of memory. They are of the
/// metadata as received, before a `Prune`.
///
/// What is not known is neither true nor false, and counts as a change unless the rest of the condition decides. That
/// applies to the generation of a resource without one, and to the metadata of an object that was decoded before the
/// controller was built or restored from a journal, in a form that does not store it.
///
/// ```
/// use informer_tokio::{Informer, Raw};
/// use informer_tokio::controller::{Controller, IntoInformer, Predicate};
/// # fn example(sets: Informer<Raw>, pods: Informer<Raw>) {
/// let spec = Predicate::generation() | Predicate::annotations();
/// let phase = Predicate::<Raw>::new(|old, new| old.at(&["status", "phase"]) != new.at(&["status", "phase"]));
/// let controller = Controller::new(sets.when(spec)).owns(pods.when(phase));
/// # }
/// ```
pub struct Predicate<F: Form> {
    condition: Arc<Condition<F>>,
    /// Whether it compares metadata.
    metadata: bool,
}

/// Returns `None` if it is not known.
type Condition<F> = dyn Fn(&Entry<F>, &Entry<F>) -> Option<bool> + Send + Sync;

impl<F: Form<Stored: 'static>> Predicate<F> {
    /// Creates a predicate from a function of the old and the new state.
    pub fn new(holds: impl Fn(&Entry<F>, &Entry<F>) -> bool + Send + Sync + 'static) -> Self {
        Self::of(false, move |old, new| Some(holds(old, new)))
    }

    /// Holds if `metadata.generation` differs. The server increments it with each change of the desired state, and when
    /// an object with finalizers is deleted. A resource without a generation, such as ConfigMaps, Secrets, Services and
    /// Nodes, has nothing to compare, so every change counts.
    #[must_use]
    pub fn generation() -> Self {
        Self::of(true, |old, new| {
            let [old, new] = match (old.hashes(), new.hashes()) {
                (Some(old), Some(new)) => [old.generation, new.generation],
                _ => [old, new].map(|entry| {
                    let json = part(entry, "generation")?;
                    core::str::from_utf8(&json).ok()?.parse().ok()
                }),
            };
            Some(old? != new?)
        })
    }

    /// Holds if a label differs.
    #[must_use]
    pub fn labels() -> Self {
        Self::of_hash("labels", |hashes| hashes.labels)
    }

    /// Holds if an annotation differs.
    #[must_use]
    pub fn annotations() -> Self {
        Self::of_hash("annotations", |hashes| hashes.annotations)
    }

    /// Holds if the finalizers differ, or their order.
    #[must_use]
    pub fn finalizers() -> Self {
        Self::of_hash("finalizers", |hashes| hashes.finalizers)
    }

    /// Holds if the resourceVersion differs.
    #[must_use]
    pub fn resource_version() -> Self {
        Self::new(|old, new| old.resource_version() != new.resource_version())
    }

    /// Returns whether a change from `old` to `new` counts.
    pub(super) fn counts(&self, old: &Entry<F>, new: &Entry<F>) -> bool {
        (self.condition)(old, new).unwrap_or(true)
    }

    /// Returns whether it compares metadata.
    pub(super) const fn reads_metadata(&self) -> bool {
        self.metadata
    }

    fn of(
        metadata: bool,
        condition: impl Fn(&Entry<F>, &Entry<F>) -> Option<bool> + Send + Sync + 'static,
    ) -> Self {
        Self {
            condition: Arc::new(condition),
            metadata,
        }
    }

    fn of_hash(field: &'static str, hash: fn(&Hashes) -> u64) -> Self {
        Self::of(true, move |old, new| {
            Some(match (old.hashes(), new.hashes()) {
                (Some(old), Some(new)) => hash(old) != hash(new),
                _ => part(old, field)? != part(new, field)?,
            })
        })
    }
}

/// Returns the JSON of a field of the metadata, which is empty if it is absent. `None` if the form does not store it.
fn part<F: Form<Stored: 'static>>(entry: &Entry<F>, field: &str) -> Option<Vec<u8>> {
    let mut found = None;
    F::with_metadata(entry.value(), &mut |metadata| {
        let value = json::value_at(metadata, &[field]);
        found = Some(value.unwrap_or_default().to_vec());
    });
    found
}

/// Holds if both do.
impl<F: Form<Stored: 'static>> BitAnd for Predicate<F> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        let metadata = self.metadata || other.metadata;
        Self::of(metadata, move |old, new| match (self.condition)(old, new) {
            Some(false) => Some(false),
            Some(true) => (other.condition)(old, new),
            None => (other.condition)(old, new).filter(|holds| !holds),
        })
    }
}

/// Holds if one of them does.
impl<F: Form<Stored: 'static>> BitOr for Predicate<F> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        !(!self & !other)
    }
}

/// Holds if this one does not.
impl<F: Form<Stored: 'static>> Not for Predicate<F> {
    type Output = Self;

    fn not(self) -> Self {
        Self::of(self.metadata, move |old, new| {
            (self.condition)(old, new).map(bool::not)
        })
    }
}

impl<F: Form> Clone for Predicate<F> {
    fn clone(&self) -> Self {
        Self {
            condition: Arc::clone(&self.condition),
            metadata: self.metadata,
        }
    }
}

impl<F: Form> fmt::Debug for Predicate<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").finish_non_exhaustive()
    }
}
