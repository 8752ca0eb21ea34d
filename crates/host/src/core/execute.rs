//! Execution: at dispatch when every operand's cycle is known, otherwise when the last one is.

use super::Core;
use crate::core::schedulers::Class;
use crate::core::store_queue::{Forward, NO_STORE};
use crate::core::window::{PENDING, Parked, Phase, info};
use crate::port::{Access, HostLine, Step, Uncore};
use crate::program::{Op, Port, STORE_REG};

/// How a load went that was tried at dispatch.
enum Quick {
    /// Its data is there at this cycle.
    Done(u64),
    /// It has issued at this cycle and must be parked.
    Issued(u64),
    /// Its address is not known.
    Unknown,
}

impl Core {
    /// Executes a piece that was dispatched at `at`, as far as its operands are known.
    ///
    /// What leaves this path takes the piece as a value: a reference would have it put together in
    /// memory for every instruction.
    // Not left to the compiler, which has put it outside once: a tenth more host instructions.
    #[inline(always)]
    pub(super) fn execute<U: Uncore, const LIMITED: bool>(
        &mut self,
        step: Step,
        op: &Op,
        at: u64,
        uncore: &mut U,
    ) {
        let floor = at + 1;
        let mut since = floor;
        let mut ready = floor.max(self.window.data_ready(op));
        let mut address = floor.max(self.window.address_ready(op, ready));
        if LIMITED && let Some(schedulers) = &mut self.schedulers {
            let (memory, execution, turns) = schedulers.enter(&step, op, floor);
            if turns != 0 {
                return self.park_for_turns(step, op, (memory, execution, turns), uncore);
            }
            address = address.max(memory);
            ready = ready.max(execution);
        }
        let mut kind = u8::from(step.counts);
        if let Some(load) = step.load {
            kind |= info::LOAD;
            self.load_queue.dispatched += 1;
            let data = match self.quick_load::<LIMITED>(step.store.is_some(), load, address) {
                Quick::Done(data) => data,
                Quick::Issued(issue) => return self.park(step, op, floor, Some(issue), uncore),
                Quick::Unknown => return self.park(step, op, floor, None, uncore),
            };
            if ready >= PENDING {
                // The load itself is done; what it waits for is another operand.
                return self.park_operands(step, op, data, uncore);
            }
            ready = ready.max(data);
        } else {
            ready = ready.max(address);
            if ready >= PENDING {
                return self.park(step, op, floor, None, uncore);
            }
        }
        let mut done = if op.is(Op::EXECUTES) {
            self.calendar.execute(op, ready)
        } else {
            ready
        };
        if LIMITED {
            self.issues(op, false, done - u64::from(op.latency));
        }
        if let Some(store) = step.store {
            kind |= info::STORE;
            let issue = self.calendar.book(Port::Store, done);
            if LIMITED {
                self.issues(op, true, issue);
            }
            done = issue + 1;
            let chunk = HostLine::of_byte(store.byte).chunk();
            if self.stores_wait || !self.caches.tlb.has(chunk) {
                return self.park_store(step, op, floor, done, uncore);
            }
            let place = self.window.place(self.window.tail);
            self.stores.push(store, place, done);
            // Waiting for room in the store queue is waiting for memory.
            since -= self.store_stall;
        }
        self.window.write(op, done);
        if op.is(Op::SPECIAL) {
            self.steer(step.taken, op, done);
        }
        self.finish_dispatch(done, kind, since, uncore);
    }

    /// The dispatched piece is complete: it retires at once if everything older has.
    #[inline(always)]
    fn finish_dispatch<U: Uncore>(&mut self, done: u64, kind: u8, since: u64, uncore: &mut U) {
        let sequence = self.window.tail;
        self.window.tail += 1;
        if self.window.head == sequence {
            self.retire(done, kind, since, uncore);
        } else {
            let place = self.window.place(sequence);
            self.window.done[place] = done;
            self.window.info[place] = kind;
        }
    }

    /// A load whose page and line are at hand and whose data no store in flight has. `stores`: the
    /// piece stores as well.
    // As `execute`.
    #[inline(always)]
    fn quick_load<const LIMITED: bool>(&mut self, stores: bool, load: Access, ready: u64) -> Quick {
        if ready >= PENDING {
            return Quick::Unknown;
        }
        let issue = self.calendar.book(Port::Load, ready);
        if LIMITED && !stores {
            self.issues(&Op::NONE, true, issue);
        }
        let line = HostLine::of_byte(load.byte);
        let is_split = (load.byte & 63) + load.size() > 64;
        let store = self.stores.youngest(load.byte / 8);
        if is_split || !self.caches.tlb.has(line.chunk()) {
            return Quick::Issued(issue);
        }
        match self.stores.forward(store, issue) {
            Forward::Cache => {}
            Forward::Known(data_at) => {
                self.stats.forwarded += 1;
                return Quick::Done(data_at + self.timing.l1d);
            }
            Forward::Pending(_) => return Quick::Issued(issue),
        }
        match self.caches.load(line, issue + self.timing.l1d) {
            Some(data) => {
                self.stats.l1d_hits += 1;
                Quick::Done(data)
            }
            None => Quick::Issued(issue),
        }
    }

    /// Parks a piece whose operands are not all known, or whose load must wait. `issue` is the
    /// cycle of a load that has issued.
    #[inline(never)]
    pub(super) fn park<U: Uncore>(
        &mut self,
        step: Step,
        op: &Op,
        floor: u64,
        issue: Option<u64>,
        uncore: &mut U,
    ) {
        let place = self.enter(&step, op, floor, step.load);
        let piece = &mut self.window.parked[place];
        piece.waits_data = u8::from(step.load.is_some());
        if let Some(issue) = issue {
            piece.phase = Phase::Access;
            piece.ready_address = issue;
        }
        self.window.link(place, op, step.load.is_some());
        if issue.is_some() {
            self.advance_load(place, uncore);
        }
        self.after_parking(step, op, place, uncore);
    }

    /// Parks a piece that must wait for its turn in a scheduler. `schedule` is what
    /// `Schedulers::enter` gave.
    #[inline(never)]
    fn park_for_turns<U: Uncore>(
        &mut self,
        step: Step,
        op: &Op,
        (memory, execution, turns): (u64, u64, u8),
        uncore: &mut U,
    ) {
        let place = self.enter(&step, op, memory.min(execution), step.load);
        let piece = &mut self.window.parked[place];
        piece.ready_data = execution;
        piece.waits_data = turns.count_ones() as u8;
        if step.load.is_some() {
            self.load_queue.dispatched += 1;
            let memory_turn = turns & Class::Memory.bit();
            piece.ready_address = memory;
            piece.waits_data += 1 - memory_turn.count_ones() as u8;
            piece.waits_address = memory_turn.count_ones() as u8;
        }
        self.window.link(place, op, step.load.is_some());
        if let Some(schedulers) = &mut self.schedulers {
            schedulers.queue(place, turns);
        }
        let piece = &self.window.parked[place];
        if piece.phase == Phase::Address && piece.waits_address == 0 {
            self.window.wake(place);
        }
        self.after_parking(step, op, place, uncore);
    }

    /// Parks a piece whose load is done at `ready` and whose other operands are not known.
    #[inline(never)]
    fn park_operands<U: Uncore>(&mut self, step: Step, op: &Op, ready: u64, uncore: &mut U) {
        let place = self.enter(&step, op, ready, None);
        self.window.link(place, op, true);
        self.after_parking(step, op, place, uncore);
    }

    /// Parks a piece that has executed and whose store's page is not in the first-level TLB.
    #[inline(never)]
    pub(super) fn park_store<U: Uncore>(
        &mut self,
        step: Step,
        op: &Op,
        floor: u64,
        done: u64,
        uncore: &mut U,
    ) {
        let place = self.enter(&step, op, floor, None);
        self.window.parked[place].ready_address = done;
        self.window.link(place, op, step.load.is_some());
        self.produce(place, op, done - 1);
        self.set_store_line(place);
        self.advance_store(place, uncore);
        self.after_parking(step, op, place, uncore);
    }

    /// Enters the piece that is being dispatched into the window, where it waits for nothing yet:
    /// what it needs is there at `ready`. `load` is what it has still to load. Written where it
    /// stays: put together and copied, it took as long again.
    #[inline(always)]
    fn enter(&mut self, step: &Step, op: &Op, ready: u64, load: Option<Access>) -> usize {
        let place = self.window.place(self.window.tail);
        let mut kind = info::PARKED | u8::from(step.counts);
        let held = match &mut self.schedulers {
            Some(schedulers) => schedulers.hand_over(),
            None => 0,
        };
        if step.load.is_some() {
            kind |= info::LOAD;
        }
        // Before its own store is entered.
        let forwarder = load.map_or(NO_STORE, |load| self.stores.youngest(load.byte / 8));
        let mut own_store = NO_STORE;
        if let Some(store) = step.store {
            kind |= info::STORE;
            own_store = if op.is(Op::WRITES_BACK) {
                self.stores.push_write_back(store.byte, place)
            } else {
                self.stores.push(store, place, PENDING)
            };
        }
        self.window.tail += 1;
        self.window.done[place] = PENDING;
        self.window.info[place] = kind;
        let piece = &mut self.window.parked[place];
        piece.begin(op, ready);
        (piece.held, piece.store, piece.own_store) = (held, forwarder, own_store);
        if let Some(load) = load {
            let (first, last) = (HostLine::of_byte(load.byte), HostLine::of_byte(load.last()));
            piece.phase = Phase::Address;
            piece.line = first.get();
            if last != first {
                piece.second = last.get();
            }
        }
        place
    }

    fn after_parking<U: Uncore>(&mut self, step: Step, op: &Op, place: usize, uncore: &mut U) {
        if op.is(Op::SPECIAL) {
            self.steer(step.taken, op, PENDING | place as u64);
        }
        self.settle(self.window.tail - 1, uncore);
        self.retire_ready(uncore);
    }

    /// Lets every woken piece from `sequence` on do what it can, in program order.
    pub(super) fn settle<U: Uncore>(&mut self, mut sequence: u64, uncore: &mut U) {
        while let Some(woken) = self.window.next_woken(sequence) {
            let place = self.window.place(woken);
            match self.window.parked[place].phase {
                Phase::Address => {
                    let ready = self.window.parked[place].ready_address;
                    let issue = self.calendar.book(Port::Load, ready);
                    let piece = &mut self.window.parked[place];
                    piece.ready_address = issue;
                    piece.phase = Phase::Access;
                    if self.issues_with_load(place) {
                        self.parked_issues(place, true, issue);
                    }
                    self.advance_load(place, uncore);
                }
                Phase::Access => self.advance_load(place, uncore),
                Phase::Operands => self.execute_parked(place, uncore),
                Phase::StoreWalk => self.store_translated(place, uncore),
                phase => unreachable!("a piece in phase {phase:?} is not woken"),
            }
            // It may have woken itself again, or younger ones.
            sequence = woken;
        }
    }

    fn execute_parked<U: Uncore>(&mut self, place: usize, uncore: &mut U) {
        let Parked {
            op,
            ready_data,
            own_store,
            ..
        } = self.window.parked[place];
        let done = if op.is(Op::EXECUTES) {
            self.calendar.execute(&op, ready_data)
        } else {
            ready_data
        };
        self.parked_issues(place, false, done - u64::from(op.latency));
        if own_store == NO_STORE {
            return self.complete(place, done);
        }
        let issue = self.calendar.book(Port::Store, done);
        self.parked_issues(place, true, issue);
        self.window.parked[place].ready_address = issue + 1;
        self.produce(place, &op, done);
        self.set_store_line(place);
        self.advance_store(place, uncore);
    }

    /// The piece at `place` has executed by `done` and stores; if it then waits for its line, what
    /// it computes besides, such as a stack pointer, is there before.
    fn produce(&mut self, place: usize, op: &Op, done: u64) {
        // What orders accesses by way of stores is there when the store is.
        if self.stores_wait && !op.writes.contains(&STORE_REG) {
            let computed = if op.is(Op::EXECUTES) { done } else { done + 1 };
            self.window.produce(place, computed);
        }
    }

    /// From here on the piece's line is the one that it stores to.
    fn set_store_line(&mut self, place: usize) {
        let number = self.window.parked[place].own_store;
        self.window.parked[place].line = self.stores.entry(number).lines[0];
    }

    pub(super) fn complete(&mut self, place: usize, done: u64) {
        let number = self.window.parked[place].own_store;
        if number != NO_STORE {
            self.stores.entry(number).data_at = done;
        }
        self.window.complete(place, done, self.timing.l1d);
        self.front.completed(place, done);
    }
}
