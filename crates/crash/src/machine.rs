//! The machine below the firmware: bytes that survive and bytes that do not, NAND operations that
//! end when somebody says so, and requests with their payloads.

use crate::device::Device;
use crate::flash::Unit;
use crate::lab::REQUESTS;
use crate::media::Media;
use crate::power_cutter::{Cuttable, InFlight};
use crate::token::Token;
use firmware::{
    Cell, NandCommand, NandFault, NandOp, NandTag, PagePlace, Platform, PowerLossProtection,
    Record, Response, Timer, Work, WorkCosts,
};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, DieId, FlashGeometry, LineInPage, LineMask, Lpa, Ppa, RequestId, Time};

/// A NAND operation in the queue of its die, with what it puts into the units of its flash page.
#[derive(Clone, Debug)]
struct Queued {
    command: NandCommand,
    units: Vec<Unit>,
}

/// The platform of the lab.
#[derive(Debug)]
pub struct Machine {
    media: Media,
    geometry: FlashGeometry,
    line_count: usize,
    /// What the firmware's own work takes.
    work: WorkCosts,
    /// What keeps which part of DRAM when the power goes.
    protection: PowerLossProtection,
    /// Payloads by request, a page each.
    host: Vec<Token>,
    registers: BTreeMap<NandTag, Vec<Token>>,
    dies: Vec<VecDeque<Queued>>,
    /// Units of the program that comes next, but the first.
    loaded: Vec<Unit>,
    timers: VecDeque<Timer>,
    /// Answers since they were last taken.
    pub responses: Vec<Response>,
    /// The first thing that the firmware did and no machine allows.
    pub violation: Option<String>,
    /// Changes whenever what a cut would leave does.
    version: u64,
}

impl Machine {
    /// A machine that holds `media` and is otherwise empty, as after power has come back.
    pub fn new(device: &Device, media: Media) -> Self {
        let config = device.config();
        let line_count = device.page_lines as usize;
        let dies = config.geometry.die_count();
        Self {
            media,
            geometry: config.geometry,
            line_count,
            work: WorkCosts::new(&config.ssd, &config.ftl),
            protection: device.protection(),
            host: vec![Token::ZERO; REQUESTS * line_count],
            registers: BTreeMap::new(),
            dies: (0..dies).map(|_| VecDeque::new()).collect(),
            loaded: Vec::new(),
            timers: VecDeque::new(),
            responses: Vec::new(),
            violation: None,
            version: 0,
        }
    }

    /// What survives a cut now, if no NAND operation has begun.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// The payload of a request.
    pub fn payload(&mut self, request: RequestId) -> &mut [Token] {
        let first = request.index() * self.line_count;
        &mut self.host[first..first + self.line_count]
    }

    /// The timer that was set first and has not rung.
    pub fn next_timer(&mut self) -> Option<Timer> {
        self.timers.pop_front()
    }

    /// A die with an operation in flight.
    pub fn busy_die(&self) -> Option<DieId> {
        let busy = self.dies.iter().position(|queue| !queue.is_empty());
        busy.map(DieId::from_index)
    }

    /// Ends the oldest operation of a die, if it has any; the caller hands the tag to the
    /// controller and then calls [`Machine::forget_register`].
    pub fn finish_oldest(&mut self, die: DieId) -> Option<NandTag> {
        let queued = self.dies.get_mut(die.index())?.pop_front()?;
        self.version += 1;
        let tag = queued.command.tag;
        if let NandOp::Read { ppa } = queued.command.op {
            let allowed = self.media.flash.may_read(ppa);
            self.check(allowed);
            self.registers
                .insert(tag, self.media.flash.tokens(ppa).to_vec());
        } else {
            let done = finish(&mut self.media, &queued);
            self.check(done);
        }
        Some(tag)
    }

    /// Whether the oldest operation of a die reads what flash has lost: it can only fail.
    pub fn must_fail(&self, die: DieId) -> bool {
        let head = self.dies.get(die.index()).and_then(VecDeque::front);
        let op = head.map(|queued| queued.command.op);
        matches!(op, Some(NandOp::Read { ppa }) if self.media.flash.is_lost(ppa))
    }

    /// The oldest operation of a die fails, if it has any: what was to be programmed is torn, what
    /// was to be erased must not be used, what was to be read is lost.
    pub fn fail_oldest(&mut self, die: DieId) -> Option<(NandTag, NandFault)> {
        let queued = self.dies.get_mut(die.index())?.pop_front()?;
        self.version += 1;
        let tag = queued.command.tag;
        let torn = tear(&mut self.media, &queued);
        self.check(torn);
        let fault = match queued.command.op {
            NandOp::Read { ppa } => {
                let allowed = self.media.flash.may_read(ppa);
                self.check(allowed);
                self.media.flash.lose(ppa);
                let tokens = self.media.flash.tokens(ppa).to_vec();
                self.registers.insert(tag, tokens);
                NandFault::Uncorrectable
            }
            NandOp::Program { .. } => NandFault::ProgramFailed,
            NandOp::Erase { .. } => NandFault::EraseFailed,
        };
        Some((tag, fault))
    }

    /// The register of a read is used no longer.
    pub fn forget_register(&mut self, tag: NandTag) {
        self.registers.remove(&tag);
    }

    fn check(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.violation.get_or_insert(what);
        }
    }

    /// Whether a copy there may change what a cut leaves.
    fn survives(&self, to: Cell) -> bool {
        match to {
            Cell::Log(_) | Cell::Page(PagePlace::Buffer(_), _) => true,
            Cell::Page(PagePlace::Frame(_), _) => self.protection.keeps_frames(),
            _ => false,
        }
    }

    fn page_tokens(&mut self, place: PagePlace) -> &mut [Token] {
        let first = |index: usize| index * self.line_count;
        let (tokens, first) = match place {
            PagePlace::Frame(frame) => (&mut self.media.frames, first(frame.index())),
            PagePlace::Buffer(buffer) => (&mut self.media.buffers, first(buffer.index())),
            PagePlace::Host(request) => (&mut self.host, first(request.index())),
            PagePlace::Register(tag) => {
                let register = self.registers.get_mut(&tag);
                (
                    register.expect("a register is used while its read is handled"),
                    0,
                )
            }
            PagePlace::Zero => panic!("nothing is written to the zero page"),
        };
        &mut tokens[first..first + self.line_count]
    }

    fn read_page(&mut self, place: PagePlace) -> Vec<Token> {
        match place {
            PagePlace::Zero => vec![Token::ZERO; self.line_count],
            place => self.page_tokens(place).to_vec(),
        }
    }

    fn cell(&mut self, cell: Cell) -> Token {
        match cell {
            Cell::Host(request) => self.payload(request)[0],
            Cell::HostLine(request, line) => self.payload(request)[line.index()],
            Cell::Log(slot) => self.media.log[slot.index()],
            Cell::Page(PagePlace::Zero, _) => Token::ZERO,
            Cell::Page(place, line) => self.page_tokens(place)[line.index()],
            Cell::Window(_) => no_window(),
        }
    }
}

/// No workload asks beyond the logical space.
fn no_window() -> ! {
    panic!("devices of the lab have no window")
}

/// What the end of a program or erase does to the media.
fn finish(media: &mut Media, queued: &Queued) -> Result<(), String> {
    match queued.command.op {
        NandOp::Read { .. } => {}
        NandOp::Program { ppa, .. } => media.flash.program(ppa, &queued.units)?,
        NandOp::Erase { block } => media.flash.erase(block),
    }
    Ok(())
}

/// What a cut in the middle of a program or erase does to the media.
fn tear(media: &mut Media, queued: &Queued) -> Result<(), String> {
    match queued.command.op {
        NandOp::Read { .. } => {}
        NandOp::Program { ppa, .. } => media.flash.tear_program(ppa)?,
        NandOp::Erase { block } => media.flash.tear_erase(block),
    }
    Ok(())
}

impl Platform for Machine {
    fn charge(&mut self, at: Time, work: Work) -> Time {
        self.work.of(work).map_or(at, |charge| at + charge.latency)
    }

    fn dram(&mut self, at: Time, _address: Bytes, _size: Bytes, _is_write: bool) -> Time {
        at
    }

    fn copy_line(&mut self, from: Cell, to: Cell) {
        self.version += u64::from(self.survives(to));
        let token = self.cell(from);
        match to {
            Cell::Host(request) => self.payload(request)[0] = token,
            Cell::HostLine(request, line) => self.payload(request)[line.index()] = token,
            Cell::Log(slot) => self.media.log[slot.index()] = token,
            Cell::Page(place, line) => self.page_tokens(place)[line.index()] = token,
            Cell::Window(_) => no_window(),
        }
    }

    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        self.version += u64::from(self.survives(Cell::Page(to, LineInPage::new(0))));
        let source = self.read_page(from);
        let target = self.page_tokens(to);
        for line in lines.iter() {
            target[line.index()] = source[line.index()];
        }
    }

    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace) {
        let tokens = self.read_page(from);
        self.loaded.push((ppa, lpa, tokens));
    }

    fn nand(&mut self, _at: Time, command: NandCommand) {
        self.version += 1;
        let mut units = Vec::new();
        let die = match command.op {
            NandOp::Read { ppa } => self.geometry.die_of_unit(ppa),
            NandOp::Program { ppa, lpa, from } => {
                units = std::mem::take(&mut self.loaded);
                units.push((ppa, lpa, self.read_page(from)));
                self.geometry.die_of_unit(ppa)
            }
            NandOp::Erase { block } => self.geometry.die_of(block),
        };
        self.dies[die.index()].push_back(Queued { command, units });
    }

    fn respond(&mut self, response: Response) {
        self.version += 1;
        self.responses.push(response);
    }

    fn request_promotion(&mut self, _at: Time, _lpa: Lpa) {}

    fn record(&mut self, record: Record) {
        self.version += 1;
        let applied = self.media.tables.apply(record);
        self.check(applied);
    }

    fn is_poisoned(&self, request: RequestId) -> bool {
        let first = request.index() * self.line_count;
        self.host[first..first + self.line_count].contains(&Token::POISON)
    }

    fn wake_at(&mut self, _at: Time, timer: Timer) {
        self.timers.push_back(timer);
    }
}

impl Cuttable for Machine {
    fn version(&self) -> u64 {
        self.version
    }

    fn answers(&self) -> usize {
        self.responses.len()
    }

    fn is_programming(&self) -> bool {
        let heads = self.dies.iter().filter_map(VecDeque::front);
        heads
            .map(|head| head.command.op)
            .any(|op| !matches!(op, NandOp::Read { .. }))
    }

    fn cut(&mut self, in_flight: InFlight) -> Media {
        let mut media = self.media.clone();
        let mut result = Ok(());
        for (nth, queue) in self.dies.iter().enumerate() {
            let of_die = match in_flight {
                InFlight::Mixed if nth % 2 == 0 => InFlight::Finished,
                InFlight::Mixed => InFlight::Torn,
                in_flight => in_flight,
            };
            // A die does one operation after the other: only the first can have begun.
            match (of_die, queue.front()) {
                (InFlight::Torn, Some(head)) => result = result.and(tear(&mut media, head)),
                (InFlight::Finished, _) => {
                    let all = queue.iter().map(|queued| finish(&mut media, queued));
                    result = all.fold(result, Result::and);
                }
                _ => {}
            }
        }
        self.check(result);
        media.lose(self.protection);
        media
    }

    fn cut_in_line(&mut self, to: Cell) -> Option<Media> {
        let is_kept = match self.protection {
            // A line of a frame is written as a whole, or not.
            PowerLossProtection::Battery | PowerLossProtection::Dram => {
                matches!(to, Cell::Log(_) | Cell::Page(PagePlace::Buffer(_), _))
            }
            PowerLossProtection::Log => matches!(to, Cell::Log(_)),
            PowerLossProtection::None => false,
        };
        let mut media = is_kept.then(|| self.media.clone())?;
        media.lose(self.protection);
        match to {
            Cell::Log(slot) => media.log[slot.index()] = Token::GARBAGE,
            Cell::Page(PagePlace::Buffer(buffer), line) => {
                media.buffer_mut(buffer.index())[line.index()] = Token::GARBAGE;
            }
            Cell::Page(..) | Cell::Host(_) | Cell::HostLine(..) => {}
            Cell::Window(_) => no_window(),
        }
        Some(media)
    }

    fn cut_in_page(&mut self, to: PagePlace, lines: LineMask) -> Option<Media> {
        // A cut that leaves nothing of it would leave what one before it leaves.
        let is_kept = match to {
            PagePlace::Buffer(_) => true,
            PagePlace::Frame(_) => self.protection.keeps_frames(),
            _ => false,
        };
        let mut media = is_kept.then(|| self.media.clone())?;
        let page = match to {
            PagePlace::Buffer(buffer) => media.buffer_mut(buffer.index()),
            PagePlace::Frame(frame) => media.frame_mut(frame.index()),
            _ => return None,
        };
        for line in lines.iter() {
            page[line.index()] = Token::GARBAGE;
        }
        media.lose(self.protection);
        Some(media)
    }
}
