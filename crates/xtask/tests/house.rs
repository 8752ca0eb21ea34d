//! What every file of the tree keeps to.

use std::path::Path;
use xtask::{Source, root, sources};

const CODE: [&str; 3] = [".rs", ".py", ".sh"];
const MOST_LINES: usize = 700;
const MOST_COLUMNS: usize = 100;

/// Words that do not belong into the tree, each with the reason. Written in two parts, so that this
/// file does not hold them.
const FORBIDDEN: [(&str, &str); 11] = [
    (concat!("TO", "DO"), "work left open belongs into an issue"),
    (concat!("FIX", "ME"), "work left open belongs into an issue"),
    (
        concat!("to", "do!("),
        "an operation that is not there must not be callable",
    ),
    (
        concat!("unimpl", "emented!("),
        "an operation that is not there must not be callable",
    ),
    (
        concat!("#[ig", "nore"),
        "a test that does not run proves nothing",
    ),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (
        concat!("pypi", ".org"),
        "the host of a registry is the user's choice",
    ),
    (
        concat!("crates", ".io"),
        "the host of a registry is the user's choice",
    ),
    (
        concat!("deb.debian", ".org"),
        "the host of a registry is the user's choice",
    ),
];

fn complain(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn code() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(|source| {
        source.is_one_of(&CODE) || source.text.starts_with("#!") && !source.name.ends_with(".lock")
    })
}

#[test]
fn no_file_of_code_is_longer_than_a_person_reads_at_a_sitting() {
    let long: Vec<_> = code()
        .map(|source| (source.name.clone(), source.text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(name, lines)| format!("{name}: {lines} lines; is it one thing? Above {MOST_LINES} nobody reads it at a sitting"))
        .collect();
    complain(&long);
}

/// Code is the formatters' business, which know what can be broken; comments are ours.
#[test]
fn no_comment_is_wider_than_a_hundred_columns() {
    let mut wide = Vec::new();
    for source in code() {
        for (index, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            let is_comment = line.trim_start().starts_with(['/', '#']);
            if is_comment && columns > MOST_COLUMNS {
                wide.push(format!("{}:{}: {columns} columns", source.name, index + 1));
            }
        }
    }
    complain(&wide);
}

#[test]
fn no_file_holds_a_forbidden_word() {
    let mut found = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| !source.name.ends_with("Cargo.lock"))
    {
        for (word, reason) in FORBIDDEN {
            for (index, line) in source.text.lines().enumerate() {
                if line.contains(word) {
                    found.push(format!("{}:{}: {word}: {reason}", source.name, index + 1));
                }
            }
        }
    }
    complain(&found);
}

#[test]
fn every_file_of_code_ends_with_one_newline_and_has_no_tab() {
    let mut broken = Vec::new();
    for source in code() {
        if !source.text.is_empty()
            && (!source.text.ends_with('\n') || source.text.ends_with("\n\n"))
        {
            broken.push(format!("{}: must end with one newline", source.name));
        }
        if source.text.contains('\t') {
            broken.push(format!("{}: has a tab", source.name));
        }
    }
    complain(&broken);
}

#[test]
fn every_rust_crate_forbids_or_accounts_for_unsafe_code() {
    let broken: Vec<_> = sources()
        .into_iter()
        .filter(|source| source.name.starts_with("crates/") && source.name.ends_with("/src/lib.rs"))
        .filter(|source| !source.text.contains("#![forbid(unsafe_code)]"))
        // Files as memory, in one module.
        .filter(|source| source.name != "crates/device/src/lib.rs")
        // A hint to the processor, which is one instruction.
        .filter(|source| source.name != "crates/units/src/lib.rs")
        // Memory of two processes, in one module.
        .filter(|source| source.name != "crates/shm/src/lib.rs")
        // The cycle counter and rings and calls of the kernel, in a module each.
        .filter(|source| source.name != "crates/inloop/src/lib.rs")
        // Pointers of C, in one module.
        .filter(|source| source.name != "crates/capi/src/lib.rs")
        // PyO3's macros expand to unsafe code; the workspace's lint denies ours.
        .filter(|source| source.name != "crates/bindings/src/lib.rs")
        .map(|source| format!("{}: lacks #![forbid(unsafe_code)]", source.name))
        .collect();
    complain(&broken);
}

fn unsafe_files(below: &str) -> Vec<String> {
    sources()
        .into_iter()
        .filter(|source| source.name.starts_with(below))
        .filter(|source| source.text.contains(concat!("allow(unsafe", "_code)")))
        .map(|source| source.name)
        .collect()
}

#[test]
fn the_device_has_unsafe_code_in_one_place_only() {
    assert_eq!(
        unsafe_files("crates/device/"),
        ["crates/device/src/mapped.rs"]
    );
}

#[test]
fn units_have_unsafe_code_in_one_place_only() {
    assert_eq!(
        unsafe_files("crates/units/"),
        ["crates/units/src/foresee.rs"]
    );
}

#[test]
fn the_library_for_c_has_unsafe_code_in_one_place_only() {
    assert_eq!(unsafe_files("crates/capi/"), ["crates/capi/src/calls.rs"]);
}

#[test]
fn shared_memory_has_unsafe_code_in_one_place_only() {
    assert_eq!(unsafe_files("crates/shm/"), ["crates/shm/src/region.rs"]);
}

#[test]
fn the_loop_has_unsafe_code_in_three_places_only() {
    let wanted = ["cycles.rs", "drive/ring.rs", "nvme/door.rs"];
    let wanted = wanted.map(|name| format!("crates/inloop/src/{name}"));
    assert_eq!(unsafe_files("crates/inloop/"), wanted);
}

#[test]
fn the_programs_have_unsafe_code_in_three_places_only() {
    let found: Vec<_> = sources()
        .into_iter()
        .filter(|source| source.name.starts_with("workloads/") && source.is_one_of(&[".rs"]))
        .filter(|source| source.text.contains(concat!("allow(unsafe", "_code)")))
        .map(|source| source.name)
        .collect();
    assert_eq!(
        found,
        ["memory", "roi", "wide"].map(|name| format!("workloads/src/{name}.rs"))
    );
}

#[test]
fn every_link_between_documents_resolves() {
    let mut broken = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| source.name.ends_with(".md"))
    {
        let here = root().join(&source.name);
        let folder = here.parent().unwrap_or(Path::new(""));
        for target in links(&source.text) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() {
                here.clone()
            } else {
                folder.join(file)
            };
            let is_there = file.exists()
                && (heading.is_empty()
                    || std::fs::read_to_string(file)
                        .is_ok_and(|text| anchors(&text).iter().any(|anchor| anchor == heading)));
            if !is_there {
                broken.push(format!(
                    "{}: link to {target}, which is not there",
                    source.name
                ));
            }
        }
    }
    complain(&broken);
}

#[test]
fn every_page_is_in_the_index() {
    let index = std::fs::read_to_string(root().join("docs/README.md")).expect("the index is there");
    let listed = links(&index);
    let missing: Vec<_> = sources()
        .into_iter()
        .filter_map(|source| source.name.strip_prefix("docs/").map(str::to_string))
        .filter(|page| page.ends_with(".md") || page.ends_with(".ipynb"))
        .filter(|page| page != "README.md" && !listed.iter().any(|target| target == page))
        .map(|page| format!("docs/README.md: no link to {page}; nobody would find it"))
        .collect();
    complain(&missing);
}

#[test]
fn every_path_that_a_page_names_is_there() {
    let mut broken = Vec::new();
    for source in sources() {
        // A how-to names files that its reader makes.
        let is_exempt = source.name == "CHANGELOG.md" || source.name.starts_with("docs/howto/");
        if !source.name.ends_with(".md") || is_exempt {
            continue;
        }
        for path in paths(&source.text) {
            if !root().join(path).exists() {
                broken.push(format!("{}: {path} is not in the tree", source.name));
            }
        }
    }
    complain(&broken);
}

/// What stands between backticks and is a path from the top of the tree, without patterns.
fn paths(text: &str) -> Vec<&str> {
    const FOLDERS: [&str; 9] = [
        "crates/",
        "python/",
        "scripts/",
        "tracer/",
        "workloads/",
        "configs/",
        "papers/",
        "docs/",
        "examples/",
    ];
    let is_path = |word: &&str| {
        FOLDERS.iter().any(|folder| word.starts_with(folder))
            && !word.contains(|c: char| c.is_whitespace() || "*{<…".contains(c))
    };
    text.split('`').filter(is_path).collect()
}

#[test]
fn paths_are_told_from_patterns_and_commands() {
    let text = "`crates/a.rs` `crates/*/b` `scripts/x --now` `crates/{a,b}` `run` `papers/`";
    assert_eq!(paths(text), ["crates/a.rs", "papers/"]);
}

/// A comment that rests on a decision names it; who looks it up must find it.
#[test]
fn every_decision_that_is_named_is_on_its_page() {
    const PAGE: &str = "docs/decisions.md";
    const FOLDERS: [&str; 3] = ["docs/", "crates/", "python/"];
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page is there");
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .collect();
    let mut missing = Vec::new();
    for source in sources() {
        let is_ours = FOLDERS.iter().any(|folder| source.name.starts_with(folder))
            || source.name.ends_with(".md");
        if !is_ours || !source.is_one_of(&[".rs", ".py", ".md", ".toml"]) {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            for name in decisions(line).filter(|name| !rows.contains(name)) {
                missing.push(format!(
                    "{}:{}: {name} has no row in {PAGE}",
                    source.name,
                    index + 1
                ));
            }
        }
    }
    complain(&missing);
}

/// Names of decisions: words as `B4` and `D13`.
fn decisions(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| {
            let number = word.strip_prefix(['B', 'D']).unwrap_or("");
            matches!(number.len(), 1 | 2) && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

#[test]
fn decisions_are_told_from_other_words() {
    let text = "as B4 says (D13); D2\u{2013}D5, L1D, D3D, 0xD4, `B`, B1_2, D200";
    assert_eq!(
        decisions(text).collect::<Vec<_>>(),
        ["B4", "D13", "D2", "D5"]
    );
}

/// Names of the headings of a text, as links spell them.
fn anchors(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, part) in text.split("```").enumerate() {
        let headings = part.lines().filter(|line| line.starts_with('#'));
        for heading in headings.filter(|_| index % 2 == 0) {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            found.push(kept.collect::<String>().replace(' ', "-"));
        }
    }
    found
}

/// Targets of `[text](target)` outside code blocks, without those on the network.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 1 {
            continue;
        }
        for piece in part.split("](").skip(1) {
            if let Some(target) = piece.split(')').next()
                && !target.contains("://")
                && !target.contains(' ')
            {
                found.push(target.to_string());
            }
        }
    }
    found
}

#[test]
fn links_are_found_in_text_and_not_in_code() {
    let text = "See [a](b.md#c) and ![d](e.png).\n```\n[x](y)\n```\n[n](https://example.org)";
    assert_eq!(links(text), ["b.md#c", "e.png"]);
}

#[test]
fn headings_are_spelt_as_links_spell_them() {
    let text = "# A b, c: `d`\n```\n# not one\n```\n## Write-log 2\n";
    assert_eq!(anchors(text), ["a-b-c-d", "write-log-2"]);
}
