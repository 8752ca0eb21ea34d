//! The window: memory behind the logical space that survives a power cut without a flush.

use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{Command, Conflict, DeviceError, Engine, Outcome};
use units::{ByteAddr, Bytes, Stream, TxId};

const PMEM: u64 = 64 << 10;

fn device(preset: &str) -> DeviceEngine {
    let small = [
        "device.pmem=64KiB",
        "nand.channels=1",
        "nand.chips_per_channel=1",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=64",
        "nand.pages_per_block=16",
        "ftl.over_provisioning=50%",
        "ssd.dram=4MiB",
    ];
    let log = ["ssd.log.size=1MiB", "ssd.log.tx_log=4KiB"];
    let has_log = preset != "consumer-tlc";
    let sets = small.into_iter().chain(log.into_iter().filter(|_| has_log));
    let layers: Vec<Layer> = sets
        .map(|set| Layer::assignment(set).expect("an assignment"))
        .collect();
    let config = DeviceConfig::of_preset(preset, &layers).expect("a good device");
    DeviceEngine::in_memory(&config, Pace::None).expect("memory for a small device")
}

/// Asks and waits.
fn ask(
    engine: &mut DeviceEngine,
    command: Command,
    at: u64,
    bytes: &[u8],
    into: &mut [u8],
) -> Outcome {
    let size = Bytes::new(bytes.len().max(into.len()) as u64);
    let now = Engine::now(engine);
    let range = (ByteAddr::new(at), size);
    let ticket = Engine::submit(engine, now, command, range, Conflict::Wait, bytes)?;
    let mut finished = Vec::new();
    loop {
        if let Some(outcome) = Engine::take(engine, ticket, into) {
            return outcome;
        }
        let next = Engine::next_deadline(engine).expect("something is to come");
        Engine::advance(engine, next, &mut finished);
    }
}

const WRITE: Command = Command::Write(TxId::NONE);

#[test]
fn what_is_persisted_survives_without_a_flush_and_what_is_read_is_what_was_written() {
    for preset in ["consumer-tlc", "bytefs", "cxl"] {
        let mut engine = device(preset);
        let shape = Engine::shape(&engine);
        assert_eq!(shape.pmem, Bytes::new(PMEM));
        let begin = shape.capacity.get();
        let mut stream = Stream::new(1, preset);
        let mut model = vec![0; PMEM as usize];
        for round in 0..200_u8 {
            let at = stream.below(PMEM - 9000) as usize;
            let size = 1 + stream.below(9000) as usize;
            let bytes: Vec<u8> = (0..size).map(|byte| round ^ byte as u8).collect();
            model[at..at + size].copy_from_slice(&bytes);
            ask(&mut engine, WRITE, begin + at as u64, &bytes, &mut []).expect("a write");
            let from = stream.below(PMEM - 100);
            let mut seen = [0; 100];
            ask(&mut engine, Command::Read, begin + from, &[], &mut seen).expect("a read");
            assert_eq!(
                seen,
                model[from as usize..][..100],
                "{preset}, round {round}"
            );
            if round % 50 == 49 {
                ask(&mut engine, Command::PersistPmem, 0, &[], &mut []).expect("a persist");
                engine = engine.power_cycled().expect("it recovers");
                let mut all = vec![0; PMEM as usize];
                ask(&mut engine, Command::Read, begin, &[], &mut all).expect("a read");
                assert!(all == model, "{preset}: the window survives");
            }
        }
        assert_eq!(
            Engine::stats(&engine).flash.programs,
            0,
            "nothing goes to flash"
        );
    }
}

#[test]
fn an_ordering_point_takes_no_flush() {
    let mut engine = device("consumer-tlc");
    let begin = Engine::shape(&engine).capacity.get();
    let mut times = Vec::new();
    for (command, at) in [(Command::PersistPmem, begin), (Command::Persist, 0)] {
        ask(&mut engine, WRITE, at, &[1; 64], &mut []).expect("a write");
        let (done, _) = ask(&mut engine, command, 0, &[], &mut []).expect("a persist");
        times.push(done.took());
    }
    let micros = units::Picos::from_micros;
    assert!(times[0] <= micros(2), "{}: a load of a line", times[0]);
    assert!(times[1] >= micros(1000), "{}: what a flush takes", times[1]);
}

#[test]
fn other_ports_transactions_and_what_lies_behind_are_refused() {
    let mut engine = device("bytefs");
    let begin = Engine::shape(&engine).capacity.get();
    let page = [0; 4096];
    let refused = |outcome: Outcome| matches!(outcome, Err(DeviceError::OutOfRange { at, .. }) if at.get() > 0);
    let blocks = Command::WriteBlocks(port::Acknowledge::Accepted);
    assert!(refused(ask(&mut engine, blocks, begin, &page, &mut [])));
    assert!(refused(ask(
        &mut engine,
        WRITE,
        begin + PMEM - 64,
        &[0; 65],
        &mut []
    )));
    assert!(refused(ask(
        &mut engine,
        WRITE,
        begin - 64,
        &[0; 128],
        &mut []
    )));
    assert!(refused(ask(
        &mut engine,
        Command::Read,
        begin + PMEM,
        &[],
        &mut [0]
    )));
    let tx = Engine::begin(&mut engine, true).expect("a transaction");
    assert!(refused(ask(
        &mut engine,
        Command::Write(tx),
        begin,
        &[0; 64],
        &mut []
    )));
    assert!(ask(&mut engine, WRITE, begin + PMEM - 64, &[0; 64], &mut []).is_ok());
}
