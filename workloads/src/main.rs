//! `entresol-workloads`: runs one of the programs.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    workloads::command::main(&arguments)
}
