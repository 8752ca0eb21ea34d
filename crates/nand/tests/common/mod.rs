//! A flash with an event queue, for the tests.

use nand::{
    Command, Completion, EmpiricalConfig, Nand, NandConfig, NandEvent, Operation, Parallelism,
    Part, Scheduling, Transfer,
};
use std::collections::BTreeMap;
use units::{BlockAddr, BytesPerSec, PageSize, Picos, Ppa, Ratio, Time};

/// SkyByte Table II with two of everything that is repeated.
pub fn small() -> NandConfig {
    NandConfig {
        channels: 2,
        chips_per_channel: 2,
        dies_per_chip: 2,
        planes_per_die: 1,
        blocks_per_plane: 4,
        pages_per_block: 8,
        page_size: PageSize::KIB_4,
        t_r: Picos::from_micros(3),
        t_prog: Picos::from_micros(100),
        t_bers: Picos::from_micros(1000),
        erase_share: Ratio::percent(100),
        channel_bandwidth: BytesPerSec::new(2_400_000_000),
        transfer: Transfer::Page,
        codeword: PageSize::KIB_1,
        scheduling: Scheduling::Fifo,
        suspend: false,
        t_suspend: Picos::from_micros(1),
        parallelism: Parallelism::Die,
        empirical: EmpiricalConfig::constant(),
    }
}

/// The instant `nanos` nanoseconds after the start.
pub fn at(nanos: u64) -> Time {
    Time::ZERO + Picos::from_nanos(nanos)
}

/// A flash and the events it waits for.
pub struct Driven {
    pub nand: Nand,
    pub completed: Vec<Completion>,
    pub parts: Vec<(Time, Part)>,
    pending: BTreeMap<(Time, u64), NandEvent>,
    fresh: Vec<(Time, NandEvent)>,
    event_count: u64,
}

impl Driven {
    pub fn new(config: &NandConfig) -> Self {
        Self::in_units(config, config.page_size)
    }
    /// Of which units of this size are read.
    pub fn in_units(config: &NandConfig, unit: PageSize) -> Self {
        Self {
            nand: Nand::new(config, unit),
            completed: Vec::new(),
            parts: Vec::new(),
            pending: BTreeMap::new(),
            fresh: Vec::new(),
            event_count: 0,
        }
    }
    /// Serves what is due before `now`, then submits.
    pub fn submit(&mut self, now: Time, tag: u32, operation: Operation) {
        self.run_before(now);
        self.nand
            .submit(now, Command { tag, operation }, &mut self.fresh);
        self.keep_events();
    }
    /// Serves what is due before `now`, then somebody waits for a codeword of a read.
    pub fn want(&mut self, now: Time, tag: u32, codeword: u32) {
        self.run_before(now);
        self.nand.want(now, tag, codeword, &mut self.fresh);
        self.keep_events();
    }
    /// Serves everything.
    pub fn finish(&mut self) {
        self.run_before(Time::MAX);
        assert_eq!(self.nand.in_flight(), 0);
        self.nand.audit();
    }
    /// When the command `tag` finished; everything has been served.
    pub fn finish_of(&self, tag: u32) -> Time {
        let found = self
            .completed
            .iter()
            .find(|completion| completion.tag == tag);
        found
            .expect("the command was submitted and served")
            .finished
    }
    /// Serves what is due before `limit`.
    pub fn run_before(&mut self, limit: Time) {
        while let Some(entry) = self.pending.first_entry() {
            let (now, _) = *entry.key();
            if now >= limit {
                return;
            }
            let event = entry.remove();
            let part = self
                .nand
                .on_event(now, event, &mut self.fresh, &mut self.completed);
            self.parts.extend(part.map(|part| (now, part)));
            self.keep_events();
        }
    }
    fn keep_events(&mut self) {
        for (time, event) in self.fresh.drain(..) {
            self.pending.insert((time, self.event_count), event);
            self.event_count += 1;
        }
    }
}

/// Page `page` of block `block` of a die.
pub fn page(config: &NandConfig, die: u32, block: u32, page: u32) -> Ppa {
    config
        .geometry(config.page_size)
        .unit_on(block_of(config, die, block), page)
}

/// Block `block` of a die.
pub fn block_of(config: &NandConfig, die: u32, block: u32) -> BlockAddr {
    config
        .geometry(config.page_size)
        .block_on(units::DieId::new(die), block)
}
