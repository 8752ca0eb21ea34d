//! Runs a workload and cuts the power at every step of it.

use crate::device::Device;
use crate::life::{Event, Life, Setup};
use crate::media::span;
use crate::oracle::{Asked, Oracle};
use crate::power_cutter::{Cut, Fate, Fates, Place};
use crate::step::Step;
use crate::token::{Digest, Token};
use firmware::{Answer, Request, RequestOp, Response};
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;
use units::{LineAddr, Lpa, RequestId, TxId};

/// Requests that may be outstanding together.
pub const REQUESTS: usize = 8;
/// Events after which a device that still works is stuck.
const MOST_EVENTS: usize = 10_000;

/// What was wrong, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// In which step of the workload, counted from 0.
    pub step: usize,
    /// After which cut; none if the power was on.
    pub cut: Option<(Place, Fate)>,
    /// What, as a sentence.
    pub what: String,
}

/// What is counted while workloads run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cuts that were judged, each with another state or other expectations than all before.
    pub points: u64,
    /// Cuts that left what an earlier one left, with the same expectations.
    pub repeats: u64,
    /// Reads that were compared while the power was on.
    pub reads: u64,
    judged: HashSet<u64, FxBuildHasher>,
    states: HashSet<u64, FxBuildHasher>,
}

impl Tally {
    /// Different states that cuts left.
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    /// Takes note of a cut; says whether it is one to be judged.
    fn note(&mut self, cut: &Cut, oracle: &Oracle) -> bool {
        let state = cut.media.digest();
        let mut digest = Digest::new();
        digest.add(state);
        oracle.digest(&mut digest);
        self.states.insert(state);
        let is_new = self.judged.insert(digest.get());
        *(if is_new {
            &mut self.points
        } else {
            &mut self.repeats
        }) += 1;
        is_new
    }
}

impl core::fmt::Display for Tally {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            points,
            repeats,
            reads,
            ..
        } = self;
        let states = self.state_count();
        write!(
            f,
            "{points} crash points judged, {states} distinct device states; {repeats} more left \
             what an earlier one had left; {reads} reads compared while the power was on"
        )
    }
}

/// A device, its host and the oracle.
#[allow(missing_debug_implementations, reason = "the controller has none")]
pub struct Lab<'a> {
    setup: Setup,
    life: Life,
    oracle: Oracle,
    tally: &'a mut Tally,
    step: usize,
    next_token: u32,
    outstanding: [bool; REQUESTS],
}

impl<'a> Lab<'a> {
    /// A lab around a new device.
    pub fn new(device: Device, fates: Fates, tally: &'a mut Tally) -> Self {
        let setup = Setup::new(device);
        Self {
            life: Life::new(&setup, fates),
            oracle: Oracle::new(setup.line_count()),
            setup,
            tally,
            step: 0,
            next_token: 1,
            outstanding: [false; REQUESTS],
        }
    }

    /// Does the next step, and judges every cut on the way.
    ///
    /// # Errors
    /// What was found.
    pub fn step(&mut self, step: &Step) -> Result<(), Finding> {
        let done = match *step {
            Step::Finish { die } => {
                let event = self.life.finish(die);
                event.map_or(Ok(()), |event| self.take(event))
            }
            Step::Ring => {
                let event = self.life.ring();
                event.map_or(Ok(()), |event| self.take(event))
            }
            Step::Drain => {
                let event = self.life.drain();
                self.take(event)
            }
            Step::Settle => self.settle(),
            step => self.send(step),
        };
        done?;
        self.step += 1;
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
            return Ok(());
        };
        let Some((op, line, asked)) = self.asking(step) else {
            return Ok(());
        };
        if !self.oracle.may_ask(&asked) {
            return Ok(());
        }
        let id = RequestId::from_index(free);
        let payload = self.life.bench.inner.payload(id);
        payload.fill(Token::GARBAGE);
        for (place, (_, token)) in payload.iter_mut().zip(asked.written()) {
            *place = *token;
        }
        self.oracle.ask(id, asked);
        self.outstanding[free] = true;
        let event = self.life.send(Request {
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
        let line_of = |line: u32| line as usize % (pages * lines);
        Some(match step {
            Step::Write {
                line,
                count: 1,
                tx: TxId::NONE,
            } => {
                let line = line_of(line);
                let asked = self.write(line..line + 1, false);
                (RequestOp::Write, line, asked)
            }
            Step::WritePage { page } => {
                let page = page_of(page);
                let asked = self.write(page.clone(), true);
                (RequestOp::WritePage, page.start, asked)
            }
            Step::Read { line, count: 1 } => {
                let first = line_of(line);
                let op = RequestOp::Read {
                    delay_allowed: false,
                };
                (op, first, Asked::Read { first, count: 1 })
            }
            Step::ReadPage { page } => {
                let first = page_of(page).start;
                (
                    RequestOp::ReadPage,
                    first,
                    Asked::Read {
                        first,
                        count: lines,
                    },
                )
            }
            _ => return None,
        })
    }

    fn write(&mut self, lines: core::ops::Range<usize>, is_whole: bool) -> Asked {
        let lines = lines.map(|line| {
            self.next_token += 1;
            (line, Token::new(self.next_token))
        });
        Asked::Write {
            lines: lines.collect(),
            is_whole,
        }
    }

    /// Lets everything end.
    fn settle(&mut self) -> Result<(), Finding> {
        for _ in 0..MOST_EVENTS {
            let Some(event) = self.life.go_on() else {
                return match self.oracle.is_idle() {
                    true => Ok(()),
                    false => Err(self.finding("a request is never answered".into())),
                };
            };
            self.take(event)?;
        }
        Err(self.finding(format!("the device still works after {MOST_EVENTS} events")))
    }

    /// Judges the cuts of an event, each with the answers that had been given before it.
    fn take(&mut self, event: Event) -> Result<(), Finding> {
        if let Some(what) = self.life.bench.inner.violation.take() {
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
        let id = response.request;
        let asked = self.oracle.done(id).map_err(|what| self.finding(what))?;
        self.outstanding[id.index()] = false;
        match (response.answer, asked) {
            (Answer::Data, Asked::Read { first, count }) => self.check_read(id, first, count),
            (Answer::Written, Asked::Write { .. }) => Ok(()),
            (answer, asked) => Err(self.finding(format!("{asked:?} is answered by {answer:?}"))),
        }
    }

    fn check_read(&mut self, id: RequestId, first: usize, count: usize) -> Result<(), Finding> {
        self.tally.reads += 1;
        let got = &self.life.bench.inner.payload(id)[..count];
        let seen = &self.oracle.seen()[first..first + count];
        let wrong = got.iter().zip(seen).position(|(got, seen)| got != seen);
        let what = wrong.map(|nth| {
            let (line, got, seen) = (first + nth, got[nth], seen[nth]);
            format!("line {line} reads as {got}; it was last written with {seen}")
        });
        what.map_or(Ok(()), |what| Err(self.finding(what)))
    }

    /// Judges what a cut leaves.
    fn judge(&mut self, cut: &Cut) -> Result<(), Finding> {
        if !self.tally.note(cut, &self.oracle) {
            return Ok(());
        }
        let reading = cut.media.reading(self.setup.page_count);
        let judged = reading.and_then(|reading| self.oracle.judge(&reading));
        judged.map_err(|what| Finding {
            cut: Some((cut.place, cut.fate)),
            ..self.finding(what)
        })
    }
}
