//! The programs of a run: one capture, or several in disjoint address spaces (D3).

use crate::config::Config;
use crate::error::SimError;
use crate::fabric::Addresses;
use host::os::{EdgePolicy, ThreadOrigin};
use host::thread::{Origin, TracedThread};
use host::{MappedPage, Program};
use std::path::Path;
use std::sync::Arc;
use trace::{Thread, TraceFile};
use units::address::LINE_BYTES;
use units::{Lpa, PageSize, Ratio, ThreadId};

/// A capture and where it lies in the run.
pub struct Guest {
    /// The capture's name: its file name without directories and suffix.
    pub name: String,
    trace: TraceFile,
    origin: Origin,
    first_code_line: u32,
    /// Which threads take part.
    present: Vec<bool>,
}

impl Guest {
    /// Lays captures, mapped in such pages, one behind the other; of each, the `wanted` busiest
    /// threads take part.
    ///
    /// # Errors
    /// If a capture has fewer threads than wanted, or they do not fit in the run's name spaces.
    pub fn place(
        captures: Vec<(String, TraceFile)>,
        wanted: Option<u32>,
        mapped: MappedPage,
    ) -> Result<Vec<Self>, SimError> {
        let (mut page, mut thread, mut code_line) = (0, 0, 0);
        let mut guests = Vec::with_capacity(captures.len());
        for (name, trace) in captures {
            let present = choose_threads(trace.threads(), wanted, &name)?;
            let trace = match mapped {
                MappedPage::Kib4 => trace,
                MappedPage::Mib2 => trace.in_huge_pages(),
            };
            let page_count = trace.page_count();
            let threads = u32::try_from(trace.threads().len()).expect("thread numbers are 32 bits");
            let lines = code_lines(&trace);
            guests.push(Self {
                name,
                trace,
                origin: Origin {
                    page: Lpa::new(page),
                    thread: ThreadId::new(thread),
                },
                first_code_line: code_line,
                present,
            });
            page += page_count;
            thread += threads;
            code_line += lines;
        }
        Ok(guests)
    }

    /// Pages of the device that the capture takes: those of its list, or whole huge pages.
    pub fn page_count(&self) -> u64 {
        self.trace.page_count()
    }

    /// The virtual numbers of the pages that the capture takes, in the run's order.
    pub fn page_numbers(&self) -> Vec<u64> {
        self.trace.page_numbers()
    }

    /// Notes where the capture's pages and lines of code are in the program's address space, behind
    /// those of the captures before.
    pub(super) fn add_to(&self, addresses: &mut Addresses) {
        const LINES: u64 = PageSize::KIB_4.line_count() as u64;
        let pages = self.page_numbers().into_iter();
        addresses.pages.extend(pages.map(|page| page * LINES));
        let first = addresses.code.len();
        addresses
            .code
            .resize(first + code_lines(&self.trace) as usize, 0);
        for inst in self.trace.insts() {
            addresses.code[first + inst.code_line.get() as usize] = inst.pc / LINE_BYTES.get();
        }
    }

    /// Threads that take part.
    pub fn thread_count(&self) -> usize {
        self.present.iter().filter(|present| **present).count()
    }

    /// The run's numbers of the capture's threads.
    pub fn threads(&self) -> std::ops::Range<usize> {
        let first = self.origin.thread.index();
        first..first + self.present.len()
    }

    /// Instructions of each thread; none of a thread that does not take part.
    pub fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        let threads = self.trace.threads().iter().zip(&self.present);
        threads.map(|(thread, present)| if *present { thread.instructions } else { 0 })
    }

    /// Instructions of each thread up to a share of it. A share is of what can be measured: what
    /// only warms comes before it, whatever the share.
    pub fn up_to(&self, share: Ratio) -> impl Iterator<Item = u64> + '_ {
        let warms = &self.trace.provenance().warms;
        self.counts().enumerate().map(move |(thread, count)| {
            let warms = warms.get(thread).map_or(0, |warms| count.min(*warms));
            warms + share.of(count - warms)
        })
    }

    /// Instructions beyond the first `share` of each thread.
    pub fn measured(&self, share: Ratio) -> u64 {
        let left = self.counts().zip(self.up_to(share));
        left.map(|(count, before)| count - before).sum()
    }

    /// What names the capture's content.
    pub(super) fn content(&self) -> String {
        let (trace, origin) = (&self.trace, self.origin);
        let counts: Vec<u64> = trace.threads().iter().map(|t| t.instructions).collect();
        format!(
            "{:08x} {counts:?} {} {origin:?} {}",
            trace.checksum(),
            trace.page_count(),
            self.first_code_line,
        )
    }

    /// Whether the capture writes cache lines back.
    pub(super) fn writes_back(&self) -> bool {
        Program::new(self.trace.insts(), self.first_code_line).writes_back()
    }

    /// The threads as a simulation takes them.
    pub fn sources(&self, config: &Config) -> Vec<(TracedThread, ThreadOrigin)> {
        let insts = self.trace.insts();
        let program = Program::new(insts, self.first_code_line).for_cores(insts, &config.cpu);
        let program = Arc::new(program);
        let threads = self.trace.threads().iter().zip(&self.present);
        threads
            .map(|(thread, present)| {
                let cursor = self.trace.cursor(thread.id);
                let source = TracedThread::new(cursor, Arc::clone(&program), self.origin);
                let source = match config.os.edges {
                    EdgePolicy::Replayed => source,
                    EdgePolicy::Ignored => source.ignoring_edges(),
                };
                let source = match config.cpu.split_accesses {
                    true => source,
                    false => source.in_one_line(),
                };
                let origin = match (present, thread.parent) {
                    (false, _) => ThreadOrigin::Absent,
                    (true, None) => ThreadOrigin::First,
                    (true, Some(parent)) => ThreadOrigin::CreatedBy(self.origin.thread(parent)),
                };
                (source, origin)
            })
            .collect()
    }
}

/// Lines of code that the capture names.
fn code_lines(trace: &TraceFile) -> u32 {
    let last = trace.insts().iter().map(|inst| inst.code_line.get()).max();
    last.map_or(0, |last| last + 1)
}

/// The file name of a capture without directories and suffix.
pub fn trace_name(path: &str) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The files of a run: `A.etr`, or `A.etr+B.etr` for a co-run. A `+` that is part of an existing
/// file's name is one.
pub fn split_co_run(text: &str) -> Vec<&str> {
    if Path::new(text).exists() {
        vec![text]
    } else {
        text.split('+').collect()
    }
}

/// The busiest threads take part; equally busy ones in the order of their numbers.
fn choose_threads(
    threads: &[Thread],
    wanted: Option<u32>,
    name: &str,
) -> Result<Vec<bool>, SimError> {
    let Some(wanted) = wanted else {
        return Ok(vec![true; threads.len()]);
    };
    let wanted = wanted as usize;
    if wanted == 0 || wanted > threads.len() {
        return Err(SimError::Mismatch(format!(
            "{name}: --threads {wanted} is not between 1 and the {} threads of the capture",
            threads.len()
        )));
    }
    let mut order: Vec<usize> = (0..threads.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(threads[*index].instructions));
    let mut present = vec![false; threads.len()];
    for index in &order[..wanted] {
        present[*index] = true;
    }
    Ok(present)
}
