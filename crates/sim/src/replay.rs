//! The device alone: firmware, flash and device DRAM without a host model.
//!
//! A source gives requests (a synthetic pattern or a block trace), the engine hands them to the
//! firmware through its line port or its block port, keeps the order that the firmware asks for,
//! and measures each from arrival to answer. Closed loop: a fixed number of requests is under way,
//! each answer brings the next. Open loop: requests arrive at the times of the trace, whatever the
//! device does. See `docs/replay.md`.

mod engine;
mod pattern;
mod result;
mod source;
mod words;
mod workload;
mod zipf;

pub use pattern::Pattern;
pub use result::ReplayResult;
pub use workload::{Arrivals, Input, Port, Synthetic, WorkingSet, Workload};

use crate::config::{Config, MemoryKind, Migration};
use crate::error::SimError;
use crate::in_loop::DeviceSource;
use crate::run::RunSpec;
use ::firmware::FirstWrite;
use engine::Engine;
use inloop::Tape;
use source::Source;
use units::Bytes;

/// What the user asks for.
#[derive(Clone, Debug)]
pub struct ReplaySpec {
    /// Machine, design and parameters; `trace` is the name of the result, `threads` is not used.
    pub run: RunSpec,
    /// What is asked of the device.
    pub workload: Workload,
}

/// How far a replay is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Whether measurement has begun.
    pub is_measured: bool,
    /// Requests completed since the start, warm-up included.
    pub requests: u64,
    /// Simulated time.
    pub at: units::Time,
}

/// A replay that has been checked and can start.
pub struct Replay {
    spec: ReplaySpec,
    config: Config,
}

impl Replay {
    /// Checks everything that can be checked before a run.
    ///
    /// # Errors
    /// The configuration, the workload, or the two together cannot be used.
    pub fn new(spec: ReplaySpec) -> Result<Self, SimError> {
        let config = spec.run.device_config()?;
        if config.design.memory == MemoryKind::Dram {
            return Err(SimError::Mismatch(format!(
                "design {} has no device to replay on; choose another one",
                spec.run.design
            )));
        }
        let replay = Self { spec, config };
        // Opens the input once, so that a file that is no good is found before the run.
        replay.source()?;
        Ok(replay)
    }

    /// The effective configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What of it the device has, and what recordings of its times name: nobody switches threads or
    /// takes pages over, and there is no program behind whose pages the first write could go.
    pub fn config_of_device(&self) -> Config {
        let mut config = self.config.clone();
        config.design.context_switch = false;
        config.design.migration = Migration::None;
        config.ftl.first_write = FirstWrite::FirstDie;
        config
    }

    /// What is asked of the device.
    pub fn workload(&self) -> &Workload {
        &self.spec.workload
    }

    /// The name of the result: the file's, or that of the pattern.
    pub fn name(&self) -> &str {
        &self.spec.run.trace
    }

    /// The design's name.
    pub fn design(&self) -> &str {
        &self.spec.run.design
    }

    /// Bytes of the device's logical space.
    pub fn capacity(&self) -> Bytes {
        let pages = self.config.ftl.exported_pages(&self.config.geometry());
        self.config.ftl.mapping_unit.bytes() * pages
    }

    fn source(&self) -> Result<Source, SimError> {
        let page = self.config.ftl.mapping_unit;
        let (workload, seed) = (&self.spec.workload, self.config.run.seed);
        Source::open(workload, self.capacity(), page, seed)
    }

    /// Runs. The result depends on the input, the configuration and nothing else.
    ///
    /// # Errors
    /// A record of the input is wrong, or the observer interrupts.
    pub fn execute(
        &self,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<ReplayResult, SimError> {
        Ok(self.execute_on(&DeviceSource::Modelled, observe)?.0)
    }

    /// As [`Replay::execute`], with the firmware's times from elsewhere: also gives them if they
    /// were measured.
    ///
    /// # Errors
    /// As [`Replay::execute`]; the times cannot be had, or there is no going on with them.
    pub fn execute_on(
        &self,
        times: &DeviceSource,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(ReplayResult, Option<Tape>), SimError> {
        let mut engine = Engine::new(self, self.source()?, times)?;
        let tape = engine.run(observe)?;
        let result = ReplayResult::new(self, &engine, times, tape.as_ref());
        Ok((result, tape))
    }
}
