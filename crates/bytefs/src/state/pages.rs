//! Cached pages of files, and the duplicates by which changed lines are found (§4.6).

use crate::Ino;
use crate::layout::{BLOCK, LINE, LINES};
use crate::state::batch::BatchId;
use crate::state::node::{Node, Planned};
use core::iter::Peekable;
use core::ops::Range;
use port::SharedBlock;
use std::collections::btree_map::RangeMut;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Inodes of which the host may know more than their bytes, unless more are in use.
pub(crate) const MANY_NODES: usize = 1 << 16;

pub(crate) type Bytes4K = SharedBlock;

/// A page of a file.
pub(crate) struct Page {
    /// The device has it too while it is written back: it is changed by [`Page::bytes_mut`].
    pub data: Bytes4K,
    /// What the device has, where that is known and not the same.
    pub original: Option<Bytes4K>,
    /// What the device has is known: `original`, or `data` if there is none.
    pub is_known: bool,
    /// It was known until the page was overwritten as a whole, and compared then.
    pub was_compared: bool,
    /// A block is kept for it.
    pub is_reserved: bool,
    /// It is in an extent that nobody has written to, which is split when the page is written back.
    pub splits: bool,
    pub is_referenced: bool,
    /// The last batch with lines of it, or with it as a block.
    pub batch: BatchId,
    /// The last batch with it as a block: its place has it when that is durable.
    pub as_block: BatchId,
}

impl Page {
    pub fn new(data: Bytes4K, is_known: bool) -> Self {
        Self {
            data,
            original: None,
            is_known,
            was_compared: false,
            is_reserved: false,
            splits: false,
            is_referenced: true,
            batch: BatchId(0),
            as_block: BatchId(0),
        }
    }

    /// The bytes, to be changed; as a copy, while somebody else has them.
    pub fn bytes_mut(&mut self) -> &mut [u8; BLOCK] {
        Arc::make_mut(&mut self.data)
    }

    /// All bytes are others.
    fn replace(&mut self, bytes: &[u8; BLOCK]) {
        match Arc::get_mut(&mut self.data) {
            Some(data) => data.copy_from_slice(bytes),
            None => self.data = page_of(bytes),
        }
    }

    /// Remembers what the device has before the first change; says whether that took a copy.
    pub fn keep_original(&mut self) -> bool {
        let is_copied = self.is_known && self.original.is_none();
        if is_copied {
            self.original = Some(self.data.clone());
        }
        is_copied
    }

    /// The page has other bytes from now on, as a whole. Where fewer than `most` lines of a page go
    /// to the device alone, remembers what it has; not if so many differ already: the page goes as
    /// a block then, and that is of no use. Says by how many duplicates there are more.
    pub fn overwrite(&mut self, bytes: &[u8; BLOCK], most: Option<u32>) -> isize {
        let Some(most) = most.filter(|_| self.is_known) else {
            self.replace(bytes);
            return 0;
        };
        let on_device = self.original.as_ref().unwrap_or(&self.data);
        if difference(bytes, on_device, most).count_ones() < most {
            let is_kept = self.original.is_none();
            if is_kept {
                self.original = Some(core::mem::replace(&mut self.data, page_of(bytes)));
            } else {
                self.replace(bytes);
            }
            return isize::from(is_kept);
        }
        self.replace(bytes);
        self.is_known = false;
        self.was_compared = true;
        -isize::from(self.original.take().is_some())
    }

    /// The lines that the device has not; all, if it is not known what it has. Of more than `most`
    /// there may be others.
    pub fn changed(&self, most: u32) -> u64 {
        match (&self.original, self.is_known) {
            (Some(original), true) => difference(&self.data, original, most),
            (None, true) => 0,
            _ => u64::MAX,
        }
    }
}

/// Cached pages that are asked for in ascending order: those that lie behind each other share a
/// search.
pub(crate) enum InOrder<'p> {
    Run(Peekable<RangeMut<'p, u64, Page>>),
    Each(&'p mut BTreeMap<u64, Page>),
}

impl<'p> InOrder<'p> {
    /// For so many pages, from `first` on up to `last`.
    pub fn of(pages: &'p mut BTreeMap<u64, Page>, (first, last): (u64, u64), count: usize) -> Self {
        match count > 1 && last - first + 1 == count as u64 {
            true => Self::Run(pages.range_mut(first..=last).peekable()),
            false => Self::Each(pages),
        }
    }

    /// A page, if it is cached.
    pub fn find(&mut self, page: u64) -> Option<&mut Page> {
        match self {
            Self::Run(pages) => pages.next_if(|(at, _)| **at == page).map(|(_, page)| page),
            Self::Each(pages) => pages.get_mut(&page),
        }
    }
}

/// A page with these bytes.
pub(crate) fn page_of(bytes: &[u8]) -> Bytes4K {
    match Bytes4K::try_from(Arc::<[u8]>::from(bytes)) {
        Ok(page) => page,
        Err(bytes) => panic!("a page has {BLOCK} bytes, not {}", bytes.len()),
    }
}

/// Lines for which a test of their bytes holds, the first ones: looking ends behind `most` of them.
fn first_lines(most: u32, mut holds: impl FnMut(usize) -> bool) -> u64 {
    const _: () = assert!(LINES == 64, "a mask has a bit for each line");
    let (mut mask, mut count) = (0, 0);
    for line in 0..LINES {
        if holds(line) {
            mask |= 1 << line;
            count += 1;
            if count > most {
                break;
            }
        }
    }
    mask
}

/// Lines in which two pages differ; of more than `most` there may be others.
fn difference(one: &[u8; BLOCK], other: &[u8; BLOCK], most: u32) -> u64 {
    first_lines(most, |line| {
        let range = line * LINE..(line + 1) * LINE;
        // Without a branch for each word the compiler compares vectors.
        let both = one[range.clone()].iter().zip(&other[range]);
        both.fold(0, |differs, (a, b)| differs | a ^ b) != 0
    })
}

/// Lines that are not all zero; of more than `most` there may be others.
pub(crate) fn nonzero(page: &[u8; BLOCK], most: u32) -> u64 {
    first_lines(most, |line| {
        let bytes = &page[line * LINE..(line + 1) * LINE];
        bytes.iter().fold(0, |any, byte| any | byte) != 0
    })
}

/// Which cached page goes next.
pub(crate) struct Clock {
    hand: VecDeque<(Ino, u64)>,
    /// Pages of all files.
    pub cached: usize,
    /// Pages that may be cached.
    pub most: usize,
    /// Dirty pages of all files.
    pub dirty: usize,
    /// Duplicates of all files.
    pub duplicates: usize,
}

impl Clock {
    pub fn new(most: usize) -> Self {
        Self {
            hand: VecDeque::new(),
            cached: 0,
            most: most.max(16),
            dirty: 0,
            duplicates: 0,
        }
    }

    /// Whether there are more pages than there may be. Duplicates take memory as pages do (§4.6).
    fn is_over(&self) -> bool {
        self.cached + self.duplicates > self.most
    }

    /// A page is cached.
    pub fn add(&mut self, ino: Ino, page: u64) {
        self.cached += 1;
        self.hand.push_back((ino, page));
    }
}

impl super::State {
    /// Forgets inodes that nobody uses, once there are many.
    pub fn shrink_nodes(&mut self) {
        if self.nodes.len() > self.most_nodes {
            let orphans = &self.orphans;
            self.nodes
                .retain(|ino, node| !node.is_idle() || orphans.contains(ino));
            self.most_nodes = MANY_NODES.max(2 * self.nodes.len());
        }
        let nodes = &self.nodes;
        if let Some(pmem) = &mut self.pmem {
            pmem.shrink(|ino| nodes.contains_key(&ino));
        }
    }

    /// Forgets what the host knows of an inode, pages that were not written back among it.
    pub fn drop_node(&mut self, ino: Ino) {
        if let Some(mut node) = self.nodes.remove(&ino) {
            node.planned = Planned::default();
            self.drop_pages(&mut node, 0..u64::MAX);
        }
    }

    /// Forgets pages of a node, written back or not.
    pub fn drop_pages(&mut self, node: &mut Node, range: Range<u64>) {
        let gone: Vec<u64> = node.pages.range(range).map(|(at, _)| *at).collect();
        for at in gone {
            if let Some(page) = node.pages.remove(&at) {
                self.clock.cached -= 1;
                self.clock.dirty -= usize::from(node.dirty.remove(at));
                self.clock.duplicates -= usize::from(page.original.is_some());
                if page.is_reserved {
                    node.reserved -= 1;
                    self.reserved -= 1;
                }
                node.splitting -= u32::from(page.splits);
            }
        }
        node.keep_for_mapping(&mut self.reserved);
    }

    /// Drops pages of a file, and has whoever reads them just now look again.
    pub fn forget_pages(&mut self, ino: Ino, range: Range<u64>) {
        if let Some(mut node) = self.nodes.remove(&ino) {
            self.drop_pages(&mut node, range.clone());
            node.epoch.change_all();
            self.nodes.insert(ino, node);
        }
        if let Some(pmem) = &mut self.pmem {
            pmem.drop_pages(ino, range);
        }
    }

    /// Lets clean pages go until there are no more than there may be.
    pub fn shrink_pages(&mut self) {
        let mut steps = self.clock.hand.len();
        // Pages that were dropped are passed over here, so that they do not pile up.
        let is_stale = |clock: &Clock| clock.hand.len() > 2 * clock.cached + 1024;
        while (self.clock.is_over() || is_stale(&self.clock)) && steps > 0 {
            steps -= 1;
            let Some((ino, at)) = self.clock.hand.pop_front() else {
                return;
            };
            let Some(node) = self.nodes.get_mut(&ino) else {
                continue;
            };
            let Some(page) = node.pages.get_mut(&at) else {
                continue;
            };
            let is_needed = node.dirty.contains(at) || page.batch > self.committed;
            let has_room = !self.clock.is_over();
            if is_needed || has_room || page.is_referenced || node.gate.is_closed() {
                page.is_referenced &= has_room;
                self.clock.hand.push_back((ino, at));
                continue;
            }
            if page.original.is_some() {
                self.clock.duplicates -= 1;
            }
            node.pages.remove(&at);
            self.clock.cached -= 1;
            if node.is_idle() && !self.orphans.contains(&ino) {
                self.nodes.remove(&ino);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: [u8; BLOCK] = [1; BLOCK];

    fn known() -> Page {
        Page::new(Arc::new(OLD), true)
    }

    #[test]
    fn changed_lines_are_found_until_there_are_enough() {
        let mut page = known();
        assert!(page.keep_original());
        assert_eq!(page.changed(64), 0);
        let lines = [0, 3, 9, 40, 63];
        for line in lines {
            page.bytes_mut()[line * LINE + line] ^= 0x80;
        }
        let mask = |lines: &[usize]| lines.iter().fold(0, |mask, line| mask | 1_u64 << line);
        assert_eq!(page.changed(64), mask(&lines));
        assert_eq!(page.changed(5), mask(&lines), "all, if they are no more");
        assert_eq!(
            page.changed(2),
            mask(&lines[..3]),
            "more than two, and no further"
        );
        let zeroes = Page::new(Arc::new([0; BLOCK]), false);
        assert_eq!(zeroes.changed(2), u64::MAX, "nobody knows what was there");
        assert_eq!(nonzero(&zeroes.data, 2), 0);
        assert_eq!(nonzero(&OLD, 64), u64::MAX);
        assert_eq!(nonzero(&OLD, 2), 0b111);
    }

    #[test]
    fn a_page_that_is_overwritten_in_few_lines_remembers_what_the_device_has() {
        const MOST: u32 = 8;
        let with = |lines: usize| {
            let mut new = OLD;
            (0..lines).for_each(|line| new[line * LINE] = 2);
            new
        };
        let mut page = known();
        assert_eq!(page.overwrite(&with(7), Some(MOST)), 1, "that took a page");
        assert_eq!(page.original.as_deref(), Some(&OLD));
        assert_eq!(page.overwrite(&with(3), Some(MOST)), 0, "it has one");
        assert_eq!(page.changed(64), 0b111, "beside what the device has");
        assert_eq!(page.overwrite(&OLD, Some(MOST)), 0);
        assert_eq!(page.changed(64), 0, "the same again");
        assert!(page.is_known && !page.was_compared);
        let mut page = known();
        assert_eq!(page.overwrite(&with(64), None), 0);
        assert_eq!((page.data[0], page.original.is_none()), (2, true));
    }

    #[test]
    fn who_changes_a_page_that_is_written_back_changes_a_copy() {
        let changes: [fn(&mut Page); 3] = [
            |page| page.bytes_mut()[5] = 3,
            |page| assert_eq!(page.overwrite(&[3; BLOCK], None), 0),
            |page| assert_eq!(page.overwrite(&[3; BLOCK], Some(8)), 0),
        ];
        for change in changes {
            let mut page = known();
            let written = page.data.clone();
            change(&mut page);
            assert_eq!((page.data[5], &*written), (3, &OLD));
            let place = Arc::as_ptr(&page.data);
            drop(written);
            change(&mut page);
            assert_eq!(Arc::as_ptr(&page.data), place, "nobody else has it");
        }
    }

    #[test]
    fn a_page_that_is_overwritten_in_many_lines_goes_as_a_block_whatever_comes() {
        let new = [2; BLOCK];
        let mut page = known();
        assert_eq!(page.overwrite(&new, Some(8)), 0, "no duplicate is needed");
        assert_eq!((&*page.data, page.original.is_none()), (&new, true));
        assert!(!page.is_known && page.was_compared);
        assert_eq!(page.changed(8), u64::MAX);
        assert_eq!(page.overwrite(&OLD, Some(8)), 0);
        assert_eq!(page.changed(8), u64::MAX, "nobody knows what was there");
        assert!(!page.keep_original());
        let mut page = known();
        assert!(page.keep_original());
        page.bytes_mut()[0] = 2;
        assert_eq!(page.overwrite(&new, Some(8)), -1, "nor is the one it had");
        assert!(page.original.is_none() && page.was_compared);
        let mut page = Page::new(Arc::new(OLD), false);
        assert_eq!(page.overwrite(&new, Some(8)), 0);
        assert_eq!((&*page.data, page.was_compared), (&new, false));
    }
}
