//! A run from its description to its result.

use crate::config::{Config, Layer, MemoryKind, presets};
use crate::error::SimError;
use crate::result::RunResult;
use crate::simulation::{Progress, Simulation};
use host::HostLine;
use host::os::ThreadOrigin;
use host::thread::TracedThread;
use std::path::Path;
use std::sync::Arc;
use trace::{Thread, TraceFile};
use units::{Bytes, PageSize};

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The capture's file.
    pub trace: String,
    /// A machine preset.
    pub machine: String,
    /// A design preset.
    pub design: String,
    /// A NAND preset.
    pub nand: Option<String>,
    /// TOML files: name and text.
    pub files: Vec<(String, String)>,
    /// `section.key=value`.
    pub overrides: Vec<String>,
    /// How many threads take part, the busiest first; all of them if none is said.
    pub threads: Option<u32>,
    /// Whether invariants are checked on the way.
    pub is_audited: bool,
}

impl RunSpec {
    /// The effective configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn config(&self) -> Result<Config, SimError> {
        let mut layers = presets::layers(&self.machine, self.nand.as_deref(), &self.design)?;
        layers.extend(self.files.iter().map(|(name, text)| Layer::new(name, text)));
        for assignment in &self.overrides {
            layers.push(Layer::from_override(assignment)?);
        }
        Config::from_layers(&layers)
    }
}

/// A run that has been checked and can start.
pub struct Prepared {
    spec: RunSpec,
    config: Config,
    trace: TraceFile,
    /// Which threads take part.
    present: Vec<bool>,
}

impl Prepared {
    /// Checks everything that can be checked before a run.
    ///
    /// # Errors
    /// The configuration, the capture, or the two together cannot be used.
    pub fn new(spec: RunSpec) -> Result<Self, SimError> {
        let trace = TraceFile::open(&spec.trace).map_err(|e| SimError::Trace(e.to_string()))?;
        Self::with_trace(spec, trace)
    }

    /// As [`Prepared::new`], with a capture that is already open.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn with_trace(spec: RunSpec, trace: TraceFile) -> Result<Self, SimError> {
        let config = spec.config()?;
        let name = trace_name(&spec.trace);
        check_footprint(&config, &trace, &name)?;
        let present = choose_threads(trace.threads(), spec.threads, &name)?;
        Ok(Self {
            spec,
            config,
            trace,
            present,
        })
    }

    /// The effective configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Instructions of the threads that take part, warm-up included.
    pub fn instruction_count(&self) -> u64 {
        self.counts().iter().sum()
    }

    fn counts(&self) -> Vec<u64> {
        let threads = self.trace.threads().iter().zip(&self.present);
        threads
            .map(|(thread, present)| if *present { thread.instructions } else { 0 })
            .collect()
    }

    /// Runs. The result depends on the capture, the configuration and nothing else.
    ///
    /// # Errors
    /// Interrupted by the observer, or nothing can happen any more.
    pub fn execute(
        &self,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<RunResult, SimError> {
        let mut simulation = self.start();
        let warmed = simulation.warm_up(self.config.run.warmup, &self.counts(), observe)?;
        let end = simulation.run(observe)?;
        simulation.audit(end);
        Ok(RunResult::new(self, &simulation, warmed, end))
    }

    /// The simulation, at its start and cold.
    pub fn start(&self) -> Simulation<TracedThread> {
        let program = Arc::new(host::Program::new(self.trace.insts(), 0));
        let threads = self.trace.threads().iter().zip(&self.present);
        let threads = threads
            .map(|(thread, present)| {
                let source = TracedThread::new(
                    self.trace.cursor(thread.id),
                    Arc::clone(&program),
                    units::Lpa::new(0),
                );
                let origin = match (present, thread.parent) {
                    (false, _) => ThreadOrigin::Absent,
                    (true, None) => ThreadOrigin::First,
                    (true, Some(parent)) => ThreadOrigin::CreatedBy(parent),
                };
                (source, origin)
            })
            .collect();
        let page_count = self.trace.pages().len() as u64;
        Simulation::new(&self.config, page_count, threads, self.spec.is_audited)
    }

    /// The capture's name: its file name without the suffix.
    pub fn trace_name(&self) -> String {
        trace_name(&self.spec.trace)
    }

    /// The design's name.
    pub fn design(&self) -> &str {
        &self.spec.design
    }

    /// Threads that take part.
    pub fn thread_count(&self) -> usize {
        self.present.iter().filter(|present| **present).count()
    }
}

/// The file name of a capture without directories and suffix.
pub fn trace_name(path: &str) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

fn check_footprint(config: &Config, trace: &TraceFile, name: &str) -> Result<(), SimError> {
    let pages = trace.pages().len() as u64;
    if pages > HostLine::MAX_DATA_PAGES {
        return Err(SimError::Mismatch(format!(
            "{name}: the footprint of {pages} pages is beyond the {} pages that can be simulated",
            HostLine::MAX_DATA_PAGES
        )));
    }
    if config.design.memory == MemoryKind::Dram {
        return Ok(());
    }
    let exported = config.ftl.exported_pages(&config.nand.geometry());
    if pages > exported {
        let size = |pages: u64| Bytes::new(pages * PageSize::KIB_4.bytes().get());
        return Err(SimError::Mismatch(format!(
            "{name}: the footprint of {} ({pages} pages) is larger than the device, which exports \
             {}; use --machine table2 or a larger nand section",
            size(pages),
            size(exported)
        )));
    }
    Ok(())
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
