//! Bytes of a file, with holes.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that are kept together.
pub const PAGE: usize = 4096;

/// Bytes of a file: what no page has is zero. Copies share pages.
#[derive(Clone, Default, Debug)]
pub struct Contents {
    size: u64,
    /// By number. What lies behind the end is zero.
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Contents {
    /// Bytes, holes included.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes, and grows if that goes beyond the end.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.store(at, bytes);
        if !bytes.is_empty() {
            self.size = self.size.max(at + bytes.len() as u64);
        }
    }

    fn store(&mut self, at: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = at + done as u64;
            let (page, from) = (at / PAGE as u64, at as usize % PAGE);
            let size = (PAGE - from).min(bytes.len() - done);
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[from..from + size].copy_from_slice(&bytes[done..done + size]);
            done += size;
        }
    }

    /// What is there: less than `size` bytes at the end.
    pub fn read(&self, at: u64, size: usize) -> Vec<u8> {
        let size = self.size.saturating_sub(at).min(size as u64) as usize;
        let mut bytes = vec![0; size];
        let mut done = 0;
        while done < size {
            let at = at + done as u64;
            let (page, from) = (at / PAGE as u64, at as usize % PAGE);
            let part = (PAGE - from).min(size - done);
            if let Some(page) = self.pages.get(&page) {
                bytes[done..done + part].copy_from_slice(&page[from..from + part]);
            }
            done += part;
        }
        bytes
    }

    /// Makes a range zero; the size stays.
    pub fn zero(&mut self, at: u64, size: u64) {
        let end = at.saturating_add(size);
        let (first, last) = (at / PAGE as u64, end / PAGE as u64);
        let touched: Vec<u64> = self
            .pages
            .range(first..=last)
            .map(|(page, _)| *page)
            .collect();
        for page in touched {
            let begin = page * PAGE as u64;
            let from = at.saturating_sub(begin).min(PAGE as u64) as usize;
            let to = end.saturating_sub(begin).min(PAGE as u64) as usize;
            if (from, to) == (0, PAGE) {
                self.pages.remove(&page);
            } else if let Some(page) = self.pages.get_mut(&page) {
                Arc::make_mut(page)[from..to].fill(0);
            }
        }
    }

    /// Cuts or grows.
    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, u64::MAX - size);
        }
        self.size = size;
    }

    /// The numbers of pages that are not all zero.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        let pages = self.pages.iter();
        let filled = pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
        filled.map(|(page, _)| *page)
    }
}

impl PartialEq for Contents {
    fn eq(&self, other: &Self) -> bool {
        let mut pages: Vec<u64> = self.pages().chain(other.pages()).collect();
        pages.sort_unstable();
        pages.dedup();
        let same = |page: &u64| {
            let at = page * PAGE as u64;
            self.read(at, PAGE) == other.read(at, PAGE)
        };
        self.size == other.size && pages.iter().all(same)
    }
}

impl Eq for Contents {}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Stream;

    #[test]
    fn contents_are_what_an_array_is() {
        let mut stream = Stream::new(3, "contents");
        for _ in 0..40 {
            let (mut array, mut contents) = (Vec::new(), Contents::default());
            for step in 0..60 {
                let at = stream.below(30_000) as usize;
                let size = stream.below(9_000) as usize;
                match stream.below(4) {
                    0 => {
                        array.resize(at, 0);
                        contents.truncate(at as u64);
                    }
                    1 => {
                        let end = (at + size).min(array.len());
                        array[at.min(end)..end].fill(0);
                        contents.zero(at as u64, size as u64);
                    }
                    _ => {
                        if size > 0 && array.len() < at + size {
                            array.resize(at + size, 0);
                        }
                        array.get_mut(at..at + size).into_iter().for_each(|place| {
                            place.fill(step as u8 + 1);
                        });
                        contents.write(at as u64, &vec![step as u8 + 1; size]);
                    }
                }
                assert_eq!(contents.size(), array.len() as u64);
                assert_eq!(contents.read(0, 100_000), array);
                let part = &array[at.min(array.len())..(at + size).min(array.len())];
                assert_eq!(contents.read(at as u64, size), part);
            }
        }
    }
}
