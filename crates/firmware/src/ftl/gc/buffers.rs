//! The buffers of GC: those of a flash page at a time, each filled with units of one victim.

use crate::platform::BufferId;
use alloc::vec;
use alloc::vec::Vec;
use units::{DieId, Lpa, Ppa, Time};

units::ids! {
    /// The buffers of one flash page.
    PageBuffer, "page buffer";
}

/// A unit in a buffer, on its way to another place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moved {
    pub(super) lpa: Lpa,
    pub(super) source: Ppa,
    pub(super) buffer: BufferId,
}

/// What is in the buffers of a flash page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathered {
    /// The die whose victim the units are of.
    pub(super) home: DieId,
    /// Buffers given out, from the first on.
    given: u32,
    /// Those whose units are being read.
    reading: u32,
    /// When a firmware core is done with the last one.
    pub(super) ready: Time,
}

/// All buffers.
#[derive(Clone, Debug)]
pub(in crate::ftl) struct Buffers {
    first: BufferId,
    /// Units of a flash page.
    page: u32,
    free: Vec<PageBuffer>,
    /// By page buffer.
    gathered: Vec<Gathered>,
    /// By buffer: the logical page and where it comes from.
    units: Vec<Option<(Lpa, Ppa)>>,
}

impl Buffers {
    pub(super) fn new(page: u32, first: BufferId, pages: u32) -> Self {
        let nothing = Gathered {
            home: DieId::new(0),
            given: 0,
            reading: 0,
            ready: Time::ZERO,
        };
        Self {
            first,
            page,
            free: (0..pages).rev().map(PageBuffer::new).collect(),
            gathered: vec![nothing; pages as usize],
            units: vec![None; (pages * page) as usize],
        }
    }

    /// Whether nothing is in any.
    pub(super) fn are_free(&self) -> bool {
        self.free.len() == self.gathered.len()
    }

    /// Whether no further flash page can be gathered.
    #[inline]
    pub(super) fn are_used_up(&self) -> bool {
        self.free.is_empty()
    }

    /// A buffer for a unit of the die: among those that are being filled, or new ones.
    #[inline]
    pub(super) fn take(
        &mut self,
        home: DieId,
        filling: &mut Option<PageBuffer>,
    ) -> Option<BufferId> {
        let page = match filling.take() {
            Some(page) => page,
            None => {
                let page = self.free.pop()?;
                self.gathered[page.index()] = Gathered {
                    home,
                    given: 0,
                    reading: 0,
                    ready: Time::ZERO,
                };
                page
            }
        };
        let gathered = &mut self.gathered[page.index()];
        let buffer = BufferId::new(self.first.get() + page.get() * self.page + gathered.given);
        gathered.given += 1;
        gathered.reading += 1;
        *filling = (gathered.given < self.page).then_some(page);
        Some(buffer)
    }

    /// A buffer, where a flash page is one.
    #[inline]
    pub(super) fn take_single(&mut self) -> Option<BufferId> {
        let page = self.free.pop()?;
        Some(BufferId::new(self.first.get() + page.get()))
    }

    /// Such a buffer is free again.
    #[inline]
    pub(super) fn put_single(&mut self, buffer: BufferId) {
        let page = PageBuffer::new(buffer.get() - self.first.get());
        self.free.push(page);
    }

    #[inline]
    fn index(&self, buffer: BufferId) -> usize {
        (buffer.get() - self.first.get()) as usize
    }

    /// The unit of a buffer is there, if it is still wanted: at `ready` a core is done with it.
    /// Returns the page buffer.
    #[inline]
    pub(super) fn end_read(
        &mut self,
        buffer: BufferId,
        unit: Option<((Lpa, Ppa), Time)>,
    ) -> PageBuffer {
        let index = self.index(buffer);
        let page = PageBuffer::new(index as u32 / self.page);
        let gathered = &mut self.gathered[page.index()];
        gathered.reading -= 1;
        self.units[index] = unit.map(|(unit, ready)| {
            gathered.ready = gathered.ready.max(ready);
            unit
        });
        page
    }

    /// What is known of a page buffer.
    #[inline]
    pub(super) fn gathered(&self, page: PageBuffer) -> Gathered {
        self.gathered[page.index()]
    }

    /// Whether every unit that a page buffer was given for has been read.
    #[inline]
    pub(super) fn is_read(&self, page: PageBuffer) -> bool {
        self.gathered[page.index()].reading == 0
    }

    /// What is in a page buffer is ready at another time.
    pub(super) fn set_ready(&mut self, page: PageBuffer, ready: Time) {
        self.gathered[page.index()].ready = ready;
    }

    /// The units in a page buffer, in the order of their places on flash.
    #[inline]
    pub(super) fn units(&self, page: PageBuffer) -> impl Iterator<Item = Moved> {
        let first = page.get() * self.page;
        (first..first + self.page).filter_map(move |nth| {
            let (lpa, source) = self.units[nth as usize]?;
            let buffer = BufferId::new(self.first.get() + nth);
            Some(Moved {
                lpa,
                source,
                buffer,
            })
        })
    }

    /// The unit number `nth` of a page buffer, counted without those that are not there.
    pub(super) fn unit(&self, page: PageBuffer, nth: u32) -> Option<Moved> {
        self.units(page).nth(nth as usize)
    }

    /// A unit is wanted no more.
    pub(super) fn drop_unit(&mut self, buffer: BufferId) {
        let index = self.index(buffer);
        self.units[index] = None;
    }

    /// Nothing is in a page buffer any more.
    #[inline]
    pub(super) fn release(&mut self, page: PageBuffer) {
        let first = (page.get() * self.page) as usize;
        self.units[first..first + self.page as usize].fill(None);
        self.free.push(page);
    }
}
