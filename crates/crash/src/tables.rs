//! The tables that records make up, held to what [`Record`] promises.

use crate::token::Digest;
use firmware::{
    BlockRecord, BufferId, BufferedPage, Durable, KeptFrame, LoggedLine, PowerLossProtection,
    Record,
};
use std::collections::BTreeMap;
use units::{BlockAddr, FlashGeometry, FrameId, LogSlot, Lpa, Ppa, TxId};

/// Everything that the firmware has recorded.
#[derive(Clone, Debug)]
pub struct Tables {
    slots: Vec<Option<LoggedLine>>,
    buffers: Vec<Option<BufferedPage>>,
    frames: Vec<Option<KeptFrame>>,
    committed: BTreeMap<u32, TxId>,
    map: Vec<Option<Ppa>>,
    blocks: Vec<Option<BlockRecord>>,
    geometry: FlashGeometry,
}

impl Tables {
    /// The tables of a new device.
    pub fn new(
        geometry: FlashGeometry,
        (slots, buffers, frames): (usize, usize, usize),
        pages: usize,
    ) -> Self {
        Self {
            slots: vec![None; slots],
            buffers: vec![None; buffers],
            frames: vec![None; frames],
            committed: BTreeMap::new(),
            map: vec![None; pages],
            blocks: vec![None; geometry.block_count() as usize],
            geometry,
        }
    }

    /// Takes a record in. Dropping what is not there is allowed: recovery may do it twice.
    ///
    /// # Errors
    /// A sentence, if the record breaks what [`Record`] says, or names what there is not.
    pub fn apply(&mut self, record: Record) -> Result<(), String> {
        self.try_apply(record)
            .map_err(|reason| format!("{record:?} is recorded although {reason}"))
    }

    fn try_apply(&mut self, record: Record) -> Result<(), &'static str> {
        match record {
            Record::Logged(slot, line) => {
                let entry = place(&mut self.slots, slot.index())?;
                refuse_if(entry.is_some(), "the slot still counts")?;
                *entry = Some(line);
            }
            Record::Dropped(slot) => *place(&mut self.slots, slot.index())? = None,
            Record::Buffered(buffer, page) => {
                let entry = place(&mut self.buffers, buffer.index())?;
                refuse_if(entry.is_some(), "the buffer still counts")?;
                *entry = Some(page);
            }
            Record::Unbuffered(buffer) => *place(&mut self.buffers, buffer.index())? = None,
            Record::Framed(frame, kept) => {
                let entry = place(&mut self.frames, frame.index())?;
                refuse_if(entry.is_some(), "the frame still counts")?;
                *entry = Some(kept);
            }
            Record::FramedMore(frame, lines) => {
                let entry = place(&mut self.frames, frame.index())?;
                let kept = entry.as_mut().ok_or("the frame counts for nothing")?;
                kept.lines = kept.lines.union(lines);
            }
            Record::Unframed(frame) => *place(&mut self.frames, frame.index())? = None,
            Record::Committed { at, tx } => {
                refuse_if(
                    self.committed.insert(at, tx).is_some(),
                    "the entry still counts",
                )?;
            }
            Record::Forgotten { at } => {
                self.committed.remove(&at);
            }
            Record::Mapped(lpa, ppa) => {
                *place(&mut self.map, lpa.get() as usize)? = Some(ppa);
            }
            Record::Unmapped(lpa) => *place(&mut self.map, lpa.get() as usize)? = None,
            Record::Begun(ppa) => {
                let page = self.geometry.unit_in_block(ppa);
                let is_whole = (page + 1).is_multiple_of(self.geometry.units_per_page);
                refuse_if(!is_whole, "flash pages begin as a whole")?;
                let block = self.block_mut(self.geometry.block_of(ppa))?;
                refuse_if(block.is_retired, "the block is retired")?;
                refuse_if(block.is_condemned, "a program of the block has failed")?;
                refuse_if(page < block.begun, "the page has begun before")?;
                block.begun = page + 1;
            }
            Record::Erased(block, wear) => {
                let block = self.block_mut(block)?;
                refuse_if(block.is_condemned, "a program of the block has failed")?;
                refuse_if(wear < block.wear, "it was erased more often before")?;
                (block.wear, block.begun) = (wear, 0);
            }
            Record::Condemned(block) => self.block_mut(block)?.is_condemned = true,
            Record::Retired(block) => self.block_mut(block)?.is_retired = true,
        }
        Ok(())
    }

    fn block_mut(&mut self, block: BlockAddr) -> Result<&mut BlockRecord, &'static str> {
        let entry = place(&mut self.blocks, block.index())?;
        Ok(entry.get_or_insert_default())
    }

    /// Whether a line written under the transaction counts.
    pub fn is_committed(&self, tx: TxId) -> bool {
        tx == TxId::NONE || self.committed.values().any(|committed| *committed == tx)
    }

    /// Where the page is on flash.
    pub fn mapped_at(&self, lpa: Lpa) -> Option<Ppa> {
        self.map[lpa.get() as usize]
    }

    /// What a device loses of which not all has a battery: all that is in its DRAM, or what is in
    /// buffers. Mapping and blocks are kept on flash by such a drive, in a way of its own.
    pub fn lose(&mut self, protection: PowerLossProtection) {
        if !protection.keeps_buffers() {
            self.buffers.fill(None);
        }
        if !protection.keeps_log() {
            self.slots.fill(None);
            self.committed.clear();
        }
    }

    /// Adds everything to a digest.
    pub fn digest(&self, digest: &mut Digest) {
        for (slot, line) in self.logged() {
            let place = (slot.get().into(), line.line.get().into());
            for word in [place.0, line.lpa.get(), place.1, line.order.get()] {
                digest.add(word);
            }
            digest.add(line.tx.get().into());
        }
        digest.add(u64::MAX);
        for (buffer, page) in self.buffered() {
            for word in [buffer.get().into(), page.lpa.get(), page.order.get()] {
                digest.add(word);
            }
        }
        digest.add(u64::MAX);
        for (frame, kept) in self.framed() {
            for word in [frame.get().into(), kept.lpa.get(), kept.order.get()] {
                digest.add(word);
            }
            for line in kept.lines.iter() {
                digest.add(line.get().into());
            }
        }
        digest.add(u64::MAX);
        for (at, tx) in self.committed() {
            digest.add(at.into());
            digest.add(tx.get().into());
        }
        for place in &self.map {
            digest.add(place.map_or(u64::MAX, Ppa::get));
        }
        for (block, record) in self.blocks() {
            let flags = u64::from(record.is_condemned) << 1 | u64::from(record.is_retired);
            let flags = u64::from(record.begun) << 2 | flags;
            for word in [block.get().into(), record.wear.into(), flags] {
                digest.add(word);
            }
        }
    }
}

fn place<T>(table: &mut [Option<T>], index: usize) -> Result<&mut Option<T>, &'static str> {
    table.get_mut(index).ok_or("there is no such place")
}

fn refuse_if(broken: bool, reason: &'static str) -> Result<(), &'static str> {
    if broken { Err(reason) } else { Ok(()) }
}

/// The entries that are there, with the name of their place.
fn present<T: Copy, N>(
    table: &[Option<T>],
    name: impl Fn(usize) -> N,
) -> impl Iterator<Item = (N, T)> {
    let entries = table.iter().enumerate();
    entries.filter_map(move |(index, entry)| Some((name(index), (*entry)?)))
}

impl Durable for Tables {
    fn logged(&self) -> impl Iterator<Item = (LogSlot, LoggedLine)> {
        present(&self.slots, LogSlot::from_index)
    }
    fn buffered(&self) -> impl Iterator<Item = (BufferId, BufferedPage)> {
        present(&self.buffers, BufferId::from_index)
    }
    fn framed(&self) -> impl Iterator<Item = (FrameId, KeptFrame)> {
        present(&self.frames, FrameId::from_index)
    }
    fn committed(&self) -> impl Iterator<Item = (u32, TxId)> {
        self.committed.iter().map(|(at, tx)| (*at, *tx))
    }
    fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)> {
        present(&self.map, |index| Lpa::new(index as u64))
    }
    fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)> {
        present(&self.blocks, |index| BlockAddr::new(index as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use firmware::WriteOrder;
    use units::LineInPage;

    fn tables() -> Tables {
        Tables::new(Device::default().config().geometry, (8, 2, 1), 16)
    }

    #[test]
    fn a_place_that_counts_is_not_given_to_another_and_dropping_twice_is_allowed() {
        let mut tables = tables();
        let line = LoggedLine {
            lpa: Lpa::new(1),
            line: LineInPage::new(0),
            tx: TxId::NONE,
            order: WriteOrder::new(1),
        };
        let logged = Record::Logged(LogSlot::new(0), line);
        assert_eq!(tables.apply(logged), Ok(()));
        let refused = tables.apply(logged).expect_err("the slot counts");
        assert!(refused.contains("still counts"), "{refused}");
        for _ in 0..2 {
            assert_eq!(tables.apply(Record::Dropped(LogSlot::new(0))), Ok(()));
        }
        assert_eq!(tables.logged().count(), 0);
        assert!(tables.apply(Record::Dropped(LogSlot::new(8))).is_err());
        let block = BlockAddr::new(1);
        assert_eq!(tables.apply(Record::Erased(block, 2)), Ok(()));
        assert!(tables.apply(Record::Erased(block, 1)).is_err());
        assert_eq!(tables.apply(Record::Condemned(block)), Ok(()));
        assert!(tables.apply(Record::Begun(Ppa::new(4))).is_err());
        assert!(tables.apply(Record::Erased(block, 3)).is_err());
        assert_eq!(tables.apply(Record::Retired(block)), Ok(()));
        assert!(tables.apply(Record::Begun(Ppa::new(4))).is_err());
    }
}
