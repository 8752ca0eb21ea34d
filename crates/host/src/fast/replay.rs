//! The fast core: executes filtered threads over the real L2 and what lies beyond.
//!
//! It knows the records between the oldest that has not retired and the one dispatched last. A
//! record is dispatched once the gap to the one before has passed and the reorder buffer and the
//! store queue have room; it issues when the records that it depends on are complete. Lines that L2
//! has come at once, others by [`FastCore::on_fill`]. Squash, SkyByte-Delay and the queue of
//! retired stores are those of the detailed core, by records in place of pieces.

mod below_l1;
mod memory;
mod retire;
mod stores;
mod switch;
mod window;

use super::stream::{FilteredThread, Kind, Record};
use crate::cache::CacheArray;
use crate::config::CpuConfig;
use crate::core::CoreStats;
use crate::core::window::PENDING;
use crate::miss_path::{Access, MissPath, Timing};
use crate::mshr::Misses;
use crate::page_numbers::PageNumbers;
use crate::port::{HostLine, InstructionSource, MissKind, Pause, Uncore, WarmUncore};
use crate::tlb::{Tlb, Translation};
use std::collections::VecDeque;
use stores::Stores;
use units::{CoreId, Time};
use window::{Entry, Window};

/// What dispatch stopped at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    None,
    /// The reorder buffer is full.
    Window,
    /// The store queue is full.
    Stores,
    /// What holds the front end depends on records that are not complete.
    Branch,
    /// Code is on its way.
    Fetch,
    /// There is no MSHR to fetch code with.
    Mshr,
    /// Everything older must retire and be written first.
    Drain,
    /// The last records must retire.
    End,
}

/// One core with its L2; its threads bring what their own L1 and TLB have made of them.
#[derive(Clone)]
pub struct FastCore {
    id: CoreId,
    timing: Timing,
    /// Pieces dispatched in a cycle at most.
    width: u64,
    rob: u64,
    /// The caller's present.
    now: Time,
    stop: Stop,
    /// The dispatch slot of the latest record: cycle × width + place in the cycle.
    front: u64,
    /// The next record is not dispatched before this slot.
    floor: u64,
    /// The latest record holds the front end until what it depends on is complete.
    is_blocked: bool,
    /// The line of code that is awaited, or none.
    awaited: u32,
    window: Window,
    /// The slot in which the latest record retired.
    retired: u64,
    /// Since which cycle a thread has been on the core.
    since: Option<u64>,
    /// Records that wait for older ones, oldest first.
    parked: Vec<u64>,
    spare: Vec<u64>,
    /// Records that found no MSHR.
    queue: VecDeque<u64>,
    /// What the last records of all threads have left in L1D; their writes are not known.
    l1d: CacheArray,
    /// Lines filled into it.
    fills: u64,
    tlb: Tlb,
    l2: CacheArray<true>,
    misses: Misses,
    mshrs: usize,
    stores: Stores,
    stats: CoreStats,
}

impl FastCore {
    /// An empty core with a cold L2. `config` is one that the fast mode accepts.
    pub fn new(id: CoreId, config: &CpuConfig) -> Self {
        Self {
            id,
            timing: Timing::new(config),
            width: u64::from(config.width),
            rob: u64::from(config.rob),
            now: Time::ZERO,
            stop: Stop::None,
            front: 0,
            floor: 0,
            is_blocked: false,
            awaited: HostLine::NONE,
            window: Window::new(config.rob),
            retired: 0,
            since: None,
            parked: Vec::with_capacity(64),
            spare: Vec::with_capacity(64),
            queue: VecDeque::with_capacity(64),
            l1d: CacheArray::new(config.l1d, config.l1d_ways),
            fills: 0,
            tlb: match config.tlb {
                true => Tlb::new(config.l1_tlb, config.l2_tlb, config.page_size),
                false => Tlb::perfect(config.page_size),
            },
            l2: CacheArray::new(config.l2, config.l2_ways),
            misses: Misses::new(config.l1d_mshrs, config.l2_mshrs, config.store_grants),
            mshrs: config.l2_mshrs as usize,
            stores: Stores::new(config.store_queue),
            stats: CoreStats::default(),
        }
    }

    /// Dispatches records until the horizon or until something stops it.
    fn dispatch<U: Uncore>(
        &mut self,
        horizon: u64,
        source: &mut FilteredThread,
        uncore: &mut U,
    ) -> Pause {
        loop {
            if self.awaited != HostLine::NONE {
                return self.stop(Stop::Fetch);
            }
            if self.is_blocked && !self.release_front() {
                return self.stop(Stop::Branch);
            }
            let mut record = source.record(source.at);
            // Some may have been executed functionally.
            record.instructions -= source.taken_instructions;
            let slot = match self.dispatch_slot(&record, source) {
                Ok(slot) => slot,
                Err(stop) => return self.stop(stop),
            };
            let cycle = slot / self.width;
            if cycle >= horizon {
                return Pause::Horizon {
                    at: self.time(cycle),
                };
            }
            if record.kind == Kind::Sync {
                let event = source.sync().expect("a sync record has its event");
                return Pause::Sync {
                    at: self.time(cycle),
                    event,
                };
            }
            if record.kind == Kind::End {
                return self.end(&record, slot);
            }
            self.front = slot;
            self.floor = 0;
            let position = source.pieces + u64::from(record.pieces);
            source.pass();
            self.stores.dispatched += u64::from(record.stores);
            let number = self.window.push(Entry::new(record, slot, position));
            if matches!(record.kind, Kind::Touch | Kind::Renewal) {
                let last = position.saturating_sub(u64::from(record.age) * 16);
                self.window.entry(number).is_at_hand = last >= source.resumed;
            }
            self.execute(number, &record, cycle, uncore);
            self.retire_ready(uncore);
        }
    }

    /// When every resource for the next record is there.
    fn dispatch_slot(&mut self, record: &Record, source: &FilteredThread) -> Result<u64, Stop> {
        let gap = u64::from(record.gap.saturating_sub(source.taken));
        let position = source.pieces + u64::from(record.pieces);
        while let Some(before) = self.window.leaves_room(position, self.rob) {
            let Some(retired) = before.retired else {
                return Err(Stop::Window);
            };
            let rest = gap * before.pieces_after.min(record.pieces.into())
                / u64::from(record.pieces).max(1);
            self.floor = self.floor.max(retired + self.width + rest);
            self.window.room_from += 1;
        }
        if record.stores > 0 {
            let freed = self.stores.room(record.stores.into());
            let cycle = freed.ok_or(Stop::Stores)?;
            self.floor = self.floor.max(cycle * self.width);
        }
        match record.kind {
            Kind::Drain | Kind::Sync => {
                if !self.window.is_empty() || !self.stores.is_empty() {
                    return Err(Stop::Drain);
                }
                let written = self.stores.last_freed * self.width;
                self.floor = self.floor.max(self.retired).max(written);
            }
            Kind::Fetch if self.misses.in_use == self.mshrs => return Err(Stop::Mshr),
            Kind::End if !self.window.is_empty() => return Err(Stop::End),
            _ => {}
        }
        Ok(self.floor.max(self.front + gap))
    }

    fn execute<U: Uncore>(&mut self, number: u64, record: &Record, cycle: u64, uncore: &mut U) {
        let line = HostLine::from_raw(record.line);
        match record.kind {
            Kind::Load | Kind::Touch | Kind::Again => self.start_record(number, uncore),
            Kind::Renewal if self.window.entry(number).is_at_hand => {}
            Kind::Renewal if self.l1d.access(line).is_some() => {}
            Kind::Store | Kind::Renewal => {
                self.stores.push(line);
                self.window.entry(number).is_queued = true;
                self.start_record(number, uncore);
            }
            Kind::WriteBack => {
                self.stats.l1d_write_backs += 1;
                self.take_dirty(line, cycle, uncore);
            }
            Kind::Branch => self.is_blocked = true,
            Kind::Fetch => {
                self.stats.l1i_misses += 1;
                let outcome = self.read_l2(line, MissKind::Fetch, cycle + self.timing.l2, uncore);
                match outcome {
                    Access::Done(cycle) => {
                        self.front = self.front.max(cycle * self.width);
                    }
                    _ => {
                        self.awaited = line.get();
                        self.window.entry(number).done = PENDING;
                    }
                }
            }
            Kind::Pad | Kind::Drain | Kind::Sync | Kind::End => {}
        }
    }

    /// Whether what holds the front end is complete; it then goes on from there.
    fn release_front(&mut self) -> bool {
        let number = self.window.tail - 1;
        let branch = self.window.peek(number);
        let floor = branch.slot / self.width + u64::from(branch.record.late);
        let Some(cycle) = self.window.ready(number, floor) else {
            return false;
        };
        self.is_blocked = false;
        self.front = self.front.max(cycle * self.width);
        true
    }

    fn stop(&mut self, stop: Stop) -> Pause {
        self.stop = stop;
        Pause::Waiting
    }

    fn end(&mut self, record: &Record, slot: u64) -> Pause {
        self.retired = self.retired.max(slot);
        self.count_retired(record);
        self.close();
        Pause::End {
            at: self.time(self.retired / self.width),
        }
    }

    /// The thread leaves: the cycles it had are counted.
    fn close(&mut self) {
        if let Some(since) = self.since.take() {
            self.stats.active_cycles += self.retired / self.width - since;
        }
    }

    /// Whether what stopped dispatch is over.
    fn can_continue(&self) -> bool {
        match self.stop {
            Stop::None => false,
            Stop::Window => self.window.room_from < self.window.head,
            Stop::Stores => self.stores.has_freed(),
            Stop::Branch => self.window.ready(self.window.tail - 1, 0).is_some(),
            Stop::Fetch => self.awaited == HostLine::NONE,
            Stop::Mshr => self.misses.in_use < self.mshrs,
            Stop::Drain => self.window.is_empty() && self.stores.is_empty(),
            Stop::End => self.window.is_empty(),
        }
    }

    /// The first cycle that begins at `at` or later.
    fn cycle_after(&self, at: Time) -> u64 {
        at.as_picos().div_ceil(self.timing.period)
    }

    /// The instant of a cycle, not before the caller's present.
    fn time(&self, cycle: u64) -> Time {
        Time::from_picos(cycle * self.timing.period).max(self.now)
    }

    /// From now on these numbers of pages choose the sets of L2. Nothing is cached.
    pub fn number_pages(&mut self, numbers: &PageNumbers) {
        self.l2.number_pages(numbers);
    }

    /// Executes up to `most` instructions functionally, as far as the next record; says how many.
    pub fn warm<W: WarmUncore>(
        &mut self,
        source: &mut FilteredThread,
        uncore: &mut W,
        most: u64,
    ) -> u64 {
        let record = source.record(source.at);
        let left = record.instructions - source.taken_instructions;
        if u64::from(left) > most {
            let taken = source.taken_instructions + most as u8;
            source.taken_instructions = taken;
            let share = u64::from(record.gap) * u64::from(taken) / u64::from(record.instructions);
            source.taken = share as u16;
            return most;
        }
        let line = HostLine::from_raw(record.line);
        match record.kind {
            Kind::Load => self.warm_line(line, MissKind::Load, uncore),
            Kind::Touch | Kind::Again if self.l1d.access(line).is_some() => {}
            Kind::Touch | Kind::Again => self.warm_line(line, MissKind::Load, uncore),
            Kind::Store => self.warm_line(line, MissKind::Ownership, uncore),
            Kind::Fetch => self.warm_line(line, MissKind::Fetch, uncore),
            Kind::Renewal if self.l1d.access(line).is_some() => {}
            Kind::Renewal => self.warm_line(line, MissKind::Ownership, uncore),
            Kind::WriteBack if self.l2.write(line).is_some() => {}
            Kind::WriteBack => self.warm_fill(line, true, uncore),
            Kind::End => {
                source.taken_instructions = record.instructions;
                return u64::from(left);
            }
            _ => {}
        }
        source.pass();
        u64::from(left)
    }

    fn warm_line<W: WarmUncore>(&mut self, line: HostLine, kind: MissKind, uncore: &mut W) {
        if let MissKind::Load | MissKind::Ownership = kind {
            self.warm_page(line, uncore);
            if self.l1d.access(line).is_none() {
                self.l1d.fill(line, false);
            }
        }
        if self.l2.access(line).is_none() {
            uncore.read(self.id, line, kind);
            self.warm_fill(line, false, uncore);
        }
    }

    fn warm_page<W: WarmUncore>(&mut self, line: HostLine, uncore: &mut W) {
        let chunk = line.chunk();
        let translation = self.tlb.translate(chunk);
        if translation == Translation::Absent {
            let table = HostLine::page_table(self.tlb.page_of(chunk));
            self.warm_line(table, MissKind::Walk, uncore);
            self.tlb.insert(chunk);
        }
        if matches!(translation, Translation::Absent | Translation::Remapped) {
            uncore.walked(self.id, self.tlb.first_chunk(chunk));
        }
    }

    fn warm_fill<W: WarmUncore>(&mut self, line: HostLine, is_dirty: bool, uncore: &mut W) {
        let victim = self.l2.fill(line, is_dirty).1;
        if let Some(victim) = victim.filter(|victim| victim.is_dirty) {
            uncore.write_back(self.id, victim.line);
        }
    }
}
