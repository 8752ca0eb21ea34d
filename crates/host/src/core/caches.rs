//! The private caches and the TLB of a core as one: who fills whom, and what leaves.

use crate::cache::{CacheArray, Place};
use crate::config::CpuConfig;
use crate::core::stats::CoreStats;
use crate::page_numbers::PageNumbers;
use crate::port::HostLine;
use crate::tlb::Tlb;

#[derive(Clone)]
pub(crate) struct Caches {
    pub(crate) l1i: CacheArray,
    pub(crate) l1d: CacheArray,
    pub(crate) l2: CacheArray<true>,
    pub(crate) tlb: Tlb,
    /// When the data of each L1D line is there: a line filled from L2 is entered when it is asked
    /// for, and hits before its data has come wait for it.
    ready: Vec<u64>,
    /// The latest of `ready`: later hits need not look.
    latest: u64,
}

impl Caches {
    pub(crate) fn new(config: &CpuConfig) -> Self {
        let l1d = CacheArray::new(config.l1d, config.l1d_ways);
        Self {
            ready: vec![0; l1d.place_count()],
            l1i: CacheArray::new(config.l1i, config.l1i_ways),
            l1d,
            l2: CacheArray::new(config.l2, config.l2_ways),
            tlb: if config.tlb {
                Tlb::new(config.l1_tlb, config.l2_tlb, config.page_size)
            } else {
                Tlb::perfect(config.page_size)
            },
            latest: 0,
        }
    }
    /// From now on these numbers of pages choose the sets of their lines. Nothing is cached.
    pub(crate) fn number_pages(&mut self, numbers: &PageNumbers) {
        self.l2.number_pages(numbers);
    }
    /// Looks up a line to load: if present, when its data is there if asked for at `hit`.
    #[inline]
    pub(crate) fn load(&mut self, line: HostLine, hit: u64) -> Option<u64> {
        let place = self.l1d.access(line)?;
        Some(self.available(place, hit))
    }
    /// Looks up a line to write: if present, it becomes dirty; when it is written if asked for at
    /// `hit`.
    #[inline]
    pub(crate) fn store(&mut self, line: HostLine, hit: u64) -> Option<u64> {
        let place = self.l1d.write(line)?;
        Some(self.available(place, hit))
    }
    /// Marks a line clean in L1D and L2; says whether it was dirty in either.
    pub(crate) fn clean(&mut self, line: HostLine) -> bool {
        // Both must be asked: the copy in L2 is the older one.
        self.l1d.clean(line) | self.l2.clean(line)
    }
    /// When the data of a line of L1D are there, if asked for at `at`.
    pub(crate) fn data_at(&self, line: HostLine, at: u64) -> u64 {
        let place = self.l1d.find(line);
        place.map_or(at, |place| self.available(place, at))
    }
    #[inline]
    fn available(&self, place: Place, hit: u64) -> u64 {
        if self.latest <= hit {
            hit
        } else {
            self.ready[place.index()].max(hit)
        }
    }
    /// Puts a line into L1D, its data there at `ready`. Returns the dirty line that leaves L2.
    pub(crate) fn fill_l1d(
        &mut self,
        line: HostLine,
        is_dirty: bool,
        ready: u64,
        stats: &mut CoreStats,
    ) -> Option<HostLine> {
        let (place, victim) = self.l1d.fill(line, is_dirty);
        self.ready[place.index()] = ready;
        self.latest = self.latest.max(ready);
        let victim = victim.filter(|victim| victim.is_dirty)?;
        stats.l1d_write_backs += 1;
        if self.l2.write(victim.line).is_some() {
            return None;
        }
        let pushed = self.l2.fill(victim.line, true).1;
        dirty_line(pushed, stats)
    }
    /// Puts a line that was read into L2. Returns the dirty line that leaves.
    pub(crate) fn fill_l2(&mut self, line: HostLine, stats: &mut CoreStats) -> Option<HostLine> {
        // A dirty victim of L1D may have come before the fill of a fetch in another region only;
        // a line that is in flight is in none of the caches, so this is always a new line.
        let victim = self.l2.fill(line, false).1;
        dirty_line(victim, stats)
    }
}

fn dirty_line(victim: Option<crate::cache::Victim>, stats: &mut CoreStats) -> Option<HostLine> {
    let victim = victim.filter(|victim| victim.is_dirty)?;
    stats.l2_write_backs += 1;
    Some(victim.line)
}
