//! A device without firmware and flash.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use port::{
    Atomicity, Command, Completion, Conflict, Device, DeviceError, DeviceStats, Drive, Outcome,
    Payload, PortTraffic, Shape, Turned,
};
use units::{ByteAddr, Bytes, Time, TxId};

/// Memory that answers at once and forgets everything when it goes: what is measured with it is
/// everything but the device. It has no transactions.
pub struct Ram {
    shape: Shape,
    bytes: RefCell<Vec<u8>>,
    stats: Cell<DeviceStats>,
}

const NO_LOG: DeviceError = DeviceError::NoTransactions { has_log: false };
const NOW: Completion = Completion {
    submitted: Time::ZERO,
    finished: Time::ZERO,
};

impl Ram {
    /// Zeroes. The system gives the memory when it is first written.
    pub fn new(capacity: Bytes, block: Bytes) -> Self {
        Self {
            shape: Shape::plain(capacity, block),
            bytes: RefCell::new(vec![0; capacity.get() as usize]),
            stats: Cell::default(),
        }
    }

    fn range(&self, at: ByteAddr, size: usize) -> Result<core::ops::Range<usize>, DeviceError> {
        let size = Bytes::new(size as u64);
        let capacity = self.shape.capacity;
        let end = at.checked_add(size).map(ByteAddr::get);
        match end {
            Some(end) if end <= capacity.get() => Ok(at.get() as usize..end as usize),
            _ => Err(DeviceError::OutOfRange { at, size, capacity }),
        }
    }

    fn blocks(&self, at: ByteAddr, size: usize) -> Result<core::ops::Range<usize>, DeviceError> {
        let block = self.shape.block;
        let range = self.range(at, size)?;
        let is_whole = |place: usize| (place as u64).is_multiple_of(block.get());
        if is_whole(range.start) && is_whole(range.end) {
            return Ok(range);
        }
        let size = Bytes::new(size as u64);
        Err(DeviceError::NotBlocks { at, size, block })
    }

    fn count(&self, add: impl FnOnce(&mut DeviceStats)) -> Completion {
        let mut stats = self.stats.get();
        add(&mut stats);
        self.stats.set(stats);
        NOW
    }
}

impl Drive for Ram {
    /// Everything is done when it is asked for.
    fn turn(&self) -> Turned {
        Turned::Idle
    }
}

impl Ram {
    fn done(
        &self,
        command: Command,
        at: ByteAddr,
        payload: &mut Payload<'_>,
    ) -> Result<Completion, DeviceError> {
        let size = payload.size().get() as usize;
        let range = match command {
            Command::ReadBlocks | Command::WriteBlocks(_) | Command::Trim => {
                self.blocks(at, size)?
            }
            _ => self.range(at, size)?,
        };
        let moved = payload.size();
        match command {
            Command::Read | Command::ReadLines | Command::ReadBlocks => {
                payload
                    .bytes_in()
                    .copy_from_slice(&self.bytes.borrow()[range]);
                Ok(self.count(|stats| {
                    let port = port_of(stats, command);
                    port.reads += 1;
                    port.to_host += moved;
                }))
            }
            Command::Write(tx) if tx != TxId::NONE => Err(NO_LOG),
            Command::Write(_) | Command::WriteLines | Command::WriteBlocks(_) => {
                self.bytes.borrow_mut()[range].copy_from_slice(&payload.bytes_out());
                Ok(self.count(|stats| {
                    let port = port_of(stats, command);
                    port.writes += 1;
                    port.to_device += moved;
                }))
            }
            Command::Trim => {
                self.bytes.borrow_mut()[range].fill(0);
                Ok(NOW)
            }
            Command::Persist | Command::PersistPmem | Command::Flush | Command::Drain => {
                Ok(self.count(|stats| stats.barriers += 1))
            }
            Command::Reserve(_) | Command::Commit(_) | Command::Abort(_) => Err(NO_LOG),
        }
    }
}

fn port_of(stats: &mut DeviceStats, command: Command) -> &mut PortTraffic {
    match command.is_block() {
        true => &mut stats.block_port,
        false => &mut stats.byte_port,
    }
}

/// A request of a [`Ram`]; done when it is first polled.
pub struct RamRequest<'a> {
    ram: &'a Ram,
    command: Command,
    at: ByteAddr,
    payload: Payload<'a>,
}

impl Future for RamRequest<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        let Self {
            ram,
            command,
            at,
            payload,
        } = &mut *self;
        let done = ram.done(*command, *at, payload);
        Poll::Ready(done.map(|completion| (completion, Atomicity::Whole)))
    }
}

impl Device for Ram {
    type Pending<'a> = RamRequest<'a>;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        _: Conflict,
    ) -> RamRequest<'a> {
        RamRequest {
            ram: self,
            command,
            at,
            payload,
        }
    }

    fn open(&self, _: bool) -> Result<TxId, DeviceError> {
        Err(NO_LOG)
    }

    fn abandon(&self, _: TxId) {}

    fn stats(&self) -> DeviceStats {
        self.stats.get()
    }
}
