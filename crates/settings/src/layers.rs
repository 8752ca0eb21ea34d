//! Layers of configuration and how they are put over each other.

use crate::{Known, Problems, value};
use toml::{Table, Value};
use units::parameter::Sections;

/// One layer: a name for messages, and a TOML text.
#[derive(Clone, Debug)]
pub struct Layer {
    /// What the user knows it by: "machine demo", "my.toml", "--set ssd.dram=1MiB".
    pub name: String,
    /// `section.key = value`.
    pub text: String,
}

impl Layer {
    /// A layer from a TOML text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }

    /// A layer from `section.key=value` as given to `--set`; quotes around text may be left out.
    ///
    /// # Errors
    /// If it has not that form.
    pub fn assignment(assignment: &str) -> Result<Self, Problems> {
        let malformed = || {
            Problems::one(format!(
                "--set {assignment}: write it as section.key=value, for example --set ssd.dram=256MiB"
            ))
        };
        let (path, value) = assignment.split_once('=').ok_or_else(malformed)?;
        let (section, key) = path.trim().split_once('.').ok_or_else(malformed)?;
        let is_name = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !is_name(section) || !is_name(key) {
            return Err(malformed());
        }
        let value = value.trim();
        let wrong = |problem| Problems::one(format!("--set {assignment}: {problem}"));
        if value.is_empty() {
            return Err(wrong("there is no value; write one behind the ="));
        }
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && value.parse::<i64>().is_err() {
            return Err(wrong("the number is too large"));
        }
        let literal = match value.parse::<i64>() {
            Ok(number) => Value::Integer(number),
            Err(_) => match value {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                text => Value::String(text.trim_matches('"').to_string()),
            },
        };
        let table = Table::from_iter([(
            section.to_string(),
            Value::Table(Table::from_iter([(key.to_string(), literal)])),
        )]);
        let text = toml::to_string(&table).expect("one assignment is TOML");
        Ok(Self::new(format!("--set {assignment}"), text))
    }

    /// The layer without sections that are not among these.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn only(&self, sections: &Sections) -> Result<Self, Problems> {
        let mut table = self.table()?;
        table.retain(|section, _| sections.iter().any(|(name, _)| *name == section));
        let text = toml::to_string(&table).expect("what was TOML is TOML");
        Ok(Self::new(self.name.clone(), text))
    }

    fn table(&self) -> Result<Table, Problems> {
        self.text.parse::<Table>().map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| self.text[..span.start].matches('\n').count() + 1);
            Problems::one(format!("{}, line {line}: {}", self.name, error.message()))
        })
    }
}

impl Known {
    /// All layers put over each other; a layer's keys must be known and its values of their kinds,
    /// which is checked layer by layer so that the message names the layer.
    ///
    /// # Errors
    /// A layer that is not TOML, unknown keys, or values of another kind than the parameter's.
    pub fn table(&self, layers: &[Layer]) -> Result<Table, Problems> {
        let (mut effective, mut problems) = (Table::new(), Vec::new());
        for layer in layers {
            self.put_over(layer, &mut effective, &mut problems)?;
        }
        match problems.is_empty() {
            true => Ok(effective),
            false => Err(Problems(problems)),
        }
    }

    fn put_over(
        &self,
        layer: &Layer,
        effective: &mut Table,
        problems: &mut Vec<String>,
    ) -> Result<(), Problems> {
        let Layer { name, .. } = layer;
        for (section, values) in layer.table()? {
            let found = self.sections.iter().find(|(name, _)| *name == section);
            let Some((_, parameters)) = found else {
                let names: Vec<&str> = self.sections.iter().map(|(name, _)| *name).collect();
                problems.push(unknown(name, "section", &section, &names));
                continue;
            };
            let Value::Table(values) = values else {
                problems.push(format!("{name}: {section} is a section, not a value"));
                continue;
            };
            let keys: Vec<&str> = parameters.iter().map(|parameter| parameter.key).collect();
            let target = effective
                .entry(section.clone())
                .or_insert_with(|| Value::Table(Table::new()));
            let target = target.as_table_mut().expect("sections are tables");
            for (key, value) in values {
                let path = format!("{section}.{key}");
                if !keys.contains(&path.as_str()) {
                    problems.push(unknown(name, "key", &path, &keys));
                    continue;
                }
                let wrong = value::problem(self, &section, &key, &value);
                problems.extend(wrong.map(|wrong| problem(name, &path, &wrong)));
                target.insert(key, value);
            }
        }
        Ok(())
    }
}

/// A problem of a value; what `--set` says names the key already.
fn problem(layer: &str, path: &str, problem: &str) -> String {
    if layer.starts_with("--set ") {
        format!("{layer}: {problem}")
    } else {
        format!("{layer}: {path}: {problem}")
    }
}

fn unknown(layer: &str, what: &str, found: &str, known: &[&str]) -> String {
    let name = nearest(found, known);
    let hint = match what {
        _ if distance(name, found) <= found.len() / 2 => format!("; did you mean {name}?"),
        "section" => format!("; there are {}", known.join(", ")),
        _ => String::new(),
    };
    format!("{layer}: unknown {what} {found}{hint}")
}

/// The known name that is most like `found`.
///
/// # Panics
/// If nothing is known.
pub fn nearest<'a>(found: &str, known: &[&'a str]) -> &'a str {
    let nearest = known.iter().min_by_key(|name| distance(name, found));
    nearest.expect("something is known")
}

/// Levenshtein distance.
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    units::parameters! {
        /// A section.
        pub struct Flash: "nand" {
            /// A time.
            t_r: units::Picos, "any", "ours";
            /// A number.
            channels: u32, "any", "ours";
        }
    }

    const KNOWN: Known = crate::known! { "nand": Flash };

    fn problems(layers: &[Layer]) -> String {
        KNOWN.table(layers).unwrap_err().to_string()
    }

    #[test]
    fn later_layers_win_key_by_key() {
        let layers = [
            Layer::new("a", "[nand]\nt_r = \"5us\"\nchannels = 4"),
            Layer::assignment("nand.channels=2").unwrap(),
        ];
        let table = KNOWN.table(&layers).unwrap();
        assert_eq!(table["nand"]["channels"].as_integer(), Some(2));
        assert_eq!(table["nand"]["t_r"].as_str(), Some("5us"));
    }

    #[test]
    fn everything_that_is_wrong_is_said_with_its_layer() {
        let layers = [
            Layer::new("a", "[nand]\nt_r = 5\nchannel = 4"),
            Layer::assignment("cpu.cores=2").unwrap(),
        ];
        assert_eq!(
            problems(&layers),
            "a: unknown key nand.channel; did you mean nand.channels?; a: nand.t_r: 5 is not a span \
             of time such as \"3us\", \"158ns\" or \"250ps\"; --set cpu.cores=2: unknown section cpu; \
             there are nand"
        );
        assert!(problems(&[Layer::new("b", "[nand]\nt_r = = 3")]).starts_with("b, line 2: "));
    }

    #[test]
    fn no_layer_is_blamed_for_what_none_sets() {
        #[derive(Debug, serde::Deserialize)]
        struct All {
            #[allow(dead_code, reason = "it cannot be read")]
            nand: Flash,
        }
        let layers = [Layer::new("a", "# no t_r\n[nand]\nchannels = 4")];
        let missing = KNOWN.configuration::<All>(&layers).unwrap_err();
        assert_eq!(missing.to_string(), "missing field `t_r`");
    }

    #[test]
    fn a_layer_can_be_had_without_sections_that_others_want() {
        let all = Layer::new("a", "[cpu]\ncores = 8\n[nand]\nchannels = 4");
        let table = KNOWN.table(&[all.only(KNOWN.sections).unwrap()]).unwrap();
        assert_eq!(table.len(), 1);
        assert!(problems(&[all]).contains("unknown section cpu"));
    }
}
