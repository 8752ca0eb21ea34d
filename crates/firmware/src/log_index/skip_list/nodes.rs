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
use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use core::ops::Range;
use wide::{i8x16, i16x16};

/// Pages of a node: what a cache line takes.
const WIDTH: usize = 10;
/// Behind every page of a partition.
const END: u16 = i16::MAX as u16;
/// Pages of a partition, at most: their numbers are smaller than [`END`].
pub(super) const MOST_PAGES: u64 = 1 << 14;
/// Links of a lane that are compared at once.
const WINDOW: usize = 32;
/// Numbers that one comparison compares.
const VECTOR: usize = 16;

/// Which of 16 numbers, [`END`] at most, are larger than `number`: a bit each.
#[inline(always)]
fn larger(numbers: &[u16; VECTOR], number: u16) -> u32 {
    let larger = i16x16::new(numbers.map(|own| own as i16)).simd_gt(i16x16::splat(number as i16));
    i8x16::from_i16x16_saturate(larger).to_bitmask()
}

/// Which of 16 numbers are `number`: a bit each.
#[inline(always)]
fn equal(numbers: &[u16; VECTOR], number: u16) -> u32 {
    let equal = i16x16::new(numbers.map(|own| own as i16)).simd_eq(i16x16::splat(number as i16));
    i8x16::from_i16x16_saturate(equal).to_bitmask()
}

/// A cache line of pages and their chunk lists: ten numbers in ascending order, [`END`] where there
/// is no page, and behind them ten lists of two words each. A comparison takes some words more than
/// the numbers.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Node {
    words: [u16; 32],
}

/// Bytes of a node.
#[cfg(test)]
pub(super) const NODE_BYTES: u64 = size_of::<Node>() as u64;

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

/// A partition: its lane.
#[derive(Clone, Copy)]
struct Lane {
    /// Where its links begin.
    start: u32,
    links: u16,
    /// Base-two logarithm of the links that it has room for.
    room_bits: u8,
}

impl Lane {
    /// That of a partition without pages. What it leads to is the node without pages.
    const EMPTY: Self = Self {
        start: 0,
        links: 0,
        room_bits: 0,
    };
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
    lanes: Vec<Lane>,
    /// By link: the first page that its node may have, in ascending order in a lane; 0 is that of
    /// its first link. Behind the last one as many as are compared at once.
    bounds: Vec<u16>,
    /// By link + 1: its node. Before all lanes that without pages.
    to: Vec<u32>,
    /// The first one has no pages.
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    /// By base-two logarithm of the room: where lanes may begin.
    free_lanes: Vec<Vec<u32>>,
    /// Links that the lanes in use have room for.
    room: usize,
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            bounds: vec![END; WINDOW],
            to: vec![0],
            nodes: vec![Node::EMPTY],
            free_nodes: Vec::new(),
            free_lanes: Vec::new(),
            room: 0,
        }
    }

    /// Partitions up to the last one that ever had a page.
    pub(super) fn partitions(&self) -> usize {
        self.lanes.len()
    }

    /// Memory of what is in use.
    pub(super) fn memory(&self) -> u64 {
        let nodes = self.nodes.len() - 1 - self.free_nodes.len();
        let links = self.room * (size_of::<u16>() + size_of::<u32>());
        (nodes * size_of::<Node>() + links + self.lanes.len() * size_of::<Lane>()) as u64
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> u64 {
        let bounds = self.bounds.capacity() * size_of::<u16>();
        let free_lanes = self.free_lanes.iter().map(Vec::capacity).sum::<usize>();
        let numbers = self.to.capacity() + self.free_nodes.capacity() + free_lanes;
        let lanes = self.lanes.capacity() * size_of::<Lane>();
        let nodes = self.nodes.capacity() * size_of::<Node>();
        (nodes + bounds + numbers * size_of::<u32>() + lanes) as u64
    }

    /// Nodes and links that there have ever been.
    #[cfg(test)]
    pub(super) fn room(&self) -> (usize, usize) {
        (self.nodes.len(), self.to.len())
    }

    /// The lane of a partition.
    #[inline(always)]
    fn lane(&self, partition: usize) -> Lane {
        self.lanes.get(partition).copied().unwrap_or(Lane::EMPTY)
    }

    /// The last link of a lane that leads to `page` or before, as its place in `to`.
    #[inline(always)]
    fn link(&self, lane: Lane, page: u16) -> usize {
        let (mut first, mut links) = (lane.start, u32::from(lane.links));
        while links > WINDOW as u32 {
            let half = links / 2;
            let is_behind = self.bounds[(first + half) as usize] <= page;
            first = select_unpredictable(is_behind, first + half, first);
            links -= half;
        }
        let first = first as usize;
        let window = self.bounds.get(first..first + WINDOW);
        let window: &[u16; WINDOW] = window.and_then(<[u16]>::first_chunk).expect("some behind");
        let (low, high) = window.split_first_chunk().expect("a window has more");
        let high = high.first_chunk().expect("a window has as many more");
        let behind = u64::from(larger(low, page)) | u64::from(larger(high, page)) << VECTOR;
        // The first link behind the page, or the end of the lane.
        first + (behind | 1 << links).trailing_zeros() as usize
    }

    /// The place of the first page of a partition behind `page` in the node of that page; none if
    /// the partition is empty.
    fn seek(&self, partition: usize, page: u16) -> Option<Place> {
        let lane = self.lane(partition);
        if lane.links == 0 {
            return None;
        }
        let link = self.link(lane, page);
        let node = self.to[link];
        Some(Place {
            link: link - 1 - lane.start as usize,
            node,
            at: self.nodes[node as usize].up_to(page),
        })
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
        let node = self.to[self.link(self.lane(partition), page)];
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
        let (lane, next) = (self.lanes[partition], place.link + 1);
        if next >= usize::from(lane.links) {
            return None;
        }
        let node = self.to[lane.start as usize + next + 1];
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

    /// The place if its node has room for a page more, else that in one of the two that the node
    /// becomes.
    fn with_room(&mut self, partition: usize, page: u16, place: Place) -> Place {
        let old = place.node as usize;
        if !self.nodes[old].is_full() {
            return place;
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
        self.insert_link(partition, place.link + 1, bound, node);
        if page < bound {
            return place;
        }
        Place {
            link: place.link + 1,
            node,
            at: place.at - kept,
        }
    }

    /// The node of a partition that had none.
    fn first_node(&mut self, partition: usize) -> Place {
        if partition >= self.lanes.len() {
            self.lanes.resize(partition + 1, Lane::EMPTY);
        }
        let node = self.take_node(Node::EMPTY);
        self.lanes[partition].start = self.take_lane(0);
        self.insert_link(partition, 0, 0, node);
        let (link, at) = (0, 0);
        Place { link, node, at }
    }

    /// Takes a page out; its chunk list is the caller's.
    pub(super) fn remove(&mut self, partition: usize, place: Place) {
        let node = &mut self.nodes[place.node as usize];
        node.remove(place.at);
        if node.numbers()[0] == END {
            self.free_nodes.push(place.node);
            self.remove_link(partition, place.link);
        }
    }

    fn take_node(&mut self, new: Node) -> u32 {
        if let Some(node) = self.free_nodes.pop() {
            self.nodes[node as usize] = new;
            return node;
        }
        reserve(&mut self.nodes, 1);
        self.nodes.push(new);
        u32::try_from(self.nodes.len() - 1).expect("a half has fewer than 2^32 pages")
    }

    /// Room for the links of a lane, whatever they are.
    fn take_lane(&mut self, room_bits: u8) -> u32 {
        let room = 1 << room_bits;
        self.room += room;
        let sizes = self.free_lanes.len().max(usize::from(room_bits) + 1);
        self.free_lanes.resize(sizes, Vec::new());
        if let Some(start) = self.free_lanes[usize::from(room_bits)].pop() {
            return start;
        }
        let start = self.to.len() - 1;
        reserve(&mut self.to, room);
        reserve(&mut self.bounds, room);
        self.to.resize(1 + start + room, 0);
        self.bounds.resize(start + room + WINDOW, END);
        u32::try_from(start).expect("a half has fewer than 2^32 pages")
    }

    fn give_lane(&mut self, lane: Lane) {
        self.room -= 1 << lane.room_bits;
        self.free_lanes[usize::from(lane.room_bits)].push(lane.start);
    }

    /// A lane of twice the room.
    fn grow(&mut self, lane: Lane) -> Lane {
        let start = self.take_lane(lane.room_bits + 1);
        let (from, to) = (lane.start as usize, start as usize);
        let links = usize::from(lane.links);
        self.bounds.copy_within(from..from + links, to);
        self.to.copy_within(from + 1..from + 1 + links, to + 1);
        self.give_lane(lane);
        Lane {
            start,
            room_bits: lane.room_bits + 1,
            ..lane
        }
    }

    /// Puts a link at a place of a lane; those from there on move up.
    fn insert_link(&mut self, partition: usize, at: usize, bound: u16, node: u32) {
        let mut lane = self.lanes[partition];
        if usize::from(lane.links) == 1 << lane.room_bits {
            lane = self.grow(lane);
        }
        let (place, end) = (
            lane.start as usize + at,
            lane.start as usize + usize::from(lane.links),
        );
        self.bounds.copy_within(place..end, place + 1);
        self.to.copy_within(place + 1..end + 1, place + 2);
        self.bounds[place] = bound;
        self.to[place + 1] = node;
        lane.links += 1;
        self.lanes[partition] = lane;
    }

    /// Takes a link out of a lane, and with the last link the lane; those behind it move down.
    fn remove_link(&mut self, partition: usize, at: usize) {
        let lane = &mut self.lanes[partition];
        let old = *lane;
        lane.links -= 1;
        if lane.links == 0 {
            *lane = Lane::EMPTY;
            return self.give_lane(old);
        }
        let start = old.start as usize;
        let (place, end) = (start + at, start + usize::from(old.links));
        self.bounds.copy_within(place + 1..end, place);
        self.to.copy_within(place + 2..end + 1, place + 1);
        // Pages before the first node's are its own.
        self.bounds[start] = 0;
    }
}
