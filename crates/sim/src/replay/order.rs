//! The order that the firmware asks for: requests of one line or page wait for each other, unless
//! all are reads.

use firmware::flight_map::{FlightMap, Leaves};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use units::{LineAddr, RequestId};

/// What is under way for a key, and what waits behind it.
#[derive(Clone, Copy, Default)]
struct Place {
    readers: u32,
    has_writer: bool,
    has_waiters: bool,
}

/// Lines or pages with requests under way, by first line. No map is ever iterated.
#[derive(Default)]
pub struct Order {
    places: FlightMap<LineAddr, Place>,
    waiting: HashMap<LineAddr, VecDeque<(RequestId, bool)>, FxBuildHasher>,
}

impl Order {
    /// A request wants to go. If it may not, it waits until [`Order::leave`] gives it back.
    #[inline]
    pub fn enter(&mut self, key: LineAddr, id: RequestId, is_write: bool) -> bool {
        let place = self.places.entry(key);
        let may_go = !place.has_writer && !place.has_waiters && (!is_write || place.readers == 0);
        if may_go {
            place.has_writer = is_write;
            place.readers += u32::from(!is_write);
        } else {
            place.has_waiters = true;
            self.waiting
                .entry(key)
                .or_default()
                .push_back((id, is_write));
        }
        may_go
    }

    /// A request was answered; those that may go now are appended to `freed`.
    #[inline]
    pub fn leave(&mut self, key: LineAddr, is_write: bool, freed: &mut Vec<RequestId>) {
        let mut is_next = false;
        self.places.change(key, |place| {
            if is_write {
                place.has_writer = false;
            } else {
                place.readers -= 1;
            }
            is_next = place.readers == 0 && place.has_waiters;
            match place.readers == 0 && !place.has_waiters {
                true => Leaves::Yes,
                false => Leaves::No,
            }
        });
        if is_next {
            self.release(key, freed);
        }
    }

    /// Nothing is under way for the key: the first that waits goes, and if it reads, all reads
    /// behind it up to the next write.
    fn release(&mut self, key: LineAddr, freed: &mut Vec<RequestId>) {
        let place = self.places.get_mut(key).expect("somebody waits there");
        let queue = self.waiting.get_mut(&key).expect("somebody waits there");
        while let Some((id, is_write)) = queue.front().copied() {
            if is_write && place.readers > 0 {
                return;
            }
            queue.pop_front();
            freed.push(id);
            place.has_writer = is_write;
            place.readers += u32::from(!is_write);
            if is_write {
                break;
            }
        }
        if queue.is_empty() {
            place.has_waiters = false;
            self.waiting.remove(&key);
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: LineAddr = LineAddr::new(64);

    #[test]
    fn reads_go_together_and_a_write_goes_alone_in_order_of_arrival() {
        let mut order = Order::default();
        // R0 R1 W2 R3 R4 W5 on one key.
        let arrivals = [false, false, true, false, false, true];
        let went: Vec<bool> = arrivals
            .iter()
            .enumerate()
            .map(|(id, is_write)| order.enter(KEY, RequestId::from_index(id), *is_write))
            .collect();
        assert_eq!(went, [true, true, false, false, false, false]);
        let mut leave = |is_write| {
            let mut freed = Vec::new();
            order.leave(KEY, is_write, &mut freed);
            freed.iter().map(|id| id.get()).collect::<Vec<_>>()
        };
        assert_eq!(leave(false), [0; 0]);
        assert_eq!(leave(false), [2]);
        assert_eq!(leave(true), [3, 4]);
        assert_eq!(leave(false), [0; 0]);
        assert_eq!(leave(false), [5]);
        assert_eq!(leave(true), [0; 0]);
        assert!(order.is_empty());
    }

    #[test]
    fn other_keys_do_not_wait() {
        let mut order = Order::default();
        assert!(order.enter(KEY, RequestId::new(0), true));
        assert!(order.enter(LineAddr::new(128), RequestId::new(1), true));
    }
}
