//! A wheel of buckets for what happens soon: a list of entries for each slice of time, and a bit
//! set of the slices that have any.

use super::{Entry, NEVER};
use units::Time;

/// Base-two logarithm of the picoseconds of a slice: 33 ns.
const SLICE_BITS: u32 = 15;
/// Slices of the wheel, 134 us together: a page program of the paper's flash ends within.
pub(super) const SLICES: u64 = 64 * 64;
/// No entry.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<E> {
    entry: Entry<E>,
    next: u32,
}

/// Entries of fewer than `SLICES` neighbouring slices, in no order within a slice.
#[derive(Clone, Debug)]
pub(super) struct Wheel<E> {
    /// By slice modulo `SLICES`: its first node.
    heads: Box<[u32; SLICES as usize]>,
    nodes: Vec<Node<E>>,
    free: u32,
    /// A bit for each slice, and one for each word of those.
    occupied: [u64; 64],
    words: u64,
}

/// The slice that a time lies in.
#[inline]
pub(super) fn slice_of(time: Time) -> u64 {
    time.as_picos() >> SLICE_BITS
}

impl<E: Copy> Wheel<E> {
    pub(super) fn new() -> Self {
        Self {
            heads: Box::new([NIL; SLICES as usize]),
            nodes: Vec::new(),
            free: NIL,
            occupied: [0; 64],
            words: 0,
        }
    }

    /// Whether no slice has entries.
    pub(super) fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// All entries, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<E>> {
        let words = (0..64).filter(|word| self.words & 1 << word != 0);
        let slices = words.flat_map(move |word: usize| {
            let slices = (0..64).filter(move |bit| self.occupied[word] & 1 << bit != 0);
            slices.map(move |bit| word * 64 + bit)
        });
        slices.flat_map(|slice| {
            let first = self.nodes.get(self.heads[slice] as usize);
            std::iter::successors(first, |node| self.nodes.get(node.next as usize))
                .map(|node| &node.entry)
        })
    }

    /// Adds an entry to a slice.
    #[inline(always)]
    pub(super) fn push(&mut self, slice: u64, entry: Entry<E>) {
        let place = (slice % SLICES) as usize;
        let next = self.heads[place];
        let at = self.free;
        match self.nodes.get_mut(at as usize) {
            Some(free) => {
                self.heads[place] = at;
                self.free = free.next;
                *free = Node { entry, next };
            }
            None => self.heads[place] = self.add_node(Node { entry, next }),
        }
        self.occupied[place / 64] |= 1 << (place % 64);
        self.words |= 1 << (place / 64);
    }

    /// No node is free: one more.
    #[cold]
    fn add_node(&mut self, node: Node<E>) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("fewer events than 2^32 are pending")
    }

    /// The first slice after `cursor` that has entries, all of which lie less than `SLICES` slices
    /// after it; `NEVER` if none has.
    #[inline(always)]
    pub(super) fn next_slice(&self, cursor: u64) -> u64 {
        let from = cursor + 1;
        let place = (from % SLICES) as usize;
        let ahead = self.occupied[place / 64] >> (place % 64);
        if ahead != 0 {
            return from + u64::from(ahead.trailing_zeros());
        }
        // The other words in the order of time: those above this one, then from the lowest again,
        // this one last.
        let word = (place / 64) as u32;
        let turned = self.words.rotate_right(word + 1);
        if turned == 0 {
            return NEVER;
        }
        let steps = turned.trailing_zeros() + 1;
        let found = (word + steps) % 64;
        let bit = self.occupied[found as usize].trailing_zeros();
        // From the beginning of this word on.
        from - (from % 64) + u64::from(steps * 64 + bit)
    }

    /// Whether a slice has entries, which is less than `SLICES` slices ahead.
    #[inline]
    pub(super) fn has(&self, slice: u64) -> bool {
        self.heads[(slice % SLICES) as usize] != NIL
    }

    /// The node of the entry of a slice that has entries, if it has no other.
    #[inline(always)]
    pub(super) fn only_of(&self, slice: u64) -> Option<u32> {
        let at = self.heads[(slice % SLICES) as usize];
        (self.nodes[at as usize].next == NIL).then_some(at)
    }

    /// When the entry of a node happens.
    #[inline(always)]
    pub(super) fn time_of(&self, node: u32) -> Time {
        self.nodes[node as usize].entry.time
    }

    /// Takes the only entry of a slice, which is in this node.
    #[inline(always)]
    pub(super) fn take_only(&mut self, slice: u64, node: u32) -> Entry<E> {
        let place = (slice % SLICES) as usize;
        let free = std::mem::replace(&mut self.free, node);
        let node = &mut self.nodes[node as usize];
        node.next = free;
        let entry = node.entry;
        self.heads[place] = NIL;
        self.vacate(place);
        entry
    }

    /// Takes the entries of a slice, from the one that was pushed last on.
    #[inline]
    pub(super) fn drain(&mut self, slice: u64, mut take: impl FnMut(&Entry<E>)) {
        let place = (slice % SLICES) as usize;
        let mut at = std::mem::replace(&mut self.heads[place], NIL);
        while at != NIL {
            let node = &mut self.nodes[at as usize];
            take(&node.entry);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = at;
            at = next;
        }
        self.vacate(place);
    }

    /// The slice at this place has no entries any more.
    #[inline(always)]
    fn vacate(&mut self, place: usize) {
        let word = &mut self.occupied[place / 64];
        *word &= !(1 << (place % 64));
        if *word == 0 {
            self.words &= !(1 << (place / 64));
        }
    }
}
