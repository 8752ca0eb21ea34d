//! What was fetched and not yet in the window when a thread left, and runs on all the same
//! (`cpu.fetch_ahead`), as in SkyByte's artifact, whose exception knows the reorder buffer only.
//!
//! Nothing is fetched ahead otherwise: while dispatch stands still, fetching shows nowhere else. So
//! the queue is filled when it is needed, with what fetch would have put there by then.

use super::Core;
use crate::port::{HostLine, InstructionSource, Step, Uncore};
use crate::program::Op;
use std::collections::VecDeque;

/// Pieces of a thread that has left, with their instructions.
#[derive(Clone)]
pub(crate) struct Fetched {
    pieces: VecDeque<(Step, Op)>,
    capacity: u64,
    width: u64,
    /// From fetch to dispatch.
    depth: u64,
}

impl Fetched {
    /// Of a front end that fetches `width` a cycle, `depth` cycles before dispatch.
    pub(crate) fn new(capacity: u32, width: u32, depth: u64) -> Self {
        Self {
            pieces: VecDeque::new(),
            capacity: u64::from(capacity),
            width: u64::from(width),
            depth,
        }
    }
    /// Whether nothing is left of what runs on.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

impl Core {
    /// Takes what the front end has fetched by `cycle` from `source`, which goes on behind it.
    /// Nothing was fetched behind a branch that is predicted wrong, nor code that is not in L1I.
    pub(super) fn fetch_ahead<S: InstructionSource>(&mut self, cycle: u64, source: &mut S) {
        let is_stopped = self.front.is_stopped();
        if self.fetched.capacity == 0 || is_stopped {
            return;
        }
        let mut prediction = self.predictor.ahead();
        let ahead = cycle.saturating_sub(self.front.cycle) + self.fetched.depth;
        let count = self.fetched.capacity.min(ahead * self.fetched.width);
        let mut is_wrong = false;
        for _ in 0..count {
            let Some(step) = source.peek() else { break };
            let op = source.program().op(step.inst);
            let number = self.window.tail + self.fetched.pieces.len() as u64;
            let is_in_group = self.front.is_in_group(number);
            let is_at_hand = is_in_group
                || (self.caches.l1i)
                    .find(HostLine::from_raw(op.code_line))
                    .is_some();
            if step.has_sync || op.is(Op::HELD) || !is_at_hand || is_wrong && !is_in_group {
                break;
            }
            self.fetched.pieces.push_back((step, op));
            source.advance();
            if op.is(Op::CONDITIONAL) {
                is_wrong |= !self.predictor.foresee(&mut prediction, op.pc, step.taken);
            }
        }
    }

    /// Dispatches what was fetched, as far as there is room.
    pub(super) fn run_fetched<U: Uncore>(&mut self, uncore: &mut U) {
        while let Some((step, op)) = self.fetched.pieces.front().copied() {
            if self.front.must_wait() && !self.care(step) {
                return;
            }
            let Ok(at) = self.dispatch_cycle::<true>(&step, &op) else {
                return;
            };
            self.fetched.pieces.pop_front();
            self.front.take_slot(at);
            self.execute::<U, true>(step, &op, at, uncore);
        }
    }
}
