//! A crate whose tests are one program names them itself: a file that `tests/all.rs` does not name
//! would be no test, and nobody would be told. Nor would an example in a comment be, of a crate
//! that says that it has none: to look for them costs a run of the compiler for each crate.

use xtask::{Source, sources};

/// Files of tests that their crate's `tests/all.rs` does not name, and how many files it names.
fn forgotten(sources: &[Source]) -> (Vec<String>, usize) {
    let (mut forgotten, mut count) = (Vec::new(), 0);
    for all in sources {
        let Some(folder) = all.name.strip_suffix("all.rs") else {
            continue;
        };
        if !folder.ends_with("/tests/") {
            continue;
        }
        for source in sources {
            let inner = source.name.strip_prefix(folder).unwrap_or_default();
            let name = (inner.strip_suffix("/mod.rs")).or_else(|| inner.strip_suffix(".rs"));
            let Some(name) = name.filter(|name| !name.contains('/') && *name != "all") else {
                continue;
            };
            count += 1;
            if !all.text.lines().any(|line| line == format!("mod {name};")) {
                forgotten.push(format!(
                    "{}: say `mod {name};` in {}",
                    source.name, all.name
                ));
            }
        }
    }
    (forgotten, count)
}

#[test]
fn every_file_of_tests_is_named_by_its_program() {
    let (forgotten, count) = forgotten(&sources());
    assert!(forgotten.is_empty(), "\n{}\n", forgotten.join("\n"));
    assert!(count > 0, "no crate has its tests in one program");
}

#[test]
fn a_file_that_is_not_named_is_complained_of() {
    let source = |name: &str, text: &str| Source {
        name: format!("crates/a/tests/{name}"),
        text: text.into(),
    };
    let (forgotten, count) = forgotten(&[
        source("all.rs", "mod common;\nmod kept;\n"),
        source("common/mod.rs", ""),
        source("common/part.rs", ""),
        source("kept.rs", ""),
        source("lost.rs", ""),
    ]);
    let said = "crates/a/tests/lost.rs: say `mod lost;` in crates/a/tests/all.rs";
    assert_eq!(forgotten, [said]);
    assert_eq!(count, 3);
}

/// Examples in comments of crates that say `doctest = false`, and how many examples there are.
fn unheard(sources: &[Source]) -> (Vec<String>, usize) {
    let silent: Vec<&str> = sources
        .iter()
        .filter(|source| source.text.lines().any(|line| line == "doctest = false"))
        .filter_map(|source| source.name.strip_suffix("Cargo.toml"))
        .collect();
    let (mut unheard, mut count) = (Vec::new(), 0);
    for source in sources.iter().filter(|source| source.is_one_of(&[".rs"])) {
        let mut is_within = false;
        for (number, line) in source.text.lines().enumerate() {
            let line = line.trim_start();
            let comment = (line.strip_prefix("///")).or_else(|| line.strip_prefix("//!"));
            let Some(kind) = comment.and_then(|text| text.trim().strip_prefix("```")) else {
                continue;
            };
            is_within = !is_within;
            if !is_within || kind == "text" {
                continue;
            }
            count += 1;
            let is_in = |folder: &&&str| source.name.starts_with(&format!("{folder}src/"));
            if let Some(folder) = silent.iter().find(is_in) {
                unheard.push(format!(
                    "{}:{}: take `doctest = false` out of {folder}Cargo.toml",
                    source.name,
                    number + 1
                ));
            }
        }
    }
    (unheard, count)
}

#[test]
fn every_example_in_a_comment_is_a_test() {
    let (unheard, count) = unheard(&sources());
    assert!(unheard.is_empty(), "\n{}\n", unheard.join("\n"));
    assert!(count > 0, "no comment has an example");
}

#[test]
fn an_example_that_is_no_test_is_complained_of() {
    let source = |name: &str, text: &str| Source {
        name: name.into(),
        text: text.into(),
    };
    let example = "/// Says:\n///\n/// ```\n/// assert!(true);\n/// ```\nfn a() {}\n";
    let (unheard, count) = unheard(&[
        source("crates/a/Cargo.toml", "[lib]\ndoctest = false\n"),
        source("crates/a/src/lib.rs", example),
        source("crates/a/src/drawn.rs", "//! ```text\n//! a box\n//! ```\n"),
        source("crates/b/Cargo.toml", "[lib]\n"),
        source("crates/b/src/lib.rs", example),
    ]);
    let said = "crates/a/src/lib.rs:3: take `doctest = false` out of crates/a/Cargo.toml";
    assert_eq!((unheard, count), (vec![said.to_owned()], 2));
}
