//! Captures (`docs/formats/etr.md`), taken apart and put together.

use crate::Choices;

const HEAD: usize = 16;
const END: usize = 28;
const CHUNK_HEAD: usize = 68;

/// A chunk: its head as numbers, and its columns uncompressed.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Its stream.
    pub stream: u32,
    /// Instructions of the stream before it.
    pub before: u64,
    /// Blocks, instructions, loads, stores.
    pub counts: [u32; 4],
    /// Runs, surprises, addresses, sync events.
    pub columns: [Vec<u8>; 4],
    /// What is added to the columns' lengths as the head tells them.
    pub excess: [u32; 4],
}

/// A capture.
#[derive(Clone, Debug)]
pub struct Capture {
    /// In the order of the file.
    pub chunks: Vec<Chunk>,
    /// Tag and contents: dictionary, pages, threads without the chunks' lengths, provenance.
    pub sections: Vec<([u8; 4], Vec<u8>)>,
    /// Lengths of the chunks that are listed beside the true ones.
    pub more_lengths: Vec<u64>,
}

/// Position of the threads among the sections.
pub const THREADS: usize = 2;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn unpacked(packed: &[u8], raw: u32) -> Vec<u8> {
    zstd::bulk::decompress(packed, raw as usize).expect("the capture is good")
}

/// A number of a capture, LEB128.
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// The number at a place, and the place after it.
fn number(bytes: &[u8], at: usize) -> (u64, usize) {
    let (mut value, mut end) = (0, at);
    loop {
        let byte = bytes[end];
        value |= u64::from(byte & 0x7f) << (7 * (end - at));
        end += 1;
        if byte < 0x80 {
            return (value, end);
        }
    }
}

impl Capture {
    /// Takes a good capture apart.
    ///
    /// # Panics
    /// It is not good.
    pub fn of(file: &[u8]) -> Self {
        let end = file.len() - END;
        let footer = u64_at(file, end) as usize;
        let mut at = footer;
        let mut sections = Vec::new();
        while at < end {
            let (raw, packed) = (u32_at(file, at + 4), u32_at(file, at + 8) as usize);
            let bytes = unpacked(&file[at + 16..][..packed], raw);
            sections.push((file[at..at + 4].try_into().expect("four bytes"), bytes));
            at += 16 + packed;
        }
        let mut chunks = Vec::new();
        let mut at = HEAD;
        while at < footer {
            let (chunk, size) = Chunk::of(&file[at..]);
            chunks.push(chunk);
            at += size;
        }
        let threads = &mut sections[THREADS].1;
        threads.truncate(end_of_streams(threads));
        Self {
            chunks,
            sections,
            more_lengths: Vec::new(),
        }
    }

    /// The file, with every length and checksum as it must be.
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = b"\x89ETR\r\n\x1a\n\x01\0\0\0".to_vec();
        file.extend(checksum::crc32c(&file).to_le_bytes());
        let mut lengths = varint((self.chunks.len() + self.more_lengths.len()) as u64);
        for chunk in &self.chunks {
            let bytes = chunk.bytes();
            lengths.extend(varint(bytes.len() as u64));
            file.extend(bytes);
        }
        lengths.extend(self.more_lengths.iter().flat_map(|length| varint(*length)));
        let footer = file.len();
        for (nth, (tag, bytes)) in self.sections.iter().enumerate() {
            let mut bytes = bytes.clone();
            if nth == THREADS {
                bytes.extend(&lengths);
            }
            file.extend(section(*tag, &bytes));
        }
        let mut end = (footer as u64).to_le_bytes().to_vec();
        end.extend((file.len() as u64 - footer as u64).to_le_bytes());
        let crc = checksum::crc32c_append(checksum::crc32c(&end), b"ETR-END\n");
        end.extend(crc.to_le_bytes());
        end.extend(b"ETR-END\n");
        file.extend(end);
        file
    }

    /// Changes something.
    pub fn change(&mut self, choices: &mut Choices<'_>) {
        if !self.chunks.is_empty() && !choices.byte().is_multiple_of(3) {
            let nth = choices.below(self.chunks.len());
            match choices.byte() % 8 {
                0 => self.chunks.push(self.chunks[nth].clone()),
                1 => drop(self.chunks.remove(nth)),
                _ => self.chunks[nth].change(choices),
            }
            return;
        }
        let nth = choices.below(self.sections.len());
        let bytes = &mut self.sections[nth].1;
        match choices.byte() % 4 {
            0 => self
                .more_lengths
                .push(choices.word() >> (choices.byte() % 64)),
            1 => choices.damage(bytes),
            _ => change_number(bytes, choices),
        }
    }
}

impl Chunk {
    fn of(bytes: &[u8]) -> (Self, usize) {
        let mut at = CHUNK_HEAD;
        let columns = [0, 1, 2, 3].map(|nth| {
            let lengths = 32 + 8 * nth;
            let packed = u32_at(bytes, lengths + 4) as usize;
            let column = unpacked(&bytes[at..at + packed], u32_at(bytes, lengths));
            at += packed;
            column
        });
        let chunk = Self {
            stream: u32_at(bytes, 4),
            before: u64_at(bytes, 8),
            counts: [16, 20, 24, 28].map(|at| u32_at(bytes, at)),
            columns,
            excess: [0; 4],
        };
        (chunk, at)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut head = b"CHNK".to_vec();
        head.extend(self.stream.to_le_bytes());
        head.extend(self.before.to_le_bytes());
        head.extend(self.counts.iter().flat_map(|count| count.to_le_bytes()));
        let mut packed = Vec::new();
        for (column, excess) in self.columns.iter().zip(self.excess) {
            let frame = zstd::bulk::compress(column, 3).expect("memory can be written");
            head.extend((column.len() as u32).wrapping_add(excess).to_le_bytes());
            head.extend((frame.len() as u32).to_le_bytes());
            packed.extend(frame);
        }
        let crc = checksum::crc32c_append(checksum::crc32c(&head), &packed);
        head.extend(crc.to_le_bytes());
        head.extend(packed);
        head
    }

    fn change(&mut self, choices: &mut Choices<'_>) {
        let nth = choices.below(4);
        match choices.byte() % 6 {
            0 => self.counts[nth] = choices.instead_of(self.counts[nth].into()) as u32,
            1 => self.before = choices.instead_of(self.before),
            2 => self.stream = choices.instead_of(self.stream.into()) as u32,
            3 => self.excess[nth] = choices.instead_of(0) as u32,
            4 => choices.damage(&mut self.columns[nth]),
            _ => change_number(&mut self.columns[nth], choices),
        }
    }
}

/// Puts another number where one begins, if one does.
fn change_number(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let at = choices.below(bytes.len().max(1));
    let ends = |byte: &u8| *byte < 0x80;
    let Some(length) = bytes.get(at..).and_then(|rest| rest.iter().position(ends)) else {
        return;
    };
    if length > 9 {
        return;
    }
    let (value, end) = number(bytes, at);
    bytes.splice(at..end, varint(choices.instead_of(value)));
}

/// Where the list of streams ends and the lengths of the chunks begin.
fn end_of_streams(threads: &[u8]) -> usize {
    let (streams, mut at) = number(threads, 0);
    for _ in 0..streams {
        at = number(threads, at).1;
        at = number(threads, at).1;
        let (wakes, next) = number(threads, at);
        at = (0..wakes).fold(next, |at, _| number(threads, at).1);
    }
    at
}

fn section(tag: [u8; 4], raw: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(raw, 9).expect("memory can be written");
    let mut bytes = tag.to_vec();
    bytes.extend((raw.len() as u32).to_le_bytes());
    bytes.extend((packed.len() as u32).to_le_bytes());
    let crc = checksum::crc32c_append(checksum::crc32c(&bytes), &packed);
    bytes.extend(crc.to_le_bytes());
    bytes.extend(packed);
    bytes
}
