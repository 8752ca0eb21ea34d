//! Pages between flash and data cache: fetch, fill, eviction, prefetch.

use super::Controller;
use super::promotion::Use;
use crate::data_cache::MshrId;
use crate::durable::{BufferedPage, Record};
use crate::ftl::Owner;
use crate::log_index::LogIndex;
use crate::mshr::{Mshr, Waiter};
use crate::page_buffers::Job;
use crate::platform::{
    Breakdown, BufferId, Cell, NandTag, PagePlace, Platform, Request, RequestOp,
};
use crate::prefetch::{Plan, Prefetcher, Trigger};
use units::address::LINE_BYTES;
use units::{CoreId, FrameId, LineMask, Lpa, Time};

impl<I: LogIndex> Controller<I> {
    /// From now on page 0, 1, 2, … has the set in the data cache that the page with the first,
    /// second, … of these numbers would have: a host that does not number its pages by their
    /// place. The cache is empty.
    pub fn number_pages(&mut self, numbers: impl Iterator<Item = u64>) {
        self.cache.number_pages(numbers);
    }

    /// Starts the fetch of a mapped page that is neither cached nor in a buffer; None if there is
    /// no MSHR or no room in its set.
    pub(super) fn fetch<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        platform: &mut P,
    ) -> Option<MshrId> {
        if !self.mshrs.has_free() {
            return None;
        }
        let (frame, leaving) = self.vacate(at, lpa, platform)?;
        let behind = leaving.filter(|_| self.constants.victims_go_behind);
        if let (Some((at, buffer)), None) = (leaving, behind) {
            self.submit(at, buffer, platform);
        }
        let mshr = self.mshrs.open(lpa, frame);
        self.cache.install(frame, lpa, Some(mshr));
        if let Some(buffer) = self.buffers.holding(lpa) {
            // Only without ssd.buffer_hits: the fetch takes the time, the buffer has the bytes.
            let (from, to) = (PagePlace::Buffer(buffer), PagePlace::Frame(frame));
            platform.copy_page(from, to, self.constants.all_lines);
            self.mshrs.get_mut(mshr).is_copied = true;
        }
        if self.constants.delay_threshold.is_some() {
            // Before the read is submitted: Algorithm 1 adds it to what is queued.
            let estimate = self.ftl.estimate(lpa);
            let entry = self.mshrs.get_mut(mshr);
            entry.expected = at + estimate.latency;
            entry.is_behind_gc = estimate.gc_in_progress;
        }
        let tag = self.ftl.read(at, lpa, Owner::new(mshr.get()), platform);
        if let Some((at, buffer)) = behind {
            self.submit(at, buffer, platform);
        }
        if self.constants.knows_ends
            && let Some(end) = platform.expected_end(tag)
        {
            let entry = self.mshrs.get_mut(mshr);
            entry.expected = end;
            entry.is_behind_gc = false;
        }
        Some(mshr)
    }

    /// Frees a frame of the page's set; None if every page there is in flight, or dirty while no
    /// buffer is free to write it back through.
    pub(super) fn make_room<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        platform: &mut P,
    ) -> Option<FrameId> {
        let (frame, leaving) = self.vacate(at, lpa, platform)?;
        if let Some((at, buffer)) = leaving {
            self.submit(at, buffer, platform);
        }
        Some(frame)
    }

    /// As [`Controller::make_room`]; a page that goes to flash is in a buffer, to be submitted.
    fn vacate<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        platform: &mut P,
    ) -> Option<(FrameId, Option<(Time, BufferId)>)> {
        let frame = self.cache.place_for(lpa, self.buffers.has_free())?;
        let mut leaving = None;
        if let Some(old) = self.cache.page_in(frame) {
            if self.cache.is_dirty(frame) {
                self.stats.evictions_dirty += 1;
                leaving = Some(self.buffer_frame(at, old, frame, platform));
            } else if !self.constants.programs_clean_victims {
                self.stats.evictions_clean += 1;
            } else if self.buffers.has_free() {
                self.stats.evictions_clean += 1;
                leaving = Some(self.buffer_frame(at, old, frame, platform));
            } else {
                return None;
            }
            self.stats.prefetches_useless += u64::from(self.cache.is_prefetched(frame));
            self.cache.evict(frame);
        }
        Some((frame, leaving))
    }

    /// Sends a dirty page to flash through a buffer; its frame is free to go.
    pub(super) fn write_back<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        frame: FrameId,
        platform: &mut P,
    ) {
        self.stats.evictions_dirty += 1;
        self.program_frame(at, lpa, frame, platform);
    }

    /// Sends a page to flash through a buffer, which is free.
    pub(super) fn program_frame<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        frame: FrameId,
        platform: &mut P,
    ) {
        let (copied, buffer) = self.buffer_frame(at, lpa, frame, platform);
        self.submit(copied, buffer, platform);
    }

    /// Copies a page into a buffer, which is free; says when that is done.
    fn buffer_frame<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        frame: FrameId,
        platform: &mut P,
    ) -> (Time, BufferId) {
        let buffer = self.buffers.take(lpa, Job::WriteBack);
        let (from, to) = (PagePlace::Frame(frame), PagePlace::Buffer(buffer));
        platform.copy_page(from, to, self.constants.all_lines);
        self.record_buffer(lpa, buffer, platform);
        let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
        (platform.dram(at, address, size, false), buffer)
    }

    /// What a buffer has of a page survives a power cut from now on, in place of what an earlier
    /// one has; if anything keeps buffers then.
    pub(super) fn record_buffer<P: Platform>(
        &mut self,
        lpa: Lpa,
        buffer: BufferId,
        platform: &mut P,
    ) {
        if !self.constants.is_protected {
            return;
        }
        let order = self.next_order();
        platform.record(Record::Buffered(buffer, BufferedPage { lpa, order }));
        if let Some(older) = self.buffers.keep(lpa, buffer) {
            platform.record(Record::Unbuffered(older));
        }
    }

    /// Programs the page in a buffer, which now holds its newest bytes.
    pub(super) fn submit<P: Platform>(&mut self, at: Time, buffer: BufferId, platform: &mut P) {
        self.buffers.publish(buffer);
        let (lpa, job) = self.buffers.job(buffer);
        let from = PagePlace::Buffer(buffer);
        let owner = Owner::new(buffer.get());
        let is_compaction = job == Job::Compaction;
        if is_compaction && self.at_hand.is_all && self.at_hand.has(lpa) {
            // The artifact maps such a page to a die before it programs it on the next one.
            self.ftl.pass_die();
        }
        self.ftl
            .program_for(at, lpa, from, owner, is_compaction, platform);
    }

    /// A page has been programmed.
    pub(super) fn on_programmed<P: Platform>(
        &mut self,
        now: Time,
        buffer: BufferId,
        platform: &mut P,
    ) {
        let (lpa, job) = self.buffers.job(buffer);
        // The page is mapped, here or by a later program; what is dropped from the log now must
        // not be covered by an earlier write of the page.
        if let Some(covered) = self.buffers.finish(buffer) {
            platform.record(Record::Unbuffered(covered));
        }
        match job {
            Job::WriteBack => {}
            Job::Compaction => self.finish_page(now, lpa, platform),
            Job::BlockWrite => self.finish_page_write(now, buffer, platform),
        }
    }

    /// The buffer on its way to flash that a page may be taken back from.
    #[inline]
    pub(super) fn buffer_of(&self, lpa: Lpa) -> Option<BufferId> {
        let buffer = self.buffers.holding(lpa)?;
        // A page that has never been on flash cannot be read from there.
        (self.constants.buffer_hits || !self.ftl.is_mapped(lpa)).then_some(buffer)
    }

    /// Takes a page back from a buffer on its way to flash; returns when it is in the frame.
    pub(super) fn fill_from_buffer<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        buffer: BufferId,
        frame: FrameId,
        platform: &mut P,
    ) -> Time {
        self.cache.install(frame, lpa, None);
        let (from, to) = (PagePlace::Buffer(buffer), PagePlace::Frame(frame));
        platform.copy_page(from, to, self.constants.all_lines);
        self.complete_frame(at, lpa, frame, platform)
    }

    /// Whether a page leaves its frame when those who wait for it are answered.
    #[inline]
    pub(super) fn only_passes(&self, lpa: Lpa) -> bool {
        self.constants.keeps_nothing || self.has_open(lpa)
    }

    /// Merges the page's newest logged lines into a frame that has just been given the page's
    /// older bytes (§III-B, "merge all cache lines in the log"), and charges device DRAM for both.
    fn complete_frame<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        frame: FrameId,
        platform: &mut P,
    ) -> Time {
        self.stats.cache_fills += 1;
        let mut merged = at;
        if let Some(log) = &self.log {
            for (line, slot) in log.newest_lines(lpa) {
                let to = Cell::Page(PagePlace::Frame(frame), line);
                platform.copy_line(Cell::Log(slot), to);
                if self.constants.merge_charged {
                    let read = platform.dram(at, Self::slot_address(slot), LINE_BYTES, false);
                    merged = merged.max(read);
                }
            }
        }
        let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
        platform.dram(merged, address, size, true)
    }

    /// The page of an MSHR has come: fill its frame and answer those who wait.
    pub(super) fn fill<P: Platform>(
        &mut self,
        now: Time,
        owner: Owner,
        tag: NandTag,
        platform: &mut P,
    ) {
        let mut mshr = self.mshrs.close(MshrId::new(owner.get()));
        let (lpa, frame) = (mshr.lpa, mshr.frame);
        let older = match mshr.is_copied {
            true => LineMask::EMPTY,
            false => self.constants.all_lines.without(mshr.written),
        };
        let (from, to) = (PagePlace::Register(tag), PagePlace::Frame(frame));
        platform.copy_page(from, to, older);
        let done = self.complete_frame(now, lpa, frame, platform);
        if mshr.has_delayed {
            platform.page_arrived(done, lpa);
        }
        self.cache.settle(frame);
        self.prefetcher.on_fill(lpa, mshr.is_prefetch);
        mshr.is_unwanted |= self.only_passes(lpa);
        while let Some(waiter) = self.mshrs.next_waiter(&mut mshr) {
            self.answer_waiter(now, done, &waiter, &mshr, platform);
        }
        if mshr.is_unwanted {
            self.cache.remove(frame);
        }
    }

    fn answer_waiter<P: Platform>(
        &mut self,
        now: Time,
        filled: Time,
        waiter: &Waiter,
        mshr: &Mshr,
        platform: &mut P,
    ) {
        let pending = &waiter.pending;
        // A waiter that joined so late that its lookup ends after the page came waits for that.
        let from_flash = now.max(waiter.since);
        let at = filled.max(waiter.since);
        let breakdown = Breakdown {
            stall: waiter.since - pending.miss_ready(),
            index: pending.miss_ready() - pending.arrived,
            flash: from_flash - waiter.since,
            dram: at - from_flash,
        };
        let answer = (at, waiter.served, breakdown);
        self.answer_from_frame(pending, mshr.frame, answer, platform);
        if pending.request.op != RequestOp::PromotionRead && !mshr.is_unwanted {
            self.use_frame(at, mshr.frame, pending.request, Use::Late, platform);
        }
    }

    /// A page is absent and has just been asked for: fetches ahead what the prefetcher expects.
    pub(super) fn prefetch<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        source: Option<CoreId>,
        platform: &mut P,
    ) {
        let is_miss = true;
        let plan = self.prefetcher.learn(Trigger {
            lpa,
            source,
            is_miss,
        });
        self.fetch_ahead(at, lpa, plan, platform);
    }

    /// A page fetched ahead is asked for, for the first time.
    pub(super) fn use_prefetched<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        source: Option<CoreId>,
        platform: &mut P,
    ) {
        self.stats.prefetches_useful += 1;
        let is_miss = false;
        let plan = self.prefetcher.learn(Trigger {
            lpa,
            source,
            is_miss,
        });
        if self.constants.prefetch_on_first_use {
            self.fetch_ahead(at, lpa, plan, platform);
        }
    }

    /// A request asks for a page in flight; if that is being fetched ahead, it comes late.
    pub(super) fn join_prefetch<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        request: Request,
        platform: &mut P,
    ) {
        if self.cache.take_prefetched(frame) {
            self.stats.prefetches_late += 1;
            let (lpa, _) = self.split(request.line);
            self.use_prefetched(at, lpa, request.source, platform);
        }
    }

    /// Fetches the pages of a plan, as many as `ssd.prefetch_pages` allows.
    fn fetch_ahead<P: Platform>(&mut self, at: Time, lpa: Lpa, plan: Plan, platform: &mut P) {
        let most = self.constants.prefetch_pages;
        match plan {
            Plan::Nothing => {}
            Plan::Stride(distance) => {
                for step in 1..=i64::from(most) {
                    if let Some(page) = lpa.get().checked_add_signed(distance * step) {
                        self.fetch_page_ahead(at, Lpa::new(page), platform);
                    }
                }
            }
            Plan::Footprint { first, pages } => {
                let start = (lpa.get() - first.get()) as u32;
                let mut left = pages.rotate_right(start);
                let mut fetched = 0;
                while left != 0 && fetched < most {
                    let bit = (left.trailing_zeros() + start) % u64::BITS;
                    left &= left - 1;
                    let page = first.offset(bit.into());
                    fetched += u32::from(self.fetch_page_ahead(at, page, platform));
                }
            }
        }
    }

    /// Fetches a page ahead if it is mapped, not here already, and finds a place and an MSHR beyond
    /// those left to demand; says whether it did.
    fn fetch_page_ahead<P: Platform>(&mut self, at: Time, lpa: Lpa, platform: &mut P) -> bool {
        let may_fetch = lpa.get() < self.ftl.logical_page_count()
            && self.cache.find(lpa).is_none()
            && self.buffer_of(lpa).is_none()
            && self.ftl.is_mapped(lpa)
            && self.mshrs.free_count() > self.constants.prefetch_reserve;
        if !may_fetch {
            return false;
        }
        let Some(id) = self.fetch(at, lpa, platform) else {
            return false;
        };
        let mshr = self.mshrs.get_mut(id);
        mshr.is_prefetch = true;
        self.cache.mark_prefetched(mshr.frame);
        self.stats.prefetches += 1;
        true
    }
}
