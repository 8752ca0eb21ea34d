//! What is wrong with a single value, in words of ours.
//!
//! A value is read once as its parameter's type, by a reader that knows what was wanted: the
//! messages of a general reader name types of Rust and neither the value nor an example.

use super::{DesignConfig, RunConfig};
use serde::de::value::StrDeserializer;
use serde::de::{Deserializer, Error, IntoDeserializer, Visitor};
use std::cell::Cell;
use std::fmt;
use toml::Value;

/// Reads a value as a parameter of a section; `None` without such a parameter.
fn read(section: &str, key: &str, value: Reader<'_>) -> Option<Result<(), Problem>> {
    match section {
        "run" => RunConfig::read(key, value),
        "design" => DesignConfig::read(key, value),
        "cpu" => host::CpuConfig::read(key, value),
        "os" => host::os::OsConfig::read(key, value),
        "host" => host::placement::HostConfig::read(key, value),
        "tpp" => host::placement::TppConfig::read(key, value),
        "astriflash" => host::placement::AstriflashConfig::read(key, value),
        "numa" => host::NumaConfig::read(key, value),
        "host_dram" => dram::HostDramConfig::read(key, value),
        "link" => cxl::LinkConfig::read(key, value),
        "ssd" => firmware::SsdConfig::read(key, value),
        "ssd_dram" => dram::SsdDramConfig::read(key, value),
        "ftl" => firmware::FtlConfig::read(key, value),
        "nand" => nand::NandConfig::read(key, value),
        _ => None,
    }
}

/// Why a parameter cannot have a value, as a clause; `None` if it can, or is not known.
pub(super) fn problem(section: &str, key: &str, value: &Value) -> Option<String> {
    let wanted_text = Cell::new(false);
    let reader = Reader {
        value,
        wanted_text: &wanted_text,
    };
    match read(section, key, reader)? {
        // What was read as text is quoted there, and is none.
        Err(Problem(why)) if !value.is_str() => {
            Some(why.replacen(&format!("\"{value}\""), &value.to_string(), 1))
        }
        Err(Problem(why)) => Some(why),
        Ok(()) if wanted_text.get() && !value.is_str() => {
            Some(format!("{value} is no text; write it in quotes"))
        }
        Ok(()) => None,
    }
}

/// Why a value could not be read: a clause that begins with the value.
#[derive(Debug)]
struct Problem(String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

impl Error for Problem {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Reads one value.
#[derive(Clone, Copy)]
struct Reader<'a> {
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

    fn is_not(self, what: &str) -> Problem {
        Problem(format!("{} is not {what}", self.value))
    }

    fn whole<'de, V: Visitor<'de>>(self, visitor: V, most: u64) -> Result<V::Value, Problem> {
        let number = self.value.as_integer().map(u64::try_from);
        match number {
            Some(Ok(number)) if number <= most => visitor.visit_u64(number),
            _ => Err(self.is_not(&format!("a whole number from 0 to {most}"))),
        }
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_string(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.value.as_bool() {
            Some(value) => visitor.visit_bool(value),
            None => Err(self.is_not("true or false")),
        }
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.whole(visitor, u32::MAX.into())
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.whole(visitor, i64::MAX.unsigned_abs())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.wanted_text.set(true);
        visitor.visit_string(self.text())
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.value.as_str() {
            Some(name) if variants.contains(&name) => {
                let reader: StrDeserializer<'_, Problem> = name.into_deserializer();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &str, value: impl Into<Value>) -> String {
        let (section, name) = key.split_once('.').unwrap();
        problem(section, name, &value.into()).unwrap_or_default()
    }

    #[test]
    fn a_value_of_another_kind_is_said_with_an_example_of_the_right_one() {
        for (key, value, why) in [
            (
                "ssd.dram",
                Value::from(true),
                "true is not a size such as \"64MiB\"",
            ),
            ("ssd.dram", 12.into(), "12 is not a size such as \"64MiB\""),
            (
                "ssd.dram",
                "abc".into(),
                "\"abc\" is not a size such as \"64MiB\"",
            ),
            (
                "os.switch_cost",
                5.into(),
                "5 is not a span of time such as \"3us\", \"158ns\" or \"250ps\"",
            ),
            (
                "run.warmup",
                true.into(),
                "true is not a ratio such as \"12.5%\" or \"1/8\"",
            ),
            (
                "link.bandwidth",
                7.into(),
                "7 is not a bandwidth such as \"16GB/s\"",
            ),
            ("ssd.buffer_hits", 3.into(), "3 is not true or false"),
            (
                "ssd.buffer_hits",
                "maybe".into(),
                "\"maybe\" is not true or false",
            ),
            (
                "ssd.cache_ways",
                true.into(),
                "true is not a whole number from 0 to 4294967295",
            ),
            (
                "ssd.cache_ways",
                (-4).into(),
                "-4 is not a whole number from 0 to 4294967295",
            ),
            (
                "run.seed",
                "1x".into(),
                "\"1x\" is not a whole number from 0 to 9223372036854775807",
            ),
            (
                "design.memory",
                "sdd".into(),
                "\"sdd\" is not \"ssd\" or \"dram\"",
            ),
            (
                "design.memory",
                true.into(),
                "true is not \"ssd\" or \"dram\"",
            ),
        ] {
            assert_eq!(said(key, value), why, "{key}");
        }
        let of_many = said("ssd.cache_policy", "zzz");
        assert!(of_many.starts_with("\"zzz\" is not one of \""), "{of_many}");
        assert!(of_many.contains("\"lru\""), "{of_many}");
    }

    #[test]
    fn every_parameter_has_a_reader_that_takes_its_own_default() {
        let layers = super::super::presets::layers("table2", None, "skybyte-full").unwrap();
        let table = super::super::effective_table(&layers).unwrap();
        for (section, parameters) in super::super::SECTIONS {
            for parameter in *parameters {
                let key = parameter.key.split_once('.').unwrap().1;
                let wanted_text = Cell::new(false);
                let value = &table[*section][key];
                let reader = Reader {
                    value,
                    wanted_text: &wanted_text,
                };
                assert!(
                    matches!(read(section, key, reader), Some(Ok(()))),
                    "{}",
                    parameter.key
                );
                assert_eq!(problem(section, key, value), None, "{}", parameter.key);
            }
        }
    }
}
