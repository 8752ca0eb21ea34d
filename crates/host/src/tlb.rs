//! Two levels of TLB over the pages that data are mapped in, LRU, without time. An entry covers a
//! page, of 4 KiB or of 2 MiB; who asks names the 4 KiB, the chunk, that it wants.

use crate::pages::MappedPage;
use units::Lpa;

/// Ways of the first and of the second level, as on Skylake.
const L1_WAYS: usize = 4;
const L2_WAYS: usize = 12;
const EMPTY: u32 = u32::MAX;

/// Where a translation was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Translation {
    /// In the first level.
    L1,
    /// In the second level; it is in the first one now.
    L2,
    /// In neither: a page walk is needed.
    Absent,
    /// At hand, because nothing is ever walked for, but for the first time since it was
    /// invalidated: whoever unmapped the page takes notice now.
    Remapped,
}

/// The data TLBs of one core. Sets are lists in order of recency.
#[derive(Clone, Debug)]
pub struct Tlb {
    l1: Vec<[u32; L1_WAYS]>,
    l2: Vec<[u32; L2_WAYS]>,
    /// The chunk translated last, which most accesses ask for again.
    last: u32,
    /// Binary logarithm of the chunks of a page.
    chunk_bits: u32,
    /// Every page is in the first level.
    is_perfect: bool,
    /// If so, those that were invalidated and not translated since, a bit each; none before the
    /// first is.
    unmapped: Vec<u64>,
}

impl Tlb {
    /// Empty TLBs; entries are ways times a power of two, which `CpuConfig::validate` checks.
    pub fn new(l1_entries: u32, l2_entries: u32, page: MappedPage) -> Self {
        let (l1_sets, l2_sets) = (l1_entries as usize / L1_WAYS, l2_entries as usize / L2_WAYS);
        assert!(
            l1_sets.is_power_of_two() && l2_sets.is_power_of_two(),
            "TLBs have 2^n sets"
        );
        Self {
            l1: vec![[EMPTY; L1_WAYS]; l1_sets],
            l2: vec![[EMPTY; L2_WAYS]; l2_sets],
            last: EMPTY,
            chunk_bits: page.chunk_bits(),
            is_perfect: false,
            unmapped: Vec::new(),
        }
    }
    /// TLBs that never miss. A page that was invalidated is still translated at once, but the next
    /// translation says so: the operating system samples accesses by what it unmaps.
    pub fn perfect(page: MappedPage) -> Self {
        Self {
            is_perfect: true,
            ..Self::new(4, 12, page)
        }
    }
    /// The page that a chunk is of.
    #[inline]
    pub fn page_of(&self, chunk: u32) -> u32 {
        chunk >> self.chunk_bits
    }
    /// The first chunk of a chunk's page.
    pub fn first_chunk(&self, chunk: u32) -> Lpa {
        Lpa::new(u64::from(self.page_of(chunk)) << self.chunk_bits)
    }
    /// Looks the page of a chunk up.
    #[inline]
    pub fn translate(&mut self, chunk: u32) -> Translation {
        if chunk == self.last {
            Translation::L1
        } else if self.is_perfect {
            self.remap(chunk)
        } else {
            self.search(chunk)
        }
    }
    /// Whether a chunk's page is in the first level; if so it becomes the youngest of its set.
    #[inline]
    pub fn has(&mut self, chunk: u32) -> bool {
        chunk == self.last || self.search_l1(chunk)
    }
    /// Enters a chunk's page after its walk.
    pub fn insert(&mut self, chunk: u32) {
        let page = self.page_of(chunk);
        let (l1, l2) = (
            page as usize & (self.l1.len() - 1),
            page as usize & (self.l2.len() - 1),
        );
        if !bring_forward(&mut self.l1[l1], page) {
            let [a, b, c, _] = self.l1[l1];
            self.l1[l1] = [page, a, b, c];
        }
        push(&mut self.l2[l2], page);
        self.last = chunk;
    }
    /// Forgets a chunk's page, as a shootdown does; says whether it was there.
    pub fn invalidate(&mut self, chunk: u32) -> bool {
        let page = self.page_of(chunk);
        if self.page_of(self.last) == page {
            self.last = EMPTY;
        }
        if self.is_perfect {
            self.unmap(page);
            return true;
        }
        let (l1, l2) = (
            page as usize & (self.l1.len() - 1),
            page as usize & (self.l2.len() - 1),
        );
        let was_in_l1 = take(&mut self.l1[l1], page);
        take(&mut self.l2[l2], page) || was_in_l1
    }

    #[inline]
    fn is_unmapped(&self, page: u32) -> bool {
        let word = self.unmapped.get(page as usize / 64);
        word.is_some_and(|word| word >> (page % 64) & 1 != 0)
    }
    fn unmap(&mut self, page: u32) {
        let word = page as usize / 64;
        if word >= self.unmapped.len() {
            self.unmapped.resize(word + 1, 0);
        }
        self.unmapped[word] |= 1 << (page % 64);
    }
    fn remap(&mut self, chunk: u32) -> Translation {
        let page = self.page_of(chunk);
        self.last = chunk;
        if self.is_unmapped(page) {
            self.unmapped[page as usize / 64] &= !(1 << (page % 64));
            return Translation::Remapped;
        }
        Translation::L1
    }
    #[inline]
    fn search_l1(&mut self, chunk: u32) -> bool {
        let page = self.page_of(chunk);
        if self.is_perfect {
            let is_mapped = !self.is_unmapped(page);
            if is_mapped {
                self.last = chunk;
            }
            return is_mapped;
        }
        let set = page as usize & (self.l1.len() - 1);
        let is_present = bring_forward(&mut self.l1[set], page);
        if is_present {
            self.last = chunk;
        }
        is_present
    }
    fn search(&mut self, chunk: u32) -> Translation {
        if self.search_l1(chunk) {
            return Translation::L1;
        }
        let page = self.page_of(chunk);
        if self.l2[page as usize & (self.l2.len() - 1)].contains(&page) {
            self.insert(chunk);
            return Translation::L2;
        }
        Translation::Absent
    }
}

/// Makes `page` the youngest of its set of the first level, if it is there; says whether it is.
#[inline]
fn bring_forward(set: &mut [u32; L1_WAYS], page: u32) -> bool {
    let [a, b, c, d] = *set;
    if a == page {
        return true;
    }
    *set = if b == page {
        [b, a, c, d]
    } else if c == page {
        [c, a, b, d]
    } else if d == page {
        [d, a, b, c]
    } else {
        return false;
    };
    true
}

/// Makes `page` the youngest of its set, over the oldest if it is new.
fn push(set: &mut [u32], page: u32) {
    let at = set
        .iter()
        .position(|entry| *entry == page)
        .unwrap_or(set.len() - 1);
    set.copy_within(0..at, 1);
    set[0] = page;
}

fn take(set: &mut [u32], page: u32) -> bool {
    let Some(at) = set.iter().position(|entry| *entry == page) else {
        return false;
    };
    set.copy_within(at + 1.., at);
    if let Some(last) = set.last_mut() {
        *last = EMPTY;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pages_as_entries_fit_in_each_level() {
        let mut tlb = Tlb::new(64, 1536, MappedPage::Kib4);
        for page in 0..1536 {
            assert_eq!(tlb.translate(page), Translation::Absent);
            tlb.insert(page);
        }
        for page in 0..1536 {
            assert_eq!(tlb.translate(page), Translation::L2, "page {page}");
        }
        for page in 1536 - 64..1536 {
            assert_eq!(tlb.translate(page), Translation::L1);
        }
        tlb.insert(1536);
        assert_eq!(tlb.translate(0), Translation::Absent);
    }

    #[test]
    fn a_perfect_tlb_has_every_page_and_says_once_that_one_was_invalidated() {
        let mut tlb = Tlb::perfect(MappedPage::Kib4);
        for page in [0, 7, 1 << 20] {
            assert!(tlb.has(page));
            assert_eq!(tlb.translate(page), Translation::L1);
            tlb.invalidate(page);
            assert!(!tlb.has(page) && tlb.has(page + 1));
            assert_eq!(tlb.translate(page), Translation::Remapped);
            assert_eq!(tlb.translate(page), Translation::L1);
            assert!(tlb.has(page));
        }
    }

    #[test]
    fn an_entry_covers_the_chunks_of_its_page() {
        for (mut tlb, covered) in [
            (Tlb::new(64, 1536, MappedPage::Kib4), 1),
            (Tlb::new(64, 1536, MappedPage::Mib2), 512),
        ] {
            tlb.insert(1_024);
            for chunk in [1_025, 1_535, 1_536, 1_023] {
                let is_covered = (1_024..1_024 + covered).contains(&chunk);
                assert_eq!(tlb.has(chunk), is_covered, "chunk {chunk}");
            }
            assert_eq!(tlb.first_chunk(1_024 + covered - 1), Lpa::new(1_024));
            // The translation is the same one, whichever chunk is asked for last.
            assert_eq!(tlb.invalidate(1_030), covered > 1);
            assert_eq!(tlb.has(1_024), covered == 1);
        }
        let mut perfect = Tlb::perfect(MappedPage::Mib2);
        assert!(perfect.has(7));
        perfect.invalidate(500);
        assert_eq!(perfect.translate(7), Translation::Remapped);
        assert_eq!(perfect.translate(500), Translation::L1);
    }

    #[test]
    fn a_shootdown_forgets_the_page_and_no_other() {
        let mut tlb = Tlb::new(64, 1536, MappedPage::Kib4);
        tlb.insert(7);
        tlb.insert(8);
        assert!(tlb.invalidate(8));
        assert!(!tlb.invalidate(8));
        assert_eq!(tlb.translate(8), Translation::Absent);
        assert_eq!(tlb.translate(7), Translation::L1);
    }
}
