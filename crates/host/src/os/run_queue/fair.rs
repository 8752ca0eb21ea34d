//! CFS: the thread that has received the least execution time comes next.

use super::RunQueue;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Picos, ThreadId};

/// A heap by (received time, thread). A waiting thread receives nothing, so keys do not change
/// while they are in it (the artifact's do).
#[derive(Clone, Debug)]
pub struct Fair(BinaryHeap<Reverse<(Picos, ThreadId)>>);

impl Fair {
    /// An empty queue for up to `thread_count` threads.
    pub fn new(thread_count: usize) -> Self {
        Self(BinaryHeap::with_capacity(thread_count))
    }
}

impl RunQueue for Fair {
    fn push(&mut self, thread: ThreadId, received: Picos) {
        self.0.push(Reverse((received, thread)));
    }
    fn pop(&mut self) -> Option<ThreadId> {
        self.0.pop().map(|Reverse((_, thread))| thread)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn least_received(&self) -> Option<(Picos, ThreadId)> {
        self.0.peek().map(|Reverse(key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_served_leaves_first_and_ties_go_to_the_lower_thread() {
        let mut queue = Fair::new(4);
        for (thread, received) in [(3, 5), (0, 9), (2, 5), (1, 7)] {
            queue.push(ThreadId::new(thread), Picos::new(received));
        }
        assert_eq!(
            queue.least_received(),
            Some((Picos::new(5), ThreadId::new(2)))
        );
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop())
            .map(ThreadId::get)
            .collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }
}
