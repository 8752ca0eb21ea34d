//! A drain brings what is in DRAM alone to flash, or says that it cannot.

use crate::common::{Place, made, small};
use device::{DeviceConfig, DeviceEngine, Pace, fsck};
use port::{Command, DeviceError};
use std::collections::VecDeque;
use std::path::Path;
use units::{ByteAddr, Bytes, Stream, TxId};

const LINE: usize = 64;
/// Lines that are written to: of 100 pages.
const LINES: u64 = 6_400;

/// All blocks go bad within a few erases, or, of every other seed, some: then there is room left
/// for what was accepted when the device is read-only.
fn wearing(preset: &str, more: &[&str], seed: u64) -> DeviceConfig {
    let grown = if seed.is_multiple_of(2) { 100 } else { 20 };
    let grown = format!("faults.grown_bad={grown}%");
    let seed = format!("faults.seed={seed}");
    let faults = [&grown, "faults.rated_wear=3", &seed];
    let sets: Vec<&str> = more.iter().chain(&faults).copied().collect();
    small(preset, &sets)
}

/// A device whose log survives.
fn with_log(seed: u64) -> DeviceConfig {
    let sets = [
        "ssd.dram=128KiB",
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=1KiB",
    ];
    wearing("bytefs", &sets, seed)
}

/// One whose frames survive.
fn with_frames(seed: u64) -> DeviceConfig {
    wearing("bytefs-cache", &["ssd.dram=128KiB"], seed)
}

/// Writes lines until one is not accepted.
fn wear_out(engine: &mut DeviceEngine, model: &mut [u8]) {
    let mut stream = Stream::new(7, "draining");
    for _ in 0..1_000_000 {
        let at = stream.below(LINES) as usize * LINE;
        let bytes = [1 + stream.below(255) as u8; LINE];
        let line = Command::Write(TxId::NONE);
        let ticket = engine.submit_write(line, ByteAddr::new(at as u64), &bytes);
        match engine.finish(ticket.unwrap(), &mut []) {
            Ok(_) => model[at..at + LINE].copy_from_slice(&bytes),
            Err(DeviceError::ReadOnly) => return,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the flash never wears out");
}

fn read(engine: &mut DeviceEngine) -> Vec<u8> {
    let mut found = vec![0; LINES as usize * LINE];
    let size = Bytes::new(found.len() as u64);
    let ticket = engine.submit(Command::Read, ByteAddr::new(0), size);
    engine.finish(ticket.unwrap(), &mut found).unwrap();
    found
}

/// Lines in the log, and pages in frames and buffers, that count.
fn left(image: &Path) -> u64 {
    let found = fsck::check(image, &mut |_| true).unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    found.logged_lines + found.framed_pages + found.buffered_pages
}

/// Drains a worn-out device, closes it, and looks whether the drain has told the truth; says
/// whether everything is on flash.
fn drains(name: &str, config: &DeviceConfig) -> bool {
    let place = Place::new(name);
    let mut engine = made(&place, config);
    let mut model = vec![0; LINES as usize * LINE];
    wear_out(&mut engine, &mut model);
    let drained = engine.drain();
    assert_eq!(read(&mut engine), model, "{drained:?}");
    if let Err(error) = &drained {
        assert_eq!(
            error.to_string(),
            "the flash is worn out and can only be read; copy what is on it to another device"
        );
        let again = engine.drain();
        assert_eq!(again.as_ref(), drained.as_ref(), "asked once more");
    }
    let image = place.path("image");
    engine.close().unwrap();
    assert_eq!(drained.is_err(), left(&image) > 0, "{drained:?}");
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    assert_eq!(read(&mut engine), model, "after the power was off");
    drained.is_ok()
}

#[test]
fn a_drain_that_comes_to_a_standstill_is_an_error() {
    for (name, config) in [
        ("draining-log", with_log as fn(u64) -> DeviceConfig),
        ("draining-frames", with_frames),
    ] {
        let done = (0..8).filter(|seed| drains(name, &config(*seed))).count();
        assert!((1..8).contains(&done), "{name}: {done} of 8 were drained");
    }
}

/// Lines of a log of 32 KiB.
const LOGGED: usize = 512;

#[test]
fn a_drain_ends_though_lines_are_written_all_the_time() {
    let sets = [
        "ssd.dram=128KiB",
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=1KiB",
        "nand.t_prog=20ms",
    ];
    let place = Place::new("draining-written-to");
    let mut engine = made(&place, &small("bytefs", &sets));
    let mut stream = Stream::new(7, "draining");
    let mut write = |engine: &mut DeviceEngine| {
        let at = ByteAddr::new(stream.below(LINES) * LINE as u64);
        let line = Command::Write(TxId::NONE);
        engine.submit_write(line, at, &[1; LINE]).unwrap()
    };
    // The log is full, and three times as many lines wait for room in it.
    let mut waiting: VecDeque<_> = (0..4 * LOGGED).map(|_| write(&mut engine)).collect();
    let oldest = waiting.pop_front().unwrap();
    engine.finish(oldest, &mut []).unwrap();
    let drain = Command::Drain;
    let drained = engine.submit(drain, ByteAddr::new(0), Bytes::ZERO);
    let drained = drained.unwrap();
    for written in 0.. {
        if let Some(outcome) = engine.take(drained, &mut []) {
            assert!(outcome.is_ok() && written > 0, "lines were logged");
            break;
        }
        assert!(
            written < 8 * LOGGED,
            "the drain waits for what came after it"
        );
        let oldest = waiting.pop_front().unwrap();
        engine.finish(oldest, &mut []).unwrap();
        waiting.push_back(write(&mut engine));
    }
}
