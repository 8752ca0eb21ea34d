//! Single commands and pairs of them: every time is the sum of its documented parts, exactly.

use crate::common::{Driven, at, block_of, page, small};
use nand::{Kind, NandConfig, Operation, Parallelism, Scheduling};
use units::{BlockAddr, Bytes, FlashOp, PageSize, Picos, Ratio, Time};

/// When each of `commands` (submission in nanoseconds, operation) finishes.
fn finishes(config: &NandConfig, commands: &[(u64, Operation)]) -> Vec<Time> {
    let mut driven = Driven::new(config);
    for (tag, (nanos, operation)) in (0..).zip(commands) {
        driven.submit(at(*nanos), tag, *operation);
        driven.nand.audit();
    }
    driven.finish();
    (0..)
        .zip(commands)
        .map(|(tag, _)| driven.finish_of(tag))
        .collect()
}

#[test]
fn an_unloaded_operation_takes_the_sum_of_its_parts() {
    let config = small();
    // 4096 B at 2.4 GB/s is 1706.67 ns, rounded up to a picosecond.
    let transfer = Picos::new(1_706_667);
    assert_eq!(config.transfer_time(), transfer);
    let start = at(500);
    for (operation, service) in [
        (
            Operation::Read(page(&config, 0, 0, 0)),
            config.t_r + transfer,
        ),
        (
            Operation::Program(page(&config, 1, 0, 0)),
            transfer + config.t_prog,
        ),
        (Operation::Erase(block_of(&config, 2, 0)), config.t_bers),
    ] {
        assert_eq!(finishes(&config, &[(500, operation)]), [start + service]);
    }
    assert_eq!(config.unloaded_read(), config.t_r + transfer);
}

/// A block that is an eighth of the one that `t_bers` is of.
#[test]
fn an_erase_takes_its_share_of_the_time_of_a_block() {
    let mut config = small();
    let block = block_of(&config, 0, 0);
    for (share, time) in [
        (Ratio::percent(100), Picos::from_micros(1000)),
        (Ratio::new(1, 8), Picos::from_micros(125)),
        (Ratio::new(1, 3), Picos::new(333_333_334)),
        (Ratio::new(1, u64::MAX), Picos::new(1)),
    ] {
        config.erase_share = share;
        assert_eq!(
            finishes(&config, &[(0, Operation::Erase(block))]),
            [at(0) + time]
        );
        assert_eq!(config.timing().expected(FlashOp::Erase), time);
    }
}

#[test]
fn a_read_completes_at_its_time_and_not_a_picosecond_before() {
    let config = small();
    let mut driven = Driven::new(&config);
    driven.submit(Time::ZERO, 0, Operation::Read(page(&config, 0, 0, 0)));
    let end = Time::ZERO + config.unloaded_read();
    driven.run_before(end);
    assert_eq!(driven.completed.len(), 0);
    driven.run_before(end + Picos::new(1));
    assert_eq!(driven.completed.len(), 1);
}

#[test]
fn a_die_is_free_for_the_next_read_when_the_page_is_out_and_not_before() {
    let config = small();
    let read = |page_index| Operation::Read(page(&config, 0, 0, page_index));
    let service = config.unloaded_read();
    let ends = finishes(&config, &[(0, read(0)), (0, read(1))]);
    assert_eq!(ends, [Time::ZERO + service, Time::ZERO + service * 2]);
    let mut driven = Driven::new(&config);
    driven.submit(Time::ZERO, 0, read(0));
    let one_early = Time::from_picos(service.get() - 1);
    driven.submit(one_early, 1, read(1));
    driven.finish();
    assert_eq!(driven.completed[1].wait(), Picos::new(1));
}

#[test]
fn dies_of_a_channel_read_together_and_transfer_one_after_the_other() {
    let config = small();
    // Dies 0 and 2 are on channel 0, die 1 is on channel 1.
    let reads = [0, 2, 1].map(|die| (0, Operation::Read(page(&config, die, 0, 0))));
    let first = Time::ZERO + config.unloaded_read();
    assert_eq!(
        finishes(&config, &reads),
        [first, first + config.transfer_time(), first]
    );
}

#[test]
fn with_channel_parallelism_the_dies_of_a_channel_are_one_unit() {
    let config = NandConfig {
        parallelism: Parallelism::Channel,
        ..small()
    };
    let reads = [0, 2, 1].map(|die| (0, Operation::Read(page(&config, die, 0, 0))));
    let first = Time::ZERO + config.unloaded_read();
    assert_eq!(
        finishes(&config, &reads),
        [first, first + config.unloaded_read(), first]
    );
}

#[test]
fn a_read_overtakes_programs_only_with_read_priority() {
    let mut config = small();
    let programs_then_read = [
        (0, Operation::Program(page(&config, 0, 0, 0))),
        (0, Operation::Program(page(&config, 0, 0, 1))),
        (0, Operation::Read(page(&config, 0, 1, 0))),
    ];
    let program = config.transfer_time() + config.t_prog;
    let read = config.unloaded_read();
    let ends = |config: &NandConfig| finishes(config, &programs_then_read)[2];
    assert_eq!(ends(&config), Time::ZERO + program * 2 + read);
    config.scheduling = Scheduling::ReadPriority;
    assert_eq!(ends(&config), Time::ZERO + program + read);
}

#[test]
fn a_read_never_passes_a_program_of_its_page_or_an_erase_of_its_block() {
    let mut config = NandConfig {
        scheduling: Scheduling::ReadPriority,
        suspend: true,
        ..small()
    };
    config.t_suspend = Picos::from_nanos(100);
    let read = (5_000, Operation::Read(page(&config, 0, 0, 3)));
    for (passed, change) in [
        (false, Operation::Program(page(&config, 0, 0, 3))),
        (false, Operation::Erase(block_of(&config, 0, 0))),
        (true, Operation::Program(page(&config, 0, 0, 2))),
        (true, Operation::Erase(block_of(&config, 0, 1))),
    ] {
        // The change is at work, or queued behind another.
        let other = (0, Operation::Program(page(&config, 0, 2, 0)));
        let ends = finishes(&config, &[(0, change), read]);
        assert_eq!(ends[1] < ends[0], passed, "{change:?} at work");
        let ends = finishes(&config, &[other, (0, change), read]);
        assert_eq!(ends[2] < ends[1], passed, "{change:?} queued");
    }
}

#[test]
fn a_suspended_program_keeps_its_time_at_the_cells() {
    let t_suspend = Picos::from_micros(2);
    let config = NandConfig {
        scheduling: Scheduling::ReadPriority,
        suspend: true,
        t_suspend,
        ..small()
    };
    let program = Operation::Program(page(&config, 0, 0, 0));
    let read = |index| Operation::Read(page(&config, 0, 1, index));
    let mut driven = Driven::new(&config);
    driven.submit(at(0), 0, program);
    driven.submit(at(20_000), 1, read(0));
    driven.submit(at(21_000), 2, read(1));
    driven.submit(at(60_000), 3, read(2));
    driven.finish();
    let reads = config.unloaded_read();
    assert_eq!(driven.finish_of(1), at(20_000) + t_suspend + reads);
    assert_eq!(driven.finish_of(2), at(20_000) + t_suspend + reads * 2);
    assert_eq!(driven.finish_of(3), at(60_000) + t_suspend + reads);
    let undisturbed = config.transfer_time() + config.t_prog;
    assert_eq!(
        driven.finish_of(0),
        at(0) + undisturbed + (t_suspend * 2 + reads * 3)
    );
    let stats = driven.nand.stats();
    assert_eq!(stats.suspensions, 2);
    assert_eq!(stats.of(Kind::Program).suspended, t_suspend * 2 + reads * 3);
    assert_eq!(stats.die_busy, config.t_prog + config.t_r * 3);
}

/// A read that comes while the page of a program is on the bus starts when the transfer ends, and
/// the program behind it: one instant before that as one after it, but for `t_suspend`.
#[test]
fn a_program_that_has_not_begun_gives_way_without_suspension() {
    let config = NandConfig {
        scheduling: Scheduling::ReadPriority,
        suspend: true,
        ..small()
    };
    let program = (0, Operation::Program(page(&config, 0, 0, 0)));
    let read = (1_000, Operation::Read(page(&config, 0, 1, 0)));
    let (transfer, reads) = (config.transfer_time(), config.unloaded_read());
    let ends = finishes(&config, &[program, read]);
    assert_eq!(ends[1], Time::ZERO + transfer + reads);
    assert_eq!(ends[0], Time::ZERO + transfer + reads + config.t_prog);
    let config = NandConfig {
        suspend: false,
        ..config
    };
    let ends = finishes(&config, &[program, read]);
    assert_eq!(ends[0], Time::ZERO + transfer + config.t_prog);
}

#[test]
fn a_program_about_to_end_is_not_suspended() {
    let t_suspend = Picos::from_micros(2);
    let config = NandConfig {
        scheduling: Scheduling::ReadPriority,
        suspend: true,
        t_suspend,
        ..small()
    };
    let end = Time::ZERO + config.transfer_time() + config.t_prog;
    for (left, suspended) in [(t_suspend, 0), (t_suspend + Picos::new(1), 1)] {
        let mut driven = Driven::new(&config);
        driven.submit(Time::ZERO, 0, Operation::Program(page(&config, 0, 0, 0)));
        let read_at = Time::from_picos(end.as_picos() - left.get());
        driven.submit(read_at, 1, Operation::Read(page(&config, 0, 1, 0)));
        driven.finish();
        assert_eq!(driven.nand.stats().suspensions, suspended);
    }
}

/// Flash pages of 16 KiB, of which 4 KiB are read at a time: tR and a transfer of 4 KiB, but a
/// transfer of 16 KiB and tProg. Units of one page are of one program, so a read of another unit
/// waits for it, and goes ahead of the program of another page.
#[test]
fn a_unit_is_read_and_a_page_is_programmed() {
    let config = NandConfig {
        page_size: PageSize::KIB_16,
        scheduling: Scheduling::ReadPriority,
        ..small()
    };
    let transfer = config.transfer_time_of(PageSize::KIB_4);
    assert_eq!(
        config.transfer_time(),
        config.channel_bandwidth.time_for(Bytes::from_kib(16))
    );
    let unit = |nth| {
        config
            .geometry(PageSize::KIB_4)
            .unit_on(BlockAddr::new(0), nth)
    };
    let mut alone = Driven::in_units(&config, PageSize::KIB_4);
    alone.submit(Time::ZERO, 0, Operation::Read(unit(5)));
    alone.finish();
    assert_eq!(alone.finish_of(0), Time::ZERO + config.t_r + transfer);
    let program = Time::ZERO + config.transfer_time() + config.t_prog;
    let mut driven = Driven::in_units(&config, PageSize::KIB_4);
    driven.submit(Time::ZERO, 0, Operation::Program(unit(0)));
    driven.submit(Time::ZERO, 1, Operation::Program(unit(4)));
    driven.submit(Time::ZERO, 2, Operation::Read(unit(7)));
    driven.submit(Time::ZERO, 3, Operation::Read(unit(8)));
    driven.finish();
    assert_eq!(driven.finish_of(0), program);
    // The read of the third page goes ahead of the second program, that of the second does not.
    let third = program + config.t_r + transfer;
    assert_eq!(driven.finish_of(3), third);
    let second = third + config.transfer_time() + config.t_prog;
    assert_eq!(driven.finish_of(1), second);
    assert_eq!(driven.finish_of(2), second + config.t_r + transfer);
}
