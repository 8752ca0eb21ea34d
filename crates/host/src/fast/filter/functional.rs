//! What functional warm-up will replay: records without time, found by the same L1, TLB and
//! branch predictor.

use super::Filter;
use crate::fast::origin::Origin;
use crate::fast::stream::Kind;
use crate::port::{HostLine, InstructionSource, Step};
use crate::program::Op;

impl Filter {
    /// Passes the next instructions of a thread.
    pub(super) fn pass<S: InstructionSource>(&mut self, source: &mut S, instructions: u64) {
        let mut left = instructions;
        while left > 0
            && let Some(step) = source.peek()
        {
            let op = source.program().op(step.inst);
            self.count(&step);
            self.pass_code(op.code_line);
            match step.has_sync.then(|| source.sync()).flatten() {
                Some(event) => self.emit_sync(event),
                None => self.pass_piece(&step, &op),
            }
            left -= u64::from(step.counts);
            source.advance();
        }
    }

    fn pass_code(&mut self, line: u32) {
        if line == self.code_line {
            return;
        }
        self.code_line = line;
        let line = HostLine::from_raw(line);
        if self.l1i.access(line).is_some() {
            self.counts.l1i_hits += 1;
        } else {
            self.emit(Kind::Fetch, line.get(), 0, &Origin::at(0));
            self.l1i.fill(line, false);
        }
    }

    fn pass_piece(&mut self, step: &Step, op: &Op) {
        if let Some((prediction, _)) = self.target.take() {
            self.predictor.resolve(prediction, step.inst);
        }
        if let Some(load) = step.load {
            self.load(load, &mut Origin::at(0));
        }
        if let Some(store) = step.store {
            self.store(store, &Origin::at(0));
        }
        if op.is(Op::CONDITIONAL) {
            self.predictor.direction(op.pc, step.taken);
        }
        if op.is(Op::INDIRECT) {
            self.target = Some((self.predictor.target(op.pc), Origin::at(0)));
        }
    }
}
