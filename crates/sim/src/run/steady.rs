//! Windows that begin in the steady state: the file of misses, the pass of a design through it,
//! and the detailed part.

use super::{Guest, Prepared, RunSpec};
use crate::config::{Config, Migration, WarmAccesses};
use crate::error::SimError;
use crate::result::measured::Measured;
use crate::simulation::{Progress, Simulation};
use crate::steady::caches::Nowhere;
use crate::steady::debt::Debt;
use crate::steady::pass::Pass;
use crate::steady::{MODEL, PARTS, share_before};
use host::config::L2Victims;
use host::thread::TracedThread;
use host::{Balancing, PageNumbering};
use serde_json::{Value, json};
use std::fs::File;
use std::io::BufWriter;
use trace::misses::{MissCount, MissFile, MissHead, MissWriter};
use units::address::LINE_BYTES;
use units::{PageSize, Time};

/// Reads of lines before a window for each line of L3, in which the cores' caches come to hold what
/// they would: a set of so many ways has then been filled this often on average.
const FILLS: u64 = 4;

/// Where windows lie and how long they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SteadyWindows {
    /// The part before which the first window begins.
    pub from: u32,
    /// How many, evenly spaced from there to the end.
    pub count: u32,
    /// By what part of the distance between two windows all of them begin later, in thousandths.
    pub offset_milli: u32,
    /// Instructions of all threads that go before each window in detail and are not measured.
    pub lead: u64,
    /// Instructions of each window, of all threads.
    pub instructions: u64,
}

impl SteadyWindows {
    /// The parts before which the windows begin.
    fn parts(&self) -> Vec<u32> {
        let room = u64::from(PARTS.saturating_sub(self.from));
        let count = u64::from(self.count.max(1));
        let part = |index: u64| {
            let thousandths = index * 1000 + u64::from(self.offset_milli);
            self.from + (room * thousandths / (count * 1000)) as u32
        };
        (0..u64::from(self.count)).map(part).collect()
    }

    /// Parts that each window has at least, before the next one or the end.
    fn room(&self) -> u32 {
        let mut begins = self.parts();
        begins.push(PARTS);
        let each = begins
            .windows(2)
            .map(|pair| pair[1].saturating_sub(pair[0]));
        each.min().unwrap_or(0)
    }
}

impl Prepared {
    /// What names the file of misses: the captures, the threads that take part, the caches, and the
    /// version of their model.
    pub fn misses_key(&self) -> [u8; 32] {
        let cpu = &self.config.cpu;
        let guests: Vec<String> = self.guests.iter().map(Guest::content).collect();
        let present: Vec<u64> = self.counts();
        let caches = format!(
            "{} {MODEL} {:?} {:?} {:?} {:?} {:?} {PARTS}",
            trace::misses::VERSION,
            (guests, present, cpu.cores, self.config.os.edges),
            (cpu.l1i, cpu.l1i_ways, cpu.l1d, cpu.l1d_ways),
            (cpu.l2, cpu.l2_ways, cpu.l3, cpu.l3_ways),
            (cpu.tlb, cpu.l1_tlb, cpu.l2_tlb, cpu.page_size),
            (cpu.split_accesses, cpu.code_fetch, cpu.page_numbers),
        );
        *blake3::hash(caches.as_bytes()).as_bytes()
    }

    /// Refuses what has no steady state here.
    ///
    /// # Errors
    /// One clause for each obstacle.
    pub fn check_steady(&self) -> Result<(), SimError> {
        self.must_be_detailed("windows of a steady state")?;
        check_config(&self.config)
    }

    /// As [`Prepared::check_steady`], of several designs on the same settings, before any of them
    /// is run; and that windows fit.
    ///
    /// # Errors
    /// The obstacles of the first design that has any, or which windows do not fit.
    pub fn check_steady_of(
        &self,
        designs: &[String],
        windows: SteadyWindows,
    ) -> Result<(), SimError> {
        self.check_steady()?;
        for design in designs {
            let spec = RunSpec {
                design: design.clone(),
                ..self.spec.clone()
            };
            check_config(&spec.config()?)?;
        }
        self.check_steady_windows(windows)
    }

    /// Writes the file of misses: the whole program passes through the cores' caches.
    ///
    /// # Errors
    /// The file cannot be written, or the observer interrupts.
    pub fn write_misses(
        &self,
        path: &str,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        self.check_steady()?;
        let failed = |fault: trace::Fault| SimError::Trace(fault.of(path).to_string());
        let file = File::create(path).map_err(|error| failed(error.into()))?;
        let counts = self.counts();
        let head = MissHead {
            key: self.misses_key(),
            threads: counts.len() as u32,
            lines: self.page_count() * (PageSize::KIB_4.bytes().get() / LINE_BYTES.get()),
        };
        let mut writer = MissWriter::new(BufWriter::new(file), &head).map_err(failed)?;
        let mut simulation = self.start();
        let mut done = vec![0; counts.len()];
        for part in 1..=PARTS {
            let targets = targets(&counts, part);
            simulation.pass_caches(&targets, &mut done, &mut writer, observe)?;
            writer.end_part().map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        Ok(())
    }

    /// Lives through a file of misses on this design and measures windows on the way: what has
    /// happened by each of `looks` evenly spaced moments, and the windows.
    ///
    /// # Errors
    /// The file is of something else or damaged, windows do not fit, or the observer interrupts.
    pub fn execute_steady(
        &self,
        path: &str,
        looks: u32,
        windows: SteadyWindows,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Value, SimError> {
        self.check_steady()?;
        self.check_steady_windows(windows)?;
        let failed = |error: trace::TraceError| SimError::Trace(error.to_string());
        let mut file = MissFile::open(path).map_err(failed)?;
        if file.head().key != self.misses_key() || file.parts().len() != PARTS as usize {
            return Err(SimError::Trace(format!(
                "{path}: holds the misses of another capture or of other caches; remove it and run \
                 the command again"
            )));
        }
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        let parts: Vec<MissCount> = file.parts().collect();
        let begins = windows.parts();
        let mut pass = Pass::new(&self.config, self.start());
        let (mut seen, mut measured) = (Vec::new(), Vec::new());
        for part in 0..=PARTS {
            if part % (PARTS / looks.clamp(1, PARTS)) == 0 {
                seen.push(pass.json(part));
            }
            for index in (0..begins.len()).filter(|index| begins[*index] == part) {
                let first = first_part(&parts, part, self.lines_of_l3());
                let window = self.window(&pass, (first, part), windows, observe)?;
                measured.push(self.window_json(index as u32, part, window));
            }
            if part < PARTS {
                file.each(part as usize, |miss| pass.take(miss))
                    .map_err(failed)?;
            }
            let goes_on = observe(Progress {
                is_measured: false,
                instructions: share_before(part).of(total),
                at: Time::ZERO,
            });
            if !goes_on {
                return Err(SimError::Interrupted);
            }
        }
        pass.fabric.audit();
        Ok(json!({
            "trace": self.trace_name(),
            "design": self.design(),
            "threads": self.thread_count(),
            "seed": self.config.run.seed,
            "placement": self.config.ftl.placement,
            "config_digest": self.config.digest(),
            "instructions": total,
            "pages": self.page_count(),
            "machine": self.machine_json(),
            "pass": seen,
            "windows": measured,
        }))
    }

    fn lines_of_l3(&self) -> u64 {
        self.config.cpu.l3 / LINE_BYTES
    }

    /// What the marks of steadiness are relative to.
    fn machine_json(&self) -> Value {
        let is_ssd = self.config.design.memory == crate::config::MemoryKind::Ssd;
        let ssd = self.config.controller().ssd;
        let mechanisms = self.config.mechanisms();
        // As promotions are counted: a huge page is one.
        let host_pages = self.config.host.promoted / self.config.moved_page().bytes();
        json!({
            "frames": if is_ssd { ssd.frame_count(self.config.ftl.mapping_unit.bytes()) } else { 0 },
            "half_lines": if is_ssd { ssd.log.half_slot_count() } else { 0 },
            "dies": if is_ssd { self.config.geometry().die_count() } else { 0 },
            "pages_per_block": self.config.geometry().units_per_block,
            "host_pages": if mechanisms.migration == Migration::None { 0 } else { host_pages },
            "device_dram_bytes": if is_ssd { self.config.ssd.dram.get() } else { 0 },
            "page_bytes": self.config.ftl.mapping_unit.bytes().get(),
        })
    }

    fn check_steady_windows(&self, windows: SteadyWindows) -> Result<(), SimError> {
        if windows.count == 0 {
            return Ok(());
        }
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        let most = share_before(windows.room()).of(total);
        if windows.lead.saturating_add(windows.instructions) > most {
            return Err(SimError::Mismatch(format!(
                "{}: {} windows of {} instructions, with {} before each, do not fit in the {} \
                 instructions from where they may begin; choose fewer or shorter ones, a smaller \
                 shift, or a longer capture",
                self.trace_name(),
                windows.count,
                windows.instructions,
                windows.lead,
                total - share_before(windows.parts()[0].min(PARTS)).of(total),
            )));
        }
        if quotas(&counts, windows.instructions)
            .iter()
            .all(|quota| *quota == 0)
        {
            return Err(SimError::Mismatch(format!(
                "{}: a window of {} instructions gives none of {} threads an instruction; choose \
                 longer ones",
                self.trace_name(),
                windows.instructions,
                self.thread_count(),
            )));
        }
        Ok(())
    }

    /// The program at a part's beginning, with the caches that it has there and the device of the
    /// pass. The caches live through what is between two parts.
    fn at_part(
        &self,
        pass: &Pass,
        (first, part): (u32, u32),
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Simulation<TracedThread>, SimError> {
        let counts = self.counts();
        let mut simulation = self.start();
        let mut done = targets(&counts, first);
        for (host_thread, done) in simulation.host_threads.iter_mut().zip(&done) {
            if *done > 0 {
                host_thread.source.cursor().seek(*done);
            }
        }
        for next in first + 1..=part {
            let targets = targets(&counts, next);
            simulation.pass_caches(&targets, &mut done, &mut Nowhere, observe)?;
        }
        pass.give_to(&mut simulation);
        simulation.end_warm_up();
        Ok(simulation)
    }

    fn window(
        &self,
        pass: &Pass,
        span: (u32, u32),
        windows: SteadyWindows,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Value, SimError> {
        let mut simulation = self.at_part(pass, span, observe)?;
        let counts = self.counts();
        let mut begin = Time::ZERO;
        if windows.lead > 0 {
            (begin, _) = simulation.run_window(&quotas(&counts, windows.lead), observe)?;
        }
        let before = (
            Measured::of(&simulation, begin),
            Debt::of(&simulation.fabric),
        );
        let quotas = quotas(&counts, windows.instructions);
        let (end, paces) = match windows.lead {
            0 => simulation.run_window(&quotas, observe)?,
            _ => simulation.go_on_window(&quotas, observe)?,
        };
        let after = (Measured::of(&simulation, end), Debt::of(&simulation.fabric));
        simulation.audit(end);
        let pace: Value = (paces.iter().zip(&counts).enumerate())
            .filter(|(_, (_, count))| **count > 0)
            .map(|(thread, (pace, count))| {
                json!({
                    "thread": thread,
                    "instructions": count,
                    "quota": pace.quota,
                    "executed": pace.executed,
                    "active_ps": pace.active.get(),
                })
            })
            .collect();
        let amplified = pass.amplification();
        Ok(json!({
            "pace": pace,
            "counts": after.0.since(&before.0),
            "debt": {
                "begin": before.1.json(&self.config, amplified),
                "end": after.1.json(&self.config, amplified),
            },
        }))
    }

    fn window_json(&self, index: u32, part: u32, mut window: Value) -> Value {
        let fields = window.as_object_mut().expect("a window is an object");
        fields.insert("window".to_string(), json!(index));
        fields.insert("part".to_string(), json!(part));
        window
    }
}

/// Refuses a configuration that has no steady state here.
fn check_config(config: &Config) -> Result<(), SimError> {
    let run = &config.run;
    let migration = config.mechanisms().migration;
    let obstacles = [
        (
            migration == Migration::Tpp,
            "a design whose operating system samples pages (-ct, -wct), whose scans need time",
        ),
        (
            config.numa.balancing == Balancing::HintFaults,
            "numa.balancing = hint_faults, whose scans need time",
        ),
        (run.drain_log, "run.drain_log"),
        (!run.warm_caches, "run.warm_caches = false"),
        (
            run.warm_accesses != WarmAccesses::Misses,
            "run.warm_accesses = all",
        ),
        (run.warm_waits > 0, "run.warm_waits above 0"),
        (
            config.cpu.page_numbers == PageNumbering::Virtual,
            "cpu.page_numbers = virtual",
        ),
        (
            config.cpu.l2_victims == L2Victims::Lost,
            "cpu.l2_victims = lost",
        ),
    ];
    let found = obstacles.iter().filter(|(applies, _)| *applies);
    let found: Vec<&str> = found.map(|(_, what)| *what).collect();
    match found.is_empty() {
        true => Ok(()),
        false => Err(SimError::Config(vec![format!(
            "a steady state cannot be reached with {}; entresol run measures with that",
            found.join(", ")
        )])),
    }
}

/// Each thread's share of so many instructions of all.
fn quotas(counts: &[u64], instructions: u64) -> Vec<u64> {
    let share = units::Ratio::new(instructions, counts.iter().sum::<u64>().max(1));
    counts.iter().map(|count| share.of(*count)).collect()
}

/// How many instructions each thread has done before a part.
fn targets(counts: &[u64], part: u32) -> Vec<u64> {
    let share = share_before(part);
    counts.iter().map(|count| share.of(*count)).collect()
}

/// The latest part from which on, up to `part`, each line of L3 is read often enough to be what it
/// is; the first part if there is none.
fn first_part(parts: &[MissCount], part: u32, lines: u64) -> u32 {
    let mut reads = 0;
    for first in (0..part).rev() {
        reads += parts[first as usize].reads;
        if reads >= FILLS * lines {
            return first;
        }
    }
    0
}
