//! What layers of a run's configuration are told (crate `settings`).

use super::*;

fn effective_table(layers: &[Layer]) -> Result<toml::Table, SimError> {
    Ok(KNOWN.table(layers)?)
}

fn said(key: &str, value: impl Into<toml::Value>) -> String {
    let (section, name) = key.rsplit_once('.').unwrap();
    let text = format!("[{section}]\n{name} = {}", value.into());
    let problems = KNOWN.table(&[Layer::new("x", text)]).unwrap_err().0;
    assert_eq!(problems.len(), 1, "{problems:?}");
    let start = format!("x: {key}: ");
    problems[0]
        .strip_prefix(&start)
        .expect("names layer and key")
        .to_string()
}

#[test]
fn later_layers_win_key_by_key() {
    let layers = [
        Layer::new("a", "[run]\nseed = 1\nwarmup = \"10%\""),
        Layer::assignment("run.seed=7").unwrap(),
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
        "configuration: my.toml: unknown section zzzzzzzzzz; there are run, design, cpu, os, host, \
         tpp, astriflash, numa, host_dram, link, ssd, ssd.log, ssd.cache, ssd.prefetch, \
         ssd.compaction, ssd.promotion, ssd_dram, ftl, nand, nand.empirical"
    );
}

#[test]
fn a_key_that_has_another_name_now_is_told_it() {
    assert_eq!(KNOWN.renamed.len(), 28);
    for (old, new) in KNOWN.renamed {
        let known = SECTIONS.iter().flat_map(|(_, keys)| keys.iter());
        assert_eq!(known.filter(|known| known.key == *new).count(), 1, "{new}");
        let told = format!("{old} is called {new} now; write that");
        let error = Layer::assignment(&format!("{old}=1")).unwrap();
        let error = effective_table(&[error]).unwrap_err().to_string();
        assert_eq!(error, format!("configuration: --set {old}=1: {told}"));
        let (section, name) = old.split_once('.').unwrap();
        let file = Layer::new("my.toml", format!("[{section}]\n{name} = 1"));
        let error = effective_table(&[file]).unwrap_err().to_string();
        assert_eq!(error, format!("configuration: my.toml: {told}"));
    }
}

#[test]
fn a_value_that_is_missing_or_too_large_is_refused_with_its_key() {
    for (assignment, problem) in [
        ("ssd.dram=", "there is no value"),
        ("run.seed=99999999999999999999", "the number is too large"),
    ] {
        let error = Layer::assignment(assignment).unwrap_err().to_string();
        let start = format!("--set {assignment}: {problem}");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn a_value_of_the_wrong_kind_names_the_layer_that_set_it_and_its_key() {
    let layers = [
        Layer::new("my.toml", "[ssd]\ndram = true"),
        Layer::assignment("ssd.cache.ways=true").unwrap(),
    ];
    assert_eq!(
        effective_table(&layers).unwrap_err().to_string(),
        "configuration: my.toml: ssd.dram: true is not a size such as \"64MiB\"; --set \
         ssd.cache.ways=true: true is not a whole number from 0 to 4294967295"
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
        "run..seed=1",
        "run.se ed=1",
    ] {
        assert!(Layer::assignment(bad).is_err(), "{bad}");
    }
    let deeper = Layer::assignment("run.a.b=1").unwrap();
    let error = effective_table(&[deeper]).unwrap_err().to_string();
    assert!(
        error.contains("run.a.b=1: unknown section run.a;"),
        "{error}"
    );
    assert!(
        Layer::assignment("ssd.dram = 256MiB")
            .unwrap()
            .text
            .contains("\"256MiB\"")
    );
    assert!(
        Layer::assignment("design.write_log=true")
            .unwrap()
            .text
            .contains("= true")
    );
}

#[test]
fn a_value_of_another_kind_is_said_with_an_example_of_the_right_one() {
    for (key, value, why) in [
        (
            "ssd.dram",
            toml::Value::from(true),
            "true is not a size such as \"64MiB\"",
        ),
        ("ssd.dram", 12.into(), "12 is not a size such as \"64MiB\""),
        (
            "ssd.dram",
            "abc".into(),
            "\"abc\" is not a size such as \"64MiB\"",
        ),
        (
            "os.switch_cost",
            5.into(),
            "5 is not a span of time such as \"3us\", \"158ns\" or \"250ps\"",
        ),
        (
            "run.warmup",
            true.into(),
            "true is not a ratio such as \"12.5%\" or \"1/8\"",
        ),
        (
            "link.bandwidth",
            7.into(),
            "7 is not a bandwidth such as \"16GB/s\"",
        ),
        ("ssd.buffer_hits", 3.into(), "3 is not true or false"),
        (
            "ssd.buffer_hits",
            "maybe".into(),
            "\"maybe\" is not true or false",
        ),
        (
            "ssd.cache.ways",
            true.into(),
            "true is not a whole number from 0 to 4294967295",
        ),
        (
            "ssd.cache.ways",
            (-4).into(),
            "-4 is not a whole number from 0 to 4294967295",
        ),
        (
            "run.seed",
            "1x".into(),
            "\"1x\" is not a whole number from 0 to 9223372036854775807",
        ),
        (
            "design.memory",
            "sdd".into(),
            "\"sdd\" is not \"ssd\" or \"dram\"",
        ),
        (
            "design.memory",
            true.into(),
            "true is not \"ssd\" or \"dram\"",
        ),
    ] {
        assert_eq!(said(key, value), why, "{key}");
    }
    let of_many = said("ssd.cache.policy", "zzz");
    assert!(of_many.starts_with("\"zzz\" is not one of \""), "{of_many}");
    assert!(of_many.contains("\"lru\""), "{of_many}");
}

#[test]
fn a_value_of_any_parameter_is_looked_at() {
    for (_, parameters) in SECTIONS {
        for parameter in *parameters {
            let why = said(parameter.key, Vec::<i64>::new());
            assert!(why.starts_with("[] is no"), "{}: {why}", parameter.key);
        }
    }
}

#[test]
fn every_default_is_of_its_parameters_kind() {
    let layers = presets::layers("table2", None, "skybyte-full").unwrap();
    let values = values(&effective_table(&layers).unwrap());
    for parameter in SECTIONS.iter().flat_map(|(_, parameters)| *parameters) {
        let has_one = values.iter().any(|(key, _)| key == parameter.key);
        assert!(has_one, "{}", parameter.key);
    }
}
