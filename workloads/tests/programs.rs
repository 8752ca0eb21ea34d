//! Rules that hold for every program: the result does not depend on the threads, and a wrong one
//! is found.

use units::Bytes;
use workloads::program::{PROGRAMS, Program};
use workloads::{Failure, Setting, Threads, Work};

/// Small enough for a second, large enough for every thread to have work.
fn tiny(program: &Program, threads: usize, seed: u64) -> Setting {
    let (mib, work) = match program.name {
        "tpcc" => (100, 500),
        "dlrm" => (16, 120),
        _ => (16, 20_000),
    };
    Setting {
        footprint: Bytes::from_mib(mib),
        threads: Threads::new(threads).unwrap(),
        seed,
        work: Work::new(work),
        spoil: false,
    }
}

#[test]
fn the_result_is_the_same_for_any_number_of_threads() {
    for program in PROGRAMS {
        let alone = (program.run)(&tiny(program, 1, 1)).unwrap();
        for threads in [3, 8] {
            let together = (program.run)(&tiny(program, threads, 1)).unwrap();
            assert_eq!(together, alone, "{} with {threads} threads", program.name);
        }
    }
}

#[test]
fn another_seed_gives_another_result() {
    for program in PROGRAMS {
        let digest = |seed| (program.run)(&tiny(program, 3, seed)).unwrap().digest;
        assert_ne!(digest(1), digest(2), "{}", program.name);
    }
}

#[test]
fn a_spoilt_result_is_found_wrong() {
    for program in PROGRAMS {
        for threads in [1, 3] {
            let setting = Setting {
                spoil: true,
                ..tiny(program, threads, 1)
            };
            let failure = (program.run)(&setting).unwrap_err();
            assert!(
                matches!(failure, Failure::Wrong(_)),
                "{}: {failure:?}",
                program.name
            );
        }
    }
}
