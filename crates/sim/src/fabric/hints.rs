//! Hint faults of TPP and of the operating system's balancing between nodes, where the cores' page
//! walks end.

use super::Fabric;
use crate::config::{Config, MemoryKind, Migration};
use crate::event::Event;
use host::placement::{Balancer, HintSampler, Location};
use host::{Balancing, NodeId};
use units::{CoreId, Lpa, Picos, Time};

/// The sampler and what a fault costs.
#[derive(Clone)]
pub(crate) struct Hints {
    pub sampler: HintSampler,
    fault_cost: Picos,
    /// Whether pages of the device are sampled: TPP.
    samples_device: bool,
    /// For pages in host DRAM, if they move between nodes.
    balancer: Option<Balancer>,
}

impl Hints {
    /// Those of the design, if the operating system migrates its pages.
    pub fn of(config: &Config, page_count: u64) -> Option<Box<Self>> {
        samples(config).then(|| {
            Box::new(Self {
                sampler: HintSampler::new(&config.tpp, config.ftl.mapping_unit, page_count),
                fault_cost: config.tpp.fault_cost,
                samples_device: samples_device(config),
                balancer: balances(config).then(|| Balancer::new(page_count)),
            })
        })
    }
}

/// Whether the operating system samples pages of the device (TPP).
fn samples_device(config: &Config) -> bool {
    config.design.memory == MemoryKind::Ssd && config.design.migration == Migration::Tpp
}

/// Whether the operating system moves promoted pages from node to node.
fn balances(config: &Config) -> bool {
    let promotes = matches!(
        config.design.migration,
        Migration::Adaptive | Migration::Tpp
    );
    let has_pages = config.design.memory == MemoryKind::Ssd && promotes;
    has_pages && config.numa.balancing == Balancing::HintFaults
}

/// Whether the operating system samples any pages.
pub(crate) fn samples(config: &Config) -> bool {
    samples_device(config) || balances(config)
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

    /// A core has run into a hint fault on a page in host DRAM: the node that the page is to move
    /// to, if it is.
    pub(crate) fn wanted_on(&mut self, core: CoreId, lpa: Lpa) -> Option<NodeId> {
        let Location::Host(page) = self.placement.locate(lpa) else {
            return None;
        };
        let node = self.nodes.of_core(core);
        let balancer = self.hints.as_mut()?.balancer.as_mut()?;
        let is_wanted = balancer.on_fault(lpa, node);
        (is_wanted && self.host_dram.node_of(page) != node).then_some(node)
    }

    /// Whether a hint fault on a page is one of TPP: the page is on the device, and has not left it
    /// since the fault was taken, as Linux looks at the page table entry again.
    pub(crate) fn is_sampled(&self, lpa: Lpa) -> bool {
        let samples_device = self
            .hints
            .as_ref()
            .is_some_and(|hints| hints.samples_device);
        samples_device && self.placement.locate(lpa) == Location::Device
    }

    /// The node of a core, where what its thread needs is wanted.
    pub(crate) fn node_of(&self, core: CoreId) -> NodeId {
        self.nodes.of_core(core)
    }

    /// Arms the next pages of those that are sampled; appends those whose translations must go.
    pub(crate) fn arm(&mut self, newly: &mut Vec<Lpa>) {
        let Some(hints) = &mut self.hints else { return };
        let placement = &self.placement;
        let (samples_device, balances) = (hints.samples_device, hints.balancer.is_some());
        let is_sampled = |lpa| match placement.locate(lpa) {
            Location::Device => samples_device && !placement.is_pinned(lpa),
            Location::Host(_) => balances,
            Location::Migrating(_) | Location::Moving => false,
        };
        hints.sampler.scan(is_sampled, newly);
    }
}
