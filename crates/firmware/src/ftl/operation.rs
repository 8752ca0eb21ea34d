//! Operations in flight, by tag, and what is in flight per page.

use super::Owner;
use super::gc::PageBuffer;
use crate::flight_map::{FlightMap, Leaves};
use crate::platform::{BufferId, NandTag, PagePlace};
use alloc::vec::Vec;
use units::{BlockAddr, DieId, Lpa, Ppa};

/// Order in which programs and trims were submitted; zero is before all.
pub(super) type Sequence = u64;

/// What the controller has programmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    pub(super) lpa: Lpa,
    pub(super) from: PagePlace,
    pub(super) owner: Owner,
    pub(super) sequence: Sequence,
    pub(super) is_compaction: bool,
}

/// What a NAND operation in flight is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// `seen` is the newest program or trim of the page that had taken effect at submission.
    HostRead {
        lpa: Lpa,
        ppa: Ppa,
        owner: Owner,
        seen: Sequence,
    },
    /// One unit of a flash page; the command bears the tag of its first one.
    HostProgram {
        ppa: Ppa,
        program: Program,
        /// The next unit of the flash page.
        rest: Option<NandTag>,
    },
    GcRead {
        lpa: Lpa,
        source: Ppa,
        buffer: BufferId,
        /// The die of the source.
        home: DieId,
    },
    /// Of a flash page that is one unit.
    GcProgram {
        lpa: Lpa,
        source: Ppa,
        ppa: Ppa,
        buffer: BufferId,
        /// The die of the source.
        home: DieId,
    },
    /// Of all units of a flash page, which are in these buffers.
    GcPage {
        /// The first unit's place.
        ppa: Ppa,
        page: PageBuffer,
    },
    Erase {
        block: BlockAddr,
    },
}

/// A slab of operations. A tag is given out again only after the call of `on_nand_done` in which
/// it finished, since its register is read until then.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    slots: Vec<Option<Operation>>,
    free: Vec<NandTag>,
    finished: Option<NandTag>,
}

impl Operations {
    // In its callers, where the parts of the operation are.
    #[inline(always)]
    pub(super) fn start(&mut self, operation: Operation) -> NandTag {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => self.add_slot(),
        };
        let slot = &mut self.slots[tag.index()];
        assert!(slot.is_none(), "{tag} is given out once");
        *slot = Some(operation);
        tag
    }

    /// All tags are in use: one more.
    #[cold]
    fn add_slot(&mut self) -> NandTag {
        self.slots.push(None);
        NandTag::from_index(self.slots.len() - 1)
    }

    #[inline]
    pub(super) fn finish(&mut self, tag: NandTag) -> Operation {
        if let Some(before) = self.finished.replace(tag) {
            self.free.push(before);
        }
        let slot = self.slots.get_mut(tag.index()).and_then(Option::take);
        slot.unwrap_or_else(|| panic!("{tag} finished, but no operation of that name is in flight"))
    }

    /// What the operation in flight with this tag is for.
    pub(super) fn get(&self, tag: NandTag) -> Operation {
        let operation = self.slots.get(tag.index()).copied().flatten();
        operation.unwrap_or_else(|| panic!("no operation of the name {tag} is in flight"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.slots.iter().flatten()
    }
}

/// What is in flight for one page, and the newest program or trim that took effect meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    in_flight: u32,
    newest: Sequence,
}

impl Watch {
    /// One operation less; without any the page is not watched.
    #[inline]
    fn end(&mut self) -> Leaves {
        self.in_flight -= 1;
        match self.in_flight {
            0 => Leaves::Yes,
            _ => Leaves::No,
        }
    }
}

/// The pages with reads or programs in flight, so that of two programs the one submitted later
/// wins, and a read knows whether it was overtaken. Entries live as long as operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    pages: FlightMap<Lpa, Watch>,
    submitted: Sequence,
}

impl Watches {
    /// A read is submitted. Returns what [`Watches::end_read`] wants to know.
    #[inline]
    pub(super) fn begin_read(&mut self, lpa: Lpa) -> Sequence {
        let watch = self.pages.entry(lpa);
        watch.in_flight += 1;
        watch.newest
    }

    /// A read is done. Returns whether a program or trim took effect since it was submitted.
    #[inline]
    pub(super) fn end_read(&mut self, lpa: Lpa, seen: Sequence) -> bool {
        let mut newest = 0;
        self.pages.change(lpa, |watch| {
            newest = watch.newest;
            watch.end()
        });
        newest != seen
    }

    /// A program is submitted. Returns its place in the order of submission.
    pub(super) fn begin_program(&mut self, lpa: Lpa) -> Sequence {
        self.submitted += 1;
        self.pages.entry(lpa).in_flight += 1;
        self.submitted
    }

    /// A program is done. Returns whether it takes effect: none submitted later has.
    pub(super) fn end_program(&mut self, lpa: Lpa, sequence: Sequence) -> bool {
        let mut takes_effect = false;
        self.pages.change(lpa, |watch| {
            takes_effect = sequence > watch.newest;
            watch.newest = watch.newest.max(sequence);
            watch.end()
        });
        takes_effect
    }

    /// A trim takes effect: programs submitted before it will not.
    pub(super) fn trim(&mut self, lpa: Lpa) {
        self.submitted += 1;
        if let Some(watch) = self.pages.get_mut(lpa) {
            watch.newest = self.submitted;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Lpa = Lpa::new(7);

    #[test]
    fn of_two_programs_the_later_submitted_wins_in_either_order() {
        for first_done in [0, 1] {
            let mut watches = Watches::default();
            let order = [watches.begin_program(PAGE), watches.begin_program(PAGE)];
            assert!(watches.end_program(PAGE, order[first_done]));
            assert_eq!(
                watches.end_program(PAGE, order[1 - first_done]),
                first_done == 0
            );
            assert!(watches.is_empty());
        }
    }

    #[test]
    fn a_read_is_stale_only_if_something_took_effect_since() {
        let mut watches = Watches::default();
        let (older, newer) = (watches.begin_program(PAGE), watches.begin_program(PAGE));
        let early = watches.begin_read(PAGE);
        assert!(watches.end_program(PAGE, newer));
        let late = watches.begin_read(PAGE);
        assert!(!watches.end_program(PAGE, older));
        assert!(watches.end_read(PAGE, early));
        assert!(!watches.end_read(PAGE, late));
        assert!(watches.is_empty());
    }

    #[test]
    fn a_trim_outlives_programs_submitted_before_it() {
        let mut watches = Watches::default();
        let before = watches.begin_program(PAGE);
        watches.trim(PAGE);
        let after = watches.begin_program(PAGE);
        assert!(!watches.end_program(PAGE, before));
        assert!(watches.end_program(PAGE, after));
    }

    #[test]
    fn a_tag_is_not_given_out_while_its_register_may_be_read() {
        let mut operations = Operations::default();
        let erase = |block| Operation::Erase {
            block: BlockAddr::new(block),
        };
        let first = operations.start(erase(1));
        operations.finish(first);
        let second = operations.start(erase(2));
        assert_ne!(first, second);
        operations.finish(second);
        assert_eq!(operations.start(erase(3)), first);
    }
}
