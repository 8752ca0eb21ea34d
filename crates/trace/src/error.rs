//! What can be wrong with a capture file, each in one sentence.

/// A capture that cannot be used: which file, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The file as the user named it.
    pub file: String,
    /// What is wrong with it.
    pub fault: Fault,
}

impl core::fmt::Display for TraceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.file, self.fault)
    }
}

impl core::error::Error for TraceError {}

/// What is wrong with a capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The operating system refused.
    #[error("cannot be read or written ({0})")]
    Io(String),
    /// The file does not begin like a capture.
    #[error(
        "is not a capture; record one with `entresol trace record` or make one with `entresol trace import`"
    )]
    Foreign,
    /// The file is of another version of the format.
    #[error(
        "has format version {found}, but this program reads version {supported}; record it again"
    )]
    Version {
        /// Version in the file.
        found: u32,
        /// Version this crate reads.
        supported: u32,
    },
    /// The file has no end.
    #[error("is incomplete ({bytes} bytes, no end mark); copy it again or record it again")]
    Truncated {
        /// Bytes that are there.
        bytes: u64,
    },
    /// A checksum or an inner rule does not hold.
    #[error("is damaged in its {part} at byte {at}; copy it again or record it again")]
    Damaged {
        /// The part of the file.
        part: &'static str,
        /// Where that part begins.
        at: u64,
    },
    /// A chunk has other counts than its columns.
    #[error(
        "says at byte {at} that there are {said} {what} where its columns have {found}; \
         record it again"
    )]
    Count {
        /// What is counted.
        what: &'static str,
        /// What the head of the chunk says.
        said: u64,
        /// What the columns have.
        found: u64,
        /// Where the chunk begins.
        at: u64,
    },
    /// Whoever asked wanted no answer any more.
    #[error("was not read to its end, for that was interrupted; ask again")]
    Interrupted,
    /// A record of another tool's trace cannot be used.
    #[error("record {record} at byte {offset} {problem}")]
    Record {
        /// Its number, from 1; of a text, its line.
        record: u64,
        /// Where it begins in the uncompressed stream.
        offset: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The file as a whole cannot serve.
    #[error("{0}")]
    Unusable(String),
    /// The capture has no such thread.
    #[error("has {threads} threads, so there is no thread {asked}")]
    NoThread {
        /// Threads it has.
        threads: usize,
        /// The thread asked for.
        asked: usize,
    },
}

impl Fault {
    /// The fault as an error of `file`.
    pub fn of(self, file: &str) -> TraceError {
        TraceError {
            file: file.to_string(),
            fault: self,
        }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}
