//! A host's socket: bytes that came and bytes that wait to go, and the queue that it is.

use super::entry::Entry;
use super::io::Operation;
use super::perform::ROOM;
use super::session::{Capsule, Event, Session};
use super::status::{Completion, Status};
use super::wire::{Breach, CommandId, Fatal, Pdu, digest};
use crate::order::Ranges;
use crate::output::{Buffers, Output, is_passing};
use crate::stream::Stream;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that are read from a socket at once.
const INPUT: usize = 256 << 10;
/// Bytes that a host may have asked for or sent, and not taken, before no more of it is begun.
const MOST_OWED: usize = 16 << 20;

const _: () = assert!(INPUT >= Session::MOST_AT_ONCE);

/// A queue of a controller.
pub(super) struct Queue {
    /// Place of the controller.
    pub controller: usize,
    /// 0: the admin queue.
    pub id: u16,
    /// Entries of the submission queue, less one.
    size: u16,
    /// Where its head is.
    head: u16,
    /// Whether the host counts on the head.
    is_counted: bool,
    /// Commands under way, and their names.
    open: u32,
    names: Vec<u64>,
}

impl Queue {
    pub fn new(controller: usize, id: u16, size: u16, is_counted: bool) -> Self {
        Self {
            controller,
            id,
            size,
            head: 0,
            is_counted,
            open: 0,
            names: vec![0; 1 << 10],
        }
    }

    fn name(&mut self, command: CommandId) -> (&mut u64, u64) {
        let (word, bit) = (command.0 >> 6, command.0 & 63);
        (&mut self.names[usize::from(word)], 1 << bit)
    }

    /// A command is answered: the head of the queue, as its completion tells it.
    fn close(&mut self, command: CommandId) -> u16 {
        let (word, bit) = self.name(command);
        if *word & bit != 0 {
            *word &= !bit;
            self.open -= 1;
        }
        self.step()
    }

    /// An entry of the queue is used up.
    fn step(&mut self) -> u16 {
        if !self.is_counted {
            return u16::MAX;
        }
        self.head = if self.head == self.size {
            0
        } else {
            self.head + 1
        };
        self.head
    }
}

/// What comes of a command that is looked at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opened {
    /// It is under way.
    Begun,
    /// Another one under way has its name: it is answered, and the other one goes on.
    NameInUse,
    /// The connection is over.
    Ended,
}

/// What waits until there is room for it.
pub(super) enum Held {
    /// Data are to be asked for.
    Ask(Entry, u32),
    /// The device is to be asked.
    Start(Started),
}

/// What the device is to do.
pub(super) struct Started {
    pub command: CommandId,
    pub operation: Operation,
    pub ranges: Option<Ranges>,
    pub data: Vec<u8>,
}

pub(super) struct Connection {
    stream: Stream,
    /// Where the host has come.
    pub place: Option<SocketAddr>,
    /// Once it is connected to a controller.
    pub queue: Option<Queue>,
    session: Session,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    output: Output,
    held: VecDeque<Held>,
    /// Commands that are with the device.
    requests: usize,
    /// Bytes of those, and bytes that were asked for.
    owed: usize,
    /// Data of a command were asked for, or are to be, before there is a queue.
    asks_early: bool,
    /// Bytes that were read may hold commands that were not looked at.
    is_stalled: bool,
    has_ended: bool,
    is_gone: bool,
}

impl Connection {
    pub fn new(stream: Stream) -> io::Result<Self> {
        stream.prepare()?;
        Ok(Self {
            place: stream.local_place(),
            stream,
            queue: None,
            session: Session::default(),
            input: vec![0; INPUT].into_boxed_slice(),
            start: 0,
            end: 0,
            output: Output::default(),
            held: VecDeque::new(),
            requests: 0,
            owed: 0,
            asks_early: false,
            is_stalled: false,
            has_ended: false,
            is_gone: false,
        })
    }

    /// Whether it can be forgotten: the device has nothing of it, and the host waits for nothing.
    pub fn is_over(&self) -> bool {
        self.requests == 0 && (self.is_gone || self.has_ended && self.output.unsent() == 0)
    }

    /// Whether its host has gone, or is about to.
    pub fn is_ending(&self) -> bool {
        self.is_gone || self.has_ended
    }

    /// Whether there is something to go on with.
    pub fn can_go_on(&self) -> bool {
        !self.is_ending()
            && (self.is_stalled && self.may_look() || !self.held.is_empty() && self.has_room())
    }

    /// Whether nothing is on its way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.is_gone || self.requests == 0 && self.output.unsent() == 0
    }

    /// Whether its host may be listened to. Data that were asked for must come through: only who
    /// does not take answers is not heard.
    pub fn wants_input(&self) -> bool {
        !self.is_ending() && self.may_look() && !self.is_stalled
    }

    pub fn wants_output(&self) -> bool {
        self.output.unsent() > 0 && !self.is_gone
    }

    fn may_look(&self) -> bool {
        self.output.unsent() < MOST_OWED
    }

    fn has_room(&self) -> bool {
        self.owed + self.output.unsent() < MOST_OWED
    }

    /// Ends it without a word.
    pub fn give_up(&mut self) {
        self.is_gone = true;
        self.held.clear();
    }

    /// Ends it when its host has taken what waits for it.
    pub fn take_leave(&mut self) {
        self.has_ended = true;
        self.held.clear();
    }

    /// Ends it, and tells the host why.
    #[cold]
    fn break_off(&mut self, status: Fatal, what: &'static str) {
        let (session, output) = (&mut self.session, &mut self.output);
        output.small(|out| session.break_off(Breach::new(status, 0, what), out));
        self.take_leave();
    }

    /// Reads once from the socket.
    pub fn receive(&mut self) {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == INPUT {
            return;
        }
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => self.give_up(),
            Ok(count) => self.end += count,
            Err(error) if is_passing(&error) => {}
            Err(_) => self.give_up(),
        }
    }

    /// The next command in what was read. What was asked for has come, if it is a command's data.
    pub fn next(&mut self, buffers: &mut Buffers) -> Option<Capsule> {
        self.is_stalled = false;
        while !self.is_ending() {
            if !self.may_look() {
                self.is_stalled = true;
                return None;
            }
            self.session.lend(|| buffers.take());
            let mut out = Vec::new();
            let input = &self.input[self.start..self.end];
            let (taken, event) = self.session.step(input, &mut out);
            self.start += taken;
            if !out.is_empty() {
                self.output.small(|segment| segment.append(&mut out));
            }
            match event {
                Event::Went => {}
                Event::More => return None,
                Event::Command(capsule) => {
                    if capsule.was_asked_for {
                        self.owed -= capsule.data.len();
                        self.asks_early = false;
                    }
                    return Some(capsule);
                }
                Event::End(_) => self.take_leave(),
            }
        }
        None
    }

    /// Takes a command up. A host with more of them than the queue has entries has lost count: its
    /// connection ends.
    pub fn open(&mut self, command: CommandId) -> Opened {
        let Some(queue) = &mut self.queue else {
            return Opened::Begun;
        };
        if queue.open > u32::from(queue.size) {
            self.break_off(Fatal::Sequence, "more commands than the queue has entries");
            return Opened::Ended;
        }
        let (word, bit) = queue.name(command);
        if *word & bit != 0 {
            return Opened::NameInUse;
        }
        *word |= bit;
        queue.open += 1;
        Opened::Begun
    }

    /// Answers a command whose name another one has, which goes on under it.
    pub fn refuse_name(&mut self, command: CommandId) {
        if self.is_gone {
            return;
        }
        let (head, queue) = match &mut self.queue {
            Some(queue) => (queue.step(), queue.id),
            None => (0, 0),
        };
        let completion = Completion {
            command,
            status: Status::NAME_IN_USE,
            value: 0,
            head,
            queue,
        };
        let (framing, pdu) = (self.session.framing(), Pdu::Response(completion.to_bytes()));
        self.output.small(|out| pdu.write(framing, &[], out));
    }

    /// Keeps something until there is room, behind others that wait. Before there is a queue, which
    /// bounds their number, the data of one command may be asked for; a host with more has its
    /// connection ended.
    pub fn hold(&mut self, held: Held) {
        if self.is_ending() {
            return;
        }
        if self.queue.is_none() {
            if self.asks_early {
                let what = "a second command before the first one has connected";
                return self.break_off(Fatal::Sequence, what);
            }
            self.asks_early = matches!(held, Held::Ask(..));
        }
        self.held.push_back(held);
    }

    /// The next of what was kept that there is room for. Asks for data by itself.
    pub fn release(&mut self) -> Option<Started> {
        while !self.is_ending() && self.has_room() {
            match self.held.pop_front()? {
                Held::Ask(entry, size) => {
                    self.owed += size as usize;
                    let (session, output) = (&mut self.session, &mut self.output);
                    output.small(|out| session.ask(entry.0, size, out));
                }
                Held::Start(started) => {
                    self.begun(started.operation.weight());
                    return Some(started);
                }
            }
        }
        None
    }

    /// What waits for room and will not be begun: the names.
    pub fn refuse_held(&mut self) -> Vec<CommandId> {
        let held = core::mem::take(&mut self.held);
        let name = |held| match held {
            Held::Ask(entry, _) => Entry::command(&entry),
            Held::Start(started) => started.command,
        };
        held.into_iter().map(name).collect()
    }

    /// The device has a command of it, which counts so much.
    pub fn begun(&mut self, weight: usize) {
        self.requests += 1;
        self.owed += weight;
    }

    /// The device has done it. Whether the host still waits.
    pub fn ended(&mut self, weight: usize) -> bool {
        self.requests -= 1;
        self.owed -= weight;
        !self.is_gone
    }

    fn completion(&mut self, command: CommandId, status: Status, value: u64) -> Pdu {
        let (head, queue) = match &mut self.queue {
            Some(queue) => (queue.close(command), queue.id),
            None => (0, 0),
        };
        let completion = Completion {
            command,
            status,
            value,
            head,
            queue,
        };
        Pdu::Response(completion.to_bytes())
    }

    /// Answers a command.
    pub fn complete(&mut self, command: CommandId, status: Status, value: u64) {
        if self.is_gone {
            return;
        }
        let (framing, pdu) = (
            self.session.framing(),
            self.completion(command, status, value),
        );
        self.output.small(|out| pdu.write(framing, &[], out));
    }

    /// Answers a command with the bytes behind the room in front of them.
    pub fn give(&mut self, command: CommandId, mut buffer: Vec<u8>, value: u64) {
        if self.is_gone {
            return;
        }
        let framing = self.session.framing();
        let size = buffer.len() - ROOM;
        // Who counts on the queue's head is told it.
        let is_success = value == 0 && self.queue.as_ref().is_some_and(|queue| !queue.is_counted);
        let completion = self.completion(command, Status::SUCCESS, value);
        let data = Pdu::ControllerData {
            command,
            offset: 0,
            size: size as u32,
            is_last: true,
            is_success,
        };
        let (prefix, length) = data.prefix(framing, size);
        let start = ROOM - length;
        buffer[start..ROOM].copy_from_slice(&prefix[..length]);
        if framing.digests.data {
            let sum = digest(&buffer[ROOM..]).to_le_bytes();
            buffer.extend(sum);
        }
        if !is_success {
            completion.write(framing, &[], &mut buffer);
        }
        self.output.push(buffer, start);
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, buffers: &mut Buffers) {
        if self.wants_output() && self.output.send(&mut self.stream, buffers).is_err() {
            self.give_up();
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
