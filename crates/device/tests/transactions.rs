//! Transactions of the byte port, with real bytes and kills.

use crate::common;
use crate::common::{Place, made, small_log};
use device::{DeviceConfig, DeviceEngine, Pace, Step, fsck};
use port::Command;
use port::DeviceError;
use units::{ByteAddr, Bytes, Stream, TxId};

const LINES: u64 = 600;

fn write(engine: &mut DeviceEngine, tx: TxId, line: u64, seed: u8) -> Result<(), DeviceError> {
    let at = ByteAddr::new(line * 64);
    let ticket = engine.submit_write(Command::Write(tx), at, &[seed; 64])?;
    engine.finish(ticket, &mut []).map(|_| ())
}

fn end(engine: &mut DeviceEngine, command: Command) {
    let ticket = engine
        .submit(command, ByteAddr::new(0), Bytes::ZERO)
        .unwrap();
    engine.finish(ticket, &mut []).unwrap();
}

fn lines(engine: &mut DeviceEngine) -> Vec<u8> {
    let mut bytes = vec![0; LINES as usize * 64];
    let size = Bytes::new(bytes.len() as u64);
    let ticket = engine
        .submit(Command::Read, ByteAddr::new(0), size)
        .unwrap();
    engine.finish(ticket, &mut bytes).unwrap();
    let whole = bytes
        .chunks_exact(64)
        .all(|line| line.iter().all(|byte| *byte == line[0]));
    assert!(whole, "a line is torn");
    bytes.chunks_exact(64).map(|line| line[0]).collect()
}

/// Transactions of a few lines each, some committed, some aborted, one open when the power goes.
#[test]
fn committed_transactions_are_whole_after_a_kill_and_others_absent() {
    let place = Place::new("transactions-kill");
    let mut engine = made(&place, &small_log());
    let image = engine.image().to_owned();
    let mut model = vec![0u8; LINES as usize];
    let mut stream = Stream::new(5, "transactions");
    for turn in 0..60 {
        for _ in 0..1 + stream.below(12) {
            let tx = engine.begin(true).unwrap();
            let mut changed = model.clone();
            for _ in 0..1 + stream.below(30) {
                let (line, seed) = (stream.below(LINES), 1 + stream.below(250) as u8);
                write(&mut engine, tx, line, seed).unwrap();
                changed[line as usize] = seed;
            }
            match stream.below(4) {
                0 => end(&mut engine, Command::Abort(tx)),
                1 if turn % 2 == 0 => break,
                _ => {
                    end(&mut engine, Command::Commit(tx));
                    model = changed;
                }
            }
        }
        for _ in 0..stream.below(40) {
            engine.step();
        }
        drop(engine);
        let findings = fsck::check(&image, &mut |_| true).unwrap();
        assert_eq!(findings.problems, Vec::<String>::new(), "turn {turn}");
        engine = DeviceEngine::open(&image, Pace::None).unwrap();
        engine.audit();
        assert!(lines(&mut engine) == model, "turn {turn}");
    }
}

/// Whether the first end waits behind a write or, in the firmware, for the TxLog: who asks for
/// another one is refused, and the device goes on.
#[test]
fn the_end_of_a_transaction_is_asked_for_once() {
    let place = Place::new("transactions-ends");
    let sets = ["ssd.log.size=32KiB", "ssd.log.tx_log=4B", "ssd.dram=100KiB"];
    let config = common::small("bytefs", &sets);
    let mut engine = made(&place, &config);
    let refused = |engine: &mut DeviceEngine, tx: TxId| {
        for command in [Command::Commit(tx), Command::Abort(tx)] {
            let again = engine.submit(command, ByteAddr::new(0), Bytes::ZERO);
            assert_eq!(again, Err(DeviceError::UnknownTransaction { tx }));
        }
    };
    for turn in 0..4u8 {
        let tx = engine.begin(true).unwrap();
        let at = ByteAddr::new(u64::from(turn) * 64);
        let write = engine.submit_write(Command::Write(tx), at, &[turn; 64]);
        let commit = engine.submit(Command::Commit(tx), ByteAddr::new(0), Bytes::ZERO);
        refused(&mut engine, tx);
        engine.finish(write.unwrap(), &mut []).unwrap();
        let commit = commit.unwrap();
        let answer = loop {
            if let Some(answer) = engine.take(commit, &mut []) {
                break answer;
            }
            refused(&mut engine, tx);
            assert_eq!(engine.step(), Step::Moved);
        };
        let has_waited = answer.unwrap().0.took() > config.nand.t_prog;
        assert_eq!(has_waited, turn > 0, "the TxLog has room for one");
        refused(&mut engine, tx);
    }
    engine.audit();
    assert_eq!(lines(&mut engine)[..4], [0, 1, 2, 3]);
}

#[test]
fn presets_of_bytefs_have_transactions_and_those_without_a_log_say_so() {
    for (preset, has) in [("bytefs", true), ("cxl", true), ("skybyte", false)] {
        let config = DeviceConfig::of_preset(preset, &[]).unwrap();
        assert_eq!(config.ssd.log.tx_log > Bytes::ZERO, has, "{preset}");
    }
    let without_log = ["ssd.log.size=0B", "ssd.log.tx_log=0B", "ssd.dram=96KiB"];
    for (sets, has_log) in [(&without_log[..], false), (&without_log[1..2], true)] {
        let place = Place::new("no-transactions");
        let mut engine = made(&place, &common::small("skybyte", sets));
        let error = engine.begin(true).unwrap_err();
        assert_eq!(error, DeviceError::NoTransactions { has_log });
    }
}
