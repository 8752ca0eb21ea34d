//! A small flash under the FTL in tests: real bytes (one token per page), a FIFO per die, and any
//! order across dies.

mod tables;

pub use tables::Tables;

use super::{EstimatorKind, FirstWrite, FtlConfig, GcKind, ProgramTo};
use crate::durable::Record;
use crate::platform::{
    BufferId, Cell, NandCommand, NandFault, NandOp, NandTag, PagePlace, Platform, Response, Timer,
};
use crate::work::Work;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use units::{
    BlockAddr, Bytes, DieId, FlashGeometry, LineMask, Lpa, PageSize, Picos, Ppa, Ratio, Stream,
    Time, Timing,
};

/// Two channels of two dies, 16 blocks of 8 pages each.
pub const GEOMETRY: FlashGeometry = FlashGeometry {
    channel_count: 2,
    chips_per_channel: 2,
    dies_per_chip: 1,
    planes_per_die: 1,
    blocks_per_plane: 16,
    units_per_block: 8,
    unit_size: PageSize::KIB_4,
    units_per_page: 1,
};

/// The same flash in the units of this FTL: its pages have 4 KiB.
pub fn geometry(config: &FtlConfig) -> FlashGeometry {
    let units_per_page = (GEOMETRY.page_size() / config.mapping_unit.bytes()) as u32;
    FlashGeometry {
        units_per_block: GEOMETRY.units_per_block * units_per_page,
        unit_size: config.mapping_unit,
        units_per_page,
        ..GEOMETRY
    }
}

/// [`config`] with so many units in a flash page.
pub fn paged(units_per_page: u64) -> FtlConfig {
    let unit = Bytes::new(GEOMETRY.page_size().get() / units_per_page);
    FtlConfig {
        mapping_unit: PageSize::new(unit).expect("a power of two lines"),
        // Of each block all but a page's worth of units count.
        over_provisioning: Ratio::percent(if units_per_page == 1 { 40 } else { 45 }),
        ..config()
    }
}

/// SkyByte Table II.
pub const TIMING: Timing = Timing::constant(
    Picos::from_micros(3),
    Picos::from_micros(100),
    Picos::from_micros(1000),
);

/// Incremental GC that runs almost all the time.
pub fn config() -> FtlConfig {
    FtlConfig {
        mapping_unit: GEOMETRY.unit_size,
        over_provisioning: Ratio::percent(40),
        fill: Ratio::percent(100),
        overwritten: Ratio::percent(100),
        placement: 0,
        first_write: FirstWrite::FirstDie,
        program_to: ProgramTo::InTurn,
        gc: GcKind::Incremental,
        gc_start_blocks: 3,
        reserve_blocks: 1,
        gc_pages: 2,
        gc_foreground_pages: 4,
        gc_buffers: 3,
        gc_page_cost: Picos::from_nanos(500),
        gc_threshold: Ratio::percent(80),
        gc_bulk_blocks: 8,
        wear_spread: 0,
        estimator: EstimatorKind::Channel,
    }
}

/// The bytes of a page, as far as tests care.
pub type Token = u64;

/// What a page reads as that cannot be corrected.
pub const POISON: Token = Token::MAX - 1;

/// How often what fails.
#[derive(Clone, Copy, Debug)]
pub struct FaultRates {
    pub programs: Ratio,
    pub erases: Ratio,
    pub reads: Ratio,
}

/// What a program puts where.
type Units = Vec<(Ppa, Lpa, Token)>;

/// A flash that finishes operations when told to.
#[derive(Clone, Debug)]
pub struct Flash {
    geometry: FlashGeometry,
    /// What is programmed, by physical page; absent where erased.
    pages: BTreeMap<Ppa, (Lpa, Token)>,
    dies: Vec<VecDeque<(NandCommand, Units)>>,
    /// Units of the program that comes next, but the first.
    loaded: Units,
    registers: BTreeMap<NandTag, Token>,
    buffers: BTreeMap<BufferId, Token>,
    /// Whether operations of one die may finish in any order too.
    reorders: bool,
    /// What the FTL has recorded.
    pub tables: Tables,
    /// After how many more records the power is cut: from then on nothing happens any more.
    pub cut_after: Option<u64>,
    pub fault_rates: Option<FaultRates>,
    /// How the operation failed that finished last.
    pub fault: Option<NandFault>,
    /// Blocks of which a program or erase has failed since the power came on.
    pub failed: BTreeSet<BlockAddr>,
    /// Blocks of which a program has failed since their last erase.
    half_written: BTreeSet<BlockAddr>,
    /// Pages that a read could not correct.
    pub poisoned: BTreeSet<Lpa>,
    /// What a page reads as that was never written here; without it, such a read is an error.
    unwritten: Option<Token>,
}

impl Flash {
    /// An idle flash that holds `pages`.
    pub fn new(geometry: FlashGeometry, pages: BTreeMap<Ppa, (Lpa, Token)>) -> Self {
        let dies = vec![VecDeque::new(); geometry.die_count() as usize];
        let (registers, buffers) = (BTreeMap::new(), BTreeMap::new());
        Self {
            geometry,
            pages,
            dies,
            loaded: Vec::new(),
            registers,
            buffers,
            reorders: false,
            tables: Tables::default(),
            cut_after: None,
            fault_rates: None,
            fault: None,
            failed: BTreeSet::new(),
            half_written: BTreeSet::new(),
            poisoned: BTreeSet::new(),
            unwritten: None,
        }
    }
    /// A flash too large to write down what it holds at the start.
    pub fn vast(geometry: FlashGeometry) -> Self {
        Self {
            unwritten: Some(0),
            ..Self::new(geometry, BTreeMap::new())
        }
    }
    /// A flash whose dies finish operations in any order.
    pub fn reordering(self) -> Self {
        Self {
            reorders: true,
            ..self
        }
    }
    /// Puts bytes in a buffer.
    pub fn fill(&mut self, buffer: BufferId, token: Token) {
        self.buffers.insert(buffer, token);
    }
    /// The bytes in a place.
    pub fn bytes(&self, place: PagePlace) -> Token {
        match place {
            PagePlace::Register(tag) => self.registers[&tag],
            PagePlace::Buffer(buffer) => self.buffers[&buffer],
            PagePlace::Zero => 0,
            PagePlace::Frame(_) | PagePlace::Host(_) => unreachable!("the FTL knows buffers only"),
        }
    }
    /// Finishes an operation of a random busy die: the oldest, unless dies reorder.
    pub fn finish_one(&mut self, stream: &mut Stream) -> Option<NandTag> {
        let busy: Vec<usize> = (0..self.dies.len())
            .filter(|die| !self.dies[*die].is_empty())
            .collect();
        let die = busy.get(stream.below(busy.len().max(1) as u64) as usize)?;
        let queue = &mut self.dies[*die];
        let nth = if self.reorders {
            stream.below(queue.len() as u64) as usize
        } else {
            0
        };
        let (command, units) = queue.remove(nth)?;
        self.fault = self.draw_fault(&command, stream);
        if let Some(fault) = self.fault {
            self.fail(&command, fault);
            return Some(command.tag);
        }
        match command.op {
            NandOp::Read { ppa } => {
                let token = self.pages.get(&ppa).map(|(_, token)| *token);
                let token = token.or(self.unwritten);
                let token = token.unwrap_or_else(|| panic!("{ppa} is read but erased"));
                self.registers.insert(command.tag, token);
            }
            NandOp::Program { ppa, .. } => {
                let was_erased = self.spoil_page(ppa);
                assert!(was_erased, "{ppa} is programmed twice without an erase");
                self.put(units);
            }
            NandOp::Erase { block } => self.erase(block, None),
        }
        Some(command.tag)
    }
    fn draw_fault(&self, command: &NandCommand, stream: &mut Stream) -> Option<NandFault> {
        let fault_rates = self.fault_rates?;
        let (chance, fault) = match command.op {
            NandOp::Read { .. } => (fault_rates.reads, NandFault::Uncorrectable),
            NandOp::Program { .. } => (fault_rates.programs, NandFault::ProgramFailed),
            NandOp::Erase { .. } => (fault_rates.erases, NandFault::EraseFailed),
        };
        stream.chance(chance).then_some(fault)
    }
    fn fail(&mut self, command: &NandCommand, fault: NandFault) {
        match command.op {
            NandOp::Read { ppa } => {
                let content = self
                    .pages
                    .get_mut(&ppa)
                    .expect("what is read was programmed");
                content.1 = POISON;
                self.poisoned.insert(content.0);
                self.registers.insert(command.tag, POISON);
            }
            NandOp::Program { ppa, .. } => {
                self.spoil_page(ppa);
                self.failed.insert(self.geometry.block_of(ppa));
                self.half_written.insert(self.geometry.block_of(ppa));
            }
            NandOp::Erase { block } => {
                assert_eq!(fault, NandFault::EraseFailed);
                self.failed.insert(block);
            }
        }
    }
    /// No unit of a flash page holds anything of use; says whether all were erased.
    fn spoil_page(&mut self, ppa: Ppa) -> bool {
        let units = self.geometry.units_of_page(ppa);
        let before = units.map(|unit| self.pages.insert(unit, (Lpa::new(0), Token::MAX)));
        // All of them, whatever the first was.
        let before: Vec<_> = before.collect();
        before.iter().all(Option::is_none)
    }
    fn put(&mut self, units: Units) {
        for (ppa, lpa, token) in units {
            self.pages.insert(ppa, (lpa, token));
        }
    }
    /// Whether the power is cut.
    pub fn is_dead(&self) -> bool {
        self.cut_after == Some(0)
    }
    /// The bytes that a mapped page has on flash.
    pub fn content(&self, ppa: Ppa) -> Option<(Lpa, Token)> {
        self.pages.get(&ppa).copied()
    }
    /// The flash after a power cut. What was in flight was done, half done, or not begun.
    pub fn power_up(mut self, stream: &mut Stream) -> Self {
        self.cut_after = None;
        let tables = &self.tables.blocks;
        self.failed.retain(|block| {
            let record = tables.get(block).copied().unwrap_or_default();
            record.is_condemned || record.is_retired
        });
        self.loaded.clear();
        let in_flight: Vec<(NandCommand, Units)> =
            self.dies.iter_mut().flat_map(|die| die.drain(..)).collect();
        for (command, units) in in_flight {
            let (how, torn) = (stream.below(3), (Lpa::new(0), Token::MAX));
            match command.op {
                NandOp::Program { ppa, .. } if how > 0 => {
                    self.spoil_page(ppa);
                    if how == 2 {
                        self.put(units);
                    }
                }
                NandOp::Erase { block } if how > 0 => self.erase(block, (how == 1).then_some(torn)),
                _ => {}
            }
        }
        self
    }
    fn erase(&mut self, block: BlockAddr, leaves: Option<(Lpa, Token)>) {
        self.half_written.remove(&block);
        for page in 0..self.geometry.units_per_block {
            let page = self.geometry.unit_on(block, page);
            match leaves {
                None => self.pages.remove(&page),
                Some(torn) => self.pages.insert(page, torn),
            };
        }
    }
    /// Operations queued on a die.
    pub fn queue(&self, die: DieId) -> impl Iterator<Item = &NandCommand> {
        self.dies[die.index()].iter().map(|(command, _)| command)
    }
}

impl Platform for Flash {
    fn charge(&mut self, at: Time, work: Work) -> Time {
        assert_eq!(work, Work::RelocationStep);
        at + config().gc_page_cost
    }
    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        assert_eq!(lines, LineMask::full(self.geometry.unit_size));
        let PagePlace::Buffer(buffer) = to else {
            unreachable!("the FTL copies registers to buffers");
        };
        self.buffers.insert(buffer, self.bytes(from));
    }
    fn record(&mut self, record: Record) {
        if self.is_dead() {
            return;
        }
        self.tables.apply(&self.geometry, record);
        if let Some(left) = &mut self.cut_after {
            *left -= 1;
        }
    }
    fn nand(&mut self, _: Time, command: NandCommand) {
        if self.is_dead() {
            return;
        }
        let mut units = Vec::new();
        let block = match command.op {
            NandOp::Read { ppa } => self.geometry.block_of(ppa),
            NandOp::Program { ppa, lpa, from } => {
                let first = self.geometry.units_of_page(ppa).next();
                assert_eq!(
                    first,
                    Some(ppa),
                    "a program names the first unit of its page"
                );
                units = core::mem::take(&mut self.loaded);
                let page = self.geometry.page_of(ppa);
                let is_of_page = |unit: &Ppa| self.geometry.page_of(*unit) == page;
                assert!(
                    units
                        .iter()
                        .all(|(unit, ..)| is_of_page(unit) && *unit > ppa)
                );
                units.push((ppa, lpa, self.bytes(from)));
                self.geometry.block_of(ppa)
            }
            NandOp::Erase { block } => block,
        };
        assert!(self.loaded.is_empty(), "units are loaded for a program");
        let changes = !matches!(command.op, NandOp::Read { .. });
        assert!(
            !(changes && self.failed.contains(&block)),
            "{block:?} has failed and is used"
        );
        if let NandOp::Program { .. } = command.op {
            let is_half_written = self.half_written.contains(&block);
            assert!(
                !is_half_written,
                "{block:?} is written behind what has failed"
            );
        }
        self.dies[self.geometry.die_of(block).index()].push_back((command, units));
    }
    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace) {
        if !self.is_dead() {
            let token = self.bytes(from);
            self.loaded.push((ppa, lpa, token));
        }
    }
    fn dram(&mut self, _: Time, _: Bytes, _: Bytes, _: bool) -> Time {
        unreachable!("the FTL does not use device DRAM")
    }
    fn copy_line(&mut self, _: Cell, _: Cell) {
        unreachable!("the FTL copies pages")
    }
    fn respond(&mut self, _: Response) {
        unreachable!("the FTL does not answer the host")
    }
    fn request_promotion(&mut self, _: Time, _: Lpa) {
        unreachable!("the FTL does not promote")
    }
    fn wake_at(&mut self, _: Time, _: Timer) {
        unreachable!("the FTL sets no timers")
    }
}
