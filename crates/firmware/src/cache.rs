//! The data cache as a whole: frames, the pages on their way into them (MSHRs) with the requests
//! that wait for them, and the prefetcher.
//!
//! It decides which page is in which frame and which leaves; it moves no bytes and knows neither
//! log nor flash.

mod mshr;
mod throttle;

use crate::config::{CacheConfig, PrefetchConfig};
use crate::data_cache::DataCache;
pub(crate) use crate::data_cache::MshrId;
use crate::ftl::Estimate;
use crate::platform::NandTag;
use crate::prefetch::{AnyPrefetcher, Plan, Prefetcher, Trigger};
use mshr::MshrFile;
pub(crate) use mshr::{Arrived, Pending, Waiter};
use throttle::UseOfAhead;
use units::{CoreId, FrameId, LineInPage, LineMask, Lpa, Time};

/// Where a page can go, and what is there.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The frame, which is free or to be freed.
    pub(crate) frame: FrameId,
    /// The page that leaves, and whether it is dirty.
    pub(crate) leaves: Option<(Lpa, bool)>,
}

/// Frames, MSHRs and prefetcher.
#[derive(Clone)]
pub(crate) struct Cache {
    pages: DataCache,
    mshrs: MshrFile,
    prefetcher: AnyPrefetcher,
    /// Pages fetched ahead at one trigger.
    ahead: u32,
    /// The first use of a page fetched ahead fetches ahead too.
    chains: bool,
    /// MSHRs that are left to demand misses.
    reserve: usize,
    use_of_ahead: UseOfAhead,
}

impl Cache {
    /// An empty cache of some frames. The configuration is valid.
    pub(crate) fn new(
        frames: u64,
        knows_lines: bool,
        cache: &CacheConfig,
        prefetch: &PrefetchConfig,
    ) -> Self {
        let frames = u32::try_from(frames).expect("validated");
        let pages = DataCache::new(frames, cache.ways, cache.policy);
        Self {
            pages: match knows_lines {
                true => pages.with_dirty_lines(),
                false => pages,
            },
            mshrs: MshrFile::new(cache.mshr_count),
            prefetcher: AnyPrefetcher::new(prefetch),
            ahead: prefetch.pages,
            chains: prefetch.on_first_use,
            reserve: prefetch.reserve as usize,
            use_of_ahead: UseOfAhead::new(prefetch.throttle),
        }
    }

    /// From now on page 0, 1, 2, … is in the set of the page with the first, second, … of these
    /// numbers. None of these pages is cached.
    pub(crate) fn number_pages(&mut self, numbers: impl Iterator<Item = u64>) {
        self.pages.number_pages(numbers);
    }

    /// Every frame gets a page behind `lpa`; with `dirty_lines` all of so many lines are newer than
    /// flash. The cache is empty.
    pub(crate) fn fill_behind(&mut self, lpa: Lpa, dirty_lines: Option<u16>) {
        for (frame, page) in self.pages.one_each(lpa) {
            if self.pages.is_reserved(frame) {
                continue;
            }
            self.pages.install(frame, page, None);
            match dirty_lines {
                None => {}
                Some(lines) if self.pages.knows_lines() => (0..lines).for_each(|line| {
                    self.pages.mark_line_dirty(frame, LineInPage::new(line));
                }),
                Some(_) => self.pages.mark_dirty(frame),
            }
        }
    }

    // ---- Frames ----

    /// Somebody looks the page up soon.
    #[inline]
    pub(crate) fn foresee(&self, lpa: Lpa) {
        self.pages.foresee(lpa);
    }

    /// The frame of a page, resident or in flight.
    #[inline]
    pub(crate) fn find(&self, lpa: Lpa) -> Option<FrameId> {
        self.pages.find(lpa)
    }

    /// The frame of a page that is there.
    #[inline]
    pub(crate) fn find_resident(&self, lpa: Lpa) -> Option<FrameId> {
        let frame = self.pages.find(lpa)?;
        self.is_resident(frame).then_some(frame)
    }

    /// The MSHR of a page in flight.
    #[inline]
    pub(crate) fn find_in_flight(&self, lpa: Lpa) -> Option<(FrameId, MshrId)> {
        let frame = self.pages.find(lpa)?;
        Some((frame, self.pages.mshr_of(frame)?))
    }

    /// The MSHR of a frame, if its page is in flight.
    #[inline]
    pub(crate) fn mshr_of(&self, frame: FrameId) -> Option<MshrId> {
        self.pages.mshr_of(frame)
    }

    /// Whether the page of the frame is there.
    #[inline]
    pub(crate) fn is_resident(&self, frame: FrameId) -> bool {
        self.pages.mshr_of(frame).is_none()
    }

    /// The page in a frame.
    #[inline]
    pub(crate) fn page_in(&self, frame: FrameId) -> Option<Lpa> {
        self.pages.page_in(frame)
    }

    /// Frames of the cache.
    pub(crate) fn frame_count(&self) -> usize {
        self.pages.frame_count()
    }

    /// Frames that serve the log.
    pub(crate) fn reserved(&self) -> u32 {
        self.pages.reserved()
    }

    /// The frame that is to serve the log next.
    pub(crate) fn next_reserved(&self) -> FrameId {
        self.pages.next_reserved()
    }

    /// One more frame, which is free, serves the log.
    pub(crate) fn reserve(&mut self) {
        self.pages.reserve();
    }

    /// One frame less does.
    pub(crate) fn give_back(&mut self) {
        self.pages.give_back();
    }

    /// Frames that have a page, or wait for one.
    pub(crate) fn used_frames(&self) -> usize {
        self.pages.used_frames()
    }

    /// Whether the page is newer than flash and than every buffer.
    #[inline]
    pub(crate) fn is_dirty(&self, frame: FrameId) -> bool {
        self.pages.is_dirty(frame)
    }

    /// The page is newer than flash and than every buffer from now on.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, frame: FrameId) {
        self.pages.mark_dirty(frame);
    }

    /// A line of the page is newer than log, flash and every buffer from now on.
    #[inline]
    pub(crate) fn mark_line_dirty(&mut self, frame: FrameId, line: LineInPage) {
        self.pages.mark_line_dirty(frame, line);
    }

    /// Whether the policy would keep the page for what it has seen of it.
    pub(crate) fn is_known(&self, frame: FrameId) -> bool {
        self.pages.is_known(frame)
    }

    /// The lines of a page that are.
    #[inline]
    pub(crate) fn dirty_lines(&self, frame: FrameId) -> LineMask {
        self.pages.dirty_lines(frame)
    }

    /// The page is equal to what is on flash or in the newest buffer from now on.
    #[inline]
    pub(crate) fn mark_clean(&mut self, frame: FrameId) {
        self.pages.mark_clean(frame);
    }

    /// Where a page can go; None if every page of its set is in flight, or dirty while those may
    /// not leave. The policy takes it as done: the caller evicts what is there.
    #[inline]
    pub(crate) fn place_for(&mut self, lpa: Lpa, dirty_may_leave: bool) -> Option<Place> {
        let frame = self.pages.place_for(lpa, dirty_may_leave)?;
        let leaves = self.pages.page_in(frame);
        Some(Place {
            frame,
            leaves: leaves.map(|page| (page, self.pages.is_dirty(frame))),
        })
    }

    /// Frees the frame of a page whose place another one needs. Says whether it was fetched ahead
    /// and never asked for.
    #[inline]
    pub(crate) fn evict(&mut self, frame: FrameId) -> bool {
        let was_useless = self.pages.is_prefetched(frame);
        if was_useless {
            self.use_of_ahead.judge(false);
        }
        self.pages.evict(frame);
        was_useless
    }

    /// Frees the frame of a page that is not needed here any more.
    #[inline]
    pub(crate) fn remove(&mut self, frame: FrameId) {
        self.pages.remove(frame);
    }

    /// Puts a page that is there at once into a free frame.
    #[inline]
    pub(crate) fn install(&mut self, frame: FrameId, lpa: Lpa) {
        self.pages.install(frame, lpa, None);
    }

    /// The page was used. Says whether it was fetched ahead and this is its first use.
    #[inline(always)]
    pub(crate) fn touch(&mut self, frame: FrameId) -> bool {
        self.pages.touch(frame)
    }

    /// Counts an access and returns how many there were since the page came or was declined.
    #[inline]
    pub(crate) fn count_access(&mut self, frame: FrameId) -> u32 {
        self.pages.count_access(frame)
    }

    /// Counts accesses that were elsewhere.
    #[inline]
    pub(crate) fn add_accesses(&mut self, frame: FrameId, more: u32) {
        self.pages.add_accesses(frame, more);
    }

    /// How many accesses have been counted.
    #[inline]
    pub(crate) fn accesses(&self, frame: FrameId) -> u32 {
        self.pages.accesses(frame)
    }

    /// Marks the page as offered to the host; says whether it was not.
    #[inline]
    pub(crate) fn offer(&mut self, frame: FrameId) -> bool {
        self.pages.offer(frame)
    }

    /// Starts counting accesses anew and allows another offer.
    pub(crate) fn cool(&mut self, frame: FrameId) {
        self.pages.cool(frame);
    }

    /// Starts counting accesses of all pages anew.
    pub(crate) fn forget_accesses(&mut self) {
        self.pages.forget_accesses();
    }

    // ---- Pages in flight ----

    /// Whether another page may be fetched.
    #[inline]
    pub(crate) fn has_free_mshr(&self) -> bool {
        self.mshrs.has_free()
    }

    /// Whether another page may be fetched ahead: enough MSHRs are left to demand.
    #[inline]
    pub(crate) fn may_fetch_ahead(&self) -> bool {
        self.mshrs.free_count() > self.reserve
    }

    /// A page is on its way into a free frame from now on.
    #[inline]
    pub(crate) fn begin_fetch(&mut self, lpa: Lpa, frame: FrameId) -> MshrId {
        let mshr = self.mshrs.open(lpa, frame);
        self.pages.install(frame, lpa, Some(mshr));
        mshr
    }

    /// The frame has the page's bytes already.
    pub(crate) fn note_copied(&mut self, mshr: MshrId) {
        self.mshrs.get_mut(mshr).note_copied();
    }

    /// When the page is expected.
    #[inline]
    pub(crate) fn expect(&mut self, mshr: MshrId, at: Time, estimate: Estimate) {
        self.mshrs.get_mut(mshr).expect(at, estimate);
    }

    /// When the page is expected, and whether GC stands before its fetch.
    #[inline]
    pub(crate) fn expected(&self, mshr: MshrId) -> (Time, bool) {
        self.mshrs.get(mshr).expected()
    }

    /// The page was fetched ahead.
    pub(crate) fn note_prefetch(&mut self, mshr: MshrId) {
        let frame = self.mshrs.get_mut(mshr).note_prefetch();
        self.pages.mark_prefetched(frame);
    }

    /// A read of the page was answered with SkyByte-Delay.
    pub(crate) fn note_delay(&mut self, mshr: MshrId) {
        self.mshrs.get_mut(mshr).note_delay();
    }

    /// Whether one was.
    pub(crate) fn has_delayed(&self, mshr: MshrId) -> bool {
        self.mshrs.get(mshr).has_delayed()
    }

    /// The frame that a page in flight comes to.
    pub(crate) fn frame_of(&self, mshr: MshrId) -> FrameId {
        self.mshrs.get(mshr).frame()
    }

    /// Lines of its frame that are newer than what flash will deliver.
    #[inline]
    pub(crate) fn written(&self, mshr: MshrId) -> LineMask {
        self.mshrs.get(mshr).written()
    }

    /// The frame has these lines in their newest version.
    #[inline]
    pub(crate) fn add_written(&mut self, mshr: MshrId, lines: LineMask) {
        self.mshrs.get_mut(mshr).add_written(lines);
    }

    /// The host has written a line of the frame: if its page is in flight, the line is newer, and
    /// the page is wanted.
    #[inline]
    pub(crate) fn note_write(&mut self, frame: FrameId, line: LineInPage) {
        if let Some(mshr) = self.pages.mshr_of(frame) {
            self.mshrs.get_mut(mshr).note_write(line);
        }
    }

    /// The page stays when it comes.
    #[inline]
    pub(crate) fn want(&mut self, mshr: MshrId) {
        self.mshrs.get_mut(mshr).set_unwanted(false);
    }

    /// The page leaves as soon as it has come and its waiters are answered.
    pub(crate) fn let_pass(&mut self, mshr: MshrId) {
        self.mshrs.get_mut(mshr).set_unwanted(true);
    }

    /// A miss is answered when its page has come.
    #[inline]
    pub(crate) fn wait(&mut self, mshr: MshrId, waiter: Waiter) {
        self.mshrs.wait(mshr, waiter);
    }

    /// The read that fetches the page of an MSHR.
    #[inline]
    pub(crate) fn fetched_by(&mut self, mshr: MshrId, tag: NandTag) {
        self.mshrs.get_mut(mshr).set_tag(tag);
    }

    /// Which read that is.
    #[inline]
    pub(crate) fn tag_of(&self, mshr: MshrId) -> NandTag {
        self.mshrs.get(mshr).tag()
    }

    /// Lines of its frame that have come from flash before the others.
    #[inline]
    pub(crate) fn brought(&self, mshr: MshrId) -> LineMask {
        self.mshrs.get(mshr).brought()
    }

    /// Whether lines that come before the others are of use: the frame has not got the page
    /// otherwise, and it stays.
    pub(crate) fn takes_lines(&self, mshr: MshrId) -> bool {
        let mshr = self.mshrs.get(mshr);
        !mshr.is_copied() && !mshr.is_unwanted()
    }

    /// These lines have come before the others.
    pub(crate) fn add_brought(&mut self, mshr: MshrId, lines: LineMask) {
        self.mshrs.get_mut(mshr).add_brought(lines);
    }

    /// Takes the request that has waited longest of those that are asked for.
    pub(crate) fn take_waiter(
        &mut self,
        mshr: MshrId,
        is_asked_for: impl Fn(&Waiter) -> bool,
    ) -> Option<Waiter> {
        self.mshrs.take_waiter(mshr, is_asked_for)
    }

    /// The page of an MSHR has come: its waiters are to be taken with [`Self::next_waiter`].
    #[inline]
    pub(crate) fn end_fetch(&mut self, mshr: MshrId) -> Arrived {
        self.mshrs.close(mshr)
    }

    /// Its bytes are in the frame.
    #[inline]
    pub(crate) fn settle(&mut self, arrived: &Arrived) {
        self.pages.settle(arrived.frame());
        self.prefetcher
            .on_fill(arrived.lpa(), arrived.is_prefetch());
    }

    /// The request that has waited longest for it.
    #[inline]
    pub(crate) fn next_waiter(&mut self, arrived: &mut Arrived) -> Option<Waiter> {
        self.mshrs.next_waiter(arrived)
    }

    /// Pages in flight.
    pub(crate) fn in_flight_count(&self) -> usize {
        self.mshrs.in_use()
    }

    /// Requests that wait for pages in flight.
    pub(crate) fn waiter_count(&self) -> usize {
        self.mshrs.waiter_count()
    }

    // ---- Prefetch ----

    /// A page that is absent has just been asked for. What is to be fetched ahead, and how many
    /// pages at most.
    pub(crate) fn on_miss(&mut self, lpa: Lpa, source: Option<CoreId>) -> (Plan, u32) {
        let is_miss = true;
        let plan = self.prefetcher.learn(Trigger {
            lpa,
            source,
            is_miss,
        });
        match self.use_of_ahead.is_followed() {
            true => (plan, self.ahead),
            false => (Plan::Nothing, 0),
        }
    }

    /// A page fetched ahead is asked for, for the first time. What is to be fetched ahead, if that
    /// is a reason, and how many pages at most.
    pub(crate) fn on_first_use(&mut self, lpa: Lpa, source: Option<CoreId>) -> (Plan, u32) {
        self.use_of_ahead.judge(true);
        let is_miss = false;
        let plan = self.prefetcher.learn(Trigger {
            lpa,
            source,
            is_miss,
        });
        match self.chains {
            true => (plan, self.ahead),
            false => (Plan::Nothing, 0),
        }
    }

    /// Whether the page was fetched ahead and is asked for now for the first time.
    #[inline]
    pub(crate) fn take_prefetched(&mut self, frame: FrameId) -> bool {
        self.pages.take_prefetched(frame)
    }

    /// Checks the invariants of frames and MSHRs together.
    pub(crate) fn audit(&self) {
        self.pages.audit();
        let in_flight = self.pages.in_flight().count();
        assert_eq!(in_flight, self.mshrs.in_use(), "an MSHR has no frame");
        let mut listed = 0;
        for (frame, lpa, id) in self.pages.in_flight() {
            let mshr = self.mshrs.get(id);
            let holds = (mshr.frame(), mshr.lpa());
            assert_eq!(holds, (frame, lpa), "an MSHR has another frame");
            listed += self.mshrs.waiters_of(id);
        }
        let waiters = self.mshrs.waiter_count();
        assert_eq!(listed, waiters, "a waiter is in no list");
    }
}
