//! Label selectors, with the grammar and semantics of the API server and client-go.

#[cfg(feature = "alloc")]
mod error;
#[cfg(feature = "alloc")]
mod fields;
#[cfg(feature = "alloc")]
mod label;
#[cfg(feature = "alloc")]
mod parse;
#[cfg(all(test, feature = "alloc"))]
mod tests;

#[cfg(feature = "alloc")]
pub use error::SelectorError;
#[cfg(feature = "alloc")]
pub use fields::{FieldSelector, FieldSelectorError};
#[cfg(feature = "alloc")]
pub use label::LabelSelector;

#[cfg(feature = "alloc")]
use alloc::collections::BTreeMap;
#[cfg(feature = "alloc")]
use core::borrow::Borrow;

/// A set of labels that a selector can look up.
///
/// The value is passed to a closure rather than returned. An implementation can therefore read labels in place, for
/// example in JSON, and unescape them in a buffer on the stack.
///
/// # Examples
///
/// ```
/// use informer_core::selector::{LabelSelector, Labels};
///
/// struct Tier(&'static str);
///
/// impl Labels for Tier {
///     fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
///         f((key == "tier").then_some(self.0));
///     }
/// }
///
/// assert!(LabelSelector::parse("tier in (web, db)")?.matches(&Tier("db")));
/// # Ok::<(), informer_core::selector::SelectorError>(())
/// ```
pub trait Labels {
    /// Calls `f` once with the value of `key`, or with `None` if there is no such label.
    ///
    /// An implementation that does not call `f` reports the label as absent.
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>));
}

impl<T: Labels + ?Sized> Labels for &T {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        (**self).label(key, f);
    }
}

/// Uses the first pair with the key.
impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        f(self
            .iter()
            .find(|(name, _)| name.as_ref() == key)
            .map(|(_, value)| value.as_ref()));
    }
}

/// Uses the first pair with the key.
impl<K: AsRef<str>, V: AsRef<str>, const N: usize> Labels for [(K, V); N] {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        self.as_slice().label(key, f);
    }
}

#[cfg(feature = "alloc")]
impl<K: Borrow<str> + Ord, V: AsRef<str>> Labels for BTreeMap<K, V> {
    fn label(&self, key: &str, f: &mut dyn FnMut(Option<&str>)) {
        f(self.get(key).map(AsRef::as_ref));
    }
}
