//! Which slots hold the rows with keys from here to there: a B+-tree.
//!
//! Keys are 128 bits, in which columns are packed so that numbers order as their columns do. Leaves
//! are linked both ways. A leaf that is full is halved, but the last one stays full when a greater
//! key comes, as keys often grow. A leaf is freed when it is empty and never merged with another.
//!
//! Invariants: keys ascend within a leaf and along the links; separator i of an inner node is above
//! every key of child i − 1 and at most every key of child i; only the root may be an empty leaf.

use super::Slot;

const MOST: usize = 32;
const NONE: u32 = u32::MAX;
/// Levels of inner nodes: enough for 2³² keys in nodes that are half full.
const DEEPEST: usize = 8;

#[derive(Clone, Debug)]
struct Leaf {
    used: usize,
    keys: [u128; MOST],
    slots: [Slot; MOST],
    previous: u32,
    next: u32,
}

#[derive(Clone, Debug)]
struct Inner {
    used: usize,
    /// Separators; the first is not used.
    keys: [u128; MOST],
    children: [u32; MOST],
}

impl Leaf {
    fn empty() -> Self {
        Self {
            used: 0,
            keys: [0; MOST],
            slots: [Slot::new(0); MOST],
            previous: NONE,
            next: NONE,
        }
    }
    fn place(&self, key: u128) -> usize {
        self.keys[..self.used].partition_point(|other| *other < key)
    }
    fn insert(&mut self, place: usize, key: u128, slot: Slot) {
        self.keys.copy_within(place..self.used, place + 1);
        self.slots.copy_within(place..self.used, place + 1);
        (self.keys[place], self.slots[place]) = (key, slot);
        self.used += 1;
    }
    fn remove(&mut self, place: usize) -> Slot {
        let slot = self.slots[place];
        self.keys.copy_within(place + 1..self.used, place);
        self.slots.copy_within(place + 1..self.used, place);
        self.used -= 1;
        slot
    }
}

impl Inner {
    fn place(&self, key: u128) -> usize {
        self.keys[1..self.used].partition_point(|separator| *separator <= key)
    }
    fn insert(&mut self, place: usize, key: u128, child: u32) {
        self.keys.copy_within(place..self.used, place + 1);
        self.children.copy_within(place..self.used, place + 1);
        (self.keys[place], self.children[place]) = (key, child);
        self.used += 1;
    }
    fn remove(&mut self, place: usize) {
        self.keys.copy_within(place + 1..self.used, place);
        self.children.copy_within(place + 1..self.used, place);
        self.used -= 1;
    }
    /// The upper half, cut off.
    fn halve(&mut self) -> Self {
        let mut upper = self.clone();
        self.used = MOST / 2;
        upper.keys.copy_within(MOST / 2.., 0);
        upper.children.copy_within(MOST / 2.., 0);
        upper.used = MOST - MOST / 2;
        upper
    }
}

/// The inner nodes above a leaf, root first, each with the place of the child taken.
type Path = [(u32, usize); DEEPEST];

/// A map from unique ordered keys to slots.
#[derive(Clone, Debug)]
pub struct Tree {
    leaves: Vec<Leaf>,
    inner: Vec<Inner>,
    free_leaves: Vec<u32>,
    free_inner: Vec<u32>,
    root: u32,
    height: usize,
    keys: usize,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            leaves: vec![Leaf::empty()],
            inner: Vec::new(),
            free_leaves: Vec::new(),
            free_inner: Vec::new(),
            root: 0,
            height: 0,
            keys: 0,
        }
    }
}

fn keep<T>(nodes: &mut Vec<T>, free: &mut Vec<u32>, node: T) -> u32 {
    if let Some(place) = free.pop() {
        nodes[place as usize] = node;
        return place;
    }
    nodes.push(node);
    u32::try_from(nodes.len() - 1).expect("fewer nodes than keys, which slots bound")
}

impl Tree {
    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    fn descend(&self, key: u128, path: &mut Path) -> u32 {
        let mut node = self.root;
        for step in &mut path[..self.height] {
            let inner = &self.inner[node as usize];
            let place = inner.place(key);
            *step = (node, place);
            node = inner.children[place];
        }
        node
    }

    fn leaf_of(&self, key: u128) -> &Leaf {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inner[node as usize];
            node = inner.children[inner.place(key)];
        }
        &self.leaves[node as usize]
    }

    /// The slot under this key.
    #[must_use]
    pub fn get(&self, key: u128) -> Option<Slot> {
        let leaf = self.leaf_of(key);
        let place = leaf.place(key);
        (place < leaf.used && leaf.keys[place] == key).then(|| leaf.slots[place])
    }

    /// Adds a key that is not there.
    pub fn insert(&mut self, key: u128, slot: Slot) {
        let mut path = [(NONE, 0); DEEPEST];
        let at = self.descend(key, &mut path);
        let leaf = &mut self.leaves[at as usize];
        let place = leaf.place(key);
        assert!(
            place == leaf.used || leaf.keys[place] != key,
            "key {key:#x} is in the tree already"
        );
        self.keys += 1;
        if leaf.used < MOST {
            leaf.insert(place, key, slot);
            return;
        }
        let (separator, upper) = self.split(at, place, key, slot);
        self.add_child(&path, separator, upper);
    }

    /// Makes two leaves of a full one and a new key.
    fn split(&mut self, at: u32, place: usize, key: u128, slot: Slot) -> (u128, u32) {
        let lower = &mut self.leaves[at as usize];
        let is_last = place == MOST && lower.next == NONE;
        let kept = if is_last { MOST } else { MOST / 2 };
        let mut upper = Leaf::empty();
        upper.used = MOST - kept;
        upper.keys[..MOST - kept].copy_from_slice(&lower.keys[kept..]);
        upper.slots[..MOST - kept].copy_from_slice(&lower.slots[kept..]);
        lower.used = kept;
        if place > kept || is_last {
            upper.insert(place - kept, key, slot);
        } else {
            lower.insert(place, key, slot);
        }
        (upper.previous, upper.next) = (at, lower.next);
        let (separator, next) = (upper.keys[0], upper.next);
        let new = keep(&mut self.leaves, &mut self.free_leaves, upper);
        self.leaves[at as usize].next = new;
        if next != NONE {
            self.leaves[next as usize].previous = new;
        }
        (separator, new)
    }

    fn add_child(&mut self, path: &Path, mut separator: u128, mut child: u32) {
        for (node, place) in path[..self.height].iter().rev() {
            let inner = &mut self.inner[*node as usize];
            if inner.used < MOST {
                inner.insert(place + 1, separator, child);
                return;
            }
            let mut upper = inner.halve();
            if place + 1 > MOST / 2 {
                upper.insert(place + 1 - MOST / 2, separator, child);
            } else {
                inner.insert(place + 1, separator, child);
            }
            separator = upper.keys[0];
            child = keep(&mut self.inner, &mut self.free_inner, upper);
        }
        let mut root = Inner {
            used: 2,
            keys: [0; MOST],
            children: [NONE; MOST],
        };
        root.keys[1] = separator;
        root.children[..2].copy_from_slice(&[self.root, child]);
        self.root = keep(&mut self.inner, &mut self.free_inner, root);
        self.height += 1;
        assert!(self.height <= DEEPEST, "a tree of 2^32 keys is not deeper");
    }

    /// Removes a key and says what stood under it.
    pub fn remove(&mut self, key: u128) -> Option<Slot> {
        let mut path = [(NONE, 0); DEEPEST];
        let at = self.descend(key, &mut path);
        let leaf = &mut self.leaves[at as usize];
        let place = leaf.place(key);
        if place == leaf.used || leaf.keys[place] != key {
            return None;
        }
        let slot = leaf.remove(place);
        self.keys -= 1;
        if leaf.used == 0 && self.height > 0 {
            self.unlink(at);
            self.remove_child(&path);
        }
        Some(slot)
    }

    fn unlink(&mut self, at: u32) {
        let (previous, next) = (
            self.leaves[at as usize].previous,
            self.leaves[at as usize].next,
        );
        if previous != NONE {
            self.leaves[previous as usize].next = next;
        }
        if next != NONE {
            self.leaves[next as usize].previous = previous;
        }
        self.free_leaves.push(at);
    }

    fn remove_child(&mut self, path: &Path) {
        for (node, place) in path[..self.height].iter().rev() {
            let inner = &mut self.inner[*node as usize];
            inner.remove(*place);
            if inner.used > 0 {
                break;
            }
            self.free_inner.push(*node);
        }
        while self.height > 0 && self.inner[self.root as usize].used == 1 {
            self.free_inner.push(self.root);
            self.root = self.inner[self.root as usize].children[0];
            self.height -= 1;
        }
    }

    /// Keys from `first` to `last`, both included, ascending, with their slots.
    pub fn range(&self, first: u128, last: u128) -> impl Iterator<Item = (u128, Slot)> {
        let mut leaf = self.leaf_of(first);
        let mut place = leaf.place(first);
        std::iter::from_fn(move || {
            if place == leaf.used {
                leaf = self.leaves.get(leaf.next as usize)?;
                place = 0;
            }
            let key = *leaf.keys[..leaf.used].get(place)?;
            place += 1;
            (key <= last).then(|| (key, leaf.slots[place - 1]))
        })
    }

    /// The greatest key that is at most `key`, with its slot.
    #[must_use]
    pub fn last_to(&self, key: u128) -> Option<(u128, Slot)> {
        let mut leaf = self.leaf_of(key);
        let mut place = leaf.keys[..leaf.used].partition_point(|other| *other <= key);
        if place == 0 {
            leaf = self.leaves.get(leaf.previous as usize)?;
            place = leaf.used;
        }
        Some((leaf.keys[place - 1], leaf.slots[place - 1]))
    }

    /// Bytes of its nodes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.leaves.len() * size_of::<Leaf>() + self.inner.len() * size_of::<Inner>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::hash;
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry::Vacant;

    /// Random steps in three seasons: mostly insertions, mostly removals, both.
    fn against_a_map(keys: u64, steps: u64) {
        let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
        for step in 0..steps {
            let bits = hash(keys, step);
            let key = u128::from(hash(7, step) % keys) << 70;
            let often = [9, 1, 5][(step * 3 / steps) as usize];
            if bits % 10 >= often {
                assert_eq!(tree.remove(key), model.remove(&key), "step {step}");
            } else if let Vacant(place) = model.entry(key) {
                let slot = Slot::new(step as u32);
                tree.insert(key, slot);
                place.insert(slot);
            }
            let (first, last) = (u128::from(bits % keys) << 70, key);
            assert_eq!(tree.get(first), model.get(&first).copied());
            let below = model.range(..=first).next_back();
            assert_eq!(
                tree.last_to(first),
                below.map(|(k, s)| (*k, *s)),
                "step {step}"
            );
            if first <= last {
                let ours = tree.range(first, last).take(50);
                let theirs = model.range(first..=last).map(|(k, s)| (*k, *s)).take(50);
                assert!(ours.eq(theirs), "step {step}");
            }
        }
        assert_eq!(tree.len(), model.len());
        assert!(
            tree.range(0, u128::MAX)
                .eq(model.iter().map(|(k, s)| (*k, *s)))
        );
        for key in model.keys() {
            tree.remove(*key).unwrap();
        }
        assert!(tree.is_empty() && tree.height == 0);
        assert_eq!(tree.free_inner.len(), tree.inner.len());
        assert_eq!(tree.free_leaves.len() + 1, tree.leaves.len());
    }

    #[test]
    fn it_does_what_an_ordered_map_does() {
        against_a_map(60, 5_000);
        against_a_map(3_000, 40_000);
        against_a_map(1_000_000, 60_000);
    }

    #[test]
    fn ascending_keys_fill_their_leaves() {
        let mut tree = Tree::default();
        for key in 0..100_000 {
            tree.insert(key, Slot::new(key as u32));
        }
        assert_eq!(tree.leaves.len(), 100_000_usize.div_ceil(MOST));
        assert_eq!(tree.last_to(u128::MAX), Some((99_999, Slot::new(99_999))));
    }

    #[test]
    #[should_panic(expected = "is in the tree already")]
    fn a_key_stands_for_one_row() {
        let mut tree = Tree::default();
        tree.insert(5, Slot::new(1));
        tree.insert(5, Slot::new(2));
    }
}
