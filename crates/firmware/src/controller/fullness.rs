//! How full the device's memories are.

use super::Controller;
use crate::log_index::LogIndex;

/// How full everything is that fills and empties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fullness {
    /// Lines that both halves of the write log take.
    pub log_slots: u32,
    /// Lines that have been appended to halves that are not free.
    pub log_used: u32,
    /// Whether a half is being compacted.
    pub is_compacting: bool,
    /// Whether a half is to be sealed before it is full.
    pub is_draining: bool,
    /// Frames of the data cache.
    pub frames: u32,
    /// Frames that have a page, or wait for one.
    pub frames_used: u32,
    /// Page buffers of the controller.
    pub buffers: u32,
    /// Page buffers in use.
    pub buffers_used: u32,
    /// Erase blocks.
    pub blocks: u32,
    /// Erase blocks that are erased and not being written.
    pub free_blocks: u32,
}

impl<I: LogIndex> Controller<I> {
    /// Whether lines of the log, or frames of a drain, are on their way to flash, or are to be.
    #[inline]
    pub fn empties_log(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|log| log.is_compacting() || log.is_draining()) || self.draining.is_some()
    }

    /// Whether there is a standstill: what is on its way to flash stays on its way until the power
    /// has been off.
    #[inline]
    pub fn is_stuck(&self) -> bool {
        self.back_end.is_stuck()
    }

    /// How full everything is. Costs a few additions.
    pub fn fullness(&self) -> Fullness {
        let (log, ftl) = (self.log.as_ref(), self.back_end.ftl());
        let (buffers, buffers_used) = self.back_end.buffer_counts();
        Fullness {
            log_slots: log.map_or(0, |log| log.slot_count()),
            log_used: log.map_or(0, |log| log.used_slots()),
            is_compacting: log.is_some_and(|log| log.is_compacting()),
            is_draining: log.is_some_and(|log| log.is_draining()),
            frames: self.cache.frame_count() as u32 - self.cache.reserved(),
            frames_used: self.cache.used_frames() as u32,
            buffers: buffers as u32,
            buffers_used: buffers_used as u32,
            blocks: ftl.geometry().block_count(),
            free_blocks: ftl.free_blocks(),
        }
    }
}
