//! A host of our own, for tests and measurements: it waits for each answer, and knows one
//! controller with one I/O queue.

use super::entry::{FABRICS, NAMESPACE, admin, fabrics};
use super::io::opcode;
use super::session::{MOST_HOST_DATA, MOST_IN_CAPSULE};
use super::status::{Completion, Status};
use super::subsystem::DISCOVERY;
use super::wire::{
    Breach, COMMON_BYTES, CommandId, DIGEST_BYTES, Digests, ENTRY_BYTES, Framing, Head, Layout,
    Pdu, TransferTag, digest, ends_in_digest, u64_at,
};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use thiserror::Error;

/// Bytes that are read from the socket at once.
const INPUT: usize = 256 << 10;
/// Entries of the queues, less one.
const QUEUE: u16 = 127;

/// What goes wrong between a host and its controller.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The connection has ended, or never was.
    #[error("the connection to the controller failed: {0}; is it still served?")]
    Io(#[from] io::Error),
    /// The controller has broken the protocol.
    #[error("the controller sent something wrong: {0}")]
    Breach(#[from] Breach),
    /// The controller says that this host has broken the protocol.
    #[error("the controller ends the connection, with status {status} for byte {field}")]
    Ended {
        /// As the protocol numbers it.
        status: u16,
        /// Of the header.
        field: u32,
    },
    /// A command failed.
    #[error("the command failed with status {:#x}", .0.0)]
    Failed(Status),
}

/// How a host connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Manner {
    /// What both sides add.
    pub digests: Digests,
    /// To what data for the host are aligned, in 4 B, less one.
    pub alignment: u8,
    /// The host counts on the heads of its queues, as Linux does: each command has a response.
    pub counts_heads: bool,
    /// How long the host may be silent, in milliseconds; 0: for ever.
    pub keep_alive: u32,
}

/// An answer, with the bytes that came before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// How it ended.
    pub completion: Completion,
    /// Bytes from the controller.
    pub data: Vec<u8>,
}

/// A connection: one queue.
#[derive(Debug)]
pub struct Queue {
    stream: TcpStream,
    framing: Framing,
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
    next: u16,
    /// Data of commands that are asked for, and those that have come before their answer.
    sending: BTreeMap<u16, Vec<u8>>,
    received: BTreeMap<u16, Vec<u8>>,
}

/// A command: an entry that is filled in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command(pub [u8; ENTRY_BYTES]);

impl Command {
    /// A command of the namespace without data.
    pub fn new(opcode: u8) -> Self {
        let mut entry = [0; ENTRY_BYTES];
        entry[0] = opcode;
        // Data are where the transport says.
        entry[1] = 0x40;
        entry[4..8].copy_from_slice(&NAMESPACE.to_le_bytes());
        entry[39] = 0x5a;
        Self(entry)
    }

    /// With command dword 10 to 15.
    #[must_use]
    pub fn with(mut self, dword: usize, value: u32) -> Self {
        self.0[dword * 4..dword * 4 + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// With another namespace.
    #[must_use]
    pub fn of(mut self, namespace: u32) -> Self {
        self.0[4..8].copy_from_slice(&namespace.to_le_bytes());
        self
    }

    /// With so many bytes from the controller.
    #[must_use]
    pub fn giving(mut self, size: u32) -> Self {
        self.0[32..36].copy_from_slice(&size.to_le_bytes());
        self
    }

    fn fabrics(kind: u8) -> Self {
        let mut command = Self::new(FABRICS).of(0);
        command.0[4] = kind;
        command
    }

    /// A range of blocks.
    #[must_use]
    pub fn blocks(self, first: u64, count: u32) -> Self {
        let (low, high) = (first as u32, (first >> 32) as u32);
        self.with(10, low).with(11, high).with(12, count - 1)
    }

    /// A range of bytes.
    #[must_use]
    pub fn bytes(self, at: u64, size: u32) -> Self {
        let (low, high) = (at as u32, (at >> 32) as u32);
        self.with(10, low).with(11, high).with(12, size)
    }
}

impl Queue {
    /// Connects and agrees on how to frame; belongs to no controller yet.
    ///
    /// # Errors
    /// Nobody listens there, or somebody else.
    pub fn open(place: SocketAddr, manner: Manner) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(place)?;
        stream.set_nodelay(true)?;
        let mut queue = Self {
            stream,
            framing: Framing::default(),
            input: vec![0; INPUT],
            start: 0,
            end: 0,
            output: Vec::new(),
            next: 0,
            sending: BTreeMap::new(),
            received: BTreeMap::new(),
        };
        let hello = Pdu::InitializeRequest {
            version: 0,
            alignment: manner.alignment,
            digests: manner.digests,
            most_ready: 0,
        };
        hello.write(Framing::default(), &[], &mut queue.output);
        queue.flush()?;
        let (pdu, _) = queue.pdu(|_| Vec::new())?;
        if let Pdu::InitializeResponse {
            alignment, digests, ..
        } = pdu
        {
            queue.framing = Framing { digests, alignment };
        }
        Ok(queue)
    }

    /// Becomes a queue of a controller: number 0 of a new one, or another of a known one.
    ///
    /// # Errors
    /// As the controller says.
    pub fn connect(
        &mut self,
        subsystem: &str,
        manner: Manner,
        (controller, queue): (u16, u16),
    ) -> Result<u16, ClientError> {
        let mut data = vec![0; 1024];
        data[..16].copy_from_slice(b"entresol client.");
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
        let own = b"nqn.2026-11.local.entresol:client";
        data[512..512 + own.len()].copy_from_slice(own);
        let mut command = Command::fabrics(fabrics::CONNECT)
            .with(10, u32::from(queue) << 16)
            .with(12, manner.keep_alive);
        command.0[44..46].copy_from_slice(&QUEUE.to_le_bytes());
        command.0[46] = if manner.counts_heads { 0 } else { 4 };
        Ok(self.ask(command, data)?.completion.value as u16)
    }

    /// Has a command be sent by the next call that flushes or waits, with data if there are any: in
    /// the capsule if they are few.
    pub fn send(&mut self, command: Command, data: Vec<u8>) -> CommandId {
        let name = self.next;
        self.next = self.next.wrapping_add(1);
        self.send_as(name, command, data)
    }

    /// As [`Queue::send`], under a name of the caller's, which should be of no command under way.
    pub fn send_as(&mut self, name: u16, command: Command, data: Vec<u8>) -> CommandId {
        let Command(mut entry) = command;
        entry[2..4].copy_from_slice(&name.to_le_bytes());
        if !data.is_empty() {
            entry[32..36].copy_from_slice(&(data.len() as u32).to_le_bytes());
        }
        if data.len() > MOST_IN_CAPSULE as usize {
            Pdu::Command(entry).write(self.framing, &[], &mut self.output);
            self.sending.insert(name, data);
        } else {
            entry[39] = if data.is_empty() { 0x5a } else { 0x01 };
            Pdu::Command(entry).write(self.framing, &data, &mut self.output);
        }
        CommandId(name)
    }

    /// Sends what was not sent yet.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    /// The next answer. Sends what was not sent before it waits.
    ///
    /// # Errors
    /// The connection has ended; the controller has broken the protocol, or says that we have.
    pub fn receive(&mut self) -> Result<Answer, ClientError> {
        self.receive_into(Vec::new())
    }

    /// As [`Queue::receive`], with a buffer for the data.
    ///
    /// # Errors
    /// As [`Queue::receive`].
    pub fn receive_into(&mut self, buffer: Vec<u8>) -> Result<Answer, ClientError> {
        let mut buffer = Some(buffer);
        loop {
            let (pdu, data) = self.pdu(|_| buffer.take().unwrap_or_default())?;
            match pdu {
                Pdu::Response(entry) => {
                    let completion = Completion::from_bytes(&entry);
                    self.sending.remove(&completion.command.0);
                    let data = self.received.remove(&completion.command.0);
                    let data = data.unwrap_or_default();
                    return Ok(Answer { completion, data });
                }
                Pdu::ControllerData {
                    command,
                    is_success,
                    ..
                } => {
                    let completion = Completion {
                        command,
                        status: Status::SUCCESS,
                        value: 0,
                        head: u16::MAX,
                        queue: 0,
                    };
                    if is_success {
                        return Ok(Answer { completion, data });
                    }
                    self.received.insert(command.0, data);
                }
                Pdu::Ready {
                    command,
                    tag,
                    offset,
                    size,
                } => self.give(command, tag, (offset, size)),
                Pdu::ControllerEnds { status, field } => {
                    return Err(ClientError::Ended { status, field });
                }
                _ => return Err(Breach::of_controller("an answer that may not come").into()),
            }
        }
    }

    fn give(&mut self, command: CommandId, tag: TransferTag, (offset, size): (u32, u32)) {
        let Some(data) = self.sending.get(&command.0) else {
            return;
        };
        let data = &data[offset as usize..(offset + size) as usize];
        let mut at = 0;
        for part in data.chunks(MOST_HOST_DATA as usize) {
            let pdu = Pdu::HostData {
                command,
                tag,
                offset: offset + at,
                size: part.len() as u32,
                is_last: at + part.len() as u32 == size,
            };
            pdu.write(self.framing, part, &mut self.output);
            at += part.len() as u32;
        }
    }

    /// Sends a command and waits for its answer, with nothing else under way.
    ///
    /// # Errors
    /// As [`Queue::receive`]; the command failed.
    pub fn ask(&mut self, command: Command, data: Vec<u8>) -> Result<Answer, ClientError> {
        self.send(command, data);
        let answer = self.receive()?;
        match answer.completion.status {
            Status::SUCCESS => Ok(answer),
            status => Err(ClientError::Failed(status)),
        }
    }

    /// So many bytes at the front of the input.
    fn fill(&mut self, size: usize) -> Result<(), ClientError> {
        if self.end - self.start >= size {
            return Ok(());
        }
        self.flush()?;
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        while self.end < size {
            match self.stream.read(&mut self.input[self.end..])? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                count => self.end += count,
            }
        }
        Ok(())
    }

    fn pdu(
        &mut self,
        lend: impl FnOnce(&Layout) -> Vec<u8>,
    ) -> Result<(Pdu, Vec<u8>), ClientError> {
        self.fill(COMMON_BYTES)?;
        let common = self.input[self.start..].first_chunk::<COMMON_BYTES>();
        let layout = Head::read(common.expect("they were filled")).layout(self.framing.digests)?;
        self.fill(layout.front())?;
        let front = &self.input[self.start..self.start + layout.front()];
        if layout.has_header_digest && !ends_in_digest(front) {
            return Err(Breach::of_controller("a header with a wrong digest").into());
        }
        let pdu = Pdu::read(front)?;
        self.start += layout.front();
        if layout.data == 0 {
            return Ok((pdu, Vec::new()));
        }
        self.fill(layout.padding)?;
        self.start += layout.padding;
        let mut data = lend(&layout);
        data.clear();
        while data.len() < layout.data {
            self.fill(1)?;
            let size = (self.end - self.start).min(layout.data - data.len());
            data.extend_from_slice(&self.input[self.start..self.start + size]);
            self.start += size;
        }
        if layout.has_data_digest {
            self.fill(DIGEST_BYTES)?;
            let told = &self.input[self.start..self.start + DIGEST_BYTES];
            if digest(&data).to_le_bytes() != *told {
                return Err(Breach::of_controller("data with a wrong digest").into());
            }
            self.start += DIGEST_BYTES;
        }
        Ok((pdu, data))
    }
}

/// A host with a controller and one I/O queue.
#[derive(Debug)]
pub struct Client {
    /// The admin queue.
    pub admin: Queue,
    /// The I/O queue.
    pub io: Queue,
    /// The controller's number.
    pub controller: u16,
    /// Blocks of the namespace.
    pub blocks: u64,
    /// Bytes of a block.
    pub block: u32,
}

impl Client {
    /// Connects to the subsystem that is told of there.
    ///
    /// # Errors
    /// As the controllers say.
    pub fn connect(place: SocketAddr, manner: Manner) -> Result<Self, ClientError> {
        let subsystem = discover(place)?;
        let (mut admin, controller) = controller(place, &subsystem, manner)?;
        let mut io = Queue::open(place, manner)?;
        let features = Command::new(admin::SET_FEATURES).of(0);
        admin.ask(features.with(10, 7), Vec::new())?;
        io.connect(&subsystem, manner, (controller, 1))?;
        let identify = Command::new(admin::IDENTIFY).giving(4096);
        let namespace = admin.ask(identify, Vec::new())?.data;
        Ok(Self {
            admin,
            io,
            controller,
            blocks: u64_at(&namespace, 0),
            block: 1 << namespace[130],
        })
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// As the controller says.
    pub fn read(&mut self, first: u64, count: u32) -> Result<Vec<u8>, ClientError> {
        Ok(self.io.ask(self.reading(first, count), Vec::new())?.data)
    }

    /// The command that reads blocks.
    pub fn reading(&self, first: u64, count: u32) -> Command {
        let command = Command::new(opcode::READ).blocks(first, count);
        command.giving(count * self.block)
    }

    /// Writes blocks; durable if `is_durable`.
    ///
    /// # Errors
    /// As the controller says.
    pub fn write(&mut self, first: u64, data: &[u8], is_durable: bool) -> Result<(), ClientError> {
        let count = data.len() as u32 / self.block;
        let mut command = Command::new(opcode::WRITE).blocks(first, count);
        command.0[51] |= u8::from(is_durable) << 6;
        self.io.ask(command, data.to_vec()).map(drop)
    }

    /// What was answered survives.
    ///
    /// # Errors
    /// As the controller says.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        let command = Command::new(opcode::FLUSH);
        self.io.ask(command, Vec::new()).map(drop)
    }
}

/// A new controller, enabled.
fn controller(
    place: SocketAddr,
    subsystem: &str,
    manner: Manner,
) -> Result<(Queue, u16), ClientError> {
    let mut admin = Queue::open(place, manner)?;
    let controller = admin.connect(subsystem, manner, (u16::MAX, 0))?;
    let enable = Command::fabrics(fabrics::PROPERTY_SET).with(11, 0x14);
    admin.ask(enable.with(12, 0x0046_0001), Vec::new())?;
    Ok((admin, controller))
}

/// The name of the subsystem that the discovery controller tells of.
///
/// # Errors
/// It tells of none.
pub fn discover(place: SocketAddr) -> Result<String, ClientError> {
    let (mut admin, _) = controller(place, DISCOVERY, Manner::default())?;
    let size = 3 * 1024_u32;
    let page = Command::new(admin::GET_LOG_PAGE).of(0).giving(size);
    let page = admin.ask(page.with(10, 0x70 | (size / 4 - 1) << 16), Vec::new())?;
    let entries = page.data.chunks_exact(1024).skip(1);
    let device = entries.into_iter().find(|entry| entry[2] == 2);
    let device = device.ok_or(Breach::of_controller("no subsystem to connect to"))?;
    let name = device[256..512].iter().take_while(|byte| **byte != 0);
    Ok(name.map(|byte| char::from(*byte)).collect())
}
