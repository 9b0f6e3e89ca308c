//! Deserializes a type from JSON that a [`Scanner`](crate::json::Scanner) has validated.
//!
//! It is faster than serde_json, since nothing is validated again. Unneeded and pruned values are skipped 64 bytes at a
//! time, and lists are allocated at their exact length. It delegates unsupported types to serde_json, and the caller
//! falls back to serde_json on an error.

#[cfg(test)]
mod tests;

use alloc::string::String;

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use super::JsonStr;
use super::members::{Cursor, as_str};
use super::prune::{Below, Member, Prune};

/// Deserializes a value without its pruned parts.
pub(crate) fn read<T: serde::de::DeserializeOwned>(json: &[u8], prune: Prune) -> Result<T, Error> {
    // Validate UTF-8 once rather than for each string.
    let text = core::str::from_utf8(json).map_err(Error::custom)?;
    let mut reader = Reader {
        text,
        cursor: Cursor::new(json),
        prune,
        depth: 0,
    };
    let object = T::deserialize(NextValue {
        paths: prune.begin().paths(),
        reader: &mut reader,
    })?;
    // A type that swallows an error leaves the reader within a value, and members are then read as those of another.
    if reader.cursor.peek().is_some() {
        return Err(Error::custom("a value was not read to its end"));
    }
    Ok(object)
}

/// The limit of serde_json.
const DEPTH_LIMIT: u32 = 128;

/// The position in the JSON, and what holds for all values.
struct Reader<'a> {
    /// The complete JSON.
    text: &'a str,
    cursor: Cursor<'a>,
    prune: Prune,
    /// The number of objects and arrays around the position.
    depth: u32,
}

impl<'a> Reader<'a> {
    fn token(&mut self) -> Result<&'a [u8], Error> {
        self.cursor.value().ok_or_else(cut_off)
    }

    /// Consumes a string without escapes; `None` if the next value is another one.
    fn plain(&mut self) -> Option<&'a str> {
        self.text.get(self.cursor.plain()?)
    }

    /// Enters an object or an array. A value of another type is consumed.
    fn enter(&mut self, bracket: u8) -> Result<(), Error> {
        if self.depth >= DEPTH_LIMIT {
            return Err(Error::custom("recursion limit exceeded"));
        }
        if !self.cursor.eat(bracket) {
            self.token()?;
            return Err(Error::custom("a value has another type"));
        }
        self.depth += 1;
        Ok(())
    }

    /// Leaves the container that was entered last.
    fn leave(&mut self, bracket: u8) -> Result<(), Error> {
        self.depth -= 1;
        if self.cursor.eat(bracket) {
            return Ok(());
        }
        Err(Error::custom("members or elements are left over"))
    }

    /// Returns what may be pruned of a value that was not entered.
    fn below(&self, paths: u32) -> Below {
        self.prune.below(paths, self.depth as usize)
    }

    /// Returns what may be pruned of the value that was entered last.
    fn inside(&self, paths: u32) -> Below {
        self.prune.below(paths, self.depth as usize - 1)
    }
}

/// The next value of the input. It fits into two registers, since it is passed on for every value.
struct NextValue<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// The paths of the `Prune` that lead through this value.
    paths: u32,
}

fn cut_off() -> Error {
    Error::custom("a value is missing or truncated")
}

impl<'a> Deserializer<'a> for NextValue<'_, 'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.reader.cursor.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'{') => self.deserialize_map(visitor),
            Some(b'[') => self.deserialize_seq(visitor),
            Some(b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => scalar(self.reader.token()?, visitor),
            Some(_) | None => Err(cut_off()),
        }
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.reader.enter(b'{')?;
        let made = visitor.visit_map(ObjectAccess {
            reader: &mut *self.reader,
            paths: self.paths,
            below: 0,
        })?;
        self.reader.leave(b'}')?;
        Ok(made)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.reader.enter(b'[')?;
        let made = visitor.visit_seq(ArrayAccess {
            left: count(self.reader.cursor.clone()),
            reader: &mut *self.reader,
            paths: self.paths,
            next: 0,
        })?;
        self.reader.leave(b']')?;
        Ok(made)
    }

    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.reader.plain() {
            Some(content) => visitor.visit_borrowed_str(content),
            None => visitor.visit_string(serde_json::from_slice(self.reader.token()?)?),
        }
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.reader.cursor.peek() == Some(b'n') {
            self.reader.token()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A value that is stored as text: serde_json's `RawValue`.
        if name.starts_with("$serde_json::private::") {
            let json = self.reader.token()?;
            if self.paths == 0 {
                let mut json = serde_json::Deserializer::from_slice(json);
                return json.deserialize_newtype_struct(name, visitor);
            }
            // Like serde_json: a map whose only key is the name.
            let below = self.reader.below(self.paths);
            let kept = String::from_utf8(below.copy(json)).map_err(Error::custom)?;
            return visitor.visit_map(MapDeserializer::new(core::iter::once((name, kept))));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.paths != 0 && self.reader.cursor.peek() == Some(b'{') {
            self.reader.enter(b'{')?;
            let made = visitor.visit_enum(ObjectAccess {
                reader: &mut *self.reader,
                paths: self.paths,
                below: 0,
            })?;
            self.reader.leave(b'}')?;
            return Ok(made);
        }
        let token = self.reader.token()?;
        serde_json::Deserializer::from_slice(token).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_bytes<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.reader.cursor.peek() == Some(b'[') {
            return self.deserialize_any(visitor);
        }
        let token = self.reader.token()?;
        serde_json::Deserializer::from_slice(token).deserialize_bytes(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.reader.token()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char unit unit_struct tuple tuple_struct
        identifier
    }
}

fn scalar<'a, V: Visitor<'a>>(token: &'a [u8], visitor: V) -> Result<V::Value, Error> {
    match token {
        b"true" => visitor.visit_bool(true),
        b"false" => visitor.visit_bool(false),
        b"null" => visitor.visit_unit(),
        _ => match super::as_u64(token) {
            Some(number) => visitor.visit_u64(number),
            None => serde_json::Deserializer::from_slice(token).deserialize_any(visitor),
        },
    }
}

/// Counts the elements of an array from the first on, so that a list is allocated at its exact length.
fn count(mut cursor: Cursor<'_>) -> usize {
    let mut count = 0;
    while cursor.value().is_some() {
        count += 1;
        if !cursor.eat(b',') {
            break;
        }
    }
    count
}

/// The members of an object, as serde's map.
struct ObjectAccess<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// The paths that lead through the object.
    paths: u32,
    /// Those that lead through the member whose key was read last.
    below: u32,
}

impl<'a> ObjectAccess<'_, 'a> {
    /// Returns the value of the member whose key was read last.
    fn content(&mut self) -> NextValue<'_, 'a> {
        NextValue {
            reader: &mut *self.reader,
            paths: self.below,
        }
    }

    /// Consumes the colon after a key; returns whether the member is kept.
    fn keeps(&mut self, key: JsonStr<'_>) -> Result<bool, Error> {
        if !self.reader.cursor.eat(b':') {
            return Err(cut_off());
        }
        if self.paths == 0 {
            return Ok(true);
        }
        match self.reader.inside(self.paths).member(key) {
            Member::Skip => {
                self.reader.token()?;
                Ok(false)
            }
            Member::Keep(below) => {
                self.below = below.paths();
                Ok(true)
            }
        }
    }
}

impl<'a> MapAccess<'a> for ObjectAccess<'_, 'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        loop {
            if self.reader.cursor.peek() == Some(b'}') {
                return Ok(None);
            }
            self.reader.cursor.eat(b',');
            if let Some(key) = self.reader.plain() {
                if self.keeps(JsonStr::new(key.as_bytes()))? {
                    return seed.deserialize(Key(key)).map(Some);
                }
            } else {
                let key = self.reader.token()?;
                if self.keeps(as_str(key).ok_or_else(cut_off)?)? {
                    let key: String = serde_json::from_slice(key)?;
                    return seed.deserialize(key.into_deserializer()).map(Some);
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.content())
    }
}

/// An enum as an object: the variant is the key of its only member.
impl<'a> EnumAccess<'a> for ObjectAccess<'_, 'a> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'a>>(mut self, seed: V) -> Result<(V::Value, Self), Error> {
        let variant = self.next_key_seed(seed)?;
        Ok((
            variant.ok_or_else(|| Error::custom("an enum has no variant"))?,
            self,
        ))
    }
}

impl<'a> VariantAccess<'a> for ObjectAccess<'_, 'a> {
    type Error = Error;

    fn unit_variant(mut self) -> Result<(), Error> {
        self.next_value()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(mut self, seed: T) -> Result<T::Value, Error> {
        self.next_value_seed(seed)
    }

    fn tuple_variant<V: Visitor<'a>>(mut self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.content().deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content().deserialize_struct("", fields, visitor)
    }
}

/// The key of a member.
struct Key<'a>(&'a str);

impl<'a> Deserializer<'a> for Key<'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(BorrowedStrDeserializer::new(self.0))
    }

    // A number as a key fails here, and the caller then uses serde_json.
    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The elements of an array, as serde's sequence.
struct ArrayAccess<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// The paths that lead through the array.
    paths: u32,
    /// The number of remaining elements, including pruned ones.
    left: usize,
    /// The index of the next element, including pruned ones.
    next: usize,
}

impl<'a> SeqAccess<'a> for ArrayAccess<'_, 'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        loop {
            if self.reader.cursor.peek() == Some(b']') {
                return Ok(None);
            }
            if self.next > 0 && !self.reader.cursor.eat(b',') {
                return Err(cut_off());
            }
            self.left = self.left.saturating_sub(1);
            let index = self.next;
            self.next += 1;
            match self.reader.inside(self.paths).element(index) {
                Member::Skip => {
                    self.reader.token()?;
                }
                Member::Keep(below) => {
                    let value = NextValue {
                        reader: &mut *self.reader,
                        paths: below.paths(),
                    };
                    return seed.deserialize(value).map(Some);
                }
            }
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}
