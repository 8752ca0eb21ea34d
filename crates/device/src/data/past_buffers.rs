//! A page of a block write goes to flash past its buffer, which saves a copy of it.
//!
//! The firmware takes such a page into a buffer, says that the buffer counts, and has it
//! programmed, mostly within one step. So its bytes wait where the host has them, and with them
//! every record of the step: the page is programmed from there, and the buffer's header says where
//! it is on flash, at the place of the bytes. Anything else that happens before has the page be
//! copied into the buffer first, and the end of the step too: outside of a step no record waits, so
//! whoever is killed leaves what it would have left with the page in the buffer.
//!
//! A buffer whose page is on flash is read there. Its bytes come back before they are changed,
//! where the program of the page has failed, and when the image is opened anew.

use super::{Data, LINE, SHARED, poison_of};
use crate::media::{Media, PageFault};
use crate::superblock::ImageId;
use crate::tables::Tables;
use firmware::{BufferId, PagePlace, Record};
use std::collections::BTreeSet;
use units::{LineInPage, Lpa, Ppa, RequestId};

/// Pages that go past their buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct PastBuffers {
    /// The buffer of a page that the host still has, and the request that brings it.
    coming: Option<(BufferId, RequestId)>,
    /// What is to be recorded once that page is somewhere.
    records: Vec<Record>,
    /// By buffer: where its page is on flash instead.
    places: Vec<Option<Ppa>>,
    /// Nothing goes past them: the image is to be read by programs that know none of this.
    is_unused: bool,
}

impl PastBuffers {
    /// Where the page of a buffer is on flash.
    #[inline]
    pub fn place(&self, buffer: BufferId) -> Option<Ppa> {
        self.places.get(buffer.index()).copied().flatten()
    }

    /// A page is on its way: what is recorded waits.
    #[inline]
    pub fn is_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// The buffer has other bytes from now on, all of them.
    #[inline]
    pub fn forget(&mut self, buffer: BufferId) {
        if let Some(place) = self.places.get_mut(buffer.index()) {
            *place = None;
        }
    }

    fn note(&mut self, buffer: BufferId, ppa: Ppa) {
        if buffer.index() >= self.places.len() {
            self.places.resize(buffer.index() + 1, None);
        }
        self.places[buffer.index()] = Some(ppa);
    }
}

impl Data {
    /// Has all pages be copied into their buffers from now on.
    pub fn keep_in_buffers(&mut self) {
        self.past_buffers.is_unused = true;
    }

    /// Whether a page of a request may wait where the host has it.
    #[inline]
    pub(super) fn may_pass(&self, id: RequestId) -> bool {
        self.page_bytes == SHARED
            && self.payloads.is_shared(id)
            && !self.media.is_packed()
            && !self.past_buffers.is_unused
    }

    /// A page comes into a buffer, and waits.
    #[inline]
    pub(super) fn begin_to_pass(&mut self, buffer: BufferId, id: RequestId) {
        self.past_buffers.forget(buffer);
        self.past_buffers.coming = Some((buffer, id));
    }

    /// Has a page that waits be in its buffer, and what was recorded since be recorded.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.past_buffers.is_coming() {
            self.settle_coming();
        }
    }

    #[cold]
    fn settle_coming(&mut self) {
        let Some((buffer, id)) = self.past_buffers.coming.take() else {
            return;
        };
        let bytes = self.payloads.bytes(id, 0, self.page_bytes);
        let target = self
            .tables
            .buffer_mut(buffer, LineInPage::new(0), self.page_bytes);
        target.copy_from_slice(bytes);
        for record in self.past_buffers.records.drain(..) {
            self.tables.record(record);
        }
    }

    /// Records what belongs to a page that waits behind it. Nothing else happens before that is
    /// programmed, or it does not wait any more.
    pub(super) fn record_behind(&mut self, record: Record) {
        match record {
            Record::Buffered(..)
            | Record::Unbuffered(_)
            | Record::Dropped(_)
            | Record::Forgotten { .. }
            | Record::Unframed(_) => self.past_buffers.records.push(record),
            other => {
                self.settle();
                self.tables.record(other);
            }
        }
    }

    /// Programs the page that waits, if it is the one of this place; says whether it is.
    #[inline]
    pub(super) fn program_coming(&mut self, (ppa, lpa): (Ppa, Lpa), from: PagePlace) -> bool {
        let Some((buffer, id)) = self.past_buffers.coming else {
            return false;
        };
        if from != PagePlace::Buffer(buffer) {
            return false;
        }
        self.past_buffers.coming = None;
        let bytes = self.payloads.bytes(id, 0, self.page_bytes);
        self.media.program(ppa, lpa, bytes);
        self.past_buffers.note(buffer, ppa);
        for record in self.past_buffers.records.drain(..) {
            match record {
                Record::Buffered(of, page) if of == buffer => {
                    self.tables.buffer_on_flash(buffer, page, ppa);
                }
                other => self.tables.record(other),
            }
        }
        true
    }

    /// Has the page of a buffer be in it, which is about to be changed.
    #[inline]
    pub(super) fn bring_back(&mut self, buffer: BufferId) {
        if let Some(ppa) = self.past_buffers.place(buffer) {
            self.past_buffers.forget(buffer);
            bring(&mut self.tables, buffer, self.media.page(ppa));
        }
    }

    /// Likewise of all buffers with pages at these places, which are about to be spoiled.
    #[cold]
    pub(super) fn bring_back_from(&mut self, places: impl Iterator<Item = Ppa>) {
        let places: BTreeSet<Ppa> = places.collect();
        for index in 0..self.past_buffers.places.len() {
            let buffer = BufferId::from_index(index);
            let place = self.past_buffers.place(buffer);
            if place.is_some_and(|place| places.contains(&place)) {
                self.bring_back(buffer);
            }
        }
    }
}

fn bring(tables: &mut Tables, buffer: BufferId, page: &[u8]) {
    let target = tables.buffer_mut(buffer, LineInPage::new(0), page.len());
    target.copy_from_slice(page);
    tables.buffer_is_back(buffer);
}

/// What is wrong with a buffer whose page is on flash.
pub enum Astray {
    /// There is no such place: the tables are damaged.
    Nowhere(String),
    /// The place does not hold the page as it was programmed.
    Lost(PageFault),
}

impl Astray {
    /// As a sentence, of a buffer.
    pub fn sentence(&self, buffer: BufferId, lpa: Lpa, ppa: Ppa) -> String {
        match self {
            Self::Nowhere(why) => why.clone(),
            Self::Lost(PageFault::Erased) => {
                format!("{lpa} of {buffer} is at {ppa}, which is erased")
            }
            Self::Lost(PageFault::Damaged) => {
                format!("{lpa} of {buffer} at {ppa}: the bytes are not those programmed")
            }
            Self::Lost(PageFault::Misplaced) => {
                format!("{lpa} of {buffer} is at {ppa}, where another page is")
            }
        }
    }
}

/// Buffers of an image whose pages are on flash, and what is wrong with each.
pub fn astray(tables: &Tables, media: &Media) -> Vec<(BufferId, Lpa, Ppa, Option<Astray>)> {
    let on_flash = tables.on_flash();
    let checked = on_flash.map(|(buffer, lpa, ppa)| {
        let wrong = match tables.has_place(ppa) {
            false => Some(Astray::Nowhere(format!(
                "{lpa} of {buffer} is at {ppa}, which there is not"
            ))),
            true => media.check(ppa, lpa).err().map(Astray::Lost),
        };
        (buffer, lpa, ppa, wrong)
    });
    checked.collect()
}

/// Brings all pages of buffers back from flash as an image is opened. Of one that the flash has
/// lost the buffer holds poison. All places exist.
pub fn bring_all_back(tables: &mut Tables, media: &Media, id: ImageId) {
    for (buffer, _, ppa, wrong) in astray(tables, media) {
        match wrong {
            None => bring(tables, buffer, media.page(ppa)),
            Some(_) => {
                let page = poison_of(id).repeat(media.page(ppa).len() / LINE);
                bring(tables, buffer, &page);
            }
        }
    }
}

#[cfg(test)]
mod tests;
