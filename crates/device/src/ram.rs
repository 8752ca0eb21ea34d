//! A device without firmware and flash.

use core::cell::{Cell, RefCell};
use port::{
    Acknowledge, Atomicity, Completion, Device, DeviceError, DeviceStats, Drive, Shape, Turned,
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
            shape: Shape {
                capacity,
                block,
                has_transactions: false,
            },
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

impl Device for Ram {
    fn shape(&self) -> Shape {
        self.shape
    }

    async fn read(&self, at: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        into.copy_from_slice(&self.bytes.borrow()[self.range(at, into.len())?]);
        Ok(self.count(|stats| {
            stats.byte_port.reads += 1;
            stats.byte_port.to_host += Bytes::new(into.len() as u64);
        }))
    }

    async fn write(&self, at: ByteAddr, bytes: &[u8], tx: TxId) -> Result<Completion, DeviceError> {
        if tx != TxId::NONE {
            return Err(NO_LOG);
        }
        let range = self.range(at, bytes.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(bytes);
        Ok(self.count(|stats| {
            stats.byte_port.writes += 1;
            stats.byte_port.to_device += Bytes::new(bytes.len() as u64);
        }))
    }

    async fn persist(&self) -> Result<Completion, DeviceError> {
        Ok(self.count(|stats| stats.barriers += 1))
    }

    async fn read_blocks(&self, at: ByteAddr, into: &mut [u8]) -> Result<Completion, DeviceError> {
        into.copy_from_slice(&self.bytes.borrow()[self.blocks(at, into.len())?]);
        Ok(self.count(|stats| {
            stats.block_port.reads += 1;
            stats.block_port.to_host += Bytes::new(into.len() as u64);
        }))
    }

    async fn write_blocks(
        &self,
        at: ByteAddr,
        bytes: &[u8],
        _when: Acknowledge,
    ) -> Result<Completion, DeviceError> {
        let range = self.blocks(at, bytes.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(bytes);
        Ok(self.count(|stats| {
            stats.block_port.writes += 1;
            stats.block_port.to_device += Bytes::new(bytes.len() as u64);
        }))
    }

    async fn trim(&self, at: ByteAddr, size: Bytes) -> Result<Completion, DeviceError> {
        let range = self.blocks(at, size.get() as usize)?;
        self.bytes.borrow_mut()[range].fill(0);
        Ok(NOW)
    }

    async fn flush(&self) -> Result<Completion, DeviceError> {
        self.persist().await
    }

    fn begin(&self) -> Result<TxId, DeviceError> {
        Err(NO_LOG)
    }

    async fn commit(&self, _tx: TxId) -> Result<(Completion, Atomicity), DeviceError> {
        Err(NO_LOG)
    }

    async fn abort(&self, _tx: TxId) -> Result<(Completion, Atomicity), DeviceError> {
        Err(NO_LOG)
    }

    fn stats(&self) -> DeviceStats {
        self.stats.get()
    }
}
