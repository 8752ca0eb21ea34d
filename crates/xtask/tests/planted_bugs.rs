//! What `scripts/planted-bugs` and those beside it plant must have a place: a bug whose
//! text has gone proves nothing. The scripts take minutes, this test reads files.

use toml::Table;
use xtask::{Source, sources};

const FIRMWARE: &str = "crates/firmware/";
/// Whose tests list bugs, and what they are planted in.
const PLANTED: [(&str, &str); 3] = [
    (FIRMWARE, FIRMWARE),
    ("crates/fslab/", "crates/bytefs/"),
    ("crates/dax/", "crates/"),
];

/// What is wrong with the tables of these files, a sentence each, and how many bugs were looked at.
fn complaints(sources: &[Source]) -> (Vec<String>, usize) {
    let planted_in = |source: &Source| {
        let (_, place) = PLANTED.into_iter().find(|(tests, _)| {
            let name = source.name.strip_prefix(tests);
            name.and_then(|name| name.strip_prefix("tests/planted_bugs"))
                .is_some_and(|rest| rest.ends_with(".toml"))
        })?;
        Some(place)
    };
    let (mut wrong, mut names) = (Vec::new(), Vec::<String>::new());
    let tables = sources
        .iter()
        .filter_map(|source| Some((source, planted_in(source)?)));
    for (table, place) in tables {
        let content: Table = table.text.parse().expect("a table of bugs is TOML");
        let bugs = content["bug"].as_array().expect("it lists bugs");
        for bug in bugs {
            let text = |key: &str| bug[key].as_str().expect("keys of a bug are texts");
            let name = text("name");
            let complaint = misplacement(sources, (place, text("file")), text("find"))
                .or_else(|| (text("find") == text("replace")).then(|| "changes nothing".into()))
                .or_else(|| {
                    names
                        .contains(&name.to_owned())
                        .then(|| "is there twice".into())
                });
            wrong.extend(complaint.map(|what| format!("{}: \"{name}\" {what}", table.name)));
            names.push(name.to_owned());
        }
    }
    (wrong, names.len())
}

/// Why a bug cannot be planted, or nothing.
fn misplacement(sources: &[Source], (place, file): (&str, &str), find: &str) -> Option<String> {
    let Some(source) = (sources.iter()).find(|source| source.name == format!("{place}{file}"))
    else {
        return Some(format!("is in {file}, which is not there"));
    };
    let count = source.text.matches(find).count();
    (count != 1).then(|| format!("replaces a text that {file} has {count} times, not once"))
}

#[test]
fn every_planted_bug_has_its_place() {
    let (wrong, count) = complaints(&sources());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    assert!(count > 0, "no table has a bug");
}

#[test]
fn a_bug_without_its_place_is_complained_of() {
    let bug = |name: &str, file: &str, find: &str, replace: &str| {
        format!(
            "[[bug]]\nname = '{name}'\nfile = '{file}'\nfind = '{find}'\nreplace = '{replace}'\n"
        )
    };
    let source = |name: &str, text: String| Source {
        name: format!("{FIRMWARE}{name}"),
        text,
    };
    let bugs = [
        bug("sound", "src/a.rs", "one", "no"),
        bug("stale", "src/a.rs", "gone", "no"),
        bug("vague", "src/a.rs", "two", "no"),
        bug("moved", "src/b.rs", "one", "no"),
        bug("void", "src/a.rs", "one", "one"),
        bug("sound", "src/a.rs", "one", "no"),
    ];
    let (wrong, count) = complaints(&[
        source("src/a.rs", "one two two".into()),
        source("tests/planted_bugs_of_a_test.toml", bugs.concat()),
    ]);
    let table = "crates/firmware/tests/planted_bugs_of_a_test.toml";
    let said = [
        "\"stale\" replaces a text that src/a.rs has 0 times, not once",
        "\"vague\" replaces a text that src/a.rs has 2 times, not once",
        "\"moved\" is in src/b.rs, which is not there",
        "\"void\" changes nothing",
        "\"sound\" is there twice",
    ];
    assert_eq!(wrong, said.map(|what| format!("{table}: {what}")));
    assert_eq!(count, bugs.len());
}
