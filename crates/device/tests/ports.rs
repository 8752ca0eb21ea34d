//! Both ports against a plain array of bytes, on devices so small that everything happens.

use crate::common::{Place, made, small, small_log};
use device::{DeviceConfig, DeviceEngine};
use port::Command;
use port::{Acknowledge, DeviceError};
use proptest::prelude::*;
use units::{ByteAddr, Bytes, Picos, Time, TxId};

#[derive(Clone, Debug)]
enum Step {
    Read(u64, u64),
    Write(u64, u64, u8),
    ReadBlocks(u64, u64),
    WriteBlocks(u64, u64, u8, bool),
    Trim(u64, u64),
    Persist,
    Flush,
}

const BLOCK: u64 = 4096;

fn steps(blocks: u64) -> impl Strategy<Value = Vec<Step>> {
    let bytes = blocks * BLOCK;
    let range = (0..bytes, prop_oneof![0..200u64, 0..10_000u64])
        .prop_map(move |(at, size)| (at, size.min(bytes - at)));
    let whole = (0..blocks, 0..4u64).prop_map(move |(at, count)| (at, count.min(blocks - at)));
    let step = prop_oneof![
        3 => range.clone().prop_map(|(at, size)| Step::Read(at, size)),
        8 => (range, any::<u8>()).prop_map(|((at, size), seed)| Step::Write(at, size, seed)),
        1 => whole.clone().prop_map(|(at, count)| Step::ReadBlocks(at, count)),
        3 => (whole.clone(), any::<u8>(), any::<bool>())
            .prop_map(|((at, count), seed, fua)| Step::WriteBlocks(at, count, seed, fua)),
        1 => whole.prop_map(|(at, count)| Step::Trim(at, count)),
        1 => Just(Step::Persist),
        1 => Just(Step::Flush),
    ];
    proptest::collection::vec(step, 1..250)
}

/// Bytes that differ from place to place.
fn pattern(size: u64, seed: u8) -> Vec<u8> {
    (0..size)
        .map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

fn run(engine: &mut DeviceEngine, command: Command, at: u64, size: u64, into: &mut [u8]) {
    let ticket = engine.submit(command, ByteAddr::new(at), Bytes::new(size));
    engine.finish(ticket.unwrap(), into).unwrap();
}

fn write(engine: &mut DeviceEngine, command: Command, at: u64, bytes: &[u8]) {
    let ticket = engine
        .submit_write(command, ByteAddr::new(at), bytes)
        .unwrap();
    engine.finish(ticket, &mut []).unwrap();
}

fn apply(engine: &mut DeviceEngine, model: &mut [u8], step: &Step) {
    let span = |at: u64, size: u64| at as usize..(at + size) as usize;
    match *step {
        Step::Read(at, size) => {
            let mut found = vec![0; size as usize];
            run(engine, Command::Read, at, size, &mut found);
            assert!(
                found == model[span(at, size)],
                "{step:?} reads something else"
            );
        }
        Step::Write(at, size, seed) => {
            let bytes = pattern(size, seed);
            write(engine, Command::Write(TxId::NONE), at, &bytes);
            model[span(at, size)].copy_from_slice(&bytes);
        }
        Step::ReadBlocks(at, count) => {
            let (at, size) = (at * BLOCK, count * BLOCK);
            let mut found = vec![0; size as usize];
            run(engine, Command::ReadBlocks, at, size, &mut found);
            assert!(
                found == model[span(at, size)],
                "{step:?} reads something else"
            );
        }
        Step::WriteBlocks(at, count, seed, fua) => {
            let (at, bytes) = (at * BLOCK, pattern(count * BLOCK, seed));
            let when = match fua {
                true => Acknowledge::Durable,
                false => Acknowledge::Accepted,
            };
            write(engine, Command::WriteBlocks(when), at, &bytes);
            model[span(at, count * BLOCK)].copy_from_slice(&bytes);
        }
        Step::Trim(at, count) => {
            run(engine, Command::Trim, at * BLOCK, count * BLOCK, &mut []);
            model[span(at * BLOCK, count * BLOCK)].fill(0);
        }
        Step::Persist => run(engine, Command::Persist, 0, 0, &mut []),
        Step::Flush if engine.shape().transactions.is_none() => {}
        Step::Flush => run(engine, Command::Flush, 0, 0, &mut []),
    }
}

fn check(name: &str, config: &DeviceConfig, steps: &[Step]) {
    let place = Place::new(name);
    let mut engine = made(&place, config);
    let mut model = vec![0; config.capacity().get() as usize];
    for step in steps {
        apply(&mut engine, &mut model, step);
        engine.audit();
    }
    engine.settle();
    engine.audit();
    let mut found = vec![0; model.len()];
    run(
        &mut engine,
        Command::Read,
        0,
        model.len() as u64,
        &mut found,
    );
    assert!(found == model, "the device holds something else at the end");
}

fn without_log() -> DeviceConfig {
    small("consumer-tlc", &["ssd.dram=64KiB"])
}

/// With a log, on flash that brings what is wanted first.
fn lines_first() -> DeviceConfig {
    small(
        "bytefs",
        &[
            "nand.transfer=wanted_first",
            "nand.codeword=256B",
            "ssd.miss_answer=register",
            "ssd.fill=buffered",
            "ssd.fill_buffers=2",
            "ssd.cache.policy=s3_fifo",
        ],
    )
}

#[test]
fn the_small_devices_have_as_many_blocks_as_the_steps() {
    for config in [small_log(), without_log(), lines_first()] {
        assert_eq!(config.capacity(), Bytes::new(BLOCK * 232));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_device_with_a_log_is_an_array_of_bytes(steps in steps(232)) {
        check("array-log", &small_log(), &steps);
    }

    #[test]
    fn a_device_without_a_log_is_an_array_of_bytes(steps in steps(232)) {
        check("array-cache", &without_log(), &steps);
    }

    /// Lines come before the rest of their pages, which wait in few buffers.
    #[test]
    fn a_device_whose_flash_brings_lines_first_is_an_array_of_bytes(steps in steps(232)) {
        check("array-lines", &lines_first(), &steps);
    }

    /// On few pages, log lines and block writes meet.
    #[test]
    fn a_few_pages_are_an_array_of_bytes(steps in steps(4)) {
        check("array-few", &small_log(), &steps);
    }
}

#[test]
fn nothing_may_be_written_anywhere() {
    let place = Place::new("nothing");
    let mut engine = made(&place, &small_log());
    for at in [0, 51, 4095, 4096] {
        write(&mut engine, Command::Write(TxId::NONE), at, &[]);
        run(&mut engine, Command::Read, at, 0, &mut []);
    }
}

#[test]
fn what_is_beyond_or_not_whole_is_refused() {
    let place = Place::new("refused");
    let config = small_log();
    let mut engine = made(&place, &config);
    let capacity = config.capacity().get();
    let mut ask = |command, at, size| {
        let ticket = engine.submit(command, ByteAddr::new(at), Bytes::new(size));
        ticket.map(|ticket| engine.abandon(ticket)).unwrap_err()
    };
    for (at, size) in [
        (capacity, 1),
        (0, capacity + 1),
        (u64::MAX, 64),
        (1, u64::MAX),
    ] {
        let error = ask(Command::Read, at, size);
        assert!(matches!(error, DeviceError::OutOfRange { .. }), "{error}");
    }
    for (at, size) in [(512, 4096), (0, 512), (1, 0)] {
        let error = ask(Command::ReadBlocks, at, size);
        assert!(matches!(error, DeviceError::NotBlocks { .. }), "{error}");
    }
    let unknown = ask(Command::Commit(TxId::new(3)), 0, 0);
    assert_eq!(
        unknown,
        DeviceError::UnknownTransaction { tx: TxId::new(3) }
    );
}

/// Table 4 of ByteFS: a cacheline in 4.8/0.6 us, flash in 40/60 us.
#[test]
fn an_unloaded_device_takes_the_sum_of_its_parts() {
    let place = Place::new("unloaded");
    let config = DeviceConfig::of_preset("bytefs", &[]).unwrap();
    let mut engine = made(&place, &config);
    let line = [7; 64];
    let took = |engine: &mut DeviceEngine, command, bytes: Option<&[u8]>, into: &mut [u8]| {
        let at = ByteAddr::new(1 << 20);
        let ticket = match bytes {
            Some(bytes) => engine.submit_write(command, at, bytes).unwrap(),
            None => engine
                .submit(command, at, Bytes::new(into.len() as u64))
                .unwrap(),
        };
        engine.finish(ticket, into).unwrap().0.took()
    };
    let none = TxId::NONE;
    let sent = config.device.write_bandwidth.time_for(Bytes::new(64));
    let store = took(&mut engine, Command::Write(none), Some(&line), &mut []);
    assert_eq!(store, Picos::from_nanos(600) + sent);
    let mut found = [0; 64];
    let load = took(&mut engine, Command::Read, None, &mut found);
    assert_eq!(found, line);
    let back = config.device.read_bandwidth.time_for(Bytes::new(64));
    // The store has opened the row.
    let spec = config.ssd_dram.spec();
    let open = spec.unloaded_closed() - spec.unloaded_hit();
    let off = (load + open)
        .get()
        .abs_diff((Picos::from_nanos(4_800) + back).get());
    assert!(off <= 1_000, "a load of a logged line takes {load}");
    let persist = took(&mut engine, Command::Persist, None, &mut []);
    assert_eq!(persist, config.device.line_read);
    let page = [3; 4096];
    let accepted = Command::WriteBlocks(Acknowledge::Accepted);
    let write = took(&mut engine, accepted, Some(&page), &mut []);
    let sent = config.device.write_bandwidth.time_for(Bytes::new(4096));
    assert_eq!(
        write,
        sent + config.device.block_command + config.ssd.log.lookup
    );
    engine.settle();
    let mut found = vec![0; 4096];
    let read = took(&mut engine, Command::ReadBlocks, None, &mut found);
    assert_eq!(found, page);
    let back = config.device.read_bandwidth.time_for(Bytes::new(4096));
    let parts = back + config.device.block_command + config.ssd.log.lookup;
    // In each bank that the page crosses another row is open.
    let mut dram = dram::Dram::new(&config.ssd_dram.spec());
    let first = dram::DramLine::at(Bytes::ZERO);
    let dram = dram.bulk(Time::ZERO, first, 64, dram::Access::Write) - Time::ZERO;
    let dram = dram + (spec.unloaded_conflict() - spec.unloaded_closed());
    assert_eq!(read, parts + dram + config.nand.unloaded_read());
}
