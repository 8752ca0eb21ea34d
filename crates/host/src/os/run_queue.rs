//! The run queue: runnable threads that no core runs, and which of them comes next.

mod fair;
mod fifo;
mod random;

pub use fair::Fair;
pub use fifo::Fifo;
pub use random::Random;

use super::SchedulerPolicy;
use units::{Picos, Stream, ThreadId};

/// A policy that decides which runnable thread runs next. Holds no more threads than it was made
/// for and allocates nothing after that.
pub trait RunQueue {
    /// Adds a thread that has received `received` (as fair queueing counts it).
    fn push(&mut self, thread: ThreadId, received: Picos);
    /// Takes out the thread that runs next.
    fn pop(&mut self) -> Option<ThreadId>;
    /// Threads that wait here.
    fn len(&self) -> usize;
    /// Whether no thread waits here.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The thread that comes next and what it has received, if that is what decides.
    fn least_received(&self) -> Option<(Picos, ThreadId)>;
}

/// The policy that the configuration names.
#[derive(Clone, Debug)]
pub enum AnyQueue {
    /// `round_robin`.
    RoundRobin(Fifo),
    /// `random`.
    Random(Random),
    /// `cfs`.
    Cfs(Fair),
}

impl AnyQueue {
    /// An empty queue of `policy` for up to `thread_count` threads; `stream` serves only `random`.
    pub fn new(policy: SchedulerPolicy, thread_count: usize, stream: Stream) -> Self {
        match policy {
            SchedulerPolicy::RoundRobin => Self::RoundRobin(Fifo::new(thread_count)),
            SchedulerPolicy::Random => Self::Random(Random::new(thread_count, stream)),
            SchedulerPolicy::Cfs => Self::Cfs(Fair::new(thread_count)),
        }
    }
}

impl RunQueue for AnyQueue {
    fn push(&mut self, thread: ThreadId, received: Picos) {
        match self {
            Self::RoundRobin(queue) => queue.push(thread, received),
            Self::Random(queue) => queue.push(thread, received),
            Self::Cfs(queue) => queue.push(thread, received),
        }
    }
    fn pop(&mut self) -> Option<ThreadId> {
        match self {
            Self::RoundRobin(queue) => queue.pop(),
            Self::Random(queue) => queue.pop(),
            Self::Cfs(queue) => queue.pop(),
        }
    }
    fn len(&self) -> usize {
        match self {
            Self::RoundRobin(queue) => queue.len(),
            Self::Random(queue) => queue.len(),
            Self::Cfs(queue) => queue.len(),
        }
    }
    fn least_received(&self) -> Option<(Picos, ThreadId)> {
        match self {
            Self::RoundRobin(queue) => queue.least_received(),
            Self::Random(queue) => queue.least_received(),
            Self::Cfs(queue) => queue.least_received(),
        }
    }
}
