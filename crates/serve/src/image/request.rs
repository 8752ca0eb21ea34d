//! What programs do with the file, as requests of the device.

use crate::conflict::{Change, change};
use crate::order::Extent;
use crate::progress::{Memory, Progress};
use crate::ranges::{PIECE, pieces};
use crate::tasks::Job;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use port::{Acknowledge, Command, Device, DeviceError};
use std::rc::Rc;
use units::{ByteAddr, Bytes, TxId};

/// Zeroes for the ends of holes; a block of a device has at most so many.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// A request with the kernel's place for its answer. A range lies within the device.
pub(super) enum Request {
    Read {
        at: ByteAddr,
        size: usize,
        reply: ReplyData,
    },
    Write {
        at: ByteAddr,
        bytes: Vec<u8>,
        /// It is to survive a power cut when it is answered.
        is_synced: bool,
        reply: ReplyWrite,
    },
    Flush {
        reply: ReplyEmpty,
    },
    Zero {
        at: ByteAddr,
        size: Bytes,
        reply: ReplyEmpty,
    },
}

impl Request {
    /// Whether it is over after a few movements of the device.
    pub fn is_short(&self) -> bool {
        !matches!(self, Self::Zero { size, .. } if *size > PIECE)
    }

    /// Says that there is no device any more.
    pub fn refuse(self) {
        match self {
            Self::Read { reply, .. } => reply.error(Errno::ENOTCONN),
            Self::Write { reply, .. } => reply.error(Errno::ENOTCONN),
            Self::Flush { reply } | Self::Zero { reply, .. } => reply.error(Errno::ENOTCONN),
        }
    }
}

/// What stays from one request to the next.
#[derive(Default)]
pub(super) struct Kept {
    /// For what is read.
    buffer: Vec<u8>,
    /// Of the server's thread; nothing where a request is done by the thread that read it.
    progress: Option<Rc<Progress>>,
}

impl Memory for Kept {
    fn new(progress: &Rc<Progress>) -> Self {
        Self {
            buffer: Vec::new(),
            progress: Some(Rc::clone(progress)),
        }
    }
}

impl Job for Request {
    type Done = Result<(), DeviceError>;
    type Memory = Kept;

    /// Has the device do it, and answers the kernel.
    async fn perform<D: Device>(self, device: &D, kept: &mut Kept) -> Result<(), DeviceError> {
        let Kept { buffer, progress } = kept;
        let port = Port {
            device,
            progress: progress.as_deref(),
        };
        match self {
            Self::Read { at, size, reply } => {
                // Bounded by what the kernel asks for at once.
                if buffer.len() < size {
                    buffer.resize(size, 0);
                }
                let bytes = &mut buffer[..size];
                let done = read(device, at, bytes).await;
                match &done {
                    Ok(()) => reply.data(bytes),
                    Err(error) => reply.error(errno(error)),
                }
                done
            }
            Self::Write {
                at,
                bytes,
                is_synced,
                reply,
            } => {
                let mut done = write(&port, at, &bytes).await;
                if is_synced && done.is_ok() {
                    done = device.flush().await.map(drop);
                }
                match &done {
                    Ok(()) => reply.written(bytes.len() as u32),
                    Err(error) => reply.error(errno(error)),
                }
                done
            }
            Self::Flush { reply } => answer(reply, device.flush().await.map(drop)),
            Self::Zero { at, size, reply } => answer(reply, zero(&port, at, size).await),
        }
    }

    fn extent(&self) -> Option<Extent> {
        match self {
            Self::Read { at, size, .. } => Some(Extent::read(*at, Bytes::new(*size as u64))),
            Self::Write { at, bytes, .. } => {
                let size = Bytes::new(bytes.len() as u64);
                Some(Extent::write(*at, size, 1))
            }
            Self::Flush { .. } => None,
            // Before and behind its whole blocks there may be others' bytes.
            Self::Zero { at, size, .. } => Some(Extent::write(*at, *size, 3)),
        }
    }
}

/// The device, of which nobody waits for long for a transaction that its host may never end.
struct Port<'a, D> {
    device: &'a D,
    /// Without it no other client has transactions, and nothing is waited for.
    progress: Option<&'a Progress>,
}

impl<D: Device> Port<'_, D> {
    async fn write(&self, at: ByteAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        if let Some(progress) = self.progress {
            let write = Change::Write(Command::Write(TxId::NONE), bytes);
            return change(self.device, progress, None, at, write).await;
        }
        self.device.write(at, bytes, TxId::NONE).await.map(drop)
    }

    async fn write_blocks(&self, at: ByteAddr, bytes: &[u8]) -> Result<(), DeviceError> {
        let when = Acknowledge::Accepted;
        if let Some(progress) = self.progress {
            let write = Change::Write(Command::WriteBlocks(when), bytes);
            return change(self.device, progress, None, at, write).await;
        }
        self.device.write_blocks(at, bytes, when).await.map(drop)
    }

    async fn trim(&self, at: ByteAddr, size: Bytes) -> Result<(), DeviceError> {
        if let Some(progress) = self.progress {
            return change(self.device, progress, None, at, Change::Trim(size)).await;
        }
        self.device.trim(at, size).await.map(drop)
    }

    /// A piece of a hole is done. Says whether the next one may begin.
    async fn passed(&self, at: ByteAddr, size: Bytes) -> bool {
        match self.progress {
            Some(progress) => {
                progress.passed(at, size).await;
                !progress.is_stopping()
            }
            None => true,
        }
    }
}

fn answer(reply: ReplyEmpty, done: Result<(), DeviceError>) -> Result<(), DeviceError> {
    match &done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
    done
}

/// A range as the two ports take it: whole blocks, and what stands before and behind them.
struct Parts {
    /// Bytes before the first whole block; all of them if there is none.
    head: usize,
    /// Bytes of whole blocks.
    blocks: usize,
}

impl Parts {
    fn new(at: ByteAddr, size: usize, block: Bytes) -> Self {
        let block = block.get();
        let end = at.get() + size as u64;
        let (first, last) = (at.get().next_multiple_of(block), end / block * block);
        if first >= last {
            return Self {
                head: size,
                blocks: 0,
            };
        }
        Self {
            head: (first - at.get()) as usize,
            blocks: (last - first) as usize,
        }
    }
}

fn after(at: ByteAddr, count: usize) -> ByteAddr {
    ByteAddr::new(at.get() + count as u64)
}

async fn read(device: &impl Device, at: ByteAddr, into: &mut [u8]) -> Result<(), DeviceError> {
    let parts = Parts::new(at, into.len(), device.shape().block);
    let (head, rest) = into.split_at_mut(parts.head);
    let (blocks, tail) = rest.split_at_mut(parts.blocks);
    if !head.is_empty() {
        device.read(at, head).await?;
    }
    if !blocks.is_empty() {
        device.read_blocks(after(at, parts.head), blocks).await?;
    }
    if !tail.is_empty() {
        device
            .read(after(at, parts.head + parts.blocks), tail)
            .await?;
    }
    Ok(())
}

async fn write(
    port: &Port<'_, impl Device>,
    at: ByteAddr,
    bytes: &[u8],
) -> Result<(), DeviceError> {
    let parts = Parts::new(at, bytes.len(), port.device.shape().block);
    let (head, rest) = bytes.split_at(parts.head);
    let (blocks, tail) = rest.split_at(parts.blocks);
    if !head.is_empty() {
        port.write(at, head).await?;
    }
    if !blocks.is_empty() {
        port.write_blocks(after(at, parts.head), blocks).await?;
    }
    if !tail.is_empty() {
        port.write(after(at, parts.head + parts.blocks), tail)
            .await?;
    }
    Ok(())
}

/// Trims whole blocks, and writes zeroes over the rest; not all of it if the server stops.
async fn zero(port: &Port<'_, impl Device>, at: ByteAddr, size: Bytes) -> Result<(), DeviceError> {
    let end = after(at, size.get() as usize);
    for (at, size) in pieces(at, size, PIECE) {
        let whole = size;
        let size = size.get() as usize;
        let parts = Parts::new(at, size, port.device.shape().block);
        zero_bytes(port, at, parts.head).await?;
        if parts.blocks > 0 {
            let blocks = Bytes::new(parts.blocks as u64);
            port.trim(after(at, parts.head), blocks).await?;
        }
        let done = parts.head + parts.blocks;
        zero_bytes(port, after(at, done), size - done).await?;
        if !port.passed(at, whole).await && after(at, size) < end {
            return Err(DeviceError::Stopped {
                reason: "its server stops, and a part of the hole is made".to_owned(),
            });
        }
    }
    Ok(())
}

async fn zero_bytes(
    port: &Port<'_, impl Device>,
    at: ByteAddr,
    size: usize,
) -> Result<(), DeviceError> {
    let piece = Bytes::new(ZEROES.len() as u64);
    for (at, size) in pieces(at, Bytes::new(size as u64), piece) {
        port.write(at, &ZEROES[..size.get() as usize]).await?;
    }
    Ok(())
}

/// The number that stands for an error. The kernel has no room for its sentence.
fn errno(error: &DeviceError) -> Errno {
    match error {
        DeviceError::OutOfRange { .. } | DeviceError::NotBlocks { .. } => Errno::EINVAL,
        DeviceError::Locked { .. } | DeviceError::Deadlock { .. } | DeviceError::LogFull => {
            Errno::EBUSY
        }
        DeviceError::ReadOnly => Errno::EROFS,
        DeviceError::Lost { .. }
        | DeviceError::Forked
        | DeviceError::Stopped { .. }
        | DeviceError::UnknownTransaction { .. }
        | DeviceError::TooLarge { .. }
        | DeviceError::BeyondReservation { .. }
        | DeviceError::LateReservation { .. }
        | DeviceError::TooManyTransactions { .. }
        | DeviceError::NoTransactions { .. } => Errno::EIO,
    }
}
