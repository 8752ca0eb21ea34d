//! A crate whose tests are one program names them itself: a file that `tests/all.rs` does not name
//! would be no test, and nobody would be told. Nor would an example in a comment be, of a crate
//! that says that it has none: to look for them costs a run of the compiler for each crate. Nor
//! would a test be in a target that says `test = false`.

use toml::Table;
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

/// Tests of targets that say `test = false`, and how many files have tests. Without a tested
/// library a package's files are untested; beside one, those that the library does not name.
fn unrun(sources: &[Source]) -> (Vec<String>, usize) {
    let (mut unrun, mut count) = (Vec::new(), 0);
    for manifest in sources {
        let Some(folder) = manifest.name.strip_suffix("Cargo.toml") else {
            continue;
        };
        let table: Table = manifest.text.parse().expect("a manifest is TOML");
        let is_tested = |target: Option<&toml::Value>| {
            let told = target.and_then(|target| target.get("test")?.as_bool());
            told.unwrap_or(true)
        };
        let bins = table.get("bin").and_then(|bins| bins.as_array());
        let is_lib_tested = is_tested(table.get("lib"));
        let is_bin_tested = bins.is_none_or(|bins| bins.iter().all(|bin| is_tested(Some(bin))));
        let inner = |source: &'_ Source| -> Option<String> {
            let name = source.name.strip_prefix(folder)?.strip_prefix("src/")?;
            let module = name.split('/').next()?.trim_end_matches(".rs");
            source.is_one_of(&[".rs"]).then(|| module.to_owned())
        };
        let main = sources
            .iter()
            .find(|one| one.name == format!("{folder}src/main.rs"));
        let lib = sources
            .iter()
            .find(|one| one.name == format!("{folder}src/lib.rs"));
        let names = |file: Option<&Source>, module: &str| {
            let said = format!("mod {module};");
            file.is_some_and(|file| file.text.lines().any(|line| line.ends_with(&said)))
        };
        for source in sources {
            let Some(module) = inner(source) else {
                continue;
            };
            if !source
                .text
                .lines()
                .any(|line| line.trim_start() == "#[test]")
            {
                continue;
            }
            count += 1;
            let is_of_main = module == "main" || names(main, &module);
            let is_of_lib = module == "lib" || names(lib, &module);
            if is_of_main && is_bin_tested || is_of_lib && is_lib_tested {
                continue;
            }
            unrun.push(format!(
                "{}: no program of tests has its tests",
                source.name
            ));
        }
    }
    (unrun, count)
}

#[test]
fn every_test_is_in_a_program() {
    let (unrun, count) = unrun(&sources());
    assert!(unrun.is_empty(), "\n{}\n", unrun.join("\n"));
    assert!(count > 0, "no file has tests");
}

#[test]
fn a_test_that_no_program_has_is_complained_of() {
    let source = |name: &str, text: &str| Source {
        name: name.into(),
        text: text.into(),
    };
    let test = "#[test]\nfn a() {}\n";
    let (unrun, count) = unrun(&[
        source("crates/a/Cargo.toml", "[lib]\ntest = false\n"),
        source("crates/a/src/lib.rs", "pub mod b;\n"),
        source("crates/a/src/b/tests.rs", test),
        source(
            "crates/c/Cargo.toml",
            "[[bin]]\nname = \"c\"\ntest = false\n",
        ),
        source("crates/c/src/lib.rs", "pub mod kept;\n"),
        source("crates/c/src/kept.rs", test),
        source("crates/c/src/main.rs", "mod lost;\n"),
        source("crates/c/src/lost.rs", test),
    ]);
    let said = ["crates/a/src/b/tests.rs", "crates/c/src/lost.rs"];
    assert_eq!(
        unrun,
        said.map(|name| format!("{name}: no program of tests has its tests"))
    );
    assert_eq!(count, 3);
}
