//! Parses a closed type from JSON that a [`Scanner`](crate::json::Scanner) has validated, without an allocator.
//!
//! serde-json-core parses only numbers, booleans and `null`. Objects and arrays are walked by this crate's own cursor,
//! which skips unneeded values without parsing them and without recursion. Strings are unescaped as everywhere else in
//! this crate, including halves of surrogate pairs.

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};

use super::{JsonCoreError, JsonCoreProblem};
use crate::json::members::Cursor;
use crate::json::{JsonStr, as_str, as_u64};

/// Parses a value. A needed string that contains escapes may have `S` bytes after unescaping.
pub(crate) fn read<T: DeserializeOwned, const S: usize>(json: &[u8]) -> Result<T, JsonCoreError> {
    let mut cursor = Cursor::new(json);
    let value: NextValue<'_, '_, S> = NextValue {
        cursor: &mut cursor,
        depth: 0,
    };
    let object = T::deserialize(value)?;
    // A type that swallows an error leaves the cursor within a value, and members are then read as those of another.
    match cursor.peek() {
        Some(_) => Err(cut_off()),
        None => Ok(object),
    }
}

/// The maximum depth of a type. Values that the type does not need may be nested deeper.
const DEPTH_LIMIT: u8 = 32;

/// The next value of the input.
struct NextValue<'c, 'a, const S: usize> {
    cursor: &'c mut Cursor<'a>,
    depth: u8,
}

impl<'c, 'a, const S: usize> NextValue<'c, 'a, S> {
    fn token(&mut self) -> Result<&'a [u8], JsonCoreError> {
        self.cursor.value().ok_or_else(cut_off)
    }

    /// Parses a number or a boolean by serde-json-core, with nothing after it.
    fn scalar<N: DeserializeOwned>(&mut self) -> Result<N, JsonCoreError> {
        scalar(self.token()?)
    }

    fn float<N: DeserializeOwned>(&mut self) -> Result<N, JsonCoreError> {
        let token = self.token()?;
        // serde-json-core accepts `null` as not-a-number.
        if token == b"null" {
            return Err(JsonCoreProblem::WrongType.into());
        }
        scalar(token)
    }

    fn text(&mut self) -> Result<JsonStr<'a>, JsonCoreError> {
        as_str(self.token()?).ok_or_else(|| JsonCoreProblem::WrongType.into())
    }

    /// Enters an object; `fields` are the names of the needed members, if they are known.
    fn into_members(
        self,
        fields: &'static [&'static str],
    ) -> Result<ObjectAccess<'c, 'a, S>, JsonCoreError> {
        Ok(ObjectAccess {
            value: self.inside(b'{')?,
            fields,
            field: None,
        })
    }

    fn inside(mut self, bracket: u8) -> Result<Self, JsonCoreError> {
        if self.depth >= DEPTH_LIMIT {
            return Err(JsonCoreProblem::TooDeep.into());
        }
        if !self.cursor.eat(bracket) {
            return Err(self.not_there(JsonCoreProblem::WrongType));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn leave(&mut self, bracket: u8) -> Result<(), JsonCoreError> {
        if self.cursor.eat(bracket) {
            return Ok(());
        }
        // Another element follows, so the array is longer than the type.
        Err(self.not_there(JsonCoreProblem::WrongLength))
    }

    /// Returns the error for an unexpected byte, or the one for truncated input if there is no byte.
    fn not_there(&mut self, problem: JsonCoreProblem) -> JsonCoreError {
        self.cursor.peek().map_or_else(cut_off, |_| problem.into())
    }
}

fn cut_off() -> JsonCoreError {
    JsonCoreProblem::NotJson.into()
}

fn scalar<N: DeserializeOwned>(token: &[u8]) -> Result<N, JsonCoreError> {
    let read = serde_json_core::from_slice(token);
    read.map(|(number, _)| number).map_err(Into::into)
}

/// Unescapes a string. A separate function, so that its buffer is not on the stack during recursion.
#[inline(never)]
fn unescaped<const S: usize>(text: JsonStr<'_>) -> Result<heapless::String<S>, JsonCoreError> {
    let mut out = heapless::String::new();
    match text.write_to(&mut out) {
        Ok(()) => Ok(out),
        Err(_) => Err(JsonCoreProblem::TextTooLong { room: S }.into()),
    }
}

macro_rules! by_serde_json_core {
    ($($deserialize:ident $visit:ident $read:ident)*) => {$(
        fn $deserialize<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, JsonCoreError> {
            visitor.$visit(self.$read()?)
        }
    )*};
}

impl<'a, const S: usize> Deserializer<'a> for NextValue<'_, 'a, S> {
    type Error = JsonCoreError;

    by_serde_json_core! {
        deserialize_bool visit_bool scalar
        deserialize_i8 visit_i8 scalar
        deserialize_i16 visit_i16 scalar
        deserialize_i32 visit_i32 scalar
        deserialize_i64 visit_i64 scalar
        deserialize_u8 visit_u8 scalar
        deserialize_u16 visit_u16 scalar
        deserialize_u32 visit_u32 scalar
        deserialize_u64 visit_u64 scalar
        deserialize_f32 visit_f32 float
        deserialize_f64 visit_f64 float
    }

    fn deserialize_any<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, JsonCoreError> {
        match self.cursor.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'{') => self.deserialize_map(visitor),
            Some(b'[') => self.deserialize_seq(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            Some(_) => {
                let token = self.token()?;
                if let Some(number) = as_u64(token) {
                    return visitor.visit_u64(number);
                }
                match scalar(token) {
                    Ok(number) => visitor.visit_i64(number),
                    Err(_) => visitor.visit_f64(scalar(token)?),
                }
            }
            None => Err(cut_off()),
        }
    }

    fn deserialize_str<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, JsonCoreError> {
        let text = self.text()?;
        match text.as_plain() {
            Some(plain) => visitor.visit_borrowed_str(plain),
            None => visitor.visit_str(&unescaped::<S>(text)?),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, JsonCoreError> {
        if self.cursor.peek() == Some(b'n') {
            self.token()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, JsonCoreError> {
        match self.token()? {
            b"null" => visitor.visit_unit(),
            _ => Err(JsonCoreProblem::WrongType.into()),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonCoreError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, JsonCoreError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, JsonCoreError> {
        let mut elements = ArrayAccess {
            value: self.inside(b'[')?,
            is_first: true,
        };
        let made = visitor.visit_seq(&mut elements)?;
        elements.value.leave(b']')?;
        Ok(made)
    }

    fn deserialize_tuple<V: Visitor<'a>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, JsonCoreError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, JsonCoreError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, JsonCoreError> {
        self.deserialize_struct("", &[], visitor)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonCoreError> {
        let mut members = self.into_members(fields)?;
        let made = visitor.visit_map(&mut members)?;
        members.value.leave(b'}')?;
        Ok(made)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        mut self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonCoreError> {
        if self.cursor.peek() == Some(b'{') {
            let mut members = self.into_members(&[])?;
            let made = visitor.visit_enum(MapAccessDeserializer::new(&mut members))?;
            members.value.leave(b'}')?;
            return Ok(made);
        }
        let text = self.text()?;
        match text.as_plain() {
            Some(plain) => visitor.visit_enum(plain.into_deserializer()),
            None => visitor.visit_enum(unescaped::<S>(text)?.as_str().into_deserializer()),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(
        mut self,
        visitor: V,
    ) -> Result<V::Value, JsonCoreError> {
        self.token()?;
        visitor.visit_unit()
    }

    fn deserialize_bytes<V: Visitor<'a>>(self, _visitor: V) -> Result<V::Value, JsonCoreError> {
        Err(JsonCoreProblem::Unsupported.into())
    }

    fn deserialize_byte_buf<V: Visitor<'a>>(self, _visitor: V) -> Result<V::Value, JsonCoreError> {
        Err(JsonCoreProblem::Unsupported.into())
    }

    fn deserialize_char<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, JsonCoreError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, JsonCoreError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, JsonCoreError> {
        self.deserialize_str(visitor)
    }
}

/// The members of an object, as serde's map.
struct ObjectAccess<'c, 'a, const S: usize> {
    value: NextValue<'c, 'a, S>,
    fields: &'static [&'static str],
    /// The field whose value is next, for error messages.
    field: Option<&'static str>,
}

impl<'a, const S: usize> MapAccess<'a> for &mut ObjectAccess<'_, 'a, S> {
    type Error = JsonCoreError;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, JsonCoreError> {
        loop {
            if self.value.cursor.peek() == Some(b'}') {
                return Ok(None);
            }
            let key = self.value.cursor.key().ok_or_else(cut_off)?;
            self.field = self.fields.iter().copied().find(|field| key.eq_str(field));
            let plain = self.field.or_else(|| key.as_plain());
            if let Some(plain) = plain {
                return seed
                    .deserialize(BorrowedStrDeserializer::new(plain))
                    .map(Some);
            }
            match unescaped::<S>(key) {
                Ok(key) => return seed.deserialize(key.as_str().into_deserializer()).map(Some),
                Err(error) if self.fields.is_empty() => return Err(error),
                // A key that is longer than the buffer cannot be a needed field.
                Err(_) => {
                    self.value.token()?;
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, JsonCoreError> {
        let value: NextValue<'_, 'a, S> = NextValue {
            cursor: &mut *self.value.cursor,
            depth: self.value.depth,
        };
        let field = self.field;
        seed.deserialize(value).map_err(|error| error.within(field))
    }
}

/// The elements of an array, as serde's sequence.
struct ArrayAccess<'c, 'a, const S: usize> {
    value: NextValue<'c, 'a, S>,
    is_first: bool,
}

impl<'a, const S: usize> SeqAccess<'a> for &mut ArrayAccess<'_, 'a, S> {
    type Error = JsonCoreError;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, JsonCoreError> {
        let cursor = &mut *self.value.cursor;
        if cursor.peek() == Some(b']') {
            return Ok(None);
        }
        if !core::mem::replace(&mut self.is_first, false) && !cursor.eat(b',') {
            return Err(cut_off());
        }
        let value: NextValue<'_, 'a, S> = NextValue {
            cursor,
            depth: self.value.depth,
        };
        seed.deserialize(value).map(Some)
    }
}
