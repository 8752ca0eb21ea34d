//! How much of a page a program uses while the page is cached (SkyByte §II-C, Figures 5 and 6).
//!
//! A functional walk: threads in turn pass through the caches of their cores, what leaves L3 goes
//! to a page cache with LRU replacement, and each page that leaves it says how many of its lines
//! were used, and how many were written. There is no time in it, and no prefetching.

use crate::error::SimError;
use crate::run::Prepared;
use crate::simulation::Progress;
use host::cache::Victim;
use host::core::Core;
use host::llc::SharedCache;
use host::os::ThreadOrigin;
use host::{CpuConfig, HostLine, InstructionSource, MissKind, Region, WarmUncore};
use serde_json::{Value, json};
use units::{CoreId, LineInPage, Lpa, Time};

/// Instructions of one thread before the next one takes its turn.
const TURN: u64 = 1_000;
/// Lines of a page.
const LINES: usize = 64;
const NONE: u32 = u32::MAX;

/// How many pages used so many of their lines: an element for 0 to 64 lines.
type Histogram = [u64; LINES + 1];

/// A cache of whole pages in front of flash, which counts the lines that are used.
#[derive(Debug)]
pub struct PageUse {
    capacity: usize,
    resident: usize,
    /// Of each page: the next older and next younger one, lines used and lines written.
    pages: Vec<Use>,
    oldest: u32,
    youngest: u32,
    read: Histogram,
    flushed: Histogram,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    older: u32,
    younger: u32,
    used: u64,
    written: u64,
}

const UNUSED: Use = Use {
    older: NONE,
    younger: NONE,
    used: 0,
    written: 0,
};

impl PageUse {
    /// An empty cache of `capacity` pages, at least one, for a footprint of `pages` pages.
    pub fn new(pages: usize, capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            resident: 0,
            pages: vec![UNUSED; pages],
            oldest: NONE,
            youngest: NONE,
            read: [0; LINES + 1],
            flushed: [0; LINES + 1],
        }
    }

    /// A line is read, or written; its page is fetched if it is not there.
    pub fn access(&mut self, page: Lpa, line: LineInPage, is_write: bool) {
        let number = page.get() as u32;
        if self.pages[number as usize].used == 0 {
            if self.resident == self.capacity {
                self.evict();
            }
            self.resident += 1;
        } else {
            self.unlink(number);
        }
        self.append(number);
        let page = &mut self.pages[number as usize];
        let bit = 1 << line.get();
        page.used |= bit;
        page.written |= if is_write { bit } else { 0 };
    }

    fn unlink(&mut self, number: u32) {
        let Use { older, younger, .. } = self.pages[number as usize];
        match older {
            NONE => self.oldest = younger,
            older => self.pages[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.pages[younger as usize].older = older,
        }
    }

    fn append(&mut self, number: u32) {
        let older = std::mem::replace(&mut self.youngest, number);
        self.pages[number as usize].older = older;
        self.pages[number as usize].younger = NONE;
        match older {
            NONE => self.oldest = number,
            older => self.pages[older as usize].younger = number,
        }
    }

    fn evict(&mut self) {
        let number = self.oldest;
        self.unlink(number);
        let page = std::mem::replace(&mut self.pages[number as usize], UNUSED);
        self.resident -= 1;
        self.read[page.used.count_ones() as usize] += 1;
        if page.written != 0 {
            self.flushed[page.written.count_ones() as usize] += 1;
        }
    }

    /// What was counted. Pages that are still there were read as well, but never flushed.
    pub fn finish(mut self) -> (Histogram, Histogram) {
        let flushed = self.flushed;
        while self.resident > 0 {
            self.evict();
        }
        (self.read, flushed)
    }
}

/// What the cores' caches send on, to page caches of several sizes.
struct Watch {
    llc: SharedCache,
    caches: Vec<PageUse>,
    reads: u64,
    writes: u64,
}

impl Watch {
    fn access(&mut self, line: HostLine, is_write: bool) {
        let Region::Data(page, line) = line.region() else {
            return;
        };
        self.reads += u64::from(!is_write);
        self.writes += u64::from(is_write);
        for cache in &mut self.caches {
            cache.access(page, line, is_write);
        }
    }

    fn evict(&mut self, victim: Option<Victim>) {
        if let Some(victim) = victim.filter(|victim| victim.is_dirty) {
            self.access(victim.line, true);
        }
    }
}

impl WarmUncore for Watch {
    fn read(&mut self, _core: CoreId, line: HostLine, _kind: MissKind) {
        let (was_hit, victim) = self.llc.warm_read(line);
        self.evict(victim);
        if !was_hit {
            self.access(line, false);
        }
    }

    fn write_back(&mut self, _core: CoreId, line: HostLine) {
        let victim = self.llc.write_back(line);
        self.evict(victim);
    }

    fn persist(&mut self, _core: CoreId, line: HostLine, is_dirty: bool) {
        if self.llc.clean(line) || is_dirty {
            self.access(line, true);
        }
    }
}

impl Prepared {
    /// Walks through the whole capture, with page caches of the footprint divided by each of
    /// `ratios`, and gives their histograms as JSON.
    ///
    /// # Errors
    /// Interrupted by the observer.
    pub fn page_locality(
        &self,
        ratios: &[u32],
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Value, SimError> {
        let pages = self.page_count() as usize;
        let size = |ratio: u32| pages / ratio.max(1) as usize;
        let caches = ratios.iter().map(|ratio| PageUse::new(pages, size(*ratio)));
        let mut llc = SharedCache::new(&self.config().cpu);
        if let Some(numbers) = self.page_numbers() {
            llc.number_pages(&numbers);
        }
        let mut watch = Watch {
            llc,
            caches: caches.collect(),
            reads: 0,
            writes: 0,
        };
        self.walk(&mut watch, observe)?;
        let caches = ratios.iter().zip(watch.caches);
        let caches = caches.map(|(ratio, cache)| {
            let pages = cache.capacity;
            let (read, flushed) = cache.finish();
            json!({
                "ratio": ratio,
                "cache_pages": pages,
                "read_pages": read.iter().sum::<u64>(),
                "flushed_pages": flushed.iter().sum::<u64>(),
                "lines_used": read.to_vec(),
                "lines_dirty": flushed.to_vec(),
            })
        });
        Ok(json!({
            "footprint_pages": pages,
            "l3_reads": watch.reads,
            "l3_writes": watch.writes,
            "caches": caches.collect::<Value>(),
        }))
    }

    fn walk(
        &self,
        watch: &mut Watch,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let mut cores = cores(&self.config().cpu);
        if let Some(numbers) = self.page_numbers() {
            cores
                .iter_mut()
                .for_each(|core| core.number_pages(&numbers));
        }
        let guests = self.guests().iter();
        let sources = guests.flat_map(|guest| guest.sources(self.config()));
        let present = sources.filter(|(_, origin)| *origin != ThreadOrigin::Absent);
        let mut sources: Vec<_> = present.map(|(source, _)| source).collect();
        let mut is_done = vec![false; sources.len()];
        let mut instructions = 0;
        while is_done.contains(&false) {
            for (thread, source) in sources.iter_mut().enumerate() {
                let host_core = thread % cores.len();
                let executed = turn(source, &mut cores[host_core], watch);
                instructions += executed;
                is_done[thread] = executed < TURN;
            }
            let goes_on = observe(Progress {
                is_measured: true,
                instructions,
                at: Time::ZERO,
            });
            if !goes_on {
                return Err(SimError::Interrupted);
            }
        }
        Ok(())
    }
}

fn cores(config: &CpuConfig) -> Vec<Core> {
    let ids = (0..config.cores as usize).map(CoreId::from_index);
    ids.map(|id| Core::new(id, config)).collect()
}

/// Up to a turn of a thread's instructions; says how many there were.
fn turn<S: InstructionSource>(source: &mut S, core: &mut Core, watch: &mut Watch) -> u64 {
    let mut executed = 0;
    while executed < TURN {
        let Some(step) = source.peek() else { break };
        core.warm(source, watch);
        source.advance();
        executed += u64::from(step.counts);
    }
    executed
}
