//! Transactions of the byte port, with real bytes and kills.

mod common;

use common::{Place, made, small_log};
use device::{Ask, DeviceConfig, DeviceEngine, Pace, fsck};
use port::DeviceError;
use units::{ByteAddr, Bytes, Stream, TxId};

const LINES: u64 = 600;

fn write(engine: &mut DeviceEngine, tx: TxId, line: u64, seed: u8) -> Result<(), DeviceError> {
    let at = ByteAddr::new(line * 64);
    let ticket = engine.submit_write(Ask::Write(tx), at, &[seed; 64])?;
    engine.finish(ticket, &mut []).map(|_| ())
}

fn end(engine: &mut DeviceEngine, ask: Ask) {
    let ticket = engine.submit(ask, ByteAddr::new(0), Bytes::ZERO).unwrap();
    engine.finish(ticket, &mut []).unwrap();
}

fn lines(engine: &mut DeviceEngine) -> Vec<u8> {
    let mut bytes = vec![0; LINES as usize * 64];
    let size = Bytes::new(bytes.len() as u64);
    let ticket = engine.submit(Ask::Read, ByteAddr::new(0), size).unwrap();
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
            let tx = engine.begin().unwrap();
            let mut changed = model.clone();
            for _ in 0..1 + stream.below(30) {
                let (line, seed) = (stream.below(LINES), 1 + stream.below(250) as u8);
                write(&mut engine, tx, line, seed).unwrap();
                changed[line as usize] = seed;
            }
            match stream.below(4) {
                0 => end(&mut engine, Ask::Abort(tx)),
                1 if turn % 2 == 0 => break,
                _ => {
                    end(&mut engine, Ask::Commit(tx));
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

#[test]
fn presets_of_bytefs_have_transactions_and_those_without_a_log_say_so() {
    for (preset, has) in [("bytefs", true), ("cxl", true), ("skybyte", false)] {
        let config = DeviceConfig::of_preset(preset, &[]).unwrap();
        assert_eq!(config.ssd.tx_log > Bytes::ZERO, has, "{preset}");
    }
    let without_log = ["ssd.write_log=0B", "ssd.tx_log=0B", "ssd.dram=96KiB"];
    for (sets, has_log) in [(&without_log[..], false), (&without_log[1..2], true)] {
        let place = Place::new("no-transactions");
        let mut engine = made(&place, &common::small("skybyte", sets));
        let error = engine.begin().unwrap_err();
        assert_eq!(error, DeviceError::NoTransactions { has_log });
    }
}
