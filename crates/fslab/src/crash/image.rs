//! Bytes of a device, of which many copies share what is the same.

use std::sync::Arc;
use units::Bytes;
use units::address::LINE_BYTES;

/// Bytes that are kept together.
const PAGE: usize = 4096;
/// Bytes of a line.
pub const LINE: usize = LINE_BYTES.get() as usize;

/// The bytes of a device. What was never written is zero.
#[derive(Clone, Debug)]
pub struct Image {
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
    digest: u64,
}

impl Image {
    /// Zeroes.
    ///
    /// # Panics
    /// If it is not whole pages.
    pub fn new(capacity: Bytes) -> Self {
        let bytes = capacity.get() as usize;
        assert!(bytes.is_multiple_of(PAGE), "a device has whole pages");
        Self {
            pages: vec![None; bytes / PAGE],
            digest: 0,
        }
    }

    /// How many bytes there are.
    pub fn size(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// A number that is the same for the same bytes, and hardly ever for others.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Bytes that are there.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            let (page, from) = ((at + done) / PAGE, (at + done) % PAGE);
            let size = (PAGE - from).min(into.len() - done);
            match &self.pages[page] {
                Some(page) => into[done..done + size].copy_from_slice(&page[from..from + size]),
                None => into[done..done + size].fill(0),
            }
            done += size;
        }
    }

    /// Pages that were written, and where they begin.
    pub fn pages(&self) -> impl Iterator<Item = (usize, &[u8; PAGE])> {
        let pages = self.pages.iter().enumerate();
        pages.filter_map(|(page, bytes)| Some((page * PAGE, &**bytes.as_ref()?)))
    }

    /// Writes bytes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, from) = ((at + done) / PAGE, (at + done) % PAGE);
            let size = (PAGE - from).min(bytes.len() - done);
            self.write_page(page, from, &bytes[done..done + size]);
            done += size;
        }
    }

    fn write_page(&mut self, page: usize, from: usize, bytes: &[u8]) {
        let place = &mut self.pages[page];
        if place.is_none() && bytes.iter().all(|byte| *byte == 0) {
            return;
        }
        let bytes_of_page = Arc::make_mut(place.get_or_insert_with(|| Arc::new([0; PAGE])));
        // Whole words, of which the digest is made.
        let words = from & !7..(from + bytes.len()).next_multiple_of(8);
        let begin = page * PAGE + words.start;
        let before = digest_of(begin, &bytes_of_page[words.clone()]);
        bytes_of_page[from..from + bytes.len()].copy_from_slice(bytes);
        let after = digest_of(begin, &bytes_of_page[words]);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
    }
}

/// A sum over words, each of which counts by its place; zero counts nothing.
fn digest_of(at: usize, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).enumerate();
    words.fold(0, |sum: u64, (index, word)| {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        let place = (at / 8 + index) as u64;
        match word {
            0 => sum,
            _ => sum.wrapping_add(mix(word ^ mix(place.wrapping_add(0x9e37_79b9_7f4a_7c15)))),
        }
    })
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Stream;

    #[test]
    fn an_image_is_an_array_and_its_digest_that_of_its_bytes() {
        let mut stream = Stream::new(1, "image");
        let size = 16 * PAGE;
        let (mut array, mut image) = (vec![0; size], Image::new(Bytes::new(size as u64)));
        for _ in 0..500 {
            let at = stream.below(size as u64) as usize;
            let long = (stream.below(6000) as usize).min(size - at);
            let bytes = vec![[0, stream.bits() as u8][stream.below(2) as usize]; long];
            let copy = image.clone();
            image.write(at, &bytes);
            let is_same = array[at..at + long] == bytes;
            array[at..at + long].copy_from_slice(&bytes);
            assert_eq!(copy.digest() == image.digest(), is_same);
            let mut found = vec![1; size];
            image.read(0, &mut found);
            assert_eq!(found, array);
            let mut other = Image::new(Bytes::new(size as u64));
            other.write(0, &array);
            assert_eq!(other.digest(), image.digest());
        }
    }
}
