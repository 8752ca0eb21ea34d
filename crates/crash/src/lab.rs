//! Runs a workload and cuts the power at every step of it.

use crate::catch::catch;
use crate::device::Device;
use crate::media::span;
use crate::oracle::{Asked, Lines, Oracle};
use crate::power_cutter::{Cut, Cuttable, InFlight, InFlightChoice, Place};
use crate::powered_device::{Event, PoweredDevice, Setup};
use crate::recovery::{Judge, read_all};
use crate::sabotage::Bug;
use crate::step::Step;
use crate::tally::Tally;
use crate::token::Token;
use crate::workload::Workload;
use core::ops::Range;
use firmware::log_index::{LogIndex, SkipList, TwoLevelHash};
use firmware::{Answer, Durable, LogIndexKind, LoggedLine, Refusal, Request, RequestOp, Response};
use std::collections::BTreeMap;
use units::{DieId, LineAddr, LineInPage, Lpa, RequestId, TxId};

/// Requests that may be outstanding together.
pub const REQUESTS: usize = 8;
/// Events after which a device that still works is stuck.
pub(crate) const MOST_EVENTS: usize = 1_000;

/// One cut among those of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutName {
    /// Where, and what became of the flash operations in flight.
    pub first: (Place, InFlight),
    /// The same of a second cut, while the firmware recovers from the first.
    pub second: Option<(Place, InFlight)>,
}

impl core::fmt::Display for CutName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.first.0, self.first.1.name())?;
        match self.second {
            Some((place, in_flight)) => write!(f, ", again {place} {}", in_flight.name()),
            None => Ok(()),
        }
    }
}

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is tried to have become of flash operations in flight.
    pub choice: InFlightChoice,
    /// At one in so many cuts, power is cut again at every step of the recovery; 0: never.
    pub again_of: u64,
    /// Of how many calls of the firmware one is cut; 1: all. What follows a cut is judged whole.
    pub one_of: u32,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
    /// The only cut that is judged, and in which step; none: all.
    pub only: Option<(usize, CutName)>,
}

/// What was wrong, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// In which step of the workload, counted from 0.
    pub step: usize,
    /// After which cut; none if the power was on.
    pub cut: Option<CutName>,
    /// What, as a sentence.
    pub what: String,
}

/// A device, its host and the oracle.
#[allow(missing_debug_implementations, reason = "the controller has none")]
pub struct Lab<'a, I> {
    setup: Setup,
    powered: PoweredDevice<I>,
    oracle: Oracle,
    tally: &'a mut Tally,
    step: usize,
    next_token: u32,
    outstanding: [bool; REQUESTS],
    /// Power cuts so far.
    cuts: u32,
    /// What was written was to be drained, and nothing was answered for since.
    is_drained: bool,
    options: Options,
}

/// An oracle that knows what the device promises.
fn oracle_of(setup: &Setup) -> Oracle {
    let oracle = Oracle::new(setup.line_count(), setup.device.most_open_lines());
    match setup.device.no_battery {
        0 | 3 => oracle,
        2 => oracle.with_safe_log(setup.device.page_lines as usize),
        _ => oracle.unprotected(setup.device.page_lines as usize),
    }
}

/// Runs a workload to its end or to the first thing that is wrong.
///
/// # Errors
/// What was found.
pub fn run(workload: &Workload, options: Options, tally: &mut Tally) -> Result<(), Finding> {
    match workload.device.config().ssd.log.index {
        LogIndexKind::TwoLevelHash => Lab::<TwoLevelHash>::run(workload, options, tally),
        LogIndexKind::SkipList => Lab::<SkipList>::run(workload, options, tally),
    }
}

impl<'a, I: LogIndex> Lab<'a, I> {
    /// Runs a workload, whatever index its device is said to have.
    ///
    /// # Errors
    /// What was found.
    pub fn run(workload: &Workload, options: Options, tally: &'a mut Tally) -> Result<(), Finding> {
        let mut lab = Self::new(workload.device.clone(), options, tally);
        for (nth, step) in workload.steps.iter().enumerate() {
            lab.step = nth;
            let done = catch(|| lab.step(step));
            done.unwrap_or_else(|what| Err(lab.finding(what)))?;
        }
        lab.tally.activity.add(&lab.powered.controller);
        Ok(())
    }

    /// A lab around a new device.
    pub fn new(device: Device, options: Options, tally: &'a mut Tally) -> Self {
        let setup = Setup::new(device);
        let mut powered = PoweredDevice::new(&setup, options.bug, options.choice);
        powered.platform.inner.thin_out(options.one_of);
        Self {
            powered,
            options,
            oracle: oracle_of(&setup),
            setup,
            tally,
            step: 0,
            next_token: 1,
            outstanding: [false; REQUESTS],
            cuts: 0,
            is_drained: false,
        }
    }

    /// Does the next step, and judges every cut on the way.
    ///
    /// # Errors
    /// What was found.
    pub fn step(&mut self, step: &Step) -> Result<(), Finding> {
        self.powered.platform.inner.begin_step();
        match *step {
            Step::Finish { die } => {
                let event = self.powered.finish(die);
                self.take_if_any(event)
            }
            Step::Fail { die } => self.fail(die),
            Step::Ring => {
                let event = self.powered.ring();
                self.take_if_any(event)
            }
            Step::Drain => {
                self.is_drained = true;
                let event = self.powered.drain();
                self.take(event)
            }
            Step::Settle => self.settle(),
            Step::Reserve { tx, lines } => self.reserve(tx, lines),
            Step::PowerCut { in_flight } => self.cut_power(in_flight),
            step => self.send(step),
        }
    }

    /// The host reserves room for a transaction. Nothing of it survives a cut, so none is judged.
    fn reserve(&mut self, tx: TxId, lines: u32) -> Result<(), Finding> {
        if lines == 0 || !self.oracle.may_reserve(tx) {
            return self.pass_over();
        }
        let is_granted = self.oracle.has_room_for(tx, lines);
        let answer = match self.options.bug {
            Some(Bug::ReservationForgotten) if is_granted => Ok(()),
            _ => self.powered.controller.reserve(tx, lines),
        };
        self.tally.activity.reservations += u64::from(answer.is_ok());
        let judged = self.oracle.reserve(tx, lines, answer);
        judged.map_err(|what| self.finding(what))
    }

    /// An operation fails. The oracle is told which lines flash has lost.
    fn fail(&mut self, die: DieId) -> Result<(), Finding> {
        let pages = self.setup.page_count;
        let Some((tag, fault)) = self.powered.machine().fail_oldest(die) else {
            return self.pass_over();
        };
        self.oracle.fail();
        self.tally.activity.failures += 1;
        // What the firmware does in answer moves poison and makes none.
        let reading = self.powered.machine().media().reading(pages);
        let lost = reading.into_iter().flatten().enumerate();
        for (line, _) in lost.filter(|(_, token)| *token == Token::POISON) {
            self.oracle.lose(line);
        }
        let event = self.powered.fail(tag, fault);
        self.take(event)
    }

    /// The step cannot be done.
    fn pass_over(&mut self) -> Result<(), Finding> {
        self.tally.pass_over(self.step);
        Ok(())
    }

    fn finding(&self, what: String) -> Finding {
        Finding {
            step: self.step,
            cut: None,
            what,
        }
    }

    /// The host asks, if it may.
    fn send(&mut self, step: Step) -> Result<(), Finding> {
        let Some(free) = self.outstanding.iter().position(|is_used| !is_used) else {
            return self.pass_over();
        };
        let Some((op, line, asked)) = self.asking(step) else {
            return self.pass_over();
        };
        if !self.oracle.may_ask(&asked) {
            return self.pass_over();
        }
        let id = RequestId::from_index(free);
        let payload = self.powered.machine().payload(id);
        payload.fill(Token::GARBAGE);
        for (place, (_, token)) in payload.iter_mut().zip(asked.written()) {
            *place = *token;
        }
        self.oracle.ask(id, asked);
        self.outstanding[free] = true;
        let event = self.powered.send(Request {
            id,
            op,
            line: LineAddr::new(line as u64),
            source: None,
        });
        self.take(event)
    }

    /// What a step asks of the device.
    fn asking(&mut self, step: Step) -> Option<(RequestOp, usize, Asked)> {
        let (pages, lines) = (self.setup.page_count, self.setup.device.page_lines as usize);
        let page_of = |page: u32| span(Lpa::new(u64::from(page) % pages as u64), lines);
        let run_of = |line: u32, count: u32| {
            let first = line as usize % (pages * lines);
            let end = (first / lines + 1) * lines;
            first..(first + count.max(1) as usize).min(end)
        };
        Some(match step {
            Step::Write { line, count, tx } => {
                let lines = run_of(line, count);
                let op = match (lines.len(), tx) {
                    (1, TxId::NONE) => RequestOp::Write,
                    (count, tx) => RequestOp::WriteRun {
                        count: count as u16,
                        tx,
                    },
                };
                let lines = self.with_tokens(lines);
                (op, lines[0].0, Asked::lines(tx, lines))
            }
            Step::WritePage { page, is_through } => {
                let op = match is_through {
                    true => RequestOp::WritePageThrough,
                    false => RequestOp::WritePage,
                };
                let page = page_of(page);
                let asked = Asked::page(self.with_tokens(page.clone()), is_through);
                (op, page.start, asked)
            }
            Step::Trim { page } => {
                let page = page_of(page);
                let zeroes = page.clone().map(|line| (line, Token::ZERO));
                // Without protection a page is given up whole or not at all: it is one record.
                let asked = match self.setup.device.no_battery {
                    0 | 2 | 3 => Asked::lines(TxId::NONE, zeroes.collect()),
                    _ => Asked::page(zeroes.collect(), false),
                };
                (RequestOp::Trim, page.start, asked)
            }
            Step::Read { line, count } => {
                let lines = run_of(line, count);
                let op = match lines.len() {
                    1 => RequestOp::Read {
                        delay_allowed: false,
                    },
                    count => RequestOp::ReadRun {
                        count: count as u16,
                    },
                };
                (op, lines.start, Asked::read(lines))
            }
            Step::ReadPage { page } => {
                let page = page_of(page);
                (RequestOp::ReadPage, page.start, Asked::read(page))
            }
            Step::Flush => (RequestOp::Flush, 0, Asked::Flush),
            Step::Commit { tx } => (RequestOp::Commit { tx }, 0, Asked::Commit(tx)),
            Step::Abort { tx } => (RequestOp::Abort { tx }, 0, Asked::Abort(tx)),
            _ => return None,
        })
    }

    /// Each line with something new to hold.
    fn with_tokens(&mut self, lines: Range<usize>) -> Lines {
        let tokens = lines.map(|line| {
            self.next_token += 1;
            (line, Token::new(self.next_token))
        });
        tokens.collect()
    }

    /// Lets everything end.
    fn settle(&mut self) -> Result<(), Finding> {
        for _ in 0..MOST_EVENTS {
            let Some(event) = self.powered.go_on() else {
                self.see_standstill();
                if !self.oracle.is_idle() {
                    return Err(self.finding("a request is never answered".into()));
                }
                let checked = self.check_leaks().and_then(|()| self.check_drain());
                return checked.map_err(|what| self.finding(what));
            };
            self.take(event)?;
        }
        Err(self.finding(format!("the device still works after {MOST_EVENTS} events")))
    }

    /// Each cut costs garbage collection the pages that had begun: as many as it has blocks in
    /// reserve can bring a device to a standstill, as a failure can.
    fn see_standstill(&mut self) {
        if self.cuts >= self.setup.device.reserve && self.powered.controller.is_stuck() {
            self.oracle.fail();
        }
    }

    /// With nothing under way, what counts is what the firmware knows; and no buffer counts, unless
    /// flash has no room for what is in it.
    fn check_leaks(&mut self) -> Result<(), String> {
        self.powered.controller.audit();
        let known = self.powered.controller.logged_lines();
        let is_stuck = self.powered.controller.is_stuck();
        if is_stuck && !self.oracle.has_failed() {
            return Err("the device stands still without a reason".to_owned());
        }
        let tables = &self.powered.machine().media().tables;
        if let Some((buffer, page)) = tables.buffered().next().filter(|_| !is_stuck) {
            return Err(format!(
                "{buffer} counts for {} although nothing is under way",
                page.lpa
            ));
        }
        let mut counted: BTreeMap<_, Vec<TxId>> = BTreeMap::new();
        for (_, line) in tables.logged() {
            counted
                .entry((line.lpa, line.line))
                .or_default()
                .push(line.tx);
        }
        if !known.iter().eq(counted.keys()) {
            let counted: Vec<_> = counted.keys().collect();
            return Err(format!(
                "slots count for {counted:?}; the log has {known:?}"
            ));
        }
        self.check_copies(counted)
    }

    /// With nothing under way a drain is over, unless there is a standstill. Behind it only lines
    /// of open transactions count.
    fn check_drain(&mut self) -> Result<(), String> {
        let controller = &self.powered.controller;
        if controller.empties_log() {
            return match controller.is_stuck() {
                true => Ok(()),
                false => Err("a drain is never over".to_owned()),
            };
        }
        let tables = &self.powered.machine().media().tables;
        let framed = tables.framed().next().filter(|_| self.is_drained);
        if let Some((frame, kept)) = framed {
            return Err(format!("{frame} counts for {} behind a drain", kept.lpa));
        }
        let mut logged = tables.logged().filter(|_| self.is_drained);
        let is_open = |line: &LoggedLine| line.tx != TxId::NONE && !tables.is_committed(line.tx);
        match logged.find(|(_, line)| !is_open(line)) {
            Some((slot, line)) => Err(format!("{slot} counts for {} behind a drain", line.lpa)),
            None => Ok(()),
        }
    }

    /// Of a line one slot counts, and of one that is open another at most, which is committed. A
    /// device that flash has failed may be left with a half that it cannot compact.
    fn check_copies(&self, counted: BTreeMap<(Lpa, LineInPage), Vec<TxId>>) -> Result<(), String> {
        let page_lines = self.setup.device.page_lines as usize;
        for ((lpa, line), txs) in counted {
            let holder = self
                .oracle
                .holder_of(span(lpa, page_lines).start + line.index());
            let copies = txs.iter().filter(|tx| Some(**tx) != holder).count();
            let of_holder = txs.len() - copies;
            let is_right = match holder {
                Some(_) => of_holder == 1 && copies <= 1,
                None => copies == 1,
            };
            if !is_right && !self.oracle.has_failed() {
                let line = line.get();
                return Err(format!(
                    "line {line} of {lpa} counts under {txs:?}; {holder:?} has it open"
                ));
            }
        }
        Ok(())
    }

    fn take_if_any(&mut self, event: Option<Event>) -> Result<(), Finding> {
        match event {
            Some(event) => self.take(event),
            None => self.pass_over(),
        }
    }

    /// Judges the cuts of an event, each with the answers that had been given before it.
    fn take(&mut self, event: Event) -> Result<(), Finding> {
        if let Some(what) = self.powered.machine().violation.take() {
            return Err(self.finding(what));
        }
        let mut answers = event.answers.into_iter();
        let mut answered = 0;
        for cut in event.cuts {
            for response in answers.by_ref().take(cut.answers - answered) {
                self.take_answer(response)?;
            }
            answered = cut.answers;
            self.judge(&cut)?;
        }
        answers.try_for_each(|response| self.take_answer(response))
    }

    fn take_answer(&mut self, response: Response) -> Result<(), Finding> {
        self.see_standstill();
        let id = response.request;
        let asked = match response.answer {
            Answer::Refused(why) => self.oracle.refused(id, why),
            _ => self.oracle.done(id),
        };
        let asked = asked.map_err(|what| self.finding(what))?;
        self.outstanding[id.index()] = false;
        self.is_drained &= matches!(asked, Asked::Read { .. } | Asked::Flush);
        self.tally.activity.note(&asked, response.answer);
        if let Answer::Refused(Refusal::UnknownTransaction | Refusal::Unsupported) = response.answer
        {
            // It is refused at once, so the step that asked is this one.
            self.tally.pass_over(self.step);
        }
        match (response.answer, asked) {
            (Answer::Data | Answer::Poison, Asked::Read { first, count }) => {
                self.check_read(id, first, count)
            }
            (Answer::Written, Asked::Read { .. })
            | (Answer::Delay, Asked::Read { .. })
            | (Answer::Data | Answer::Delay | Answer::Poison, _) => {
                let answer = response.answer;
                Err(self.finding(format!("{id} is answered by {answer:?}")))
            }
            _ => Ok(()),
        }
    }

    fn check_read(&mut self, id: RequestId, first: usize, count: usize) -> Result<(), Finding> {
        self.tally.reads += 1;
        let got = &self.powered.machine().payload(id)[..count];
        let seen = &self.oracle.seen()[first..first + count];
        let found = got.iter().enumerate();
        let mut wrong = found.filter(|(nth, got)| !self.oracle.may_read(first + nth, **got));
        let wrong = wrong.next().map(|(nth, _)| nth);
        let what = wrong.map(|nth| {
            let (line, got, seen) = (first + nth, got[nth], seen[nth]);
            format!("line {line} reads as {got}; it was last written with {seen}")
        });
        what.map_or(Ok(()), |what| Err(self.finding(what)))
    }

    /// Judges what a cut leaves. At some it is cut again while the firmware recovers.
    fn judge(&mut self, cut: &Cut) -> Result<(), Finding> {
        let first = (cut.place, cut.in_flight);
        let (cuts_again, only) = match self.options.only {
            None => match self.tally.note(cut, &self.oracle) {
                Some(digest) => {
                    let again_of = self.options.again_of;
                    (again_of > 0 && digest.is_multiple_of(again_of), None)
                }
                None => return Ok(()),
            },
            Some((step, only)) if (step, only.first) == (self.step, first) => {
                (only.second.is_some(), only.second)
            }
            Some(_) => return Ok(()),
        };
        let judge = Judge {
            setup: &self.setup,
            bug: self.options.bug,
            choice: self.options.choice,
            cuts_again,
            only,
        };
        let judged = judge.judge::<I>(&cut.media, &self.oracle, self.tally);
        judged.map_err(|(second, what)| Finding {
            cut: Some(CutName { first, second }),
            ..self.finding(what)
        })
    }

    /// The power goes and comes back, and the host finds out what is there.
    fn cut_power(&mut self, in_flight: InFlight) -> Result<(), Finding> {
        let media = self.powered.platform.inner.inner.cut(in_flight);
        if let Some(what) = self.powered.machine().violation.take() {
            return Err(self.finding(what));
        }
        let judge = Judge {
            setup: &self.setup,
            bug: self.options.bug,
            choice: self.options.choice,
            cuts_again: false,
            only: None,
        };
        let recovered = judge.recover::<I>(&media).and_then(|(mut powered, _)| {
            let found = read_all(&mut powered, &self.setup)?;
            self.oracle.judge(&found)?;
            Ok((powered, found))
        });
        let (mut powered, found) = recovered.map_err(|what| self.finding(what))?;
        powered.platform.inner.thin_out(self.options.one_of);
        self.oracle.settle_on(&found);
        self.tally.activity.power_cuts += 1;
        self.tally.activity.add(&self.powered.controller);
        self.powered = powered;
        self.cuts += 1;
        self.outstanding = [false; REQUESTS];
        self.is_drained = false;
        Ok(())
    }
}
