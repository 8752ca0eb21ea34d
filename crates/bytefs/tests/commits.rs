//! Transactions of many tasks: the next is written while one is being committed, and none counts
//! before those that were sealed before it.

use crate::common::{Fs as Files, of};
use bytefs::{Caller, FormatOptions, Ino, MountOptions, Personality, Timestamp};
use bytefs::{CpuCosts, WriteOptions};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{
    AnyDevice, Command, Conflict, Device, DeviceError, DeviceStats, Opening, Outcome, Payload,
    Shape,
};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use units::{ByteAddr, Bytes, Picos, TxId};
use vtime::Machine;

/// A request begins, or is answered.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Asked(Command),
    Answered(Command),
}

/// A device that notes what is asked of it.
struct Noted {
    inner: AnyDevice,
    seen: Rc<RefCell<Vec<Seen>>>,
}

struct Pending<'a> {
    inner: <AnyDevice as Device>::Pending<'a>,
    command: Command,
    seen: &'a RefCell<Vec<Seen>>,
    is_asked: bool,
}

impl Future for Pending<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let command = self.command;
        if !self.is_asked {
            self.is_asked = true;
            self.seen.borrow_mut().push(Seen::Asked(command));
        }
        let polled = Pin::new(&mut self.inner).poll(context);
        if polled.is_ready() {
            self.seen.borrow_mut().push(Seen::Answered(command));
        }
        polled
    }
}

impl Device for Noted {
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
        Pending {
            inner: self.inner.request(command, at, payload, conflict),
            command,
            seen: &self.seen,
            is_asked: false,
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

/// Eight processors and a small device, on which a file system is made.
fn formatted() -> Machine<DeviceEngine> {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.blocks_per_plane=128",
        "nand.pages_per_block=32",
        "ssd.log.size=512KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=1MiB",
    ];
    let layers = sets.map(|set| Layer::assignment(set).unwrap());
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    let engine = DeviceEngine::in_memory(&config, Pace::None).unwrap();
    let mut machine = Machine::new(engine, 8);
    let (device, _) = of(&machine);
    let mut options = FormatOptions::new(Personality::ByteFs);
    options.inodes = Some(1024);
    machine.spawn("mkfs", async move {
        Files::format(&device, &options).await.unwrap();
    });
    machine.run().unwrap();
    machine
}

fn mounted(machine: &mut Machine<DeviceEngine>, seen: &Rc<RefCell<Vec<Seen>>>) -> Rc<Files> {
    let (inner, clock) = of(machine);
    let noted = Rc::clone(seen);
    let files = Rc::new(RefCell::new(None));
    let made = Rc::clone(&files);
    machine.spawn("mount", async move {
        let options = MountOptions {
            cache: Bytes::from_mib(1),
            cores: 8,
            costs: CpuCosts {
                operation: Picos::from_nanos(100),
                ..CpuCosts::default()
            },
            ..MountOptions::default()
        };
        let device = Noted { inner, seen: noted };
        let mounted = Files::mount(AnyDevice::new(device), clock, options)
            .await
            .unwrap();
        *made.borrow_mut() = Some(Rc::new(mounted));
    });
    machine.run().unwrap();
    seen.borrow_mut().clear();
    files.borrow_mut().take().unwrap()
}

fn caller(core: u32) -> Caller {
    Caller {
        uid: 0,
        gid: 0,
        core,
        now: Timestamp(0),
    }
}

/// A file whose tail of a few lines lies elsewhere than the rest, which was synced before.
#[test]
fn a_read_asks_for_all_pieces_before_it_waits() {
    let mut machine = formatted();
    let seen: Rc<RefCell<Vec<Seen>>> = Rc::default();
    let files = mounted(&mut machine, &seen);
    machine.spawn("write", async move {
        let made = files.create(&caller(0), Ino::ROOT, b"file", 0o644).await;
        let (ino, data) = (made.unwrap().ino, [7; 4096 + 100]);
        for (at, part) in [(0, &data[..4096]), (4096, &data[4096..])] {
            let options = WriteOptions::default();
            let written = files.write(&caller(0), ino, at, part, options).await;
            assert_eq!(written, Ok(part.len()));
            files.fsync(ino, false).await.unwrap();
        }
        files.unmount().await.unwrap();
    });
    machine.run().unwrap();
    let files = mounted(&mut machine, &seen);
    let noted = Rc::clone(&seen);
    machine.spawn("read", async move {
        let ino = files.lookup(Ino::ROOT, b"file").await.unwrap().ino;
        // Its inode and names are there now.
        assert!(files.read(ino, 4200, 1, false).await.unwrap().is_empty());
        noted.borrow_mut().clear();
        let found = files.read(ino, 0, 8192, false).await.unwrap();
        assert_eq!(found, [7; 4096 + 100]);
    });
    machine.run().unwrap();
    let reads = seen.borrow().iter().fold(String::new(), |so_far, event| {
        so_far
            + match event {
                Seen::Asked(Command::ReadBlocks) => "asked ",
                Seen::Answered(Command::ReadBlocks) => "answered ",
                _ => "",
            }
    });
    assert_eq!(reads, "asked asked answered answered ");
}

#[test]
fn transactions_are_written_beside_a_commit_and_committed_one_after_the_other() {
    let mut machine = formatted();
    let seen: Rc<RefCell<Vec<Seen>>> = Rc::default();
    let files = mounted(&mut machine, &seen);
    for task in 0..8_u32 {
        let files = Rc::clone(&files);
        machine.spawn(format!("task {task}"), async move {
            let by = caller(task);
            for round in 0..20 {
                let name = format!("{task} {round}");
                let root = Ino::ROOT;
                let made = files.create(&by, root, name.as_bytes(), 0o644).await;
                let ino = made.unwrap().ino;
                let data = [7; 100];
                let options = WriteOptions::default();
                files.write(&by, ino, 0, &data, options).await.unwrap();
                files.fsync(ino, false).await.unwrap();
                files.release(ino).await.unwrap();
            }
        });
    }
    machine.run().unwrap();
    let (mut committing, mut last, mut beside) = (None, 0, 0);
    for event in seen.borrow().iter() {
        match *event {
            Seen::Asked(Command::Commit(tx)) => {
                assert_eq!(committing, None, "{tx:?} is committed beside another");
                assert!(tx.get() > last, "{tx:?} behind {last}");
                (committing, last) = (Some(tx), tx.get());
            }
            Seen::Answered(Command::Commit(_)) => committing = None,
            Seen::Asked(Command::Write(tx)) if committing.is_some() => {
                assert!(tx != TxId::NONE, "a line that counts at once");
                beside += 1;
            }
            Seen::Asked(Command::Reserve(tx)) => panic!("{tx:?} takes a command more"),
            _ => {}
        }
    }
    assert!(last > 10 && beside > 10, "{last} commits, {beside} beside");
}
