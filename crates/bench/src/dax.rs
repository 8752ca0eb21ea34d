//! What the tracker of transparent DAX costs for a write that it counts.
//!
//! `bench [--json] [--count] dax [WRITES [PATTERN]]`: `append`, an append stream that is synced
//! behind each write, and `spread`, writes all over 1,000 files of 64 ranges. Time goes on by 1 us
//! a write, so that counts end too.

use crate::{Options, calibrate, cpu_seconds};
use dax::{Dax, FileId, Settings};
use serde_json::json;
use units::{Picos, Stream, Time};

const FILES: u64 = 1_000;
const RANGES: u64 = 64;

pub fn measure(words: &[&str], options: &Options) -> Result<(), String> {
    let writes = words
        .first()
        .map_or(Ok(20_000_000), |word| crate::number(word))?;
    let steps = if options.is_counted { 0.0 } else { calibrate() };
    let mut found = Vec::new();
    let wanted = words.get(1);
    let patterns = [("append", false), ("spread", true)];
    let patterns = patterns.into_iter();
    for (name, is_spread) in patterns.filter(|(name, _)| wanted.is_none_or(|one| one == name)) {
        let settings = Settings {
            write_delay: Picos::from_micros(1_000_000),
            write_back_delay: Picos::from_micros(500_000),
            ..Settings::default()
        };
        let mut dax = Dax::new(&settings).map_err(|error| error.to_string())?;
        let files: Vec<FileId> = (0..FILES).map(|_| dax.open()).collect();
        let mut stream = Stream::new(0, "dax bench");
        // Drawn before, so that the draw is not counted.
        let pages: Vec<(FileId, u64)> = (0..1 << 20)
            .map(|number| match is_spread {
                true => {
                    let file = files[stream.below(FILES) as usize];
                    (file, stream.below(RANGES << 9))
                }
                false => (files[0], number / 40),
            })
            .collect();
        let begun = cpu_seconds();
        match is_spread {
            true => count_spread(&mut dax, &pages, writes),
            false => count_appends(&mut dax, &pages, writes),
        }
        let each = (cpu_seconds() - begun) / writes as f64 * 1e9;
        found.push((name, each, dax.footprint()));
    }
    for (name, each, footprint) in &found {
        let steps_each = each * steps / 1e3;
        let (counts, held) = footprint.decaying;
        if options.is_json {
            let line = json!({
                "pattern": name,
                "writes": writes,
                "ns_per_write": each,
                "calibration_steps_per_write": steps_each,
                "ranges": footprint.ranges,
                "bytes_per_range": footprint.range_bytes,
                "index_bytes_per_range": footprint.index as f64 / footprint.ranges as f64,
                "decaying_records": counts,
                "decaying_bytes": held,
            });
            println!("{line}");
        } else {
            println!(
                "{name}: {each:.1} ns of CPU a write, {steps_each:.1} calibration steps; {} ranges \
                 of {} B and {:.1} B of index each, {counts} records of counts in {held} B",
                footprint.ranges,
                footprint.range_bytes,
                footprint.index as f64 / footprint.ranges as f64,
            );
        }
    }
    Ok(())
}

/// A write, and the sync of its page.
#[inline(never)]
fn count_appends(dax: &mut Dax, pages: &[(FileId, u64)], writes: u64) {
    for (number, (file, page)) in (0..writes).zip(pages.iter().cycle()) {
        let now = Time::from_picos(number * 1_000_000);
        dax.wrote(*file, *page, 1, now);
        dax.wrote_back(*file, *page, 1, now);
    }
}

#[inline(never)]
fn count_spread(dax: &mut Dax, pages: &[(FileId, u64)], writes: u64) {
    for (number, (file, page)) in (0..writes).zip(pages.iter().cycle()) {
        dax.wrote(*file, *page, 1, Time::from_picos(number * 1_000_000));
    }
}
