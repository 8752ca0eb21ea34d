//! Layers of configuration and how they are put over each other.

use super::{SECTIONS, value};
use crate::error::SimError;
use toml::{Table, Value};

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
    pub fn from_override(assignment: &str) -> Result<Self, SimError> {
        let malformed = || {
            SimError::Config(vec![format!(
                "--set {assignment}: write it as section.key=value, for example --set ssd.dram=256MiB"
            )])
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
        let wrong = |problem| SimError::Config(vec![format!("--set {assignment}: {problem}")]);
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

    fn table(&self) -> Result<Table, SimError> {
        self.text.parse::<Table>().map_err(|error| {
            let line = error
                .span()
                .map_or(1, |span| self.text[..span.start].matches('\n').count() + 1);
            SimError::Config(vec![format!(
                "{}, line {line}: {}",
                self.name,
                error.message()
            )])
        })
    }
}

/// All layers put over each other; a layer's keys must be known and its values of their kinds,
/// which is checked layer by layer so that the message names the layer.
///
/// # Errors
/// A layer that is not TOML, unknown keys, or values of another kind than the parameter's.
pub fn effective_table(layers: &[Layer]) -> Result<Table, SimError> {
    let mut effective = Table::new();
    let mut problems = Vec::new();
    for layer in layers {
        for (section, values) in layer.table()? {
            let Some((_, parameters)) = SECTIONS.iter().find(|(name, _)| *name == section) else {
                let names: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
                problems.push(unknown(&layer.name, "section", &section, &names));
                continue;
            };
            let Value::Table(values) = values else {
                problems.push(format!(
                    "{}: {section} is a section, not a value",
                    layer.name
                ));
                continue;
            };
            let keys: Vec<&str> = parameters.iter().map(|parameter| parameter.key).collect();
            for (key, value) in values {
                let path = format!("{section}.{key}");
                if keys.contains(&path.as_str()) {
                    problems.extend(
                        value::problem(&section, &key, &value)
                            .map(|problem| self::problem(&layer.name, &path, &problem)),
                    );
                    let target = effective
                        .entry(section.clone())
                        .or_insert_with(|| Value::Table(Table::new()));
                    target
                        .as_table_mut()
                        .expect("sections are tables")
                        .insert(key, value);
                } else {
                    problems.push(unknown(&layer.name, "key", &path, &keys));
                }
            }
        }
    }
    if problems.is_empty() {
        Ok(effective)
    } else {
        Err(SimError::Config(problems))
    }
}

/// A type error found when the layers were already one: names the last layer that set the value.
pub(super) fn blame(layers: &[Layer], message: &str) -> String {
    let quoted = message
        .split('"')
        .nth(1)
        .or_else(|| message.split('`').nth(1))
        .unwrap_or("");
    let culprit = layers
        .iter()
        .rev()
        .find(|layer| !quoted.is_empty() && layer.text.contains(quoted));
    match culprit {
        Some(layer) => format!("{}: {}", layer.name, message.trim().replace('\n', " ")),
        None => message.trim().replace('\n', " "),
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
    if distance(name, found) <= found.len() / 2 {
        format!("{layer}: unknown {what} {found}; did you mean {name}?")
    } else {
        format!("{layer}: unknown {what} {found}")
    }
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

    #[test]
    fn later_layers_win_key_by_key() {
        let layers = [
            Layer::new("a", "[run]\nseed = 1\nwarmup = \"10%\""),
            Layer::from_override("run.seed=7").unwrap(),
        ];
        let table = effective_table(&layers).unwrap();
        assert_eq!(table["run"]["seed"].as_integer(), Some(7));
        assert_eq!(table["run"]["warmup"].as_str(), Some("10%"));
    }

    #[test]
    fn an_unknown_key_names_its_layer_and_the_nearest_key() {
        let error = effective_table(&[Layer::new("my.toml", "[run]\nsed = 1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "configuration: my.toml: unknown key run.sed; did you mean run.seed?"
        );
        let error = effective_table(&[Layer::new("my.toml", "[zzzzzzzzzz]\nx = 1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "configuration: my.toml: unknown section zzzzzzzzzz"
        );
    }

    #[test]
    fn a_value_that_is_missing_or_too_large_is_refused_with_its_key() {
        for (assignment, problem) in [
            ("ssd.dram=", "there is no value"),
            ("run.seed=99999999999999999999", "the number is too large"),
        ] {
            let error = Layer::from_override(assignment).unwrap_err().to_string();
            let start = format!("configuration: --set {assignment}: {problem}");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_kind_names_the_layer_that_set_it_and_its_key() {
        let layers = [
            Layer::new("my.toml", "[ssd]\ndram = true"),
            Layer::from_override("ssd.cache_ways=true").unwrap(),
        ];
        assert_eq!(
            effective_table(&layers).unwrap_err().to_string(),
            "configuration: my.toml: ssd.dram: true is not a size such as \"64MiB\"; --set \
             ssd.cache_ways=true: true is not a whole number from 0 to 4294967295"
        );
    }

    #[test]
    fn text_that_is_not_toml_names_the_line() {
        let error = effective_table(&[Layer::new("my.toml", "[run]\nseed = = 1")]).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("configuration: my.toml, line 2:"),
            "{error}"
        );
    }

    #[test]
    fn overrides_need_section_key_and_value() {
        for bad in [
            "seed",
            "seed=1",
            "run.=1",
            ".seed=1",
            "run.a.b=1",
            "run.se ed=1",
        ] {
            assert!(Layer::from_override(bad).is_err(), "{bad}");
        }
        assert!(
            Layer::from_override("ssd.dram = 256MiB")
                .unwrap()
                .text
                .contains("\"256MiB\"")
        );
        assert!(
            Layer::from_override("design.write_log=true")
                .unwrap()
                .text
                .contains("= true")
        );
    }
}
