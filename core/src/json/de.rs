//! Deserializes a type from JSON that a [`Scanner`](crate::json::Scanner) has validated.
//!
//! It is faster than serde_json, since nothing is validated again. Unneeded and pruned values are skipped 64 bytes at a
//! time, and lists are allocated at their exact length. It delegates unsupported types to serde_json, and the caller
//! falls back to serde_json on an error.

#[cfg(test)]
mod tests;

use alloc::string::String;

use serde::de::value::MapDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use super::JsonStr;
use super::members::Cursor;
use super::prune::{Below, Member, Prune};

/// Deserializes a value without its pruned parts.
pub(crate) fn read<T: serde::de::DeserializeOwned>(json: &[u8], prune: Prune) -> Result<T, Error> {
    // Validate UTF-8 once rather than for each string.
    let text = core::str::from_utf8(json).map_err(Error::custom)?;
    let mut cursor = Cursor::new(json);
    T::deserialize(Value {
        text,
        cursor: &mut cursor,
        below: prune.begin(),
        depth: 0,
    })
}

/// The limit of serde_json.
const DEPTH_LIMIT: u32 = 128;

/// The next value of the input.
struct Value<'c, 'a> {
    /// The complete JSON.
    text: &'a str,
    cursor: &'c mut Cursor<'a>,
    below: Below,
    depth: u32,
}

impl<'a> Value<'_, 'a> {
    fn token(&mut self) -> Result<&'a [u8], Error> {
        self.cursor.value().ok_or_else(cut_off)
    }

    fn string(&mut self) -> Result<Content<'a>, Error> {
        let (content, is_escaped) = self.cursor.content().ok_or_else(cut_off)?;
        let content = self.text.get(content).ok_or_else(cut_off)?;
        Ok(Content {
            content,
            is_escaped,
        })
    }

    fn deeper(&self) -> Result<u32, Error> {
        if self.depth >= DEPTH_LIMIT {
            return Err(Error::custom("recursion limit exceeded"));
        }
        Ok(self.depth + 1)
    }
}

fn cut_off() -> Error {
    Error::custom("a value is missing or truncated")
}

impl<'a> Deserializer<'a> for Value<'_, 'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        match self.cursor.peek() {
            Some(b'"') => self.string()?.visit(visitor),
            Some(b'{') => {
                let depth = self.deeper()?;
                self.cursor.eat(b'{');
                let below = self.below;
                let mut members = Fields {
                    value: Value { depth, ..self },
                    below,
                };
                let made = visitor.visit_map(&mut members)?;
                members.finish()?;
                Ok(made)
            }
            Some(b'[') => {
                let depth = self.deeper()?;
                let left = count(self.cursor.clone());
                self.cursor.eat(b'[');
                let mut elements = Elements {
                    value: Value { depth, ..self },
                    left,
                    next: 0,
                };
                let made = visitor.visit_seq(&mut elements)?;
                elements.finish()?;
                Ok(made)
            }
            Some(b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => scalar(self.token()?, visitor),
            Some(_) | None => Err(cut_off()),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if self.cursor.peek() == Some(b'n') {
            self.token()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        // A value that is stored as text: serde_json's `RawValue`.
        if name.starts_with("$serde_json::private::") {
            let below = self.below;
            let json = self.token()?;
            if below.is_nothing() {
                let mut json = serde_json::Deserializer::from_slice(json);
                return json.deserialize_newtype_struct(name, visitor);
            }
            // Like serde_json: a map whose only key is the name.
            let kept = String::from_utf8(below.copy(json)).map_err(Error::custom)?;
            return visitor.visit_map(MapDeserializer::new(core::iter::once((name, kept))));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if !self.below.is_nothing() && self.cursor.peek() == Some(b'{') {
            let depth = self.deeper()?;
            self.cursor.eat(b'{');
            let below = self.below;
            let mut members = Fields {
                value: Value { depth, ..self },
                below,
            };
            let made = visitor.visit_enum(&mut members)?;
            members.finish()?;
            return Ok(made);
        }
        let token = self.token()?;
        serde_json::Deserializer::from_slice(token).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_bytes<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if self.cursor.peek() == Some(b'[') {
            return self.deserialize_any(visitor);
        }
        let token = self.token()?;
        serde_json::Deserializer::from_slice(token).deserialize_bytes(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, Error> {
        self.token()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string unit unit_struct seq
        tuple tuple_struct map struct identifier
    }
}

/// The content of a string.
#[derive(Clone, Copy)]
struct Content<'a> {
    content: &'a str,
    is_escaped: bool,
}

impl<'a> Content<'a> {
    fn visit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_escaped {
            visitor.visit_string(self.unescape()?)
        } else {
            visitor.visit_borrowed_str(self.content)
        }
    }

    fn unescape(self) -> Result<String, Error> {
        let mut quoted = String::with_capacity(self.content.len() + 2);
        quoted.push('"');
        quoted.push_str(self.content);
        quoted.push('"');
        serde_json::from_str(&quoted)
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

/// Counts the elements of an array, so that a list is allocated at its exact length.
fn count(mut cursor: Cursor<'_>) -> usize {
    cursor.eat(b'[');
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
struct Fields<'c, 'a> {
    value: Value<'c, 'a>,
    /// The parts that may be pruned below the member whose key was read last.
    below: Below,
}

impl<'a> Fields<'_, 'a> {
    /// Returns the value of the member whose key was read last.
    fn content(&mut self) -> Value<'_, 'a> {
        Value {
            text: self.value.text,
            cursor: &mut *self.value.cursor,
            below: self.below,
            depth: self.value.depth,
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.value.cursor.eat(b'}') {
            return Ok(());
        }
        Err(Error::custom("members are left over"))
    }
}

impl<'a> MapAccess<'a> for &mut Fields<'_, 'a> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        loop {
            if self.value.cursor.peek() == Some(b'}') {
                return Ok(None);
            }
            self.value.cursor.eat(b',');
            let key = self.value.string()?;
            if !self.value.cursor.eat(b':') {
                return Err(cut_off());
            }
            let name = JsonStr::new(key.content.as_bytes());
            match self.value.below.member(name) {
                Member::Skip => {
                    self.value.token()?;
                }
                Member::Keep(below) => {
                    self.below = below;
                    return seed.deserialize(Key(key)).map(Some);
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.content())
    }
}

/// An enum as an object: the variant is the key of its only member.
impl<'a> EnumAccess<'a> for &mut Fields<'_, 'a> {
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

impl<'a> VariantAccess<'a> for &mut Fields<'_, 'a> {
    type Error = Error;

    fn unit_variant(mut self) -> Result<(), Error> {
        self.next_value()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(mut self, seed: T) -> Result<T::Value, Error> {
        self.next_value_seed(seed)
    }

    fn tuple_variant<V: Visitor<'a>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.content().deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.content().deserialize_struct("", fields, visitor)
    }
}

/// The key of a member.
struct Key<'a>(Content<'a>);

impl<'a> Deserializer<'a> for Key<'a> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.visit(visitor)
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
        let name: serde::de::value::StringDeserializer<Error> =
            self.0.unescape()?.into_deserializer();
        visitor.visit_enum(name)
    }

    // A number as a key fails here, and the caller then uses serde_json.
    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The elements of an array, as serde's sequence.
struct Elements<'c, 'a> {
    value: Value<'c, 'a>,
    /// The number of remaining elements, including pruned ones.
    left: usize,
    /// The index of the next element, including pruned ones.
    next: usize,
}

impl Elements<'_, '_> {
    fn finish(&mut self) -> Result<(), Error> {
        if self.value.cursor.eat(b']') {
            return Ok(());
        }
        Err(Error::custom("elements are left over"))
    }
}

impl<'a> SeqAccess<'a> for &mut Elements<'_, 'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        loop {
            self.value.cursor.eat(b',');
            if self.value.cursor.peek() == Some(b']') {
                return Ok(None);
            }
            self.left = self.left.saturating_sub(1);
            let index = self.next;
            self.next += 1;
            match self.value.below.element(index) {
                Member::Skip => {
                    self.value.token()?;
                }
                Member::Keep(below) => {
                    let value = Value {
                        text: self.value.text,
                        cursor: &mut *self.value.cursor,
                        below,
                        depth: self.value.depth,
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
