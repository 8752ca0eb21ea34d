//! The FTL against a plain model, on a flash with real bytes.

mod behaviour;
mod paged;

extern crate std;

use super::mapping::ExplicitMapping;
use super::testing::{self, Flash, GEOMETRY, TIMING, Token};
use super::*;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use units::{FlashOp, Ppa, Ratio, Stream};

pub(super) const HOST_BUFFERS: u32 = 64;

/// What the model knows of a page: the newest program or trim that took effect.
#[derive(Clone, Copy, Default)]
struct ModelPage {
    order: u64,
    token: Option<Token>,
}

#[derive(Clone, Copy)]
enum Pending {
    Read {
        lpa: Lpa,
        order: u64,
    },
    Program {
        lpa: Lpa,
        order: u64,
        token: Token,
        buffer: BufferId,
    },
}

/// FTL, flash and model, driven by random operations.
pub(super) struct Bench<M> {
    pub(super) ftl: Ftl<M>,
    pub(super) flash: Flash,
    pub(super) stream: Stream,
    model: Vec<ModelPage>,
    pending: BTreeMap<Owner, Pending>,
    free_buffers: Vec<BufferId>,
    order: u64,
    stale_reads: u64,
    pub(super) poisoned_reads: u64,
}

fn initial_pages(config: &FtlConfig) -> BTreeMap<Ppa, (Lpa, Token)> {
    let geometry = testing::geometry(config);
    let precondition = Precondition::new(geometry, config);
    let pages = (0..precondition.mapped_page_count()).map(Lpa::new);
    let mut flash: BTreeMap<Ppa, (Lpa, Token)> = pages
        .map(|lpa| (precondition.lookup(lpa).unwrap(), (lpa, lpa.get())))
        .collect();
    for die in (0..geometry.die_count()).map(DieId::new) {
        // Overwritten copies and padding, so that the flash refuses programs of them before an
        // erase.
        let open = precondition.open_pages(die);
        let begun = precondition.full_blocks() * geometry.units_per_block
            + open.next_multiple_of(geometry.units_per_page);
        for unit in 0..begun {
            let place = geometry.unit_on(geometry.block_on(die, 0), unit);
            flash.entry(place).or_insert((Lpa::new(0), Token::MAX));
        }
    }
    flash
}

pub(super) fn implicit(config: &FtlConfig) -> Ftl {
    let geometry = testing::geometry(config);
    assert_eq!(
        config.validate(&geometry),
        Vec::<alloc::string::String>::new()
    );
    Ftl::new(geometry, config, TIMING, BufferId::new(HOST_BUFFERS))
}

impl<M: Mapping> Bench<M> {
    pub(super) fn new(ftl: Ftl<M>, config: &FtlConfig, seed: u64) -> Self {
        let flash = Flash::new(testing::geometry(config), initial_pages(config));
        Self::on(ftl, flash, seed)
    }

    /// A bench on which nothing is in flight, with the bytes that `flash` has.
    pub(super) fn on(ftl: Ftl<M>, flash: Flash, seed: u64) -> Self {
        let page = |lpa: u64| ModelPage {
            order: 0,
            token: ftl.mapping.lookup(Lpa::new(lpa)).map(|ppa| {
                let (holder, token) = flash.content(ppa).expect("a mapped page is on flash");
                assert_eq!(holder, Lpa::new(lpa), "{ppa} holds another page");
                token
            }),
        };
        Self {
            model: (0..ftl.logical_page_count()).map(page).collect(),
            ftl,
            flash,
            stream: Stream::new(seed, "ftl/tests"),
            pending: BTreeMap::new(),
            free_buffers: (0..HOST_BUFFERS).map(BufferId::new).collect(),
            order: 0,
            stale_reads: 0,
            poisoned_reads: 0,
        }
    }

    fn next_owner(&mut self) -> Owner {
        self.order += 1;
        Owner::new(self.order as u32)
    }

    pub(super) fn read(&mut self, lpa: Lpa) {
        let state = self.model[lpa.get() as usize];
        assert_eq!(self.ftl.is_mapped(lpa), state.token.is_some());
        if state.token.is_some() {
            let owner = self.next_owner();
            self.pending.insert(
                owner,
                Pending::Read {
                    lpa,
                    order: state.order,
                },
            );
            self.ftl.read(Time::ZERO, lpa, owner, &mut self.flash);
        }
    }

    pub(super) fn program(&mut self, lpa: Lpa) {
        let Some(buffer) = self.free_buffers.pop() else {
            return self.finish();
        };
        let owner = self.next_owner();
        let token = self.stream.bits();
        self.flash.fill(buffer, token);
        self.pending.insert(
            owner,
            Pending::Program {
                lpa,
                order: self.order,
                token,
                buffer,
            },
        );
        self.ftl.program(
            Time::ZERO,
            lpa,
            PagePlace::Buffer(buffer),
            owner,
            &mut self.flash,
        );
    }

    fn trim(&mut self, lpa: Lpa) {
        self.order += 1;
        self.model[lpa.get() as usize] = ModelPage {
            order: self.order,
            token: None,
        };
        self.ftl.trim(lpa, &mut self.flash);
    }

    pub(super) fn finish_all(&mut self) {
        while !self.pending.is_empty() {
            self.finish();
        }
    }

    pub(super) fn finish(&mut self) {
        let Some(tag) = self.flash.finish_one(&mut self.stream) else {
            if self.ftl.gathered() > 0 {
                return self.ftl.close_page(Time::ZERO, &mut self.flash);
            }
            assert!(
                self.pending.is_empty(),
                "operations wait, but the flash is idle"
            );
            return;
        };
        let done = match self.flash.fault {
            None => self.ftl.on_nand_done(Time::ZERO, tag, &mut self.flash),
            Some(fault) => self
                .ftl
                .on_nand_failed(Time::ZERO, tag, fault, &mut self.flash),
        };
        self.take(done, tag);
        while let Some(done) = self.ftl.next_done(Time::ZERO, &mut self.flash) {
            self.take(done, tag);
        }
    }

    fn take(&mut self, done: Done, tag: NandTag) {
        match done {
            Done::Read { owner, lpa, stale } => self.check_read(owner, lpa, stale, tag),
            Done::Programmed { owner, lpa } => self.model_program(owner, lpa),
            Done::Internal => {}
        }
    }

    fn check_read(&mut self, owner: Owner, lpa: Lpa, stale: bool, tag: NandTag) {
        let Some(Pending::Read { lpa: wanted, order }) = self.pending.remove(&owner) else {
            panic!("{owner} has not asked for a read");
        };
        let state = self.model[lpa.get() as usize];
        assert_eq!(
            (lpa, stale),
            (wanted, state.order != order),
            "{lpa} is stale if overtaken"
        );
        self.stale_reads += u64::from(stale);
        if !stale {
            let found = self.flash.bytes(PagePlace::Register(tag));
            if found == testing::POISON && self.flash.poisoned.contains(&lpa) {
                self.poisoned_reads += 1;
                return;
            }
            assert_eq!(Some(found), state.token, "{lpa} reads as last programmed");
        }
    }

    fn model_program(&mut self, owner: Owner, lpa: Lpa) {
        let Some(Pending::Program {
            lpa: wanted,
            order,
            token,
            buffer,
        }) = self.pending.remove(&owner)
        else {
            panic!("{owner} has not asked for a program");
        };
        assert_eq!(lpa, wanted);
        // Overwritten, so that a command handed over later than its owner allows is noticed.
        self.flash.fill(buffer, 0);
        self.free_buffers.push(buffer);
        let state = &mut self.model[lpa.get() as usize];
        if order > state.order {
            *state = ModelPage {
                order,
                token: Some(token),
            };
        }
    }

    pub(super) fn step(&mut self) {
        // Half of the operations go to an eighth of the pages, so that they meet in flight.
        let pages = self.ftl.logical_page_count();
        let bound = if self.stream.chance(Ratio::percent(50)) {
            pages / 8
        } else {
            pages
        };
        let lpa = Lpa::new(self.stream.below(bound));
        self.check_estimate(lpa);
        match self.stream.below(100) {
            0..20 => self.read(lpa),
            // The controller takes no writes then.
            20..=45 if self.ftl.is_read_only() => self.finish(),
            20..45 => self.program(lpa),
            45 => self.trim(lpa),
            46 if self.ftl.geometry.units_per_page > 1 => {
                self.ftl.close_page(Time::ZERO, &mut self.flash)
            }
            _ => self.finish(),
        }
    }

    /// Algorithm 1 over what the flash itself has queued.
    fn check_estimate(&self, lpa: Lpa) {
        let Some(die) = self.ftl.die_of(lpa) else {
            return;
        };
        let channel = GEOMETRY.channel_of(die);
        let is_in_queue = |other: &DieId| match self.ftl.config.estimator {
            EstimatorKind::Channel | EstimatorKind::Exact => GEOMETRY.channel_of(*other) == channel,
            EstimatorKind::Die | EstimatorKind::Reads => *other == die,
        };
        let dies = (0..GEOMETRY.die_count())
            .map(DieId::new)
            .filter(is_in_queue);
        let queued = dies.flat_map(|die| self.flash.queue(die));
        let reads_only = self.ftl.config.estimator == EstimatorKind::Reads;
        let queued =
            queued.filter(|command| !reads_only || matches!(command.op, NandOp::Read { .. }));
        let latency: Picos = queued
            .map(|command| match command.op {
                NandOp::Read { .. } => TIMING.expected(FlashOp::Read),
                NandOp::Program { .. } => TIMING.expected(FlashOp::Program),
                NandOp::Erase { .. } => TIMING.expected(FlashOp::Erase),
            })
            .sum();
        assert_eq!(
            self.ftl.estimate(lpa).latency,
            latency + TIMING.expected(FlashOp::Read)
        );
    }

    pub(super) fn run(&mut self, steps: u64) {
        for step in 0..steps {
            self.step();
            if step % 32 == 0 {
                self.ftl.audit();
            }
        }
        while !(self.ftl.is_idle() && self.pending.is_empty()) {
            self.finish();
        }
        self.ftl.audit();
        for page in 0..self.ftl.logical_page_count() {
            self.read(Lpa::new(page));
        }
        while !self.pending.is_empty() {
            self.finish();
        }
    }
}

#[test]
fn every_read_returns_the_page_last_programmed() {
    for seed in 0..8 {
        let config = testing::config();
        let mut bench = Bench::new(implicit(&config), &config, seed);
        std::println!("seed {seed}");
        bench.run(100_000);
        let stats = *bench.ftl.stats();
        assert!(
            stats.erases > 100 && stats.gc_drops > 10 && stats.waits > 10,
            "{stats:?}"
        );
        assert!(bench.stale_reads > 10);
    }
}

#[test]
fn a_die_that_reorders_operations_loses_nothing() {
    for seed in 0..4 {
        let config = FtlConfig {
            gc_foreground_pages: 8,
            gc_buffers: 32,
            ..testing::config()
        };
        let mut bench = Bench::new(implicit(&config), &config, seed);
        bench.flash = bench.flash.reordering();
        bench.run(40_000);
    }
}

#[test]
fn bulk_gc_loses_nothing_and_erases_its_quota() {
    for seed in 0..4 {
        let config = FtlConfig {
            gc: GcKind::Bulk,
            fill: Ratio::percent(70),
            gc_threshold: Ratio::percent(70),
            ..testing::config()
        };
        let mut bench = Bench::new(implicit(&config), &config, seed);
        bench.run(40_000);
        assert!(bench.ftl.stats().erases > 100);
    }
}

#[test]
fn implicit_and_explicit_mapping_take_the_same_decisions() {
    let config = testing::config();
    let precondition = Precondition::new(GEOMETRY, &config);
    let mapping = ExplicitMapping::new(GEOMETRY, &precondition);
    let ftl = Ftl::with_mapping(
        GEOMETRY,
        &config,
        TIMING,
        BufferId::new(HOST_BUFFERS),
        mapping,
    );
    let mut explicit = Bench::new(ftl, &config, 1);
    let mut implicit = Bench::new(implicit(&config), &config, 1);
    explicit.run(20_000);
    implicit.run(20_000);
    assert_eq!(explicit.ftl.stats(), implicit.ftl.stats());
    for lpa in (0..explicit.ftl.logical_page_count()).map(Lpa::new) {
        assert_eq!(
            explicit.ftl.mapping.lookup(lpa),
            implicit.ftl.mapping.lookup(lpa)
        );
    }
}
