//! A crate whose tests are one program names them itself: a file that `tests/all.rs` does not name
//! would be no test, and nobody would be told.

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
