//! The pages of all partitions in ascending order, each with its chunk list: a skip list that is
//! laid out for caches.
//!
//! The lowest level are nodes, a cache line each, of up to ten pages: numbers in the partition and
//! chunk lists. Above it is a lane, an array of what each node begins with and where it is. The
//! levels above the lane need no memory: every second of its links, every fourth and so on, as in a
//! perfect skip list. A search halves a long lane until a window of 32 links is left and compares
//! these, and then the ten pages, side by side. So it has few instructions and no branch that
//! depends on the page, and a processor can look up several pages at once.
//!
//! Sources: S. Sprenger, S. Zeuch, U. Leser, "Cache-Sensitive Skip List", 2016 (lanes that are
//! arrays); J. I. Munro, T. Papadakis, R. Sedgewick, SODA 1992 (heights without chance).

use super::super::reserve;
use super::chunks::List;
use super::compare::{VECTOR, equal, larger};
use super::lanes::Lanes;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Pages of a node: what a cache line takes.
const WIDTH: usize = 10;
/// Behind every page of a partition.
const END: u16 = i16::MAX as u16;
/// Pages of a partition, at most: their numbers are smaller than [`END`].
pub(super) const MOST_PAGES: u64 = 1 << 14;

/// A cache line of pages and their chunk lists: ten numbers in ascending order, [`END`] where there
/// is no page, and behind them ten lists of two words each. A comparison takes some words more than
/// the numbers.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Node {
    words: [u16; 32],
}

impl Node {
    const EMPTY: Self = Self { words: [END; 32] };

    fn numbers(&self) -> &[u16] {
        &self.words[..WIDTH]
    }

    #[inline(always)]
    fn compared(&self) -> &[u16; VECTOR] {
        self.words.first_chunk().expect("a node has more words")
    }

    /// Whether a page is here, and its list, if it is.
    #[inline(always)]
    fn look_up(&self, page: u16) -> (bool, List) {
        let found = equal(self.compared(), page) & ((1 << WIDTH) - 1);
        // The last one, if none is found.
        let at = (found | 1 << (WIDTH - 1)).trailing_zeros() as usize;
        (found != 0, self.list(at))
    }

    /// How many pages are `page` at most.
    fn up_to(&self, page: u16) -> usize {
        (larger(self.compared(), page) | 1 << WIDTH).trailing_zeros() as usize
    }

    #[inline(always)]
    fn list(&self, at: usize) -> List {
        let [low, high] = [0, 1].map(|half| u32::from(self.words[WIDTH + 2 * at + half]));
        List(low | high << 16)
    }

    fn set_list(&mut self, at: usize, list: List) {
        self.words[WIDTH + 2 * at] = list.0 as u16;
        self.words[WIDTH + 2 * at + 1] = (list.0 >> 16) as u16;
    }

    fn is_full(&self) -> bool {
        self.numbers()[WIDTH - 1] != END
    }

    /// The words of the lists at these places.
    fn words_of(places: Range<usize>) -> Range<usize> {
        WIDTH + 2 * places.start..WIDTH + 2 * places.end
    }

    /// Puts a page in its place; there is room.
    fn insert(&mut self, at: usize, page: u16, list: List) {
        self.words.copy_within(at..WIDTH - 1, at + 1);
        let moved = Self::words_of(at..WIDTH - 1);
        self.words.copy_within(moved.clone(), moved.start + 2);
        self.words[at] = page;
        self.set_list(at, list);
    }

    /// Takes the page at a place out.
    fn remove(&mut self, at: usize) {
        self.words.copy_within(at + 1..WIDTH, at);
        let moved = Self::words_of(at + 1..WIDTH);
        self.words.copy_within(moved.clone(), moved.start - 2);
        self.words[WIDTH - 1] = END;
    }

    /// Takes out what is at `from` or behind.
    fn split(&mut self, from: usize) -> Self {
        let mut other = Self::EMPTY;
        other.words[..WIDTH - from].copy_from_slice(&self.words[from..WIDTH]);
        let lists = &self.words[Self::words_of(from..WIDTH)];
        other.words[WIDTH..][..lists.len()].copy_from_slice(lists);
        self.words[from..WIDTH].fill(END);
        other
    }
}

/// Where a page is in its partition, or would be.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Number of the link in the lane.
    link: usize,
    node: u32,
    at: usize,
}

/// The pages of all partitions.
#[derive(Clone)]
pub(super) struct Nodes {
    lanes: Lanes,
    /// The first one has no pages.
    nodes: Vec<Node>,
    free: Vec<u32>,
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            lanes: Lanes::new(),
            nodes: vec![Node::EMPTY],
            free: Vec::new(),
        }
    }

    /// Partitions up to the last one that ever had a page.
    pub(super) fn partitions(&self) -> usize {
        self.lanes.partitions()
    }

    /// Memory of what is in use.
    pub(super) fn memory(&self) -> u64 {
        let nodes = self.nodes.len() - 1 - self.free.len();
        (nodes * size_of::<Node>()) as u64 + self.lanes.memory()
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node>();
        (nodes + self.free.capacity() * size_of::<u32>()) as u64 + self.lanes.held()
    }

    /// Nodes and cache lines of lanes that there have ever been.
    #[cfg(test)]
    pub(super) fn room(&self) -> (usize, usize) {
        (self.nodes.len(), self.lanes.lines())
    }

    /// The place of the first page of a partition behind `page` in the node of that page; none if
    /// the partition is empty.
    fn seek(&self, partition: usize, page: u16) -> Option<Place> {
        let lane = self.lanes.lane(partition);
        if lane.is_empty() {
            return None;
        }
        let link = self.lanes.link(lane, page);
        let node = self.lanes.node(lane, link);
        let at = self.nodes[node as usize].up_to(page);
        Some(Place { link, node, at })
    }

    /// Where a page of a partition is.
    pub(super) fn find(&self, partition: usize, page: u16) -> Option<Place> {
        let place = self.seek(partition, page)?;
        let at = place.at.checked_sub(1)?;
        let node = &self.nodes[place.node as usize];
        (node.numbers()[at] == page).then_some(Place { at, ..place })
    }

    /// The chunk list of the page at a place.
    #[inline]
    pub(super) fn list(&self, place: Place) -> List {
        self.nodes[place.node as usize].list(place.at)
    }

    pub(super) fn set_list(&mut self, place: Place, list: List) {
        self.nodes[place.node as usize].set_list(place.at, list);
    }

    /// Whether a page is there, and its chunk list, if it is: without a branch for the answer.
    #[inline(always)]
    pub(super) fn look_up(&self, partition: usize, page: u16) -> (bool, List) {
        let lane = self.lanes.lane(partition);
        let node = self.lanes.node(lane, self.lanes.link(lane, page));
        self.nodes[node as usize].look_up(page)
    }

    /// The first page of a partition at or behind `page`.
    pub(super) fn first_from(&self, partition: usize, page: u16) -> Option<u16> {
        let place = self.seek(partition, page)?;
        let numbers = self.nodes[place.node as usize].numbers();
        if place.at > 0 && numbers[place.at - 1] == page {
            return Some(page);
        }
        if place.at < WIDTH && numbers[place.at] != END {
            return Some(numbers[place.at]);
        }
        let (lane, next) = (self.lanes.lane(partition), place.link + 1);
        if next >= lane.links() {
            return None;
        }
        let node = self.lanes.node(lane, next);
        Some(self.nodes[node as usize].numbers()[0])
    }

    /// Puts a page that is not there into its partition.
    pub(super) fn insert(&mut self, partition: usize, page: u16, list: List) -> Place {
        let place = match self.seek(partition, page) {
            Some(place) => self.with_room(partition, page, place),
            None => self.first_node(partition),
        };
        self.nodes[place.node as usize].insert(place.at, page, list);
        place
    }

    /// The place if its node has room for a page more, else that in the next one, if it is behind
    /// the node's pages, or in one of the two that the node becomes.
    fn with_room(&mut self, partition: usize, page: u16, place: Place) -> Place {
        let old = place.node as usize;
        if !self.nodes[old].is_full() {
            return place;
        }
        if place.at == WIDTH
            && let Some(node) = self.next_with_room(partition, place.link)
        {
            // Pages that come in descending order behind a full node fill nodes.
            let link = place.link + 1;
            self.lanes.lower(partition, link, page);
            return Place { link, node, at: 0 };
        }
        // Pages that come in ascending order fill nodes.
        let kept = if place.at == WIDTH { WIDTH } else { WIDTH / 2 };
        let new = self.nodes[old].split(kept);
        let bound = if kept == WIDTH {
            page
        } else {
            new.numbers()[0]
        };
        let node = self.take_node(new);
        self.lanes.insert(partition, place.link + 1, bound, node);
        if page < bound {
            return place;
        }
        Place {
            link: place.link + 1,
            node,
            at: place.at - kept,
        }
    }

    /// The node behind that of a link, if it has room for a page more.
    fn next_with_room(&self, partition: usize, link: usize) -> Option<u32> {
        let lane = self.lanes.lane(partition);
        let next = (link + 1 < lane.links()).then(|| self.lanes.node(lane, link + 1))?;
        (!self.nodes[next as usize].is_full()).then_some(next)
    }

    /// The node of a partition that had none.
    fn first_node(&mut self, partition: usize) -> Place {
        let node = self.take_node(Node::EMPTY);
        self.lanes.insert(partition, 0, 0, node);
        let (link, at) = (0, 0);
        Place { link, node, at }
    }

    /// Takes a page out; its chunk list is the caller's.
    pub(super) fn remove(&mut self, partition: usize, place: Place) {
        let node = &mut self.nodes[place.node as usize];
        node.remove(place.at);
        if node.numbers()[0] == END {
            self.free.push(place.node);
            self.lanes.remove(partition, place.link);
        }
    }

    fn take_node(&mut self, new: Node) -> u32 {
        if let Some(node) = self.free.pop() {
            self.nodes[node as usize] = new;
            return node;
        }
        reserve(&mut self.nodes, 1);
        self.nodes.push(new);
        u32::try_from(self.nodes.len() - 1).expect("a half has fewer than 2^32 pages")
    }
}
