//! A connection as a function from bytes to events.

use super::export::Export;
use super::handshake::{self, Handshake, Next};
use super::request::{self, Command, Head, Refusal, Request};
use super::wire::{MOST_OPTION, OPTION_BYTES, OPTION_MAGIC, REQUEST_BYTES, Reader, answer};

/// What a client's bytes amount to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing without more bytes.
    More,
    /// Something that is done already; there may be more in the bytes.
    Went,
    /// A request.
    Request(Request),
    /// A request that must be answered with an error.
    Refused(Refusal),
    /// The connection is over; bytes that follow mean nothing.
    End(End),
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The client said so.
    Finished,
    /// The client does not speak the protocol.
    Broken(&'static str),
}

#[derive(Debug)]
enum Phase {
    ClientFlags,
    Options,
    /// The rest of an option that is too long to be looked at.
    LongOption {
        left: u32,
    },
    Requests,
    /// The rest of a write; what has come is in `Session::payload`.
    Payload {
        request: Request,
        left: usize,
    },
    /// The rest of a write that is refused. It is read so that the next request is found.
    Refused {
        refusal: Refusal,
        left: usize,
    },
    Over(End),
}

/// One connection's side of the protocol. Keeps bytes of a write as they come, and nothing else.
#[derive(Debug)]
pub struct Session {
    export: Export,
    handshake: Handshake,
    phase: Phase,
    payload: Vec<u8>,
}

impl Session {
    /// Most bytes that a step needs to see at once. Who offers so many is never asked for more.
    pub const MOST_AT_ONCE: usize = OPTION_BYTES + MOST_OPTION as usize;

    /// A connection that has just been made, and what to greet it with.
    pub fn new(export: Export) -> (Self, Vec<u8>) {
        let session = Self {
            export,
            handshake: Handshake::default(),
            phase: Phase::ClientFlags,
            payload: Vec::new(),
        };
        (session, handshake::greeting())
    }

    /// Whether requests may come, or came.
    pub fn is_past_handshake(&self) -> bool {
        use Phase::{ClientFlags, LongOption, Options};
        !matches!(self.phase, ClientFlags | Options | LongOption { .. })
    }

    /// Whether answers are structured replies.
    pub fn is_structured(&self) -> bool {
        self.handshake.is_structured
    }

    /// Bytes kept of a write that has not come to its end.
    pub fn kept(&self) -> usize {
        self.payload.capacity()
    }

    /// Gives an empty buffer for the payload of the next write.
    pub fn lend(&mut self, buffer: Vec<u8>) {
        if self.payload.capacity() == 0 {
            self.payload = buffer;
            self.payload.clear();
        }
    }

    /// Takes bytes from the front of `input`, and says how many and what they were. Answers of the
    /// handshake go to `out`.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        match &mut self.phase {
            Phase::ClientFlags => self.client_flags(input),
            Phase::Options => self.option(input, out),
            Phase::LongOption { left } => {
                let taken = input.len().min(*left as usize);
                *left -= taken as u32;
                if *left > 0 {
                    return (taken, Event::More);
                }
                self.phase = Phase::Options;
                (taken, Event::Went)
            }
            Phase::Requests => self.request(input),
            Phase::Payload { left, .. } => {
                let taken = input.len().min(*left);
                *left -= taken;
                self.payload.extend_from_slice(&input[..taken]);
                (taken, self.whole_write())
            }
            Phase::Refused { left, .. } => {
                let taken = input.len().min(*left);
                *left -= taken;
                (taken, self.whole_refusal())
            }
            Phase::Over(end) => (0, Event::End(*end)),
        }
    }

    fn over(&mut self, end: End) -> Event {
        self.payload = Vec::new();
        self.phase = Phase::Over(end);
        Event::End(end)
    }

    fn client_flags(&mut self, input: &[u8]) -> (usize, Event) {
        let Some(flags) = Reader(input).u32() else {
            return (0, Event::More);
        };
        let event = if self.handshake.client_flags(flags) {
            self.phase = Phase::Options;
            Event::Went
        } else {
            self.over(End::Broken("wants what was not offered"))
        };
        (4, event)
    }

    fn option(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        let mut from = Reader(input);
        let (Some(magic), Some(code), Some(size)) = (from.u64(), from.u32(), from.u32()) else {
            return (0, Event::More);
        };
        if magic != OPTION_MAGIC {
            return (
                0,
                self.over(End::Broken("sent something that is no option")),
            );
        }
        if size > MOST_OPTION {
            handshake::reply(out, code, answer::TOO_BIG, b"the option is too long");
            self.phase = Phase::LongOption { left: size };
            return (OPTION_BYTES, Event::Went);
        }
        let Some(data) = from.bytes(size as usize) else {
            return (0, Event::More);
        };
        let event = match self.handshake.option(&self.export, code, data, out) {
            Next::Options => Event::Went,
            Next::Requests => {
                self.phase = Phase::Requests;
                Event::Went
            }
            Next::End => self.over(End::Finished),
        };
        (OPTION_BYTES + size as usize, event)
    }

    fn request(&mut self, input: &[u8]) -> (usize, Event) {
        let Some(bytes) = input.first_chunk() else {
            return (0, Event::More);
        };
        let event = match request::head(bytes, &self.export, self.is_structured()) {
            None => {
                return (
                    0,
                    self.over(End::Broken("sent something that is no request")),
                );
            }
            Some(Head::Disconnect) => self.over(End::Finished),
            Some(Head::Whole(request)) => Event::Request(request),
            Some(Head::Payload(request, left)) => {
                self.phase = Phase::Payload { request, left };
                Event::Went
            }
            Some(Head::Refused(refusal, 0)) => Event::Refused(refusal),
            Some(Head::Refused(refusal, left)) => {
                self.phase = Phase::Refused { refusal, left };
                Event::Went
            }
        };
        (REQUEST_BYTES, event)
    }

    fn whole_write(&mut self) -> Event {
        if matches!(self.phase, Phase::Payload { left, .. } if left > 0) {
            return Event::More;
        }
        let Phase::Payload { mut request, .. } =
            core::mem::replace(&mut self.phase, Phase::Requests)
        else {
            unreachable!("called within a payload")
        };
        if let Command::Write { bytes, .. } = &mut request.command {
            *bytes = core::mem::take(&mut self.payload);
        }
        Event::Request(request)
    }

    fn whole_refusal(&mut self) -> Event {
        if matches!(self.phase, Phase::Refused { left, .. } if left > 0) {
            return Event::More;
        }
        let Phase::Refused { refusal, .. } = core::mem::replace(&mut self.phase, Phase::Requests)
        else {
            unreachable!("called within a refused payload")
        };
        Event::Refused(refusal)
    }
}
