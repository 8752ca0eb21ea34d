//! What functional warm-up leaves out of a stream.

use super::{RUN_UP, filter};
use crate::core::testing::{Script, add, at, config, load, step, store};
use crate::fast::stream::{Kind, Record};
use units::Stream;

const STEPS: u64 = 60_000;

/// A thread that wanders about 256 KiB with loads that depend on each other, stores and syncs.
fn wander() -> Script {
    let insts = [load(1, 1), add(2, &[1, 2]), store(2, 3), load(3, 3)];
    let mut stream = Stream::new(7, "wander");
    let steps = (0..STEPS).map(|number| {
        let inst = (number % 4) as u32;
        // A short walk through each place, so that lines are on their way, at hand, and gone.
        let byte = stream.below(4096) * 64 + number % 64 / 8 * 8;
        let byte = if stream.below(4) == 0 {
            byte
        } else {
            byte % 8192
        };
        let mut step = step(
            inst,
            at(byte).filter(|_| inst % 3 == 0),
            at(byte).filter(|_| inst == 2),
        );
        step.has_sync = inst == 1 && stream.below(500) == 0;
        step
    });
    Script::new(&insts, steps.collect())
}

fn records(warmup: u64) -> Vec<Record> {
    filter(&mut wander(), &config(), warmup).records
}

/// What does not depend on which loads wait for what: what L1 does not have, and syncs.
fn seen(records: &[Record]) -> Vec<(Kind, u32)> {
    use Kind::{Fetch, Load, Store, Sync, WriteBack};
    let is_seen = |record: &&Record| matches!(record.kind, Load | Store | Fetch | WriteBack | Sync);
    let seen = records.iter().filter(is_seen);
    seen.map(|record| (record.kind, record.line)).collect()
}

fn instructions(records: &[Record]) -> u64 {
    records
        .iter()
        .map(|record| u64::from(record.instructions))
        .sum()
}

#[test]
fn what_only_warms_up_is_filtered_without_time_to_the_same_lines() {
    let (timed, functional) = (records(0), records(STEPS));
    assert_eq!(seen(&functional), seen(&timed));
    for kind in [
        Kind::Load,
        Kind::Store,
        Kind::Touch,
        Kind::Renewal,
        Kind::WriteBack,
        Kind::Sync,
    ] {
        assert!(
            functional.iter().any(|record| record.kind == kind),
            "{kind:?}"
        );
    }
    assert_eq!(
        [&timed, &functional].map(|records| instructions(records)),
        [STEPS; 2]
    );
    let end = functional.len() - RUN_UP as usize;
    assert!(
        functional[..end]
            .iter()
            .all(|record| record.gap == 0 && record.depends[0].back == 0)
    );
    assert!(timed.len() > functional.len());
}

#[test]
fn time_after_warm_up_is_as_if_all_had_been_timed() {
    let (timed, partly) = (records(0), records(STEPS / 2));
    // From where warm-up ends to the end of the thread.
    let mut rest = partly.len();
    let mut left = STEPS - STEPS / 2;
    while left > 0 {
        rest -= 1;
        left = left.saturating_sub(partly[rest].instructions.into());
    }
    let rest = &partly[rest + 1..];
    assert_eq!(rest, &timed[timed.len() - rest.len()..]);
    assert!(rest.iter().any(|record| record.depends[0].back > 0));
}
