//! How a batch becomes durable as a whole: what tells the personalities apart.

mod blocks;
pub(crate) mod contents;
mod firmware;
mod lines;
mod logs;
pub(crate) mod segments;

use crate::fs::{FileSystem, address};
use crate::layout::{BLOCK, Geometry, LINE, Personality, Superblock};
use crate::logs::Area;
use crate::state::State;
use crate::state::batch::Sealed;
use crate::stats::Class;
use crate::structures::Structure;
use crate::{BlockNo, MountError};
use blocks::BlockJournal;
use core::ops::Range;
use lines::LineJournal;
use logs::LogJournal;
use port::{Clock, Device, DeviceError, PersistenceDomain};
use std::collections::BTreeMap;
use units::{ByteAddr, Bytes, TxId};

/// Where a line goes, and its bytes.
pub(crate) type Line = (ByteAddr, [u8; LINE]);

/// Whether a journal on the host's side holds what is not in its place yet, on a device that was
/// not unmounted. Records of contents and logs of inodes are not meant.
///
/// # Errors
/// It cannot be said: what it holds is damaged or lost, or the device fails.
pub(crate) async fn holds<D: Device>(
    device: &D,
    superblock: &Superblock,
    geometry: &Geometry,
) -> Result<bool, MountError> {
    match superblock.personality {
        Personality::ByteFs | Personality::ByteFsLog | Personality::NovaLike => Ok(false),
        Personality::ByteFsDual | Personality::PmfsLike => {
            LineJournal::holds(device, geometry).await
        }
        Personality::Ext4Like => BlockJournal::holds(device, geometry).await,
        Personality::F2fsLike => {
            let loaded = crate::segments::load(device, superblock, geometry).await?;
            let records = crate::segments::records_of(device, &loaded.segments).await?;
            Ok(!records.is_empty())
        }
    }
}

/// Empties the area of a journal that is damaged, or of which the flash has lost something.
///
/// # Errors
/// The device fails, before or now.
async fn begin_anew<D: Device>(
    device: &D,
    area: &Range<u32>,
    error: MountError,
) -> Result<(), MountError> {
    use MountError::{Damaged, Failed};
    if !matches!(error, Damaged { .. } | Failed(DeviceError::Lost { .. })) {
        return Err(error);
    }
    let size = Bytes::new(area.len() as u64 * BLOCK as u64);
    device.trim(address(BlockNo(area.start)), size).await?;
    device.flush().await?;
    Ok(())
}

/// One of the ways.
pub(crate) enum Journal {
    /// Transactions of the firmware.
    Firmware,
    /// Lines on the host's side, new ones or old ones.
    Lines(LineJournal),
    /// Blocks on the host's side.
    Blocks(BlockJournal),
    /// Logs of segments.
    Segments,
    /// A log for each inode.
    Logs(LogJournal),
}

impl Journal {
    /// None if the file system has no room for it.
    pub fn new(superblock: &Superblock, geometry: &Geometry) -> Option<Self> {
        // Records of blocks go round behind the first one.
        let least = match superblock.personality {
            Personality::ByteFsDual | Personality::PmfsLike => 1,
            Personality::Ext4Like => 2,
            _ => 0,
        };
        if geometry.journal.len() < least {
            return None;
        }
        Some(match superblock.personality {
            Personality::ByteFs | Personality::ByteFsLog => Self::Firmware,
            Personality::ByteFsDual => Self::Lines(LineJournal::new(geometry, false)),
            Personality::PmfsLike => Self::Lines(LineJournal::new(geometry, true)),
            Personality::Ext4Like => Self::Blocks(BlockJournal::new(geometry)),
            Personality::F2fsLike => Self::Segments,
            Personality::NovaLike => Self::Logs(LogJournal::new(geometry)?),
        })
    }

    /// Lines of a batch that the journal has room for; blocks, where it holds whole ones.
    pub fn most(personality: Personality, geometry: &Geometry) -> usize {
        let blocks = geometry.journal.len();
        match personality {
            Personality::ByteFs | Personality::ByteFsLog => usize::MAX,
            // An operation may have more than there was room for before it.
            Personality::ByteFsDual | Personality::PmfsLike => blocks * BLOCK / LINE / 2,
            Personality::Ext4Like => (blocks / 2).min(blocks::NUMBERS / 2),
            Personality::F2fsLike => {
                let segments = geometry.segments.as_ref();
                segments.map_or(0, |found| found.dirty_most() as usize)
            }
            Personality::NovaLike => Area::of(geometry).map_or(0, |area| area.batch_most()),
        }
    }

    /// Makes a batch durable: after any power cut all of it is there or nothing.
    pub async fn persist<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        batch: &Sealed,
    ) -> Result<(), DeviceError> {
        match self {
            // `FileSystem::write_transaction` does it.
            Self::Firmware => Ok(()),
            Self::Lines(journal) => journal.persist(fs, batch).await,
            Self::Blocks(journal) => journal.persist(fs, batch).await,
            Self::Segments => segments::persist(fs, batch).await,
            Self::Logs(journal) => journal.persist(fs, batch).await,
        }
    }

    /// Brings the device to the last batch that was durable.
    pub async fn replay<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), MountError> {
        match self {
            // The device has done it when it was opened, and `Journal::open`.
            Self::Firmware | Self::Logs(_) => Ok(()),
            Self::Lines(journal) => journal.replay(fs).await,
            Self::Blocks(journal) => journal.replay(fs).await,
            Self::Segments => Ok(segments::replay(fs).await?),
        }
    }

    /// Begins, where a mount has something to read or write before anything changes: with logs of
    /// inodes, which are recovered here, and with records behind an unmount.
    pub async fn open<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
        superblock: &Superblock,
    ) -> Result<(), MountError> {
        match self {
            Self::Logs(journal) => journal.open(fs, superblock).await,
            // The first mount finds nothing, and whoever was not unmounted was replayed.
            Self::Blocks(journal) if superblock.is_clean && superblock.mounts > 0 => {
                journal.open(fs).await
            }
            Self::Lines(journal) if superblock.is_clean && superblock.mounts > 0 => {
                journal.open(fs).await
            }
            _ => Ok(()),
        }
    }

    /// Writes metadata to its place that only the journal has, where a sync of everything does.
    pub async fn write_in_place<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), DeviceError> {
        match self {
            Self::Blocks(journal) => journal.write_in_place(fs).await,
            Self::Firmware | Self::Lines(_) | Self::Segments | Self::Logs(_) => Ok(()),
        }
    }

    /// Leaves nothing to be replayed.
    pub async fn close<D: Device, C: Clock>(
        &mut self,
        fs: &FileSystem<D, C>,
    ) -> Result<(), DeviceError> {
        match self {
            Self::Firmware => fs.leave_no_record().await,
            Self::Lines(_) => Ok(()),
            Self::Blocks(journal) => journal.checkpoint(fs).await,
            Self::Segments => segments::close(fs).await,
            Self::Logs(journal) => journal.close(fs).await,
        }
    }
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// A barrier: what was answered before survives. On a device that says that it does anyway
    /// there is nothing to send, as the kernel sends nothing to one without a volatile cache.
    async fn barrier(&self) -> Result<(), DeviceError> {
        if self.shape.block_domain == PersistenceDomain::Device {
            return Ok(());
        }
        let number = {
            let mut state = self.state();
            state.counters.0.flushes += 1;
            state.barriers.0 += 1;
            (state.barriers.0, state.block_writes.last)
        };
        let (number, written) = number;
        self.spend(self.costs.request).await;
        self.device.flush().await?;
        self.spend(self.costs.switch).await;
        self.note_flushed(written);
        let mut state = self.state();
        state.barriers.1 = state.barriers.1.max(number);
        Ok(())
    }

    /// Before a transaction of the firmware may say where blocks are, or how long their file is,
    /// they survive: of some devices the log does so by itself, and the blocks not before a flush.
    pub(crate) async fn order_blocks(&self) -> Result<(), DeviceError> {
        let is_needed = {
            let writes = self.state().block_writes;
            writes.last > writes.flushed
        };
        match self.orders_blocks && is_needed {
            true => self.barrier().await,
            false => Ok(()),
        }
    }

    /// Writes lines by the byte port, those that are neighbours together.
    async fn write_lines(&self, lines: &[Line], tx: TxId, class: Class) -> Result<(), DeviceError> {
        let bytes: Vec<u8> = lines.iter().flat_map(|(_, line)| *line).collect();
        let mut parts: Vec<(ByteAddr, core::ops::Range<usize>)> = Vec::new();
        for (index, (at, _)) in lines.iter().enumerate() {
            let begin = index * LINE;
            match parts.last_mut() {
                Some((first, range)) if first.get() + range.len() as u64 == at.get() => {
                    range.end += LINE;
                }
                _ => parts.push((*at, begin..begin + LINE)),
            }
        }
        let parts: Vec<(ByteAddr, &[u8])> = parts
            .into_iter()
            .map(|(at, range)| (at, &bytes[range]))
            .collect();
        self.device.write_vectored(&parts, tx).await?;
        match class {
            Class::Metadata => self.note_lines_of_metadata(lines),
            _ => self.state().counters.class(class).bytes_written += bytes.len() as u64,
        }
        Ok(())
    }

    /// Counts lines of metadata, by the structures that their blocks are of.
    fn note_lines_of_metadata(&self, lines: &[Line]) {
        let mut state = self.state();
        let State {
            blocks,
            geometry,
            counters,
            ..
        } = &mut *state;
        let number = |(at, _): &Line| BlockNo((at.get() / BLOCK as u64) as u32);
        for of_block in lines.chunk_by(|one, next| number(one) == number(next)) {
            let block = number(&of_block[0]);
            let data = blocks.get_mut(block).map(|buffer| &*buffer.data);
            let structure = Structure::of(geometry, block, data);
            counters.metadata_stored(structure, (of_block.len() * LINE) as u64);
        }
    }

    /// Counts a block of metadata that is about to be written.
    fn note_block(&self, block: BlockNo, data: &[u8; BLOCK]) {
        let mut state = self.state();
        let structure = Structure::of(&state.geometry, block, Some(data));
        state.counters.metadata_written(structure, BLOCK as u64);
    }

    /// The same of blocks.
    fn note_blocks(&self, blocks: &BTreeMap<BlockNo, Box<[u8; BLOCK]>>) {
        for (block, data) in blocks {
            self.note_block(*block, data);
        }
    }

    /// Waits until lines under no transaction survive a power cut.
    pub(crate) async fn persist_lines(&self) -> Result<(), DeviceError> {
        self.state().counters.0.flushes += 1;
        self.device.persist().await.map(|_| ())
    }
}
