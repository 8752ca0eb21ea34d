//! The lab over many workloads.

use crash::power_cutter::Fates;
use crash::shrink::shrink;
use crash::{Bug, Lab, Options, Script, Tally, Workload};

const SOUND: Options = Options {
    fates: Fates::InTurn,
    again_of: 8,
    bug: None,
    only: None,
};

#[test]
fn a_page_written_through_the_block_port_is_old_or_new_after_every_cut() {
    let mut tally = Tally::default();
    for seed in 0..40 {
        let workload = Workload::of_pages(seed, 400);
        let found = Lab::run(&workload, SOUND, &mut tally);
        assert_eq!(found, Ok(()), "seed {seed}");
    }
    println!("{tally}");
    assert!(tally.points > 5_000 && tally.reads > 100, "{tally}");
}

#[test]
fn a_workload_that_fails_is_shrunk_to_a_script_that_fails_in_the_same_way() {
    let bug = Some(Bug::MappedBeforeProgrammed);
    let workload = Workload::of_pages(0, 400);
    let (script, finding) = shrink(&workload, bug).expect("the bug is found");
    assert!(
        script.workload.steps.len() <= 2 && script.cut.is_some(),
        "{script}"
    );
    let read: Script = script.to_string().parse().expect("it is a script");
    assert_eq!(read.replay(&mut Tally::default()), Err(finding));
    assert!(shrink(&workload, None).is_none(), "a sound firmware");
}
