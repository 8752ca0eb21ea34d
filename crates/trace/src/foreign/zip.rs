//! A zip archive read from front to back: its members one after the other, as one stream.
//!
//! Needs no seeking and keeps no directory: each member stands behind its own header
//! (APPNOTE 6.3.10 §4.3.7), and the first header of the central directory ends them. Members are
//! stored or deflated, with or without 64-bit sizes; every member's checksum is verified. A stored
//! member whose size stands behind it cannot be read this way, and nobody writes such.

use flate2::{Crc, Decompress, FlushDecompress, Status};
use std::io::{BufRead, Error, ErrorKind, Read, Result};

/// What a zip archive with members begins with.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";

/// What stands behind the last member: the central directory or, without members, its end.
const ENDS: [&[u8]; 3] = [b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06"];
/// What may stand before the sizes behind a member.
const DESCRIPTOR: &[u8] = b"PK\x07\x08";

/// Flag: encrypted.
const ENCRYPTED: u16 = 1;
/// Flag: sizes and checksum stand behind the member.
const SIZES_BEHIND: u16 = 1 << 3;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// A 32-bit size that stands in the extra field instead.
const IN_EXTRA: u32 = u32::MAX;
/// Number of the extra field with 64-bit sizes (APPNOTE §4.5.3).
const ZIP64: u16 = 1;

/// The members of a zip archive as one stream.
pub(crate) struct Members<R> {
    input: R,
    member: Option<Member>,
    ended: bool,
}

struct Member {
    /// Packed bytes that are left, of a stored member.
    left: u64,
    inflate: Option<Box<Decompress>>,
    checksum: Crc,
    /// The checksum and unpacked size in the header, unless they stand behind.
    expected: Option<(u32, u64)>,
    /// Whether sizes behind the member have 64 bits.
    wide: bool,
}

/// A size of a header, or the 64-bit one in its place.
fn choose(size: u32, wide: u64) -> u64 {
    match size {
        IN_EXTRA => wide,
        size => size.into(),
    }
}

fn damaged(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("zip archive: {problem}"))
}

impl<R: BufRead> Members<R> {
    /// The members of the archive `input`.
    pub(crate) fn new(input: R) -> Self {
        Self {
            input,
            member: None,
            ended: false,
        }
    }
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }
    /// The next member; `None` behind the last.
    fn next_member(&mut self) -> Result<Option<Member>> {
        let magic: [u8; 4] = self.bytes()?;
        if ENDS.contains(&magic.as_slice()) {
            return Ok(None);
        }
        if magic != MAGIC {
            return Err(damaged("no header where a member should begin"));
        }
        let header: [u8; 26] = self.bytes()?;
        let short = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
        let (flags, method) = (short(2), short(4));
        let (checksum, packed, unpacked) = (long(10), long(14), long(18));
        self.skip(u64::from(short(22)))?;
        let wide = self.wide_sizes(short(24), unpacked == IN_EXTRA)?;
        let (unpacked, packed) = match wide {
            Some(wide) => (choose(unpacked, wide.0), choose(packed, wide.1)),
            None => (u64::from(unpacked), u64::from(packed)),
        };
        let behind = flags & SIZES_BEHIND != 0;
        match (flags & ENCRYPTED != 0, method, behind) {
            (false, STORED, false) | (false, DEFLATED, _) => {}
            (true, ..) => return Err(damaged("a member is encrypted")),
            _ => {
                return Err(damaged(
                    "a member is packed in a way that is not read; use deflate",
                ));
            }
        }
        Ok(Some(Member {
            left: packed,
            inflate: (method == DEFLATED).then(|| Box::new(Decompress::new(false))),
            checksum: Crc::new(),
            expected: (!behind).then_some((checksum, unpacked)),
            wide: wide.is_some(),
        }))
    }
    /// Reads `len` bytes of extra fields: the unpacked and packed size, if they are 64-bit ones.
    fn wide_sizes(&mut self, len: u16, has_unpacked: bool) -> Result<Option<(u64, u64)>> {
        let mut left = len;
        let mut found = None;
        while left >= 4 {
            let head: [u8; 4] = self.bytes()?;
            let size = u16::from_le_bytes([head[2], head[3]]);
            left -= 4;
            if size > left {
                return Err(damaged(
                    "an extra field is longer than its member's header says",
                ));
            }
            left -= size;
            let mut rest = size;
            if u16::from_le_bytes([head[0], head[1]]) == ZIP64 {
                let mut next = |this: &mut Self, wanted: bool| -> Result<u64> {
                    if !wanted || rest < 8 {
                        return Ok(0);
                    }
                    rest -= 8;
                    Ok(u64::from_le_bytes(this.bytes()?))
                };
                let unpacked = next(self, has_unpacked)?;
                found = Some((unpacked, next(self, true)?));
            }
            self.skip(u64::from(rest))?;
        }
        self.skip(u64::from(left))?;
        Ok(found)
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        let skipped = std::io::copy(&mut (&mut self.input).take(bytes), &mut std::io::sink())?;
        match skipped == bytes {
            true => Ok(()),
            false => Err(ErrorKind::UnexpectedEof.into()),
        }
    }
    /// Verifies a member that was read whole.
    fn finish(&mut self, member: &Member) -> Result<()> {
        let (checksum, size) = match member.expected {
            Some(expected) => expected,
            None => self.sizes_behind(member.wide)?,
        };
        // A checksum object counts modulo 2³², and so do its sizes.
        match checksum == member.checksum.sum() && size as u32 == member.checksum.amount() {
            true => Ok(()),
            false => Err(damaged("a member's checksum or size does not hold")),
        }
    }
    /// The checksum and the unpacked size behind a member.
    fn sizes_behind(&mut self, wide: bool) -> Result<(u32, u64)> {
        let mut word: [u8; 4] = self.bytes()?;
        if word == DESCRIPTOR {
            word = self.bytes()?;
        }
        let checksum = u32::from_le_bytes(word);
        if wide {
            let sizes: [u8; 16] = self.bytes()?;
            let unpacked = sizes[8..].try_into().expect("eight bytes");
            return Ok((checksum, u64::from_le_bytes(unpacked)));
        }
        let sizes: [u8; 8] = self.bytes()?;
        let unpacked = sizes[4..].try_into().expect("four bytes");
        Ok((checksum, u64::from(u32::from_le_bytes(unpacked))))
    }
}

impl Member {
    /// Unpacks into `out`: the number of bytes, and whether the member has ended.
    fn unpack(&mut self, input: &mut impl BufRead, out: &mut [u8]) -> Result<(usize, bool)> {
        let Some(inflate) = &mut self.inflate else {
            let count = input.take(self.left).read(out)?;
            self.left -= count as u64;
            if count == 0 && self.left > 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.checksum.update(&out[..count]);
            return Ok((count, self.left == 0));
        };
        loop {
            let packed = input.fill_buf()?;
            let at_end = packed.is_empty();
            let (read, written) = (inflate.total_in(), inflate.total_out());
            let status = inflate.decompress(packed, out, FlushDecompress::None);
            let status = status.map_err(|error| damaged(&error.to_string()))?;
            let count = (inflate.total_out() - written) as usize;
            let consumed = (inflate.total_in() - read) as usize;
            input.consume(consumed);
            self.checksum.update(&out[..count]);
            if count > 0 || status == Status::StreamEnd {
                return Ok((count, status == Status::StreamEnd));
            }
            if at_end {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if consumed == 0 {
                return Err(damaged("a member's data does not go on"));
            }
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        while !self.ended && !out.is_empty() {
            let Some(mut member) = self.member.take() else {
                self.member = self.next_member()?;
                self.ended = self.member.is_none();
                continue;
            };
            let (count, complete) = member.unpack(&mut self.input, out)?;
            if complete {
                self.finish(&member)?;
            } else {
                self.member = Some(member);
            }
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flate2::{Compression, write::DeflateEncoder};
    use proptest::prelude::*;
    use std::io::Write;

    /// How a test's member stands in its archive.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Form {
        Stored,
        Deflated,
        SizesBehind,
        Wide,
    }

    const FORMS: [Form; 4] = [Form::Stored, Form::Deflated, Form::SizesBehind, Form::Wide];

    /// An archive of `members`.
    pub(crate) fn archive(members: &[(&[u8], Form)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (data, form) in members {
            append(&mut out, data, *form);
        }
        out.extend(b"PK\x01\x02 central directory");
        out
    }

    fn append(out: &mut Vec<u8>, data: &[u8], form: Form) {
        let packed = match form {
            Form::Stored => data.to_vec(),
            _ => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(data).expect("memory can be written");
                encoder.finish().expect("memory can be written")
            }
        };
        let mut crc = Crc::new();
        crc.update(data);
        let sizes = [crc.sum(), packed.len() as u32, data.len() as u32];
        let behind = form == Form::SizesBehind;
        let in_header = match form {
            Form::SizesBehind => [0; 3],
            Form::Wide => [sizes[0], u32::MAX, u32::MAX],
            _ => sizes,
        };
        out.extend(MAGIC);
        let method = if form == Form::Stored {
            STORED
        } else {
            DEFLATED
        };
        for short in [45, u16::from(behind) << 3, method, 0, 0] {
            out.extend(short.to_le_bytes());
        }
        in_header
            .iter()
            .for_each(|word| out.extend(word.to_le_bytes()));
        let extra: u16 = if form == Form::Wide { 5 + 20 } else { 0 };
        out.extend(5_u16.to_le_bytes());
        out.extend(extra.to_le_bytes());
        out.extend(b"chunk");
        if form == Form::Wide {
            out.extend([9, 9, 1, 0, 0]);
            out.extend([1, 0, 16, 0]);
            out.extend((data.len() as u64).to_le_bytes());
            out.extend((packed.len() as u64).to_le_bytes());
        }
        out.extend(packed);
        if behind {
            out.extend(DESCRIPTOR);
            sizes.iter().for_each(|word| out.extend(word.to_le_bytes()));
        }
    }

    fn unpacked(archive: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        Members::new(archive).read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn members_of_every_form_follow_each_other() {
        let data: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let members = FORMS.map(|form| (data.as_slice(), form));
        assert!(unpacked(&archive(&members)).unwrap() == data.repeat(4));
        assert_eq!(unpacked(&archive(&[(b"", Form::Stored)])).unwrap(), b"");
    }

    #[test]
    fn a_damaged_or_short_archive_is_an_error() {
        for form in FORMS {
            let whole = archive(&[(b"one two three one two three", form)]);
            let data_end = whole.len() - 30;
            for cut in 4..data_end {
                assert!(unpacked(&whole[..cut]).is_err(), "{form:?} cut at {cut}");
            }
        }
        let mut stored = archive(&[(b"one", Form::Stored)]);
        let at = stored.iter().position(|byte| *byte == b'o').unwrap();
        stored[at] = b'x';
        let error = unpacked(&stored).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            form in prop::sample::select(&FORMS[..]),
            at in 0_usize..100,
            soup in prop::collection::vec(any::<u8>(), 1..40),
        ) {
            let mut bytes = archive(&[(b"one two three", form), (b"four", form)]);
            let end = (at + soup.len()).min(bytes.len());
            let at = at.min(end);
            bytes[at..end].copy_from_slice(&soup[..end - at]);
            let _ = unpacked(&bytes);
        }
    }
}
