//! Cuts the power before, after and in the middle of every action of the firmware.
//!
//! Nothing that is done after a cut survives it, so what a cut leaves is what survives at that
//! moment: the cutter copies it at every action and lets the firmware go on. A cut after an action
//! is one before the next.

use crate::media::Media;
use firmware::{Cell, NandCommand, NandTag, PagePlace, Platform, Record, Response, Timer, Work};
use units::{Bytes, LineInPage, LineMask, Lpa, Ppa, RequestId, Time};

/// What became of the NAND operations that were in flight when the power went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InFlight {
    /// None had begun.
    Pending,
    /// The oldest of each die had begun.
    Torn,
    /// All were done, and nobody was told.
    Finished,
    /// All were done on every other die, and begun on the rest.
    Mixed,
}

impl InFlight {
    /// All of them, with their names in scripts.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Pending, "pending"),
        (Self::Torn, "torn"),
        (Self::Finished, "finished"),
        (Self::Mixed, "mixed"),
    ];

    /// Its name in scripts.
    pub fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(in_flight, _)| *in_flight == self);
        named.map_or("", |(_, name)| name)
    }
}

impl core::str::FromStr for InFlight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().find(|(_, name)| *name == text);
        let names = Self::ALL.map(|(_, name)| name).join(", ");
        named.map_or_else(
            || {
                Err(format!(
                    "{text:?} is not what becomes of flash operations: {names}"
                ))
            },
            |(in_flight, _)| Ok(*in_flight),
        )
    }
}

/// Actions after which a call of the firmware of a small device does not end.
const MOST_ACTIONS: u32 = 20_000;

/// A platform of which it can be said what a cut would leave.
pub trait Cuttable: Platform {
    /// Changes whenever what a cut leaves, or what was answered, may have.
    fn version(&self) -> u64;
    /// Answers given since they were last taken.
    fn answers(&self) -> usize;
    /// Whether a program or erase may have begun.
    fn is_programming(&self) -> bool;
    /// What a cut leaves now.
    fn cut(&mut self, in_flight: InFlight) -> Media;
    /// What a cut leaves in the middle of a copy to this cell, if the cell survives.
    fn cut_in_line(&mut self, to: Cell) -> Option<Media>;
    /// What a cut leaves in the middle of a copy of these lines there, if the place survives.
    fn cut_in_page(&mut self, to: PagePlace, lines: LineMask) -> Option<Media>;
}

/// Where in the work of a step the power was cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// In which call of the firmware, counted from 0 in each step.
    pub event: u32,
    /// Before this action of the firmware, counted from 0 in each call.
    pub action: u32,
    /// In the middle of it instead.
    pub is_within: bool,
}

/// A cut: where, what was in flight, and what is left.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Before which action of the firmware, or within which.
    pub place: Place,
    /// What became of the flash operations in flight.
    pub in_flight: InFlight,
    /// How many answers of the event had been given.
    pub answers: usize,
    /// What is left.
    pub media: Media,
}

/// What is tried to have become of them at each cut with a program or erase in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InFlightChoice {
    /// No cut is made.
    Never,
    /// One after the other in turn.
    InTurn,
    /// All of them.
    Each,
}

/// The decorator.
#[derive(Debug)]
pub struct PowerCutter<P> {
    /// What does the work.
    pub inner: P,
    choice: InFlightChoice,
    /// Of how many calls one is cut, and those until the next.
    one_of: u32,
    until: u32,
    event: u32,
    action: u32,
    turn: usize,
    last_version: Option<u64>,
    cuts: Vec<Cut>,
}

impl<P: Cuttable> PowerCutter<P> {
    /// Cuts the power of `inner`.
    pub fn new(inner: P, choice: InFlightChoice) -> Self {
        Self {
            inner,
            choice,
            one_of: 1,
            until: 0,
            event: 0,
            action: 0,
            turn: 0,
            last_version: None,
            cuts: Vec::new(),
        }
    }

    /// Cuts the power in one of so many calls only, in the first first.
    pub fn thin_out(&mut self, one_of: u32) {
        (self.one_of, self.until) = (one_of.max(1), 1);
    }

    /// A step begins: calls are counted from here.
    pub fn begin_step(&mut self) {
        self.event = 0;
    }

    /// The firmware is about to be called: actions are counted from here.
    pub fn begin(&mut self) {
        self.action = 0;
        self.until = self.until.checked_sub(1).unwrap_or(self.one_of - 1);
        self.cuts.clear();
        self.cut_before();
    }

    /// The firmware has returned: every cut of the event, in the order of time.
    pub fn end(&mut self) -> Vec<Cut> {
        self.cut_before();
        self.event += 1;
        std::mem::take(&mut self.cuts)
    }

    fn cuts_now(&self) -> bool {
        self.choice != InFlightChoice::Never && self.until == 0
    }

    /// A cut that would leave the same as the last one is not made.
    fn cut_before(&mut self) {
        if !self.cuts_now() {
            return;
        }
        let version = self.inner.version();
        if self.last_version.replace(version) == Some(version) {
            return;
        }
        if !self.inner.is_programming() {
            return self.cut_with(InFlight::Pending);
        }
        match self.choice {
            InFlightChoice::Never => {}
            InFlightChoice::InTurn => {
                self.turn = (self.turn + 1) % InFlight::ALL.len();
                self.cut_with(InFlight::ALL[self.turn].0);
            }
            InFlightChoice::Each => InFlight::ALL
                .iter()
                .for_each(|(in_flight, _)| self.cut_with(*in_flight)),
        }
    }

    fn cut_with(&mut self, in_flight: InFlight) {
        let media = self.inner.cut(in_flight);
        self.push(false, in_flight, media);
    }

    fn push(&mut self, is_within: bool, in_flight: InFlight, media: Media) {
        self.cuts.push(Cut {
            place: Place {
                event: self.event,
                action: self.action,
                is_within,
            },
            in_flight,
            answers: self.inner.answers(),
            media,
        });
    }

    fn act<T>(&mut self, action: impl FnOnce(&mut P) -> T) -> T {
        self.cut_before();
        self.action += 1;
        assert!(
            self.action < MOST_ACTIONS,
            "it does {MOST_ACTIONS} things in one call"
        );
        action(&mut self.inner)
    }
}

impl<P: Cuttable> Platform for PowerCutter<P> {
    fn charge(&mut self, at: Time, work: Work) -> Time {
        self.inner.charge(at, work)
    }

    fn dram(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        self.inner.dram(at, address, size, is_write)
    }

    fn copy_line(&mut self, from: Cell, to: Cell) {
        self.cut_before();
        if self.cuts_now()
            && let Some(media) = self.inner.cut_in_line(to)
        {
            self.push(true, InFlight::Pending, media);
        }
        self.act(|inner| inner.copy_line(from, to));
    }

    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        self.cut_before();
        if self.cuts_now()
            && let Some(media) = self.inner.cut_in_page(to, lines)
        {
            self.push(true, InFlight::Pending, media);
        }
        self.act(|inner| inner.copy_page(from, to, lines));
    }

    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace) {
        self.inner.load_unit(ppa, lpa, from);
    }

    fn nand(&mut self, at: Time, command: NandCommand) {
        self.act(|inner| inner.nand(at, command));
    }

    fn wants(&mut self, tag: NandTag, line: LineInPage) {
        self.inner.wants(tag, line);
    }

    fn expected_end(&self, tag: NandTag) -> Option<Time> {
        self.inner.expected_end(tag)
    }

    fn respond(&mut self, response: Response) {
        self.act(|inner| inner.respond(response));
    }

    fn request_promotion(&mut self, at: Time, lpa: Lpa) {
        self.inner.request_promotion(at, lpa);
    }

    fn record(&mut self, record: Record) {
        self.act(|inner| inner.record(record));
    }

    fn is_poisoned(&self, request: RequestId) -> bool {
        self.inner.is_poisoned(request)
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.inner.wake_at(at, timer);
    }
}
