//! Deliberate bugs: what a firmware with the bug would do to the world, done to a firmware without.
//!
//! The firmware has no hook for it. A forgotten record is a record that does not get through, a
//! wrong order is an action that is held back, a recovery that overlooks a table is given one with
//! nothing in it. Each of them must be found; docs/crash-lab.md says after how many crash points.

mod bugs;
mod copies;
mod misreading;
mod moves;
mod promises;
mod transactions;

pub use bugs::Bug;
pub use misreading::Misreading;
pub(crate) use promises::belief;

use bugs::Part;
use copies::Copies;
use transactions::Commits;

use crate::device::Device;
use crate::tables::Tables;
use firmware::{
    Cell, Durable, LoggedLine, NandCommand, NandOp, NandTag, PagePlace, Platform, Record, Response,
    Timer, Work, WriteOrder,
};
use std::collections::{BTreeMap, BTreeSet};
use units::{BlockAddr, Bytes, LineInPage, LineMask, LogSlot, Lpa, Ppa, RequestId, Time};

/// Something that the firmware does to the world.
#[derive(Clone, Copy, Debug)]
enum Action {
    CopyLine(Cell, Cell),
    CopyPage(PagePlace, PagePlace, LineMask),
    Nand(Time, NandCommand),
    Respond(Response),
    Record(Record),
}

/// The decorator; without a bug it only passes on.
#[derive(Debug)]
pub struct Sabotage<P> {
    /// What does the work.
    pub inner: P,
    bug: Option<Bug>,
    held: Vec<Action>,
    logged: BTreeMap<LogSlot, LoggedLine>,
    /// The newest slot of each line, whether it counts or not, and the one before that.
    newest: BTreeMap<(Lpa, LineInPage), LogSlot>,
    stale: BTreeMap<(Lpa, LineInPage), LogSlot>,
    /// Slots whose lines are in a page buffer since the last program.
    merged: Vec<LogSlot>,
    /// The last page copied to a buffer.
    older: Option<(PagePlace, PagePlace)>,
    mapped: BTreeMap<Lpa, Ppa>,
    moving: Option<Ppa>,
    /// By program of garbage collection under way: which page goes where.
    moves: BTreeMap<NandTag, (Lpa, Ppa)>,
    trimmed: Option<Lpa>,
    /// Requests that are answered too early.
    early: BTreeSet<RequestId>,
    commits: Commits,
    copies: Copies,
    /// What an order that restarted is less than a right one.
    order_less: Option<u64>,
    wear: BTreeMap<BlockAddr, u32>,
    is_recovered: bool,
    first_gc_buffer: u32,
    all_lines: LineMask,
}

impl<P: Platform> Sabotage<P> {
    /// Plants a bug between the firmware of a device and `inner`.
    pub fn new(inner: P, bug: Option<Bug>, device: &Device, is_recovered: bool) -> Self {
        Self {
            inner,
            bug,
            held: Vec::new(),
            logged: BTreeMap::new(),
            newest: BTreeMap::new(),
            stale: BTreeMap::new(),
            merged: Vec::new(),
            older: None,
            mapped: BTreeMap::new(),
            moving: None,
            moves: BTreeMap::new(),
            trimmed: None,
            early: BTreeSet::new(),
            commits: Commits::of_capacity(device.tx_log.max(1)),
            copies: Copies::default(),
            order_less: None,
            wear: BTreeMap::new(),
            is_recovered,
            first_gc_buffer: device.buffers,
            all_lines: LineMask::full(device.config().geometry.unit_size),
        }
    }

    /// Knows what was recorded before.
    pub fn remember(&mut self, tables: &Tables) {
        self.logged = tables.logged().collect();
        self.mapped = tables.mapped().collect();
        self.commits.remember(tables);
        let wear = tables.blocks().map(|(block, record)| (block, record.wear));
        self.wear = wear.collect();
    }

    fn pass(&mut self, action: Action) {
        match action {
            Action::CopyLine(from, to) => self.inner.copy_line(from, to),
            Action::CopyPage(from, to, lines) => self.inner.copy_page(from, to, lines),
            Action::Nand(at, command) => self.inner.nand(at, command),
            Action::Respond(response) => self.inner.respond(response),
            Action::Record(record) => self.inner.record(record),
        }
    }

    fn release(&mut self) {
        for action in std::mem::take(&mut self.held) {
            self.pass(action);
        }
    }

    fn act(&mut self, action: Action) {
        let Some(bug) = self.bug else {
            return self.pass(action);
        };
        match bug.part() {
            Part::Writes => self.spoil_writes(bug, action),
            Part::Compaction => self.spoil_compaction(bug, action),
            Part::Copies => self.spoil_copies(bug, action),
            Part::Flash => self.spoil_flash(bug, action),
            Part::Buffers => self.spoil_buffers(bug, action),
            Part::Transactions => self.spoil_transactions(bug, action),
            Part::Trims => self.spoil_trims(bug, action),
            Part::Promises => self.spoil_promises(bug, action),
            Part::Frames => self.spoil_frames(bug, action),
            Part::Recovery => self.pass(action),
        }
        self.learn(action);
    }

    /// Keeps account of what is logged and mapped.
    fn learn(&mut self, action: Action) {
        match action {
            Action::Record(Record::Logged(slot, line)) => {
                self.logged.insert(slot, line);
                self.stale.retain(|_, other| *other != slot);
                let place = (line.lpa, line.line);
                if let Some(before) = self.newest.insert(place, slot) {
                    self.stale.insert(place, before);
                }
            }
            Action::Record(Record::Dropped(slot)) => {
                self.logged.remove(&slot);
            }
            Action::Record(Record::Mapped(lpa, ppa)) => {
                self.mapped.insert(lpa, ppa);
            }
            _ => {}
        }
        self.commits.learn(action);
        self.copies.learn(action);
    }

    fn spoil_writes(&mut self, bug: Bug, action: Action) {
        match (bug, action) {
            (Bug::LoggedForgotten, Action::Record(Record::Logged(_, line))) if self.holds(line) => {
            }
            (Bug::LoggedBeforeCopy, Action::CopyLine(_, Cell::Log(_)))
            | (Bug::AnsweredBeforeLogged, Action::Record(Record::Logged(..))) => {
                self.held.push(action);
            }
            (Bug::FrameForgotten, Action::CopyLine(_, Cell::Page(PagePlace::Frame(_), _))) => {}
            (Bug::LoggedBeforeCopy, Action::Record(Record::Logged(..)))
            | (Bug::AnsweredBeforeLogged, Action::Respond(_)) => {
                self.pass(action);
                self.release();
            }
            (Bug::OrderRestarted, Action::Record(Record::Logged(slot, line)))
                if self.is_recovered =>
            {
                let first = *self.order_less.get_or_insert(line.order.get());
                let order = WriteOrder::new(line.order.get() - first);
                self.pass(Action::Record(Record::Logged(
                    slot,
                    LoggedLine { order, ..line },
                )));
            }
            _ => self.pass(action),
        }
    }

    fn holds(&self, line: LoggedLine) -> bool {
        let same = |other: &LoggedLine| (other.lpa, other.line) == (line.lpa, line.line);
        self.logged.values().any(same)
    }

    fn spoil_compaction(&mut self, bug: Bug, action: Action) {
        match (bug, action) {
            (Bug::DroppedForgotten, Action::Record(Record::Dropped(slot)))
                if self
                    .logged
                    .get(&slot)
                    .is_some_and(|line| self.is_mapped(line.lpa)) => {}
            (Bug::DroppedBeforeMapped, Action::CopyLine(Cell::Log(slot), to)) if is_buffer(to) => {
                self.merged.push(slot);
                self.pass(action);
            }
            (Bug::DroppedBeforeMapped, Action::Nand(_, command)) if command.is_compaction => {
                self.pass(action);
                for slot in std::mem::take(&mut self.merged) {
                    self.pass(Action::Record(Record::Dropped(slot)));
                }
            }
            (Bug::MergedInWrongOrder, Action::CopyPage(from, to @ PagePlace::Buffer(_), _)) => {
                self.older = Some((from, to));
                self.pass(action);
            }
            (Bug::MergedInWrongOrder, Action::Nand(_, command)) if command.is_compaction => {
                if let Some((from, to)) = self.older.take() {
                    self.pass(Action::CopyPage(from, to, self.all_lines));
                }
                self.pass(action);
            }
            (Bug::MergedFromStaleSlot, Action::CopyLine(Cell::Log(slot), to)) if is_buffer(to) => {
                let stale = self.before(slot);
                self.pass(Action::CopyLine(Cell::Log(stale), to));
            }
            _ => self.pass(action),
        }
    }

    fn is_mapped(&self, lpa: Lpa) -> bool {
        self.mapped.contains_key(&lpa)
    }

    /// The slot that held what this one holds before it, if that has not been used again.
    fn before(&self, slot: LogSlot) -> LogSlot {
        let line = self.logged.get(&slot);
        let before = line.and_then(|line| self.stale.get(&(line.lpa, line.line)));
        before.copied().unwrap_or(slot)
    }

    fn spoil_flash(&mut self, bug: Bug, action: Action) {
        self.note_move(action);
        match (bug, action) {
            (Bug::MappedBeforeProgrammed, Action::Nand(_, command)) => {
                self.pass(action);
                if let NandOp::Program { ppa, lpa, .. } = command.op {
                    self.pass(Action::Record(Record::Mapped(lpa, ppa)));
                }
            }
            (Bug::MoveForgotten | Bug::ErasedBeforeMapped, Action::Nand(_, command)) => {
                if let NandOp::Program { ppa, from, .. } = command.op
                    && self.is_gc_buffer(from)
                {
                    self.moving = Some(ppa);
                }
                self.pass(action);
            }
            (Bug::MoveForgotten, Action::Record(Record::Mapped(_, ppa)))
                if self.moving == Some(ppa) => {}
            (Bug::ErasedBeforeMapped, Action::Record(Record::Mapped(_, ppa)))
                if self.moving == Some(ppa) =>
            {
                self.held.push(action);
            }
            (Bug::ErasedBeforeMapped, Action::Record(Record::Erased(..))) => {
                self.pass(action);
                self.release();
            }
            (Bug::BegunForgotten, Action::Record(Record::Begun(_)))
            | (Bug::ErasedForgotten, Action::Record(Record::Erased(..))) => {}
            (Bug::MoveBegunForgotten, Action::Record(Record::Begun(_))) => self.held.push(action),
            (Bug::MoveBegunForgotten, Action::Nand(_, command)) => {
                match command.op {
                    NandOp::Program { from, .. } if self.is_gc_buffer(from) => self.held.clear(),
                    _ => self.release(),
                }
                self.pass(action);
            }
            (Bug::ErasedTooEarly, Action::Nand(_, command)) => {
                self.pass(action);
                if let NandOp::Erase { block } = command.op {
                    let wear = self.wear.entry(block).or_default();
                    *wear += 1;
                    let erased = Record::Erased(block, *wear);
                    self.pass(Action::Record(erased));
                }
            }
            (Bug::ErasedTooEarly, Action::Record(Record::Erased(..))) => {}
            _ => self.pass(action),
        }
    }

    fn is_gc_buffer(&self, place: PagePlace) -> bool {
        matches!(place, PagePlace::Buffer(buffer) if buffer.get() >= self.first_gc_buffer)
    }

    fn spoil_buffers(&mut self, bug: Bug, action: Action) {
        match (bug, action) {
            (Bug::BufferedForgotten, Action::Record(Record::Buffered(..))) => {}
            (
                Bug::BufferedBeforeCopy,
                Action::CopyPage(PagePlace::Host(_), PagePlace::Buffer(_), _),
            )
            | (Bug::UnbufferedBeforeMapped, Action::Record(Record::Mapped(..))) => {
                self.held.push(action);
            }
            (Bug::BufferedBeforeCopy, Action::Record(Record::Buffered(..))) => {
                self.pass(action);
                self.release();
            }
            (Bug::UnbufferedBeforeProgrammed, Action::Nand(_, command)) => {
                self.pass(action);
                if let NandOp::Program { from, .. } = command.op
                    && let PagePlace::Buffer(buffer) = from
                    && !self.is_gc_buffer(from)
                {
                    self.pass(Action::Record(Record::Unbuffered(buffer)));
                }
            }
            (Bug::UnbufferedBeforeMapped, _) => {
                self.pass(action);
                self.release();
            }
            _ => self.pass(action),
        }
    }

    fn spoil_frames(&mut self, bug: Bug, action: Action) {
        let is_to_frame = matches!(
            action,
            Action::CopyLine(_, Cell::Page(PagePlace::Frame(_), _))
        );
        match (bug, action) {
            (Bug::FramedForgotten, Action::Record(Record::Framed(..) | Record::FramedMore(..)))
            | (Bug::FramedMoreForgotten, Action::Record(Record::FramedMore(..)))
            | (Bug::UnframedForgotten, Action::Record(Record::Unframed(_))) => {}
            (Bug::FrameWrittenWhole, Action::CopyLine(_, Cell::Page(frame, _))) if is_to_frame => {
                self.pass(action);
                self.pass(Action::CopyPage(frame, frame, self.all_lines));
            }
            (Bug::FramedBeforeCopy, _) if is_to_frame => self.held.push(action),
            (Bug::FramedBeforeCopy, Action::Record(Record::Framed(..)) | Action::Respond(_)) => {
                self.pass(action);
                self.release();
            }
            (Bug::UnframedBeforeBuffered, Action::Record(Record::Buffered(..))) => {
                self.held.push(action);
            }
            (Bug::UnframedBeforeBuffered, _) => {
                self.pass(action);
                self.release();
            }
            _ => self.pass(action),
        }
    }

    fn spoil_trims(&mut self, bug: Bug, action: Action) {
        match (bug, action) {
            (Bug::TrimForgotten, Action::Record(Record::Unmapped(_))) => {}
            (Bug::TrimKeptLog, Action::Record(Record::Unmapped(lpa))) => {
                self.trimmed = Some(lpa);
                self.pass(action);
            }
            (Bug::TrimKeptLog, Action::Record(Record::Dropped(slot)))
                if self.logged.get(&slot).map(|line| line.lpa) == self.trimmed => {}
            (Bug::TrimKeptLog, Action::Respond(_)) => {
                self.trimmed = None;
                self.pass(action);
            }
            _ => self.pass(action),
        }
    }
}

fn is_buffer(cell: Cell) -> bool {
    matches!(cell, Cell::Page(PagePlace::Buffer(_), _))
}

impl<P: Platform> Platform for Sabotage<P> {
    fn charge(&mut self, at: Time, work: Work) -> Time {
        self.inner.charge(at, work)
    }

    fn dram(&mut self, at: Time, address: Bytes, size: Bytes, is_write: bool) -> Time {
        self.inner.dram(at, address, size, is_write)
    }

    fn copy_line(&mut self, from: Cell, to: Cell) {
        self.act(Action::CopyLine(from, to));
    }

    fn copy_page(&mut self, from: PagePlace, to: PagePlace, lines: LineMask) {
        self.act(Action::CopyPage(from, to, lines));
    }

    fn load_unit(&mut self, ppa: Ppa, lpa: Lpa, from: PagePlace) {
        self.inner.load_unit(ppa, lpa, from);
    }

    fn nand(&mut self, at: Time, command: NandCommand) {
        self.act(Action::Nand(at, command));
    }

    fn wants(&mut self, tag: NandTag, line: LineInPage) {
        self.inner.wants(tag, line);
    }

    fn expected_end(&self, tag: NandTag) -> Option<Time> {
        self.inner.expected_end(tag)
    }

    fn respond(&mut self, response: Response) {
        self.act(Action::Respond(response));
    }

    fn request_promotion(&mut self, at: Time, lpa: Lpa) {
        self.inner.request_promotion(at, lpa);
    }

    fn record(&mut self, record: Record) {
        self.act(Action::Record(record));
    }

    fn is_poisoned(&self, request: RequestId) -> bool {
        self.inner.is_poisoned(request)
    }

    fn wake_at(&mut self, at: Time, timer: Timer) {
        self.inner.wake_at(at, timer);
    }
}
