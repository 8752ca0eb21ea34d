//! Writes the generated pages of `docs/reference/`.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use xtask::{reference, root};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words != ["parameters"] {
        eprintln!("usage: cargo run -p xtask -- parameters");
        return ExitCode::from(2);
    }
    let file = root().join(reference::PARAMETERS_FILE);
    match std::fs::write(&file, reference::parameters()) {
        Ok(()) => {
            println!("{}", reference::PARAMETERS_FILE);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", reference::PARAMETERS_FILE);
            ExitCode::FAILURE
        }
    }
}
