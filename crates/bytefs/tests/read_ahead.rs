//! Blocks of metadata that come before anybody needs them.

use crate::common::{AnyClock, Fs};
use bytefs::{Caller, FormatOptions, Ino, MountOptions, Personality, Structure, Timestamp};
use core::cell::Cell;
use core::future::{Future, ready};
use core::pin::Pin;
use device::Ram;
use port::{
    AnyDevice, Command, Conflict, Device, DeviceError, DeviceStats, Outcome, Payload, Shape,
    block_on,
};
use std::rc::Rc;
use units::{ByteAddr, Bytes, TxId};

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
const BLOCK: u64 = 4096;
/// Inodes of a block of the table.
const INODES: u32 = 32;
/// Blocks that come together.
const WINDOW: u32 = 32;

/// A device that has lost a block.
struct Lossy {
    ram: Ram,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    lost: Cell<Option<u64>>,
    /// Where it was read last.
    read: Cell<u64>,
}

impl Device for Lossy {
    type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

    fn shape(&self) -> Shape {
        self.ram.shape()
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> Self::Pending<'a> {
        if command == Command::ReadBlocks {
            let range = at.get()..at.get() + payload.size().get();
            self.state.read.set(at.get());
            if self
                .state
                .lost
                .get()
                .is_some_and(|lost| range.contains(&lost))
            {
                let reason = "a block is lost".to_owned();
                return Box::pin(ready(Err(DeviceError::Stopped { reason })));
            }
        }
        Box::pin(self.ram.request(command, at, payload, conflict))
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.ram.open(may_split)
    }

    fn abandon(&self, tx: TxId) {
        self.ram.abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.ram.stats()
    }
}

/// A file system with 2,500 files, mounted anew: nothing is on the host but bitmaps.
fn run(personality: Personality, reads_ahead: Option<bool>, test: impl AsyncFnOnce(Fs, Rc<State>)) {
    let state = Rc::new(State::default());
    let ram = AnyDevice::new(Lossy {
        ram: Ram::new(Bytes::from_mib(64), Bytes::from_kib(4)),
        state: Rc::clone(&state),
    });
    let drive = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    block_on(&drive, async {
        let mut options = FormatOptions::new(personality);
        options.inodes = Some(4 * WINDOW * INODES);
        Fs::format(&ram, &options).await.unwrap();
        let options = MountOptions {
            cores: 1,
            reads_ahead,
            ..MountOptions::default()
        };
        let fs = Fs::mount(ram, AnyClock::Still, options.clone())
            .await
            .unwrap();
        for number in 0..2500 {
            let name = format!("{number}");
            let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
            fs.release(made.unwrap().ino).await.unwrap();
        }
        fs.unmount().await.unwrap();
        let fs = Fs::mount(fs.into_device(), AnyClock::Still, options).await;
        test(fs.unwrap(), state).await;
    });
}

/// Blocks of the table of inodes that were read until the inode with a number was looked at.
async fn read_for(fs: &Fs, ino: u32) -> u64 {
    fs.getattr(Ino(ino)).await.unwrap();
    fs.stats().of_structure(Structure::Inodes).read / BLOCK
}

#[test]
fn a_window_comes_once_two_of_its_blocks_were_wanted() {
    run(Personality::Ext4Like, None, async |fs, _| {
        assert_eq!(read_for(&fs, 10 * INODES).await, 1);
        // One here and one there.
        assert_eq!(read_for(&fs, 50 * INODES).await, 2);
        assert_eq!(read_for(&fs, 12 * INODES).await, 3);
        let whole = read_for(&fs, 20 * INODES).await;
        assert!(whole > 10, "{whole} blocks");
        assert_eq!(read_for(&fs, 21 * INODES).await, whole);
        assert_eq!(read_for(&fs, 70 * INODES).await, whole + 1);
        let found = fs.lookup(Ino::ROOT, b"1234").await.unwrap();
        assert!(found.ino.0 > 1);
        assert!(fs.stats().of_structure(Structure::Entries).read > 0);
    });
}

#[test]
fn nothing_comes_where_the_mount_does_not_want_it() {
    run(Personality::Ext4Like, Some(false), async |fs, _| {
        for (count, block) in (1..).zip([10, 12, 14, 20, 21, 50, 70]) {
            // At a block's edge an inode may be skipped: its number was given while it was read.
            assert_eq!(read_for(&fs, block * INODES + 5).await, count);
        }
    });
}

#[test]
fn a_block_that_comes_along_and_is_lost_takes_nothing_with_it() {
    run(Personality::Ext4Like, None, async |fs, state| {
        assert_eq!(read_for(&fs, 10 * INODES).await, 1);
        let place = state.read.get();
        assert_eq!(read_for(&fs, 12 * INODES).await, 2);
        state.lost.set(Some(place + 4 * BLOCK));
        assert_eq!(read_for(&fs, 20 * INODES).await, 3, "it alone");
        let lost = fs.getattr(Ino(14 * INODES)).await.unwrap_err().to_string();
        assert!(lost.contains("a block is lost"), "{lost}");
        state.lost.set(None);
        assert!(read_for(&fs, 14 * INODES).await > 3);
    });
}
