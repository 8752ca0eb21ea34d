//! ByteFS's log index: partitions of the address space, each with a skip list of its pages, each
//! with an ordered list of runs of lines.
//!
//! First layer: LPA → partition of 16 MiB, by division. Second layer: [`Nodes`], a skip list
//! ordered by page. Third layer: [`ChunkLists`]. What a lookup touches of each half are the lane,
//! two or three cache lines that a partition's pages share, and a node, which ten pages share; and
//! then the cache line with the chunks of its page.
//!
//! Pages are scanned in ascending order, not in that of first logging.
//!
//! Source: ByteFS §4.3, Fig. 3.

mod chunks;
mod compare;
mod fill;
mod lanes;
mod nodes;
#[cfg(test)]
mod tests;

use super::{IndexCursor, LogIndex, Placed};
use chunks::{ChunkLists, List};
use core::hint::select_unpredictable;
use nodes::{MOST_PAGES, Nodes, Place};
use units::{Bytes, LineInPage, LogSlot, Lpa, PageSize};

/// ByteFS §4.3.
const PARTITION: Bytes = Bytes::from_mib(16);

/// The skip list index of one half of the log.
#[derive(Clone)]
pub struct SkipList {
    nodes: Nodes,
    chunks: ChunkLists,
    page_count: usize,
    partition_bits: u32,
    /// The bits of a page that are its number in its partition.
    page_mask: u64,
    /// The page that was written last, and where it is while no page comes or goes: lines of a page
    /// are often written together.
    finger: Option<(Lpa, Place)>,
}

impl SkipList {
    /// Partition and page in it.
    #[inline]
    fn split(&self, lpa: Lpa) -> (usize, u16) {
        let partition = (lpa.get() >> self.partition_bits) as usize;
        let page = lpa.get() & self.page_mask;
        (partition, page as u16)
    }

    /// Where a page is.
    #[inline]
    fn place(&self, lpa: Lpa) -> Option<Place> {
        if let Some((page, place)) = self.finger
            && page == lpa
        {
            return Some(place);
        }
        let (partition, page) = self.split(lpa);
        self.nodes.find(partition, page)
    }

    /// A line that the newer half has not, of a page that both have.
    #[cold]
    fn find_older(&self, list: List, line: LineInPage) -> Option<LogSlot> {
        self.chunks.find(list, line)
    }

    /// The chunk list of a page.
    #[inline]
    fn list(&self, lpa: Lpa) -> Option<List> {
        let (partition, page) = self.split(lpa);
        let (is_there, list) = self.nodes.look_up(partition, page);
        is_there.then_some(list)
    }
}

impl LogIndex for SkipList {
    fn new(page: PageSize, first_slot: LogSlot, stride: u32) -> Self {
        // Pages smaller than 1 KiB make smaller partitions.
        let pages = (PARTITION / page.bytes()).min(MOST_PAGES);
        Self {
            nodes: Nodes::new(),
            chunks: ChunkLists::new(page.line_bits(), first_slot, stride),
            page_count: 0,
            partition_bits: pages.trailing_zeros(),
            page_mask: pages - 1,
            finger: None,
        }
    }

    fn insert(&mut self, lpa: Lpa, line: LineInPage, slot: LogSlot) -> Option<LogSlot> {
        let Some(place) = self.place(lpa) else {
            let (partition, page) = self.split(lpa);
            let list = self.chunks.create(line, slot);
            self.finger = Some((lpa, self.nodes.insert(partition, page, list)));
            self.page_count += 1;
            return None;
        };
        self.finger = Some((lpa, place));
        let old = self.nodes.list(place);
        let mut list = old;
        let replaced = self.chunks.insert(&mut list, line, slot);
        if list != old {
            self.nodes.set_list(place, list);
        }
        replaced
    }

    #[inline]
    fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        self.chunks.find(self.list(lpa)?, line)
    }

    #[inline]
    fn find_newest(newer: &Self, older: &Self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        // In which half a page is, no processor can guess: it would wait for one search before it
        // begins the other, or the next lookup.
        let (partition, page) = newer.split(lpa);
        let (is_newer, newer_list) = newer.nodes.look_up(partition, page);
        let (is_older, older_list) = older.nodes.look_up(partition, page);
        if !(is_newer | is_older) {
            return None;
        }
        let chunks = select_unpredictable(is_newer, &newer.chunks, &older.chunks);
        let list = select_unpredictable(is_newer, newer_list, older_list);
        let found = chunks.find(list, line);
        if found.is_some() || !(is_newer & is_older) {
            return found;
        }
        older.find_older(older_list, line)
    }

    #[inline]
    fn has_page(&self, lpa: Lpa) -> bool {
        self.list(lpa).is_some()
    }

    fn lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        self.chunks.lines(self.list(lpa))
    }

    fn remove_line(&mut self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let (partition, page) = self.split(lpa);
        let place = self.nodes.find(partition, page)?;
        let mut list = self.nodes.list(place);
        if self.chunks.is_one_line(list) {
            let slot = self.chunks.find(list, line)?;
            self.remove_page(lpa);
            return Some(slot);
        }
        let slot = self.chunks.remove(&mut list, line)?;
        self.nodes.set_list(place, list);
        Some(slot)
    }

    fn remove_page(&mut self, lpa: Lpa) -> bool {
        let (partition, page) = self.split(lpa);
        let Some(place) = self.nodes.find(partition, page) else {
            return false;
        };
        self.chunks.give_back(self.nodes.list(place));
        self.nodes.remove(partition, place);
        self.finger = None;
        self.page_count -= 1;
        true
    }

    fn next_page(&self, cursor: &mut IndexCursor) -> Option<Lpa> {
        let (mut partition, mut page) = self.split(Lpa::new(cursor.0 as u64));
        while partition < self.nodes.partitions() {
            if let Some(found) = self.nodes.first_from(partition, page) {
                let lpa = (partition as u64) << self.partition_bits | u64::from(found);
                cursor.0 = lpa as usize + 1;
                return Some(Lpa::new(lpa));
            }
            (partition, page) = (partition + 1, 0);
        }
        cursor.0 = cursor.0.max(partition << self.partition_bits);
        None
    }

    fn fill(&mut self, lines: impl Iterator<Item = Placed> + Clone, replaced: impl FnMut(LogSlot)) {
        self.fill_by_page(lines, replaced);
    }

    fn page_count(&self) -> usize {
        self.page_count
    }

    fn reset(&mut self) {
        assert!(
            self.page_count == 0,
            "the index of a half is reset only when every page has left it"
        );
    }

    fn memory(&self) -> u64 {
        self.nodes.memory() + self.chunks.memory()
    }

    fn memory_held(&self) -> u64 {
        self.nodes.held() + self.chunks.held()
    }
}
