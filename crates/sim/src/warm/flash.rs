//! Flash that takes its time in warm-up (`run.warm_waits`): when the pages come that warm-up asks
//! for, and how far its threads are.
//!
//! The firmware goes on without time. What it asks of the flash is booked here, at the time of the
//! thread that asked, so that it is known which pages a real device would not have yet.

use firmware::{NandCommand, NandOp};
use nand::{Nand, Operation};
use units::{Lpa, Picos, Time};

/// The flash of warm-up, and its threads.
#[derive(Clone, Debug)]
pub(crate) struct WarmFlash {
    nand: Nand,
    /// When each unit is free, unless the flash keeps its own clocks.
    free: Vec<Time>,
    /// When each page has come, or `Time::ZERO`.
    arrivals: Vec<Time>,
    threads: Vec<WarmThread>,
    /// The thread that executes.
    current: usize,
    /// Accesses of a thread that may wait.
    most: usize,
    /// What an instruction takes.
    instruction: Picos,
    /// When the first read since [`WarmFlash::begin`] ends.
    first_read: Option<Time>,
}

#[derive(Clone, Debug, Default)]
struct WarmThread {
    now: Time,
    /// When each access that waits has its data.
    due: Vec<Time>,
}

impl WarmFlash {
    /// An idle flash of this kind, for so many threads of so many pages.
    pub(crate) fn new(
        nand: Nand,
        most: u32,
        instruction: Picos,
        thread_count: usize,
        page_count: u64,
    ) -> Self {
        let units = nand.geometry().die_count() as usize;
        Self {
            nand,
            free: vec![Time::ZERO; units],
            arrivals: vec![Time::ZERO; page_count as usize],
            threads: vec![WarmThread::default(); thread_count],
            current: 0,
            most: most as usize,
            instruction,
            first_read: None,
        }
    }

    /// The thread that is least far, of those that have something left to do.
    pub(crate) fn next_thread(&self, left: &[u64]) -> Option<usize> {
        let with_work = (0..left.len()).filter(|thread| left[*thread] > 0);
        with_work.min_by_key(|thread| self.threads[*thread].now)
    }

    /// This thread executes from now on.
    pub(crate) fn switch_to(&mut self, thread: usize) {
        self.current = thread;
    }

    /// The thread has executed an instruction. Says whether it had to wait for a page.
    pub(crate) fn step(&mut self) -> bool {
        let thread = &mut self.threads[self.current];
        thread.now += self.instruction;
        let is_full = thread.due.len() >= self.most;
        if is_full {
            let first = thread.due.iter().min().copied();
            thread.now = thread.now.max(first.unwrap_or(thread.now));
        }
        if is_full || thread.due.len() * 2 >= self.most {
            let now = thread.now;
            thread.due.retain(|due| *due > now);
        }
        is_full
    }

    /// Takes a command of the firmware.
    pub(super) fn take(&mut self, command: NandCommand) {
        let at = self.threads[self.current].now;
        let operation = match command.op {
            NandOp::Read { ppa } => Operation::Read(ppa),
            NandOp::Program { ppa, .. } => Operation::Program(ppa),
            NandOp::Erase { block } => Operation::Erase(block),
        };
        let end = if self.nand.is_split() {
            self.nand.submit_split(at, operation, command.is_compaction)
        } else {
            let unit = self.nand.unit_of(operation.block(self.nand.geometry()));
            let free = &mut self.free[unit as usize];
            *free = at.max(*free) + self.nand.service_time(operation.kind());
            *free
        };
        if matches!(operation, Operation::Read(_)) {
            self.first_read.get_or_insert(end);
        }
    }

    /// A request is about to be made.
    pub(super) fn begin(&mut self) {
        self.first_read = None;
    }

    /// The request for this page was a miss, whose read was the first.
    pub(super) fn missed(&mut self, lpa: Lpa) {
        if let Some(end) = self.first_read {
            self.arrivals[lpa.get() as usize] = end;
        }
    }

    /// Whether the page is on its way.
    pub(super) fn awaits(&self, lpa: Lpa) -> bool {
        self.arrivals[lpa.get() as usize] > self.threads[self.current].now
    }

    /// The access waits for this page.
    pub(super) fn wait_for(&mut self, lpa: Lpa) {
        let due = self.arrivals[lpa.get() as usize];
        self.threads[self.current].due.push(due);
    }
}
