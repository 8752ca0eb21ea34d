//! Pages between flash and data cache: fetch, fill, eviction, prefetch.

use super::{Controller, slot_address};
use crate::back_end::{Job, Reader};
use crate::cache::{MshrId, Waiter};
use crate::config::MissAnswer;
use crate::durable::LoggedLine;
use crate::log_index::LogIndex;
use crate::platform::{
    Breakdown, BufferId, Cell, NandTag, PagePlace, Platform, Request, RequestOp, Served,
};
use crate::policies::promotion::Use;
use crate::prefetch::Plan;
use crate::work::Work;
use units::address::LINE_BYTES;
use units::{CoreId, FrameId, LineMask, Lpa, Time, TxId};

impl<I: LogIndex> Controller<I> {
    /// Starts the fetch of a mapped page that is neither cached nor in a buffer; None if there is
    /// no MSHR or no room in its set.
    pub(super) fn fetch<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        platform: &mut P,
    ) -> Option<MshrId> {
        if !self.cache.has_free_mshr() {
            return None;
        }
        let free_from = self.room_to_fill(at, platform);
        let room = platform.timed(Work::CacheInsert, |platform| self.vacate(at, lpa, platform));
        let at = platform.charge(at, Work::CacheInsert).max(free_from);
        let (frame, leaving) = room?;
        let behind = leaving.filter(|_| self.victims.goes_behind());
        if let (Some((at, buffer)), None) = (leaving, behind) {
            self.submit(at, buffer, platform);
        }
        let mshr = self.cache.begin_fetch(lpa, frame);
        if let Some(buffer) = self.back_end.buffer_with(lpa) {
            // Only without ssd.buffer_hits: the fetch takes the time, the buffer has the bytes.
            let (from, to) = (PagePlace::Buffer(buffer), PagePlace::Frame(frame));
            platform.copy_page(from, to, self.constants.all_lines);
            self.cache.note_copied(mshr);
        }
        if self.delay.is_used() {
            // Before the read is submitted: Algorithm 1 adds it to what is queued.
            self.cache.expect(mshr, at, self.back_end.estimate(lpa));
        }
        let tag = self.back_end.read(at, lpa, Reader::Mshr(mshr), platform);
        self.cache.fetched_by(mshr, tag);
        if let Some((at, buffer)) = behind {
            self.submit(at, buffer, platform);
        }
        if let Some((end, estimate)) = self.delay.ask_flash(tag, platform) {
            self.cache.expect(mshr, end, estimate);
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
        let place = self.cache.place_for(lpa, self.back_end.has_free_buffer())?;
        let mut leaving = None;
        if let Some((old, is_dirty)) = place.leaves {
            if is_dirty && self.log_dirty_lines(at, old, place.frame, platform) {
                // Nothing of it is newer than the log.
            } else if self.victims.programs(is_dirty) {
                if !is_dirty && !self.back_end.has_free_buffer() {
                    return None;
                }
                leaving = Some(self.buffer_frame(at, old, place.frame, platform));
            }
            if is_dirty {
                self.unkeep_frame(place.frame, platform);
            }
            match is_dirty {
                true => self.stats.evictions_dirty += 1,
                false => self.stats.evictions_clean += 1,
            }
            self.evict(old, place.frame);
        }
        Some((place.frame, leaving))
    }

    /// A page that is equal to what is on flash leaves.
    pub(super) fn evict_clean(&mut self, lpa: Lpa, frame: FrameId) {
        self.stats.evictions_clean += 1;
        self.evict(lpa, frame);
    }

    #[inline(always)]
    pub(super) fn evict(&mut self, lpa: Lpa, frame: FrameId) {
        self.hot_pages.left(lpa, self.cache.accesses(frame));
        if let Some(room) = self.room.as_mut() {
            room.left(lpa);
        }
        let was_useless = self.cache.evict(frame);
        self.stats.prefetches_useless += u64::from(was_useless);
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

    /// What is dirty of a page that leaves goes to the log, if that takes such lines, has room and
    /// they are few; says whether it went there.
    fn log_dirty_lines<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        frame: FrameId,
        platform: &mut P,
    ) -> bool {
        if !self.constants.frames_take_writes {
            return false;
        }
        let lines = self.cache.dirty_lines(frame);
        let count = lines.count();
        let log = self
            .log
            .as_ref()
            .expect("frames take what a log else takes");
        if count > self.constants.sparse || count > log.room() {
            return false;
        }
        for line in lines.iter() {
            self.write_order = self.write_order.next();
            let logged = LoggedLine {
                lpa,
                line,
                tx: TxId::NONE,
                order: self.write_order,
            };
            let from = Cell::Page(PagePlace::Frame(frame), line);
            let log = self.log.as_mut().expect("looked at above");
            let slot = log.append(logged, from, &mut self.stats, platform);
            let read = platform.dram_behind(at, self.line_address(frame, line), LINE_BYTES, false);
            platform.dram_behind(read, slot_address(slot), LINE_BYTES, true);
        }
        self.cache.mark_clean(frame);
        if let Some(room) = self.room.as_mut() {
            (0..count).for_each(|_| room.logged(lpa));
        }
        self.stats.evicted_lines_logged += u64::from(count);
        self.pump_halves(at, platform);
        true
    }

    /// Copies a page into a buffer, which is free; says when that is done.
    fn buffer_frame<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        frame: FrameId,
        platform: &mut P,
    ) -> (Time, BufferId) {
        let buffer = self.back_end.take_buffer(lpa, Job::WriteBack);
        let (from, to) = (PagePlace::Frame(frame), PagePlace::Buffer(buffer));
        platform.copy_page(from, to, self.constants.all_lines);
        let order = &mut self.write_order;
        self.back_end.record_buffer((lpa, buffer), order, platform);
        if self.constants.frames_take_writes {
            // The buffer is the page, whatever the log has of it: its order says so.
            self.drop_logged(lpa, platform);
        }
        let (address, size) = (self.frame_address(frame), self.constants.page.bytes());
        (platform.dram_behind(at, address, size, false), buffer)
    }

    /// Programs the page in a buffer, which now holds its newest bytes.
    pub(super) fn submit<P: Platform>(&mut self, at: Time, buffer: BufferId, platform: &mut P) {
        let log = self.log.as_ref();
        let passes_die = |lpa| log.is_some_and(|log| log.is_at_hand(lpa));
        self.back_end.submit(at, buffer, passes_die, platform);
    }

    /// A page has been programmed.
    pub(super) fn on_programmed<P: Platform>(
        &mut self,
        now: Time,
        buffer: BufferId,
        platform: &mut P,
    ) {
        let (lpa, job, age) = self.back_end.end_program(buffer, platform);
        if let Some(log) = self.log.as_mut().filter(|_| !self.back_end.is_protected()) {
            log.uncover(lpa, age, platform);
        }
        match job {
            Job::WriteBack if self.log.is_some() => self.turn_log(now, platform),
            Job::WriteBack => {}
            Job::Compaction => self.finish_page(now, lpa, platform),
            Job::BlockWrite => self.finish_page_write(now, buffer, platform),
        }
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
        self.cache.install(frame, lpa);
        let (from, to) = (PagePlace::Buffer(buffer), PagePlace::Frame(frame));
        platform.copy_page(from, to, self.constants.all_lines);
        let merged = self.complete_frame(at, (lpa, frame), LineMask::EMPTY, platform);
        self.write_frame(merged, frame, LineMask::EMPTY, platform)
    }

    /// Whether a page leaves its frame when those who wait for it are answered.
    #[inline]
    pub(super) fn only_passes(&self, lpa: Lpa) -> bool {
        self.constants.keeps_nothing || self.has_open(lpa)
    }

    /// Merges the page's newest logged lines into a frame that has just been given the page's
    /// older bytes (§III-B, "merge all cache lines in the log"); says when they are there. Of the
    /// lines `written` the frame itself may be newer than the log.
    fn complete_frame<P: Platform>(
        &mut self,
        at: Time,
        (lpa, frame): (Lpa, FrameId),
        written: LineMask,
        platform: &mut P,
    ) -> Time {
        self.stats.cache_fills += 1;
        let mut merged = at;
        if let Some(log) = &self.log {
            for (line, slot) in log.newest_lines(lpa) {
                if self.constants.frames_take_writes && written.contains(line) {
                    continue;
                }
                let to = Cell::Page(PagePlace::Frame(frame), line);
                platform.copy_line(Cell::Log(slot), to);
                merged = merged.max(self.charges.merge(at, slot, platform));
            }
        }
        merged
    }

    /// Writes a page into its frame in device DRAM, but for lines that are there.
    fn write_frame<P: Platform>(
        &mut self,
        at: Time,
        frame: FrameId,
        there: LineMask,
        platform: &mut P,
    ) -> Time {
        let size = self.constants.page.bytes() - LINE_BYTES * u64::from(there.count());
        platform.dram_behind(at, self.frame_address(frame), size, true)
    }

    /// Lines of a page that is being read have come, before the others: who waits for one of them
    /// is answered.
    ///
    /// What is in the frame in a newer version stays, and whoever asks for a line that is logged
    /// is served from the log: nothing is merged before all of the page is there.
    #[inline(never)]
    pub fn on_lines<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        lines: LineMask,
        platform: &mut P,
    ) {
        let Some(Reader::Mshr(mshr)) = self.back_end.reader_of(tag) else {
            return;
        };
        let frame = self.cache.frame_of(mshr);
        let lpa = self.cache.page_in(frame).expect("a page in flight has it");
        if !self.cache.takes_lines(mshr) || self.has_open(lpa) {
            return;
        }
        let older = lines.without(self.cache.written(mshr));
        let Some(first) = older.iter().next() else {
            return;
        };
        let (from, to) = (PagePlace::Register(tag), PagePlace::Frame(frame));
        platform.copy_page(from, to, older);
        self.cache.add_brought(mshr, older);
        let done = match self.fills.are_used() {
            // They stay in the buffer until all of the page is there.
            true => now,
            false => {
                let size = LINE_BYTES * u64::from(older.count());
                platform.dram_behind(now, self.line_address(frame, first), size, true)
            }
        };
        if self.cache.has_delayed(mshr) {
            platform.page_arrived(done, lpa);
        }
        let page = self.constants.page;
        while let Some(waiter) = self.cache.take_waiter(mshr, |waiter| {
            let request = waiter.pending.request;
            let line = request.line.in_page(page);
            let log = self.log.as_ref();
            request.op.line_count(page) == 1
                && older.contains(line)
                && log.is_none_or(|log| log.find(lpa, line).is_none())
        }) {
            self.stats.reads_before_page += 1;
            let arrived = (frame, self.cache.has_delayed(mshr), false);
            self.answer_waiter(now, done, &waiter, arrived, platform);
        }
    }

    /// The page of an MSHR has come: fill its frame and answer those who wait.
    pub(super) fn fill<P: Platform>(
        &mut self,
        now: Time,
        mshr: MshrId,
        tag: NandTag,
        platform: &mut P,
    ) {
        let mut arrived = self.cache.end_fetch(mshr);
        let (lpa, frame) = (arrived.lpa(), arrived.frame());
        let older = arrived.older_lines(self.constants.all_lines);
        let (from, to) = (PagePlace::Register(tag), PagePlace::Frame(frame));
        platform.copy_page(from, to, older);
        let written = arrived.written();
        let merged = self.complete_frame(now, (lpa, frame), written, platform);
        let done = match self.fills.are_used() {
            true => merged,
            false => self.write_frame(merged, frame, arrived.brought(), platform),
        };
        if arrived.has_delayed() {
            platform.page_arrived(done, lpa);
        }
        self.cache.settle(&arrived);
        self.keep_arrived(frame, platform);
        if self.only_passes(lpa) {
            arrived.let_pass();
        }
        // Who was told to come again has asked for the fetch, and is no waiter.
        let was_asked = arrived.has_delayed() && !arrived.is_prefetch();
        if was_asked && !arrived.only_passes() {
            self.count_fetch(lpa, frame);
        }
        while let Some(waiter) = self.cache.next_waiter(&mut arrived) {
            let page = (frame, arrived.has_delayed(), arrived.only_passes());
            self.answer_waiter(now, done, &waiter, page, platform);
        }
        if arrived.only_passes() {
            self.cache.remove(frame);
        } else if self.fills.are_used() {
            self.keep_fill(now, (lpa, frame), platform);
        }
    }

    #[inline(always)]
    fn answer_waiter<P: Platform>(
        &mut self,
        now: Time,
        filled: Time,
        waiter: &Waiter,
        (frame, has_delayed, only_passes): (FrameId, bool, bool),
        platform: &mut P,
    ) {
        let pending = &waiter.pending;
        // A waiter that joined so late that its lookup ends after the page came waits for that.
        let from_flash = now.max(waiter.since);
        let at = match self.constants.miss_answer {
            MissAnswer::Frame => filled.max(waiter.since),
            MissAnswer::Register => from_flash,
        };
        let breakdown = Breakdown {
            stall: waiter.since - pending.miss_ready(),
            index: pending.miss_ready() - pending.arrived,
            flash: from_flash - waiter.since,
            dram: at - from_flash,
        };
        let answer = (at, waiter.served, breakdown);
        self.answer_from_frame(pending, frame, answer, platform);
        if pending.request.op != RequestOp::PromotionRead && !only_passes {
            // Where the fetch was asked for in vain first, it has been counted.
            if waiter.served == Served::Flash && !has_delayed {
                let (lpa, _) = self.split(pending.request.line);
                self.count_fetch(lpa, frame);
            }
            self.use_frame(at, frame, pending.request, Use::Late, platform);
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
        let plan = self.cache.on_miss(lpa, source);
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
        let plan = self.cache.on_first_use(lpa, source);
        self.fetch_ahead(at, lpa, plan, platform);
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

    /// Fetches the pages of a plan, as many as `ssd.prefetch.pages` allows.
    fn fetch_ahead<P: Platform>(
        &mut self,
        at: Time,
        lpa: Lpa,
        (plan, most): (Plan, u32),
        platform: &mut P,
    ) {
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
        let may_fetch = lpa.get() < self.back_end.logical_page_count()
            && self.cache.find(lpa).is_none()
            && self.back_end.buffer_for_read(lpa).is_none()
            && self.back_end.is_mapped(lpa)
            && self.cache.may_fetch_ahead()
            && self.has_fill_buffer(at, platform);
        if !may_fetch {
            return false;
        }
        let Some(id) = self.fetch(at, lpa, platform) else {
            return false;
        };
        self.cache.note_prefetch(id);
        self.stats.prefetches += 1;
        true
    }
}
