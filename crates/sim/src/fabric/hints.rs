//! Hint faults of TPP, where the cores' page walks end.

use super::Fabric;
use crate::config::{Config, MemoryKind, Migration};
use crate::event::Event;
use host::placement::{HintSampler, Location};
use units::{CoreId, Lpa, Picos, Time};

/// The sampler and what a fault costs.
#[derive(Clone)]
pub(crate) struct Hints {
    pub sampler: HintSampler,
    fault_cost: Picos,
}

impl Hints {
    /// Those of the design, if the operating system migrates its pages.
    pub fn of(config: &Config, page_count: u64) -> Option<Box<Self>> {
        let design = config.mechanisms();
        let is_sampled = design.memory == MemoryKind::Ssd && design.migration == Migration::Tpp;
        is_sampled.then(|| {
            Box::new(Self {
                sampler: HintSampler::new(&config.tpp, config.nand.page_size, page_count),
                fault_cost: config.tpp.fault_cost,
            })
        })
    }
}

impl Fabric {
    /// A core's page walk ends at `at`: what a hint fault takes from it, if the page is armed. The
    /// handler decides at the end of that time.
    pub(super) fn hint_fault(&mut self, at: Time, core: CoreId, lpa: Lpa) -> Picos {
        let Some(hints) = &mut self.hints else {
            return Picos::ZERO;
        };
        if !hints.sampler.take_armed(lpa) {
            return Picos::ZERO;
        }
        let decides = at.max(self.queue.now()) + hints.fault_cost;
        self.queue.push(decides, Event::HintFault { core, lpa });
        hints.fault_cost
    }

    /// Whether the next page walk for the page takes a hint fault.
    pub(crate) fn is_armed(&self, lpa: Lpa) -> bool {
        let hints = self.hints.as_ref();
        hints.is_some_and(|hints| hints.sampler.is_armed(lpa))
    }

    /// A page is promoted: the sampler forgets it.
    pub(crate) fn hints_promoted(&mut self, now: Time, lpa: Lpa) {
        if let Some(hints) = &mut self.hints {
            hints.sampler.promoted(now, lpa);
        }
    }

    /// Arms the next pages of the device; appends those whose translations must go.
    pub(crate) fn arm(&mut self, newly: &mut Vec<Lpa>) {
        let Some(hints) = &mut self.hints else { return };
        let placement = &self.placement;
        hints.sampler.scan(
            |lpa| placement.locate(lpa) == Location::Device && !placement.is_pinned(lpa),
            newly,
        );
    }
}
