//! The command line: `entresol-workloads NAME --footprint 512MiB --threads 8 --seed 1 --work N`.
//!
//! Prints one line when the result is right. Bad input is one sentence and status 2, a wrong result
//! one sentence and status 1.

use crate::program::{self, Checked, Failure, PROGRAMS, Program};
use crate::setting::{Setting, Threads, Work};
use std::process::ExitCode;
use std::str::FromStr;
use units::Bytes;

const USAGE: &str = "\
usage: entresol-workloads NAME [--footprint SIZE] [--threads N] [--seed N] [--work N] [--spoil]
       entresol-workloads list [--json]
--footprint  size of all data (default: a sixteenth of Table I's)
--threads    threads in the region of interest (8)
--seed       what data and choices are drawn from (1)
--work       work in the region of interest, in the program's unit; `list` names it
--spoil      change one value of the result, so that the check must fail";

/// What the small scale divides Table I's footprints by.
pub const SMALL: u64 = 16;

/// Runs the command line and returns the process's status.
#[must_use]
pub fn main(arguments: &[String]) -> ExitCode {
    match answer(arguments) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("entresol-workloads: {failure}");
            ExitCode::from(match failure {
                Failure::Wrong(_) => 1,
                Failure::Refused(_) => 2,
            })
        }
    }
}

/// What a command line prints.
///
/// # Errors
/// Bad input, or a wrong result.
pub fn answer(arguments: &[String]) -> Result<String, Failure> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["-h" | "--help", ..] => Ok(USAGE.to_owned()),
        ["list"] => Ok(list()),
        ["list", "--json"] => Ok(list_json()),
        ["list", other, ..] => Err(Failure::refused(format!(
            "list {other}: no such option; there is --json."
        ))),
        [name, options @ ..] => {
            let program = program::find(name)?;
            let Checked { said, digest } = (program.run)(&setting(program, options)?)?;
            Ok(format!("{name} ok: {said}; digest {digest}"))
        }
    }
}

fn setting(program: &Program, mut options: &[&str]) -> Result<Setting, Failure> {
    let mut setting = Setting {
        footprint: Bytes::new(program.footprint.get() / SMALL),
        threads: Threads::new(8).expect("eight are allowed"),
        seed: 1,
        work: Work::new(program.small_work),
        spoil: false,
    };
    while let [name, rest @ ..] = options {
        options = match (*name, rest) {
            ("--spoil", rest) => {
                setting.spoil = true;
                rest
            }
            (name @ ("--footprint" | "--threads" | "--seed" | "--work"), [value, rest @ ..]) => {
                take(&mut setting, name, value)?;
                rest
            }
            ("--footprint" | "--threads" | "--seed" | "--work", []) => {
                return Err(Failure::refused(format!("{name}: lacks its value.")));
            }
            _ => {
                return Err(Failure::refused(format!(
                    "{name}: no such option; see --help."
                )));
            }
        };
    }
    Ok(setting)
}

fn take(setting: &mut Setting, name: &str, value: &str) -> Result<(), Failure> {
    match name {
        "--footprint" => {
            setting.footprint = value
                .parse()
                .map_err(|error| Failure::refused(format!("--footprint {value}: {error}.")))?;
        }
        "--threads" => {
            let threads = Threads::new(number(name, value)?);
            setting.threads = threads.ok_or_else(|| {
                Failure::refused(format!("--threads {value}: give 1 to {}.", Threads::MOST))
            })?;
        }
        "--seed" => setting.seed = number(name, value)?,
        _ => {
            let work = number(name, value)?;
            if work == 0 {
                return Err(Failure::refused("--work 0: give at least 1."));
            }
            setting.work = Work::new(work);
        }
    }
    Ok(())
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    let sentence = || Failure::refused(format!("{name} {value}: give a whole number."));
    value.parse().map_err(|_| sentence())
}

fn list() -> String {
    let lines = PROGRAMS.iter().map(|program| {
        format!(
            "{:10} {:8} {:>8}  {} (work: {})",
            program.name,
            program.suite,
            program.footprint.to_string(),
            program.what,
            program.work_unit,
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn list_json() -> String {
    let programs = PROGRAMS.iter().map(|program| {
        serde_json::json!({
            "name": program.name,
            "suite": program.suite,
            "what": program.what,
            "check": program.check,
            "work_unit": program.work_unit,
            "footprint_bytes": program.footprint.get(),
            "small_footprint_bytes": program.footprint.get() / SMALL,
            "small_work": program.small_work,
            "paper_work": program.paper_work,
        })
    });
    serde_json::Value::from(programs.collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(line: &str) -> Result<String, Failure> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        answer(&words)
    }

    #[test]
    fn bad_input_is_refused_by_a_sentence_that_names_it() {
        for line in [
            "sorting",
            "radix --footprint",
            "radix --footprint much",
            "radix --footprint 1MiB --work 100000000000",
            "radix --footprint 1KiB",
            "radix --threads 0",
            "radix --threads 257",
            "radix --seed -1",
            "radix --work 0",
            "radix --work 1.5",
            "radix --colour red",
            "list --yaml",
        ] {
            let error = answer_to(line).unwrap_err();
            assert!(matches!(error, Failure::Refused(_)), "{line}: {error:?}");
            assert!(error.to_string().ends_with('.'), "{line}: {error}");
        }
    }

    #[test]
    fn the_list_names_every_program() {
        let (text, json) = (
            answer_to("list").unwrap(),
            answer_to("list --json").unwrap(),
        );
        for program in PROGRAMS {
            assert!(text.contains(program.name) && json.contains(program.what));
        }
        assert!(answer_to("").unwrap().starts_with("usage"));
    }
}
