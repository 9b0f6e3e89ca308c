//! Objects decoded into a small closed type by serde-json-core, without an allocator.

mod closed;

use core::fmt;
use core::marker::PhantomData;

use serde::de::{DeserializeOwned, Expected, Unexpected};

use closed::read;

use super::{Decode, RawObject};

/// A decoder that parses each object into a `T` without an allocator. `T` is a struct of the needed fields: numbers,
/// booleans, strings of fixed capacity (such as heapless's), and further structs of that form.
///
/// serde-json-core parses numbers and booleans. This crate handles the cases that fail if serde-json-core parses
/// complete objects:
///
/// | serde-json-core 0.7 alone | `JsonCore` |
/// |---|---|
/// | returns strings with their escapes, or needs a buffer | unescapes strings |
/// | fails if a string with escapes is longer than the buffer, even if no field needs it, such as `last-applied-configuration` | skips unneeded values without unescaping them; needed strings have `S` bytes if they contain escapes, and any length otherwise |
/// | fails on an escaped surrogate pair | decodes it; half a pair becomes U+FFFD |
/// | skips unneeded values recursively, without a depth limit | does not recurse; `T` itself may be 32 levels deep |
/// | has no `deserialize_any`, so no value can be either a number or a string | supports it for user-defined visitors; `#[serde(untagged)]` and `flatten` remain unavailable, since serde needs an allocator for them |
///
/// The decoder skips managedFields: an object that exceeds the frame limit only because of them is decoded with an
/// empty array in their place.
///
/// serde-json-core accepts `null` as a float (not a number), but `JsonCore` rejects it. `T` cannot borrow from the
/// object's bytes, which do not outlive decoding: a `&str` field does not compile.
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
/// assert_eq!(error.map(|error| error.to_string()).as_deref(), Some("nodeName: wrong type"));
/// # Ok::<(), informer_core::decode::JsonCoreError>(())
/// ```
pub struct JsonCore<T, const S: usize = 64>(PhantomData<fn() -> T>);

impl<T, const S: usize> JsonCore<T, S> {
    /// Creates a decoder. A string that contains escapes may have `S` bytes after unescaping; they are on the stack
    /// while it is parsed.
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

/// The reason why [`JsonCore`] rejected an object, and the field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JsonCoreError {
    problem: JsonCoreProblem,
    field: Option<&'static str>,
}

/// The problem that made [`JsonCore`] reject an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JsonCoreProblem {
    /// A required field is missing.
    Missing(&'static str),
    /// A field occurs twice.
    Twice(&'static str),
    /// A value has the wrong type, such as a string for a number or a fraction for an integer.
    WrongType,
    /// A number is out of range, or the type does not accept the value.
    WrongValue,
    /// A string or list exceeds its capacity, or a list is shorter than a tuple.
    WrongLength,
    /// A string with escapes is longer after unescaping than the decoder's buffer.
    TextTooLong {
        /// The size of the buffer in bytes: `S` of the decoder.
        room: usize,
    },
    /// The type does not allow this field.
    UnknownField,
    /// A value is not a variant of the enum.
    UnknownVariant,
    /// The type is nested more than 32 levels deep.
    TooDeep,
    /// The type requires bytes, which JSON does not have.
    Unsupported,
    /// The text is not JSON, or is truncated.
    NotJson,
    /// The type rejected the value for another reason.
    Refused,
}

impl JsonCoreError {
    /// Returns the innermost field with the problem, if it is inside a field.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        self.field
    }

    /// Adds the enclosing field, unless an inner field is known.
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
        reason = "only a scalar is parsed, so every other error means that the bytes are not JSON"
    )]
    fn from(error: serde_json_core::de::Error) -> Self {
        use serde_json_core::de::Error;
        Self::from(match error {
            // A fraction follows an integer.
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
            Self::Missing(field) => write!(f, "missing field {field}"),
            Self::Twice(field) => write!(f, "duplicate field {field}"),
            Self::WrongType => f.write_str("wrong type"),
            Self::WrongValue => f.write_str("the type does not accept this value"),
            Self::WrongLength => f.write_str("too long or too short for its type"),
            Self::TextTooLong { room } => write!(
                f,
                "a string with escapes is longer than {room} bytes, the size of the buffer"
            ),
            Self::UnknownField => f.write_str("unknown field"),
            Self::UnknownVariant => f.write_str("unknown variant"),
            Self::TooDeep => f.write_str("the type is nested more than 32 levels deep"),
            Self::Unsupported => f.write_str("the type requires bytes, which JSON does not have"),
            Self::NotJson => f.write_str("not JSON, or truncated"),
            Self::Refused => f.write_str("the type rejected the value"),
        }
    }
}

#[cfg(test)]
mod tests;
