//! Where each page of the program lives: on the device, in host DRAM, or on its way between them
//! (SkyByte §III-C).
//!
//! Pages that the operating system maps as huge ones move as a whole, chunk by chunk (§IV).
//!
//! Knows pages, lines and the [promotion look-aside buffer](plb); knows no time, no link and no
//! device. The caller copies the lines, charges the costs of [`HostConfig`] and says when a step
//! is done. Every access asks [`Placement::read`] or [`Placement::write`], which cost an array
//! lookup for a page that is not on its way.

mod audit;
mod build;
mod chunking;
mod config;
mod free;
mod moves;
pub mod page_cache;
pub mod pinned;
pub mod plb;
pub mod reclaim;
pub mod tpp;

pub use config::{
    DemotionKind, HostConfig, MigrationKind, PageAccess, PromotedDirt, ReclaimPolicy,
};
pub use moves::Balancer;
pub use page_cache::{AstriflashConfig, FillPolicy, PageCache};
pub use pinned::Pinned;
pub use plb::{Copied, Direction, PlbIndex};
pub use tpp::{HintFault, HintSampler, SamplerStats, TppConfig};

use crate::numa::NodeId;
use chunking::Chunking;
use free::FreePages;
use moves::Move;
use plb::{Chunk, Plb};
use reclaim::ReclaimLists;
use std::ops::Range;
use units::{LineInPage, Lpa};

units::ids! {
    /// A page of host DRAM set aside for promoted pages: where pages are huge, a chunk of one to
    /// who accesses lines, a huge one to the lists.
    HostPage, "host page";
}

/// Where a page lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Location {
    /// On the device.
    Device,
    /// In host DRAM.
    Host(HostPage),
    /// On its way, as this entry of the look-aside buffer says.
    Migrating(PlbIndex),
    /// On its way from one node's host DRAM to another's.
    Moving,
}

/// Where an access to one line goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Over the link.
    Device,
    /// To this page of host DRAM.
    Host(HostPage),
    /// Nowhere yet: the operating system has locked the page while it copies it. The access waits
    /// until the migration is finished, then asks again.
    Locked,
}

/// Why a promotion is not begun; the device is told so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The page is pinned to the device.
    Pinned,
    /// The page is in host DRAM or on its way already.
    NotOnDevice,
    /// All entries of the look-aside buffer are in use.
    PlbFull,
    /// No page of host DRAM is free: `reclaim` first.
    NoHostPage,
}

/// What reclaim did for one free page of host DRAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaimed {
    /// A clean page was dropped: the device has the same bytes. Its page table entry changes and
    /// every core's TLB is shot down; nothing is copied.
    Dropped(Lpa),
    /// A dirty page is on its way to the device: the caller copies its lines, then calls
    /// [`Placement::finish_demotion`].
    Copying(Lpa),
    /// The coldest page is dirty and the look-aside buffer has no entry free.
    PlbFull,
    /// No page of host DRAM is in use.
    Nothing,
}

/// What was done to pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlacementStats {
    /// Promotions begun.
    pub promotions_begun: u64,
    /// Promotions finished.
    pub promotions: u64,
    /// Promotions refused, those of pinned pages included.
    pub refusals: u64,
    /// Promotions refused because the page is pinned.
    pub refusals_pinned: u64,
    /// Dirty pages copied back to the device.
    pub demotions: u64,
    /// Clean pages dropped.
    pub drops: u64,
    /// Of the promotions, those to another node than the device's.
    pub promotions_elsewhere: u64,
    /// Moves from node to node, finished.
    pub moves: u64,
    /// Moves not begun because the page's new node had no page free.
    pub moves_refused: u64,
    /// Lines copied, either way, repeats included.
    pub lines_copied: u64,
    /// Lines copied again because they were written while they were being copied.
    pub lines_repeated: u64,
}

/// A page's entry in the map, in four bytes: on the device, in a host page, or in the look-aside
/// buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry(u32);

impl Entry {
    const DEVICE: Self = Self(u32::MAX);
    const MIGRATING: u32 = 1 << 31;
    /// No entry of the look-aside buffer has such a number.
    const MOVING: Self = Self(u32::MAX - 1);

    const fn host(page: HostPage) -> Self {
        Self(page.get())
    }
    const fn migrating(entry: PlbIndex) -> Self {
        Self(entry.get() | Self::MIGRATING)
    }
    #[inline]
    const fn location(self) -> Location {
        if self.0 == Self::DEVICE.0 {
            Location::Device
        } else if self.0 & Self::MIGRATING == 0 {
            Location::Host(HostPage::new(self.0))
        } else if self.0 == Self::MOVING.0 {
            Location::Moving
        } else {
            Location::Migrating(PlbIndex::new(self.0 & !Self::MIGRATING))
        }
    }
}

/// The placement of every page.
#[derive(Clone, Debug)]
pub struct Placement {
    /// By page: where pages are huge, one for each.
    entries: Vec<Entry>,
    chunking: Chunking,
    plb: Plb,
    lists: ReclaimLists,
    /// Host pages that hold nothing.
    free: FreePages,
    reserve: usize,
    /// Whether the operating system moves pages: they are locked on their way, and what leaves host
    /// DRAM is always copied, since the device's page was given up when it came.
    is_locking: bool,
    pinned: Range<Lpa>,
    /// Pages on their way from node to node.
    moves: Vec<Move>,
    stats: PlacementStats,
}

impl Placement {
    /// Whether a page is pinned to the device: it never comes to host DRAM.
    #[inline]
    pub fn is_pinned(&self, lpa: Lpa) -> bool {
        self.pinned.contains(&lpa)
    }

    /// How many pages are pinned.
    pub fn pinned_count(&self) -> u64 {
        self.pinned.end.get() - self.pinned.start.get()
    }

    /// Somebody asks soon where a page lives.
    #[inline]
    pub fn foresee(&self, lpa: Lpa) {
        units::foresee(&self.entries[self.chunking.page(lpa)]);
    }

    /// Where a page lives. The page is one of those the placement was made for.
    #[inline]
    pub fn locate(&self, lpa: Lpa) -> Location {
        match self.locate_whole(lpa) {
            Location::Host(page) => Location::Host(self.chunking.in_host(page, lpa)),
            elsewhere => elsewhere,
        }
    }

    /// As `locate`, but a host page is the whole one.
    #[inline]
    fn locate_whole(&self, lpa: Lpa) -> Location {
        self.entries[self.chunking.page(lpa)].location()
    }

    /// Where a read of a line goes; the page is noted as accessed. While the page is on its way,
    /// lines that have been copied are read at the destination: only there are they newest once
    /// they have been written again.
    #[inline]
    pub fn read(&mut self, lpa: Lpa, line: LineInPage) -> Target {
        match self.locate_whole(lpa) {
            Location::Device => Target::Device,
            Location::Host(page) => {
                self.lists.touch(page);
                Target::Host(self.chunking.in_host(page, lpa))
            }
            Location::Moving => Target::Locked,
            Location::Migrating(_) if self.is_locking => Target::Locked,
            Location::Migrating(entry) => {
                let place = self.chunking.place(lpa);
                self.target(lpa, self.plb.target(entry, place, line))
            }
        }
    }

    /// Where a write of a line goes (a line that leaves L3 dirty); the page is noted as accessed
    /// and, in host DRAM, as dirty. While the page is on its way, lines that have been copied are
    /// written at the destination, the others at the source (§III-C); a line that is just being
    /// copied will be copied again.
    #[inline]
    pub fn write(&mut self, lpa: Lpa, line: LineInPage) -> Target {
        match self.locate_whole(lpa) {
            Location::Device => Target::Device,
            Location::Host(page) => {
                self.lists.touch(page);
                self.lists.set_dirty(page);
                Target::Host(self.chunking.in_host(page, lpa))
            }
            Location::Moving => Target::Locked,
            Location::Migrating(_) if self.is_locking => Target::Locked,
            Location::Migrating(entry) => {
                let place = self.chunking.place(lpa);
                let page = self.plb.write(entry, place, line);
                self.target(lpa, page)
            }
        }
    }

    /// Where a chunk's line is accessed, if its page is in this one of host DRAM or on the device.
    fn target(&self, lpa: Lpa, page: Option<HostPage>) -> Target {
        page.map_or(Target::Device, |page| {
            Target::Host(self.chunking.in_host(page, lpa))
        })
    }

    /// Notes an access that does not reach memory, such as a page walk.
    #[inline]
    pub fn touch(&mut self, lpa: Lpa) {
        if let Location::Host(page) = self.locate_whole(lpa) {
            self.lists.touch(page);
        }
    }

    /// The page of host DRAM that a migrating page leaves or goes to; where it is huge, this chunk.
    pub fn host_page(&self, lpa: Lpa) -> HostPage {
        let first = self.chunking.first(lpa);
        let page = self.plb.host_page(self.migrating(lpa), first);
        self.chunking.in_host(page, lpa)
    }

    /// A page's number: where it is huge, all its chunks have the same.
    pub fn number_of(&self, lpa: Lpa) -> usize {
        self.chunking.page(lpa)
    }

    /// The chunks of a page, of which this is one: the page itself where pages are not huge.
    pub fn chunks(&self, lpa: Lpa) -> impl Iterator<Item = Lpa> + use<> {
        let first = self.chunking.first(lpa).get();
        (first..first + u64::from(self.chunking.count())).map(Lpa::new)
    }

    /// Which way a page is on its way.
    pub fn direction(&self, lpa: Lpa) -> Direction {
        self.plb.direction(self.migrating(lpa))
    }

    /// Begins a promotion that the device or a hint fault asked for: a host page and an entry of
    /// the look-aside buffer are taken, no line is copied yet. The page goes to the device's node,
    /// or if that has none free, to that with the most (§IV). Of a huge page, the chunk asked for
    /// is copied first.
    pub fn begin_promotion(&mut self, lpa: Lpa) -> Result<HostPage, Refusal> {
        self.begin_promotion_near(lpa, self.free.home())
    }

    /// As `begin_promotion`, for a page that is wanted on a node.
    pub fn begin_promotion_near(&mut self, lpa: Lpa, node: NodeId) -> Result<HostPage, Refusal> {
        let begun = self.try_begin(lpa, node);
        match begun {
            Ok(_) => self.stats.promotions_begun += 1,
            Err(refusal) => {
                self.stats.refusals += 1;
                self.stats.refusals_pinned += u64::from(refusal == Refusal::Pinned);
            }
        }
        begun
    }

    fn try_begin(&mut self, lpa: Lpa, node: NodeId) -> Result<HostPage, Refusal> {
        if self.is_pinned(lpa) {
            return Err(Refusal::Pinned);
        }
        if self.locate(lpa) != Location::Device {
            return Err(Refusal::NotOnDevice);
        }
        if self.plb.is_full() {
            return Err(Refusal::PlbFull);
        }
        let page = self.free.take(lpa, node).ok_or(Refusal::NoHostPage)?;
        let (first, place) = (self.chunking.first(lpa), self.chunking.place(lpa));
        let entry = self.plb.begin(first, place, page, Direction::Promotion);
        self.set(lpa, Entry::migrating(entry));
        Ok(page)
    }

    /// The next line of a migrating page to be copied, in ascending order, lines to be repeated
    /// last, and the chunk it is of; it counts as being copied until `line_copied`. Several may be
    /// under way, of one chunk. Nothing when every line of the chunk is copied or being copied.
    pub fn next_line(&mut self, lpa: Lpa) -> Option<(Lpa, LineInPage)> {
        let entry = self.migrating(lpa);
        let (place, line) = self.plb.next_line(entry)?;
        Some((self.chunking.at(lpa, place), line))
    }

    /// The bytes of a chunk's line have arrived at the destination. [`Copied::Again`] if it was
    /// written in the meantime: `next_line` will give it once more.
    pub fn line_copied(&mut self, lpa: Lpa, line: LineInPage) -> Copied {
        let entry = self.migrating(lpa);
        let copied = self.plb.line_copied(entry, self.chunking.place(lpa), line);
        self.stats.lines_copied += 1;
        self.stats.lines_repeated += u64::from(copied == Copied::Again);
        copied
    }

    /// Takes every line of a migrating page as copied: functional warm-up, where nothing takes
    /// time (D5).
    pub fn copy_at_once(&mut self, lpa: Lpa) {
        let entry = self.migrating(lpa);
        self.plb.copy_at_once(entry);
    }

    /// Whether every line of a migrating page is copied: it can be finished.
    pub fn is_copied(&self, lpa: Lpa) -> bool {
        self.plb.is_copied(self.migrating(lpa))
    }

    /// The page table says host DRAM from now on, all lines being copied. `was_dirty`: the device
    /// held newer bytes than flash (frame or log), so that the host copy is the only one (D20).
    pub fn finish_promotion(&mut self, lpa: Lpa, was_dirty: bool) -> HostPage {
        let index = self.migrating(lpa);
        let entry = self.plb.finish(index, Direction::Promotion);
        self.set(lpa, Entry::host(entry.host_page));
        self.lists.insert(entry.host_page, entry.lpa);
        if was_dirty || entry.is_host_written {
            self.lists.set_dirty(entry.host_page);
        }
        self.stats.promotions += 1;
        let is_home = self.free.node_of(entry.host_page) == self.free.home();
        self.stats.promotions_elsewhere += u64::from(!is_home);
        entry.host_page
    }

    /// The page table says device from now on, all lines being copied; the host page is free.
    pub fn finish_demotion(&mut self, lpa: Lpa) {
        let index = self.migrating(lpa);
        let entry = self.plb.finish(index, Direction::Demotion);
        self.set(lpa, Entry::DEVICE);
        self.free.give_back(entry.host_page);
        self.stats.demotions += 1;
    }

    /// Whether fewer host pages are free, or on their way to be, than `host.reserve`; where pages
    /// are in sets, whether none is for `newcomer`.
    pub fn wants_reclaim(&self, newcomer: Lpa) -> bool {
        let free = self.free.count_for(newcomer);
        match self.free.set_of(newcomer) {
            None => {
                let coming = self.plb.count_of(Direction::Demotion);
                !self.lists.is_empty() && free + coming < self.reserve
            }
            Some(set) => {
                let live = self.plb.live();
                let mut leaving = live.filter(|entry| entry.direction == Direction::Demotion);
                free == 0 && !leaving.any(|entry| set.contains(&entry.host_page.index()))
            }
        }
    }

    /// Takes the coldest page out of host DRAM; where pages are in sets, that of `newcomer`'s.
    pub fn reclaim(&mut self, newcomer: Lpa) -> Reclaimed {
        let coldest = match self.free.set_of(newcomer) {
            None => self.lists.coldest(),
            Some(set) => self.lists.coldest_of(set),
        };
        let Some(victim) = coldest else {
            return Reclaimed::Nothing;
        };
        let is_copied = victim.is_dirty || self.is_locking;
        if is_copied && self.plb.is_full() {
            return Reclaimed::PlbFull;
        }
        self.lists.remove(victim.page);
        if is_copied {
            let first = Chunk::new(0);
            let entry = self
                .plb
                .begin(victim.lpa, first, victim.page, Direction::Demotion);
            self.set(victim.lpa, Entry::migrating(entry));
            return Reclaimed::Copying(victim.lpa);
        }
        self.set(victim.lpa, Entry::DEVICE);
        self.free.give_back(victim.page);
        self.stats.drops += 1;
        Reclaimed::Dropped(victim.lpa)
    }

    /// Counters since the start or the last `reset_stats`.
    pub fn stats(&self) -> PlacementStats {
        self.stats
    }
    /// Starts the counters afresh.
    pub fn reset_stats(&mut self) {
        self.stats = PlacementStats::default();
    }
    /// Pages of 4 KiB in host DRAM that are newer than the device's copies, all of a huge page with
    /// it. A page that leaves is one of them until it is on the device, and one that comes if a
    /// line was written in host DRAM meanwhile; the device may have lines of both. Looks at all.
    pub fn dirty_chunk_count(&self) -> u64 {
        let pages = self.lists.dirty_len() + self.plb.owed_count();
        pages as u64 * u64::from(self.chunking.count())
    }
    /// Pages in host DRAM, without those on their way.
    pub fn resident_count(&self) -> usize {
        self.lists.len()
    }

    #[inline]
    fn set(&mut self, lpa: Lpa, entry: Entry) {
        self.entries[self.chunking.page(lpa)] = entry;
    }
    fn migrating(&self, lpa: Lpa) -> PlbIndex {
        match self.locate_whole(lpa) {
            Location::Migrating(entry) => entry,
            location => panic!("{lpa} is not on its way but in {location:?}"),
        }
    }
}

#[cfg(test)]
mod tests;
