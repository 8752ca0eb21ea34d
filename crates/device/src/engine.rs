//! The device: the command layer of `soc` over the bytes of an image, with a clock.
//!
//! Without a wall clock, time passes when whoever drives the device lets it: to the next deadline,
//! and no further ([`DeviceEngine::step`]). With one, it is what the wall clock says, and the
//! device measures how late it was looked at ([`Lag`]).

use crate::config::DeviceConfig;
use crate::counters::{Counters, HEALTH_STEP};
use crate::data::{Astray, Data, astray, bring_all_back};
use crate::error::DeviceFileError;
use crate::failing::faults_of;
use crate::image::Image;
use crate::lag::Lag;
use crate::latency::{self, Kind};
use crate::pace::{Pace, WallClock};
use crate::recovery::{self, Logged, Recovered};
use crate::superblock::{PAST_BUFFERS, Role};
use crate::watchers::Watchers;
use firmware::PowerLossProtection;
use port::{
    Command, Conflict, DeviceError, DeviceStats, Finished, Outcome, Shape, SharedBlock, Ticket,
};
use soc::{Engine, EngineConfig, Resources};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;
use units::{ByteAddr, Bytes, PageSize, Picos, Time, TxId};

/// Operations of a block command that are with the device at a time.
const OPERATIONS_AT_A_TIME: u32 = 256;

/// Events that happen while the device is locked once: others may want to submit.
const EVENTS_AT_A_TIME: u32 = 64;

/// What [`DeviceEngine::step`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Something happened.
    Moved,
    /// Nothing will happen before something is submitted.
    Idle,
    /// The next thing happens so much later on the wall clock.
    Early(Picos),
}

/// A device with an image.
pub struct DeviceEngine {
    pub(crate) engine: Engine<Data>,
    pub(crate) page: PageSize,
    shape: Shape,
    wall: Option<WallClock>,
    lag: Lag,
    /// Commands until the counters are written.
    pub(crate) until_write: u32,
    finished: Vec<Finished>,
    /// Of an owner that is told what is done ([`port::Engine::advance`]).
    kept: Vec<Finished>,
    keeps_finished: bool,
    /// Everything reaches a log or buffers that survive.
    keeps_all: bool,
    /// Erases that a block is rated for.
    pub(crate) rated_wear: u32,
    /// Blocks that were bad when the device was made.
    pub(crate) factory_bad: u32,
    recovered: Recovered,
    pub(crate) at_open: Counters,
    pub(crate) watchers: Watchers,
    image: PathBuf,
    pub(crate) config: Arc<DeviceConfig>,
}

impl DeviceEngine {
    /// Opens an image, recovering what a killed process has left.
    ///
    /// # Errors
    /// The image is none, damaged, newer, or open elsewhere.
    pub fn open(path: &Path, pace: Pace) -> Result<Self, DeviceFileError> {
        Self::of_image(Image::open(path)?, pace)
    }

    /// A new device in memory, which goes with the process.
    ///
    /// # Errors
    /// Its flash has no room for it; the system has not so much memory.
    pub fn in_memory(config: &DeviceConfig, pace: Pace) -> Result<Self, DeviceFileError> {
        Self::of_image(Image::in_memory(config)?, pace)
    }

    /// The same, whose flash takes little memory where it holds what simulated programs write
    /// ([`units::filling`]). Reads and programs cost more to simulate.
    ///
    /// # Errors
    /// As [`DeviceEngine::in_memory`].
    pub fn packed(config: &DeviceConfig, pace: Pace) -> Result<Self, DeviceFileError> {
        Self::of_image(Image::packed(config)?, pace)
    }

    pub(crate) fn of_image(image: Image, pace: Pace) -> Result<Self, DeviceFileError> {
        let config = image.config.clone();
        let no_transactions = config.lacks_for_transactions();
        let page = config.page();
        let frames = config.ssd.frame_count(page.bytes());
        // What can fail comes before the first change: an image that cannot be opened is as it was.
        let protection = config.ssd.power_loss_protection;
        let cache = (!protection.keeps_frames()).then(|| Data::empty_cache(frames, page));
        let cache = cache.transpose();
        let cache = cache.map_err(|error| DeviceFileError::NoMemory {
            path: image.path.clone(),
            wanted: page.bytes() * frames,
            error,
        })?;
        // What is looked at here the controller looks at too: memory that is found once.
        let mut logged = Logged::of(&image.view);
        let next_transaction = recovery::first_free_transaction(&image.view, logged);
        let mut tables = image.tables;
        let dram = image.path.join(Role::Dram.file_name());
        if tables.incoming().is_some() {
            recovery::check(&config, &tables, &dram)?;
            let fault = recovery::incoming_fault(&tables, image.was_cut_off);
            fault.map_or(Ok(()), |fault| Err(DeviceFileError::damaged(&dram, fault)))?;
            tables.end_frame_line();
        }
        if image.was_cut_off && !protection.keeps_buffers() {
            recovery::check(&config, &tables, &dram)?;
            tables.lose(protection);
            logged = Logged::of(&tables);
        }
        let astray = astray(&tables, &image.media);
        if !astray.is_empty() {
            recovery::check(&config, &tables, &dram)?;
        }
        // What there is not is damage of the tables; what flash has lost is poison.
        for (buffer, lpa, ppa, wrong) in astray {
            if let Some(wrong @ Astray::Nowhere(_)) = wrong {
                let what = wrong.sentence(buffer, lpa, ppa);
                return Err(DeviceFileError::damaged(&dram, what));
            }
        }
        bring_all_back(&mut tables, &image.media, image.id);
        let recovered = Recovered::of(&config, &image.view, logged);
        let mut at_open = Counters::read(tables.map());
        at_open.rebase();
        let begin = at_open.stats.clock + recovered.scan;
        let faults = faults_of(&config, &tables, &at_open);
        let has_log = config.ssd.log.half_slot_count() > 0;
        let keeps_all = has_log && protection == PowerLossProtection::Battery;
        let kept = match (has_log, protection) {
            (true, PowerLossProtection::Battery) => "everything acknowledged",
            (true, PowerLossProtection::Log) => {
                "every line acknowledged, and every block that was flushed"
            }
            (_, PowerLossProtection::Dram) => "every block acknowledged, and what was persisted",
            _ => "everything that was flushed",
        };
        let mut data = Data::new(tables, image.media, image.id, (cache, page), kept);
        if image.version < PAST_BUFFERS {
            data.keep_in_buffers();
        }
        let factory_bad = faults.as_ref().map_or(0, |(faults, _)| {
            faults.factory_bad_blocks().fold(0, |count, _| count + 1)
        });
        let resources = Resources::new(config.resources(faults, begin), data);
        let engine_config = EngineConfig {
            link: config.device.link(),
            page,
            capacity: config.capacity(),
            pmem: config.device.pmem,
            has_log,
            keeps_frames: protection.keeps_frames(),
            has_battery: protection.keeps_buffers(),
            transactions: config.device.transactions,
            next_transaction,
            no_transactions,
            operations_at_a_time: OPERATIONS_AT_A_TIME,
            block: Some(config.device.block),
        };
        let controller = config.controller();
        let engine = Engine::recover(&controller, &image.view, resources, engine_config, begin);
        let mut engine =
            engine.map_err(|unsound| DeviceFileError::damaged(&dram, unsound.to_string()))?;
        let map = engine.bytes_mut().tables.map_mut();
        Counters::open(map);
        at_open.unsafe_shutdowns = Counters::read(map).unsafe_shutdowns;
        let shape = engine.shape();
        let mut device = Self {
            engine,
            page,
            shape,
            wall: (pace == Pace::Real).then(|| WallClock::start(begin)),
            lag: Lag::default(),
            until_write: HEALTH_STEP,
            finished: Vec::new(),
            kept: Vec::new(),
            keeps_finished: false,
            keeps_all,
            rated_wear: config.faults.rated_wear,
            factory_bad,
            recovered,
            at_open,
            watchers: Watchers::default(),
            image: image.path,
            config: Arc::new(image.config),
        };
        device.publish();
        Ok(device)
    }

    /// The device as it is at this moment, in memory alone: whatever is done with either, the
    /// other knows nothing of it.
    ///
    /// # Errors
    /// The system has not so much memory.
    pub fn snapshot(&self) -> std::io::Result<Self> {
        let bytes = self.engine.bytes().snapshot()?;
        Ok(Self {
            engine: self.engine.with_bytes(bytes),
            page: self.page,
            shape: self.shape,
            wall: None,
            lag: Lag::default(),
            until_write: self.until_write,
            finished: Vec::new(),
            kept: Vec::new(),
            keeps_finished: false,
            keeps_all: self.keeps_all,
            rated_wear: self.rated_wear,
            factory_bad: self.factory_bad,
            recovered: self.recovered,
            at_open: self.at_open,
            watchers: Watchers::default(),
            image: PathBuf::new(),
            config: Arc::clone(&self.config),
        })
    }

    /// What the device is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<&str> {
        self.engine.stopped()
    }

    /// The directory of its image; empty of one in memory.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// What opening it took.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// How late the device was looked at, against the wall clock.
    pub fn lag(&self) -> &Lag {
        &self.lag
    }

    /// The time up to which everything has happened.
    pub fn now(&self) -> Time {
        self.engine.now()
    }

    /// When the next thing happens, if anything is to.
    pub fn next_deadline(&mut self) -> Option<Time> {
        self.engine.next_deadline()
    }

    /// Opens a transaction; says whether it may be committed in parts.
    ///
    /// # Errors
    /// A device without transactions, or with as many open ones as it takes.
    pub fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError> {
        self.engine.begin(may_split)
    }

    /// Submits the abort of a transaction that nobody waits for. One that is not open is none.
    pub fn abandon_transaction(&mut self, tx: TxId) {
        if let Ok(ticket) = self.submit(Command::Abort(tx), ByteAddr::new(0), Bytes::ZERO) {
            self.abandon(ticket);
        }
    }

    /// Submits a command without bytes of its own, or that reads `size` bytes: now.
    ///
    /// # Errors
    /// What can be refused at once.
    pub fn submit(
        &mut self,
        command: Command,
        at: ByteAddr,
        size: Bytes,
    ) -> Result<Ticket, DeviceError> {
        self.submit_any(command, (at, size), Conflict::Wait, &[])
    }

    /// Submits a write: now.
    ///
    /// # Errors
    /// What can be refused at once.
    pub fn submit_write(
        &mut self,
        command: Command,
        at: ByteAddr,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        let size = Bytes::new(bytes.len() as u64);
        self.submit_any(command, (at, size), Conflict::Wait, bytes)
    }

    /// Submits any command: now.
    ///
    /// # Errors
    /// What can be refused at once.
    pub fn submit_any(
        &mut self,
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        let now = self.catch_up();
        let ticket = self.engine.submit(now, command, range, conflict, bytes);
        self.note_finished();
        ticket
    }

    /// Submits a block write of blocks that the host does not change before it is done: now.
    ///
    /// # Errors
    /// What can be refused at once.
    pub fn submit_shared(
        &mut self,
        command: Command,
        at: ByteAddr,
        conflict: Conflict,
        blocks: &[SharedBlock],
    ) -> Result<Ticket, DeviceError> {
        let now = self.catch_up();
        let ticket = self
            .engine
            .submit_shared(now, command, at, conflict, blocks);
        self.note_finished();
        ticket
    }

    /// What came of a command, if it is done; the ticket is used up then. Bytes that were read go
    /// to `into`.
    pub fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Option<Outcome> {
        self.engine.take(ticket, into)
    }

    /// Someone is to be woken when a command is done.
    pub(crate) fn watch(&mut self, ticket: Ticket, waker: &Waker) {
        self.watchers.watch(ticket.index(), waker);
    }

    /// Nobody will ask for a command any more; it is done all the same.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.watchers.forget(ticket.index());
        self.engine.abandon(ticket);
    }

    /// Lets happen what happens next, and everything else of that time.
    pub fn step(&mut self) -> Step {
        let Some(at) = self.engine.next_deadline() else {
            return Step::Idle;
        };
        if let Some(wall) = &self.wall {
            let now = wall.now();
            if at > now {
                return Step::Early(at - now);
            }
            self.lag.record(now - at);
        }
        self.advance_to(at);
        Step::Moved
    }

    /// As [`DeviceEngine::step`] for who asks for nothing before something is done: without a wall
    /// clock several things happen, up to the first end of a command.
    pub fn step_far(&mut self) -> Step {
        if self.wall.is_some() {
            return self.step();
        }
        let has_moved = self
            .engine
            .advance_some(EVENTS_AT_A_TIME, &mut self.finished);
        self.note_all();
        match has_moved {
            true => Step::Moved,
            false => Step::Idle,
        }
    }

    /// Lets everything happen up to `to`.
    fn advance_to(&mut self, to: Time) {
        self.engine.advance(to, &mut self.finished);
        self.note_all();
    }

    /// Notes what was over as it was submitted.
    #[inline]
    fn note_finished(&mut self) {
        if self.engine.has_finished() {
            self.engine.take_finished(&mut self.finished);
            self.note_all();
        }
    }

    /// Counts what is done, and notes whom to wake.
    fn note_all(&mut self) {
        for at in 0..self.finished.len() {
            let done = self.finished[at];
            self.watchers.done(done.ticket.index());
            if let Some(kind) = Kind::of(done.command).filter(|_| !done.is_failed) {
                let map = self.engine.bytes_mut().tables.map_mut();
                latency::record(map, kind, done.completion.took());
            }
            self.count_down();
        }
        if self.keeps_finished {
            self.kept.append(&mut self.finished);
        }
        self.finished.clear();
    }

    /// Moves the device until a command is done, and gives what came of it.
    ///
    /// # Errors
    /// What went wrong with it.
    pub fn finish(&mut self, ticket: Ticket, into: &mut [u8]) -> Outcome {
        loop {
            if self.engine.is_done(ticket)
                && let Some(result) = self.take(ticket, into)
            {
                return result;
            }
            if self.wall.is_none() {
                self.advance_to_end();
                continue;
            }
            match self.step() {
                Step::Moved => {}
                Step::Early(span) => crate::pace::wait(span),
                Step::Idle => panic!("a command is under way and nothing will happen"),
            }
        }
    }

    /// Without a wall clock: lets everything happen until a command is done.
    fn advance_to_end(&mut self) {
        self.engine.advance_to_end(Time::MAX, &mut self.finished);
        assert!(
            !self.finished.is_empty(),
            "a command is under way and nothing will happen"
        );
        self.note_all();
    }

    /// Lets happen whatever is under way, compaction and GC included.
    pub fn settle(&mut self) {
        loop {
            match self.step() {
                Step::Moved => {}
                Step::Early(span) => crate::pace::wait(span),
                Step::Idle => return,
            }
        }
    }

    /// Brings everything that is logged to flash and frees the log of transactions: with opening,
    /// what ByteFS calls RECOVER() (§4.7). Lines of open transactions stay.
    ///
    /// # Errors
    /// Flash has no room for it and nothing could make any; the device has stopped.
    pub fn drain(&mut self) -> Result<(), DeviceError> {
        let ticket = self.submit(Command::Drain, ByteAddr::new(0), Bytes::ZERO)?;
        self.finish(ticket, &mut []).map(|_| ())?;
        self.settle();
        Ok(())
    }

    /// Checks everything that can be checked of the firmware; for tests.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {
        self.engine.audit();
    }

    /// A file of the image that was removed: what it holds goes with this process.
    pub fn removed(&self) -> Option<PathBuf> {
        self.engine.bytes().removed(&self.image)
    }

    /// Closes the image in order. What was not done is not done.
    ///
    /// # Errors
    /// What was accepted may be lost, since flash does not take it, on a device that has it in DRAM
    /// alone; the image is closed all the same. A file of the image was removed. What the operating
    /// system says of writing it to the disk.
    pub fn close(mut self) -> Result<(), DeviceFileError> {
        let flushed = self.flush_before_end();
        self.publish();
        let path = self.image;
        self.engine.bytes_mut().close(&path)?;
        flushed.map_err(|why| DeviceFileError::Unflushed { path, why })
    }

    /// A device without a log loses the dirty pages of its cache when it ends, unless they survive,
    /// and one without a battery its buffers: like a drive that is told to shut down, it brings
    /// them to flash. At a standstill it cannot. Where frames survive a flush finds nothing to do.
    fn flush_before_end(&mut self) -> Result<(), DeviceError> {
        if self.keeps_all {
            return Ok(());
        }
        let ticket = self.submit(Command::Flush, ByteAddr::new(0), Bytes::ZERO)?;
        self.finish(ticket, &mut []).map(|_| ())
    }

    /// With a wall clock: lets everything happen that is due. Gives the time it is.
    fn catch_up(&mut self) -> Time {
        let Some(wall) = self.wall else {
            return self.engine.now();
        };
        let now = wall.now().max(self.engine.now());
        while self.engine.next_deadline().is_some_and(|at| at <= now) && self.step() == Step::Moved
        {
        }
        self.advance_to(now);
        now
    }
}

/// Whoever owns the clock of a device without a wall clock.
impl port::Engine for DeviceEngine {
    fn shape(&self) -> Shape {
        self.shape
    }
    fn now(&self) -> Time {
        self.engine.now()
    }
    fn next_deadline(&mut self) -> Option<Time> {
        self.engine.next_deadline()
    }
    fn advance(&mut self, to: Time, finished: &mut Vec<Finished>) {
        self.keeps_finished = true;
        self.advance_to(to);
        finished.append(&mut self.kept);
    }
    fn submit(
        &mut self,
        at: Time,
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        assert!(self.wall.is_none(), "the wall clock owns this device");
        self.keeps_finished = true;
        let ticket = self.engine.submit(at, command, range, conflict, bytes);
        self.note_finished();
        ticket
    }
    fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Option<Outcome> {
        self.engine.take(ticket, into)
    }
    fn abandon(&mut self, ticket: Ticket) {
        self.engine.abandon(ticket);
    }
    fn begin(&mut self, may_split: bool) -> Result<TxId, DeviceError> {
        self.engine.begin(may_split)
    }
    fn stats(&self) -> DeviceStats {
        DeviceEngine::stats(self)
    }
}
