//! The front end: when the next piece can be dispatched, and what stops it.

use super::{Core, Stop};
use crate::branch::TargetPrediction;
use crate::config::CodeFetch;
use crate::core::caches::Caches;
use crate::core::persist::writes_back;
use crate::core::window::{NIL, PENDING};
use crate::miss_path::{Access, MissPath};
use crate::port::{HostLine, InstructionSource, MissKind, Pause, Step, Uncore};
use crate::program::Op;

#[derive(Clone)]
pub(crate) struct Front {
    /// The cycle of the next dispatch, if nothing holds it back, and how many pieces that cycle
    /// has dispatched.
    pub(crate) cycle: u64,
    used: u32,
    width: u32,
    /// The line of code being dispatched from, as a raw `HostLine`.
    code_line: u32,
    /// The line of code that is awaited, or none.
    pub(crate) awaited: u32,
    /// The place of the piece that dispatch waits for, or [`NIL`], and what its completion costs.
    pub(crate) blocked: u16,
    penalty: u64,
    /// An indirect branch whose successor is not known yet, and when it is done.
    target: Option<(TargetPrediction, u64)>,
    /// Instructions in a group, if code is fetched in groups (`cpu.code_fetch`), and the number of
    /// the piece that began one.
    group: Option<u64>,
    pub(super) group_from: u64,
    /// When a mispredicted branch in the group that is being fetched is done.
    mispredicted: Option<u64>,
    /// `blocked` or `target` is set.
    needs_care: bool,
}

impl Front {
    pub(crate) fn new(width: u32, code_fetch: CodeFetch) -> Self {
        Self {
            cycle: 0,
            used: 0,
            width,
            code_line: HostLine::NONE,
            awaited: HostLine::NONE,
            blocked: NIL,
            penalty: 0,
            target: None,
            group: (code_fetch == CodeFetch::InGroups).then_some(u64::from(width)),
            group_from: 0,
            mispredicted: None,
            needs_care: false,
        }
    }
    /// Begins anew: nothing is fetched, nothing is awaited.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            cycle: self.cycle,
            group: self.group,
            ..Self::new(self.width, CodeFetch::EachLine)
        };
    }
    /// Nothing is dispatched before `cycle`.
    #[inline]
    pub(crate) fn not_before(&mut self, cycle: u64) {
        if cycle > self.cycle {
            self.cycle = cycle;
            self.used = 0;
        }
    }
    #[inline]
    pub(super) fn take_slot(&mut self, cycle: u64) {
        self.not_before(cycle);
        self.used += 1;
        if self.used == self.width {
            self.cycle += 1;
            self.used = 0;
        }
    }
    /// Nothing is dispatched until the piece whose completion is `done`, and `penalty` more.
    pub(crate) fn wait_for(&mut self, done: u64, penalty: u64) {
        if done < PENDING {
            self.not_before(done + penalty);
        } else {
            self.blocked = done as u16;
            self.penalty = penalty;
            self.needs_care = true;
        }
    }
    /// A piece is complete.
    pub(crate) fn completed(&mut self, place: usize, done: u64) {
        if usize::from(self.blocked) == place {
            self.blocked = NIL;
            self.not_before(done + self.penalty);
        }
    }
    /// Whether dispatch waits for a piece that is not complete, or for a branch's target.
    pub(super) fn must_wait(&self) -> bool {
        self.needs_care
    }
    /// Whether nothing is fetched: a branch was predicted wrong, or code is on its way.
    pub(super) fn is_stopped(&self) -> bool {
        self.blocked != NIL || self.mispredicted.is_some() || self.awaited != HostLine::NONE
    }
    /// Whether the piece `number` is in the same group as the one before.
    pub(super) fn is_in_group(&self, number: u64) -> bool {
        (self.group).is_some_and(|size| !(number - self.group_from).is_multiple_of(size))
    }
    /// A branch done at `done` was predicted wrong.
    fn mispredict(&mut self, done: u64, penalty: u64) {
        if self.group.is_some() {
            // The first that is done lets fetching go on.
            self.mispredicted = match self.mispredicted {
                Some(before) if done >= PENDING => Some(before),
                Some(before) => Some(before.min(done)),
                None => Some(done),
            };
            self.needs_care = true;
        } else {
            self.wait_for(done, penalty);
        }
    }
    /// A line of code has arrived.
    pub(crate) fn fetched(&mut self, caches: &mut Caches, line: HostLine, cycle: u64) {
        caches.l1i.fill(line, false);
        if self.awaited == line.get() {
            self.awaited = HostLine::NONE;
            self.code_line = line.get();
            self.not_before(cycle);
        }
    }
    pub(crate) fn has_line(&self, line: u32) -> bool {
        self.code_line == line
    }
    pub(crate) fn set_line(&mut self, line: u32) {
        self.code_line = line;
    }
}

impl Core {
    /// Dispatches until something stops it; the loop that everything else is measured by. It is a
    /// function of its own, so that nothing around it takes registers, and one for cores whose
    /// schedulers have limits (`LIMITED`) and one for those that need not ask.
    #[inline(never)]
    pub(super) fn dispatch<S: InstructionSource, U: Uncore, const LIMITED: bool>(
        &mut self,
        horizon: u64,
        source: &mut S,
        uncore: &mut U,
    ) -> Pause {
        loop {
            let Some(step) = source.peek() else {
                return self.end();
            };
            let op = source.program().op(step.inst);
            if self.front.needs_care && !self.care(step) {
                return self.stop(Stop::Branch);
            }
            if !self.front.has_line(op.code_line)
                && let Some(stop) = self.fetch(op.code_line, uncore)
            {
                return self.stop(stop);
            }
            let at = match self.dispatch_cycle::<LIMITED>(&step, &op) {
                Ok(at) => at,
                Err(stop) => return self.stop(stop),
            };
            if at >= horizon {
                return self.reach(at);
            }
            if step.has_sync
                && let Some(event) = source.sync()
            {
                return Pause::Sync {
                    at: self.time(at),
                    event,
                };
            }
            self.front.take_slot(at);
            source.advance();
            self.execute::<U, LIMITED>(step, &op, at, uncore);
        }
    }

    /// When every resource for the piece is there.
    // As `execute`.
    #[inline(always)]
    pub(super) fn dispatch_cycle<const LIMITED: bool>(
        &mut self,
        step: &Step,
        op: &Op,
    ) -> Result<u64, Stop> {
        let before = self.window.tail - self.limits.rob;
        if before >= self.window.head {
            return Err(Stop::Window);
        }
        let room = self.window.free_from[self.window.place(before)];
        let mut at = self.front.cycle.max(room);
        if LIMITED {
            at = at.max(self.schedulers_room(step, op)?);
        }
        if step.load.is_some() {
            at = at.max(self.load_queue.room_at().ok_or(Stop::Loads)?);
        }
        if step.store.is_some() {
            let room = self.stores.room_at().ok_or(Stop::Stores)?;
            self.store_stall = room.saturating_sub(at);
            at = at.max(room);
        }
        if op.is(Op::HELD) || step.has_sync {
            let is_drained = self.window.is_empty() && self.stores.is_empty();
            if !is_drained || self.persists.are_awaited() || writes_back(step, op) {
                return Err(Stop::Drain);
            }
            at = at.max(self.retirement.cycle);
            let written = self.stores.last_freed.max(self.persists.acknowledged);
            if written > at {
                // The window is empty: only the stores' lines are waited for.
                self.note_memory_wait(at, written);
                at = written;
                self.front.not_before(at);
            }
        }
        Ok(at)
    }

    /// Looks after a mispredicted branch: false while dispatch must wait for it.
    #[cold]
    pub(super) fn care(&mut self, step: Step) -> bool {
        if let Some(done) = self.front.mispredicted {
            if self.front.is_in_group(self.window.tail) {
                return true;
            }
            self.front.mispredicted = None;
            self.predictor.recover();
            self.front.group_from = self.window.tail;
            let done = if done < PENDING {
                done
            } else {
                self.settled(self.window.place(done))
            };
            self.front.wait_for(done, self.timing.mispredict);
        }
        if let Some((prediction, done)) = self.front.target.take() {
            self.stats.branches += 1;
            if !self.predictor.resolve(prediction, step.inst) {
                self.stats.mispredicts += 1;
                let is_done = done < PENDING;
                let done = if is_done {
                    done
                } else {
                    self.settled(self.window.place(done))
                };
                self.front.wait_for(done, self.timing.mispredict);
            }
        }
        self.front.needs_care = self.front.blocked != NIL;
        !self.front.needs_care
    }

    /// When the piece at `place` is done: it may have completed since it was parked.
    fn settled(&self, place: usize) -> u64 {
        let done = self.window.done[place];
        if done < PENDING {
            done
        } else {
            PENDING | place as u64
        }
    }
    /// Nothing that was fetched is dispatched any more, and no branch of it is waited for.
    pub(super) fn restart_fetching(&mut self) {
        self.front.restart();
        self.predictor.recover();
    }

    /// What the branch or serialising instruction `op`, done at `done`, means for the front end.
    #[inline]
    pub(super) fn steer(&mut self, taken: bool, op: &Op, done: u64) {
        if op.is(Op::CONDITIONAL) {
            self.stats.branches += 1;
            let is_right = if self.front.group.is_some() {
                self.predictor.direction_in_group(op.pc, taken)
            } else {
                self.predictor.direction(op.pc, taken)
            };
            if !is_right {
                self.stats.mispredicts += 1;
                self.front.mispredict(done, self.timing.mispredict);
            }
        }
        if op.is(Op::INDIRECT) {
            self.front.target = Some((self.predictor.target(op.pc), done));
            self.front.needs_care = true;
        }
        if op.is(Op::SERIALISES) {
            self.front.wait_for(done, 0);
        }
    }

    /// Goes to another line of code; says what stops it.
    fn fetch<U: Uncore>(&mut self, line: u32, uncore: &mut U) -> Option<Stop> {
        if self.front.awaited != HostLine::NONE {
            return Some(Stop::Fetch);
        }
        if self.front.is_in_group(self.window.tail) {
            return None;
        }
        let line = HostLine::from_raw(line);
        if self.caches.l1i.access(line).is_some() {
            self.stats.l1i_hits += 1;
            self.front.set_line(line.get());
            return None;
        }
        let at = self.front.cycle + self.timing.l2;
        let outcome = self.read_l2(line, MissKind::Fetch, at, uncore);
        if outcome == Access::Refused {
            return Some(Stop::Mshr);
        }
        self.stats.l1i_misses += 1;
        let Access::Done(cycle) = outcome else {
            self.front.awaited = line.get();
            return Some(Stop::Fetch);
        };
        self.caches.l1i.fill(line, false);
        self.front.set_line(line.get());
        self.front.not_before(cycle);
        None
    }
}
