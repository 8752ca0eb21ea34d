//! Captures of real programs: the `.etr` format, its reader and its writer.
//!
//! A capture holds, for each thread of a program, every instruction it executed in order, with
//! operands, addresses and branch outcomes, and the edges between threads. [`TraceFile`] opens
//! one, [`ThreadCursor`] walks a thread, [`TraceWriter`] makes synthetic ones. The recorder writes
//! through [`chunk`], [`dictionary`] and [`container`].
//!
//! Knows no machine code, no simulator and no time. Addresses leave this crate only as
//! [`CanonicalAddr`], so that no consumer depends on where a program's pages happened to be.
#![forbid(unsafe_code)]

pub mod assembler;
pub mod chunk;
pub mod container;
pub mod cursor;
pub mod dictionary;
pub mod dynamic;
pub mod error;
pub mod file;
pub mod foreign;
pub mod info;
pub mod inst;
pub mod misses;
pub mod provenance;
pub mod writer;

mod columns;

mod predictor;
mod tally;
mod template;
mod translate;
mod wire;

pub use assembler::{Assembler, Known};
pub use container::VirtualPage;
pub use cursor::ThreadCursor;
pub use dictionary::AccessKind;
pub use dynamic::{CanonicalAddr, DurationClass, DynInst, FutexId, MemAccess, SyncEvent, Wake};
pub use error::{Fault, TraceError};
pub use file::{Thread, TraceFile};
pub use foreign::ForeignError;
pub use info::{Info, TopBlock, counts, counts_unless, head, info, info_unless};
pub use inst::{CodeLine, Inst, InstId, OpClass, Reg};
pub use provenance::Provenance;
pub use writer::{Operand, StaticInst, TraceWriter};
