//! PDUs of NVMe/TCP as bytes: headers, digests, padding. All numbers are little-endian.
//!
//! ```text
//! kind flags hlen pdo │ plen │ fields up to hlen │ HDGST │ padding up to pdo │ data │ DDGST
//! ```
//!
//! NVM Express TCP Transport, "Transport Specific Content".

use thiserror::Error;

/// Bytes that all PDUs begin with.
pub const COMMON_BYTES: usize = 8;
/// Most bytes before the data of a PDU: header, digest and padding. No alignment is above 128, and
/// the longest header with data has 76: two units of at most 72, or one of more.
pub const MOST_PREFIX: usize = 144;
/// Bytes of a digest.
pub(super) const DIGEST_BYTES: usize = 4;
/// Bytes of a submission queue entry.
pub const ENTRY_BYTES: usize = 64;
/// Bytes of a completion queue entry.
pub const COMPLETION_BYTES: usize = 16;
/// Most bytes of the header that a PDU that ends a connection quotes.
const MOST_QUOTED: usize = 128;

mod kind {
    pub const INITIALIZE_REQUEST: u8 = 0x00;
    pub const INITIALIZE_RESPONSE: u8 = 0x01;
    pub const HOST_ENDS: u8 = 0x02;
    pub const CONTROLLER_ENDS: u8 = 0x03;
    pub const COMMAND: u8 = 0x04;
    pub const RESPONSE: u8 = 0x05;
    pub const HOST_DATA: u8 = 0x06;
    pub const CONTROLLER_DATA: u8 = 0x07;
    pub const READY: u8 = 0x09;
}

mod flag {
    pub const HEADER_DIGEST: u8 = 1 << 0;
    pub const DATA_DIGEST: u8 = 1 << 1;
    pub const LAST: u8 = 1 << 2;
    pub const SUCCESS: u8 = 1 << 3;

    pub fn when(is: bool, flag: u8) -> u8 {
        if is { flag } else { 0 }
    }
}

/// What a host calls a command of a queue; the response bears it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandId(pub u16);

/// What a controller calls a transfer that it is ready for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransferTag(pub u16);

/// Which CRC-32C both sides add.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests {
    /// Of headers.
    pub header: bool,
    /// Of data.
    pub data: bool,
}

/// How a side frames what it sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Framing {
    /// What it adds.
    pub digests: Digests,
    /// What the other side wants data to be aligned to, in 4 B, less one: at most 31.
    pub alignment: u8,
}

/// Why a connection is ended (FES).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Fatal {
    /// A field of a header is wrong.
    Field = 1,
    /// A PDU comes when it may not.
    Sequence = 2,
    /// The header's digest is wrong.
    HeaderDigest = 3,
    /// Data beyond what was asked for.
    Range = 4,
    /// More data than was agreed on.
    Limit = 5,
    /// Something that was not offered.
    Unsupported = 6,
}

/// What is wrong with a PDU: the connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{what} (byte {field} of its header)")]
pub struct Breach {
    /// The protocol's number.
    pub status: Fatal,
    /// Offset of the field that is wrong.
    pub field: u32,
    /// The same in words.
    pub what: &'static str,
}

impl Breach {
    /// What a controller has sent.
    pub(super) const fn of_controller(what: &'static str) -> Self {
        Self::new(Fatal::Sequence, 0, what)
    }

    pub(super) const fn new(status: Fatal, field: u32, what: &'static str) -> Self {
        Self {
            status,
            field,
            what,
        }
    }
}

/// A PDU without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pdu {
    /// ICReq: a host connects.
    InitializeRequest {
        /// Version of the format: 0.
        version: u16,
        /// To what data for the host is to be aligned, in 4 B, less one.
        alignment: u8,
        /// What the host would have.
        digests: Digests,
        /// Transfers of a command that may be asked for at a time, less one.
        most_ready: u32,
    },
    /// ICResp: a controller agrees.
    InitializeResponse {
        /// Version of the format: 0.
        version: u16,
        /// To what data for the controller is to be aligned, in 4 B, less one.
        alignment: u8,
        /// What is added from now on.
        digests: Digests,
        /// Most bytes of data of a PDU to the controller.
        most_data: u32,
    },
    /// H2CTermReq.
    HostEnds {
        /// Why, as the protocol numbers it.
        status: u16,
        /// Which field.
        field: u32,
    },
    /// C2HTermReq.
    ControllerEnds {
        /// Why, as the protocol numbers it.
        status: u16,
        /// Which field.
        field: u32,
    },
    /// CapsuleCmd: a command, with data if it has room for them.
    Command([u8; ENTRY_BYTES]),
    /// CapsuleResp.
    Response([u8; COMPLETION_BYTES]),
    /// H2CData.
    HostData {
        /// Of which command.
        command: CommandId,
        /// Of which transfer.
        tag: TransferTag,
        /// Where in the command's data.
        offset: u32,
        /// How many bytes.
        size: u32,
        /// It is the last of the transfer.
        is_last: bool,
    },
    /// C2HData.
    ControllerData {
        /// Of which command.
        command: CommandId,
        /// Where in the command's data.
        offset: u32,
        /// How many bytes.
        size: u32,
        /// It is the last of the command.
        is_last: bool,
        /// The command has succeeded, and no response follows.
        is_success: bool,
    },
    /// R2T: the controller is ready for data.
    Ready {
        /// Of which command.
        command: CommandId,
        /// What it calls the transfer.
        tag: TransferTag,
        /// Where in the command's data.
        offset: u32,
        /// How many bytes.
        size: u32,
    },
}

/// Where the parts of a PDU are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of the header.
    pub header: usize,
    /// A digest follows the header.
    pub has_header_digest: bool,
    /// Bytes of padding before the data.
    pub padding: usize,
    /// Bytes of data.
    pub data: usize,
    /// A digest follows the data.
    pub has_data_digest: bool,
}

impl Layout {
    /// Bytes of header and its digest.
    pub fn front(&self) -> usize {
        self.header + usize::from(self.has_header_digest) * DIGEST_BYTES
    }
}

/// What a PDU begins with, as it stands there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    kind: u8,
    flags: u8,
    header: u8,
    data_offset: u8,
    size: u32,
}

impl Head {
    /// Reads the first bytes.
    pub fn read(bytes: &[u8; COMMON_BYTES]) -> Self {
        let [kind, flags, header, data_offset, a, b, c, d] = *bytes;
        let size = u32::from_le_bytes([a, b, c, d]);
        Self {
            kind,
            flags,
            header,
            data_offset,
            size,
        }
    }

    /// Where the parts are, if they can be.
    ///
    /// # Errors
    /// An unknown kind, lengths that contradict each other, digests that were not agreed on.
    pub fn layout(&self, digests: Digests) -> Result<Layout, Breach> {
        let wrong = |field, what| Err(Breach::new(Fatal::Field, field, what));
        let Some((header, carries_data, is_bare)) = form(self.kind) else {
            return wrong(0, "a PDU of no known kind");
        };
        if usize::from(self.header) != header {
            return wrong(2, "a header of another length than its kind has");
        }
        let digests = if is_bare { Digests::default() } else { digests };
        if digests.header != (self.flags & flag::HEADER_DIGEST != 0) {
            return wrong(1, "a header's digest that was not agreed on, or none");
        }
        let mut layout = Layout {
            header,
            has_header_digest: digests.header,
            padding: 0,
            data: 0,
            has_data_digest: false,
        };
        let (size, front) = (self.size as usize, layout.front());
        if size == front {
            return Ok(layout);
        }
        if size < front || !carries_data {
            return wrong(4, "a length that its kind does not have");
        }
        if digests.data != (self.flags & flag::DATA_DIGEST != 0) {
            return wrong(1, "a digest of data that was not agreed on, or none");
        }
        let start = if is_bare {
            front
        } else {
            usize::from(self.data_offset)
        };
        if start < front || !start.is_multiple_of(4) {
            return wrong(
                3,
                "data that begin within the header, or not at a multiple of 4",
            );
        }
        let tail = usize::from(digests.data) * DIGEST_BYTES;
        if size <= start + tail {
            return wrong(4, "a length without room for data");
        }
        layout.padding = start - front;
        layout.data = size - start - tail;
        layout.has_data_digest = digests.data;
        Ok(layout)
    }
}

/// Bytes of a kind's header, whether data may follow, and whether it never has digests.
fn form(kind: u8) -> Option<(usize, bool, bool)> {
    Some(match kind {
        kind::INITIALIZE_REQUEST | kind::INITIALIZE_RESPONSE => (128, false, true),
        kind::HOST_ENDS | kind::CONTROLLER_ENDS => (24, true, true),
        kind::COMMAND => (72, true, false),
        kind::RESPONSE | kind::READY => (24, false, false),
        kind::HOST_DATA | kind::CONTROLLER_DATA => (24, true, false),
        _ => return None,
    })
}

/// CRC-32C of what has a digest.
pub(super) fn digest(bytes: &[u8]) -> u32 {
    checksum::crc32c(bytes)
}

/// Whether bytes end in their digest.
pub(super) fn ends_in_digest(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk::<DIGEST_BYTES>()
        .is_some_and(|(all, sum)| digest(all).to_le_bytes() == *sum)
}

impl Pdu {
    /// Reads a header that has the length of its kind.
    ///
    /// # Errors
    /// An unknown kind, or fewer bytes.
    pub fn read(header: &[u8]) -> Result<Self, Breach> {
        let wrong = Breach::new(Fatal::Field, 0, "a PDU of no known kind");
        let kind = *header.first().ok_or(wrong)?;
        let (size, ..) = form(kind).ok_or(wrong)?;
        if header.len() < size {
            return Err(Breach::new(Fatal::Field, 2, "a header that is cut short"));
        }
        let flags = header[1];
        let digests = |byte: u8| Digests {
            header: byte & 1 != 0,
            data: byte & 2 != 0,
        };
        let (version, alignment) = (u16_at(header, 8), header[10]);
        let command = CommandId(u16_at(header, 8));
        let tag = TransferTag(u16_at(header, 10));
        let (offset, bytes) = (u32_at(header, 12), u32_at(header, 16));
        let is_last = flags & flag::LAST != 0;
        Ok(match kind {
            kind::INITIALIZE_REQUEST => Self::InitializeRequest {
                version,
                alignment,
                digests: digests(header[11]),
                most_ready: offset,
            },
            kind::INITIALIZE_RESPONSE => Self::InitializeResponse {
                version,
                alignment,
                digests: digests(header[11]),
                most_data: offset,
            },
            kind::HOST_ENDS => Self::HostEnds {
                status: version,
                field: u32_at(header, 10),
            },
            kind::CONTROLLER_ENDS => Self::ControllerEnds {
                status: version,
                field: u32_at(header, 10),
            },
            kind::COMMAND => Self::Command(array_at(header, 8)),
            kind::RESPONSE => Self::Response(array_at(header, 8)),
            kind::HOST_DATA => Self::HostData {
                command,
                tag,
                offset,
                size: bytes,
                is_last,
            },
            kind::CONTROLLER_DATA => Self::ControllerData {
                command,
                offset,
                size: bytes,
                is_last,
                is_success: flags & flag::SUCCESS != 0,
            },
            _ => Self::Ready {
                command,
                tag,
                offset,
                size: bytes,
            },
        })
    }

    fn kind(&self) -> u8 {
        match self {
            Self::InitializeRequest { .. } => kind::INITIALIZE_REQUEST,
            Self::InitializeResponse { .. } => kind::INITIALIZE_RESPONSE,
            Self::HostEnds { .. } => kind::HOST_ENDS,
            Self::ControllerEnds { .. } => kind::CONTROLLER_ENDS,
            Self::Command(_) => kind::COMMAND,
            Self::Response(_) => kind::RESPONSE,
            Self::HostData { .. } => kind::HOST_DATA,
            Self::ControllerData { .. } => kind::CONTROLLER_DATA,
            Self::Ready { .. } => kind::READY,
        }
    }

    /// All that comes before so many bytes of data, and how many bytes that are.
    pub(super) fn prefix(&self, framing: Framing, data: usize) -> ([u8; MOST_PREFIX], usize) {
        let (header, _, is_bare) = form(self.kind()).expect("it is one of these");
        let digests = match is_bare {
            true => Digests::default(),
            false => framing.digests,
        };
        let front = header + usize::from(digests.header) * DIGEST_BYTES;
        let unit = (usize::from(framing.alignment) + 1) * 4;
        let (start, size, flags) = match data {
            0 => (front, front, 0),
            _ if is_bare => (front, front + data, 0),
            _ => {
                let start = front.next_multiple_of(unit);
                let tail = usize::from(digests.data) * DIGEST_BYTES;
                let flags = flag::when(digests.data, flag::DATA_DIGEST);
                (start, start + data + tail, flags)
            }
        };
        let mut out = [0; MOST_PREFIX];
        out[0] = self.kind();
        out[1] = flags | flag::when(digests.header, flag::HEADER_DIGEST);
        out[2] = header as u8;
        out[3] = if data > 0 && !is_bare { start as u8 } else { 0 };
        out[4..8].copy_from_slice(&(size as u32).to_le_bytes());
        self.fields(&mut out);
        if digests.header {
            let sum = digest(&out[..header]).to_le_bytes();
            out[header..front].copy_from_slice(&sum);
        }
        (out, start)
    }

    fn fields(&self, out: &mut [u8; MOST_PREFIX]) {
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let bits = |digests: Digests| u8::from(digests.header) | u8::from(digests.data) << 1;
        match *self {
            Self::InitializeRequest {
                version,
                alignment,
                digests,
                most_ready: most,
            }
            | Self::InitializeResponse {
                version,
                alignment,
                digests,
                most_data: most,
            } => {
                put(8, &version.to_le_bytes());
                put(10, &[alignment, bits(digests)]);
                put(12, &most.to_le_bytes());
            }
            Self::HostEnds { status, field } | Self::ControllerEnds { status, field } => {
                put(8, &status.to_le_bytes());
                put(10, &field.to_le_bytes());
            }
            Self::Command(entry) => put(8, &entry),
            Self::Response(entry) => put(8, &entry),
            Self::HostData {
                command,
                tag,
                offset,
                size,
                ..
            }
            | Self::Ready {
                command,
                tag,
                offset,
                size,
            } => {
                put(8, &command.0.to_le_bytes());
                put(10, &tag.0.to_le_bytes());
                put(12, &offset.to_le_bytes());
                put(16, &size.to_le_bytes());
            }
            Self::ControllerData {
                command,
                offset,
                size,
                ..
            } => {
                put(8, &command.0.to_le_bytes());
                put(12, &offset.to_le_bytes());
                put(16, &size.to_le_bytes());
            }
        }
        out[1] |= match *self {
            Self::HostData { is_last, .. } => flag::when(is_last, flag::LAST),
            Self::ControllerData {
                is_last,
                is_success,
                ..
            } => flag::when(is_last, flag::LAST) | flag::when(is_success, flag::SUCCESS),
            _ => 0,
        };
    }

    /// Adds the PDU with its data to what is to be sent.
    pub fn write(&self, framing: Framing, data: &[u8], out: &mut Vec<u8>) {
        let (prefix, size) = self.prefix(framing, data.len());
        out.extend_from_slice(&prefix[..size]);
        out.extend_from_slice(data);
        let (_, _, is_bare) = form(self.kind()).expect("it is one of these");
        if framing.digests.data && !data.is_empty() && !is_bare {
            out.extend(digest(data).to_le_bytes());
        }
    }
}

/// What a controller says that ends a connection: why, and of which header.
pub(super) fn farewell(breach: &Breach, header: &[u8], out: &mut Vec<u8>) {
    let pdu = Pdu::ControllerEnds {
        status: breach.status as u16,
        field: breach.field,
    };
    pdu.write(
        Framing::default(),
        &header[..header.len().min(MOST_QUOTED)],
        out,
    );
}

/// So many bytes from there; the caller has looked whether they are there.
pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}
