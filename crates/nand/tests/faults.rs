//! Commands that fail, and reads that take more than one attempt.

use crate::common::{Driven, at, small};
use nand::{Fault, FaultConfig, Faults, Kind, Operation};
use units::{BlockAddr, Picos, Ppa, Ratio};

fn faulty(change: impl Fn(&mut FaultConfig)) -> Driven {
    let mut config = FaultConfig {
        seed: 1,
        rated_wear: 1,
        initial_wear: 0,
        day: Picos::from_micros(10_000),
        rated_retention_days: 1,
        factory_bad: Ratio::percent(0),
        grown_bad: Ratio::percent(0),
        program_failure: Ratio::percent(0),
        erase_failure: Ratio::percent(0),
        raw_errors: 0,
        correctable: 10,
        retry_steps: 2,
        retry_gain: Ratio::percent(50),
    };
    change(&mut config);
    let mut driven = Driven::new(&small());
    let faults = Faults::new(&config, *driven.nand.geometry());
    driven.nand = driven.nand.with_faults(faults);
    driven
}

#[test]
fn a_read_takes_a_page_read_more_for_each_retry_and_says_if_it_was_in_vain() {
    // New and fresh flash has a fortieth of the errors, times 7/8 or more: from 10 to 80.
    let cases = [
        (200, 0, None),
        (600, 1, None),
        (100_000, 2, Some(Fault::Uncorrectable)),
    ];
    for (raw_errors, retries, fault) in cases {
        let mut driven = faulty(|config| config.raw_errors = raw_errors.min(10_000));
        driven.submit(at(0), 1, Operation::Read(Ppa::new(0)));
        driven.finish();
        let completion = driven.completed[0];
        let t_r = Picos::from_micros(3);
        let expected = small().unloaded_read() + t_r * retries;
        assert_eq!(
            (completion.latency(), completion.fault),
            (expected, fault),
            "{raw_errors}"
        );
        let stats = driven.nand.stats().of(Kind::Read);
        assert_eq!((stats.retries, stats.retry_time), (retries, t_r * retries));
        assert_eq!(stats.failed, u64::from(fault.is_some()));
        driven.nand.audit();
    }
}

#[test]
fn a_failed_program_or_erase_takes_its_time_and_says_so() {
    let mut driven = faulty(|config| {
        config.grown_bad = Ratio::percent(100);
    });
    let erase = Operation::Erase(BlockAddr::new(0));
    let program = Operation::Program(Ppa::new(0));
    driven.submit(at(0), 0, erase);
    driven.finish();
    assert_eq!(driven.completed[0].fault, None, "new flash is good");
    for (tag, operation, kind, fault) in [
        (1, program, Kind::Program, Fault::ProgramFailed),
        (2, erase, Kind::Erase, Fault::EraseFailed),
    ] {
        driven.submit(at(10_000_000 * u64::from(tag)), tag, operation);
        driven.finish();
        let completion = driven.completed[tag as usize];
        assert_eq!(completion.fault, Some(fault));
        assert_eq!(completion.latency(), driven.nand.service_time(kind));
        assert_eq!(driven.nand.stats().of(kind).failed, 1);
    }
    let condition = driven.nand.faults().expect("as made").conditions()[0];
    assert_eq!(condition.wear, 1, "a failed erase is none");
    driven.nand.audit();
}
