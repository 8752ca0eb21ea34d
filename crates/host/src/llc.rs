//! The shared last-level cache: 16-way, write-back, non-inclusive, with MSHRs that merge misses of
//! all cores. Functional and without time: the caller adds latency and resources.

use crate::cache::{CacheArray, Victim};
use crate::config::CpuConfig;
use crate::page_numbers::PageNumbers;
use crate::port::{HostLine, MissKind, MissSlot};
use units::CoreId;

units::ids! {
    /// An MSHR of L3.
    L3Slot, "L3 MSHR";
}

const NONE: u32 = u32::MAX;

/// How a read of L3 went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum L3Access {
    /// The line is present.
    Hit,
    /// The line is on its way; the reader now waits for it too.
    Merged(L3Slot),
    /// The caller must fetch the line for this MSHR.
    Miss(L3Slot),
    /// Every MSHR is taken; nothing changed. Try again after a fill or a cancellation.
    Full,
}

/// A core's miss that waits for an L3 MSHR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    /// Whose.
    pub core: CoreId,
    /// Which of its MSHRs.
    pub slot: MissSlot,
    /// Why it reads.
    pub kind: MissKind,
}

/// What became of a cancelled read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// It waited for no MSHR (it had hit, or was refused).
    NotWaiting,
    /// Others still wait for the line.
    Detached(L3Slot),
    /// Nobody waits any more and the MSHR is free: an answer that still comes must be dropped.
    Freed(L3Slot),
}

#[derive(Clone, Copy, Debug)]
struct Mshr {
    line: u32,
    first: u32,
    last: u32,
    next_free: u32,
}

/// A place in the list of an MSHR; there is one for each L2 MSHR of each core.
#[derive(Clone, Copy, Debug)]
struct Node {
    waiter: Waiter,
    mshr: u32,
    next: u32,
}

/// The shared cache.
#[derive(Clone, Debug)]
pub struct SharedCache {
    array: CacheArray<true>,
    mshrs: Vec<Mshr>,
    free: u32,
    in_use: u32,
    nodes: Vec<Node>,
    slots_per_core: usize,
    /// Open-addressed table from line to MSHR, at most a quarter full.
    table: Vec<u32>,
    stats: L3Stats,
}

/// What the shared cache has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct L3Stats {
    /// Reads of a line that is present.
    pub hits: u64,
    /// Reads that allocated an MSHR.
    pub misses: u64,
    /// Reads that joined an MSHR.
    pub merged: u64,
    /// Reads refused because every MSHR was taken.
    pub full: u64,
    /// Dirty lines that came from an L2.
    pub write_backs_in: u64,
    /// Dirty victims that left.
    pub write_backs_out: u64,
    /// MSHRs freed by cancellation.
    pub cancelled: u64,
}

impl SharedCache {
    /// An empty cache for the cores of `config`.
    pub fn new(config: &CpuConfig) -> Self {
        let slots_per_core = config.l2_mshrs as usize;
        let count = config.l3_mshrs;
        let waiter = Waiter {
            core: CoreId::new(0),
            slot: MissSlot::new(0, 0),
            kind: MissKind::Load,
        };
        let mshr = |number| Mshr {
            line: 0,
            first: NONE,
            last: NONE,
            next_free: number + 1,
        };
        let mut mshrs: Vec<Mshr> = (0..count).map(mshr).collect();
        if let Some(last) = mshrs.last_mut() {
            last.next_free = NONE;
        }
        Self {
            array: CacheArray::new(config.l3, config.l3_ways),
            mshrs,
            free: 0,
            in_use: 0,
            nodes: vec![
                Node {
                    waiter,
                    mshr: NONE,
                    next: NONE
                };
                slots_per_core * config.cores as usize
            ],
            slots_per_core,
            table: vec![NONE; (count as usize * 4).next_power_of_two()],
            stats: L3Stats::default(),
        }
    }

    /// From now on these numbers of pages choose the sets of their lines. Nothing is cached.
    pub fn number_pages(&mut self, numbers: &PageNumbers) {
        self.array.number_pages(numbers);
    }

    /// A core asks for the line soon, or writes it back.
    #[inline]
    pub fn foresee(&self, line: HostLine) {
        self.array.foresee(line);
    }

    /// A core's read. After `Merged` or `Miss` the waiter is given back by [`SharedCache::fill`].
    pub fn access(&mut self, line: HostLine, waiter: Waiter) -> L3Access {
        if self.array.access(line).is_some() {
            self.stats.hits += 1;
            return L3Access::Hit;
        }
        if let Some(number) = self.find(line) {
            self.stats.merged += 1;
            self.append(number, waiter);
            return L3Access::Merged(L3Slot::new(number));
        }
        if self.free == NONE {
            self.stats.full += 1;
            return L3Access::Full;
        }
        let number = self.free;
        let mshr = &mut self.mshrs[number as usize];
        self.free = mshr.next_free;
        *mshr = Mshr {
            line: line.get(),
            first: NONE,
            last: NONE,
            next_free: NONE,
        };
        self.in_use += 1;
        self.stats.misses += 1;
        self.insert(number);
        self.append(number, waiter);
        L3Access::Miss(L3Slot::new(number))
    }
    /// Whether the line is present; changes nothing.
    pub fn holds(&self, line: HostLine) -> bool {
        self.array.find(line).is_some()
    }
    /// The line that an MSHR waits for.
    pub fn line(&self, slot: L3Slot) -> HostLine {
        HostLine::from_raw(self.mshrs[slot.index()].line)
    }
    /// Who waits for an MSHR, first come first.
    pub fn waiters(&self, slot: L3Slot) -> impl Iterator<Item = Waiter> + '_ {
        let mut at = self.mshrs[slot.index()].first;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize)?;
            at = node.next;
            Some(node.waiter)
        })
    }
    /// The line of an MSHR has arrived: it is put in, the MSHR is freed, its waiters are appended
    /// to `waiters` in order of arrival. Returns the line that made room; if dirty, the caller
    /// writes it to memory.
    pub fn fill(&mut self, slot: L3Slot, waiters: &mut Vec<Waiter>) -> Option<Victim> {
        let line = self.line(slot);
        let mut at = self.mshrs[slot.index()].first;
        assert!(at != NONE, "an L3 MSHR that is filled has waiters");
        while let Some(node) = self.nodes.get_mut(at as usize) {
            waiters.push(node.waiter);
            node.mshr = NONE;
            at = node.next;
        }
        self.release(slot.get());
        // A write-back may have brought the line in meanwhile.
        if self.array.access(line).is_some() {
            return None;
        }
        self.put(line, false)
    }
    /// Marks a line as dirty, if it is present.
    pub fn make_dirty(&mut self, line: HostLine) {
        self.array.write(line);
    }
    /// Marks a line as clean, if it is present; says whether it was dirty.
    pub fn clean(&mut self, line: HostLine) -> bool {
        self.array.clean(line)
    }
    /// Takes a dirty line evicted by an L2. Returns the line that made room.
    pub fn write_back(&mut self, line: HostLine) -> Option<Victim> {
        self.stats.write_backs_in += 1;
        if self.array.write(line).is_some() {
            return None;
        }
        self.put(line, true)
    }
    /// Forgets that a core's miss waits.
    pub fn cancel(&mut self, core: CoreId, slot: MissSlot) -> Cancelled {
        let at = self.node_of(core, slot);
        let Node { waiter, mshr, next } = self.nodes[at as usize];
        if mshr == NONE || waiter.slot != slot {
            return Cancelled::NotWaiting;
        }
        self.nodes[at as usize].mshr = NONE;
        self.unlink(mshr, at, next);
        if self.mshrs[mshr as usize].first != NONE {
            return Cancelled::Detached(L3Slot::new(mshr));
        }
        self.stats.cancelled += 1;
        self.release(mshr);
        Cancelled::Freed(L3Slot::new(mshr))
    }
    /// Functional read: a miss is filled at once. Says whether it hit, and which line made room.
    pub fn warm_read(&mut self, line: HostLine) -> (bool, Option<Victim>) {
        match self.array.access(line) {
            Some(_) => (true, None),
            None => (false, self.put(line, false)),
        }
    }
    /// MSHRs in use.
    pub fn in_use(&self) -> u32 {
        self.in_use
    }
    /// Lines present and how many of them are dirty.
    pub fn occupancy(&self) -> (u64, u64) {
        self.array.occupancy()
    }
    /// What the cache has done.
    pub fn stats(&self) -> &L3Stats {
        &self.stats
    }
    /// Forgets what was counted, at the end of warm-up.
    pub fn reset_stats(&mut self) {
        self.stats = L3Stats::default();
    }
    /// Checks that MSHRs, their lists and the table agree; each violation as a sentence.
    pub fn audit(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let indexed = self.table.iter().filter(|number| **number != NONE).count() as u32;
        if indexed != self.in_use {
            problems.push(format!(
                "L3 indexes {indexed} MSHRs but {} are in use",
                self.in_use
            ));
        }
        for &number in self.table.iter().filter(|number| **number != NONE) {
            if self.waiters(L3Slot::new(number)).next().is_none() {
                problems.push(format!(
                    "L3 MSHR {number} is in use and nobody waits for it"
                ));
            }
        }
        let linked: usize = self
            .table
            .iter()
            .filter(|number| **number != NONE)
            .map(|number| self.waiters(L3Slot::new(*number)).count())
            .sum();
        let waiting = self.nodes.iter().filter(|node| node.mshr != NONE).count();
        if linked != waiting {
            problems.push(format!(
                "{waiting} misses wait for L3 but {linked} are in a list"
            ));
        }
        problems
    }

    fn put(&mut self, line: HostLine, is_dirty: bool) -> Option<Victim> {
        let victim = self.array.fill(line, is_dirty).1;
        self.stats.write_backs_out += u64::from(victim.is_some_and(|victim| victim.is_dirty));
        victim
    }
    fn node_of(&self, core: CoreId, slot: MissSlot) -> u32 {
        (core.index() * self.slots_per_core + slot.index()) as u32
    }
    fn append(&mut self, mshr: u32, waiter: Waiter) {
        let at = self.node_of(waiter.core, waiter.slot);
        assert!(
            self.nodes[at as usize].mshr == NONE,
            "an L2 MSHR waits for one line"
        );
        self.nodes[at as usize] = Node {
            waiter,
            mshr,
            next: NONE,
        };
        let entry = &mut self.mshrs[mshr as usize];
        let last = std::mem::replace(&mut entry.last, at);
        match self.nodes.get_mut(last as usize) {
            Some(node) => node.next = at,
            None => entry.first = at,
        }
    }
    fn unlink(&mut self, mshr: u32, at: u32, next: u32) {
        let entry = &mut self.mshrs[mshr as usize];
        if entry.first == at {
            entry.first = next;
            return;
        }
        let mut before = entry.first;
        while self.nodes[before as usize].next != at {
            before = self.nodes[before as usize].next;
        }
        self.nodes[before as usize].next = next;
        if entry.last == at {
            entry.last = before;
        }
    }
    fn release(&mut self, number: u32) {
        self.remove(number);
        self.mshrs[number as usize].next_free = self.free;
        self.mshrs[number as usize].first = NONE;
        self.free = number;
        self.in_use -= 1;
    }

    fn home(&self, line: u32) -> usize {
        line.wrapping_mul(0x9e37_79b1) as usize >> (32 - self.table.len().trailing_zeros())
    }
    fn find(&self, line: HostLine) -> Option<u32> {
        let mask = self.table.len() - 1;
        let mut at = self.home(line.get());
        while self.table[at] != NONE {
            if self.mshrs[self.table[at] as usize].line == line.get() {
                return Some(self.table[at]);
            }
            at = (at + 1) & mask;
        }
        None
    }
    fn insert(&mut self, number: u32) {
        let mask = self.table.len() - 1;
        let mut at = self.home(self.mshrs[number as usize].line);
        while self.table[at] != NONE {
            at = (at + 1) & mask;
        }
        self.table[at] = number;
    }
    /// Takes an MSHR out of the table and moves back what had been displaced by it.
    fn remove(&mut self, number: u32) {
        let mask = self.table.len() - 1;
        let mut hole = self.home(self.mshrs[number as usize].line);
        while self.table[hole] != number {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            self.table[hole] = NONE;
            loop {
                at = (at + 1) & mask;
                if self.table[at] == NONE {
                    return;
                }
                let home = self.home(self.mshrs[self.table[at] as usize].line);
                if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                    break;
                }
            }
            self.table[hole] = self.table[at];
            hole = at;
        }
    }
}

#[cfg(test)]
mod tests;
