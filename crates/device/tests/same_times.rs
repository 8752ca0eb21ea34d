//! The same requests end at the same picosecond whether there are no bytes, bytes in memory, or
//! bytes in files; and a device is as quick as its parts say.

use crate::bare::host;
use crate::common::{Place, small};
use device::activity::ACTIVITY;
use device::{DeviceConfig, DeviceEngine, Image, Pace};
use firmware::{BlockRecord, BufferId, BufferedPage, Durable, KeptFrame, LoggedLine};
use port::{Acknowledge, Command, Conflict, DeviceError, Engine, Finished, Ticket};
use soc::{NoBytes, Resources};
use units::{BlockAddr, ByteAddr, Bytes, FrameId, LogSlot, Lpa, Picos, Ppa, Stream, Time, TxId};

/// Requests of a run.
const REQUESTS: u64 = 100_000;

/// What a power cut has left of a device that nobody has used.
struct Nothing;

impl Durable for Nothing {
    fn logged(&self) -> impl Iterator<Item = (LogSlot, LoggedLine)> {
        std::iter::empty()
    }
    fn buffered(&self) -> impl Iterator<Item = (BufferId, BufferedPage)> {
        std::iter::empty()
    }
    fn framed(&self) -> impl Iterator<Item = (FrameId, KeptFrame)> {
        std::iter::empty()
    }
    fn committed(&self) -> impl Iterator<Item = (u32, TxId)> {
        std::iter::empty()
    }
    fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)> {
        std::iter::empty()
    }
    fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)> {
        std::iter::empty()
    }
}

/// A device without bytes that begins when one with bytes does.
fn without_bytes(config: &DeviceConfig, begin: Time) -> soc::Engine<NoBytes> {
    let resources = Resources::new(config.resources(None, begin), NoBytes);
    let engine = host(config);
    let controller = config.controller();
    soc::Engine::recover(&controller, &Nothing, resources, engine, begin).unwrap()
}

/// A request in flight of a slot of the closed loop.
struct Slot {
    ticket: Option<Ticket>,
    /// The transaction that the slot has open.
    tx: TxId,
}

/// Requests of all kinds, drawn from a stream: what is drawn depends on nothing but the stream and
/// on which requests ended before.
struct Load {
    stream: Stream,
    capacity: u64,
    /// Of the block port.
    block: u64,
}

impl Load {
    fn submit<E: Engine>(
        &mut self,
        engine: &mut E,
        slot: &mut Slot,
    ) -> Result<Ticket, DeviceError> {
        let draw = |stream: &mut Stream, below: u64| stream.below(below);
        let block = self.block;
        let most = self.capacity / block - 12;
        let page = block * draw(&mut self.stream, most + 12 * u64::from(block == 4096));
        let blocks = match block {
            4096 => block,
            _ => block * (1 + draw(&mut self.stream, 12)),
        };
        let at = draw(&mut self.stream, self.capacity - 9_000);
        let size = 1 + draw(&mut self.stream, 300);
        let (command, at, size) = match draw(&mut self.stream, 16) {
            0..3 => (Command::Read, at, size),
            3..6 => (Command::Write(TxId::NONE), at, size),
            6 => (Command::Read, at, 20 * size),
            7 => (Command::Write(TxId::NONE), at, 20 * size),
            8 => (Command::ReadBlocks, page, blocks),
            9 => (Command::WriteBlocks(Acknowledge::Accepted), page, blocks),
            10 => (Command::WriteBlocks(Acknowledge::Durable), page, blocks),
            11 => (Command::Trim, page, blocks),
            12 => (Command::Flush, 0, 0),
            13 => (Command::Persist, 0, 0),
            14 if slot.tx == TxId::NONE => {
                slot.tx = engine.begin(true)?;
                (Command::Write(slot.tx), at, size)
            }
            14 => (Command::Write(slot.tx), at, size),
            _ if slot.tx == TxId::NONE => (Command::Persist, 0, 0),
            _ => {
                let tx = std::mem::replace(&mut slot.tx, TxId::NONE);
                let commits = draw(&mut self.stream, 2) == 0;
                (
                    if commits {
                        Command::Commit(tx)
                    } else {
                        Command::Abort(tx)
                    },
                    0,
                    0,
                )
            }
        };
        let bytes = match command.is_write() && command != Command::Trim {
            true => vec![self.stream.below(256) as u8; size as usize],
            false => Vec::new(),
        };
        let range = (ByteAddr::new(at), Bytes::new(size));
        let now = engine.now();
        engine.submit(now, command, range, Conflict::Refuse, &bytes)
    }
}

/// Runs the requests at a depth; every end, and a number made of all of them.
fn run<E: Engine>(engine: &mut E, depth: usize, requests: u64) -> (Time, u64, u64) {
    let mut load = Load {
        stream: Stream::new(7, "same times"),
        capacity: engine.shape().capacity.get(),
        block: engine.shape().block.get(),
    };
    let mut slots: Vec<Slot> = (0..depth)
        .map(|_| Slot {
            ticket: None,
            tx: TxId::NONE,
        })
        .collect();
    let (mut asked, mut failed, mut sum) = (0, 0, 0u64);
    let mut finished: Vec<Finished> = Vec::new();
    let mut is_done = false;
    while !is_done {
        for slot in &mut slots {
            while slot.ticket.is_none() && asked < requests {
                asked += 1;
                slot.ticket = load.submit(engine, slot).ok();
                failed += u64::from(slot.ticket.is_none());
            }
        }
        is_done = asked == requests && slots.iter().all(|slot| slot.ticket.is_none());
        if is_done {
            break;
        }
        let next = engine.next_deadline().expect("something is under way");
        engine.advance(next, &mut finished);
        finished.clear();
        for slot in &mut slots {
            let Some(ticket) = slot.ticket else { continue };
            let Some(result) = engine.take(ticket, &mut []) else {
                continue;
            };
            slot.ticket = None;
            match result {
                Ok((completion, _)) => {
                    let end = completion.finished.as_picos();
                    sum = sum.rotate_left(7) ^ end;
                }
                Err(_) => failed += 1,
            }
        }
    }
    while let Some(next) = engine.next_deadline() {
        engine.advance(next, &mut finished);
        finished.clear();
    }
    (engine.now(), sum, failed)
}

fn config() -> DeviceConfig {
    config_with(&[])
}

fn config_with(others: &[&str]) -> DeviceConfig {
    let more = [
        "ssd.log.size=64KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=132KiB",
        "nand.blocks_per_plane=64",
        "nand.dies_per_chip=2",
    ];
    small("cxl", &[&more, others].concat())
}

#[test]
fn the_same_requests_end_at_the_same_picosecond_whatever_the_bytes_are() {
    let runs = [(1, REQUESTS), (8, REQUESTS), (64, REQUESTS)];
    ends_alike("same-times", &config(), &runs);
}

/// Four pages in a flash page, eight blocks in a page.
#[test]
fn so_they_do_with_flash_pages_pages_and_blocks_of_three_sizes() {
    let sizes = [
        "nand.page_size=16KiB",
        "ftl.over_provisioning=45%",
        "device.block=512B",
        "nand.blocks_per_plane=24",
    ];
    let runs = [(1, REQUESTS / 4), (16, REQUESTS / 4)];
    ends_alike("same-times-sizes", &config_with(&sizes), &runs);
}

fn ends_alike(name: &str, config: &DeviceConfig, runs: &[(usize, u64)]) {
    let place = Place::new(name);
    for (depth, requests) in runs.iter().copied() {
        let path = place.path(&format!("image-{depth}"));
        Image::create(&path, config).unwrap();
        let mut files = DeviceEngine::open(&path, Pace::None).unwrap();
        let mut memory = DeviceEngine::in_memory(config, Pace::None).unwrap();
        let mut nothing = without_bytes(config, memory.now());
        let expected = run(&mut nothing, depth, requests);
        assert_eq!(
            run(&mut memory, depth, requests),
            expected,
            "memory, depth {depth}"
        );
        assert_eq!(
            run(&mut files, depth, requests),
            expected,
            "files, depth {depth}"
        );
        assert!(
            expected.2 < requests / 4,
            "{} requests were refused",
            expected.2
        );
        files.audit();
        let counted = files.counters();
        for name in ["compactions", "gc_victims"] {
            let at = ACTIVITY.iter().position(|(known, _)| *known == name);
            assert!(counted.activity[at.unwrap()] > 0, "{name} ran");
        }
    }
}

#[test]
fn a_device_is_continued_from_a_snapshot_at_any_event() {
    let config = config();
    let mut device = DeviceEngine::in_memory(&config, Pace::None).unwrap();
    let first = run(&mut device, 8, 3_000);
    assert!(first.0 > Time::ZERO);
    let page = [9; 4096];
    for number in 0..40 {
        let at = ByteAddr::new(number * 8192);
        let command = Command::WriteBlocks(Acknowledge::Accepted);
        device.submit_write(command, at, &page).unwrap();
    }
    // In the middle of it.
    for _ in 0..25 {
        device.step();
    }
    let mut copy = device.snapshot().unwrap();
    assert_eq!(run(&mut copy, 4, 2_000), run(&mut device, 4, 2_000));
}

/// Reads of pages on idle dies, at a depth: each takes what one takes alone, until the link is
/// full.
#[test]
fn throughput_over_depth_is_the_closed_form() {
    let more = [
        "nand.channels=16",
        "nand.chips_per_channel=8",
        "nand.blocks_per_plane=32",
        "ssd.log.size=64KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=132KiB",
        "ssd.buffers=256",
        "ssd.cache.mshr_count=256",
        "device.read_bandwidth=2GB/s",
    ];
    let config = small("cxl", &more);
    let mut device = DeviceEngine::in_memory(&config, Pace::None).unwrap();
    // One page after the other goes to one die after the other.
    let page = vec![1; 4096];
    for number in 0..512 {
        let command = Command::WriteBlocks(Acknowledge::Durable);
        let ticket = device.submit_write(command, ByteAddr::new(number * 4096), &page);
        device.finish(ticket.unwrap(), &mut []).unwrap();
    }
    device.settle();
    let mut alone = Picos::ZERO;
    for depth in [1, 2, 4, 8, 16, 32, 64] {
        let took = time_of_reads(&mut device, depth, 2_048);
        if depth == 1 {
            alone = took / 2_048;
        }
        let on_link = config.device.read_bandwidth.time_for(Bytes::new(4096));
        let each = (alone.get() / depth as u64).max(on_link.get());
        let expected = each * 2_048;
        let off = took.get().abs_diff(expected);
        assert!(
            off * 100 <= expected,
            "depth {depth}: {took}, and {expected} ps by the closed form"
        );
    }
}

fn time_of_reads(device: &mut DeviceEngine, depth: usize, reads: u64) -> Picos {
    let begun = device.now();
    let mut next = 0;
    let mut slots = vec![None; depth];
    loop {
        for slot in &mut slots {
            if slot.is_none() && next < reads {
                let at = ByteAddr::new(next % 512 * 4096);
                *slot = Some(
                    device
                        .submit(Command::ReadBlocks, at, Bytes::new(4096))
                        .unwrap(),
                );
                next += 1;
            }
        }
        if slots.iter().all(Option::is_none) {
            return device.now() - begun;
        }
        device.step();
        for slot in &mut slots {
            let taken = slot.and_then(|ticket| device.take(ticket, &mut []));
            if let Some(result) = taken {
                result.unwrap();
                *slot = None;
            }
        }
    }
}

/// A flush that waits for flash keeps nobody off the link.
#[test]
fn a_read_behind_a_flush_takes_what_it_takes_alone() {
    let config = small("consumer-tlc", &[]);
    let mut device = DeviceEngine::in_memory(&config, Pace::None).unwrap();
    let page = vec![1; 4096];
    let accepted = Command::WriteBlocks(Acknowledge::Accepted);
    let write = |device: &mut DeviceEngine, at: u64| {
        let ticket = device
            .submit_write(accepted, ByteAddr::new(at), &page)
            .unwrap();
        device.finish(ticket, &mut []).unwrap();
    };
    write(&mut device, 0);
    let flush = device
        .submit(Command::Flush, ByteAddr::new(0), Bytes::ZERO)
        .unwrap();
    device.finish(flush, &mut []).unwrap();
    device.settle();
    let read = |device: &mut DeviceEngine| {
        device
            .submit(Command::Read, ByteAddr::new(64 << 10), Bytes::new(64))
            .unwrap()
    };
    let alone = read(&mut device);
    let alone = device.finish(alone, &mut []).unwrap().0.took();
    write(&mut device, 4096);
    let flush = device
        .submit(Command::Flush, ByteAddr::new(0), Bytes::ZERO)
        .unwrap();
    // The flush is with the device, and is answered behind the flash.
    while device
        .next_deadline()
        .is_some_and(|at| at <= device.now() + config.device.block_command)
    {
        device.step();
    }
    let behind = read(&mut device);
    let behind = device.finish(behind, &mut []).unwrap().0;
    let flush = device.finish(flush, &mut []).unwrap().0;
    assert!(
        flush.finished > behind.finished,
        "the flush was still waited for"
    );
    assert_eq!(behind.took(), alone);
}
