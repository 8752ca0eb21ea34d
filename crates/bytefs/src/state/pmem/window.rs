//! The window of the device: where headers and frames are, and what a header says.

use crate::Ino;
use crate::layout::{BLOCK, LINE, get_u32, get_u64, is_sealed, put_u32, put_u64, seal};
use port::Shape;
use units::ByteAddr;

const PAGE: u64 = BLOCK as u64;
const MAGIC: u32 = u32::from_le_bytes(*b"ENPM");

/// Where headers and frames are in the window: headers first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    base: u64,
    /// How many.
    pub frames: u32,
}

impl Window {
    /// None at all.
    pub const NONE: Self = Self { base: 0, frames: 0 };

    /// That of a device; None if it has none, or one without room for a frame.
    pub fn of(shape: &Shape) -> Option<Self> {
        let room = shape.pmem.get().checked_sub(PAGE)?;
        let frames = u32::try_from(room / (PAGE + LINE as u64)).ok()?;
        let base = shape.capacity.get();
        (frames > 0).then_some(Self { base, frames })
    }

    /// Where a header is.
    pub fn header(&self, frame: u32) -> ByteAddr {
        ByteAddr::new(self.base + u64::from(frame) * LINE as u64)
    }

    /// Where a frame is.
    pub fn frame(&self, frame: u32) -> ByteAddr {
        let headers = (u64::from(self.frames) * LINE as u64).next_multiple_of(PAGE);
        ByteAddr::new(self.base + headers + u64::from(frame) * PAGE)
    }
}

/// Whose a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Of which file system.
    pub seed: u64,
    pub ino: Ino,
    pub generation: u32,
    pub page: u64,
    /// Bytes of the page that are the file's.
    pub len: u32,
    /// Of two headers of one page the later one counts.
    pub number: u64,
    /// When the file was written.
    pub written: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; LINE] {
        let mut line = [0; LINE];
        put_u32(&mut line, 0, MAGIC);
        put_u32(&mut line, 4, self.ino.0);
        put_u32(&mut line, 8, self.generation);
        put_u32(&mut line, 12, self.len);
        put_u64(&mut line, 16, self.page);
        put_u64(&mut line, 24, self.number);
        put_u64(&mut line, 32, self.seed);
        put_u64(&mut line, 40, self.written);
        seal(&mut line);
        line
    }

    /// None if it is no header of this file system.
    pub fn decode(line: &[u8], seed: u64) -> Option<Self> {
        let is_mine = is_sealed(line) && get_u32(line, 0) == MAGIC && get_u64(line, 32) == seed;
        let header = Self {
            seed,
            ino: Ino(get_u32(line, 4)),
            generation: get_u32(line, 8),
            len: get_u32(line, 12),
            page: get_u64(line, 16),
            number: get_u64(line, 24),
            written: get_u64(line, 40),
        };
        (is_mine && header.len as usize <= BLOCK).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn headers_and_frames_fit_into_the_window_and_do_not_overlap() {
        for kib in [0, 4, 8, 12, 64, 1000, 4096] {
            let shape = Shape {
                pmem: Bytes::from_kib(kib),
                ..Shape::plain(Bytes::from_mib(1), Bytes::from_kib(4))
            };
            let Some(window) = Window::of(&shape) else {
                assert!(kib <= 8, "{kib} KiB have room");
                continue;
            };
            let last = window.frames - 1;
            let begin = shape.capacity.get();
            assert_eq!(window.header(0).get(), begin);
            assert!(window.header(last).get() + 64 <= window.frame(0).get());
            let end = window.frame(last).get() + PAGE;
            assert!(end <= begin + shape.pmem.get(), "{kib} KiB");
            assert!(
                end + 2 * PAGE + 4096 > begin + shape.pmem.get(),
                "{kib} KiB"
            );
        }
    }

    #[test]
    fn a_header_is_read_back_by_its_file_system_alone() {
        let header = Header {
            seed: 7,
            ino: Ino(12),
            generation: 3,
            page: 1 << 33,
            len: 100,
            number: 99,
            written: 5,
        };
        let line = header.encode();
        assert_eq!(Header::decode(&line, 7), Some(header));
        assert_eq!(Header::decode(&line, 8), None);
        assert_eq!(Header::decode(&[0; LINE], 0), None, "nobody's");
        let mut torn = line;
        torn[20] ^= 1;
        assert_eq!(Header::decode(&torn, 7), None);
    }
}
