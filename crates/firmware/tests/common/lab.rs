//! A host, the controller and a plain map: last write wins.
//!
//! Every step is one random operation; every answer is compared with the map at the moment it is
//! given. The host keeps the firmware's contract: it has no two requests for one line outstanding
//! unless both are reads, and it takes a page over when its requests for the page are answered.

mod cut;
mod migration;
mod ports;
mod transactions;

use crate::common::{Bench, Costs, POISON, Token};
use firmware::log_index::LogIndex;
use firmware::{
    Answer, Cell, Controller, ControllerConfig, LogTakes, NandTag, PagePlace, Refusal, Request,
    RequestOp, Response,
};
use std::collections::BTreeMap;
use units::{CoreId, LineAddr, LineInPage, LineMask, PageSize, Picos, RequestId, Stream, Time};

/// Requests that may be outstanding together.
const REQUESTS: usize = 48;
/// At one timer in so many the log is drained instead.
const DRAINED_EVERY: u64 = 32;
/// Pages in host DRAM or on their way there.
const HOST_PAGES: usize = 6;

#[derive(Clone, Copy)]
struct Outstanding {
    request: Request,
    arrived: Time,
    token: Token,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Lines before this one have been copied to the host or have been asked for.
    Promoting(u16),
    Here,
    /// Lines before this one have been written back or are being written back.
    Demoting(u16),
}

struct HostPage {
    stage: Stage,
    lines: Vec<Token>,
    /// Copied and written since.
    is_copied: Vec<bool>,
    is_dirty: bool,
}

/// How often what happens, in shares of 100 and the shares of runs and transactions.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub reads: u64,
    pub writes: u64,
    pub migrations: u64,
    /// Reads and writes of whole pages, half of them each; an eighth of the writes are trims.
    pub pages: u64,
    /// Reads and writes of runs of lines, half of them each; some flushes.
    pub runs: u64,
    /// Runs, commits and aborts of transactions.
    pub transactions: u64,
    /// Pages of the small set that half of the accesses go to.
    pub hot_pages: u64,
}

/// `I` is the index of the log.
pub struct Lab<I> {
    pub controller: Controller<I>,
    pub bench: Bench,
    pub delays: u64,
    pub clean_demotions: u64,
    pub checked_reads: u64,
    pub checked_page_reads: u64,
    pub poisoned_reads: u64,
    pub refused_writes: u64,
    pub checked_run_reads: u64,
    frames_take_writes: bool,
    page: PageSize,
    die_count: usize,
    now: Time,
    mix: Mix,
    random: Stream,
    /// What comes before the rest of its page.
    parts: Stream,
    next_token: Token,
    model: Vec<Token>,
    readers: Vec<u16>,
    has_writer: Vec<bool>,
    outstanding: Vec<Option<Outstanding>>,
    host_pages: BTreeMap<u64, HostPage>,
    doubts: cut::Doubts,
    open: BTreeMap<u32, transactions::Open>,
    next_tx: u32,
    pub commits: u64,
    pub conflicts: u64,
    #[allow(dead_code, reason = "not every test cuts the power")]
    pub cuts: u64,
    /// When the power came on.
    #[allow(dead_code, reason = "not every test cuts the power")]
    pub powered_at: Time,
}

impl<I: LogIndex> Lab<I> {
    pub fn new(config: &ControllerConfig, mix: Mix, seed: u64) -> Self {
        let controller = Controller::with_index(config);
        let page = config.geometry.unit_size;
        let lines = controller.logical_page_count() as usize * usize::from(page.line_count());
        let costs = Costs {
            dram_fixed: Picos::from_nanos(30),
            dram_per_byte: Picos::new(40),
        };
        Self {
            controller,
            bench: Bench::new(config, costs, REQUESTS),
            delays: 0,
            clean_demotions: 0,
            checked_reads: 0,
            checked_page_reads: 0,
            poisoned_reads: 0,
            refused_writes: 0,
            checked_run_reads: 0,
            frames_take_writes: config.ssd.log.takes == LogTakes::Absent,
            page,
            die_count: config.geometry.die_count() as usize,
            now: Time::ZERO,
            mix,
            random: Stream::new(seed, "lab"),
            parts: Stream::new(seed, "parts"),
            next_token: 1,
            model: vec![0; lines],
            readers: vec![0; lines],
            has_writer: vec![false; lines],
            outstanding: vec![None; REQUESTS],
            host_pages: BTreeMap::new(),
            doubts: vec![Default::default(); lines],
            open: BTreeMap::new(),
            next_tx: 0,
            commits: 0,
            conflicts: 0,
            cuts: 0,
            powered_at: Time::ZERO,
        }
    }

    /// One random operation; says whether it could be done, that is, whether the device or the
    /// host copy of a page saw anything of it.
    pub fn step(&mut self) -> bool {
        self.now += Picos::new(self.random.below(200_000));
        let mut draw = self
            .random
            .below(100 + self.mix.runs + self.mix.transactions);
        let mut is_drawn = |share: u64| {
            let is_drawn = draw < share;
            draw = draw.wrapping_sub(share);
            is_drawn
        };
        let mix = self.mix;
        if is_drawn(mix.reads) {
            self.access(false)
        } else if is_drawn(mix.writes) {
            self.access(true)
        } else if is_drawn(mix.migrations) {
            self.migrate()
        } else if is_drawn(mix.pages) {
            self.access_page()
        } else if is_drawn(mix.runs) {
            self.access_run()
        } else if is_drawn(mix.transactions) {
            self.access_transaction()
        } else {
            // One choice beyond the dies: the oldest timer rings. Rarely, the log is drained.
            let choice = self.random.below(self.die_count as u64 + 1) as usize;
            if choice == self.die_count && self.random.below(DRAINED_EVERY) == 0 {
                self.controller.drain_log(self.now, &mut self.bench);
                self.take_answers();
                true
            } else if choice == self.die_count {
                self.ring_oldest()
            } else if self.parts.below(3) == 0 {
                self.bring_lines(choice)
            } else {
                let tag = self.bench.finish_oldest(choice);
                self.end_operation(tag)
            }
        }
    }

    /// Lets everything end, brings all pages home and compares every line with the map.
    pub fn settle(&mut self) {
        let pages: Vec<u64> = self.host_pages.keys().copied().collect();
        for lpa in pages {
            let mut steps = 0;
            while self.host_pages.contains_key(&lpa) {
                steps += 1;
                assert!(
                    steps < 10_000,
                    "page {lpa} never comes home: a request is lost"
                );
                self.advance_page(lpa, true);
                self.drain();
            }
        }
        self.drain();
        for line in 0..self.model.len() {
            self.send(
                line as u64,
                RequestOp::Read {
                    delay_allowed: false,
                },
                0,
            );
            self.drain();
        }
        // What flash has no room for stays in log and buffers; but everything is answered.
        assert!(self.outstanding.iter().all(Option::is_none));
        let health = self.controller.health();
        assert!(
            health.is_stuck || self.controller.is_idle(),
            "everything has ended"
        );
        self.bench.audit(&self.controller);
    }

    fn drain(&mut self) {
        loop {
            self.now += Picos::from_nanos(100);
            let tag = self.bench.finish_any();
            if !self.end_operation(tag) && !self.ring_oldest() {
                return;
            }
        }
    }

    /// The oldest timer rings; says whether there was one.
    fn ring_oldest(&mut self) -> bool {
        let Some(timer) = self.bench.timers.pop_front() else {
            return false;
        };
        self.controller.on_timer(self.now, timer, &mut self.bench);
        self.take_answers();
        true
    }

    /// A quarter of the page that the oldest operation of a die reads comes before the rest, if it
    /// is a read; says whether it is.
    fn bring_lines(&mut self, die: usize) -> bool {
        let quarter = (self.page.line_count() / 4).max(1);
        let quarters = u64::from(self.page.line_count() / quarter);
        let first = self.parts.below(quarters) as u16 * quarter;
        let mut lines = LineMask::EMPTY;
        (first..first + quarter).for_each(|line| _ = lines.insert(LineInPage::new(line)));
        let Some(tag) = self.bench.bring_lines(die, lines) else {
            return false;
        };
        self.controller
            .on_lines(self.now, tag, lines, &mut self.bench);
        self.bench.forget_register(tag);
        self.take_answers();
        true
    }

    /// The NAND operation with this tag has ended, if there is one; says whether there is.
    fn end_operation(&mut self, tag: Option<NandTag>) -> bool {
        let Some(tag) = tag else { return false };
        match self.bench.fault {
            None => self.controller.on_nand_done(self.now, tag, &mut self.bench),
            Some(fault) => self
                .controller
                .on_nand_failed(self.now, tag, fault, &mut self.bench),
        }
        self.bench.forget_register(tag);
        self.take_answers();
        true
    }

    fn split(&self, line: u64) -> (u64, usize) {
        let address = LineAddr::new(line);
        (
            address.lpa(self.page).get(),
            address.in_page(self.page).index(),
        )
    }

    fn pick_line(&mut self) -> u64 {
        let lines = self.model.len() as u64;
        let hot = self.mix.hot_pages * u64::from(self.page.line_count());
        match self.random.below(2) {
            0 => self.random.below(lines),
            _ => self.random.below(hot.min(lines)),
        }
    }

    /// A load or store of the host.
    fn access(&mut self, is_write: bool) -> bool {
        let line = self.pick_line();
        let (lpa, in_page) = self.split(line);
        let token = self.next_token;
        self.next_token += 1;
        if let Some(page) = self.host_pages.get_mut(&lpa) {
            match page.stage {
                Stage::Demoting(_) => return false,
                Stage::Promoting(_) if !page.is_copied[in_page] => {}
                // A load of the line that the device has not answered yet comes first.
                _ if is_write && self.readers[line as usize] == 0 => {
                    page.lines[in_page] = token;
                    page.is_dirty = true;
                    self.model[line as usize] = token;
                    return true;
                }
                _ => return false,
            }
        }
        if is_write {
            self.send(line, RequestOp::Write, token)
        } else {
            let delay_allowed = self.random.below(2) == 0;
            self.send(line, RequestOp::Read { delay_allowed }, 0)
        }
    }

    /// The lines that a request is of.
    fn lines_of(&self, line: u64, op: RequestOp) -> std::ops::Range<usize> {
        line as usize..line as usize + usize::from(op.line_count(self.page))
    }

    /// Sends a request if the contract allows it now; says whether it did.
    fn send(&mut self, line: u64, op: RequestOp, token: Token) -> bool {
        let is_write = op.is_write();
        let lines = self.lines_of(line, op);
        let is_busy = |index| self.has_writer[index] || is_write && self.readers[index] > 0;
        if lines.clone().any(is_busy) {
            return false;
        }
        let Some(id) = self.outstanding.iter().position(Option::is_none) else {
            return false;
        };
        let request = Request {
            id: RequestId::from_index(id),
            op,
            line: LineAddr::new(line),
            source: (!is_write).then(|| CoreId::new(id as u32 % 3)),
        };
        for index in lines.clone() {
            self.has_writer[index] = is_write;
            self.readers[index] += u16::from(!is_write);
        }
        if op.is_page() || matches!(op, RequestOp::ReadRun { .. } | RequestOp::WriteRun { .. }) {
            let payload = self.bench.page(PagePlace::Host(request.id));
            for (nth, place) in payload.iter_mut().enumerate() {
                *place = if is_write { token + nth as u64 } else { 0 };
            }
            self.bench.host[id] = 0;
        } else {
            self.bench.host[id] = token;
            let payload = self.bench.page(PagePlace::Host(request.id));
            payload.fill(0);
        }
        let arrived = self.now;
        self.outstanding[id] = Some(Outstanding {
            request,
            arrived,
            token,
        });
        self.controller
            .on_request(self.now, request, &mut self.bench);
        self.take_answers();
        for line in lines {
            self.compare_copies(line as u64);
        }
        true
    }

    fn take_answers(&mut self) {
        for response in std::mem::take(&mut self.bench.responses) {
            self.take_answer(response);
        }
        for lpa in std::mem::take(&mut self.bench.offers) {
            let is_wanted = self.random.below(4) > 0;
            if is_wanted && self.host_pages.len() < HOST_PAGES && !self.is_at_host(lpa.get()) {
                self.start_promotion(lpa.get());
            } else if !self.is_at_host(lpa.get()) {
                self.controller.on_promotion_refused(lpa);
            }
        }
    }

    fn is_at_host(&self, lpa: u64) -> bool {
        self.host_pages.contains_key(&lpa)
    }

    fn take_answer(&mut self, response: Response) {
        let id = response.request.index();
        let Outstanding {
            request,
            arrived,
            token,
        } = self.outstanding[id]
            .take()
            .expect("a request is answered once");
        let line = request.line.get();
        let parts = response.breakdown;
        let sum = parts.stall + parts.index + parts.dram + parts.flash;
        assert_eq!(response.at - arrived, sum, "the parts add up: {response:?}");
        assert!(
            response.at >= self.now,
            "an answer leaves after the call: {response:?}"
        );
        match (response.answer, request.op) {
            (Answer::Written, op) => return self.take_written(line, op, token),
            (Answer::Data, RequestOp::ReadPage | RequestOp::ReadRun { .. }) => {
                self.check_lines(line, request.op, response);
            }
            (Answer::Data, RequestOp::Read { .. }) => self.check_read(id, line, response),
            (
                Answer::Delay,
                RequestOp::Read {
                    delay_allowed: true,
                },
            ) => self.delays += 1,
            (Answer::Data, RequestOp::PromotionRead) => {
                self.check_read(id, line, response);
                let (lpa, in_page) = self.split(line);
                let token = self.bench.host[id];
                let page = self
                    .host_pages
                    .get_mut(&lpa)
                    .expect("it is under promotion");
                page.lines[in_page] = token;
                page.is_copied[in_page] = true;
            }
            (Answer::Refused(Refusal::ReadOnly), op) => {
                return self.take_read_only(line, op, token);
            }
            (Answer::Refused(why), op) => return self.take_refusal(why, line, op),
            (Answer::Poison, op) => self.check_poison(id, line, op),
            (answer, op) => panic!("{op:?} is answered with {answer:?}"),
        }
        for index in self.lines_of(line, request.op) {
            self.readers[index] -= 1;
        }
    }

    /// Of what was asked for a line is poison at least, and the others are right.
    fn check_poison(&mut self, id: usize, line: u64, op: RequestOp) {
        self.poisoned_reads += 1;
        let lines = self.lines_of(line, op);
        let got = match op {
            RequestOp::ReadPage | RequestOp::ReadRun { .. } => {
                self.bench.page(PagePlace::Host(RequestId::from_index(id)))[..lines.len()].to_vec()
            }
            _ => vec![self.bench.host[id]],
        };
        assert!(got.contains(&POISON), "poison without need at line {line}");
        for (token, expected) in got.iter().zip(&self.model[lines]) {
            assert!(
                token == expected || *token == POISON,
                "wrong beside poison at line {line}"
            );
        }
    }

    /// Writes everything anew, on flash that fails no longer: nothing is poison after that.
    #[allow(dead_code, reason = "flash does not fail in every test")]
    pub fn heal(&mut self) {
        self.bench.fault_rates = None;
        for line in 0..self.model.len() {
            let token = self.next_token;
            self.next_token += 1;
            self.send(line as u64, RequestOp::Write, token);
            self.drain();
        }
        let before = self.poisoned_reads;
        self.settle();
        assert_eq!(
            self.poisoned_reads, before,
            "a line is poison though written anew"
        );
    }

    fn check_read(&mut self, id: usize, line: u64, response: Response) {
        self.checked_reads += 1;
        let (got, expected) = (self.bench.host[id], self.model[line as usize]);
        assert!(
            self.is_right(line as usize, got),
            "line {line} is {got} and not {expected}, which was written last: {response:?}"
        );
    }

    /// The copies in log and resident frame are equal (W2), unless frames take writes alone.
    fn compare_copies(&mut self, line: u64) {
        if self.frames_take_writes {
            return;
        }
        let copies = self.controller.copies_of(LineAddr::new(line));
        if let (Some(slot), Some(frame)) = (copies.log, copies.frame) {
            let in_page = LineInPage::new(self.split(line).1 as u16);
            let logged = self.bench.peek(Cell::Log(slot));
            let cached = self
                .bench
                .peek(Cell::Page(PagePlace::Frame(frame), in_page));
            assert_eq!(
                logged, cached,
                "line {line} differs between log and data cache"
            );
        }
    }
}
