//! Functional warm-up: the caches, the TLB and the predictors live through an instruction.

use super::Core;
use crate::port::{Access, HostLine, InstructionSource, MissKind, WarmUncore};
use crate::program::Op;
use crate::tlb::Translation;

impl Core {
    pub(super) fn warm_step<S: InstructionSource, W: WarmUncore>(
        &mut self,
        source: &mut S,
        uncore: &mut W,
    ) {
        let Some(step) = source.peek() else { return };
        let op = source.program().op(step.inst);
        if let Some(prediction) = self.warm_target.take() {
            self.predictor.resolve(prediction, step.inst);
        }
        if !self.front.has_line(op.code_line) {
            self.front.set_line(op.code_line);
            self.warm_fetch(HostLine::from_raw(op.code_line), uncore);
        }
        if let Some(load) = step.load {
            if op.is(Op::WRITES_BACK) {
                self.warm_persist(load, uncore);
            } else {
                self.warm_access(load, false, uncore);
            }
        }
        if let Some(store) = step.store {
            self.warm_access(store, true, uncore);
        }
        if op.is(Op::CONDITIONAL) {
            self.predictor.direction(op.pc, step.taken);
        }
        if op.is(Op::INDIRECT) {
            self.warm_target = Some(self.predictor.target(op.pc));
        }
    }

    fn warm_fetch<W: WarmUncore>(&mut self, line: HostLine, uncore: &mut W) {
        if self.caches.l1i.access(line).is_none() {
            self.warm_l2(line, MissKind::Fetch, uncore);
            self.caches.l1i.fill(line, false);
        }
    }

    fn warm_access<W: WarmUncore>(&mut self, access: Access, is_write: bool, uncore: &mut W) {
        let first = HostLine::of_byte(access.byte).get();
        let last = HostLine::of_byte(access.last()).get();
        for line in first..=last {
            self.warm_line(HostLine::from_raw(line), is_write, uncore);
        }
    }

    /// A line is written back; what other cores' caches have of it stays there, for they are not at
    /// hand here.
    #[cold]
    fn warm_persist<W: WarmUncore>(&mut self, access: Access, uncore: &mut W) {
        let line = HostLine::of_byte(access.byte);
        self.warm_translate(line, uncore);
        let is_dirty = self.caches.clean(line);
        uncore.persist(self.id, line, is_dirty);
    }

    #[inline]
    fn warm_translate<W: WarmUncore>(&mut self, line: HostLine, uncore: &mut W) {
        let chunk = line.chunk();
        let translation = self.caches.tlb.translate(chunk);
        if translation == Translation::Absent {
            self.warm_l2(
                HostLine::page_table(self.caches.tlb.page_of(chunk)),
                MissKind::Walk,
                uncore,
            );
            self.caches.tlb.insert(chunk);
        }
        if matches!(translation, Translation::Absent | Translation::Remapped) {
            let lpa = self.caches.tlb.first_chunk(chunk);
            uncore.walked(self.id, lpa);
        }
    }

    fn warm_line<W: WarmUncore>(&mut self, line: HostLine, is_write: bool, uncore: &mut W) {
        self.warm_translate(line, uncore);
        let l1d = &mut self.caches.l1d;
        let found = if is_write {
            l1d.write(line)
        } else {
            l1d.access(line)
        };
        if found.is_none() {
            let kind = if is_write {
                MissKind::Ownership
            } else {
                MissKind::Load
            };
            self.warm_l2(line, kind, uncore);
            let pushed = self.caches.fill_l1d(line, is_write, 0, &mut self.stats);
            self.warm_write_back(pushed, uncore);
        }
    }

    fn warm_l2<W: WarmUncore>(&mut self, line: HostLine, kind: MissKind, uncore: &mut W) {
        if self.caches.l2.access(line).is_none() {
            uncore.read(self.id, line, kind);
            let pushed = self.caches.fill_l2(line, &mut self.stats);
            self.warm_write_back(pushed, uncore);
        }
    }

    fn warm_write_back<W: WarmUncore>(&self, line: Option<HostLine>, uncore: &mut W) {
        if let Some(line) = line {
            uncore.write_back(self.id, line);
        }
    }
}
