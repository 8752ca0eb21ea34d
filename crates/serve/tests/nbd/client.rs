//! What a client says and hears.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const ZEROES: u16 = 6;
pub const FUA: u16 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ESHUTDOWN: u32 = 108;

/// An option with its data.
pub fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let parts: [&[u8]; 4] = [
        b"IHAVEOPT",
        &code.to_be_bytes(),
        &length.to_be_bytes(),
        data,
    ];
    parts.concat()
}

/// The data of an option that asks for an export and for information on it.
pub fn go_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.bytes());
    data.extend((wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|kind| kind.to_be_bytes()));
    data
}

/// Flags of a client that speaks fixed newstyle and wants no zeroes.
pub const FLAGS: [u8; 4] = [0, 0, 0, 3];

/// All of a handshake that ends in requests.
pub fn hello(is_structured: bool) -> Vec<u8> {
    let mut out = FLAGS.to_vec();
    if is_structured {
        out.extend(option(8, b""));
    }
    out.extend(option(7, &go_data("", &[3])));
    out
}

/// The head of a request.
pub fn request(flags: u16, kind: u16, cookie: u64, at: u64, size: u32) -> Vec<u8> {
    let mut out = 0x2560_9513_u32.to_be_bytes().to_vec();
    out.extend(flags.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(at.to_be_bytes());
    out.extend(size.to_be_bytes());
    out
}

/// A write with its bytes.
pub fn write(flags: u16, cookie: u64, at: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = request(flags, WRITE, cookie, at, bytes.len() as u32);
    out.extend_from_slice(bytes);
    out
}

/// An answer to a request.
#[derive(PartialEq, Eq, Debug)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    /// What was read, or the message of an error.
    pub bytes: Vec<u8>,
}

/// A client past its handshake.
pub struct Client {
    pub socket: UnixStream,
    is_structured: bool,
}

impl Client {
    pub fn new(path: &str, is_structured: bool) -> Self {
        let mut socket = UnixStream::connect(path).expect("the server listens");
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting).expect("a greeting");
        socket.write_all(&hello(is_structured)).expect("sent");
        let mut client = Self {
            socket,
            is_structured,
        };
        let answers = if is_structured { 4 } else { 3 };
        for _ in 0..answers {
            client.option_reply();
        }
        client
    }

    /// Number of the option, kind and data of an answer.
    pub fn option_reply(&mut self) -> (u32, u32, Vec<u8>) {
        assert_eq!(self.take(8), 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let (option, kind, size) = (self.u32(), self.u32(), self.u32());
        (option, kind, self.take(size as usize))
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("sent");
    }

    /// The next answer; `size` is how many bytes a successful one brings.
    pub fn reply(&mut self, size: usize) -> Reply {
        self.reply_or_end(size).expect("an answer")
    }

    /// The next answer, or nothing if the server has hung up.
    pub fn reply_or_end(&mut self, size: usize) -> Option<Reply> {
        let mut magic = [0; 4];
        self.socket.read_exact(&mut magic).ok()?;
        let magic = u32::from_be_bytes(magic);
        if self.is_structured {
            assert_eq!(magic, 0x668e_33ef);
            return Some(self.chunk(size));
        }
        assert_eq!(magic, 0x6744_6698);
        let (error, cookie) = (self.u32(), self.u64());
        let bytes = self.take(if error == 0 { size } else { 0 });
        Some(Reply {
            cookie,
            error,
            bytes,
        })
    }

    fn chunk(&mut self, size: usize) -> Reply {
        let head = self.take(4);
        assert_eq!(head[..2], [0, 1], "the only chunk");
        let kind = u16::from_be_bytes([head[2], head[3]]);
        let (cookie, length) = (self.u64(), self.u32() as usize);
        let mut data = self.take(length);
        let (error, bytes) = match kind {
            0 => (0, Vec::new()),
            1 => (0, data.split_off(8)),
            0x8001 => {
                let error = u32::from_be_bytes([data[0], data[1], data[2], data[3]]);
                let said = usize::from(u16::from_be_bytes([data[4], data[5]]));
                assert_eq!(said, length - 6);
                (error, data.split_off(6))
            }
            other => panic!("chunk {other:#x}"),
        };
        assert!(error != 0 || bytes.len() == size);
        Reply {
            cookie,
            error,
            bytes,
        }
    }

    /// Sends a request without payload and waits for its answer.
    pub fn ask(&mut self, flags: u16, kind: u16, at: u64, size: u32) -> Reply {
        self.send(&request(flags, kind, 77, at, size));
        let reply = self.reply(if kind == READ { size as usize } else { 0 });
        assert_eq!(reply.cookie, 77);
        reply
    }

    /// Writes and expects success.
    pub fn write(&mut self, flags: u16, at: u64, bytes: &[u8]) {
        self.send(&write(flags, 78, at, bytes));
        assert_eq!(self.reply(0).error, 0);
    }

    /// Reads and expects success.
    pub fn read(&mut self, at: u64, size: u32) -> Vec<u8> {
        let reply = self.ask(0, READ, at, size);
        assert_eq!(reply.error, 0);
        reply.bytes
    }

    /// Whether the server has hung up, and says nothing more.
    pub fn is_over(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.socket.read(&mut byte), Ok(0) | Err(_))
    }

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.socket.read_exact(&mut bytes).expect("an answer");
        bytes
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().expect("four"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take(8).try_into().expect("eight"))
    }
}
