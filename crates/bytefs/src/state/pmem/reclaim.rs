//! Frames that are taken from pages, for others.

use super::{Pmem, Whose, Window};
use crate::Ino;
use crate::gate::Passed;
use crate::state::State;
use core::ops::Range;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use units::Time;

/// Frames that are made free at a time.
const RECLAIMED: usize = 64;

/// Frames that were taken from clean pages.
#[derive(Default)]
pub(crate) struct Reclaimed {
    pub frames: Vec<u32>,
    /// Gates of their files.
    pub passed: Vec<Passed>,
    /// Files that have frames and of which nothing else is known: they have no gate.
    pub unknown: BTreeSet<Ino>,
}

impl Pmem {
    /// Frames that only pages have which programs have asked for.
    pub fn reserved(&self) -> usize {
        let share = u64::from(self.dax.settings().reserve);
        (u64::from(self.window.frames) * share / 100) as usize
    }

    /// Whether there are frames for these pages, with whether programs have asked for them. What is
    /// kept for those pages and not in use is there for no others.
    pub fn has_room(&self, lacking: &[(u64, bool)]) -> bool {
        let others = lacking.iter().any(|(_, is_requested)| !is_requested);
        let free = self.free.len();
        lacking.len() <= free && (!others || lacking.len() + self.kept_for(lacking) <= free)
    }

    /// Frames that are kept for pages which programs have asked for, beside those of these pages.
    pub fn kept_for(&self, lacking: &[(u64, bool)]) -> usize {
        let requested = lacking.iter().filter(|(_, is_requested)| *is_requested);
        let requested = self.requested + requested.count();
        self.reserved().saturating_sub(requested)
    }

    /// Frames that a sync of a file lacks, of so many pages.
    pub fn wanted_frames(&self, pages: usize) -> usize {
        pages + self.reserved().saturating_sub(self.requested)
    }
}

impl State {
    /// A sync has found no frames: the weakest range that has some is to leave.
    pub fn evict_for(&mut self, ino: Ino, now: Time) {
        let Some(pmem) = &mut self.pmem else { return };
        let lacked = pmem
            .lacked
            .filter(|lacked| lacked.ino == ino && lacked.at == now);
        let (Some(lacked), Some(tracked)) = (lacked, pmem.files.get(&ino)) else {
            return;
        };
        let (framed, names) = (&pmem.framed, &pmem.names);
        let holds = |file, pages: core::ops::Range<u64>| {
            let Some(ino) = names.get(&file) else {
                return false;
            };
            let mut held = framed.range((*ino, pages.start)..(*ino, pages.end));
            held.next().is_some()
        };
        pmem.dax.evict((tracked.id, lacked.page), holds, now);
    }

    /// Takes the frames that pages of a file have by the policy alone, if the place of each page
    /// has the same; none is taken otherwise. The caller has passed its gate.
    pub fn take_clean_frames(&mut self, ino: Ino, pages: Range<u64>) -> Option<(Window, Vec<u32>)> {
        let pmem = self.pmem.as_mut()?;
        let node = self.nodes.get(&ino)?;
        let mut framed = pmem.framed.range((ino, pages.start)..(ino, pages.end));
        let is_clean = !pmem.pending.contains_key(&ino)
            && framed.all(|((_, page), place)| place.lines == 0 && !node.dirty.contains(*page));
        is_clean.then(|| (pmem.window, pmem.take_frames(ino, pages, Whose::Policy)))
    }

    /// Takes frames of pages whose place has the same, so that others may have them. Who takes
    /// frames of a file has passed its gate until their headers say so for good: a sync that came
    /// meanwhile and went to flash would be answered for, and undone by the older frame. Files
    /// whose gate another one has passed keep theirs; `mine` the caller has passed.
    pub fn reclaim_frames(&mut self, least: usize, mine: Option<Ino>) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        let Some(pmem) = &mut self.pmem else {
            return reclaimed;
        };
        let most = least.max(RECLAIMED);
        let mut passed: FxHashMap<Ino, Option<Passed>> = FxHashMap::default();
        let mut keys = Vec::new();
        for ((ino, page), place) in &pmem.framed {
            if keys.len() == most {
                break;
            }
            let Some(node) = self.nodes.get(ino) else {
                reclaimed.unknown.insert(*ino);
                continue;
            };
            let is_dirty = node.dirty.contains(*page) || place.lines != 0;
            if is_dirty || pmem.pending.contains_key(ino) {
                continue;
            }
            let is_mine = mine == Some(*ino);
            let mut pass = || {
                passed
                    .entry(*ino)
                    .or_insert_with(|| node.gate.try_pass())
                    .is_some()
            };
            if is_mine || pass() {
                keys.push((*ino, *page));
            }
        }
        let taken = keys.into_iter().filter_map(|key| pmem.unframe(key));
        reclaimed.frames = taken.collect();
        reclaimed.passed = passed.into_values().flatten().collect();
        reclaimed
    }
}
