//! Counts against a list of everything that was ever counted.

use dax::{Dax, PolicyKind, Settings};
use units::{Picos, Stream, Time};

const WRITE_DELAY: u64 = 64_000_000;
const WRITE_BACK_DELAY: u64 = 32_000_000;

fn settings(order: u32) -> Settings {
    Settings {
        order,
        write_delay: Picos::new(WRITE_DELAY),
        write_back_delay: Picos::new(WRITE_BACK_DELAY),
        ..Settings::default()
    }
}

/// What was counted: file, page, when, how many.
type Counted = Vec<(usize, u64, u64, u32)>;

/// How many of a range's counts are alive at `now`, if each lives for so long.
fn alive(counted: &Counted, of: (usize, u64), order: u32, now: u64, life: u64) -> u32 {
    let of_range = counted
        .iter()
        .filter(|(file, page, time, _)| (*file, page >> order) == of && now < time + life);
    of_range.map(|(.., count)| count).sum()
}

/// A count ends behind its delay, and not later than a 32nd of it: whatever is counted when.
#[test]
fn counts_are_between_those_of_the_delay_and_of_a_32nd_more() {
    for seed in 0..60 {
        let mut stream = Stream::new(seed, "tracker");
        let order = stream.below(6) as u32;
        let mut dax = Dax::new(&settings(order)).expect("good settings");
        let files = [dax.open(), dax.open(), dax.open()];
        let (mut writes, mut write_backs) = (Counted::new(), Counted::new());
        let mut now = 0;
        // Steps of less than a slot, of some slots, and of more than a delay.
        let step = [100_000, 3_000_000, 200_000_000][stream.below(3) as usize];
        for _ in 0..250 {
            now += stream.below(step);
            let file = stream.below(3) as usize;
            let page = stream.below(40);
            let pages = 1 + stream.below(4) as u32;
            let (time, at) = (Time::from_picos(now), files[file]);
            let into = match stream.below(2) {
                0 => {
                    dax.wrote(at, page, pages, time);
                    &mut writes
                }
                _ => {
                    dax.wrote_back(at, page, pages, time);
                    &mut write_backs
                }
            };
            into.extend((page..page + u64::from(pages)).map(|page| (file, page, now, 1)));
            let looked_at = stream.below(3) as usize;
            let ranges = dax.ranges(files[looked_at], time);
            for range in 0..=44 >> order {
                let of = (looked_at, range);
                let view = ranges
                    .iter()
                    .find(|view| view.pages.start == range << order);
                let counts = view.map(|view| view.counts).unwrap_or_default();
                let seen = [
                    (counts.writes, &writes, WRITE_DELAY),
                    (counts.write_backs, &write_backs, WRITE_BACK_DELAY),
                ];
                for (count, counted, delay) in seen {
                    let least = alive(counted, of, order, now, delay);
                    let most = alive(counted, of, order, now, delay + delay / 32);
                    assert!(
                        (least..=most).contains(&count),
                        "seed {seed}, at {now}: {count} of range {range} is not in {least}..={most}"
                    );
                }
            }
        }
    }
}

/// A day of writes all over a large file takes the memory of a moment of it.
#[test]
fn memory_is_that_of_what_is_alive() {
    let mut dax = Dax::new(&settings(0)).expect("good settings");
    let file = dax.open();
    let mut stream = Stream::new(1, "a day");
    let (mut most, mut held) = (0, 0);
    for step in 0..300_000_u64 {
        let now = Time::from_picos(step * 100_000);
        dax.wrote(file, stream.below(1 << 32), 1, now);
        let footprint = dax.footprint();
        most = most.max(footprint.ranges);
        held = footprint.held + footprint.index + footprint.decaying.1;
    }
    // A range is known for 64 to 66 us, and there is one more in each tenth of it.
    assert!((640..=661).contains(&most), "{most} ranges at a time");
    assert!(held < 640_000, "{held} bytes");
    dax.ranges(file, Time::from_picos(1 << 50));
    assert!(dax.is_idle(), "all counts have ended");
    assert_eq!(dax.footprint().decaying.0, 0);
}

/// Bytes that are held after hours of an append stream that is synced each 100 ms, with ranges of
/// 16 pages that go up and down.
fn held_after(kind: PolicyKind, hours: u64) -> usize {
    let settings = Settings {
        kind,
        order: 4,
        ..Settings::default()
    };
    let mut dax = Dax::new(&settings).expect("good settings");
    let file = dax.open();
    for step in 0..hours * 36_000 {
        let now = Time::from_picos(step * 100_000_000_000);
        dax.wrote(file, step / 8, 1, now);
        dax.wrote_back(file, step / 8, 1, now);
        while let Some(job) = dax.next_job(now) {
            let _ = dax.finish(job, true, now);
        }
    }
    assert!(dax.stats().upgrades > hours * 200, "{:?}", dax.stats());
    let footprint = dax.footprint();
    footprint.held + footprint.index + footprint.decaying.1
}

/// Policies that let go what is idle hold after 24 hours what they hold after one.
#[test]
fn a_day_of_upgrades_takes_the_memory_of_an_hour() {
    for kind in [PolicyKind::Predict, PolicyKind::Adaptive] {
        let (hour, day) = (held_after(kind, 1), held_after(kind, 24));
        assert!(day <= hour, "{kind}: {hour} bytes, and {day} behind a day");
        assert!(day < 40_000, "{kind}: {day} bytes");
    }
}

/// Beside its index a range takes 16 bytes, and its index what the issue of trees costs.
#[test]
fn a_range_takes_sixteen_bytes_and_an_index() {
    let mut dax = Dax::new(&settings(9)).expect("good settings");
    let file = dax.open();
    for range in 0..1 << 16 {
        dax.wrote(file, range << 9, 1, Time::from_picos(0));
    }
    let footprint = dax.footprint();
    assert_eq!((footprint.ranges, footprint.range_bytes), (1 << 16, 16));
    assert_eq!(footprint.held, 16 << 16);
    assert!(footprint.index < 21 << 16, "{} bytes", footprint.index);
}

/// A range takes one record for each slot, in blocks that were used before too.
#[test]
fn writes_of_a_range_within_a_slot_share_a_record() {
    let mut dax = Dax::new(&settings(0)).expect("good settings");
    let file = dax.open();
    for round in 0..4 {
        let now = Time::from_picos(round << 40);
        for _ in 0..1000 {
            dax.wrote(file, 7, 1, now);
            dax.wrote(file, 8, 1, now);
        }
        assert_eq!(dax.footprint().decaying.0, 2, "round {round}");
    }
}

/// Files that are closed leave counts under way, which are nobody's.
#[test]
fn counts_of_a_closed_file_are_not_those_of_the_next_one() {
    let mut dax = Dax::new(&settings(0)).expect("good settings");
    let now = Time::from_picos(0);
    for round in 0..100 {
        let file = dax.open();
        for page in 0..10 {
            dax.wrote(file, page, 3, now);
        }
        let counts = dax.ranges(file, now)[0].counts;
        assert_eq!(counts.writes, 3 - 2, "round {round}");
        dax.forget(file);
    }
    let file = dax.open();
    assert_eq!(dax.ranges(file, Time::from_picos(1 << 40)), []);
    assert!(dax.is_idle());
}
