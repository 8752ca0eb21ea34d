//! The way to flash: page buffers, the flash translation layer behind them, and the page writes
//! that wait for their programs.
//!
//! A page goes to flash from a buffer, which holds its newest bytes until the program is done, so
//! that reads of the page can be served from it meanwhile. It knows neither log nor data cache.

mod page_buffers;

use crate::cache::{MshrId, Pending};
use crate::config::{ControllerConfig, PowerLossProtection};
use crate::durable::{BufferedPage, Record, WriteOrder};
use crate::ftl::{Done, Estimate, Ftl, Owner, ProgramTo};
use crate::platform::{BufferId, NandFault, NandTag, PagePlace, Platform};
use alloc::vec::Vec;
pub(crate) use page_buffers::Job;
use page_buffers::PageBuffers;
use units::{Lpa, Time};

/// Who asks for a page of flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// The data cache, for the page of an MSHR.
    Mshr(MshrId),
    /// Compaction, for the rest of the page in a buffer.
    Compaction(BufferId),
    /// A read past the data cache, with its place in a list.
    PastCache(u32),
}

const COMPACTION: u32 = 1 << 31;
const PAST_CACHE: u32 = 1 << 30;

impl Reader {
    #[inline]
    fn owner(self) -> Owner {
        Owner::new(match self {
            Self::Mshr(mshr) => mshr.get(),
            Self::Compaction(buffer) => buffer.get() | COMPACTION,
            Self::PastCache(place) => place | PAST_CACHE,
        })
    }

    #[inline]
    fn of(owner: Owner) -> Self {
        let number = owner.get();
        if number & COMPACTION != 0 {
            Self::Compaction(BufferId::new(number & !COMPACTION))
        } else if number & PAST_CACHE != 0 {
            Self::PastCache(number & !PAST_CACHE)
        } else {
            Self::Mshr(MshrId::new(number))
        }
    }
}

/// What the end of a NAND operation means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// A page is in the register until the call is over.
    Read(Reader),
    /// The page of a buffer is on flash.
    Programmed(BufferId),
    /// A matter of the flash translation layer alone.
    Internal,
}

impl From<Done> for Ended {
    #[inline(always)]
    fn from(done: Done) -> Self {
        // `stale` needs no answer. A page whose program ends while its fetch is in flight was
        // compacted, and its lines have been put into the frame in flight; without a log a page in
        // a buffer is taken from there, so no fetch of it is in flight. A page write gives all of
        // its lines to a frame in flight.
        match done {
            Done::Read { owner, .. } => Self::Read(Reader::of(owner)),
            Done::Programmed { owner, .. } => Self::Programmed(BufferId::new(owner.get())),
            Done::Internal => Self::Internal,
        }
    }
}

/// Buffers and flash.
#[derive(Clone)]
pub(crate) struct BackEnd {
    buffers: PageBuffers,
    ftl: Ftl,
    /// By buffer: the page write that is answered when its program is done, and since when it has
    /// had the buffer.
    writers: Vec<Option<(Pending, Time)>>,
    /// Page writes whose program is not done, answered or not.
    writes_in_flight: u32,
    /// Buffers whose program has been asked for and is not done.
    programs: usize,
    /// Writes that wait in `writers`.
    writers_waiting: usize,
    /// Buffers survive when the power goes.
    is_protected: bool,
    /// Lines of the log do, until their page is on flash: compaction need not be waited for.
    keeps_log: bool,
    /// Reads of a page in a buffer are served from there.
    serves_reads: bool,
    /// Pages are programmed where nothing is to be done, if anywhere.
    prefers_idle_dies: bool,
}

impl BackEnd {
    pub(crate) fn new(config: &ControllerConfig, ftl: Ftl) -> Self {
        let ssd = &config.ssd;
        Self {
            buffers: PageBuffers::new(ssd.buffers),
            ftl,
            writers: Vec::new(),
            writes_in_flight: 0,
            programs: 0,
            writers_waiting: 0,
            is_protected: ssd.power_loss_protection.keeps_buffers(),
            keeps_log: ssd.power_loss_protection == PowerLossProtection::Log,
            serves_reads: ssd.buffer_hits,
            prefers_idle_dies: config.ftl.program_to == ProgramTo::IdleDie,
        }
    }

    /// The flash translation layer, to be asked how it is.
    pub(crate) fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// The same, for what only a simulator changes.
    pub(crate) fn ftl_mut(&mut self) -> &mut Ftl {
        &mut self.ftl
    }

    /// Whether nothing is in flight or waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.buffers.in_use() == 0 && self.ftl.is_idle()
    }

    // ---- Buffers ----

    /// Whether a buffer is free.
    #[inline]
    pub(crate) fn has_free_buffer(&self) -> bool {
        self.buffers.has_free()
    }

    /// How many are.
    #[inline]
    pub(crate) fn free_buffers(&self) -> usize {
        self.buffers.free()
    }

    /// Buffers, and those in use.
    pub(crate) fn buffer_counts(&self) -> (usize, usize) {
        (self.buffers.count(), self.buffers.in_use())
    }

    /// Buffers that have ever been taken: the number of the last one.
    pub(crate) fn buffers_taken(&self) -> u64 {
        self.buffers.taken()
    }

    /// Whether a page is in a buffer that was taken until then, and nowhere else that survives.
    pub(crate) fn has_unsafe_until(&self, last: u64) -> bool {
        !self.is_protected
            && self
                .buffers
                .has_one_until(last, |job| !self.keeps_log || job != Job::Compaction)
    }

    /// Whether a page is in a buffer that was taken until then.
    pub(crate) fn has_buffer_until(&self, last: u64) -> bool {
        self.buffers.has_one_until(last, |_| true)
    }

    /// When a buffer in use was taken, in the order of taking.
    pub(crate) fn age_of(&self, buffer: BufferId) -> u64 {
        self.buffers.age(buffer)
    }

    /// Pages on their way to flash, each with what its newest buffer is for.
    pub(crate) fn on_their_way(&self) -> impl Iterator<Item = (Lpa, Job)> + '_ {
        self.buffers.on_their_way()
    }

    /// Takes a free buffer for a page.
    pub(crate) fn take_buffer(&mut self, lpa: Lpa, job: Job) -> BufferId {
        self.buffers.take(lpa, job)
    }

    /// The page that a buffer in use is for.
    pub(crate) fn page_of(&self, buffer: BufferId) -> Lpa {
        self.buffers.job(buffer).0
    }

    /// Frees a buffer whose page is not to be programmed.
    pub(crate) fn release_buffer(&mut self, buffer: BufferId) {
        self.buffers.release(buffer);
    }

    /// Whether what buffers have survives a power cut.
    pub(crate) fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// What a buffer has of a page survives a power cut from now on, in place of what an earlier
    /// one has; if anything keeps buffers then, and `order` is drawn.
    pub(crate) fn record_buffer<P: Platform>(
        &mut self,
        (lpa, buffer): (Lpa, BufferId),
        order: &mut WriteOrder,
        platform: &mut P,
    ) {
        if !self.is_protected {
            return;
        }
        *order = order.next();
        let order = *order;
        platform.record(Record::Buffered(buffer, BufferedPage { lpa, order }));
        if let Some(older) = self.buffers.keep(lpa, buffer) {
            platform.record(Record::Unbuffered(older));
        }
    }

    /// The buffer with the newest bytes of a page on its way to flash.
    #[inline]
    pub(crate) fn buffer_with(&self, lpa: Lpa) -> Option<BufferId> {
        self.buffers.holding(lpa)
    }

    /// The buffer on its way to flash that a read of the page is served from.
    #[inline]
    pub(crate) fn buffer_for_read(&self, lpa: Lpa) -> Option<BufferId> {
        let buffer = self.buffers.holding(lpa)?;
        // A page that has never been on flash cannot be read from there.
        (self.serves_reads || !self.ftl.is_mapped(lpa)).then_some(buffer)
    }

    // ---- Flash ----

    /// Whether the page is on flash.
    #[inline]
    pub(crate) fn is_mapped(&self, lpa: Lpa) -> bool {
        self.ftl.is_mapped(lpa)
    }

    /// Pages of the exported logical space.
    #[inline]
    pub(crate) fn logical_page_count(&self) -> u64 {
        self.ftl.logical_page_count()
    }

    /// Whether nothing more may be written.
    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        self.ftl.is_read_only()
    }

    /// Whether pages wait for room and nothing ever makes any.
    #[inline]
    pub(crate) fn is_stuck(&self) -> bool {
        self.ftl.is_stuck()
    }

    /// What Algorithm 1 says of a read of the page.
    pub(crate) fn estimate(&self, lpa: Lpa) -> Estimate {
        self.ftl.estimate(lpa)
    }

    /// Fetches a mapped page.
    #[inline]
    pub(crate) fn read<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        reader: Reader,
        platform: &mut P,
    ) -> NandTag {
        let is_compaction = matches!(reader, Reader::Compaction(_));
        self.ftl
            .read_for(at, lpa, reader.owner(), is_compaction, platform)
    }

    /// Who asked for what the operation with this tag reads, which is not over; none if the flash
    /// translation layer itself did.
    pub(crate) fn reader_of(&self, tag: NandTag) -> Option<Reader> {
        self.ftl.owner_of_read(tag).map(Reader::of)
    }

    /// Programs the page in a buffer, which now holds its newest bytes. `passes_die`: not on the
    /// die whose turn it is, but on the next one.
    pub(crate) fn submit<P: Platform>(
        &mut self,
        at: Time,
        buffer: BufferId,
        passes_die: impl FnOnce(Lpa) -> bool,
        platform: &mut P,
    ) {
        self.buffers.publish(buffer);
        self.programs += 1;
        let (lpa, job) = self.buffers.job(buffer);
        self.writes_in_flight += u32::from(job != Job::Compaction);
        let from = PagePlace::Buffer(buffer);
        let owner = Owner::new(buffer.get());
        let is_compaction = job == Job::Compaction;
        if is_compaction && passes_die(lpa) {
            self.ftl.pass_die();
        }
        if self.prefers_idle_dies {
            self.ftl.go_to_idle_die();
        }
        self.ftl
            .program_for(at, lpa, from, owner, is_compaction, platform);
    }

    /// A NAND operation has finished.
    #[inline(always)]
    pub(crate) fn on_nand_done<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        platform: &mut P,
    ) -> Ended {
        self.ftl.on_nand_done(now, tag, platform).into()
    }

    /// What else has ended with the operation that finished last; to be asked until nothing has.
    #[inline]
    pub(crate) fn next_end<P: Platform>(&mut self, now: Time, platform: &mut P) -> Option<Ended> {
        self.ftl.next_done(now, platform).map(Ended::from)
    }

    /// Sees whether pages are gathered for a flash page that nobody fills, and has it programmed as
    /// it is. `is_awaited`: somebody waits for what is in buffers now.
    #[inline]
    pub(crate) fn close_page<P: Platform>(
        &mut self,
        now: Time,
        is_awaited: bool,
        platform: &mut P,
    ) {
        if self.ftl.gathered() > 0 {
            self.close_if_unfilled(now, is_awaited, platform);
        }
    }

    /// A job that has a buffer will fill the page, and so may one that gets the buffer of a program
    /// under way. With neither, or if somebody waits and no job has come so far, the page goes.
    fn close_if_unfilled<P: Platform>(&mut self, now: Time, is_awaited: bool, platform: &mut P) {
        let is_coming = self.buffers.in_use() > self.programs;
        let is_under_way = self.programs > self.ftl.gathered();
        let is_awaited = is_awaited || self.writers_waiting > 0;
        if !is_coming && (is_awaited || !is_under_way) {
            self.ftl.close_page(now, platform);
        }
    }

    /// A NAND operation has failed.
    pub(crate) fn on_nand_failed<P: Platform>(
        &mut self,
        now: Time,
        (tag, fault): (NandTag, NandFault),
        platform: &mut P,
    ) -> Ended {
        self.ftl.on_nand_failed(now, tag, fault, platform).into()
    }

    /// The page of a buffer is on flash, and the buffer free. Returns the page, what it was for,
    /// and the age of the buffer.
    pub(crate) fn end_program<P: Platform>(
        &mut self,
        buffer: BufferId,
        platform: &mut P,
    ) -> (Lpa, Job, u64) {
        let (lpa, job) = self.buffers.job(buffer);
        let age = self.buffers.age(buffer);
        // The page is mapped, here or by a later program; what is dropped from the log behind this
        // must not be covered by an earlier write of the page.
        if let Some(covered) = self.buffers.finish(buffer) {
            platform.record(Record::Unbuffered(covered));
        }
        self.writes_in_flight -= u32::from(job != Job::Compaction);
        self.programs -= 1;
        (lpa, job, age)
    }

    /// The page is given up: no buffer has it, it is mapped nowhere, and programs that are on their
    /// way come to nothing. The oldest copy goes first.
    pub(crate) fn trim<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        self.ftl.trim(lpa, platform);
        if let Some(buffer) = self.buffers.forget(lpa) {
            platform.record(Record::Unbuffered(buffer));
        }
    }

    /// Programs again what a buffer had when the power went.
    pub(crate) fn restore<P: Platform>(
        &mut self,
        at: Time,
        (lpa, buffer): (Lpa, BufferId),
        platform: &mut P,
    ) {
        self.buffers.retake(buffer, lpa, Job::BlockWrite);
        self.buffers.keep(lpa, buffer);
        self.submit(at, buffer, |_| false, platform);
    }

    // ---- Page writes that wait for their programs ----

    /// Keeps a write that is answered when its program is done; it has had the buffer since `at`.
    pub(crate) fn keep_writer(&mut self, at: Time, buffer: BufferId, pending: Pending) {
        if buffer.index() >= self.writers.len() {
            self.writers.resize(buffer.index() + 1, None);
        }
        self.writers[buffer.index()] = Some((pending, at));
        self.writers_waiting += 1;
    }

    /// The write that waits for the program of a buffer waits no longer.
    pub(crate) fn take_writer(&mut self, buffer: BufferId) -> Option<(Pending, Time)> {
        let writer = self.writers.get_mut(buffer.index()).and_then(Option::take);
        self.writers_waiting -= usize::from(writer.is_some());
        writer
    }

    /// None waits any more.
    pub(crate) fn give_up_writers(&mut self) -> Vec<(Pending, Time)> {
        self.writers_waiting = 0;
        self.writers.iter_mut().filter_map(Option::take).collect()
    }

    /// Page writes that wait for their programs.
    pub(crate) fn writer_count(&self) -> usize {
        self.writers_waiting
    }

    /// Page writes whose program is not done, answered or not.
    pub(crate) fn writes_in_flight(&self) -> u32 {
        self.writes_in_flight
    }

    /// Sets the counters to zero.
    pub(crate) fn reset_stats(&mut self) {
        self.ftl.reset_stats();
    }

    /// Checks the invariants of the flash translation layer.
    pub(crate) fn audit(&self) {
        self.ftl.audit();
    }
}
