//! A platform with real bytes for the tests: one token per line instead of 64 bytes.
//!
//! NAND operations queue per die in order and end when the test says so, in any order across dies.
//! The flash refuses what real flash refuses: reading a page that is erased, programming one that
//! is not or out of order.

mod tables;

use firmware::log_index::LogIndex;
use firmware::{
    Cell, Controller, ControllerConfig, NandCommand, NandFault, NandOp, NandTag, PagePlace,
    Platform, Record, Response, Timer, Work, WorkCosts,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::{
    BlockAddr, Bytes, FlashGeometry, LineInPage, LineMask, Lpa, Picos, Ppa, Ratio, RequestId,
    Stream, Time,
};

/// What a line holds.
pub type Token = u64;
/// One token per line.
pub type Page = Vec<Token>;

/// A line that cannot be read.
pub const POISON: Token = Token::MAX;
/// What a register has of lines that have not come.
pub const NOT_YET: Token = Token::MAX / 4;

/// How often programs, erases and reads fail.
#[derive(Clone, Copy)]
pub struct FaultRates {
    pub programs: Ratio,
    pub erases: Ratio,
    pub reads: Ratio,
}

/// What charges and moves cost on this platform.
#[derive(Clone, Copy)]
pub struct Costs {
    /// Per call of `dram`, and per byte.
    pub dram_fixed: Picos,
    pub dram_per_byte: Picos,
}

/// A NAND operation in the queue of its die, with the bytes it took along.
struct Queued {
    command: NandCommand,
    /// What a program puts into the units of its flash page.
    units: Vec<(Ppa, Lpa, Page)>,
}

/// The platform.
pub struct Bench {
    geometry: FlashGeometry,
    pub costs: Costs,
    work: WorkCosts,
    /// Payloads by request.
    pub host: Vec<Token>,
    /// Payloads of requests of pages and runs, by request.
    pub host_pages: Vec<Page>,
    log: Vec<Token>,
    /// The window.
    pub window: Vec<Token>,
    frames: Vec<Page>,
    /// Frames survive a power cut.
    keeps_frames: bool,
    buffers: Vec<Page>,
    registers: BTreeMap<u32, Page>,
    /// Programmed pages with the LPA of their spare area.
    flash: BTreeMap<Ppa, (Lpa, Page)>,
    /// By block: None until its first erase, then the next page to program.
    next_page: Vec<Option<u32>>,
    dies: Vec<VecDeque<Queued>>,
    /// Units of the program that comes next, but the first.
    loaded: Vec<(Ppa, Lpa, Page)>,
    /// Answers since the test last took them.
    pub responses: Vec<Response>,
    /// Offers of pages since the test last took them.
    pub offers: Vec<Lpa>,
    /// Timers that have not rung, in the order in which they were set.
    pub timers: VecDeque<Timer>,
    pub nand_reads: u64,
    has_lost_power: bool,
    /// When the last program was to start.
    #[allow(dead_code, reason = "not every test asks")]
    pub last_program: Option<Time>,
    pub erases: u64,
    /// Draws whether an operation fails.
    pub fault_rates: Option<(FaultRates, Stream)>,
    /// How the operation failed that ended last.
    pub fault: Option<NandFault>,
    /// Blocks of which a program or erase has failed.
    failed: BTreeSet<BlockAddr>,
    /// What survives a power cut beside the bytes.
    pub tables: tables::Tables,
}

impl Bench {
    pub fn new(config: &ControllerConfig, costs: Costs, requests: usize) -> Self {
        let geometry = config.geometry;
        Self {
            geometry,
            costs,
            work: WorkCosts::new(&config.ssd, &config.ftl),
            host: vec![0; requests],
            host_pages: Vec::new(),
            log: Vec::new(),
            window: vec![0; 128],
            frames: Vec::new(),
            keeps_frames: config.ssd.power_loss_protection.keeps_frames(),
            buffers: Vec::new(),
            registers: BTreeMap::new(),
            flash: BTreeMap::new(),
            next_page: vec![None; geometry.block_count() as usize],
            dies: (0..geometry.die_count()).map(|_| VecDeque::new()).collect(),
            loaded: Vec::new(),
            responses: Vec::new(),
            offers: Vec::new(),
            timers: VecDeque::new(),
            nand_reads: 0,
            has_lost_power: false,
            last_program: None,
            erases: 0,
            fault_rates: None,
            fault: None,
            failed: BTreeSet::new(),
            tables: tables::Tables::default(),
        }
    }

    /// Ends the oldest operation of the first die that has any.
    pub fn finish_any(&mut self) -> Option<NandTag> {
        let busy = self.dies.iter().position(|queue| !queue.is_empty())?;
        self.finish_oldest(busy)
    }

    /// Ends the oldest operation of a die, if it has any; the caller hands the tag to the
    /// controller and then calls [`Self::forget_register`].
    pub fn finish_oldest(&mut self, die: usize) -> Option<NandTag> {
        let Queued { command, units } = self.dies[die].pop_front()?;
        self.fault = self.draw_fault(command.op);
        if self.fault.is_some() {
            self.fail(command);
            return Some(command.tag);
        }
        match command.op {
            NandOp::Read { ppa } => {
                self.nand_reads += 1;
                let page = match self.flash.get(&ppa) {
                    Some((_, page)) => page.clone(),
                    None => {
                        let block = self.geometry.block_of(ppa).index();
                        assert_eq!(self.next_page[block], None, "{ppa} is read while erased");
                        self.blank_page()
                    }
                };
                self.registers.insert(command.tag.get(), page);
            }
            NandOp::Program { ppa, .. } => {
                let block = self.geometry.block_of(ppa).index();
                let in_block = self.geometry.unit_in_block(ppa);
                if let Some(next) = self.next_page[block] {
                    // A power cut may have kept a program from being done.
                    let is_in_order = next == in_block || self.has_lost_power && next < in_block;
                    assert!(is_in_order, "{ppa} is programmed out of order");
                    self.next_page[block] = Some(in_block + self.geometry.units_per_page);
                }
                for (ppa, lpa, page) in units {
                    let old = self.flash.insert(ppa, (lpa, page));
                    assert!(old.is_none(), "{ppa} is programmed twice");
                }
            }
            NandOp::Erase { block } => {
                self.erases += 1;
                self.next_page[block.index()] = Some(0);
                for page in 0..self.geometry.units_per_block {
                    self.flash.remove(&self.geometry.unit_on(block, page));
                }
            }
        }
        Some(command.tag)
    }

    /// Lines of what the oldest operation of a die reads are in its register, if it is a read; the
    /// others are not yet.
    pub fn bring_lines(&mut self, die: usize, lines: LineMask) -> Option<NandTag> {
        let command = self.dies[die].front()?.command;
        let NandOp::Read { ppa } = command.op else {
            return None;
        };
        let blank = self.blank_page();
        let page = self.flash.get(&ppa).map_or(&blank, |(_, page)| page);
        let of_line = |(line, token): (usize, &Token)| {
            let has_come = lines.contains(LineInPage::new(line as u16));
            if has_come { *token } else { NOT_YET }
        };
        let register = page.iter().enumerate().map(of_line).collect();
        self.registers.insert(command.tag.get(), register);
        Some(command.tag)
    }

    fn draw_fault(&mut self, op: NandOp) -> Option<NandFault> {
        let (fault_rates, stream) = self.fault_rates.as_mut()?;
        let (chance, fault) = match op {
            NandOp::Read { .. } => (fault_rates.reads, NandFault::Uncorrectable),
            NandOp::Program { .. } => (fault_rates.programs, NandFault::ProgramFailed),
            NandOp::Erase { .. } => (fault_rates.erases, NandFault::EraseFailed),
        };
        stream.chance(chance).then_some(fault)
    }

    /// The operation fails; a page that cannot be read cannot be read again.
    fn fail(&mut self, command: NandCommand) {
        let lines = usize::from(self.geometry.unit_size.line_count());
        match command.op {
            NandOp::Read { ppa } => {
                let lpa = self.flash.get(&ppa).map_or(Lpa::new(0), |(lpa, _)| *lpa);
                self.flash.insert(ppa, (lpa, vec![POISON; lines]));
                let register = vec![POISON; lines];
                self.registers.insert(command.tag.get(), register);
            }
            NandOp::Program { ppa, .. } => {
                for unit in self.geometry.units_of_page(ppa) {
                    self.flash
                        .insert(unit, (Lpa::new(0), vec![Token::MAX / 2; lines]));
                }
                let block = self.geometry.block_of(ppa);
                self.failed.insert(block);
                if let Some(next) = &mut self.next_page[block.index()] {
                    *next += self.geometry.units_per_page;
                }
            }
            NandOp::Erase { block } => {
                self.failed.insert(block);
            }
        }
    }

    pub fn forget_register(&mut self, tag: NandTag) {
        self.registers.remove(&tag.get());
    }

    /// Checks what must hold between calls, of the controller and of what it has recorded: of
    /// frames that survive those count that are dirty.
    pub fn audit<I: LogIndex>(&self, controller: &Controller<I>) {
        controller.audit();
        if self.keeps_frames {
            let (counted, dirty) = (self.tables.frames.len(), controller.owed().dirty_frames);
            assert_eq!(counted as u64, dirty, "frames that count and dirty ones");
        }
    }

    /// All is lost but log, buffers, flash, tables, and frames if they survive. Of operations in
    /// flight those are done of which `is_done` says so, on each die in order.
    #[allow(dead_code, reason = "not every test cuts the power")]
    pub fn lose_power(&mut self, mut is_done: impl FnMut() -> bool) -> tables::Tables {
        self.has_lost_power = true;
        for die in 0..self.dies.len() {
            while !self.dies[die].is_empty() && is_done() {
                self.finish_oldest(die);
            }
            self.dies[die].clear();
        }
        self.loaded.clear();
        self.registers.clear();
        if !self.keeps_frames {
            self.frames.clear();
        }
        self.host_pages.clear();
        self.timers.clear();
        self.responses.clear();
        self.tables.clone()
    }

    /// The token in a cell.
    pub fn peek(&mut self, cell: Cell) -> Token {
        match cell {
            Cell::Host(request) => self.host[request.index()],
            Cell::HostLine(request, line) => self.page(PagePlace::Host(request))[line.index()],
            Cell::Log(slot) => self.log[slot.index()],
            Cell::Page(PagePlace::Zero, _) => 0,
            Cell::Page(place, line) => self.page(place)[line.index()],
            Cell::Window(line) => self.window[line.get() as usize],
        }
    }

    fn blank_page(&self) -> Page {
        vec![0; usize::from(self.geometry.unit_size.line_count())]
    }

    /// The tokens in a page that is not `Zero`.
    pub fn page(&mut self, place: PagePlace) -> &mut Page {
        let blank = self.blank_page();
        let (pages, index) = match place {
            PagePlace::Frame(frame) => (&mut self.frames, frame.index()),
            PagePlace::Buffer(buffer) => (&mut self.buffers, buffer.index()),
            PagePlace::Host(request) => (&mut self.host_pages, request.index()),
            PagePlace::Register(tag) => {
                let page = self.registers.get_mut(&tag.get());
                return page.expect("a register is used while its read is being handled");
            }
            PagePlace::Zero => panic!("nothing is written to the zero page"),
        };
        while pages.len() <= index {
            pages.push(blank.clone());
        }
        &mut pages[index]
    }

    fn page_bytes(&mut self, place: PagePlace) -> Page {
        match place {
            PagePlace::Zero => self.blank_page(),
            place => self.page(place).clone(),
        }
    }
}

impl Platform for Bench {
    fn charge(&mut self, at: Time, work: Work) -> Time {
        self.work.of(work).map_or(at, |charge| at + charge.latency)
    }

    fn dram(&mut self, at: Time, _address: Bytes, size: Bytes, _is_write: bool) -> Time {
        at + self.costs.dram_fixed + self.costs.dram_per_byte * size.get()
    }

    fn copy_line(&mut self, from: Cell, to: Cell) {
        let token = self.peek(from);
        match to {
            Cell::Host(request) => self.host[request.index()] = token,
            Cell::HostLine(request, line) => {
                self.page(PagePlace::Host(request))[line.index()] = token;
            }
            Cell::Log(slot) => {
                if self.log.len() <= slot.index() {
                    self.log.resize(slot.index() + 1, 0);
                }
                self.log[slot.index()] = token;
            }
            Cell::Page(place, line) => self.page(place)[line.index()] = token,
            Cell::Window(line) => self.window[line.get() as usize] = token,
        }
    }

    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        let source = self.page_bytes(from);
        let target = self.page(to);
        for line in lines.iter() {
            target[LineInPage::index(line)] = source[line.index()];
        }
    }

    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace) {
        let bytes = self.page_bytes(from);
        self.loaded.push((ppa, lpa, bytes));
    }

    fn nand(&mut self, at: Time, command: NandCommand) {
        if matches!(command.op, NandOp::Program { .. }) {
            self.last_program = Some(at);
        }
        let mut units = std::mem::take(&mut self.loaded);
        let die = match command.op {
            NandOp::Read { ppa } => self.geometry.die_of_unit(ppa),
            NandOp::Program { ppa, lpa, from } => {
                let page = self.geometry.page_of(ppa);
                let mut others = units.iter().map(|(unit, ..)| *unit);
                assert!(others.all(|unit| unit > ppa && self.geometry.page_of(unit) == page));
                let bytes = self.page_bytes(from);
                units.push((ppa, lpa, bytes));
                self.geometry.die_of_unit(ppa)
            }
            NandOp::Erase { block } => self.geometry.die_of(block),
        };
        let changed = match command.op {
            NandOp::Read { .. } => None,
            NandOp::Program { ppa, .. } => Some(self.geometry.block_of(ppa)),
            NandOp::Erase { block } => Some(block),
        };
        let has_failed = changed.is_some_and(|block| self.failed.contains(&block));
        assert!(!has_failed, "{changed:?} has failed and is used");
        self.dies[die.index()].push_back(Queued { command, units });
    }

    fn is_poisoned(&self, request: RequestId) -> bool {
        let page = self.host_pages.get(request.index());
        self.host[request.index()] == POISON || page.is_some_and(|page| page.contains(&POISON))
    }

    fn respond(&mut self, response: Response) {
        self.responses.push(response);
    }

    fn request_promotion(&mut self, _at: Time, lpa: Lpa) {
        self.offers.push(lpa);
    }

    fn record(&mut self, record: Record) {
        self.tables.apply(record, &self.geometry);
    }

    fn wake_at(&mut self, _at: Time, timer: Timer) {
        self.timers.push_back(timer);
    }
}
