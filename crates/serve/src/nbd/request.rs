//! Commands of a client, and what is refused before the device sees it.

use super::export::{Export, Way};
use super::wire::{Errno, REQUEST_BYTES, REQUEST_MAGIC, Reader, command, flag};
use port::Acknowledge;
use units::{ByteAddr, Bytes};

/// What a client calls a request; its answer bears it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cookie(pub(super) u64);

/// What a client asks for: ranges of whole blocks within the export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Bytes, please.
    Read {
        /// First byte.
        at: ByteAddr,
        /// How many: at most [`super::MOST_PAYLOAD`].
        size: Bytes,
    },
    /// Takes bytes.
    Write {
        /// Where the first goes.
        at: ByteAddr,
        /// All of them.
        bytes: Vec<u8>,
        /// When to answer.
        when: Acknowledge,
    },
    /// What was answered is to survive.
    Flush,
    /// Forgets a range, which reads as zeroes.
    Trim {
        /// First byte.
        at: ByteAddr,
        /// How many; there is no payload, so up to 4 GiB.
        size: Bytes,
        /// When to answer.
        when: Acknowledge,
    },
    /// Writes zeroes where a hole will not do.
    Zero {
        /// First byte.
        at: ByteAddr,
        /// How many, as for a trim.
        size: Bytes,
        /// When to answer.
        when: Acknowledge,
    },
}

/// A command and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its name.
    pub cookie: Cookie,
    /// What to do.
    pub command: Command,
}

/// A request that is not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Its name.
    pub cookie: Cookie,
    /// The protocol's number for the reason.
    pub errno: Errno,
    /// The reason as a sentence: structured replies carry it.
    pub message: String,
}

impl Refusal {
    /// The server stops; what that means for the client.
    pub(super) fn too_late(cookie: Cookie, hence: &str) -> Self {
        Self {
            cookie,
            errno: Errno::Shutdown,
            message: format!("the server stops; {hence}"),
        }
    }
}

/// What the head of a request says.
pub(super) enum Head {
    /// All of a request.
    Whole(Request),
    /// A write, whose bytes follow.
    Payload(Request, usize),
    /// What is refused; so many bytes follow that belong to it.
    Refused(Refusal, usize),
    /// The client takes its leave.
    Disconnect,
}

/// A head as it stands in the bytes.
struct Raw {
    flags: u16,
    kind: u16,
    cookie: Cookie,
    at: u64,
    size: u32,
}

/// Reads a head. `None` if it is none: where the next request starts is not known then.
pub(super) fn head(
    bytes: &[u8; REQUEST_BYTES],
    export: &Export,
    is_structured: bool,
) -> Option<Head> {
    let mut from = Reader(bytes);
    if from.u32()? != REQUEST_MAGIC {
        return None;
    }
    let raw = Raw {
        flags: from.u16()?,
        kind: from.u16()?,
        cookie: Cookie(from.u64()?),
        at: from.u64()?,
        size: from.u32()?,
    };
    if raw.kind == command::DISCONNECT {
        return Some(Head::Disconnect);
    }
    let payload = if raw.kind == command::WRITE {
        raw.size as usize
    } else {
        0
    };
    Some(match raw.command(export, is_structured) {
        Err(refusal) => Head::Refused(refusal, payload),
        Ok(command) => {
            let cookie = raw.cookie;
            let request = Request { cookie, command };
            if payload > 0 {
                Head::Payload(request, payload)
            } else {
                Head::Whole(request)
            }
        }
    })
}

impl Raw {
    fn command(&self, export: &Export, is_structured: bool) -> Result<Command, Refusal> {
        self.check_flags(is_structured)?;
        let when = if self.flags & flag::FUA == 0 {
            Acknowledge::Accepted
        } else {
            Acknowledge::Durable
        };
        let range = |way| export.range(self.cookie, self.at, self.size, way);
        match self.kind {
            command::READ => {
                export.payload(self.cookie, self.size)?;
                let (at, size) = range(Way::Out)?;
                Ok(Command::Read { at, size })
            }
            command::WRITE => {
                export.payload(self.cookie, self.size)?;
                let (at, _) = range(Way::In)?;
                let bytes = Vec::new();
                Ok(Command::Write { at, bytes, when })
            }
            command::FLUSH if self.at == 0 && self.size == 0 => Ok(Command::Flush),
            command::FLUSH => Err(self.refuse("a flush is of everything; it has no range")),
            command::TRIM => {
                let (at, size) = range(Way::Out)?;
                Ok(Command::Trim { at, size, when })
            }
            command::WRITE_ZEROES => self.zeroes(range(Way::In)?, when),
            kind => Err(self.refuse(&format!("command {kind} is none that was offered"))),
        }
    }

    /// A hole is quick and reads as zeroes. Blocks that must stay have to be written.
    fn zeroes(&self, (at, size): (ByteAddr, Bytes), when: Acknowledge) -> Result<Command, Refusal> {
        if self.flags & flag::NO_HOLE == 0 {
            return Ok(Command::Trim { at, size, when });
        }
        if self.flags & flag::FAST_ZERO == 0 {
            return Ok(Command::Zero { at, size, when });
        }
        Err(Refusal {
            errno: Errno::NotSupported,
            ..self.refuse("zeroes without a hole are not faster than other bytes; write them")
        })
    }

    fn check_flags(&self, is_structured: bool) -> Result<(), Refusal> {
        let special = match self.kind {
            command::READ if is_structured => flag::DF,
            command::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            _ => 0,
        };
        let foreign = self.flags & !(flag::FUA | special);
        if foreign == 0 {
            return Ok(());
        }
        let kind = self.kind;
        Err(self.refuse(&format!("command {kind} has no flags {foreign:#x}")))
    }

    fn refuse(&self, message: &str) -> Refusal {
        Refusal {
            cookie: self.cookie,
            errno: Errno::Invalid,
            message: message.to_string(),
        }
    }
}
