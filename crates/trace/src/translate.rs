//! From virtual addresses to canonical ones.

use crate::container::VirtualPage;

/// Entries of the cache of translations.
const ENTRIES: usize = 256;

/// Translates with a direct-mapped cache before a binary search in the page list. One process per
/// capture: the address space is the list's first.
#[derive(Clone)]
pub(crate) struct Translator {
    /// Virtual page + 1 (0: empty), canonical page.
    cache: Box<[(u64, u64); ENTRIES]>,
}

impl Translator {
    pub(crate) fn new() -> Self {
        Self {
            cache: Box::new([(0, 0); ENTRIES]),
        }
    }
    /// The canonical address of `addr`; `None` if its page is not in the list.
    #[inline]
    pub(crate) fn translate(&mut self, pages: &[VirtualPage], addr: u64) -> Option<u64> {
        let page = addr >> 12;
        let entry = &mut self.cache[page as usize % ENTRIES];
        if entry.0 != page + 1 {
            *entry = (page + 1, search(pages, page)?);
        }
        Some(entry.1 << 12 | addr & 0xfff)
    }
}

#[cold]
fn search(pages: &[VirtualPage], page: u64) -> Option<u64> {
    let space = pages.first()?.space;
    pages
        .binary_search(&VirtualPage { space, page })
        .ok()
        .map(|at| at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_gives_what_the_list_gives() {
        let pages: Vec<_> = (0..600)
            .map(|n| VirtualPage {
                space: 0,
                page: 7 + n * 3,
            })
            .collect();
        let mut translator = Translator::new();
        for turn in 0..3_u64 {
            for n in 0..600 {
                let addr = ((7 + n * 3) << 12) + turn;
                assert_eq!(translator.translate(&pages, addr), Some((n << 12) + turn));
            }
        }
        assert_eq!(translator.translate(&pages, 8 << 12), None);
    }
}
