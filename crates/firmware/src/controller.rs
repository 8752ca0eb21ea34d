//! The controller: requests in, answers out.
//!
//! Joins the components, of which none knows another: the write log with its transactions
//! ([`Log`]), the data cache with its MSHRs ([`Cache`]), and the way to flash, buffers and FTL
//! ([`BackEnd`]). It moves bytes between them and has the requests that wait for more than one.
//! What happens when is in the files below, by concern: reads (R1–R3), writes (W1–W3), fetches
//! (misses, fills, prefetch), compaction (L1–L5), promotion, transactions, and whole pages (the
//! block port).
//!
//! Invariants, checked by [`Controller::audit`] and the model tests:
//! every request is answered once; with a log no frame is dirty, that is, log, buffers and flash
//! together always hold every acknowledged line; the copies of a line in log and resident frame are
//! equal; a line leaves the log only when its page is on flash or has gone to the host.

mod artifact;
mod audit;
mod commands;
mod compaction;
mod constants;
mod fetches;
mod fills;
mod flush;
mod fullness;
mod kept;
mod owed;
mod pages;
mod past_cache;
mod promotion;
mod reads;
mod recovery;
mod room;
mod runs;
mod standstill;
mod tables;
mod transactions;
mod window;
mod writes;

use crate::back_end::{BackEnd, Ended, Reader};
use crate::cache::{Cache, Pending};
use crate::config::ControllerConfig;
use crate::durable::WriteOrder;
use crate::fill_buffers::FillBuffers;
use crate::ftl::{Ftl, FtlStats};
use crate::log::{Log, slot_address};
use crate::log_index::{LogIndex, TwoLevelHash};
use crate::platform::{
    Answer, Breakdown, BufferId, Cell, NandFault, NandTag, PagePlace, Platform, Refusal, Request,
    RequestOp, Response, Served, Timer,
};
use crate::policies::charges::Charges;
use crate::policies::delay::DelayPolicy;
use crate::policies::promotion::HotPages;
use crate::policies::room::Room;
use crate::policies::victims::VictimPolicy;
use crate::stats::ControllerStats;
use crate::work::Work;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
pub use compaction::Drain;
use constants::{Constants, takes_writes};
use flush::Flushes;
pub use fullness::Fullness;
use kept::Draining;
pub use owed::Owed;
use past_cache::PastCache;
pub use tables::{UnsoundState, check_tables};
use units::address::LINE_BYTES;
use units::{Bytes, DieId, FrameId, LineAddr, LineInPage, LogSlot, Lpa, Time};

/// Where the copies of a line in device DRAM are; all of them are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// The newest slot of the write log that holds the line.
    pub log: Option<LogSlot>,
    /// The resident frame that holds the page.
    pub frame: Option<FrameId>,
}

/// The controller of a memory-semantic SSD.
#[derive(Clone)]
pub struct Controller<I = TwoLevelHash> {
    constants: Constants,
    /// None: writes go to the data cache.
    log: Option<Log<I>>,
    /// None: the log has all of its size always.
    room: Option<Room>,
    /// Frames that the log should have and has, of which it knows.
    fitted: (u32, u32),
    cache: Cache,
    back_end: BackEnd,
    charges: Charges,
    delay: DelayPolicy,
    victims: VictimPolicy,
    hot_pages: HotPages,
    /// Misses that wait for an MSHR, a frame or a buffer, in order of arrival.
    stalled_misses: VecDeque<Pending>,
    fills: FillBuffers,
    flushes: Flushes,
    /// Where frames survive a power cut: how far their drain is, if there is one.
    draining: Option<Draining>,
    past_cache: PastCache,
    /// Requests that arrived and have not been answered.
    outstanding: u64,
    /// Of the latest line or page that was taken.
    write_order: WriteOrder,
    /// Lines of the page that compaction puts together: kept for its memory alone.
    collected: Vec<(LineInPage, LogSlot)>,
    stats: ControllerStats,
}

impl Controller {
    /// A preconditioned device with empty DRAM and the log index of SkyByte.
    ///
    /// # Panics
    /// If `config.validate()` has problems.
    pub fn new(config: &ControllerConfig) -> Self {
        Self::with_index(config)
    }
}

impl<I: LogIndex> Controller<I> {
    /// As [`Controller::new`], with another index of the log.
    ///
    /// # Panics
    /// If `config.validate()` has problems.
    pub fn with_index(config: &ControllerConfig) -> Self {
        Self::with_ftl(config, |config| {
            let first_gc_buffer = BufferId::new(config.ssd.buffers);
            Ftl::new(config.geometry, &config.ftl, config.timing, first_gc_buffer)
        })
    }

    fn with_ftl(config: &ControllerConfig, ftl: impl FnOnce(&ControllerConfig) -> Ftl) -> Self {
        let problems = config.validate();
        assert!(problems.is_empty(), "{}", problems.join("; "));
        let (ssd, page) = (&config.ssd, config.geometry.unit_size);
        let frames = ssd.frame_count(page.bytes());
        let back_end = BackEnd::new(config, ftl(config));
        assert!(
            back_end.logical_page_count() < u64::from(u32::MAX),
            "the data cache names pages by 32 bits"
        );
        let cache = Cache::new(frames, takes_writes(config), &ssd.cache, &ssd.prefetch);
        let frame_count = cache.frame_count();
        let mut controller = Self {
            constants: Constants::new(config),
            log: Log::new(&ssd.log, &ssd.compaction, page),
            room: Room::new(ssd, page),
            fitted: (0, 0),
            cache,
            back_end,
            charges: Charges::new(&ssd.log, &ssd.compaction),
            delay: DelayPolicy::new(config),
            victims: VictimPolicy::new(ssd),
            hot_pages: HotPages::new(config, frame_count),
            stalled_misses: VecDeque::new(),
            fills: FillBuffers::new(ssd),
            flushes: Flushes::default(),
            draining: None,
            past_cache: PastCache::default(),
            outstanding: 0,
            write_order: WriteOrder::default(),
            collected: Vec::new(),
            stats: ControllerStats::default(),
        };
        controller.take_frames_for_log();
        controller
    }

    /// A request for this line is on its way: what its lookups read is fetched from the memory of
    /// the machine that this runs on. Nothing else changes.
    #[inline]
    pub fn foresee(&self, line: LineAddr) {
        let (lpa, _) = self.split(line);
        self.cache.foresee(lpa);
        if let Some(log) = &self.log {
            log.foresee(lpa);
        }
    }

    /// A host request has arrived. It is answered once, in this call or in a later one.
    ///
    /// Two requests for one line must not be outstanding together unless both are reads (the host
    /// keeps that order, as CXL.mem wants); a request of a page counts as one of each of its lines.
    /// The block port is not used for pages that the host has taken over or is taking over.
    #[inline(always)]
    pub fn on_request<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.outstanding += 1;
        // The window is battery-backed DRAM: flash that takes no more is nothing to it.
        if self.back_end.is_read_only() && request.op.is_write() && !self.is_of_window(request) {
            return self.refuse(now, request, Refusal::ReadOnly, platform);
        }
        match request.op {
            RequestOp::Write => self.on_write(now, request, platform),
            RequestOp::Own { .. } if self.log.is_some() => self.on_write(now, request, platform),
            RequestOp::Read { .. }
            | RequestOp::Own { .. }
            | RequestOp::PromotionRead
            | RequestOp::ReadPage => {
                self.on_read(now, request, platform);
            }
            RequestOp::WritePage | RequestOp::WritePageThrough => {
                self.on_page_write(now, request, platform);
            }
            _ => self.on_command(now, request, platform),
        }
        self.fit_log(now, platform);
        self.settle(now, platform);
    }

    /// A NAND operation has finished.
    ///
    // One function with the FTL's part in it, not that part for each of its callers.
    #[inline(never)]
    pub fn on_nand_done<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) {
        let ended = self.back_end.on_nand_done(now, tag, platform);
        self.go_on(now, tag, ended, platform);
        // The other units of a flash page.
        while let Some(ended) = self.back_end.next_end(now, platform) {
            self.go_on_more(now, tag, ended, platform);
        }
    }

    /// A NAND operation has failed. Programs are done again elsewhere and blocks that fail are
    /// retired; of a read that cannot be corrected the register holds poison, which goes where its
    /// bytes go.
    #[cold]
    pub fn on_nand_failed<P: Platform>(
        &mut self,
        now: Time,
        tag: NandTag,
        fault: NandFault,
        platform: &mut P,
    ) {
        let ended = self.back_end.on_nand_failed(now, (tag, fault), platform);
        self.go_on_more(now, tag, ended, platform);
    }

    /// As [`Controller::go_on`], where it is rare.
    #[inline(never)]
    fn go_on_more<P: Platform>(&mut self, now: Time, tag: NandTag, ended: Ended, platform: &mut P) {
        self.go_on(now, tag, ended, platform);
    }

    /// Does what the end of a NAND operation allows.
    #[inline(always)]
    fn go_on<P: Platform>(&mut self, now: Time, tag: NandTag, ended: Ended, platform: &mut P) {
        match ended {
            Ended::Internal => return self.settle(now, platform),
            Ended::Read(Reader::Compaction(buffer)) => self.coalesce(now, buffer, tag, platform),
            Ended::Read(Reader::PastCache(place)) => self.pass_on(now, place, tag, platform),
            Ended::Read(Reader::Mshr(mshr)) => self.fill(now, mshr, tag, platform),
            Ended::Programmed(buffer) => self.on_programmed(now, buffer, platform),
        }
        // Before others take the buffers that are free now.
        self.advance_flushes(now, platform);
        self.drain_frames(now, platform);
        self.resume_misses(now, platform);
        self.settle(now, platform);
    }

    /// A timer has rung.
    ///
    /// The only timers are those of compaction: a firmware core takes a page up.
    pub fn on_timer<P: Platform>(&mut self, now: Time, timer: Timer, platform: &mut P) {
        self.compact_page(now, BufferId::new(timer.get()), platform);
        self.settle(now, platform);
    }

    /// Whether there is a write log beside the data cache.
    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Pages of the exported logical space.
    pub fn logical_page_count(&self) -> u64 {
        self.back_end.logical_page_count()
    }

    /// The die that a page is on, if it is mapped.
    pub fn die_of(&self, lpa: Lpa) -> Option<DieId> {
        self.back_end.ftl().die_of(lpa)
    }

    /// Where the copies of a line in device DRAM are.
    pub fn copies_of(&self, line: LineAddr) -> Copies {
        let (lpa, in_page) = self.split(line);
        Copies {
            log: self.find_in_log(lpa, in_page),
            frame: self.cache.find_resident(lpa),
        }
    }

    /// Whether nothing is in flight or waiting.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.cache.in_flight_count() == 0 && self.back_end.is_idle()
    }

    /// Counters since the last reset.
    pub fn stats(&self) -> &ControllerStats {
        &self.stats
    }

    pub(crate) fn ftl(&self) -> &Ftl {
        self.back_end.ftl()
    }

    /// Counters of the FTL since the last reset.
    pub fn ftl_stats(&self) -> &FtlStats {
        self.back_end.ftl().stats()
    }

    /// Sets all counters to zero; contents stay.
    pub fn reset_stats(&mut self) {
        self.stats = ControllerStats::default();
        self.back_end.reset_stats();
    }

    #[inline]
    fn split(&self, line: LineAddr) -> (Lpa, LineInPage) {
        let page = self.constants.page;
        (line.lpa(page), line.in_page(page))
    }

    /// A page leaves the log.
    fn drop_logged<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        if let Some(log) = self.log.as_mut() {
            log.drop_page(lpa, platform);
        }
    }

    #[inline]
    fn find_in_log(&self, lpa: Lpa, line: LineInPage) -> Option<LogSlot> {
        self.log.as_ref().and_then(|log| log.find(lpa, line))
    }

    /// Looks data cache and log index up side by side (D16), at the rate of the pipeline.
    #[inline]
    fn look_up<P: Platform>(
        &mut self,
        now: Time,
        request: Request,
        is_write: bool,
        platform: &mut P,
    ) -> Pending {
        let asks_log = self.time_look_up(request, platform);
        let cache_ready = platform.charge(now, Work::CacheLookup { is_write });
        let log_ready = match asks_log {
            true => platform.charge(now, Work::LogLookup { is_write }),
            false => cache_ready,
        };
        Pending {
            request,
            arrived: now,
            cache_ready,
            log_ready,
        }
    }

    /// Says whether the log is asked. Hardware asks it beside the data cache; software that is
    /// measured asks the data cache first, and the log only if that is in vain.
    #[inline(always)]
    fn time_look_up<P: Platform>(&self, request: Request, platform: &mut P) -> bool {
        if !platform.measures() {
            return self.log.is_some();
        }
        let (lpa, line) = self.split(request.line);
        let is_write = false;
        let frame = platform.timed(Work::CacheLookup { is_write }, |_| self.cache.find(lpa));
        if self.log.is_none() || frame.is_some_and(|frame| self.holds(frame, line, request.op)) {
            return false;
        }
        let slot = platform.timed(Work::LogLookup { is_write }, |_| {
            self.find_in_log(lpa, line)
        });
        core::hint::black_box(slot);
        true
    }

    /// Moves one line to or from device DRAM.
    #[inline]
    fn move_line<P: Platform>(at: Time, address: Bytes, is_write: bool, platform: &mut P) -> Time {
        platform.dram(at, address, LINE_BYTES, is_write)
    }

    /// Answers a request.
    #[inline]
    fn answer<P: Platform>(&mut self, response: Response, platform: &mut P) {
        self.outstanding -= 1;
        platform.respond(response);
    }

    /// Answers a read of a line or page from a page that holds its newest bytes.
    #[inline]
    fn answer_from_frame<P: Platform>(
        &mut self,
        pending: &Pending,
        frame: FrameId,
        answer: (Time, Served, Breakdown),
        platform: &mut P,
    ) {
        self.answer_from(pending, PagePlace::Frame(frame), answer, platform);
    }

    /// As [`Controller::answer_from_frame`], from wherever the page is.
    #[inline]
    fn answer_from<P: Platform>(
        &mut self,
        pending: &Pending,
        from: PagePlace,
        answer: (Time, Served, Breakdown),
        platform: &mut P,
    ) {
        match pending.request.op {
            RequestOp::ReadPage => {
                let to = PagePlace::Host(pending.request.id);
                platform.copy_page(from, to, self.constants.all_lines);
            }
            RequestOp::ReadRun { .. } => self.copy_run(pending.request, from, platform),
            _ => {
                let (_, line) = self.split(pending.request.line);
                platform.copy_line(Cell::Page(from, line), Cell::Host(pending.request.id));
            }
        }
        self.answer_read(pending, answer, platform);
    }

    /// Answers a read whose bytes have been copied; promotion reads are not counted.
    #[inline]
    fn answer_read<P: Platform>(
        &mut self,
        pending: &Pending,
        (at, served, breakdown): (Time, Served, Breakdown),
        platform: &mut P,
    ) {
        if pending.request.op != RequestOp::PromotionRead {
            self.stats.served.count(served);
        }
        let response = Response {
            request: pending.request.id,
            answer: match platform.is_poisoned(pending.request.id) {
                false => Answer::Data,
                true => Answer::Poison,
            },
            at,
            served,
            breakdown,
        };
        self.answer(response, platform);
    }

    /// Serves misses that waited for room, in order, until one has to go on waiting.
    fn resume_misses<P: Platform>(&mut self, now: Time, platform: &mut P) {
        while let Some(pending) = self.stalled_misses.front() {
            // A page write waits for nothing else.
            let op = pending.request.op;
            let is_page_write = matches!(op, RequestOp::WritePage | RequestOp::WritePageThrough);
            if is_page_write && !self.back_end.has_free_buffer() {
                return;
            }
            let pending = *pending;
            if !self.resolve(now, &pending, platform) {
                return;
            }
            self.stalled_misses.pop_front();
            let waited = now.saturating_since(pending.miss_ready());
            let so_far = self.stats.miss_stall_time;
            self.stats.miss_stall_time = so_far.saturating_add(waited);
        }
    }

    /// Serves a looked-up request now, unless there is no room; says whether it did.
    fn resolve<P: Platform>(&mut self, now: Time, pending: &Pending, platform: &mut P) -> bool {
        match pending.request.op {
            RequestOp::Write | RequestOp::WriteRun { .. } => {
                self.resolve_write(now, pending, platform)
            }
            RequestOp::WritePage | RequestOp::WritePageThrough => {
                self.resolve_page_write(now, pending, platform)
            }
            _ => self.resolve_read(now, pending, platform),
        }
    }

    /// Lets a request wait for room behind those that already wait.
    fn stall(&mut self, pending: Pending) {
        self.stats.miss_stalls += 1;
        self.stalled_misses.push_back(pending);
    }

    /// The first byte of a frame in device DRAM.
    fn frame_address(&self, frame: FrameId) -> Bytes {
        self.constants.frames_base + self.constants.page.bytes() * u64::from(frame.get())
    }

    /// The first byte of a line of a frame in device DRAM.
    fn line_address(&self, frame: FrameId, line: LineInPage) -> Bytes {
        self.frame_address(frame) + LINE_BYTES * u64::from(line.get())
    }
}
