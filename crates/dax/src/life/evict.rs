//! Ranges that leave since others have more use for the device's memory.

use super::Dax;
use crate::policy::Policy;
use crate::spans::By;
use crate::stage::Stage;
use crate::trace::What;
use crate::tracker::FileId;
use core::ops::Range;
use units::Time;

impl<P: Policy> Dax<P> {
    /// There is too little memory for a page: the weakest upgraded range that holds some is to be
    /// downgraded. Weak is of which little is synced. For a page that no program has asked for only
    /// a weaker range than its own goes, so that two do not drive each other out for ever. Says
    /// whether there is one.
    pub fn evict(
        &mut self,
        (file, page): (FileId, u64),
        holds_memory: impl Fn(FileId, Range<u64>) -> bool,
        now: Time,
    ) -> bool {
        self.tracker.advance(now);
        self.learn_crowded();
        let Some(range) = self.tracker.range_of(page) else {
            return false;
        };
        let span = self.spans[file.0 as usize].find(page);
        let is_requested = span.is_some_and(|span| span.is_requested);
        let mut weakest = None;
        // One that is not tracked is the weakest itself.
        let mut limit = if is_requested { u32::MAX } else { 0 };
        for (other, spans) in (0..).zip(&self.spans) {
            for (nth, id) in self.tracker.ranges_from(FileId(other), 0) {
                let strength = self.tracker.counts(id).write_backs;
                if FileId(other) == file && nth == range {
                    limit = limit.max(strength);
                    continue;
                }
                let pages = self.tracker.pages_of(nth);
                let is_weaker = weakest.is_none_or(|(least, _)| strength < least);
                if is_weaker
                    && self.tracker.stage(id) == Stage::Upgraded
                    && !spans.has_all(pages.clone(), By::Request)
                    && holds_memory(FileId(other), pages)
                {
                    weakest = Some((strength, id));
                }
            }
        }
        let Some((_, id)) = weakest.filter(|(strength, _)| *strength < limit) else {
            return false;
        };
        self.decide(id, Stage::ToDowngrade, What::Evicted, now);
        true
    }
}
