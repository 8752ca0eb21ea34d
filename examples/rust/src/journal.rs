//! An append-only journal whose records survive a power cut whole or not at all.
//!
//! A file system writes a record as a block, a checksum and a barrier. Here a record and the
//! journal's new length are one transaction of the byte port: a few lines of 64 B in the device's
//! write log, durable when the commit is answered.

use port::{Device, DeviceError, Transaction, TxOptions};
use units::ByteAddr;

/// Where the journal's length stands: its first line. Records follow.
const HEAD: u64 = 64;

/// A journal at the beginning of a device. Its calls are futures: whoever drives the device waits
/// for them.
#[derive(Debug)]
pub struct Journal<'a, D> {
    device: &'a D,
    /// Bytes of all records, each with its length before it.
    used: u64,
}

impl<'a, D: Device> Journal<'a, D> {
    /// The journal of a device; a new device has an empty one, for what was never written reads as
    /// zeroes.
    ///
    /// # Errors
    /// What the device says.
    pub async fn open(device: &'a D) -> Result<Self, DeviceError> {
        let mut length = [0; 8];
        device.read(ByteAddr::new(0), &mut length).await?;
        Ok(Self {
            device,
            used: u64::from_le_bytes(length),
        })
    }

    /// Appends a record. When this is answered the record survives a power cut; if the power goes
    /// before, it is there whole or not at all.
    ///
    /// # Errors
    /// What the device says, for one if the record is larger than the log keeps room for; the
    /// journal is as it was.
    pub async fn append(&mut self, record: &[u8]) -> Result<(), DeviceError> {
        let at = HEAD + self.used;
        let used = self.used + 8 + record.len() as u64;
        // The lines of the record, and the journal's first one.
        let line = self.device.shape().line.get();
        let lines = (HEAD + used).div_ceil(line) - at / line + 1;
        let lines = u32::try_from(lines).unwrap_or(u32::MAX);
        let tx = Transaction::begin(self.device, TxOptions::reserving(lines)).await?;
        let length = (record.len() as u64).to_le_bytes();
        tx.write(ByteAddr::new(at), &length).await?;
        tx.write(ByteAddr::new(at + 8), record).await?;
        tx.write(ByteAddr::new(0), &used.to_le_bytes()).await?;
        // An error above has dropped the transaction, and so aborted it.
        tx.commit().await?;
        self.used = used;
        Ok(())
    }

    /// All records, oldest first.
    ///
    /// # Errors
    /// What the device says.
    pub async fn records(&self) -> Result<Vec<Vec<u8>>, DeviceError> {
        let mut records = Vec::new();
        let mut at = 0;
        while at < self.used {
            let mut length = [0; 8];
            self.device
                .read(ByteAddr::new(HEAD + at), &mut length)
                .await?;
            let mut record = vec![0; u64::from_le_bytes(length) as usize];
            self.device
                .read(ByteAddr::new(HEAD + at + 8), &mut record)
                .await?;
            at += 8 + record.len() as u64;
            records.push(record);
        }
        Ok(records)
    }
}
