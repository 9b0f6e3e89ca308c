//! Objects decoded into a small closed type by serde-json-core, without an allocator.

mod closed;

use core::fmt;
use core::marker::PhantomData;

use serde::de::{DeserializeOwned, Expected, Unexpected};

use closed::read;

use super::{Decode, RawObject};

/// Decodes each object into a `T` without an allocator: a struct of the fields one needs, with numbers, booleans, texts of
/// a fixed size (such as heapless's), and more such structs.
///
/// serde-json-core reads numbers and booleans. What it trips over where it reads whole objects is done by the core:
///
/// | alone, serde-json-core 0.7 | here |
/// |---|---|
/// | hands texts back with their escapes, or wants a buffer | texts are unescaped |
/// | fails where a text with escapes is longer than the buffer, also where nobody wants the text: one `last-applied-configuration` is enough | what `T` does not want is skipped unread; what it wants has room for `S` bytes where there are escapes, and any length where there are none |
/// | fails where a surrogate pair is escaped | it is a character; half a pair is U+FFFD |
/// | skips what nobody wants by recursion, without a limit | no recursion; `T` itself may be 32 levels deep |
/// | has no `deserialize_any`: no value that is a number or a text | has it, for visitors of one's own; `#[serde(untagged)]` and `flatten` are still not to be had, since serde needs an allocator for them |
///
/// Its objects need no managedFields: an object that exceeds the frame limit only because of them is decoded with an empty
/// array in their place.
///
/// It takes `null` for a float that is not a number, too; here that is refused. A `T` borrows nothing, since the object's
/// bytes are gone when it is kept: a `&str` does not compile.
///
/// ```
/// use heapless::String;
/// use informer_core::{Decode, JsonCore, RawObject};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct Pod { spec: Spec, #[serde(default)] status: Status }
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: String<32>, priority: Option<i32> }
/// #[derive(Deserialize, Default)]
/// struct Status { #[serde(default)] phase: String<16> }
///
/// let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"n1","containers":[]},"status":{"phase":"Running"}}"#;
/// let pod = JsonCore::<Pod>::new().decode(&RawObject::parse(json))?;
/// assert_eq!((pod.spec.node_name.as_str(), pod.spec.priority, pod.status.phase.as_str()), ("n1", None, "Running"));
///
/// let error = JsonCore::<Pod>::new().decode(&RawObject::parse(br#"{"spec":{"nodeName":7}}"#)).err();
/// assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("nodeName: it is of another type"));
/// # Ok::<(), informer_core::decode::JsonCoreError>(())
/// ```
pub struct JsonCore<T, const S: usize = 64>(PhantomData<fn() -> T>);

impl<T, const S: usize> JsonCore<T, S> {
    /// Makes a decoder. Texts with escapes may have `S` bytes without them, which are on the stack while one is read.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: DeserializeOwned, const S: usize> Decode for JsonCore<T, S> {
    type Value = T;
    type Error = JsonCoreError;

    fn decode(&self, raw: &RawObject<'_>) -> Result<T, JsonCoreError> {
        read::<T, S>(raw.json())
    }

    fn skips_managed_fields(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> u64 {
        0x6a63_6f72
    }
}

impl<T, const S: usize> Default for JsonCore<T, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const S: usize> Clone for JsonCore<T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const S: usize> Copy for JsonCore<T, S> {}

impl<T, const S: usize> fmt::Debug for JsonCore<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonCore").finish_non_exhaustive()
    }
}

/// Why [`JsonCore`] has refused an object, and at which field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JsonCoreError {
    problem: JsonCoreProblem,
    field: Option<&'static str>,
}

/// What is wrong with an object for [`JsonCore`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum JsonCoreProblem {
    /// A field that has to be there is not.
    Missing(&'static str),
    /// A field is there twice.
    Twice(&'static str),
    /// A value is of another type: a text where a number is wanted, a fraction where an integer is.
    WrongType,
    /// A number does not fit into its type, or a value is none that the type has.
    WrongValue,
    /// A text or a list is longer than its place, or a list is shorter than a tuple.
    WrongLength,
    /// A text with escapes has more bytes without them than the decoder has room for.
    TextTooLong {
        /// The room in bytes: `S` of the decoder.
        room: usize,
    },
    /// There is a field that the type does not allow.
    UnknownField,
    /// A value is none of the enum's variants.
    UnknownVariant,
    /// The type goes down more than 32 levels.
    TooDeep,
    /// The type wants bytes, which JSON has none of.
    Unsupported,
    /// It is no JSON, or is cut off.
    NotJson,
    /// The type has refused it for a reason of its own.
    Refused,
}

impl JsonCoreError {
    /// Returns what is wrong.
    #[must_use]
    pub const fn problem(&self) -> JsonCoreProblem {
        self.problem
    }

    /// Returns the innermost field at which it is wrong, where it is inside of one.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        self.field
    }

    /// Takes note of the field around it.
    pub(crate) fn within(self, field: Option<&'static str>) -> Self {
        Self {
            field: self.field.or(field),
            ..self
        }
    }
}

impl From<JsonCoreProblem> for JsonCoreError {
    fn from(problem: JsonCoreProblem) -> Self {
        Self {
            problem,
            field: None,
        }
    }
}

impl From<serde_json_core::de::Error> for JsonCoreError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a scalar was read; whatever else there is follows from bytes that are no JSON"
    )]
    fn from(error: serde_json_core::de::Error) -> Self {
        use serde_json_core::de::Error;
        Self::from(match error {
            // What is behind an integer is its fraction.
            Error::InvalidType | Error::TrailingCharacters => JsonCoreProblem::WrongType,
            Error::InvalidNumber => JsonCoreProblem::WrongValue,
            _ => JsonCoreProblem::NotJson,
        })
    }
}

impl serde::de::Error for JsonCoreError {
    fn custom<M: fmt::Display>(_message: M) -> Self {
        JsonCoreProblem::Refused.into()
    }

    fn invalid_type(_unexpected: Unexpected<'_>, _expected: &dyn Expected) -> Self {
        JsonCoreProblem::WrongType.into()
    }

    fn invalid_value(_unexpected: Unexpected<'_>, _expected: &dyn Expected) -> Self {
        JsonCoreProblem::WrongValue.into()
    }

    fn invalid_length(_length: usize, _expected: &dyn Expected) -> Self {
        JsonCoreProblem::WrongLength.into()
    }

    fn unknown_variant(_variant: &str, _expected: &'static [&'static str]) -> Self {
        JsonCoreProblem::UnknownVariant.into()
    }

    fn unknown_field(_field: &str, _expected: &'static [&'static str]) -> Self {
        JsonCoreProblem::UnknownField.into()
    }

    fn missing_field(field: &'static str) -> Self {
        JsonCoreProblem::Missing(field).into()
    }

    fn duplicate_field(field: &'static str) -> Self {
        JsonCoreProblem::Twice(field).into()
    }
}

impl core::error::Error for JsonCoreError {}

crate::readable_errors!(JsonCoreError);

impl fmt::Display for JsonCoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = self.field {
            write!(f, "{field}: ")?;
        }
        self.problem.fmt(f)
    }
}

impl fmt::Display for JsonCoreProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(field) => write!(f, "there is no {field}"),
            Self::Twice(field) => write!(f, "there are two of {field}"),
            Self::WrongType => f.write_str("it is of another type"),
            Self::WrongValue => f.write_str("its value is none that the type has"),
            Self::WrongLength => f.write_str("it is longer than its place, or too short"),
            Self::TextTooLong { room } => write!(
                f,
                "a text with escapes is longer than the {room} bytes there is room for"
            ),
            Self::UnknownField => f.write_str("there is a field that the type does not allow"),
            Self::UnknownVariant => f.write_str("it is none of the variants"),
            Self::TooDeep => f.write_str("the type goes down more than 32 levels"),
            Self::Unsupported => f.write_str("the type wants bytes, which JSON has none of"),
            Self::NotJson => f.write_str("it is no JSON, or cut off"),
            Self::Refused => f.write_str("the type has refused it"),
        }
    }
}

#[cfg(test)]
mod tests;
