//! Every parameter at the ends of its range and of its type, in every preset: a sentence or a run.

use crate::common::{mixed, spec};
use forge::extremes;
use sim::SimError;
use sim::config::presets::{DESIGNS, MACHINES};
use sim::config::{Config, Layer, SECTIONS};
use sim::run::{Prepared, RunSpec};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;
use trace::TraceFile;

/// Designs that together have every mechanism: each is run with each value.
const RUN: [&str; 2] = ["skybyte-full", "astriflash-cxl"];
/// Longest that a run of a few instructions may take, built for tests on a busy machine.
const LONGEST: Duration = Duration::from_secs(20);

/// What is set, as `section.key=value`: each parameter to each of its extremes.
fn settings(machine: &str, design: &str) -> Vec<String> {
    let config = spec(machine, design).config().expect("a preset is valid");
    let texts = config.texts();
    let text = |section: &str, name: &str| {
        let (_, values) = texts
            .iter()
            .find(|(known, _)| *known == section)
            .expect("known");
        let (_, text) = values
            .iter()
            .find(|(known, _)| *known == name)
            .expect("known");
        text.clone()
    };
    let mut all = Vec::new();
    for (section, parameters) in SECTIONS {
        for parameter in *parameters {
            let text = text(section, parameter.name());
            let values = extremes(parameter.kind, parameter.range, &text);
            all.extend(
                values
                    .iter()
                    .map(|value| format!("{}={value}", parameter.key)),
            );
        }
    }
    all
}

fn with(machine: &str, design: &str, setting: &str) -> RunSpec {
    RunSpec {
        overrides: vec![setting.to_owned()],
        ..spec(machine, design)
    }
}

/// What happens without a panic: a sentence or a run.
fn outcome<T>(work: impl FnOnce() -> Result<T, SimError>) -> Result<Option<T>, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(Some(value)),
        Ok(Err(error)) => match error.to_string() {
            said if said.trim().is_empty() => Err("an error says nothing".to_owned()),
            _ => Ok(None),
        },
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(said.unwrap_or_default())
        }
    }
}

/// Remembers what is tried, in `target/tmp`, for a value that brings the whole process down.
struct Tried(File);

impl Tried {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{}-{test}", env!("CARGO_PKG_NAME")));
        Self(File::create(path).expect("the directory of tests can be written"))
    }
    fn note(&self, setting: &str) {
        let line = format!("{setting:<120}\n");
        self.0
            .write_all_at(line.as_bytes(), 0)
            .expect("it can be written");
    }
}

/// A preset with a setting over it, as one layer instead of the four of which it is made.
fn taken(preset: &Layer, setting: &str) -> Result<Config, SimError> {
    let setting = Layer::assignment(setting).map_err(|problems| SimError::Config(problems.0))?;
    Config::from_layers(&[preset.clone(), setting])
}

#[test]
fn every_preset_answers_every_extreme_with_a_sentence_or_takes_it() {
    let tried = Tried::new("sim-extremes-taken");
    let mut wrong = Vec::new();
    let machines = MACHINES
        .iter()
        .map(|machine| (machine.name, "skybyte-full"));
    let designs = DESIGNS.iter().map(|design| ("demo", design.name));
    for (machine, design) in machines.chain(designs) {
        let preset = spec(machine, design).config().expect("a preset is valid");
        let preset = Layer::new(design, preset.to_toml());
        for setting in settings(machine, design) {
            tried.note(&setting);
            if let Err(said) = outcome(|| taken(&preset, &setting)) {
                wrong.push(format!("{machine} {design} --set {setting}: {said}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} panics:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Runs a few instructions; one that takes too long is interrupted and named.
fn run(design: &str, setting: &str, trace: &TraceFile) -> Result<Option<()>, String> {
    let begin = now();
    let done = outcome(|| {
        let prepared = Prepared::with_trace(with("demo", design, setting), trace.clone())?;
        prepared.execute(&mut |_| now() - begin < LONGEST).map(drop)
    });
    match now() - begin < LONGEST {
        true => done,
        false => Err(format!("takes longer than {LONGEST:?}")),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a run that takes too long is an error"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn every_extreme_that_is_taken_runs() {
    let trace = mixed(2, 6, 30, 1);
    let tried = Tried::new("sim-extremes-run");
    let mut wrong = Vec::new();
    let mut runs = 0;
    for design in RUN {
        for setting in settings("demo", design) {
            tried.note(&setting);
            match run(design, &setting, &trace) {
                Ok(done) => runs += u32::from(done.is_some()),
                Err(said) => wrong.push(format!("{design} --set {setting}: {said}")),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} panics:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(runs > 500, "{runs} runs");
}
