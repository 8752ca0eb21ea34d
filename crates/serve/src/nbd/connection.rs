//! A client's socket: bytes that came and bytes that wait to go.

use super::perform::{Answer, Done};
use super::request::{Command, Refusal, Request};
use super::session::{Event, Session};
use super::{Export, reply};
use crate::stream::Stream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that are read from a socket at once: what a unix socket holds.
const INPUT: usize = 256 << 10;
/// Requests of one client that are with the device at once.
const MOST_REQUESTS: usize = 256;
/// Bytes that a client may have asked for and not taken before no more of it is read.
const MOST_OWED: usize = 16 << 20;
/// Answers that are sent with one call.
const GATHER: usize = 64;
/// A buffer larger than this is not kept for the next request.
const MOST_KEPT: usize = 1 << 20;
const MOST_BUFFERS: usize = 256;

const _: () = assert!(INPUT >= Session::MOST_AT_ONCE);

/// Buffers of requests that are over.
#[derive(Default)]
pub(super) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if (1..=MOST_KEPT).contains(&buffer.capacity()) && self.0.len() < MOST_BUFFERS {
            self.0.push(buffer);
        }
    }
}

/// Bytes that wait to go.
struct Segment {
    bytes: Vec<u8>,
    sent: usize,
    /// Whether small answers may be added to it.
    is_open: bool,
}

/// What a client has asked for.
pub(super) enum Received {
    Request(Request, usize),
    Refused(Refusal),
}

pub(super) struct Connection {
    stream: Stream,
    session: Session,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    output: VecDeque<Segment>,
    unsent: usize,
    requests: usize,
    owed: usize,
    /// Bytes that were read may hold requests for which there was no room.
    is_stalled: bool,
    /// Nothing more will come from the client.
    has_ended: bool,
    /// Nothing more will go to it.
    is_gone: bool,
}

impl Connection {
    pub fn new(stream: Stream, export: Export) -> io::Result<Self> {
        stream.prepare()?;
        let (session, greeting) = Session::new(export);
        let mut connection = Self {
            stream,
            session,
            input: vec![0; INPUT].into_boxed_slice(),
            start: 0,
            end: 0,
            output: VecDeque::new(),
            unsent: 0,
            requests: 0,
            owed: 0,
            is_stalled: false,
            has_ended: false,
            is_gone: false,
        };
        connection.small(|out| out.extend(greeting));
        Ok(connection)
    }

    pub fn is_past_handshake(&self) -> bool {
        self.session.is_past_handshake()
    }

    /// Whether it can be forgotten: the device has nothing of it, and the client waits for nothing.
    pub fn is_over(&self) -> bool {
        self.requests == 0
            && (self.is_gone || self.has_ended && self.unsent == 0 && !self.is_stalled)
    }

    /// Whether there is room again for requests that were read.
    pub fn can_go_on(&self) -> bool {
        self.is_stalled && !self.is_gone && self.has_room()
    }

    /// Whether nothing is on its way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.is_gone || self.requests == 0 && self.unsent == 0
    }

    /// Whether its client may be listened to.
    pub fn wants_input(&self) -> bool {
        !self.has_ended && !self.is_gone && self.has_room()
    }

    pub fn wants_output(&self) -> bool {
        self.unsent > 0 && !self.is_gone
    }

    fn has_room(&self) -> bool {
        self.requests < MOST_REQUESTS && self.owed + self.unsent < MOST_OWED
    }

    pub fn give_up(&mut self) {
        self.is_gone = true;
    }

    /// Reads once from the socket.
    pub fn receive(&mut self) {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == INPUT {
            return;
        }
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.end += count,
            Err(error) if is_passing(&error) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// The next request in what was read, if there is room for it.
    pub fn next(&mut self, buffers: &mut Buffers) -> Option<Received> {
        self.is_stalled = false;
        while self.has_room() && !self.is_gone {
            if self.session.kept() == 0 {
                self.session.lend(buffers.take());
            }
            let mut out = Vec::new();
            let input = &self.input[self.start..self.end];
            let (taken, event) = self.session.step(input, &mut out);
            self.start += taken;
            if !out.is_empty() {
                self.small(|segment| segment.append(&mut out));
            }
            match event {
                Event::Went => {}
                Event::More => return None,
                Event::Refused(refusal) => return Some(Received::Refused(refusal)),
                Event::Request(request) => {
                    let weight = weight(&request.command);
                    self.requests += 1;
                    self.owed += weight;
                    return Some(Received::Request(request, weight));
                }
                Event::End(_) => {
                    self.has_ended = true;
                    return None;
                }
            }
        }
        self.is_stalled = true;
        None
    }

    /// Takes the answer to a request.
    pub fn answer(&mut self, mut done: Done, buffers: &mut Buffers) {
        self.requests -= 1;
        self.owed -= done.weight;
        if self.is_gone {
            return buffers.give(done.buffer);
        }
        let is_structured = self.session.is_structured();
        match done.outcome {
            Ok(Answer::Read(at)) => {
                let sent = reply::read(&mut done.buffer, is_structured, done.cookie, at);
                self.unsent += done.buffer.len() - sent;
                self.output.push_back(Segment {
                    bytes: done.buffer,
                    sent,
                    is_open: false,
                });
                return;
            }
            Ok(Answer::Done) => self.small(|out| reply::done(out, is_structured, done.cookie)),
            Err(refusal) => self.refuse(&refusal),
        }
        buffers.give(done.buffer);
    }

    /// Answers what was not done.
    pub fn refuse(&mut self, refusal: &Refusal) {
        let is_structured = self.session.is_structured();
        self.small(|out| reply::refused(out, is_structured, refusal));
    }

    fn small(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        if !self.output.back().is_some_and(|segment| segment.is_open) {
            self.output.push_back(Segment {
                bytes: Vec::new(),
                sent: 0,
                is_open: true,
            });
        }
        let segment = self.output.back_mut().expect("there is one");
        let before = segment.bytes.len();
        add(&mut segment.bytes);
        self.unsent += segment.bytes.len() - before;
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, buffers: &mut Buffers) {
        while self.wants_output() {
            let mut slices = [IoSlice::new(&[]); GATHER];
            let count = self.output.len().min(GATHER);
            for (slice, segment) in slices.iter_mut().zip(&self.output) {
                *slice = IoSlice::new(&segment.bytes[segment.sent..]);
            }
            match self.stream.write_vectored(&slices[..count]) {
                Ok(0) => self.is_gone = true,
                Ok(sent) => self.was_sent(sent, buffers),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_passing(&error) => {}
                Err(_) => self.is_gone = true,
            }
        }
    }

    fn was_sent(&mut self, mut count: usize, buffers: &mut Buffers) {
        self.unsent -= count;
        while let Some(segment) = self.output.front_mut() {
            let left = segment.bytes.len() - segment.sent;
            if count < left {
                segment.sent += count;
                return;
            }
            count -= left;
            if let Some(segment) = self.output.pop_front() {
                buffers.give(segment.bytes);
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Bytes that a request holds while it is with the device.
fn weight(command: &Command) -> usize {
    match command {
        Command::Read { size, .. } => size.get() as usize,
        Command::Write { bytes, .. } => bytes.len(),
        Command::Flush | Command::Trim { .. } | Command::Zero { .. } => 0,
    }
}
