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
        let path = path.trim();
        let is_name = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !path.contains('.') || !path.split('.').all(is_name) {
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
        let text = format!("{path} = {literal}");
        Ok(Self::new(format!("--set {assignment}"), text))
    }

    /// The layer without sections that are not among these.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn only(&self, sections: &Sections) -> Result<Self, Problems> {
        let mut table = self.table()?;
        table.retain(|section, _| is_section(sections, section));
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

    /// A layer that was written when some parameters had other names, with their names of now.
    /// What has both is left as it is.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn translated(&self, layer: &Layer) -> Result<Layer, Problems> {
        let mut table = layer.table()?;
        for (old, new) in self.renamed {
            if value_at(&table, new).is_none()
                && let Some(value) = taken(&mut table, old)
            {
                put(&mut table, new, value);
            }
        }
        let text = toml::to_string(&table).expect("what was TOML is TOML");
        Ok(Layer::new(layer.name.clone(), text))
    }

    fn put_over(
        &self,
        layer: &Layer,
        effective: &mut Table,
        problems: &mut Vec<String>,
    ) -> Result<(), Problems> {
        for (section, values) in layer.table()? {
            match (is_section(self.sections, &section), values) {
                (true, Value::Table(values)) => {
                    self.put_section(&layer.name, &section, values, effective, problems);
                }
                (true, _) => problems.push(no_value(&layer.name, &section)),
                (false, _) => problems.push(self.unknown_section(&layer.name, &section)),
            }
        }
        Ok(())
    }

    /// Puts the values of a section, and those of its groups, over what is in `outer`.
    fn put_section(
        &self,
        layer: &str,
        section: &str,
        values: Table,
        outer: &mut Table,
        problems: &mut Vec<String>,
    ) {
        let name = section.rsplit('.').next().expect("a text has a last part");
        let target = outer
            .entry(name)
            .or_insert_with(|| Value::Table(Table::new()));
        let target = target.as_table_mut().expect("sections are tables");
        for (key, value) in values {
            let path = format!("{section}.{key}");
            match (is_section(self.sections, &path), value) {
                (true, Value::Table(inner)) => {
                    self.put_section(layer, &path, inner, target, problems);
                }
                (true, _) => problems.push(no_value(layer, &path)),
                (false, value) => match self.has(section, &path) {
                    true => {
                        let wrong = value::problem(self, section, &key, &value);
                        problems.extend(wrong.map(|wrong| problem(layer, &path, &wrong)));
                        target.insert(key, value);
                    }
                    false if value.is_table() => {
                        problems.push(self.unknown_section(layer, &path));
                    }
                    false => problems.push(self.unknown_key(layer, &path)),
                },
            }
        }
    }

    fn has(&self, section: &str, path: &str) -> bool {
        let mut sections = self.sections.iter();
        let found = sections.find(|(name, _)| *name == section);
        found.is_some_and(|(_, keys)| keys.iter().any(|parameter| parameter.key == path))
    }

    fn unknown_section(&self, layer: &str, section: &str) -> String {
        let names: Vec<&str> = self.sections.iter().map(|(name, _)| *name).collect();
        unknown(layer, "section", section, &names)
    }

    /// A key that nothing has, or has any more. What it may have meant is among its section's keys.
    fn unknown_key(&self, layer: &str, path: &str) -> String {
        if let Some((old, new)) = self.renamed.iter().find(|(old, _)| *old == path) {
            return format!("{layer}: {old} is called {new} now; write that");
        }
        let first = |key: &'static str| key.split('.').next();
        let of_section = self
            .sections
            .iter()
            .filter(|(name, _)| first(name) == path.split('.').next());
        let keys = of_section.flat_map(|(_, keys)| keys.iter().map(|parameter| parameter.key));
        unknown(layer, "key", path, &keys.collect::<Vec<&str>>())
    }
}

/// Whether there is a section of that name, or one that is a group of it.
fn is_section(sections: &Sections, path: &str) -> bool {
    sections.iter().any(|(name, _)| {
        let rest = name.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

fn no_value(layer: &str, section: &str) -> String {
    format!("{layer}: {section} is a section, not a value")
}

fn value_at<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        Some((section, rest)) => value_at(table.get(section)?.as_table()?, rest),
        None => table.get(path),
    }
}

fn taken(table: &mut Table, path: &str) -> Option<Value> {
    match path.split_once('.') {
        Some((section, rest)) => taken(table.get_mut(section)?.as_table_mut()?, rest),
        None => table.remove(path),
    }
}

/// Puts a value where nothing is; what is no section where one would be stays, to be refused.
fn put(table: &mut Table, path: &str, value: Value) {
    let Some((section, rest)) = path.split_once('.') else {
        table.insert(path.to_string(), value);
        return;
    };
    let inner = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    if let Some(inner) = inner.as_table_mut() {
        put(inner, rest, value);
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

    units::parameters! {
        /// A group.
        pub struct Wear: "nand.wear" {
            /// A number.
            cycles: u32, "any", "ours";
        }
    }

    const KNOWN: Known = crate::known! { "nand": Flash, "nand.wear": Wear }
        .renamed(&[("nand.wear_cycles", "nand.wear.cycles")]);

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
             there are nand, nand.wear"
        );
        assert!(problems(&[Layer::new("b", "[nand]\nt_r = = 3")]).starts_with("b, line 2: "));
    }

    #[test]
    fn groups_are_sections_of_their_own() {
        let layers = [
            Layer::new("a", "[nand]\nchannels = 4\n[nand.wear]\ncycles = 3"),
            Layer::assignment("nand.wear.cycles=5").unwrap(),
        ];
        let table = KNOWN.table(&layers).unwrap();
        assert_eq!(table["nand"]["wear"]["cycles"].as_integer(), Some(5));
        let values = crate::values(&table);
        let pairs: Vec<_> = values
            .iter()
            .map(|(key, text)| (&key[..], &text[..]))
            .collect();
        assert_eq!(pairs, [("nand.channels", "4"), ("nand.wear.cycles", "5")]);
        for (text, why) in [
            ("nand.wear = 3", "nand.wear is a section, not a value"),
            (
                "nand.waer.cycles = 3",
                "unknown section nand.waer; did you mean nand.wear?",
            ),
            (
                "nand.wear.cylces = 3",
                "unknown key nand.wear.cylces; did you mean nand.wear.cycles?",
            ),
            (
                "nand.wear.cycles = -1",
                "nand.wear.cycles: -1 is not a whole number from 0 to 4294967295",
            ),
            (
                "nand.wear.cycles.x = 1",
                "nand.wear.cycles: { x = 1 } is not a whole number from 0 to 4294967295",
            ),
        ] {
            assert_eq!(problems(&[Layer::new("b", text)]), format!("b: {why}"));
        }
        for malformed in ["nand=1", ".=1", "nand..wear=1", "nand.wear.=1"] {
            let error = Layer::assignment(malformed).unwrap_err().to_string();
            assert!(error.contains("write it as section.key=value"), "{error}");
        }
    }

    #[test]
    fn a_key_of_before_is_told_its_name_of_now_or_translated() {
        let old = Layer::new("a", "[nand]\nwear_cycles = 7");
        let told = "a: nand.wear_cycles is called nand.wear.cycles now; write that";
        assert_eq!(problems(std::slice::from_ref(&old)), told);
        let now = KNOWN.translated(&old).unwrap();
        let table = KNOWN.table(&[now]).unwrap();
        assert_eq!(table["nand"]["wear"]["cycles"].as_integer(), Some(7));
        let both = Layer::new("a", "[nand]\nwear_cycles = 7\n[nand.wear]\ncycles = 8");
        assert_eq!(problems(&[KNOWN.translated(&both).unwrap()]), told);
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
