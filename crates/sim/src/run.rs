//! A run from its description to its result.

mod filters;
mod guest;
mod mode;
mod recorded;
mod steady;
mod windows;

pub use filters::Filters;
pub use guest::Guest;
use guest::{split_co_run, trace_name};
pub use mode::Mode;
pub use steady::SteadyWindows;
pub use windows::Windows;

use crate::config::{Config, Fidelity, Layer, MemoryKind, OtherPages, presets};
use crate::error::SimError;
use crate::fabric::Addresses;
use crate::in_loop::{self, DeviceSource};
use crate::result::RunResult;
use crate::simulation::{Progress, Simulation};
use dram::Mapping;
use host::os::ThreadOrigin;
use host::thread::TracedThread;
use host::{FilteredThread, HostLine, PageNumbering, PageNumbers, SimulatedThread};
use inloop::Tape;
use std::sync::Arc;
use trace::TraceFile;
use units::{Bytes, PageSize, Ratio};

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The capture's file, or several with `+` between: programs that run together (D3).
    pub trace: String,
    /// A machine preset.
    pub machine: String,
    /// A design preset.
    pub design: String,
    /// A NAND preset.
    pub nand: Option<String>,
    /// The fidelity switches that are on.
    pub fidelity: Fidelity,
    /// TOML files: name and text.
    pub files: Vec<(String, String)>,
    /// `section.key=value`.
    pub overrides: Vec<String>,
    /// How many threads take part, the busiest first; all of them if none is said.
    pub threads: Option<u32>,
    /// Whether invariants are checked on the way.
    pub is_audited: bool,
    /// How the cores are simulated.
    pub mode: Mode,
}

impl RunSpec {
    /// The effective configuration.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn config(&self) -> Result<Config, SimError> {
        Config::from_layers(&self.layers()?)
    }

    /// The effective configuration of a device without a host.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn device_config(&self) -> Result<Config, SimError> {
        Config::of_device(&self.layers()?)
    }

    /// The keys that files and `--set` give and the design does not read, in order.
    ///
    /// # Errors
    /// As [`RunSpec::config`].
    pub fn unread_keys(&self) -> Result<Vec<String>, SimError> {
        let config = self.config()?;
        let mut chosen: Vec<String> = Vec::new();
        for (_, text) in &self.files {
            let table: toml::Table = text.parse().unwrap_or_default();
            chosen.extend(settings::values(&table).into_iter().map(|(key, _)| key));
        }
        let keys = self.overrides.iter().filter_map(|set| set.split_once('='));
        chosen.extend(keys.map(|(key, _)| key.trim().to_string()));
        chosen.sort_unstable();
        chosen.dedup();
        chosen.retain(|key| !config.reads(key));
        Ok(chosen)
    }

    fn layers(&self) -> Result<Vec<Layer>, SimError> {
        let mut layers = presets::layers(&self.machine, self.nand.as_deref(), &self.design)?;
        layers.extend(self.fidelity.layers(self.nand.as_deref()));
        layers.extend(self.files.iter().map(|(name, text)| Layer::new(name, text)));
        for assignment in &self.overrides {
            layers.push(Layer::assignment(assignment)?);
        }
        Ok(layers)
    }
}

/// A run that has been checked and can start.
pub struct Prepared {
    spec: RunSpec,
    config: Config,
    guests: Vec<Guest>,
    filters: Arc<Filters>,
}

impl Prepared {
    /// Checks everything that can be checked before a run.
    ///
    /// # Errors
    /// The configuration, the captures, or the two together cannot be used.
    pub fn new(spec: RunSpec) -> Result<Self, SimError> {
        let open = |path: &str| TraceFile::open(path).map_err(|e| SimError::Trace(e.to_string()));
        let paths = split_co_run(&spec.trace).into_iter();
        let traces = paths.map(open).collect::<Result<_, _>>()?;
        Self::with_traces(spec, traces)
    }

    /// As [`Prepared::new`], with a capture that is already open.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn with_trace(spec: RunSpec, trace: TraceFile) -> Result<Self, SimError> {
        Self::with_traces(spec, vec![trace])
    }

    /// As [`Prepared::new`], with captures that are already open, in the order of `spec.trace`.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub fn with_traces(spec: RunSpec, traces: Vec<TraceFile>) -> Result<Self, SimError> {
        let config = spec.config()?;
        let names = split_co_run(&spec.trace).into_iter().map(trace_name);
        let guests = Guest::place(
            names.zip(traces).collect(),
            spec.threads,
            config.cpu.page_size,
        )?;
        let run = Self {
            spec,
            config,
            guests,
            filters: Arc::default(),
        };
        mode::check(&run)?;
        check_footprint(&run.config, run.page_count(), &run.trace_name())?;
        Ok(run)
    }

    /// The effective configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The programs.
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// Instructions of the threads that take part, warm-up included.
    pub fn instruction_count(&self) -> u64 {
        self.counts().iter().sum()
    }

    fn counts(&self) -> Vec<u64> {
        self.guests.iter().flat_map(Guest::counts).collect()
    }

    /// Instructions of each thread up to a share of what of it can be measured.
    fn up_to(&self, share: Ratio) -> Vec<u64> {
        let guests = self.guests.iter();
        guests.flat_map(|guest| guest.up_to(share)).collect()
    }

    /// Instructions of each thread that warm.
    fn warm_up(&self) -> Vec<u64> {
        self.up_to(self.config.run.warmup)
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.guests.iter().map(Guest::page_count).sum()
    }

    /// Runs. The result depends on the captures, the configuration and nothing else.
    ///
    /// # Errors
    /// Interrupted by the observer, or nothing can happen any more.
    pub fn execute(
        &self,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<RunResult, SimError> {
        match self.spec.mode {
            Mode::Detailed => self.finish(self.start(), observe),
            Mode::Fast => self.finish(self.start_fast(observe)?, observe),
        }
    }

    /// Whether a device of its own can be the device of this run.
    ///
    /// # Errors
    /// Why not.
    pub fn check_on_device(&self) -> Result<(), SimError> {
        match in_loop::obstacles_on_device(&self.config) {
            problems if problems.is_empty() => Ok(()),
            problems => Err(SimError::Config(problems)),
        }
    }

    /// As [`Prepared::execute`], on a device whose answers come from elsewhere: also gives the
    /// times of its work if they were measured.
    ///
    /// # Errors
    /// As [`Prepared::execute`]; the device cannot be used, or there is no going on with it.
    pub fn execute_on(
        &self,
        source: &DeviceSource,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(RunResult, Option<Tape>), SimError> {
        let obstacles = in_loop::obstacles(&self.config, source);
        if !obstacles.is_empty() {
            return Err(SimError::Config(obstacles));
        }
        match self.spec.mode {
            Mode::Detailed => self.finish_on(self.start(), source, observe),
            Mode::Fast => self.finish_on(self.start_fast(observe)?, source, observe),
        }
    }

    fn finish_on<S: SimulatedThread + Clone>(
        &self,
        mut simulation: Simulation<S>,
        source: &DeviceSource,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(RunResult, Option<Tape>), SimError> {
        let numbers: Vec<u64> = match &simulation.numbers {
            Some(numbers) => numbers.all().collect(),
            None => Vec::new(),
        };
        let fabric = &mut simulation.fabric;
        fabric.attach(&self.config, self.page_count(), &numbers, source)?;
        let warmed = simulation.warm_up(&self.warm_up(), observe)?;
        let end = simulation.run(observe)?;
        let tape = simulation.fabric.end_in_loop(&self.config)?;
        simulation.audit(end);
        let result = RunResult::new(self, &simulation, warmed, end);
        let device = in_loop::described(&self.config, source, tape.as_ref());
        let result = match device {
            Some(device) => result.on_device(device, in_loop::warning(source)),
            None => result,
        };
        Ok((result, tape))
    }

    fn finish<S: SimulatedThread + Clone>(
        &self,
        mut simulation: Simulation<S>,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<RunResult, SimError> {
        let warmed = simulation.warm_up(&self.warm_up(), observe)?;
        let end = simulation.run(observe)?;
        simulation.audit(end);
        Ok(RunResult::new(self, &simulation, warmed, end))
    }

    /// Filters the threads that no run has filtered yet; else the fast mode does when it runs.
    ///
    /// # Errors
    /// Interrupted by the observer.
    pub fn filter(&self, observe: &mut dyn FnMut(Progress) -> bool) -> Result<(), SimError> {
        self.start_fast(observe).map(drop)
    }

    /// Shares filtered threads with other runs, in the fast mode.
    #[must_use]
    pub fn sharing(self, filters: Arc<Filters>) -> Self {
        Self { filters, ..self }
    }

    /// The simulation of the fast mode, at its start and cold; threads that no run has filtered yet
    /// are filtered.
    fn start_fast(
        &self,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Simulation<FilteredThread>, SimError> {
        let mut threads = Vec::new();
        for guest in &self.guests {
            threads.extend(self.filters.threads(guest, &self.config, observe)?);
        }
        Ok(self.simulation(threads))
    }

    /// The simulation, at its start and cold.
    pub fn start(&self) -> Simulation<TracedThread> {
        let threads = self
            .guests
            .iter()
            .flat_map(|guest| guest.sources(&self.config))
            .collect();
        self.simulation(threads)
    }

    /// The captures' own numbers of the pages, with `cpu.page_numbers = virtual`.
    pub(crate) fn page_numbers(&self) -> Option<PageNumbers> {
        (self.config.cpu.page_numbers == PageNumbering::Virtual).then(|| {
            let numbers = self.guests.iter().flat_map(Guest::page_numbers);
            PageNumbers::new(numbers.collect())
        })
    }

    fn simulation<S: SimulatedThread>(&self, threads: Vec<(S, ThreadOrigin)>) -> Simulation<S> {
        let is_audited = self.spec.is_audited;
        let mut simulation = Simulation::new(&self.config, self.page_count(), threads, is_audited);
        if let Some(numbers) = self.page_numbers() {
            simulation.number_pages(numbers);
        }
        if self.config.host_dram.mapping == Mapping::Rows {
            let mut addresses = Addresses::default();
            self.guests
                .iter()
                .for_each(|guest| guest.add_to(&mut addresses));
            simulation.fabric.host_dram.place_at(addresses);
        }
        simulation
    }

    /// The capture's name: its file name without the suffix; of a co-run, all with `+` between.
    pub fn trace_name(&self) -> String {
        let names: Vec<&str> = self
            .guests
            .iter()
            .map(|guest| guest.name.as_str())
            .collect();
        names.join("+")
    }

    /// The design's name.
    pub fn design(&self) -> &str {
        &self.spec.design
    }

    /// How the cores are simulated.
    pub fn mode(&self) -> Mode {
        self.spec.mode
    }

    /// Names of the fidelity switches that are on.
    pub fn fidelity(&self) -> Vec<&'static str> {
        self.spec.fidelity.names()
    }

    /// Threads that take part.
    pub fn thread_count(&self) -> usize {
        self.guests.iter().map(Guest::thread_count).sum()
    }
}

fn check_footprint(config: &Config, pages: u64, name: &str) -> Result<(), SimError> {
    if pages > HostLine::MAX_DATA_PAGES {
        return Err(SimError::Mismatch(format!(
            "{name}: the footprint of {pages} pages is beyond the {} pages that can be simulated",
            HostLine::MAX_DATA_PAGES
        )));
    }
    if config.design.memory == MemoryKind::Dram {
        return Ok(());
    }
    let exported = config.ftl.exported_pages(&config.geometry());
    if pages > exported {
        let size = |pages: u64| Bytes::new(pages * PageSize::KIB_4.bytes().get());
        return Err(SimError::Mismatch(format!(
            "{name}: the footprint of {} ({pages} pages) is larger than the device, which exports \
             {}; use --machine table2 or a larger nand section",
            size(pages),
            size(exported)
        )));
    }
    // Those of others begin at a multiple of the sets.
    let frames = config.ssd.dram / PageSize::KIB_4.bytes();
    if config.run.other_pages != OtherPages::None && pages + 2 * frames > exported {
        return Err(SimError::Mismatch(format!(
            "{name}: behind the footprint of {pages} pages the device has no room for \
             run.other_pages; leave it out, or use --machine table2 or a larger nand section"
        )));
    }
    Ok(())
}
