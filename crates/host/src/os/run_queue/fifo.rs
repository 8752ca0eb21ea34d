//! Round robin: threads take turns in the order in which they became runnable.

use super::RunQueue;
use std::collections::VecDeque;
use units::{Picos, ThreadId};

/// First in, first out.
#[derive(Clone, Debug)]
pub struct Fifo(VecDeque<ThreadId>);

impl Fifo {
    /// An empty queue for up to `thread_count` threads.
    pub fn new(thread_count: usize) -> Self {
        Self(VecDeque::with_capacity(thread_count))
    }
}

impl RunQueue for Fifo {
    fn push(&mut self, thread: ThreadId, _received: Picos) {
        self.0.push_back(thread);
    }
    fn pop(&mut self) -> Option<ThreadId> {
        self.0.pop_front()
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn least_received(&self) -> Option<(Picos, ThreadId)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_leave_in_the_order_of_arrival_whatever_they_received() {
        let mut queue = Fifo::new(3);
        for (thread, received) in [(2, 9), (0, 5), (1, 7)] {
            queue.push(ThreadId::new(thread), Picos::new(received));
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop())
            .map(ThreadId::get)
            .collect();
        assert_eq!(order, [2, 0, 1]);
    }
}
