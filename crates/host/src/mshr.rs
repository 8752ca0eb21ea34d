//! The MSHRs of a core: L2's, which name requests to the uncore, and L1D's, which bound how many
//! lines loads and stores may be waiting for.

use crate::core::window::{NIL, PENDING};
use crate::port::{HostLine, MissKind, MissSlot};

/// Lines that are compared at once.
const GROUP: usize = 8;

/// An L2 MSHR.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Miss {
    generation: u32,
    pub(crate) kind: MissKind,
    /// First place of the window that waits.
    pub(crate) first: u16,
    /// The L1D MSHR held too, or [`NIL`].
    l1_slot: u16,
    /// A retired store waits: the line will be dirty, and a squash does not cancel.
    pub(crate) store_waits: bool,
    /// Answered by SkyByte-Delay.
    pub(crate) is_delayed: bool,
    /// The core owns the line, whose data are on their way: stores go into a merge buffer.
    pub(crate) is_granted: bool,
}

/// Why there is no MSHR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoMshr;

#[derive(Clone)]
pub(crate) struct Misses {
    /// Line of each MSHR in use, `HostLine::NONE` of a free one, in groups that are searched at
    /// once.
    lines: Vec<[u32; GROUP]>,
    /// The free ones, a bit each.
    free: Vec<u64>,
    misses: Vec<Miss>,
    /// MSHRs below this number may be in use.
    top: usize,
    pub(crate) in_use: usize,
    /// When each L1D MSHR is free; [`PENDING`] if that is not known.
    l1_free: Vec<u64>,
    /// Merge buffers, and those in use: their misses hold no MSHR of L1D.
    grants: usize,
    granted: usize,
}

impl Misses {
    pub(crate) fn new(l1_count: u32, l2_count: u32, grants: u32) -> Self {
        let miss = Miss {
            generation: 0,
            kind: MissKind::Load,
            first: NIL,
            l1_slot: NIL,
            store_waits: false,
            is_delayed: false,
            is_granted: false,
        };
        Self {
            lines: vec![[HostLine::NONE; GROUP]; (l2_count as usize).div_ceil(GROUP)],
            free: bits_below(l2_count),
            misses: vec![miss; l2_count as usize],
            top: 0,
            in_use: 0,
            l1_free: vec![0; l1_count as usize],
            grants: grants as usize,
            granted: 0,
        }
    }
    /// Lets a retired store's miss wait in a merge buffer instead of L1D's MSHR, which is free from
    /// `cycle` on; says whether there was one.
    pub(crate) fn grant(&mut self, number: usize, cycle: u64) -> bool {
        if self.granted == self.grants || self.misses[number].is_granted {
            return false;
        }
        self.granted += 1;
        let miss = &mut self.misses[number];
        miss.is_granted = true;
        let l1_slot = std::mem::replace(&mut miss.l1_slot, NIL);
        if l1_slot != NIL {
            self.hold_l1(l1_slot, cycle);
        }
        true
    }
    /// Whether a store of a line in flight goes into a merge buffer.
    #[inline]
    pub(crate) fn is_granted(&self, number: usize) -> bool {
        self.misses[number].is_granted
    }
    /// What MSHR `number` waits for.
    pub(crate) fn peek(&self, number: usize) -> &Miss {
        &self.misses[number]
    }
    /// The MSHR that waits for `line`.
    #[inline]
    pub(crate) fn find(&self, line: HostLine) -> Option<usize> {
        let groups = self.lines[..self.top.div_ceil(GROUP)].iter();
        for (first, group) in (0..).step_by(GROUP).zip(groups) {
            // As in `CacheArray`, without an early exit.
            let found = (1..).zip(group).fold(0u32, |found, (bit, waiting)| {
                found | (u32::from(*waiting == line.get()) << bit)
            });
            if found != 0 {
                return Some(first + found.trailing_zeros() as usize - 1);
            }
        }
        None
    }
    /// The L1D MSHR that is free first, and when that is.
    pub(crate) fn l1_slot(&self, at: u64) -> Result<(u16, u64), NoMshr> {
        let (mut slot, mut free) = (NIL, PENDING);
        for (number, candidate) in (0..).zip(&self.l1_free) {
            if *candidate < free {
                (slot, free) = (number, *candidate);
                if free <= at {
                    break;
                }
            }
        }
        if slot == NIL {
            Err(NoMshr)
        } else {
            Ok((slot, free.max(at)))
        }
    }
    /// Holds an L1D MSHR until `free`.
    pub(crate) fn hold_l1(&mut self, slot: u16, free: u64) {
        self.l1_free[usize::from(slot)] = free;
    }
    /// Takes an L2 MSHR for a line, together with an L1D MSHR (or [`NIL`] for fetches and walks).
    pub(crate) fn allocate(
        &mut self,
        line: HostLine,
        kind: MissKind,
        l1_slot: u16,
    ) -> Result<usize, NoMshr> {
        let word = self.free.iter().position(|word| *word != 0);
        let word = word.ok_or(NoMshr)?;
        let free = word * 64 + self.free[word].trailing_zeros() as usize;
        self.free[word] &= self.free[word] - 1;
        *self.line_mut(free) = line.get();
        self.top = self.top.max(free + 1);
        self.in_use += 1;
        if l1_slot != NIL {
            self.hold_l1(l1_slot, PENDING);
        }
        let miss = &mut self.misses[free];
        let generation = miss.generation;
        *miss = Miss {
            generation,
            kind,
            first: NIL,
            l1_slot,
            store_waits: false,
            is_delayed: false,
            is_granted: false,
        };
        Ok(free)
    }
    /// Frees an MSHR and the L1D MSHR that it held, at `cycle`.
    pub(crate) fn free(&mut self, number: usize, cycle: u64) {
        let miss = &mut self.misses[number];
        // The slot's name has 22 bits for it.
        miss.generation = (miss.generation + 1) & 0x3f_ffff;
        self.granted -= usize::from(std::mem::take(&mut miss.is_granted));
        let l1_slot = std::mem::replace(&mut miss.l1_slot, NIL);
        if l1_slot != NIL {
            self.hold_l1(l1_slot, cycle);
        }
        *self.line_mut(number) = HostLine::NONE;
        self.free[number / 64] |= 1 << (number % 64);
        self.in_use -= 1;
        while self.top > 0 && !self.is_used(self.top - 1) {
            self.top -= 1;
        }
    }
    /// The name of an MSHR in use.
    pub(crate) fn name(&self, number: usize) -> MissSlot {
        MissSlot::new(number as u32, self.misses[number].generation)
    }
    /// The MSHR with this name, if it is still in use for the same miss.
    pub(crate) fn get(&self, slot: MissSlot) -> Option<usize> {
        let number = slot.index();
        let in_use = number < self.misses.len() && self.is_used(number);
        (in_use && self.name(number) == slot).then_some(number)
    }
    #[inline]
    pub(crate) fn line(&self, number: usize) -> HostLine {
        HostLine::from_raw(self.lines[number / GROUP][number % GROUP])
    }
    #[inline]
    fn line_mut(&mut self, number: usize) -> &mut u32 {
        &mut self.lines[number / GROUP][number % GROUP]
    }
    pub(crate) fn miss(&mut self, number: usize) -> &mut Miss {
        &mut self.misses[number]
    }
    /// Numbers below this cover the MSHRs in use.
    pub(crate) fn top(&self) -> usize {
        self.top
    }
    pub(crate) fn is_used(&self, number: usize) -> bool {
        self.line(number).get() != HostLine::NONE
    }
    /// Numbers of the MSHRs in use.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.top).filter(|number| self.is_used(*number))
    }
    /// L1D MSHRs that are held until a fill.
    pub(crate) fn l1_pending(&self) -> usize {
        self.l1_free.iter().filter(|free| **free == PENDING).count()
    }
    /// L1D MSHRs that misses in use name.
    pub(crate) fn l1_named(&self) -> usize {
        self.numbers()
            .filter(|number| self.misses[*number].l1_slot != NIL)
            .count()
    }
}

/// Bits 0 to `count` - 1.
fn bits_below(count: u32) -> Vec<u64> {
    let word = |first: u32| match count - first {
        64.. => u64::MAX,
        rest => (1 << rest) - 1,
    };
    (0..count).step_by(64).map(word).collect()
}
