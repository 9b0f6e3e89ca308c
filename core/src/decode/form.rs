//! Forms, in which a cache stores objects.

#[cfg(feature = "alloc")]
use core::fmt;
#[cfg(feature = "alloc")]
use core::marker::PhantomData;

#[cfg(feature = "alloc")]
use crate::json::Prune;
use crate::json::value_at;
#[cfg(feature = "protobuf")]
use crate::wire::protobuf::Message;

/// A form in which objects are stored: `Json<T>`, `Raw`, `Meta`, or a custom type.
///
/// It is the parameter of informers, listers, entries and handlers. A type that serde can deserialize represents its
/// `Json` form, so programs write `Informer<Pod>`. Selectors and index functions read the stored object through its
/// form. A custom type, which a custom [`Decode`](super::Decode) creates, is its own form:
///
/// ```
/// use informer_core::decode::Form;
///
/// struct Replicas(u32);
/// impl Form for Replicas {
///     type Stored = Self;
///     type Decoder = ();
/// }
/// ```
pub trait Form: 'static {
    /// The stored object: the form itself, or `Json<T>` for a type that serde can deserialize.
    type Stored;
    /// The default decoder; `()` if a decoder must always be named.
    type Decoder;

    /// Returns the JSON of the object's labels, if the form stores them.
    #[must_use]
    fn labels_json(stored: &Self::Stored) -> Option<&[u8]> {
        let _ = stored;
        None
    }

    /// Returns the JSON of the object, if the form stores it uncompressed.
    #[must_use]
    fn json(stored: &Self::Stored) -> Option<&[u8]> {
        let _ = stored;
        None
    }

    /// Calls `read` with the JSON of the object's labels, decompressed if necessary. It is not called if the form does
    /// not store them.
    fn with_labels(stored: &Self::Stored, read: &mut dyn FnMut(&[u8])) {
        Self::labels_json(stored).into_iter().for_each(read);
    }

    /// Calls `read` with the JSON of the object's metadata, decompressed or converted if necessary. It is not called if
    /// the form does not store it.
    fn with_metadata(stored: &Self::Stored, read: &mut dyn FnMut(&[u8])) {
        Self::with_json(stored, &mut |whole| {
            value_at(whole, &["metadata"])
                .into_iter()
                .for_each(&mut *read);
        });
    }

    /// Calls `read` with the object's message, decompressed if necessary. It is not called if the object is not stored
    /// in protobuf.
    #[cfg(feature = "protobuf")]
    fn with_message(stored: &Self::Stored, read: &mut dyn FnMut(Message<'_>)) {
        let _ = (stored, read);
    }

    /// Calls `read` with the JSON of the object, decompressed if necessary. It is not called if the form does not store
    /// it.
    fn with_json(stored: &Self::Stored, read: &mut dyn FnMut(&[u8])) {
        Self::json(stored).into_iter().for_each(read);
    }
}

/// Decodes objects into one of the forms `Raw`, `Meta`, `Json<T>` and `Proto<T>`.
///
/// ```
/// use informer_core::{Decode, Decoder, Raw, RawObject};
///
/// let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"n1"}}"#;
/// let pod = Decoder::<Raw>::new().decode(&RawObject::parse(json)).unwrap();
/// assert_eq!(pod.at(&["spec", "nodeName"]), Some(&br#""n1""#[..]));
/// ```
#[cfg(feature = "alloc")]
pub struct Decoder<F> {
    pub(super) keep_labels: bool,
    #[cfg(feature = "protobuf")]
    pub(super) protobuf: bool,
    pub(super) prune: Prune,
    pub(super) form: PhantomData<fn() -> F>,
}

#[cfg(feature = "alloc")]
impl<F> Decoder<F> {
    /// Creates a decoder that stores everything in the form.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            keep_labels: true,
            #[cfg(feature = "protobuf")]
            protobuf: false,
            prune: Prune::NOTHING,
            form: PhantomData,
        }
    }

    /// Disables storing labels beside a typed object. This saves memory, but the cache can no longer select by labels.
    /// `Raw` and `Meta` contain the labels in any case.
    #[must_use]
    pub const fn without_labels(self) -> Self {
        Self {
            keep_labels: false,
            ..self
        }
    }

    /// Sets the parts of each object to skip while parsing, such as [`Prune::NOISE`]. Skipped parts are never
    /// allocated.
    ///
    /// ```
    /// use informer_core::{Decode, Decoder, Raw, RawObject, json::Prune};
    ///
    /// let json = br#"{"metadata":{"name":"web","managedFields":[{"manager":"kubelet"}]}}"#;
    /// let decoder = Decoder::<Raw>::new().prune(Prune::NOISE);
    /// let pod = decoder.decode(&RawObject::parse(json)).unwrap();
    /// assert_eq!(pod.bytes(), br#"{"metadata":{"name":"web"}}"#);
    /// ```
    #[must_use]
    pub const fn prune(self, prune: Prune) -> Self {
        Self { prune, ..self }
    }
}

#[cfg(feature = "alloc")]
impl<F> Default for Decoder<F> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "alloc")]
impl<F> Clone for Decoder<F> {
    fn clone(&self) -> Self {
        *self
    }
}

#[cfg(feature = "alloc")]
impl<F> Copy for Decoder<F> {}

#[cfg(feature = "alloc")]
impl<F> fmt::Debug for Decoder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("keep_labels", &self.keep_labels)
            .field("prune", &self.prune)
            .finish_non_exhaustive()
    }
}
