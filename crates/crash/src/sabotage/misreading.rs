//! Tables as a recovery with a bug would see them.

use super::Bug;
use crate::tables::Tables;
use firmware::{BlockRecord, BufferId, BufferedPage, Durable, KeptFrame, LoggedLine, WriteOrder};
use units::{BlockAddr, FrameId, LogSlot, Lpa, Ppa, TxId};

/// The decorator of [`Durable`].
#[derive(Debug)]
pub struct Misreading<'a> {
    /// What is there.
    pub tables: &'a Tables,
    /// What is wrong with who reads it.
    pub bug: Option<Bug>,
    /// The first slot of the second half of the log.
    pub second_half: u32,
}

impl Misreading<'_> {
    fn misread(&self, (slot, line): (LogSlot, LoggedLine)) -> Option<(LogSlot, LoggedLine)> {
        let line = match self.bug {
            Some(Bug::HalfOverlooked) if slot.get() >= self.second_half => return None,
            Some(Bug::OrderOverlooked) => LoggedLine {
                order: WriteOrder::new(slot.get().into()),
                ..line
            },
            Some(Bug::TxLogOverlooked) => LoggedLine {
                tx: TxId::NONE,
                ..line
            },
            _ => line,
        };
        Some((slot, line))
    }
}

impl Durable for Misreading<'_> {
    fn logged(&self) -> impl Iterator<Item = (LogSlot, LoggedLine)> {
        self.tables
            .logged()
            .filter_map(|logged| self.misread(logged))
    }
    fn buffered(&self) -> impl Iterator<Item = (BufferId, BufferedPage)> {
        let is_seen = self.bug != Some(Bug::BuffersOverlooked);
        let is_oldest = self.bug == Some(Bug::BufferOrderOverlooked);
        let seen = self.tables.buffered().filter(move |_| is_seen);
        seen.map(move |(buffer, page)| {
            let order = if is_oldest {
                WriteOrder::new(0)
            } else {
                page.order
            };
            (buffer, BufferedPage { order, ..page })
        })
    }
    fn framed(&self) -> impl Iterator<Item = (FrameId, KeptFrame)> {
        let is_seen = self.bug != Some(Bug::FramesOverlooked);
        self.tables.framed().filter(move |_| is_seen)
    }
    fn committed(&self) -> impl Iterator<Item = (u32, TxId)> {
        let is_renumbered = self.bug == Some(Bug::TxLogRenumbered);
        let entries = self.tables.committed().zip(0..);
        entries.map(move |((at, tx), nth)| (if is_renumbered { nth } else { at }, tx))
    }
    fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)> {
        self.tables.mapped()
    }
    fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)> {
        let bug = self.bug;
        let seen = self.tables.blocks();
        let seen = seen.filter(move |_| bug != Some(Bug::BlocksOverlooked));
        seen.map(move |(block, mut record)| {
            match bug {
                Some(Bug::BegunUnderread) => record.begun = record.begun.saturating_sub(1),
                Some(Bug::CondemnedOverlooked) => record.is_condemned = false,
                _ => {}
            }
            (block, record)
        })
    }
}
