//! What the device still owes the flash: writes that it has acknowledged and not programmed, and
//! room that it has written into and not collected.

use super::Controller;
use crate::back_end::Job;
use crate::log_index::LogIndex;
use alloc::vec::Vec;
use units::{FrameId, Lpa};

/// What is in device DRAM and nowhere else, and what it would take to bring it to flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owed {
    /// Frames of the data cache that are newer than flash and log.
    pub dirty_frames: u64,
    /// Lines in the write log, of each its newest copy.
    pub log_lines: u64,
    /// Pages in buffers that are not on flash and not in the log any more.
    pub buffered: u64,
    /// Pages of frames and log, each once, and of buffers: so many programs.
    pub pages: u64,
    /// Of these, pages that would have to be read first: logged in part, and not cached.
    pub reads: u64,
    /// Pages that GC would move until each die has the most room that it ever has at rest.
    pub gc_moved: u64,
    /// Pages of the blocks that it would erase for that, of the last one what is wanted of it:
    /// less `gc_moved` it is the room that is lacking.
    pub gc_erased: u64,
}

impl<I: LogIndex> Controller<I> {
    /// What is owed. Looks at every frame, buffer and logged line, and at every block of dies
    /// that lack room.
    pub fn owed(&self) -> Owed {
        let gc = self.back_end.ftl().gc_owed();
        let mut owed = Owed {
            gc_moved: gc.moved,
            gc_erased: gc.erased,
            ..Owed::default()
        };
        for frame in (0..self.cache.frame_count()).map(FrameId::from_index) {
            let is_dirty = self.cache.page_in(frame).is_some() && self.cache.is_dirty(frame);
            owed.dirty_frames += u64::from(is_dirty);
        }
        let mut logged: Vec<Lpa> = Vec::new();
        if let Some(log) = &self.log {
            logged.extend(log.lines().into_iter().map(|(lpa, _)| lpa));
        }
        owed.log_lines = logged.len() as u64;
        logged.sort_unstable();
        logged.dedup();
        // What compaction programs stays in the log until it is on flash, or has left it.
        let in_log = |lpa| self.log.as_ref().is_some_and(|log| log.has_page(lpa));
        let buffers = self.back_end.on_their_way();
        let only_there = buffers.filter(|(lpa, job)| *job != Job::Compaction || !in_log(*lpa));
        owed.buffered = only_there.count() as u64;
        owed.pages = owed.dirty_frames + owed.buffered;
        for lpa in logged {
            let frame = self.cache.find(lpa);
            if frame.is_some_and(|frame| self.cache.is_dirty(frame)) {
                continue;
            }
            owed.pages += 1;
            owed.reads += u64::from(!self.compacts_without_read(lpa));
        }
        owed
    }
}
