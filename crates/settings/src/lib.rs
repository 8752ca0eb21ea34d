//! Layered TOML, every key known and every value of its parameter's kind.
//!
//! A configuration is a struct of sections that [`units::parameters!`] declares. Its values come
//! from layers, later ones over earlier ones: presets, files, `--set`. A key that no section
//! declares and a value of the wrong kind are sentences that name the layer; so is a key that has
//! another name now. What a configuration is made of, and which values go together, is its crate's
//! business.
//!
//! A section's groups are sections with its name before theirs: `ssd.log` in `--set
//! ssd.log.size=64MiB`, in results and in lists of sections, a table `log` in the table `ssd` in
//! TOML.
#![forbid(unsafe_code)]

mod layers;
mod value;

pub use layers::{Layer, distance, nearest};
pub use value::{Reader, Wrong};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::{Table, Value};
use units::parameter::{Sections, Texts};

/// What is wrong with some layers: a clause each.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}", .0.join("; "))]
pub struct Problems(pub Vec<String>);

impl Problems {
    fn one(problem: String) -> Self {
        Self(vec![problem])
    }
}

/// The sections of a configuration; [`known!`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// With the documentation of their parameters; a group has its section's name before its own.
    pub sections: &'static Sections,
    /// Keys that parameters once had, each with the one that it has now.
    pub renamed: &'static [(&'static str, &'static str)],
    /// Reads a value as the parameter of a section and a key; `None` without such a parameter.
    pub read: fn(&str, &str, Reader<'_>) -> Option<Result<(), Wrong>>,
}

/// The sections of a configuration by name, each a struct of [`units::parameters!`].
///
/// ```
/// units::parameters! {
///     /// Timing of the flash.
///     pub struct Timing: "nand" {
///         /// Page read time of a die.
///         t_r: units::Picos, "at least 1ns", "SkyByte Table II";
///     }
/// }
/// const KNOWN: settings::Known = settings::known! { "nand": Timing };
/// let layers = [settings::Layer::assignment("nand.t_r=3us").unwrap()];
/// assert_eq!(KNOWN.table(&layers).unwrap()["nand"]["t_r"].as_str(), Some("3us"));
/// ```
#[macro_export]
macro_rules! known {
    ($($name:literal: $section:ty),* $(,)?) => {
        $crate::Known {
            sections: &[$(($name, <$section>::PARAMETERS)),*],
            renamed: &[],
            read: |section, key, value| match section {
                $($name => <$section>::read(key, value),)*
                _ => None,
            },
        }
    };
}

impl Known {
    /// The same sections with the keys that their parameters once had.
    #[must_use]
    pub const fn renamed(self, renamed: &'static [(&'static str, &'static str)]) -> Self {
        Self { renamed, ..self }
    }

    /// The configuration of layers. Nothing is asked of its values but their kinds.
    ///
    /// # Errors
    /// As [`Known::table`]; a parameter that no layer sets.
    pub fn configuration<T: DeserializeOwned>(&self, layers: &[Layer]) -> Result<T, Problems> {
        let table = self.table(layers)?;
        // Of values each layer was told already: what is left is that something is missing.
        table.try_into().map_err(|error: toml::de::Error| {
            Problems::one(error.message().trim().replace('\n', " "))
        })
    }

    /// The values as text, by section and key, in the order of declaration.
    ///
    /// # Panics
    /// If the configuration has other sections or keys.
    pub fn texts(&self, configuration: &impl Serialize) -> Texts {
        let table = Value::Table(table_of(configuration));
        let of_section =
            |section: &str| section.split('.').fold(&table, |outer, name| &outer[name]);
        units::parameter::texts(self.sections, |section, key| {
            text(&of_section(section)[key])
        })
    }
}

/// The values of a table of sections as text, each with its key, `section.key`.
pub fn values(sections: &Table) -> Vec<(String, String)> {
    let under = |(key, value): (&String, &Value)| match value {
        Value::Table(inner) => {
            let values = values(inner).into_iter();
            values
                .map(|(name, text)| (format!("{key}.{name}"), text))
                .collect()
        }
        value => vec![(key.clone(), text(value))],
    };
    sections.iter().flat_map(under).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The values of a configuration as TOML with sorted keys: the canonical text.
///
/// # Panics
/// If it has values other than text, numbers and switches in sections.
pub fn to_toml(configuration: &impl Serialize) -> String {
    let table = table_of(configuration);
    toml::to_string(&table).expect("a table of strings, numbers and switches is TOML")
}

fn table_of(configuration: &impl Serialize) -> Table {
    Table::try_from(configuration).expect("a configuration is a table")
}
