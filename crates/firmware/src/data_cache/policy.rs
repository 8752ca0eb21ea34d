//! Which page leaves a full set: the interface, and the policies by name.

use super::clock::Clock;
use super::lru::Lru;
use super::s3_fifo::S3Fifo;
use super::two_q::TwoQ;
use crate::config::CachePolicy;
use core::ops::Range;
use units::{FrameId, Lpa};

/// A page as the data cache names it: LPA + 1; 0 is no page.
pub type PageTag = u32;

/// Shape of the data cache: whole sets, the frames of a set next to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Sets.
    pub set_count: u32,
    /// Frames of a set.
    pub ways: u32,
}

impl Shape {
    /// Of a cache of at most `frame_count` frames: the largest whole number of sets. Fewer frames
    /// than ways make one smaller set.
    pub fn new(frame_count: u32, ways: u32) -> Self {
        assert!(frame_count > 0 && ways > 0, "a data cache has frames");
        let ways = ways.min(frame_count);
        Self {
            set_count: frame_count / ways,
            ways,
        }
    }
    /// Whether a page can be in a frame, where its number chooses its set.
    pub fn has_place(self, frame: FrameId, lpa: Lpa) -> bool {
        frame.index() < self.frame_count()
            && self.set_of(frame) as u64 == lpa.get() % u64::from(self.set_count)
    }
    /// Frames of the cache.
    pub fn frame_count(self) -> usize {
        self.set_count as usize * self.ways as usize
    }
    /// The set of a frame.
    #[inline]
    pub fn set_of(self, frame: FrameId) -> usize {
        (frame.get() / self.ways) as usize
    }
    /// The frame's place in its set.
    #[inline]
    pub fn way_of(self, frame: FrameId) -> u8 {
        (frame.get() % self.ways) as u8
    }
}

/// The state of a frame that serves the log. Like one in flight it has bits that keep it in.
pub(super) const SERVES_LOG: u32 = u32::MAX << super::MSHR_SHIFT;

/// A full set: the frames from which a policy chooses.
#[derive(Clone, Copy, Debug)]
pub struct FullSet<'a> {
    first: u32,
    /// By way; whoever may leave has none of the bits of `keeps_in`.
    states: &'a [u32],
    keeps_in: u32,
}

impl<'a> FullSet<'a> {
    /// The set whose first frame is this one, and the states of its frames: one with a bit of
    /// `keeps_in` stays.
    #[inline]
    pub(super) fn new(first: u32, states: &'a [u32], keeps_in: u32) -> Self {
        Self {
            first,
            states,
            keeps_in,
        }
    }
    /// The frames.
    #[inline]
    pub fn frames(&self) -> Range<u32> {
        self.first..self.first + self.states.len() as u32
    }
    /// Those that have a page, and do not serve the log.
    #[inline]
    pub fn pages(&self) -> impl Iterator<Item = FrameId> + 'a {
        let states = (self.first..).zip(self.states);
        let pages = states.filter(|(_, state)| **state != SERVES_LOG);
        pages.map(|(frame, _)| FrameId::new(frame))
    }
    /// Whether a frame of the set may leave.
    #[inline]
    pub fn may_leave(&self, frame: FrameId) -> bool {
        self.states[(frame.get() - self.first) as usize] & self.keeps_in == 0
    }
    /// For each frame 0 if it may leave, or else all bits but the highest.
    #[inline]
    pub(super) fn stays(&self) -> impl Iterator<Item = u32> + 'a {
        let keeps_in = self.keeps_in;
        self.states.iter().map(move |state| match state & keeps_in {
            0 => 0,
            _ => u32::MAX >> 1,
        })
    }
}

/// Decides which page leaves a full set.
///
/// A device cache sees lines and keeps pages, so one pass over a page is up to 64 accesses. A
/// policy that counts uses is told what belongs to the fetch ([`arrive`](Self::arrive),
/// [`first_use`](Self::first_use)) and must tell a run of accesses from a return to the page.
pub trait EvictionPolicy {
    /// The page was put into the free frame, there already or still on its way.
    fn insert(&mut self, frame: FrameId, tag: PageTag);
    /// The page that was on its way has come.
    fn arrive(&mut self, frame: FrameId);
    /// The access that the page was fetched for, or the first one of a page fetched ahead.
    fn first_use(&mut self, frame: FrameId);
    /// The page was used.
    fn touch(&mut self, frame: FrameId);
    /// Which frame of the full set leaves first, of those that may; the caller evicts its page.
    fn victim(&mut self, set: FullSet<'_>) -> Option<FrameId>;
    /// The page leaves because another one needs its place.
    fn evict(&mut self, frame: FrameId, tag: PageTag);
    /// Whether the page has shown that it comes back; a policy that does not tell such pages from
    /// others says so of all.
    fn is_known(&self, _frame: FrameId) -> bool {
        true
    }
}

/// The policies by name; a match instead of a table of functions.
#[derive(Clone)]
pub(super) enum Policy {
    Lru(Lru),
    Clock(Clock),
    TwoQ(TwoQ),
    S3Fifo(S3Fifo),
}

impl Policy {
    pub(super) fn new(name: CachePolicy, shape: Shape) -> Self {
        match name {
            CachePolicy::Lru | CachePolicy::None => Self::Lru(Lru::new(shape)),
            CachePolicy::Clock => Self::Clock(Clock::new(shape)),
            CachePolicy::TwoQ => Self::TwoQ(TwoQ::new(shape)),
            CachePolicy::S3Fifo => Self::S3Fifo(S3Fifo::new(shape)),
        }
    }
}

macro_rules! each {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            Policy::Lru($policy) => $call,
            Policy::Clock($policy) => $call,
            Policy::TwoQ($policy) => $call,
            Policy::S3Fifo($policy) => $call,
        }
    };
}

impl EvictionPolicy for Policy {
    fn insert(&mut self, frame: FrameId, tag: PageTag) {
        each!(self, policy => policy.insert(frame, tag));
    }
    fn arrive(&mut self, frame: FrameId) {
        each!(self, policy => policy.arrive(frame));
    }
    fn first_use(&mut self, frame: FrameId) {
        each!(self, policy => policy.first_use(frame));
    }
    #[inline]
    fn touch(&mut self, frame: FrameId) {
        each!(self, policy => policy.touch(frame));
    }
    fn victim(&mut self, set: FullSet<'_>) -> Option<FrameId> {
        each!(self, policy => policy.victim(set))
    }
    fn evict(&mut self, frame: FrameId, tag: PageTag) {
        each!(self, policy => policy.evict(frame, tag));
    }
    fn is_known(&self, frame: FrameId) -> bool {
        each!(self, policy => policy.is_known(frame))
    }
}
