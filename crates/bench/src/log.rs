//! Speed of the write log alone: appends with their index, and lookups on a full log.
//!
//! `bench log two_level_hash|skip_list MIB [LINES]`: both halves of a log of MIB are full, each
//! page that is in it with LINES lines (8) of its 64, the pages picked at random on a device of
//! 32 GiB. With `--count` the log is filled once, by `append_all`, and `find_all` looks up fewer
//! lines: what callgrind counts.

use crate::{Options, calibrate, cpu_seconds};
use firmware::LogMode;
use firmware::log_index::{LogIndex, SkipList, TwoLevelHash};
use firmware::write_log::WriteLog;
use serde_json::{Value, json};
use std::hint::black_box;
use units::{Bytes, LineAddr, LogSlot, Lpa, PageSize, Stream};

const PAGE: PageSize = PageSize::KIB_4;
const DEVICE: Bytes = Bytes::from_mib(32 * 1024);
const LOOKUPS: usize = 1 << 22;
/// Lookups that are counted.
const COUNTED: usize = 1 << 18;
/// Skew of popularity among pages, in hundredths.
const ZIPF: f64 = 0.99;

pub(crate) fn measure(words: &[&str], options: &Options) -> Result<(), String> {
    let number = |word: &str| {
        word.parse::<u64>()
            .map_err(|_| format!("{word} is not a number"))
    };
    let (index, mib, lines) = match words {
        [index, mib] => (*index, number(mib)?, 8),
        [index, mib, lines] => (*index, number(mib)?, number(lines)?),
        _ => return Err("usage: bench log two_level_hash|skip_list MIB [LINES]".to_string()),
    };
    if !(1..=64).contains(&lines) || !(1..=2048).contains(&mib) {
        return Err("a log has 1 to 2048 MiB, a page of it 1 to 64 lines".to_string());
    }
    let report = match (index, options.is_counted) {
        ("two_level_hash", false) => of::<TwoLevelHash>(index, mib, lines),
        ("two_level_hash", true) => counted::<TwoLevelHash>(mib, lines),
        ("skip_list", false) => of::<SkipList>(index, mib, lines),
        ("skip_list", true) => counted::<SkipList>(mib, lines),
        (other, _) => return Err(format!("no log index is called {other}")),
    };
    match options.is_json || options.is_counted {
        true => println!("{report}"),
        false => show(&report),
    }
    Ok(())
}

fn show(report: &Value) {
    println!(
        "{} of {} MiB, {} lines a page: append {:.1} M lines/s in order of pages, {:.1} at random; \
         lookup {:.0} ns Zipf 0.99 (a load in the same order: {:.0} ns), {:.0} ns uniform, each \
         after the other (a load: {:.0} ns); index {:.1} MB ({:.1} held); calibration {:.0} M steps/s",
        report["index"].as_str().unwrap_or_default(),
        report["mib"],
        report["lines_per_page"],
        report["append_runs_million_per_second"]
            .as_f64()
            .unwrap_or_default(),
        report["append_random_million_per_second"]
            .as_f64()
            .unwrap_or_default(),
        report["zipf_ns"].as_f64().unwrap_or_default(),
        report["zipf_load_ns"].as_f64().unwrap_or_default(),
        report["uniform_dependent_ns"].as_f64().unwrap_or_default(),
        report["dependent_load_ns"].as_f64().unwrap_or_default(),
        report["index_bytes"].as_f64().unwrap_or_default() / 1e6,
        report["index_bytes_held"].as_f64().unwrap_or_default() / 1e6,
        report["calibration_million_per_second"]
            .as_f64()
            .unwrap_or_default(),
    );
}

fn of<I: LogIndex>(index: &str, mib: u64, lines: u64) -> Value {
    let calibration = calibrate();
    let half_slots = Bytes::from_mib(mib).get() / 64 / 2;
    let mut random = Stream::new(1, "bench/log");
    let mut keys = keys(&mut random, 2 * half_slots, lines);
    let mut log = WriteLog::<I>::new(half_slots as u32, PAGE, LogMode::Halves);
    let runs = fill(&mut log, &keys);
    empty(&mut log);
    // Each half has its own pages, so that both hold as many lines of a page.
    for half in keys.chunks_mut(half_slots as usize) {
        shuffle(&mut random, half);
    }
    let scattered = fill(&mut log, &keys);
    let queries = zipf_queries(&mut random, &keys, lines, LOOKUPS);
    let zipf = look_up(&log, &queries);
    let zipf_load = load(&queries, log.index_memory(), 2 * half_slots / lines);
    shuffle(&mut random, &mut keys);
    let uniform = look_up_in_turn(&log, &keys[..keys.len().min(LOOKUPS)]);
    let chase = load_in_turn(&mut random, log.index_memory());
    json!({
        "index": index,
        "mib": mib,
        "lines_per_page": lines,
        "append_runs_million_per_second": 1e3 / runs,
        "append_random_million_per_second": 1e3 / scattered,
        "zipf_ns": zipf,
        "zipf_load_ns": zipf_load,
        "uniform_dependent_ns": uniform,
        "dependent_load_ns": chase,
        "index_bytes": log.index_memory(),
        "index_bytes_held": log.index_memory_held(),
        "calibration_million_per_second": calibration,
    })
}

/// Fills a log and looks lines of it up, for callgrind.
fn counted<I: LogIndex>(mib: u64, lines: u64) -> Value {
    let half_slots = Bytes::from_mib(mib).get() / 64 / 2;
    let mut random = Stream::new(1, "bench/log");
    let keys = keys(&mut random, 2 * half_slots, lines);
    let mut log = WriteLog::<I>::new(half_slots as u32, PAGE, LogMode::Halves);
    append_all(&mut log, &keys);
    let queries = zipf_queries(&mut random, &keys, lines, COUNTED);
    let found = find_all(&log, &queries);
    assert_eq!(found, queries.len(), "every line is in the log");
    json!({ "appends": keys.len(), "lookups": queries.len() })
}

/// Different lines, those of a page together and in order.
fn keys(random: &mut Stream, count: u64, lines_per_page: u64) -> Vec<LineAddr> {
    let pages = DEVICE / PAGE.bytes();
    let mut is_taken = vec![false; pages as usize];
    let mut keys = Vec::with_capacity(count as usize);
    while keys.len() < count as usize {
        let page = random.below(pages);
        if std::mem::replace(&mut is_taken[page as usize], true) {
            continue;
        }
        let mut mask = 0u64;
        while u64::from(mask.count_ones()) < lines_per_page {
            mask |= 1 << random.below(64);
        }
        let lines = (0..64).filter(|line| mask >> line & 1 == 1);
        keys.extend(lines.map(|line| LineAddr::new(page * 64 + line)));
    }
    keys.truncate(count as usize);
    keys
}

fn shuffle<T>(random: &mut Stream, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Lines of pages of which the nth is asked for n^-0.99 times as often as the first.
fn zipf_queries(
    random: &mut Stream,
    keys: &[LineAddr],
    lines_per_page: u64,
    count: usize,
) -> Vec<LineAddr> {
    let mut by_page = keys.to_vec();
    by_page.sort_unstable_by_key(|key| key.get());
    let mut pages: Vec<&[LineAddr]> = by_page.chunks(lines_per_page as usize).collect();
    shuffle(random, &mut pages);
    let mut sum = 0.0;
    let shares: Vec<f64> = (1..=pages.len())
        .map(|rank| {
            sum += (rank as f64).powf(-ZIPF);
            sum
        })
        .collect();
    (0..count)
        .map(|_| {
            let drawn = sum * (random.bits() as f64 / u64::MAX as f64);
            let rank = shares.partition_point(|share| *share < drawn);
            let lines = pages[rank.min(pages.len() - 1)];
            lines[random.below(lines.len() as u64) as usize]
        })
        .collect()
}

/// Nanoseconds for a line, both halves being filled.
fn fill<I: LogIndex>(log: &mut WriteLog<I>, keys: &[LineAddr]) -> f64 {
    let before = cpu_seconds();
    append_all(log, keys);
    (cpu_seconds() - before) * 1e9 / keys.len() as f64
}

// Not inlined: callgrind finds it by its name.
#[inline(never)]
fn append_all<I: LogIndex>(log: &mut WriteLog<I>, keys: &[LineAddr]) {
    for key in keys {
        if log.should_seal() {
            log.seal();
        }
        log.append(key.lpa(PAGE), key.in_page(PAGE));
    }
}

fn empty<I: LogIndex>(log: &mut WriteLog<I>) {
    for _ in 0..2 {
        let pages: Vec<Lpa> = {
            let mut cursor = Default::default();
            std::iter::from_fn(|| log.next_sealed_page(&mut cursor)).collect()
        };
        for page in pages {
            log.drop_sealed_page(page);
        }
        log.release_sealed();
        if log.should_seal() {
            log.seal();
        }
    }
}

/// Nanoseconds for a lookup of keys that are known beforehand.
fn look_up<I: LogIndex>(log: &WriteLog<I>, keys: &[LineAddr]) -> f64 {
    let before = cpu_seconds();
    let found = find_all(log, keys);
    let seconds = cpu_seconds() - before;
    assert_eq!(black_box(found), keys.len(), "every line is in the log");
    seconds * 1e9 / keys.len() as f64
}

// Not inlined: callgrind finds it by its name.
#[inline(never)]
fn find_all<I: LogIndex>(log: &WriteLog<I>, keys: &[LineAddr]) -> usize {
    let slots = keys
        .iter()
        .map(|key| log.find(key.lpa(PAGE), key.in_page(PAGE)));
    slots.filter(Option::is_some).count()
}

/// Nanoseconds for a lookup if each key is known when the slot of the one before is.
fn look_up_in_turn<I: LogIndex>(log: &WriteLog<I>, keys: &[LineAddr]) -> f64 {
    let (mut found, mut last) = (0, LogSlot::new(0));
    let before = cpu_seconds();
    for at in 0..keys.len() {
        // No slot is the last one that can be named.
        let key = keys[at - usize::from(last == LogSlot::new(u32::MAX)).min(at)];
        let slot = log.find(key.lpa(PAGE), key.in_page(PAGE));
        found += usize::from(slot.is_some());
        last = slot.unwrap_or(last);
    }
    let seconds = cpu_seconds() - before;
    assert_eq!(black_box(found), keys.len(), "every line is in the log");
    seconds * 1e9 / keys.len() as f64
}

/// Nanoseconds for one load of memory in the order of the lookups: each page's share of as many
/// bytes as the index has, at a place of chance. No index of this size can be quicker.
fn load(keys: &[LineAddr], bytes: u64, pages: u64) -> f64 {
    let memory = vec![1u64; (bytes / 8) as usize];
    let share = memory.len() / pages as usize;
    let place = |key: &LineAddr| {
        let mixed = key.lpa(PAGE).get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((mixed * pages) >> 32) as usize * share
    };
    let places: Vec<usize> = keys.iter().map(place).collect();
    let before = cpu_seconds();
    let sum: u64 = places.iter().map(|place| memory[*place]).sum();
    let seconds = cpu_seconds() - before;
    assert_eq!(black_box(sum), keys.len() as u64);
    seconds * 1e9 / keys.len() as f64
}

/// Nanoseconds for one load of so many bytes of memory if its address comes from the one before.
fn load_in_turn(random: &mut Stream, bytes: u64) -> f64 {
    // One cache line each, in one cycle of all of them (Sattolo).
    let mut next: Vec<[u32; 16]> = (0..(bytes / 64) as u32).map(|line| [line; 16]).collect();
    for last in (1..next.len()).rev() {
        next.swap(last, random.below(last as u64) as usize);
    }
    let (mut at, before) = (0u32, cpu_seconds());
    for _ in 0..LOOKUPS {
        at = next[at as usize][0];
    }
    let seconds = cpu_seconds() - before;
    assert!(black_box(at as usize) < next.len());
    seconds * 1e9 / LOOKUPS as f64
}
