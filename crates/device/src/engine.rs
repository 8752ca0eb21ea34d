//! The device: firmware, flash and link in virtual time, with real bytes.
//!
//! One thread at a time moves it. A command is submitted and gives a ticket; [`DeviceEngine::step`]
//! lets the next thing happen; a command is done when the device's clock has reached the time at
//! which the host knows of it. So commands that are under way together overlap in device time, and
//! whoever waits for one moves all.
//!
//! Commands whose ranges overlap, one of them writing, are served one after the other in the order
//! of submission, which is the order that the firmware asks its host to keep.

use crate::command::{Ask, Command, Piece, State};
use crate::counters::{Counters, HEALTH_STEP};
use crate::data::Data;
use crate::error::DeviceFileError;
use crate::image::Image;
use crate::pace::{Pace, WallClock};
use crate::recovery::{self, Recovered};
use crate::superblock::Role;
use crate::transactions::Transactions;
use crate::watchers::Watchers;
use crate::wire::Wire;
use crate::world::{Event, World};
use firmware::{NandTag, PowerLossProtection, Request};
use port::{Atomicity, Completion, DeviceError, DeviceStats, Shape};
use std::path::PathBuf;
use std::task::Waker;
use units::{ByteAddr, Bytes, PageSize, Picos, RequestId, Time, TxId};

/// A command under way; handed back to ask for what came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket(usize);

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

/// An operation of the firmware under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Of which command.
    pub command: usize,
    /// What.
    pub piece: Piece,
    /// When it reached the device.
    pub arrives: Time,
}

/// A device with an image.
pub struct DeviceEngine {
    pub(crate) controller: recovery::Brain,
    pub(crate) world: World,
    pub(crate) wire: Wire,
    pub(crate) page: PageSize,
    pub(crate) commands: Vec<Command>,
    free_commands: Vec<usize>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) free_operations: Vec<u32>,
    /// Commands that are not done, in the order of submission.
    pub(crate) running: Vec<usize>,
    pub(crate) transactions: Transactions,
    pub(crate) stats: DeviceStats,
    shape: Shape,
    wall: Option<WallClock>,
    /// Commands until the counters are written.
    pub(crate) until_write: u32,
    stopped: Option<String>,
    /// Stores reach a log, which survives.
    pub(crate) has_log: bool,
    /// Erases that a block is rated for.
    pub(crate) rated_wear: u32,
    /// Blocks that were bad when the device was made.
    pub(crate) factory_bad: u32,
    recovered: Recovered,
    pub(crate) at_open: Counters,
    image: PathBuf,
    pub(crate) watchers: Watchers,
}

impl DeviceEngine {
    /// Opens an image, recovering what a killed process has left.
    ///
    /// # Errors
    /// The image is none, damaged, newer, or open elsewhere.
    pub fn open(path: &std::path::Path, pace: Pace) -> Result<Self, DeviceFileError> {
        let image = Image::open(path)?;
        let config = image.config.clone();
        let no_transactions = config.lacks_for_transactions();
        let has_transactions = no_transactions.is_none();
        let next_tx = recovery::first_free_transaction(&image.tables);
        let page = config.page();
        let frames = config.ssd.frame_count(page.bytes());
        // What can fail comes before the first change: an image that cannot be opened is as it was.
        let cache = Data::empty_cache(frames, page).map_err(|error| DeviceFileError::NoMemory {
            path: path.to_path_buf(),
            wanted: page.bytes() * frames,
            error,
        })?;
        let mut tables = image.tables;
        let dram = path.join(Role::Dram.file_name());
        if image.was_cut_off && config.ssd.power_loss_protection == PowerLossProtection::None {
            recovery::check(&config, &tables, &dram)?;
            tables.lose_dram();
        }
        let data = Data::new(tables, image.media, image.id, (cache, page));
        let stats = Counters::read(data.tables.map()).stats;
        let recovered = Recovered::of(&config, &image.view);
        let begin = stats.clock + recovered.scan;
        let mut world = World::new(data, &config, begin);
        let view = image.view;
        let controller = recovery::start(&config, &view, &mut world, &dram)?;
        Counters::open(world.data.tables.map_mut());
        let at_open = Counters::read(world.data.tables.map());
        let mut engine = Self {
            controller,
            wire: Wire::new(&config.device, begin),
            page,
            commands: Vec::new(),
            free_commands: Vec::new(),
            operations: Vec::new(),
            free_operations: Vec::new(),
            running: Vec::new(),
            transactions: Transactions::new(next_tx, config.device.transactions, no_transactions),
            shape: Shape {
                capacity: config.capacity(),
                block: page.bytes(),
                has_transactions,
            },
            wall: (pace == Pace::Real).then(|| WallClock::start(begin)),
            until_write: HEALTH_STEP,
            stopped: None,
            has_log: config.ssd.half_slot_count() > 0,
            rated_wear: config.faults.rated_wear,
            factory_bad: world.factory_bad(),
            recovered,
            at_open,
            stats,
            world,
            image: path.to_owned(),
            watchers: Watchers::default(),
        };
        engine.publish();
        Ok(engine)
    }

    /// What the device is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Why it has stopped, if it has.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// The directory of its image.
    pub fn image(&self) -> &std::path::Path {
        &self.image
    }

    /// What opening it took.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Opens a transaction.
    ///
    /// # Errors
    /// A device without transactions, or with as many open ones as it takes.
    pub fn begin(&mut self) -> Result<TxId, DeviceError> {
        self.transactions.begin()
    }

    /// Submits a command without bytes of its own, or that reads `size` bytes.
    ///
    /// # Errors
    /// What can be refused at once.
    pub fn submit(&mut self, ask: Ask, at: ByteAddr, size: Bytes) -> Result<Ticket, DeviceError> {
        self.check(ask, at, size)?;
        self.catch_up();
        let command = Command::new(ask, at, size.get(), self.world.now());
        Ok(self.enter(command, &[]))
    }

    /// Submits a write.
    ///
    /// # Errors
    /// What can be refused at once.
    pub fn submit_write(
        &mut self,
        ask: Ask,
        at: ByteAddr,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        let size = Bytes::new(bytes.len() as u64);
        self.check(ask, at, size)?;
        self.catch_up();
        let command = Command::new(ask, at, size.get(), self.world.now());
        Ok(self.enter(command, bytes))
    }

    /// What came of a command, if it is done; the ticket is used up then. Bytes that were read go
    /// to `into`.
    pub fn take(
        &mut self,
        ticket: Ticket,
        into: &mut [u8],
    ) -> Option<Result<(Completion, Atomicity), DeviceError>> {
        let command = &self.commands[ticket.0];
        if command.state != State::Done {
            return None;
        }
        let result = command.result();
        if result.is_ok() && !into.is_empty() {
            let buffer = &self.world.data.payloads.buffers[ticket.0];
            into.copy_from_slice(&buffer[command.offset()..][..into.len()]);
        }
        self.free_commands.push(ticket.0);
        Some(result)
    }

    /// Someone is to be woken when a command is done, which it is not.
    pub(crate) fn watch(&mut self, ticket: Ticket, waker: &Waker) {
        self.watchers.watch(ticket.0, waker);
    }

    /// Nobody will ask for a command any more; it is done all the same.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.watchers.forget(ticket.0);
        match self.commands[ticket.0].state {
            State::Done => self.free_commands.push(ticket.0),
            State::Held | State::UnderWay => self.commands[ticket.0].is_abandoned = true,
        }
    }

    /// Lets the next thing happen.
    pub fn step(&mut self) -> Step {
        let Some(at) = self.world.next_time() else {
            return Step::Idle;
        };
        if let Some(wall) = &self.wall {
            let now = wall.now();
            if at > now {
                return Step::Early(at - now);
            }
        }
        let event = self.world.take_event();
        self.handle(event.expect("there is a next event"));
        Step::Moved
    }

    /// Moves the device until a command is done, and gives what came of it.
    ///
    /// # Errors
    /// What went wrong with it.
    pub fn finish(
        &mut self,
        ticket: Ticket,
        into: &mut [u8],
    ) -> Result<(Completion, Atomicity), DeviceError> {
        loop {
            if let Some(result) = self.take(ticket, into) {
                return result;
            }
            match self.step() {
                Step::Moved => {}
                Step::Early(span) => crate::pace::wait(span),
                Step::Idle => panic!("a command is under way and nothing will happen"),
            }
        }
    }

    /// Lets happen whatever is under way, compaction and GC included.
    pub fn settle(&mut self) {
        while self.step() != Step::Idle {}
    }

    /// Brings everything that is logged to flash and frees the log of transactions: with opening,
    /// what ByteFS calls RECOVER() (§4.7). Lines of open transactions stay.
    pub fn drain(&mut self) {
        let now = self.world.now();
        self.controller.drain_log(now, &mut self.world);
        self.settle();
    }

    /// Checks everything that can be checked of the firmware; for tests.
    ///
    /// # Panics
    /// With a sentence, if an invariant is broken.
    pub fn audit(&self) {
        self.controller.audit();
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
        self.world.data.close(&self.image)?;
        let path = self.image;
        flushed.map_err(|why| DeviceFileError::Unflushed { path, why })
    }

    /// A device without a log loses the dirty pages of its cache when it ends, and one without a
    /// battery its buffers: like a drive that is told to shut down, it brings them to flash. At a
    /// standstill it cannot.
    fn flush_before_end(&mut self) -> Result<(), DeviceError> {
        if self.has_log {
            return Ok(());
        }
        let ticket = self.submit(Ask::Flush, ByteAddr::new(0), Bytes::ZERO)?;
        self.finish(ticket, &mut []).map(|_| ())
    }

    /// With a wall clock: lets everything happen that is due, and time pass.
    fn catch_up(&mut self) {
        let Some(wall) = self.wall else {
            return;
        };
        while self.step() == Step::Moved {}
        let now = wall.now();
        if self.world.next_time().is_none_or(|next| next >= now) {
            self.world.pass(now);
        }
    }

    fn check(&self, ask: Ask, at: ByteAddr, size: Bytes) -> Result<(), DeviceError> {
        if let Some(reason) = &self.stopped {
            let reason = reason.clone();
            return Err(DeviceError::Stopped { reason });
        }
        let capacity = self.shape.capacity;
        let end = at.checked_add(size);
        if end.is_none_or(|end| end.get() > capacity.get()) {
            return Err(DeviceError::OutOfRange { at, size, capacity });
        }
        let block = self.shape.block;
        let is_whole = |bytes: u64| bytes.is_multiple_of(block.get());
        if ask.is_block() && !(is_whole(at.get()) && is_whole(size.get())) {
            return Err(DeviceError::NotBlocks { at, size, block });
        }
        match ask {
            Ask::Write(tx) if tx == TxId::NONE => Ok(()),
            Ask::Write(tx) | Ask::Commit(tx) | Ask::Abort(tx) => {
                self.transactions.get(tx).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Takes a command in; it begins unless an earlier one stands before it.
    fn enter(&mut self, command: Command, bytes: &[u8]) -> Ticket {
        let size = command.buffer_bytes();
        let offset = command.offset();
        if let Ask::Commit(tx) | Ask::Abort(tx) = command.ask {
            self.transactions.get_mut(tx).is_closing = true;
        }
        let buffers = &mut self.world.data.payloads.buffers;
        let index = match self.free_commands.pop() {
            Some(index) => {
                self.commands[index] = command;
                index
            }
            None => {
                self.commands.push(command);
                buffers.push(Vec::new());
                self.commands.len() - 1
            }
        };
        let buffer = &mut buffers[index];
        if buffer.len() < size {
            buffer.resize(size, 0);
        }
        // Nothing may be asked for at a place that the buffer has not.
        if !bytes.is_empty() {
            buffer[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        self.running.push(index);
        if self.is_excluded(self.running.len() - 1) {
            self.commands[index].state = State::Held;
        } else {
            self.start(index);
        }
        Ticket(index)
    }

    /// Whether a command that was submitted before stands before this one.
    fn is_excluded(&self, place: usize) -> bool {
        let command = &self.commands[self.running[place]];
        let mut earlier = self.running[..place].iter();
        earlier.any(|other| command.excludes(&self.commands[*other]))
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive(id) => {
                let piece = self.operations[id.index()].piece;
                let request = Request {
                    id,
                    op: piece.op,
                    line: piece.line,
                    source: None,
                };
                let now = self.world.now();
                self.controller.on_request(now, request, &mut self.world);
            }
            Event::Nand(event) => self.on_nand(event),
            Event::NandStart(tag) => self.world.start(tag),
            Event::Timer(timer) => {
                let now = self.world.now();
                self.controller.on_timer(now, timer, &mut self.world);
            }
            Event::Next(command) => self.hand_out(command),
            Event::Finish(command) => self.on_finished(command),
        }
        while let Some(response) = self.world.answers.pop() {
            self.on_answer(&response);
        }
        if self.world.fault.is_some() {
            self.stop();
        }
    }

    fn on_nand(&mut self, event: u64) {
        let completions = self.world.on_nand(event);
        for completion in &completions {
            let tag = NandTag::new(completion.tag);
            let fault = self.world.complete(tag, completion.fault);
            let now = self.world.now();
            self.controller.on_nand(now, tag, fault, &mut self.world);
            self.world.settle();
        }
        self.world.give_back(completions);
    }

    /// The host knows of the end of a command.
    fn on_finished(&mut self, index: usize) {
        self.count(index);
        self.release(index);
        self.running.retain(|running| *running != index);
        for place in 0..self.running.len() {
            let held = self.running[place];
            if self.commands[held].state == State::Held && !self.is_excluded(place) {
                self.commands[held].state = State::UnderWay;
                self.start(held);
            }
        }
    }

    /// A command is done; its ticket's holder may take it.
    fn release(&mut self, index: usize) {
        self.watchers.done(index);
        let command = &mut self.commands[index];
        command.state = State::Done;
        if command.is_abandoned {
            self.free_commands.push(index);
        }
    }

    /// The device has a fault that it cannot work with: every command ends with it.
    #[cold]
    fn stop(&mut self) {
        let Some(reason) = self.world.fault.clone() else {
            return;
        };
        for index in std::mem::take(&mut self.running) {
            let reason = reason.clone();
            self.commands[index].error = Some(DeviceError::Stopped { reason });
            self.release(index);
        }
        self.world.forget_events();
        self.stopped = Some(reason);
    }

    pub(crate) fn free_operation(&mut self, id: RequestId) {
        self.free_operations.push(id.get());
    }
}
