//! Long ranges in pieces.

use units::{ByteAddr, Bytes};

/// Ranges without payload may be as long as the device: they are done in pieces, between which
/// others get their turn. A multiple of every size of block.
pub(crate) const PIECE: Bytes = Bytes::from_kib(256);

pub(crate) static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
/// Zeroes are written so many at a time.
pub(crate) const ZERO_PIECE: Bytes = Bytes::new(ZEROES.len() as u64);

/// A range in pieces of at most this size, in order.
pub(crate) fn pieces(
    at: ByteAddr,
    size: Bytes,
    piece: Bytes,
) -> impl Iterator<Item = (ByteAddr, Bytes)> {
    let step = piece.get();
    (0..size.get().div_ceil(step)).map(move |index| {
        let done = index * step;
        let size = Bytes::new(step.min(size.get() - done));
        (ByteAddr::new(at.get() + done), size)
    })
}
