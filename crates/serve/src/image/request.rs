//! What programs do with the file, as requests of the device.

use crate::order::Extent;
use crate::progress::give_way;
use crate::ranges::{PIECE, pieces};
use crate::tasks::Job;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use port::{Acknowledge, Device, DeviceError};
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

impl Job for Request {
    type Done = Result<(), DeviceError>;
    /// For what is read.
    type Memory = Vec<u8>;

    /// Has the device do it, and answers the kernel.
    async fn perform<D: Device>(self, device: &D, buffer: &mut Vec<u8>) -> Result<(), DeviceError> {
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
                let mut done = write(device, at, &bytes).await;
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
            Self::Zero { at, size, reply } => answer(reply, zero(device, at, size).await),
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

async fn write(device: &impl Device, at: ByteAddr, bytes: &[u8]) -> Result<(), DeviceError> {
    let parts = Parts::new(at, bytes.len(), device.shape().block);
    let (head, rest) = bytes.split_at(parts.head);
    let (blocks, tail) = rest.split_at(parts.blocks);
    if !head.is_empty() {
        device.write(at, head, TxId::NONE).await?;
    }
    if !blocks.is_empty() {
        let at = after(at, parts.head);
        device
            .write_blocks(at, blocks, Acknowledge::Accepted)
            .await?;
    }
    if !tail.is_empty() {
        let at = after(at, parts.head + parts.blocks);
        device.write(at, tail, TxId::NONE).await?;
    }
    Ok(())
}

/// Trims whole blocks, and writes zeroes over the rest.
async fn zero(device: &impl Device, at: ByteAddr, size: Bytes) -> Result<(), DeviceError> {
    for (at, size) in pieces(at, size, PIECE) {
        let size = size.get() as usize;
        let parts = Parts::new(at, size, device.shape().block);
        zero_bytes(device, at, parts.head).await?;
        if parts.blocks > 0 {
            let blocks = Bytes::new(parts.blocks as u64);
            device.trim(after(at, parts.head), blocks).await?;
        }
        let done = parts.head + parts.blocks;
        zero_bytes(device, after(at, done), size - done).await?;
        give_way().await;
    }
    Ok(())
}

async fn zero_bytes(device: &impl Device, at: ByteAddr, size: usize) -> Result<(), DeviceError> {
    let piece = Bytes::new(ZEROES.len() as u64);
    for (at, size) in pieces(at, Bytes::new(size as u64), piece) {
        let zeroes = &ZEROES[..size.get() as usize];
        device.write(at, zeroes, TxId::NONE).await?;
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
