//! One request of a line at a time, unless all are reads.
//!
//! The two request channels of CXL.mem keep no order between them, and a device whose log is full
//! makes a write wait while reads are served: a read sent behind a write of the same line could
//! bring the bytes from before it. So the host keeps the order, as a home agent does: a request
//! that must not overtake waits at the host until the ones before it have been answered.

use crate::request::Pending;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use units::LineAddr;

/// The requests of one line.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Reads on their way; a write is on its way if there are none.
    reads: u32,
    /// Behind those, in order.
    waiting: VecDeque<Pending>,
}

/// The lines with a request on its way; never iterated but by the audit.
#[derive(Clone, Debug, Default)]
pub struct LineOrder {
    lines: HashMap<LineAddr, Line, FxBuildHasher>,
    waiting: usize,
}

impl LineOrder {
    /// Notes a request that wants to go. Gives it back if it may; otherwise it is kept until
    /// [`LineOrder::leave`] gives it.
    #[inline]
    pub fn enter(&mut self, pending: Pending) -> Option<Pending> {
        let is_read = !pending.op.is_write();
        match self.lines.entry(pending.line) {
            hashbrown::hash_map::Entry::Vacant(entry) => {
                entry.insert(Line {
                    reads: u32::from(is_read),
                    waiting: VecDeque::new(),
                });
            }
            hashbrown::hash_map::Entry::Occupied(mut entry) => {
                let line = entry.get_mut();
                if !is_read || line.reads == 0 || !line.waiting.is_empty() {
                    line.waiting.push_back(pending);
                    self.waiting += 1;
                    return None;
                }
                line.reads += 1;
            }
        }
        Some(pending)
    }

    /// A request of the line was answered; requests that may go now are appended to `free`.
    #[inline]
    pub fn leave(&mut self, address: LineAddr, free: &mut Vec<Pending>) {
        let line = self
            .lines
            .get_mut(&address)
            .expect("an answered request was on its way");
        line.reads = line.reads.saturating_sub(1);
        if line.reads > 0 {
            return;
        }
        while let Some(next) = line.waiting.front() {
            let is_read = !next.op.is_write();
            if !is_read && line.reads > 0 {
                break;
            }
            line.reads += u32::from(is_read);
            free.extend(line.waiting.pop_front());
            self.waiting -= 1;
            if !is_read {
                return;
            }
        }
        if line.reads == 0 {
            self.lines.remove(&address);
        }
    }

    /// Whether a write of the line is on its way or waits to go.
    pub fn is_written(&self, address: LineAddr) -> bool {
        self.lines.get(&address).is_some_and(|line| {
            line.reads == 0 || line.waiting.iter().any(|pending| pending.op.is_write())
        })
    }

    /// Requests that wait for others of their line.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Checks that nothing waits for a line with nothing on its way, given how many requests are.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self, on_their_way: u64) {
        let lines = self.lines.values();
        let known: u64 = lines.map(|line| u64::from(line.reads.max(1))).sum();
        assert_eq!(
            known, on_their_way,
            "every request on its way is known by its line"
        );
        let waiting: usize = self.lines.values().map(|line| line.waiting.len()).sum();
        assert_eq!(
            waiting, self.waiting,
            "requests that wait for their line are counted"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Purpose;
    use firmware::RequestOp;
    use units::Time;

    /// A request that can be told by the time of its issue.
    fn request(is_read: bool, number: u64) -> Pending {
        let op = if is_read {
            RequestOp::PromotionRead
        } else {
            RequestOp::Write
        };
        let at = Time::from_picos(number);
        Pending {
            purpose: Purpose::WriteBack,
            op,
            source: None,
            line: LineAddr::new(7),
            is_first_touch: false,
            issued: at,
            sent: at,
            arrived: at,
            response: None,
        }
    }

    fn free(order: &mut LineOrder) -> Vec<u64> {
        let mut free = Vec::new();
        order.leave(LineAddr::new(7), &mut free);
        free.iter()
            .map(|pending| pending.issued.as_picos())
            .collect()
    }

    #[test]
    fn reads_go_together_and_a_write_alone_each_in_its_turn() {
        let mut order = LineOrder::default();
        let kinds = [true, true, false, true, true, false, false];
        let went: Vec<bool> = (0..)
            .zip(kinds)
            .map(|(number, is_read)| order.enter(request(is_read, number)).is_some())
            .collect();
        assert_eq!(went, [true, true, false, false, false, false, false]);
        order.audit(2);
        assert_eq!(free(&mut order), [0; 0]);
        assert_eq!(free(&mut order), [2]);
        assert_eq!(free(&mut order), [3, 4]);
        assert_eq!(free(&mut order), [0; 0]);
        assert_eq!(free(&mut order), [5]);
        assert_eq!(free(&mut order), [6]);
        order.audit(1);
        assert_eq!(free(&mut order), [0; 0]);
        assert_eq!(order.waiting(), 0);
        order.audit(0);
    }
}
