//! Ranges of files, by number: a radix tree of nodes of one cache line for each file.

use alloc::vec::Vec;

const BITS: u32 = 4;
const WAYS: usize = 1 << BITS;
/// Nothing.
pub(crate) const NONE: u32 = u32::MAX;

/// The tree of one file. Of a file with a range 0 alone that range is the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Root {
    at: u32,
    levels: u32,
}

impl Root {
    pub const EMPTY: Self = Self {
        at: NONE,
        levels: 0,
    };
}

/// The nodes of all files.
#[derive(Default)]
pub(crate) struct Radix {
    nodes: Vec<[u32; WAYS]>,
    /// Nodes that are not in use: the first one, which has the next one in its first way.
    free: Option<u32>,
    used: usize,
}

const fn way(range: u32, level: u32) -> usize {
    (range >> (level * BITS)) as usize % WAYS
}

/// Whether a tree of so many levels has a place for a range.
fn has_place(range: u32, levels: u32) -> bool {
    u64::from(range) >> (levels * BITS) == 0
}

impl Radix {
    #[inline]
    pub fn get(&self, root: Root, range: u32) -> Option<u32> {
        if !has_place(range, root.levels) {
            return None;
        }
        let mut at = root.at;
        let mut shift = root.levels * BITS;
        while shift != 0 {
            shift -= BITS;
            // There are not so many nodes that nothing would be one.
            let node = self.nodes.get(at as usize)?;
            at = node[(range >> shift) as usize % WAYS];
        }
        (at != NONE).then_some(at)
    }

    /// Puts something where nothing is.
    pub fn put(&mut self, root: &mut Root, range: u32, value: u32) {
        while !has_place(range, root.levels) {
            if root.at != NONE {
                let above = self.take_node();
                self.nodes[above as usize][0] = root.at;
                root.at = above;
            }
            root.levels += 1;
        }
        if root.levels > 0 && root.at == NONE {
            root.at = self.take_node();
        }
        let mut at = root.at;
        for level in (1..root.levels).rev() {
            let below = self.nodes[at as usize][way(range, level)];
            at = match below {
                NONE => {
                    let below = self.take_node();
                    self.nodes[at as usize][way(range, level)] = below;
                    below
                }
                below => below,
            };
        }
        let place = match root.levels {
            0 => &mut root.at,
            _ => &mut self.nodes[at as usize][way(range, 0)],
        };
        debug_assert_eq!(*place, NONE);
        *place = value;
    }

    /// Takes a range out, and nodes that are empty then.
    pub fn remove(&mut self, root: &mut Root, range: u32) {
        if has_place(range, root.levels) {
            root.at = self.remove_below(root.at, root.levels, range);
        }
        if root.at == NONE {
            *root = Root::EMPTY;
        }
    }

    fn remove_below(&mut self, at: u32, levels: u32, range: u32) -> u32 {
        if levels == 0 || at == NONE {
            return NONE;
        }
        let way = way(range, levels - 1);
        let below = self.nodes[at as usize][way];
        let left = self.remove_below(below, levels - 1, range);
        self.nodes[at as usize][way] = left;
        if self.nodes[at as usize] != [NONE; WAYS] {
            return at;
        }
        self.nodes[at as usize][0] = self.free.unwrap_or(NONE);
        self.free = Some(at);
        self.used -= 1;
        NONE
    }

    /// Ranges of a file from one on, ascending, with what is there.
    pub fn from(&self, root: Root, first: u32) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        self.collect(root.at, root.levels, 0, first, &mut found);
        found
    }

    fn collect(&self, at: u32, levels: u32, base: u32, first: u32, found: &mut Vec<(u32, u32)>) {
        if at == NONE {
            return;
        }
        if levels == 0 {
            if base >= first {
                found.push((base, at));
            }
            return;
        }
        let shift = (levels - 1) * BITS;
        for (way, below) in (0..).zip(self.nodes[at as usize]) {
            let base = base | way << shift;
            let last = base | ((1_u64 << shift) - 1) as u32;
            if last >= first {
                self.collect(below, levels - 1, base, first, found);
            }
        }
    }

    fn take_node(&mut self) -> u32 {
        self.used += 1;
        match self.free {
            Some(node) => {
                let next = core::mem::replace(&mut self.nodes[node as usize][0], NONE);
                self.free = (next != NONE).then_some(next);
                node
            }
            None => {
                self.nodes.push([NONE; WAYS]);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Nodes in use, and bytes that are held for nodes.
    pub fn memory(&self) -> (usize, usize) {
        (self.used, self.nodes.capacity() * size_of::<[u32; WAYS]>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use units::Stream;

    #[test]
    fn it_holds_what_a_map_holds() {
        for seed in 0..40 {
            let mut stream = Stream::new(seed, "radix");
            let mut radix = Radix::default();
            let mut roots = [Root::EMPTY; 3];
            let mut maps = [const { BTreeMap::new() }; 3];
            let spread = 1 << stream.below(33);
            for value in 0..2000 {
                let file = stream.below(3) as usize;
                let range = stream.below(spread) as u32;
                let (root, map) = (&mut roots[file], &mut maps[file]);
                assert_eq!(radix.get(*root, range), map.get(&range).copied());
                if map.contains_key(&range) || stream.below(4) == 0 {
                    map.remove(&range);
                    radix.remove(root, range);
                } else {
                    map.insert(range, value);
                    radix.put(root, range, value);
                }
                let first = stream.below(spread) as u32;
                if value % 64 == 0 {
                    let expected: Vec<_> = map.range(first..).map(|(at, is)| (*at, *is)).collect();
                    assert_eq!(radix.from(*root, first), expected);
                }
            }
            for (root, map) in roots.iter_mut().zip(&maps) {
                for range in map.keys() {
                    radix.remove(root, *range);
                }
                assert_eq!(*root, Root::EMPTY);
            }
            assert_eq!(radix.memory().0, 0, "no node is lost");
        }
    }

    #[test]
    fn a_range_alone_takes_no_node() {
        let (mut radix, mut root) = (Radix::default(), Root::EMPTY);
        radix.put(&mut root, 0, 5);
        assert_eq!((radix.get(root, 0), radix.memory().0), (Some(5), 0));
        radix.put(&mut root, u32::MAX, 6);
        assert_eq!(
            (radix.get(root, 0), radix.get(root, u32::MAX)),
            (Some(5), Some(6))
        );
        assert_eq!(radix.get(root, 1 << 16), None);
    }
}
