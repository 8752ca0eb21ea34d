//! Pages that are remapped together: one shootdown for several (`host.migration_batch`).
//!
//! A page whose lines have all been copied waits until there are as many of its direction, or none
//! of it is still being copied: until then the look-aside buffer serves its accesses where its
//! lines are. Offers do not wait: copies of several pages at a time would stand before the lines
//! that programs wait for.

use crate::config::{Config, Migration};
use host::placement::{DemotionKind, Direction, MigrationKind};
use units::{Lpa, Picos};

/// Pages that wait for others of their batch.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    /// 1: no page waits.
    most: usize,
    /// What each page beyond the first adds to the shootdown.
    pub further: Picos,
    /// Pages that are being remapped: each with the last one of its batch.
    pub committing: Vec<(Lpa, Lpa)>,
    /// Copied pages.
    copied: [Vec<Lpa>; 2],
    /// Pages on their way, those included.
    moving: [usize; 2],
}

impl Batches {
    pub(crate) fn new(config: &Config) -> Self {
        let can_wait = config.mechanisms().migration == Migration::Adaptive
            && config.host.migration == MigrationKind::Copied
            && config.host.demotion == DemotionKind::Written
            && config.host_ways().is_none();
        Self {
            most: match can_wait {
                true => config.host.migration_batch as usize,
                false => 1,
            },
            further: config.host.batched_cost,
            committing: Vec::new(),
            copied: [Vec::new(), Vec::new()],
            moving: [0; 2],
        }
    }

    /// Whether pages wait for each other at all.
    pub(crate) fn is_used(&self) -> bool {
        self.most > 1
    }

    /// Most pages that are remapped together.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The pages that are remapped with the last one of their batch, it included.
    pub(crate) fn take_committing(&mut self, last: Lpa) -> Vec<Lpa> {
        let with_it = self.committing.extract_if(.., |(of, _)| *of == last);
        let mut pages: Vec<Lpa> = with_it.map(|(_, page)| page).collect();
        pages.push(last);
        pages
    }

    /// A page is on its way.
    pub(crate) fn begin(&mut self, direction: Direction) {
        self.moving[direction as usize] += 1;
    }

    /// The lines of a page have been copied: the pages that are remapped now, it included.
    pub(crate) fn copied(&mut self, lpa: Lpa, direction: Direction) -> Vec<Lpa> {
        if !self.is_used() {
            return vec![lpa];
        }
        let (copied, moving) = (
            &mut self.copied[direction as usize],
            &mut self.moving[direction as usize],
        );
        copied.push(lpa);
        if copied.len() < self.most && copied.len() < *moving {
            return Vec::new();
        }
        *moving -= copied.len();
        std::mem::take(copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(most: usize) -> Batches {
        Batches {
            most,
            further: Picos::ZERO,
            committing: Vec::new(),
            copied: [Vec::new(), Vec::new()],
            moving: [0; 2],
        }
    }

    #[test]
    fn copied_pages_wait_for_a_batch_or_for_the_last_of_their_direction() {
        let mut it = batches(2);
        let (up, down) = (Direction::Promotion, Direction::Demotion);
        (0..3).for_each(|_| it.begin(up));
        it.begin(down);
        assert!(it.copied(Lpa::new(1), up).is_empty());
        assert_eq!(it.copied(Lpa::new(9), down), [Lpa::new(9)]);
        assert_eq!(it.copied(Lpa::new(2), up), [Lpa::new(1), Lpa::new(2)]);
        assert_eq!(it.copied(Lpa::new(3), up), [Lpa::new(3)]);
    }
}
