//! Transactions of many tasks over one device: who waits for whom, who has room, and what is told.

mod by_chance;

use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{
    Acknowledge, Atomicity, Clock, Command, Conflict, Device, DeviceError, Payload, Transaction,
    TxLimits, TxOptions,
};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use units::{ByteAddr, Picos, TxId};
use vtime::{Machine, VirtualClock, VirtualDevice};

type Dev = VirtualDevice<DeviceEngine>;
type Wall = VirtualClock<DeviceEngine>;
type Notes<T> = Rc<RefCell<Vec<T>>>;

const LINE: u64 = 64;

/// A log of which 108 lines may be open, and a TxLog of so many commits.
fn config(commits: u32) -> DeviceConfig {
    config_with(commits, &[])
}

fn config_with(commits: u32, more: &[&str]) -> DeviceConfig {
    let tx_log = format!("ssd.log.tx_log={}B", 4 * commits);
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=24",
        "nand.pages_per_block=8",
        "ftl.over_provisioning=40%",
        "ftl.gc_buffers=4",
        "ssd.buffers=8",
        "ssd.compaction.batch=4",
        "ssd.cache.mshr_count=4",
        "ssd.log.size=32KiB",
        "ssd.dram=100KiB",
        &tx_log,
    ];
    let layers: Vec<Layer> = sets
        .iter()
        .chain(more)
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    DeviceConfig::of_preset("bytefs", &layers).unwrap()
}

fn machine() -> Machine<DeviceEngine> {
    let engine = DeviceEngine::in_memory(&config(1_000), Pace::None).unwrap();
    Machine::new(engine, 1)
}

fn limits(machine: &Machine<DeviceEngine>) -> TxLimits {
    machine.device().shape().transactions.expect("it has a log")
}

fn at(line: u64) -> ByteAddr {
    ByteAddr::new(line * LINE)
}

fn micros(count: u64) -> Picos {
    Picos::from_micros(count)
}

async fn sleep(clock: &Wall, count: u64) {
    clock.sleep_until(clock.now() + micros(count)).await;
}

/// Lines of one value.
fn lines(count: u32, value: u8) -> Vec<u8> {
    vec![value; count as usize * LINE as usize]
}

async fn line_of(device: &Dev, line: u64) -> u8 {
    let mut found = [0; LINE as usize];
    device.read(at(line), &mut found).await.unwrap();
    assert!(found.iter().all(|byte| *byte == found[0]), "a torn line");
    found[0]
}

/// Runs one task.
fn run<F: Future<Output = ()> + 'static>(body: impl FnOnce(Dev, Wall) -> F) {
    let mut machine = machine();
    let (device, clock) = (machine.device(), machine.clock());
    machine.spawn("task", body(device, clock));
    machine.run().unwrap();
    machine.engine().audit();
}

#[test]
fn the_shape_says_what_a_file_system_asks() {
    let shape = machine().device().shape();
    let lines = 108;
    let limits = shape.transactions.unwrap();
    assert_eq!(
        (limits.lines, shape.line.get(), shape.pmem.get()),
        (lines, LINE, 0)
    );
    assert!(limits.open > 0);
    assert_eq!(shape.costs, config(1_000).device.link());
    assert_eq!(shape.byte_domain, port::PersistenceDomain::Device);
    assert_eq!(shape.block_domain, port::PersistenceDomain::Device);
}

#[test]
fn others_see_what_an_open_transaction_has_written_through_both_ports() {
    run(|device, _| async move {
        let tx = Transaction::begin(&device, TxOptions::default())
            .await
            .unwrap();
        tx.write(at(3), &lines(1, 7)).await.unwrap();
        assert_eq!(line_of(&device, 3).await, 7, "not committed, and seen");
        let mut block = [0; 4096];
        device.read_blocks(at(0), &mut block).await.unwrap();
        assert_eq!(block[3 * 64..4 * 64], [7; 64]);
        tx.abort().await.unwrap();
        assert_eq!(line_of(&device, 3).await, 0);
    });
}

#[test]
fn a_transaction_that_is_dropped_is_aborted_and_nobody_waits_for_that() {
    run(|device, _| async move {
        let tx = Transaction::begin(&device, TxOptions::reserving(108))
            .await
            .unwrap();
        tx.write(at(0), &lines(2, 7)).await.unwrap();
        let id = tx.id();
        drop(tx);
        // Waits for the abort, as for any other end; and the room is free again.
        device.write(at(0), &lines(1, 9), TxId::NONE).await.unwrap();
        assert_eq!(
            (line_of(&device, 0).await, line_of(&device, 1).await),
            (9, 0)
        );
        let all = Transaction::begin(&device, TxOptions::reserving(108))
            .await
            .unwrap();
        all.commit().await.unwrap();
        let unknown = DeviceError::UnknownTransaction { tx: id };
        assert_eq!(device.commit(id).await, Err(unknown));
        assert_eq!(device.stats().aborts, 1);
    });
}

/// The abort of a dropped transaction also ends what waits of it, and its reservation.
#[test]
fn what_is_given_up_holds_up_nobody() {
    let mut machine = machine();
    let (device, clock) = (machine.device(), machine.clock());
    machine.spawn("holder", async move {
        let tx = Transaction::begin(&device, TxOptions::reserving(100))
            .await
            .unwrap();
        tx.write(at(0), &lines(1, 1)).await.unwrap();
        sleep(&clock, 500).await;
        tx.commit().await.unwrap();
    });
    let (device, clock) = (machine.device(), machine.clock());
    machine.spawn("impatient", async move {
        sleep(&clock, 50).await;
        let begin = clock.now();
        {
            // Its second write waits for the holder.
            let tx = Transaction::begin(&device, TxOptions::default())
                .await
                .unwrap();
            tx.write(at(8), &lines(1, 2)).await.unwrap();
            let bytes = lines(1, 2);
            let mut second = pin!(tx.write(at(0), &bytes));
            let first = poll_fn(|context| Poll::Ready(second.as_mut().poll(context))).await;
            assert!(first.is_pending());
            sleep(&clock, 20).await;
        }
        {
            // There is no room for it.
            let mut waits = pin!(device.begin(TxOptions::reserving(20)));
            let first = poll_fn(|context| Poll::Ready(waits.as_mut().poll(context))).await;
            assert!(first.is_pending());
            sleep(&clock, 0).await;
            // It has its number now and asks for its room.
            let second = poll_fn(|context| Poll::Ready(waits.as_mut().poll(context))).await;
            assert!(second.is_pending());
            sleep(&clock, 20).await;
        }
        // Neither the line nor a place in the queue is kept.
        device.write(at(8), &lines(1, 3), TxId::NONE).await.unwrap();
        let tx = Transaction::begin(&device, TxOptions::reserving(8))
            .await
            .unwrap();
        tx.commit().await.unwrap();
        assert!(clock.now() - begin < micros(200), "{}", clock.now() - begin);
    });
    machine.run().unwrap();
    assert_eq!(machine.engine().counters().standing[0], 0);
    machine.engine().audit();
}

#[test]
fn a_reservation_is_room_and_no_more_than_that() {
    run(|device, _| async move {
        let most = 108;
        let too_large = Err(DeviceError::TooLarge { most });
        assert_eq!(
            device.begin(TxOptions::reserving(most + 1)).await,
            too_large
        );
        let one = Transaction::begin(&device, TxOptions::reserving(most - 10))
            .await
            .unwrap();
        // Others have the rest.
        let other = device.begin(TxOptions::default()).await.unwrap();
        device.write(at(200), &lines(10, 1), other).await.unwrap();
        let refused = device.request(
            Command::Write(other),
            at(210),
            Payload::Out(&[1; 64]),
            Conflict::Refuse,
        );
        assert_eq!(refused.await, Err(DeviceError::LogFull));
        for round in 0..4 {
            one.write(at(0), &lines(most - 10, round)).await.unwrap();
        }
        let beyond = DeviceError::BeyondReservation {
            tx: one.id(),
            lines: most - 10,
        };
        assert_eq!(one.write(at(150), &lines(1, 9)).await, Err(beyond));
        let late = DeviceError::LateReservation { tx: one.id() };
        let reserve = device.reserve(one.id(), 1, Conflict::Wait);
        assert_eq!(reserve.await, Err(late));
        assert_eq!(one.commit().await.unwrap().1, Atomicity::Whole);
        assert_eq!(
            (line_of(&device, 0).await, line_of(&device, 150).await),
            (3, 0)
        );
        assert_eq!(device.commit(other).await.unwrap().1, Atomicity::Whole);
        // All of it is free again.
        let all = device.begin(TxOptions::reserving(most)).await.unwrap();
        device.abort(all).await.unwrap();
    });
}

/// Reservations are served in the order in which they came, and who has written nothing waits
/// behind them; who holds room goes on.
#[test]
fn room_is_first_come_first_served() {
    let mut machine = machine();
    let notes: Notes<&'static str> = Rc::default();
    let most = limits(&machine).lines;
    let (device, clock, log) = (machine.device(), machine.clock(), Rc::clone(&notes));
    machine.spawn("holder", async move {
        let tx = Transaction::begin(&device, TxOptions::default())
            .await
            .unwrap();
        tx.write(at(0), &lines(most - 3, 1)).await.unwrap();
        sleep(&clock, 300).await;
        tx.write(at(most.into()), &lines(1, 1)).await.unwrap();
        log.borrow_mut().push("holder goes on");
        sleep(&clock, 300).await;
        log.borrow_mut().push("holder ends");
        assert_eq!(tx.commit().await.unwrap().1, Atomicity::Whole);
    });
    let waiters = [("large", most - 1), ("small", 1), ("new", 0)];
    for (nth, (name, count)) in waiters.into_iter().enumerate() {
        let (device, clock, log) = (machine.device(), machine.clock(), Rc::clone(&notes));
        machine.spawn(name, async move {
            sleep(&clock, 100 + 20 * nth as u64).await;
            let options = TxOptions::reserving(count);
            let tx = Transaction::begin(&device, options).await.unwrap();
            if count == 0 {
                tx.write(at(200), &lines(1, 2)).await.unwrap();
            }
            log.borrow_mut().push(name);
            sleep(&clock, 50).await;
            tx.commit().await.unwrap();
        });
    }
    machine.run().unwrap();
    let expected = ["holder goes on", "holder ends", "large", "small", "new"];
    assert_eq!(*notes.borrow(), expected);
    machine.engine().audit();
}

#[test]
fn a_write_without_room_waits_until_another_transaction_ends() {
    let mut machine = machine();
    let most = limits(&machine).lines;
    let ends: Notes<(&'static str, u64)> = Rc::default();
    for (name, count, pause) in [("first", most - 8, 400), ("second", 20, 10)] {
        let (device, clock, log) = (machine.device(), machine.clock(), Rc::clone(&ends));
        let begin = clock.now();
        machine.spawn(name, async move {
            let first = if count > 20 { 0 } else { 300 };
            sleep(&clock, 20 * u64::from(count <= 20)).await;
            let tx = Transaction::begin(&device, TxOptions::default())
                .await
                .unwrap();
            tx.write(at(first), &lines(count, 1)).await.unwrap();
            let written = (clock.now() - begin).get() / 1_000_000;
            log.borrow_mut().push((name, written));
            sleep(&clock, pause).await;
            assert_eq!(tx.commit().await.unwrap().1, Atomicity::Whole);
        });
    }
    machine.run().unwrap();
    let ends = ends.borrow();
    let names: Vec<_> = ends.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["first", "second"]);
    assert!(ends[1].1 > 400, "back-pressure, not an error: {ends:?}");
    machine.engine().audit();
}

/// Both hold half of the room and want more: nobody would end.
fn two_that_want_more(may_split: [bool; 2]) -> Vec<(usize, Result<Atomicity, DeviceError>)> {
    let mut machine = machine();
    let half = limits(&machine).lines / 2;
    let outcomes: Notes<(usize, Result<Atomicity, DeviceError>)> = Rc::default();
    for (nth, may_split) in may_split.into_iter().enumerate() {
        let (device, clock, log) = (machine.device(), machine.clock(), Rc::clone(&outcomes));
        machine.spawn(format!("task {nth}"), async move {
            let options = TxOptions {
                may_split,
                ..TxOptions::default()
            };
            let first = 300 * nth as u64;
            let tx = Transaction::begin(&device, options).await.unwrap();
            tx.write(at(first), &lines(half, 1)).await.unwrap();
            sleep(&clock, 50 + 50 * nth as u64).await;
            let more = tx.write(at(first + 200), &lines(10, 2)).await;
            let end = match more {
                Ok(_) => tx.commit().await.map(|(_, atomicity)| atomicity),
                Err(error) => tx.abort().await.and(Err(error)),
            };
            let value = line_of(&device, first + 200).await;
            assert_eq!(value, if end.is_ok() { 2 } else { 0 });
            log.borrow_mut().push((nth, end));
        });
    }
    machine.run().unwrap();
    machine.engine().audit();
    let mut outcomes = outcomes.take();
    outcomes.sort_by_key(|(nth, _)| *nth);
    outcomes
}

#[test]
fn if_everybody_waits_for_room_who_has_waited_longest_is_split() {
    let parts = Ok(Atomicity::Parts { count: 2 });
    let whole = Ok(Atomicity::Whole);
    let split = two_that_want_more([true, true]);
    assert_eq!(split, [(0, parts.clone()), (1, whole.clone())]);
    // One that may not be is passed over.
    let split = two_that_want_more([false, true]);
    assert_eq!(split, [(0, whole.clone()), (1, parts)]);
    let refused = two_that_want_more([false, false]);
    assert_eq!(refused, [(0, Err(DeviceError::LogFull)), (1, whole)]);
}

/// The log is being compacted when two begin to write. The first write is taken and not answered
/// yet; the second finds no room and waits: who holds it has written nothing yet, and gets on.
#[test]
fn a_first_write_under_way_holds_its_room() {
    let mut machine = machine();
    let ends: Notes<(&'static str, Picos, Result<Atomicity, DeviceError>)> = Rc::default();
    let filler = machine.device();
    machine.spawn("filler", async move {
        let one = lines(64, 1);
        let parts: Vec<_> = (1..=8).map(|nth| (at(640 + 64 * nth), &one[..])).collect();
        filler.write_vectored(&parts, TxId::NONE).await.unwrap();
    });
    for (name, page) in [("first", 0), ("second", 1)] {
        let (device, clock, log) = (machine.device(), machine.clock(), Rc::clone(&ends));
        machine.spawn(name, async move {
            let begin = clock.now();
            let tx = Transaction::begin(&device, TxOptions::default())
                .await
                .unwrap();
            let written = tx.write(at(64 * page), &lines(64, 2)).await;
            let took = clock.now() - begin;
            let end = match written {
                Ok(_) => tx.commit().await.map(|(_, atomicity)| atomicity),
                Err(error) => Err(error),
            };
            log.borrow_mut().push((name, took, end));
        });
    }
    machine.run().unwrap();
    machine.engine().audit();
    let ends = ends.take();
    let outcomes: Vec<_> = ends.iter().map(|(name, _, end)| (*name, end)).collect();
    let whole = Ok(Atomicity::Whole);
    assert_eq!(outcomes, [("first", &whole), ("second", &whole)]);
    let took = ends[0].1;
    assert!(
        took > micros(100),
        "its first write waits for flash: {took}"
    );
}

#[test]
fn one_that_may_not_be_split_is_told_how_much_there_is_room_for() {
    run(|device, _| async move {
        let options = TxOptions {
            may_split: false,
            ..TxOptions::default()
        };
        let tx = Transaction::begin(&device, options).await.unwrap();
        tx.write(at(0), &lines(108, 1)).await.unwrap();
        let error = tx.write(at(200), &lines(1, 1)).await.unwrap_err();
        assert_eq!(error, DeviceError::TooLarge { most: 108 });
        assert!(
            error.to_string().starts_with("the log keeps 108 lines"),
            "{error}"
        );
        tx.abort().await.unwrap();
        let tx = Transaction::begin(&device, TxOptions::default())
            .await
            .unwrap();
        tx.write(at(0), &lines(300, 1)).await.unwrap();
        let parts = tx.commit().await.unwrap().1;
        assert!(
            matches!(parts, Atomicity::Parts { count: 3.. }),
            "{parts:?}"
        );
    });
}

#[test]
fn who_is_not_to_wait_is_told_so() {
    run(|device, _| async move {
        let tx = Transaction::begin(&device, TxOptions::default())
            .await
            .unwrap();
        tx.write(at(3), &lines(1, 1)).await.unwrap();
        let refuse = TxOptions {
            conflict: Conflict::Refuse,
            ..TxOptions::default()
        };
        let other = Transaction::begin(&device, refuse).await.unwrap();
        let locked = Err(DeviceError::Locked { at: at(3) });
        assert_eq!(other.write(at(3), &lines(1, 2)).await, locked);
        let when = Acknowledge::Accepted;
        for (command, payload) in [
            (Command::WriteBlocks(when), Payload::Out(&[0; 4096])),
            (Command::Trim, Payload::None(units::Bytes::from_kib(4))),
        ] {
            let done = device
                .request(command, at(0), payload, Conflict::Refuse)
                .await;
            // A block is named by its first byte.
            assert_eq!(done, Err(DeviceError::Locked { at: at(0) }));
        }
        let all = TxOptions {
            lines: 108,
            ..refuse
        };
        assert_eq!(device.begin(all).await, Err(DeviceError::LogFull));
        assert_eq!(line_of(&device, 3).await, 1);
    });
}

/// Writes are posted: a commit behind them is answered when they are in battery-backed memory, as a
/// persist is, whichever of their lines and the entry of the TxLog is there last.
#[test]
fn a_commit_alone_is_durable() {
    let mut config = config_with(
        1_000,
        &[
            "ssd_dram.mapping=rows",
            "ssd.log.size=48KiB",
            "ssd.dram=120KiB",
        ],
    );
    config.device.block_command = Picos::ZERO;
    config.device.line_read = Picos::ZERO;
    let end = |count: u32, commits: bool| {
        let engine = DeviceEngine::in_memory(&config, Pace::None).unwrap();
        let mut machine = Machine::new(engine, 1);
        let (device, notes) = (machine.device(), Notes::default());
        let log = Rc::clone(&notes);
        machine.spawn("writer", async move {
            let tx = device.begin(TxOptions::default()).await.unwrap();
            device.write(at(0), &lines(count, 1), tx).await.unwrap();
            let done = match commits {
                true => device.commit(tx).await.unwrap().0,
                false => device.persist().await.unwrap(),
            };
            log.borrow_mut().push(done);
        });
        machine.run().unwrap();
        notes.borrow()[0]
    };
    for count in 1..64 {
        let (commit, persist) = (end(count, true), end(count, false));
        assert_eq!(commit.submitted, persist.submitted);
        assert!(persist.took() > Picos::ZERO, "the stores are not in yet");
        assert!(
            commit.finished >= persist.finished,
            "{count}: {commit:?}, {persist:?}"
        );
    }
}

#[test]
fn writes_of_one_vector_take_one_latency_and_overlapping_ones_keep_their_order() {
    run(|device, clock| async move {
        let (one, two) = (lines(1, 1), lines(1, 2));
        device.write(at(0), &one, TxId::NONE).await.unwrap();
        let begin = clock.now();
        device.write(at(0), &one, TxId::NONE).await.unwrap();
        let single = clock.now() - begin;
        let begin = clock.now();
        let parts: Vec<_> = (0..16).map(|nth| (at(10 * nth), one.as_slice())).collect();
        let done = device.write_vectored(&parts, TxId::NONE).await.unwrap();
        assert_eq!((done.submitted, done.finished), (begin, clock.now()));
        assert!(
            done.took() < single * 4,
            "{} of 16, {single} of one",
            done.took()
        );
        let parts = [(at(5), one.as_slice()), (at(5), &two), (at(1 << 40), &one)];
        let beyond = device.write_vectored(&parts, TxId::NONE).await;
        assert!(
            matches!(beyond, Err(DeviceError::OutOfRange { .. })),
            "{beyond:?}"
        );
        assert_eq!(line_of(&device, 5).await, 2);
        device.write_vectored(&[], TxId::NONE).await.unwrap();
    });
}

#[test]
fn a_drain_brings_what_is_logged_to_flash() {
    run(|device, _| async move {
        device.write(at(0), &lines(9, 1), TxId::NONE).await.unwrap();
        let before = device.stats().flash.programs;
        device.drain().await.unwrap();
        assert!(device.stats().flash.programs > before);
        assert_eq!(line_of(&device, 8).await, 1);
    });
}

/// Every program fails, so the log cannot be compacted for the second commit: it is refused, and
/// what it would have committed is taken back. Who waits for its line goes on.
#[test]
fn a_commit_that_flash_has_no_room_for_is_taken_back_and_who_waits_goes_on() {
    let faults = [
        "faults.program_failure=100%",
        "faults.rated_wear=10",
        "faults.initial_wear=10",
    ];
    let engine = DeviceEngine::in_memory(&config_with(1, &faults), Pace::None).unwrap();
    let mut machine = Machine::new(engine, 1);
    let notes: Notes<String> = Rc::default();
    let (device, log) = (machine.device(), Rc::clone(&notes));
    machine.spawn("holder", async move {
        for value in [1, 2] {
            let tx = Transaction::begin(&device, TxOptions::reserving(1))
                .await
                .unwrap();
            tx.write(at(0), &lines(1, value)).await.unwrap();
            let id = tx.id();
            let done = tx.commit().await.map(|(_, atomicity)| atomicity);
            log.borrow_mut().push(format!("commit {value}: {done:?}"));
            let unknown = DeviceError::UnknownTransaction { tx: id };
            assert_eq!(device.abort(id).await, Err(unknown));
        }
        let mut found = [0; 64];
        device.read(at(0), &mut found).await.unwrap();
        assert_eq!(found[63], 1, "the second one is taken back");
    });
    let (device, clock, log) = (machine.device(), machine.clock(), Rc::clone(&notes));
    machine.spawn("waiter", async move {
        sleep(&clock, 60).await;
        let written = device.write(at(0), &[9; 8], TxId::NONE).await;
        log.borrow_mut()
            .push(format!("waiter: {}", written.is_ok()));
        // The room of both is free.
        let all = TxOptions {
            conflict: Conflict::Refuse,
            ..TxOptions::reserving(108)
        };
        assert!(device.begin(all).await.is_ok());
    });
    machine.run().unwrap();
    let expected = ["commit 1: Ok(Whole)", "commit 2: Err(ReadOnly)"];
    assert_eq!(notes.borrow()[..2], expected);
    assert!(notes.borrow()[2].starts_with("waiter"), "{notes:?}");
    machine.engine().audit();
}

/// The rest of the line is read before the write: it must not be what an abort takes back.
#[test]
fn a_write_of_a_part_of_a_line_brings_back_nothing_that_was_aborted() {
    for delay in 0..60 {
        let mut machine = machine();
        let (device, clock) = (machine.device(), machine.clock());
        machine.spawn("aborts", async move {
            let tx = Transaction::begin(&device, TxOptions::default())
                .await
                .unwrap();
            tx.write(at(0), &lines(2, 7)).await.unwrap();
            sleep(&clock, 20).await;
            tx.abort().await.unwrap();
        });
        let (device, clock) = (machine.device(), machine.clock());
        machine.spawn("writes", async move {
            let then = clock.now() + micros(15) + Picos::from_nanos(250 * delay);
            clock.sleep_until(then).await;
            // The end of one line and the beginning of the next one.
            let written = ByteAddr::new(60);
            device.write(written, &[9; 8], TxId::NONE).await.unwrap();
            let mut found = [0; 128];
            device.read(at(0), &mut found).await.unwrap();
            let mut expected = [0; 128];
            expected[60..68].fill(9);
            assert_eq!(found, expected, "after {delay} quarters of a microsecond");
        });
        machine.run().unwrap();
    }
}
