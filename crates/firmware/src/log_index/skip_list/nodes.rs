//! The pages of all partitions in ascending order, each with its chunk list: a skip list that is
//! laid out for caches.
//!
//! The lowest level are nodes of up to ten pages; above it is a lane of links to nodes, ten side by
//! side in a segment; above that a lane with the first number of each segment. Node and segment are
//! one [`Line`] of the cache: numbers in the partition and what they lead to. So a search compares
//! three short vectors without a branch, and a processor can look up several pages at once. A link
//! leads past as many pages as chance would make it in other skip lists.
//!
//! Sources: S. Sprenger, S. Zeuch, U. Leser, "Cache-Sensitive Skip List", 2016 (lanes that are
//! arrays); J. I. Munro, T. Papadakis, R. Sedgewick, SODA 1992 (heights without chance).

use super::chunks::List;
use alloc::vec::Vec;
use wide::i16x8;

/// Pages of a node, links of a segment: what a cache line takes.
const WIDTH: usize = 10;
/// Behind every page of a partition.
const END: u16 = i16::MAX as u16;
/// Pages of a partition, at most: their numbers are smaller than [`END`].
pub(super) const MOST_PAGES: u64 = 1 << 14;
/// Segments of a lane that are found with one comparison.
const WINDOW: usize = 8;
/// Its base-two logarithm.
const WINDOW_BITS: u8 = 3;

/// How many of eight ascending numbers, [`END`] at most, are `number` at most.
#[inline(always)]
fn up_to(numbers: [u16; 8], number: u16) -> usize {
    let larger = i16x8::new(numbers.map(|own| own as i16)).simd_gt(i16x8::splat(number as i16));
    (larger.to_bitmask() | 1 << 8).trailing_zeros() as usize
}

/// A cache line of pages and their chunk lists, or of links and their nodes. Of a link, the number
/// is the first one that its node may have.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    numbers: [u16; WIDTH],
    to: [u32; WIDTH],
}

/// Bytes of a node or segment.
#[cfg(test)]
pub(super) const LINE_BYTES: u64 = size_of::<Line>() as u64;

impl Line {
    const EMPTY: Self = Self {
        numbers: [END; WIDTH],
        to: [0; WIDTH],
    };

    /// How many numbers are `number` at most.
    #[inline(always)]
    fn up_to(&self, number: u16) -> usize {
        let (eight, rest) = self.numbers.split_first_chunk().expect("a line has more");
        let counted = rest.iter().map(|own| usize::from(*own <= number));
        up_to(*eight, number) + counted.sum::<usize>()
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.numbers[WIDTH - 1] != END
    }

    /// Puts a number in its place; what is pushed out at the end.
    fn insert(&mut self, at: usize, number: u16, to: u32) -> (u16, u32) {
        let out = (self.numbers[WIDTH - 1], self.to[WIDTH - 1]);
        self.numbers.copy_within(at..WIDTH - 1, at + 1);
        self.to.copy_within(at..WIDTH - 1, at + 1);
        (self.numbers[at], self.to[at]) = (number, to);
        out
    }

    /// Takes the number at a place out; `last` comes in at the end.
    fn remove(&mut self, at: usize, last: (u16, u32)) {
        self.numbers.copy_within(at + 1.., at);
        self.to.copy_within(at + 1.., at);
        (self.numbers[WIDTH - 1], self.to[WIDTH - 1]) = last;
    }

    /// Takes out what is at `from` or behind.
    fn split(&mut self, from: usize) -> Self {
        let mut other = Self::EMPTY;
        other.numbers[..WIDTH - from].copy_from_slice(&self.numbers[from..]);
        other.to[..WIDTH - from].copy_from_slice(&self.to[from..]);
        self.numbers[from..].fill(END);
        other
    }
}

/// A partition: its lane. No links, no lane.
#[derive(Clone, Copy)]
struct Lane {
    /// The first numbers of its segments, or of as many at equal distances.
    first: [u16; WINDOW],
    /// Its first segment.
    start: u32,
    links: u16,
    /// Base-two logarithm of the segments that it has room for.
    room_bits: u8,
}

impl Lane {
    const EMPTY: Self = Self {
        first: [END; WINDOW],
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
#[derive(Clone, Default)]
pub(super) struct Nodes {
    lanes: Vec<Lane>,
    nodes: Vec<Line>,
    free_nodes: Vec<u32>,
    segments: Vec<Line>,
    /// By segment: its first number.
    upper: Vec<u16>,
    /// By base-two logarithm of the segments of a lane.
    free_lanes: Vec<Vec<u32>>,
    /// Segments of lanes that are in use.
    segments_in_use: usize,
}

impl Nodes {
    /// Partitions up to the last one that ever had a page.
    pub(super) fn partitions(&self) -> usize {
        self.lanes.len()
    }

    /// Memory of what is in use.
    pub(super) fn memory(&self) -> u64 {
        let nodes = self.nodes.len() - self.free_nodes.len();
        let lines = (nodes + self.segments_in_use) * size_of::<Line>();
        let lanes = self.lanes.len() * size_of::<Lane>();
        (lines + lanes + self.segments_in_use * size_of::<u16>()) as u64
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> u64 {
        let lines = self.nodes.capacity() + self.segments.capacity();
        let upper = self.upper.capacity() * size_of::<u16>();
        let free = self.free_nodes.capacity() * size_of::<u32>();
        let lanes = self.lanes.capacity() * size_of::<Lane>();
        (lines * size_of::<Line>() + upper + free + lanes) as u64
    }

    /// Bytes that nodes and lanes have ever taken.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.segments)
    }

    /// Number in the lane of the segment with the last link that leads to `page` or before.
    #[inline(always)]
    fn segment(&self, lane: &Lane, page: u16) -> usize {
        let nth = up_to(lane.first, page).wrapping_sub(1);
        if lane.room_bits <= WINDOW_BITS {
            return nth;
        }
        let distance = 1 << (lane.room_bits - WINDOW_BITS);
        let start = lane.start as usize + nth * distance;
        let upper = &self.upper[start..start + distance];
        let counted = upper.iter().map(|first| u16::from(*first <= page));
        nth * distance + usize::from(counted.sum::<u16>()) - 1
    }

    /// After a change of the lane: what is compared first.
    fn refresh(&mut self, partition: usize) {
        let lane = &mut self.lanes[partition];
        let (start, room) = (lane.start as usize, 1 << lane.room_bits);
        let distance = (room / WINDOW).max(1);
        lane.first = core::array::from_fn(|nth| match nth * distance < room {
            true => self.upper[start + nth * distance],
            false => END,
        });
    }

    /// The place of the first page of a partition behind `page` in the node of that page; none if
    /// the partition is empty.
    #[inline]
    fn seek(&self, partition: usize, page: u16) -> Option<Place> {
        let lane = self.lanes.get(partition)?;
        if lane.links == 0 {
            return None;
        }
        let segment = self.segment(lane, page);
        let links = &self.segments[lane.start as usize + segment];
        let link = links.up_to(page) - 1;
        let node = links.to[link];
        Some(Place {
            link: segment * WIDTH + link,
            node,
            at: self.nodes[node as usize].up_to(page),
        })
    }

    /// Where a page of a partition is.
    #[inline]
    pub(super) fn find(&self, partition: usize, page: u16) -> Option<Place> {
        let place = self.seek(partition, page)?;
        let at = place.at.max(1) - 1;
        let node = &self.nodes[place.node as usize];
        (node.numbers[at] == page).then_some(Place { at, ..place })
    }

    /// The chunk list of the page at a place.
    #[inline]
    pub(super) fn list(&self, place: Place) -> List {
        List(self.nodes[place.node as usize].to[place.at])
    }

    pub(super) fn set_list(&mut self, place: Place, list: List) {
        self.nodes[place.node as usize].to[place.at] = list.0;
    }

    /// Whether a page is there, and its chunk list, if it is: without a branch for the answer.
    #[inline(always)]
    pub(super) fn look_up(&self, partition: usize, page: u16) -> (bool, List) {
        let Some(lane) = self.lanes.get(partition).filter(|lane| lane.links > 0) else {
            return (false, List(0));
        };
        let links = &self.segments[lane.start as usize + self.segment(lane, page)];
        let node = &self.nodes[links.to[links.up_to(page) - 1] as usize];
        let at = node.up_to(page).max(1) - 1;
        (node.numbers[at] == page, List(node.to[at]))
    }

    /// The first page of a partition at or behind `page`.
    pub(super) fn first_from(&self, partition: usize, page: u16) -> Option<u16> {
        let place = self.seek(partition, page)?;
        let node = &self.nodes[place.node as usize];
        if place.at > 0 && node.numbers[place.at - 1] == page {
            return Some(page);
        }
        if place.at < WIDTH && node.numbers[place.at] != END {
            return Some(node.numbers[place.at]);
        }
        let (lane, next) = (self.lanes[partition], place.link + 1);
        if next >= usize::from(lane.links) {
            return None;
        }
        let links = &self.segments[lane.start as usize + next / WIDTH];
        let node = &self.nodes[links.to[next % WIDTH] as usize];
        Some(node.numbers[0])
    }

    /// Puts a page that is not there into its partition.
    pub(super) fn insert(&mut self, partition: usize, page: u16, list: List) -> Place {
        let place = match self.seek(partition, page) {
            Some(place) => self.with_room(partition, page, place),
            None => self.first_node(partition),
        };
        self.nodes[place.node as usize].insert(place.at, page, list.0);
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
        let line = self.nodes[old].split(kept);
        let bound = if kept == WIDTH { page } else { line.numbers[0] };
        let node = self.take_node(line);
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
        let node = self.take_node(Line::EMPTY);
        self.lanes[partition].start = self.take_lane(0);
        self.lanes[partition].room_bits = 0;
        self.insert_link(partition, 0, 0, node);
        let (link, at) = (0, 0);
        Place { link, node, at }
    }

    /// Takes a page out; its chunk list is the caller's.
    pub(super) fn remove(&mut self, partition: usize, place: Place) {
        let node = &mut self.nodes[place.node as usize];
        node.remove(place.at, (END, 0));
        if node.numbers[0] == END {
            self.free_nodes.push(place.node);
            self.remove_link(partition, place.link);
        }
    }

    fn take_node(&mut self, line: Line) -> u32 {
        if let Some(node) = self.free_nodes.pop() {
            self.nodes[node as usize] = line;
            return node;
        }
        self.nodes.push(line);
        u32::try_from(self.nodes.len() - 1).expect("a half has fewer than 2^32 pages")
    }

    /// Room for a lane, all of it unused.
    fn take_lane(&mut self, room_bits: u8) -> u32 {
        let room = 1 << room_bits;
        self.segments_in_use += room;
        let sizes = self.free_lanes.len().max(usize::from(room_bits) + 1);
        self.free_lanes.resize(sizes, Vec::new());
        let start = self.free_lanes[usize::from(room_bits)].pop();
        let start = start.map_or(self.segments.len(), |start| start as usize);
        let end = self.segments.len().max(start + room);
        self.segments.resize(end, Line::EMPTY);
        self.upper.resize(end, END);
        self.segments[start..start + room].fill(Line::EMPTY);
        self.upper[start..start + room].fill(END);
        u32::try_from(start).expect("a half has fewer than 2^32 pages")
    }

    fn give_lane(&mut self, lane: Lane) {
        self.segments_in_use -= 1 << lane.room_bits;
        self.free_lanes[usize::from(lane.room_bits)].push(lane.start);
    }

    /// A lane of twice the room.
    fn grow(&mut self, lane: Lane) -> Lane {
        let start = self.take_lane(lane.room_bits + 1);
        let (from, to) = (lane.start as usize, start as usize);
        let all = from..from + (1 << lane.room_bits);
        self.segments.copy_within(all.clone(), to);
        self.upper.copy_within(all, to);
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
        if usize::from(lane.links) == WIDTH << lane.room_bits {
            lane = self.grow(lane);
        }
        lane.links += 1;
        self.lanes[partition] = lane;
        let last = (usize::from(lane.links) - 1) / WIDTH;
        let (mut carried, mut from) = ((bound, node), at % WIDTH);
        for segment in at / WIDTH..=last {
            let place = lane.start as usize + segment;
            carried = self.segments[place].insert(from, carried.0, carried.1);
            self.upper[place] = self.segments[place].numbers[0];
            from = 0;
        }
        self.refresh(partition);
    }

    /// Takes a link out of a lane, and with the last link the lane; those behind it move down.
    fn remove_link(&mut self, partition: usize, at: usize) {
        let mut lane = self.lanes[partition];
        let last = (usize::from(lane.links) - 1) / WIDTH;
        lane.links -= 1;
        self.lanes[partition] = lane;
        if lane.links == 0 {
            return self.give_lane(lane);
        }
        let start = lane.start as usize;
        let (first, mut carried) = (at / WIDTH, (END, 0));
        for segment in (first..=last).rev() {
            let links = &mut self.segments[start + segment];
            let out = (links.numbers[0], links.to[0]);
            links.remove(if segment == first { at % WIDTH } else { 0 }, carried);
            self.upper[start + segment] = links.numbers[0];
            carried = out;
        }
        // Pages before the first node's are its own.
        self.segments[start].numbers[0] = 0;
        self.upper[start] = 0;
        self.refresh(partition);
    }
}
