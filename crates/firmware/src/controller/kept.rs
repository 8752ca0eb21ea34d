//! Dirty frames of the data cache that survive a power cut (`ssd.power_loss_protection = dram`): the
//! device of ByteFS's competitors, all of whose DRAM has a battery (ByteFS §4.2, §5.1).
//!
//! A frame counts from the first line that makes it newer than flash until its page is in a buffer,
//! written anew as a block, or given up. Lines that are written to it meanwhile are in what counts,
//! each as a whole. A page that is on its way from flash has some lines alone, and does not count
//! until it is here. So a flush waits for pages in flight that were dirty when it came, and for
//! nothing else.

use super::Controller;
use crate::durable::{KeptFrame, Record};
use crate::log_index::LogIndex;
use crate::platform::Platform;
use units::FrameId;

impl<I: LogIndex> Controller<I> {
    /// The frame is newer than flash and than every buffer of its page from now on, bytes and all.
    #[inline]
    pub(super) fn dirty_frame<P: Platform>(&mut self, frame: FrameId, platform: &mut P) {
        if self.constants.keeps_frames && !self.cache.is_dirty(frame) {
            match self.cache.mshr_of(frame) {
                Some(_) => self.note_in_flight(frame),
                None => self.keep_frame(frame, platform),
            }
        }
        self.cache.mark_dirty(frame);
    }

    /// A page may have been dirty on its way before, and written as a block since.
    fn note_in_flight(&mut self, frame: FrameId) {
        if !self.dirty_in_flight.contains(&frame) {
            self.dirty_in_flight.push(frame);
        }
    }

    fn keep_frame<P: Platform>(&mut self, frame: FrameId, platform: &mut P) {
        let lpa = self.cache.page_in(frame);
        let lpa = lpa.expect("a frame that is written to has a page");
        self.write_order = self.write_order.next();
        let order = self.write_order;
        platform.record(Record::Framed(frame, KeptFrame { lpa, order }));
    }

    /// A page has come into its frame, which counts from now on if lines ran ahead of it.
    #[inline]
    pub(super) fn keep_arrived<P: Platform>(&mut self, frame: FrameId, platform: &mut P) {
        if self.dirty_in_flight.is_empty() {
            return;
        }
        if let Some(at) = self.dirty_in_flight.iter().position(|of| *of == frame) {
            self.dirty_in_flight.swap_remove(at);
            self.flushes.note_arrival(frame);
            if self.cache.is_dirty(frame) {
                self.keep_frame(frame, platform);
            }
        }
    }

    /// What the frame has counts no more, if it does: a newer copy of its page is durable, or the
    /// page is given up, its older copies first.
    #[inline]
    pub(super) fn unkeep_frame<P: Platform>(&mut self, frame: FrameId, platform: &mut P) {
        let counts = self.constants.keeps_frames
            && self.cache.is_dirty(frame)
            && self.cache.is_resident(frame);
        if counts {
            platform.record(Record::Unframed(frame));
        }
    }
}
