//! What the host knows of an inode beside its bytes: extents, cached pages, times and sizes that
//! the device has not yet.

use crate::gate::Gate;
use crate::layout::{Inode, SLOTS_OF_BLOCK};
use crate::state::extents::Extents;
use crate::state::page_set::PageSet;
use crate::state::pages::Page;
use crate::{FileKind, Timestamp};
use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};

/// Changes of which a file remembers the pages. Older ones count for all pages.
const REMEMBERED: usize = 64;

/// What was changed below reads that are under way, by number.
#[derive(Default)]
pub(crate) struct Epoch {
    now: u64,
    /// The last change of any page.
    of_all: u64,
    /// Later changes, and their pages.
    of_some: VecDeque<(u64, Vec<u64>)>,
}

impl Epoch {
    /// The number of the last change.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Any page may be another now.
    pub fn change_all(&mut self) {
        self.now += 1;
        self.of_all = self.now;
        self.of_some.clear();
    }

    /// Some pages are others now on the device.
    pub fn change(&mut self, pages: Vec<u64>) {
        self.now += 1;
        self.of_some.push_back((self.now, pages));
        if self.of_some.len() > REMEMBERED
            && let Some((change, _)) = self.of_some.pop_front()
        {
            self.of_all = change;
        }
    }

    /// Whether pages that were asked for after change `since` may be older than they are now.
    pub fn is_past(&self, since: u64, pages: &Range<u64>) -> bool {
        let later = self
            .of_some
            .iter()
            .rev()
            .take_while(|(change, _)| *change > since);
        since < self.of_all
            || later
                .flat_map(|(_, changed)| changed)
                .any(|page| pages.contains(page))
    }
}

/// Slots that are taken when an extent is split at a page within it.
pub(crate) const SLOTS_OF_SPLIT: u32 = 2;

/// Pages on their way to places that the inode does not tell of yet.
#[derive(Clone, Copy, Default)]
pub(crate) struct Planned {
    pub pages: u32,
    /// Slots that they need at worst.
    pub slots: u32,
    /// Blocks that are to be taken for them.
    pub blocks: u32,
}

/// An inode in use.
pub(crate) struct Node {
    /// It has contents of its own.
    pub is_regular: bool,
    /// Unless nobody has asked for them since they were forgotten.
    pub extents: Option<Extents>,
    /// How often it is open.
    pub opens: u32,
    /// Bytes, as programs see them.
    pub size: u64,
    /// Last change of contents that the inode does not have yet.
    pub written: Option<Timestamp>,
    /// Cached pages.
    pub pages: BTreeMap<u64, Page>,
    /// Those that the device has not as they are.
    pub dirty: PageSet,
    /// Those for which a block is kept.
    pub reserved: u32,
    /// Those in extents that they split.
    pub splitting: u32,
    /// Those that are being written back and have no place that the inode tells of.
    pub planned: Planned,
    /// Blocks that are kept for slots of extents, and for what is planned.
    mapping: u32,
    /// When the oldest dirty page became so.
    pub dirty_since: Timestamp,
    /// Who writes pages back, cuts or gives blocks.
    pub gate: Gate,
    /// Counts what makes reads of the device that are under way worthless.
    pub epoch: Epoch,
    /// How often lines were posted to the device under no transaction.
    pub posted: u64,
    /// So many of them survive a power cut.
    pub persisted: u64,
    /// Behind the last read, to see whether the next one goes on there.
    pub read_end: u64,
    /// What the last writes have written, each of which went on where the one before ended.
    pub written_in_order: Range<u64>,
    /// Pages that are on their way from the device, and where to wait for them.
    pub coming: Vec<(Range<u64>, Gate)>,
}

impl Node {
    pub fn new(inode: &Inode) -> Self {
        Self {
            is_regular: inode.mode.kind == FileKind::Regular,
            extents: None,
            opens: 0,
            size: inode.size,
            written: None,
            pages: BTreeMap::new(),
            dirty: PageSet::default(),
            reserved: 0,
            splitting: 0,
            planned: Planned::default(),
            mapping: 0,
            dirty_since: Timestamp(0),
            gate: Gate::default(),
            epoch: Epoch::default(),
            posted: 0,
            persisted: 0,
            read_end: 0,
            written_in_order: 0..0,
            coming: Vec::new(),
        }
    }

    /// Blocks that are kept beside those of reserved pages if so many more pages get places of
    /// their own, and so many more split extents. At worst each page becomes an extent.
    fn mapping_for(&self, more: u32, more_splitting: u32) -> u32 {
        let Planned { slots, blocks, .. } = self.planned;
        let slots =
            slots + self.reserved + more + SLOTS_OF_SPLIT * (self.splitting + more_splitting);
        let free = self.extents.as_ref().map_or(0, Extents::free);
        let missing = slots.saturating_sub(u32::try_from(free).unwrap_or(u32::MAX));
        blocks + missing.div_ceil(SLOTS_OF_BLOCK as u32)
    }

    /// By how much what is kept for mapping would grow.
    pub fn more_mapping(&self, more: u32, more_splitting: u32) -> u32 {
        let wanted = self.mapping_for(more, more_splitting);
        wanted.saturating_sub(self.mapping)
    }

    /// Keeps as many blocks of those that are reserved in all as the mapping of pages may take.
    pub fn keep_for_mapping(&mut self, reserved: &mut u32) {
        let wanted = self.mapping_for(0, 0);
        *reserved = *reserved - self.mapping + wanted;
        self.mapping = wanted;
    }

    /// Who reads such a page first reads it for all: which pages he is to read, and his gate; or
    /// that of who has begun.
    pub fn begin_reading(&mut self, pages: Range<u64>) -> Result<(Range<u64>, Gate), Gate> {
        // A read that was given up has left its gate open.
        self.coming.retain(|(_, gate)| gate.is_closed());
        let mut coming = self.coming.iter();
        if let Some((_, gate)) = coming.find(|(range, _)| range.contains(&pages.start)) {
            return Err(gate.clone());
        }
        let next = self.coming.iter().map(|(range, _)| range.start);
        let end = next.filter(|start| *start > pages.start).min();
        let pages = pages.start..end.map_or(pages.end, |end| end.min(pages.end));
        let gate = Gate::default();
        self.coming.push((pages.clone(), gate.clone()));
        Ok((pages, gate))
    }

    /// Whether it must stay when its last name goes.
    pub fn is_busy(&self) -> bool {
        self.opens > 0 || self.gate.is_closed()
    }

    /// Whether it can be forgotten.
    pub fn is_idle(&self) -> bool {
        self.opens == 0
            && self.pages.is_empty()
            && self.written.is_none()
            && self.posted <= self.persisted
            && !self.gate.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Mode;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    #[test]
    fn a_page_that_comes_is_not_asked_for_twice() {
        let mode = Mode {
            kind: FileKind::Regular,
            permissions: 0o644,
        };
        let mut node = Node::new(&Inode::new(mode, (0, 0), 0, Timestamp(0)));
        let mut context = Context::from_waker(Waker::noop());
        let Ok((pages, gate)) = node.begin_reading(4..8) else {
            panic!("nobody reads");
        };
        assert_eq!(pages, 4..8);
        let Poll::Ready(passed) = pin!(gate.pass()).poll(&mut context) else {
            panic!("nobody else has it");
        };
        let same = node.begin_reading(6..20);
        assert!(same.is_err_and(|other| other.is(&gate)), "it is coming");
        let before = node.begin_reading(2..20).map(|(pages, _)| pages);
        assert_eq!(before.ok(), Some(2..4), "up to what is coming");
        drop(passed);
        let again = node.begin_reading(4..8).map(|(pages, _)| pages);
        assert_eq!(again.ok(), Some(4..8), "that was given up");
    }

    #[test]
    fn a_read_is_past_when_its_pages_were_changed_behind_it() {
        let mut epoch = Epoch::default();
        let since = epoch.now();
        epoch.change(vec![3, 9]);
        assert!(epoch.is_past(since, &(2..4)) && epoch.is_past(since, &(9..10)));
        assert!(!epoch.is_past(since, &(4..9)), "others were");
        assert!(!epoch.is_past(epoch.now(), &(0..99)), "it began behind");
        for _ in 0..REMEMBERED {
            epoch.change(vec![1]);
        }
        assert!(epoch.is_past(since, &(4..9)), "nobody remembers which");
        let since = epoch.now();
        epoch.change_all();
        assert!(epoch.is_past(since, &(4..9)));
        assert!(!epoch.is_past(epoch.now(), &(4..9)));
    }
}
