//! Some pages of a file.

use core::ops::Range;
use std::collections::BTreeMap;

/// Pages of a word.
const WORD: u64 = u64::BITS as u64;

/// Pages by number, in ascending order: a bit each, 64 that are neighbours in a word, so that these
/// are found together. No word is empty.
#[derive(Clone, Default)]
pub(crate) struct PageSet {
    words: BTreeMap<u64, u64>,
    len: usize,
}

impl PageSet {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn contains(&self, page: u64) -> bool {
        let word = self.words.get(&(page / WORD));
        word.is_some_and(|word| word >> (page % WORD) & 1 == 1)
    }

    /// Whether one of these is there.
    pub fn has_any(&self, pages: Range<u64>) -> bool {
        let Some(last) = pages.end.checked_sub(1).filter(|last| *last >= pages.start) else {
            return false;
        };
        let mut words = self.words.range(pages.start / WORD..=last / WORD);
        words.any(|(number, word)| word & bits(*number, &pages) != 0)
    }

    /// Adds a page; says whether it was not there.
    pub fn insert(&mut self, page: u64) -> bool {
        self.insert_all(page..page + 1) > 0
    }

    /// Adds pages; says how many of them were not there.
    pub fn insert_all(&mut self, pages: Range<u64>) -> usize {
        let before = self.len;
        if pages.is_empty() {
            return 0;
        }
        for number in pages.start / WORD..=(pages.end - 1) / WORD {
            let word = self.words.entry(number).or_default();
            let new = bits(number, &pages) & !*word;
            *word |= new;
            self.len += new.count_ones() as usize;
        }
        self.len - before
    }

    /// Takes a page out; says whether it was there.
    pub fn remove(&mut self, page: u64) -> bool {
        let (number, bit) = (page / WORD, 1 << (page % WORD));
        let Some(word) = self.words.get_mut(&number).filter(|word| **word & bit != 0) else {
            return false;
        };
        *word &= !bit;
        if *word == 0 {
            self.words.remove(&number);
        }
        self.len -= 1;
        true
    }

    /// Takes the first pages out, at most so many.
    pub fn remove_first(&mut self, mut count: usize) {
        while count > 0
            && let Some(mut first) = self.words.first_entry()
        {
            let word = first.get_mut();
            let there = word.count_ones() as usize;
            if there <= count {
                first.remove();
                count -= there;
                self.len -= there;
                continue;
            }
            // The lowest bit is the first page.
            (0..count).for_each(|_| *word &= *word - 1);
            self.len -= count;
            return;
        }
    }

    /// All of them, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.words.iter().flat_map(|(number, word)| {
            let mut rest = *word;
            core::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                (bit < u64::BITS).then(|| number * WORD + u64::from(bit))
            })
        })
    }
}

/// The bits of a word that mean one of these pages, of which there is at least one.
fn bits(number: u64, pages: &Range<u64>) -> u64 {
    let first = number * WORD;
    let begin = pages.start.saturating_sub(first);
    let behind = (first + (WORD - 1)).saturating_sub(pages.end - 1);
    match begin < WORD && behind < WORD {
        true => u64::MAX << begin & u64::MAX >> behind,
        false => 0,
    }
}

/// How many pages from the first on lie behind each other before page `end`.
pub(crate) fn run_of(pages: &[u64], end: u64) -> usize {
    let Some(first) = pages.first() else {
        return 0;
    };
    let behind = pages.iter().zip(*first..end);
    behind.take_while(|(page, next)| *page == next).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use units::Stream;

    /// Whatever is done with it, it has what a set of numbers has.
    #[test]
    fn it_has_the_pages_of_a_plain_set() {
        let mut random = Stream::new(1, "page set");
        let (mut pages, mut plain) = (PageSet::default(), BTreeSet::new());
        for turn in 0..20_000 {
            let page = random.below(700);
            let range = page..page + random.below(150);
            match random.below(8) {
                0..=2 => assert_eq!(pages.insert(page), plain.insert(page)),
                3..=4 => assert_eq!(pages.remove(page), plain.remove(&page)),
                5 => {
                    let new = range.clone().filter(|page| plain.insert(*page)).count();
                    assert_eq!(pages.insert_all(range.clone()), new, "{range:?}");
                }
                6 => {
                    let count = random.below(100) as usize;
                    pages.remove_first(count);
                    plain = plain.into_iter().skip(count).collect();
                }
                _ => {
                    let has_any = plain.range(range.clone()).next().is_some();
                    assert_eq!(pages.has_any(range.clone()), has_any, "{range:?}");
                    assert_eq!(pages.contains(page), plain.contains(&page));
                }
            }
            assert_eq!(
                (pages.len(), pages.is_empty()),
                (plain.len(), plain.is_empty())
            );
            assert!(!pages.words.values().any(|word| *word == 0));
            if turn % 100 == 0 {
                assert!(pages.iter().eq(plain.iter().copied()), "turn {turn}");
            }
        }
    }

    #[test]
    fn pages_at_the_end_of_all_numbers_are_pages() {
        let mut pages = PageSet::default();
        assert!(pages.insert(u64::MAX - 1));
        assert_eq!(pages.insert_all(u64::MAX - 70..u64::MAX), 69);
        assert!(pages.has_any(0..u64::MAX) && !pages.has_any(0..u64::MAX - 70));
        assert_eq!(pages.iter().last(), Some(u64::MAX - 1));
        assert_eq!(pages.insert_all(5..5), 0);
        assert!(!pages.has_any(u64::MAX - 1..u64::MAX - 1));
    }
}
