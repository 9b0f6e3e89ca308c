//! Conditions on changes.

use core::fmt;
use core::ops::{BitAnd, BitOr, Not};
use std::sync::Arc;

use informer_core::{Form, json};

use super::owned::Owner;
use super::provided::{IntoInformer, IntoOwned, Provided};
use crate::cache::entry::Entry;

/// A condition on a change, which compares the old and the new state of an object.
///
/// [`IntoInformer::when`] restricts a controller to changes for which it holds. Additions, deletions and resyncs are not
/// restricted. Predicates are combined by `&`, `|` and `!`.
///
/// The state is read from the stored metadata. If the form does not store it, as a struct that lacks the field, every
/// change counts.
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
pub struct Predicate<F: Form>(Arc<Condition<F>>);

type Condition<F> = dyn Fn(&Entry<F>, &Entry<F>) -> bool + Send + Sync;

impl<F: Form<Stored: 'static>> Predicate<F> {
    /// Creates a predicate from a function of the old and the new state.
    pub fn new(holds: impl Fn(&Entry<F>, &Entry<F>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Holds if `metadata.generation` differs. The server increments it with each change of the desired state, if the
    /// resource has one.
    #[must_use]
    pub fn generation() -> Self {
        Self::of("generation")
    }

    /// Holds if a label differs.
    #[must_use]
    pub fn labels() -> Self {
        Self::of("labels")
    }

    /// Holds if an annotation differs.
    #[must_use]
    pub fn annotations() -> Self {
        Self::of("annotations")
    }

    /// Holds if the finalizers differ, or their order.
    #[must_use]
    pub fn finalizers() -> Self {
        Self::of("finalizers")
    }

    /// Holds if the resourceVersion differs.
    #[must_use]
    pub fn resource_version() -> Self {
        Self::new(|old, new| old.resource_version() != new.resource_version())
    }

    /// Returns whether it holds for a change from `old` to `new`.
    pub(super) fn holds(&self, old: &Entry<F>, new: &Entry<F>) -> bool {
        (self.0)(old, new)
    }

    fn of(field: &'static str) -> Self {
        Self::new(move |old, new| match (part(old, field), part(new, field)) {
            (Some(old), Some(new)) => old != new,
            // The form does not store it.
            _ => true,
        })
    }
}

/// Returns the JSON of a field of the metadata, which is empty if it is absent. `None` if the form does not store it.
fn part<F: Form<Stored: 'static>>(entry: &Entry<F>, field: &str) -> Option<Vec<u8>> {
    let mut found = None;
    F::with_metadata(entry.value(), &mut |metadata| {
        found = Some(
            json::value_at(metadata, &[field])
                .unwrap_or_default()
                .to_vec(),
        );
    });
    if found.is_none() && field == "labels" {
        F::with_labels(entry.value(), &mut |labels| found = Some(labels.to_vec()));
    }
    found
}

/// Holds if both do.
impl<F: Form<Stored: 'static>> BitAnd for Predicate<F> {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self::new(move |old, new| self.holds(old, new) && other.holds(old, new))
    }
}

/// Holds if one of them does.
impl<F: Form<Stored: 'static>> BitOr for Predicate<F> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self::new(move |old, new| self.holds(old, new) || other.holds(old, new))
    }
}

/// Holds if this one does not.
impl<F: Form<Stored: 'static>> Not for Predicate<F> {
    type Output = Self;

    fn not(self) -> Self {
        Self::new(move |old, new| !self.holds(old, new))
    }
}

impl<F: Form> Clone for Predicate<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: Form> fmt::Debug for Predicate<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").finish_non_exhaustive()
    }
}

/// An informer of whose changes only those are used for which a predicate holds; see [`IntoInformer::when`].
#[derive(Debug)]
pub struct When<I: IntoInformer> {
    pub(super) informer: I,
    pub(super) predicate: Predicate<I::Form>,
}

impl<I: IntoInformer> IntoInformer for When<I> {
    type Form = I::Form;

    fn into_informer(self) -> Provided<I::Form> {
        let mut provided = self.informer.into_informer();
        provided.when = Some(match provided.when {
            Some(other) => other & self.predicate,
            None => self.predicate,
        });
        provided
    }
}

impl<I: IntoOwned> IntoOwned for When<I> {
    fn owner(entry: &Entry<I::Form>) -> Option<Owner> {
        I::owner(entry)
    }
}
