//! The socket: who is there, the memory's way to the client, and bells.
//!
//! A bell is one byte. Both ends have a descriptor of their own and never wait in a call on it, so
//! no process can make the other one wait; an `eventfd` has its flags in common and would let it.

use crate::layout::{LayoutError, MOST_DATA, MOST_REQUEST, VERSION};
use crate::region::Region;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use units::Bytes;

const HELLO: [u8; 8] = *b"ENTRshmh";
const WELCOME: [u8; 8] = *b"ENTRshmw";
/// Bytes of what a client says first.
pub const HELLO_BYTES: usize = 24;
const WELCOME_BYTES: usize = 16;
/// Longest reason for which a client is refused, in bytes.
const MOST_TEXT: usize = 1024;

/// What a client says: the data area that it wants.
pub fn hello(data: Bytes) -> [u8; HELLO_BYTES] {
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&HELLO);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..].copy_from_slice(&data.get().to_le_bytes());
    bytes
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("four bytes"))
}

/// What a client wants.
///
/// # Errors
/// Why it is refused, as a sentence.
pub fn wanted(hello: &[u8; HELLO_BYTES]) -> Result<Bytes, String> {
    if hello[..8] != HELLO {
        return Err("this is the shared-memory port of an Entresol device; \
                    connect with its client library"
            .to_owned());
    }
    let version = half(hello, 8);
    if version != VERSION {
        return Err(format!(
            "the client speaks version {version} of the shared-memory port and the server \
             {VERSION}; use the same release of both"
        ));
    }
    let size = hello[16..].try_into().expect("eight bytes");
    let wanted = Bytes::new(u64::from_le_bytes(size));
    if wanted < MOST_REQUEST || wanted > MOST_DATA {
        return Err(LayoutError::Data { wanted }.to_string());
    }
    Ok(wanted)
}

/// New memory of a fixed size, zeroed, and its file. A page of it takes memory when it is touched.
///
/// # Errors
/// What the operating system says.
pub fn memory(bytes: usize) -> io::Result<(File, Region)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("entresol", flags)?);
    file.set_len(bytes as u64)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    let region = Region::new(&file, bytes)?;
    Ok((file, region))
}

fn welcome_bytes(text: &str) -> Vec<u8> {
    let mut size = text.len().min(MOST_TEXT);
    while !text.is_char_boundary(size) {
        size -= 1;
    }
    let mut bytes = WELCOME.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((size as u32).to_le_bytes());
    bytes.extend(&text.as_bytes()[..size]);
    bytes
}

const QUIET: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Lets a client in: sends it the memory. Does not wait; a client that does not listen is refused.
///
/// # Errors
/// The client has gone, or does not listen.
pub fn welcome(socket: impl AsFd, file: &File) -> io::Result<()> {
    let bytes = welcome_bytes("");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    let has_room = control.push(SendAncillaryMessage::ScmRights(&files));
    assert!(has_room, "room for one descriptor");
    let parts = [IoSlice::new(&bytes)];
    let sent = rustix::net::sendmsg(socket, &parts, &mut control, QUIET)?;
    if sent < bytes.len() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Ok(())
}

/// Tells a client why it is not let in. Does not wait.
///
/// # Errors
/// The client has gone, or does not listen.
pub fn refuse(socket: impl AsFd, text: &str) -> io::Result<()> {
    rustix::net::send(socket, &welcome_bytes(text), QUIET)?;
    Ok(())
}

/// What a server has answered to a hello.
#[derive(Debug)]
pub enum Reply {
    /// The memory.
    Memory(File),
    /// Why not.
    Refused(String),
    /// It is no such server.
    Foreign,
    /// It speaks another version.
    Version(u32),
}

/// Waits for the server's answer, as long as the socket allows.
///
/// # Errors
/// What the operating system says.
pub fn reply(socket: impl AsFd) -> io::Result<Reply> {
    let mut bytes = [0; WELCOME_BYTES];
    let mut file = None;
    let mut have = 0;
    while have < bytes.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes[have..])];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = rustix::net::recvmsg(&socket, &mut parts, &mut control, flags)?;
        if got.bytes == 0 {
            return Ok(Reply::Foreign);
        }
        have += got.bytes;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                file = files.last().map(File::from).or(file);
            }
        }
    }
    if bytes[..8] != WELCOME {
        return Ok(Reply::Foreign);
    }
    let version = half(&bytes, 8);
    match (half(&bytes, 12) as usize, file) {
        (0, Some(_)) if version != VERSION => Ok(Reply::Version(version)),
        (0, Some(file)) => Ok(Reply::Memory(file)),
        (size @ 1..=MOST_TEXT, _) => Ok(Reply::Refused(text(&socket, size)?)),
        _ => Ok(Reply::Foreign),
    }
}

fn text(socket: impl AsFd, size: usize) -> io::Result<String> {
    let mut text = vec![0; size];
    let mut have = 0;
    while have < size {
        match rustix::net::recv(&socket, &mut text[have..], RecvFlags::empty())?.0 {
            0 => break,
            got => have += got,
        }
    }
    Ok(String::from_utf8_lossy(&text[..have]).into_owned())
}

/// Wakes the other side. That it has gone is found out when it is listened to.
pub fn ring(socket: impl AsFd) {
    // A full socket has bells enough.
    let _ = rustix::net::send(socket, &[1], QUIET);
}

/// What was heard on a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// Bells; they are over.
    Bells,
    /// The other side has gone.
    Gone,
}

/// Listens without waiting.
pub fn listen(socket: impl AsFd) -> Heard {
    let mut bells = [0_u8; 64];
    loop {
        let heard = rustix::net::recv(&socket, &mut bells, RecvFlags::DONTWAIT);
        return match heard {
            Ok((0, _)) => Heard::Gone,
            Ok(_) => Heard::Bells,
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Heard::Nothing,
            Err(_) => Heard::Gone,
        };
    }
}

/// Something to wake a sleeper of this process with.
pub(crate) fn waker() -> io::Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    Ok(rustix::event::eventfd(0, flags)?)
}

/// Wakes a sleeper of this process.
pub(crate) fn wake(waker: &OwnedFd) {
    // If it is full, it wakes.
    let _ = rustix::io::write(waker, &1_u64.to_ne_bytes());
}

/// Sleeps until there is something to hear, the waker wakes, a signal comes, or the time is over.
pub(crate) fn sleep(socket: impl AsFd, waker: &OwnedFd, longest: Duration) {
    let socket = socket.as_fd();
    let mut fds = [
        PollFd::new(&socket, PollFlags::IN),
        PollFd::new(waker, PollFlags::IN),
    ];
    let timeout = Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: i64::from(longest.subsec_nanos()),
    };
    // Whatever these say, the caller looks for himself.
    let _ = poll(&mut fds, Some(&timeout));
    let _ = rustix::io::read(waker, &mut [0; 8]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn memory_goes_over_the_socket_and_is_shared() {
        let (server, client) = UnixStream::pair().unwrap();
        let (file, region) = memory(4096).unwrap();
        welcome(&server, &file).unwrap();
        let Ok(Reply::Memory(received)) = reply(&client) else {
            panic!("no memory came");
        };
        let other = Region::new(&received, 4096).unwrap();
        region.write(8, b"here");
        let mut found = [0; 4];
        other.read(8, &mut found);
        assert_eq!(&found, b"here");
        assert!(received.set_len(100).is_err(), "sealed");
        assert!(received.set_len(100_000).is_err(), "sealed");
    }

    #[test]
    fn a_refusal_is_a_sentence_and_strangers_are_known() {
        let (server, client) = UnixStream::pair().unwrap();
        refuse(&server, "not now").unwrap();
        assert!(matches!(reply(&client), Ok(Reply::Refused(text)) if text == "not now"));
        rustix::net::send(&server, b"HTTP/1.1 200 OK\r\n", SendFlags::empty()).unwrap();
        assert!(matches!(reply(&client), Ok(Reply::Foreign)));
        drop(server);
        assert!(matches!(reply(&client), Ok(Reply::Foreign)));
    }

    #[test]
    fn a_hello_says_what_is_wanted() {
        let size = Bytes::from_mib(4);
        assert_eq!(wanted(&hello(size)), Ok(size));
        let mut wrong = hello(size);
        wrong[8] = 9;
        assert!(wanted(&wrong).unwrap_err().contains("version 9"));
        wrong[0] = b'G';
        assert!(wanted(&wrong).unwrap_err().contains("client library"));
        for size in [Bytes::ZERO, Bytes::from_mib(17), Bytes::new(u64::MAX)] {
            let error = wanted(&hello(size)).unwrap_err();
            assert!(error.contains("is not between 256KiB and 16MiB"), "{error}");
        }
    }

    #[test]
    fn bells_are_heard_once_and_the_end_for_ever() {
        let (server, client) = UnixStream::pair().unwrap();
        assert_eq!(listen(&server), Heard::Nothing);
        ring(&client);
        ring(&client);
        assert_eq!(listen(&server), Heard::Bells);
        assert_eq!(listen(&server), Heard::Nothing);
        drop(client);
        assert_eq!(listen(&server), Heard::Gone);
        ring(&server);
    }
}
