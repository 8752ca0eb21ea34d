//! A heap of entries by key, for what happens late.

use super::Entry;

/// Children of a node; four keep the tree shallow and a node's children in one cache line's reach.
const ARITY: usize = 4;

/// Entries, the earliest first.
#[derive(Clone, Debug)]
pub(super) struct Heap<E>(Vec<Entry<E>>);

impl<E: Copy> Heap<E> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    /// The earliest entry.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry<E>> {
        self.0.first()
    }

    /// All entries, in no order.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry<E>> {
        self.0.iter()
    }

    pub(super) fn push(&mut self, entry: Entry<E>) {
        let heap = &mut self.0;
        heap.push(entry);
        let mut index = heap.len() - 1;
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if heap[parent].key() <= entry.key() {
                break;
            }
            heap[index] = heap[parent];
            index = parent;
        }
        heap[index] = entry;
    }

    /// Takes the earliest entry.
    pub(super) fn pop(&mut self) -> Option<Entry<E>> {
        let last = self.0.pop()?;
        let Some(first) = self.0.first().copied() else {
            return Some(last);
        };
        self.sift_down(last);
        Some(first)
    }

    /// Puts an entry in the place of the first and lets it sink. A child's key is read once: what
    /// block commands of many pages schedule comes late, and sinks through all levels.
    fn sift_down(&mut self, entry: Entry<E>) {
        let heap = self.0.as_mut_slice();
        let key = entry.key();
        let mut index = 0;
        loop {
            let first_child = index * ARITY + 1;
            let end = (first_child + ARITY).min(heap.len());
            let Some((first, others)) = heap
                .get(first_child..end)
                .and_then(|children| children.split_first())
            else {
                break;
            };
            let (mut least, mut least_key) = (first_child, first.key());
            for (nth, child) in others.iter().enumerate() {
                let key = child.key();
                if key < least_key {
                    (least, least_key) = (first_child + 1 + nth, key);
                }
            }
            if least_key >= key {
                break;
            }
            heap[index] = heap[least];
            index = least;
        }
        heap[index] = entry;
    }
}
