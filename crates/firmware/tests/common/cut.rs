//! Power fails between two calls of the firmware, and comes back.

use super::Lab;
use crate::common::Token;
use firmware::log_index::LogIndex;
use firmware::{Controller, ControllerConfig, RequestOp};
use std::collections::BTreeSet;

/// By line: what it may be instead of what was acknowledged last, until it is read.
pub type Doubts = Vec<BTreeSet<Token>>;

impl<I: LogIndex> Lab<I> {
    /// Cuts the power and lets the firmware recover. Of each line of a write that was not answered
    /// the old or the new bytes are right.
    #[allow(dead_code, reason = "not every test cuts the power")]
    pub fn cut(&mut self, config: &ControllerConfig) {
        for outstanding in std::mem::take(&mut self.outstanding).into_iter().flatten() {
            let (op, line) = (outstanding.request.op, outstanding.request.line.get());
            for (nth, index) in self.lines_of(line, op).enumerate() {
                match op {
                    RequestOp::Trim => self.doubts[index].insert(0),
                    RequestOp::WriteRun { tx, .. } if tx != units::TxId::NONE => continue,
                    op if op.is_write() => {
                        self.doubts[index].insert(outstanding.token + nth as u64)
                    }
                    _ => continue,
                };
            }
        }
        let compacted = self.controller.stats().compaction_time;
        assert!(
            compacted <= self.now - self.powered_at,
            "compactions took {compacted}, longer than the power was on"
        );
        self.powered_at = self.now;
        let in_doubt = self.cut_transactions();
        self.outstanding = vec![None; super::REQUESTS];
        self.readers.fill(0);
        self.has_writer.fill(false);
        let random = &mut self.random;
        let tables = self.bench.lose_power(|| random.below(2) == 0);
        let recovered = Controller::recover(config, &tables, self.now, &mut self.bench);
        self.controller = recovered.expect("the firmware reads its own tables");
        self.bench.audit(&self.controller);
        self.cuts += 1;
        self.check_atomic(in_doubt);
    }

    /// The line was read: it is what was acknowledged last, or what a cut has left in doubt.
    pub(super) fn is_right(&mut self, index: usize, got: Token) -> bool {
        let doubts = std::mem::take(&mut self.doubts[index]);
        let is_right = got == self.model[index] || doubts.contains(&got);
        self.model[index] = got;
        is_right
    }
}
