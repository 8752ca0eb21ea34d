//! Writes the generated pages of `docs/reference/`.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use xtask::{reference, root};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let page = reference::PAGES.iter().find(|page| words == [page.name]);
    let Some(page) = page else {
        let names: Vec<&str> = reference::PAGES.iter().map(|page| page.name).collect();
        eprintln!("usage: cargo run -p xtask -- {}", names.join("|"));
        return ExitCode::from(2);
    };
    match std::fs::write(root().join(page.file), (page.text)()) {
        Ok(()) => {
            println!("{}", page.file);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", page.file);
            ExitCode::FAILURE
        }
    }
}
