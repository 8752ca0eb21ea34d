//! Prints a capture's figures (`etr FILE`), a thread's first instructions (`etr FILE THREAD N`),
//! or how fast the cursors decode it (`etr FILE speed`).

use trace::{TraceError, TraceFile};
use units::ThreadId;

fn main() -> Result<(), TraceError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [path] => print_info(path),
        [path, "speed"] => print_speed(path),
        [path, thread, count] => {
            let thread = ThreadId::new(thread.parse().expect("a thread number"));
            let lines = trace::head(path, thread, count.parse().expect("a count"))?;
            lines.iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        _ => {
            eprintln!("usage: etr FILE [speed | THREAD COUNT]");
            Ok(())
        }
    }
}

fn print_info(path: &str) -> Result<(), TraceError> {
    let info = trace::info(path)?;
    for thread in &info.threads {
        let parent = thread
            .parent
            .map_or("-".into(), |parent| parent.to_string());
        println!(
            "{:<10} started by {parent:<10} {:>12} instructions {:>12} loads {:>12} stores",
            thread.id.to_string(),
            thread.instructions,
            thread.loads,
            thread.stores
        );
    }
    let per_kilo = info.file_bytes * 1000 / info.instructions.max(1);
    println!(
        "{} instructions, {} loads, {} stores, {} pages, {} bytes ({per_kilo} per 1000 instructions)",
        info.instructions, info.loads, info.stores, info.footprint_pages, info.file_bytes
    );
    for block in &info.top_blocks {
        println!("block {:#x}: {} instructions", block.pc, block.instructions);
    }
    println!("{:?}", info.provenance);
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "this example measures real time")]
fn print_speed(path: &str) -> Result<(), TraceError> {
    let start = std::time::Instant::now();
    let file = TraceFile::open(path)?;
    println!("opened in {:?}", start.elapsed());
    let start = std::time::Instant::now();
    let (mut instructions, mut pieces, mut sum) = (0_u64, 0_u64, 0_u64);
    for thread in file.threads() {
        let mut cursor = file.cursor(thread.id);
        while let Some(piece) = cursor.peek() {
            instructions += u64::from(piece.counts());
            sum = sum.wrapping_add(piece.load().map_or(0, |access| access.addr.get()));
            pieces += 1;
            cursor.advance();
        }
    }
    let elapsed = start.elapsed();
    let rate = instructions as u128 * 1_000_000 / elapsed.as_nanos().max(1);
    println!(
        "{instructions} instructions in {pieces} pieces, {elapsed:?}: {}.{:03} M/s (sum {sum:x})",
        rate / 1000,
        rate % 1000
    );
    Ok(())
}
