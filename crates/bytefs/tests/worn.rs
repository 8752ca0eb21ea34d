//! A device in memory whose flash loses blocks, whose power is cut behind so many writes, or that
//! takes none at all; and images of file systems on it.

use crate::common::{AnyClock, Fs, ram};
use bytefs::layout::{BLOCK, Geometry, Superblock};
use bytefs::{
    Caller, FileKind, FormatOptions, Ino, MountOptions, Personality, Timestamp, WriteOptions,
};
use device::Ram;
use port::{
    AnyDevice, Command, Conflict, Device, DeviceError, DeviceStats, Outcome, Payload, Shape,
    block_on,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use units::{ByteAddr, Bytes, TxId};

pub const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};
pub const PLAIN: WriteOptions = WriteOptions {
    direct: false,
    sync: false,
    kill_privileges: false,
};

/// What is wrong with it.
#[derive(Default)]
pub struct Faults {
    /// Blocks of 4 KiB that cannot be read until they are written as a whole.
    pub lost: RefCell<BTreeSet<u64>>,
    /// Writes until the power is cut; none: it never is.
    pub left: Cell<Option<u64>>,
    /// Writes so far.
    pub writes: Cell<u64>,
    pub is_read_only: Cell<bool>,
}

pub struct Worn {
    inner: AnyDevice,
    pub faults: Rc<Faults>,
}

pub enum Pending<'a> {
    Inner(<AnyDevice as Device>::Pending<'a>),
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

impl Worn {
    /// A device that holds these bytes, and what is wrong with it.
    pub fn of(bytes: &[u8]) -> (AnyDevice, Rc<Faults>) {
        let faults = Rc::new(Faults::default());
        let inner = ram(Bytes::new(bytes.len() as u64));
        run(inner.write(ByteAddr::new(0), bytes, TxId::NONE)).unwrap();
        let worn = Self {
            inner,
            faults: Rc::clone(&faults),
        };
        (AnyDevice::new(worn), faults)
    }

    /// What a request meets.
    fn refused(
        &self,
        command: Command,
        at: ByteAddr,
        payload: &Payload<'_>,
    ) -> Result<(), DeviceError> {
        let (begin, size) = (at.get(), payload.size().get());
        let block = BLOCK as u64;
        let mut lost = self.faults.lost.borrow_mut();
        if !command.is_write() {
            let touched = begin / block..(begin + size).div_ceil(block);
            return match lost.range(touched).next() {
                Some(lost) if size > 0 => Err(DeviceError::Lost {
                    at: ByteAddr::new(lost * block),
                }),
                _ => Ok(()),
            };
        }
        if self.faults.is_read_only.get() {
            return Err(DeviceError::ReadOnly);
        }
        match self.faults.left.get() {
            Some(0) => {
                return Err(DeviceError::Stopped {
                    reason: "its power was cut".into(),
                });
            }
            left => self.faults.left.set(left.map(|left| left - 1)),
        }
        self.faults.writes.set(self.faults.writes.get() + 1);
        lost.retain(|lost| lost * block < begin || (lost + 1) * block > begin + size);
        Ok(())
    }
}

impl Device for Worn {
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
        match self.refused(command, at, &payload) {
            Ok(()) => Pending::Inner(self.inner.request(command, at, payload, conflict)),
            Err(error) => Pending::Failed(error),
        }
    }

    fn open(&self, may_split: bool) -> Result<TxId, DeviceError> {
        self.inner.open(may_split)
    }

    fn abandon(&self, tx: TxId) {
        self.inner.abandon(tx);
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }
}

pub fn run<T>(future: impl Future<Output = T>) -> T {
    let idle = Ram::new(Bytes::from_kib(4), Bytes::from_kib(4));
    block_on(&idle, future)
}

pub fn bytes_of(device: &AnyDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.shape().capacity.get() as usize];
    run(device.read(ByteAddr::new(0), &mut bytes)).unwrap();
    bytes
}

pub fn geometry_of(image: &[u8]) -> Geometry {
    let superblock = Superblock::decode(&image[..BLOCK]).unwrap();
    superblock.geometry().unwrap()
}

pub async fn mounted(device: AnyDevice) -> Fs {
    let mounted = Fs::mount(device, AnyClock::Still, MountOptions::default());
    mounted.await.unwrap()
}

/// A new file system on so many MiB.
pub async fn made(personality: Personality, mib: u64) -> Fs {
    let ram = ram(Bytes::from_mib(mib));
    let mut options = FormatOptions::new(personality);
    options.inodes = Some(500);
    Fs::format(&ram, &options).await.unwrap();
    mounted(ram).await
}

pub async fn create(fs: &Fs, dir: Ino, name: &str) -> Ino {
    let made = fs.create(&CALLER, dir, name.as_bytes(), 0o600).await;
    let ino = made.unwrap().ino;
    fs.release(ino).await.unwrap();
    ino
}

/// Every name that can be reached, and what regular files hold.
pub async fn tree(fs: &Fs) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut queue = vec![(Ino::ROOT, String::new())];
    while let Some((dir, path)) = queue.pop() {
        let mut from = 0;
        loop {
            let entries = fs.readdir(dir, from, 1000).await.unwrap();
            let Some(last) = entries.last() else { break };
            from = last.next;
            for entry in entries {
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
                let data = match entry.kind {
                    FileKind::Directory => {
                        queue.push((entry.ino, path.clone()));
                        Vec::new()
                    }
                    _ => fs.read(entry.ino, 0, 1 << 20, false).await.unwrap(),
                };
                found.insert(path, data);
            }
        }
    }
    found
}

/// The same of an image, which is not changed.
pub fn tree_of(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    run(async { tree(&mounted(Worn::of(image).0).await).await })
}
