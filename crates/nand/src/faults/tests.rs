use super::*;
use units::PageSize;

/// 16,384 pages in 1,024 blocks.
const GEOMETRY: FlashGeometry = FlashGeometry {
    channel_count: 1,
    chips_per_channel: 1,
    dies_per_chip: 1,
    planes_per_die: 1,
    blocks_per_plane: 1024,
    units_per_block: 16,
    unit_size: PageSize::KIB_4,
    units_per_page: 1,
};

fn off() -> FaultConfig {
    FaultConfig {
        seed: 1,
        rated_wear: 1000,
        initial_wear: 0,
        day: Picos::from_micros(10_000),
        rated_retention_days: 365,
        factory_bad: Ratio::percent(0),
        grown_bad: Ratio::percent(0),
        program_failure: Ratio::percent(0),
        erase_failure: Ratio::percent(0),
        raw_errors: 0,
        correctable: 72,
        retry_steps: 5,
        retry_gain: Ratio::percent(25),
    }
}

fn worn(config: &FaultConfig, wear: u32, age: u32) -> Faults {
    let mut faults = Faults::new(config, GEOMETRY);
    let written = Some(Day::default());
    for block in (0..GEOMETRY.block_count()).map(BlockAddr::new) {
        faults.restore(block, Condition { wear, written });
    }
    faults.set_today(Day::new(age));
    faults
}

fn pages() -> impl Iterator<Item = Ppa> {
    (0..GEOMETRY.unit_count()).map(Ppa::new)
}

fn blocks() -> impl Iterator<Item = BlockAddr> {
    (0..GEOMETRY.block_count()).map(BlockAddr::new)
}

/// Failed programs and erases.
fn failures(mut faults: Faults) -> (usize, usize) {
    let programs = pages().filter(|page| !faults.program(*page)).count();
    let erases = blocks().filter(|block| !faults.erase(*block)).count();
    (programs, erases)
}

/// Reads that were done again, and those that failed.
fn reads(faults: &Faults) -> (usize, usize) {
    let outcomes = || pages().map(|page| faults.read(page));
    let retried = outcomes().filter(|outcome| outcome.retries > 0).count();
    (
        retried,
        outcomes().filter(|outcome| !outcome.is_corrected).count(),
    )
}

#[test]
fn nothing_fails_with_the_rates_at_zero() {
    assert!(off().is_off());
    let faults = worn(&off(), 100_000, 36_500);
    assert_eq!(faults.factory_bad_blocks().count(), 0);
    assert_eq!((reads(&faults), failures(faults)), ((0, 0), (0, 0)));
}

#[test]
fn failures_come_at_the_stated_rate_at_rated_wear_and_a_tenth_of_it_when_new() {
    let config = FaultConfig {
        program_failure: Ratio::percent(10),
        erase_failure: Ratio::percent(50),
        ..off()
    };
    let share = |failed: usize, of: usize, low: usize, high: usize| {
        assert!(
            (of * low..of * high).contains(&(failed * 1000)),
            "{failed} of {of}"
        );
    };
    let (programs, erases) = failures(worn(&config, 1000, 0));
    share(programs, 16_384, 90, 110);
    share(erases, 1024, 450, 550);
    let (programs, erases) = failures(worn(&config, 0, 0));
    share(programs, 16_384, 8, 12);
    share(erases, 1024, 30, 70);
}

#[test]
fn bad_blocks_fail_always_and_grow_to_the_stated_share() {
    let config = FaultConfig {
        factory_bad: Ratio::percent(5),
        grown_bad: Ratio::percent(20),
        ..off()
    };
    let faults = worn(&config, 0, 0);
    let bad: Vec<BlockAddr> = faults.factory_bad_blocks().collect();
    assert!((30..75).contains(&bad.len()), "{}", bad.len());
    let (_, erases) = failures(faults);
    assert_eq!(erases, bad.len(), "none has grown on new flash");
    let (_, half) = failures(worn(&config, 500, 0));
    let (programs, whole) = failures(worn(&config, 1000, 0));
    assert!((110..180).contains(&half), "{half}");
    assert!((200..290).contains(&whole), "{whole}");
    assert_eq!(
        programs,
        whole * 16,
        "no page of a bad block can be programmed"
    );
}

#[test]
fn reads_get_worse_with_wear_and_age() {
    let config = FaultConfig {
        raw_errors: 36,
        ..off()
    };
    let [new, used, old, ancient] = [(0, 0), (1000, 0), (1000, 365), (4000, 1000)]
        .map(|(wear, age)| reads(&worn(&config, wear, age)));
    assert_eq!((new, used), ((0, 0), (0, 0)));
    // Twice the mean: one page in 2 to the power of 9, less what the straight line takes.
    assert!((15..60).contains(&old.0) && old.1 == 0, "{old:?}");
    assert!(ancient.0 == 16_384 && ancient.1 > 100, "{ancient:?}");
}

#[test]
fn each_retry_does_away_with_its_share() {
    let config = FaultConfig {
        raw_errors: 100,
        ..off()
    };
    let faults = worn(&config, 1000, 365);
    for page in pages() {
        let steps = (0..).scan(faults.raw_errors(page), |errors, _| {
            let now = *errors;
            *errors = *errors * 3 / 4;
            Some(now)
        });
        let needed = steps.take_while(|errors| *errors > 72 * UNIT).count() as u32;
        let outcome = faults.read(page);
        assert_eq!(outcome.retries, needed.min(5));
        assert_eq!(outcome.is_corrected, needed <= 5);
    }
    assert!(reads(&faults).0 > 16_000);
}

#[test]
fn outcomes_depend_on_seed_place_and_condition_alone() {
    let config = FaultConfig {
        program_failure: Ratio::percent(50),
        raw_errors: 72,
        ..off()
    };
    let mut forwards = worn(&config, 1000, 365);
    let mut backwards = forwards.clone();
    let one: Vec<bool> = pages().map(|page| forwards.program(page)).collect();
    let mut other: Vec<bool> = (0..GEOMETRY.unit_count())
        .rev()
        .map(|page| backwards.program(Ppa::new(page)))
        .collect();
    other.reverse();
    assert_eq!(one, other);
    assert_eq!(forwards.read(Ppa::new(7)), backwards.read(Ppa::new(7)));
    let other_seed = FaultConfig { seed: 2, ..config };
    let mut elsewhere = Faults::new(&other_seed, GEOMETRY);
    blocks().for_each(|block| elsewhere.restore(block, forwards.conditions()[block.index()]));
    let third: Vec<bool> = pages().map(|page| elsewhere.program(page)).collect();
    assert_ne!(one, third);
    let block = BlockAddr::new(0);
    assert!(forwards.erase(block));
    assert_eq!(forwards.conditions()[0].wear, 1001);
    let again: Vec<bool> = (0..16)
        .map(|page| forwards.program(Ppa::new(page)))
        .collect();
    assert_ne!(one[..16], again, "another wear is another draw");
    assert_eq!(forwards.conditions()[0].written, Some(Day::new(365)));
}

#[test]
fn everything_out_of_range_is_said() {
    let config = FaultConfig {
        rated_wear: 0,
        initial_wear: 10_000_001,
        day: Picos::from_micros(9_999),
        rated_retention_days: 0,
        factory_bad: Ratio::percent(51),
        retry_gain: Ratio::percent(101),
        retry_steps: 65,
        correctable: 0,
        ..off()
    };
    let problems = config.validate();
    assert_eq!(problems.len(), 8, "{problems:?}");
    assert!(problems.contains(&"faults.factory_bad is 51%; it must be at most 50%".to_owned()));
    assert!(off().validate().is_empty());
}
