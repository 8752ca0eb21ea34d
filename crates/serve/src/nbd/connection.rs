//! A client's socket: bytes that came and bytes that wait to go.

use super::perform::{Answer, Done};
use super::request::{Command, Refusal, Request};
use super::session::{Event, Session};
use super::{Export, reply};
use crate::output::{Buffers, Output, is_passing};
use crate::stream::Stream;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes that are read from a socket at once: what a unix socket holds.
const INPUT: usize = 256 << 10;
/// Requests of one client that are with the device at once.
const MOST_REQUESTS: usize = 256;
/// Bytes that a client may have asked for and not taken before no more of it is read.
const MOST_OWED: usize = 16 << 20;

const _: () = assert!(INPUT >= Session::MOST_AT_ONCE);

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
    output: Output,
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
            output: Output::default(),
            requests: 0,
            owed: 0,
            is_stalled: false,
            has_ended: false,
            is_gone: false,
        };
        connection.output.small(|out| out.extend(greeting));
        Ok(connection)
    }

    pub fn is_past_handshake(&self) -> bool {
        self.session.is_past_handshake()
    }

    /// Whether it can be forgotten: the device has nothing of it, and the client waits for nothing.
    pub fn is_over(&self) -> bool {
        self.requests == 0
            && (self.is_gone || self.has_ended && self.output.unsent() == 0 && !self.is_stalled)
    }

    /// Whether there is room again for requests that were read.
    pub fn can_go_on(&self) -> bool {
        self.is_stalled && !self.is_gone && self.has_room()
    }

    /// Whether nothing is on its way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.is_gone || self.requests == 0 && self.output.unsent() == 0
    }

    /// Whether its client may be listened to.
    pub fn wants_input(&self) -> bool {
        !self.has_ended && !self.is_gone && self.has_room()
    }

    pub fn wants_output(&self) -> bool {
        self.output.unsent() > 0 && !self.is_gone
    }

    fn has_room(&self) -> bool {
        self.requests < MOST_REQUESTS && self.owed + self.output.unsent() < MOST_OWED
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
                self.output.small(|segment| segment.append(&mut out));
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
                self.output.push(done.buffer, sent);
                return;
            }
            Ok(Answer::Done) => {
                let add = |out: &mut Vec<u8>| reply::done(out, is_structured, done.cookie);
                self.output.small(add);
            }
            Err(refusal) => self.refuse(&refusal),
        }
        buffers.give(done.buffer);
    }

    /// Answers what was not done.
    pub fn refuse(&mut self, refusal: &Refusal) {
        let is_structured = self.session.is_structured();
        self.output
            .small(|out| reply::refused(out, is_structured, refusal));
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, buffers: &mut Buffers) {
        if self.wants_output() && self.output.send(&mut self.stream, buffers).is_err() {
            self.is_gone = true;
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Bytes that a request holds while it is with the device.
fn weight(command: &Command) -> usize {
    match command {
        Command::Read { size, .. } => size.get() as usize,
        Command::Write { bytes, .. } => bytes.len(),
        Command::Flush | Command::Trim { .. } | Command::Zero { .. } => 0,
    }
}
