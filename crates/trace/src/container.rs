//! The file around the chunks: head, chunks, footer (dictionary, pages, threads, provenance), end.

use crate::chunk::{self, ChunkSummary, StreamId};
use crate::dictionary::Dictionary;
use crate::error::Fault;
use crate::provenance::Provenance;
use crate::wire::{Wire, put_section, put_varint, take_section};
use std::io::Write;

/// The format's version.
pub const VERSION: u32 = 1;
/// First bytes: not text, and broken by any transfer that changes line ends.
pub(crate) const MAGIC: [u8; 8] = *b"\x89ETR\r\n\x1a\n";
pub(crate) const END_MAGIC: [u8; 8] = *b"ETR-END\n";
pub(crate) const HEAD_BYTES: usize = 16;
pub(crate) const END_BYTES: usize = 28;
const DICTIONARY: [u8; 4] = *b"DICT";
const PAGES: [u8; 4] = *b"PAGE";
const THREADS: [u8; 4] = *b"THRD";
const PROVENANCE: [u8; 4] = *b"PROV";

/// A page that the capture touched: address space, virtual page number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VirtualPage {
    /// The address space: one per process.
    pub space: u32,
    /// Virtual address ÷ 4 KiB.
    pub page: u64,
}

/// A stream as the footer describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamInfo {
    /// The stream.
    pub stream: StreamId,
    /// The stream that recorded this one's creation; `None` if it runs from the start.
    pub parent: Option<StreamId>,
    /// The recorder's counts of the wakes that are in the file, ascending.
    pub wakes: Vec<u32>,
}

/// A chunk's place in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkPlace {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) summary: ChunkSummary,
}

/// The parts of the footer.
pub(crate) struct Footer {
    pub(crate) dictionary: Dictionary,
    /// Still in bytes: how many there may be depends on what the chunks access.
    pub(crate) pages: Vec<u8>,
    pub(crate) streams: Vec<StreamInfo>,
    pub(crate) provenance: Provenance,
}

/// Writes a capture: chunks as they come, then the footer.
pub struct CaptureWriter<W: Write> {
    out: W,
    offset: u64,
    chunks: Vec<ChunkPlace>,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a capture in `out`.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(mut out: W) -> Result<Self, Fault> {
        let mut head = Vec::from(MAGIC);
        head.extend(VERSION.to_le_bytes());
        let crc = checksum::crc32c(&head);
        head.extend(crc.to_le_bytes());
        out.write_all(&head)?;
        Ok(Self {
            out,
            offset: head.len() as u64,
            chunks: Vec::new(),
        })
    }
    /// Appends chunks that a [`StreamEncoder`](crate::chunk::StreamEncoder) finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&mut self, chunk: &[u8], summary: ChunkSummary) -> Result<(), Fault> {
        self.out.write_all(chunk)?;
        let len = u32::try_from(chunk.len()).expect("a chunk is below 4 GiB");
        self.chunks.push(ChunkPlace {
            offset: self.offset,
            len,
            summary,
        });
        self.offset += u64::from(len);
        Ok(())
    }
    /// Bytes up to the end of the last chunk.
    pub fn end_of_chunks(&self) -> u64 {
        self.offset
    }
    /// Where everything goes.
    pub fn sink(&mut self) -> &mut W {
        &mut self.out
    }
    /// Writes the footer, which makes the capture complete. To record on, cut the file back to
    /// [`CaptureWriter::end_of_chunks`] first.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(
        &mut self,
        dictionary: &Dictionary,
        pages: &[VirtualPage],
        streams: &[StreamInfo],
        provenance: &Provenance,
    ) -> Result<(), Fault> {
        let mut footer = Vec::new();
        put_section(&mut footer, DICTIONARY, &dictionary.to_bytes());
        put_section(&mut footer, PAGES, &pages_to_bytes(pages));
        put_section(&mut footer, THREADS, &self.threads_to_bytes(streams));
        let json = serde_json::to_vec(provenance).expect("provenance is plain data");
        put_section(&mut footer, PROVENANCE, &json);
        let len = footer.len() as u64;
        let mut end = Vec::from(self.offset.to_le_bytes());
        end.extend(len.to_le_bytes());
        let crc = checksum::crc32c_append(checksum::crc32c(&end), &END_MAGIC);
        end.extend(crc.to_le_bytes());
        end.extend(END_MAGIC);
        self.out.write_all(&footer)?;
        self.out.write_all(&end)?;
        Ok(self.out.flush()?)
    }

    fn threads_to_bytes(&self, streams: &[StreamInfo]) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, streams.len() as u64);
        for info in streams {
            put_varint(&mut out, u64::from(info.stream.0));
            put_varint(
                &mut out,
                info.parent.map_or(0, |parent| u64::from(parent.0) + 1),
            );
            put_varint(&mut out, info.wakes.len() as u64);
            let mut last = 0;
            for wake in &info.wakes {
                put_varint(&mut out, u64::from(wake - last));
                last = *wake;
            }
        }
        put_varint(&mut out, self.chunks.len() as u64);
        for chunk in &self.chunks {
            put_varint(&mut out, u64::from(chunk.len));
        }
        out
    }
}

fn pages_to_bytes(pages: &[VirtualPage]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, pages.len() as u64);
    let mut next = VirtualPage { space: 0, page: 0 };
    let mut rest = pages;
    while let Some(first) = rest.first() {
        let same = |(n, page): (usize, &VirtualPage)| {
            page.space == first.space && page.page == first.page + n as u64
        };
        let run = rest
            .iter()
            .enumerate()
            .take_while(|(n, page)| same((*n, page)))
            .count();
        let gap = if first.space == next.space {
            first.page - next.page
        } else {
            first.page
        };
        put_varint(&mut out, u64::from(first.space - next.space));
        put_varint(&mut out, gap);
        put_varint(&mut out, run as u64);
        next = VirtualPage {
            space: first.space,
            page: first.page + run as u64,
        };
        rest = &rest[run..];
    }
    out
}

/// Most pages of a capture: 4 TiB of footprint.
const MAX_PAGES: u64 = 1 << 30;

/// Pages that a capture may list beyond those it touches: a synthetic one maps what it likes.
const UNTOUCHED_PAGES: u64 = 1 << 20;

/// The pages of a capture with so many loads and stores, each of which touches one page or two.
pub(crate) fn pages_from_bytes(
    wire: &mut Wire<'_>,
    accesses: u64,
) -> Result<Vec<VirtualPage>, Fault> {
    let count: usize = wire.int()?;
    if count as u64 > MAX_PAGES.min(accesses.saturating_mul(2).max(UNTOUCHED_PAGES)) {
        return Err(wire.damaged());
    }
    let mut pages = Vec::new();
    let mut next = VirtualPage { space: 0, page: 0 };
    while pages.len() < count {
        let (spaces, gap, run): (u32, u64, usize) = (wire.int()?, wire.varint()?, wire.int()?);
        let space = next
            .space
            .checked_add(spaces)
            .ok_or_else(|| wire.damaged())?;
        let base = if spaces == 0 { next.page } else { 0 };
        let page = base.checked_add(gap).filter(|page| *page < 1 << 52);
        let page = page.ok_or_else(|| wire.damaged())?;
        if run == 0 || run > count - pages.len() {
            return Err(wire.damaged());
        }
        pages.extend((page..page + run as u64).map(|page| VirtualPage { space, page }));
        next = VirtualPage {
            space,
            page: page + run as u64,
        };
    }
    wire.end()?;
    Ok(pages)
}

/// Most streams of a capture: a cursor of each takes a hundred kilobytes.
const MAX_STREAMS: usize = 1 << 16;

/// Bytes that a stream takes at least.
const STREAM_BYTES: usize = 3;

/// Streams, and the lengths of the chunks in order of the file.
type Threads = (Vec<StreamInfo>, Vec<u32>);

/// Reads the threads of a file whose chunks have so many bytes together.
fn threads_from_bytes(wire: &mut Wire<'_>, chunks: usize) -> Result<Threads, Fault> {
    let mut streams = Vec::new();
    let count = wire.count_of(STREAM_BYTES)?;
    if count > MAX_STREAMS {
        return Err(wire.damaged());
    }
    for _ in 0..count {
        let stream = StreamId(wire.int()?);
        let parent = wire.int::<u32>()?.checked_sub(1).map(StreamId);
        let mut wakes = Vec::new();
        let mut last = 0_u32;
        for _ in 0..wire.count()? {
            last = last
                .checked_add(wire.int()?)
                .ok_or_else(|| wire.damaged())?;
            wakes.push(last);
        }
        streams.push(StreamInfo {
            stream,
            parent,
            wakes,
        });
    }
    let mut lens = Vec::new();
    let count = wire.count()?;
    if count > chunks / chunk::HEAD_BYTES {
        return Err(wire.damaged());
    }
    for _ in 0..count {
        lens.push(wire.int()?);
    }
    wire.end()?;
    Ok((streams, lens))
}

/// Checks head and end of `file` and reads the footer; also where the footer begins, and the
/// lengths of the chunks.
pub(crate) fn open(file: &[u8]) -> Result<(Footer, u64, Vec<u32>), Fault> {
    check_head(file)?;
    let (start, end) = check_end(file)?;
    let mut wire = Wire::new(&file[start..end], "footer", start as u64);
    let section = |wire: &mut Wire<'_>, tag| take_section(wire, tag);
    let dictionary = section(&mut wire, DICTIONARY)?;
    let pages = section(&mut wire, PAGES)?;
    let threads = section(&mut wire, THREADS)?;
    let provenance = section(&mut wire, PROVENANCE)?;
    wire.end()?;
    let part = |bytes, name| Wire::new(bytes, name, start as u64);
    let (streams, lens) =
        threads_from_bytes(&mut part(&threads, "thread list"), start - HEAD_BYTES)?;
    let footer = Footer {
        dictionary: Dictionary::from_bytes(&mut part(&dictionary, "dictionary"))?,
        pages,
        streams,
        provenance: serde_json::from_slice(&provenance).map_err(|_| wire.damaged())?,
    };
    Ok((footer, start as u64, lens))
}

fn check_head(file: &[u8]) -> Result<(), Fault> {
    let foreign = !file.starts_with(&MAGIC[..file.len().min(MAGIC.len())]);
    if foreign || file.is_empty() {
        return Err(Fault::Foreign);
    }
    if file.len() < HEAD_BYTES + END_BYTES {
        return Err(Fault::Truncated {
            bytes: file.len() as u64,
        });
    }
    let mut wire = Wire::new(&file[8..HEAD_BYTES], "head", 0);
    let (found, crc) = (wire.u32()?, wire.u32()?);
    if crc != checksum::crc32c(&file[..12]) {
        return Err(wire.damaged());
    }
    if found == VERSION {
        Ok(())
    } else {
        Err(Fault::Version {
            found,
            supported: VERSION,
        })
    }
}

/// Where the footer begins and ends.
fn check_end(file: &[u8]) -> Result<(usize, usize), Fault> {
    let end = file.len() - END_BYTES;
    if file[file.len() - END_MAGIC.len()..] != END_MAGIC {
        return Err(Fault::Truncated {
            bytes: file.len() as u64,
        });
    }
    let mut wire = Wire::new(&file[end..], "end", end as u64);
    let (start, len, crc) = (wire.u64()?, wire.u64()?, wire.u32()?);
    let sum = checksum::crc32c_append(checksum::crc32c(&file[end..end + 16]), &END_MAGIC);
    let fits = start >= HEAD_BYTES as u64 && start.checked_add(len) == Some(end as u64);
    if crc == sum && fits {
        Ok((start as usize, end))
    } else {
        Err(wire.damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_page_list_is_read_back(
            pages in prop::collection::btree_set((0_u32..3, 0_u64..60), 0..80)
        ) {
            let pages: Vec<_> =
                pages.into_iter().map(|(space, page)| VirtualPage { space, page }).collect();
            let bytes = pages_to_bytes(&pages);
            let read = |accesses| {
                pages_from_bytes(&mut Wire::new(&bytes, "page list", 0), accesses)
            };
            let accesses = pages.len().div_ceil(2) as u64;
            prop_assert_eq!(read(accesses), Ok(pages));
        }
    }

    #[test]
    fn a_page_list_is_no_longer_than_what_is_touched_or_mapped() {
        let most = 2 * UNTOUCHED_PAGES;
        let pages = (0..most).map(|page| VirtualPage { space: 0, page });
        let bytes = pages_to_bytes(&pages.collect::<Vec<_>>());
        let read = |accesses| pages_from_bytes(&mut Wire::new(&bytes, "page list", 0), accesses);
        assert!(read(most / 2 - 1).is_err());
        assert_eq!(read(most / 2).map(|pages| pages.len() as u64), Ok(most));
    }

    #[test]
    fn a_capture_without_threads_is_complete() {
        let mut writer = CaptureWriter::new(Vec::new()).unwrap();
        let provenance = Provenance {
            command: vec!["true".into()],
            ..Default::default()
        };
        writer
            .finish(&Dictionary::default(), &[], &[], &provenance)
            .unwrap();
        let (footer, start, lens) = open(writer.sink()).unwrap();
        assert_eq!((start, lens.len()), (HEAD_BYTES as u64, 0));
        assert_eq!(footer.provenance, provenance);
    }
}
