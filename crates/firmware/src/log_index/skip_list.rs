//! ByteFS's log index: partitions of the address space, each with a skip list of its pages, each
//! with an ordered list of runs of lines.
//!
//! First layer: LPA → partition of 16 MiB, by division. Second layer: a skip list ordered by page;
//! a node is 8 B and a link of 8 B for each of its levels, which holds the page that it leads to,
//! so that a search touches only the nodes that it goes to. One in four nodes of a level is in the
//! next one too: a hash of the LPA says so, for an index must not depend on anything but the
//! writes. Third layer: [`ChunkLists`]. All nodes lie in one arena with free lists.
//!
//! Pages are scanned in ascending order, not in that of first logging.
//!
//! Source: ByteFS §4.3, Fig. 3.

mod chunks;
#[cfg(test)]
mod tests;

use super::{IndexCursor, LogIndex};
use alloc::vec::Vec;
use chunks::{ChunkLists, List};
use units::{Bytes, LineInPage, LogSlot, Lpa, PageSize};

/// ByteFS §4.3.
const PARTITION: Bytes = Bytes::from_mib(16);
/// Levels of the highest node: 4^6 pages of 4 KiB are a partition.
const MOST_LEVELS: usize = 6;
/// A link to nowhere: behind every page.
const END: u64 = u64::MAX;
/// Bytes of a node, and of each of its links.
const WORD_BYTES: u64 = 8;

/// A node or the head of a partition: the place of its first word. The links follow, lowest first.
type Node = u32;

/// The skip list index of one half of the log.
#[derive(Clone)]
pub struct SkipList {
    /// By partition: its head, a node without a page; 0 before its first page.
    heads: Vec<Node>,
    /// Nodes and links. The word at 0 is nobody's.
    words: Vec<u64>,
    /// By height less one.
    free: [Vec<Node>; MOST_LEVELS],
    chunks: ChunkLists,
    page_count: usize,
    /// Words of nodes in use, heads included.
    words_in_use: u64,
    partition_bits: u32,
}

/// The way to a page: on each level the last node before it.
type Way = [Node; MOST_LEVELS];

#[inline]
fn link(page: u32, node: Node) -> u64 {
    u64::from(page) << 32 | u64::from(node)
}

/// Levels of the node of a page, from 1 on.
#[inline]
fn height(lpa: Lpa) -> usize {
    // Twice, or pages at some distances would be of one height.
    let mixed = lpa
        .get()
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let hash = (mixed ^ mixed >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (hash.trailing_zeros() as usize / 2 + 1).min(MOST_LEVELS)
}

/// The first word of a node: its chunk list and its levels.
fn pack(list: List, height: usize) -> u64 {
    u64::from(list.start)
        | u64::from(list.count) << 32
        | u64::from(list.size_bits) << 48
        | (height as u64) << 56
}

#[inline]
fn list_of(word: u64) -> List {
    List {
        start: word as u32,
        count: (word >> 32) as u16,
        size_bits: (word >> 48) as u8,
    }
}

impl SkipList {
    /// Partition and page in it.
    #[inline]
    fn split(&self, lpa: Lpa) -> (usize, u32) {
        let partition = (lpa.get() >> self.partition_bits) as usize;
        (
            partition,
            (lpa.get() & ((1 << self.partition_bits) - 1)) as u32,
        )
    }

    #[inline]
    fn next(&self, node: Node, level: usize) -> u64 {
        self.words[node as usize + 1 + level]
    }

    /// The link to the first page at or behind `page` in the partition with this head.
    #[inline]
    fn seek(&self, head: Node, page: u32) -> u64 {
        let wanted = link(page, 0);
        let (mut at, mut next) = (head, END);
        for level in (0..MOST_LEVELS).rev() {
            next = self.next(at, level);
            while next < wanted {
                at = next as Node;
                next = self.next(at, level);
            }
        }
        next
    }

    /// The node of a page.
    #[inline]
    fn node(&self, lpa: Lpa) -> Option<Node> {
        let (partition, page) = self.split(lpa);
        let head = *self.heads.get(partition)?;
        if head == 0 {
            return None;
        }
        let found = self.seek(head, page);
        ((found >> 32) as u32 == page).then_some(found as Node)
    }

    /// The way to a page in the partition with this head, and the node of the page if it is there.
    fn way(&self, head: Node, page: u32) -> (Way, Option<Node>) {
        let wanted = link(page, 0);
        let (mut at, mut next) = (head, END);
        let mut way = [head; MOST_LEVELS];
        for level in (0..MOST_LEVELS).rev() {
            next = self.next(at, level);
            while next < wanted {
                at = next as Node;
                next = self.next(at, level);
            }
            way[level] = at;
        }
        (way, ((next >> 32) as u32 == page).then_some(next as Node))
    }

    #[inline]
    fn list(&self, node: Node) -> List {
        list_of(self.words[node as usize])
    }

    fn set_list(&mut self, node: Node, list: List) {
        let height = (self.words[node as usize] >> 56) as usize;
        self.words[node as usize] = pack(list, height);
    }

    fn take_node(&mut self, height: usize) -> Node {
        self.words_in_use += 1 + height as u64;
        if let Some(node) = self.free[height - 1].pop() {
            self.words[node as usize + 1..=node as usize + height].fill(END);
            return node;
        }
        let node = self.words.len();
        self.words.resize(node + 1 + height, END);
        Node::try_from(node).expect("a half has fewer words of nodes than 2^32")
    }

    /// The head of a partition, made if it has none.
    fn head(&mut self, partition: usize) -> Node {
        if partition >= self.heads.len() {
            self.heads.resize(partition + 1, 0);
        }
        if self.heads[partition] == 0 {
            self.heads[partition] = self.take_node(MOST_LEVELS);
        }
        self.heads[partition]
    }

    fn insert_page(&mut self, lpa: Lpa, way: &Way, list: List) {
        let height = height(lpa);
        let node = self.take_node(height);
        self.words[node as usize] = pack(list, height);
        let (_, page) = self.split(lpa);
        for (level, before) in way.iter().take(height).enumerate() {
            let place = *before as usize + 1 + level;
            self.words[node as usize + 1 + level] = self.words[place];
            self.words[place] = link(page, node);
        }
        self.page_count += 1;
    }

    fn unlink(&mut self, node: Node, way: &Way) {
        let height = (self.words[node as usize] >> 56) as usize;
        for (level, before) in way.iter().take(height).enumerate() {
            self.words[*before as usize + 1 + level] = self.next(node, level);
        }
        self.words_in_use -= 1 + height as u64;
        self.free[height - 1].push(node);
        self.page_count -= 1;
    }
}

impl LogIndex for SkipList {
    fn new(page: PageSize, _first_slot: LogSlot) -> Self {
        let pages = PARTITION.get() / page.bytes().get();
        Self {
            heads: Vec::new(),
            words: alloc::vec![END],
            free: Default::default(),
            chunks: ChunkLists::new(page.line_bits()),
            page_count: 0,
            words_in_use: 0,
            partition_bits: pages.trailing_zeros(),
        }
    }

    fn insert(&mut self, lpa: Lpa, line: LineInPage, slot: LogSlot) -> Option<LogSlot> {
        let (partition, page) = self.split(lpa);
        let head = self.head(partition);
        let (way, found) = self.way(head, page);
        let Some(node) = found else {
            let list = self.chunks.create(line, slot);
            self.insert_page(lpa, &way, list);
            return None;
        };
        let mut list = self.list(node);
        let replaced = self.chunks.insert(&mut list, line, slot);
        self.set_list(node, list);
        replaced
    }

    #[inline]
    fn find(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        self.chunks.find(self.list(self.node(lpa)?), line)
    }

    fn has_page(&self, lpa: Lpa) -> bool {
        self.node(lpa).is_some()
    }

    fn lines(&self, lpa: Lpa) -> impl Iterator<Item = (LineInPage, LogSlot)> + '_ {
        let chunks = match self.node(lpa) {
            Some(node) => self.chunks.chunks(self.list(node)),
            None => &[],
        };
        chunks.iter().flat_map(|chunk| chunk.lines())
    }

    fn remove_line(&mut self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        let (partition, page) = self.split(lpa);
        let head = *self.heads.get(partition).filter(|head| **head != 0)?;
        let (way, found) = self.way(head, page);
        let node = found?;
        let mut list = self.list(node);
        let slot = self.chunks.remove(&mut list, line)?;
        self.set_list(node, list);
        if list.count == 0 {
            self.chunks.give_back(list);
            self.unlink(node, &way);
        }
        Some(slot)
    }

    fn remove_page(&mut self, lpa: Lpa) -> bool {
        let (partition, page) = self.split(lpa);
        let Some(head) = self.heads.get(partition).copied().filter(|head| *head != 0) else {
            return false;
        };
        let (way, found) = self.way(head, page);
        let Some(node) = found else { return false };
        self.chunks.give_back(self.list(node));
        self.unlink(node, &way);
        true
    }

    fn next_page(&self, cursor: &mut IndexCursor) -> Option<Lpa> {
        let (mut partition, mut page) = self.split(Lpa::new(cursor.0 as u64));
        while let Some(head) = self.heads.get(partition) {
            let found = match *head {
                0 => END,
                head => self.seek(head, page),
            };
            if found != END {
                let lpa = (partition as u64) << self.partition_bits | found >> 32;
                cursor.0 = lpa as usize + 1;
                return Some(Lpa::new(lpa));
            }
            (partition, page) = (partition + 1, 0);
        }
        cursor.0 = cursor.0.max(self.heads.len() << self.partition_bits);
        None
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
        let heads = self.heads.len() * size_of::<Node>();
        heads as u64 + self.words_in_use * WORD_BYTES + self.chunks.memory()
    }
}
