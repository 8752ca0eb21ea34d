//! The reference pages say what the code says.

use serde_json::Value;
use sim::config::SECTIONS;
use sim::replay::{Replay, ReplaySpec, Workload};
use sim::run::{Prepared, RunSpec};
use std::collections::BTreeSet;
use trace::{Reg, TraceFile, TraceWriter};
use xtask::{reference, root};

const RESULT_FILE: &str = "docs/formats/result.md";
const REPLAY_FILE: &str = "docs/formats/replay.md";

#[test]
fn the_generated_pages_are_fresh() {
    for page in reference::PAGES {
        let text = std::fs::read_to_string(root().join(page.file)).unwrap_or_default();
        assert!(
            text == (page.text)(),
            "{} is stale; write it with: cargo run -p xtask -- {}",
            page.file,
            page.name
        );
    }
}

/// Every switch has its row in the page that says why it is there, and the page names no other.
#[test]
fn the_page_on_fidelity_names_every_switch_and_no_other() {
    let text = std::fs::read_to_string(root().join("docs/fidelity.md")).unwrap();
    let (of_simulator, of_loads) = text.split_once("\n## ByteFS\n").unwrap();
    let switches: BTreeSet<&str> = sim::config::fidelity::SWITCHES
        .iter()
        .map(|switch| switch.name)
        .collect();
    assert_eq!(named_in_tables(of_simulator), switches);
    // Those of a paper of loads are its own.
    let own = root().join("python/entresol/papers/bytefs/switches.toml");
    let own = std::fs::read_to_string(own).unwrap();
    let names = own.lines().filter_map(|line| line.strip_prefix('['));
    let names: BTreeSet<&str> = names.map(|name| name.trim_end_matches(']')).collect();
    assert_eq!(named_in_tables(of_loads), names);
}

/// What looks like the name of a switch in the tables of a page.
fn named_in_tables(text: &str) -> BTreeSet<&str> {
    let tables = text.lines().filter(|line| line.starts_with('|'));
    let words = tables.flat_map(|line| line.split('`').skip(1).step_by(2));
    words
        .filter(|word| word.contains('_') && !word.contains('.'))
        .collect()
}

#[test]
fn every_parameter_has_a_meaning_a_range_and_a_source() {
    for (section, parameters) in SECTIONS {
        for parameter in *parameters {
            let texts = [parameter.doc, parameter.range, parameter.source];
            let is_said = texts.iter().all(|text| !text.trim().is_empty());
            assert!(is_said, "{} lacks one of them", parameter.key);
            assert!(
                parameter.key.starts_with(&format!("{section}.")),
                "{}",
                parameter.key
            );
        }
    }
}

/// Text of several lines in the source is one sentence on the page.
#[test]
fn the_generated_pages_have_one_space_between_words() {
    for page in reference::PAGES {
        let text = (page.text)();
        let doubled: Vec<&str> = text.lines().filter(|line| line.contains("  ")).collect();
        assert!(doubled.is_empty(), "{}:\n{}", page.file, doubled.join("\n"));
    }
}

#[test]
fn every_name_in_a_result_is_documented_and_no_other() {
    let text = std::fs::read_to_string(root().join(RESULT_FILE)).expect("the page can be read");
    let documented = documented(&text);
    let found = names(&result());
    let missing: Vec<_> = found.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&found).collect();
    assert!(missing.is_empty(), "{RESULT_FILE} lacks {missing:?}");
    assert!(
        gone.is_empty(),
        "{RESULT_FILE} documents what no result has: {gone:?}"
    );
}

#[test]
fn every_name_in_the_result_of_a_replay_is_documented_and_no_other() {
    let text = std::fs::read_to_string(root().join(REPLAY_FILE)).expect("the page can be read");
    let words = ["pattern=randrw", "requests=100"].map(|word| {
        let (name, value) = word.split_once('=').expect("name=value");
        (name.to_string(), value.to_string())
    });
    let spec = ReplaySpec {
        run: spec(),
        workload: Workload::from_words(&words).expect("a workload"),
    };
    let replay = Replay::new(spec).expect("the presets are right");
    let result = replay.execute(&mut |_| true).expect("it ends");
    assert_eq!(documented(&text), names(result.json()), "{REPLAY_FILE}");
}

fn spec() -> RunSpec {
    RunSpec {
        trace: "few.etr".into(),
        machine: "demo".into(),
        design: "skybyte-full".into(),
        nand: None,
        fidelity: Default::default(),
        files: Vec::new(),
        // With flash pages of several units, of which results have one name more.
        overrides: vec![
            "nand.page_size=16KiB".into(),
            "ftl.over_provisioning=25%".into(),
        ],
        threads: None,
        is_audited: true,
        mode: sim::run::Mode::Detailed,
    }
}

/// A result of a few instructions.
fn result() -> Value {
    let prepared = Prepared::with_trace(spec(), few_instructions()).expect("the presets are right");
    let result = prepared
        .execute(&mut |_| true)
        .expect("nobody interrupts it");
    result.json().clone()
}

fn few_instructions() -> TraceFile {
    let mut writer = TraceWriter::new();
    let load = writer.load(Reg::general(0), Reg::general(1));
    let thread = writer.thread();
    for turn in 0..100 {
        writer.execute(thread, load, Some((0x10_0000 + turn * 4096, 8)), None);
    }
    writer.finish()
}

/// Names in a run: `seed` of the run itself, `cores.loads` of the statistics.
fn names(run: &Value) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = keys(run).map(|key| format!("run.{key}")).collect();
    for (section, value) in run["statistics"]
        .as_object()
        .expect("statistics have sections")
    {
        let record = value
            .as_array()
            .and_then(|list| list.first())
            .unwrap_or(value);
        names.extend(keys(record).map(|key| format!("{section}.{key}")));
        names.insert(format!("statistics.{section}"));
    }
    let program = run["programs"].get(0).unwrap_or(&Value::Null);
    if program.is_object() {
        names.extend(keys(program).map(|key| format!("programs.{key}")));
    }
    names
}

fn keys(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.as_str())
}

/// Names in the first cells of the tables below a heading that is one name: ### `cores`.
fn documented(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut section = None;
    for line in text.lines() {
        if line.starts_with('#') {
            section = line.strip_prefix("### ").and_then(code);
            match section {
                None | Some("run" | "programs") => {}
                Some(name) => _ = names.insert(format!("statistics.{name}")),
            }
        } else if let (Some(section), Some(row)) = (section, line.strip_prefix("| "))
            && let Some(name) = row.split(" | ").next().and_then(code)
        {
            names.insert(format!("{section}.{name}"));
        }
    }
    names
}

/// What stands between the backquotes of a text that is all in them.
fn code(text: &str) -> Option<&str> {
    text.trim().strip_prefix('`')?.strip_suffix('`')
}

#[test]
fn names_are_read_from_headings_and_first_cells_only() {
    let text =
        "## `a`\n| `x` | y |\n### `b`\n| name | `n` |\n|---|---|\n| `c` | `d` |\n### e\n| `f` | |";
    let found: Vec<_> = documented(text).into_iter().collect();
    assert_eq!(found, ["b.c", "statistics.b"]);
}
