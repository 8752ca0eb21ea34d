//! A device without a battery, or with one for its log alone: what a kill takes, what it must
//! leave, and what a flush takes.
//!
//! Dropping an engine without closing it is what a kill is to the image.

use crate::common::{Place, made, small};
use device::latency::Kind;
use device::{DeviceConfig, DeviceEngine, Image, Pace, fsck};
use port::Command;
use port::{Acknowledge, DeviceError};
use std::path::Path;
use units::{ByteAddr, Bytes, Picos, Stream, TxId};

const PAGE: usize = 4096;
/// Pages that are written to.
const PAGES: usize = 100;
const LINES: usize = PAGE / 64;

fn config() -> DeviceConfig {
    small("consumer-tlc", &["ssd.dram=64KiB"])
}

/// Of which the log alone survives, so small that it is compacted meanwhile.
fn with_safe_log() -> DeviceConfig {
    let sets = [
        "ssd.dram=128KiB",
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=1KiB",
        "ssd.power_loss_protection=log",
    ];
    small("consumer-tlc", &sets)
}

fn write(engine: &mut DeviceEngine, command: Command, at: usize, bytes: &[u8]) -> Picos {
    let at = ByteAddr::new(at as u64);
    let ticket = engine.submit_write(command, at, bytes).unwrap();
    engine.finish(ticket, &mut []).unwrap().0.took()
}

fn ask(engine: &mut DeviceEngine, command: Command, at: usize, size: usize) -> Picos {
    let (at, size) = (ByteAddr::new(at as u64), Bytes::new(size as u64));
    let ticket = engine.submit(command, at, size).unwrap();
    engine.finish(ticket, &mut []).unwrap().0.took()
}

/// What each line may hold after a kill: bytes that are all the same.
struct Model {
    /// At the last flush, or written through since.
    safe: Vec<u8>,
    /// Written since, and whether as a line.
    since: Vec<Vec<(u8, bool)>>,
    /// Lines that were persisted are safe, whatever blocks are over them.
    keeps_lines: bool,
    /// What reads see.
    seen: Vec<u8>,
    /// Lines that a kill took back, and that it left although it need not have.
    outcomes: [u32; 2],
}

impl Model {
    fn new(keeps_lines: bool) -> Self {
        Self {
            safe: vec![0; PAGES * LINES],
            since: vec![Vec::new(); PAGES * LINES],
            keeps_lines,
            seen: vec![0; PAGES * LINES],
            outcomes: [0; 2],
        }
    }

    fn stored(&mut self, lines: core::ops::Range<usize>, value: u8) {
        self.seen[lines.clone()].fill(value);
        lines.for_each(|line| self.since[line].push((value, true)));
    }

    fn written(&mut self, lines: core::ops::Range<usize>, value: u8, is_through: bool) {
        self.seen[lines.clone()].fill(value);
        for line in lines {
            match is_through {
                true => self.safe[line] = value,
                false => {
                    self.since[line].push((value, false));
                }
            }
            if is_through {
                self.since[line].clear();
            }
        }
    }

    fn flushed(&mut self) {
        self.safe.clone_from(&self.seen);
        self.since.iter_mut().for_each(Vec::clear);
    }

    fn persisted(&mut self) {
        if !self.keeps_lines {
            return self.flushed();
        }
        for (safe, since) in self.safe.iter_mut().zip(&mut self.since) {
            if let Some(last) = since.iter().rposition(|(_, is_line)| *is_line) {
                *safe = since[last].0;
                since.drain(..=last);
            }
        }
    }

    /// Takes over what is there after a kill.
    fn judge(&mut self, turn: u32, found: &[u8]) {
        for (line, bytes) in found.chunks(64).enumerate() {
            let value = bytes[0];
            assert_eq!(bytes, [value; 64], "turn {turn}, line {line} is torn");
            let (safe, seen) = (self.safe[line], self.seen[line]);
            let is_since = self.since[line].iter().any(|(since, _)| *since == value);
            let is_allowed = value == safe || is_since;
            assert!(is_allowed, "turn {turn}, line {line}: {value} for {safe}");
            if seen != safe && (value == safe || value == seen) {
                self.outcomes[usize::from(value == seen)] += 1;
            }
            (self.safe[line], self.seen[line]) = (value, value);
            self.since[line].clear();
        }
    }
}

fn work(engine: &mut DeviceEngine, model: &mut Model, stream: &mut Stream) {
    for _ in 0..stream.below(120) {
        let value = stream.bits() as u8;
        let page = stream.below(PAGES as u64) as usize;
        let lines = page * LINES..(page + 1) * LINES;
        match stream.below(40) {
            0 => {
                ask(engine, Command::Flush, 0, 0);
                model.flushed();
            }
            1 => {
                ask(engine, Command::Persist, 0, 0);
                model.persisted();
            }
            2 => {
                // A trim is durable at once: it is a record, and needs no buffer.
                ask(engine, Command::Trim, page * PAGE, PAGE);
                model.written(lines, 0, true);
            }
            3..20 => {
                let first = lines.start + stream.below(60) as usize;
                let count = 1 + stream.below(4) as usize;
                let bytes = vec![value; count * 64];
                write(engine, Command::Write(TxId::NONE), first * 64, &bytes);
                model.stored(first..first + count, value);
            }
            kind => {
                let is_through = kind == 39;
                let how = match is_through {
                    true => Acknowledge::Durable,
                    false => Acknowledge::Accepted,
                };
                write(
                    engine,
                    Command::WriteBlocks(how),
                    page * PAGE,
                    &[value; PAGE],
                );
                model.written(lines, value, is_through);
            }
        }
    }
    // Some events more, and the power is gone in between.
    for _ in 0..stream.below(50) {
        engine.step();
    }
}

fn checked(image: &Path) {
    let findings = fsck::check(image, &mut |_| true).unwrap();
    assert_eq!(findings.problems, Vec::<String>::new());
}

#[test]
fn a_kill_takes_only_what_was_not_flushed() {
    live_and_die("unprotected", &config(), Model::new(false));
}

#[test]
fn a_kill_takes_no_line_of_a_log_that_is_protected_alone() {
    live_and_die("safe-log", &with_safe_log(), Model::new(true));
}

fn live_and_die(name: &str, config: &DeviceConfig, mut model: Model) {
    let place = Place::new(name);
    let mut engine = made(&place, config);
    let image = place.path("image");
    let mut stream = Stream::new(5, name);
    for turn in 0..120 {
        work(&mut engine, &mut model, &mut stream);
        drop(engine);
        if turn % 8 == 0 {
            checked(&image);
        }
        engine = DeviceEngine::open(&image, Pace::None).unwrap();
        engine.audit();
        let mut found = vec![0; PAGES * PAGE];
        let size = Bytes::new(found.len() as u64);
        let ticket = engine
            .submit(Command::Read, ByteAddr::new(0), size)
            .unwrap();
        engine.finish(ticket, &mut found).unwrap();
        model.judge(turn, &found);
    }
    let [taken, left] = model.outcomes;
    assert!(
        taken > 1_000 && left > 1_000,
        "{taken} lines taken, {left} left"
    );
}

/// Whether the DRAM file has these bytes somewhere.
fn dram_has(image: &Path, bytes: &[u8]) -> bool {
    let dram = std::fs::read(image.join("dram.bin")).unwrap();
    dram.windows(bytes.len()).any(|window| window == bytes)
}

#[test]
fn what_was_in_the_dram_of_a_killed_device_is_gone_when_it_is_opened() {
    let place = Place::new("unprotected-dram");
    let mut engine = made(&place, &config());
    let image = place.path("image");
    let [flushed, buffered] = [*b"brought to flash", *b"only in a buffer"];
    let blocks = Command::WriteBlocks(Acknowledge::Accepted);
    write(&mut engine, blocks, 0, &flushed.repeat(PAGE / 16));
    ask(&mut engine, Command::Flush, 0, 0);
    write(&mut engine, blocks, 0, &buffered.repeat(PAGE / 16));
    drop(engine);
    assert!(dram_has(&image, &buffered), "it was in a buffer");
    checked(&image);
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    assert!(!dram_has(&image, &buffered) && !dram_has(&image, &flushed));
    let mut found = [0; 16];
    let ticket = engine.submit(Command::Read, ByteAddr::new(0), Bytes::new(16));
    engine.finish(ticket.unwrap(), &mut found).unwrap();
    assert_eq!(found, flushed);
    assert_eq!(engine.health().unsafe_shutdowns, 1);
}

#[test]
fn a_device_that_is_closed_in_order_keeps_what_was_not_flushed() {
    let place = Place::new("unprotected-closed");
    let mut engine = made(&place, &config());
    let image = place.path("image");
    write(&mut engine, Command::Write(TxId::NONE), 8192, &[7; 64]);
    engine.close().unwrap();
    checked(&image);
    let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
    let mut found = [0; 64];
    let ticket = engine.submit(Command::Read, ByteAddr::new(8192), Bytes::new(64));
    engine.finish(ticket.unwrap(), &mut found).unwrap();
    assert_eq!(found, [7; 64]);
    assert_eq!(engine.health().unsafe_shutdowns, 0);
}

/// Writes pages, which are accepted, until one is not: all blocks go bad within a few erases.
fn worn_out(place: &Place, seed: &str) -> DeviceEngine {
    let sets = [
        "ssd.dram=64KiB",
        "faults.grown_bad=100%",
        "faults.rated_wear=3",
        seed,
    ];
    let mut engine = made(place, &small("consumer-tlc", &sets));
    let mut stream = Stream::new(7, "standstill");
    for _ in 0..100_000 {
        let at = ByteAddr::new(stream.below(PAGES as u64) * PAGE as u64);
        let bytes = [1 + stream.below(255) as u8; PAGE];
        let blocks = Command::WriteBlocks(Acknowledge::Accepted);
        let ticket = engine.submit_write(blocks, at, &bytes).unwrap();
        match engine.finish(ticket, &mut []) {
            Ok(_) => {}
            Err(DeviceError::ReadOnly) => return engine,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the flash never wears out");
}

fn pages(engine: &mut DeviceEngine) -> Vec<u8> {
    let mut found = vec![0; PAGES * PAGE];
    let size = Bytes::new(found.len() as u64);
    let ticket = engine
        .submit(Command::Read, ByteAddr::new(0), size)
        .unwrap();
    engine.finish(ticket, &mut found).unwrap();
    found
}

#[test]
fn closing_says_that_what_was_accepted_could_not_be_brought_to_flash() {
    let mut outcomes = [0; 2];
    for seed in 0..12 {
        let place = Place::new("unprotected-standstill");
        let mut engine = worn_out(&place, &format!("faults.seed={seed}"));
        let image = place.path("image");
        let accepted = pages(&mut engine);
        let closed = engine.close();
        let mut engine = DeviceEngine::open(&image, Pace::None).unwrap();
        let is_lost = pages(&mut engine) != accepted;
        assert_eq!(closed.is_err(), is_lost, "seed {seed}: {closed:?}");
        outcomes[usize::from(is_lost)] += 1;
        if let Err(error) = closed {
            let sentence = format!(
                "{}: what was written since the last flush could not be brought to flash and may \
                 be lost: the flash is worn out and can only be read; copy what is on it to \
                 another device",
                image.display()
            );
            assert_eq!(error.to_string(), sentence);
        }
    }
    assert!(outcomes.iter().all(|times| *times > 0), "{outcomes:?}");
}

#[test]
fn flushes_and_what_is_written_through_take_the_time_of_their_programs() {
    let place = Place::new("unprotected-time");
    let config = config();
    let mut engine = made(&place, &config);
    let (program, cost) = (config.nand.t_prog, config.ssd.flush_cost);
    assert!(!cost.is_zero(), "the preset says what a flush costs");
    let how = |how| Command::WriteBlocks(how);
    let accepted = write(&mut engine, how(Acknowledge::Accepted), 0, &[1; PAGE]);
    assert!(accepted < program, "{accepted}");
    let through = write(&mut engine, how(Acknowledge::Durable), PAGE, &[2; PAGE]);
    assert!(through > program && through < program + cost, "{through}");
    engine.settle();
    let idle = ask(&mut engine, Command::Flush, 0, 0);
    assert!(idle > cost && idle < cost + program, "{idle}");
    write(&mut engine, Command::Write(TxId::NONE), 2 * PAGE, &[3; 64]);
    let barrier = ask(&mut engine, Command::Persist, 0, 0);
    assert!(barrier > cost + program, "{barrier}");
    write(&mut engine, how(Acknowledge::Accepted), 0, &[4; PAGE]);
    let flush = ask(&mut engine, Command::Flush, 0, 0);
    assert!(flush > cost + program, "{flush}");
    let latencies = Image::describe(engine.image()).unwrap().latencies;
    let flushes = latencies.of(Kind::Flush);
    assert_eq!((flushes.count(), flushes.longest()), (2, Some(flush)));
    assert_eq!(latencies.of(Kind::Persist).longest(), Some(barrier));
}
