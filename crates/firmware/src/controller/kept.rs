//! Dirty frames of the data cache that survive a power cut (`ssd.power_loss_protection = dram`):
//! the device of ByteFS's competitors, all of whose DRAM has a battery (ByteFS §4.2, §5.1).
//!
//! A frame counts from the first line that makes it newer than flash until its page is in a buffer,
//! written anew as a block, or given up. Lines that are written to it meanwhile are in what counts,
//! each as a whole. Of a page that is on its way from flash the lines count that ran ahead of it;
//! the others, when it is here. So a flush waits for nothing.

use super::Controller;
use crate::back_end::Reader;
use crate::durable::{KeptFrame, Record};
use crate::log_index::LogIndex;
use crate::platform::{PagePlace, Platform, Request, RequestOp};
use units::{FrameId, LineMask, Time};

/// How far a drain of frames is.
#[derive(Clone, Copy, Default)]
pub(super) struct Draining {
    /// Frames below are in buffers, or were clean.
    cursor: usize,
    /// The last buffer that was taken when all were.
    last_buffer: Option<u64>,
}

impl<I: LogIndex> Controller<I> {
    /// Goes on with the drain, if there is one: every frame that is dirty goes to flash, one in
    /// flight as soon as it is here. It is over when the programs are done.
    #[inline]
    pub(super) fn drain_frames<P: Platform>(&mut self, now: Time, platform: &mut P) {
        if let Some(draining) = self.draining {
            self.draining = self.go_on_draining(now, draining, platform);
        }
    }

    fn go_on_draining<P: Platform>(
        &mut self,
        now: Time,
        mut draining: Draining,
        platform: &mut P,
    ) -> Option<Draining> {
        while draining.cursor < self.cache.frame_count() {
            let frame = FrameId::from_index(draining.cursor);
            if self.cache.is_dirty(frame) && !self.write_frame_back(now, frame, platform) {
                return Some(draining);
            }
            draining.cursor += 1;
        }
        let taken = self.back_end.buffers_taken();
        let last = *draining.last_buffer.get_or_insert(taken);
        self.back_end.has_buffer_until(last).then_some(draining)
    }

    /// The frame, which has the lines of a write and none of who owns a line, is newer than flash
    /// and than every buffer of its page from now on.
    #[inline]
    pub(super) fn dirty_frame<P: Platform>(
        &mut self,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) {
        if self.constants.keeps_frames {
            self.keep_lines(frame, request, platform);
        }
        self.cache.mark_dirty(frame);
    }

    fn keep_lines<P: Platform>(&mut self, frame: FrameId, request: Request, platform: &mut P) {
        let in_flight = self.cache.mshr_of(frame);
        if !self.cache.is_dirty(frame) {
            let lpa = self.cache.page_in(frame);
            let lpa = lpa.expect("a frame that is written to has a page");
            self.write_order = self.write_order.next();
            let kept = KeptFrame {
                lpa,
                order: self.write_order,
                lines: match in_flight {
                    Some(mshr) => self.cache.written(mshr),
                    None => self.constants.all_lines,
                },
            };
            platform.record(Record::Framed(frame, kept));
        } else if in_flight.is_some() && !matches!(request.op, RequestOp::Own { .. }) {
            let mut lines = LineMask::EMPTY;
            for line in self.lines_of(request) {
                lines.insert(line);
            }
            platform.record(Record::FramedMore(frame, lines));
        }
    }

    /// A page has come into its frame, all of which counts now if lines ran ahead of it.
    #[inline]
    pub(super) fn keep_arrived<P: Platform>(&mut self, frame: FrameId, platform: &mut P) {
        if self.constants.keeps_frames && self.cache.is_dirty(frame) {
            platform.record(Record::FramedMore(frame, self.constants.all_lines));
        }
    }

    /// What the frame has counts no more, if it does: a newer copy of its page is durable, or the
    /// page is given up, its older copies first.
    #[inline]
    pub(super) fn unkeep_frame<P: Platform>(&mut self, frame: FrameId, platform: &mut P) {
        if self.constants.keeps_frames && self.cache.is_dirty(frame) {
            platform.record(Record::Unframed(frame));
        }
    }

    /// Puts a frame that was kept back where it was. What it lacks of its page comes from a buffer,
    /// or from flash as before the cut.
    pub(super) fn restore_frame<P: Platform>(
        &mut self,
        now: Time,
        (frame, kept): (FrameId, KeptFrame),
        platform: &mut P,
    ) {
        let (lpa, all) = (kept.lpa, self.constants.all_lines);
        let older = match self.back_end.buffer_with(lpa) {
            _ if kept.lines == all => None,
            Some(buffer) => Some(PagePlace::Buffer(buffer)),
            None if self.back_end.is_mapped(lpa) => {
                return self.fetch_rest(now, (frame, kept), platform);
            }
            None => Some(PagePlace::Zero),
        };
        self.cache.install(frame, lpa);
        self.cache.mark_dirty(frame);
        if let Some(older) = older {
            platform.copy_page(older, PagePlace::Frame(frame), all.without(kept.lines));
            platform.record(Record::FramedMore(frame, all));
        }
    }

    fn fetch_rest<P: Platform>(
        &mut self,
        now: Time,
        (frame, kept): (FrameId, KeptFrame),
        platform: &mut P,
    ) {
        let mshr = self.cache.begin_fetch(kept.lpa, frame);
        self.cache.add_written(mshr, kept.lines);
        self.cache.mark_dirty(frame);
        let tag = self
            .back_end
            .read(now, kept.lpa, Reader::Mshr(mshr), platform);
        self.cache.fetched_by(mshr, tag);
    }
}
