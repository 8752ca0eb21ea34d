//! Blocks smaller than a mapping unit: the device puts the parts together.

use crate::common::{Place, made, small};
use device::{DeviceConfig, DeviceEngine, Pace, fsck};
use port::{Acknowledge, Command, Conflict, DeviceError, SharedBlock, Ticket};
use std::sync::Arc;
use units::{ByteAddr, Bytes, Stream, TxId};

const LOG: [&str; 3] = [
    "ssd.log.size=32KiB",
    "ssd.log.tx_log=4KiB",
    "ssd.dram=100KiB",
];
/// Bytes of a block that is shared.
const BLOCK: usize = 4096;
/// Bytes that the tests write in.
const REGION: u64 = 40 * 4096;

/// Blocks of 512 B.
fn sectors(preset: &str, more: &[&str]) -> DeviceConfig {
    small(preset, &[&["device.block=512B"], more].concat())
}

fn read(engine: &mut DeviceEngine, command: Command, at: u64, size: u64) -> Vec<u8> {
    let mut found = vec![0; size as usize];
    let ticket = engine
        .submit(command, ByteAddr::new(at), Bytes::new(size))
        .unwrap();
    engine.finish(ticket, &mut found).unwrap();
    found
}

fn write(engine: &mut DeviceEngine, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
    let command = Command::WriteBlocks(Acknowledge::Accepted);
    let ticket = engine.submit_write(command, ByteAddr::new(at), bytes)?;
    engine.finish(ticket, &mut []).map(|_| ())
}

/// Commands that are under way together, with what each is to read. They overlap, so they are done
/// in the order in which they were submitted.
struct Run {
    engine: DeviceEngine,
    model: Vec<u8>,
    stream: Stream,
    under_way: Vec<(Ticket, Option<Vec<u8>>)>,
    /// What the device has as it was brought.
    shared: Vec<SharedBlock>,
}

impl Run {
    /// A range of whole blocks, or of any bytes for the byte port, which knows no blocks.
    fn range(&mut self, unit: u64) -> (u64, u64) {
        let units = REGION / unit;
        let first = self.stream.below(units);
        let most = (units - first).min(12_000 / unit);
        (first * unit, (1 + self.stream.below(most)) * unit)
    }

    fn submit(&mut self) {
        let kind = self.stream.below(8);
        let (at, size) = self.range(if kind < 6 { 512 } else { 1 });
        let span = at as usize..(at + size) as usize;
        let (from, size) = (ByteAddr::new(at), Bytes::new(size));
        let when = [Acknowledge::Accepted, Acknowledge::Durable][self.stream.below(2) as usize];
        let (command, reads) = match kind {
            0..=2 => (Command::WriteBlocks(when), false),
            3 | 4 => (Command::ReadBlocks, true),
            5 => (Command::Trim, false),
            6 => (Command::Write(TxId::NONE), false),
            _ => (Command::Read, true),
        };
        let (ticket, expected) = if reads {
            let ticket = self.engine.submit(command, from, size).unwrap();
            (ticket, Some(self.model[span].to_vec()))
        } else if command == Command::Trim {
            self.model[span].fill(0);
            (self.engine.submit(command, from, size).unwrap(), None)
        } else if kind == 0 && span.len() >= BLOCK {
            let span = span.start..span.start + span.len() / BLOCK * BLOCK;
            let blocks = self.model[span].chunks_exact_mut(BLOCK);
            let shared: Vec<SharedBlock> = blocks
                .map(|block| {
                    block.fill(self.stream.bits() as u8);
                    Arc::new(<[u8; BLOCK]>::try_from(&*block).unwrap())
                })
                .collect();
            let submitted = self
                .engine
                .submit_shared(command, from, Conflict::Wait, &shared);
            self.shared.extend(shared);
            (submitted.unwrap(), None)
        } else {
            let bytes = vec![self.stream.bits() as u8; span.len()];
            self.model[span].copy_from_slice(&bytes);
            (
                self.engine.submit_write(command, from, &bytes).unwrap(),
                None,
            )
        };
        self.under_way.push((ticket, expected));
    }

    fn finish_all(&mut self) {
        for (ticket, expected) in std::mem::take(&mut self.under_way) {
            let mut found = vec![0; expected.as_ref().map_or(0, Vec::len)];
            self.engine.finish(ticket, &mut found).unwrap();
            assert!(expected.is_none_or(|expected| expected == found));
        }
        for block in self.shared.drain(..) {
            assert_eq!(Arc::strong_count(&block), 1, "a write that is over has it");
        }
    }
}

fn check(name: &str, config: &DeviceConfig) {
    let place = Place::new(name);
    let image = place.path("image");
    let mut run = Run {
        engine: made(&place, config),
        model: vec![0; REGION as usize],
        stream: Stream::new(7, name),
        under_way: Vec::new(),
        shared: Vec::new(),
    };
    assert_eq!(run.engine.shape().block, Bytes::new(512));
    for turn in 0..30 {
        for _ in 0..20 {
            for _ in 0..=run.stream.below(8) {
                run.submit();
            }
            run.finish_all();
        }
        // Without a battery what was not flushed is gone.
        let flush = run
            .engine
            .submit(Command::Flush, ByteAddr::new(0), Bytes::ZERO);
        run.engine.finish(flush.unwrap(), &mut []).unwrap();
        drop(run.engine);
        if turn % 10 == 0 {
            let findings = fsck::check(&image, &mut |_| true).unwrap();
            assert_eq!(findings.problems, Vec::<String>::new());
        }
        run.engine = DeviceEngine::open(&image, Pace::None).unwrap();
        run.engine.audit();
        let found = read(&mut run.engine, Command::ReadBlocks, 0, REGION);
        assert!(found == run.model, "turn {turn}");
    }
}

#[test]
fn blocks_of_512_bytes_are_put_together_in_order() {
    check("blocks-log", &sectors("bytefs", &LOG));
    check(
        "blocks-plain",
        &sectors("consumer-tlc", &["ssd.dram=64KiB"]),
    );
    let large = ["nand.page_size=16KiB", "ftl.over_provisioning=45%"];
    check(
        "blocks-large-pages",
        &sectors("bytefs", &[&LOG[..], &large].concat()),
    );
}

#[test]
fn what_is_no_multiple_of_a_block_is_refused() {
    let place = Place::new("blocks-refused");
    let mut engine = made(&place, &sectors("bytefs", &LOG));
    for (at, size) in [(0, 64), (256, 512), (0, 513)] {
        let refused = write(&mut engine, at, &vec![0; size]).unwrap_err();
        let block = Bytes::new(512);
        assert!(
            matches!(refused, DeviceError::NotBlocks { block: of, .. } if of == block),
            "{refused}"
        );
    }
}

/// A write of a block costs a read of its page in the device, and its own bytes on the link.
#[test]
fn only_the_block_crosses_the_link() {
    let place = Place::new("blocks-link");
    let mut engine = made(&place, &sectors("bytefs", &LOG));
    write(&mut engine, 512, &[7; 512]).unwrap();
    assert_eq!(
        read(&mut engine, Command::ReadBlocks, 512, 1024)[..512],
        [7; 512]
    );
    let traffic = engine.stats().block_port;
    assert_eq!((traffic.writes, traffic.reads), (1, 1));
    assert_eq!(traffic.to_device, Bytes::new(512));
    assert_eq!(traffic.to_host, Bytes::new(1024));
}

/// The page of a block holds a line of an open transaction, which is aborted while the device reads
/// the page to put the block into it: the line is as it was.
#[test]
fn an_abort_in_the_middle_brings_nothing_back() {
    let place = Place::new("blocks-abort");
    let mut engine = made(&place, &sectors("bytefs", &LOG));
    let lines = vec![1; 4096];
    let whole = engine.submit_write(Command::Write(TxId::NONE), ByteAddr::new(0), &lines);
    engine.finish(whole.unwrap(), &mut []).unwrap();
    let tx = engine.begin(true).unwrap();
    let open = engine.submit_write(Command::Write(tx), ByteAddr::new(64), &[9; 64]);
    engine.finish(open.unwrap(), &mut []).unwrap();
    let command = Command::WriteBlocks(Acknowledge::Accepted);
    let block = engine
        .submit_write(command, ByteAddr::new(3584), &[5; 512])
        .unwrap();
    let abort = engine
        .submit(Command::Abort(tx), ByteAddr::new(0), Bytes::ZERO)
        .unwrap();
    engine.finish(abort, &mut []).unwrap();
    engine.finish(block, &mut []).unwrap();
    let found = read(&mut engine, Command::Read, 0, 4096);
    assert_eq!(found[..3584], [1; 3584]);
    assert_eq!(found[3584..], [5; 512]);
}

/// Trims of whole pages, and of pages and a part at each end, wait for an open transaction and are
/// done behind it: nothing of a whole page is read for them.
#[test]
fn a_trim_waits_for_a_transaction() {
    for (at, size) in [(0, 4096), (4096, 8192), (512, 3 * 4096)] {
        let place = Place::new("blocks-trim-waits");
        let mut engine = made(&place, &sectors("bytefs", &LOG));
        write(&mut engine, 0, &vec![1; 4 * 4096]).unwrap();
        let tx = engine.begin(true).unwrap();
        for page in 0..4 {
            let from = ByteAddr::new(page * 4096 + 1024);
            let open = engine.submit_write(Command::Write(tx), from, &[9; 64]);
            engine.finish(open.unwrap(), &mut []).unwrap();
        }
        let trim = engine.submit(Command::Trim, ByteAddr::new(at), Bytes::new(size));
        let commit = engine.submit(Command::Commit(tx), ByteAddr::new(0), Bytes::ZERO);
        engine.finish(commit.unwrap(), &mut []).unwrap();
        engine.finish(trim.unwrap(), &mut []).unwrap();
        let mut wanted = vec![1; 4 * 4096];
        for page in 0..4 {
            wanted[page * 4096 + 1024..][..64].fill(9);
        }
        wanted[at as usize..(at + size) as usize].fill(0);
        let found = read(&mut engine, Command::Read, 0, 4 * 4096);
        assert!(found == wanted, "trim of {size} at {at}");
    }
}
