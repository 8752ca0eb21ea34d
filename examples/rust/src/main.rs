//! Appends its words to a journal on a device image, and prints what the journal holds.
//!
//!     .venv/bin/entresol device create ssd --preset cxl
//!     cargo run --release -p examples -- ssd "first record" "second record"

#![forbid(unsafe_code)]

use device::{Pace, RealDevice};
use examples::journal::Journal;
use std::path::Path;
use std::process::ExitCode;

fn run(image: &str, records: &[String]) -> Result<(), String> {
    let device =
        RealDevice::open(Path::new(image), Pace::None).map_err(|error| error.to_string())?;
    let held = device.block_on(async {
        let mut journal = Journal::open(&device).await?;
        for record in records {
            journal.append(record.as_bytes()).await?;
        }
        journal.records().await
    });
    for record in held.map_err(|error| error.to_string())? {
        println!("{}", String::from_utf8_lossy(&record));
    }
    device.close().map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((image, records)) = words.split_first() else {
        eprintln!("usage: journal IMAGE RECORD…");
        return ExitCode::from(2);
    };
    match run(image, records) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("journal: {sentence}");
            ExitCode::FAILURE
        }
    }
}
