//! The event queue: one deterministic order, by (time, sequence number) (architecture B3).

use units::Time;

/// Children of a node; four keep the tree shallow and a node's children in one cache line's reach.
const ARITY: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: Time,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    #[inline]
    fn key(&self) -> (Time, u64) {
        (self.time, self.sequence)
    }
}

/// Events in the order of their times; those of one time in the order in which they were pushed.
///
/// Invariant: time never runs backwards (an event is not pushed before the last one popped).
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: Vec<Entry<E>>,
    now: Time,
    next_sequence: u64,
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at the start of time.
    pub fn new() -> Self {
        Self {
            heap: Vec::with_capacity(1024),
            now: Time::ZERO,
            next_sequence: 0,
        }
    }

    /// The time of the event popped last.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// When the earliest event happens.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.time)
    }

    /// Lets time pass up to `now`, which is not after the earliest event.
    #[inline]
    pub fn advance_to(&mut self, now: Time) {
        debug_assert!(
            self.next_time().is_none_or(|next| now <= next),
            "an event would be skipped"
        );
        self.now = self.now.max(now);
    }

    /// Whether nothing is scheduled.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Schedules an event.
    #[inline]
    pub fn push(&mut self, time: Time, event: E) {
        assert!(
            time >= self.now,
            "an event at {time} is scheduled in the past of {}",
            self.now
        );
        let entry = Entry {
            time,
            sequence: self.next_sequence,
            event,
        };
        self.next_sequence += 1;
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1);
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let last = self.heap.pop()?;
        let first = if self.heap.is_empty() {
            last
        } else {
            let first = std::mem::replace(&mut self.heap[0], last);
            self.sift_down();
            first
        };
        self.now = first.time;
        Some((first.time, first.event))
    }

    fn sift_up(&mut self, mut index: usize) {
        let entry = self.heap[index];
        while index > 0 {
            let parent = (index - 1) / ARITY;
            if self.heap[parent].key() <= entry.key() {
                break;
            }
            self.heap[index] = self.heap[parent];
            index = parent;
        }
        self.heap[index] = entry;
    }

    fn sift_down(&mut self) {
        let entry = self.heap[0];
        let mut index = 0;
        loop {
            let first_child = index * ARITY + 1;
            if first_child >= self.heap.len() {
                break;
            }
            let end = (first_child + ARITY).min(self.heap.len());
            let mut least = first_child;
            for child in first_child + 1..end {
                if self.heap[child].key() < self.heap[least].key() {
                    least = child;
                }
            }
            if self.heap[least].key() >= entry.key() {
                break;
            }
            self.heap[index] = self.heap[least];
            index = least;
        }
        self.heap[index] = entry;
    }
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain stable sort: pushes and pops interleaved, pushes never in the past.
        #[test]
        fn events_come_by_time_then_by_order_of_push(steps in prop::collection::vec((0u64..50, prop::bool::ANY), 1..400)) {
            let mut queue = EventQueue::new();
            let mut model: Vec<(u64, usize)> = Vec::new();
            for (number, (delay, pops)) in steps.into_iter().enumerate() {
                let time = queue.now().as_picos() + delay;
                queue.push(Time::from_picos(time), number);
                model.push((time, number));
                if pops {
                    model.sort();
                    let expected = model.remove(0);
                    let (time, event) = queue.pop().expect("something was pushed");
                    prop_assert_eq!((time.as_picos(), event), expected);
                }
            }
            model.sort();
            for expected in model {
                let (time, event) = queue.pop().expect("the model has more");
                prop_assert_eq!((time.as_picos(), event), expected);
            }
            prop_assert!(queue.pop().is_none());
        }
    }

    #[test]
    #[should_panic(expected = "in the past")]
    fn the_past_is_closed() {
        let mut queue = EventQueue::new();
        queue.push(Time::from_picos(5), ());
        queue.pop();
        queue.push(Time::from_picos(4), ());
    }
}
