//! A text read line by line with the place of each line, in memory that its longest line bounds.

use crate::error::{Fault, TraceError};
use crate::foreign::ForeignError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes that a line may have. Those of every format here have less than 200; a binary file opened
/// as a text must not fill the memory.
const LONGEST: usize = 4096;

/// What a gzip file begins with (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bytes read from the file at a time.
const BUFFER: usize = 1 << 17;

/// Opens the file at `path`, looking through gzip.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, TraceError> {
    let failed = |error: std::io::Error| Fault::from(error).of(&path.display().to_string());
    let file = File::open(path).map_err(failed)?;
    let mut plain = BufReader::with_capacity(BUFFER, file);
    if plain.fill_buf().map_err(failed)?.starts_with(&GZIP) {
        let inflated = MultiGzDecoder::new(plain);
        return Ok(Box::new(BufReader::with_capacity(BUFFER, inflated)));
    }
    Ok(Box::new(plain))
}

/// The lines of a text, one at a time.
pub(crate) struct Lines<R> {
    input: R,
    /// The file as errors name it.
    file: String,
    line: Vec<u8>,
    /// Number of the line in `line`, from 1.
    record: u64,
    /// Where the line in `line` begins.
    offset: u64,
    /// Where the next one begins.
    next: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`; errors call it `file`.
    pub(crate) fn new(input: R, file: &str) -> Self {
        Self {
            input,
            file: file.to_string(),
            line: Vec::new(),
            record: 0,
            offset: 0,
            next: 0,
        }
    }
    /// Moves to the next line; `false` at the end.
    ///
    /// # Errors
    /// When the input cannot be read or decompressed, or the line is longer than any record.
    pub(crate) fn advance(&mut self) -> Result<bool, ForeignError> {
        self.line.clear();
        self.record += 1;
        self.offset = self.next;
        let input = &mut self.input;
        let mut bounded = input.take(LONGEST as u64 + 1);
        match bounded.read_until(b'\n', &mut self.line) {
            Ok(bytes) => self.next += bytes as u64,
            Err(error) => return Err(self.error(format!("cannot be read ({error})"))),
        }
        if self.line.len() > LONGEST {
            return Err(self.error(format!("is longer than {LONGEST} bytes: not a text trace")));
        }
        if self.record == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
            self.line.drain(..3);
        }
        Ok(self.next > self.offset)
    }
    /// Moves to the next line that is neither blank nor begins with `#`; `false` at the end.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub(crate) fn advance_to_content(&mut self) -> Result<bool, ForeignError> {
        while self.advance()? {
            if !matches!(self.line().first(), None | Some(b'#')) {
                return Ok(true);
            }
        }
        Ok(false)
    }
    /// The line, without white space around it.
    pub(crate) fn line(&self) -> &[u8] {
        self.line.trim_ascii()
    }
    /// An error about the line.
    pub(crate) fn error(&self, problem: impl Into<String>) -> ForeignError {
        ForeignError {
            file: self.file.clone(),
            record: self.record,
            offset: self.offset,
            problem: problem.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_their_number_and_first_byte() {
        let mut lines = Lines::new(&b"\xef\xbb\xbfone\r\n\n# note\n  two"[..], "a");
        assert!(lines.advance().unwrap());
        assert_eq!(lines.line(), b"one");
        assert!(lines.advance_to_content().unwrap());
        assert_eq!(lines.line(), b"two");
        let error = lines.error("is bad");
        // 3 + 5 + 1 + 7 bytes stand before the fourth line.
        assert_eq!((error.record, error.offset), (4, 16));
        assert!(!lines.advance().unwrap());
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let mut lines = Lines::new(std::io::repeat(0_u8).chain(&b""[..]).buffered(), "a");
        let error = lines.advance().unwrap_err();
        assert!(error.problem.contains("4096"), "{error:?}");
    }

    trait Buffered: Read + Sized {
        fn buffered(self) -> BufReader<Self> {
            BufReader::new(self)
        }
    }
    impl<R: Read> Buffered for R {}
}
