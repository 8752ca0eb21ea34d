//! What must hold between calls, of the controller as a whole.

use super::Controller;
use crate::log_index::LogIndex;
use units::FrameId;

impl<I: LogIndex> Controller<I> {
    /// Checks everything that can be checked; for tests and `--audit`.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {
        self.back_end.audit();
        self.cache.audit();
        let in_log = self.log.as_ref().map_or(0, |log| log.waiting_count());
        let waiting = self.cache.waiter_count()
            + self.stalled_misses.len()
            + in_log
            + self.flushes.count()
            + self.past_cache.count()
            + self.back_end.writer_count();
        assert_eq!(
            self.outstanding, waiting as u64,
            "a request is lost or answered twice"
        );
        let (_, buffers_in_use) = self.back_end.buffer_counts();
        assert!(
            self.stalled_misses.is_empty() || self.cache.in_flight_count() + buffers_in_use > 0,
            "misses wait for room and nobody makes any"
        );
        if let Some(log) = &self.log {
            log.audit();
            for lpa in log.open_pages() {
                let resident = self.cache.find_resident(lpa);
                assert_eq!(resident, None, "a page with open lines rests in a frame");
            }
            for frame in (0..self.cache.frame_count()).map(FrameId::from_index) {
                assert_eq!(
                    self.cache.is_dirty(frame),
                    self.constants.frames_take_writes && !self.cache.dirty_lines(frame).is_empty(),
                    "{frame} is dirty in spite of the log, or without a dirty line"
                );
            }
            assert_eq!(
                (log.pages_in_flight() + self.back_end.writes_in_flight()) as usize,
                buffers_in_use,
                "a buffer is held by nobody"
            );
            assert!(
                log.has_room() || log.is_compacting() && buffers_in_use > 0,
                "the log is full and nobody makes room"
            );
        }
    }
}
