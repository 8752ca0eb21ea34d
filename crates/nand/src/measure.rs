//! What commands take of a host that keeps so many of them in flight: a benchmark of the flash
//! alone, as fio's with a queue depth.

use crate::{Command, Completion, Kind, Nand, NandConfig, NandEvent, Operation};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{BlockAddr, Ppa, Stream, Time};

/// Submits `count` commands of this kind, `depth` of them at a time, each when another is done, and
/// gives their ends in order. Reads and erases go to random places; programs go round the dies, as
/// the FTL's. The configuration has passed [`NandConfig::validate`].
pub fn closed_loop(config: &NandConfig, kind: Kind, depth: u32, count: u32) -> Vec<Completion> {
    let mut flash = Flash {
        nand: Nand::new(config, config.page_size),
        places: Stream::new(1, "nand/measure"),
        submitted: 0,
        fresh: Vec::new(),
        pending: BinaryHeap::new(),
        order: 0,
    };
    for _ in 0..depth.min(count) {
        flash.submit(Time::ZERO, kind);
    }
    let mut completed = Vec::with_capacity(count as usize);
    while let Some(Reverse((now, _, event))) = flash.pending.pop() {
        let before = completed.len();
        let event = NandEvent::from_bits(event);
        flash
            .nand
            .on_event(now, event, &mut flash.fresh, &mut completed);
        flash.keep_events();
        if completed.len() > before && flash.submitted < count {
            flash.submit(now, kind);
        }
    }
    completed
}

struct Flash {
    nand: Nand,
    places: Stream,
    submitted: u32,
    fresh: Vec<(Time, NandEvent)>,
    /// By time and order of creation.
    pending: BinaryHeap<Reverse<(Time, u64, u64)>>,
    order: u64,
}

impl Flash {
    fn submit(&mut self, now: Time, kind: Kind) {
        let geometry = *self.nand.geometry();
        let block = |number: u64| BlockAddr::new(number as u32);
        let operation = match kind {
            Kind::Read => Operation::Read(Ppa::new(self.places.below(geometry.unit_count()))),
            Kind::Program => {
                let (dies, units) = (geometry.die_count(), geometry.units_per_block);
                let (die, unit) = (self.submitted % dies, self.submitted / dies % units);
                let first = geometry.block_on(units::DieId::new(die), 0);
                Operation::Program(geometry.unit_on(first, unit))
            }
            Kind::Erase => {
                let blocks = u64::from(geometry.block_count());
                Operation::Erase(block(self.places.below(blocks)))
            }
        };
        let command = Command {
            tag: self.submitted,
            operation,
        };
        self.submitted += 1;
        self.nand.submit(now, command, &mut self.fresh);
        self.keep_events();
    }

    fn keep_events(&mut self) {
        for (time, event) in self.fresh.drain(..) {
            self.pending
                .push(Reverse((time, self.order, event.to_bits())));
            self.order += 1;
        }
    }
}
