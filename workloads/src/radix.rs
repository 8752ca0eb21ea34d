//! Parallel radix sort, from its definition: in each pass the threads count the digits of their
//! blocks, add the counts up to places, and move their keys there.
//!
//! The region of interest is a section of the first pass around its prefix sum: the end of the
//! counting, the sum, and the beginning of the moving. The rest is done before and after it.

use crate::memory::zeroed;
use crate::random::{self, hash};
use crate::{Checked, Digest, Failure, Member, Program, Setting, Workload, program, team};
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use units::Bytes;

/// What stands in the list.
pub const PROGRAM: Program = Program {
    name: "radix",
    suite: "Splash-3",
    what: "parallel radix sort of 32-bit keys in the order of a collating table",
    check: "the keys are in order and are those that were drawn",
    work_unit: "keys counted or moved",
    footprint: Bytes::new(9_600_000_000),
    small_work: 10_000_000,
    paper_work: 12_500_000,
    run: program::execute::<Radix>,
};

/// Digits of a key.
const PASSES: u32 = 2;
/// Data for each digit: 1,024 digits at the size of Table I, and so many fewer at smaller ones
/// that the places where keys go fit caches as much smaller just as well.
const BYTES_PER_DIGIT: u64 = 8 << 20;
/// Bits of a digit.
const BITS: RangeInclusive<u32> = 4..=12;
/// The most digits there can be; tables have this size, so that no place in them needs a check.
const DIGITS: usize = 1 << *BITS.end();
/// Of the work, one part in this many is moving; the rest is counting.
const MOVED_ONE_IN: u64 = 4;

/// The sort's data.
pub struct Radix {
    /// Of a digit.
    bits: u32,
    keys: [Box<[AtomicU32]>; 2],
    /// Place of a digit in the order.
    collation: Box<[u16; DIGITS]>,
    /// For each thread of the region and each digit: how many, then where the next one goes.
    ranks: Box<[[AtomicU32; DIGITS]]>,
    /// For each digit, how many all threads have.
    totals: Box<[AtomicU32]>,
    /// Keys counted and moved in the region, all threads together.
    counted: usize,
    moved: usize,
    key: u64,
}

impl Workload for Radix {
    fn prepare(setting: &Setting) -> Result<Self, Failure> {
        let count = (setting.footprint.get() / 8) as usize;
        let moved = (setting.work.get() / MOVED_ONE_IN) as usize;
        let counted = setting.work.get() as usize - moved;
        check_sizes(setting, count, counted)?;
        let bits = bits_for(setting.footprint);
        let radix = Self {
            bits,
            keys: [zeroed(count)?, zeroed(count)?],
            collation: collation(bits, random::key(setting.seed, "radix collation")),
            ranks: zeroed(setting.threads.get())?,
            totals: zeroed(DIGITS)?,
            counted,
            moved,
            key: random::key(setting.seed, "radix keys"),
        };
        team::in_parts(count, |part| {
            for index in part {
                radix.keys[0][index].store(radix.drawn(index), Relaxed);
            }
        });
        team::run(setting.threads, |member| {
            let block = member.part(count);
            let rest = block.len() - member.part(counted).len();
            radix.count(member.index(), 0, block.start..block.start + rest);
        });
        Ok(radix)
    }

    fn region(&self, member: &Member<'_>) {
        let block = member.part(self.keys[0].len());
        let (counted, moved) = (
            member.part(self.counted).len(),
            member.part(self.moved).len(),
        );
        self.count(member.index(), 0, block.end - counted..block.end);
        self.place(member);
        self.move_keys(member.index(), 0, block.start..block.start + moved);
    }

    fn spoil(&mut self) {
        let [_, moved] = &mut self.keys;
        if let Some(key) = moved
            .iter_mut()
            .map(AtomicU32::get_mut)
            .find(|key| **key != 0)
        {
            *key ^= 1;
        }
    }

    fn check(self, setting: &Setting) -> Result<Checked, Failure> {
        self.finish(setting);
        self.check_order()?;
        let sorted = &self.keys[PASSES as usize % 2];
        let drawn = total(sorted.len(), |index| hash(1, u64::from(self.drawn(index))));
        let found = total(sorted.len(), |index| {
            hash(1, u64::from(sorted[index].load(Relaxed)))
        });
        if drawn != found {
            return Err(Failure::wrong(
                "the sorted keys are not those that were drawn.",
            ));
        }
        let placed = total(sorted.len(), |index| {
            hash(index as u64, u64::from(sorted[index].load(Relaxed)))
        });
        Ok(Checked {
            said: format!("{} keys sorted", sorted.len()),
            digest: Digest::of([placed]),
        })
    }
}

fn total(count: usize, number: impl Fn(usize) -> u64 + Sync) -> u64 {
    let part = |part: Range<usize>| part.map(&number).fold(0, u64::wrapping_add);
    team::combine(count, part, u64::wrapping_add)
}

fn check_sizes(setting: &Setting, count: usize, counted: usize) -> Result<(), Failure> {
    let footprint = setting.footprint;
    if count < DIGITS || u32::try_from(count).is_err() {
        return Err(Failure::refused(format!(
            "--footprint {footprint}: radix takes {} to {} keys of 8 bytes.",
            DIGITS,
            u32::MAX
        )));
    }
    if counted > count || counted < setting.threads.get() {
        return Err(Failure::refused(format!(
            "--work {}: at {footprint} the region can count 1 key a thread to {count} keys.",
            setting.work.get()
        )));
    }
    Ok(())
}

/// Bits of a digit for so much data.
fn bits_for(footprint: Bytes) -> u32 {
    let digits = (footprint.get() / BYTES_PER_DIGIT).max(1);
    digits.ilog2().clamp(*BITS.start(), *BITS.end())
}

/// A random order of the digits.
fn collation(bits: u32, key: u64) -> Box<[u16; DIGITS]> {
    let mut digits: Box<[u16; DIGITS]> = Box::new(std::array::from_fn(|digit| digit as u16));
    digits[..1 << bits].sort_by_key(|digit| hash(key, u64::from(*digit)));
    digits
}

impl Radix {
    fn drawn(&self, index: usize) -> u32 {
        (hash(self.key, index as u64) >> (64 - self.bits * PASSES)) as u32
    }

    #[inline]
    fn rank_of(&self, key: u32, pass: u32) -> usize {
        // A rank is below the number of digits: the mask says so to the compiler.
        let digit = (key >> (pass * self.bits)) as usize & ((1 << self.bits) - 1);
        usize::from(self.collation[digit % DIGITS]) % DIGITS
    }

    fn count(&self, thread: usize, pass: u32, keys: Range<usize>) {
        let counts = &self.ranks[thread];
        for key in &self.keys[pass as usize % 2][keys] {
            let count = &counts[self.rank_of(key.load(Relaxed), pass)];
            count.store(count.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Turns counts into places: after all smaller digits, and after the same digit of the threads
    /// before this one.
    fn place(&self, member: &Member<'_>) {
        member.barrier();
        for digit in member.part(1 << self.bits) {
            let counts = self.ranks.iter().map(|counts| counts[digit].load(Relaxed));
            self.totals[digit].store(counts.sum(), Relaxed);
        }
        member.barrier();
        let mut smaller = 0;
        let mut places = [0; DIGITS];
        for digit in 0..1 << self.bits {
            let before = self.ranks[..member.index()].iter();
            let before: u32 = before.map(|counts| counts[digit].load(Relaxed)).sum();
            places[digit] = smaller + before;
            smaller += self.totals[digit].load(Relaxed);
        }
        member.barrier();
        for (rank, place) in self.ranks[member.index()]
            .iter()
            .zip(&places[..1 << self.bits])
        {
            rank.store(*place, Relaxed);
        }
    }

    fn move_keys(&self, thread: usize, pass: u32, keys: Range<usize>) {
        let (source, target) = (
            &self.keys[pass as usize % 2],
            &self.keys[1 - pass as usize % 2],
        );
        let ranks = &self.ranks[thread];
        for key in &source[keys] {
            let key = key.load(Relaxed);
            let rank = &ranks[self.rank_of(key, pass)];
            let place = rank.load(Relaxed);
            rank.store(place + 1, Relaxed);
            target[place as usize].store(key, Relaxed);
        }
    }

    /// What of the sort remains after the region.
    fn finish(&self, setting: &Setting) {
        team::run(setting.threads, |member| {
            let thread = member.index();
            let block = member.part(self.keys[0].len());
            let moved = member.part(self.moved).len();
            self.move_keys(thread, 0, block.start + moved..block.end);
            for pass in 1..PASSES {
                member.barrier();
                self.ranks[thread]
                    .iter()
                    .for_each(|rank| rank.store(0, Relaxed));
                self.count(thread, pass, block.clone());
                self.place(member);
                self.move_keys(thread, pass, block.clone());
            }
        });
    }

    /// Position of a key in the collating order.
    fn order(&self, key: u32) -> usize {
        let ranks = (0..PASSES).rev().map(|pass| self.rank_of(key, pass));
        ranks.fold(0, |order, rank| (order << self.bits) + rank)
    }

    fn check_order(&self) -> Result<(), Failure> {
        let sorted = &self.keys[PASSES as usize % 2];
        let order = |index: usize| self.order(sorted[index].load(Relaxed));
        let wrong = team::combine(
            sorted.len() - 1,
            |part| {
                part.into_iter()
                    .find(|&index| order(index) > order(index + 1))
            },
            Option::or,
        );
        wrong.map_or(Ok(()), |index| {
            Err(Failure::wrong(format!(
                "key {index} sorts after its successor."
            )))
        })
    }
}
