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
        self.ftl.audit();
        self.cache.audit();
        let waiting = self.mshrs.waiter_count()
            + self.stalled_misses.len()
            + self.stalled_writes.len()
            + self.stalled_commits()
            + self.flushes.count()
            + self.past_cache.count()
            + self.page_writers.iter().flatten().count();
        assert_eq!(
            self.outstanding, waiting as u64,
            "a request is lost or answered twice"
        );
        assert_eq!(
            self.cache.in_flight().count(),
            self.mshrs.in_use(),
            "an MSHR has no frame"
        );
        let mut listed = 0;
        for (frame, lpa, id) in self.cache.in_flight() {
            let mshr = self.mshrs.get(id);
            let holds = (mshr.frame, mshr.lpa);
            assert_eq!(holds, (frame, lpa), "an MSHR has another frame");
            listed += self.mshrs.waiters_of(id);
        }
        assert_eq!(listed, self.mshrs.waiter_count(), "a waiter is in no list");
        assert!(
            self.stalled_misses.is_empty() || self.mshrs.in_use() + self.buffers.in_use() > 0,
            "misses wait for room and nobody makes any"
        );
        if let Some(log) = &self.log {
            log.audit();
            self.audit_transactions();
            for frame in (0..self.cache.frame_count()).map(FrameId::from_index) {
                assert!(
                    !self.cache.is_dirty(frame),
                    "{frame} is dirty in spite of the log"
                );
            }
            assert_eq!(
                (self.compaction.pages_in_flight() + self.page_writes_in_flight) as usize,
                self.buffers.in_use(),
                "a buffer is held by nobody"
            );
            assert!(
                log.has_room() || log.is_compacting() && self.buffers.in_use() > 0,
                "the log is full and nobody makes room"
            );
        }
    }
}
