//! Data journaling: what it asks of a file system, what it writes, and what damage of it is.

use crate::common::{AnyClock, Fs, of};
use bytefs::layout::Superblock;
use bytefs::{
    Caller, CpuCosts, DataMode, FormatOptions, FsStats, Ino, MountError, MountOptions, Personality,
    Timestamp, WriteOptions, check,
};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{
    Acknowledge, AnyDevice, Command, Conflict, Device, DeviceError, DeviceStats, Opening, Outcome,
    Payload, Shape,
};
use std::cell::RefCell;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use units::{ByteAddr, Bytes, Picos, TxId};
use vtime::Machine;

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
/// Where the line is that closes a record: behind the superblock and the block of the state.
const CLOSING: ByteAddr = ByteAddr::new(2 * PAGE as u64);

type Drive = AnyDevice;

fn machine(sets: &[&str]) -> Machine<DeviceEngine> {
    let sets = [
        &[
            "nand.channels=2",
            "nand.blocks_per_plane=64",
            "ssd.dram=8MiB",
            "ssd.log.size=1MiB",
        ],
        sets,
    ];
    let layers: Vec<Layer> = sets
        .concat()
        .iter()
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    Machine::new(DeviceEngine::in_memory(&config, Pace::None).unwrap(), 2)
}

fn on_device(test: impl AsyncFnOnce(Drive, AnyClock) + 'static) {
    let mut machine = machine(&[]);
    run(&mut machine, test);
}

fn run<T: 'static>(
    machine: &mut Machine<DeviceEngine>,
    test: impl AsyncFnOnce(Drive, AnyClock) -> T + 'static,
) -> T {
    let (device, clock) = of(machine);
    let result = Rc::new(RefCell::new(None));
    let place = Rc::clone(&result);
    machine.spawn("test", async move {
        let done = test(device, clock).await;
        place.replace(Some(done));
    });
    machine.run().unwrap();
    result.take().unwrap()
}

async fn format(device: &Drive, personality: Personality, journal: Option<Bytes>) {
    let options = FormatOptions {
        inodes: Some(64),
        journal,
        ..FormatOptions::new(personality)
    };
    Fs::format(device, &options).await.unwrap();
}

async fn mount(device: &Drive, clock: &AnyClock, data: DataMode) -> Result<Fs, MountError> {
    let options = MountOptions {
        data,
        ..MountOptions::default()
    };
    Fs::mount(device.clone(), clock.clone(), options).await
}

fn journal_of(data: usize) -> u64 {
    // A block of numbers with each record.
    (data + PAGE) as u64
}

fn written(now: &FsStats, before: &FsStats) -> (u64, u64, u64) {
    (
        now.journal.blocks_written - before.journal.blocks_written,
        now.data.blocks_written - before.data.blocks_written,
        now.data.bytes_written - before.data.bytes_written,
    )
}

#[test]
fn what_cannot_journal_contents_says_why() {
    on_device(async |device, clock| {
        let refused = async |part: &str| {
            let refused = mount(&device, &clock, DataMode::Journal).await.err();
            let text = refused.unwrap().to_string();
            assert!(text.contains(part) && !text.contains('\n'), "{text}");
        };
        format(&device, Personality::ByteFsDual, None).await;
        refused("bytefs-dual uses none").await;
        format(&device, Personality::ByteFs, None).await;
        refused("with --journal 4MiB").await;
        format(&device, Personality::ByteFs, Some(Bytes::from_kib(128))).await;
        assert!(mount(&device, &clock, DataMode::Journal).await.is_ok());
    });
}

#[test]
fn a_log_that_is_too_small_is_named_and_not_the_journal() {
    let mut machine = machine(&["ssd.log.size=32KiB"]);
    run(&mut machine, async |device, clock| {
        format(&device, Personality::ByteFs, Some(Bytes::from_mib(4))).await;
        let refused = mount(&device, &clock, DataMode::Journal).await.err();
        let text = refused.unwrap().to_string();
        assert!(text.contains("a larger ssd.log.size"), "{text}");
    });
}

#[test]
fn what_overwrites_is_written_twice_and_nothing_else() {
    on_device(async |device, clock| {
        format(&device, Personality::ByteFs, Some(Bytes::from_mib(4))).await;
        let fs = mount(&device, &clock, DataMode::Journal).await.unwrap();
        let ino = fs
            .create(&CALLER, Ino::ROOT, b"foo", 0o600)
            .await
            .unwrap()
            .ino;
        let plain = WriteOptions::default();
        let write = async |at: usize, size: usize, byte: u8| {
            let before = fs.stats();
            let bytes = vec![byte; size];
            let done = fs.write(&CALLER, ino, at as u64, &bytes, plain).await;
            assert_eq!(done, Ok(size));
            fs.fsync(ino, false).await.unwrap();
            written(&fs.stats(), &before)
        };
        let new = write(0, MIB, 1).await;
        assert_eq!(new, (0, MIB as u64, 0), "its blocks are nobody else's yet");
        let over = write(0, MIB, 2).await;
        assert_eq!(over, (journal_of(MIB), MIB as u64, 0));
        let lines = write(70, 100, 3).await;
        assert_eq!(lines, (0, 0, 128), "two lines go with the transaction");
        // Two pages more than a megabyte is a batch's most: it goes in two pieces.
        let pieces = write(100, 2 * MIB, 4).await;
        assert_eq!(pieces.0 % PAGE as u64, 0);
        assert!(
            pieces.0 > journal_of(MIB) && pieces.1 >= 2 * MIB as u64,
            "{pieces:?}"
        );
        let read = fs.read(ino, 0, 3 * MIB, false).await.unwrap();
        let wanted = [vec![2; 70], vec![3; 30], vec![4; 2 * MIB]].concat();
        assert!(read == wanted);
        fs.unmount().await.unwrap();
        drop(fs);
        let fs = mount(&device, &clock, DataMode::Ordered).await.unwrap();
        assert!(fs.read(ino, 0, 3 * MIB, false).await.unwrap() == wanted);
        fs.unmount().await.unwrap();
    });
}

/// The device maps units of four blocks. What overwrites a block of such a unit waits for an open
/// transaction that has a line in it, so none of the next batch may be open meanwhile.
#[test]
fn batches_do_not_wait_for_each_other_where_the_device_maps_larger_units() {
    const PAGES: usize = 32;
    let mut machine = machine(&[
        "nand.pages_per_block=64",
        "nand.page_size=16KiB",
        "ftl.mapping_unit=16KiB",
        "device.block=4KiB",
    ]);
    let plain = WriteOptions::default();
    let (fs, files) = run(&mut machine, async move |device, clock| {
        format(&device, Personality::ByteFs, Some(Bytes::from_mib(1))).await;
        // Time for the next batch between a commit and the writes behind it.
        let costs = CpuCosts {
            request: Picos::from_micros(1),
            ..CpuCosts::default()
        };
        let options = MountOptions {
            costs,
            data: DataMode::Journal,
            ..MountOptions::default()
        };
        let fs = Fs::mount(device, clock, options).await.unwrap();
        let mut files = Vec::new();
        for name in [b"foo", b"bar"] {
            let made = fs.create(&CALLER, Ino::ROOT, name, 0o600).await;
            files.push(made.unwrap().ino);
        }
        // Their blocks lie between each other's, so that many requests overwrite those of one.
        for at in (0..PAGES).map(|page| page * PAGE) {
            for ino in &files {
                let page = [8; PAGE];
                let done = fs.write(&CALLER, *ino, at as u64, &page, plain).await;
                done.unwrap();
                fs.fsync(*ino, false).await.unwrap();
            }
        }
        (Rc::new(fs), files)
    });
    for (ino, size, rounds) in [(files[0], PAGES * PAGE, 20), (files[1], 64, 208)] {
        let fs = Rc::clone(&fs);
        machine.spawn(format!("writer of {size}"), async move {
            for round in 0..rounds {
                let bytes = vec![(round % 201) as u8; size];
                fs.write(&CALLER, ino, 0, &bytes, plain).await.unwrap();
                fs.fsync(ino, false).await.unwrap();
            }
        });
    }
    machine.run().unwrap();
    run(&mut machine, async move |device, _| {
        let read = fs.read(files[0], 0, PAGES * PAGE, false).await.unwrap();
        assert!(read == [19; PAGES * PAGE]);
        let read = fs.read(files[1], 0, PAGE, false).await.unwrap();
        assert!(read == [vec![6; 64], vec![8; PAGE - 64]].concat());
        fs.unmount().await.unwrap();
        assert!(check(&device, false).await.unwrap().is_clean());
    });
}

/// The file system is given up when an fsync was answered: its record counts until the next batch.
async fn left_with_a_record(device: &Drive, clock: &AnyClock) -> Ino {
    format(device, Personality::ByteFs, Some(Bytes::from_mib(1))).await;
    let fs = mount(device, clock, DataMode::Journal).await.unwrap();
    let ino = fs
        .create(&CALLER, Ino::ROOT, b"foo", 0o600)
        .await
        .unwrap()
        .ino;
    for byte in [1, 2] {
        let bytes = [byte; 3 * PAGE];
        let plain = WriteOptions::default();
        fs.write(&CALLER, ino, 0, &bytes, plain).await.unwrap();
        fs.fsync(ino, false).await.unwrap();
    }
    ino
}

#[test]
fn a_record_is_brought_to_its_places_by_whatever_mounts_next() {
    on_device(async |device, clock| {
        let ino = left_with_a_record(&device, &clock).await;
        let fs = mount(&device, &clock, DataMode::Ordered).await.unwrap();
        let before = fs.stats();
        assert_eq!(before.data.blocks_written, 3 * PAGE as u64, "replayed");
        assert_eq!(
            fs.read(ino, 0, 4 * PAGE, false).await.unwrap(),
            [2; 3 * PAGE]
        );
        drop(fs);
        let fs = mount(&device, &clock, DataMode::Journal).await.unwrap();
        assert_eq!(fs.stats().data.blocks_written, 0, "nothing counts any more");
        fs.unmount().await.unwrap();
        assert!(check(&device, false).await.unwrap().is_clean());
    });
}

#[test]
fn damage_of_a_record_is_told_and_repaired() {
    for (at, byte) in [(CLOSING.get(), 3), (CLOSING.get(), 9), (0, 0)] {
        on_device(async move |device, clock| {
            left_with_a_record(&device, &clock).await;
            let mut block = vec![0; PAGE];
            // Of the closing line, or of the second page of the record.
            let at = match at {
                0 => place_of_record(&device).await + 2 * PAGE as u64,
                at => at,
            };
            let at = ByteAddr::new(at);
            device.read_blocks(at, &mut block).await.unwrap();
            block[byte] ^= 0x40;
            device
                .write_blocks(at, &block, Acknowledge::Durable)
                .await
                .unwrap();
            let refused = mount(&device, &clock, DataMode::Journal)
                .await
                .err()
                .unwrap();
            assert!(matches!(refused, MountError::Damaged { .. }), "{refused}");
            let told = check(&device, false).await.unwrap();
            assert!(
                told.problems[0].what.contains("journal of contents"),
                "{told:?}"
            );
            let mended = check(&device, true).await.unwrap();
            assert!(
                mended
                    .problems
                    .iter()
                    .all(|problem| problem.repaired.is_some())
            );
            assert!(check(&device, false).await.unwrap().is_clean());
            let fs = mount(&device, &clock, DataMode::Journal).await.unwrap();
            fs.unmount().await.unwrap();
        });
    }
}

/// A device that has lost blocks, and takes no writes of others.
struct Faulty {
    inner: Drive,
    /// Until they are written anew.
    lost: RefCell<Range<u64>>,
    refused: Range<u64>,
}

enum Pending<'a> {
    Inner(<Drive as Device>::Pending<'a>),
    Failed(DeviceError),
}

impl Future for Pending<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut *self {
            Self::Inner(inner) => Pin::new(inner).poll(context),
            Self::Failed(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

impl Device for Faulty {
    type Pending<'a> = Pending<'a>;

    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Pending<'a> {
        let begin = at.get();
        let end = begin + payload.size().get();
        let meets = |range: &Range<u64>| begin < range.end && range.start < end;
        match &payload {
            Payload::In(_) if meets(&self.lost.borrow()) => {
                let at = ByteAddr::new(self.lost.borrow().start);
                return Pending::Failed(DeviceError::Lost { at });
            }
            Payload::Out(_) | Payload::Shared(_) if meets(&self.refused) => {
                return Pending::Failed(DeviceError::ReadOnly);
            }
            Payload::Out(_) | Payload::Shared(_) if meets(&self.lost.borrow()) => {
                self.lost.replace(0..0);
            }
            _ => {}
        }
        Pending::Inner(self.inner.request(command, at, payload, conflict))
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.inner.open(may_split)
    }

    fn poll_open(
        &self,
        may_split: bool,
        asked: &mut Option<Opening>,
        context: &mut Context<'_>,
    ) -> Poll<Result<TxId, DeviceError>> {
        self.inner.poll_open(may_split, asked, context)
    }

    fn give_up_open(&self, asked: Opening) {
        self.inner.give_up_open(asked);
    }

    fn abandon(&self, tx: TxId) {
        self.inner.abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }
}

#[test]
fn a_record_that_the_flash_has_lost_is_given_up() {
    for is_closing_line in [true, false] {
        on_device(async move |device, clock| {
            left_with_a_record(&device, &clock).await;
            let lost = match is_closing_line {
                true => CLOSING.get(),
                false => place_of_record(&device).await + PAGE as u64,
            };
            let faulty = AnyDevice::new(Faulty {
                inner: device.clone(),
                lost: RefCell::new(lost..lost + PAGE as u64),
                refused: 0..0,
            });
            let told = check(&faulty, false).await.unwrap();
            let what = format!("has lost the block at byte {lost}");
            let what = told.problems[0].what.contains(&what);
            assert!(what && told.problems[0].repaired.is_none(), "{told:?}");
            let mended = check(&faulty, true).await.unwrap();
            assert!(mended.problems.iter().all(|one| one.repaired.is_some()));
            assert!(check(&faulty, false).await.unwrap().is_clean());
            let fs = mount(&device, &clock, DataMode::Journal).await.unwrap();
            fs.unmount().await.unwrap();
        });
    }
}

/// The blocks of a record cannot go to their places, and something else is to be mended. Behind
/// the repair those places may be somebody else's.
#[test]
fn no_record_counts_behind_a_repair() {
    on_device(async move |device, clock| {
        left_with_a_record(&device, &clock).await;
        let mut block = vec![0; PAGE];
        device
            .read_blocks(ByteAddr::new(0), &mut block)
            .await
            .unwrap();
        let geometry = Superblock::decode(&block).unwrap().geometry().unwrap();
        let bytes = |block: u32| u64::from(block) * PAGE as u64;
        let damaged = ByteAddr::new(bytes(geometry.block_bitmap.start));
        let zeroes = vec![0; PAGE];
        let durable = Acknowledge::Durable;
        device
            .write_blocks(damaged, &zeroes, durable)
            .await
            .unwrap();
        let faulty = AnyDevice::new(Faulty {
            inner: device.clone(),
            lost: RefCell::new(0..0),
            refused: bytes(geometry.files.start)..bytes(geometry.files.end),
        });
        let mended = check(&faulty, true).await.unwrap();
        let given_up = &mended.problems[0];
        assert!(given_up.what.contains("can only be read"), "{mended:?}");
        assert!(
            mended.problems.iter().all(|one| one.repaired.is_some()),
            "{mended:?}"
        );
        device.read_blocks(CLOSING, &mut block).await.unwrap();
        assert!(block == zeroes, "no record counts");
        assert!(check(&device, false).await.unwrap().is_clean());
    });
}

/// The first byte of the record that counts.
async fn place_of_record(device: &Drive) -> u64 {
    let mut block = vec![0; PAGE];
    device.read_blocks(CLOSING, &mut block).await.unwrap();
    let part = u64::from(u32::from_le_bytes(block[4..8].try_into().unwrap()));
    // A third of what is behind the block of the line: of 1 MiB.
    CLOSING.get() + (1 + part * 85) * PAGE as u64
}
