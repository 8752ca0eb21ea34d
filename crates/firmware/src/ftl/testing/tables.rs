//! The tables of the FTL as a platform keeps them whose power may fail.

use crate::durable::{BlockRecord, BufferedPage, Durable, LoggedLine, Record};
use crate::platform::BufferId;
use alloc::collections::BTreeMap;
use units::{BlockAddr, FlashGeometry, LogSlot, Lpa, Ppa, TxId};

/// Where pages are and what is known of blocks. Refuses records in an order that a cut between them
/// would not survive.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub mapped: BTreeMap<Lpa, Ppa>,
    holders: BTreeMap<Ppa, Lpa>,
    pub blocks: BTreeMap<BlockAddr, BlockRecord>,
}

impl Tables {
    /// Takes a record in.
    pub fn apply(&mut self, geometry: &FlashGeometry, record: Record) {
        match record {
            Record::Mapped(lpa, ppa) => {
                let block = self.blocks[&geometry.block_of(ppa)];
                assert!(geometry.unit_in_block(ppa) < block.begun && !block.is_retired);
                self.unmap(lpa);
                self.mapped.insert(lpa, ppa);
                assert_eq!(self.holders.insert(ppa, lpa), None, "{ppa} holds one page");
            }
            Record::Unmapped(lpa) => self.unmap(lpa),
            Record::Begun(ppa) => {
                let block = self.blocks.entry(geometry.block_of(ppa)).or_default();
                let page = geometry.unit_in_block(ppa);
                assert!(
                    page >= block.begun && !block.is_retired && !block.is_condemned,
                    "{ppa} is written once"
                );
                block.begun = page + 1;
            }
            Record::Erased(block, wear) => {
                self.assert_empty(geometry, block);
                let state = self.blocks.entry(block).or_default();
                assert!(!state.is_condemned, "{block:?} has failed and is erased");
                assert_eq!(wear, state.wear + 1);
                (state.wear, state.begun) = (wear, 0);
            }
            Record::Condemned(block) => {
                self.blocks.entry(block).or_default().is_condemned = true;
            }
            Record::Retired(block) => {
                self.assert_empty(geometry, block);
                self.blocks.entry(block).or_default().is_retired = true;
            }
            _ => unreachable!("the FTL keeps mapping and blocks"),
        }
    }

    fn unmap(&mut self, lpa: Lpa) {
        if let Some(before) = self.mapped.remove(&lpa) {
            self.holders.remove(&before);
        }
    }

    fn assert_empty(&self, geometry: &FlashGeometry, block: BlockAddr) {
        let pages = geometry.unit_on(block, 0)..geometry.unit_on(block, geometry.units_per_block);
        let held = self.holders.range(pages).count();
        assert_eq!(
            held, 0,
            "{block:?} is given up while pages are mapped to it"
        );
    }
}

impl Durable for Tables {
    fn logged(&self) -> impl Iterator<Item = (LogSlot, LoggedLine)> {
        core::iter::empty()
    }
    fn buffered(&self) -> impl Iterator<Item = (BufferId, BufferedPage)> {
        core::iter::empty()
    }
    fn framed(&self) -> impl Iterator<Item = (units::FrameId, crate::KeptFrame)> {
        core::iter::empty()
    }
    fn committed(&self) -> impl Iterator<Item = (u32, TxId)> {
        core::iter::empty()
    }
    fn mapped(&self) -> impl Iterator<Item = (Lpa, Ppa)> {
        self.mapped.iter().map(|(lpa, ppa)| (*lpa, *ppa))
    }
    fn blocks(&self) -> impl Iterator<Item = (BlockAddr, BlockRecord)> {
        self.blocks.iter().map(|(block, record)| (*block, *record))
    }
}
