//! Recordings as text: a line of JSON that says what it is, and one for each operation.

use super::op::{Entry, Op, sums};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The number of the format.
const VERSION: u32 = 1;

/// What a program did, over what was there before.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Recording {
    /// Operations that make what was there before.
    pub before: Vec<Entry>,
    /// What the program asked for, in the order in which that began.
    pub entries: Vec<Entry>,
}

/// Why a text is no recording. One sentence: what, where.
#[derive(Debug, Error)]
#[error("line {line}: {problem}")]
pub struct RecordingError {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    entresol_recording: u32,
    before: usize,
    operations: usize,
}

impl Recording {
    /// As text.
    pub fn text(&self) -> String {
        let header = Header {
            entresol_recording: VERSION,
            before: self.before.len(),
            operations: self.entries.len(),
        };
        let mut text = json(&header);
        for entry in self.before.iter().chain(&self.entries) {
            text.push('\n');
            text.push_str(&json(entry));
        }
        text.push('\n');
        text
    }

    /// Of text.
    ///
    /// # Errors
    /// It is no recording, one of another version, cut short, or says what cannot be.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let wrong = |line: usize, problem: String| RecordingError { line, problem };
        let mut lines = (1..).zip(text.lines());
        let first = lines.next().map_or("", |(_, line)| line);
        let header: Header = serde_json::from_str(first)
            .map_err(|_| wrong(1, "it is no recording; `fs record` makes one".to_owned()))?;
        if header.entresol_recording != VERSION {
            let version = header.entresol_recording;
            let problem = format!("a recording of format {version}; this program reads {VERSION}");
            return Err(wrong(1, problem));
        }
        let mut all = Vec::new();
        let mut threads = 0;
        for (number, line) in lines {
            let entry: Entry = serde_json::from_str(line)
                .map_err(|error| wrong(number, format!("it is no operation: {error}")))?;
            check(&entry).map_err(|problem| wrong(number, problem))?;
            threads = threads.max(entry.thread);
            all.push(entry);
        }
        let wanted = header.before.saturating_add(header.operations);
        if all.len() != wanted {
            let found = all.len();
            let problem = format!("{found} operations follow, and {wanted} should; record it anew");
            return Err(wrong(1, problem));
        }
        if threads > MOST_THREADS {
            let problem =
                format!("a thread is numbered {threads}; there are {MOST_THREADS} at most");
            return Err(wrong(1, problem));
        }
        let entries = all.split_off(header.before);
        Ok(Self {
            before: all,
            entries,
        })
    }

    /// Threads of the program.
    pub fn threads(&self) -> u32 {
        let numbers = self.entries.iter().map(|entry| entry.thread + 1);
        numbers.max().unwrap_or(0)
    }
}

/// Threads that a recording may have.
const MOST_THREADS: u32 = 1 << 16;
/// Bytes that one request of the kernel moves, and more than any does.
const MOST_BYTES: usize = 1 << 26;

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("an operation is JSON")
}

fn check(entry: &Entry) -> Result<(), String> {
    match &entry.op {
        Op::Write {
            at, size, sums: of, ..
        } => {
            if *size > MOST_BYTES || at.checked_add(*size as u64).is_none() {
                return Err(format!("a write of {size} B at {at} is none"));
            }
            let lines = match size {
                0 => 0,
                _ => (at + *size as u64).div_ceil(64) - at / 64,
            };
            match sums(of) {
                Some(sums) if sums.len() as u64 == lines => Ok(()),
                _ => Err(format!(
                    "a write over {lines} lines has {} digits",
                    of.len()
                )),
            }
        }
        Op::Read { size, .. } | Op::SetXattr { size, .. } if *size > MOST_BYTES => {
            Err(format!("a request of {size} B is none"))
        }
        Op::Readdir { most, .. } if *most > MOST_BYTES => Err(format!("{most} names are too many")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Recording {
        let entry = |op, found| Entry {
            thread: 0,
            begin_ns: 5,
            end_ns: 9,
            op,
            found,
            error: None,
        };
        let write = Op::Write {
            ino: 7,
            at: 60,
            size: 8,
            direct: false,
            sync: true,
            sums: "0000000100000002".to_owned(),
        };
        let lookup = Op::Lookup {
            parent: 1,
            name: "a \"name\"".to_owned(),
        };
        Recording {
            before: vec![entry(lookup, Some(7))],
            entries: vec![entry(write, None), entry(Op::Sync {}, None)],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let recording = sample();
        assert_eq!(Recording::parse(&recording.text()).unwrap(), recording);
        assert_eq!(recording.threads(), 1);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let text = sample().text();
        for (changed, part) in [
            (String::new(), "line 1: it is no recording"),
            (
                text.replace("recording\":1", "recording\":2"),
                "of format 2",
            ),
            (
                text.replace("\"sync\":true", "\"colour\":1"),
                "line 3: it is no operation",
            ),
            (
                text.replace("00000002", ""),
                "line 3: a write over 2 lines has 8 digits",
            ),
            (
                text.replace("\"size\":8", "\"size\":99999999999"),
                "line 3: a write of",
            ),
            (
                text.lines().take(3).collect::<Vec<_>>().join("\n"),
                "2 operations follow, and 3",
            ),
            (
                text.replace("\"thread\":0", "\"thread\":4294967295"),
                "a thread is numbered",
            ),
        ] {
            let error = Recording::parse(&changed).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
