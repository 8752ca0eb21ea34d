//! What the firmware has recorded, held to what a record promises.

use firmware::{BlockRecord, BufferId, BufferedPage, Durable, KeptFrame, LoggedLine, Record};
use std::collections::BTreeMap;
use units::{BlockAddr, FlashGeometry, FrameId, LogSlot, Lpa, Ppa, TxId};

#[derive(Clone, Default)]
pub struct Tables {
    pub slots: BTreeMap<LogSlot, LoggedLine>,
    pub buffers: BTreeMap<BufferId, BufferedPage>,
    pub frames: BTreeMap<FrameId, KeptFrame>,
    pub commits: BTreeMap<u32, TxId>,
    map: BTreeMap<Lpa, Ppa>,
    blocks: BTreeMap<BlockAddr, BlockRecord>,
}

impl Tables {
    pub fn apply(&mut self, record: Record, geometry: &FlashGeometry) {
        match record {
            Record::Logged(slot, line) => {
                let old = self.slots.insert(slot, line);
                assert!(old.is_none(), "{slot} is logged while it counts");
            }
            Record::Dropped(slot) => {
                self.slots.remove(&slot);
            }
            Record::Buffered(buffer, page) => {
                let old = self.buffers.insert(buffer, page);
                assert!(old.is_none(), "{buffer} is taken while it counts");
            }
            Record::Unbuffered(buffer) => {
                self.buffers.remove(&buffer);
            }
            Record::Framed(frame, kept) => {
                let old = self.frames.insert(frame, kept);
                assert!(old.is_none(), "{frame} is kept while it counts");
            }
            Record::FramedMore(frame, lines) => {
                let kept = self.frames.get_mut(&frame);
                let kept = kept.expect("more of a frame counts if something does");
                kept.lines = kept.lines.union(lines);
            }
            Record::Unframed(frame) => {
                self.frames.remove(&frame);
            }
            Record::Committed { at, tx } => {
                let old = self.commits.insert(at, tx);
                assert!(
                    old.is_none(),
                    "entry {at} of the TxLog is used while it counts"
                );
            }
            Record::Forgotten { at } => {
                self.commits.remove(&at);
            }
            Record::Mapped(lpa, ppa) => {
                self.map.insert(lpa, ppa);
            }
            Record::Unmapped(lpa) => {
                self.map.remove(&lpa);
            }
            Record::Begun(ppa) => {
                let block = self.blocks.entry(geometry.block_of(ppa)).or_default();
                block.begun = geometry.unit_in_block(ppa) + 1;
            }
            Record::Erased(block, wear) => {
                let block = self.blocks.entry(block).or_default();
                (block.wear, block.begun) = (wear, 0);
            }
            Record::Condemned(block) => {
                self.blocks.entry(block).or_default().is_condemned = true;
            }
            Record::Retired(block) => self.blocks.entry(block).or_default().is_retired = true,
        }
    }
}

impl Durable for Tables {
    fn logged(&self) -> impl Iterator<Item = (LogSlot, LoggedLine)> {
        self.slots.iter().map(|(slot, line)| (*slot, *line))
    }
    fn buffered(&self) -> impl Iterator<Item = (BufferId, BufferedPage)> {
        self.buffers.iter().map(|(buffer, page)| (*buffer, *page))
    }
    fn framed(&self) -> impl Iterator<Item = (FrameId, KeptFrame)> {
        self.frames.iter().map(|(frame, kept)| (*frame, *kept))
    }
    fn committed(&self) -> impl Iterator<Item = (u32, TxId)> {
        self.commits.iter().map(|(at, tx)| (*at, *tx))
    }
    fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)> {
        self.map.iter().map(|(lpa, ppa)| (*lpa, *ppa))
    }
    fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)> {
        self.blocks.iter().map(|(block, record)| (*block, *record))
    }
}
