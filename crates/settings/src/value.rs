//! What is wrong with a single value, in words of ours.
//!
//! A value is read once as its parameter's type, by a reader that knows what was wanted: the
//! messages of a general reader name types of Rust and neither the value nor an example.

use crate::Known;
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, Visitor};
use std::cell::Cell;
use std::fmt;
use toml::Value;

/// Why a parameter cannot have a value, as a clause; `None` if it can, or is not known.
pub(crate) fn problem(known: &Known, section: &str, key: &str, value: &Value) -> Option<String> {
    let wanted_text = Cell::new(false);
    let reader = Reader {
        value,
        wanted_text: &wanted_text,
    };
    match (known.read)(section, key, reader)? {
        // What was read as text is quoted there, and is none.
        Err(Wrong(why)) if !value.is_str() => {
            Some(why.replacen(&format!("\"{value}\""), &value.to_string(), 1))
        }
        Err(Wrong(why)) => Some(why),
        Ok(()) if wanted_text.get() && !value.is_str() => {
            Some(format!("{value} is no text; write it in quotes"))
        }
        Ok(()) => None,
    }
}

/// Why a value could not be read: a clause that begins with the value.
#[derive(Debug)]
pub struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Reads one value.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    value: &'a Value,
    /// Whether text was asked for.
    wanted_text: &'a Cell<bool>,
}

impl Reader<'_> {
    /// As it stands in the file, without quotes.
    fn text(self) -> String {
        match self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }

    fn is_not(self, what: &str) -> Wrong {
        Wrong(format!("{} is not {what}", self.value))
    }

    fn whole<'de, V: Visitor<'de>>(self, visitor: V, most: u64) -> Result<V::Value, Wrong> {
        let number = self.value.as_integer().map(u64::try_from);
        match number {
            Some(Ok(number)) if number <= most => visitor.visit_u64(number),
            _ => Err(self.is_not(&format!("a whole number from 0 to {most}"))),
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_string(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value.as_bool() {
            Some(value) => visitor.visit_bool(value),
            None => Err(self.is_not("true or false")),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.whole(visitor, u32::MAX.into())
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.whole(visitor, i64::MAX.unsigned_abs())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.wanted_text.set(true);
        visitor.visit_string(self.text())
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        match self.value.as_str() {
            Some(name) if variants.contains(&name) => {
                let reader: StrDeserializer<'_, Wrong> = name.into_deserializer();
                visitor.visit_enum(reader)
            }
            _ => Err(self.is_not(&one_of(variants))),
        }
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [one] => format!("\"{one}\""),
        [one, other] => format!("\"{one}\" or \"{other}\""),
        _ => format!("one of \"{}\"", names.join("\", \"")),
    }
}
