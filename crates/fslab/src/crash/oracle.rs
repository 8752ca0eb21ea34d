//! What must be there behind a power cut, and what may.
//!
//! The guarantee of ByteFS, in the words of which each finding is:
//! - *names* (and kinds, links, permissions, attributes) are those behind a prefix of the
//!   operations, in the order in which they were done. The prefix reaches at least to the last
//!   operation that had been answered when a sync of anything was asked that has been answered
//!   (fsync, fdatasync, sync, a write with `O_SYNC`), and at most to the operation under way;
//! - a file's *size* is one that it had since the last sync of that file. A truncation or an
//!   allocation that sets the size is an operation like those on names: the size is one from behind
//!   it if it is in the prefix, and from before it if not;
//! - a file's *bytes*, line by line, are those of one moment since the last sync of that file. What
//!   a truncation or a punched hole has taken and is in the prefix does not come back (of a hole,
//!   whole pages: its ends are bytes that were written). Bytes that a write adds are there when the
//!   size says so; where a truncation or an allocation has set the size behind them, they may read
//!   as zero if they were not synced.
//!
//! Where every operation is durable when it is answered (`nova-like`), each is a sync of all.
//!
//! With data journaling a file's bytes are all of *one* moment since its last sync, with what was
//! taken behind it; and its size is of that moment, unless one was set behind it.
//!
//! Where ranges of files are in persistent memory, an `fdatasync` promises what that of Ext4 does:
//! the bytes and the size of its file, and that it is there; of names elsewhere nothing. Pages come
//! back one by one: of a write of several pages that was not synced, the first ones may be there.
//!
//! Everything else is a violation: bytes that no write of this file has made, zeroes where nobody
//! wrote or cut, a name without its file.
//!
//! Of two tasks the operations are in no order that is known. They are in one that is: every order
//! in which an operation that was answered before another was asked is before it, and in which each
//! gives what it gave ([`histories`]). What is left must be allowed by one of them.

use crate::crash::contents::Contents;
use crate::crash::model::{Answer, Id, Model};
use crate::crash::op::{File, Op};
use crate::crash::tree::Tree;
use bytefs::Allocate;
use std::collections::BTreeSet;

const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// Operations in an order in which they may have been done, and the states between them.
#[derive(Clone, Debug)]
pub struct History {
    ops: Vec<Op>,
    /// By place: which operation it is.
    numbers: Vec<usize>,
    /// By place: which operations had been answered when it was asked.
    before: Vec<OpSet>,
    /// One more than operations.
    states: Vec<Model>,
    trees: Vec<Tree>,
    effects: Vec<Effect>,
    answers: Vec<Answer>,
    /// Bytes of a file are of one moment.
    is_whole: bool,
    /// Pages of a file survive by themselves, with the size that each has seen.
    is_by_pages: bool,
}

/// What an operation is to the oracle.
#[derive(Clone, Copy, Default, Debug)]
struct Effect {
    /// What is safe when it is answered.
    syncs: Syncs,
    /// What it takes of a file, or which size it sets.
    takes: Option<Takes>,
    /// What it makes zero, ends of pages included: of a file, from here to here.
    zeroes: Option<(Id, u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Syncs {
    #[default]
    Nothing,
    /// The bytes of this file, and that it was made.
    Contents(Id),
    /// Names, and the bytes of this file.
    File(Id),
    Everything,
}

#[derive(Clone, Copy, Debug)]
struct Takes {
    file: Id,
    /// From here
    from: u64,
    /// to here nothing older comes back.
    to: u64,
    /// It sets the size to this.
    size: Option<u64>,
}

/// Operations by their numbers, which are below 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct OpSet(u64);

impl OpSet {
    /// The largest number of operations.
    pub const MOST: usize = 64;

    /// Those of the first numbers.
    pub fn first(count: usize) -> Self {
        assert!(count <= Self::MOST, "a sequence has at most 64 operations");
        Self(u64::MAX.checked_shr(64 - count as u32).unwrap_or(0))
    }

    /// Whether an operation is one of them.
    pub fn has(self, number: usize) -> bool {
        self.0 >> number & 1 == 1
    }

    /// These and another.
    #[must_use]
    pub fn with(self, number: usize) -> Self {
        assert!(number < Self::MOST, "a sequence has at most 64 operations");
        Self(self.0 | 1 << number)
    }

    /// Whether all of them are among others.
    pub fn is_within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// How many.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// How far the operations were when the power was cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Progress {
    /// Those that had been asked.
    pub begun: OpSet,
    /// Those that had been answered.
    pub answered: OpSet,
}

/// What that means in an order of the operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bounds {
    /// So many had been answered when a sync was asked that has been answered, itself included, or
    /// are before one that had.
    committed: usize,
    /// So many may have been done.
    begun: usize,
}

/// An operation that was done, and what is known of when.
#[derive(Clone, Debug)]
pub struct Done {
    /// What.
    pub op: Op,
    /// What it gave.
    pub answer: Answer,
    /// Which operations, by their places in the list of all, had been answered when it was asked.
    pub before: OpSet,
}

/// Every order in which operations of several tasks can have been done one behind the other, from a
/// state, so that each gives what it gave and `end` is what is there in the end.
///
/// # Errors
/// There is none: the first thing that is wrong in the order that goes furthest.
pub fn histories(begin: &Model, done: &[Done], end: &Tree) -> Result<Vec<History>, String> {
    let mut found = Vec::new();
    let mut search = Search {
        begin,
        done,
        end,
        wrong: (0, String::new()),
    };
    search.from(begin.clone(), &mut Vec::new(), &mut found);
    match found.is_empty() {
        true => Err(search.wrong.1),
        false => Ok(found),
    }
}

struct Search<'a> {
    begin: &'a Model,
    done: &'a [Done],
    end: &'a Tree,
    /// How far an order went, and what was wrong then.
    wrong: (usize, String),
}

impl Search<'_> {
    fn from(&mut self, state: Model, order: &mut Vec<usize>, found: &mut Vec<History>) {
        if order.len() == self.done.len() {
            match state.tree().difference(self.end) {
                Some(how) => self.fails(order.len(), how),
                None => found.push(History::in_order(self.begin.clone(), self.done, order)),
            }
            return;
        }
        let placed = order.iter().fold(OpSet::default(), |set, at| set.with(*at));
        for (number, done) in self.done.iter().enumerate() {
            if placed.has(number) || !done.before.is_within(placed) {
                continue;
            }
            let mut after = state.clone();
            let answer = after.apply(&done.op);
            if answer != done.answer {
                let (op, given) = (&done.op, &done.answer);
                let how = format!("`{op}` gives {given:?} and should give {answer:?}");
                self.fails(order.len(), how);
                continue;
            }
            order.push(number);
            self.from(after, order, found);
            order.pop();
        }
    }

    fn fails(&mut self, far: usize, how: String) {
        if self.wrong.1.is_empty() || far > self.wrong.0 {
            self.wrong = (far, how);
        }
    }
}

impl History {
    /// What operations do, each of which is asked when the one before was answered.
    pub fn new(begin: Model, ops: Vec<Op>) -> Self {
        let numbers: Vec<usize> = (0..ops.len()).collect();
        let before = numbers.iter().map(|number| OpSet::first(*number)).collect();
        Self::of(begin, ops, numbers, before)
    }

    /// What operations do in an order of theirs.
    fn in_order(begin: Model, done: &[Done], order: &[usize]) -> Self {
        let ops = order.iter().map(|number| done[*number].op.clone());
        let before = order.iter().map(|number| done[*number].before);
        Self::of(begin, ops.collect(), order.to_vec(), before.collect())
    }

    fn of(begin: Model, ops: Vec<Op>, numbers: Vec<usize>, before: Vec<OpSet>) -> Self {
        let (mut states, mut effects, mut answers) = (vec![begin], Vec::new(), Vec::new());
        for op in &ops {
            let before = &states[states.len() - 1];
            let mut after = before.clone();
            let answer = after.apply(op);
            effects.push(match answer.is_ok() {
                true => effect(op, before),
                false => Effect::default(),
            });
            states.push(after);
            answers.push(answer);
        }
        Self {
            trees: states.iter().map(Model::tree).collect(),
            ops,
            numbers,
            before,
            states,
            effects,
            answers,
            is_whole: false,
            is_by_pages: false,
        }
    }

    /// A write is there as a whole or not at all, as with data journaling.
    pub fn keep_writes_whole(&mut self) {
        self.is_whole = true;
    }

    /// An `fdatasync` is of its file alone, as it is where the window answers it.
    pub fn sync_contents_alone(&mut self) {
        self.is_by_pages = true;
        let all = self.effects.iter_mut().zip(&self.ops).zip(&self.states);
        for ((effect, op), before) in all {
            if let (Op::Fdatasync(_), Syncs::File(file)) = (op, effect.syncs)
                && before.contents(file).is_some()
            {
                effect.syncs = Syncs::Contents(file);
            }
        }
    }

    /// Each operation is safe when it is answered, as it is with personalities that promise that.
    pub fn sync_everything(&mut self) {
        let all = self.effects.iter_mut().zip(&self.ops).zip(&self.answers);
        for ((effect, op), answer) in all {
            // Who only looks may see what another task is about to make durable.
            let looks = matches!(op, Op::Open(..) | Op::Close(_) | Op::Read { .. });
            if answer.is_ok() && !looks {
                effect.syncs = Syncs::Everything;
            }
        }
    }

    /// What each of them gives.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// The operations.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The state behind so many operations.
    pub fn state(&self, behind: usize) -> &Model {
        &self.states[behind]
    }

    fn bounds(&self, progress: Progress) -> Bounds {
        let of_names = |syncs| !matches!(syncs, Syncs::Contents(_));
        let safe: Vec<OpSet> = self.safe(progress, of_names).collect();
        let is_safe = |number: usize| safe.iter().any(|set| set.has(number));
        let last = self.numbers.iter().rposition(|number| is_safe(*number));
        let committed = last.map_or(0, |place| place + 1);
        Bounds {
            committed: self.made(progress).fold(committed, usize::max),
            begun: self.leading(progress.begun),
        }
    }

    /// The states from which on files are there of which no more than the contents was synced.
    fn made(&self, progress: Progress) -> impl Iterator<Item = usize> {
        let all = self.numbers.iter().zip(&self.effects);
        let synced = all.filter_map(move |(number, effect)| match effect.syncs {
            Syncs::Contents(file) if progress.answered.has(*number) => Some(file),
            _ => None,
        });
        synced.filter_map(|file| {
            let mut states = self.states.iter();
            states.position(|state| state.contents(file).is_some())
        })
    }

    /// So many operations from the first on are of a set.
    fn leading(&self, set: OpSet) -> usize {
        let all = self.numbers.iter();
        all.take_while(|number| set.has(**number)).count()
    }

    /// What each sync that was answered has made safe, of those that sync what is wanted.
    fn safe(
        &self,
        progress: Progress,
        is_wanted: impl Fn(Syncs) -> bool,
    ) -> impl Iterator<Item = OpSet> {
        let all = self.numbers.iter().enumerate();
        let answered = all.filter(move |(place, number)| {
            let syncs = self.effects[*place].syncs;
            progress.answered.has(**number) && syncs != Syncs::Nothing && is_wanted(syncs)
        });
        answered.map(|(place, number)| self.before[place].with(*number))
    }

    /// Whether a tree may be what is left.
    ///
    /// # Errors
    /// What is wrong with it, one sentence for each prefix that it may be.
    pub fn check(&self, found: &Tree, progress: Progress) -> Result<(), String> {
        let bounds = self.bounds(progress);
        if bounds.committed > bounds.begun {
            return Err("an operation that was not asked yet would be there".to_owned());
        }
        let mut wrong = Vec::new();
        for prefix in (bounds.committed..=bounds.begun).rev() {
            let how = self.trees[prefix].meta_difference(found);
            match how.or_else(|| self.contents_fault(found, prefix, progress)) {
                None => return Ok(()),
                Some(how) => wrong.push(format!("behind {prefix} operations: {how}")),
            }
        }
        Err(wrong.join("; "))
    }

    fn contents_fault(&self, found: &Tree, prefix: usize, progress: Progress) -> Option<String> {
        let entries = self.trees[prefix].0.iter();
        for (path, wanted) in entries {
            let Some(contents) = self.states[prefix].contents(wanted.id) else {
                continue;
            };
            let found = &found.0[path].contents;
            if found == contents {
                continue;
            }
            if let Some(how) = self.file_fault(wanted.id, found, prefix, progress) {
                return Some(format!("{path} {how}"));
            }
        }
        None
    }

    fn file_fault(
        &self,
        file: Id,
        found: &Contents,
        prefix: usize,
        progress: Progress,
    ) -> Option<String> {
        let bounds = self.bounds(progress);
        let synced = self.synced(file, progress);
        let sizes = self.sizes(file, prefix, synced, bounds);
        let size = found.size();
        // A part of a write that was not synced.
        let bounds_of = sizes.first().copied().zip(sizes.last().copied());
        let is_part = self.is_by_pages
            && size.is_multiple_of(PAGE)
            && bounds_of.is_some_and(|(least, most)| (least..most).contains(&size));
        if !sizes.contains(&size) && !is_part {
            return Some(format!("has {size} B and may have {sizes:?}"));
        }
        let cuts = self.cuts(file, size);
        for (from, to) in cuts.iter().zip(cuts.iter().skip(1)) {
            if !self.may_be(file, found, (*from, *to), (prefix, synced), bounds) {
                return Some(format!(
                    "has bytes at {from} that were never there or were taken or replaced for good: \
                     {:02x?}",
                    &found.read(*from, (to - from).min(8) as usize)
                ));
            }
        }
        let is_one =
            || (synced..=bounds.begun).any(|at| self.is_of(file, found, at, &cuts, bounds));
        (self.is_whole && !is_one()).then(|| "has bytes of several moments: a write is torn".into())
    }

    /// Whether bytes are those of a file behind so many operations, but for what was taken behind.
    fn is_of(
        &self,
        file: Id,
        found: &Contents,
        version: usize,
        cuts: &[u64],
        bounds: Bounds,
    ) -> bool {
        let Some(contents) = self.states[version].contents(file) else {
            return false;
        };
        let behind = |(op, _): &(usize, Takes)| (version..bounds.begun).contains(op);
        let takes: Vec<Takes> = self
            .takes(file)
            .filter(behind)
            .map(|(_, take)| take)
            .collect();
        let size = found.size();
        let is_set = takes.iter().any(|takes| takes.size == Some(size));
        let ranges = cuts.iter().zip(cuts.iter().skip(1));
        (contents.size() == size || is_set)
            && ranges.into_iter().all(|(from, to)| {
                let bytes = found.read(*from, (to - from) as usize);
                let mut wanted = contents.read(*from, bytes.len());
                wanted.resize(bytes.len(), 0);
                let is_zero = bytes.iter().all(|byte| *byte == 0);
                let is_taken = |takes: &Takes| takes.from < *to && *from < takes.to;
                // Ends of a range are made zero before what is between them goes.
                let mut zeroed = self.zeroed(file, version);
                let is_zeroed = zeroed.any(|range| range.0 < *to && *from < range.1);
                wanted == bytes || (is_zero && (is_zeroed || takes.iter().any(is_taken)))
            })
    }

    /// The state behind which nothing of a file is lost.
    fn synced(&self, file: Id, progress: Progress) -> usize {
        let safe = self.safe(progress, |syncs| match syncs {
            Syncs::Nothing => false,
            Syncs::File(of) | Syncs::Contents(of) => of == file,
            Syncs::Everything => true,
        });
        safe.map(|set| self.leading(set)).max().unwrap_or(0)
    }

    fn takes(&self, file: Id) -> impl DoubleEndedIterator<Item = (usize, Takes)> {
        let effects = self.effects.iter().enumerate();
        let takes = effects.filter_map(|(op, effect)| Some((op, effect.takes?)));
        takes.filter(move |(_, takes)| takes.file == file)
    }

    fn sizes(&self, file: Id, prefix: usize, synced: usize, bounds: Bounds) -> BTreeSet<u64> {
        let sets = self.takes(file).filter(|(_, takes)| takes.size.is_some());
        let (before, behind): (Vec<usize>, Vec<usize>) =
            sets.map(|(op, _)| op).partition(|op| *op < prefix);
        let first = before.last().map_or(0, |op| op + 1).max(synced);
        let last = behind
            .first()
            .map_or(bounds.begun, |op| (*op).min(bounds.begun));
        let versions = self.states[first..=last.max(first)].iter();
        let versions = versions.filter_map(|state| state.contents(file));
        versions.map(Contents::size).collect()
    }

    /// Where lines, sizes and what was taken begin and end, up to a size.
    fn cuts(&self, file: Id, size: u64) -> Vec<u64> {
        let mut cuts: BTreeSet<u64> = (0..size.div_ceil(LINE)).map(|line| line * LINE).collect();
        let versions = self.states.iter().filter_map(|state| state.contents(file));
        cuts.extend(versions.map(Contents::size));
        cuts.extend(
            self.takes(file)
                .flat_map(|(_, takes)| [takes.from, takes.to]),
        );
        cuts.extend(self.zeroed(file, 0).flat_map(|(from, to)| [from, to]));
        cuts.retain(|cut| *cut < size);
        cuts.insert(size);
        cuts.into_iter().collect()
    }

    /// What operations from one on make zero of a file.
    fn zeroed(&self, file: Id, first: usize) -> impl Iterator<Item = (u64, u64)> {
        let effects = self.effects[first.min(self.effects.len())..].iter();
        let zeroes = effects.filter_map(|effect| effect.zeroes);
        zeroes.filter_map(move |(of, from, to)| (of == file).then_some((from, to)))
    }

    fn may_be(
        &self,
        file: Id,
        found: &Contents,
        (from, to): (u64, u64),
        (prefix, synced): (usize, usize),
        bounds: Bounds,
    ) -> bool {
        let taken = self
            .takes(file)
            .rev()
            .find(|(op, takes)| *op < prefix && takes.from <= from && to <= takes.to);
        let first = taken.map_or(0, |(op, _)| op + 1).max(synced);
        let size = (to - from) as usize;
        let bytes = found.read(from, size);
        (first..=bounds.begun).any(|version| {
            let Some(contents) = self.states[version].contents(file) else {
                return false;
            };
            let is_within = contents.size() >= to || self.is_grown(file, version, to, bounds);
            let mut wanted = contents.read(from, size);
            wanted.resize(size, 0);
            is_within && wanted == bytes
        })
    }

    /// Whether an operation behind a version that is no write has set a size of at least `size`.
    fn is_grown(&self, file: Id, version: usize, size: u64, bounds: Bounds) -> bool {
        self.takes(file).any(|(op, takes)| {
            (version..bounds.begun).contains(&op) && takes.size.is_some_and(|set| set >= size)
        })
    }
}

fn effect(op: &Op, before: &Model) -> Effect {
    let id = |file: &File| before.file(file).unwrap_or_default();
    let syncs = match op {
        Op::Sync => Syncs::Everything,
        Op::Fsync(file) | Op::Fdatasync(file) => Syncs::File(id(file)),
        Op::Write {
            file, sync: true, ..
        } => Syncs::File(id(file)),
        _ => Syncs::Nothing,
    };
    let takes = match op {
        Op::Truncate { file, size } => {
            let old = size_of(before, file);
            Some(Takes {
                file: id(file),
                from: old.min(*size),
                to: u64::MAX,
                size: Some(*size),
            })
        }
        Op::Fallocate {
            file,
            how,
            at,
            size,
        } => allocation(id(file), *how, (*at, at + size), size_of(before, file)),
        _ => None,
    };
    let zeroes = match op {
        Op::Fallocate {
            file,
            how: Allocate::PunchHole | Allocate::ZeroRange | Allocate::ZeroRangeKeepSize,
            at,
            size,
        } => Some((id(file), *at, at + size)),
        _ => None,
    };
    Effect {
        syncs,
        takes,
        zeroes,
    }
}

fn size_of(before: &Model, file: &File) -> u64 {
    let id = before.file(file).unwrap_or_default();
    before.contents(id).map_or(0, Contents::size)
}

fn allocation(file: Id, how: Allocate, (at, end): (u64, u64), old: u64) -> Option<Takes> {
    let grows = matches!(how, Allocate::Grow | Allocate::ZeroRange) && end > old;
    let pages = at.next_multiple_of(PAGE)..end / PAGE * PAGE;
    let takes = !matches!(how, Allocate::Grow | Allocate::KeepSize) && !pages.is_empty();
    let (from, to) = match takes {
        true => (pages.start, pages.end),
        false => (old, old),
    };
    (grows || takes).then_some(Takes {
        file,
        from,
        to,
        size: grows.then_some(end),
    })
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
