//! The lab over many workloads.

use crash::power_cutter::Fates;
use crash::{Finding, Lab, Tally, Workload};

fn run(workload: &Workload, tally: &mut Tally) -> Result<(), Finding> {
    let mut lab = Lab::new(workload.device.clone(), Fates::InTurn, tally);
    workload.steps.iter().try_for_each(|step| lab.step(step))
}

#[test]
fn a_page_written_through_the_block_port_is_old_or_new_after_every_cut() {
    let mut tally = Tally::default();
    for seed in 0..40 {
        let workload = Workload::of_pages(seed, 400);
        assert_eq!(run(&workload, &mut tally), Ok(()), "seed {seed}");
    }
    println!("{tally}");
    assert!(tally.points > 5_000 && tally.reads > 100, "{tally}");
}
