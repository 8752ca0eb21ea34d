//! Answers as bytes.

use super::request::{Cookie, Refusal};
use super::wire::{CHUNK_MAGIC, SIMPLE_MAGIC, chunk};
use units::ByteAddr;

/// Room in front of read bytes for the longer of the two heads.
pub(super) const ROOM: usize = 28;
const SIMPLE: usize = 16;
/// Longest message of an error.
const MOST_MESSAGE: usize = 1000;

fn simple(errno: u32, cookie: Cookie) -> [u8; SIMPLE] {
    let mut out = [0; SIMPLE];
    out[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&errno.to_be_bytes());
    out[8..].copy_from_slice(&cookie.0.to_be_bytes());
    out
}

/// The head of the only chunk of a structured reply.
fn only_chunk(kind: u16, cookie: Cookie, size: usize) -> [u8; 20] {
    let mut out = [0; 20];
    out[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&chunk::DONE.to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.0.to_be_bytes());
    out[16..].copy_from_slice(&(size as u32).to_be_bytes());
    out
}

/// Writes the head of an answered read into the room in front of its bytes. Returns where the head
/// starts.
pub(super) fn read(buffer: &mut [u8], is_structured: bool, cookie: Cookie, at: ByteAddr) -> usize {
    if !is_structured {
        buffer[ROOM - SIMPLE..ROOM].copy_from_slice(&simple(0, cookie));
        return ROOM - SIMPLE;
    }
    let size = buffer.len() - ROOM + 8;
    buffer[..20].copy_from_slice(&only_chunk(chunk::OFFSET_DATA, cookie, size));
    buffer[20..ROOM].copy_from_slice(&at.get().to_be_bytes());
    0
}

/// The answer to what was done and has no bytes.
pub(super) fn done(out: &mut Vec<u8>, is_structured: bool, cookie: Cookie) {
    if is_structured {
        out.extend(only_chunk(chunk::NONE, cookie, 0));
    } else {
        out.extend(simple(0, cookie));
    }
}

/// The answer to what was not done. Only structured replies have room for the reason.
pub(super) fn refused(out: &mut Vec<u8>, is_structured: bool, refusal: &Refusal) {
    let (errno, cookie) = (refusal.errno as u32, refusal.cookie);
    if !is_structured {
        out.extend(simple(errno, cookie));
        return;
    }
    let mut length = refusal.message.len().min(MOST_MESSAGE);
    while !refusal.message.is_char_boundary(length) {
        length -= 1;
    }
    out.extend(only_chunk(chunk::ERROR, cookie, 4 + 2 + length));
    out.extend(errno.to_be_bytes());
    out.extend((length as u16).to_be_bytes());
    out.extend(&refusal.message.as_bytes()[..length]);
}
