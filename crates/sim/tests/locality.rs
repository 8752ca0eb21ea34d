//! How much of a page is used while it is cached: a plain model, and a walk counted by hand.

use crate::common::{LINE, PAGE, Program, prepare};
use proptest::prelude::*;
use sim::locality::PageUse;
use std::collections::{BTreeMap, BTreeSet};
use units::{LineInPage, Lpa};

/// A list of pages, the youngest last, with the lines used and written.
type Plain = Vec<(u64, BTreeSet<u8>, BTreeSet<u8>)>;

fn note(histogram: &mut BTreeMap<usize, u64>, lines: usize) {
    *histogram.entry(lines).or_default() += 1;
}

fn counts(histogram: &[u64; 65]) -> BTreeMap<usize, u64> {
    let all = histogram.iter().copied().enumerate();
    all.filter(|(_, count)| *count > 0).collect()
}

proptest! {
    #[test]
    fn pages_leave_as_from_a_plain_list(
        capacity in 1..6_usize,
        accesses in prop::collection::vec((0..9_u64, 0..64_u8, any::<bool>()), 0..200),
    ) {
        let mut cache = PageUse::new(9, capacity);
        let mut plain = Plain::new();
        let (mut read, mut flushed) = (BTreeMap::new(), BTreeMap::new());
        for (page, line, is_write) in accesses {
            cache.access(Lpa::new(page), LineInPage::new(line.into()), is_write);
            let known = plain.iter().position(|(known, ..)| *known == page);
            let new = || (page, BTreeSet::new(), BTreeSet::new());
            let mut entry = known.map_or_else(new, |at| plain.remove(at));
            entry.1.insert(line);
            if is_write {
                entry.2.insert(line);
            }
            plain.push(entry);
            if plain.len() > capacity {
                let (_, used, written) = plain.remove(0);
                note(&mut read, used.len());
                if !written.is_empty() {
                    note(&mut flushed, written.len());
                }
            }
        }
        plain.iter().for_each(|(_, used, _)| note(&mut read, used.len()));
        let (reads, flushes) = cache.finish();
        prop_assert_eq!(counts(&reads), read);
        prop_assert_eq!(counts(&flushes), flushed);
    }
}

/// Eight pages, of which the program reads two lines each, and writes a third in every second
/// page, one page after the other; then it walks through 512 KiB so that L3 (256 KiB, 16 ways)
/// gives back what is dirty.
#[test]
fn a_walk_counts_the_lines_beyond_l3() {
    let mut program = Program::new();
    let thread = program.thread();
    for page in 0..8 {
        program.load(thread, page * PAGE);
        program.load(thread, page * PAGE + LINE);
        if page % 2 == 0 {
            program.store(thread, page * PAGE + 2 * LINE);
        }
    }
    for line in 0..8 * 1024 {
        program.load(thread, 8 * PAGE + line * LINE);
    }
    let trace = program.finish();
    let prepared = prepare(&trace, "demo", "dram-only", &[]);
    let locality = prepared
        .page_locality(&[1, 136], &mut |_| true)
        .expect("nobody interrupts");
    assert_eq!(locality["footprint_pages"], 136);
    assert_eq!(locality["l3_writes"], 4);
    // All pages fit: each is read once and none is flushed. Two lines are used of odd pages, three
    // of even ones, 64 of the others.
    let whole = &locality["caches"][0];
    let used = |cache: &serde_json::Value, lines: usize| cache["lines_used"][lines].as_u64();
    assert_eq!(used(whole, 2), Some(4));
    assert_eq!(used(whole, 3), Some(4));
    assert_eq!(used(whole, 64), Some(128));
    assert_eq!(
        (&whole["read_pages"], &whole["flushed_pages"]),
        (&136.into(), &0.into())
    );
    // One page: the dirty lines come back alone, each flushes its page when the walk goes on.
    let one = &locality["caches"][1];
    assert_eq!(one["cache_pages"], 1);
    assert_eq!(one["lines_dirty"][1], 4);
    assert_eq!(one["flushed_pages"], 4);
}

#[test]
fn a_walk_can_be_interrupted() {
    let mut program = Program::new();
    let thread = program.thread();
    program.alu(thread, 5_000);
    let trace = program.finish();
    let prepared = prepare(&trace, "demo", "dram-only", &[]);
    let outcome = prepared.page_locality(&[2], &mut |progress| progress.instructions < 2_000);
    assert!(matches!(outcome, Err(sim::SimError::Interrupted)));
}
