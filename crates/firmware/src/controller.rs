//! The controller: requests in, answers out.
//!
//! Owns every mechanism and joins them. What it decides is in the files below, by concern: reads
//! (R1–R3), writes (W1–W3), fetches (misses, fills, prefetch), compaction (L1–L5), promotion, and
//! whole pages (the block port).
//!
//! Invariants, checked by [`Controller::audit`] and the model tests:
//! every request is answered once; with a log no frame is dirty, that is, log, buffers and flash
//! together always hold every acknowledged line; the copies of a line in log and resident frame are
//! equal; a line leaves the log only when its page is on flash or has gone to the host.

mod audit;
mod commands;
mod compaction;
mod constants;
mod fetches;
mod flush;
mod fullness;
mod pages;
mod past_cache;
mod promotion;
mod reads;
mod recovery;
mod remains;
mod runs;
mod standstill;
mod transactions;
mod writes;

use crate::config::ControllerConfig;
use crate::data_cache::DataCache;
use crate::durable::{Record, WriteOrder};
use crate::ftl::{Done, Ftl, FtlStats};
use crate::log_index::{LogIndex, TwoLevelHash};
use crate::mshr::{MshrFile, Pending};
use crate::page_buffers::PageBuffers;
use crate::platform::{
    Answer, Breakdown, BufferId, Cell, NandFault, NandTag, PagePlace, Platform, Refusal, Request,
    RequestOp, Response, Served, Timer, Unit,
};
use crate::prefetch::AnyPrefetcher;
use crate::stats::ControllerStats;
use crate::write_log::WriteLog;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use compaction::{AtHand, Compaction};
use constants::Constants;
use flush::Flushes;
pub use fullness::Fullness;
use past_cache::PastCache;
pub use remains::{UnsoundState, check_tables};
use transactions::Transactions;
use units::address::LINE_BYTES;
use units::{Bytes, DieId, FrameId, LineAddr, LineInPage, LogSlot, Lpa, Picos, Time};
use writes::StalledWrite;

/// Where the copies of a line in device DRAM are; all of them are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// The newest slot of the write log that holds the line.
    pub log: Option<LogSlot>,
    /// The resident frame that holds the page.
    pub frame: Option<FrameId>,
}

/// The controller of a memory-semantic SSD. Owns the FTL.
#[derive(Clone)]
pub struct Controller<I = TwoLevelHash> {
    constants: Constants,
    cache: DataCache,
    prefetcher: AnyPrefetcher,
    log: Option<WriteLog<I>>,
    mshrs: MshrFile,
    buffers: PageBuffers,
    /// None: there are none, and nothing is paid for them.
    transactions: Option<Box<Transactions>>,
    compaction: Compaction,
    /// Misses that wait for an MSHR, a frame or a buffer, in order of arrival.
    at_hand: AtHand,
    stalled_misses: VecDeque<Pending>,
    /// Writes that wait for room in the log, in order of arrival.
    stalled_writes: VecDeque<StalledWrite>,
    /// By buffer: the page write that is answered when its program is done, and since when it has
    /// had the buffer.
    page_writers: Vec<Option<(Pending, Time)>>,
    /// Page writes whose program is not done, answered or not.
    page_writes_in_flight: u32,
    flushes: Flushes,
    past_cache: PastCache,
    /// Pages that the host has been offered and has not answered for.
    offered_pages: Vec<Lpa>,
    /// Requests that arrived and have not been answered.
    outstanding: u64,
    /// Of the latest line or page that was taken.
    write_order: WriteOrder,
    ftl: Ftl,
    stats: ControllerStats,
}

/// ByteFS §4.3: a commit takes 4 B of the TxLog.
const TX_LOG_ENTRY: Bytes = Bytes::new(4);

/// Who asked the FTL for a read: an MSHR, compaction with this buffer, or a read past the cache.
const COMPACTION_OWNER: u32 = 1 << 31;
const PAST_CACHE_OWNER: u32 = 1 << 30;

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
    /// The next program goes where page `lpa` would be, behind all pages of the program.
    pub fn write_as_behind(&mut self, lpa: Lpa) {
        self.ftl.write_as_behind(lpa);
    }

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
        let (ssd, page) = (&config.ssd, config.geometry.page_size);
        let ftl = ftl(config);
        assert!(
            ftl.logical_page_count() < u64::from(u32::MAX),
            "the data cache names pages by 32 bits"
        );
        let in_32_bits = |count: u64| u32::try_from(count).expect("validated");
        let half_slots = in_32_bits(ssd.half_slot_count());
        Self {
            constants: Constants::new(config),
            cache: DataCache::new(
                in_32_bits(ssd.frame_count(page.bytes())),
                ssd.cache_ways,
                ssd.cache_policy,
            ),
            prefetcher: AnyPrefetcher::new(ssd),
            log: (half_slots > 0).then(|| {
                WriteLog::new(half_slots, page, ssd.log_mode)
                    .sealed_at(in_32_bits(ssd.seal_slot_count()))
            }),
            transactions: (ssd.tx_log >= TX_LOG_ENTRY).then(|| {
                let seal_slots = in_32_bits(ssd.seal_slot_count());
                Box::new(Transactions::new(
                    in_32_bits(ssd.tx_log / TX_LOG_ENTRY),
                    seal_slots,
                ))
            }),
            mshrs: MshrFile::new(ssd.mshr_count),
            buffers: PageBuffers::new(ssd.buffers),
            compaction: Compaction::default(),
            at_hand: AtHand::default(),
            stalled_misses: VecDeque::new(),
            stalled_writes: VecDeque::new(),
            page_writers: Vec::new(),
            page_writes_in_flight: 0,
            flushes: Flushes::default(),
            past_cache: PastCache::default(),
            offered_pages: Vec::new(),
            outstanding: 0,
            write_order: WriteOrder::default(),
            ftl,
            stats: ControllerStats::default(),
        }
    }

    /// A host request has arrived. It is answered once, in this call or in a later one.
    ///
    /// Two requests for one line must not be outstanding together unless both are reads (the host
    /// keeps that order, as CXL.mem wants); a request of a page counts as one of each of its lines.
    /// The block port is not used for pages that the host has taken over or is taking over.
    #[inline]
    pub fn on_request<P: Platform>(&mut self, now: Time, request: Request, platform: &mut P) {
        self.outstanding += 1;
        if self.ftl.is_read_only() && request.op.is_write() {
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
        self.end_vain_waits(now, platform);
    }

    /// A NAND operation has finished.
    ///
    // One function with the FTL's part in it, not that part for each of its callers.
    #[inline(never)]
    pub fn on_nand_done<P: Platform>(&mut self, now: Time, tag: NandTag, platform: &mut P) {
        // `stale` needs no answer here. A page whose program ends while its fetch is in flight was
        // compacted, and `finish_page` has put its lines into the frame in flight; without a log a
        // page in a buffer is taken from there, so no fetch of it is in flight. A page write gives
        // all of its lines to a frame in flight.
        let done = self.ftl.on_nand_done(now, tag, platform);
        self.go_on(now, tag, done, platform);
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
        let done = self.ftl.on_nand_failed(now, tag, fault, platform);
        self.go_on(now, tag, done, platform);
    }

    /// Does what the end of a NAND operation allows.
    #[inline]
    fn go_on<P: Platform>(&mut self, now: Time, tag: NandTag, done: Done, platform: &mut P) {
        match done {
            Done::Internal => return self.end_vain_waits(now, platform),
            Done::Read { owner, .. } if owner.get() & COMPACTION_OWNER != 0 => {
                let buffer = BufferId::new(owner.get() & !COMPACTION_OWNER);
                self.coalesce(now, buffer, tag, platform);
            }
            Done::Read { owner, .. } if owner.get() & PAST_CACHE_OWNER != 0 => {
                self.pass_on(now, owner, tag, platform);
            }
            Done::Read { owner, .. } => self.fill(now, owner, tag, platform),
            Done::Programmed { owner, .. } => {
                self.on_programmed(now, BufferId::new(owner.get()), platform);
            }
        }
        // Before others take the buffers that are free now.
        self.advance_flushes(now, platform);
        self.resume_misses(now, platform);
        self.end_vain_waits(now, platform);
    }

    /// A timer has rung.
    ///
    /// The only timers are those of compaction: a firmware core takes a page up.
    pub fn on_timer<P: Platform>(&mut self, now: Time, timer: Timer, platform: &mut P) {
        self.compact_page(now, BufferId::new(timer.get()), platform);
        self.end_vain_waits(now, platform);
    }

    /// Whether there is a write log beside the data cache.
    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Pages of the exported logical space.
    pub fn logical_page_count(&self) -> u64 {
        self.ftl.logical_page_count()
    }

    /// The die that a page is on, if it is mapped.
    pub fn die_of(&self, lpa: Lpa) -> Option<DieId> {
        self.ftl.die_of(lpa)
    }

    /// Where the copies of a line in device DRAM are.
    pub fn copies_of(&self, line: LineAddr) -> Copies {
        let (lpa, in_page) = self.split(line);
        let frame = self.cache.find(lpa);
        Copies {
            log: self.find_in_log(lpa, in_page),
            frame: frame.filter(|frame| self.cache.mshr_of(*frame).is_none()),
        }
    }

    /// Whether nothing is in flight or waiting.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0
            && self.mshrs.in_use() == 0
            && self.buffers.in_use() == 0
            && self.ftl.is_idle()
    }

    /// Counters since the last reset.
    pub fn stats(&self) -> &ControllerStats {
        &self.stats
    }

    pub(crate) fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// Counters of the FTL since the last reset.
    pub fn ftl_stats(&self) -> &FtlStats {
        self.ftl.stats()
    }

    /// Sets all counters to zero; contents stay.
    pub fn reset_stats(&mut self) {
        self.stats = ControllerStats::default();
        self.ftl.reset_stats();
    }

    #[inline]
    fn split(&self, line: LineAddr) -> (Lpa, LineInPage) {
        let page = self.constants.page;
        (line.lpa(page), line.in_page(page))
    }

    /// The order of the next line or page.
    #[inline]
    fn next_order(&mut self) -> WriteOrder {
        self.write_order = self.write_order.next();
        self.write_order
    }

    /// A page leaves the log. What is older of a line goes first, so that no cut brings it back.
    fn drop_logged<P: Platform>(&mut self, lpa: Lpa, platform: &mut P) {
        let Some(log) = self.log.as_mut() else { return };
        for slot in log.slots(lpa) {
            platform.record(Record::Dropped(slot));
        }
        log.drop_page(lpa);
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
        occupancy: Picos,
        platform: &mut P,
    ) -> Pending {
        let latency = self.constants.cache_lookup;
        let cache_ready = platform.charge(now, Unit::CacheLookup, latency, occupancy);
        let log_ready = if self.log.is_some() {
            platform.charge(now, Unit::LogLookup, self.constants.log_lookup, occupancy)
        } else {
            cache_ready
        };
        Pending {
            request,
            arrived: now,
            cache_ready,
            log_ready,
        }
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
        while let Some(pending) = self.stalled_misses.front().copied() {
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

    /// The first byte of a slot of the log in device DRAM.
    fn slot_address(slot: LogSlot) -> Bytes {
        LINE_BYTES * u64::from(slot.get())
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
