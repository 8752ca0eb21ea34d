//! Random: every waiting thread has the same chance.

use super::RunQueue;
use units::{Picos, Stream, ThreadId};

/// A uniform draw at each turn.
#[derive(Clone, Debug)]
pub struct Random {
    waiting: Vec<ThreadId>,
    stream: Stream,
}

impl Random {
    /// An empty queue for up to `thread_count` threads, drawing from `stream`.
    pub fn new(thread_count: usize, stream: Stream) -> Self {
        Self {
            waiting: Vec::with_capacity(thread_count),
            stream,
        }
    }
}

impl RunQueue for Random {
    fn push(&mut self, thread: ThreadId, _received: Picos) {
        self.waiting.push(thread);
    }
    fn pop(&mut self) -> Option<ThreadId> {
        if self.waiting.is_empty() {
            return None;
        }
        let drawn = self.stream.below(self.waiting.len() as u64) as usize;
        Some(self.waiting.swap_remove(drawn))
    }
    fn len(&self) -> usize {
        self.waiting.len()
    }
    fn least_received(&self) -> Option<(Picos, ThreadId)> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_four_threads_is_drawn_a_quarter_of_the_time() {
        let mut queue = Random::new(4, Stream::new(11, "test"));
        let mut drawn = [0u32; 4];
        for thread in 0..4 {
            queue.push(ThreadId::new(thread), Picos::ZERO);
        }
        for _ in 0..40_000 {
            let thread = queue.pop().expect("four threads wait");
            drawn[thread.index()] += 1;
            queue.push(thread, Picos::ZERO);
        }
        assert!(
            drawn.iter().all(|count| (9_600..10_400).contains(count)),
            "{drawn:?}"
        );
    }
}
