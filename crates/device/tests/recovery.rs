//! What a killed process has left is taken over.
//!
//! Dropping an engine without closing it is what a kill is to the image: stores that were made are
//! in it, and nothing else happens.

use crate::common::{Place, made, small, small_log};
use device::{DeviceConfig, DeviceEngine, Pace, fsck};
use port::Command;
use port::Ticket;
use port::{Acknowledge, Atomicity, Conflict, DeviceError};
use std::collections::BTreeMap;
use units::{ByteAddr, Bytes, Stream, TxId};

/// Writes at random places for some turns, keeping the model; stops in the middle of things.
fn work(engine: &mut DeviceEngine, model: &mut [u8], stream: &mut Stream) {
    let turns = 1 + stream.below(400);
    for _ in 0..turns {
        let is_block = stream.below(5) == 0;
        let (at, size) = if is_block {
            (stream.below(232) * 4096, 4096)
        } else {
            let at = stream.below(model.len() as u64 - 300);
            (at, 1 + stream.below(300))
        };
        let bytes = vec![stream.bits() as u8; size as usize];
        let command = match is_block {
            true => Command::WriteBlocks(Acknowledge::Accepted),
            false => Command::Write(TxId::NONE),
        };
        let ticket = engine
            .submit_write(command, ByteAddr::new(at), &bytes)
            .unwrap();
        engine.finish(ticket, &mut []).unwrap();
        model[at as usize..(at + size) as usize].copy_from_slice(&bytes);
    }
    // Some events more, and the power is gone in between.
    for _ in 0..stream.below(50) {
        engine.step();
    }
}

fn check(name: &str, config: &DeviceConfig) {
    let place = Place::new(name);
    let mut engine = made(&place, config);
    let image = place.path("image");
    let mut model = vec![0; config.capacity().get() as usize];
    let mut stream = Stream::new(3, name);
    for turn in 0..40 {
        work(&mut engine, &mut model, &mut stream);
        drop(engine);
        if turn % 8 == 0 {
            let findings = fsck::check(&image, &mut |_| true).unwrap();
            assert_eq!(findings.problems, Vec::<String>::new());
        }
        engine = DeviceEngine::open(&image, Pace::None).unwrap();
        engine.audit();
        let mut found = vec![0; model.len()];
        let size = Bytes::new(model.len() as u64);
        let ticket = engine
            .submit(Command::Read, ByteAddr::new(0), size)
            .unwrap();
        engine.finish(ticket, &mut found).unwrap();
        let wrong = found
            .iter()
            .zip(&model)
            .position(|(found, model)| found != model);
        assert_eq!(
            wrong, None,
            "turn {turn}: the first byte that is another one"
        );
    }
    assert_eq!(engine.health().unsafe_shutdowns, 40);
}

/// Four pages in a flash page.
#[test]
fn a_killed_process_loses_nothing_of_flash_pages_of_16_kib() {
    let large = ["nand.page_size=16KiB", "ftl.over_provisioning=45%"];
    let log = [
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=100KiB",
    ];
    check(
        "large_pages",
        &small("bytefs", &[large.as_slice(), &log].concat()),
    );
    let through = ["ssd.block_write_ack=programmed"];
    check(
        "large_pages_through",
        &small("cxl", &[large.as_slice(), &through].concat()),
    );
}

/// More pages than frames, so that they are written back too; few buffers.
#[test]
fn a_killed_process_loses_no_line_where_a_battery_keeps_all_dram() {
    let config = small("bytefs-cache", &["ssd.dram=128KiB", "ssd.buffers=4"]);
    check("frames", &config);
}

/// A persist of lines programs nothing there, and a drain every page with one.
#[test]
fn a_drain_brings_frames_that_are_kept_to_flash() {
    let config = small("bytefs-cache", &["ssd.dram=128KiB", "ssd.buffers=4"]);
    let place = Place::new("drained-frames");
    let mut engine = made(&place, &config);
    let mut done = |command, at: u64, bytes: &[u8]| {
        let at = ByteAddr::new(at);
        let ticket = match bytes {
            [] => engine.submit(command, at, Bytes::ZERO),
            bytes => engine.submit_write(command, at, bytes),
        };
        engine.finish(ticket.unwrap(), &mut []).unwrap();
        engine.stats().flash.programs
    };
    for page in 0..10 {
        done(Command::Write(TxId::NONE), page * 4096, &[1; 64]);
        assert_eq!(done(Command::Persist, 0, &[]), 0);
    }
    assert_eq!(done(Command::Drain, 0, &[]), 10);
    assert_eq!(done(Command::Drain, 0, &[]), 10);
}

/// An open transaction: what it writes, line by line.
type Open = (TxId, BTreeMap<usize, u8>);

/// Work with transactions, in the middle of which the process is killed.
struct Work {
    engine: DeviceEngine,
    stream: Stream,
    /// Lines, each of which holds one value.
    committed: Vec<u8>,
    open: Vec<Open>,
    /// Of the commit that nobody has waited for.
    in_doubt: BTreeMap<usize, u8>,
    commits: u32,
    /// Commits in doubt that were done, and that were not.
    outcomes: [u32; 2],
}

impl Work {
    fn write(&mut self, tx: TxId, line: usize, count: usize, value: u8) -> bool {
        let bytes = vec![value; count * 64];
        let at = ByteAddr::new(line as u64 * 64);
        let range = (at, Bytes::new(bytes.len() as u64));
        let command = Command::Write(tx);
        let ticket = self
            .engine
            .submit_any(command, range, Conflict::Refuse, &bytes);
        let done = self.engine.finish(ticket.unwrap(), &mut []);
        match done {
            Ok(_) => true,
            // In one page all of it is refused.
            Err(DeviceError::Locked { .. } | DeviceError::LogFull) => false,
            Err(other) => panic!("{other}"),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.stream.below(bound as u64) as usize
    }

    /// A few lines of one page, under a transaction or none.
    fn write_some(&mut self) {
        let (first, value) = (self.below(self.committed.len()), self.stream.bits() as u8);
        let count = (1 + self.below(4)).min(64 - first % 64);
        let lines = first..first + count;
        let nth = self.below(4);
        if nth == 3 {
            if self.write(TxId::NONE, first, count, value) {
                self.committed[lines].fill(value);
            }
            return;
        }
        if nth >= self.open.len() {
            let tx = self.engine.begin(true).unwrap();
            self.open.push((tx, BTreeMap::new()));
        }
        let nth = nth.min(self.open.len() - 1);
        if self.write(self.open[nth].0, first, count, value) {
            self.open[nth].1.extend(lines.map(|line| (line, value)));
        }
    }

    fn submit_end(&mut self, command: Command) -> Ticket {
        let ticket = self.engine.submit(command, ByteAddr::new(0), Bytes::ZERO);
        ticket.unwrap()
    }

    /// Commits or aborts one and waits for it.
    fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let nth = self.below(self.open.len());
        let (tx, lines) = self.open.swap_remove(nth);
        let is_commit = self.below(3) > 0;
        let ticket = self.submit_end(if is_commit {
            Command::Commit(tx)
        } else {
            Command::Abort(tx)
        });
        assert_eq!(
            self.engine.finish(ticket, &mut []).unwrap().1,
            Atomicity::Whole
        );
        if is_commit {
            self.commits += 1;
            lines
                .iter()
                .for_each(|(line, value)| self.committed[*line] = *value);
        }
    }

    /// Works for a while, and asks for a commit that nobody waits for.
    fn some_turns(&mut self) {
        for _ in 0..self.below(60) {
            match self.below(6) {
                0 => self.end(),
                _ => self.write_some(),
            }
        }
        self.in_doubt.clear();
        if !self.open.is_empty() && self.below(2) == 0 {
            let (tx, lines) = self.open.swap_remove(0);
            self.in_doubt = lines;
            self.submit_end(Command::Commit(tx));
        }
        for _ in 0..self.below(12) {
            self.engine.step();
        }
    }

    /// What is there after the kill: what was committed, of the rest all or nothing.
    fn check(&mut self) {
        self.open.clear();
        self.engine.audit();
        let mut found = vec![0; self.committed.len() * 64];
        let size = Bytes::new(found.len() as u64);
        let ticket = self.engine.submit(Command::Read, ByteAddr::new(0), size);
        self.engine.finish(ticket.unwrap(), &mut found).unwrap();
        let lines: Vec<_> = found.chunks(64).collect();
        let has = |line: usize, value: u8| lines[line] == [value; 64];
        let new: Vec<_> = self
            .in_doubt
            .iter()
            .map(|(line, value)| has(*line, *value))
            .collect();
        let differs = |(line, value): (&usize, &u8)| self.committed[*line] != *value;
        if self.in_doubt.iter().any(differs) {
            self.outcomes[usize::from(new.iter().all(|new| *new))] += 1;
        }
        if new.iter().all(|new| *new) {
            let lines = std::mem::take(&mut self.in_doubt);
            lines
                .iter()
                .for_each(|(line, value)| self.committed[*line] = *value);
        }
        let wrong = (0..lines.len()).find(|line| !has(*line, self.committed[*line]));
        assert_eq!(wrong, None, "the first line that holds something else");
    }
}

fn check_transactions(name: &str, config: &DeviceConfig) {
    let place = Place::new(name);
    let image = place.path("image");
    let mut work = Work {
        engine: made(&place, config),
        stream: Stream::new(7, name),
        committed: vec![0; 1_024],
        open: Vec::new(),
        in_doubt: BTreeMap::new(),
        commits: 0,
        outcomes: [0; 2],
    };
    for turn in 0..150 {
        work.some_turns();
        let Work { engine, .. } = work;
        drop(engine);
        if turn % 10 == 0 {
            let findings = fsck::check(&image, &mut |_| true).unwrap();
            assert_eq!(findings.problems, Vec::<String>::new());
        }
        work.engine = DeviceEngine::open(&image, Pace::None).unwrap();
        work.check();
    }
    let (commits, outcomes) = (work.commits, work.outcomes);
    let is_enough = commits > 100 && outcomes.iter().all(|count| *count > 5);
    assert!(
        is_enough,
        "{commits} commits, of those in doubt {outcomes:?} not done and done"
    );
}

/// A TxLog of four entries, for which commits wait.
#[test]
fn transactions_of_a_log_of_skip_lists_are_whole_or_absent() {
    let sets = [
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=16B",
        "ssd.dram=100KiB",
    ];
    check_transactions("transactions-skip", &small("bytefs", &sets));
}

#[test]
fn transactions_of_a_hashed_log_beside_a_cache_are_whole_or_absent() {
    let sets = [
        "ssd.log.size=32KiB",
        "ssd.log.tx_log=16B",
        "ssd.dram=100KiB",
    ];
    check_transactions("transactions-hash", &small("skybyte", &sets));
}

#[test]
fn a_log_of_skip_lists_survives_what_was_acknowledged() {
    check("survives-skip", &small_log());
}

#[test]
fn a_hashed_log_beside_a_cache_survives_what_was_acknowledged() {
    let sets = ["ssd.log.size=32KiB", "ssd.dram=96KiB"];
    check("survives-hash", &small("skybyte", &sets));
}
