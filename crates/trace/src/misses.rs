//! A program as the device sees it: the lines that miss the last level of a CPU's caches, and the
//! dirty lines that leave it, thread by thread in turns.
//!
//! A file of misses is made from a capture and the caches of a machine. It is a list of parts, each
//! readable by itself, so that neither writer nor reader ever holds more than one of them.
//! `docs/formats/misses.md` has the bytes.

use crate::error::{Fault, TraceError};
use crate::wire::{Wire, put_varint, unzigzag, zigzag};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

/// The format's version.
pub const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"\x89EMS\r\n\x1a\n";
const END_MAGIC: [u8; 8] = *b"EMS-END\n";
/// Magic, version, threads, lines, key and checksum.
const HEAD_BYTES: usize = 8 + 4 + 4 + 8 + KEY_BYTES + 4;
/// Place of the index, number of parts, checksum of the index, magic.
const END_BYTES: usize = 8 + 4 + 4 + 8;
/// Raw and packed bytes, reads, write-backs, checksum.
const PART_HEAD_BYTES: usize = 4 + 4 + 8 + 8 + 4;
/// Place, reads, write-backs.
const INDEX_ENTRY_BYTES: usize = 24;
/// Bytes of what names the inputs of a file.
pub const KEY_BYTES: usize = 32;
/// Lines are packed by a level that costs less than the caches they come from.
const LEVEL: i32 = 3;
/// Largest part after decompression.
const MOST_RAW: u32 = 1 << 30;
/// Differences of lines are taken from the last one of the same thread and kind.
const KINDS: usize = 3;

const LOAD: u64 = 0;
const OWNERSHIP: u64 = 1;
const WRITE_BACK: u64 = 2;
const CONTROL: u64 = 3;
const TURN: u64 = 0;
const CREATE: u64 = 1;
const WAKE: u64 = 2;

/// What a file of misses says, in the order in which it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Miss {
    /// What follows is of this thread.
    Turn(u32),
    /// A load reads a line.
    Load(u32),
    /// A store reads a line to own it.
    Ownership(u32),
    /// A dirty line leaves.
    WriteBack(u32),
    /// The thread creates another one.
    Create(u32),
    /// The thread has woken others so often.
    Wake(u32),
}

/// What a part holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MissCount {
    /// Lines read.
    pub reads: u64,
    /// Dirty lines that left.
    pub writes: u64,
}

impl MissCount {
    /// Both.
    pub const fn requests(self) -> u64 {
        self.reads + self.writes
    }
}

impl std::ops::AddAssign for MissCount {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// What a file of misses is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissHead {
    /// Names the inputs: a reader refuses a file of others.
    pub key: [u8; KEY_BYTES],
    /// Threads, numbered from 0.
    pub threads: u32,
    /// Lines, numbered from 0.
    pub lines: u64,
}

/// Writes a file of misses, part by part.
pub struct MissWriter<W: Write> {
    out: W,
    offset: u64,
    raw: Vec<u8>,
    last: Vec<[u32; KINDS]>,
    thread: u32,
    /// The thread of what was written last in this part.
    said: Option<u32>,
    count: MissCount,
    index: Vec<(u64, MissCount)>,
}

impl<W: Write> MissWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn new(mut out: W, head: &MissHead) -> Result<Self, Fault> {
        let mut bytes = Vec::from(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(head.threads.to_le_bytes());
        bytes.extend(head.lines.to_le_bytes());
        bytes.extend(head.key);
        bytes.extend(checksum::crc32c(&bytes).to_le_bytes());
        out.write_all(&bytes)?;
        Ok(Self {
            out,
            offset: bytes.len() as u64,
            raw: Vec::new(),
            last: vec![[0; KINDS]; head.threads as usize],
            thread: 0,
            said: None,
            count: MissCount::default(),
            index: Vec::new(),
        })
    }

    /// What comes is of this thread.
    pub fn turn(&mut self, thread: u32) {
        self.thread = thread;
    }

    /// Appends what the thread does, any of [`Miss`] but a turn.
    pub fn put(&mut self, miss: Miss) {
        if self.said != Some(self.thread) {
            self.said = Some(self.thread);
            self.control(TURN, self.thread);
        }
        match miss {
            Miss::Turn(thread) => self.turn(thread),
            Miss::Load(line) => self.line(LOAD, line),
            Miss::Ownership(line) => self.line(OWNERSHIP, line),
            Miss::WriteBack(line) => self.line(WRITE_BACK, line),
            Miss::Create(child) => self.control(CREATE, child),
            Miss::Wake(count) => self.control(WAKE, count),
        }
    }

    fn line(&mut self, kind: u64, line: u32) {
        let last = &mut self.last[self.thread as usize][kind as usize];
        let difference = i64::from(line) - i64::from(*last);
        *last = line;
        put_varint(&mut self.raw, zigzag(difference) << 2 | kind);
        match kind {
            WRITE_BACK => self.count.writes += 1,
            _ => self.count.reads += 1,
        }
    }

    fn control(&mut self, what: u64, value: u32) {
        put_varint(&mut self.raw, (u64::from(value) << 2 | what) << 2 | CONTROL);
    }

    /// Ends the part.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn end_part(&mut self) -> Result<(), Fault> {
        let packed = zstd::bulk::compress(&self.raw, LEVEL)?;
        let raw_bytes = u32::try_from(self.raw.len()).ok();
        let raw_bytes = raw_bytes.filter(|bytes| *bytes <= MOST_RAW);
        let raw_bytes = raw_bytes.ok_or_else(|| {
            Fault::Unusable("has more misses in one part than a file can hold".to_string())
        })?;
        let mut head = Vec::with_capacity(PART_HEAD_BYTES);
        head.extend(raw_bytes.to_le_bytes());
        head.extend((packed.len() as u32).to_le_bytes());
        head.extend(self.count.reads.to_le_bytes());
        head.extend(self.count.writes.to_le_bytes());
        let crc = checksum::crc32c_append(checksum::crc32c(&head), &packed);
        head.extend(crc.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&packed)?;
        self.index
            .push((self.offset, std::mem::take(&mut self.count)));
        self.offset += (head.len() + packed.len()) as u64;
        self.raw.clear();
        self.last.fill([0; KINDS]);
        self.said = None;
        Ok(())
    }

    /// Writes the end, which makes the file whole, and gives back what it went to.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> Result<W, Fault> {
        let mut index = Vec::with_capacity(self.index.len() * INDEX_ENTRY_BYTES);
        for (offset, count) in &self.index {
            index.extend(offset.to_le_bytes());
            index.extend(count.reads.to_le_bytes());
            index.extend(count.writes.to_le_bytes());
        }
        let crc = checksum::crc32c(&index);
        index.extend(self.offset.to_le_bytes());
        index.extend((self.index.len() as u32).to_le_bytes());
        index.extend(crc.to_le_bytes());
        index.extend(END_MAGIC);
        self.out.write_all(&index)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A file of misses that is open.
pub struct MissFile {
    name: String,
    file: File,
    head: MissHead,
    parts: Vec<(u64, MissCount)>,
    packed: Vec<u8>,
    raw: Vec<u8>,
    last: Vec<[u32; KINDS]>,
}

impl MissFile {
    /// Opens a file and reads its head and its index.
    ///
    /// # Errors
    /// It cannot be read, is no such file, is not whole, or is damaged.
    pub fn open(path: &str) -> Result<Self, TraceError> {
        Self::read_head(path).map_err(|fault| fault.of(path))
    }

    fn read_head(path: &str) -> Result<Self, Fault> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut head = [0; HEAD_BYTES];
        if size < HEAD_BYTES as u64 {
            return Err(Fault::Truncated { bytes: size });
        }
        file.read_exact(&mut head)?;
        let (body, crc) = head.split_at(HEAD_BYTES - 4);
        let mut wire = Wire::new(body, "head", 0);
        if wire.take(8)? != MAGIC {
            return Err(Fault::Unusable(
                "is not a file of misses; remove it and run `entresol steady` again".to_string(),
            ));
        }
        let version = wire.u32()?;
        if version != VERSION {
            return Err(Fault::Version {
                found: version,
                supported: VERSION,
            });
        }
        if checksum::crc32c(body).to_le_bytes() != crc {
            return Err(wire.damaged());
        }
        let (threads, lines) = (wire.u32()?, wire.u64()?);
        let key = wire.take(KEY_BYTES)?;
        let head = MissHead {
            key: key.try_into().expect("so many bytes were taken"),
            threads,
            lines,
        };
        let parts = Self::read_index(&mut file, size)?;
        Ok(Self {
            name: path.to_string(),
            file,
            head,
            parts,
            packed: Vec::new(),
            raw: Vec::new(),
            last: vec![[0; KINDS]; threads as usize],
        })
    }

    fn read_index(file: &mut File, size: u64) -> Result<Vec<(u64, MissCount)>, Fault> {
        let truncated = Fault::Truncated { bytes: size };
        if size < (HEAD_BYTES + END_BYTES) as u64 {
            return Err(truncated);
        }
        let end_at = size - END_BYTES as u64;
        let mut end = [0; END_BYTES];
        file.seek(SeekFrom::Start(end_at))?;
        file.read_exact(&mut end)?;
        if end[END_BYTES - 8..] != END_MAGIC {
            return Err(truncated);
        }
        let mut wire = Wire::new(&end, "end", end_at);
        let (at, count, crc) = (wire.u64()?, wire.u32()? as usize, wire.u32()?);
        if at.checked_add((count * INDEX_ENTRY_BYTES) as u64) != Some(end_at) {
            return Err(wire.damaged());
        }
        let mut index = vec![0; count * INDEX_ENTRY_BYTES];
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut index)?;
        let mut wire = Wire::new(&index, "index", at);
        if checksum::crc32c(&index) != crc {
            return Err(wire.damaged());
        }
        (0..count)
            .map(|_| {
                let offset = wire.u64()?;
                let (reads, writes) = (wire.u64()?, wire.u64()?);
                Ok((offset, MissCount { reads, writes }))
            })
            .collect()
    }

    /// What the file is of.
    pub fn head(&self) -> &MissHead {
        &self.head
    }

    /// What each part holds.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = MissCount> + '_ {
        self.parts.iter().map(|(_, count)| *count)
    }

    /// Tells `take` what part `index` says, in order.
    ///
    /// # Errors
    /// It cannot be read or is damaged. What was told by then is not the whole part.
    #[inline]
    pub fn each(&mut self, index: usize, take: impl FnMut(Miss)) -> Result<(), TraceError> {
        self.load(index)
            .and_then(|()| self.decode(index, take))
            .map_err(|fault| fault.of(&self.name))
    }

    fn damaged(&self, index: usize) -> Fault {
        Fault::Damaged {
            part: "misses",
            at: self.parts[index].0,
        }
    }

    fn load(&mut self, index: usize) -> Result<(), Fault> {
        let (offset, count) = self.parts[index];
        let mut head = [0; PART_HEAD_BYTES];
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(&mut head)?;
        let mut wire = Wire::new(&head, "misses", offset);
        let (raw, packed) = (wire.u32()?, wire.u32()?);
        let (reads, writes, crc) = (wire.u64()?, wire.u64()?, wire.u32()?);
        if raw > MOST_RAW || packed > MOST_RAW || (MissCount { reads, writes }) != count {
            return Err(wire.damaged());
        }
        self.packed.resize(packed as usize, 0);
        self.file.read_exact(&mut self.packed)?;
        let sum = checksum::crc32c(&head[..PART_HEAD_BYTES - 4]);
        if checksum::crc32c_append(sum, &self.packed) != crc {
            return Err(wire.damaged());
        }
        self.raw = zstd::bulk::decompress(&self.packed, raw as usize)?;
        Ok(())
    }

    #[inline]
    fn decode(&mut self, index: usize, mut take: impl FnMut(Miss)) -> Result<(), Fault> {
        self.last.fill([0; KINDS]);
        let (mut thread, mut at) = (0, 0);
        let mut found = MissCount::default();
        while at < self.raw.len() {
            let Some(word) = varint(&self.raw, &mut at) else {
                return Err(self.damaged(index));
            };
            let kind = word & 3;
            if kind == CONTROL {
                let Ok(value) = u32::try_from(word >> 4) else {
                    return Err(self.damaged(index));
                };
                take(match word >> 2 & 3 {
                    TURN if (value as usize) < self.last.len() => {
                        thread = value as usize;
                        Miss::Turn(value)
                    }
                    CREATE if (value as usize) < self.last.len() => Miss::Create(value),
                    WAKE => Miss::Wake(value),
                    _ => return Err(self.damaged(index)),
                });
                continue;
            }
            let Some(last) = self.last.get_mut(thread) else {
                return Err(self.damaged(index));
            };
            let line = u64::from(last[kind as usize]).wrapping_add_signed(unzigzag(word >> 2));
            if line >= self.head.lines {
                return Err(self.damaged(index));
            }
            let line = line as u32;
            last[kind as usize] = line;
            take(match kind {
                LOAD => Miss::Load(line),
                OWNERSHIP => Miss::Ownership(line),
                _ => Miss::WriteBack(line),
            });
            match kind {
                WRITE_BACK => found.writes += 1,
                _ => found.reads += 1,
            }
        }
        match found == self.parts[index].1 {
            true => Ok(()),
            false => Err(self.damaged(index)),
        }
    }
}

/// A varint of at most five bytes that go on, which is what a line's difference takes.
#[inline]
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..42).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
