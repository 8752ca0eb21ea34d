//! Bytes: variable-length integers, bounded reading, compressed and checksummed sections.

use crate::error::Fault;

/// Appends `value` in LEB128: seven bits a byte, lowest first.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Folds the sign into the lowest bit, so that small differences are small numbers.
#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads a varint of `bytes` at `*at` and moves on; `None` at the end or when it is too long.
#[inline]
pub(crate) fn take_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    take_long_varint(bytes, at, u64::from(first & 0x7f))
}

fn take_long_varint(bytes: &[u8], at: &mut usize, low: u64) -> Option<u64> {
    let mut value = low;
    for shift in (7..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A reader over the raw bytes of one part of the file, which names that part in its errors.
pub(crate) struct Wire<'a> {
    bytes: &'a [u8],
    at: usize,
    part: &'static str,
    base: u64,
}

impl<'a> Wire<'a> {
    /// Reads `bytes`, the contents of `part` which begins at byte `base` of the file.
    pub(crate) fn new(bytes: &'a [u8], part: &'static str, base: u64) -> Self {
        Self {
            bytes,
            at: 0,
            part,
            base,
        }
    }
    /// The error to give when the contents make no sense.
    pub(crate) fn damaged(&self) -> Fault {
        Fault::Damaged {
            part: self.part,
            at: self.base,
        }
    }
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| self.damaged())?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }
    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(
            bytes.try_into().expect("four bytes were taken"),
        ))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, Fault> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(
            bytes.try_into().expect("eight bytes were taken"),
        ))
    }
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
        take_varint(self.bytes, &mut self.at).ok_or_else(|| self.damaged())
    }
    /// A varint that must fit in `T`.
    pub(crate) fn int<T: TryFrom<u64>>(&mut self) -> Result<T, Fault> {
        T::try_from(self.varint()?).map_err(|_| self.damaged())
    }
    /// A count of things of at least one byte each: bounded by what is left, so that a damaged
    /// count cannot ask for unbounded memory.
    pub(crate) fn count(&mut self) -> Result<usize, Fault> {
        self.count_of(1)
    }
    /// The same of things of at least `bytes` each.
    pub(crate) fn count_of(&mut self, bytes: usize) -> Result<usize, Fault> {
        let count: usize = self.int()?;
        if count > (self.bytes.len() - self.at) / bytes {
            Err(self.damaged())
        } else {
            Ok(count)
        }
    }
    pub(crate) fn text(&mut self) -> Result<String, Fault> {
        let len = self.count()?;
        let bytes = self.take(len)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| self.damaged())
    }
    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }
    /// Checks that everything was read.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.damaged())
        }
    }
}

/// Largest section after decompression: a dictionary of some ten million instructions.
const MAX_RAW: u32 = 256 << 20;

/// Appends a section: tag, raw and packed length, checksum of all that and of the packed bytes.
pub(crate) fn put_section(out: &mut Vec<u8>, tag: [u8; 4], raw: &[u8]) {
    let packed = zstd::bulk::compress(raw, 9).expect("compression to memory does not fail");
    let start = out.len();
    out.extend(tag);
    out.extend(
        u32::try_from(raw.len())
            .expect("a section is below 4 GiB")
            .to_le_bytes(),
    );
    out.extend(
        u32::try_from(packed.len())
            .expect("a section is below 4 GiB")
            .to_le_bytes(),
    );
    let crc = checksum::crc32c_append(checksum::crc32c(&out[start..]), &packed);
    out.extend(crc.to_le_bytes());
    out.extend(packed);
}

/// The raw contents of the section that `wire` stands at, which must carry `tag`.
pub(crate) fn take_section(wire: &mut Wire<'_>, tag: [u8; 4]) -> Result<Vec<u8>, Fault> {
    let head = wire.take(12)?;
    let mut fields = Wire::new(&head[4..], wire.part, wire.base);
    let (raw, packed, crc) = (fields.u32()?, fields.u32()?, wire.u32()?);
    let packed = wire.take(packed as usize)?;
    let sum = checksum::crc32c_append(checksum::crc32c(head), packed);
    if head[..4] != tag || raw > MAX_RAW || crc != sum {
        return Err(wire.damaged());
    }
    let bytes = zstd::bulk::decompress(packed, raw as usize).map_err(|_| wire.damaged())?;
    if bytes.len() == raw as usize {
        Ok(bytes)
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
        fn numbers_are_read_back(values in prop::collection::vec(any::<i64>(), 0..50)) {
            let mut bytes = Vec::new();
            for value in &values {
                put_varint(&mut bytes, zigzag(*value));
            }
            let mut at = 0;
            for value in &values {
                prop_assert_eq!(take_varint(&bytes, &mut at).map(unzigzag), Some(*value));
            }
            prop_assert_eq!(at, bytes.len());
            prop_assert_eq!(take_varint(&bytes, &mut at), None);
        }
    }

    #[test]
    fn a_number_that_never_ends_is_refused() {
        assert_eq!(take_varint(&[0xff; 12], &mut 0), None);
    }

    #[test]
    fn a_section_is_read_back_and_a_flipped_bit_is_found() {
        let mut bytes = Vec::new();
        put_section(&mut bytes, *b"TEST", b"contents, contents, contents");
        let read = |bytes: &[u8]| take_section(&mut Wire::new(bytes, "test", 0), *b"TEST");
        assert_eq!(read(&bytes).unwrap(), b"contents, contents, contents");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged).is_err(), "bit {bit}");
        }
    }
}
