//! What the placement of each kind of design is made of.

use super::chunking::Chunking;
use super::free::FreePages;
use super::plb::Plb;
use super::reclaim::ReclaimLists;
use super::{
    DemotionKind, Entry, HostConfig, HostPage, Placement, PlacementStats, ReclaimPolicy, TppConfig,
};
use crate::page_numbers::PageNumbers;
use crate::pages::MappedPage;
use std::ops::Range;
use units::{Lpa, PageSize};

impl Placement {
    /// `page_count` pages, numbered from 0, all on the device.
    pub fn new(config: &HostConfig, page: PageSize, page_count: u64) -> Self {
        Self::of_chunks(config, page, Chunking::NONE, page_count)
    }

    /// As `new`, for pages of the operating system's that may be huge, of chunks of size `page`.
    /// They move as a whole; so many host pages as are in `host.promoted` hold one each.
    pub fn mapped(
        config: &HostConfig,
        page: PageSize,
        mapped: MappedPage,
        chunk_count: u64,
    ) -> Self {
        let bits = mapped.chunk_bits();
        Self::of_chunks(config, page, Chunking { bits }, chunk_count)
    }

    pub(super) fn of_chunks(
        config: &HostConfig,
        page: PageSize,
        chunking: Chunking,
        chunk_count: u64,
    ) -> Self {
        let host_page_count = config.host_page_count(page) >> chunking.bits;
        Self {
            entries: vec![Entry::DEVICE; index_of(chunking.pages_of(chunk_count))],
            chunking,
            plb: Plb::new(config.plb, page, chunking.count()),
            lists: ReclaimLists::new(host_page_count, config.inactive_ratio, config.reclaim),
            free: FreePages::new(host_page_count, None),
            reserve: config.effective_reserve() as usize,
            is_locking: false,
            pinned: Lpa::new(0)..Lpa::new(0),
            moves: Vec::new(),
            stats: PlacementStats::default(),
        }
    }

    /// As `new`, for pages that the operating system moves as TPP does: without look-aside buffer,
    /// each locked while it is copied.
    pub fn locking(config: &HostConfig, tpp: &TppConfig, page: PageSize, page_count: u64) -> Self {
        let host_page_count = u64::from(config.host_page_count(page));
        Self {
            plb: Plb::new(tpp.migrations, page, 1),
            reserve: match config.demotion {
                DemotionKind::Written => tpp.kept_free(host_page_count) as usize,
                // Room is made when a promotion finds none.
                DemotionKind::Lost => tpp.kept_free(host_page_count).max(1) as usize,
            },
            is_locking: true,
            ..Self::new(config, page, page_count)
        }
    }

    /// As `new`, for host DRAM in sets of `ways` pages: page `p` may be in set `p` modulo their
    /// number, and room is made in that.
    pub fn in_sets(config: &HostConfig, ways: u32, page: PageSize, page_count: u64) -> Self {
        let host_page_count = config.host_page_count(page);
        Self {
            lists: ReclaimLists::in_sets(host_page_count),
            free: FreePages::new(host_page_count, Some(ways)),
            ..Self::new(config, page, page_count)
        }
    }

    /// `page_count` pages that all live on the device for good: what host DRAM holds of them is a
    /// cache's business.
    pub fn device_only(page: PageSize, page_count: u64) -> Self {
        Self {
            entries: vec![Entry::DEVICE; index_of(page_count)],
            ..Self::dram_only(page, 0)
        }
    }

    /// `page_count` pages that all live in host DRAM for good: DRAM-Only (D6).
    pub fn dram_only(page: PageSize, page_count: u64) -> Self {
        let pages = (0..index_of(page_count)).map(|index| Entry::host(HostPage::from_index(index)));
        Self {
            entries: pages.collect(),
            chunking: Chunking::NONE,
            plb: Plb::new(0, page, 1),
            lists: ReclaimLists::new(0, 1, ReclaimPolicy::Lists),
            free: FreePages::new(0, None),
            reserve: 0,
            is_locking: false,
            pinned: Lpa::new(0)..Lpa::new(0),
            moves: Vec::new(),
            stats: PlacementStats::default(),
        }
    }

    /// The same; where host pages are in sets, these numbers of pages choose them.
    pub fn number_pages(&mut self, numbers: &PageNumbers) {
        self.free.number_pages(numbers);
    }

    /// The same, with these pages pinned to the device. Of a huge page all chunks are, if one is.
    #[must_use]
    pub fn pinning(self, pinned: Range<Lpa>) -> Self {
        let end = self.chunking.pages_of(pinned.end.get()) << self.chunking.bits;
        let pinned = match pinned.is_empty() {
            true => pinned,
            false => self.chunking.first(pinned.start)..Lpa::new(end),
        };
        Self { pinned, ..self }
    }
}

fn index_of(page_count: u64) -> usize {
    assert!(
        page_count < u64::from(Entry::MIGRATING),
        "page numbers fit in 31 bits"
    );
    page_count as usize
}
