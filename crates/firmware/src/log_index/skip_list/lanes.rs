//! The lanes of all partitions: where in the order of pages each node is.
//!
//! A lane is an array of links in one to 2^n whole cache lines: first the bounds of all links, the
//! first page that a link's node may have, and then the nodes that they lead to. So a lane of up to
//! 21 links takes two cache lines, and a lookup finds the bounds in the first one. A lane doubles
//! when it is full and stays as long until it has no link.

use super::super::line::{Line, codes, codes_mut, words, words_mut};
use super::super::reserve;
use super::compare::{VECTOR, larger};
use alloc::vec;
use alloc::vec::Vec;
use bytemuck::Zeroable;
use core::hint::select_unpredictable;
use core::ops::Range;

/// Bounds that are compared at once: those of a cache line.
const WINDOW: usize = Line::WORDS;
/// Bytes of a link: its bound and the node.
const LINK: usize = size_of::<u16>() + size_of::<u32>();

/// The lane of a partition.
#[derive(Clone, Copy)]
pub(super) struct Lane {
    /// The first of its cache lines.
    line: u32,
    links: u16,
    /// Where in it the nodes begin, in units of one: behind the bounds that there is room for.
    nodes: u16,
}

impl Lane {
    /// That of a partition without pages. It leads to the node without pages.
    const EMPTY: Self = Self::of_size(0, 0, 1);

    /// One of `2^size` cache lines.
    const fn of_size(size: u8, line: u32, links: u16) -> Self {
        let bytes = size_of::<Line>() << size;
        let nodes = (bytes / size_of::<u32>() - bytes / LINK) as u16;
        Self { line, links, nodes }
    }
    pub(super) fn is_empty(self) -> bool {
        self.line == Self::EMPTY.line
    }
    pub(super) fn links(self) -> usize {
        usize::from(self.links)
    }
    /// Base-two logarithm of its cache lines: the nodes begin behind a third of it.
    fn size(self) -> u8 {
        (3 * usize::from(self.nodes) / Line::CODES).ilog2() as u8
    }
    /// Links that it has room for.
    fn room(self) -> usize {
        (size_of::<Line>() << self.size()) / LINK
    }
    /// Where its bounds are among all words.
    fn bounds(self) -> Range<usize> {
        let start = self.line as usize * Line::WORDS;
        start..start + self.links()
    }
    /// Where its nodes are among all codes.
    fn nodes(self) -> Range<usize> {
        let start = self.line as usize * Line::CODES + usize::from(self.nodes);
        start..start + self.links()
    }
}

/// The lanes of all partitions.
#[derive(Clone)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// The cache lines of all lanes. The first one is that of no partition.
    lines: Vec<Line>,
    /// By base-two logarithm of the cache lines: those that lanes have left.
    free: Vec<Vec<u32>>,
    /// Cache lines of the lanes in use.
    used: usize,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            lines: vec![Line::zeroed()],
            free: Vec::new(),
            used: 0,
        }
    }

    /// Partitions up to the last one that ever had a page.
    pub(super) fn partitions(&self) -> usize {
        self.lanes.len()
    }

    /// Memory of what is in use.
    pub(super) fn memory(&self) -> u64 {
        let lines = self.used * size_of::<Line>();
        (lines + self.lanes.len() * size_of::<Lane>()) as u64
    }

    /// Bytes that it holds.
    pub(super) fn held(&self) -> u64 {
        let left: usize = self.free.iter().map(Vec::capacity).sum();
        let free = self.free.capacity() * size_of::<Vec<u32>>() + left * size_of::<u32>();
        let lines = self.lines.capacity() * size_of::<Line>();
        (lines + free + self.lanes.capacity() * size_of::<Lane>()) as u64
    }

    /// Cache lines that there have ever been.
    #[cfg(test)]
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// The lane of a partition.
    #[inline(always)]
    pub(super) fn lane(&self, partition: usize) -> Lane {
        self.lanes.get(partition).copied().unwrap_or(Lane::EMPTY)
    }

    /// The last link of a lane that leads to `page` or before.
    #[inline(always)]
    pub(super) fn link(&self, lane: Lane, page: u16) -> usize {
        if lane.links() > WINDOW {
            return self.link_of_many(lane, page);
        }
        last_up_to(self.lines[lane.line as usize].words(), lane.links(), page)
    }

    /// As [`Self::link`], of a lane that is too long for one comparison.
    fn link_of_many(&self, lane: Lane, page: u16) -> usize {
        let bounds = &words(&self.lines)[lane.bounds()];
        let (mut first, mut links) = (0, bounds.len());
        while links > WINDOW {
            let half = links / 2;
            let is_behind = bounds[first + half] <= page;
            first = select_unpredictable(is_behind, first + half, first);
            links -= half;
        }
        // There are more than a window in all, so one that begins further back is whole.
        let start = first.min(bounds.len() - WINDOW);
        let window = bounds[start..].first_chunk().expect("a whole window");
        start + last_up_to(window, WINDOW, page)
    }

    /// The node that a link of a lane leads to.
    #[inline(always)]
    pub(super) fn node(&self, lane: Lane, link: usize) -> u32 {
        codes(&self.lines)[lane.nodes().start + link]
    }

    /// A lane without links.
    fn take(&mut self, size: u8) -> Lane {
        self.used += 1 << size;
        let sizes = self.free.len().max(usize::from(size) + 1);
        self.free.resize(sizes, Vec::new());
        let line = self.free[usize::from(size)].pop().unwrap_or_else(|| {
            let line = self.lines.len();
            reserve(&mut self.lines, 1 << size);
            self.lines.resize(line + (1 << size), Line::zeroed());
            u32::try_from(line).expect("a half has fewer than 2^32 pages")
        });
        Lane::of_size(size, line, 0)
    }

    fn give_back(&mut self, lane: Lane) {
        self.used -= 1 << lane.size();
        self.free[usize::from(lane.size())].push(lane.line);
    }

    /// A lane of twice the room.
    fn grow(&mut self, old: Lane) -> Lane {
        let new = Lane {
            links: old.links,
            ..self.take(old.size() + 1)
        };
        words_mut(&mut self.lines).copy_within(old.bounds(), new.bounds().start);
        codes_mut(&mut self.lines).copy_within(old.nodes(), new.nodes().start);
        self.give_back(old);
        new
    }

    /// Puts a link at a place of a lane, the first one if it had none; those from there on move up.
    pub(super) fn insert(&mut self, partition: usize, at: usize, bound: u16, node: u32) {
        if partition >= self.lanes.len() {
            self.lanes.resize(partition + 1, Lane::EMPTY);
        }
        let mut lane = self.lanes[partition];
        if lane.is_empty() {
            lane = self.take(0);
        } else if lane.links() == lane.room() {
            lane = self.grow(lane);
        }
        let (bounds, nodes) = (lane.bounds(), lane.nodes());
        lane.links += 1;
        self.lanes[partition] = lane;
        let all_bounds = &mut words_mut(&mut self.lines)[lane.bounds()];
        all_bounds.copy_within(at..bounds.len(), at + 1);
        all_bounds[at] = bound;
        let all_nodes = &mut codes_mut(&mut self.lines)[lane.nodes()];
        all_nodes.copy_within(at..nodes.len(), at + 1);
        all_nodes[at] = node;
    }

    /// Gives a link a lower bound, above that of the link before it.
    pub(super) fn lower(&mut self, partition: usize, at: usize, bound: u16) {
        let lane = self.lanes[partition];
        words_mut(&mut self.lines)[lane.bounds()][at] = bound;
    }

    /// Takes a link out of a lane, and with the last link the lane; those behind it move down.
    pub(super) fn remove(&mut self, partition: usize, at: usize) {
        let lane = self.lanes[partition];
        if lane.links == 1 {
            self.lanes[partition] = Lane::EMPTY;
            return self.give_back(lane);
        }
        self.lanes[partition].links -= 1;
        let bounds = &mut words_mut(&mut self.lines)[lane.bounds()];
        bounds.copy_within(at + 1.., at);
        // Pages before the first node's are its own.
        bounds[0] = 0;
        codes_mut(&mut self.lines)[lane.nodes()].copy_within(at + 1.., at);
    }
}

/// The last of some bounds at the beginning that is `page` at most; the first one is.
#[inline(always)]
fn last_up_to(bounds: &[u16; WINDOW], count: usize, page: u16) -> usize {
    let [low, high] = [0, VECTOR].map(|at| {
        let vector = bounds[at..].first_chunk().expect("a window is two vectors");
        u64::from(larger(vector, page))
    });
    // The first that is larger, or the end of them.
    (low | high << VECTOR | 1 << count).trailing_zeros() as usize - 1
}
