//! Transactions on a device that does one thing at a time: who sees what when, what is refused, and
//! how commits, aborts and the log meet.

use crate::common::FaultRates;
use crate::device::*;
use firmware::{Answer, ControllerConfig, PagePlace, Refusal, RequestOp, Response};
use units::{Bytes, Picos, Ratio, RequestId, Stream, TxId};

const ONE: TxId = TxId::new(1);
const TWO: TxId = TxId::new(2);
const READ_LINE: RequestOp = RequestOp::Read {
    delay_allowed: false,
};

/// Halves of `half` lines, a TxLog of `commits`.
fn with_transactions(half: u64, commits: u64) -> ControllerConfig {
    let mut config = config(half);
    config.ssd.log.tx_log = Bytes::new(4) * commits;
    config.ssd.dram += config.ssd.log.tx_log;
    config
}

fn device(half: u64) -> Device {
    Device::new(&with_transactions(half, 100))
}

/// Writes a line, whose token is the number of the request.
fn write(device: &mut Device, id: u32, tx: TxId, page: u64, line: u64) -> Vec<Response> {
    let payload = device.bench.page(PagePlace::Host(RequestId::new(id)));
    payload[0] = u64::from(id);
    device.send(id, RequestOp::WriteRun { count: 1, tx }, page, line)
}

fn read(device: &mut Device, page: u64, line: u64) -> u64 {
    if device.send(900, READ_LINE, page, line).is_empty() {
        device.settle(Picos::from_micros(5));
    }
    device.bench.host[900]
}

fn answer(answers: &[Response]) -> Answer {
    assert_eq!(answers.len(), 1);
    answers[0].answer
}

fn end(device: &mut Device, op: RequestOp) -> Answer {
    answer(&device.send(800, op, 0, 0))
}

#[test]
fn a_line_of_an_open_transaction_is_seen_and_gone_again_if_it_is_aborted() {
    let mut device = device(16);
    write(&mut device, 1, TxId::NONE, 1, 5);
    for id in [2, 3] {
        write(&mut device, id, ONE, 1, 5);
        assert_eq!(read(&mut device, 1, 5), u64::from(id));
    }
    assert_eq!(
        end(&mut device, RequestOp::Abort { tx: ONE }),
        Answer::Written
    );
    assert_eq!(read(&mut device, 1, 5), 1);
    write(&mut device, 4, TWO, 1, 5);
    assert_eq!(
        end(&mut device, RequestOp::Commit { tx: TWO }),
        Answer::Written
    );
    assert_eq!(read(&mut device, 1, 5), 4);
}

#[test]
fn what_is_open_is_in_the_way_of_all_others() {
    let mut device = device(16);
    write(&mut device, 1, ONE, 1, 5);
    let conflict = Answer::Refused(Refusal::Conflict { with: ONE });
    assert_eq!(answer(&write(&mut device, 2, TWO, 1, 5)), conflict);
    assert_eq!(answer(&write(&mut device, 2, TxId::NONE, 1, 5)), conflict);
    for op in [RequestOp::Write, RequestOp::WritePage, RequestOp::Trim] {
        let line = if op == RequestOp::Write { 5 } else { 0 };
        assert_eq!(answer(&device.send(2, op, 1, line)), conflict);
    }
    assert_eq!(answer(&write(&mut device, 2, TWO, 1, 6)), Answer::Written);
    end(&mut device, RequestOp::Commit { tx: ONE });
    assert_eq!(
        answer(&write(&mut device, 2, TxId::NONE, 1, 5)),
        Answer::Written
    );
}

#[test]
fn names_are_known_from_the_first_write_to_the_end_and_not_used_twice_in_the_log() {
    let mut device = device(16);
    let unknown = Answer::Refused(Refusal::UnknownTransaction);
    assert_eq!(end(&mut device, RequestOp::Commit { tx: ONE }), unknown);
    write(&mut device, 1, ONE, 1, 5);
    end(&mut device, RequestOp::Commit { tx: ONE });
    assert_eq!(end(&mut device, RequestOp::Abort { tx: ONE }), unknown);
    let answers = write(&mut device, 1, ONE, 1, 5);
    assert_eq!(answer(&answers), Answer::Refused(Refusal::NameInUse));
    for id in 0..16 {
        write(&mut device, id, TxId::NONE, 2, 0);
    }
    device.settle(Picos::from_micros(200));
    assert_eq!(answer(&write(&mut device, 1, ONE, 1, 5)), Answer::Written);
}

/// Half of what a half holds may be open: four lines of eight.
#[test]
fn a_transaction_that_the_log_cannot_keep_is_refused_with_the_reason() {
    let mut device = device(8);
    let run = |count, tx| RequestOp::WriteRun { count, tx };
    let too_large = Answer::Refused(Refusal::TooLarge);
    assert_eq!(answer(&device.send(1, run(5, ONE), 1, 0)), too_large);
    assert_eq!(answer(&device.send(1, run(3, ONE), 1, 0)), Answer::Written);
    let no_room = Answer::Refused(Refusal::NoRoom);
    assert_eq!(answer(&device.send(1, run(2, TWO), 2, 0)), no_room);
    // Lines that are open already need no room.
    assert_eq!(answer(&device.send(1, run(4, ONE), 1, 0)), Answer::Written);
    assert_eq!(answer(&device.send(1, run(2, ONE), 1, 3)), too_large);
}

/// Half of what a half holds may be open or reserved: eight lines of sixteen.
#[test]
fn reserved_room_is_for_its_transaction_alone_and_comes_back() {
    let mut device = device(16);
    let run = |count, tx| RequestOp::WriteRun { count, tx };
    let refused = |why| Answer::Refused(why);
    assert_eq!(device.controller.most_open_lines(), 8);
    assert_eq!(device.controller.reserve(ONE, 9), Err(Refusal::TooLarge));
    assert_eq!(device.controller.reserve(ONE, 5), Ok(()));
    assert_eq!(device.controller.reserve(ONE, 1), Err(Refusal::NameInUse));
    assert_eq!(device.controller.reserve(TWO, 4), Err(Refusal::NoRoom));
    // Others have the rest.
    let no_room = refused(Refusal::NoRoom);
    assert_eq!(answer(&device.send(1, run(4, TWO), 2, 0)), no_room);
    assert_eq!(answer(&device.send(1, run(3, TWO), 2, 0)), Answer::Written);
    assert_eq!(device.controller.reserve(TWO, 1), Err(Refusal::NameInUse));
    // Its lines count once, however often they are written.
    for _ in 0..3 {
        assert_eq!(answer(&device.send(1, run(5, ONE), 1, 0)), Answer::Written);
        device.controller.audit();
    }
    let beyond = refused(Refusal::BeyondReservation);
    assert_eq!(answer(&device.send(1, run(2, ONE), 1, 4)), beyond);
    assert_eq!(
        end(&mut device, RequestOp::Commit { tx: ONE }),
        Answer::Written
    );
    assert_eq!(device.controller.reserve(ONE, 1), Err(Refusal::NameInUse));
    let three = TxId::new(3);
    assert_eq!(device.controller.reserve(three, 5), Ok(()));
    assert_eq!(
        end(&mut device, RequestOp::Abort { tx: TWO }),
        Answer::Written
    );
    assert_eq!(
        end(&mut device, RequestOp::Commit { tx: three }),
        Answer::Written
    );
    assert_eq!(
        device.controller.reserve(three, 8),
        Ok(()),
        "it has committed nothing"
    );
    device.controller.audit();
}

/// Whatever else is logged meanwhile, and however often halves are sealed.
#[test]
fn what_is_reserved_finds_room_in_a_full_log() {
    let mut device = device(8);
    assert_eq!(device.controller.reserve(ONE, 4), Ok(()));
    let mut answers = Vec::new();
    for round in 0..40 {
        write(
            &mut device,
            round,
            TxId::NONE,
            3 + u64::from(round % 5),
            u64::from(round % 7),
        );
        if round % 3 == 0 {
            let id = 100 + round;
            answers.extend(write(&mut device, id, ONE, 1, u64::from(round / 3 % 4)));
        }
        answers.extend(device.settle(Picos::from_micros(200)));
        device.controller.audit();
    }
    let refused = answers
        .iter()
        .filter(|it| matches!(it.answer, Answer::Refused(_)));
    assert_eq!(refused.count(), 0);
    let stats = *device.controller.stats();
    assert!(
        stats.migrated_lines > 8 && stats.compactions > 2,
        "{stats:?}"
    );
    assert_eq!(
        end(&mut device, RequestOp::Abort { tx: ONE }),
        Answer::Written
    );
    assert_eq!(read(&mut device, 1, 0), 0);
}

/// The half is sealed while a line is open that it has in a committed version too: that one is
/// programmed, and the open one moves.
#[test]
fn compaction_takes_the_committed_version_and_the_open_one_moves() {
    let mut device = device(4);
    write(&mut device, 1, TxId::NONE, 1, 5);
    write(&mut device, 2, ONE, 1, 5);
    for id in [3, 4] {
        write(&mut device, id, TxId::NONE, 2, 0);
    }
    assert_eq!(device.controller.stats().migrated_lines, 1);
    device.settle(Picos::from_micros(200));
    assert_eq!(device.controller.stats().compactions, 1);
    assert_eq!(read(&mut device, 1, 5), 2);
    end(&mut device, RequestOp::Abort { tx: ONE });
    assert_eq!(read(&mut device, 1, 5), 1);
}

#[test]
fn a_commit_without_an_entry_has_the_log_compacted_and_waits() {
    let mut device = Device::new(&with_transactions(16, 1));
    write(&mut device, 1, ONE, 1, 5);
    end(&mut device, RequestOp::Commit { tx: ONE });
    write(&mut device, 2, TWO, 1, 6);
    assert!(
        device
            .send(3, RequestOp::Commit { tx: TWO }, 0, 0)
            .is_empty()
    );
    let answers = device.settle(Picos::from_micros(200));
    assert_eq!(answer(&answers), Answer::Written);
    assert_eq!(answers[0].breakdown.stall, Picos::from_micros(200));
    let stats = *device.controller.stats();
    assert_eq!((stats.commit_stalls, stats.compactions), (1, 1));
    assert_eq!((read(&mut device, 1, 5), read(&mut device, 1, 6)), (1, 2));
}

/// The commit that waits is the end of its transaction: another one, of whatever kind, finds none.
#[test]
fn a_transaction_whose_commit_waits_is_ended_by_nothing_else() {
    for op in [RequestOp::Commit { tx: TWO }, RequestOp::Abort { tx: TWO }] {
        let mut device = Device::new(&with_transactions(16, 1));
        write(&mut device, 1, ONE, 1, 5);
        end(&mut device, RequestOp::Commit { tx: ONE });
        write(&mut device, 2, TWO, 1, 6);
        let waits = device.send(3, RequestOp::Commit { tx: TWO }, 0, 0);
        assert!(waits.is_empty());
        let unknown = Answer::Refused(Refusal::UnknownTransaction);
        assert_eq!(end(&mut device, op), unknown, "{op:?}");
        let answers = device.settle(Picos::from_micros(200));
        assert_eq!(answer(&answers), Answer::Written);
        assert_eq!((read(&mut device, 1, 5), read(&mut device, 1, 6)), (1, 2));
        device.controller.audit();
    }
}

#[test]
fn a_page_with_open_lines_rests_in_no_frame() {
    let mut device = device(16);
    device.fetch(1);
    write(&mut device, 1, ONE, 1, 5);
    let reads = device.bench.nand_reads;
    read(&mut device, 1, 6);
    read(&mut device, 1, 6);
    assert_eq!(device.bench.nand_reads, reads + 2);
    end(&mut device, RequestOp::Commit { tx: ONE });
    read(&mut device, 1, 6);
    read(&mut device, 1, 6);
    assert_eq!(device.bench.nand_reads, reads + 3);
}

/// A fetch is in flight all the while. Its frame has the line as it was before the transaction.
#[test]
fn a_frame_in_flight_does_not_answer_for_an_open_line_but_for_a_committed_one() {
    let mut device = device(16);
    assert!(device.send(700, READ_LINE, 1, 0).is_empty());
    write(&mut device, 1, TxId::NONE, 1, 5);
    write(&mut device, 2, ONE, 1, 5);
    let read_now = |device: &mut Device| {
        assert_eq!(device.send(900, READ_LINE, 1, 5).len(), 1);
        device.bench.host[900]
    };
    assert_eq!(read_now(&mut device), 2);
    end(&mut device, RequestOp::Abort { tx: ONE });
    assert_eq!(read_now(&mut device), 1);
    write(&mut device, 3, TWO, 1, 5);
    end(&mut device, RequestOp::Commit { tx: TWO });
    assert_eq!(read_now(&mut device), 3);
    device.settle(Picos::from_micros(5));
    assert_eq!(read(&mut device, 1, 5), 3);
}

/// Ends the oldest operation of a die.
fn finish(device: &mut Device, die: usize) -> bool {
    let Some(tag) = device.bench.finish_oldest(die) else {
        return false;
    };
    device
        .controller
        .on_nand_done(device.now, tag, &mut device.bench);
    device.bench.forget_register(tag);
    true
}

/// A fetch that began before a program of its page ends after it: the frame takes what leaves the
/// sealed half, in the committed version, which is right when the open one is aborted.
#[test]
fn a_fetch_that_compaction_overtakes_has_the_committed_version() {
    let mut overtaken = 0;
    for page in 0..4 {
        let mut device = device(4);
        for line in 0..4 {
            write(&mut device, 10 + line, TxId::NONE, page, u64::from(line));
        }
        let timer = device.bench.timers.pop_front().expect("the half is sealed");
        device
            .controller
            .on_timer(device.now, timer, &mut device.bench);
        write(&mut device, 2, ONE, page, 3);
        // Behind the read for compaction.
        assert!(device.send(700, READ_LINE, page, 40).is_empty());
        let home = device.controller.die_of(units::Lpa::new(page));
        let home = home.expect("it is mapped").index();
        assert!(finish(&mut device, home));
        if finish(&mut device, 1 - home) {
            overtaken += 1;
            assert_eq!(device.controller.stats().compactions, 1);
        }
        end(&mut device, RequestOp::Abort { tx: ONE });
        device.settle(Picos::from_micros(5));
        assert_eq!(read(&mut device, page, 3), 13);
    }
    assert!(overtaken > 0, "the program went behind the fetch each time");
}

/// Ends everything that is in flight, as flash that takes no program any more.
fn settle_on_dead_flash(device: &mut Device) -> Vec<Response> {
    let all = Ratio::percent(100);
    let fault_rates = FaultRates {
        programs: all,
        erases: all,
        reads: Ratio::percent(0),
    };
    device.bench.fault_rates = Some((fault_rates, Stream::new(1, "dead flash")));
    device.now += Picos::from_micros(1);
    let (controller, bench) = (&mut device.controller, &mut device.bench);
    loop {
        if let Some(timer) = bench.timers.pop_front() {
            controller.on_timer(device.now, timer, bench);
        } else if let Some(tag) = bench.finish_any() {
            match bench.fault {
                None => controller.on_nand_done(device.now, tag, bench),
                Some(fault) => controller.on_nand_failed(device.now, tag, fault, bench),
            }
            bench.forget_register(tag);
        } else {
            return device.answers();
        }
    }
}

const READ_ONLY: Answer = Answer::Refused(Refusal::ReadOnly);

#[test]
fn a_run_that_was_refused_at_a_standstill_in_part_is_given_up_by_an_abort() {
    let mut device = device(8);
    write(&mut device, 1, TxId::NONE, 3, 0);
    for id in 2..16 {
        write(&mut device, id, TxId::NONE, 2, u64::from(id));
    }
    // The last slot of the second half, while the first one is compacted; the rest waits.
    device.bench.page(PagePlace::Host(RequestId::new(20)))[..2].copy_from_slice(&[20, 21]);
    let run = RequestOp::WriteRun { count: 2, tx: ONE };
    assert_eq!(device.send(20, run, 3, 0), []);
    assert_eq!(answer(&settle_on_dead_flash(&mut device)), READ_ONLY);
    assert!(device.controller.health().is_stuck);
    assert_eq!(read(&mut device, 3, 0), 20, "not committed, and seen");
    let abort = RequestOp::Abort { tx: ONE };
    assert_eq!(end(&mut device, abort), Answer::Written);
    assert_eq!(read(&mut device, 3, 0), 1);
    let unknown = Answer::Refused(Refusal::UnknownTransaction);
    assert_eq!(end(&mut device, abort), unknown);
}

#[test]
fn the_window_takes_stores_of_a_device_whose_flash_takes_no_more() {
    let mut device = device(8);
    write(&mut device, 1, TxId::NONE, 3, 0);
    for id in 2..16 {
        write(&mut device, id, TxId::NONE, 2, u64::from(id));
    }
    let run = RequestOp::WriteRun { count: 2, tx: ONE };
    assert_eq!(device.send(20, run, 3, 0), []);
    assert_eq!(answer(&settle_on_dead_flash(&mut device)), READ_ONLY);
    let (page, tx) = (device.controller.logical_page_count(), TxId::NONE);
    device.bench.page(PagePlace::Host(RequestId::new(21)))[0] = 21;
    let answered = device.send(21, RequestOp::WriteRun { count: 1, tx }, page, 5);
    assert_eq!(answer(&answered), Answer::Written);
    assert_eq!(device.bench.window[5], 21);
    let answered = device.send(22, RequestOp::WriteRun { count: 1, tx }, 3, 5);
    assert_eq!(answer(&answered), READ_ONLY);
}

#[test]
fn a_commit_that_was_refused_at_a_standstill_leaves_its_transaction_to_be_aborted() {
    let mut device = Device::new(&with_transactions(8, 1));
    write(&mut device, 1, ONE, 3, 0);
    assert_eq!(
        end(&mut device, RequestOp::Commit { tx: ONE }),
        Answer::Written
    );
    write(&mut device, 2, TWO, 3, 0);
    let commit = RequestOp::Commit { tx: TWO };
    assert_eq!(device.send(800, commit, 0, 0), [], "the TxLog is full");
    assert_eq!(answer(&settle_on_dead_flash(&mut device)), READ_ONLY);
    assert!(device.controller.health().is_stuck);
    assert_eq!(end(&mut device, commit), READ_ONLY, "it may be asked again");
    let abort = RequestOp::Abort { tx: TWO };
    assert_eq!(end(&mut device, abort), Answer::Written);
    assert_eq!(read(&mut device, 3, 0), 1);
}

/// A drain reads page 1 to merge its lines of both halves. Before it has them a transaction opens
/// one of them, so what is programmed is without it; the transaction is given up before the program
/// has ended. The committed line of the active half was not collected and stays.
#[test]
fn a_drain_leaves_a_line_that_was_open_when_its_page_was_collected() {
    let mut config = with_transactions(16, 100);
    config.ssd.compaction.batch = 1;
    let mut device = Device::new(&config);
    for line in 0..15 {
        write(&mut device, 20, TxId::NONE, 2, line);
    }
    write(&mut device, 1, TxId::NONE, 1, 5);
    write(&mut device, 2, TxId::NONE, 1, 5);
    device.controller.drain_log(device.now, &mut device.bench);
    while device.controller.stats().coalescing_reads < 2 {
        assert!(device.step());
    }
    write(&mut device, 3, ONE, 1, 5);
    while device.controller.ftl_stats().host_programs < 2 {
        assert!(device.step());
    }
    let abort = RequestOp::Abort { tx: ONE };
    assert_eq!(end(&mut device, abort), Answer::Written);
    device.settle(Picos::from_micros(500));
    assert_eq!(read(&mut device, 1, 5), 2);
}
