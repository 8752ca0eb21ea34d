//! Bugs that show when a program is done: of garbage collection, or of two programs of a page.

use super::{Action, Bug, Sabotage};
use firmware::{NandOp, NandTag, Platform, Record};

impl<P: Platform> Sabotage<P> {
    /// Takes note of a page that is moved, or programmed for the host.
    pub(super) fn note_move(&mut self, action: Action) {
        if let Action::Nand(_, command) = action
            && let NandOp::Program { ppa, lpa, from, .. } = command.op
            && self.is_gc_buffer(from) != (self.bug == Some(Bug::OvertakenMapped))
        {
            self.moves.insert(command.tag, (lpa, ppa));
        }
    }

    /// The firmware has been told that an operation is done. What it moved and did not map had
    /// changed meanwhile.
    pub fn finished(&mut self, tag: NandTag) {
        let Some((lpa, ppa)) = self.moves.remove(&tag) else {
            return;
        };
        let is_unchecked = matches!(self.bug, Some(Bug::MoveUnchecked | Bug::OvertakenMapped));
        if is_unchecked && self.mapped.insert(lpa, ppa) != Some(ppa) {
            self.pass(Action::Record(Record::Mapped(lpa, ppa)));
        }
    }

    /// An operation has failed.
    pub fn failed(&mut self, tag: NandTag) {
        self.moves.remove(&tag);
    }
}
