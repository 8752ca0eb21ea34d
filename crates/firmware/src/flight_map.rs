//! A map of what is in flight: a few entries at a time, each entered and left once per request.
//!
//! Chains of nodes behind a power of two of heads, chosen by a hash. As many heads as entries at
//! least, so that nearly every chain has one node: entering and leaving take half the
//! instructions of a general hash map, which groups its entries for maps that are large. Nodes are
//! reused, so nothing is allocated once the map has grown to the most that are in flight together.
//! It is never iterated, so that no result depends on the order of hashes.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};
use rustc_hash::FxBuildHasher;

/// No node.
const NIL: u32 = u32::MAX;
/// Heads of an empty map: a power of two, as any number of heads.
const FEWEST_HEADS: usize = 64;

#[derive(Clone, Debug)]
struct Node<K, V> {
    key: K,
    value: V,
    /// The next node of the chain, or of the free ones.
    next: u32,
}

/// A map from lines, pages or other things with a number.
#[derive(Clone, Debug)]
pub struct FlightMap<K, V> {
    /// By hash: the first node.
    heads: Vec<u32>,
    nodes: Vec<Node<K, V>>,
    free: u32,
    len: usize,
}

impl<K: Copy + Eq + Hash, V: Default> FlightMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self {
            heads: vec![NIL; FEWEST_HEADS],
            nodes: Vec::new(),
            free: NIL,
            len: 0,
        }
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of `key`, if there is one.
    #[inline]
    pub fn get(&self, key: K) -> Option<&V> {
        let mut at = self.heads[self.head_of(key)];
        while let Some(node) = self.nodes.get(at as usize) {
            if node.key == key {
                return Some(&node.value);
            }
            at = node.next;
        }
        None
    }

    /// As [`FlightMap::get`], to change it.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let mut at = self.heads[self.head_of(key)];
        while let Some(node) = self.nodes.get(at as usize) {
            if node.key == key {
                return Some(&mut self.nodes[at as usize].value);
            }
            at = node.next;
        }
        None
    }

    /// The entry of `key`; a new one if there is none.
    #[inline]
    pub fn entry(&mut self, key: K) -> &mut V {
        let head = self.head_of(key);
        let first = self.heads[head];
        let mut at = first;
        while let Some(node) = self.nodes.get(at as usize) {
            if node.key == key {
                return &mut self.nodes[at as usize].value;
            }
            at = node.next;
        }
        self.insert(key, head, first)
    }

    /// Lets `act` change the entry of `key`, which there is, and removes it if `act` says so.
    #[inline]
    pub fn change(&mut self, key: K, act: impl FnOnce(&mut V) -> Leaves) {
        let is_there = self.change_any(key, act);
        assert!(is_there, "what is in flight was entered");
    }

    /// As [`FlightMap::change`], for a `key` that may have no entry; says whether there is one.
    #[inline]
    pub fn change_any(&mut self, key: K, act: impl FnOnce(&mut V) -> Leaves) -> bool {
        let head = self.head_of(key);
        let first = self.heads[head];
        let (mut before, mut at) = (NIL, first);
        loop {
            let Some(node) = self.nodes.get(at as usize) else {
                return false;
            };
            if node.key == key {
                break;
            }
            (before, at) = (at, node.next);
        }
        let node = &mut self.nodes[at as usize];
        if act(&mut node.value) == Leaves::No {
            return true;
        }
        let next = core::mem::replace(&mut node.next, self.free);
        self.free = at;
        self.len -= 1;
        match before {
            NIL => self.heads[head] = next,
            before => self.nodes[before as usize].next = next,
        }
        true
    }

    #[inline]
    fn head_of(&self, key: K) -> usize {
        FxBuildHasher.hash_one(key) as usize & (self.heads.len() - 1)
    }

    #[inline]
    fn insert(&mut self, key: K, head: usize, next: u32) -> &mut V {
        let value = V::default();
        let at = self.free;
        self.len += 1;
        if at == NIL {
            return self.insert_more(Node { key, value, next }, head);
        }
        self.heads[head] = at;
        let node = &mut self.nodes[at as usize];
        self.free = node.next;
        *node = Node { key, value, next };
        &mut node.value
    }

    /// All nodes are in use: one more, and twice the heads if there are fewer than nodes.
    #[cold]
    fn insert_more(&mut self, node: Node<K, V>, head: usize) -> &mut V {
        let at = u32::try_from(self.nodes.len()).expect("less than 2^32 is in flight");
        self.nodes.push(node);
        self.heads[head] = at;
        if self.nodes.len() > self.heads.len() {
            self.heads = vec![NIL; self.heads.len() * 2];
            for at in 0..self.nodes.len() {
                let head = self.head_of(self.nodes[at].key);
                self.nodes[at].next = core::mem::replace(&mut self.heads[head], at as u32);
            }
        }
        &mut self.nodes[at as usize].value
    }
}

/// Whether an entry leaves the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// It stays.
    No,
    /// It is removed.
    Yes,
}

impl<K: Copy + Eq + Hash, V: Default> Default for FlightMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Against a tree: a key is counted up, or down until it leaves.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u64..400, 0u8..3), 1..2000)) {
            let mut map = FlightMap::<u64, u32>::new();
            let mut model = BTreeMap::<u64, u32>::new();
            for (key, step) in steps {
                // Far apart, as keys of different tables are.
                let key = key << 37 | key;
                prop_assert_eq!(map.get(key), model.get(&key));
                prop_assert_eq!(map.get_mut(key).copied(), model.get(&key).copied());
                if !model.contains_key(&key) {
                    prop_assert!(!map.change_any(key, |_| Leaves::Yes));
                }
                if step > 0 || !model.contains_key(&key) {
                    *map.entry(key) += 1;
                    *model.entry(key).or_default() += 1;
                    continue;
                }
                map.change(key, |count| {
                    *count -= 1;
                    if *count == 0 { Leaves::Yes } else { Leaves::No }
                });
                let count = model.get_mut(&key).unwrap();
                *count -= 1;
                if *count == 0 {
                    model.remove(&key);
                }
                prop_assert_eq!(map.is_empty(), model.is_empty());
            }
            for (key, count) in model {
                prop_assert_eq!(map.get_mut(key).copied(), Some(count));
            }
        }
    }

    #[test]
    fn nodes_are_reused_and_chains_stay_short() {
        let mut map = FlightMap::<u64, u32>::new();
        for round in 0..50u64 {
            for key in 0..1000 {
                *map.entry(round * 1000 + key) = 1;
            }
            for key in 0..1000 {
                map.change(round * 1000 + key, |_| Leaves::Yes);
            }
        }
        assert!(map.is_empty());
        assert_eq!((map.nodes.len(), map.heads.len()), (1000, 1024));
    }
}
