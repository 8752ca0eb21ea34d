//! Traces of other tools: what they hold, read record by record, with errors that say where.

use crate::error::{Fault, TraceError};

pub mod block;

mod columns;
mod lines;

/// A record of a foreign trace that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignError {
    /// The file as the user named it.
    pub file: String,
    /// The record's number, from 1; of a text, its line.
    pub record: u64,
    /// Where the record begins in the uncompressed stream, in bytes.
    pub offset: u64,
    /// What is wrong with it, as the end of a sentence that begins with the record.
    pub problem: String,
}

impl From<ForeignError> for TraceError {
    fn from(error: ForeignError) -> Self {
        let fault = Fault::Record {
            record: error.record,
            offset: error.offset,
            problem: error.problem,
        };
        fault.of(&error.file)
    }
}
