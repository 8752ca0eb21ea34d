//! Page buffers of the controller: a page is coalesced or written back through one (SkyByte Fig.
//! 13).
//!
//! A buffer is held from the start of its job to the end of its program, so that reads of the page
//! can be served from it meanwhile. Buffers are static RAM of the controller: moving a page costs
//! what the device DRAM at the other end costs.

use crate::platform::BufferId;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
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

/// All page buffers.
#[derive(Clone)]
pub(crate) struct PageBuffers {
    jobs: Vec<Option<(Lpa, Job)>>,
    free: Vec<BufferId>,
    /// The buffer with the newest bytes of a page on its way to flash; never iterated.
    newest: HashMap<Lpa, BufferId, FxBuildHasher>,
    /// The buffer that counts for a page after a power cut; never iterated.
    kept: HashMap<Lpa, BufferId, FxBuildHasher>,
    /// By buffer, in the order of taking.
    ages: Vec<u64>,
    taken: u64,
}

impl PageBuffers {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            jobs: vec![None; count as usize],
            free: (0..count).rev().map(BufferId::new).collect(),
            newest: HashMap::with_capacity_and_hasher(count as usize, FxBuildHasher),
            kept: HashMap::with_hasher(FxBuildHasher),
            ages: vec![0; count as usize],
            taken: 0,
        }
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn in_use(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// Takings so far: the number of the last one.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether a buffer is in use that was taken until then.
    pub(crate) fn has_one_until(&self, last: u64) -> bool {
        let mut buffers = self.jobs.iter().zip(&self.ages);
        buffers.any(|(job, age)| job.is_some() && *age <= last)
    }

    /// Takes a buffer for a page.
    pub(crate) fn take(&mut self, lpa: Lpa, job: Job) -> BufferId {
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
    pub(crate) fn retake(&mut self, buffer: BufferId, lpa: Lpa, job: Job) -> bool {
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
    pub(crate) fn publish(&mut self, buffer: BufferId) {
        let (lpa, _) = self.job(buffer);
        self.newest.insert(lpa, buffer);
    }

    /// The buffer with the newest bytes of a page on its way to flash.
    #[inline]
    pub(crate) fn holding(&self, lpa: Lpa) -> Option<BufferId> {
        if self.newest.is_empty() {
            return None;
        }
        self.newest.get(&lpa).copied()
    }

    /// No buffer holds the page any more: what is on its way to flash counts for nothing.
    pub(crate) fn forget(&mut self, lpa: Lpa) {
        self.newest.remove(&lpa);
    }

    /// The buffer counts for its page after a power cut; returns the one that did so before.
    pub(crate) fn keep(&mut self, lpa: Lpa, buffer: BufferId) -> Option<BufferId> {
        self.kept.insert(lpa, buffer)
    }

    /// No buffer counts for the page after a power cut; returns the one that did.
    pub(crate) fn forget_kept(&mut self, lpa: Lpa) -> Option<BufferId> {
        self.kept.remove(&lpa)
    }

    /// Whether the buffer that counts for the page is this one or was taken before it.
    pub(crate) fn keeps_older(&self, lpa: Lpa, buffer: BufferId) -> bool {
        let kept = self.kept.get(&lpa);
        kept.is_some_and(|kept| self.ages[kept.index()] <= self.ages[buffer.index()])
    }

    /// Page and purpose of a buffer in use.
    pub(crate) fn job(&self, buffer: BufferId) -> (Lpa, Job) {
        self.jobs[buffer.index()].expect("a buffer in use has a job")
    }

    /// Frees a buffer.
    pub(crate) fn release(&mut self, buffer: BufferId) {
        let (lpa, _) = self.job(buffer);
        if self.newest.get(&lpa) == Some(&buffer) {
            self.newest.remove(&lpa);
        }
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
        buffers.release(older);
        assert_eq!(buffers.holding(lpa), Some(newer));
        assert_eq!(buffers.job(newer), (lpa, Job::WriteBack));
        buffers.release(newer);
        assert_eq!(buffers.holding(lpa), None);
        assert_eq!(buffers.in_use(), 0);
    }
}
