//! Layers of configuration and how they are put over each other.

use super::SECTIONS;
use crate::error::DeviceFileError;
use toml::{Table, Value};

/// One layer: a name for messages, and its values.
#[derive(Clone, Debug)]
pub struct Layer {
    /// What the user knows it by: "preset bytefs", "my.toml", "--set ssd.dram=1MiB".
    name: String,
    values: Table,
}

impl Layer {
    /// A layer from a TOML text.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn toml(name: &str, text: &str) -> Result<Self, DeviceFileError> {
        let values = text.parse::<Table>().map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            DeviceFileError::config(format!("{name}, line {line}: {}", error.message()))
        })?;
        Ok(Self {
            name: name.to_owned(),
            values,
        })
    }

    /// A layer from `section.key=value` as given to `--set`; quotes around text may be left out.
    ///
    /// # Errors
    /// If it has not that form.
    pub fn assignment(assignment: &str) -> Result<Self, DeviceFileError> {
        let malformed = || {
            DeviceFileError::config(format!(
                "--set {assignment}: write it as section.key=value, for example \
                 --set ssd.dram=256MiB"
            ))
        };
        let (path, value) = assignment.split_once('=').ok_or_else(malformed)?;
        let (section, key) = path.trim().split_once('.').ok_or_else(malformed)?;
        let value = value.trim().trim_matches('"');
        if section.is_empty() || key.is_empty() || value.is_empty() {
            return Err(malformed());
        }
        let literal = match (value, value.parse::<i64>()) {
            (_, Ok(number)) => Value::Integer(number),
            ("true", _) => Value::Boolean(true),
            ("false", _) => Value::Boolean(false),
            (text, _) => Value::String(text.to_owned()),
        };
        let values = Table::from_iter([(key.to_owned(), literal)]);
        Ok(Self {
            name: format!("--set {assignment}"),
            values: Table::from_iter([(section.to_owned(), Value::Table(values))]),
        })
    }

    /// The layer without sections that a device has not: of a machine, only its device counts.
    pub(super) fn of_device_alone(mut self) -> Self {
        self.values
            .retain(|section, _| SECTIONS.iter().any(|(name, _)| *name == section));
        self
    }

    /// Puts the layer over `effective`; adds what is wrong with it to `problems`.
    fn put_over(&self, effective: &mut Table, problems: &mut Vec<String>) {
        for (section, values) in &self.values {
            let Some((_, parameters)) = SECTIONS.iter().find(|(name, _)| name == section) else {
                let names: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
                problems.push(format!(
                    "{}: a device has no section {section}; it has {}",
                    self.name,
                    names.join(", ")
                ));
                continue;
            };
            let Value::Table(values) = values else {
                problems.push(format!(
                    "{}: {section} is a section, not a value",
                    self.name
                ));
                continue;
            };
            for (key, value) in values {
                let path = format!("{section}.{key}");
                if parameters.iter().any(|parameter| parameter.key == path) {
                    let target = effective
                        .entry(section.clone())
                        .or_insert_with(|| Value::Table(Table::new()));
                    let target = target.as_table_mut().expect("sections are tables");
                    target.insert(key.clone(), value.clone());
                } else {
                    problems.push(format!(
                        "{}: unknown key {path}; `entresol device presets --keys` lists all",
                        self.name
                    ));
                }
            }
        }
    }
}

/// All layers put over each other.
///
/// # Errors
/// Unknown sections or keys, each with its layer.
pub(super) fn effective_table(layers: &[Layer]) -> Result<Table, DeviceFileError> {
    let (mut effective, mut problems) = (Table::new(), Vec::new());
    for layer in layers {
        layer.put_over(&mut effective, &mut problems);
    }
    if problems.is_empty() {
        Ok(effective)
    } else {
        Err(DeviceFileError::Config(problems))
    }
}

/// What is wrong with values that are not of the kind of their parameters: a sentence for each, or
/// what the parser said if it is something else.
pub(super) fn blame(table: &Table, message: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (section, values) in table {
        for (key, value) in values.as_table().into_iter().flatten() {
            if let Some(Err(error)) = read(section, key, value.clone()) {
                let what = error.message().lines().collect::<Vec<_>>().join(" ");
                problems.push(format!("{section}.{key} is {value}: {what}"));
            }
        }
    }
    if problems.is_empty() {
        problems.push(message.lines().collect::<Vec<_>>().join(" "));
    }
    problems
}

/// Reads a value as a parameter; None if there is no such parameter.
fn read(section: &str, key: &str, value: Value) -> Option<Result<(), toml::de::Error>> {
    match section {
        "device" => super::PortConfig::read(key, value),
        "ssd" => firmware::SsdConfig::read(key, value),
        "ftl" => firmware::FtlConfig::read(key, value),
        "nand" => nand::NandConfig::read(key, value),
        "faults" => nand::FaultConfig::read(key, value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_win_key_by_key() {
        let layers = [
            Layer::toml("a", "[nand]\nt_r = \"5us\"\nchannels = 4").unwrap(),
            Layer::assignment("nand.channels=2").unwrap(),
        ];
        let table = effective_table(&layers).unwrap();
        assert_eq!(table["nand"]["channels"].as_integer(), Some(2));
        assert_eq!(table["nand"]["t_r"].as_str(), Some("5us"));
    }

    #[test]
    fn a_value_of_any_section_can_be_blamed() {
        for (section, parameters) in SECTIONS {
            for parameter in *parameters {
                let (_, key) = parameter.key.split_once('.').unwrap();
                let read = read(section, key, Value::Array(Vec::new()));
                assert!(read.is_some_and(|read| read.is_err()), "{}", parameter.key);
            }
        }
    }

    #[test]
    fn what_is_not_toml_is_named_with_its_line() {
        let error = Layer::toml("my.toml", "[nand]\nt_r = = 3").unwrap_err();
        assert!(error.to_string().contains("my.toml, line 2"), "{error}");
        assert!(Layer::assignment("nand.t_r").is_err());
        assert!(Layer::assignment("t_r=3us").is_err());
        assert!(Layer::assignment("nand.t_r=").is_err());
    }
}
