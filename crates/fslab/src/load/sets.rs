//! Values of a load that somebody sets over its file: `load.rounds=1000`,
//! `load.files.mail.entries=600000`, `load.threads.user.count=24`.

use super::error::LoadError;
use super::spec::Load;
use serde::Deserialize;
use toml::{Table, Value};

const FORM: &str = "write it as load.rounds=1000 or load.files.NAME.entries=1000";

impl Load {
    /// Reads and checks a load with values of somebody's over those of its text. Of files and
    /// threads the name follows, with `_` for a space.
    ///
    /// # Errors
    /// As [`Load::parse`]; there is no place for a value.
    pub fn parse_with(file: &str, text: &str, sets: &[&str]) -> Result<Self, LoadError> {
        let load = Self::parse(file, text)?;
        if sets.is_empty() {
            return Ok(load);
        }
        let mut table: Table = toml::from_str(text).expect("it was read as a load");
        for assignment in sets {
            set(&mut table, assignment).map_err(|problem| wrong(assignment, &problem))?;
        }
        let said = sets.join(", ");
        let load = Self::deserialize(Value::Table(table))
            .map_err(|error| wrong(&said, &error.message().trim().replace('\n', ", ")))?;
        match load.problem() {
            Some(problem) => Err(wrong(&said, &problem)),
            None => Ok(load),
        }
    }
}

fn wrong(assignment: &str, problem: &str) -> LoadError {
    LoadError::Setting(format!("--set {assignment}: {problem}"))
}

fn set(table: &mut Table, assignment: &str) -> Result<(), String> {
    let path = assignment.strip_prefix("load.").unwrap_or(assignment);
    let (path, text) = path.split_once('=').ok_or(FORM)?;
    let mut steps: Vec<&str> = path.split('.').collect();
    let last = steps.pop().ok_or(FORM)?;
    let mut at = table;
    let mut steps = steps.into_iter();
    while let Some(step) = steps.next() {
        at = match at.get_mut(step) {
            Some(Value::Table(inner)) => inner,
            Some(Value::Array(all)) => named(all, step, steps.next().ok_or(FORM)?)?,
            _ => return Err(format!("the load has no {step}; {FORM}")),
        };
    }
    at.insert(last.to_owned(), value(text));
    Ok(())
}

/// The table of this name.
fn named<'a>(all: &'a mut [Value], what: &str, name: &str) -> Result<&'a mut Table, String> {
    let called = |value: &Value| {
        let own = value.get("name").and_then(Value::as_str).unwrap_or("");
        own.replace(' ', "_")
    };
    let names: Vec<String> = all.iter().map(called).collect();
    let found = all.iter_mut().zip(&names).find(|(_, own)| *own == name);
    match found {
        Some((Value::Table(table), _)) => Ok(table),
        _ => Err(format!(
            "there are no {what} {name}; there are {}",
            names.join(", ")
        )),
    }
}

/// A number or a switch; other text is text.
fn value(text: &str) -> Value {
    let read: Option<Table> = toml::from_str(&format!("value = {text}")).ok();
    let read = read.and_then(|mut table| table.remove("value"));
    read.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::load::shipped;

    #[test]
    fn values_of_a_load_are_set_over_its_file() {
        let varmail = shipped("varmail").unwrap();
        let sets = [
            "load.rounds=7",
            "load.files.mail.entries=600",
            "load.threads.user.count=24",
            "load.files.mail.existing=50%",
        ];
        let load = varmail.load_with(&sets).unwrap();
        assert_eq!((load.rounds, load.files[0].entries), (Some(7), 600));
        assert_eq!(load.threads[0].count, 24);
        assert_eq!(load.files[0].existing, units::Ratio::percent(50));
        let oltp = shipped("oltp").unwrap();
        let load = oltp
            .load_with(&["load.threads.log_writer.count=2"])
            .unwrap();
        assert_eq!(load.threads[0].count, 2);
        let ycsb = shipped("ycsb-a").unwrap();
        let load = ycsb.load_with(&["load.store.records=5"]).unwrap();
        assert_eq!(load.store.unwrap().records, 5);
    }

    #[test]
    fn what_has_no_place_in_a_load_is_one_sentence() {
        let varmail = shipped("varmail").unwrap();
        for (assignment, part) in [
            ("load.rounds", "write it as load.rounds=1000"),
            ("load.files.male.entries=3", "no files male; there are mail"),
            ("load.stores.records=3", "the load has no stores"),
            ("load.colour=red", "unknown field `colour`"),
            ("load.rounds=many", "invalid type"),
            ("load.threads.user.count=0", "count must be 1 to 4096"),
            ("load.files=3", "invalid type"),
        ] {
            let error = varmail.load_with(&[assignment]).unwrap_err().to_string();
            let is_named = error.starts_with(&format!("--set {assignment}: "));
            assert!(is_named && error.contains(part), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
