//! Append streams, and the ranges that they come to next.

use super::Dax;
use crate::policy::{Appends, Policy};
use crate::spans::By;
use crate::stage::Stage;
use crate::trace::What;
use crate::tracker::{FileId, RangeId};
use core::ops::Range;
use units::Time;

/// Pages written since when older ones count for half.
const MANY: u32 = 128;
/// Syncs in a row of what lies before the end of a stream, after which it is none.
const MISSES: u32 = 8;

/// How a file is appended to.
#[derive(Clone, Default)]
pub(super) struct Stream {
    appends: Appends,
    /// Syncs of what lies before the end, since it went on.
    misses: u32,
    /// Ranges that were upgraded before anything of them was written.
    predicted: Range<u32>,
}

impl Stream {
    /// Pages of the file are written.
    pub fn wrote(&mut self, pages: u32) {
        let counts = &mut self.appends.counts;
        counts.writes = counts.writes.saturating_add(pages);
        if counts.writes >= MANY {
            counts.writes /= 2;
            counts.write_backs /= 2;
        }
    }

    /// Pages of it are synced. Says whether it is another stream from now on.
    fn synced(&mut self, page: u64, pages: u32) -> bool {
        let Appends {
            end,
            steps,
            reach,
            counts,
        } = &mut self.appends;
        counts.write_backs = counts.write_backs.saturating_add(pages);
        let behind = page + u64::from(pages);
        // What it ends in is written again: a page, or the block of several that a program fills.
        let again = page <= *end && *end - page <= u64::from((*reach).max(1));
        if *steps > 0 && again && behind >= *end {
            *steps = steps.saturating_add(1);
            *reach = pages.max(*reach - *reach / 8);
            *end = behind;
            self.misses = 0;
            return false;
        }
        // Something else is synced beside the stream, as the first page of a file.
        if *steps > 0 && behind < *end && self.misses < MISSES {
            self.misses += 1;
            return false;
        }
        (*end, *steps, *reach) = (behind, 1, pages);
        self.misses = 0;
        true
    }

    /// The file ends at a page now.
    pub fn truncate(&mut self, pages: u64) {
        self.appends.end = self.appends.end.min(pages);
    }
}

impl<P: Policy> Dax<P> {
    /// Pages of a file are synced: what an append stream comes to next is to be upgraded, if such a
    /// sync gains from that.
    pub(super) fn look_ahead(
        &mut self,
        file: FileId,
        (page, pages): (u64, u32),
        may_gain: bool,
        now: Time,
    ) {
        let stream = &mut self.streams[file.0 as usize];
        let is_another = stream.synced(page, pages);
        let appends = stream.appends;
        if is_another {
            let predicted = core::mem::take(&mut stream.predicted);
            self.give_up(file, predicted, What::WantsDowngrade, now);
        }
        let ahead = self.policy.ahead(&appends);
        let last = appends.end.saturating_add(ahead).saturating_sub(1);
        let (Some(first), Some(last)) = (
            self.tracker.range_of(appends.end),
            self.tracker.range_of(last),
        ) else {
            return;
        };
        if ahead == 0 || !may_gain {
            return;
        }
        for range in first..=last {
            let id = self.tracker.range(file, range);
            let spans = &self.spans[file.0 as usize];
            let is_mapped = spans.has_all(self.tracker.pages_of(range), By::Request);
            if self.tracker.stage(id) == Stage::Plain && !is_mapped {
                self.decide(id, Stage::ToUpgrade, What::Predicted, now);
            }
            self.tracker.settle(id);
        }
        // A sync that is smaller looks less far: what was predicted before is given up by nobody
        // else.
        let predicted = &mut self.streams[file.0 as usize].predicted;
        *predicted = first..predicted.end.max(last.saturating_add(1));
    }

    /// Whether a range of which nothing is counted is what an append stream comes to next. A stream
    /// of whose end nothing is counted has stopped: what was predicted is given up.
    pub(super) fn is_ahead(&mut self, id: RangeId, now: Time) -> bool {
        let Some((file, range)) = self.tracker.owner(id).filter(|_| self.looks_ahead) else {
            return false;
        };
        let stream = &mut self.streams[file.0 as usize];
        let last = stream.appends.end.checked_sub(1);
        if last.and_then(|last| self.tracker.range_of(last)) != Some(range) {
            return stream.predicted.contains(&range);
        }
        let predicted = core::mem::take(&mut stream.predicted);
        self.give_up(file, predicted, What::LetGo, now);
        false
    }

    /// What was to come does not come: `why` it leaves.
    fn give_up(&mut self, file: FileId, predicted: Range<u32>, why: What, now: Time) {
        if predicted.is_empty() {
            return;
        }
        for (range, id) in self.tracker.ranges_from(file, predicted.start) {
            let counts = self.tracker.counts(id);
            if !predicted.contains(&range) || counts.writes + counts.write_backs > 0 {
                continue;
            }
            match self.tracker.stage(id) {
                Stage::ToUpgrade => self.decide(id, Stage::Plain, What::Withdrawn, now),
                Stage::Upgraded => self.decide(id, Stage::ToDowngrade, why, now),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PolicyKind, Settings};
    use units::Picos;

    #[test]
    fn a_stream_goes_on_where_it_ended_whatever_is_synced_before_it() {
        let mut stream = Stream::default();
        assert!(stream.synced(0, 1), "it begins");
        for page in 0..100 {
            assert!(!stream.synced(page, 2), "the last page again, and one more");
            assert!(!stream.synced(0, 1) || page < 2, "page {page}");
        }
        assert_eq!(stream.appends.end, 101);
        assert!(stream.appends.steps >= 100);
        assert!(stream.synced(200, 1), "it begins anew further on");
        stream.truncate(0);
        assert!(!stream.synced(0, 1), "a log that is emptied goes on");
        for page in 0..MISSES {
            assert!(!stream.synced(page.into(), 1), "as pages of it are written");
        }
    }

    /// What is predicted is upgraded before its first write, and given up where the stream ends.
    #[test]
    fn a_range_is_upgraded_before_its_first_write() {
        let settings = Settings {
            kind: PolicyKind::Predict,
            order: 2,
            ..Settings::default()
        };
        let mut dax = Dax::new(&settings).expect("good settings");
        let file = dax.open();
        let now = Time::from_picos(0);
        let put = |dax: &mut Dax, page| {
            dax.wrote(file, page, 1, now);
            dax.wrote_back(file, page, 1, now);
            while let Some(job) = dax.next_job(now) {
                let _ = dax.finish(job, true, now);
            }
        };
        let is_there = |dax: &Dax, page| dax.spans(file).find(page).is_some();
        for page in 0..40 {
            assert!(page < 6 || is_there(&dax, page), "page {page}");
            put(&mut dax, page);
            assert!(!is_there(&dax, page + 6), "not further than that");
        }
        assert!(is_there(&dax, 40) && dax.stats().predicted > 5);
        put(&mut dax, 1000);
        assert!(!is_there(&dax, 40), "nobody comes");
        assert!(is_there(&dax, 39), "it was written");
        dax.audit(&[file]);
    }

    /// Ranges of four pages; `wait` for upgrades.
    fn dax_of(kind: PolicyKind, wait: Picos) -> Dax {
        let settings = Settings {
            kind,
            wait,
            order: 2,
            ..Settings::default()
        };
        Dax::new(&settings).expect("good settings")
    }

    fn move_all(dax: &mut Dax, now: Time) -> u32 {
        let mut moved = 0;
        while let Some(job) = dax.next_job(now) {
            assert_eq!(dax.finish(job, true, now), crate::Ended::Moved);
            moved += 1;
        }
        moved
    }

    #[test]
    fn a_block_of_several_pages_that_is_written_again_goes_on() {
        let mut stream = Stream::default();
        assert!(stream.synced(0, 2), "it begins");
        for page in (0..100).step_by(2) {
            for _ in 0..3 {
                assert!(!stream.synced(page, 2), "page {page}");
            }
        }
        assert!(stream.appends.steps >= 100);
        assert_eq!(stream.appends.end, 100);
        // What lies further back is no part of its end.
        let steps = stream.appends.steps;
        assert!(!stream.synced(90, 2));
        assert_eq!(stream.appends.steps, steps);
    }

    /// A range that nobody writes any more leaves when its last count has ended, with the policy
    /// that looks ahead alone.
    #[test]
    fn what_is_idle_is_let_go() {
        const SECOND: u64 = 1_000_000_000_000;
        for (kind, goes) in [(PolicyKind::Predict, true), (PolicyKind::Ratio, false)] {
            let mut dax = dax_of(kind, Picos::ZERO);
            let file = dax.open();
            let at = |seconds: u64| Time::from_picos(seconds * SECOND);
            for _ in 0..6 {
                dax.wrote(file, 0, 1, at(0));
                dax.wrote_back(file, 0, 1, at(0));
            }
            assert_eq!(move_all(&mut dax, at(0)), 1);
            assert_eq!(move_all(&mut dax, at(19)), 0, "its writes count still");
            assert!(dax.spans(file).find(0).is_some());
            assert_eq!(move_all(&mut dax, at(21)), u32::from(goes), "{kind}");
            assert_eq!(dax.spans(file).find(0).is_none(), goes, "{kind}");
            assert_eq!(dax.stats().let_go, u64::from(goes));
            // What is written again meanwhile stays.
            for _ in 0..6 {
                dax.wrote(file, 0, 1, at(30));
                dax.wrote_back(file, 0, 1, at(30));
            }
            move_all(&mut dax, at(30));
            dax.wrote(file, 0, 1, at(49));
            dax.wrote_back(file, 0, 1, at(49));
            assert_eq!(move_all(&mut dax, at(52)), 0, "{kind}");
            dax.audit(&[file]);
        }
    }

    /// What was idle before a setting was changed, or before the policy wanted to know, is let go.
    #[test]
    fn what_is_idle_is_let_go_whatever_is_set_meanwhile() {
        const SECOND: u64 = 1_000_000_000_000;
        let changes = [
            (PolicyKind::Predict, "upgrade", "61"),
            (PolicyKind::Ratio, "policy", "predict"),
        ];
        for (kind, key, value) in changes {
            let mut dax = dax_of(kind, Picos::ZERO);
            let (file, other) = (dax.open(), dax.open());
            let at = |seconds: u64| Time::from_picos(seconds * SECOND);
            for _ in 0..6 {
                dax.wrote(file, 0, 1, at(0));
                dax.wrote_back(file, 0, 1, at(0));
            }
            assert_eq!(move_all(&mut dax, at(0)), 1);
            // Its last count ends, and nobody asks for jobs.
            dax.wrote(other, 0, 1, at(30));
            dax.change(key, value).expect("a setting");
            dax.audit(&[file, other]);
            assert_eq!(move_all(&mut dax, at(31)), 1, "{kind}");
            assert!(dax.spans(file).is_empty());
            dax.audit(&[file, other]);
        }
    }

    /// Large syncs, and small ones behind them: all that was predicted is given up where the stream
    /// ends, and where it just stops.
    #[test]
    fn nothing_is_forgotten_of_what_was_predicted() {
        const SECOND: u64 = 1_000_000_000_000;
        let at = |seconds: u64| Time::from_picos(seconds * SECOND);
        for stops in [false, true] {
            let mut dax = dax_of(PolicyKind::Predict, Picos::ZERO);
            let file = dax.open();
            let put = |dax: &mut Dax, page, pages, now| {
                dax.wrote(file, page, pages, now);
                dax.wrote_back(file, page, pages, now);
                move_all(dax, now);
            };
            for nth in 0..8 {
                put(&mut dax, nth * 16, 16, at(0));
            }
            for _ in 0..40 {
                put(&mut dax, 127, 1, at(0));
            }
            assert!(dax.spans(file).find(140).is_some(), "predicted");
            if stops {
                move_all(&mut dax, at(30));
                assert!(dax.spans(file).is_empty(), "nobody comes");
            } else {
                put(&mut dax, 1000, 1, at(0));
                let last = dax.spans(file).iter().last().expect("written ones");
                assert_eq!(last.pages.end, 128);
            }
            dax.audit(&[file]);
        }
    }

    /// Nobody asks for jobs while ranges become idle again and again, and are cut off and others.
    #[test]
    fn the_list_of_idle_ranges_is_no_longer_than_that_of_ranges() {
        const SECOND: u64 = 1_000_000_000_000;
        let mut dax = dax_of(PolicyKind::Predict, Picos::ZERO);
        let (kept, cut) = (dax.open(), dax.open());
        let at = |seconds: u64| Time::from_picos(seconds * SECOND);
        for file in [kept, cut] {
            for page in 0..80 {
                dax.wrote(file, page, 1, at(0));
                dax.wrote_back(file, page, 1, at(0));
            }
        }
        assert!(move_all(&mut dax, at(0)) > 20);
        let ranges = dax.footprint().ranges;
        for life in 1..50 {
            for range in 0..20 {
                dax.wrote(kept, 4 * range, 1, at(30 * life));
            }
            dax.wrote(cut, 0, 1, at(30 * life));
            dax.truncate(cut, life % 80);
            dax.audit(&[kept, cut]);
            assert!(dax.footprint().ranges <= ranges, "life {life}");
        }
        dax.forget(cut);
        assert!(move_all(&mut dax, at(1600)) > 15, "they are let go");
        dax.audit(&[kept]);
        assert!(dax.footprint().ranges <= 1, "what is predicted is there");
    }

    #[test]
    fn an_upgrade_begins_when_it_has_waited() {
        let wait = Picos::from_micros(100);
        let mut dax = dax_of(PolicyKind::Ratio, wait);
        let file = dax.open();
        let at = |micros: u64| Time::from_picos(micros * 1_000_000);
        for (range, begun) in [(0, 10), (1, 60)] {
            for _ in 0..6 {
                dax.wrote(file, 4 * range, 1, at(begun));
                dax.wrote_back(file, 4 * range, 1, at(begun));
            }
        }
        assert_eq!(dax.next_job(at(109)), None);
        let job = dax.next_job(at(110)).expect("it has waited");
        assert_eq!(job.pages, 0..4);
        assert_eq!(dax.next_job(at(159)), None, "the other one has not");
        dax.finish(job, true, at(159));
        assert_eq!(move_all(&mut dax, at(160)), 1);
        dax.audit(&[file]);
    }

    #[test]
    fn pages_that_are_written_anywhere_are_no_stream() {
        let mut pages = units::Stream::new(3, "anywhere");
        let mut stream = Stream::default();
        for _ in 0..1000 {
            stream.synced(pages.below(1 << 20), 1);
            assert!(stream.appends.steps < 5);
        }
    }
}
