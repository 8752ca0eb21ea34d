//! Filtered threads, kept for the runs to come.

use super::Guest;
use crate::config::Config;
use crate::error::SimError;
use crate::simulation::Progress;
use host::config::L2Victims;
use host::fast::{FilteredThread, Stream, filter};
use host::os::ThreadOrigin;
use host::thread::TracedThread;
use host::{CpuConfig, PageNumbering};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use units::{Bytes, Cycles, Hertz, Time};

/// Memory for filtered threads, in bytes. Beyond it the threads used longest ago are given up; runs
/// that have begun keep theirs.
const MOST_BYTES: usize = 1 << 30;

type Slot = Arc<OnceLock<Arc<Stream>>>;

/// Filtered threads by what they are made of: a capture, a thread, the part of it that warms up,
/// and the cores above L2. Whoever needs one first filters it; others wait for that.
#[derive(Debug, Default)]
pub struct Filters {
    /// The one used last at the end.
    kept: Mutex<Vec<(String, Slot)>>,
}

impl Filters {
    /// The threads of a capture.
    ///
    /// # Errors
    /// Interrupted by the observer, who is asked between threads.
    pub(super) fn threads(
        &self,
        guest: &Guest,
        config: &Config,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Vec<(FilteredThread, ThreadOrigin)>, SimError> {
        let above = above_l2(config);
        let content = guest.content();
        let warmup = guest.up_to(config.run.warmup);
        let sources = guest.sources(config).into_iter().zip(warmup).enumerate();
        let mut jobs: Vec<Job> = sources
            .map(|(thread, ((source, origin), warmup))| {
                let is_present = origin != ThreadOrigin::Absent;
                let key = format!("{content} {is_present} {thread} {warmup} {above}");
                Job {
                    slot: self.slot(key),
                    source,
                    origin,
                    warmup,
                }
            })
            .collect();
        filter_all(&mut jobs, &config.cpu, observe)?;
        Ok(jobs
            .into_iter()
            .map(|job| job.finish(&config.cpu))
            .collect())
    }

    fn slot(&self, key: String) -> Slot {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(name, _)| *name == key);
        let entry = match found {
            Some(at) => kept.remove(at),
            None => (key, Slot::default()),
        };
        let slot = Arc::clone(&entry.1);
        let bytes = |slot: &Slot| slot.get().map_or(0, |stream| stream.bytes());
        let mut total: usize = kept.iter().map(|(_, slot)| bytes(slot)).sum();
        while total > MOST_BYTES && !kept.is_empty() {
            total -= bytes(&kept.remove(0).1);
        }
        kept.push(entry);
        slot
    }
}

/// A thread to be filtered, unless that has been done.
struct Job {
    slot: Slot,
    source: TracedThread,
    origin: ThreadOrigin,
    warmup: u64,
}

impl Job {
    /// Filters the thread, or waits until somebody else has.
    fn filter(&mut self, cpu: &CpuConfig) -> &Arc<Stream> {
        self.slot.get_or_init(|| {
            Arc::new(match self.origin {
                ThreadOrigin::Absent => Stream::default(),
                _ => filter(&mut self.source, cpu, self.warmup),
            })
        })
    }

    fn finish(mut self, cpu: &CpuConfig) -> (FilteredThread, ThreadOrigin) {
        let program = self.source.shared_program();
        let stream = Arc::clone(self.filter(cpu));
        (FilteredThread::new(stream, program), self.origin)
    }
}

/// Filters threads on all processors: none needs what another one comes to. Only this thread asks
/// the observer, after each of those that it filters itself.
fn filter_all(
    jobs: &mut [Job],
    cpu: &CpuConfig,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<(), SimError> {
    let new = jobs.iter().filter(|job| job.slot.get().is_none()).count();
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let left = Mutex::new(jobs.iter_mut());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let is_interrupted = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 1..processors.min(new) {
            scope.spawn(|| {
                while !is_interrupted.load(Ordering::Relaxed)
                    && let Some(job) = next()
                {
                    job.filter(cpu);
                }
            });
        }
        while let Some(job) = next() {
            job.filter(cpu);
            let goes_on = observe(Progress {
                is_measured: false,
                instructions: 0,
                at: Time::ZERO,
            });
            if !goes_on {
                is_interrupted.store(true, Ordering::Relaxed);
                return Err(SimError::Interrupted);
            }
        }
        Ok(())
    })
}

/// The parameters that decide what a filter writes, as text: all of the cores but those named here,
/// which it does not read, so that a new one counts until it is named.
fn above_l2(config: &Config) -> String {
    let none = Cycles::new(0);
    let read = CpuConfig {
        clock: Hertz::new(0),
        cores: 0,
        load_queue: 0,
        store_queue: 0,
        l1d_mshrs: 0,
        l2: Bytes::ZERO,
        l2_ways: 0,
        l2_mshrs: 0,
        store_grants: 0,
        l3: Bytes::ZERO,
        l3_ways: 0,
        l3_latency: none,
        l3_hop: none,
        l3_interval: none,
        l3_mshrs: 0,
        memory_latency: none,
        page_numbers: PageNumbering::Canonical,
        l2_victims: L2Victims::Written,
        ..config.cpu.clone()
    };
    format!("{read:?} {:?}", config.os.edges)
}
