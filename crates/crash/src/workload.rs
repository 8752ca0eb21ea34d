//! Workloads by chance: steps with much of what is hard.

use crate::device::Device;
use crate::power_cutter::InFlight;
use crate::step::Step;
use units::{DieId, Stream, TxId};

/// Of how many calls of the firmware on full flash one is cut. A prime, as much of what it does
/// comes in turns.
const FULL_ONE_OF: u32 = 59;

/// A device and what is done with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The device.
    pub device: Device,
    /// In order.
    pub steps: Vec<Step>,
}

impl Workload {
    /// The workload of a seed, on a device of its own.
    pub fn random(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash");
        let device = Device::random(&mut random);
        Draw::new(random, &device).workload(device, step_count)
    }

    /// The workload of a seed in campaigns, and of how many calls of the firmware one is cut: of
    /// six, two are on flash that fails, one on flash that is full, one on a device that nothing
    /// protects when its power goes, every other time of these on flash that fails. Every other
    /// time of one of the rest transactions reserve room, and of the other few pages are
    /// rewritten, pages are fetched ahead, the log alone or all frames are protected, or flash
    /// takes hardly anything any more.
    pub fn of_campaign(seed: u64, step_count: usize) -> (Self, u32) {
        match seed % 6 {
            2 | 5 => (Self::on_failing_flash(seed, step_count), 1),
            3 => (Self::unprotected(seed, step_count, seed % 12 == 9), 1),
            // Twenty times as long, and so much thinner that it has as many cuts as the others.
            4 => (Self::on_full_flash(seed, 20 * step_count), FULL_ONE_OF),
            0 if seed % 12 == 6 => (Self::reserving(seed, step_count), 1),
            // Not among the first, by which planted bugs are counted.
            1 if seed > 24 && seed % 24 == 19 => (Self::fetching_ahead(seed, step_count), 1),
            1 if seed % 12 == 7 => (Self::rewriting(seed, step_count), 1),
            1 if seed > 24 && seed % 24 == 13 => {
                (Self::with_safe_log(seed, step_count, seed % 48 == 13), 1)
            }
            1 if seed > 24 && seed % 24 == 1 => match seed / 24 % 3 {
                0 => (Self::at_a_standstill(seed, step_count), 1),
                nth => (Self::with_safe_frames(seed, step_count, nth == 2), 1),
            },
            _ => (Self::random(seed, step_count), 1),
        }
    }

    /// As [`Workload::random`], on a device with transactions, many of which reserve room, on flash
    /// that fails every third time.
    pub fn reserving(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash/reserving");
        let mut device = Device::random(&mut random);
        device.tx_log = device.tx_log.max(2);
        let faults = if random.below(3) == 0 { 2 } else { 0 };
        let most = device.most_open_lines().map_or(0, |most| most as u32);
        let draw = Draw {
            faults,
            most_reserved: most + 1,
            ..Draw::new(random, &device)
        };
        draw.workload(device, step_count)
    }

    /// As [`Workload::random`], but two pages are written through the block port again and again
    /// while programs of them are under way, and read meanwhile: with three buffers and one frame,
    /// from one of several buffers of a page.
    pub fn rewriting(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash/rewriting");
        let device = Device {
            frames: 1,
            buffers: 3,
            ..Device::random(&mut random)
        };
        let mut draw = Draw {
            hot_pages: 2,
            ..Draw::new(random, &device)
        };
        let steps = (0..step_count).map(|_| draw.rewriting_step()).collect();
        Self { device, steps }
    }

    /// As [`Workload::random`], on a device without a battery.
    pub fn unprotected(seed: u64, step_count: usize, has_faults: bool) -> Self {
        let mut random = Stream::new(seed, "crash/unprotected");
        let device = Device::unprotected(&mut random);
        let draw = Draw {
            faults: if has_faults { 2 } else { 0 },
            ..Draw::new(random, &device)
        };
        draw.workload(device, step_count)
    }

    /// As [`Workload::random`], on a device of which the log alone has a battery: pages are written
    /// through the block port whose lines are in the log, and the other way round.
    pub fn with_safe_log(seed: u64, step_count: usize, has_faults: bool) -> Self {
        let mut random = Stream::new(seed, "crash/safe-log");
        let device = Device::with_safe_log(&mut random);
        let draw = Draw {
            faults: if has_faults { 2 } else { 0 },
            hot_pages: 2,
            ..Draw::new(random, &device)
        };
        draw.workload(device, step_count)
    }

    /// As [`Workload::random`], on a device without a log whose frames survive a power cut.
    pub fn with_safe_frames(seed: u64, step_count: usize, has_faults: bool) -> Self {
        let mut random = Stream::new(seed, "crash/safe-frames");
        let device = Device::with_safe_frames(&mut random);
        let draw = Draw {
            faults: if has_faults { 2 } else { 0 },
            flushes: true,
            ..Draw::new(random, &device)
        };
        draw.workload(device, step_count)
    }

    /// On a device that fetches ahead: every page is written, and then pages beside each other are
    /// read and written while others have the buffers, every fourth time on flash that fails.
    pub fn fetching_ahead(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash/ahead");
        let device = Device::fetching_ahead(&mut random);
        let mut draw = Draw {
            faults: if random.below(4) == 0 { 2 } else { 0 },
            ..Draw::new(random, &device)
        };
        let mut steps = draw.fill();
        steps.extend((0..step_count).map(|_| draw.step_beside()));
        Self { device, steps }
    }

    /// Every page is written, and then flash takes hardly anything any more: what is drained does
    /// not get there. On a device without a log whose frames survive, and every third time on any
    /// one.
    pub fn at_a_standstill(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash/standstill");
        let device = match random.below(3) {
            0 => Device::random(&mut random),
            _ => Device::with_safe_frames(&mut random),
        };
        let mut draw = Draw {
            flushes: true,
            ..Draw::new(random, &device)
        };
        let mut steps = draw.fill();
        steps.extend((0..step_count).map(|_| draw.failing_step()));
        Self { device, steps }
    }

    /// On a device whose every page is written, and then again and again all over the place: most
    /// of what it does is to move pages. Every third one has no battery, every other one flash
    /// that fails, if seldom, or in bursts.
    pub fn on_full_flash(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash/full");
        let device = Device::full(&mut random);
        let (faults, bursts) =
            [(0, false), (0, false), (1, false), (0, true)][random.below(4) as usize];
        let mut draw = Draw {
            faults,
            bursts,
            ..Draw::new(random, &device)
        };
        let mut steps = draw.fill();
        steps.extend((0..step_count).map(|_| draw.overwriting_step()));
        Self { device, steps }
    }

    /// As [`Workload::random`], with programs, erases and reads that fail.
    pub fn on_failing_flash(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash/failing");
        let device = Device::random(&mut random);
        // Seldom enough to go on, or so often that blocks run out.
        let faults = if random.below(3) == 0 { 6 } else { 1 };
        let draw = Draw {
            faults,
            ..Draw::new(random, &device)
        };
        draw.workload(device, step_count)
    }

    /// The workload of a seed that uses the block port alone, each page answered from flash.
    pub fn of_pages(seed: u64, step_count: usize) -> Self {
        let mut random = Stream::new(seed, "crash/pages");
        let device = Device {
            ack_programmed: 1,
            ..Device::random(&mut random)
        };
        let draw = Draw {
            has_lines: false,
            ..Draw::new(random, &device)
        };
        draw.workload(device, step_count)
    }
}

struct Draw {
    random: Stream,
    page_lines: u32,
    pages: u32,
    dies: u32,
    hot_pages: u32,
    has_lines: bool,
    has_txs: bool,
    /// Steps of 100 at which an operation fails.
    faults: u32,
    /// Operations fail one after the other, now and then.
    bursts: bool,
    /// Those that are still to fail of a burst.
    to_fail: u32,
    /// Flushes are frequent, since much depends on them.
    flushes: bool,
    /// Transactions that may be under way, and whether anything was written under them.
    txs: [(u32, bool); 3],
    last_tx: u32,
    last_line: u32,
    /// Lines that are reserved at most: one more than there is room for. 0: none are.
    most_reserved: u32,
}

impl Draw {
    fn new(mut random: Stream, device: &Device) -> Self {
        Self {
            page_lines: device.page_lines,
            dies: device.dies,
            hot_pages: 1 + random.below(4) as u32,
            pages: device.page_count() as u32,
            has_lines: true,
            has_txs: device.tx_log > 0,
            faults: 0,
            bursts: false,
            to_fail: 0,
            flushes: device.loses_buffers(),
            txs: [1, 2, 3].map(|tx| (tx, false)),
            last_tx: 3,
            last_line: 0,
            most_reserved: 0,
            random,
        }
    }

    fn workload(mut self, device: Device, step_count: usize) -> Workload {
        let steps = (0..step_count).map(|_| self.step()).collect();
        Workload { device, steps }
    }

    /// Every page is written.
    fn fill(&self) -> Vec<Step> {
        let fill = (0..self.pages).flat_map(|page| {
            let is_through = false;
            [Step::WritePage { page, is_through }, Step::Settle]
        });
        fill.collect()
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.below(bound.into()) as u32
    }

    /// A page: two of three times one of a few.
    fn page(&mut self) -> u32 {
        let pages = match self.below(3) {
            0 => self.pages,
            _ => self.hot_pages.min(self.pages),
        };
        self.below(pages)
    }

    /// A line: one of four times the last one again, so that versions of a line meet in the log.
    fn line(&mut self) -> u32 {
        if self.below(4) > 0 {
            self.last_line = self.page() * self.page_lines + self.below(self.page_lines);
        }
        self.last_line
    }

    fn tx(&mut self) -> TxId {
        let nth = self.below(self.txs.len() as u32);
        let (tx, is_written) = &mut self.txs[nth as usize];
        *is_written = true;
        TxId::new(*tx)
    }

    /// Two of three times a commit, and mostly of what was written. Now and then the name is used
    /// again.
    fn end_tx(&mut self) -> Step {
        let nth = self.below(self.txs.len() as u32) as usize;
        let written = self.txs.iter().position(|(_, is_written)| *is_written);
        let is_any = self.below(8) == 0;
        let nth = written.filter(|_| !is_any).unwrap_or(nth);
        let tx = TxId::new(self.txs[nth].0);
        if self.below(8) > 0 {
            self.last_tx += 1;
            self.txs[nth].0 = self.last_tx;
        }
        self.txs[nth].1 = false;
        match self.below(3) {
            0 => Step::Abort { tx },
            _ => Step::Commit { tx },
        }
    }

    /// Of the lines of a run: every other time one.
    fn count(&mut self) -> u32 {
        match self.below(2) {
            0 => 1,
            _ => 1 + self.below(self.page_lines),
        }
    }

    /// A step on full flash.
    fn overwriting_step(&mut self) -> Step {
        if self.bursts && self.below(500) == 0 {
            self.to_fail = 1 + self.below(12);
        }
        if self.to_fail > 0 && self.below(2) == 0 {
            self.to_fail -= 1;
            let die = DieId::new(self.below(self.dies));
            return Step::Fail { die };
        }
        match self.below(100) {
            0..16 => Step::WritePage {
                page: self.below(self.pages),
                is_through: self.below(4) == 0,
            },
            16 => Step::PowerCut {
                in_flight: InFlight::ALL[self.below(InFlight::ALL.len() as u32) as usize].0,
            },
            17..32 => self.step(),
            32..36 => Step::Ring,
            _ => Step::Finish {
                die: DieId::new(self.below(self.dies)),
            },
        }
    }

    /// A line of the page of the last one, or of the next page.
    fn line_beside(&mut self) -> u32 {
        let page = (self.last_line / self.page_lines + self.below(2)) % self.pages;
        self.last_line = page * self.page_lines + self.below(self.page_lines);
        self.last_line
    }

    /// A step on pages one behind the other.
    fn step_beside(&mut self) -> Step {
        match self.below(100) {
            0..16 => Step::Read {
                line: self.line_beside(),
                count: 1,
            },
            16..40 => Step::Write {
                line: self.line_beside(),
                count: 1,
                tx: TxId::NONE,
            },
            40..54 => Step::WritePage {
                page: self.below(self.pages),
                is_through: false,
            },
            54..74 => Step::Finish {
                die: DieId::new(self.below(self.dies)),
            },
            _ => self.step(),
        }
    }

    /// A step on flash that fails more often than not.
    fn failing_step(&mut self) -> Step {
        match self.below(100) {
            0..24 => Step::Fail {
                die: DieId::new(self.below(self.dies)),
            },
            24..28 => Step::Drain,
            28..34 => Step::Settle,
            _ => self.step(),
        }
    }

    /// A step on pages that are written again before their programs have ended.
    fn rewriting_step(&mut self) -> Step {
        match self.below(100) {
            0..20 => Step::WritePage {
                page: self.page(),
                is_through: self.below(4) == 0,
            },
            20..28 => Step::Read {
                line: self.line(),
                count: self.count(),
            },
            28..36 => Step::ReadPage { page: self.page() },
            36..60 => Step::Finish {
                die: DieId::new(self.below(self.dies)),
            },
            _ => self.step(),
        }
    }

    /// Room for a transaction that has mostly not begun: mostly for a few lines.
    fn reserve(&mut self) -> Step {
        let new = self.txs.iter().position(|(_, is_written)| !is_written);
        let nth = new.unwrap_or_else(|| self.below(self.txs.len() as u32) as usize);
        self.txs[nth].1 = true;
        let most = match self.below(4) {
            0 => self.most_reserved,
            _ => self.most_reserved.min(2 * self.page_lines),
        };
        Step::Reserve {
            tx: TxId::new(self.txs[nth].0),
            lines: 1 + self.below(most),
        }
    }

    fn step(&mut self) -> Step {
        if self.most_reserved > 0 && self.below(8) == 0 {
            return self.reserve();
        }
        match self.below(100) {
            0..14 if self.has_lines => Step::Write {
                line: self.line(),
                count: self.count(),
                tx: TxId::NONE,
            },
            14..27 if self.has_lines && self.has_txs => Step::Write {
                line: self.line(),
                count: self.count(),
                tx: self.tx(),
            },
            27..32 if self.has_lines && self.has_txs => self.end_tx(),
            14..22 if self.has_lines => Step::Write {
                line: self.line(),
                count: self.count(),
                tx: TxId::NONE,
            },
            0..40 => Step::WritePage {
                page: self.page(),
                is_through: self.below(4) == 0,
            },
            40..42 => Step::Trim { page: self.page() },
            42 if self.flushes => Step::Flush,
            42..46 => Step::Read {
                line: self.line(),
                count: self.count(),
            },
            46..50 => Step::ReadPage { page: self.page() },
            50 => Step::Drain,
            51 => Step::Flush,
            52 => Step::Settle,
            53 => Step::PowerCut {
                in_flight: InFlight::ALL[self.below(InFlight::ALL.len() as u32) as usize].0,
            },
            54..70 => Step::Ring,
            step @ 70..80 if step < 70 + self.faults => Step::Fail {
                die: DieId::new(self.below(self.dies)),
            },
            _ => Step::Finish {
                die: DieId::new(self.below(self.dies)),
            },
        }
    }
}
