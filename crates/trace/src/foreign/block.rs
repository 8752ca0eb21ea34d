//! Block traces: requests to a disk with their times, for a device without a host.
//!
//! Two texts, plain or gzip, told apart by their first line:
//!
//! - **MSR Cambridge** (SNIA IOTTA 388; Narayanan et al., FAST 2008): without a header,
//!   `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`; the time in ticks of 100 ns
//!   since 1601, offset and size in bytes. The response time is of that disk and is not used.
//! - **Columns**: a header, comma- or tab-separated, with `time_ps`, `time_ns`, `time_us`,
//!   `time_ms` or `time_s`; `offset` or `address`, and `size`, in bytes; `op` (R, W, read, write).
//!   Other columns are not read.
//!
//! The file is read as it is consumed. Requests keep the order of the file: one that is stamped
//! earlier than its predecessor arrives with it, and [`BlockReader::late`] counts them.

use crate::error::TraceError;
use crate::foreign::ForeignError;
use crate::foreign::columns::{self, Picker, quoted};
use crate::foreign::lines::{self, Lines};
use std::io::BufRead;
use std::path::Path;
use units::{Bytes, Time};

/// Picoseconds of a Windows file time's tick.
const TICK: u64 = 100_000;

/// The fields of an MSR Cambridge line.
const MSR_FIELDS: [&str; 7] = [
    "timestamp",
    "hostname",
    "disknumber",
    "type",
    "offset",
    "size",
    "responsetime",
];

/// A request to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRequest {
    /// When it arrives; the first request of a trace arrives at [`Time::ZERO`].
    pub at: Time,
    /// Its first byte on the disk.
    pub offset: Bytes,
    /// Its length, at least 1 byte; `offset + size` fits in 64 bits.
    pub size: Bytes,
    /// Whether it writes.
    pub is_write: bool,
}

/// The requests of a block trace, in the order of the file. After an error it ends.
pub struct BlockReader {
    lines: Lines<Box<dyn BufRead + Send>>,
    layout: Layout,
    history: History,
    /// The current line is a request that was not yet handed out.
    pending: bool,
    ended: bool,
}

/// Opens the block trace at `path`.
///
/// # Errors
/// When it cannot be read, or its first line is neither of MSR Cambridge's form nor a header with
/// the columns needed.
pub fn block_requests(path: &Path) -> Result<BlockReader, TraceError> {
    let input = lines::open(path)?;
    Ok(BlockReader::new(input, &path.display().to_string())?)
}

impl BlockReader {
    /// The requests in `input`, uncompressed; errors call it `file`.
    ///
    /// # Errors
    /// As [`block_requests`].
    pub fn new(input: Box<dyn BufRead + Send>, file: &str) -> Result<Self, ForeignError> {
        let mut lines = Lines::new(input, file);
        if !lines.advance_to_content()? {
            return Err(lines.error("is missing: the trace is empty"));
        }
        let (layout, pending) = Layout::of(lines.line()).map_err(|problem| lines.error(problem))?;
        Ok(Self {
            lines,
            layout,
            history: History::default(),
            pending,
            ended: false,
        })
    }
    /// Requests so far that were stamped earlier than their predecessor and arrive with it.
    pub const fn late(&self) -> u64 {
        self.history.late
    }
    fn read(&mut self) -> Result<Option<BlockRequest>, ForeignError> {
        if !std::mem::take(&mut self.pending) && !self.lines.advance_to_content()? {
            return Ok(None);
        }
        let (layout, history) = (&self.layout, &mut self.history);
        let record = layout.columns.pick(self.lines.line());
        let request = record.and_then(|record| history.place(layout.unit, record));
        request
            .map(Some)
            .map_err(|problem| self.lines.error(problem))
    }
}

impl Iterator for BlockReader {
    type Item = Result<BlockRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let request = self.read();
        self.ended = !matches!(request, Ok(Some(_)));
        request.map_err(TraceError::from).transpose()
    }
}

/// The places of the fields in a line, and the unit of its time.
struct Layout {
    /// Time, offset, size, op, and of MSR Cambridge host and disk, which must not change.
    columns: Picker<6>,
    /// Of the time, in picoseconds.
    unit: u64,
}

impl Layout {
    const MSR: Self = Self {
        columns: Picker {
            separator: b',',
            fields: MSR_FIELDS.len(),
            places: [0, 4, 5, 3, 1, 2],
        },
        unit: TICK,
    };

    /// The layout that the first line tells, and whether that line is a request itself.
    fn of(first: &[u8]) -> Result<(Self, bool), String> {
        let separator = columns::separator(first);
        let found = columns::names(first, separator);
        if found == MSR_FIELDS {
            return Ok((Self::MSR, false));
        }
        if first.first().is_some_and(u8::is_ascii_digit) {
            return match Self::is_msr(first) {
                true => Ok((Self::MSR, true)),
                false => Err(format!(
                    "is neither a line of MSR Cambridge ({}) nor a header with time_ns, offset, \
                     size, op: {}",
                    MSR_FIELDS.join(","),
                    quoted(first)
                )),
            };
        }
        let (time, unit) = columns::find_time(&found)?;
        let find = |names: &[&str]| columns::find(&found, names);
        let (offset, size, op) = (
            find(&["offset", "address"])?,
            find(&["size"])?,
            find(&["op"])?,
        );
        let absent = Picker::<6>::ABSENT;
        let columns = Picker {
            separator,
            fields: found.len(),
            places: [time, offset, size, op, absent, absent],
        };
        Ok((Self { columns, unit }, false))
    }
    fn is_msr(line: &[u8]) -> bool {
        Self::MSR
            .columns
            .pick(line)
            .is_ok_and(|[time, _, _, op, ..]| {
                columns::decimal(time).is_some() && columns::is_write(op).is_some()
            })
    }
}

/// What the requests so far were: the place of the next one depends on it.
#[derive(Default)]
struct History {
    /// Absolute time of the first request, in picoseconds, with its host and disk.
    first: Option<(u128, [Vec<u8>; 2])>,
    last: Time,
    late: u64,
}

impl History {
    /// The request in `record`, after those so far.
    fn place(&mut self, unit: u64, record: [&[u8]; 6]) -> Result<BlockRequest, String> {
        let [time, offset, size, op, disk @ ..] = record;
        let number = |name: &str, field: &[u8]| {
            let problem = || format!("has no number of bytes as {name}: {}", quoted(field));
            columns::whole(field).ok_or_else(problem)
        };
        let (offset, size) = (number("offset", offset)?, number("size", size)?);
        if size == 0 {
            return Err("moves no byte".into());
        }
        if offset.checked_add(size).is_none() {
            return Err(format!(
                "ends beyond byte 2⁶⁴ (offset {offset}, size {size})"
            ));
        }
        let is_write = columns::is_write(op)
            .ok_or_else(|| format!("is neither a read nor a write: {}", quoted(op)))?;
        Ok(BlockRequest {
            at: self.arrive(unit, time, disk)?,
            offset: Bytes::new(offset),
            size: Bytes::new(size),
            is_write,
        })
    }
    /// When it arrives, of the same disk as those before and not before them.
    fn arrive(&mut self, unit: u64, time: &[u8], disk: [&[u8]; 2]) -> Result<Time, String> {
        let time = columns::picos(time, unit)
            .ok_or_else(|| format!("has no time in whole picoseconds: {}", quoted(time)))?;
        let first = || (time, disk.map(<[u8]>::to_vec));
        let (origin, first) = self.first.get_or_insert_with(first);
        if *first != disk {
            let name = |disk: [&[u8]; 2]| disk.map(String::from_utf8_lossy).join(" ");
            return Err(format!(
                "is of disk {}, but the first was of {}; keep one disk in a file",
                name(disk),
                name([&first[0], &first[1]]),
            ));
        }
        let since = u64::try_from(time.saturating_sub(*origin))
            .map_err(|_| "arrives more than 213 days after the first".to_string())?;
        let at = Time::from_picos(since);
        if at < self.last || time < *origin {
            self.late += 1;
        }
        self.last = self.last.max(at);
        Ok(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8]) -> Result<Vec<BlockRequest>, TraceError> {
        BlockReader::new(Box::new(std::io::Cursor::new(text.to_vec())), "t.csv")?.collect()
    }

    fn request(nanos: u64, offset: u64, size: u64, is_write: bool) -> BlockRequest {
        BlockRequest {
            at: Time::from_picos(nanos * 1_000),
            offset: Bytes::new(offset),
            size: Bytes::new(size),
            is_write,
        }
    }

    const MSR: &str = "128166372003061629,hm,0,Read,383496192,32768,1331\n\
                       128166372016853991,hm,0,Write,310378496,4096,1046\r\n";

    #[test]
    fn a_line_of_msr_cambridge_is_told_by_its_form() {
        // (128166372016853991 − 128166372003061629) × 100 ns = 1,379,236,200 ns.
        let expected = vec![
            request(0, 383_496_192, 32_768, false),
            request(1_379_236_200, 310_378_496, 4_096, true),
        ];
        assert_eq!(read(MSR.as_bytes()).unwrap(), expected);
        let headed = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{MSR}");
        assert_eq!(read(headed.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn columns_are_found_by_name_in_any_order() {
        let text =
            "op\tsize\tqueue\taddress\ttime_us\nW\t4096\t1\t0x1000\t7.5\nread\t64\t1\t64\t9\n";
        let expected = vec![request(0, 4096, 4096, true), request(1_500, 64, 64, false)];
        assert_eq!(read(text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_request_stamped_too_early_arrives_with_its_predecessor_and_is_counted() {
        let text = b"time_ns,offset,size,op\n5,0,1,R\n9,0,1,R\n7,0,1,R\n2,0,1,R\n10,0,1,R\n";
        let mut reader = BlockReader::new(Box::new(&text[..]), "t").unwrap();
        let at: Vec<_> = reader.by_ref().map(|r| r.unwrap().at.as_picos()).collect();
        assert_eq!(at, [0, 4_000, 4_000, 4_000, 5_000]);
        assert_eq!(reader.late(), 2);
    }

    #[test]
    fn errors_name_file_record_and_byte() {
        let check = |text: &str, said: &str| {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        };
        let head = "time_ns,offset,size,op\n";
        check("", "t.csv: record 1 at byte 0 is missing");
        check("time,offset,size,op\n", "without a unit");
        check(
            "time_ns,size,op\n",
            "no column offset or address; it has time_ns, size, op",
        );
        check("1,2,3\n", "is neither a line of MSR Cambridge");
        check(
            &format!("{head}1,2,3,R\n1,2,3\n"),
            "record 3 at byte 31 has 3 fields instead of 4",
        );
        check(
            &format!("{head}1,2,x,R\n"),
            "no number of bytes as size: \"x\"",
        );
        check(&format!("{head}1,2,0,R\n"), "moves no byte");
        check(&format!("{head}1,0xffffffffffffffff,1,R\n"), "ends beyond");
        check(&format!("{head}1,0,1,T\n"), "neither a read nor a write");
        check(
            &format!("{head}0.0001,0,1,R\n"),
            "no time in whole picoseconds",
        );
        check(
            &MSR.replace("hm,0,Write", "hm,1,Write"),
            "is of disk hm 1, but the first was of hm 0",
        );
    }

    #[test]
    fn after_an_error_the_trace_ends() {
        let text = b"time_ns,offset,size,op\n1,0,0,R\n1,0,1,R\n";
        let mut reader = BlockReader::new(Box::new(&text[..]), "t").unwrap();
        assert!(reader.next().unwrap().is_err() && reader.next().is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&text);
        }

        #[test]
        fn a_changed_trace_is_read_or_its_record_named(at in 0_usize..104, byte in any::<u8>()) {
            let mut text = MSR.as_bytes().to_vec();
            prop_assume!(at < text.len());
            text[at] = byte;
            if let Err(error) = read(&text) {
                let error = error.to_string();
                prop_assert!(error.starts_with("t.csv: record "), "{}", error);
            }
        }
    }
}
