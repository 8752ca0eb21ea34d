//! Bytes of a foreign trace: buffered, decompressed on the way, each record numbered and placed.

use super::{ForeignError, zip};
use liblzma::stream::Stream;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// What an importer reads: a file, a directory of files, or bytes in memory.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    name: String,
    content: Content<'a>,
}

#[derive(Clone, Debug)]
enum Content<'a> {
    Path(PathBuf),
    Bytes(&'a [u8]),
}

/// Longest line of a text format, in bytes: bounds what a file without line ends can allocate.
const LONGEST_LINE: usize = 64 << 10;
/// Bytes read at a time.
const BUFFER: usize = 128 << 10;
/// Memory that unpacking xz may take: `xz -9` needs 65 MiB, a hostile header asks for 4 GiB.
const XZ_MEMORY: u64 = 512 << 20;

impl<'a> Source<'a> {
    /// The file or directory at `path`.
    pub fn path(path: &Path) -> Self {
        Self {
            name: path.display().to_string(),
            content: Content::Path(path.to_path_buf()),
        }
    }
    /// A file in memory; errors call it `name`.
    pub fn bytes(name: &str, bytes: &'a [u8]) -> Self {
        Self {
            name: name.to_string(),
            content: Content::Bytes(bytes),
        }
    }
    /// The name in errors.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The last part of the name, without a directory.
    pub fn file_name(&self) -> &str {
        let name = self.name.trim_end_matches('/');
        name.rsplit('/').next().unwrap_or(name)
    }
    /// The file behind this source, if it is a path.
    pub fn as_path(&self) -> Option<&Path> {
        match &self.content {
            Content::Path(path) => Some(path),
            Content::Bytes(_) => None,
        }
    }
    /// Whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.as_path().is_some_and(Path::is_dir)
    }
    /// The file called `name` in this directory.
    pub fn join(&self, name: &str) -> Source<'static> {
        let base = self.as_path().map_or_else(PathBuf::new, PathBuf::from);
        Source::path(&base.join(name))
    }
    /// The files of this directory in order of their names; this file itself if it is one.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn files(&self) -> Result<Vec<Source<'_>>, ForeignError> {
        let Some(path) = self.as_path().filter(|path| path.is_dir()) else {
            return Ok(vec![self.clone()]);
        };
        let refuse = |error: std::io::Error| self.fail(format!("cannot be read ({error})"));
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path).map_err(refuse)? {
            let file = entry.map_err(refuse)?.path();
            if file.is_file() {
                files.push(file);
            }
        }
        files.sort();
        Ok(files.iter().map(|file| Source::path(file)).collect())
    }
    /// Opens the file: what is packed by gzip, xz or zip is unpacked on the way, of
    /// an archive all members one after the other.
    ///
    /// # Errors
    /// When it cannot be opened or is a directory.
    pub fn open(&self) -> Result<Reader<'_>, ForeignError> {
        let raw: Box<dyn BufRead + '_> = match &self.content {
            Content::Bytes(bytes) => Box::new(*bytes),
            Content::Path(path) => {
                let refuse = |error: std::io::Error| self.fail(format!("cannot be read ({error})"));
                if path.is_dir() {
                    return Err(self.fail("is a directory; name a file of it".into()));
                }
                let file = File::open(path).map_err(refuse)?;
                Box::new(BufReader::with_capacity(BUFFER, file))
            }
        };
        self.unpack(raw)
    }
    fn unpack<'r>(&self, mut raw: Box<dyn BufRead + 'r>) -> Result<Reader<'r>, ForeignError> {
        let refuse = |error: std::io::Error| self.fail(format!("cannot be read ({error})"));
        let head = raw.fill_buf().map_err(refuse)?;
        let inner: Box<dyn Read + 'r> = if head.starts_with(&[0x1f, 0x8b]) {
            Box::new(flate2::bufread::MultiGzDecoder::new(raw))
        } else if head.starts_with(b"\xfd7zXZ\0") {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED);
            let stream = stream.map_err(|error| refuse(error.into()))?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(raw, stream))
        } else if head.starts_with(zip::MAGIC) {
            Box::new(zip::Members::new(raw))
        } else {
            raw
        };
        Ok(Reader::new(self.name.clone(), inner))
    }
    /// The first bytes of the unpacked file, at most `limit`; fewer if it is shorter or damaged.
    pub fn head(&self, limit: usize) -> Vec<u8> {
        let mut head = Vec::new();
        if let Ok(reader) = self.open() {
            let taken = reader.inner.take(limit as u64).read_to_end(&mut head);
            // What could be unpacked before the damage is enough to recognise by.
            drop(taken);
        }
        head
    }
    /// An error of the whole source.
    pub fn fail(&self, problem: String) -> ForeignError {
        ForeignError {
            file: self.name.clone(),
            record: 0,
            offset: 0,
            problem,
        }
    }
}

/// Reads a file record by record or line by line, keeping count of where it is.
pub struct Reader<'a> {
    name: String,
    inner: Box<dyn Read + 'a>,
    buffer: Box<[u8]>,
    /// What of the buffer is filled and not yet given out.
    filled: std::ops::Range<usize>,
    /// Offset of the byte at `filled.start`.
    offset: u64,
    /// Records begun, and where the last one began.
    records: u64,
    record_start: u64,
}

impl<'a> Reader<'a> {
    /// A reader of `inner`, which is already unpacked; errors call it `name`.
    pub fn new(name: String, inner: Box<dyn Read + 'a>) -> Self {
        Self {
            name,
            inner,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            filled: 0..0,
            offset: 0,
            records: 0,
            record_start: 0,
        }
    }
    /// The next record of `N` bytes; `None` at the end of the file.
    ///
    /// # Errors
    /// When the file ends inside the record or cannot be read on.
    #[inline]
    pub fn record<const N: usize>(&mut self) -> Result<Option<[u8; N]>, ForeignError> {
        self.begin();
        if self.filled.len() < N && !self.fill(N)? {
            return if self.filled.is_empty() {
                self.records -= 1;
                Ok(None)
            } else {
                let there = self.filled.len();
                Err(self.fail(format!("is cut short: {there} of {N} bytes are there")))
            };
        }
        let bytes = &self.buffer[self.filled.start..self.filled.start + N];
        let bytes = bytes.try_into().expect("the slice has N bytes");
        self.pass(N);
        Ok(Some(bytes))
    }
    /// The next line without its end, as text; `None` at the end of the file. Each line is a
    /// record.
    ///
    /// # Errors
    /// When the line is not UTF-8, is longer than 64 KiB, or the file cannot be read on.
    pub fn line(&mut self) -> Result<Option<&str>, ForeignError> {
        self.begin();
        let mut searched = 0;
        let len = loop {
            let window = &self.buffer[self.filled.clone()];
            if let Some(at) = window[searched..].iter().position(|byte| *byte == b'\n') {
                break searched + at;
            }
            searched = window.len();
            if searched > LONGEST_LINE {
                return Err(self.fail("is a line of more than 64 KiB".into()));
            }
            if !self.fill(searched + 1)? {
                break searched;
            }
        };
        if len == 0 && self.filled.is_empty() {
            self.records -= 1;
            return Ok(None);
        }
        let start = self.filled.start;
        self.pass((len + 1).min(self.filled.len()));
        match core::str::from_utf8(&self.buffer[start..start + len]) {
            Ok(line) => Ok(Some(line.strip_suffix('\r').unwrap_or(line))),
            Err(_) => Err(error_at(
                &self.name,
                self.records,
                self.record_start,
                "is not text (UTF-8)".into(),
            )),
        }
    }
    /// An error of the record that was read last.
    #[cold]
    pub fn fail(&self, problem: String) -> ForeignError {
        error_at(&self.name, self.records, self.record_start, problem)
    }
    /// An error of the record that should follow the last one.
    #[cold]
    pub fn fail_behind(&self, problem: String) -> ForeignError {
        error_at(&self.name, self.records + 1, self.offset, problem)
    }
    /// Records read.
    pub fn records(&self) -> u64 {
        self.records
    }

    #[inline]
    fn begin(&mut self) {
        self.records += 1;
        self.record_start = self.offset;
    }
    #[inline]
    fn pass(&mut self, bytes: usize) {
        self.filled.start += bytes;
        self.offset += bytes as u64;
    }
    /// Reads on until `need` bytes are there; false if the file ends before.
    #[cold]
    fn fill(&mut self, need: usize) -> Result<bool, ForeignError> {
        self.buffer.copy_within(self.filled.clone(), 0);
        self.filled = 0..self.filled.len();
        while self.filled.len() < need {
            match self.inner.read(&mut self.buffer[self.filled.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.filled.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(format!("cannot be read ({error})"))),
            }
        }
        Ok(true)
    }
}

fn error_at(file: &str, record: u64, offset: u64, problem: String) -> ForeignError {
    ForeignError {
        file: file.to_string(),
        record,
        offset,
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).expect("memory can be written");
        out.finish().expect("memory can be written")
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
        out.write_all(bytes).expect("memory can be written");
        out.finish().expect("memory can be written")
    }

    #[test]
    fn records_are_the_same_plain_and_packed_and_across_the_buffer() {
        let plain: Vec<u8> = (0..400_000_u32).flat_map(u32::to_le_bytes).collect();
        for bytes in [plain.clone(), gz(&plain), xz(&plain)] {
            let source = Source::bytes("x", &bytes);
            let mut reader = source.open().unwrap();
            for n in 0..200_000_u32 {
                let record: [u8; 8] = reader.record().unwrap().expect("every record is there");
                assert_eq!(record[..4], (2 * n).to_le_bytes());
            }
            assert!(reader.record::<8>().unwrap().is_none());
        }
    }

    #[test]
    fn a_record_cut_short_is_named_with_its_place() {
        let source = Source::bytes("x.raw", &[7; 25]);
        let mut reader = source.open().unwrap();
        assert!(reader.record::<10>().unwrap().is_some());
        assert!(reader.record::<10>().unwrap().is_some());
        let sentence = reader.record::<10>().unwrap_err().to_string();
        assert_eq!(
            sentence,
            "x.raw: record 3 at byte 20 is cut short: 5 of 10 bytes are there"
        );
    }

    #[test]
    fn a_damaged_gzip_file_is_an_error_that_names_the_record() {
        let mut bytes = gz(&vec![1; 100_000]);
        let end = bytes.len() - 6;
        bytes[end] ^= 0xff;
        let source = Source::bytes("x.gz", &bytes);
        let mut reader = source.open().unwrap();
        let error = loop {
            match reader.record::<10>() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the checksum does not hold"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("x.gz: record "), "{error}");
    }

    #[test]
    fn an_xz_file_that_wants_more_memory_than_any_is_refused() {
        // Behind 12 bytes of stream header: size, flags, filter LZMA2, one byte of properties, and
        // the dictionary's size; 40 is the largest, 4 GiB (xz file format 1.2, 3.1, 5.3.1).
        let mut small = xz(&[1; 100]);
        assert_eq!(small[12..16], [2, 0, 0x21, 1]);
        small[16] = 40;
        let mut crc = flate2::Crc::new();
        crc.update(&small[12..20]);
        small[20..24].copy_from_slice(&crc.sum().to_le_bytes());
        let error = Source::bytes("x.xz", &small).open().unwrap().record::<10>();
        let error = error.unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }

    #[test]
    fn lines_end_at_either_line_end_and_at_the_end_of_the_file() {
        let source = Source::bytes("x.txt", b"one\r\n\nthree");
        let mut reader = source.open().unwrap();
        assert_eq!(reader.line().unwrap(), Some("one"));
        assert_eq!(reader.line().unwrap(), Some(""));
        assert_eq!(reader.line().unwrap(), Some("three"));
        assert_eq!(reader.line().unwrap(), None);
        assert_eq!(reader.records(), 3);
    }

    #[test]
    fn a_line_without_end_and_a_line_that_is_no_text_are_errors() {
        let long = vec![b'x'; 200_000];
        let source = Source::bytes("x.txt", &long);
        let error = source.open().unwrap().line().unwrap_err().to_string();
        assert_eq!(
            error,
            "x.txt: record 1 at byte 0 is a line of more than 64 KiB"
        );
        let source = Source::bytes("x.txt", b"a\n\xff\n");
        let mut reader = source.open().unwrap();
        reader.line().unwrap();
        let error = reader.line().unwrap_err().to_string();
        assert_eq!(error, "x.txt: record 2 at byte 2 is not text (UTF-8)");
    }
}
