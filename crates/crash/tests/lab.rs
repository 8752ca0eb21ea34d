//! The lab over many workloads. CRASH_POINTS says how many crash points; PROPTEST_RNG_SEED, with
//! which workload it begins.

use crate::report;
use crash::power_cutter::InFlightChoice;
use crash::shrink::shrink;
use crash::{Bug, Campaign, Options, Script, Tally, Workload, run};

const SOUND: Options = Options {
    choice: InFlightChoice::InTurn,
    again_of: 8,
    one_of: 1,
    bug: None,
    only: None,
};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("it is a number"))
}

#[test]
fn after_every_cut_the_host_finds_what_it_may_find() {
    let points = number("CRASH_POINTS", 100_000);
    let campaign = Campaign {
        seed: number("PROPTEST_RNG_SEED", 0),
        points,
        bug: None,
    };
    let mut tally = Tally::default();
    if let Err(failure) = campaign.run(&mut tally, |_| true) {
        let script = failure.script(None);
        let script = script.map(|(script, finding)| format!("{script}# {}", finding.what));
        panic!(
            "PROPTEST_RNG_SEED={}: {}\nentresol device crash repeat runs this:\n{}",
            failure.seed,
            failure.finding.what,
            script.unwrap_or_default()
        );
    }
    println!("PROPTEST_RNG_SEED={}: {tally}", campaign.seed);
    report::add("crash points", tally.points);
    for (what, count) in tally.activity.counts() {
        println!("{count:>10} {what}");
        let least = match what {
            "standstills" => 2,
            // One or two workloads of a hundred have any.
            "used_prefetches" => 5,
            // One for every twenty points: garbage collection is half of what flash does.
            "moves" => points / 20,
            _ => 25,
        };
        assert!(count >= least, "{what}: {count}");
    }
    assert!(
        tally.points >= points && tally.again * 20 > tally.points,
        "{tally}"
    );
    assert!(tally.state_count() as u64 * 2 > tally.points, "{tally}");
}

#[test]
fn a_page_written_through_the_block_port_is_old_or_new_after_every_cut() {
    let mut tally = Tally::default();
    for seed in 0..20 {
        let workload = Workload::of_pages(seed, 400);
        let found = run(&workload, SOUND, &mut tally);
        assert_eq!(found, Ok(()), "seed {seed}");
    }
    assert!(tally.points > 5_000 && tally.reads > 100, "{tally}");
    report::add("crash points", tally.points);
}

#[test]
fn a_log_that_alone_is_protected_keeps_its_lines_whatever_becomes_of_pages_over_them() {
    let mut tally = Tally::default();
    for seed in 0..24 {
        let workload = Workload::with_safe_log(seed, 300, seed % 4 == 3);
        let found = run(&workload, SOUND, &mut tally);
        assert_eq!(found, Ok(()), "seed {seed}");
    }
    assert!(tally.points > 5_000 && tally.again > 100, "{tally}");
    report::add("crash points", tally.points);
}

#[test]
fn frames_that_survive_keep_what_was_answered() {
    let mut tally = Tally::default();
    for seed in 0..24 {
        let workload = Workload::with_safe_frames(seed, 300, seed % 4 == 3);
        let found = run(&workload, SOUND, &mut tally);
        assert_eq!(found, Ok(()), "seed {seed}");
    }
    assert!(tally.points > 5_000 && tally.again > 100, "{tally}");
    report::add("crash points", tally.points);
}

#[test]
fn what_comes_ahead_drives_nothing_out_that_was_answered() {
    let mut tally = Tally::default();
    for seed in 0..24 {
        let found = run(&Workload::fetching_ahead(seed, 300), SOUND, &mut tally);
        assert_eq!(found, Ok(()), "seed {seed}");
    }
    assert!(tally.points > 5_000 && tally.again > 100, "{tally}");
    let ahead = tally.activity.used_prefetches;
    assert!(ahead > 100, "{ahead} pages that came ahead were asked for");
    report::add("crash points", tally.points);
}

#[test]
fn at_a_standstill_everything_answered_is_there_and_no_drain_is_over() {
    let mut tally = Tally::default();
    for seed in 0..24 {
        let found = run(&Workload::at_a_standstill(seed, 300), SOUND, &mut tally);
        assert_eq!(found, Ok(()), "seed {seed}");
    }
    assert!(tally.points > 5_000 && tally.again > 100, "{tally}");
    assert!(tally.activity.standstills > 12, "{:?}", tally.activity);
    report::add("crash points", tally.points);
}

#[test]
fn a_device_that_takes_its_buffers_for_as_safe_as_its_log_loses_lines() {
    let bug = Some(Bug::BatteryAssumed);
    let mut tally = Tally::default();
    let mut workloads = (0..24).map(|seed| Workload::with_safe_log(seed, 300, false));
    let found = workloads.find_map(|workload| {
        let options = Options { bug, ..SOUND };
        run(&workload, options, &mut tally).err()
    });
    report::add("crash points", tally.points);
    let found = found.expect("the bug is found");
    assert!(found.what.contains("holds"), "{found:?}");
}

#[test]
fn a_workload_that_is_thinned_out_does_the_same_with_fewer_cuts() {
    let run = |one_of| {
        let mut tally = Tally::default();
        let options = Options { one_of, ..SOUND };
        for seed in 0..8 {
            let found = run(&Workload::on_full_flash(seed, 200), options, &mut tally);
            assert_eq!(found, Ok(()), "seed {seed}, one of {one_of}");
        }
        tally
    };
    let (all, few) = (run(1), run(7));
    report::add("crash points", all.points + few.points);
    assert_eq!((all.activity, all.reads), (few.activity, few.reads));
    assert!(
        few.points * 5 < all.points && few.points * 10 > all.points,
        "{all}, {few}"
    );
}

#[test]
fn a_workload_that_fails_is_shrunk_to_a_script_that_fails_in_the_same_way() {
    let bug = Some(Bug::MappedBeforeProgrammed);
    let workload = Workload::of_pages(1, 400);
    let (script, finding) = shrink(&workload, bug).expect("the bug is found");
    assert!(script.workload.steps.len() <= 2, "{script}");
    assert!(script.cut.is_some(), "{script}");
    let read: Script = script.to_string().parse().expect("it is a script");
    assert_eq!(read.replay(&mut Tally::default()), Err(finding));
}
