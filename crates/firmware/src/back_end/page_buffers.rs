//! Page buffers of the controller: a page is coalesced or written back through one (SkyByte Fig.
//! 13).
//!
//! A buffer is held from the start of its job to the end of its program, so that reads of the page
//! can be served from it meanwhile. Buffers are static RAM of the controller: moving a page costs
//! what the device DRAM at the other end costs.

use crate::flight_map::{FlightMap, Leaves};
use crate::platform::BufferId;
use alloc::vec;
use alloc::vec::Vec;
use units::Lpa;

/// Why a buffer is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// A dirty page of the data cache goes to flash.
    WriteBack,
    /// A page of the write log goes to flash.
    Compaction,
    /// A page that the block port wrote goes to flash.
    BlockWrite,
}

/// The buffers that count for a page on its way to flash.
#[derive(Clone, Copy, Default)]
struct OnItsWay {
    /// The one with its newest bytes.
    newest: Option<BufferId>,
    /// The one that counts after a power cut.
    kept: Option<BufferId>,
}

impl OnItsWay {
    #[inline]
    fn leaves(self) -> Leaves {
        match (self.newest, self.kept) {
            (None, None) => Leaves::Yes,
            _ => Leaves::No,
        }
    }
}

/// All page buffers.
#[derive(Clone)]
pub(super) struct PageBuffers {
    jobs: Vec<Option<(Lpa, Job)>>,
    free: Vec<BufferId>,
    pages: FlightMap<Lpa, OnItsWay>,
    /// By buffer, in the order of taking.
    ages: Vec<u64>,
    taken: u64,
}

impl PageBuffers {
    pub(super) fn new(count: u32) -> Self {
        Self {
            jobs: vec![None; count as usize],
            free: (0..count).rev().map(BufferId::new).collect(),
            pages: FlightMap::new(),
            ages: vec![0; count as usize],
            taken: 0,
        }
    }

    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn count(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn in_use(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// Takings so far: the number of the last one.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether a buffer is in use that was taken until then, for such a job.
    pub(super) fn has_one_until(&self, last: u64, is_meant: impl Fn(Job) -> bool) -> bool {
        let mut buffers = self.jobs.iter().zip(&self.ages);
        buffers.any(|(job, age)| job.is_some_and(|(_, job)| is_meant(job)) && *age <= last)
    }

    /// When a buffer was taken last, in the order of taking.
    pub(super) fn age(&self, buffer: BufferId) -> u64 {
        self.ages[buffer.index()]
    }

    /// Takes a buffer for a page.
    pub(super) fn take(&mut self, lpa: Lpa, job: Job) -> BufferId {
        let buffer = self
            .free
            .pop()
            .expect("a job starts only when a buffer is free");
        self.jobs[buffer.index()] = Some((lpa, job));
        self.taken += 1;
        self.ages[buffer.index()] = self.taken;
        buffer
    }

    /// Takes a buffer that held a page when power failed; says whether there is such a one.
    pub(super) fn retake(&mut self, buffer: BufferId, lpa: Lpa, job: Job) -> bool {
        let Some(at) = self.free.iter().position(|free| *free == buffer) else {
            return false;
        };
        self.free.remove(at);
        self.jobs[buffer.index()] = Some((lpa, job));
        self.taken += 1;
        self.ages[buffer.index()] = self.taken;
        true
    }

    /// The buffer holds the newest bytes of its page from now until it is released.
    pub(super) fn publish(&mut self, buffer: BufferId) {
        let (lpa, _) = self.job(buffer);
        self.pages.entry(lpa).newest = Some(buffer);
    }

    /// The buffer with the newest bytes of a page on its way to flash.
    #[inline]
    pub(super) fn holding(&self, lpa: Lpa) -> Option<BufferId> {
        if self.pages.is_empty() {
            return None;
        }
        self.pages.get(lpa)?.newest
    }

    /// No buffer holds the page any more: what is on its way to flash counts for nothing. Returns
    /// the buffer that counted after a power cut.
    pub(super) fn forget(&mut self, lpa: Lpa) -> Option<BufferId> {
        let mut kept = None;
        self.pages.change_any(lpa, |page| {
            kept = page.kept;
            Leaves::Yes
        });
        kept
    }

    /// The buffer counts for its page after a power cut; returns the one that did so before.
    pub(super) fn keep(&mut self, lpa: Lpa, buffer: BufferId) -> Option<BufferId> {
        self.pages.entry(lpa).kept.replace(buffer)
    }

    /// Pages on their way to flash, each with the purpose of the buffer that has its newest bytes.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = (Lpa, Job)> + '_ {
        let jobs = self.jobs.iter().enumerate();
        jobs.filter_map(|(index, job)| {
            let (lpa, job) = (*job)?;
            let is_newest = self.holding(lpa) == Some(BufferId::from_index(index));
            is_newest.then_some((lpa, job))
        })
    }

    /// Page and purpose of a buffer in use.
    pub(super) fn job(&self, buffer: BufferId) -> (Lpa, Job) {
        self.jobs[buffer.index()].expect("a buffer in use has a job")
    }

    /// Frees a buffer whose page has been programmed. Returns the one that counted for the page
    /// after a power cut and does so no more: this one, or one that was taken before it.
    pub(super) fn finish(&mut self, buffer: BufferId) -> Option<BufferId> {
        let (lpa, _) = self.job(buffer);
        let (ages, mut covered) = (&self.ages, None);
        self.pages.change_any(lpa, |page| {
            let is_covered = |kept: &mut BufferId| ages[kept.index()] <= ages[buffer.index()];
            covered = page.kept.take_if(is_covered);
            page.newest.take_if(|newest| *newest == buffer);
            page.leaves()
        });
        self.release(buffer);
        covered
    }

    /// Frees a buffer that holds nothing that counts.
    #[inline]
    pub(super) fn release(&mut self, buffer: BufferId) {
        self.jobs[buffer.index()] = None;
        self.free.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_two_buffers_of_a_page_is_found_until_it_is_released() {
        let mut buffers = PageBuffers::new(3);
        let lpa = Lpa::new(4);
        let older = buffers.take(lpa, Job::WriteBack);
        assert_eq!(buffers.holding(lpa), None);
        buffers.publish(older);
        let newer = buffers.take(lpa, Job::WriteBack);
        buffers.publish(newer);
        assert_eq!(buffers.finish(older), None);
        assert_eq!(buffers.holding(lpa), Some(newer));
        assert_eq!(buffers.job(newer), (lpa, Job::WriteBack));
        assert_eq!(buffers.finish(newer), None);
        assert_eq!(buffers.holding(lpa), None);
        assert_eq!(buffers.in_use(), 0);
        assert!(buffers.pages.is_empty());
    }

    #[test]
    fn a_kept_buffer_counts_until_it_or_one_taken_later_is_programmed() {
        let lpa = Lpa::new(4);
        for later_first in [false, true] {
            let mut buffers = PageBuffers::new(3);
            let older = buffers.take(lpa, Job::BlockWrite);
            assert_eq!(buffers.keep(lpa, older), None);
            buffers.publish(older);
            let newer = buffers.take(lpa, Job::BlockWrite);
            buffers.publish(newer);
            let covered = match later_first {
                true => [buffers.finish(newer), buffers.finish(older)],
                false => [buffers.finish(older), buffers.finish(newer)],
            };
            assert_eq!(covered, [Some(older), None]);
            assert!(buffers.pages.is_empty());
        }
    }

    #[test]
    fn a_buffer_kept_later_outlives_the_program_of_an_older_one() {
        let (mut buffers, lpa) = (PageBuffers::new(2), Lpa::new(4));
        let older = buffers.take(lpa, Job::BlockWrite);
        assert_eq!(buffers.keep(lpa, older), None);
        buffers.publish(older);
        let newer = buffers.take(lpa, Job::BlockWrite);
        assert_eq!(buffers.keep(lpa, newer), Some(older));
        buffers.publish(newer);
        assert_eq!(buffers.finish(older), None);
        assert_eq!(buffers.holding(lpa), Some(newer));
        assert_eq!(buffers.forget(lpa), Some(newer));
        assert_eq!(buffers.holding(lpa), None);
        assert_eq!(buffers.finish(newer), None);
        assert!(buffers.pages.is_empty());
    }
}
