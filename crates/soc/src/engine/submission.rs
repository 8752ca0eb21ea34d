//! Submission of commands: what is refused at once, and how a command begins.

use super::Engine;
use super::command::{Running, State};
use super::operation::Operation;
use super::single::Single;
use crate::bytes::{Brought, DataPlane};
use crate::lockstep::Lockstep;
use port::{Command, Conflict, DeviceError, Door, Payload, SharedBlock, Ticket};
use units::{ByteAddr, Bytes, Time, TxId};

/// A device's clock does not run beyond this from one opening to the next: 106 days.
const LAST: Time = Time::from_picos(1 << 63);

impl<B: DataPlane, W: Lockstep> Engine<B, W> {
    /// Submits a command at `at`, up to which everything has happened; `bytes` are those of a
    /// write. Commands of one time are submitted in the order of calls.
    ///
    /// # Errors
    /// What can be refused at once.
    ///
    /// # Panics
    /// If `at` has passed; with debug assertions also if something happens before `at` that the
    /// engine was not advanced to.
    pub fn submit(
        &mut self,
        at: Time,
        command: Command,
        (from, size): (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        let brought = Brought::Bytes(bytes);
        self.submit_as(at, command, (from, size), (conflict, false), brought)
    }

    /// As [`Engine::submit`], of a block write whose bytes are in blocks that the host does not
    /// change before it is done.
    ///
    /// # Errors
    /// What can be refused at once.
    pub fn submit_shared(
        &mut self,
        at: Time,
        command: Command,
        from: ByteAddr,
        conflict: Conflict,
        blocks: &[SharedBlock],
    ) -> Result<Ticket, DeviceError> {
        let size = Payload::Shared(blocks).size();
        let brought = Brought::Shared(blocks);
        self.submit_as(at, command, (from, size), (conflict, false), brought)
    }

    /// As [`Engine::submit`] and [`Engine::abandon`] in one: all that is wanted of the command is
    /// told with its end.
    ///
    /// # Errors
    /// What can be refused at once.
    #[inline]
    pub fn submit_abandoned(
        &mut self,
        at: Time,
        command: Command,
        range: (ByteAddr, Bytes),
        conflict: Conflict,
        bytes: &[u8],
    ) -> Result<Ticket, DeviceError> {
        self.submit_as(at, command, range, (conflict, true), Brought::Bytes(bytes))
    }

    #[inline]
    fn submit_as(
        &mut self,
        at: Time,
        command: Command,
        (from, size): (ByteAddr, Bytes),
        (conflict, is_abandoned): (Conflict, bool),
        brought: Brought<'_>,
    ) -> Result<Ticket, DeviceError> {
        if !self.takes(at, command, from, size) {
            return Err(self.refusal(at, command, from, size));
        }
        assert!(
            at >= self.now(),
            "a command is submitted at {at}, which has passed"
        );
        self.host.queue.advance_to(at);
        self.running += 1;
        let range = (from, size);
        let index = match Single::of(command, range, self.config.page) {
            Some(single) => self.start_single(
                at,
                (command, conflict, is_abandoned),
                range,
                &single,
                brought,
            ),
            None => self.start_any(at, (command, conflict, is_abandoned), range, brought),
        };
        self.stop_if_failed();
        Ok(Ticket::new(index))
    }

    /// Begins a command that may be of several operations, or of a transaction.
    fn start_any(
        &mut self,
        now: Time,
        (command, conflict, is_abandoned): (Command, Conflict, bool),
        range: (ByteAddr, Bytes),
        brought: Brought<'_>,
    ) -> u32 {
        let index = self.new_number();
        let place = index as usize;
        let running = &mut self.commands[place];
        running.begin(command, range, conflict, now);
        running.is_abandoned = is_abandoned;
        if command.door() != Door::None {
            let (buffer, offset) = (running.buffer_bytes(self.config.page), running.offset());
            let data = &mut self.soc.resources.bytes;
            brought.open(data, place, (buffer, offset));
        }
        match command {
            Command::Write(tx) if tx != TxId::NONE => self.transactions.get_mut(tx).writes += 1,
            Command::Reserve(tx) => self.transactions.get_mut(tx).writes += 1,
            Command::Commit(tx) | Command::Abort(tx) => {
                let open = self.transactions.get_mut(tx);
                open.is_closing = true;
                open.is_aborting = matches!(command, Command::Abort(_));
            }
            _ => {}
        }
        self.start(index);
        if let Command::Abort(tx) = command
            && self.commands[place].state == State::Writes
        {
            self.give_up_waits(now, tx);
        }
        index
    }

    /// Whether a command is not refused at once.
    #[inline]
    fn takes(&self, at: Time, command: Command, from: ByteAddr, size: Bytes) -> bool {
        let end = from.get().saturating_add(size.get());
        let is_reservation = || matches!(command, Command::Reserve(_));
        (end <= self.config.capacity.get()
            || self.is_in_window(command, from, end)
            || is_reservation())
            && at <= LAST
            && self.stopped.is_none()
            && ((from.get() | size.get()) & self.rest_of_block == 0 || !command.is_block())
            && self.check_transaction(command, size).is_ok()
    }

    /// Whether a command of the byte port is of the window, all of it.
    #[cold]
    fn is_in_window(&self, command: Command, from: ByteAddr, end: u64) -> bool {
        let begin = self.config.capacity.get();
        matches!(command, Command::Read | Command::Write(TxId::NONE))
            && (begin..=begin + self.config.pmem.get()).contains(&end)
            && from.get() >= begin
    }

    #[inline]
    fn check_transaction(&self, command: Command, size: Bytes) -> Result<(), DeviceError> {
        match command {
            Command::Write(tx) if tx == TxId::NONE => Ok(()),
            Command::Write(tx) | Command::Commit(tx) | Command::Abort(tx) => {
                self.transactions.get(tx).map(|_| ())
            }
            Command::Reserve(tx) => self.check_reservation(tx, size),
            _ => Ok(()),
        }
    }

    /// Why a command is refused at once.
    #[cold]
    fn refusal(&self, at: Time, command: Command, from: ByteAddr, size: Bytes) -> DeviceError {
        let capacity = self.config.capacity;
        let end = from.checked_add(size);
        if let Some(reason) = &self.stopped {
            let reason = reason.clone();
            DeviceError::Stopped { reason }
        } else if at > LAST {
            let reason = "its clock has run for 106 days since it was opened; open it again".into();
            DeviceError::Stopped { reason }
        } else if let Err(error) = self.check_transaction(command, size) {
            error
        } else if end.is_none_or(|end| end.get() > capacity.get()) {
            DeviceError::OutOfRange {
                at: from,
                size,
                capacity,
            }
        } else {
            DeviceError::NotBlocks {
                at: from,
                size,
                block: self.block(),
            }
        }
    }

    /// The unit of the block port.
    pub(super) fn block(&self) -> Bytes {
        self.config.block.unwrap_or(self.config.page).bytes()
    }

    /// A number for a command, or for an operation that is not the first of its command.
    #[inline]
    pub(super) fn new_number(&mut self) -> u32 {
        match self.free.pop() {
            Some(number) => number,
            None => self.add_number(),
        }
    }

    #[cold]
    fn add_number(&mut self) -> u32 {
        self.commands.push(Running::default());
        self.host.operations.push(Operation::NONE);
        u32::try_from(self.commands.len() - 1).expect("fewer commands are under way than 2^32")
    }
}
