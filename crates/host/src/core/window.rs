//! The window: what is known of every dispatched piece, and who waits for whom.
//!
//! A piece has a sequence number; its place in every ring is that number modulo the ring's size.
//! Most pieces are complete as soon as they are dispatched, because the cycle of every operand is
//! known; they leave only a completion cycle behind. The others are *parked*.

use crate::core::store_queue::NO_STORE;
use crate::program::{Op, READY_REG, SINK_REG};

/// The completion cycle of a piece that is not complete, and bit 63 of the register file's entry
/// for a register whose writer is not complete (the low bits are then the writer's place).
pub(crate) const PENDING: u64 = 1 << 63;
/// End of a list.
pub(crate) const NIL: u16 = u16::MAX;
/// Links of a parked piece: 4 data sources, 3 address sources, a store it takes its data from.
const LINKS: u16 = 8;
const FIRST_ADDRESS_LINK: u16 = 4;
const FORWARD_LINK: u16 = 7;

/// What a piece is, for retirement.
pub(crate) mod info {
    /// It completes an instruction.
    pub(crate) const COUNTS: u8 = 1;
    pub(crate) const LOAD: u8 = 2;
    pub(crate) const STORE: u8 = 4;
    /// Its load was answered by SkyByte-Delay.
    pub(crate) const DELAYED: u8 = 8;
    /// It was parked, so that its `Parked` entry is valid.
    pub(crate) const PARKED: u8 = 16;
}

/// How far a parked piece has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its address is not known (loads only).
    Address,
    /// It may look for its line from cycle `ready_address` on.
    Access,
    /// Its page walk waits for a line.
    Walk,
    /// It waits for a line.
    Line,
    /// Its load waits for an MSHR.
    Queue,
    /// The page walk of its store waits for an MSHR.
    StoreQueue,
    /// Its load, if any, is done or waits for the data of a store; it waits for operands.
    Operands,
    /// Its store's page walk waits for a line; it is complete after that, or goes for its line.
    StoreWalk,
    /// Its store waits for a line.
    StoreLine,
}

/// A piece that could not complete at dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    pub(crate) op: Op,
    pub(crate) phase: Phase,
    pub(crate) waits_address: u8,
    pub(crate) waits_data: u8,
    /// Entries of schedulers that it holds, as bits of their classes.
    pub(crate) held: u8,
    pub(crate) ready_address: u64,
    pub(crate) ready_data: u64,
    /// When its memory wait can begin at the earliest: the cycle after dispatch.
    pub(crate) dispatched: u64,
    /// The line to load, and the second line of a split load (or `HostLine::NONE`).
    pub(crate) line: u32,
    pub(crate) second: u32,
    /// The store that the load may take its data from, or `NO_STORE`.
    pub(crate) store: u64,
    /// The store that the piece itself is, if it is one.
    pub(crate) own_store: u64,
    /// Next piece that waits for the same MSHR.
    pub(crate) next: u16,
    /// First link that waits for this piece.
    waiters: u16,
    links: [u16; LINKS as usize],
}

impl Parked {
    pub(crate) fn new(op: Op, dispatched: u64) -> Self {
        Self {
            op,
            phase: Phase::Operands,
            waits_address: 0,
            waits_data: 0,
            held: 0,
            ready_address: dispatched,
            ready_data: dispatched,
            dispatched,
            line: crate::port::HostLine::NONE,
            second: crate::port::HostLine::NONE,
            store: NO_STORE,
            own_store: NO_STORE,
            next: NIL,
            waiters: NIL,
            links: [NIL; LINKS as usize],
        }
    }
    /// Becomes a piece of `op` that waits for nothing, all of whose operands are there at
    /// `dispatched`. Its links are set when it is linked.
    #[inline(always)]
    pub(crate) fn begin(&mut self, op: &Op, dispatched: u64) {
        self.op = *op;
        self.phase = Phase::Operands;
        (self.waits_address, self.waits_data) = (0, 0);
        self.ready_address = dispatched;
        self.ready_data = dispatched;
        self.dispatched = dispatched;
        self.line = crate::port::HostLine::NONE;
        self.second = crate::port::HostLine::NONE;
        (self.next, self.waiters) = (NIL, NIL);
    }
    /// Whether the address of its load waits for the source with this link.
    #[inline]
    fn addresses_by(&self, link: u16) -> bool {
        let first = match self.op.is(Op::LOADS_LAST) {
            true => 0,
            false => FIRST_ADDRESS_LINK,
        };
        (first..FORWARD_LINK).contains(&link)
    }
}

/// Places of the rings: at least the largest `cpu.rob`. Fixed, so that no access needs a check.
const PLACES: usize = 512;
const WORDS: usize = PLACES / 64;

/// The rings and the register file.
#[derive(Clone)]
pub(crate) struct Window {
    /// Next piece to dispatch, and oldest piece whose retirement is not yet known.
    pub(crate) tail: u64,
    pub(crate) head: u64,
    /// Completion cycle of pieces from `head` on.
    pub(crate) done: Box<[u64; PLACES]>,
    pub(crate) info: Box<[u8; PLACES]>,
    /// From when on the places of pieces before `head` are free: the cycle after retirement.
    pub(crate) free_from: Box<[u64; PLACES]>,
    pub(crate) parked: Box<[Parked; PLACES]>,
    /// Places of pieces to look at again, one bit each, and the words of these that have any.
    woken: [u64; WORDS],
    woken_words: u8,
    /// When each register's value is there, or [`PENDING`] and the place of its writer.
    pub(crate) regs: [u64; 256],
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            // So that the piece one window back always exists.
            tail: PLACES as u64,
            head: PLACES as u64,
            done: Box::new([0; PLACES]),
            info: Box::new([0; PLACES]),
            free_from: Box::new([0; PLACES]),
            parked: Box::new([Parked::new(Op::NONE, 0); PLACES]),
            woken: [0; WORDS],
            woken_words: 0,
            regs: [0; 256],
        }
    }
    /// The place of a piece; also of a writer, as [`PENDING`] registers name it.
    #[inline]
    pub(crate) fn place(&self, sequence: u64) -> usize {
        sequence as usize % PLACES
    }
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }
    /// When the data sources of `op` are there, or at least [`PENDING`].
    #[inline]
    pub(crate) fn data_ready(&self, op: &Op) -> u64 {
        let reg = |number: u8| self.regs[usize::from(number)];
        let [a, b, c, d] = op.reads;
        let ready = reg(a).max(reg(b));
        match op.is(Op::READS_MORE) {
            true => ready.max(reg(c)).max(reg(d)),
            false => ready,
        }
    }
    /// When the address sources of `op`, whose data sources are there at `data`, are there, or at
    /// least [`PENDING`].
    #[inline]
    pub(crate) fn address_ready(&self, op: &Op, data: u64) -> u64 {
        let reg = |number: u8| self.regs[usize::from(number)];
        let [a, b, c] = op.address;
        let mut address = reg(a).max(reg(b));
        if op.is(Op::READS_MORE) {
            address = address.max(reg(c));
        }
        match op.is(Op::LOADS_LAST) {
            true => address.max(data),
            false => address,
        }
    }
    /// Sets what `op` writes to `value`.
    #[inline]
    pub(crate) fn write(&mut self, op: &Op, value: u64) {
        for number in op.writes {
            self.regs[usize::from(number)] = value;
        }
    }

    /// Links the parked piece of `op` at `place` to the writers of its sources. `loads`: those of
    /// its address are its load's.
    #[inline(always)]
    pub(crate) fn link(&mut self, place: usize, op: &Op, loads: bool) {
        let is_late = loads && op.is(Op::LOADS_LAST);
        let is_more = op.is(Op::READS_MORE);
        for (link, number) in (0..).zip(op.reads) {
            if link < 2 || is_more {
                self.link_to(place, link, number, is_late);
            }
        }
        for (link, number) in (FIRST_ADDRESS_LINK..).zip(op.address) {
            if link < FIRST_ADDRESS_LINK + 2 || is_more {
                self.link_to(place, link, number, loads);
            }
        }
        self.write(op, PENDING | place as u64);
        // Nobody reads these two.
        self.regs[usize::from(SINK_REG)] = 0;
        debug_assert_eq!(self.regs[usize::from(READY_REG)], 0);
    }
    /// Links a parked piece to the writer of one of its sources, if that is not complete.
    #[inline(always)]
    fn link_to(&mut self, place: usize, link: u16, number: u8, is_address: bool) {
        let ready = self.regs[usize::from(number)];
        if ready < PENDING {
            let piece = &mut self.parked[place];
            let known = match is_address {
                true => &mut piece.ready_address,
                false => &mut piece.ready_data,
            };
            *known = ready.max(*known);
            return;
        }
        let writer = &mut self.parked[ready as usize % PLACES];
        let before = std::mem::replace(&mut writer.waiters, place as u16 * LINKS + link);
        let piece = &mut self.parked[place];
        piece.links[usize::from(link)] = before;
        match is_address {
            true => piece.waits_address += 1,
            false => piece.waits_data += 1,
        }
    }
    /// Makes the piece at `place` wait for the completion of the store at `store`.
    pub(crate) fn link_to_store(&mut self, place: usize, store: usize) {
        let waiters = std::mem::replace(
            &mut self.parked[store].waiters,
            place as u16 * LINKS + FORWARD_LINK,
        );
        self.parked[place].links[usize::from(FORWARD_LINK)] = waiters;
    }
    /// The piece at `place` is complete: its registers are known and its waiters hear of it.
    /// `forward_latency` is added for loads that take its store's data.
    pub(crate) fn complete(&mut self, place: usize, done: u64, forward_latency: u64) {
        self.done[place] = done;
        let pending = PENDING | place as u64;
        for number in self.parked[place].op.writes {
            let reg = &mut self.regs[usize::from(number)];
            if *reg == pending {
                *reg = done;
            }
        }
        let mut at = std::mem::replace(&mut self.parked[place].waiters, NIL);
        while at != NIL {
            let (waiter, link) = (usize::from(at / LINKS), at % LINKS);
            let piece = &mut self.parked[waiter];
            at = piece.links[usize::from(link)];
            let is_address = piece.phase == Phase::Address && piece.addresses_by(link);
            let is_ready = if is_address {
                piece.ready_address = piece.ready_address.max(done);
                piece.waits_address -= 1;
                piece.waits_address == 0
            } else {
                let ready = match link {
                    FORWARD_LINK => done.max(piece.ready_address) + forward_latency,
                    _ => done,
                };
                piece.ready_data = piece.ready_data.max(ready);
                piece.waits_data -= 1;
                piece.waits_data == 0
            };
            if is_ready {
                self.wake(waiter);
            }
        }
    }
    /// The store at `place` has executed at `done`, and waits for its line: its registers are
    /// known, and whoever waits for them hears of it. Loads that take its data wait on.
    pub(crate) fn produce(&mut self, place: usize, done: u64) {
        let pending = PENDING | place as u64;
        for number in self.parked[place].op.writes {
            let reg = &mut self.regs[usize::from(number)];
            if *reg == pending {
                *reg = done;
            }
        }
        let mut kept = NIL;
        let mut at = std::mem::replace(&mut self.parked[place].waiters, NIL);
        while at != NIL {
            let (waiter, link) = (usize::from(at / LINKS), at % LINKS);
            let piece = &mut self.parked[waiter];
            let next = piece.links[usize::from(link)];
            if link == FORWARD_LINK {
                piece.links[usize::from(link)] = std::mem::replace(&mut kept, at);
            } else if piece.phase == Phase::Address && piece.addresses_by(link) {
                piece.ready_address = piece.ready_address.max(done);
                piece.waits_address -= 1;
                if piece.waits_address == 0 {
                    self.wake(waiter);
                }
            } else {
                self.data_arrives(waiter, done);
            }
            at = next;
        }
        self.parked[place].waiters = kept;
    }
    /// A part of what the piece at `place` waits for is there at `cycle`.
    pub(crate) fn data_arrives(&mut self, place: usize, cycle: u64) {
        let piece = &mut self.parked[place];
        piece.ready_data = piece.ready_data.max(cycle);
        piece.waits_data -= 1;
        if piece.waits_data == 0 {
            self.wake(place);
        }
    }
    #[inline]
    pub(crate) fn wake(&mut self, place: usize) {
        self.woken[place / 64] |= 1 << (place % 64);
        self.woken_words |= 1 << (place / 64);
    }
    /// Takes the oldest woken piece from `sequence` on; returns its sequence number.
    #[inline]
    pub(crate) fn next_woken(&mut self, sequence: u64) -> Option<u64> {
        match self.woken_words {
            0 => None,
            _ => self.search_woken(sequence),
        }
    }
    fn search_woken(&mut self, mut sequence: u64) -> Option<u64> {
        while sequence < self.tail {
            let place = self.place(sequence);
            let word = &mut self.woken[place / 64];
            let bits = *word >> (place % 64);
            if bits != 0 {
                let skipped = bits.trailing_zeros();
                *word &= !(1 << (place % 64 + skipped as usize));
                if *word == 0 {
                    self.woken_words &= !(1 << (place / 64));
                }
                return Some(sequence + u64::from(skipped));
            }
            sequence = (sequence | 63) + 1;
        }
        None
    }
    /// Forgets every piece from `first` on, also as waiters of older ones.
    pub(crate) fn squash_from(&mut self, first: u64) {
        let old = self.tail;
        self.tail = first;
        for sequence in first..old {
            let place = self.place(sequence);
            self.woken[place / 64] &= !(1 << (place % 64));
        }
        let words = self.woken.iter().rev();
        self.woken_words = words.fold(0, |set, word| set << 1 | u8::from(*word != 0));
        for sequence in self.head..first {
            let place = self.place(sequence);
            if self.info[place] & info::PARKED == 0 {
                continue;
            }
            let mut kept = NIL;
            let mut at = std::mem::replace(&mut self.parked[place].waiters, NIL);
            while at != NIL {
                let (waiter, link) = (usize::from(at / LINKS), usize::from(at % LINKS));
                let next = self.parked[waiter].links[link];
                if self.holds(waiter) {
                    self.parked[waiter].links[link] = std::mem::replace(&mut kept, at);
                }
                at = next;
            }
            self.parked[place].waiters = kept;
        }
        self.forget_registers();
    }
    /// Whether the piece at `place` is in the window.
    pub(crate) fn holds(&self, place: usize) -> bool {
        let age = (place as u64).wrapping_sub(self.head) % PLACES as u64;
        age < self.tail - self.head
    }
    /// The list of waiters of an MSHR that begins at `first`, without those that have left the
    /// window.
    pub(crate) fn keep_waiting(&mut self, first: u16) -> u16 {
        let (mut kept, mut last, mut at) = (NIL, NIL, first);
        while at != NIL {
            let next = self.parked[usize::from(at)].next;
            if self.holds(usize::from(at)) {
                self.parked[usize::from(at)].next = NIL;
                match last {
                    NIL => kept = at,
                    _ => self.parked[usize::from(last)].next = at,
                }
                last = at;
            }
            at = next;
        }
        kept
    }
    /// Every register is there: another thread comes.
    pub(crate) fn forget_registers(&mut self) {
        self.regs = [0; 256];
    }
    /// Forgets every piece whose retirement is not known; returns how many there were.
    pub(crate) fn squash(&mut self) -> u64 {
        let count = self.tail - self.head;
        self.tail = self.head;
        (self.woken, self.woken_words) = ([0; WORDS], 0);
        self.regs = [0; 256];
        count
    }
}
