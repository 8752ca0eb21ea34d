//! The device in the loop: a firmware process does what the simulated device does, in real time,
//! and its work takes what it was measured to take.
//!
//! Whatever reaches the device goes to the firmware process first. Virtual time stands while it
//! works. It answers with outcome, latency, overhead, flash time, and what each piece of work of
//! its took; the simulated device is given the latter and must then do the same at the same times,
//! or the run ends with a sentence. A recording of these times gives the run once more without a
//! process ([`DeviceSource::Recorded`]). See `docs/loop.md`.

mod believed;
mod bytes;
mod firmware_process;
mod on_drive;
mod partner;
mod values;

pub use believed::SharedLines;
pub use firmware_process::{Fate, Mangle, Served, serve};
pub(crate) use partner::Partner;

use crate::config::{Config, MemoryKind, Migration};
use crate::device::{Device, Resources};
use crate::error::SimError;
use crate::fabric::Fabric;
use ::firmware::{Request, RequestOp, Response};
use believed::Believed;
use inloop::{Answered, Asked, Hello, Host, LoopError, Processor, Reaction, Tape, What};
use serde_json::{Value, json};
use soc::{GivenTimes, Timed};
use std::path::PathBuf;
use std::time::Duration;
use units::{Lpa, Picos, Time};
use values::Values;

/// Where the device's answers come from.
#[derive(Clone, Debug, Default)]
pub enum DeviceSource {
    /// The model, with what the configuration says of the firmware's work.
    #[default]
    Modelled,
    /// A firmware process.
    Loop {
        /// The socket at which it listens.
        socket: PathBuf,
        /// The processor that it is to have.
        processor: Processor,
        /// How long it has for an answer.
        patience: Duration,
    },
    /// A device of its own, as an NVMe device of this machine, which is believed.
    Device(SharedLines),
    /// The model with the times of a run in the loop, or what a device of its own has said.
    Recorded(Tape),
}

impl DeviceSource {
    /// Its name in results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Modelled => "modelled",
            Self::Loop { .. } => "loop",
            Self::Device(_) => "nvme",
            Self::Recorded(_) => "recorded",
        }
    }
}

/// What cannot be done in the loop, as clauses.
pub(crate) fn obstacles(config: &Config, source: &DeviceSource) -> Vec<String> {
    match source {
        DeviceSource::Modelled => Vec::new(),
        DeviceSource::Recorded(tape) if !tape.is_of_device() => Vec::new(),
        DeviceSource::Loop { .. } => refused(config, false),
        DeviceSource::Recorded(_) | DeviceSource::Device(_) => obstacles_on_device(config),
    }
}

/// What cannot be done on a device of its own, as clauses.
pub(crate) fn obstacles_on_device(config: &Config) -> Vec<String> {
    refused(config, true)
}

fn refused(config: &Config, is_device: bool) -> Vec<String> {
    if config.design.memory == MemoryKind::Dram {
        return Vec::new();
    }
    let what = if is_device { "nvme" } else { "loop" };
    let at_once = config.host.migration == host::placement::MigrationKind::Instant;
    let migration = config.mechanisms().migration;
    let by_host = matches!(migration, Migration::Tpp | Migration::HostCache);
    let refused = [
        (config.run.drain_log, "run.drain_log = true; leave it out"),
        (
            config.run.warm_waits > 0,
            "run.warm_waits above 0; leave it out",
        ),
        (
            is_device && by_host,
            "designs whose host moves pages: there is no command of a whole page; choose another",
        ),
        (
            is_device && at_once,
            "host.migration = instant; leave it out",
        ),
    ];
    let refused = refused.into_iter().filter(|(applies, _)| *applies);
    refused
        .map(|(_, clause)| format!("--device {what} cannot do {clause}"))
        .collect()
}

/// What the simulated device did about one command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answered: Vec<Answered>,
    pub(crate) offered: Vec<(Lpa, Time)>,
    pub(crate) arrived: Vec<(Lpa, Time)>,
}

/// Who answers for a fabric's device, if the model does not alone.
#[derive(Debug, Default)]
pub(crate) struct Attached(Option<Behind>);

/// Who answers.
#[derive(Debug)]
pub(crate) enum Behind {
    /// A firmware process, which the simulated device follows.
    Process(Box<InLoop>),
    /// A device of its own; the simulated one does nothing.
    Device(Box<Believed>),
}

impl Clone for Attached {
    /// # Panics
    /// There is one firmware process, in one state: what clones a run is refused in the loop.
    fn clone(&self) -> Self {
        assert!(self.0.is_none(), "a run in the loop is not cloned");
        Self(None)
    }
}

impl Attached {
    #[inline(always)]
    pub(crate) fn get(&mut self) -> Option<&mut InLoop> {
        match &mut self.0 {
            Some(Behind::Process(in_loop)) => Some(in_loop),
            _ => None,
        }
    }

    /// The device of its own, if there is one.
    #[inline(always)]
    pub(crate) fn device(&mut self) -> Option<&mut Believed> {
        match &mut self.0 {
            Some(Behind::Device(device)) => Some(device),
            _ => None,
        }
    }

    /// As [`Attached::device`], to look at.
    #[inline(always)]
    pub(crate) fn believed(&self) -> Option<&Believed> {
        match &self.0 {
            Some(Behind::Device(device)) => Some(device),
            _ => None,
        }
    }

    /// The firmware process does something first; the device takes its times.
    #[cold]
    #[inline(never)]
    pub(crate) fn precede(
        &mut self,
        now: Time,
        what: impl FnOnce(&mut InLoop) -> What,
        device: &mut Device,
    ) {
        if let Some(in_loop) = self.get() {
            in_loop.precede(now, what, device.resources.given_times());
        }
    }

    /// The device has done the same.
    #[cold]
    #[inline(never)]
    pub(crate) fn follow(&mut self, now: Time) {
        if let Some(in_loop) = self.get() {
            in_loop.compare(now);
        }
    }

    /// A request of warm-up goes to the firmware process, too. Says whether a device of its own has
    /// it, of which the simulated one learns nothing.
    #[inline(always)]
    pub(crate) fn warm(&mut self, request: Request) -> bool {
        match &mut self.0 {
            None => false,
            Some(Behind::Process(in_loop)) => {
                let value = in_loop.values.of_request(&request, true);
                in_loop.post(Time::ZERO, What::Warm(asked(&request, value)));
                false
            }
            Some(Behind::Device(device)) => {
                device.warm(&request);
                true
            }
        }
    }

    /// Something that no answer is wanted to.
    #[inline(always)]
    pub(crate) fn tell(&mut self, what: What) {
        if let Some(in_loop) = self.get() {
            in_loop.post(Time::ZERO, what);
        }
    }
}

fn asked(request: &Request, value: u64) -> Asked {
    Asked {
        id: request.id,
        op: request.op,
        line: request.line,
        source: request.source,
        value,
    }
}

/// A run's firmware process and what is known of it.
#[derive(Debug)]
pub(crate) struct InLoop {
    host: Host,
    reaction: Reaction,
    /// What the simulated device did meanwhile.
    pub(crate) seen: Seen,
    values: Values,
    times: Vec<(Timed, Picos)>,
    failure: Option<LoopError>,
}

impl InLoop {
    fn post(&mut self, at: Time, what: What) {
        if self.failure.is_none() {
            self.failure = self.host.post(at, what).err();
        }
    }

    /// The firmware process does something first; the device will take its times.
    fn precede(
        &mut self,
        now: Time,
        what: impl FnOnce(&mut InLoop) -> What,
        given: Option<&mut GivenTimes>,
    ) {
        let what = what(self);
        let times = self.ask(now, what);
        if let Some(given) = given {
            times
                .iter()
                .for_each(|(work, time)| given.give(*work, *time));
        }
    }

    /// Why there is no going on, if so.
    pub(crate) fn failure(&self) -> Option<SimError> {
        let failure = self.failure.as_ref()?;
        Some(SimError::Loop(failure.to_string()))
    }

    /// The run is over: what the process's work took.
    fn end(&mut self, config_digest: [u8; 16]) -> Result<Tape, SimError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        self.host
            .ask(Time::ZERO, What::End, &mut self.reaction)
            .map_err(failed)?;
        Ok(Tape {
            config_digest,
            times: std::mem::take(&mut self.times),
        })
    }

    /// Has the firmware process do it; gives what its work took.
    fn ask(&mut self, at: Time, what: What) -> &[(Timed, Picos)] {
        self.seen.answered.clear();
        self.seen.offered.clear();
        self.seen.arrived.clear();
        if self.failure.is_some() {
            return &[];
        }
        if let Err(failure) = self.host.ask(at, what, &mut self.reaction) {
            self.failure = Some(failure);
            return &[];
        }
        self.times.extend(&self.reaction.times);
        &self.reaction.times
    }

    /// A request arrives: what is written, or nothing.
    pub(crate) fn request(&mut self, request: Request) -> What {
        let value = self.values.of_request(&request, false);
        What::Request(asked(&request, value))
    }

    /// The simulated device has done the same. It must have done it in the same way.
    pub(crate) fn compare(&mut self, at: Time) {
        if self.failure.is_some() {
            return;
        }
        let (reaction, seen) = (&mut self.reaction, &self.seen);
        let problem = self.values.check(&mut reaction.answered).or_else(|| {
            let differs = |what: &str, there: &dyn std::fmt::Debug, here: &dyn std::fmt::Debug| {
                Some(format!(
                    "at {at} the process {what} {there:?} and the simulation {here:?}"
                ))
            };
            if reaction.answered != seen.answered {
                return differs("answers", &reaction.answered, &seen.answered);
            }
            if reaction.offered != seen.offered {
                return differs("offers", &reaction.offered, &seen.offered);
            }
            if reaction.arrived != seen.arrived {
                return differs("tells of", &reaction.arrived, &seen.arrived);
            }
            None
        });
        self.failure = problem.map(LoopError::Differs);
    }

    /// The simulated device answers a request.
    #[cold]
    pub(crate) fn note_response(&mut self, response: &Response) {
        self.seen.answered.push(Answered::of(response, 0));
    }
}

impl Fabric {
    /// From now on the device is this one. Nothing has reached it yet.
    ///
    /// # Errors
    /// There is no such device.
    pub(crate) fn attach(
        &mut self,
        config: &Config,
        pages: u64,
        numbers: &[u64],
        source: &DeviceSource,
    ) -> Result<(), SimError> {
        let Some(device) = self.device.as_mut() else {
            return Ok(());
        };
        let of_device = match source {
            DeviceSource::Device(lines) => {
                Some(Believed::on(config, pages, lines).map_err(SimError::Loop)?)
            }
            DeviceSource::Recorded(tape) if tape.is_of_device() => {
                check_digest(config, tape)?;
                Some(Believed::of_recording(config, &tape.times))
            }
            _ => None,
        };
        self.in_loop = Attached(match of_device {
            Some(believed) => Some(Behind::Device(Box::new(believed))),
            None => attach_to(&mut device.resources, config, pages, numbers, source)?
                .map(Behind::Process),
        });
        Ok(())
    }

    /// Why the device is none to go on with, if so.
    pub(crate) fn device_failure(&mut self) -> Option<SimError> {
        if let Some(in_loop) = self.in_loop.get() {
            let failure = in_loop.failure();
            let given = self.device.as_mut();
            let given = given.and_then(|device| device.resources.given_times());
            return failure.or_else(|| not_as_given(given));
        }
        if let Some(device) = self.in_loop.device() {
            let failure = device.failure()?;
            return Some(SimError::Loop(failure.to_owned()));
        }
        not_of_this_run(self.device.as_mut()?.resources.given_times())
    }

    /// The run is over: the times of its device's work.
    ///
    /// # Errors
    /// Why they are worth nothing.
    pub(crate) fn end_in_loop(&mut self, config: &Config) -> Result<Option<Tape>, SimError> {
        if let Some(failure) = self.device_failure() {
            return Err(failure);
        }
        let config_digest = digest(config);
        if let Some(device) = self.in_loop.device() {
            return match device.left() {
                0 => Ok(Some(Tape {
                    config_digest,
                    times: std::mem::take(&mut device.times),
                })),
                left => Err(too_many(left)),
            };
        }
        let Some(in_loop) = self.in_loop.get() else {
            let given = self.device.as_mut();
            let given = given.and_then(|device| device.resources.given_times());
            return all_taken(given).map(|()| None);
        };
        let given = self.device.as_mut();
        all_done(given.and_then(|device| device.resources.given_times()))?;
        in_loop.end(config_digest).map(Some)
    }
}

/// Which configuration a recording is of.
pub(crate) fn digest(config: &Config) -> [u8; 16] {
    let digest = config.digest();
    digest.as_bytes().try_into().expect("sixteen digits")
}

/// Why given times are not of this run, if so.
fn not_of_this_run(given: Option<&mut GivenTimes>) -> Option<SimError> {
    let failure = given?.failure()?;
    Some(SimError::Loop(format!(
        "the recorded times are not of this run: {failure}; record it anew with --device loop"
    )))
}

/// Why the device has not done the work that the process has, if so.
fn not_as_given(given: Option<&mut GivenTimes>) -> Option<SimError> {
    let failure = given?.failure()?.to_owned();
    Some(failed(LoopError::Differs(failure)))
}

/// The device has done all the work that the process has done.
fn all_done(given: Option<&mut GivenTimes>) -> Result<(), SimError> {
    match given.map_or(0, |given| given.left()) {
        0 => Ok(()),
        left => Err(failed(LoopError::Differs(format!(
            "the process has worked {left} times more than the simulation"
        )))),
    }
}

/// A run that is over has taken all times that it was given.
fn all_taken(given: Option<&mut GivenTimes>) -> Result<(), SimError> {
    match given.map_or(0, |given| given.left()) {
        0 => Ok(()),
        left => Err(too_many(left)),
    }
}

/// The partner of a device without a host, of so many pages of 4 KiB; measurement begins with its
/// first request.
///
/// # Errors
/// There is no such device.
pub(crate) fn partner_of(
    resources: &mut Resources,
    config: &Config,
    pages: u64,
    source: &DeviceSource,
) -> Result<Partner, SimError> {
    let mut in_loop = attach_to(resources, config, pages, &[], source)?;
    if let Some(in_loop) = &mut in_loop {
        in_loop.post(Time::ZERO, What::Begin);
    }
    Ok(Partner(in_loop))
}

/// Makes the device be that of a source.
fn attach_to(
    resources: &mut Resources,
    config: &Config,
    pages: u64,
    numbers: &[u64],
    source: &DeviceSource,
) -> Result<Option<Box<InLoop>>, SimError> {
    match source {
        DeviceSource::Modelled => Ok(None),
        DeviceSource::Device(_) => Err(SimError::Loop(
            "a device of its own has no simulated one beside it; use a firmware process".to_owned(),
        )),
        DeviceSource::Recorded(tape) => {
            check_digest(config, tape)?;
            resources.take_given_times();
            if tape.has_flash() {
                resources.measure_flash();
            }
            let given = resources.given_times();
            let given = given.expect("times are given from now on");
            (tape.times.iter()).for_each(|(work, time)| given.give(*work, *time));
            Ok(None)
        }
        DeviceSource::Loop {
            socket,
            processor,
            patience,
        } => {
            let hello = Hello {
                pages,
                config: config.to_toml(),
                processor: processor.to_toml(),
            };
            let mut host = Host::connect(socket, &hello, *patience).map_err(failed)?;
            resources.take_given_times();
            let mut reaction = Reaction::default();
            host.ask(Time::ZERO, What::Flash, &mut reaction)
                .map_err(failed)?;
            if reaction.is_drive {
                resources.measure_flash();
            }
            let mut in_loop = InLoop {
                host,
                reaction,
                seen: Seen::default(),
                values: Values::new(config),
                times: Vec::new(),
                failure: None,
            };
            for some in numbers.chunks(4) {
                let mut four = [0; 4];
                four[..some.len()].copy_from_slice(some);
                let what = What::Numbers {
                    count: some.len() as u8,
                    numbers: four,
                };
                in_loop.post(Time::ZERO, what);
            }
            if !numbers.is_empty() {
                in_loop.post(Time::ZERO, What::NumbersEnd);
            }
            Ok(Some(Box::new(in_loop)))
        }
    }
}

fn too_many(left: usize) -> SimError {
    SimError::Loop(format!(
        "the recording has {left} more times than this run has work for; run what was recorded"
    ))
}

fn check_digest(config: &Config, tape: &Tape) -> Result<(), SimError> {
    let digest = config.digest();
    if tape.config_digest == *digest.as_bytes() {
        return Ok(());
    }
    let found = String::from_utf8_lossy(&tape.config_digest).into_owned();
    Err(SimError::Loop(format!(
        "the recording is of a run with configuration {found} and this one has {digest}; run what \
         was recorded"
    )))
}

/// Of times, of which there is one at least.
fn mean_and_deviation(times: &[u64]) -> (u64, u64) {
    let count = times.len() as u128;
    let sum: u128 = times.iter().map(|time| u128::from(*time)).sum();
    let mean = u64::try_from(sum / count).expect("a mean is none above the largest");
    let squares = times
        .iter()
        .map(|time| u128::from(time.abs_diff(mean)).pow(2))
        .fold(0, u128::saturating_add);
    let deviation = (squares / count).isqrt();
    (mean, u64::try_from(deviation).unwrap_or(u64::MAX))
}

fn failed(error: LoopError) -> SimError {
    SimError::Loop(error.to_string())
}

/// What a result says of its device, if that is not just modelled.
pub(crate) fn described(
    config: &Config,
    source: &DeviceSource,
    tape: Option<&Tape>,
) -> Option<Value> {
    let times = match (source, tape) {
        _ if config.design.memory == MemoryKind::Dram => return None,
        (DeviceSource::Modelled, _) => return None,
        (DeviceSource::Recorded(tape), _) => &tape.times,
        (DeviceSource::Loop { .. } | DeviceSource::Device(_), tape) => &tape?.times,
    };
    let mut work = Vec::new();
    for code in 0..Timed::KINDS as u8 {
        let kind = Timed::of_code(code).expect("a code below their number");
        let of_kind = times.iter().filter(|(work, _)| work.code() == code);
        let mut of_kind: Vec<u64> = of_kind.map(|(_, time)| time.get()).collect();
        if of_kind.is_empty() {
            continue;
        }
        of_kind.sort_unstable();
        let (mean, deviation) = mean_and_deviation(&of_kind);
        // What interrupts the process is in few times, and in these much.
        let (_, undisturbed) = mean_and_deviation(&of_kind[..(of_kind.len() * 999).div_ceil(1000)]);
        work.push(json!({
            "work": kind.name(),
            "count": of_kind.len(),
            "mean_ps": mean,
            "sd_ps": deviation,
            "sd_of_999_ps": undisturbed,
            "p50_ps": of_kind[of_kind.len() / 2],
            "p99_ps": of_kind[of_kind.len() * 99 / 100],
        }));
    }
    let is_drive = times
        .iter()
        .any(|(what, _)| matches!(what, Timed::Flash(_)));
    let is_device = times
        .iter()
        .any(|(what, _)| matches!(what, Timed::Device(_)));
    let flash = match (is_drive, is_device) {
        (true, _) => "drive",
        (false, true) => "device",
        (false, false) => "modelled",
    };
    let mut described = json!({ "source": source.name(), "flash": flash, "work": work });
    if let DeviceSource::Loop { processor, .. } = source {
        described["clock"] = json!(processor.clock.to_string());
        described["cycles"] = json!(processor.cycles.to_string());
    }
    Some(described)
}

/// What the reader of a result must know of its device.
pub(crate) fn warning(source: &DeviceSource) -> Option<String> {
    match source {
        DeviceSource::Modelled => None,
        DeviceSource::Loop { .. } => Some(
            "device in the loop: the firmware's work was measured in real time, so this run does \
             not repeat; its recording does (--device recorded:FILE)"
                .to_owned(),
        ),
        DeviceSource::Device(_) => Some(
            "device of its own: what it says that each access took was believed, one access after \
             the other, so this run does not repeat (its recording does: --device recorded:FILE); \
             what it does besides is not known: counters of flash, log, data cache and promotion are \
             zero"
                .to_owned(),
        ),
        DeviceSource::Recorded(tape) if tape.is_of_device() => Some(
            "device of its own, as it was recorded: it repeats that run; counters of flash, log, \
             data cache and promotion are zero, for they are not known"
                .to_owned(),
        ),
        DeviceSource::Recorded(_) => Some(
            "device fed with the recorded times of a run in the loop: it repeats that run"
                .to_owned(),
        ),
    }
}

/// Whether what a request reads or writes has a value that can be followed.
pub(crate) fn is_of_line(op: RequestOp) -> bool {
    !matches!(op, RequestOp::ReadPage | RequestOp::WritePage)
}
