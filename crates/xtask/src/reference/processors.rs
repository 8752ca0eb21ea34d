//! The part of the page of parameters on processors of firmware in the loop.

use super::row;
use inloop::{KNOWN, PROCESSORS, Processor};
use std::fmt::Write;

const HEAD: &str = "
## Processors

Parameters of the controller's processor [in the loop](../loop.md), in a file for `--processor`.
Defaults are those of the preset `cortex-a53`.

| key | kind | default | range | what | source |
|---|---|---|---|---|---|
";

/// Adds the part.
///
/// # Panics
/// When a preset that ships with Entresol is no processor.
pub fn section(page: &mut String) {
    page.push_str(HEAD);
    let of = |name: &str| Processor::of_text(name).expect("a preset is a processor");
    let default = of(PROCESSORS[0].0);
    for (_, parameters) in KNOWN.sections {
        for parameter in *parameters {
            let value = match parameter.key {
                "processor.clock" => default.clock.to_string(),
                _ => default.cycles.to_string(),
            };
            row(page, parameter, &value);
        }
    }
    page.push_str("\n| processor | clock | cycles |\n|---|---|---|\n");
    for (name, _) in PROCESSORS {
        let Processor { clock, cycles } = of(name);
        writeln!(page, "| `{name}` | {clock} | {cycles} |").expect("text grows");
    }
}
