//! Pages in memory, each as large as what it says: fillings of simulated programs are kept as what
//! they are fillings with ([`units::filling`]), everything else byte by byte. What comes out is
//! what went in, whatever it was.

use units::filling::{Piece, pieces, refill};

const ZEROES: u8 = 0;
const PLAIN: u8 = 1;
const FILLED: u8 = 2;

/// Pages of one size, by number.
#[derive(Clone, Debug)]
pub struct Packed {
    pages: Vec<Option<Box<[u8]>>>,
    /// Where a page is put together before its size is known.
    packing: Vec<u8>,
}

impl Packed {
    /// None of so many.
    pub fn new(pages: usize) -> Self {
        Self {
            pages: vec![None; pages],
            packing: Vec::new(),
        }
    }

    /// Keeps a page.
    pub fn put(&mut self, page: usize, bytes: &[u8]) {
        let packing = &mut self.packing;
        packing.clear();
        let mut at = 0;
        pieces(bytes, |piece| {
            let (kind, size) = match piece {
                Piece::Zeroes(size) => (ZEROES, size),
                Piece::Plain(size) => (PLAIN, size),
                Piece::Filled { size, .. } => (FILLED, size),
            };
            packing.push(kind);
            packing.extend((size as u32).to_le_bytes());
            match piece {
                Piece::Zeroes(_) => {}
                Piece::Plain(size) => packing.extend(&bytes[at..at + size]),
                Piece::Filled { number, from, .. } => {
                    packing.extend(number.to_le_bytes());
                    packing.extend(from.to_le_bytes());
                }
            }
            at += size;
        });
        self.pages[page] = Some(packing.as_slice().into());
    }

    /// A page as it was put, if it is there.
    pub fn get(&self, page: usize, into: &mut [u8]) {
        let Some(mut packed) = self.pages[page].as_deref() else {
            return into.fill(0);
        };
        let mut at = 0;
        while let Some(kind) = packed.split_off_first() {
            let size = u32::from_le_bytes(take(&mut packed)) as usize;
            let to = &mut into[at..at + size];
            match *kind {
                ZEROES => to.fill(0),
                PLAIN => {
                    let (bytes, rest) = packed.split_at(size);
                    to.copy_from_slice(bytes);
                    packed = rest;
                }
                _ => {
                    let number = u64::from_le_bytes(take(&mut packed));
                    refill(number, u64::from_le_bytes(take(&mut packed)), to);
                }
            }
            at += size;
        }
    }

    /// Forgets pages.
    pub fn drop(&mut self, pages: core::ops::Range<usize>) {
        self.pages[pages].fill(None);
    }

    /// Bytes that pages take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.pages.iter().flatten().map(|page| page.len()).sum()
    }
}

/// The next bytes of a page that was packed here.
fn take<const N: usize>(packed: &mut &[u8]) -> [u8; N] {
    let (bytes, rest) = packed.split_first_chunk().expect("it was put here whole");
    *packed = rest;
    *bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Stream;
    use units::filling::fill;

    const PAGE: usize = 4096;

    fn again(bytes: &[u8]) -> (Vec<u8>, usize) {
        let mut packed = Packed::new(2);
        packed.put(1, bytes);
        let mut found = vec![7; bytes.len()];
        packed.get(1, &mut found);
        (found, packed.bytes())
    }

    #[test]
    fn pages_come_back_as_they_went() {
        let mut stream = Stream::new(1, "packed");
        let mut noise = vec![0; PAGE];
        noise.fill_with(|| stream.bits() as u8);
        let mut filled = vec![0; PAGE];
        fill(5, &mut filled);
        let mut tail = vec![0; PAGE];
        fill(6, &mut tail[..1234]);
        let mixed = [&filled[..1000], &noise[..100], &filled[8..]].concat();
        for (page, most) in [
            (&noise, PAGE + 5),
            (&filled, 21),
            (&tail, 26),
            (&mixed[..PAGE].to_vec(), 147),
            (&vec![0; PAGE], 5),
        ] {
            let (found, size) = again(page);
            assert!(&found == page && size <= most, "{size} bytes");
        }
    }

    #[test]
    fn a_page_that_was_forgotten_is_zeroes() {
        let mut packed = Packed::new(4);
        packed.put(2, &[9; PAGE]);
        packed.drop(1..3);
        let mut found = vec![7; PAGE];
        packed.get(2, &mut found);
        assert_eq!((found, packed.bytes()), (vec![0; PAGE], 0));
    }
}
