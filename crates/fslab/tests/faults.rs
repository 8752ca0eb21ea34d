//! What a device does late or not at all, at each moment of another task's request: a read beside a
//! direct write, blocks that cannot be read, contents that are written and cannot be noted.

use bytefs::{Caller, FormatOptions, FsError, Ino, MountOptions, Personality};
use bytefs::{SetXattr, Timestamp, WriteOptions};
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};
use device::{DeviceEngine, Pace};
use fslab::crash::{Files as Fs, small_device};
use port::{
    AnyClock, AnyDevice, Clock, Command, Conflict, Device, DeviceError, DeviceStats, Opening,
    Outcome, Payload, Shape,
};
use std::rc::Rc;
use units::{ByteAddr, Bytes, Picos, TxId};
use vtime::{Machine, VirtualDevice};

/// A device some of whose blocks cannot be read.
struct Faulty {
    inner: VirtualDevice<DeviceEngine>,
    lost: Rc<RefCell<Range<u64>>>,
    refused: Rc<Cell<u32>>,
}

struct Pending<'a> {
    inner: <VirtualDevice<DeviceEngine> as Device>::Pending<'a>,
    /// Answered in place of what the device says.
    error: Option<DeviceError>,
}

impl Future for Pending<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let polled = Pin::new(&mut self.inner).poll(context);
        match (polled, self.error.take()) {
            (Poll::Ready(_), Some(error)) => Poll::Ready(Err(error)),
            (polled, error) => {
                self.error = error;
                polled
            }
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
        let is_read = matches!(command, Command::Read | Command::ReadBlocks);
        let size = match &payload {
            Payload::In(bytes) => bytes.len() as u64,
            _ => 0,
        };
        let lost = self.lost.borrow();
        let meets = at.get() < lost.end && lost.start < at.get() + size;
        let error = (is_read && meets).then_some(DeviceError::Lost { at });
        self.refused
            .set(self.refused.get() + u32::from(error.is_some()));
        Pending {
            inner: self.inner.request(command, at, payload, conflict),
            error,
        }
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

const ME: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(0),
};
const PAGE: usize = 4096;
const DIRECT: WriteOptions = WriteOptions {
    direct: true,
    sync: false,
    kill_privileges: false,
};

/// A mounted file system, and what its device cannot read.
struct Lab {
    machine: Machine<DeviceEngine>,
    fs: Rc<Fs>,
    lost: Rc<RefCell<Range<u64>>>,
    refused: Rc<Cell<u32>>,
}

impl Lab {
    fn new(metadata_cache: Bytes) -> Self {
        let engine = DeviceEngine::in_memory(&small_device().unwrap(), Pace::None).unwrap();
        let mut machine = Machine::new(engine, 4);
        let (inner, clock) = (machine.device(), AnyClock::new(machine.clock()));
        let lost = Rc::new(RefCell::new(0..0));
        let refused: Rc<Cell<u32>> = Rc::default();
        let device = AnyDevice::new(Faulty {
            inner,
            lost: Rc::clone(&lost),
            refused: Rc::clone(&refused),
        });
        let place = Rc::new(RefCell::new(None));
        let made = Rc::clone(&place);
        machine.spawn("mount", async move {
            let format = FormatOptions {
                inodes: Some(600),
                ..FormatOptions::new(Personality::ByteFs)
            };
            Fs::format(&device, &format).await.unwrap();
            let options = MountOptions {
                metadata_cache,
                cores: 4,
                // Who reads ahead has blocks that the test wants gone.
                reads_ahead: Some(false),
                ..MountOptions::default()
            };
            let fs = Fs::mount(device, clock, options).await.unwrap();
            *made.borrow_mut() = Some(Rc::new(fs));
        });
        machine.run().unwrap();
        let fs = place.borrow_mut().take().unwrap();
        Self {
            machine,
            fs,
            lost,
            refused,
        }
    }

    /// Does something to its end.
    fn run<T: 'static>(&mut self, work: impl AsyncFnOnce(&Fs) -> T + 'static) -> T {
        let fs = Rc::clone(&self.fs);
        let place = Rc::new(RefCell::new(None));
        let made = Rc::clone(&place);
        self.machine.spawn("one", async move {
            *made.borrow_mut() = Some(work(&fs).await);
        });
        self.machine.run().unwrap();
        place.borrow_mut().take().unwrap()
    }

    /// A file of some pages of ones, on the device and no more in the cache. The last page comes
    /// first, so it is by itself there.
    fn file(&mut self, pages: usize) -> Ino {
        self.run(async move |fs| {
            let ino = fs.create(&ME, Ino::ROOT, b"file", 0o644).await.unwrap().ino;
            let data = vec![1; pages * PAGE];
            let last = (pages - 1) * PAGE;
            for at in [last..pages * PAGE, 0..last] {
                let options = WriteOptions::default();
                fs.write(&ME, ino, at.start as u64, &data[at], options)
                    .await
                    .unwrap();
                fs.fsync(ino, false).await.unwrap();
            }
            // A direct write drops what the cache has of its pages.
            fs.write(&ME, ino, 0, &data, DIRECT).await.unwrap();
            ino
        })
    }

    /// Where the file's first block is, in bytes of the device.
    fn place(&mut self, ino: Ino) -> u64 {
        let extents = self.run(async move |fs| fs.map(ino).await.unwrap());
        u64::from(extents[0].block.0) * PAGE as u64
    }
}

#[test]
fn a_read_beside_a_direct_write_keeps_nothing_old() {
    for step in 0..240 {
        let mut lab = Lab::new(Bytes::from_mib(1));
        let ino = lab.file(2);
        let map = lab.run(async move |fs| fs.map(ino).await.unwrap());
        assert_eq!(
            map.len(),
            2,
            "one request would write it, and all else waits for that"
        );
        let (fs, clock) = (Rc::clone(&lab.fs), lab.machine.clock());
        lab.machine.spawn("write", async move {
            // The device still has one in memory, where it is read at once, when the next comes.
            for value in 2..6 {
                let data = [value; 2 * PAGE];
                fs.write(&ME, ino, 0, &data, DIRECT).await.unwrap();
            }
        });
        let fs = Rc::clone(&lab.fs);
        lab.machine.spawn("read", async move {
            let later = Picos::from_nanos(250 * step);
            clock.sleep_until(clock.now() + later).await;
            let page = fs.read(ino, PAGE as u64, PAGE, false).await.unwrap();
            assert!(
                page.iter().all(|byte| *byte == page[0]),
                "half of two writes"
            );
        });
        lab.machine.run().unwrap();
        let read = lab.run(async move |fs| fs.read(ino, 0, 2 * PAGE, false).await.unwrap());
        let (page, _) = read.split_at(PAGE);
        assert_eq!(
            (page[0], read[PAGE]),
            (5, 5),
            "read {} ns later",
            250 * step
        );
    }
}

#[test]
fn who_reads_what_is_lost_is_told_so_beside_others_too() {
    let mut lab = Lab::new(Bytes::from_mib(1));
    let ino = lab.file(4);
    let place = lab.place(ino);
    *lab.lost.borrow_mut() = place..place + 1;
    let failed: Rc<Cell<u32>> = Rc::default();
    for task in 0..6 {
        let (fs, failed) = (Rc::clone(&lab.fs), Rc::clone(&failed));
        lab.machine.spawn(format!("reader {task}"), async move {
            let read = fs.read(ino, 0, 4 * PAGE, false).await;
            assert!(matches!(read, Err(FsError::Io(_))), "{read:?}");
            failed.set(failed.get() + 1);
        });
    }
    lab.machine.run().unwrap();
    assert_eq!(failed.get(), 6);
    // A read asks once for each of those that wait for it.
    assert!(
        (1..=6).contains(&lab.refused.get()),
        "{}",
        lab.refused.get()
    );
    *lab.lost.borrow_mut() = 0..0;
    let read = lab.run(async move |fs| fs.read(ino, 0, 4 * PAGE, false).await.unwrap());
    assert!(read.iter().all(|byte| *byte == 1));
}

/// Makes files with a block of attributes each.
async fn others(fs: &Fs, numbers: Range<u32>) {
    for number in numbers {
        let name = format!("other {number}");
        let made = fs.create(&ME, Ino::ROOT, name.as_bytes(), 0o644).await;
        let other = made.unwrap().ino;
        fs.set_xattr(&ME, other, b"user.x", b"1", SetXattr::Any)
            .await
            .unwrap();
        fs.release(other).await.unwrap();
    }
}

#[test]
fn contents_that_cannot_be_noted_are_not_said_to_be_safe() {
    let mut lab = Lab::new(Bytes::from_kib(16));
    // Its inode shares a block with none that is looked at later: not with the root's either.
    lab.run(async move |fs| others(fs, 0..50).await);
    let ino = lab.file(1);
    lab.run(async move |fs| {
        others(fs, 50..450).await;
        fs.sync().await.unwrap();
        let grown = [2; 3 * PAGE];
        let options = WriteOptions::default();
        fs.write(&ME, ino, PAGE as u64, &grown, options)
            .await
            .unwrap();
        // The file's inode leaves the host's cache of metadata for blocks of other files.
        for number in (0..900).map(|step| 100 + step % 350) {
            let name = format!("other {number}");
            let there = fs.lookup(Ino::ROOT, name.as_bytes()).await.unwrap();
            fs.get_xattr(there.ino, b"user.x").await.unwrap();
        }
    });
    *lab.lost.borrow_mut() = 0..u64::MAX;
    let (first, second) =
        lab.run(async move |fs| (fs.fsync(ino, false).await, fs.fsync(ino, false).await));
    assert!(lab.refused.get() > 0, "everything was in the cache");
    assert!(
        first.is_err() && second.is_err(),
        "{first:?}, then {second:?}"
    );
    assert!(lab.fs.failed().is_some());
}
