//! A journal of lines on the host's side, for devices without a log: one record, written before
//! the batch's lines go to their places. It holds the new lines (ByteFS-Dual: redo) or the old ones
//! (as PMFS: undo).
//!
//! The first line says whether the record counts: its sequence number, how many lines, their sum,
//! and whether it is to be replayed. Behind it come groups of a line of addresses and the lines.

use super::Line;
use crate::MountError;
use crate::fs::FileSystem;
use crate::layout::{
    BLOCK, Geometry, LINE, get_u32, get_u64, is_sealed, put_u32, put_u64, seal, sum,
};
use crate::state::batch::Sealed;
use crate::stats::Class;
use port::{Clock, Device, DeviceError};
use units::{ByteAddr, TxId};

/// Addresses that a line has room for, beside its sum.
const GROUP: usize = 7;

/// A record as it was read: how many lines it has, their sum, and the lines that it is about.
type Record = (usize, u32, Vec<Line>);

pub(crate) struct LineJournal {
    area: core::ops::Range<u32>,
    at: ByteAddr,
    /// Lines of the area.
    room: usize,
    sequence: u64,
    /// It holds old lines.
    undoes: bool,
}

/// Lines of a record with so many lines.
fn record_lines(lines: usize) -> usize {
    1 + lines + lines.div_ceil(GROUP)
}

impl LineJournal {
    pub fn new(geometry: &Geometry, undoes: bool) -> Self {
        Self {
            area: geometry.journal.clone(),
            at: ByteAddr::new(u64::from(geometry.journal.start) * BLOCK as u64),
            room: geometry.journal.len() * BLOCK / LINE,
            sequence: 0,
            undoes,
        }
    }

    fn place(&self, line: usize) -> ByteAddr {
        ByteAddr::new(self.at.get() + (line * LINE) as u64)
    }

    fn head(&self, count: usize, sum: u32, counts: bool) -> Line {
        let mut line = [0; LINE];
        put_u64(&mut line, 0, self.sequence);
        put_u32(&mut line, 8, count as u32);
        put_u32(&mut line, 12, sum);
        put_u32(&mut line, 16, u32::from(counts));
        seal(&mut line);
        (self.at, line)
    }

    pub async fn persist<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        batch: &Sealed,
    ) -> Result<(), DeviceError> {
        // Lines of data are in place before the metadata that makes them seen.
        if !batch.data.is_empty() {
            fs.write_lines(&batch.data, TxId::NONE, Class::Data).await?;
            if batch.lines.is_empty() {
                return fs.persist_lines().await;
            }
        }
        if batch.lines.is_empty() {
            return Ok(());
        }
        let kept = if self.undoes {
            &batch.before
        } else {
            &batch.lines
        };
        if record_lines(kept.len()) > self.room {
            return Err(DeviceError::Stopped {
                reason: format!(
                    "the journal has room for {} lines and a change needs {}; make the file system \
                     with a larger journal",
                    self.room,
                    record_lines(kept.len())
                ),
            });
        }
        self.sequence += 1;
        let mut record = Vec::with_capacity(record_lines(kept.len()));
        for group in kept.chunks(GROUP) {
            let mut addresses = [0; LINE];
            for (index, (at, _)) in group.iter().enumerate() {
                put_u64(&mut addresses, index * 8, at.get());
            }
            put_u32(&mut addresses, GROUP * 8, group.len() as u32);
            seal(&mut addresses);
            record.push(addresses);
            record.extend(group.iter().map(|(_, line)| *line));
        }
        let bytes: Vec<u8> = record.iter().flatten().copied().collect();
        let sum = sum(&bytes);
        let lines = record.into_iter().zip(1..);
        let lines: Vec<Line> = lines
            .map(|(line, index)| (self.place(index), line))
            .collect();
        fs.write_lines(&lines, TxId::NONE, Class::Journal).await?;
        fs.persist_lines().await?;
        let count = lines.len();
        fs.write_lines(&[self.head(count, sum, true)], TxId::NONE, Class::Journal)
            .await?;
        fs.persist_lines().await?;
        fs.write_lines(&batch.lines, TxId::NONE, Class::Metadata)
            .await?;
        fs.persist_lines().await?;
        // What is in place must not be replayed over what comes later. Redone twice it would do
        // no harm before the next batch, but undone it would.
        fs.write_lines(&[self.head(count, sum, false)], TxId::NONE, Class::Journal)
            .await?;
        fs.persist_lines().await
    }

    /// The record, if it counts, and its sum.
    async fn read<D: Device>(&mut self, device: &D) -> Result<Option<Record>, MountError> {
        let mut head = [0; LINE];
        device.read(self.at, &mut head).await?;
        let damaged = |what: &str| MountError::Damaged {
            what: format!("the {what} of the journal"),
        };
        // A line is written as a whole, and one that counts behind the record that it is about: no
        // power cut leaves another one.
        if !is_sealed(&head) {
            return Err(damaged("first line"));
        }
        self.sequence = get_u64(&head, 0);
        if get_u32(&head, 16) == 0 {
            return Ok(None);
        }
        let count = get_u32(&head, 8) as usize;
        if count >= self.room {
            return Err(damaged("first line"));
        }
        let mut bytes = vec![0; count * LINE];
        device.read(self.place(1), &mut bytes).await?;
        let sum_of_all = get_u32(&head, 12);
        if sum(&bytes) != sum_of_all {
            return Err(damaged("record"));
        }
        let mut lines = Vec::new();
        let mut rest = bytes.chunks_exact(LINE);
        while let Some(addresses) = rest.next() {
            for index in 0..(get_u32(addresses, GROUP * 8) as usize).min(GROUP) {
                let Some(line) = rest.next() else { break };
                let mut copy = [0; LINE];
                copy.copy_from_slice(line);
                lines.push((ByteAddr::new(get_u64(addresses, index * 8)), copy));
            }
        }
        Ok(Some((count, sum_of_all, lines)))
    }

    /// Whether there is a record that is not in its places.
    ///
    /// # Errors
    /// It cannot be said: the journal is damaged, or the device fails.
    pub async fn holds<D: Device>(device: &D, geometry: &Geometry) -> Result<bool, MountError> {
        let mut journal = Self::new(geometry, false);
        Ok(journal.read(device).await?.is_some())
    }

    /// Looks whether the area can be used: one that is damaged begins anew, for behind an unmount
    /// nothing of it is needed.
    pub async fn open<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), MountError> {
        match self.read(&fs.device).await {
            Err(error) => super::begin_anew(&fs.device, &self.area, error).await,
            Ok(_) => Ok(()),
        }
    }

    pub async fn replay<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), MountError> {
        let Some((count, sum, lines)) = self.read(&fs.device).await? else {
            return Ok(());
        };
        fs.write_lines(&lines, TxId::NONE, Class::Metadata).await?;
        fs.persist_lines().await?;
        fs.write_lines(&[self.head(count, sum, false)], TxId::NONE, Class::Journal)
            .await?;
        Ok(fs.persist_lines().await?)
    }
}
