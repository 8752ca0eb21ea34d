//! The event queue: one deterministic order, by (time, sequence number) (architecture B3).
//!
//! Three tiers: what comes next, sorted; what comes soon, in buckets of a wheel; what comes late,
//! in a heap. Most events of a device come soon, and cost a push to a list and a sort of a few.

mod heap;
mod wheel;

use heap::Heap;
use units::Time;
use wheel::{SLICES, Wheel, slice_of};

/// So many entries of a slice are sorted as they come, more of them all at once.
const FEW: usize = 16;
/// No slice: time ends long before.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: Time,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    /// Time, then order: one number, so that it is compared at once.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.time.as_picos()) << 64 | u128::from(self.sequence)
    }
}

/// Events in the order of their times; those of one time in the order in which they were pushed.
///
/// Invariants: time never runs backwards (an event is not pushed before the last one popped);
/// `current` has the events up to the end of slice `cursor`, the wheel those of fewer than
/// `SLICES` slices after it, the heap any that were too far away when they were pushed.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// The latest first.
    current: Vec<Entry<E>>,
    cursor: u64,
    wheel: Wheel<E>,
    heap: Heap<E>,
    /// The slice of the first entry of the heap.
    late: u64,
    now: Time,
    next_sequence: u64,
}

impl<E: Copy> EventQueue<E> {
    /// An empty queue at the start of time.
    pub fn new() -> Self {
        Self {
            current: Vec::with_capacity(64),
            cursor: 0,
            wheel: Wheel::new(),
            heap: Heap::new(),
            late: NEVER,
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
    pub fn next_time(&mut self) -> Option<Time> {
        self.advance();
        self.current.last().map(|entry| entry.time)
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
        self.current.is_empty() && self.wheel.is_empty() && self.heap.first().is_none()
    }

    /// When the last event happens of those that are scheduled and for which `matches` is true.
    /// Looks at all of them.
    pub fn last_time(&self, mut matches: impl FnMut(&E) -> bool) -> Option<Time> {
        let soon = self.current.iter().chain(self.wheel.entries());
        let entries = soon.chain(self.heap.entries());
        let matching = entries.filter(|entry| matches(&entry.event));
        matching.map(|entry| entry.time).max()
    }

    /// Schedules an event.
    #[inline(always)]
    pub fn push(&mut self, time: Time, event: E) {
        assert!(
            time >= self.now,
            "an event at {time} is scheduled in the past of {}",
            self.now
        );
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let slice = slice_of(time);
        // Up to the cursor it wraps to a large number.
        if slice.wrapping_sub(self.cursor + 1) < SLICES - 1 {
            self.wheel.push(
                slice,
                Entry {
                    time,
                    sequence,
                    event,
                },
            );
        } else {
            self.push_outside(time, sequence, event);
        }
    }

    /// Keeps an event that is not for the wheel; apart, and with the parts of the entry, so that
    /// most pushes save no registers and put no entry together but where it stays.
    #[inline(never)]
    fn push_outside(&mut self, time: Time, sequence: u64, event: E) {
        let entry = Entry {
            time,
            sequence,
            event,
        };
        let slice = slice_of(time);
        if slice <= self.cursor {
            insert(&mut self.current, &entry);
        } else {
            self.late = self.late.min(slice);
            self.heap.push(entry);
        }
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.pop_until(Time::MAX)
    }

    /// Takes the earliest event, if it happens up to `to`.
    #[inline(always)]
    pub fn pop_until(&mut self, to: Time) -> Option<(Time, E)> {
        if self.current.is_empty() {
            let (slice, only) = self.next_slice()?;
            match only {
                // Nearly always; it goes nowhere in between.
                Some(only) if self.wheel.time_of(only) <= to => {
                    self.cursor = slice;
                    let entry = self.wheel.take_only(slice, only);
                    self.now = entry.time;
                    return Some((entry.time, entry.event));
                }
                _ => self.take_slice(slice),
            }
        }
        let first = self.current.last()?;
        if first.time > to {
            return None;
        }
        let (time, event) = (first.time, first.event);
        self.current.truncate(self.current.len() - 1);
        self.now = time;
        Some((time, event))
    }

    /// Whether another event happens at the time of the one popped last. Those of its slice of time
    /// are `current`, so nothing else is looked at.
    #[inline]
    pub fn has_more_now(&self) -> bool {
        let first = self.current.last();
        first.is_some_and(|first| first.time == self.now)
    }

    /// If nothing is known to come next, takes the next slice up.
    #[inline]
    fn advance(&mut self) {
        if self.current.is_empty()
            && let Some((slice, _)) = self.next_slice()
        {
            self.take_slice(slice);
        }
    }

    /// The next slice that has entries, and the node of its entry if it has just one, as most have.
    #[inline(always)]
    fn next_slice(&self) -> Option<(u64, Option<u32>)> {
        let soon = self.wheel.next_slice(self.cursor);
        if soon < self.late {
            return Some((soon, self.wheel.only_of(soon)));
        }
        (self.late != NEVER).then_some((self.late, None))
    }

    /// Goes on to a slice, the next that has entries: they are what comes next.
    #[inline(never)]
    fn take_slice(&mut self, slice: u64) {
        self.cursor = slice;
        let current = &mut self.current;
        if self.wheel.has(slice) {
            self.wheel.drain(slice, |entry| match current.len() {
                0..FEW => insert(current, entry),
                _ => current.push(*entry),
            });
        }
        if self.late == slice {
            while let Some(first) = self.heap.first()
                && slice_of(first.time) == slice
            {
                current.extend(self.heap.pop());
            }
            let first = self.heap.first();
            self.late = first.map_or(NEVER, |first| slice_of(first.time));
        } else if current.len() <= FEW {
            return;
        }
        let by_key = |entry: &Entry<E>| std::cmp::Reverse(entry.key());
        current.sort_unstable_by_key(by_key);
    }
}

/// Puts an entry in its place among those that come next. Mostly that is the end, for the entries
/// of a slice come from the last that was pushed on.
#[inline(always)]
fn insert<E: Copy>(current: &mut Vec<Entry<E>>, entry: &Entry<E>) {
    let is_last = current.last().is_none_or(|last| last.key() > entry.key());
    current.extend_from_slice(std::slice::from_ref(entry));
    if !is_last {
        sift(current);
    }
}

/// Lets the last entry rise to its place.
#[inline(never)]
fn sift<E: Copy>(current: &mut [Entry<E>]) {
    let mut at = current.len() - 1;
    let entry = current[at];
    let key = entry.key();
    while at > 0 && current[at - 1].key() < key {
        current[at] = current[at - 1];
        at -= 1;
    }
    current[at] = entry;
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
        /// The same with delays of all tiers: 2 to the power of up to 32 ps are 4.3 ms.
        #[test]
        fn events_of_all_tiers_come_in_order(steps in prop::collection::vec((0u32..33, any::<u32>(), 0u8..3), 1..400)) {
            let mut queue = EventQueue::new();
            let mut model: Vec<(u64, usize)> = Vec::new();
            for (number, (bits, delay, pops)) in steps.into_iter().enumerate() {
                let delay = u64::from(delay) & ((1 << bits) - 1);
                let time = queue.now().as_picos() + delay;
                queue.push(Time::from_picos(time), number);
                model.push((time, number));
                model.sort();
                let third = model.iter().filter(|entry| entry.1 % 3 == 0);
                let last = third.map(|entry| Time::from_picos(entry.0)).max();
                prop_assert_eq!(queue.last_time(|event| event % 3 == 0), last);
                for _ in 0..usize::from(pops).min(model.len()) {
                    let expected = model.remove(0);
                    prop_assert_eq!(queue.next_time().map(Time::as_picos), Some(expected.0));
                    let at = Time::from_picos(expected.0);
                    if at > queue.now() {
                        let before = Time::from_picos(expected.0 - 1);
                        prop_assert!(queue.pop_until(before).is_none());
                    }
                    let (time, event) = queue.pop_until(at).expect("the model has one");
                    prop_assert_eq!((time.as_picos(), event), expected);
                    let more = model.first().is_some_and(|next| next.0 == expected.0);
                    prop_assert_eq!(queue.has_more_now(), more);
                }
            }
            for expected in model {
                let (time, event) = queue.pop().expect("the model has more");
                prop_assert_eq!((time.as_picos(), event), expected);
            }
            prop_assert!(queue.is_empty());
        }

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
